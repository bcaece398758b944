//! The evaluation of "AFRAID: A Frequently Redundant Array of Independent Disks" (Savage and Wilkes, USENIX 1996), sections
//! 3 and 4: arrays whose parity waits, beside RAID 5 and the same disks without any.
//!
//! What the paper leaves open, what was chosen, and what was calibrated on which of its words is in docs/lab/papers/afraid.md. What
//! it says about trading availability for performance is kept back: that is predicted here, and never looked up.

mod derived;
mod workloads;

use weft_core::exposure::{self, COVERAGE, DISK_MTTF_RAW_H, Disks as Failing, Rates};
use weft_core::policy::{Timing, Valued};
use weft_load::workload::{Addresses, Arrivals, Requests, Trace, Workload};
use weft_model::schedule::Policy as Scheduler;

use super::{Case, Effort, Evaluation, Metric, Point, Setting, Value};
use crate::perf::{
    CalculatedAt, Commit, Disks, Fabric, Hosts, JournalAt, Layout, Links, Measure, Nodes, Ordering,
    Outcome, PathLengths, Recovery, RedundancySpec, Roles, Store, Stripes, System, VolumeSpec,
    WarmUp,
};
use workloads::{Load, WORKLOADS};

/// All of it.
pub const EVALUATION: Evaluation = Evaluation {
    title: "AFRAID's evaluation, repeated",
    experiments: &EXPERIMENTS,
    cases,
    settings: &SETTINGS,
    along: |experiment| match experiment {
        "figure-4" => "policy",
        _ => "workload",
    },
    curve: |experiment| {
        let both = (Metric::RelativePerformance, Metric::RelativeAvailability);
        (experiment == "figure-3").then_some(both)
    },
    derive: derived::add,
    trace: Some(("hplajw_1week.csv.gz", replay)),
};

/// The names of the experiments, in the order of the paper.
const EXPERIMENTS: [&str; 7] =
    ["table-1", "table-2", "figure-2", "table-3", "table-4", "figure-3", "figure-4"];

/// Bytes of a stripe unit, and of a disk (Table 1).
const UNIT: u64 = 8_192;
const DISK_BYTES: f64 = 2e9;

/// For how long the array must have been idle (4.1).
const IDLE_MS: f64 = 100.0;

/// The requests of hplajw's busiest day: so many come before it in the week's trace, and so many are its.
const BEFORE_BUSIEST: u64 = 5_911;
const OF_BUSIEST: u64 = 21_134;

/// What is simulated for each line of Table 1, and for what it does not say.
#[rustfmt::skip]
const SETTINGS: [Setting; 18] = [
    setting("disk MTTF, raw", "1M hours", "1,000,000 hours"),
    setting("coverage", "0.5", "0.5: 2,000,000 hours until an unpredicted failure"),
    setting("MTTR", "48 hours", "48 hours"),
    setting("support MTTDL", "2M hours", "2,000,000 hours"),
    setting("stripe unit", "8KB", "8,192 bytes"),
    setting("size of disk", "2GB", "2 * 10^9 bytes in the equations; the model has 2.1"),
    setting("disks", "not said; examples have 5", "5, and 9 of ATT and the AS400s; docs/lab/papers/afraid.md says why"),
    setting("disk", "HP C3325", "hp-c3325, a stand-in; spin-synchronised"),
    setting("layout", "left-symmetric RAID 5", "raid5"),
    setting("host's queue", "CLOOK", "c-look; as many requests in the array as it has disks"),
    setting("disks' queues", "FCFS", "fcfs"),
    setting("controller", "not said", "one, central; its processor and buses take no time"),
    setting("array's cache", "256KB, write-through; hits are rare", "none"),
    setting("idle", "100ms, of the array", "100 ms, of the array: the controller's account"),
    setting("refreshing", "a stripe at a time", "a stripe at a time"),
    setting("marks", "one bit for each stripe, in NVRAM", "of 4,096 bytes each, in memory that takes no time"),
    setting("RAID 0", "an AFRAID that never updates parity", "the same: redundancy never"),
    setting("MTTDL_x", "of the array, continuously; 20 stripes", "of the array, by the controller's account; 20 stripes"),
];

