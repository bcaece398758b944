//! Writes and reads in which this disk takes no part any more: a message that comes late or twice does not begin them
//! again.

use std::collections::VecDeque;

use crate::units::{Nanos, Timestamp};

/// The timestamps of such writes and reads.
#[derive(Clone, Default, Hash)]
pub(super) struct Fenced {
    of: Times,
    /// Reads alone. A request that reads before it writes does both at one time.
    reads: Times,
    /// When to search for entries that are old enough to be forgotten.
    forgets_at: Nanos,
}

/// Timestamps in their order: most that come are later than all, or nearly.
#[derive(Clone, Default, Hash)]
struct Times(VecDeque<Timestamp>);

impl Times {
    fn insert(&mut self, ts: Timestamp) {
        if self.0.back().is_none_or(|last| *last < ts) {
            self.0.push_back(ts);
        } else if let Err(place) = self.0.binary_search(&ts) {
            self.0.insert(place, ts);
        }
    }

    fn contains(&self, ts: &Timestamp) -> bool {
        let may_be = self.0.back().is_some_and(|last| ts <= last);
        may_be && self.0.binary_search(ts).is_ok()
    }

    fn forget_before(&mut self, horizon: Timestamp) {
        self.0.drain(..self.0.partition_point(|ts| *ts < horizon));
    }
}

impl Fenced {
    /// Nothing of this timestamp begins here any more.
    pub fn insert(&mut self, ts: Timestamp) {
        self.of.insert(ts);
    }

    /// Whether nothing of this timestamp begins here any more.
    pub fn contains(&self, ts: &Timestamp) -> bool {
        self.of.contains(ts)
    }

    /// No read of this timestamp begins here any more.
    pub fn insert_read(&mut self, ts: Timestamp) {
        self.reads.insert(ts);
    }

    /// Whether no read of this timestamp begins here any more.
    pub fn has_read(&self, ts: &Timestamp) -> bool {
        self.of.contains(ts) || self.reads.contains(ts)
    }

    /// Whether it is time for that search.
    pub fn is_time_to_forget(&self, now: Nanos) -> bool {
        now >= self.forgets_at
    }

    /// Forgets all before the horizon. The next search is at `next`.
    pub fn forget_before(&mut self, horizon: Timestamp, next: Nanos) {
        self.of.forget_before(horizon);
        self.reads.forget_before(horizon);
        self.forgets_at = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::NodeId;

    #[test]
    fn what_came_in_any_order_is_known_until_it_is_forgotten() {
        let at = |n| Timestamp::new(n, NodeId(0));
        let mut fenced = Fenced::default();
        [5, 9, 7, 7, 2].into_iter().for_each(|n| fenced.insert(at(n)));
        let known = |f: &Fenced| (0..11).filter(|n| f.contains(&at(*n))).collect::<Vec<_>>();
        assert_eq!(known(&fenced), [2, 5, 7, 9]);
        fenced.forget_before(at(7), 3);
        assert_eq!(known(&fenced), [7, 9]);
        assert!(fenced.is_time_to_forget(3) && !fenced.is_time_to_forget(2));
        fenced.forget_before(at(10), 4);
        assert!(known(&fenced).is_empty());
    }
    #[test]
    fn a_write_may_follow_a_read_of_the_same_time() {
        let at = |n| Timestamp::new(n, NodeId(0));
        let mut fenced = Fenced::default();
        fenced.insert_read(at(3));
        fenced.insert(at(4));
        assert_eq!([3, 4, 5].map(|n| fenced.contains(&at(n))), [false, true, false]);
        assert_eq!([3, 4, 5].map(|n| fenced.has_read(&at(n))), [true, true, false]);
        fenced.forget_before(at(4), 0);
        assert!(!fenced.has_read(&at(3)));
    }
}
