//! Writes in which this disk takes no part any more: a message that comes late or twice does not begin them again.

use std::collections::BTreeSet;

use crate::units::{Nanos, Timestamp};

/// The timestamps of such writes, and of reads.
#[derive(Clone, Default, Hash)]
pub(super) struct Fenced {
    of: BTreeSet<Timestamp>,
    /// When to look for what is old enough to be forgotten.
    forgets_at: Nanos,
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

    /// Whether it is time to look for what is old enough to be forgotten.
    pub fn is_time_to_forget(&self, now: Nanos) -> bool {
        now >= self.forgets_at
    }

    /// Forgets all before the horizon. It is looked again at `next`.
    pub fn forget_before(&mut self, horizon: Timestamp, next: Nanos) {
        self.of = self.of.split_off(&horizon);
        self.forgets_at = next;
    }
}
