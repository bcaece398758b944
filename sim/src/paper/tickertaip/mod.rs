//! The evaluation of "The TickerTAIP parallel RAID architecture" (Cao, Lim, Venkataraman and
//! Wilkes, ACM TOCS 12(3), August 1994), sections 4.3 to 4.7.
//!
//! What the paper leaves open and how it was chosen is in docs/lab/papers/tickertaip.md. Two numbers
//! were fitted, on Table VII and the OLTP row of Table VIII: how many requests are outstanding
//! when the array is "driven to saturation" ([`SATURATED`]), and how many in the imitated
//! workloads ([`IMITATED`]).

use weft_load::workload::{Addresses, Arrivals, Imitation, Requests, Think, Workload};
use weft_model::schedule::Policy as Scheduler;

use super::{Case, Effort, Evaluation, Metric, Value};
use crate::perf::{
    CalculatedAt, Commit, Dispatch, Fabric, Layout, Links, Measure, Nodes, Stripes, System,
    VolumeSpec,
};

/// Requests outstanding in all when throughput is measured: of each of nine streams of requests,
/// shared by the four hosts' ports, one.
const SATURATED: u32 = 9;

/// The same for the imitated workloads.
const IMITATED: u32 = 56;

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

/// All of it.
pub const EVALUATION: Evaluation = Evaluation {
    title: "TickerTAIP's evaluation, repeated",
    experiments: &EXPERIMENTS,
    cases,
    settings: &[],
    along: |experiment| match experiment {
        "figure-9" | "figure-12" | "figure-13" => "mips",
        "figure-14" => "workers",
        "table-8" => "workload",
        "figure-15" => "load",
        _ => "size_bytes",
    },
    curve: |_| None,
    derive: |_| {},
    trace: None,
};

/// The names of the experiments, in the order of the paper; the last is about its section 3.5.
const EXPERIMENTS: [&str; 11] = [
    "table-7",
    "figure-8",
    "figure-9",
    "figure-10",
    "figure-11",
    "figure-12",
    "figure-13",
    "figure-14",
    "table-8",
    "figure-15",
    "coalescing",
];

/// The three systems compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Central,
    TickerTaip,
    Striping,
}

impl Kind {
    const ALL: [Kind; 3] = [Kind::Central, Kind::TickerTaip, Kind::Striping];

    fn name(self) -> Value {
        Value::Name(match self {
            Kind::Central => "central",
            Kind::TickerTaip => "tickertaip",
            Kind::Striping => "striping",
        })
    }
}

/// How a case is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Load {
    /// So many requests outstanding.
    Outstanding(u32),
    /// One request in the whole system.
    Single,
}

struct Build {
    effort: Effort,
    cases: Vec<Case>,
}

/// The cases of all experiments, or of those named.
fn cases(effort: Effort, only: &[String]) -> Vec<Case> {
    let mut build = Build { effort, cases: Vec::new() };
    build.table_7();
    build.figure_8();
    build.figure_9();
    build.figure_10();
    build.figure_11();
    build.figure_12();
    build.figure_13();
    build.figure_14();
    build.table_8();
    build.figure_15();
    build.coalescing();
    let wanted = |c: &Case| only.is_empty() || only.iter().any(|o| o == c.experiment);
    build.cases.into_iter().filter(wanted).collect()
}

/// The paper's array (4.2): 11 workers, 4 of them originators too, 4 KB stripe units,
/// left-symmetric RAID 5, spin-synchronised disks, FCFS; at-parity, large stripes, late commit.
fn array(kind: Kind, mips: f64, link_mb_s: f64) -> System {
    let striping = kind == Kind::Striping;
    let central = kind == Kind::Central;
    System {
        nodes: Nodes {
            workers: if striping { 10 } else { 11 },
            // "A single, dedicated originator node" (4.5).
            originators: if central { 0 } else { 4 },
            mips,
            ..Nodes::default()
        },
        links: Links { fabric: Fabric::PointToPoint, mb_s: link_mb_s, ..Links::default() },
        volume: VolumeSpec {
            layout: Layout(if striping { "raid0" } else { "raid5" }.to_string()),
            unit: 4 * KIB,
            width: None,
            size_bytes: None,
            calculated_at: Some(if central {
                CalculatedAt::Originator
            } else {
                CalculatedAt::Parity
            }),
            stripes: Stripes::Large,
            // Its workers "did read and write operations only when directed to do so".
            dispatch: if central { Dispatch::Commanded } else { Dispatch::Collaborative },
            // One controller decides alone; without parity there is nothing to keep in step.
            commit: if central || striping { Commit::None } else { Commit::Late },
            ..VolumeSpec::default()
        },
        ..System::under(fixed(4 * KIB, 1.0))
    }
}

