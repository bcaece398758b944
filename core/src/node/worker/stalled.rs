//! Writes and reads that wait for earlier writes, and are checked again when one is decided; flushes that wait for aborts.

use std::collections::{BTreeMap, BTreeSet};

use crate::units::{NodeId, Timestamp};

/// Writes and reads that waited at the last check. Some may have ended.
#[derive(Clone, Default, Hash)]
pub(super) struct Stalled {
    writes: BTreeSet<Timestamp>,
    reads: BTreeSet<Timestamp>,
    /// Flushes of other nodes, by their numbers there, and the aborts that must be durable before them.
    flushes: BTreeMap<(NodeId, u64), BTreeSet<Timestamp>>,
    /// Aborted writes whose aborts are not durable, and the nodes that have asked after them.
    asked: BTreeMap<Timestamp, BTreeSet<NodeId>>,
    /// Something that they may wait for has changed.
    has_changed: bool,
}

impl Stalled {
    /// A write waits.
    pub fn write(&mut self, ts: Timestamp) {
        self.writes.insert(ts);
    }

    /// A read waits.
    pub fn read(&mut self, ts: Timestamp) {
        self.reads.insert(ts);
    }

    /// A flush waits until these aborts are durable.
    pub fn flush(&mut self, flush: (NodeId, u64), aborts: Vec<Timestamp>) {
        self.flushes.entry(flush).or_insert_with(|| aborts.into_iter().collect());
    }

    /// A node that asks after a write waits until its abort is durable.
    pub fn ask(&mut self, node: NodeId, ts: Timestamp) {
        self.asked.entry(ts).or_default().insert(node);
    }

    /// The nodes that have waited for the abort of this write.
    pub fn asked(&mut self, ts: Timestamp) -> BTreeSet<NodeId> {
        self.asked.remove(&ts).unwrap_or_default()
    }

    /// Nobody waits for flushes or answers any more.
    pub fn forget_flushes(&mut self) {
        self.flushes.clear();
        self.asked.clear();
    }

    /// The outcome of a write is durable. Returns the flushes that have waited for that, and wait for no other.
    pub fn outcome_is_safe(&mut self, ts: Timestamp) -> Vec<(NodeId, u64)> {
        if self.flushes.is_empty() {
            return Vec::new();
        }
        self.flushes.values_mut().for_each(|aborts| _ = aborts.remove(&ts));
        self.flushes.extract_if(.., |_, aborts| aborts.is_empty()).map(|(flush, _)| flush).collect()
    }

    /// Something that they may wait for has changed.
    pub fn wake(&mut self) {
        self.has_changed = true;
    }

    /// Whether something has changed since [`Stalled::take_change`].
    pub fn has_changed(&self) -> bool {
        self.has_changed
    }

    /// Whether something has changed since this was last asked.
    pub fn take_change(&mut self) -> bool {
        std::mem::take(&mut self.has_changed)
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty() && self.reads.is_empty()
    }

    /// The writes and the reads that look again now.
    pub fn take(&mut self) -> (BTreeSet<Timestamp>, BTreeSet<Timestamp>) {
        (std::mem::take(&mut self.writes), std::mem::take(&mut self.reads))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flush_waits_for_all_its_aborts() {
        let at = |n| Timestamp::new(n, NodeId(0));
        let (one, two) = ((NodeId(1), 7), (NodeId(2), 7));
        let mut stalled = Stalled::default();
        stalled.flush(one, vec![at(1), at(2)]);
        stalled.flush(two, vec![at(2)]);
        // Repeated: the aborts since then are not its own.
        stalled.flush(one, vec![at(3)]);
        assert_eq!(stalled.outcome_is_safe(at(1)), []);
        assert_eq!(stalled.outcome_is_safe(at(2)), [one, two]);
        assert_eq!(stalled.outcome_is_safe(at(3)), []);
        stalled.flush(one, vec![at(4)]);
        stalled.forget_flushes();
        assert_eq!(stalled.outcome_is_safe(at(4)), []);
    }
}
