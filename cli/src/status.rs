//! `weft status`: how a running array is.

mod check;

use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use weft_core::SECTOR;
use weft_core::policy::time::about;
use weft_host::ControlRequest;
use weft_host::status::{
    AbsenceStatus, Detour, Evenness, HostStatus, LaneStatus, LatencyStatus, LinkStatus, NodeState,
    NodeStatus, ScrubStatus, Status as ArrayStatus, Summary, VolumeStatus,
};
use weft_terminal::{align_right, bytes, folded, say, say_json, table, width, wrapped};

use crate::args::Target;
use crate::output::{map_name, say_cut_off};
use crate::volume::{controller, count_in_words, limits, troubles, volumes, without_snapshots};

/// How often `--watch` looks.
const EVERY: Duration = Duration::from_secs(1);

/// Show the state of a running array.
#[derive(Debug, Args)]
pub struct Status {
    #[command(flatten)]
    target: Target,
    /// Print the answer as JSON; with --watch, one line per update
    #[arg(long)]
    json: bool,
    /// Update every second, until interrupted or the array stops
    #[arg(long)]
    watch: bool,
    /// Print one line for monitoring; exit status 0 means healthy, 1 degraded, 2 failed or no answer
    #[arg(long, conflicts_with = "watch")]
    check: bool,
}

impl Status {
    /// Asks, once or again and again.
    pub fn run(&self) -> Result<ExitCode> {
        if self.check {
            return self.check();
        }
        let mut control = self.target.connect()?;
        loop {
            let answer = control.request(&ControlRequest::Status)?;
            match (self.json, self.watch) {
                (true, false) => say_json(answer)?,
                (true, true) => say(answer)?,
                (false, watch) => {
                    if watch && weft_terminal::is_terminal() {
                        // Home, and clear what is below.
                        say("\x1b[H\x1b[2J")?;
                    }
                    say_cut_off(&answer)?;
                    say(describe(&serde_json::from_value(answer)?, width()))?;
                }
            }
            if !self.watch {
                return Ok(ExitCode::SUCCESS);
            }
            thread::sleep(EVERY);
        }
    }

    fn check(&self) -> Result<ExitCode> {
        let summary = check::summary(&self.target);
        match self.json {
            true => say_json(serde_json::to_value(&summary)?)?,
            false => say(worst(&summary, "(`weft status` lists them)"))?,
        }
        Ok(ExitCode::from(check::exit_status(summary.health)))
    }
}

/// How an array is, the worst reason for it, and how many more there are: `others` says where.
fn worst(summary: &Summary, others: &str) -> String {
    let health = summary.health;
    match summary.reasons.as_slice() {
        [] => health.to_string(),
        [only] => format!("{health}: {only}"),
        [first, others_of_them @ ..] => {
            format!("{health}: {first}; {} more {others}", others_of_them.len())
        }
    }
}

/// The share of the nodes' work that each thread has done. What others are spared the first has done.
fn lanes(lanes: &[LaneStatus]) -> String {
    let all: u64 = lanes.iter().map(|lane| lane.inputs).sum();
    let mut done: Vec<u64> = lanes.iter().map(|lane| lane.inputs - lane.borrowed).collect();
    done[0] = all - done[1..].iter().sum::<u64>();
    let share = |done: &u64| format!("{} %", (done * 100).checked_div(all).unwrap_or(0));
    let shares: Vec<String> = done.iter().map(share).collect();
    format!("shares of {} lanes in the nodes' work: {}", lanes.len(), shares.join(", "))
}

/// All of it, no wider than that if it is given.
fn describe(status: &ArrayStatus, width: Option<usize>) -> String {
    let summary = status.summary();
    let head = format!(
        "{}\n{}  {}{}  up {:.0} s",
        worst(&summary, "below"),
        status.directory,
        map_name(status.epoch),
        if status.settled { "" } else { " (changing)" },
        status.uptime_seconds,
    );
    let volumes = volumes(&without_snapshots(&status.volumes), width);
    let nodes = nodes(&status.nodes, width);
    let below = wrapped(below(status).trim_start(), width);
    format!("{}\n{nodes}\n{volumes}\n{below}", wrapped(&head, width))
}

