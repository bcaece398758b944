//! What came out at one point, as it is kept and written.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use weft_load::stats::millis;
use weft_sim::perf::{Estimate, Resource, Summary};

/// A mean over independent runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mean {
    /// The mean.
    pub mean: f64,
    /// Half the width of its 95 % confidence interval; `None` of a single run.
    pub ci95: Option<f64>,
}

/// How much a kind of resource was used.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Use {
    /// The share of time in use, on average over all of the kind.
    pub mean: f64,
    /// The share of the one most used.
    pub highest: f64,
    /// How many pieces of work waited or were in work at one, on average.
    pub queue: f64,
}

/// What came out at one point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// 10^6 bytes a second.
    pub throughput_mb_s: Mean,
    /// Requests a second.
    pub requests_s: Mean,
    /// Mean time of a request, in milliseconds.
    pub response_ms: Mean,
    /// Median, in milliseconds.
    pub p50_ms: f64,
    /// What 95 % of the requests did not exceed, in milliseconds.
    pub p95_ms: f64,
    /// What 99 % did not exceed.
    pub p99_ms: f64,
    /// Disks; not known of a real array, as all below.
    pub disks: Option<Use>,
    /// Processors.
    pub processors: Option<Use>,
    /// Links.
    pub links: Option<Use>,
    /// Messages from one node to another for each request.
    pub messages: Option<Mean>,
    /// The share of requests that were delayed by others.
    pub delayed: Option<Mean>,
    /// Requests that were measured, over all runs.
    pub requests: u64,
    /// Events of all runs.
    pub events: Option<u64>,
}

/// A column of results.
pub struct Metric {
    /// Its name in CSV and JSON, and of its plot's file.
    pub name: &'static str,
    /// Its heading in tables for people.
    pub short: &'static str,
    /// What it is, with its unit.
    pub label: &'static str,
    /// Whether it is a share of time, so that plots of it are linear.
    pub is_share: bool,
    /// Whether it has a confidence interval.
    pub has_interval: bool,
    /// Its value, if it is known, and half its interval.
    pub of: fn(&Measured) -> (Option<f64>, Option<f64>),
}

const fn metric(
    name: &'static str,
    short: &'static str,
    label: &'static str,
    of: fn(&Measured) -> (Option<f64>, Option<f64>),
) -> Metric {
    Metric { name, short, label, is_share: false, has_interval: false, of }
}

const fn mean(
    name: &'static str,
    short: &'static str,
    label: &'static str,
    of: fn(&Measured) -> (Option<f64>, Option<f64>),
) -> Metric {
    Metric { has_interval: true, ..metric(name, short, label, of) }
}

const fn share(
    name: &'static str,
    short: &'static str,
    label: &'static str,
    of: fn(&Measured) -> (Option<f64>, Option<f64>),
) -> Metric {
    Metric { is_share: true, ..metric(name, short, label, of) }
}

impl Mean {
    fn pair(self) -> (Option<f64>, Option<f64>) {
        (Some(self.mean), self.ci95)
    }
}

/// All columns of results.
#[rustfmt::skip]
pub const METRICS: &[Metric] = &[
    mean("throughput_mb_s", "MB/s", "throughput, 10^6 bytes/s", |m| m.throughput_mb_s.pair()),
    mean("requests_s", "requests/s", "requests a second", |m| m.requests_s.pair()),
    mean("response_ms", "mean ms", "mean response time, ms", |m| m.response_ms.pair()),
    metric("p50_ms", "p50", "median response time, ms", |m| (Some(m.p50_ms), None)),
    metric("p95_ms", "p95", "95 % of response times, ms", |m| (Some(m.p95_ms), None)),
    metric("p99_ms", "p99", "99 % of response times, ms", |m| (Some(m.p99_ms), None)),
    share("disk_utilisation", "disks", "share of time that disks are in use", |m| (m.disks.map(|u| u.mean), None)),
    metric("disk_queue", "queue", "accesses waiting or in work at a disk", |m| (m.disks.map(|u| u.queue), None)),
    share("processor_utilisation", "CPUs", "share of time that processors are in use",
        |m| (m.processors.map(|u| u.mean), None)),
    share("processor_highest", "busiest", "share of time that the busiest processor is in use",
        |m| (m.processors.map(|u| u.highest), None)),
    share("link_utilisation", "links", "share of time that links are in use, of those used at all",
        |m| (m.links.map(|u| u.mean), None)),
    mean("messages", "messages", "messages from one node to another for each request",
        |m| m.messages.map_or((None, None), Mean::pair)),
    Metric { has_interval: true, ..share("delayed", "delayed", "share of requests that others delayed",
        |m| m.delayed.map_or((None, None), Mean::pair)) },
];

impl Measured {
    /// What several simulated runs came to.
    pub fn of(summary: &Summary) -> Measured {
        Measured {
            disks: Some(summary.disks.into()),
            processors: Some(summary.processors.into()),
            links: Some(summary.links.into()),
            messages: Some(summary.messages.into()),
            delayed: Some(summary.delayed.into()),
            events: Some(summary.events),
            ..Measured::of_hosts(summary)
        }
    }

    /// Only what hosts see of several runs.
    pub fn of_hosts(summary: &Summary) -> Measured {
        let quantile = |share| millis(summary.latency.quantile(share) as f64);
        Measured {
            throughput_mb_s: summary.throughput_mb_s.into(),
            requests_s: summary.requests_s.into(),
            response_ms: summary.response_ms.into(),
            p50_ms: quantile(0.5),
            p95_ms: quantile(0.95),
            p99_ms: quantile(0.99),
            disks: None,
            processors: None,
            links: None,
            messages: None,
            delayed: None,
            requests: summary.latency.count(),
            events: None,
        }
    }

    /// As an object of results: metrics by name, intervals beside them.
    pub fn as_json(&self) -> Map<String, Value> {
        let mut object = Map::new();
        for metric in METRICS {
            let (value, interval) = (metric.of)(self);
            object.insert(metric.name.into(), json!(value));
            if metric.has_interval {
                object.insert(format!("{}_ci95", metric.name), json!(interval));
            }
        }
        object.insert("requests".into(), json!(self.requests));
        object.insert("events".into(), json!(self.events));
        object
    }
}

impl From<Estimate> for Mean {
    fn from(estimate: Estimate) -> Mean {
        // Intervals that are not finite are none.
        Mean { mean: estimate.mean, ci95: estimate.ci95.filter(|c| c.is_finite()) }
    }
}

impl From<Resource> for Use {
    fn from(resource: Resource) -> Use {
        Use { mean: resource.mean, highest: resource.highest, queue: resource.queue }
    }
}
