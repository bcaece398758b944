//! What came out at one point, as it is kept and written.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use weft_load::stats::millis;
use weft_report::short;
use weft_sim::perf::{Estimate, ExposureSummary, RecoverySummary, Resource, Summary};

/// A mean over independent runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mean {
    /// The mean.
    pub mean: f64,
    /// Half the width of its 95 % confidence interval; `None` of a single run.
    pub ci95: Option<f64>,
    /// The standard deviation of the runs as a share of the mean; `None` of a single run, or if
    /// the mean is 0.
    pub relative_deviation: Option<f64>,
}

/// What a column holds at one point.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figure {
    /// The value, if it is known.
    pub value: Option<f64>,
    /// Half its interval.
    pub ci95: Option<f64>,
    /// Its relative standard deviation over the runs.
    pub relative_deviation: Option<f64>,
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
    /// Processor time of the nodes for a request, in microseconds.
    #[serde(default)]
    pub processor_us: Option<f64>,
    /// Disks; not known of a real array, as all below.
    pub disks: Option<Use>,
    /// Buses that disks share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buses: Option<Use>,
    /// Processors.
    pub processors: Option<Use>,
    /// Links.
    pub links: Option<Use>,
    /// Links between hosts and the array.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_links: Option<Use>,
    /// Messages from one node to another for each request.
    pub messages: Option<Mean>,
    /// The share of requests that were delayed by others.
    pub delayed: Option<Mean>,
    /// What was seen of faults, if there were any.
    #[serde(default, skip_serializing_if = "Recovered::is_empty")]
    pub recovered: Recovered,
    /// What parity that waited exposed, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exposed: Option<Exposed>,
    /// Requests that were measured, over all runs.
    pub requests: u64,
    /// Requests that were left out at the beginning of each run.
    #[serde(default)]
    pub warm_up: Option<u64>,
    /// Events of all runs.
    pub events: Option<u64>,
    /// The share of the machine's processors that others used during the run of a real array that
    /// they disturbed most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others: Option<f64>,
    /// Each simulated run by itself. The n-th runs of all points draw from the same seed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<Run>,
}

/// One run by itself.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// 10^6 bytes a second.
    pub throughput_mb_s: f64,
    /// Requests a second.
    pub requests_s: f64,
    /// Mean time of a request, in milliseconds, if any ended.
    pub response_ms: Option<f64>,
}

impl From<(f64, f64, Option<f64>)> for Run {
    fn from((throughput_mb_s, requests_s, response_ms): (f64, f64, Option<f64>)) -> Run {
        Run { throughput_mb_s, requests_s, response_ms }
    }
}

/// What was seen of faults: what all runs saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Recovered {
    /// 10^6 bytes a second put back, while any disk was filled.
    pub rebuild_mb_s: Option<Mean>,
    /// Seconds that it took to fill a disk.
    pub rebuild_s: Option<Mean>,
    /// Mean milliseconds of requests answered while nothing was lost.
    pub whole_ms: Option<Mean>,
    /// The same while a node was dead.
    pub degraded_ms: Option<Mean>,
    /// The same while a disk was filled.
    pub rebuilding_ms: Option<Mean>,
}

/// What parity that waited exposed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Exposed {
    /// The share of the time in which anything was exposed.
    pub unprotected_share: Mean,
    /// Bytes of data in exposed stripes, on average.
    pub lag_bytes: Mean,
}

impl From<ExposureSummary> for Exposed {
    fn from(seen: ExposureSummary) -> Exposed {
        Exposed {
            unprotected_share: seen.unprotected_share.into(),
            lag_bytes: seen.lag_bytes.into(),
        }
    }
}

impl Recovered {
    fn is_empty(&self) -> bool {
        *self == Recovered::default()
    }
}

/// A column of results.
pub struct Metric {
    /// Its name in CSV and JSON, and of its plot's file.
    pub name: &'static str,
    /// Its heading in tables for people; empty if it is not in them.
    pub short: &'static str,
    /// What it is, with its unit.
    pub label: &'static str,
    /// Whether it is a share of time, so that plots of it are linear.
    pub is_share: bool,
    /// Whether it has a confidence interval and a standard deviation: it is a mean over runs.
    pub is_mean: bool,
    /// What it is at a point.
    pub of: fn(&Measured) -> Figure,
}

const fn metric(
    name: &'static str,
    short: &'static str,
    label: &'static str,
    of: fn(&Measured) -> Figure,
) -> Metric {
    Metric { name, short, label, is_share: false, is_mean: false, of }
}

const fn mean(
    name: &'static str,
    short: &'static str,
    label: &'static str,
    of: fn(&Measured) -> Figure,
) -> Metric {
    Metric { is_mean: true, ..metric(name, short, label, of) }
}

