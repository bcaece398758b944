//! The papers' evaluations, repeated with Weft's nodes.
//!
//! An evaluation is a list of [`Case`]s: a system to simulate, where the result belongs in the
//! paper, and what the paper has there, if it says. Where a paper's result is not known to those
//! who fit parameters it is left out, so that it can be compared afterwards.

pub mod afraid;
pub mod bst;
pub mod drnet;
pub mod tickertaip;
pub mod tptraid;

use serde::Serialize;

use weft_load::stats::millis;

use crate::perf::{Estimate, Outcome, System};

/// How much is simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// As much as the paper, or enough for relative standard deviations of about 1 %.
    Full,
    /// Enough to see the shape.
    Quick,
}

/// An evaluation that can be repeated.
pub struct Evaluation {
    /// What its results are called.
    pub title: &'static str,
    /// The names of its experiments, in the order of the paper.
    pub experiments: &'static [&'static str],
    /// The cases of the experiments that are named, or of all if none is.
    pub cases: fn(Effort, &[String]) -> Vec<Case>,
    /// What the paper gives in a table of parameters, and the value that was simulated; empty if
    /// it has no such table among its experiments.
    pub settings: &'static [Setting],
    /// The key along an experiment's horizontal axis; the other keys tell its curves apart.
    pub along: fn(&str) -> &'static str,
    /// Of an experiment that draws one metric against another: which is along the horizontal
    /// axis, and which is drawn against it.
    pub curve: fn(&str) -> Option<(Metric, Metric)>,
    /// Adds what follows from several runs to their rows.
    pub derive: fn(&mut Vec<Row>),
    /// The file of a trace that some of its cases have if it is there, and what puts it into a case.
    pub trace: Option<(&'static str, PutTrace)>,
}

/// Puts the trace of a file into a case.
pub type PutTrace = fn(&mut Case, &str);

/// A parameter of a paper's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// The experiment that it belongs to.
    pub experiment: &'static str,
    /// What it is.
    pub name: &'static str,
    /// What the paper says.
    pub paper: &'static str,
    /// What was simulated.
    pub value: &'static str,
}

/// What is read off a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Throughput in 10^6 bytes a second.
    ThroughputMbS,
    /// Mean response time in milliseconds.
    ResponseMs,
    /// Operations a second.
    ThroughputOpsS,
    /// Mean time of an operation in milliseconds.
    LatencyMs,
    /// The share of operations that others delayed.
    DelayedFraction,
    /// Messages from one node to another for each operation.
    MessagesPerOp,
    /// The share of time that devices were in use.
    DeviceUtilization,
    /// What was put back on disks that are filled, in 10^6 bytes a second.
    RebuildMbS,
    /// How many times as fast as RAID 5.
    RelativePerformance,
    /// The share of time in which something was exposed.
    UnprotectedShare,
    /// Bytes of data in exposed stripes, on average.
    ParityLagBytes,
    /// Mean time until disks lose data, in hours.
    MttdlDiskH,
    /// Mean time until data is lost, with the support components, in hours.
    MttdlH,
    /// Bytes an hour that are lost for want of parity.
    MdlrUnprotectedBH,
    /// Bytes an hour that are lost in all.
    MdlrBH,
    /// How many times RAID 5's mean time until data is lost.
    RelativeAvailability,
    /// The throughput at which a controller would be busy all the time, in 10^6 bytes a second.
    ControllerMbS,
    /// The same of its processor alone.
    ControllerProcessorMbS,
    /// The same of its port alone.
    ControllerPortMbS,
    /// Hosts that ask as much as they can carry, and that a controller can.
    HostsMulti,
    /// The same, with one set of targets.
    HostsSingle,
    /// Bytes through the controller's port, both ways, as a share of what hosts read and write.
    ControllerTraffic,
    /// The same of a target's.
    TargetTraffic,
    /// The same of a host's, as a share of what that host reads and writes.
    HostTraffic,
    /// A ratio that a sentence of the paper is about; beside it stands the bound.
    Ratio,
    /// Whether the sentence is met: 1 or 0.
    IsMet,
}

