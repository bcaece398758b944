//! The evaluation of "A Performance Comparison between the DR-net and a Hierarchical RAID System" (Mimatsu and Yokota,
//! PRDC 2000), section 4: DR-net's disks on a torus beside the same disks behind controllers and buses.
//!
//! What the paper leaves open and how it was chosen is in docs/lab/papers/drnet.md. Nothing was fitted.

use weft_load::workload::{Addresses, Arrivals, Requests, Workload};

use super::{Case, Effort, Evaluation, Metric, Point, Setting, Value};
use crate::perf::{
    CalculatedAt, Commit, Disks, Dispatch, Fabric, Fault, FaultKind, Hierarchy, Hosts, Layout,
    Links, Measure, Nodes, Ordering, PathLengths, Recovery, Stripes, System, VolumeSpec, WarmUp,
};

/// All of it.
pub const EVALUATION: Evaluation = Evaluation {
    title: "DR-net's evaluation, repeated",
    experiments: &EXPERIMENTS,
    cases,
    settings: &SETTINGS,
    along,
    curve: |_| None,
    derive: |_| {},
    trace: None,
};

/// The names of the experiments, in the order of the paper.
const EXPERIMENTS: [&str; 9] = [
    "table-1",
    "figure-5",
    "figure-6",
    "figure-7",
    "table-2",
    "figure-8",
    "figure-9",
    "figure-10",
    "figure-11",
];

/// Bytes of a request, and of a stripe unit (Table 1).
const UNIT: u64 = 65_536;

/// Disks of a cell, and of a first group.
const CELL: u16 = 25;

/// Disks of each interface, and disks for each controller (Table 1).
const PER_INTERFACE: u16 = 5;
const PER_CONTROLLER: u16 = 50;

/// Requests that a disk node has accepted at most; a controller as many for each of its disks (Table 1).
const BUFFERS: u32 = 5;

/// What a disk node and a controller add up, in 10^6 bytes a second (Table 1).
const XOR_NODE: f64 = 10.0;
const XOR_CONTROLLER: f64 = 200.0;

/// Blocks that are read ahead for rebuilds (section 4.2: "pre-fetched up to 10 disk blocks"): by each helper on the
/// torus, and by a controller in all.
const PREFETCHED: u32 = 10;

/// Disks that a unit is rebuilt from.
const HELPERS: u32 = 4;

/// Of each disk so much is used where one is rebuilt: more than is in the time that is measured.
const REBUILT_BYTES: u64 = 6_000 * UNIT;

/// What is simulated for each line of Tables 1 and 2, and for what they do not say.
#[rustfmt::skip]
const SETTINGS: [Setting; 24] = [
    setting("DR-net link", "100 MB/s, 50 us", "100 MB/s each way, 50 us for each link; cut-through, shortest ways"),
    setting("front-end bus", "1 GB/s, 1 us", "1000 MB/s, 1 us, one message after the other"),
    setting("intermediate bus", "400 MB/s, 1 us", "400 MB/s, 1 us"),
    setting("back-end bus", "100 MB/s, 1 us", "100 MB/s, 1 us; 10 disks"),
    setting("arbitration", "random", "random; each message takes each bus once"),
    setting("XOR, disk node", "10 MB/s", "100 ns for each byte that is added"),
    setting("XOR, array controller", "200 MB/s", "5 ns for each byte that is added"),
    setting("buffers, disk node", "5", "5 for each disk that requests begin at"),
    setting("buffers, array controller", "250", "5 for each of its disks"),
    setting("interfaces", "1/5", "one for 5 disks; on the torus in the middle of a link, a knight's move from the next"),
    setting("array controllers", "1/50", "one for 50 disks"),
    setting("parity groups", "1/5", "layout drnet on cells of 25 disks; parity rotates"),
    setting("torus", "not said", "nearest to a square, both sides multiples of 5"),
    setting("unit of access", "64 KB", "65,536 bytes: a request and a stripe unit"),
    setting("average seek", "8.2 ms", "8.2 ms, constant; no rotation; FCFS"),
    setting("transfer", "50 MB/s", "50 MB/s"),
    setting("destination", "random", "uniform over all units"),
    setting("messages", "not said", "64 bytes and the data"),
    setting("read ahead for a rebuild", "up to 10 blocks", "10 by each helper on the torus; 10 by a controller in all, which leads"),
    setting("commit and order", "not said", "none: disks write when they can; nothing orders requests"),
    of_table_2("40x10", "1 GB/s, 200 MB/s", "40 disks on a bus, 5 buses for each of 2 controllers; 1000 and 200 MB/s"),
    of_table_2("20x20", "1 GB/s, 200 MB/s", "20 disks on a bus, 10 buses for each of 2 controllers; 1000 and 200 MB/s"),
    of_table_2("10x40", "400 MB/s, 100 MB/s", "10 disks on a bus, 4 times 5 buses for each of 2 controllers; 400 and 100 MB/s"),
    of_table_2("interfaces", "not said", "80, as many as in the structure that was modified"),
];

