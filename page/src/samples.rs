//! How much was asked of the array and how long it took, every ten seconds for an hour.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use weft_host::status::{LatencyStatus, Status, Totals, VolumeLatency};

/// How often one looks.
pub(crate) const EVERY: Duration = Duration::from_secs(10);

/// How many samples there are: an hour's.
pub(crate) const MOST: usize = 360;

/// What there was between two looks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Sample {
    /// Requests of hosts in a second.
    pub(crate) requests: f64,
    /// Bytes of data between nodes in a second.
    pub(crate) wire: f64,
    /// Reads and writes of disks in a second.
    pub(crate) disk: f64,
    /// The highest latencies of any volume in the last minute or two: reads and writes.
    pub(crate) reads: Option<LatencyStatus>,
    pub(crate) writes: Option<LatencyStatus>,
}

/// What each node had counted at the last look.
struct Look {
    at: Instant,
    totals: BTreeMap<u16, Totals>,
}

/// The samples of the last hour.
#[derive(Default)]
pub(crate) struct Samples {
    last: Option<Look>,
    kept: VecDeque<Option<Sample>>,
}

/// The worse of two: of each number the higher.
fn worse(a: LatencyStatus, b: LatencyStatus) -> LatencyStatus {
    LatencyStatus {
        requests: a.requests + b.requests,
        p50_us: a.p50_us.max(b.p50_us),
        p95_us: a.p95_us.max(b.p95_us),
        p99_us: a.p99_us.max(b.p99_us),
        most_us: a.most_us.max(b.most_us),
    }
}

/// The worst latencies of any volume.
fn worst(
    status: &Status,
    of: impl Fn(&VolumeLatency) -> Option<LatencyStatus>,
) -> Option<LatencyStatus> {
    status.volumes.iter().filter_map(|v| of(v.latency.as_ref()?)).reduce(worse)
}

impl Samples {
    /// Looks at the array; `None` if it did not answer.
    pub(crate) fn look(&mut self, status: Option<&Status>, now: Instant) {
        let look = status.map(|status| {
            let of = |n: &weft_host::status::NodeStatus| Some((n.node, n.counters?.totals));
            Look { at: now, totals: status.nodes.iter().filter_map(of).collect() }
        });
        // The first look has nothing to be compared with.
        let is_first = self.last.is_none() && self.kept.is_empty();
        let sample = match (&self.last, &look, status) {
            (Some(last), Some(look), Some(status)) => between(last, look).map(|rates| Sample {
                reads: worst(status, |l| l.reads),
                writes: worst(status, |l| l.writes),
                ..rates
            }),
            _ => None,
        };
        self.last = look;
        if is_first {
            return;
        }
        if self.kept.len() == MOST {
            self.kept.pop_front();
        }
        self.kept.push_back(sample);
    }

    /// All of them, the oldest first; `None` where the array did not answer.
    pub(crate) fn all(&self) -> Vec<Option<Sample>> {
        self.kept.iter().copied().collect()
    }

    /// The newest.
    pub(crate) fn newest(&self) -> Option<Sample> {
        self.kept.back().copied().flatten()
    }
}

/// The rates between two looks, of the nodes that were there at both.
fn between(last: &Look, look: &Look) -> Option<Sample> {
    let seconds = look.at.checked_duration_since(last.at)?.as_secs_f64();
    if seconds <= 0.0 {
        return None;
    }
    let mut sample = Sample::default();
    for (node, now) in &look.totals {
        // A node that was started again has counted from 0.
        let Some(then) = last.totals.get(node).filter(|then| then.requests <= now.requests) else {
            continue;
        };
        let rate = |now: u64, then: u64| now.saturating_sub(then) as f64 / seconds;
        sample.requests += rate(now.requests, then.requests);
        sample.wire += rate(now.wire_bytes, then.wire_bytes);
        sample.disk += rate(now.disk_reads + now.disk_writes, then.disk_reads + then.disk_writes);
    }
    Some(sample)
}

#[cfg(test)]
mod tests {
    use weft_host::status::{Counters, NodeStatus, VolumeStatus};

    use super::*;

    fn status(requests: &[u64]) -> Status {
        let node = |(n, requests): (usize, &u64)| {
            let totals = Totals { requests: *requests, ..Totals::default() };
            let counters = Some(Counters { totals, ..Counters::default() });
            NodeStatus { node: n as u16, counters, ..NodeStatus::default() }
        };
        Status { nodes: requests.iter().enumerate().map(node).collect(), ..Status::default() }
    }

    #[test]
    fn rates_are_of_the_nodes_that_were_there_at_both_looks() {
        let (mut samples, now) = (Samples::default(), Instant::now());
        let looks = [
            Some(status(&[100, 200])),
            Some(status(&[600, 700])),
            Some(status(&[700, 10])),
            None,
            Some(status(&[800, 20, 90_000])),
            Some(status(&[900, 20, 90_000])),
        ];
        for (n, look) in looks.iter().enumerate() {
            samples.look(look.as_ref(), now + EVERY * n as u32);
        }
        let rates: Vec<_> = samples.all().iter().map(|s| s.map(|s| s.requests)).collect();
        assert_eq!(rates, [Some(100.0), Some(10.0), None, None, Some(10.0)]);
        (0..MOST as u32 + 9).for_each(|n| samples.look(None, now + EVERY * n));
        assert_eq!(samples.all().len(), MOST);
    }

    #[test]
    fn latencies_are_those_of_the_worst_volume() {
        let volume = |p50_us, p99_us| {
            let reads = Some(LatencyStatus { p50_us, p99_us, ..LatencyStatus::default() });
            let latency = Some(VolumeLatency { reads, ..VolumeLatency::default() });
            VolumeStatus { latency, ..VolumeStatus::default() }
        };
        let volumes = vec![volume(5, 10), volume(2, 90), VolumeStatus::default()];
        let status = Status { volumes, ..Status::default() };
        let (mut samples, now) = (Samples::default(), Instant::now());
        samples.look(Some(&status), now);
        samples.look(Some(&status), now + EVERY);
        let newest = samples.newest().unwrap();
        let reads = newest.reads.unwrap();
        assert_eq!((reads.p50_us, reads.p99_us, newest.writes), (5, 90, None));
    }
}
