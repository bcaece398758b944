//! A status as a page in the OpenMetrics format. Sizes are bytes and times seconds, as the format has it; what is counted
//! ends with `_total`. The names here are those that `docs/use/monitoring.md` lists.

use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::text;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::error::{Error, Result};
use crate::status::{
    Counters, Health, LoginStatus, NodeState, NodeStatus, ScrubStatus, Status, Totals, VolumeMode,
    VolumeStatus,
};

/// What a row of a metric is of.
type Labels = Vec<(&'static str, String)>;

/// A number of each thing of a kind: its name, what it is, and what it is of one of them, if that is known.
type Row<T, N> = (&'static str, &'static str, fn(&T) -> Option<N>);

/// Of each volume.
const VOLUMES: [Row<VolumeStatus, f64>; 14] = [
    ("volume_size_bytes", "Size of the volume as seen by hosts", |v| Some(v.size as f64)),
    (
        "volume_survives_nodes",
        "Number of arbitrary nodes that may fail now without data loss",
        |v| v.survives.map(|n| n as f64),
    ),
    ("volume_clients", "Host connections", |v| Some(v.clients as f64)),
    (
        "volume_requests_limited",
        "Host requests of this process that wait for the volume's limits",
        |v| Some(v.requests_limited as f64),
    ),
    ("volume_stripes", "Stripes", |v| Some(v.stripes as f64)),
    ("volume_stripes_degraded", "Stripes with a column on a node that is down", |v| {
        Some(v.stripes_degraded as f64)
    }),
    ("volume_stripes_critical", "Stripes that tolerate no more losses", |v| {
        Some(v.stripes_critical as f64)
    }),
    (
        "volume_stripes_failed",
        "Stripes with more missing columns than their layout tolerates",
        |v| Some(v.stripes_failed as f64),
    ),
    ("volume_used_bytes", "Bytes of a thin volume that have space on disks", |v| {
        v.used_bytes.map(|b| b as f64)
    }),
    ("volume_snapshots", "Snapshots of the volume", |v| Some(v.snapshots as f64)),
    (
        "volume_imported_snapshot_timestamp_seconds",
        "When the source of the newest imported snapshot was taken",
        |v| Some(v.transfer.as_ref()?.imported_until? as f64),
    ),
    (
        "volume_scheduled_snapshot_age_seconds",
        "Time since the newest scheduled snapshot of the volume was taken",
        |v| v.schedule.iter().filter_map(|of| of.age_seconds).min().map(|s| s as f64),
    ),
    ("volume_exposed_bytes", "Parity lag: bytes of data in exposed stripes", |v| {
        Some(v.exposed.as_ref().map_or(0.0, |e| e.bytes as f64))
    }),
    ("volume_lost_bytes", "Permanently lost bytes", |v| {
        Some(v.exposed.as_ref().map_or(0.0, |e| e.lost_bytes as f64))
    }),
];

/// Of each node.
const NODES: [Row<NodeStatus, f64>; 25] = [
    ("node_down_seconds", "Time since the node went down, until it is given up", |n| {
        let missed = n.absence.as_ref().filter(|_| n.state != NodeState::Lost);
        missed.map(|a| a.down_seconds as f64)
    }),
    ("disk_size_bytes", "Size of the disk", |n| n.disk_bytes.map(|b| b as f64)),
    ("disk_used_bytes", "Bytes used by or reserved for volumes", |n| {
        n.used_bytes.map(|b| b as f64)
    }),
    ("disk_free_bytes", "Free bytes for volumes", |n| n.free_bytes.map(|b| b as f64)),
    ("disk_slots_free", "Free slots", |n| n.slots.map(|s| s.free as f64)),
    ("disk_slots_placed", "Slots with written content", |n| n.slots.map(|s| s.placed as f64)),
    ("disk_slots_held", "Slots in use by writes, checkpoints or reads", |n| {
        n.slots.map(|s| s.held as f64)
    }),
    ("disk_slots_usable", "Slots that volumes can have", |n| n.slots.map(|s| s.usable as f64)),
    ("disk_slots_promised", "Slots reserved for volumes that are not thin", |n| {
        n.slots.map(|s| s.promised as f64)
    }),
    ("disk_slots_reserved", "Free slots reserved for checkpoints", |n| {
        n.slots.map(|s| s.reserved as f64)
    }),
    ("disk_slots_thin", "Slots in use by thin volumes", |n| n.slots.map(|s| s.thin as f64)),
    ("disk_queued", "Operations in the disk's queue", |n| n.queued.map(|n| n as f64)),
    ("disk_read_errors", "Failed reads", |n| n.errors.map(|e| e.read as f64)),
    ("disk_write_errors", "Failed writes and flushes", |n| n.errors.map(|e| e.write as f64)),
    ("disk_checksum_errors", "Checksum errors", |n| n.errors.map(|e| e.checksum as f64)),
    ("disk_mended_sectors", "Bad sectors repaired by rewriting", |n| {
        n.errors.map(|e| e.mended_sectors as f64)
    }),
    ("disk_passed_errors", "Operations that succeeded at the second attempt", |n| {
        n.errors.map(|e| e.passed as f64)
    }),
    ("node_stale_bytes", "Bytes left to catch up", |n| {
        n.stale_sectors.map(|s| (s * weft_core::SECTOR) as f64)
    }),
    ("node_copied_bytes", "Copied writes left to fold", |n| n.copied_bytes.map(|b| b as f64)),
    ("node_in_flight", "Host requests in flight", |n| n.in_flight.map(|n| n as f64)),
    ("node_rebuild_bytes_per_second", "Rebuild rate", |n| {
        n.rebuilt_bytes_per_second.map(|b| b as f64)
    }),
    ("node_rebuild_left_seconds", "Estimated time left of the rebuild", |n| {
        n.rebuild_seconds_left.map(|s| s as f64)
    }),
    ("node_slow_read_seconds", "Median read latency of a slow disk", |n| {
        n.slow?.read_microseconds.map(|us| us as f64 / 1e6)
    }),
    ("node_slow_write_seconds", "Median write latency of a slow disk", |n| {
        n.slow?.write_microseconds.map(|us| us as f64 / 1e6)
    }),
    ("node_clock_ahead_seconds", "Time that the machine's clock is ahead of the cluster's", |n| {
        n.clock_is_ahead_seconds.map(|s| s as f64)
    }),
];

/// What each node has counted since it was started.
const COUNTERS: [Row<Counters, u64>; 16] = [
    ("node_requests", "Host requests", |c| of(c, |t| t.requests)),
    ("node_messages", "Messages between nodes for requests", |c| of(c, |t| t.messages)),
    ("node_order_messages", "Messages for the order of requests", |c| of(c, |t| t.order_messages)),
    ("node_wire_bytes", "Bytes of data in messages", |c| of(c, |t| t.wire_bytes)),
    ("node_round_trips", "Round trips before answers to hosts", |c| of(c, |t| t.round_trips)),
    ("node_disk_reads", "Disk reads", |c| of(c, |t| t.disk_reads)),
    ("node_disk_writes", "Disk writes, without the journal's", |c| of(c, |t| t.disk_writes)),
    ("node_journal_writes", "Journal records written", |c| of(c, |t| t.journal_writes)),
    ("node_notices", "Messages without an answer", |c| of(c, |t| t.notices)),
    ("node_retries", "Transactions retried with a later timestamp", |c| of(c, |t| t.retries)),
    ("node_journal_frames", "Journal frames written", |c| Some(c.journal_frames)),
    ("node_checkpoints", "Journal checkpoints", |c| Some(c.checkpoints)),
    ("node_erasures", "Sectors with read or checksum errors", |c| Some(c.erasures)),
    ("node_damaged", "Damaged pages of the table, superblocks and journals", |c| Some(c.damaged)),
    ("node_rebuilt_sectors", "Rebuilt sectors", |c| Some(c.rebuilt_sectors)),
    (
        "node_refused_strangers",
        "Messages of requests refused because the sender is not authorized",
        |c| Some(c.refused_strangers),
    ),
];

fn of(counters: &Counters, which: fn(&Totals) -> u64) -> Option<u64> {
    Some(which(&counters.totals))
}

/// Of each scrub that is under way.
const SCRUBS: [Row<ScrubStatus, f64>; 3] = [
    ("scrub_stripes", "Stripes of the scrubbed volume", |s| Some(s.stripes as f64)),
    ("scrub_done_stripes", "Stripes done by the scrub", |s| Some(s.done() as f64)),
    ("scrub_unclear_stripes", "Inconsistent stripes of unknown cause", |s| Some(s.unclear as f64)),
];

const MODES: [VolumeMode; 8] = [
    VolumeMode::NotServed,
    VolumeMode::Unfinished,
    VolumeMode::Deleted,
    VolumeMode::Failed,
    VolumeMode::Degraded,
    VolumeMode::Reconstructing,
    VolumeMode::Migrating,
    VolumeMode::FaultFree,
];

const STATES: [NodeState; 11] = [
    NodeState::Up,
    NodeState::CatchingUp,
    NodeState::Draining,
    NodeState::Suspect,
    NodeState::Opening,
    NodeState::Stopping,
    NodeState::Expected,
    NodeState::Hung,
    NodeState::Slow,
    NodeState::Down,
    NodeState::Lost,
];

/// The page of a status.
pub(crate) fn page(status: &Status) -> Result<String> {
    let mut registry = Registry::with_prefix("weft");
    array(&mut registry, status);
    // A snapshot stands as its volume does, and there may be a thousand.
    let all = || status.volumes.iter().filter(|v| v.snapshot_of.is_none());
    let volumes: Vec<_> = all().map(|v| (volume(v), v)).collect();
    VOLUMES.iter().for_each(|row| gauges(&mut registry, row, &volumes));
    let modes = all().flat_map(|v| {
        MODES.iter().map(|mode| (with(volume(v), "mode", mode), f64::from(*mode == v.mode)))
    });
    gauge(&mut registry, "volume_mode", "1 for the volume's current mode, 0 for others", modes);
    latencies(&mut registry, &status.volumes);
    logins(&mut registry, &status.logins);
    let nodes: Vec<_> = status.nodes.iter().map(|n| (node(n), n)).collect();
    NODES.iter().for_each(|row| gauges(&mut registry, row, &nodes));
    let states = status.nodes.iter().flat_map(|n| {
        STATES.iter().map(|state| (with(node(n), "state", state), f64::from(*state == n.state)))
    });
    gauge(&mut registry, "node_state", "1 for the node's current state, 0 for others", states);
    let counters: Vec<_> =
        status.nodes.iter().filter_map(|n| Some((node(n), n.counters.as_ref()?))).collect();
    COUNTERS.iter().for_each(|row| count(&mut registry, row, &counters));
    let scrubs: Vec<_> = status.scrubs.iter().map(|s| (scrub(s), s)).collect();
    SCRUBS.iter().for_each(|row| gauges(&mut registry, row, &scrubs));
    let mut out = String::new();
    text::encode(&mut out, &registry)
        .map_err(|e| Error(format!("cannot write the metrics: {e}")))?;
    Ok(out)
}

/// What is said of the array as a whole, and of the process that says it.
fn array(registry: &mut Registry, status: &Status) {
    let version = vec![("version", env!("CARGO_PKG_VERSION").to_string())];
    gauge(registry, "build_info", "Version of Weft", [(version, 1.0)].into_iter());
    let health = match status.summary().health {
        Health::Healthy => 0.0,
        Health::Degraded => 1.0,
        Health::Failed => 2.0,
    };
    let cluster = status.cluster.as_ref();
    let serving = status.cut_off.is_none() && cluster.is_none_or(|c| c.serving);
    let leads = cluster.is_none_or(|c| c.leader == Some(c.node));
    let warnings = cluster.map_or(0, |c| c.warnings.len());
    let balance = &status.balance;
    for (name, help, value) in [
        ("health", "0 if healthy, 1 if degraded, 2 if some data is unavailable", health),
        ("map_epoch", "Epoch of the cluster map", status.epoch as f64),
        ("map_settled", "1 if no change of the map is in progress", f64::from(status.settled)),
        ("uptime_seconds", "Time since this process started", status.uptime_seconds),
        ("process_serving", "1 if this process serves hosts", f64::from(serving)),
        ("process_leads", "1 if this process leads the cluster", f64::from(leads)),
        ("warnings", "Warnings of the status", warnings as f64),
        ("disk_fullest_ratio", "Used share of the fullest disk", balance.fullest_percent / 100.0),
        (
            "disk_emptiest_ratio",
            "Used share of the emptiest disk",
            balance.emptiest_percent / 100.0,
        ),
        (
            "volume_numbers_used_ratio",
            "Used share of the numbers for volumes, snapshots and clones",
            f64::from(status.numbers.given) / f64::from(status.numbers.all.max(1)),
        ),
    ] {
        let gauge: Gauge<f64, AtomicU64> = Gauge::default();
        gauge.set(value);
        registry.register(name, help, gauge);
    }
    let checks: Counter = Counter::default();
    checks.inc_by(status.lanes.iter().map(|lane| lane.checks).sum());
    registry.register("invariant_checks", "Checks of the nodes' invariants in memory", checks);
}

/// Hosts that came in, and those that were refused.
fn logins(registry: &mut Registry, logins: &LoginStatus) {
    let accepted: Counter = Counter::default();
    accepted.inc_by(logins.accepted);
    registry.register("host_logins", "Hosts that began to use a volume", accepted);
    let delayed: Counter = Counter::default();
    delayed.inc_by(logins.delayed);
    registry.register("host_logins_delayed", "Logins delayed after failed authentication", delayed);
    let family: Family<Labels, Counter> = Family::default();
    for (cause, count) in &logins.refused {
        family.get_or_create(&vec![("cause", cause.clone())]).inc_by(*count);
    }
    registry.register("host_refusals", "Hosts that were refused, by cause", family);
}

/// How long requests took lately, by kind.
fn latencies(registry: &mut Registry, volumes: &[VolumeStatus]) {
    let of = |v: &VolumeStatus| {
        let labels = volume(v);
        let kinds =
            v.latency.map(|l| [("read", l.reads), ("write", l.writes), ("flush", l.flushes)]);
        let known = kinds.into_iter().flatten().filter_map(|(verb, of)| Some((verb, of?)));
        known.map(move |(verb, of)| (with(labels.clone(), "verb", verb), of))
    };
    let all = || volumes.iter().flat_map(of);
    let quantiles = all().flat_map(|(labels, of)| {
        let us = [("0.5", of.p50_us), ("0.95", of.p95_us), ("0.99", of.p99_us), ("1", of.most_us)];
        us.map(|(q, us)| (with(labels.clone(), "quantile", q), us as f64 / 1e6))
    });
    let help = "Latency of requests answered by this process in the last 1 to 2 minutes";
    gauge(registry, "volume_latency_seconds", help, quantiles);
    let requests = all().map(|(labels, of)| (labels, of.requests as f64));
    gauge(
        registry,
        "volume_latency_requests",
        "Number of requests in volume_latency_seconds",
        requests,
    );
}

fn volume(volume: &VolumeStatus) -> Labels {
    vec![("volume", volume.name.clone()), ("id", volume.id.to_string())]
}

fn node(node: &NodeStatus) -> Labels {
    let number = vec![("node", node.node.to_string())];
    number.into_iter().chain(node.name.clone().map(|name| ("process", name))).collect()
}

fn scrub(scrub: &ScrubStatus) -> Labels {
    let name = scrub.volume.clone().unwrap_or_default();
    vec![("volume", name), ("node", scrub.node.to_string())]
}

fn with(labels: Labels, label: &'static str, value: impl ToString) -> Labels {
    labels.into_iter().chain([(label, value.to_string())]).collect()
}

/// A metric with the value of each thing of which it is known.
fn gauges<T>(registry: &mut Registry, row: &Row<T, f64>, things: &[(Labels, &T)]) {
    let (name, help, value) = row;
    let rows = things.iter().filter_map(|(labels, thing)| Some((labels.clone(), value(thing)?)));
    gauge(registry, name, help, rows);
}

fn gauge(
    registry: &mut Registry,
    name: &str,
    help: &str,
    rows: impl Iterator<Item = (Labels, f64)>,
) {
    let family: Family<Labels, Gauge<f64, AtomicU64>> = Family::default();
    for (labels, value) in rows {
        family.get_or_create(&labels).set(value);
    }
    registry.register(name, help, family);
}

fn count<T>(registry: &mut Registry, row: &Row<T, u64>, things: &[(Labels, &T)]) {
    let (name, help, value) = row;
    let family: Family<Labels, Counter> = Family::default();
    for (labels, thing) in things {
        if let Some(value) = value(thing) {
            family.get_or_create(labels).inc_by(value);
        }
    }
    registry.register(*name, *help, family);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::status::{
        DiskErrors, LaneStatus, LatencyStatus, ScheduleStatus, SlowStatus, TransferStatus,
        VolumeLatency,
    };

    fn status() -> Status {
        let writes =
            LatencyStatus { requests: 3, p50_us: 500, p95_us: 1000, p99_us: 1000, most_us: 1500 };
        let volume = VolumeStatus {
            name: "v".to_string(),
            id: 3,
            size: 1 << 30,
            survives: Some(1),
            mode: VolumeMode::Degraded,
            latency: Some(VolumeLatency { writes: Some(writes), ..VolumeLatency::default() }),
            ..VolumeStatus::default()
        };
        let totals = Totals { requests: 7, ..Totals::default() };
        let up = NodeStatus {
            state: NodeState::Up,
            disk_bytes: Some(4096),
            stale_sectors: Some(2),
            copied_bytes: Some(4096),
            errors: Some(DiskErrors { checksum: 3, ..DiskErrors::default() }),
            counters: Some(Counters { totals, erasures: 1, ..Counters::default() }),
            name: Some("box1".to_string()),
            ..NodeStatus::default()
        };
        let down = NodeStatus { node: 1, ..NodeStatus::default() };
        let scrubs = vec![ScrubStatus { stripes: 9, ..ScrubStatus::default() }];
        let nodes = vec![up, down];
        let lanes = [2, 3].map(|checks| LaneStatus { checks, ..LaneStatus::default() }).into();
        Status { epoch: 5, volumes: vec![volume], nodes, scrubs, lanes, ..Status::default() }
    }

    #[test]
    fn the_page_says_what_the_status_says() {
        let page = page(&status()).unwrap();
        for line in [
            "weft_health 1.0",
            "weft_map_epoch 5.0",
            "weft_volume_size_bytes{volume=\"v\",id=\"3\"} 1073741824.0",
            "weft_volume_survives_nodes{volume=\"v\",id=\"3\"} 1.0",
            "weft_volume_mode{volume=\"v\",id=\"3\",mode=\"degraded\"} 1.0",
            "weft_volume_mode{volume=\"v\",id=\"3\",mode=\"fault-free\"} 0.0",
            "weft_node_state{node=\"0\",process=\"box1\",state=\"up\"} 1.0",
            "weft_node_state{node=\"1\",state=\"down\"} 1.0",
            "weft_disk_checksum_errors{node=\"0\",process=\"box1\"} 3.0",
            "weft_node_stale_bytes{node=\"0\",process=\"box1\"} 8192.0",
            "weft_node_requests_total{node=\"0\",process=\"box1\"} 7",
            "weft_invariant_checks_total 5",
            "weft_node_erasures_total{node=\"0\",process=\"box1\"} 1",
            "weft_volume_latency_seconds{volume=\"v\",id=\"3\",verb=\"write\",quantile=\"0.5\"} 0.0005",
            "weft_volume_latency_requests{volume=\"v\",id=\"3\",verb=\"write\"} 3.0",
            "weft_scrub_stripes{volume=\"\",node=\"0\"} 9.0",
            "# TYPE weft_node_requests counter",
            "# HELP weft_node_requests Host requests.",
        ] {
            assert!(page.lines().any(|l| l == line), "{line} is not in\n{page}");
        }
        assert!(page.ends_with("# EOF\n"));
    }

    /// The names of metrics in a text.
    fn names(text: &str) -> BTreeSet<String> {
        let letter = |c: char| c.is_ascii_lowercase() || c == '_';
        let words = text.split(|c| !letter(c)).filter(|w| w.starts_with("weft_"));
        words.map(str::to_string).collect()
    }

    #[test]
    fn documents_rules_and_dashboard_name_what_there_is() {
        let mut full = status();
        let up = &mut full.nodes[0];
        (up.queued, up.in_flight, up.clock_is_ahead_seconds) = (Some(0), Some(0), Some(1));
        (up.rebuilt_bytes_per_second, up.rebuild_seconds_left) = (Some(1), Some(1));
        (up.used_bytes, up.free_bytes, up.absence) = (Some(0), Some(0), Some(Default::default()));
        let slow = SlowStatus {
            read_microseconds: Some(1),
            write_microseconds: Some(1),
            ..SlowStatus::default()
        };
        (up.slots, up.slow) = (Some(Default::default()), Some(slow));
        full.logins.refused.insert("tls".to_string(), 1);
        full.volumes[0].used_bytes = Some(0);
        let imported = TransferStatus { imported_until: Some(1), ..TransferStatus::default() };
        full.volumes[0].transfer = Some(imported);
        let kind = ScheduleStatus { age_seconds: Some(1), ..ScheduleStatus::default() };
        full.volumes[0].schedule = vec![kind];
        let page = page(&full).unwrap();
        let lines = page.lines().filter(|l| !l.starts_with('#'));
        let there = names(&lines.collect::<Vec<_>>().join("\n"));
        let documented = names(include_str!("../../../docs/use/monitoring.md"));
        assert_eq!(documented, there, "docs/use/monitoring.md");
        for (file, text) in [
            ("weft.rules.yml", include_str!("../../../packaging/monitoring/weft.rules.yml")),
            (
                "weft-dashboard.json",
                include_str!("../../../packaging/monitoring/weft-dashboard.json"),
            ),
        ] {
            let used = names(text);
            assert!(!used.is_empty());
            let unknown: Vec<_> = used.difference(&there).collect();
            assert!(unknown.is_empty(), "{file}: {unknown:?}");
        }
        let dashboard = include_str!("../../../packaging/monitoring/weft-dashboard.json");
        serde_json::from_str::<serde_json::Value>(dashboard).unwrap();
    }
}