/// What stands below the tables.
fn below(status: &ArrayStatus) -> String {
    let mut out = String::new();
    for (health, reason) in status.reasons().iter().skip(1) {
        out += &format!("\n{health}: {reason}");
    }
    for line in status.nodes.iter().filter_map(outlook) {
        out += &format!("\n{line}");
    }
    let shown = without_snapshots(&status.volumes);
    let volumes = || shown.iter();
    for line in volumes().filter_map(controller).chain(volumes().filter_map(limits)) {
        out += &format!("\n{line}");
    }
    for line in volumes().flat_map(troubles).chain(status.scrubs.iter().map(scrub)) {
        out += &format!("\n{line}");
    }
    for line in status.volumes.iter().flat_map(latency).chain(hosts(&status.hosts)) {
        out += &format!("\n{line}");
    }
    if let Some(line) = count_in_words(&status.volumes) {
        out += &format!("\n{line}");
    }
    out += &room(&status.nodes);
    out += &balance(&status.balance);
    for listen in &status.listens {
        out += &format!("\nlistens at {listen}");
    }
    if status.lanes.len() > 1 {
        out += &format!("\n{}", lanes(&status.lanes));
    }
    for line in status.cluster.iter().filter_map(|c| links(&c.links)) {
        out += &format!("\n{line}");
    }
    for line in status.cluster.iter().flat_map(|c| detours(&c.detours)) {
        out += &format!("\n{line}");
    }
    for line in status.nodes.iter().filter_map(errors) {
        out += &format!("\n{line}");
    }
    let warnings = status.cluster.iter().flat_map(|c| c.warnings.iter().cloned());
    for line in status.nodes.iter().filter_map(wrong_clock).chain(warnings) {
        out += &format!("\nwarning: {line}");
    }
    let totals = &status.totals;
    out += &format!(
        "\nsince the start of the nodes: {} requests, {} messages with {} of data, {} disk reads, {} disk writes, {} journal \
         writes, {} retries",
        totals.requests,
        totals.messages,
        bytes(totals.wire_bytes),
        totals.disk_reads,
        totals.disk_writes,
        totals.journal_writes,
        totals.retries,
    );
    out
}

/// How long requests to a volume took lately, in a line for each kind of which there were some.
fn latency(volume: &VolumeStatus) -> Vec<String> {
    let Some(latency) = volume.latency else { return Vec::new() };
    let all = [
        (["read", "reads"], latency.reads),
        (["write", "writes"], latency.writes),
        (["flush", "flushes"], latency.flushes),
    ];
    let line = |(what, of): ([&str; 2], Option<LatencyStatus>)| {
        let of = of?;
        let what = what[usize::from(of.requests != 1)];
        Some(format!(
            "volume {}: {} {what} here in the last 1 to 2 minutes: median {}, 99 % within {}, maximum {}",
            volume.name,
            of.requests,
            milliseconds(of.p50_us),
            milliseconds(of.p99_us),
            milliseconds(of.most_us),
        ))
    };
    all.into_iter().filter_map(line).collect()
}

fn milliseconds(us: u64) -> String {
    format!("{:.2} ms", us as f64 / 1000.0)
}

/// As many hosts are shown one by one.
const MOST_HOSTS: usize = 20;

/// The hosts that are connected to the process that was asked.
fn hosts(all: &[HostStatus]) -> Vec<String> {
    let line = |host: &HostStatus| {
        let HostStatus { address, protocol, node, .. } = host;
        let volume = host.volume.as_deref().unwrap_or("no volume yet");
        format!("{address} uses {volume} by {protocol}, at node {node}")
    };
    let more = all.len().saturating_sub(MOST_HOSTS);
    let more =
        (more > 0).then(|| format!("{more} more hosts are connected here (--json lists all)"));
    all.iter().take(MOST_HOSTS).map(line).chain(more).collect()
}

/// How much room the disks have in all, before redundancy, and which disks do not count.
fn room(nodes: &[NodeStatus]) -> String {
    let disks =
        || nodes.iter().filter(|n| !n.host && !n.controller && n.state != NodeState::Expected);
    let counted = || disks().filter(|n| n.free_bytes.is_some());
    let sum = |of: fn(&NodeStatus) -> Option<u64>| bytes(counted().filter_map(of).sum());
    let others = disks().filter(|n| n.free_bytes.is_none());
    let others: Vec<String> = others.map(|n| format!("node {} ({})", n.node, n.state)).collect();
    let others = match others.is_empty() {
        true => String::new(),
        false => format!("; not counted: {}", others.join(", ")),
    };
    match counted().count() {
        0 => String::new(),
        n => format!(
            "\n{n} disk{} with {}: {} used and {} free, before redundancy{others}",
            if n == 1 { "" } else { "s" },
            sum(|n| n.disk_bytes),
            sum(|n| n.used_bytes),
            sum(|n| n.free_bytes),
        ),
    }
}

