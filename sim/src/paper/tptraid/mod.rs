//! The evaluation of "TPT-RAID: a High Performance Box-Fault Tolerant Storage System" (Birk and Zilber, 2007), section 4:
//! a controller that no data passes beside one that all data passes, on the same machines around one switch.
//!
//! What the paper leaves open and how it was chosen is in docs/lab/papers/tptraid.md, and so is what was fitted: the
//! [`Costs`] of a controller.
//!
//! - [`checklist`]: the sentences of sections 4.1, 4.2 and 5, met or not met

mod checklist;

use weft_load::workload::{Addresses, Arrivals, Requests, Think, Workload};

use super::{Case, Effort, Evaluation, Metric, Point, Setting, Value};
use crate::perf::{
    CalculatedAt, Commands, Commit, Disks, Fabric, Fault, FaultKind, Hosts, Layout, Links, Machine,
    Measure, Nodes, Ordering, Outcome, PathLengths, Recovery, Roles, Stripes, System, VolumeSpec,
    WarmUp,
};

/// All of it.
pub const EVALUATION: Evaluation = Evaluation {
    title: "TPT-RAID's evaluation, repeated",
    experiments: &EXPERIMENTS,
    cases,
    settings: &SETTINGS,
    along,
    curve: |experiment| match experiment {
        "latency" => Some((Metric::ThroughputMbS, Metric::LatencyMs)),
        _ => None,
    },
    derive: checklist::add,
    trace: None,
};

/// The names of the experiments, in the order of the paper; the last three are not in it.
const EXPERIMENTS: [&str; 9] = [
    "figure-5",
    "figure-6",
    "table-1",
    "degraded",
    "latency",
    "checklist",
    "commands",
    "traffic",
    "star-and-tree",
];

const KB: u64 = 1024;

/// Targets of a parity group (Table 1: N = 5).
const TARGETS: u16 = 5;

/// What a controller's work costs, in nanoseconds: see docs/lab/papers/tptraid.md.
#[derive(Clone, Copy, Debug)]
struct Costs {
    /// A host's request, from taking it in to its answer.
    request: u64,
    /// A command to a target, from sending it to its end. Fitted.
    command: u64,
    /// A byte that a machine sends from its buffers: registering them, page by page. Fitted.
    byte: f64,
}

const COSTS: Costs = Costs { request: 10_000, command: 5_000, byte: 0.85 };

/// A message of any kind: posting it, and taking in that one has come.
const POST: u64 = 500;
const TAKE: u64 = 1_000;

/// A byte that is added up for parity, in nanoseconds: more than half of what the processor of the baseline's controller
/// does in large writes, for there it "is busy performing XOR operations" (4.1).
const XOR_BYTE: f64 = 1.5;

/// 10^6 bytes a second of data on a port each way, and microseconds across the switch.
const PORT_MB_S: f64 = 985.0;
const LATENCY_US: f64 = 3.0;

/// What was simulated for what section 4 says, and for what it does not.
#[rustfmt::skip]
const SETTINGS: [Setting; 14] = [
    setting("targets", "5", "5 workers, RAID 5 of 4 data + parity, left-symmetric"),
    setting("hosts", "unlimited", "4, two requests each; maximum throughput is read off what the controller is used"),
    setting("controller", "1", "a node without disk"),
    setting("network", "10 Gb/s full duplex, one switch", "985 MB/s each way, one port for each machine; 3 us"),
    setting("processors", "2 x 3.2 GHz for each machine", "one, in nanoseconds; costs below are of both together"),
    setting("request", "not said", "10 us at the controller"),
    setting("command", "not said", "see docs/lab/papers/tptraid.md: fitted"),
    setting("byte sent", "not said", "see docs/lab/papers/tptraid.md: fitted"),
    setting("XOR", "not said", "1.5 ns a byte: more than half of the work of large writes (4.1)"),
    setting("disks", "answer at once", "answer at once"),
    setting("block", "4, 32, 128 KB", "stripe unit of 4, 32, 128 KiB"),
    setting("commands", "one for each block", "as in the paper, see the page; baseline: one for each target"),
    setting("addresses", "not said", "uniform, multiples of the request's size"),
    setting("parity", "star: one target of the group", "at the parity's target"),
];

const fn setting(name: &'static str, paper: &'static str, value: &'static str) -> Setting {
    Setting { experiment: "figure-5", name, paper, value }
}

/// The two prototypes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// A controller out of band.
    Tpt,
    /// One in band.
    Baseline,
}

impl Form {
    const BOTH: [Form; 2] = [Form::Tpt, Form::Baseline];

    fn name(self) -> Value {
        Value::Name(match self {
            Form::Tpt => "tpt",
            Form::Baseline => "baseline",
        })
    }
}