const fn setting(name: &'static str, paper: &'static str, value: &'static str) -> Setting {
    Setting { experiment: "table-1", name, paper, value }
}

const fn of_table_2(name: &'static str, paper: &'static str, value: &'static str) -> Setting {
    Setting { experiment: "table-2", name, paper, value }
}

/// How disks are connected.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    DrNet,
    Hierarchy,
    /// Two controllers, with so many disks on a back-end bus (Table 2).
    Modified(u16),
}

impl Form {
    fn name(self) -> Value {
        Value::Name(match self {
            Form::DrNet => "dr-net",
            Form::Hierarchy => "hierarchy",
            Form::Modified(40) => "40x10",
            Form::Modified(20) => "20x20",
            Form::Modified(_) => "10x40",
        })
    }

    fn controllers(self, disks: u16) -> u16 {
        match self {
            Form::DrNet => disks / PER_INTERFACE,
            Form::Hierarchy => disks / PER_CONTROLLER,
            Form::Modified(_) => 2,
        }
    }

    /// What its nodes add up, in 10^6 bytes a second (Table 1).
    fn xor_mb_s(self) -> f64 {
        if self == Form::DrNet { XOR_NODE } else { XOR_CONTROLLER }
    }
}

/// What varies between the points.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Setup {
    form: Form,
    disks: u16,
    read_share: f64,
    /// Of the front-end bus.
    front_mb_s: f64,
    set_up_us: f64,
    xor_mb_s: f64,
    /// Disks that are filled.
    failed: u16,
}

/// The cases of all experiments, or of those named.
fn cases(effort: Effort, only: &[String]) -> Vec<Case> {
    let wanted = |name: &&&str| only.is_empty() || only.iter().any(|o| o == **name);
    let named = EXPERIMENTS.iter().filter(wanted);
    named.flat_map(|name| setups(name, effort).into_iter().map(|s| case(name, s, effort))).collect()
}

fn setup(form: Form, disks: u16, read_share: f64) -> Setup {
    let front_mb_s = 1_000.0;
    Setup {
        form,
        disks,
        read_share,
        front_mb_s,
        set_up_us: 1.0,
        xor_mb_s: form.xor_mb_s(),
        failed: 0,
    }
}

