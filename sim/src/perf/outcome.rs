//! What was measured, in one run and over several.

use serde::Serialize;
use weft_core::units::Nanos;
use weft_load::Kind;
use weft_load::stats::{self, Class, Latency};

use super::costs::Work;
use super::exposure::Exposure;
use super::machines::Machines;
use super::recovered::Recovered;

/// How much a kind of resource was used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Resource {
    /// The share of time in use, on average over all of the kind.
    pub mean: f64,
    /// The share of the one most used.
    pub highest: f64,
    /// How many pieces of work waited or were in work at one, on average.
    pub queue: f64,
}

/// How much one resource was used.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Used {
    /// What kind it is of: disk, bus, processor, link or host link.
    pub kind: &'static str,
    /// Which one it is: its number, or what it joins.
    pub name: String,
    /// The share of time in use.
    pub utilisation: f64,
    /// How many pieces of work waited or were in work, on average.
    pub queue: f64,
}

impl Resource {
    /// Of all of a kind.
    pub(super) fn of(all: &[Used]) -> Resource {
        let mean = |f: fn(&Used) -> f64| all.iter().map(f).sum::<f64>() / all.len().max(1) as f64;
        Resource {
            mean: mean(|u| u.utilisation),
            highest: all.iter().map(|u| u.utilisation).fold(0.0, f64::max),
            queue: mean(|u| u.queue),
        }
    }
}

/// One run, after its warm-up.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// All requests.
    pub all: Class,
    /// The reads.
    pub reads: Class,
    /// The writes.
    pub writes: Class,
    /// When measuring began.
    pub began: Nanos,
    /// When it ended.
    pub ended: Nanos,
    /// 10^6 bytes a second.
    pub throughput_mb_s: f64,
    /// Requests a second.
    pub requests_s: f64,
    /// Requests outstanding, on average.
    pub outstanding: f64,
    /// Disks.
    pub disks: Resource,
    /// Buses that disks share, if they do; the pieces of data at one are its queue.
    pub buses: Option<Resource>,
    /// Processors.
    pub processors: Resource,
    /// Links.
    pub links: Resource,
    /// Links between hosts and the array, if they take time.
    pub host_links: Option<Resource>,
    /// The machines around a switch, if one of them is the controller.
    pub machines: Option<Machines>,
    /// Messages from one node to another for each request, those that carry only notices with
    /// them.
    pub messages: f64,
    /// The share of requests that were delayed by others.
    pub delayed: f64,
    /// What was seen of faults, if there were any.
    pub recovered: Option<Recovered>,
    /// What parity that waits exposed.
    pub exposure: Exposure,
    /// Processor time of all nodes for each request, in nanoseconds, with all that they do meanwhile.
    pub processor_ns: f64,
    /// What the nodes did.
    pub work: Work,
    /// Requests that were left out at the beginning.
    pub warm_up: u64,
    /// Events, the warm-up's with them.
    pub events: u64,
}

impl Outcome {
    /// Mean time of a request, in milliseconds; nothing if none ended, which is no time of 0.
    pub fn response_ms(&self) -> Option<f64> {
        let latency = &self.all.latency;
        (latency.count() > 0).then(|| stats::millis(latency.mean()))
    }

    /// What hosts saw of a run until `ended`; of disks, processors and links nothing is said, and
    /// there were no events, messages or delays.
    pub fn of_hosts(measured: &stats::Measured, ended: Nanos) -> Outcome {
        let unknown = Resource::default();
        Outcome {
            all: measured.all(),
            reads: measured.class(Kind::Read).clone(),
            writes: measured.class(Kind::Write).clone(),
            began: measured.began,
            ended,
            throughput_mb_s: measured.throughput_mb_s(ended),
            requests_s: measured.requests_s(ended),
            outstanding: measured.outstanding().mean(ended),
            disks: unknown,
            buses: None,
            processors: unknown,
            links: unknown,
            host_links: None,
            machines: None,
            messages: 0.0,
            delayed: 0.0,
            recovered: None,
            exposure: Exposure::default(),
            processor_ns: 0.0,
            work: Work::default(),
            warm_up: 0,
            events: 0,
        }
    }
}

/// A mean over independent runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// Half the width of its 95 % confidence interval; `None` of a single run.
    pub ci95: Option<f64>,
    /// The standard deviation as a share of the mean; `None` of a single run.
    pub relative_deviation: Option<f64>,
}

impl Estimate {
    /// Of one value for each run.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Estimate {
        let mut summary = stats::Summary::default();
        values.into_iter().for_each(|v| summary.add(v));
        let interval = summary.interval(0.95);
        Estimate {
            mean: interval.mean,
            ci95: interval.half_width,
            relative_deviation: summary.relative_standard_deviation(),
        }
    }
}

/// Several independent runs of the same system.
#[derive(Clone, Debug)]
pub struct Summary {
    /// 10^6 bytes a second.
    pub throughput_mb_s: Estimate,
    /// Requests a second.
    pub requests_s: Estimate,
    /// Mean time of a request, in milliseconds, over the runs in which any ended.
    pub response_ms: Estimate,
    /// Requests of all runs.
    pub latency: Latency,
    /// Disks.
    pub disks: Resource,
    /// Buses that disks share, if they do.
    pub buses: Option<Resource>,
    /// Processors.
    pub processors: Resource,
    /// Links.
    pub links: Resource,
    /// Links between hosts and the array, if they take time.
    pub host_links: Option<Resource>,
    /// Processor time of all nodes for each request, in nanoseconds.
    pub processor_ns: f64,
    /// Messages from one node to another for each request.
    pub messages: Estimate,
    /// The share of requests that were delayed by others.
    pub delayed: Estimate,
    /// What was seen of faults, if there were any.
    pub recovered: Option<RecoverySummary>,
    /// What parity that waited exposed, if it did in any run.
    pub exposed: Option<ExposureSummary>,
    /// Requests that were left out at the beginning of each run.
    pub warm_up: u64,
    /// Events of all runs.
    pub events: u64,
    /// Each run by itself, in their order: throughput in 10^6 bytes a second, requests a second, mean response in
    /// milliseconds if a request ended.
    pub runs: Vec<(f64, f64, Option<f64>)>,
}