/// Whether the disks are equally full, unless there is nothing to be said.
fn balance(balance: &Evenness) -> String {
    let range = format!(
        "disks are {:.0} to {:.0} % full",
        balance.emptiest_percent, balance.fullest_percent
    );
    match (balance.rebalancing, balance.uneven) {
        (true, _) => format!("\n{range}; rebalancing"),
        (_, true) => format!("\n{range}; `weft cluster rebalance` makes them equally full"),
        _ => String::new(),
    }
}

/// How this process reaches the others.
fn links(all: &[LinkStatus]) -> Option<String> {
    let kinds = [("unix", "a Unix socket"), ("tls", "TLS"), ("tcp", "TCP"), ("relayed", "others")];
    let of = |(over, words): &(&str, &str)| {
        let to = all.iter().filter(|l| l.over == *over).map(|l| l.to.to_string());
        let to: Vec<String> = to.collect();
        (!to.is_empty()).then(|| format!("{} by {words}", to.join(", ")))
    };
    let ways: Vec<String> = kinds.iter().filter_map(of).collect();
    (!ways.is_empty()).then(|| format!("this process reaches {}", ways.join("; ")))
}

/// As many pairs that talk through others are shown one by one.
const MOST_DETOURS: usize = 20;

/// Who is reached through whom, and which links are bad; once for both ends where they say the same.
fn detours(all: &[Detour]) -> Vec<String> {
    let same = |a: &Detour, b: &Detour| {
        let back: Vec<u16> = b.through.iter().rev().copied().collect();
        (a.from, a.to, a.bad) == (b.to, b.from, b.bad) && a.through == back
    };
    let mut shown: Vec<&Detour> = Vec::new();
    for d in all {
        if !shown.iter().any(|s| same(s, d)) {
            shown.push(d);
        }
    }
    let line = |d: &&Detour| {
        let relays: Vec<String> = d.through.iter().map(u16::to_string).collect();
        let way = match relays.is_empty() {
            true => "directly nevertheless".to_string(),
            false => format!("through {}", relays.join(", ")),
        };
        match d.bad {
            true => format!(
                "the link between processes {} and {} is bad: they communicate {way}",
                d.from, d.to
            ),
            false => format!("processes {} and {} communicate {way}", d.from, d.to),
        }
    };
    let (bad, usual): (Vec<&Detour>, Vec<&Detour>) = shown.into_iter().partition(|d| d.bad);
    let mut lines: Vec<String> = bad.iter().map(line).collect();
    match usual.len() > MOST_DETOURS {
        true => lines.push(format!(
            "{} pairs of processes have no link and communicate through others (see --json)",
            usual.len()
        )),
        false => lines.extend(usual.iter().map(line)),
    }
    lines
}

/// How far a scrub is.
fn scrub(scrub: &ScrubStatus) -> String {
    format!(
        "a scrub of volume {} by node {}: {} of {} stripes, {} rebuilt, {} wrong, {} skipped",
        scrub.volume.as_deref().unwrap_or("?"),
        scrub.node,
        scrub.done(),
        scrub.stripes,
        scrub.rebuilt,
        scrub.mismatched,
        scrub.skipped,
    )
}

/// Which errors a disk had, if any.
fn errors(node: &NodeStatus) -> Option<String> {
    let errors = node.errors.filter(|errors| !errors.is_none())?;
    Some(format!(
        "errors of the disk of node {} ({}): {errors}; `weft disk clear {}` resets the counts",
        node.node,
        node.disk.as_deref().unwrap_or("-"),
        node.node
    ))
}

/// That the clock of a node's machine is wrong, if it is.
fn wrong_clock(node: &NodeStatus) -> Option<String> {
    let ahead = node.clock_is_ahead_seconds?;
    Some(format!(
        "the clock of node {}'s machine is {ahead} s ahead of the cluster's time; set it, and restart its process",
        node.node
    ))
}

/// What is to become of a node that is away, or why it is lost, if that is known.
fn outlook(node: &NodeStatus) -> Option<String> {
    let (n, absence) = (node.node, node.absence.as_ref());
    if let Some(why) = absence.and_then(|a| a.hindrance.as_ref()) {
        return Some(format!("node {n} is not given up: {why}"));
    }
    if let Some(left) = absence.and_then(|a| a.given_up_in_seconds) {
        return Some(format!("node {n} is given up in {}", about(left)));
    }
    let why = node.why.as_ref().filter(|_| node.state == NodeState::Lost)?;
    Some(format!("node {n} is lost: {why}"))
}