/// What of the array is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loss {
    Nothing,
    /// A target.
    Target,
    /// A target, in whose place an empty one is filled.
    Reconstructed,
}

/// What varies between the points.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Setup {
    form: Form,
    reads: bool,
    block: u64,
    request: u64,
    hosts: u32,
    loss: Loss,
    commands: Commands,
    /// Whether adding up costs anything.
    xor: bool,
    targets: u16,
    /// Who adds up parity, if not who does in the paper.
    calculator: Option<CalculatedAt>,
}

/// The cases of all experiments, or of those named.
fn cases(effort: Effort, only: &[String]) -> Vec<Case> {
    let wanted = |name: &&&str| only.is_empty() || only.iter().any(|o| o == **name);
    let named = EXPERIMENTS.iter().filter(wanted);
    named.flat_map(|name| setups(name, effort).into_iter().map(|s| case(name, s, effort))).collect()
}

fn setup(form: Form, reads: bool, block: u64, request: u64) -> Setup {
    let commands = match form {
        // "The controller sends a separate command for each block" (3.2).
        Form::Tpt => Commands::Block,
        // "The number of such commands per request is independent of block size" (4.1).
        Form::Baseline => Commands::Column,
    };
    let (hosts, loss, xor, targets) = (4, Loss::Nothing, true, TARGETS);
    Setup { form, reads, block, request, hosts, loss, commands, xor, targets, calculator: None }
}

/// All of a list of points with each form and block.
fn everywhere(reads: bool, requests: &[u64]) -> Vec<Setup> {
    let of = |form: Form, block: u64| requests.iter().map(move |r| setup(form, reads, block, *r));
    let blocks =
        |form: Form| [4 * KB, 32 * KB, 128 * KB].into_iter().flat_map(move |b| of(form, b));
    Form::BOTH.into_iter().flat_map(blocks).collect()
}

/// Sizes of requests in Figures 5 and 6.
fn requests(effort: Effort) -> Vec<u64> {
    match effort {
        Effort::Full => (0..=10).map(|n| (4 * KB) << n).collect(),
        Effort::Quick => [4, 64, 128, 512, 4096].map(|n| n * KB).to_vec(),
    }
}

/// The points of an experiment.
fn setups(experiment: &str, effort: Effort) -> Vec<Setup> {
    let both = |of: &dyn Fn(bool) -> Vec<Setup>| [true, false].into_iter().flat_map(of).collect();
    match experiment {
        "figure-5" => everywhere(true, &requests(effort)),
        "figure-6" => everywhere(false, &requests(effort)),
        "table-1" => both(&|reads| table_1(reads)),
        "degraded" => degraded(),
        "latency" => both(&|reads| latency(reads, effort)),
        "checklist" => {
            let mut all: Vec<Setup> = both(&|reads| everywhere(reads, &requests(effort)));
            all.extend(both(&|reads| table_1(reads)));
            all.extend(degraded());
            all.extend(both(&|reads| latency(reads, effort)));
            let idle = setup(Form::Baseline, false, 0, 4096 * KB);
            all.extend([4, 32, 128].map(|b| Setup { xor: false, block: b * KB, ..idle }));
            all.iter()
                .enumerate()
                .filter(|(n, s)| !all[..*n].contains(s))
                .map(|(_, s)| *s)
                .collect()
        }
        "star-and-tree" => star_and_tree(effort),
        "commands" => {
            let of = |reads| everywhere(reads, &[64 * KB, 1024 * KB]);
            let tpt = both(&of).into_iter().filter(|s: &Setup| s.form == Form::Tpt);
            let each = |s: Setup| {
                [Commands::Block, Commands::Column].map(|commands| Setup { commands, ..s })
            };
            tpt.flat_map(each).collect()
        }
        _ => {
            let of = |reads| everywhere(reads, &[64 * KB, 1024 * KB]);
            both(&of).into_iter().filter(|s: &Setup| s.block == 32 * KB).collect()
        }
    }
}

/// Table 1's rows, each at its smallest request and at a larger one.
fn table_1(reads: bool) -> Vec<Setup> {
    let rows = [(4, 64), (4, 1024), (32, 128), (32, 1024), (128, 512), (128, 4096)];
    let of = |(block, request)| setup(Form::Tpt, reads, block * KB, request * KB);
    let all = |of: &dyn Fn((u64, u64)) -> Setup| rows.into_iter().map(of).collect::<Vec<_>>();
    let baseline = |row| Setup { commands: Commands::Column, form: Form::Baseline, ..of(row) };
    [all(&of), all(&baseline)].concat()
}