const fn setting(name: &'static str, paper: &'static str, value: &'static str) -> Setting {
    Setting { experiment: "table-1", name, paper, value }
}

/// When parity is computed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum When {
    /// RAID 0: never.
    Never,
    /// RAID 5: with each write.
    Immediate,
    /// When there is time.
    Baseline,
    /// MTTDL_x: so, as long as so many hours are achieved.
    Target(u64, &'static str),
    /// Not the paper's: with Weft's journal, there.
    Journalled(JournalAt, Timing),
}

impl When {
    /// Those of the paper.
    const ALL: [When; 10] = [
        When::Never,
        When::Immediate,
        When::Baseline,
        When::Target(600_000, "mttdl-0.6M"),
        When::Target(1_000_000, "mttdl-1M"),
        When::Target(2_000_000, "mttdl-2M"),
        When::Target(5_000_000, "mttdl-5M"),
        When::Target(20_000_000, "mttdl-20M"),
        When::Target(100_000_000, "mttdl-100M"),
        When::Target(500_000_000, "mttdl-500M"),
    ];

    /// Those with a journal. Copies are in it, so they are compared with the others that have one.
    const JOURNALLED: [When; 6] = [
        When::Journalled(JournalAt::Disk, Timing::Immediate),
        When::Journalled(JournalAt::Disk, Timing::Deferred),
        When::Journalled(JournalAt::Disk, Timing::Copied),
        When::Journalled(JournalAt::Nvram, Timing::Immediate),
        When::Journalled(JournalAt::Nvram, Timing::Deferred),
        When::Journalled(JournalAt::Nvram, Timing::Copied),
    ];

    fn system(self) -> &'static str {
        match self {
            When::Never => "raid0",
            When::Immediate => "raid5",
            When::Baseline | When::Target(..) => "afraid",
            When::Journalled(JournalAt::Disk, _) => "journal-on-disk",
            When::Journalled(JournalAt::Nvram, _) => "journal-in-nvram",
        }
    }

    fn policy(self) -> &'static str {
        match self {
            When::Never => "never",
            When::Immediate => "immediate",
            When::Baseline => "baseline",
            When::Target(_, name) => name,
            When::Journalled(_, timing) => timing.word(),
        }
    }

    fn spec(self) -> RedundancySpec {
        let (timing, mttdl_h) = match self {
            When::Never => (Timing::Never, None),
            When::Immediate => (Timing::Immediate, None),
            When::Baseline => (Timing::Deferred, None),
            When::Target(hours, _) => (Timing::Deferred, Some(hours)),
            When::Journalled(_, timing) => (timing, None),
        };
        RedundancySpec { timing, mttdl_h, idle_ms: IDLE_MS, ..RedundancySpec::default() }
    }

    /// The controller and the nodes with disks. Copies are sent by the node that a host uses: then the controller is such a node,
    /// and each disk judges by itself whether it is idle.
    fn nodes(self, workers: u16) -> Nodes {
        let roles = match self {
            When::Journalled(_, Timing::Immediate | Timing::Copied) => Roles::Array,
            _ => Roles::Central,
        };
        let (store, journal) = match self {
            When::Journalled(at, _) => (Store::Journalled, at),
            _ => (Store::Plain, JournalAt::Disk),
        };
        let path = PathLengths::NONE;
        Nodes { workers, roles, originators: 0, store, journal, path, ..Nodes::default() }
    }
}

/// The cases of all experiments, or of those named.
fn cases(effort: Effort, only: &[String]) -> Vec<Case> {
    let wanted = |name: &&&str| only.is_empty() || only.iter().any(|o| o == **name);
    let named = EXPERIMENTS.iter().filter(wanted);
    named.flat_map(|name| experiment(name, effort)).collect()
}

