//! `weft`: the command for running, asking, explaining and checking a Weft array.

#![forbid(unsafe_code)]

#[cfg(test)]
mod advice;
mod args;
mod attach;
mod bench;
mod boxes;
mod check;
mod choices;
mod cluster;
mod complete;
mod config;
mod confirm;
mod demo;
mod disk;
mod doors;
mod explain;
mod explore;
mod host;
mod leaving;
mod logging;
mod lost;
mod node;
mod notify;
mod output;
mod page;
mod paper;
mod plan;
mod probe;
mod processes;
mod real;
mod rebalance;
mod recover;
mod replace;
mod scrub;
mod serving;
mod shell;
mod sim;
mod status;
mod token;
mod trace;
mod transfer;
mod up;
mod user;
mod volume;
mod what_if;

use std::io;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use weft_core::store::FORMAT_VERSION;
use weft_host::{MESSAGES_VERSION, PROTOCOL_VERSION};
use weft_terminal::lines;

/// A parallel RAID without a central controller: each node has one disk and plans its own part.
#[derive(Debug, Parser)]
#[command(name = "weft", version, long_version = versions(), about, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// The version, and what decides which versions go together (docs/use/upgrades.md).
fn versions() -> &'static str {
    let oldest =
        weft_core::store::VERSIONS.iter().map(|v| v.number).min().unwrap_or(FORMAT_VERSION);
    let text = format!(
        "{}\nprotocol {PROTOCOL_VERSION}, messages {MESSAGES_VERSION}, disks {FORMAT_VERSION} (opens {oldest} and later), native {}",
        env!("CARGO_PKG_VERSION"),
        weft_front::native::wire::VERSION,
    );
    text.leak()
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run an array, creating it if necessary; serves NBD until stopped
    Up(up::Up),
    /// Rebuild weft.toml from the copies on the disks
    Recover(recover::Recover),
    /// Show the state of a running array
    Status(status::Status),
    /// Found a cluster, admit and replace processes, change settings, and rebalance disks
    #[command(subcommand)]
    Cluster(cluster::Cluster),
    /// Run a process of a cluster with one node per disk; list, stop, kill, start or remove nodes
    Node(node::Node),
    /// List, create and delete the hosts that the cluster knows, certify them, and close their connections
    #[command(subcommand)]
    Host(host::Host),
    /// Add, list, change or remove users of the status page of a process
    #[command(subcommand)]
    User(user::User),
    /// Check the configuration of a process of a cluster
    #[command(subcommand)]
    Config(config::Config),
    /// Serve volumes of a cluster on this machine, as its own controller
    Attach(attach::Attach),
    /// List, add, replace or drain disks of a running array, or declare one lost
    #[command(subcommand)]
    Disk(disk::Disk),
    /// Create, list, show, change, delete and undelete volumes of a running array
    #[command(subcommand)]
    Volume(volume::Volume),
    /// Explain what volumes can choose: keys and values for --set and `weft volume set`
    Choices(choices::Explained),
    /// Keep a copy of a volume in another array up to date, by sending the changes between snapshots
    Mirror(transfer::Mirror),
    /// Read and verify every stripe of a volume
    Scrub(scrub::Scrub),
    /// Show each column's steps for a read or write, and the cost
    #[command(subcommand)]
    Explain(explain::Explain),
    /// Run the simulation check over a range of seeds
    Check(check::Check),
    /// Watch an array lose a node during a write and recover, with every byte verified
    Demo(demo::Demo),
    /// Measure a fixed set of workloads, healthy and degraded
    Bench(bench::Bench),
    /// Measure this machine, as parameters for the simulator
    Probe(probe::Probe),
    /// Repeat a paper's evaluation in simulation, and compare the results
    #[command(subcommand)]
    Paper(paper::Paper),
    /// Compare designs of an array by cost and risk
    Plan(plan::Plan),
    /// Describe a block trace, or convert it to another format
    #[command(subcommand)]
    Trace(trace::Trace),
    /// Simulate an array and its workload, and measure it
    Sim(sim::Sim),
    /// Print a shell's completion script
    Completions(shell::Completions),
    /// Print completions of a command line's last word, for the scripts of `weft completions`
    #[command(hide = true)]
    Complete(complete::Complete),
    /// Write manual pages
    Man(shell::Man),
}

