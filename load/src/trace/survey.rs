//! What a trace is like.

use std::collections::BTreeMap;

use super::Record;
use crate::stats::{Latency, Summary};
use crate::{Kind, Nanos};

/// Idle periods at least so long are counted, in nanoseconds.
const IDLE: [Nanos; 5] =
    [100_000_000, 1_000_000_000, 10_000_000_000, 60_000_000_000, 300_000_000_000];

/// Idle periods of some length and more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Idle {
    /// How long they are at least, in nanoseconds.
    pub at_least: Nanos,
    /// How many there are.
    pub count: u64,
    /// How long they are together, in nanoseconds.
    pub total: Nanos,
}

/// What a trace is like: counts, sizes, gaps, idle periods, addresses.
///
/// Memory grows with how many sizes there are and with how scattered the addresses are, not with
/// the number of requests.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    sizes: BTreeMap<(Kind, u64), u64>,
    responses: [Latency; 3],
    gaps: Summary,
    gap_times: Latency,
    first: Option<Nanos>,
    last: Nanos,
    /// When the last request so far ended.
    busy_until: Nanos,
    without_response: u64,
    out_of_order: u64,
    /// Idle periods in which nothing was outstanding, by the known responses.
    idle: [(u64, Nanos); IDLE.len()],
    /// The same without an arrival.
    quiet: [(u64, Nanos); IDLE.len()],
    sequential: u64,
    devices: Vec<Device>,
}

/// What one device saw.
#[derive(Clone, Debug, Default)]
struct Device {
    requests: u64,
    /// Where its last request ended.
    head: Option<u64>,
    /// The end of its highest request.
    end: u64,
    touched: Ranges,
}

impl Survey {
    /// Takes in the next record.
    pub fn add(&mut self, record: &Record) {
        self.time(record);
        *self.sizes.entry((record.kind, record.len)).or_default() += 1;
        match record.response {
            Some(response) => self.responses[record.kind as usize].add(response),
            None => self.without_response += 1,
        }
        let index = record.device as usize;
        if self.devices.len() <= index {
            self.devices.resize_with(index + 1, Device::default);
        }
        let device = &mut self.devices[index];
        device.requests += 1;
        if record.kind != Kind::Flush {
            let end = record.offset.saturating_add(record.len);
            self.sequential += u64::from(device.head == Some(record.offset));
            device.head = Some(end);
            device.end = device.end.max(end);
            device.touched.add(record.offset, end);
        }
    }

    fn time(&mut self, record: &Record) {
        let ends = record.at.saturating_add(record.response.unwrap_or(0));
        if self.first.is_none() {
            (self.first, self.last, self.busy_until) = (Some(record.at), record.at, ends);
            return;
        }
        self.out_of_order += u64::from(record.at < self.last);
        let gap = record.at.saturating_sub(self.last);
        self.gaps.add(gap as f64);
        self.gap_times.add(gap);
        count(&mut self.idle, record.at.saturating_sub(self.busy_until));
        count(&mut self.quiet, gap);
        self.last = self.last.max(record.at);
        self.busy_until = self.busy_until.max(ends);
    }

    /// How many requests there are.
    pub fn requests(&self) -> u64 {
        self.sizes.values().sum()
    }

    /// How many of a kind, and their bytes.
    pub fn of(&self, kind: Kind) -> (u64, u128) {
        let of = self.sizes.iter().filter(|((k, _), _)| *k == kind);
        of.fold((0, 0), |(n, bytes), ((_, size), count)| {
            (n + count, bytes + u128::from(*size) * u128::from(*count))
        })
    }

    /// The sizes of a kind, in bytes, and how many requests have each; the most frequent first.
    pub fn sizes(&self, kind: Kind) -> Vec<(u64, u64)> {
        let of = self.sizes.iter().filter(|((k, _), _)| *k == kind);
        let mut sizes: Vec<(u64, u64)> = of.map(|((_, size), count)| (*size, *count)).collect();
        sizes.sort_by_key(|(size, count)| (std::cmp::Reverse(*count), *size));
        sizes
    }

    /// The response times of a kind, of those requests whose is known.
    pub fn responses(&self, kind: Kind) -> &Latency {
        &self.responses[kind as usize]
    }

    /// From the first request to the last, in nanoseconds.
    pub fn span(&self) -> Nanos {
        self.last - self.first.unwrap_or(0)
    }

    /// Gaps between arrivals, in nanoseconds: mean, deviation, extremes. Where time goes back the
    /// gap is 0.
    pub fn gaps(&self) -> &Summary {
        &self.gaps
    }

    /// A quantile of the gaps, in nanoseconds: see [`Latency::quantile`].
    pub fn gap_quantile(&self, share: f64) -> Nanos {
        self.gap_times.quantile(share)
    }

    /// How many requests are earlier than one before them.
    pub fn out_of_order(&self) -> u64 {
        self.out_of_order
    }

    /// Whether all requests say how long they took, so that a period is idle if no request is
    /// outstanding. If not, each gap between arrivals is taken for idle from its beginning.
    pub fn idle_is_known(&self) -> bool {
        self.without_response == 0
    }