const fn share(
    name: &'static str,
    short: &'static str,
    label: &'static str,
    of: fn(&Measured) -> Figure,
) -> Metric {
    Metric { is_share: true, ..metric(name, short, label, of) }
}

impl Mean {
    /// As a column holds it.
    pub fn figure(self) -> Figure {
        let Mean { mean, ci95, relative_deviation } = self;
        Figure { value: Some(mean), ci95, relative_deviation }
    }
}

impl Figure {
    /// For people: with its interval, and its relative standard deviation in parentheses, as in
    /// TickerTAIP's Table VIII. Empty if it is not known.
    pub fn text(&self) -> String {
        let Some(value) = self.value else { return String::new() };
        let mut text = short(value);
        if let Some(interval) = self.ci95 {
            text += &format!(" ± {}", short(interval));
        }
        if let Some(share) = self.relative_deviation {
            text += &format!(" ({:.1}%)", share * 100.0);
        }
        text
    }

    /// Of what has no interval.
    fn of(value: impl Into<Option<f64>>) -> Figure {
        Figure { value: value.into(), ..Figure::default() }
    }
}

/// All columns of results.
#[rustfmt::skip]
pub const METRICS: &[Metric] = &[
    mean("throughput_mb_s", "MB/s", "throughput, 10^6 bytes/s", |m| m.throughput_mb_s.figure()),
    mean("requests_s", "requests/s", "requests a second", |m| m.requests_s.figure()),
    mean("response_ms", "mean ms", "mean response time, ms", |m| m.if_any(m.response_ms.figure())),
    metric("p50_ms", "p50", "median response time, ms", |m| m.if_any(Figure::of(m.p50_ms))),
    metric("p95_ms", "p95", "95 % of response times, ms", |m| m.if_any(Figure::of(m.p95_ms))),
    metric("p99_ms", "p99", "99 % of response times, ms", |m| m.if_any(Figure::of(m.p99_ms))),
    metric("processor_us", "CPU µs", "processor time of the nodes for each request, µs",
        |m| Figure::of(m.processor_us)),
    share("disk_utilisation", "disks", "share of time that disks are in use", |m| Figure::of(m.disks.map(|u| u.mean))),
    metric("disk_queue", "queue", "accesses waiting or in progress at a disk",
        |m| Figure::of(m.disks.map(|u| u.queue))),
    share("bus_utilisation", "buses", "share of time that buses that disks share are in use",
        |m| Figure::of(m.buses.map(|u| u.mean))),
    metric("bus_queue", "at bus", "pieces of data waiting for a bus that disks share or crossing it",
        |m| Figure::of(m.buses.map(|u| u.queue))),
    share("processor_utilisation", "CPUs", "share of time that processors are in use",
        |m| Figure::of(m.processors.map(|u| u.mean))),
    share("processor_highest", "busiest", "share of time that the busiest processor is in use",
        |m| Figure::of(m.processors.map(|u| u.highest))),
    metric("processor_queue", "", "pieces of work waiting for a processor or in progress at it",
        |m| Figure::of(m.processors.map(|u| u.queue))),
    share("link_utilisation", "links", "share of time that links are in use, of those used at all",
        |m| Figure::of(m.links.map(|u| u.mean))),
    metric("link_queue", "", "messages waiting for a link or crossing it, of those used at all",
        |m| Figure::of(m.links.map(|u| u.queue))),
    share("host_link_utilisation", "host links",
        "share of time that links between hosts and array are in use, of those used at all",
        |m| Figure::of(m.host_links.map(|u| u.mean))),
    metric("host_link_queue", "at host link",
        "requests and replies waiting for a link between host and array or crossing it, of those used at all",
        |m| Figure::of(m.host_links.map(|u| u.queue))),
    mean("messages", "messages", "messages from one node to another for each request",
        |m| m.messages.map_or_else(Figure::default, Mean::figure)),
    Metric { is_mean: true, ..share("delayed", "delayed", "share of requests that others delayed",
        |m| m.delayed.map_or_else(Figure::default, Mean::figure)) },
    mean("rebuild_mb_s", "rebuilt MB/s", "rate at which a disk is rebuilt, 10^6 bytes/s",
        |m| m.recovered.rebuild_mb_s.map_or_else(Figure::default, Mean::figure)),
    mean("rebuild_s", "to rebuild s", "time to rebuild a disk, s",
        |m| m.recovered.rebuild_s.map_or_else(Figure::default, Mean::figure)),
    mean("whole_ms", "whole ms", "mean response time without faults, ms",
        |m| m.recovered.whole_ms.map_or_else(Figure::default, Mean::figure)),
    mean("degraded_ms", "degraded ms", "mean response time while a node is down, ms",
        |m| m.recovered.degraded_ms.map_or_else(Figure::default, Mean::figure)),
    mean("rebuilding_ms", "rebuilding ms", "mean response time while a disk is rebuilt, ms",
        |m| m.recovered.rebuilding_ms.map_or_else(Figure::default, Mean::figure)),
    Metric { is_mean: true, ..share("unprotected_share", "unprotected", "share of time with deferred parity",
        |m| m.exposed.map_or_else(Figure::default, |e| e.unprotected_share.figure())) },
    mean("parity_lag_bytes", "lag bytes", "data in stripes whose parity is deferred, bytes",
        |m| m.exposed.map_or_else(Figure::default, |e| e.lag_bytes.figure())),
];

