//! An originator's clock.

use crate::units::{Nanos, NodeId, Timestamp};

/// How far clocks may be apart before one follows the other, in microseconds. Clocks that are kept
/// by a time service are closer (shared storage 4.1: a few milliseconds).
const APART: u64 = 100_000;
/// A clock that runs ahead loses one microsecond of that in so many that pass. It never goes back, and those
/// that follow one that stays ahead are refused once in ten seconds at most.
const SLOWED: u64 = 100;

/// Issues timestamps that only grow, and that are above the highest seen from anyone. If that was
/// far ahead, it runs on from there: a clock that is wrong costs one rejection and not one a
/// request. What it runs ahead shrinks again: who followed someone by a little less than others did would
/// otherwise be refused more often than they for good.
#[derive(Clone, Debug, Hash)]
pub struct Clock {
    node: NodeId,
    last: u64,
    /// The highest seen since the last was issued.
    seen: u64,
    /// How far it runs ahead of what it reads.
    ahead: u64,
    /// What it read when that last changed.
    since: u64,
}

impl Clock {
    /// The clock of `node`.
    pub fn new(node: NodeId) -> Self {
        Clock { node, last: 0, seen: 0, ahead: 0, since: 0 }
    }

    /// A timestamp greater than all issued or seen before.
    pub fn issue(&mut self, now: Nanos) -> Timestamp {
        let reads = Timestamp::reading(now, self.node).micros();
        self.slow_down(reads);
        if self.seen > reads + self.ahead + APART {
            self.ahead = self.seen - reads;
            self.since = reads;
        }
        self.seen = 0;
        self.last = self.shows(now).max(self.last + 1);
        Timestamp::new(self.last, self.node)
    }

    /// It loses a part of what it runs ahead.
    fn slow_down(&mut self, reads: u64) {
        if reads < self.since {
            self.since = reads;
        }
        let lost = (reads - self.since) / SLOWED;
        self.ahead = self.ahead.saturating_sub(lost);
        self.since += lost * SLOWED;
    }

    /// What it reads and what it runs ahead.
    fn shows(&self, now: Nanos) -> u64 {
        (now / 1000 + self.ahead).min(Timestamp::LAST_READING)
    }

    /// Takes note of a timestamp from elsewhere.
    pub fn see(&mut self, other: Timestamp) {
        self.last = self.last.max(other.micros());
        self.seen = self.seen.max(other.micros());
    }

    /// The highest time issued, seen or read, as a bound for what is old.
    pub fn latest(&self, now: Nanos) -> Timestamp {
        Timestamp::new(self.shows(now).max(self.last), self.node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_may_stand_still_or_go_back() {
        let mut clock = Clock::new(NodeId(3));
        let a = clock.issue(5_000_000);
        let b = clock.issue(5_000_000);
        let c = clock.issue(1_000_000);
        assert!(a < b && b < c);
        clock.see(Timestamp::new(1 << 40, NodeId(1)));
        assert!(clock.issue(0).micros() > 1 << 40);
    }

    #[test]
    fn one_that_is_far_behind_runs_on_from_what_it_saw() {
        let mut clock = Clock::new(NodeId(3));
        clock.see(Timestamp::new(3_600_000_000, NodeId(1)));
        clock.issue(1_000_000);
        assert_eq!(clock.issue(6_000_000).micros(), 3_600_005_000 - 50, "a hundredth slower");
        // Small differences are borne: clocks are never quite the same.
        let mut clock = Clock::new(NodeId(3));
        clock.see(Timestamp::new(6_000, NodeId(1)));
        assert_eq!(clock.issue(1_000_000).micros(), 6_001);
        assert_eq!(clock.issue(9_000_000).micros(), 9_000);
    }

    #[test]
    fn what_it_runs_ahead_does_not_last() {
        const HOUR: Nanos = 3_600_000_000_000;
        let mut clock = Clock::new(NodeId(3));
        clock.see(Timestamp::new(HOUR / 1000, NodeId(1)));
        let mut last = clock.issue(0);
        for hour in 1..100 {
            let next = clock.issue(hour * HOUR);
            assert!(last < next && next.micros() > hour * HOUR / 1000, "{last} {next}");
            last = next;
        }
        assert_eq!(clock.issue(100 * HOUR).micros(), 100 * HOUR / 1000, "it is what it reads");
        assert!(clock.issue(HOUR).micros() > 100 * HOUR / 1000, "set back: it goes on");
    }

    #[test]
    fn a_clock_that_no_timestamp_can_show_counts_on() {
        let mut clock = Clock::new(NodeId(3));
        let (a, b) = (clock.issue(Nanos::MAX), clock.issue(Nanos::MAX));
        assert_eq!((a.micros(), b.micros()), (Timestamp::LAST_READING, a.micros() + 1));
        let mut follows = Clock::new(NodeId(1));
        follows.see(b);
        let (c, d) = (follows.issue(5_000_000), follows.issue(6_000_000));
        assert!(b < c && c < d && follows.latest(7_000_000) >= d);
    }
}
