//! Writes in which this disk takes no part any more: a message that comes late or twice does not begin them again.

use std::collections::VecDeque;

use crate::units::{Nanos, Timestamp};

/// The timestamps of such writes, and of reads.
#[derive(Clone, Default, Hash)]
pub(super) struct Fenced {
    /// In their order: most that come are later than all, or nearly.
    of: VecDeque<Timestamp>,
    /// When to search for entries that are old enough to be forgotten.
    forgets_at: Nanos,
}

impl Fenced {
    /// Nothing of this timestamp begins here any more.
    pub fn insert(&mut self, ts: Timestamp) {
        if self.of.back().is_none_or(|last| *last < ts) {
            self.of.push_back(ts);
        } else if let Err(place) = self.of.binary_search(&ts) {
            self.of.insert(place, ts);
        }
    }

    /// Whether nothing of this timestamp begins here any more.
    pub fn contains(&self, ts: &Timestamp) -> bool {
        let may_be = self.of.back().is_some_and(|last| ts <= last);
        may_be && self.of.binary_search(ts).is_ok()
    }

    /// Whether it is time for that search.
    pub fn is_time_to_forget(&self, now: Nanos) -> bool {
        now >= self.forgets_at
    }

    /// Forgets all before the horizon. The next search is at `next`.
    pub fn forget_before(&mut self, horizon: Timestamp, next: Nanos) {
        self.of.drain(..self.of.partition_point(|ts| *ts < horizon));
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
}