impl Metric {
    /// All of them.
    pub const ALL: [Metric; 26] = [
        Metric::ThroughputMbS,
        Metric::ResponseMs,
        Metric::ThroughputOpsS,
        Metric::LatencyMs,
        Metric::DelayedFraction,
        Metric::MessagesPerOp,
        Metric::DeviceUtilization,
        Metric::RebuildMbS,
        Metric::RelativePerformance,
        Metric::UnprotectedShare,
        Metric::ParityLagBytes,
        Metric::MttdlDiskH,
        Metric::MttdlH,
        Metric::MdlrUnprotectedBH,
        Metric::MdlrBH,
        Metric::RelativeAvailability,
        Metric::ControllerMbS,
        Metric::ControllerProcessorMbS,
        Metric::ControllerPortMbS,
        Metric::HostsMulti,
        Metric::HostsSingle,
        Metric::ControllerTraffic,
        Metric::TargetTraffic,
        Metric::HostTraffic,
        Metric::Ratio,
        Metric::IsMet,
    ];

    /// Its value over independent runs of a system.
    pub fn of(self, system: &System, runs: &[Outcome]) -> Estimate {
        let value = |r: &Outcome| match self {
            Metric::ThroughputMbS => r.throughput_mb_s,
            Metric::ResponseMs | Metric::LatencyMs => millis(r.all.latency.mean()),
            Metric::ThroughputOpsS => r.requests_s,
            Metric::DelayedFraction => r.delayed,
            Metric::MessagesPerOp => r.messages,
            Metric::DeviceUtilization => r.disks.mean,
            Metric::RebuildMbS => r.recovered.and_then(|seen| seen.rebuild_mb_s).unwrap_or(0.0),
            Metric::ControllerMbS
            | Metric::ControllerProcessorMbS
            | Metric::ControllerPortMbS
            | Metric::HostsMulti
            | Metric::HostsSingle
            | Metric::ControllerTraffic
            | Metric::TargetTraffic
            | Metric::HostTraffic => tptraid::of_machines(self, r),
            of_exposure => afraid::availability(of_exposure, system, r),
        };
        Estimate::of(runs.iter().map(value))
    }

    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            Metric::ThroughputMbS => "throughput_mb_s",
            Metric::ResponseMs => "response_ms",
            Metric::ThroughputOpsS => "throughput_ops_s",
            Metric::LatencyMs => "latency_ms",
            Metric::DelayedFraction => "delayed_fraction",
            Metric::MessagesPerOp => "messages_per_op",
            Metric::DeviceUtilization => "device_utilization",
            Metric::RebuildMbS => "rebuild_mb_s",
            Metric::RelativePerformance => "relative_performance",
            Metric::UnprotectedShare => "unprotected_share",
            Metric::ParityLagBytes => "parity_lag_bytes",
            Metric::MttdlDiskH => "mttdl_disk_h",
            Metric::MttdlH => "mttdl_h",
            Metric::MdlrUnprotectedBH => "mdlr_unprotected_b_h",
            Metric::MdlrBH => "mdlr_b_h",
            Metric::RelativeAvailability => "relative_availability",
            Metric::ControllerMbS => "controller_mb_s",
            Metric::ControllerProcessorMbS => "controller_processor_mb_s",
            Metric::ControllerPortMbS => "controller_port_mb_s",
            Metric::HostsMulti => "hosts_multi",
            Metric::HostsSingle => "hosts_single",
            Metric::ControllerTraffic => "controller_traffic",
            Metric::TargetTraffic => "target_traffic",
            Metric::HostTraffic => "host_traffic",
            Metric::Ratio => "ratio",
            Metric::IsMet => "is_met",
        }
    }

    /// What it is, for people.
    pub fn label(self) -> &'static str {
        match self {
            Metric::ThroughputMbS => "throughput, MB/s",
            Metric::ResponseMs => "response time, ms",
            Metric::ThroughputOpsS => "throughput, operations/s",
            Metric::LatencyMs => "latency, ms",
            Metric::DelayedFraction => "operations delayed by others",
            Metric::MessagesPerOp => "messages for each operation",
            Metric::DeviceUtilization => "share of time that devices are in use",
            Metric::RebuildMbS => "rebuilding, MB/s",
            Metric::RelativePerformance => "performance relative to RAID 5",
            Metric::UnprotectedShare => "share of time unprotected",
            Metric::ParityLagBytes => "mean parity lag, bytes",
            Metric::MttdlDiskH => "disk-related MTTDL, hours",
            Metric::MttdlH => "MTTDL, hours",
            Metric::MdlrUnprotectedBH => "MDLR due to missing parity, bytes/hour",
            Metric::MdlrBH => "MDLR, bytes/hour",
            Metric::RelativeAvailability => "availability relative to RAID 5",
            Metric::ControllerMbS => "most throughput of a controller, MB/s",
            Metric::ControllerProcessorMbS => "most throughput of a controller's processor, MB/s",
            Metric::ControllerPortMbS => "most throughput of a controller's port, MB/s",
            Metric::HostsMulti => "hosts of a controller, several target sets",
            Metric::HostsSingle => "hosts of a controller, one target set",
            Metric::ControllerTraffic => "through the controller's port, for each byte of requests",
            Metric::TargetTraffic => "through a target's port, for each byte of requests",
            Metric::HostTraffic => "through a host's port, for each byte of its requests",
            Metric::Ratio => "ratio",
            Metric::IsMet => "met",
        }
    }
}