    /// Idle periods between requests, by how long they are at least.
    pub fn idle(&self) -> Vec<Idle> {
        let of = if self.idle_is_known() { self.idle } else { self.quiet };
        let by_length = IDLE.into_iter().zip(of);
        by_length.map(|(at_least, (count, total))| Idle { at_least, count, total }).collect()
    }

    /// How many requests begin where the one before on their device ended.
    pub fn sequential(&self) -> u64 {
        self.sequential
    }

    /// How many different bytes are read or written.
    pub fn footprint(&self) -> u128 {
        self.devices.iter().map(|d| d.touched.bytes()).sum()
    }

    /// Requests of each device.
    pub fn device_requests(&self) -> Vec<u64> {
        self.devices.iter().map(|d| d.requests).collect()
    }

    /// The end of the highest request of each device, in bytes.
    pub fn ends(&self) -> Vec<u64> {
        self.devices.iter().map(|d| d.end).collect()
    }
}

/// Counts a period among those that are at most as long.
fn count(periods: &mut [(u64, Nanos); IDLE.len()], length: Nanos) {
    for (at_least, (count, total)) in IDLE.into_iter().zip(periods) {
        if length >= at_least {
            *count += 1;
            *total += length;
        }
    }
}

/// Ranges that do not touch, by where they begin.
#[derive(Clone, Debug, Default)]
struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    /// Adds `from..to`.
    fn add(&mut self, mut from: u64, mut to: u64) {
        if from == to {
            return;
        }
        // Takes in whatever overlaps or touches, from the right to the left.
        while let Some((begin, end)) = self.0.range(..=to).next_back().map(|(b, e)| (*b, *e)) {
            if end < from {
                break;
            }
            self.0.remove(&begin);
            (from, to) = (from.min(begin), to.max(end));
        }
        self.0.insert(from, to);
    }

    fn bytes(&self) -> u128 {
        self.0.iter().map(|(from, to)| u128::from(to - from)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn ranges_count_every_byte_once(
            ranges in prop::collection::vec((0..100u64, 0..20u64), 0..40),
        ) {
            let mut ours = Ranges::default();
            ranges.iter().for_each(|(from, len)| ours.add(*from, from + len));
            let naive: BTreeSet<u64> = ranges.iter().flat_map(|(f, l)| *f..f + l).collect();
            prop_assert_eq!(ours.bytes(), naive.len() as u128);
            let apart = ours.0.iter().zip(ours.0.keys().skip(1)).all(|((_, to), next)| to < next);
            prop_assert!(apart);
        }
    }

    #[test]
    fn a_small_trace_in_every_number() {
        let second = 1_000_000_000;
        let record = |at, kind, offset, len, response| Record {
            at,
            device: 0,
            kind,
            offset,
            len,
            response: Some(response),
        };
        let mut survey = Survey::default();
        survey.add(&record(5 * second, Kind::Read, 0, 4096, second));
        survey.add(&record(5 * second, Kind::Write, 4096, 4096, 2 * second));
        // Idle for 3 s: the write ended at 7 s.
        survey.add(&record(10 * second, Kind::Read, 4096, 8192, second / 2));
        survey.add(&record(9 * second, Kind::Flush, 0, 0, second));
        survey.add(&record(80 * second, Kind::Read, 100_000, 4096, 1));
        assert_eq!((survey.requests(), survey.span()), (5, 75 * second));
        assert_eq!(survey.of(Kind::Read), (3, 16_384));
        assert_eq!(survey.sizes(Kind::Read), [(4096, 2), (8192, 1)]);
        assert_eq!((survey.sequential(), survey.out_of_order()), (1, 1));
        assert_eq!(survey.footprint(), 12_288 + 4096);
        assert_eq!((survey.ends(), survey.device_requests()), (vec![104_096], vec![5]));
        assert_eq!(survey.gaps().mean(), 75e9 / 4.0);
        assert!(survey.idle_is_known());
        let idle: Vec<(u64, Nanos)> = survey.idle().iter().map(|i| (i.count, i.total)).collect();
        let (both, long) = (3 * second + 139 * second / 2, 139 * second / 2);
        assert_eq!(idle, [(2, both), (2, both), (1, long), (1, long), (0, 0)]);
    }

    /// As soon as one response is not known, all gaps between arrivals count from their beginning.
    #[test]
    fn idle_periods_are_gaps_where_a_response_is_not_known() {
        let second = 1_000_000_000;
        let record = |at, response| Record {
            at: at * second,
            device: 0,
            kind: Kind::Read,
            offset: 0,
            len: 4096,
            response,
        };
        let mut survey = Survey::default();
        survey.add(&record(0, Some(4 * second)));
        survey.add(&record(5, None));
        survey.add(&record(7, Some(second)));
        assert!(!survey.idle_is_known());
        let idle: Vec<(u64, Nanos)> = survey.idle().iter().map(|i| (i.count, i.total)).collect();
        assert_eq!(idle, [(2, 7 * second), (2, 7 * second), (0, 0), (0, 0), (0, 0)]);
    }
}
