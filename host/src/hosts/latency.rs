//! How long requests of hosts took lately, by volume and kind: counts in classes that are an eighth of a power of two wide,
//! so that a percentile is at most an eighth too high.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use weft_core::units::VolumeId;

use super::course::Verb;
use crate::status::{LatencyStatus, VolumeLatency};

/// What is shown is of the minute that is going on, and of the one before.
const WINDOW: Duration = Duration::from_secs(60);

/// Classes of times in microseconds. The first eight have one microsecond each.
const CLASSES: usize = 496;

/// How long requests took, of all volumes.
#[derive(Default)]
pub(crate) struct Latencies(BTreeMap<(VolumeId, Verb), Windows>);

struct Windows {
    begun: Instant,
    now: Times,
    before: Times,
}

#[derive(Clone)]
struct Times {
    classes: Box<[u32; CLASSES]>,
    most: u64,
}

impl Default for Times {
    fn default() -> Times {
        Times { classes: Box::new([0; CLASSES]), most: 0 }
    }
}

fn class(us: u64) -> usize {
    match us {
        0..8 => us as usize,
        _ => {
            let power = us.ilog2();
            ((power as usize - 2) << 3) | (us >> (power - 3) & 7) as usize
        }
    }
}

/// The longest time of a class.
fn longest(class: usize) -> u64 {
    match class {
        0..8 => class as u64,
        _ => {
            let (power, eighth) = ((class >> 3) as u32 + 2, class as u128 & 7);
            (((8 + eighth + 1) << (power - 3)) - 1) as u64
        }
    }
}

impl Windows {
    fn new(now: Instant) -> Windows {
        Windows { begun: now, now: Times::default(), before: Times::default() }
    }

    /// Begins the next window if it is time.
    fn turn(&mut self, now: Instant) {
        let past = now.saturating_duration_since(self.begun);
        if past < WINDOW {
            return;
        }
        self.before = std::mem::take(&mut self.now);
        self.begun += WINDOW;
        if past >= 2 * WINDOW {
            (self.before, self.begun) = (Times::default(), now);
        }
    }

    fn summed_up(&mut self, now: Instant) -> Option<LatencyStatus> {
        self.turn(now);
        let count = |n: usize| u64::from(self.now.classes[n]) + u64::from(self.before.classes[n]);
        let requests: u64 = (0..CLASSES).map(count).sum();
        let most = self.now.most.max(self.before.most);
        let percentile = |percent: u64| {
            let rank = (requests * percent).div_ceil(100).max(1);
            let mut seen = 0;
            let reached = (0..CLASSES).find(|n| {
                seen += count(*n);
                seen >= rank
            });
            longest(reached.unwrap_or(CLASSES - 1)).min(most)
        };
        let [p50_us, p95_us, p99_us] = [50, 95, 99].map(percentile);
        (requests > 0).then_some(LatencyStatus { requests, p50_us, p95_us, p99_us, most_us: most })
    }
}

impl Latencies {
    /// A request is over.
    pub(crate) fn record(&mut self, of: (VolumeId, Verb), time: Duration, now: Instant) {
        let windows = self.0.entry(of).or_insert_with(|| Windows::new(now));
        windows.turn(now);
        let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let times = &mut windows.now;
        times.classes[class(us)] += 1;
        times.most = times.most.max(us);
    }

    /// How long those of a volume took; none if there were none lately.
    pub(crate) fn of(&mut self, volume: VolumeId, now: Instant) -> Option<VolumeLatency> {
        let mut of = |verb| self.0.get_mut(&(volume, verb)).and_then(|w| w.summed_up(now));
        let all = VolumeLatency {
            reads: of(Verb::Read),
            writes: of(Verb::Write),
            flushes: of(Verb::Flush),
        };
        (all != VolumeLatency::default()).then_some(all)
    }

    /// What is known of volumes that are gone is forgotten.
    pub(crate) fn keep(&mut self, there: impl Fn(VolumeId) -> bool) {
        self.0.retain(|(volume, _), _| there(*volume));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_follow_one_another_and_are_narrow() {
        for n in 0..CLASSES {
            let top = longest(n);
            assert_eq!(class(top), n);
            if let Some(next) = top.checked_add(1) {
                assert_eq!(class(next), n + 1);
            }
            let bottom = if n == 0 { 0 } else { longest(n - 1) + 1 };
            assert!(top - bottom <= bottom / 8, "{n}");
        }
        assert_eq!(class(u64::MAX), CLASSES - 1);
    }

    #[test]
    fn percentiles_are_of_the_last_two_minutes() {
        let begun = Instant::now();
        let at = |s: u64| begun + Duration::from_secs(s);
        let (volume, mut all) = (VolumeId(1), Latencies::default());
        let us = Duration::from_micros;
        for n in 1..=100 {
            all.record((volume, Verb::Read), us(n * 1000), at(0));
        }
        let reads = all.of(volume, at(59)).unwrap().reads.unwrap();
        assert_eq!((reads.requests, reads.most_us), (100, 100_000));
        for (said, right) in
            [(reads.p50_us, 50_000), (reads.p95_us, 95_000), (reads.p99_us, 99_000)]
        {
            assert!((right..=right + right / 8).contains(&said), "{said} and not {right}");
        }
        all.record((volume, Verb::Write), us(7), at(61));
        let both = all.of(volume, at(61)).unwrap();
        assert_eq!(both.reads, Some(reads), "it was the minute before");
        let seven = LatencyStatus { requests: 1, p50_us: 7, p95_us: 7, p99_us: 7, most_us: 7 };
        assert_eq!((both.writes, both.flushes), (Some(seven), None));
        assert_eq!(all.of(volume, at(120)).unwrap().reads, None);
        assert_eq!(all.of(volume, at(300)), None);
        all.keep(|_| false);
        assert!(all.0.is_empty());
    }
}