fn fixed(bytes: u64, read_share: f64) -> Workload {
    workload(Requests::Fixed { bytes, read_share })
}

fn workload(requests: Requests) -> Workload {
    Workload {
        hosts: 1,
        arrivals: Arrivals::Closed { population: 1, think: Think::default() },
        requests,
        addresses: Addresses::Uniform,
        // Stripe units, whatever the sizes.
        align_bytes: Some(4 * KIB),
    }
}

impl Build {
    /// How many requests are measured: 10,000 for throughput and 2,000 for latency in the paper;
    /// of large ones fewer, since each touches all disks many times over.
    fn measure(&self, bytes: u64, load: Load) -> Measure {
        let units = bytes.div_ceil(4 * KIB);
        let most = if load == Load::Single { 2_000 } else { 10_000 };
        let (most, least, all) = match self.effort {
            Effort::Full => (most, 300, 250_000),
            Effort::Quick => (most / 5, 40, 8_000),
        };
        Measure {
            requests: (all / units).clamp(least, most),
            replications: match self.effort {
                Effort::Full => 5,
                Effort::Quick => 3,
            },
            ..Measure::default()
        }
    }

    fn add(
        &mut self,
        experiment: &'static str,
        point: Vec<(&'static str, Value)>,
        mut system: System,
        load: Load,
        paper: Option<f64>,
    ) {
        let bytes = match &system.workload.requests {
            Requests::Fixed { bytes, .. } => *bytes,
            Requests::Imitation(Imitation::LargeScientific) => 300 * KIB,
            Requests::Imitation(Imitation::SmallScientific) => 32 * KIB,
            _ => 8 * KIB,
        };
        system.measure = self.measure(bytes, load);
        let (hosts, metric) = match load {
            Load::Outstanding(n) => (n, Metric::ThroughputMbS),
            Load::Single => (1, Metric::ResponseMs),
        };
        system.workload.hosts = hosts;
        self.cases.push(Case { experiment, point, system, metrics: vec![(metric, paper)] });
    }

    /// Throughput when saturated, and response time of one request alone.
    fn both(&mut self, experiment: &'static str, point: &[(&'static str, Value)], system: &System) {
        for load in [Load::Outstanding(SATURATED), Load::Single] {
            self.add(experiment, point.to_vec(), system.clone(), load, None);
        }
    }

    /// Read performance for fixed-size workloads, with varying link speeds.
    fn table_7(&mut self) {
        let rows = [
            (4 * KIB, 0.94, [33.0, 31.0, 30.0]),
            (40 * KIB, 1.79, [38.0, 34.0, 33.0]),
            (MIB, 15.2, [178.0, 86.0, 76.0]),
            (10 * MIB, 21.1, [1520.0, 610.0, 520.0]),
        ];
        let op = || ("op", Value::Name("read"));
        let size = |bytes| ("size_bytes", Value::Count(bytes));
        for (bytes, throughput, latencies) in rows {
            let system = |link| System {
                workload: fixed(bytes, 1.0),
                ..array(Kind::TickerTaip, 10.0, link)
            };
            let saturated = Load::Outstanding(SATURATED);
            let point = vec![op(), size(bytes)];
            self.add("table-7", point, system(10.0), saturated, Some(throughput));
            for (link, latency) in [1.0, 10.0, 100.0].into_iter().zip(latencies) {
                let point = vec![op(), size(bytes), ("link_mb_s", Value::Number(link))];
                self.add("table-7", point, system(link), Load::Single, Some(latency));
            }
        }
    }

    /// Effect of the large-stripe policy.
    fn figure_8(&mut self) {
        for units in [1, 2, 4, 5, 6, 7, 8, 9, 10, 100, 256] {
            for large in [false, true] {
                let mut system = array(Kind::TickerTaip, 10.0, 10.0);
                system.workload = fixed(units * 4 * KIB, 0.0);
                system.volume.stripes = if large { Stripes::Large } else { Stripes::Small };
                let point = [
                    ("op", Value::Name("write")),
                    ("size_bytes", Value::Count(units * 4 * KIB)),
                    ("large_stripe", Value::Switch(large)),
                ];
                self.both("figure-8", &point, &system);
            }
        }
    }

    /// Effect of the place where parity is computed; 1 MB random writes.
    fn figure_9(&mut self) {
        for mips in [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0] {
            for (name, at) in
                [("originator", CalculatedAt::Originator), ("parity", CalculatedAt::Parity)]
            {
                let mut system = array(Kind::TickerTaip, mips, 10.0);
                system.workload = fixed(MIB, 0.0);
                system.volume.calculated_at = Some(at);
                let point = [
                    ("op", Value::Name("write")),
                    ("size_bytes", Value::Count(MIB)),
                    ("mips", Value::Number(mips)),
                    ("calculator", Value::Name(name)),
                ];
                self.both("figure-9", &point, &system);
            }
        }
    }

    /// Effect of the commit protocol.
    fn figure_10(&mut self) {
        for bytes in sizes(self.effort) {
            let policies =
                [("none", Commit::None), ("early", Commit::Early), ("late", Commit::Late)];
            for (name, commit) in policies {
                let mut system = array(Kind::TickerTaip, 10.0, 10.0);
                system.workload = fixed(bytes, 0.0);
                system.volume.commit = commit;
                let point = [
                    ("op", Value::Name("write")),
                    ("size_bytes", Value::Count(bytes)),
                    ("commit", Value::Name(name)),
                ];
                self.both("figure-10", &point, &system);
            }
        }
    }

    /// Three architectures: writes of all sizes at 10 MIPS and 10 MB/s.
    fn figure_11(&mut self) {
        for bytes in sizes(self.effort) {
            for kind in Kind::ALL {
                let mut system = array(kind, 10.0, 10.0);
                system.workload = fixed(bytes, 0.0);
                let point = [
                    ("system", kind.name()),
                    ("op", Value::Name("write")),
                    ("size_bytes", Value::Count(bytes)),
                ];
                self.both("figure-11", &point, &system);
            }
        }
    }

    fn by_speeds(&mut self, experiment: &'static str, kind: Kind, mips: f64, link: f64) {
        let mut system = array(kind, mips, link);
        system.workload = fixed(MIB, 0.0);
        let point = [
            ("system", kind.name()),
            ("op", Value::Name("write")),
            ("size_bytes", Value::Count(MIB)),
            ("mips", Value::Number(mips)),
            ("link_mb_s", Value::Number(link)),
        ];
        self.both(experiment, &point, &system);
    }

    /// 1 MB random writes over both processor and link speed.
    fn figure_12(&mut self) {
        let speeds: &[f64] = match self.effort {
            Effort::Full => &[1.0, 2.0, 5.0, 10.0, 20.0, 50.0],
            Effort::Quick => &[1.0, 10.0, 50.0],
        };
        for kind in [Kind::Central, Kind::TickerTaip] {
            for mips in speeds {
                speeds.iter().for_each(|link| self.by_speeds("figure-12", kind, *mips, *link));
            }
        }
    }

    /// 1 MB random writes, both speeds varying together.
    fn figure_13(&mut self) {
        for kind in [Kind::Central, Kind::TickerTaip] {
            for speed in [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0] {
                self.by_speeds("figure-13", kind, speed, speed);
            }
        }
    }

    /// The array's size: writes of 400 KB, and of ten full stripes.
    fn figure_14(&mut self) {
        for workers in [5, 8, 11, 16, 21, 26, 31] {
            let stripes = u64::from(workers - 1) * 40 * KIB;
            for (writes, bytes) in [("400-kb", 400 * KIB), ("ten-stripes", stripes)] {
                let mut system = array(Kind::TickerTaip, 10.0, 10.0);
                system.nodes.workers = workers;
                system.workload = fixed(bytes, 0.0);
                let point = [
                    ("op", Value::Name("write")),
                    ("writes", Value::Name(writes)),
                    ("size_bytes", Value::Count(bytes)),
                    ("workers", Value::Count(workers.into())),
                ];
                self.both("figure-14", &point, &system);
            }
        }
    }

    /// Throughputs of three architectures under imitated workloads.
    fn table_8(&mut self) {
        let rows = [
            ("oltp", Imitation::Oltp, 10.0),
            ("timeshare", Imitation::Timeshare, 1.0),
            ("timeshare", Imitation::Timeshare, 10.0),
            ("small-scientific", Imitation::SmallScientific, 1.0),
            ("small-scientific", Imitation::SmallScientific, 10.0),
            ("large-scientific", Imitation::LargeScientific, 10.0),
        ];
        for (name, imitation, speed) in rows {
            for kind in Kind::ALL {
                let mut system = array(kind, speed, speed);
                system.workload = workload(Requests::Imitation(imitation));
                let point = vec![
                    ("workload", Value::Name(name)),
                    ("system", kind.name()),
                    ("link_mb_s", Value::Number(speed)),
                    ("mips", Value::Number(speed)),
                ];
                let paper = match (name, kind) {
                    ("oltp", Kind::Striping) => Some(1.63),
                    ("oltp", _) => Some(0.59),
                    _ => None,
                };
                self.add("table-8", point, system, Load::Outstanding(IMITATED), paper);
            }
        }
    }

    /// The order in which disks serve their queues, over the load.
    fn figure_15(&mut self) {
        let workloads = [
            ("fixed", fixed(40 * KIB, 0.0), Some(40 * KIB)),
            ("fixed", fixed(MIB, 0.0), Some(MIB)),
            ("oltp", workload(Requests::Imitation(Imitation::Oltp)), None),
        ];
        let loads: &[u32] = match self.effort {
            Effort::Full => &[1, 2, 4, 8, 16, 32, 64, 128, 256],
            Effort::Quick => &[1, 8, 32],
        };
        for (name, workload, bytes) in workloads {
            for (scheduler, policy) in [
                ("fcfs", Scheduler::Fcfs),
                ("sstf", Scheduler::Sstf),
                ("satf", Scheduler::Satf),
                ("bnn", Scheduler::Bnn),
            ] {
                for load in loads {
                    let mut system = array(Kind::TickerTaip, 10.0, 10.0);
                    system.workload = workload.clone();
                    system.disks.scheduler = policy;
                    let mut point = vec![("workload", Value::Name(name))];
                    if let Some(bytes) = bytes {
                        point.push(("op", Value::Name("write")));
                        point.push(("size_bytes", Value::Count(bytes)));
                    }
                    point.push(("scheduler", Value::Name(scheduler)));
                    point.push(("load", Value::Count((*load).into())));
                    self.add("figure-15", point, system, Load::Outstanding(*load), None);
                    let case = self.cases.last_mut().expect("just added");
                    case.metrics.push((Metric::ResponseMs, None));
                }
            }
        }
    }
}

impl Build {
    /// Whether transfers of a write that follow one another on a disk are one (3.5).
    fn coalescing(&mut self) {
        for bytes in sizes(self.effort).into_iter().filter(|bytes| *bytes > 40 * KIB) {
            for coalesce in [false, true] {
                let mut system = array(Kind::TickerTaip, 10.0, 10.0);
                system.workload = fixed(bytes, 0.0);
                system.nodes.coalesce = coalesce;
                let point = [
                    ("op", Value::Name("write")),
                    ("size_bytes", Value::Count(bytes)),
                    ("coalesce", Value::Switch(coalesce)),
                ];
                self.both("coalescing", &point, &system);
            }
        }
    }
}

/// Sizes of writes along the figures' axes.
fn sizes(effort: Effort) -> Vec<u64> {
    let units: &[u64] = match effort {
        Effort::Full => &[1, 2, 5, 10, 25, 50, 100, 256, 1024, 2560],
        Effort::Quick => &[1, 10, 100, 256],
    };
    units.iter().map(|n| n * 4 * KIB).collect()
}

#[cfg(test)]
mod tests;
