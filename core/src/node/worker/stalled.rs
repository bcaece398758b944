//! Writes and reads that wait for earlier writes, and are checked again when one is decided.

use std::collections::BTreeSet;

use crate::units::Timestamp;

/// Writes and reads that waited at the last check. Some may have ended.
#[derive(Clone, Default, Hash)]
pub(super) struct Stalled {
    writes: BTreeSet<Timestamp>,
    reads: BTreeSet<Timestamp>,
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
