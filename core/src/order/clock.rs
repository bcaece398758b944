//! An originator's clock.

use crate::units::{Nanos, NodeId, Timestamp};

/// Issues timestamps that only grow, and that follow the highest seen from anyone, so that
/// a slow clock costs one rejection and not one a request.
#[derive(Clone, Debug, Hash)]
pub struct Clock {
    node: NodeId,
    last: u64,
}

impl Clock {
    /// The clock of `node`.
    pub fn new(node: NodeId) -> Self {
        Clock { node, last: 0 }
    }

    /// A timestamp greater than all issued or seen before.
    pub fn issue(&mut self, now: Nanos) -> Timestamp {
        self.last = (now / 1000).max(self.last + 1);
        Timestamp::new(self.last, self.node)
    }

    /// Takes note of a timestamp from elsewhere.
    pub fn see(&mut self, other: Timestamp) {
        self.last = self.last.max(other.micros());
    }

    /// The highest time issued, seen or read, as a bound for what is old.
    pub fn latest(&self, now: Nanos) -> Timestamp {
        Timestamp::new((now / 1000).max(self.last), self.node)
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
}