/// The points of an experiment.
fn setups(experiment: &str, effort: Effort) -> Vec<Setup> {
    let both = [Form::DrNet, Form::Hierarchy];
    let few = effort == Effort::Quick;
    let wide = |form, read_share| Setup { front_mb_s: 3_000.0, ..setup(form, 400, read_share) };
    let modified = [Form::Modified(40), Form::Modified(20), Form::Modified(10)];
    match experiment {
        "table-1" => {
            both.iter().flat_map(|f| [1.0, 0.0].map(|reads| setup(*f, 50, reads))).collect()
        }
        "figure-5" | "figure-6" => {
            let sizes: &[u16] =
                if few { &[50, 200, 500] } else { &[50, 100, 150, 200, 250, 300, 400, 500] };
            let reads = if experiment == "figure-5" { 1.0 } else { 0.0 };
            both.iter().flat_map(|f| sizes.iter().map(move |n| setup(*f, *n, reads))).collect()
        }
        "figure-7" => {
            let times: &[f64] = if few { &[1.0, 5.0] } else { &[1.0, 2.0, 3.0, 4.0, 5.0] };
            let at = |us: &f64| both.map(|f| Setup { set_up_us: *us, ..wide(f, 1.0) });
            times.iter().flat_map(at).collect()
        }
        "table-2" => modified.map(|form| wide(form, 0.5)).to_vec(),
        "figure-8" => [&both[..1], &modified].concat().iter().map(|f| wide(*f, 1.0)).collect(),
        "figure-9" => {
            let rates: &[f64] =
                if few { &[200.0, 500.0] } else { &[100.0, 200.0, 300.0, 400.0, 500.0] };
            let at = |form: &Form| {
                let form = *form;
                rates.iter().map(move |rate| Setup { xor_mb_s: *rate, ..wide(form, 0.0) })
            };
            // DR-net's nodes stay as they are.
            let flat = rates.iter().map(|_| wide(Form::DrNet, 0.0)).take(1);
            flat.chain(modified.iter().flat_map(at)).collect()
        }
        _ => {
            let (reads, failed) = if experiment == "figure-10" { (1.0, 1) } else { (0.0, 2) };
            let times: &[f64] = if few { &[1.0] } else { &[0.5, 1.0, 2.0, 4.0] };
            let at = |form: Form| {
                let xor = move |times: &f64| form.xor_mb_s() * times;
                times.iter().map(move |t| Setup {
                    failed,
                    xor_mb_s: xor(t),
                    ..setup(form, 50, reads)
                })
            };
            both.iter().flat_map(|form| at(*form)).collect()
        }
    }
}

fn case(experiment: &'static str, setup: Setup, effort: Effort) -> Case {
    let mut point: Point = vec![("system", setup.form.name())];
    point.push(("disks", Value::Count(setup.disks.into())));
    point.push(("read_share", Value::Number(setup.read_share)));
    match experiment {
        "figure-7" => point.push(("set_up_us", Value::Number(setup.set_up_us))),
        "figure-9" | "figure-10" | "figure-11" => {
            point.push(("xor_mb_s", Value::Number(setup.xor_mb_s)));
        }
        _ => {}
    }
    let mut metrics = vec![
        (Metric::ThroughputOpsS, None),
        (Metric::LatencyMs, None),
        (Metric::MessagesPerOp, None),
        (Metric::DeviceUtilization, None),
    ];
    if setup.failed > 0 {
        metrics.insert(0, (Metric::RebuildMbS, None));
    }
    Case { experiment, point, system: system(&setup, measure(&setup, effort)), metrics }
}

fn measure(setup: &Setup, effort: Effort) -> Measure {
    let disks = u64::from(setup.disks);
    let (each, replications) = match effort {
        Effort::Full => (30, 3),
        Effort::Quick => (10, 1),
    };
    let rebuild = match effort {
        Effort::Full => 20.0,
        Effort::Quick => 8.0,
    };
    Measure {
        // Twice what all buffers hold.
        warm_up: WarmUp::Requests(disks * u64::from(BUFFERS) * 2),
        requests: disks * each,
        seconds: (setup.failed > 0).then_some(rebuild),
        replications,
        ..Measure::default()
    }
}

