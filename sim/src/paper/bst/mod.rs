//! The evaluation of "Highly concurrent shared storage" (Amiri, Gibson and Golding, ICDCS 2000),
//! sections 4.2 to 4.6: base storage transactions (BSTs) of hosts that are their own controllers,
//! under five protocols of concurrency control.
//!
//! What the paper leaves open and how it was chosen is in docs/lab/papers/bst.md. One number was
//! fitted, on the text's "about 50% sustained utilization" of the devices at the baseline: how many
//! operations a host keeps going ([`OUTSTANDING`]).

use weft_load::Kind;
use weft_load::workload::{Addresses, Arrivals, Class, Requests, Spacing, Think, Workload};

use super::{Case, Effort, Evaluation, Metric, Point, Setting, Value};
use crate::perf::{
    CalculatedAt, Commit, Disks, Dispatch, Fabric, Fault, FaultKind, Hosts, Layout, Links, Measure,
    MessageTimes, Nodes, Ordering, PathLengths, Roles, Stripes, System, VolumeSpec, WarmUp,
};

/// All of it.
pub const EVALUATION: Evaluation = Evaluation {
    title: "Shared storage's evaluation, repeated",
    experiments: &EXPERIMENTS,
    cases,
    settings: &SETTINGS,
    along,
    curve: |experiment| match experiment {
        "figure-6" | "figure-9" => Some((Metric::ThroughputOpsS, Metric::LatencyMs)),
        _ => None,
    },
    derive: |_| {},
    trace: None,
};

/// The names of the experiments, in the order of the paper; those after Figure 11 are not in it.
const EXPERIMENTS: [&str; 11] = [
    "table-2",
    "figure-6",
    "figure-9",
    "figure-10",
    "figure-10-open",
    "figure-11",
    "stripe-unit",
    "lock-cost",
    "lock-servers",
    "degraded",
    "scale",
];

/// Bytes of a block. The paper has "blocks" and no size; this is Weft's sector.
const BLOCK: u64 = 4096;

/// Blocks of each device (Table 2).
const BLOCKS: u64 = 1_000;

/// Operations that each host keeps going, with a think time after each. Fitted: see
/// docs/lab/papers/bst.md.
const OUTSTANDING: u32 = 2;

/// Devices of a parity group: four data and parity (Table 2).
const GROUP: u16 = 5;

/// What is simulated for each line of Table 2, and for what it does not say.
#[rustfmt::skip]
const SETTINGS: [Setting; 17] = [
    setting("devices", "20 devices", "20 workers"),
    setting("hosts", "16 hosts", "16 nodes without disk, each asked by its own host; 1 more for locks"),
    setting("layout", "RAID level 5, 4 data + parity", "raid5, four groups of 5 devices, left-symmetric"),
    setting("room", "1000 blocks per device", "1000 blocks per device"),
    setting("block", "not said", "4096 bytes; stripe unit 1 block"),
    setting("think time", "normal, mean 80 ms, var. 10ms", "normal, mean 80 ms, standard deviation 10 ms"),
    setting("outstanding", "not said", "2 for each host (fitted on the utilization)"),
    setting("reads", "70%", "70%"),
    setting("size", "uniform, 1-4 blocks", "uniform, 1 to 4 blocks"),
    setting("address", "random", "uniform in a group's active part, multiples of a block"),
    setting("positioning", "8ms", "8 ms, constant; FCFS"),
    setting("disk transfer", "16MB/sec", "16 MB/s"),
    setting("network", "1-2ms overhead per message", "latency uniform from 1 to 2 ms for each message"),
    setting("links", "10 MBytes/sec switched", "10 MB/s, a link to and from a switch for each node"),
    setting("processing", "750 µsec mean host/lock server message", "exponential, mean 750 us, sent or received; devices: none"),
    setting("locks at devices", "not said", "500 instructions at 10 MIPS (50 us) for each message that asks for them or gives them back"),
    setting("clocks", "within a practical few milliseconds", "off by up to 3 ms, uniform, constant in a run"),
];

