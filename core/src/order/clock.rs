//! An originator's clock.

use crate::units::{Nanos, NodeId, Timestamp};

/// How far clocks may be apart before one follows the other, in microseconds. Clocks that are kept
/// by a time service are closer (shared storage 4.1: a few milliseconds).
const APART: u64 = 100_000;
/// A clock that runs ahead loses one microsecond of that in so many that pass. It never goes back, and those
/// that follow one that stays ahead are refused once in ten seconds at most.
const SLOWED: u64 = 100;

/// How far ahead of the cluster's time a clock is followed, in microseconds. One that is farther ahead is wrong: its node
/// goes by the cluster's time instead, and nobody else notices.
pub const FOLLOWED: u64 = 10_000_000;

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
    /// How far what it reads is ahead of the cluster's time, if that is not followed.
    wrong: u64,
    /// Every timestamp of the epoch is later.
    floor: Timestamp,
}

impl Clock {
    /// The clock of `node`.
    pub fn new(node: NodeId) -> Self {
        let floor = Timestamp::ZERO;
        Clock { node, last: 0, seen: 0, ahead: 0, since: 0, wrong: 0, floor }
    }

    /// A timestamp greater than all issued or seen before.
    pub fn issue(&mut self, now: Nanos) -> Timestamp {
        let reads = self.reads(now);
        self.slow_down(reads);
        if self.seen > reads + self.ahead + APART {
            self.ahead = self.seen - reads;
            self.since = reads;
        }
        self.seen = 0;
        self.last = self.shows(now).max(self.last + 1);
        Timestamp::new(self.last, self.node)
    }

    /// An epoch begins, in which every timestamp is later than `floor`. That is no earlier than what any node's
    /// clock shows, but for those that are wrong. One that is farther ahead is wrong by so much: from now
    /// on it shows the cluster's time. Returns by how much, in microseconds.
    pub fn enter(&mut self, now: Nanos, floor: Timestamp) -> u64 {
        self.see(floor);
        self.floor = floor;
        let too_far = self.shows(now).saturating_sub(floor.micros());
        if too_far > FOLLOWED {
            let by_itself = too_far.saturating_sub(self.ahead);
            self.ahead = self.ahead.saturating_sub(too_far);
            self.wrong += by_itself;
            self.since = self.reads(now);
        }
        self.wrong
    }

    /// What the clock says, without what is known to be wrong with it.
    fn reads(&self, now: Nanos) -> u64 {
        (now / 1000).saturating_sub(self.wrong).min(Timestamp::LAST_READING)
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
        (self.reads(now) + self.ahead).min(Timestamp::LAST_READING)
    }

    /// What it shows: no timestamp that it issues from now on is earlier.
    pub fn reading(&mut self, now: Nanos) -> Timestamp {
        self.slow_down(self.reads(now));
        Timestamp::new(self.shows(now), self.node)
    }

    /// What it shows, or when the epoch began if that is later: writes of earlier epochs may have timestamps that are ahead
    /// of this clock. No timestamp that it issues from now on is earlier.
    pub fn earliest(&mut self, now: Nanos) -> Timestamp {
        self.reading(now).max(Timestamp::new(self.floor.micros() + 1, NodeId(0)))
    }

    /// The highest time issued or seen.
    pub fn reached(&self) -> Timestamp {
        Timestamp::new(self.last, self.node)
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

    /// The cluster's time is ahead of its own. Requests are later than all of earlier epochs nevertheless.
    #[test]
    fn one_that_is_behind_the_epoch_begins_with_that() {
        let mut clock = Clock::new(NodeId(3));
        let floor = Timestamp::new(7_000, NodeId(5));
        clock.enter(5_000_000, floor);
        assert_eq!(clock.reading(5_000_000).micros(), 5_000);
        let earliest = clock.earliest(5_000_000);
        assert_eq!(earliest, Timestamp::new(7_001, NodeId(0)));
        assert!(floor < earliest && earliest <= clock.issue(5_000_000));
        assert_eq!(clock.earliest(9_000_000), clock.reading(9_000_000));
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
    fn a_clock_that_is_wrong_shows_the_clusters_time() {
        const SECOND: Nanos = 1_000_000_000;
        let mut clock = Clock::new(NodeId(3));
        let floor = |s: u64| Timestamp::new(s * 1_000_000, NodeId(0));
        let years = 86 * 365 * 86_400;
        assert_eq!(clock.enter((100 + 9) * SECOND, floor(100)), 0, "it is followed");
        let mut clock = Clock::new(NodeId(3));
        let now = |s: u64| (years + s) * SECOND;
        assert_eq!(clock.enter(now(100), floor(100)), years * 1_000_000);
        assert_eq!(clock.issue(now(130)).micros(), 130_000_000);
        assert_eq!(clock.reading(now(140)).micros(), 140_000_000);
        assert_eq!(clock.enter(now(150), floor(145)), years * 1_000_000, "it was right since");
        // What it ran ahead of itself, and nobody knows of any more, it loses too.
        let mut clock = Clock::new(NodeId(3));
        clock.see(floor(5000));
        clock.issue(100 * SECOND);
        assert_eq!(clock.enter(100 * SECOND, floor(5001)), 0);
        assert!(clock.issue(101 * SECOND) > floor(5001));
        // No timestamp is earlier than what was read before it, though the lead shrinks.
        let mut clock = Clock::new(NodeId(3));
        clock.see(floor(5000));
        clock.issue(100 * SECOND);
        for at in 101..120 {
            let read = clock.reading(at * SECOND);
            assert!(clock.issue(at * SECOND) >= read);
        }
        // Set back to what it should be, it follows the others.
        let mut clock = Clock::new(NodeId(3));
        clock.enter(now(100), floor(100));
        let before = clock.issue(now(110));
        assert!(clock.issue(120 * SECOND) > before);
        assert_eq!(clock.enter(130 * SECOND, floor(130)), years * 1_000_000);
        assert!(clock.issue(131 * SECOND) > floor(130));
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