impl Summary {
    /// Puts runs together; there is at least one.
    pub fn of(runs: &[Outcome]) -> Summary {
        let mut latency = Latency::default();
        runs.iter().for_each(|r| latency.merge(&r.all.latency));
        Summary {
            throughput_mb_s: Estimate::of(runs.iter().map(|r| r.throughput_mb_s)),
            requests_s: Estimate::of(runs.iter().map(|r| r.requests_s)),
            response_ms: Estimate::of(runs.iter().filter_map(Outcome::response_ms)),
            latency,
            disks: mean(runs.iter().map(|r| r.disks)),
            buses: mean_of_some(runs, |r| r.buses),
            processors: mean(runs.iter().map(|r| r.processors)),
            links: mean(runs.iter().map(|r| r.links)),
            host_links: mean_of_some(runs, |r| r.host_links),
            processor_ns: runs.iter().map(|r| r.processor_ns).sum::<f64>()
                / runs.len().max(1) as f64,
            messages: Estimate::of(runs.iter().map(|r| r.messages)),
            delayed: Estimate::of(runs.iter().map(|r| r.delayed)),
            recovered: RecoverySummary::of(runs),
            exposed: ExposureSummary::of(runs),
            warm_up: runs[0].warm_up,
            events: runs.iter().map(|r| r.events).sum(),
            runs: runs.iter().map(|r| (r.throughput_mb_s, r.requests_s, r.response_ms())).collect(),
        }
    }
}

/// What was seen of faults, over runs: each that all of them saw.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RecoverySummary {
    /// 10^6 bytes a second put back, while any disk was filled.
    pub rebuild_mb_s: Option<Estimate>,
    /// Seconds that it took to fill a disk.
    pub rebuild_s: Option<Estimate>,
    /// Mean milliseconds of requests answered while nothing was lost.
    pub whole_ms: Option<Estimate>,
    /// The same while a node was dead.
    pub degraded_ms: Option<Estimate>,
    /// The same while a disk was filled.
    pub rebuilding_ms: Option<Estimate>,
}

impl RecoverySummary {
    fn of(runs: &[Outcome]) -> Option<RecoverySummary> {
        let all: Option<Vec<Recovered>> = runs.iter().map(|r| r.recovered).collect();
        let all = all?;
        let estimate = |of: fn(&Recovered) -> Option<f64>| {
            let values: Option<Vec<f64>> = all.iter().map(of).collect();
            values.map(Estimate::of)
        };
        Some(RecoverySummary {
            rebuild_mb_s: estimate(|r| r.rebuild_mb_s),
            rebuild_s: estimate(|r| r.rebuild_s),
            whole_ms: estimate(|r| r.whole_ms),
            degraded_ms: estimate(|r| r.degraded_ms),
            rebuilding_ms: estimate(|r| r.rebuilding_ms),
        })
    }
}

/// What parity that waited exposed, over runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExposureSummary {
    /// The share of the time in which anything was exposed.
    pub unprotected_share: Estimate,
    /// Bytes of data in exposed stripes, on average: AFRAID's mean parity lag.
    pub lag_bytes: Estimate,
}

impl ExposureSummary {
    fn of(runs: &[Outcome]) -> Option<ExposureSummary> {
        let any = runs.iter().any(|r| r.exposure.most_stripes > 0);
        any.then(|| ExposureSummary {
            unprotected_share: Estimate::of(runs.iter().map(|r| r.exposure.unprotected_share)),
            lag_bytes: Estimate::of(runs.iter().map(|r| r.exposure.lag_bytes)),
        })
    }
}

/// Of what a system may not have; then no run has it.
fn mean_of_some(runs: &[Outcome], of: fn(&Outcome) -> Option<Resource>) -> Option<Resource> {
    let all: Option<Vec<Resource>> = runs.iter().map(of).collect();
    all.map(|all| mean(all.into_iter()))
}

fn mean(of: impl ExactSizeIterator<Item = Resource> + Clone) -> Resource {
    let n = of.len() as f64;
    let sum = |f: fn(&Resource) -> f64| of.clone().map(|r| f(&r)).sum::<f64>() / n;
    Resource { mean: sum(|r| r.mean), highest: sum(|r| r.highest), queue: sum(|r| r.queue) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run in which no request ends says nothing of how long one takes.
    #[test]
    fn runs_without_a_request_have_no_response_time() {
        let run = |nanos: Option<Nanos>| {
            let nothing = stats::Run::new(0, 0);
            let mut run = Outcome::of_hosts(nothing.measured().unwrap(), 1_000_000_000);
            nanos.into_iter().for_each(|n| run.all.latency.add(n));
            run
        };
        let summary = Summary::of(&[run(Some(4_000_000)), run(None)]);
        assert!((summary.response_ms.mean - 4.0).abs() < 0.01, "{:?}", summary.response_ms);
        assert_eq!((summary.response_ms.ci95, summary.runs[1].2), (None, None));
    }
}