/// For how long a node has been missed, and what is to become of it.
fn absence(absence: &AbsenceStatus) -> String {
    let down = about(absence.down_seconds);
    match (&absence.hindrance, absence.given_up_in_seconds) {
        (Some(why), _) => format!("; for {down}; not given up: {why}"),
        (None, Some(left)) => format!("; for {down}; given up in {}", about(left)),
        (None, None) => format!("; for {down}"),
    }
}

/// The state of a node, and why it is down.
pub fn state(node: &NodeStatus) -> String {
    let state = node.state;
    let text = node.why.as_ref().map_or(state.to_string(), |why| format!("{state}: {why}"));
    text + &node.absence.as_ref().map(absence).unwrap_or_default()
}

/// The process of a node, by number and name.
fn process(node: &NodeStatus) -> String {
    match (node.process, &node.name) {
        (Some(number), Some(name)) => format!("{number} ({name})"),
        (Some(number), None) => number.to_string(),
        (None, _) => "-".to_string(),
    }
}

fn nodes(list: &[NodeStatus], width: Option<usize>) -> String {
    // Messages name processes by their numbers.
    let processes = list.iter().any(|n| n.process.is_some());
    let heads = [
        "node",
        "process",
        "state",
        "disk",
        "size",
        "used",
        "free",
        "backend",
        "in flight",
        "behind",
        "requests",
        "reads",
        "writes",
    ];
    let shown = |column: usize| processes || column != 1;
    let heads = (0..).zip(heads).filter(|(n, _)| shown(*n)).map(|(_, head)| head);
    let mut table = table(heads);
    for node in list {
        let number = |n: Option<u64>| n.map_or("-".to_string(), |n| n.to_string());
        let text = |text: &Option<String>| text.clone().unwrap_or("-".to_string());
        let mut behind = node.stale_sectors.map_or("-".to_string(), |n| bytes(n * SECTOR));
        if let Some((rate, left)) = node.rebuilt_bytes_per_second.zip(node.rebuild_seconds_left) {
            behind += &format!(", {}/s, {left} s left", bytes(rate));
        }
        let totals = node.counters.map(|c| c.totals);
        let row = [
            node.node.to_string(),
            process(node),
            node.state.to_string(),
            text(&node.disk),
            node.disk_bytes.map_or("-".to_string(), bytes),
            node.used_bytes.map_or("-".to_string(), bytes),
            node.free_bytes.map_or("-".to_string(), bytes),
            text(&node.backend),
            number(node.in_flight.map(|n| n as u64)),
            behind,
            number(totals.map(|t| t.requests)),
            number(totals.map(|t| t.disk_reads)),
            number(totals.map(|t| t.disk_writes)),
        ];
        table.add_row((0..).zip(row).filter(|(n, _)| shown(*n)).map(|(_, cell)| cell));
    }
    let numbers = [0, 4, 5, 6, 8, 9, 10, 11, 12];
    align_right(&mut table, numbers.map(|n: usize| n.saturating_sub(usize::from(!processes))));
    folded(&table, width)
}

#[cfg(test)]
mod width;

#[cfg(test)]
mod tests {
    use weft_host::status::{Health, VolumeLatency};

    use super::*;

    #[test]
    fn a_disk_that_had_errors_is_named() {
        let errors = weft_host::status::DiskErrors {
            checksum: 136,
            mended_sectors: 136,
            ..Default::default()
        };
        let disk = Some("/dev/sdd".to_string());
        let had =
            |errors| NodeStatus { node: 3, disk: disk.clone(), errors, ..NodeStatus::default() };
        assert_eq!(
            super::errors(&had(Some(errors))).unwrap(),
            "errors of the disk of node 3 (/dev/sdd): 0 read, 0 write and 136 checksum errors; 136 sectors repaired; `weft \
             disk clear 3` resets the counts"
        );
        assert_eq!(super::errors(&had(Some(Default::default()))), None);
        assert_eq!(super::errors(&had(None)), None);
    }

