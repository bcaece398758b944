//! The papers' evaluations, repeated with Weft's nodes.
//!
//! An evaluation is a list of [`Case`]s: a system to simulate, where the result belongs in the
//! paper, and what the paper has there, if it says. Where a paper's result is not known to those
//! who fit parameters it is left out, so that it can be compared afterwards.

pub mod tickertaip;

use serde::Serialize;

use crate::perf::{Estimate, Outcome, Summary, System};

/// What is read off a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Throughput in 10^6 bytes a second.
    ThroughputMbS,
    /// Mean response time in milliseconds.
    ResponseMs,
}

impl Metric {
    /// Its value.
    pub fn of(self, summary: &Summary) -> Estimate {
        match self {
            Metric::ThroughputMbS => summary.throughput_mb_s,
            Metric::ResponseMs => summary.response_ms,
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
    /// What the paper says, if that is known here.
    pub paper: Option<f64>,
}

fn as_map<S: serde::Serializer>(point: &Point, to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(point.iter().map(|(key, value)| (*key, value)))
}

impl Case {
    /// Its rows, from its independent runs.
    pub fn rows(&self, runs: &[Outcome]) -> Vec<Row> {
        let summary = Summary::of(runs);
        let row = |(metric, paper): &(Metric, Option<f64>)| {
            let estimate = metric.of(&summary);
            Row {
                experiment: self.experiment,
                point: self.point.clone(),
                metric: *metric,
                measured: estimate.mean,
                ci95: estimate.ci95,
                paper: *paper,
            }
        };
        self.metrics.iter().map(row).collect()
    }
}