/// Table 1's system.
fn system(setup: &Setup, measure: Measure) -> System {
    let Setup { form, disks, .. } = *setup;
    let controllers = form.controllers(disks);
    let is_drnet = form == Form::DrNet;
    System {
        nodes: Nodes {
            workers: disks,
            originators: 0,
            controllers: Some(controllers),
            buffers: Some(if is_drnet {
                BUFFERS
            } else {
                BUFFERS * u32::from(disks / controllers)
            }),
            // One instruction for each byte that is added, and nothing else takes time.
            mips: setup.xor_mb_s,
            path: PathLengths { xor_byte: 1.0, ..PathLengths::NONE },
            ..Nodes::default()
        },
        disks: Disks {
            model: "drnet".to_string(),
            size_bytes: (setup.failed > 0).then_some(REBUILT_BYTES),
            ..Disks::default()
        },
        links: if is_drnet { torus() } else { buses(setup) },
        hosts: Hosts { ask_us: 0.0, reply_us: 0.0, ..Hosts::default() },
        volume: VolumeSpec {
            layout: Layout("drnet".to_string()),
            unit: UNIT,
            width: Some(CELL),
            // "A new parity block is generated by a read-modify-write operation" (2.3).
            stripes: Stripes::Small,
            calculated_at: Some(if is_drnet {
                // "A parallel parity calculation is done in multiple nodes" (4.2).
                if setup.failed > 0 { CalculatedAt::Tree } else { CalculatedAt::Parity }
            } else {
                CalculatedAt::Originator
            }),
            dispatch: if is_drnet { Dispatch::Collaborative } else { Dispatch::Commanded },
            commit: Commit::None,
            ordering: Ordering::None,
            ..VolumeSpec::default()
        },
        faults: (0..setup.failed).flat_map(|n| replaced(failing(form, n))).collect(),
        // The paper asks for block by block.
        recovery: Recovery {
            at_once: prefetched(setup),
            at_once_busy: prefetched(setup),
            together_bytes: 0,
            // What a host reads meanwhile is regenerated for it, and the rebuild goes on in order.
            on_demand: false,
            ..Recovery::default()
        },
        measure,
        ..System::under(Workload {
            hosts: (disks / PER_INTERFACE).into(),
            arrivals: Arrivals::Saturating,
            requests: Requests::Fixed { bytes: UNIT, read_share: setup.read_share },
            addresses: Addresses::Uniform,
            align_bytes: Some(UNIT),
        })
    }
}

/// Units that each disk which is filled has in work.
fn prefetched(setup: &Setup) -> u32 {
    match setup.form {
        Form::DrNet => PREFETCHED,
        Form::Hierarchy | Form::Modified(_) => {
            (PREFETCHED / HELPERS / u32::from(setup.failed.max(1))).max(1)
        }
    }
}

/// A disk dies at the beginning, and an empty one is there at once.
fn replaced(node: u16) -> [Fault; 2] {
    [FaultKind::NodeDies, FaultKind::DiskReplaced].map(|what| Fault::of_node(0.0, what, node))
}

/// The disks that fail: of one first group two neighbours.
fn failing(form: Form, n: u16) -> u16 {
    match form {
        Form::DrNet => n,
        _ => n * Hierarchy::default().disks_per_bus,
    }
}

fn torus() -> Links {
    Links {
        fabric: Fabric::Torus,
        mb_s: 100.0,
        set_up_us: 50.0,
        latency_us: 0.0,
        ..Links::default()
    }
}

fn buses(setup: &Setup) -> Links {
    let usual = Hierarchy::default();
    let hierarchy = match setup.form {
        Form::Modified(disks_per_bus @ (40 | 20)) => {
            Hierarchy { disks_per_bus, intermediate_mb_s: 1_000.0, back_end_mb_s: 200.0, ..usual }
        }
        // The bandwidths "became higher in some systems because their number of ports are increased" (4.1): of this one they
        // did not, so an intermediate bus has five back-end buses as before.
        Form::Modified(disks_per_bus) => {
            Hierarchy { disks_per_bus, intermediate_buses: 4, ..usual }
        }
        Form::DrNet | Form::Hierarchy => usual,
    };
    Links {
        fabric: Fabric::Hierarchy,
        mb_s: setup.front_mb_s,
        set_up_us: setup.set_up_us,
        latency_us: 0.0,
        hierarchy: Some(hierarchy),
        ..Links::default()
    }
}

/// The key along an experiment's horizontal axis.
fn along(experiment: &str) -> &'static str {
    match experiment {
        "figure-5" | "figure-6" => "disks",
        "figure-7" => "set_up_us",
        "figure-9" | "figure-10" | "figure-11" => "xor_mb_s",
        _ => "system",
    }
}

#[cfg(test)]
mod tests;