    #[test]
    fn how_fast_a_node_catches_up_and_why_one_is_down_are_said() {
        let behind = NodeStatus {
            node: 1,
            state: NodeState::CatchingUp,
            stale_sectors: Some(2048),
            rebuilt_bytes_per_second: Some(2 << 20),
            rebuild_seconds_left: Some(4),
            ..NodeStatus::default()
        };
        let why = Some("there is no connection to its process".to_string());
        let down = NodeStatus { node: 2, why, ..NodeStatus::default() };
        let hindrance = Some("add a disk".to_string());
        let hindered = AbsenceStatus { down_seconds: 600, hindrance, ..Default::default() };
        let due = AbsenceStatus {
            down_seconds: 90,
            given_up_in_seconds: Some(510),
            ..Default::default()
        };
        for (absence, said) in
            [(hindered, "for 10m; not given up: add a disk"), (due, "for 90s; given up in 9m")]
        {
            let missed = NodeStatus { absence: Some(absence), ..NodeStatus::default() };
            assert_eq!(state(&missed), format!("down; {said}"));
            let said = said.split_once("; ").unwrap().1;
            assert_eq!(outlook(&missed), Some(format!("node 0 is {said}")));
        }
        let text = nodes(&[behind, down.clone()], None);
        assert!(text.contains("8.00 MiB, 2.00 MiB/s, 4 s left"), "{text}");
        assert!(!text.contains("there is no connection"), "{text}");
        assert_eq!(state(&down), "down: there is no connection to its process");
    }

    #[test]
    fn latencies_and_hosts_are_said() {
        let reads =
            LatencyStatus { requests: 7, p50_us: 120, p95_us: 900, p99_us: 2500, most_us: 2500 };
        let latency = VolumeLatency { reads: Some(reads), ..VolumeLatency::default() };
        let name = "v".to_string();
        let volume = VolumeStatus { name, latency: Some(latency), ..VolumeStatus::default() };
        let host = HostStatus {
            address: "10.0.0.5:4711".to_string(),
            protocol: "nbd".to_string(),
            volume: Some("v".to_string()),
            node: 2,
            ..HostStatus::default()
        };
        let hosts = vec![host; MOST_HOSTS + 3];
        let text =
            describe(&ArrayStatus { volumes: vec![volume], hosts, ..Default::default() }, None);
        for line in [
            "volume v: 7 reads here in the last 1 to 2 minutes: median 0.12 ms, 99 % within 2.50 ms, maximum 2.50 ms",
            "10.0.0.5:4711 uses v by nbd, at node 2",
            "3 more hosts are connected here (--json lists all)",
        ] {
            assert!(text.lines().any(|l| l == line), "{text}");
        }
    }

    #[test]
    fn what_is_used_and_free_is_said_and_which_disks_do_not_count() {
        let up = NodeStatus {
            state: NodeState::Up,
            disk_bytes: Some(4 << 30),
            used_bytes: Some(1 << 30),
            free_bytes: Some(2 << 30),
            ..NodeStatus::default()
        };
        let down = NodeStatus { node: 2, free_bytes: None, state: NodeState::Down, ..up.clone() };
        assert_eq!(
            room(&[up.clone(), up, down]),
            "\n2 disks with 8.00 GiB: 2.00 GiB used and 4.00 GiB free, before redundancy; not counted: node 2 (down)"
        );
    }

    #[test]
    fn processes_have_a_column_where_there_are_several() {
        let name = Some("box1".to_string());
        let of_two = NodeStatus { node: 3, process: Some(2), name, ..NodeStatus::default() };
        let text = nodes(&[of_two], None);
        assert!(text.contains("process") && text.contains("2 (box1)"), "{text}");
        let alone = nodes(&[NodeStatus::default()], None);
        assert!(!alone.contains("process"), "{alone}");
    }

    #[test]
    fn a_check_says_the_worst_and_how_many_more() {
        let of = |reasons: &[&str]| {
            let reasons = reasons.iter().map(|r| r.to_string()).collect();
            worst(&Summary { health: Health::Degraded, reasons }, "below")
        };
        assert_eq!(of(&["a"]), "degraded: a");
        assert_eq!(of(&["a", "b", "c"]), "degraded: a; 2 more below");
        assert_eq!(worst(&Summary::default(), "below"), "healthy");
    }

    #[test]
    fn scrubs_are_said() {
        let scrub = ScrubStatus {
            volume: Some("v".to_string()),
            node: 2,
            from: 10,
            verified: 5,
            skipped: 1,
            stripes: 40,
            ..ScrubStatus::default()
        };
        let scrubs = vec![scrub];
        let text = describe(&ArrayStatus { scrubs, ..Default::default() }, None);
        assert!(text.contains("a scrub of volume v by node 2: 16 of 40 stripes"), "{text}");
    }
}
