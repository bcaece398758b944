//! `weft bench`: a fixed set of workloads, on memory and on disk, healthy and degraded.

mod apart;
mod ordered;
mod orderings;
mod rebuild;
mod redundancy;
pub mod workload;

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde_json::json;
use weft_host::status::{NodeState, Status, VolumeMode};
use weft_host::{Array, Control, ControlRequest, Listen, NodeAction, Spec};
use weft_terminal::{Counts, Stage, align_right, bytes, say, say_json, table};

use weft_trial::load::{connect, fill};
use weft_trial::scratch::{MEMORY, Scratch};
use workload::{Case, Measured};

const VOLUME: &str = "bench";
const NODES: usize = 5;
/// The node whose disk is lost. In layouts with groups it is in the first.
const VICTIM: usize = 2;

/// Whether the disk that was lost has all again.
fn is_whole(status: &Status) -> bool {
    is_whole_at(status, VICTIM)
}

/// The same of the disk of another node.
fn is_whole_at(status: &Status, node: usize) -> bool {
    let mode = status.volumes.first().map(|v| v.mode);
    status.nodes[node].state == NodeState::Up && mode == Some(VolumeMode::FaultFree)
}

/// Measure: 5 nodes, RAID 5, journal on, hosts on the Unix socket.
#[derive(Debug, Args)]
pub struct Bench {
    /// Directory on the disk to measure [default: the current one]
    #[arg(long, conflicts_with = "quick")]
    dir: Option<PathBuf>,
    /// Seconds per workload; with --ordering, each round takes 0.3 of that [default: 3; 1 with --quick]
    #[arg(long, conflicts_with = "rebuild", value_parser = clap::value_parser!(u64).range(1..))]
    seconds: Option<u64>,
    /// Use a small volume in memory
    #[arg(long)]
    quick: bool,
    /// Compare one process with a process per node, and time a rebuild
    #[arg(long)]
    processes: bool,
    /// Compare two ways to order data after its log record: wait and flush, or declare the dependency
    #[arg(long, conflicts_with = "processes")]
    ordered: bool,
    /// Compare orderings with no ordering: `all`, or a comma-separated list
    #[arg(long, conflicts_with_all = ["processes", "ordered"])]
    ordering: Option<orderings::Choice>,
    /// Compare the time and reads to rebuild a disk with these layouts, separated by commas, such as
    /// rs:12+4,lrc:12+2+2
    #[arg(long, value_name = "LAYOUTS", conflicts_with_all = ["processes", "ordered", "ordering"])]
    rebuild: Option<rebuild::Choice>,
    /// Compare small writes with deferred, immediate and no parity, and copied writes
    #[arg(long, conflicts_with_all = ["processes", "ordered", "ordering", "rebuild"])]
    redundancy: bool,
    /// The peer process of the socket measurement of `--processes`
    #[arg(long, hide = true)]
    echo: Option<SocketAddr>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Where to measure.
struct Medium {
    name: &'static str,
    /// Whether it is memory, not a disk.
    volatile: bool,
    dir: PathBuf,
}

/// What came out of a case.
struct Line {
    medium: &'static str,
    state: &'static str,
    case: Case,
    measured: Measured,
}

impl Bench {
    /// Runs all of it.
    pub fn run(&self) -> Result<ExitCode> {
        if let Some(address) = self.echo {
            return apart::echo(address);
        }
        if self.processes {
            return apart::run(self);
        }
        if self.ordered {
            return ordered::run(self);
        }
        if let Some(choice) = &self.ordering {
            return orderings::run(self, choice);
        }
        if self.redundancy {
            return redundancy::run(self);
        }
        if let Some(choice) = &self.rebuild {
            return rebuild::run(self, choice);
        }
        let mut lines = Vec::new();
        for medium in self.media()? {
            self.measure(&medium, &mut lines)?;
        }
        let memory = peak_memory()?;
        if self.json {
            say_json(json!({
                "volume_bytes": self.size(),
                "seconds": self.seconds(),
                "cases": lines.iter().map(Line::as_json).collect::<Vec<_>>(),
                "peak_memory_bytes": memory,
            }))?;
        } else {
            say(self.describe(&lines, memory))?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn size(&self) -> u64 {
        if self.quick { 128 << 20 } else { 1 << 30 }
    }

    fn seconds(&self) -> u64 {
        self.seconds.unwrap_or(if self.quick { 1 } else { 3 })
    }

    fn media(&self) -> Result<Vec<Medium>> {
        let memory = Path::new(MEMORY).is_dir();
        ensure!(
            memory || !self.quick,
            "{MEMORY} does not exist, and --quick needs it; omit --quick"
        );
        let mut media = Vec::new();
        if memory {
            media.push(Medium { name: "tmpfs", volatile: true, dir: MEMORY.into() });
        }
        if !self.quick {
            let dir = self.dir.clone().unwrap_or_else(|| ".".into());
            ensure!(dir.is_dir(), "{} is not a directory; give another with --dir", dir.display());
            media.push(Medium { name: "disk", volatile: false, dir });
        }
        Ok(media)
    }

    fn spec(&self) -> Spec {
        // Room for the volume's part of each disk, the journal, and some.
        let disk = (self.size() / (NODES as u64 - 1) + (128 << 20)).next_multiple_of(1 << 20);
        Spec {
            nodes: Some(NODES),
            disk_size: Some(disk),
            volumes: vec![(VOLUME.to_string(), self.size())],
            ..Spec::default()
        }
    }

    fn measure(&self, medium: &Medium, lines: &mut Vec<Line>) -> Result<()> {
        let dir = Scratch::new("weft-bench-", &medium.dir)?;
        let socket = dir.path().join("nbd.sock");
        let listens = [Listen::unix(socket.clone())];
        let array =
            Array::start(dir.path(), &self.spec(), &listens, weft_host::Log::silent())?.spawn()?;
        let mut host = connect(&socket, VOLUME)?;
        let mut control = Control::connect(dir.path())?;
        fill(&mut host, &format!("{}: filling the volume", medium.name))?;
        for state in ["healthy", "degraded"] {
            if state == "degraded" {
                control
                    .request(&ControlRequest::Node { action: NodeAction::Kill, node: VICTIM })?;
            }
            for case in workload::CASES {
                let stage =
                    Stage::new(format!("{}, {state}: {case}", medium.name), 1, Counts::Things);
                let time = Duration::from_secs(self.seconds());
                let measured = workload::run(&mut host, &mut control, case, time)?;
                stage.done(&measured);
                lines.push(Line { medium: medium.name, state, case, measured });
            }
        }
        drop(host);
        Ok(array.shutdown()?)
    }

    fn describe(&self, lines: &[Line], memory: u64) -> String {
        let mut table = table([
            "on",
            "array",
            "workload",
            "IOPS",
            "MB/s",
            "mean µs",
            "p50 µs",
            "p99 µs",
            "CPU s/1000",
        ]);
        for line in lines {
            let m = &line.measured;
            table.add_row([
                line.medium.to_string(),
                line.state.to_string(),
                line.case.to_string(),
                format!("{:.0}", m.iops),
                format!("{:.1}", m.mb_per_s),
                format!("{:.0}", m.mean_us),
                m.p50_us.to_string(),
                m.p99_us.to_string(),
                format!("{:.4}", m.cpu_s_per_1000),
            ]);
        }
        align_right(&mut table, 3..9);
        format!(
            "{table}\n{NODES} nodes, raid5, journal on, a filled volume of {}, {} s each; CPU seconds per 1,000 requests of \
             array and client together; peak memory {}",
            bytes(self.size()),
            self.seconds(),
            bytes(memory),
        )
    }
}

impl Line {
    fn as_json(&self) -> serde_json::Value {
        let m = &self.measured;
        json!({
            "medium": self.medium,
            "state": self.state,
            "workload": self.case.to_string(),
            "write": self.case.write,
            "random": self.case.random,
            "block_bytes": self.case.block,
            "depth": self.case.depth,
            "iops": m.iops,
            "mb_per_s": m.mb_per_s,
            "mean_us": m.mean_us,
            "p50_us": m.p50_us,
            "p99_us": m.p99_us,
            "cpu_s_per_1000": m.cpu_s_per_1000,
        })
    }
}

/// The most memory that this process has held.
fn peak_memory() -> Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    let kib = line.and_then(|l| l.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    Ok(kib.context("/proc/self/status does not show the peak memory")? << 10)
}