impl Measured {
    /// A figure of requests: none if no request was measured.
    fn if_any(&self, figure: Figure) -> Figure {
        if self.requests > 0 { figure } else { Figure::default() }
    }

    /// What several simulated runs came to.
    pub fn of(summary: &Summary) -> Measured {
        Measured {
            processor_us: Some(summary.processor_ns / 1e3),
            disks: Some(summary.disks.into()),
            buses: summary.buses.map(Use::from),
            processors: Some(summary.processors.into()),
            links: Some(summary.links.into()),
            host_links: summary.host_links.map(Use::from),
            messages: Some(summary.messages.into()),
            delayed: Some(summary.delayed.into()),
            recovered: summary.recovered.map(Recovered::from).unwrap_or_default(),
            exposed: summary.exposed.map(Exposed::from),
            events: Some(summary.events),
            runs: summary.runs.iter().copied().map(Run::from).collect(),
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
            processor_us: None,
            disks: None,
            buses: None,
            processors: None,
            links: None,
            host_links: None,
            messages: None,
            delayed: None,
            recovered: Recovered::default(),
            exposed: None,
            requests: summary.latency.count(),
            warm_up: Some(summary.warm_up),
            events: None,
            others: None,
            runs: Vec::new(),
        }
    }

    /// As an object of results: metrics by name, intervals and deviations beside them.
    pub fn as_json(&self) -> Map<String, Value> {
        let mut object = Map::new();
        for metric in METRICS {
            let Figure { value, ci95, relative_deviation } = (metric.of)(self);
            object.insert(metric.name.into(), json!(value));
            if metric.is_mean {
                object.insert(format!("{}_ci95", metric.name), json!(ci95));
                let name = format!("{}_relative_deviation", metric.name);
                object.insert(name, json!(relative_deviation));
            }
        }
        object.insert("requests".into(), json!(self.requests));
        object.insert("warm_up".into(), json!(self.warm_up));
        object.insert("events".into(), json!(self.events));
        object.insert("runs".into(), json!(self.runs));
        object
    }
}

impl From<RecoverySummary> for Recovered {
    fn from(seen: RecoverySummary) -> Recovered {
        let mean = |estimate: Option<Estimate>| estimate.map(Mean::from);
        Recovered {
            rebuild_mb_s: mean(seen.rebuild_mb_s),
            rebuild_s: mean(seen.rebuild_s),
            whole_ms: mean(seen.whole_ms),
            degraded_ms: mean(seen.degraded_ms),
            rebuilding_ms: mean(seen.rebuilding_ms),
        }
    }
}

impl From<Estimate> for Mean {
    fn from(estimate: Estimate) -> Mean {
        // What is not finite is none.
        let finite = |x: Option<f64>| x.filter(|x| x.is_finite());
        Mean {
            mean: estimate.mean,
            ci95: finite(estimate.ci95),
            relative_deviation: finite(estimate.relative_deviation),
        }
    }
}

impl From<Resource> for Use {
    fn from(resource: Resource) -> Use {
        Use { mean: resource.mean, highest: resource.highest, queue: resource.queue }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_is_shown_with_its_interval_and_its_deviation() {
        // Student's t of 95 % and one degree is 12.706; the standard deviation is sqrt 2, of a mean of 11.
        let mean = Mean::from(Estimate::of([10.0, 12.0]));
        assert_eq!(mean.figure().text(), format!("{} ± {} (12.9%)", short(11.0), short(12.706)));
        assert_eq!(Mean::from(Estimate::of([10.0])).figure().text(), short(10.0));
        // Of nothing but zeroes there is no share of the mean.
        let none = Mean::from(Estimate::of([0.0, 0.0]));
        assert_eq!((none.ci95, none.relative_deviation), (Some(0.0), None));
        assert_eq!(Figure::default().text(), "");
    }

    #[test]
    fn results_that_were_kept_without_deviation_are_read() {
        let kept: Mean = serde_json::from_str(r#"{"mean":1.0,"ci95":0.5}"#).unwrap();
        assert_eq!(kept, Mean { mean: 1.0, ci95: Some(0.5), relative_deviation: None });
    }
}