/// Degraded mode and reconstruction, at a middling size, beside the same with all targets.
fn degraded() -> Vec<Setup> {
    let mut all = Vec::new();
    for form in Form::BOTH {
        for reads in [true, false] {
            for loss in [Loss::Nothing, Loss::Target, Loss::Reconstructed] {
                all.push(Setup { loss, ..setup(form, reads, 32 * KB, 256 * KB) });
            }
        }
    }
    all
}

/// Full stripes by width: one at a time, and of more hosts than it takes to have something to do for all.
fn star_and_tree(effort: Effort) -> Vec<Setup> {
    let widths: &[u16] = if effort == Effort::Full { &[5, 9, 17, 32] } else { &[5, 17] };
    let mut all = Vec::new();
    for calculator in [CalculatedAt::Balanced, CalculatedAt::Tree] {
        for targets in widths {
            let stripe = 32 * KB * u64::from(targets - 1);
            for hosts in [0, 16] {
                let commands = Commands::Column;
                let of = setup(Form::Tpt, false, 32 * KB, stripe);
                let calculator = Some(calculator);
                all.push(Setup { calculator, targets: *targets, hosts, commands, ..of });
            }
        }
    }
    all
}

/// From one request at a time to more than a controller carries.
fn latency(reads: bool, effort: Effort) -> Vec<Setup> {
    let hosts: &[u32] = if effort == Effort::Full { &[0, 1, 2, 4, 8, 16, 32] } else { &[0, 4, 16] };
    let at = |form: Form| {
        let of = move |request: u64, hosts: &u32| Setup {
            hosts: *hosts,
            ..setup(form, reads, 32 * KB, request * KB)
        };
        let zero = [4, 16, 1024].map(|request| of(request, &0));
        zero.into_iter().chain(hosts.iter().map(move |h| of(64, h))).collect::<Vec<_>>()
    };
    Form::BOTH.into_iter().flat_map(at).collect()
}

fn case(experiment: &'static str, setup: Setup, effort: Effort) -> Case {
    let name = |yes, word, other| Value::Name(if yes { word } else { other });
    let mut point: Point = vec![
        ("op", name(setup.reads, "read", "write")),
        ("system", setup.form.name()),
        ("block_kb", Value::Count(setup.block / KB)),
        ("request_kb", Value::Count(setup.request / KB)),
    ];
    let lost = match setup.loss {
        Loss::Nothing => "nothing",
        Loss::Target => "target",
        Loss::Reconstructed => "reconstructed",
    };
    let by_column = setup.commands == Commands::Column;
    let bounds = [Metric::ControllerMbS, Metric::ControllerProcessorMbS, Metric::ControllerPortMbS];
    let mut metrics = bounds.to_vec();
    match experiment {
        "table-1" => metrics = vec![Metric::HostsMulti, Metric::HostsSingle],
        "degraded" => {
            point.push(("lost", Value::Name(lost)));
            metrics.push(Metric::LatencyMs);
            metrics.push(Metric::MessagesPerOp);
        }
        "latency" => {
            point.push(("hosts", Value::Count(setup.hosts.into())));
            metrics = vec![Metric::ThroughputMbS, Metric::LatencyMs];
        }
        "checklist" => {
            point.push(("lost", Value::Name(lost)));
            point.push(("hosts", Value::Count(setup.hosts.into())));
            point.push(("xor", Value::Switch(setup.xor)));
            metrics.extend([Metric::HostsMulti, Metric::LatencyMs]);
        }
        "star-and-tree" => {
            let is_tree = setup.calculator == Some(CalculatedAt::Tree);
            point.push(("calculator", name(is_tree, "tree", "star")));
            point.push(("width", Value::Count(setup.targets.into())));
            point.push(("hosts", Value::Count(setup.hosts.into())));
            metrics = vec![Metric::ThroughputMbS, Metric::LatencyMs, Metric::MessagesPerOp];
        }
        "commands" => {
            point.push(("commands", name(by_column, "column", "block")));
            metrics.push(Metric::LatencyMs);
        }
        "traffic" => {
            metrics = vec![Metric::ControllerTraffic, Metric::TargetTraffic, Metric::HostTraffic];
            metrics.push(Metric::MessagesPerOp);
        }
        _ => {}
    }
    let paper = |metric: Metric| {
        // Table 1's first row: less than one host, whatever the request.
        let fitted = experiment == "table-1" && setup.block == 4 * KB && setup.form == Form::Tpt;
        (metric, fitted.then_some(1.0))
    };
    let metrics = metrics.into_iter().map(paper).collect();
    Case { experiment, point, system: system(&setup, &COSTS, measure(&setup, effort)), metrics }
}

