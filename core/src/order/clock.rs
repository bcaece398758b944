//! An originator's clock.

use crate::units::{Nanos, NodeId, Timestamp};

/// How far clocks may be apart before one follows the other, in microseconds. Clocks that are kept
/// by a time service are closer (shared storage 4.1: a few milliseconds).
const APART: u64 = 100_000;

/// Issues timestamps that only grow, and that are above the highest seen from anyone. If that was
/// far ahead, it runs on from there: a clock that is wrong costs one rejection and not one a
/// request.
#[derive(Clone, Debug, Hash)]
pub struct Clock {
    node: NodeId,
    last: u64,
    /// The highest seen since the last was issued.
    seen: u64,
    /// How far it runs ahead of what it reads.
    ahead: u64,
}

impl Clock {
    /// The clock of `node`.
    pub fn new(node: NodeId) -> Self {
        Clock { node, last: 0, seen: 0, ahead: 0 }
    }

    /// A timestamp greater than all issued or seen before.
    pub fn issue(&mut self, now: Nanos) -> Timestamp {
        let reads = now / 1000;
        if self.seen > reads + self.ahead + APART {
            self.ahead = self.seen - reads;
        }
        self.seen = 0;
        self.last = (reads + self.ahead).max(self.last + 1);
        Timestamp::new(self.last, self.node)
    }

    /// Takes note of a timestamp from elsewhere.
    pub fn see(&mut self, other: Timestamp) {
        self.last = self.last.max(other.micros());
        self.seen = self.seen.max(other.micros());
    }

    /// The highest time issued, seen or read, as a bound for what is old.
    pub fn latest(&self, now: Nanos) -> Timestamp {
        Timestamp::new((now / 1000 + self.ahead).max(self.last), self.node)
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
        assert_eq!(clock.issue(6_000_000).micros(), 3_600_005_000);
        // Small differences are borne: clocks are never quite the same.
        let mut clock = Clock::new(NodeId(3));
        clock.see(Timestamp::new(6_000, NodeId(1)));
        assert_eq!(clock.issue(1_000_000).micros(), 6_001);
        assert_eq!(clock.issue(9_000_000).micros(), 9_000);
    }
}