impl Command {
    fn run(&self) -> Result<ExitCode> {
        match self {
            Command::Up(up) => up.run(),
            Command::Recover(recover) => recover.run(),
            Command::Status(status) => status.run(),
            Command::Cluster(cluster) => cluster.run(),
            Command::Node(node) => node.run(),
            Command::Host(host) => host.run(),
            Command::User(user) => user.run().map(|()| ExitCode::SUCCESS),
            Command::Config(config) => config.run(),
            Command::Attach(attach) => attach.run(),
            Command::Disk(disk) => disk.run(),
            Command::Volume(volume) => volume.run(),
            Command::Choices(choices) => choices.run().map(|()| ExitCode::SUCCESS),
            Command::Mirror(mirror) => mirror.run(),
            Command::Scrub(scrub) => scrub.run(),
            Command::Explain(explain) => explain.run(),
            Command::Check(check) => check.run(),
            Command::Demo(demo) => demo.run(),
            Command::Bench(bench) => bench.run(),
            Command::Probe(probe) => probe.run(),
            Command::Paper(paper) => paper.run(),
            Command::Plan(plan) => plan.run(),
            Command::Trace(trace) => trace.run(),
            Command::Sim(sim) => sim.run(),
            Command::Completions(completions) => completions.run::<Cli>(),
            Command::Complete(complete) => complete.run::<Cli>(),
            Command::Man(man) => man.run::<Cli>(),
        }
    }
}