const fn setting(name: &'static str, paper: &'static str, value: &'static str) -> Setting {
    Setting { experiment: "table-2", name, paper, value }
}

/// The protocols, by the names of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    ZeroOverhead,
    ServerLocking,
    CallbackLocking,
    DeviceLocks,
    Timestamps,
}

impl Protocol {
    const ALL: [Protocol; 5] = [
        Protocol::ZeroOverhead,
        Protocol::ServerLocking,
        Protocol::CallbackLocking,
        Protocol::DeviceLocks,
        Protocol::Timestamps,
    ];

    /// Those of Figure 6.
    const CENTRAL: [Protocol; 3] =
        [Protocol::ZeroOverhead, Protocol::ServerLocking, Protocol::CallbackLocking];

    fn name(self) -> Value {
        Value::Name(match self {
            Protocol::ZeroOverhead => "zero-overhead",
            Protocol::ServerLocking => "server-locking",
            Protocol::CallbackLocking => "callback-locking",
            Protocol::DeviceLocks => "device-locks",
            Protocol::Timestamps => "timestamps",
        })
    }

    fn ordering(self) -> Ordering {
        match self {
            Protocol::ZeroOverhead => Ordering::None,
            Protocol::ServerLocking => Ordering::LockServer,
            Protocol::CallbackLocking => Ordering::CallbackLocks,
            Protocol::DeviceLocks => Ordering::DeviceLocks,
            Protocol::Timestamps => Ordering::Timestamps,
        }
    }
}

/// What varies between the points.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Setup {
    hosts: u32,
    devices: u16,
    active_fraction: f64,
    message_window_ms: f64,
    /// Operations a second that come, answered or not; `None`: each host keeps some going.
    open_s: Option<f64>,
    /// Blocks of a stripe unit.
    unit_blocks: u64,
    /// What a message that asks a device's locks or timestamps costs it.
    lock_instructions: u64,
    /// Among how many servers locks are divided.
    lock_servers: u32,
    /// Whether one device is dead from the beginning.
    degraded: bool,
    /// How long a run of the full form is.
    seconds: f64,
}

/// Table 2.
const BASELINE: Setup = Setup {
    hosts: 16,
    devices: 20,
    active_fraction: 1.0,
    message_window_ms: 2.0,
    open_s: None,
    unit_blocks: 1,
    lock_instructions: LOCK,
    lock_servers: 1,
    degraded: false,
    seconds: 500.0,
};

/// How long a run is that is not in the paper in this form, or in which something grows as long as it runs: it says no more
/// after a minute.
const MINUTE: f64 = 60.0;

/// Instructions of a look-up in a table of locks or timestamps, and an entry there; a processor of 10 MIPS takes 50 us for
/// them. The paper says nothing of it.
const LOCK: u64 = 500;

/// The cases of all experiments, or of those named.
fn cases(effort: Effort, only: &[String]) -> Vec<Case> {
    let mut cases = Vec::new();
    for experiment in EXPERIMENTS {
        if only.is_empty() || only.iter().any(|o| o == experiment) {
            let protocols = match experiment {
                "figure-6" => &Protocol::CENTRAL[..],
                "lock-servers" => &Protocol::CENTRAL[1..],
                _ => &Protocol::ALL[..],
            };
            for protocol in protocols {
                let at = |setup: &Setup| case(experiment, *protocol, setup, effort);
                cases.extend(setups(experiment, effort).iter().map(at));
            }
        }
    }
    cases
}