/// A value of a point.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Value {
    /// A name.
    Name(&'static str),
    /// A count or size.
    Count(u64),
    /// A rate.
    Number(f64),
    /// On or off.
    Switch(bool),
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Value::Name(name) => f.write_str(name),
            Value::Count(n) => n.fmt(f),
            Value::Number(x) => x.fmt(f),
            Value::Switch(on) => f.write_str(if *on { "on" } else { "off" }),
        }
    }
}

/// Where on a table's rows or a figure's axes and curves.
pub type Point = Vec<(&'static str, Value)>;

/// One simulation of an evaluation.
#[derive(Clone, Debug)]
pub struct Case {
    /// Which table or figure.
    pub experiment: &'static str,
    /// Where in it.
    pub point: Point,
    /// What is simulated.
    pub system: System,
    /// What is read off, and what the paper has there.
    pub metrics: Vec<(Metric, Option<f64>)>,
}

/// A result beside the paper's.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Which table or figure.
    pub experiment: &'static str,
    /// Where in it.
    #[serde(serialize_with = "as_map")]
    pub point: Point,
    /// What was measured.
    pub metric: Metric,
    /// Its mean.
    pub measured: f64,
    /// Half the width of its 95 % confidence interval.
    pub ci95: Option<f64>,
    /// The standard deviation of its runs as a share of the mean. No part of the row's JSON, whose
    /// form is fixed.
    #[serde(skip)]
    pub relative_deviation: Option<f64>,
    /// What the paper says, if that is known here.
    pub paper: Option<f64>,
}

impl Row {
    /// Whether its interval is too wide for it to say much: more than a fifth of it.
    pub fn is_vague(&self) -> bool {
        self.ci95.is_some_and(|half| half > self.measured.abs() / 5.0)
    }
}

fn as_map<S: serde::Serializer>(point: &Point, to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(point.iter().map(|(key, value)| (*key, value)))
}

/// Asserts that every experiment of an evaluation has cases, that each can be simulated, and that no
/// two have the same place.
#[cfg(test)]
fn cases_are_sound(evaluation: &Evaluation) {
    use std::collections::BTreeSet;
    for effort in [Effort::Full, Effort::Quick] {
        let cases = (evaluation.cases)(effort, &[]);
        let named: BTreeSet<&str> = cases.iter().map(|c| c.experiment).collect();
        assert_eq!(named, evaluation.experiments.iter().copied().collect());
        let mut places = BTreeSet::new();
        for case in &cases {
            case.system.check().unwrap_or_else(|p| panic!("{:?}: {p}", case.point));
            for (metric, _) in &case.metrics {
                let place = format!("{} {:?} {metric:?}", case.experiment, case.point);
                assert!(places.insert(place), "{} {:?}", case.experiment, case.point);
            }
            let key = (evaluation.along)(case.experiment);
            assert!(case.point.iter().any(|p| p.0 == key), "{} has no {key}", case.experiment);
        }
    }
}

impl Case {
    /// Its rows, from its independent runs.
    pub fn rows(&self, runs: &[Outcome]) -> Vec<Row> {
        let row = |(metric, paper): &(Metric, Option<f64>)| {
            let estimate = metric.of(&self.system, runs);
            Row {
                experiment: self.experiment,
                point: self.point.clone(),
                metric: *metric,
                measured: estimate.mean,
                ci95: estimate.ci95,
                relative_deviation: estimate.relative_deviation,
                paper: *paper,
            }
        };
        self.metrics.iter().map(row).collect()
    }
}