fn measure(setup: &Setup, effort: Effort) -> Measure {
    // Of long requests each says as much as many short ones.
    let requests = if setup.request > 512 * KB { 60 } else { 200 };
    let (times, replications) = match effort {
        Effort::Full => (2, 3),
        Effort::Quick => (1, 1),
    };
    let per_host = u64::from(setup.hosts.max(1));
    Measure {
        warm_up: WarmUp::Requests(40 + 4 * per_host),
        requests: (requests + 20 * per_host) * times,
        replications,
        ..Measure::default()
    }
}

/// The prototype's machines.
fn system(setup: &Setup, costs: &Costs, measure: Measure) -> System {
    System {
        nodes: nodes(setup, costs),
        disks: Disks { in_memory: true, size_bytes: Some(1 << 30), ..Disks::default() },
        links: Links {
            fabric: Fabric::Switch,
            mb_s: PORT_MB_S,
            latency_us: LATENCY_US,
            one_sided: true,
            ..Links::default()
        },
        hosts: Hosts { ask_us: 0.0, reply_us: 0.0, ..Hosts::default() },
        volume: VolumeSpec {
            layout: Layout("raid5".to_string()),
            unit: setup.block,
            stripes: match setup.form {
                // "We do use the XDWRITE command" (3.4), which adds new data to old: parity gets what changes.
                Form::Tpt => Stripes::Small,
                Form::Baseline => Stripes::Large,
            },
            calculated_at: Some(setup.calculator.unwrap_or(match setup.form {
                Form::Tpt => CalculatedAt::Parity,
                Form::Baseline => CalculatedAt::Originator,
            })),
            // "A request is either completed or rolled back" (3.3).
            commit: Commit::Late,
            ordering: Ordering::Timestamps,
            ..VolumeSpec::default()
        },
        faults: faults(setup.loss),
        // "Only control messages pass through the controller" (3.1): it would add up content that is rebuilt on demand.
        recovery: Recovery { on_demand: false, ..Recovery::default() },
        measure,
        ..System::under(Workload {
            hosts: setup.hosts.max(1),
            arrivals: Arrivals::Closed {
                population: if setup.hosts == 0 { 1 } else { 2 },
                think: Think::default(),
            },
            requests: Requests::Fixed {
                bytes: setup.request,
                read_share: if setup.reads { 1.0 } else { 0.0 },
            },
            addresses: Addresses::Uniform,
            align_bytes: Some(setup.request),
        })
    }
}

fn nodes(setup: &Setup, costs: &Costs) -> Nodes {
    Nodes {
        roles: match setup.form {
            Form::Tpt => Roles::Controller,
            Form::Baseline => Roles::Central,
        },
        workers: setup.targets,
        originators: 0,
        // An instruction is a nanosecond.
        mips: 1e3,
        commands: setup.commands,
        path: PathLengths {
            request: costs.request,
            send: POST,
            receive: TAKE,
            command: costs.command,
            // A target does as much for a command as who sends it.
            execute: costs.command,
            send_byte: costs.byte,
            xor_byte: if setup.xor { XOR_BYTE } else { 0.0 },
            ..PathLengths::NONE
        },
        ..Nodes::default()
    }
}

/// What happens at the beginning.
fn faults(loss: Loss) -> Vec<Fault> {
    let kinds: &[FaultKind] = match loss {
        Loss::Nothing => &[],
        Loss::Target => &[FaultKind::NodeDies],
        Loss::Reconstructed => &[FaultKind::NodeDies, FaultKind::DiskReplaced],
    };
    kinds.iter().map(|what| Fault::of_node(0.0, *what, 0)).collect()
}

/// What a run says of the machines.
pub(super) fn of_machines(metric: Metric, run: &Outcome) -> f64 {
    let machines = run.machines.unwrap_or_default();
    let (controller, payload) = (machines.controller, run.throughput_mb_s);
    let share = |of: Machine, mb_s: f64| of.port_mb_s / mb_s;
    match metric {
        Metric::ControllerMbS => payload / controller.busiest(),
        Metric::ControllerProcessorMbS => payload / controller.processor,
        Metric::ControllerPortMbS => payload / controller.port,
        Metric::HostsMulti => machines.hosts_of_controller(),
        Metric::HostsSingle => machines.hosts_of_all(),
        Metric::ControllerTraffic => share(controller, payload),
        Metric::TargetTraffic => share(machines.target, payload),
        _ => share(machines.host, payload / f64::from(machines.hosts)),
    }
}

/// The key along an experiment's horizontal axis.
fn along(experiment: &str) -> &'static str {
    match experiment {
        "degraded" => "lost",
        "latency" => "hosts",
        "checklist" => "system",
        "commands" => "block_kb",
        "star-and-tree" => "width",
        _ => "request_kb",
    }
}

#[cfg(test)]
mod tests;