/// A write makes a dozen short-lived buffers; this allocator halves what they cost.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let ran = Cli::parse().command.run();
    logging::finish();
    match ran {
        Ok(code) => code,
        // Nobody listens any more (`weft ... | head`): nothing to say, but not a success.
        Err(e) if is_broken_pipe(&e) => ExitCode::FAILURE,
        Err(e) => {
            eprintln!("weft: {}", lines(&format!("{e:#}")));
            ExitCode::FAILURE
        }
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_arguments_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_version_says_what_goes_together() {
        let said = Cli::command().render_long_version();
        for number in ["protocol ", "messages ", "disks ", "native "] {
            let number = said.split(number).nth(1).expect(number);
            assert!(number.starts_with(|c: char| c.is_ascii_digit()), "{said}");
        }
    }

    /// The help that a command line prints.
    fn help(line: &str) -> String {
        let words = std::iter::once("weft").chain(line.split_whitespace());
        Cli::try_parse_from(words).unwrap_err().to_string()
    }

    #[test]
    fn the_help_shows_what_people_use() {
        let create = help("volume create --help");
        assert!(create.lines().count() <= 25, "{create}");
        assert!(create.contains("--set <KEY=VALUE>") && !create.contains("--ordering"), "{create}");
        let up = help("up -h");
        assert!(up.lines().count() <= 40, "{up}");
        assert!(help("up --help").contains("--disk-timeout"));
        assert!(help("help choices").contains("redundancy: "));
    }

    #[test]
    fn every_command_reads_its_options() {
        for line in [
            "up --dir d --nodes 6 --disk-size 2G --volume a:1G --volume b:all --layout raid6 \
             --stripe-unit 128K --journal off --listen x.sock --listen 0.0.0.0:10809",
            "status --dir d --json --watch",
            "status --check --json",
            "config check n.toml --json",
            "node --config n.toml --log json --log-level warning",
            "up --log journald --slow-requests never",
            "up --metrics 127.0.0.1:9810",
            "up --page 127.0.0.1:10800",
            "attach v --page 10.0.0.1:443 --page-certificate c.pem --page-key k.pem",
            "user add ann --role act --file f --dir d",
            "user password ann",
            "user role ann read",
            "user remove ann",
            "user list --json",
            "choices",
            "choices redundancy",
            "volume create v 1G --set redundancy=deferred --set lost-wait=5m",
            "up --set ordering=sequencer",
            "completions bash",
            "complete -- volume set --dir d v commit=",
            "man d",
            "recover --dir d --dry-run --json",
            "recover --accept-older",
            "recover --config n.toml --found",
            "node kill 2 --dir d",
            "node kill box2",
            "node start box2 --json",
            "up --metrics localhost:9810",
            "up --page localhost:10800",
            "node stop box2 --now --dir d",
            "node drain box2 --cancel --json",
            "node fail box2 --yes --accept-loss v --accept-loss w",
            "disk fail 2 --accept-loss v",
            "disk replace 2 --path d --size 1G --accept-loss v",
            "cluster replace box2 --at 127.0.0.1:1 --config n.toml --token-file - --force --accept-loss v --json",
            "disk fail 2 --dir d --yes",
            "volume delete v --yes --now",
            "volume undelete v --json",
            "volume rename v w",
            "disk list --json",
            "volume create v 1GiB --layout rs:4+2 --stripe-unit 4K --journal on --json",
            "volume show v --dir d --json",
            "volume create v all --ordering sequencer --sequencer worker-driven --commit limited",
            "volume set v ordering=device-locks commit=late dispatch=commanded --force --json",
            "up --listen native:127.0.0.1:10812 --listen native:x.sock",
            "scrub v --json",
            "scrub v --rate 50M --from 12",
            "scrub v --rate max",
            "volume resize v 512M --force --json",
            "cluster rebalance --dry-run --json --dir d",
            "cluster rebalance --no-wait",
            "cluster rebalance --cancel",
            "cluster readmit --config n.toml --json",
            "explain read --layout raid5 --offset 0 --length 1 --failed 1",
            "explain write --layout raid6 --offset 4K --length 1M --failed 0,2 --parity-at solely \
             --strategy large --commit none --json",
            "check --seeds 0..100 --jobs 1 --operations 10 --story 5",
            "demo --keep",
            "demo --quick",
            "bench --quick --json --seconds 1",
            "bench --dir /tmp",
            "bench --ordered --quick --json",
            "trace info t.csv.gz --format disksim --sector-size 256 --json",
            "sim tickertaip/reads --set links.mb_s=5 nodes.mips=2 --sweep volume.unit=4096,8192 --seed 7 \
             --replications 3 --jobs 2 --out d --shard 0/2 --json",
            "sim s.toml --world both --dir d --params p.toml",
            "plan p.toml --json --html p.html --svg p.svg",
            "plan --example",
            "probe --dir d --out p.toml --quick --json",
            "sim --list",
            "sim --describe",
            "sim --print tickertaip/reads",
            "sim --describe links.mb_s",
            "sim merge a b --out c --json",
            "trace convert a b --from blkparse --to iolog --sector-size 4K",
        ] {
            let words = std::iter::once("weft").chain(line.split_whitespace());
            Cli::try_parse_from(words).unwrap_or_else(|e| panic!("{line}: {e}"));
        }
    }

    #[test]
    fn bad_input_is_refused_with_what_to_do() {
        for (line, why) in [
            ("node remove box2", "'box2' is not a node number; `weft node list`"),
            ("disk fail box2 --yes", "not a node number"),
            ("volume create v 1GB", "write 1G, which is 1GiB"),
            ("volume resize v +1G", "give the whole size"),
            ("volume create v 1G --layout rs:4", "write rs:K+M, such as rs:4+2"),
            ("up --volume v", "NAME:SIZE"),
            ("up --volume v:many", "is not a size"),
            ("up --listen nonsense", "HOST:PORT"),
            ("volume set v", "KEY=VALUE"),
            ("recover --found", "--config"),
            ("recover --config n.toml --dry-run --found", "cannot be used with"),
            ("recover --config n.toml --dir d", "cannot be used with"),
            ("scrub v --rate 0", "cannot be 0"),
            ("scrub v --rate fast", "is not a size"),
            ("cluster rebalance --dry-run --cancel", "cannot be used with"),
            ("volume set v ordering", "KEY=VALUE"),
            ("volume create v 1G --ordering locks", "device-locks"),
            ("up --journal maybe", "choose on or off"),
            ("up --page 10800", "'10800' is not HOST:PORT"),
            ("up --metrics 127.0.0.1", "is not HOST:PORT"),
            ("up --nodes abc", "give a whole number from 1 on"),
            ("up --queue-depth 1.5", "give a whole number from 1 on"),
            ("up --queue fifo", "choose from fcfs, sstf, c-look"),
            ("up --max-incomplete 1K", "for '--max-incomplete <SIZE>': 1"),
            ("check --seeds 0..1 --jobs x", "give a whole number from 1 on"),
            ("up --page 127.0.0.1:1 --page-key k", "--page-certificate"),
            ("user add ann --role root", "choose read or act"),
            ("up --layout raid7", "choose raid0"),
            ("check --seeds 5", "A..B"),
            ("trace info t --format pcap", "choose from csv, srt"),
            ("check --seeds 5..5", "no seed"),
            ("plan", "Usage"),
            ("plan p.toml --example", "cannot be used with"),
            ("sim", "Usage"),
            ("sim s --set a", "KEY=VALUE"),
            ("sim s --out d --shard 2/2", "I from 0 to N-1"),
            ("sim s --shard 0/2", "--out"),
            ("sim s --jobs 0", "1.."),
            ("explain read --layout raid5 --offset 0 --length 1 --strategy small", "unexpected"),
        ] {
            let words = std::iter::once("weft").chain(line.split_whitespace());
            let error = Cli::try_parse_from(words).unwrap_err().to_string();
            assert!(error.contains(why), "{line}: {error}");
        }
    }
}