/// The points of an experiment, for each protocol.
fn setups(experiment: &str, effort: Effort) -> Vec<Setup> {
    let pick = |full: &'static [f64], quick: &'static [f64]| match effort {
        Effort::Full => full,
        Effort::Quick => quick,
    };
    match experiment {
        // The baseline is the fourth point from the left.
        "figure-6" | "figure-9" => {
            let hosts = pick(&[4.0, 8.0, 12.0, 16.0, 24.0, 32.0, 64.0], &[4.0, 16.0, 32.0, 64.0]);
            hosts.iter().map(|h| Setup { hosts: *h as u32, ..BASELINE }).collect()
        }
        "figure-10" => {
            // The text's extreme is 2 %; two more beyond it.
            let fractions =
                pick(&[0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0], &[0.005, 0.02, 0.1, 1.0]);
            fractions.iter().map(|f| Setup { active_fraction: *f, ..BASELINE }).collect()
        }
        "figure-11" => {
            let windows = pick(&[1.0, 2.0, 4.0, 6.0, 8.0, 10.0], &[1.0, 2.0, 10.0]);
            windows.iter().map(|w| Setup { message_window_ms: *w, ..BASELINE }).collect()
        }
        "figure-10-open" => {
            let rates = pick(&[300.0, 400.0, 450.0, 500.0, 550.0], &[300.0, 550.0]);
            let open = Setup { active_fraction: 0.02, seconds: MINUTE, ..BASELINE };
            let at = |rate: &f64| Setup { open_s: Some(*rate), ..open };
            rates.iter().map(at).collect()
        }
        "stripe-unit" => {
            let blocks = pick(&[1.0, 2.0, 4.0, 8.0], &[1.0, 4.0]);
            blocks.iter().map(|n| Setup { unit_blocks: *n as u64, ..BASELINE }).collect()
        }
        "lock-cost" => {
            let costs = pick(&[0.0, 500.0, 2_500.0, 7_500.0], &[0.0, 7_500.0]);
            costs.iter().map(|n| Setup { lock_instructions: *n as u64, ..BASELINE }).collect()
        }
        "lock-servers" => {
            let servers = pick(&[1.0, 2.0, 4.0, 8.0], &[1.0, 4.0]);
            let at = |hosts: u32| {
                let busy = Setup { hosts, seconds: MINUTE, ..BASELINE };
                servers.iter().map(move |n| Setup { lock_servers: *n as u32, ..busy })
            };
            [16, 64].into_iter().flat_map(at).collect()
        }
        "degraded" => [false, true].map(|degraded| Setup { degraded, ..BASELINE }).to_vec(),
        "scale" => {
            let sizes = [(16, 20), (64, 250), (256, 1_000)];
            sizes
                .iter()
                .map(|(hosts, devices)| Setup { hosts: *hosts, devices: *devices, ..BASELINE })
                .collect()
        }
        _ => vec![BASELINE],
    }
}

fn case(experiment: &'static str, protocol: Protocol, setup: &Setup, effort: Effort) -> Case {
    let mut point: Point = vec![("protocol", protocol.name())];
    point.push(("hosts", Value::Count(setup.hosts.into())));
    if experiment == "scale" {
        point.push(("devices", Value::Count(setup.devices.into())));
    }
    match experiment {
        "figure-10-open" => {
            point.push(("arrivals_s", Value::Number(setup.open_s.unwrap_or_default())));
        }
        "stripe-unit" => point.push(("unit_blocks", Value::Count(setup.unit_blocks))),
        "lock-cost" => point.push(("lock_instructions", Value::Count(setup.lock_instructions))),
        "lock-servers" => point.push(("lock_servers", Value::Count(setup.lock_servers.into()))),
        _ => {}
    }
    if experiment == "degraded" {
        point.push(("degraded", Value::Switch(setup.degraded)));
    }
    point.push(("active_fraction", Value::Number(setup.active_fraction)));
    point.push(("message_window_ms", Value::Number(setup.message_window_ms)));
    let mut metrics = vec![
        (Metric::ThroughputOpsS, None),
        (Metric::LatencyMs, None),
        (Metric::DelayedFraction, None),
        (Metric::MessagesPerOp, None),
    ];
    match experiment {
        // "About 50% sustained utilization" (4.1).
        "table-2" => metrics.push((Metric::DeviceUtilization, Some(0.5))),
        "scale" | "figure-10-open" | "stripe-unit" | "lock-servers" | "degraded" => {
            metrics.push((Metric::DeviceUtilization, None));
        }
        _ => {}
    }
    Case { experiment, point, system: system(protocol, setup, measure(setup, effort)), metrics }
}