/// All experiments look at the same runs, each for something else.
fn experiment(name: &'static str, effort: Effort) -> Vec<Case> {
    let metrics: &[Metric] = match name {
        "table-1" => &[Metric::MttdlDiskH, Metric::MdlrBH],
        "table-3" => {
            &[Metric::UnprotectedShare, Metric::ParityLagBytes, Metric::MttdlDiskH, Metric::MttdlH]
        }
        "table-4" => &[Metric::MdlrUnprotectedBH, Metric::MdlrBH],
        "figure-3" => &[Metric::ResponseMs, Metric::MttdlH],
        _ => &[Metric::ResponseMs],
    };
    let case = |load: &Load, when: When| {
        let point: Point = vec![
            ("workload", Value::Name(load.name)),
            ("system", Value::Name(when.system())),
            ("policy", Value::Name(when.policy())),
        ];
        let metrics = metrics.iter().map(|m| (*m, None)).collect();
        Case { experiment: name, point, system: system(load, when, effort), metrics }
    };
    let loads = if name == "table-1" { &WORKLOADS[..1] } else { &WORKLOADS[..] };
    let (whens, more): (&[When], &[When]) = match name {
        "table-1" => (&When::ALL[1..2], &[]),
        "figure-3" => (&When::ALL, &When::JOURNALLED),
        _ => (&When::ALL, &[]),
    };
    let of = |load| whens.iter().chain(more).map(move |when| case(load, *when));
    loads.iter().flat_map(of).collect()
}

/// The array of section 4.1 under a workload.
fn system(load: &Load, when: When, effort: Effort) -> System {
    System {
        nodes: when.nodes(load.disks),
        disks: Disks {
            model: "hp-c3325".to_string(),
            scheduler: Scheduler::Fcfs,
            synchronized: true,
            ..Disks::default()
        },
        links: Links { fabric: Fabric::Bus, mb_s: 1e6, latency_us: 0.0, ..Links::default() },
        hosts: Hosts {
            ask_us: 0.0,
            reply_us: 0.0,
            admits: Some(load.disks.into()),
            scheduler: Scheduler::CLook,
            ..Hosts::default()
        },
        volume: VolumeSpec {
            layout: Layout("raid5".to_string()),
            unit: UNIT,
            stripes: Stripes::Large,
            calculated_at: Some(CalculatedAt::Originator),
            // Parity that waits needs votes; they take no time here.
            commit: Commit::Late,
            ordering: Ordering::Timestamps,
            journal: matches!(when, When::Journalled(..)),
            redundancy: when.spec(),
            ..VolumeSpec::default()
        },
        recovery: Recovery { at_once: 1, at_once_busy: 1, ..Recovery::default() },
        measure: Measure {
            warm_up: WarmUp::Requests(0),
            requests: match effort {
                Effort::Full => OF_BUSIEST.min(load.requests),
                Effort::Quick => 1_500,
            },
            replications: 1,
            ..Measure::default()
        },
        ..System::under(load.workload())
    }
}

/// The busiest day of hplajw's trace takes the place of its look-alike.
fn replay(case: &mut Case, file: &str) {
    if case.point[0].1 == Value::Name("hplajw") {
        let trace =
            Trace { skip: Some(BEFORE_BUSIEST), requests: Some(OF_BUSIEST), ..Trace::of(file) };
        case.system.workload = Workload {
            arrivals: Arrivals::Traced { speed: 1.0 },
            requests: Requests::Trace(trace),
            addresses: Addresses::default(),
            align_bytes: None,
            ..case.system.workload.clone()
        };
    }
}

/// What a run's exposure means for availability, by the equations of section 3.
pub(super) fn availability(metric: Metric, system: &System, run: &Outcome) -> f64 {
    let disks = Failing::new(
        system.nodes.workers.into(),
        exposure::unpredicted_mttf(DISK_MTTF_RAW_H, COVERAGE),
    );
    let (share, lag) = (run.exposure.unprotected_share, run.exposure.lag_bytes);
    let mttdl = Rates::new(&disks, 1, 0).mttdl(share);
    let data = (disks.count - 1.0) / disks.count;
    match metric {
        Metric::UnprotectedShare => share,
        Metric::ParityLagBytes => lag,
        Metric::MttdlDiskH => mttdl,
        Metric::MttdlH => exposure::together(mttdl, exposure::SUPPORT_MTTDL_H),
        Metric::MdlrUnprotectedBH => disks.mdlr_unprotected(1, lag),
        // (5), and what is lost with the support components: all data.
        _ => {
            let support = DISK_BYTES * disks.count * data / exposure::SUPPORT_MTTDL_H;
            disks.mdlr_catastrophic(2, DISK_BYTES, data) + disks.mdlr_unprotected(1, lag) + support
        }
    }
}

#[cfg(test)]
mod tests;