/// Five runs, of 500 seconds in the paper (Table 2).
fn measure(setup: &Setup, effort: Effort) -> Measure {
    let (seconds, replications, rounds) = match effort {
        Effort::Full => (setup.seconds, 5, 20),
        Effort::Quick => (8.0, 2, 8),
    };
    // Of the largest arrays a second says as much as a minute of the small one.
    let size = f64::from(setup.devices) / f64::from(BASELINE.devices);
    Measure {
        warm_up: WarmUp::Requests(u64::from(setup.hosts * OUTSTANDING) * rounds),
        seconds: Some(seconds / size),
        replications,
        ..Measure::default()
    }
}

/// Table 2's system.
fn system(protocol: Protocol, setup: &Setup, measure: Measure) -> System {
    System {
        nodes: Nodes {
            roles: Roles::Host,
            workers: setup.devices,
            originators: 0,
            lock_servers: setup.lock_servers,
            // Messages of hosts and of the lock server cost time, locks cost the devices some, and nothing else does.
            path: PathLengths { lock: setup.lock_instructions, ..PathLengths::NONE },
            ..Nodes::default()
        },
        disks: Disks {
            model: "shared-storage".to_string(),
            size_bytes: Some(BLOCKS * BLOCK),
            ..Disks::default()
        },
        links: Links {
            fabric: Fabric::Switch,
            mb_s: 10.0,
            latency_us: 1_000.0,
            latency_most_us: Some(setup.message_window_ms * 1_000.0),
            set_up_us: 0.0,
            ..Links::default()
        },
        hosts: Hosts {
            ask_us: 0.0,
            reply_us: 0.0,
            message_us: 750.0,
            message_times: MessageTimes::Exponential,
            clock_ms: 3.0,
            ..Hosts::default()
        },
        volume: VolumeSpec {
            layout: Layout("raid5".to_string()),
            unit: setup.unit_blocks * BLOCK,
            width: Some(GROUP),
            size_bytes: None,
            calculated_at: Some(CalculatedAt::Originator),
            // Table 1: small, large and full-stripe writes.
            stripes: Stripes::Large,
            dispatch: Dispatch::Commanded,
            // Section 3.2.3: nothing is written before the commit point, and nobody votes.
            commit: Commit::Limited,
            ordering: protocol.ordering(),
            // Too short for the queues: what the paper names as a cause (4.4).
            lock_timeout_ms: match setup.open_s {
                Some(_) => 20.0,
                None => VolumeSpec::default().lock_timeout_ms,
            },
            ..VolumeSpec::default()
        },
        faults: match setup.degraded {
            true => vec![Fault::of_node(0.0, FaultKind::NodeDies, 0)],
            false => Vec::new(),
        },
        measure,
        ..System::under(workload(setup))
    }
}

fn workload(setup: &Setup) -> Workload {
    let class = |kind, blocks, share| Class { kind, bytes: blocks * BLOCK, weight: share / 4.0 };
    let classes = (1..=4).flat_map(|n| [class(Kind::Read, n, 0.7), class(Kind::Write, n, 0.3)]);
    Workload {
        hosts: setup.hosts,
        arrivals: match setup.open_s {
            Some(rate_per_s) => Arrivals::Open { rate_per_s, spacing: Spacing::Poisson },
            None => Arrivals::Closed {
                population: OUTSTANDING,
                think: Think::NormalUs { mean: 80_000.0, deviation: 10_000.0 },
            },
        },
        requests: Requests::Mix(classes.collect()),
        addresses: Addresses::Part {
            share: setup.active_fraction,
            regions: u64::from(setup.devices / GROUP),
        },
        align_bytes: Some(BLOCK),
    }
}

/// The key along an experiment's horizontal axis.
fn along(experiment: &str) -> &'static str {
    match experiment {
        "figure-10" => "active_fraction",
        "figure-10-open" => "arrivals_s",
        "figure-11" => "message_window_ms",
        "stripe-unit" => "unit_blocks",
        "lock-cost" => "lock_instructions",
        "lock-servers" => "lock_servers",
        "table-2" | "degraded" => "protocol",
        _ => "hosts",
    }
}

#[cfg(test)]
mod tests;
