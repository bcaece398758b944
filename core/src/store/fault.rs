//! Deliberate bugs of a store, which the simulation check must find: the proof that it bites. All of them are here.
//! Elsewhere the code asks a question that has one right answer; with a bug it gets the wrong one.

use super::{SUPERBLOCKS, StoreConfig};

/// Deliberate bugs of a store that the simulation check must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StoreBug {
    /// "Prepared" is said before the journal is safe.
    MissingFlush,
    /// A frame that replay finds past the ring's end counts without what was skipped before it.
    MiscountedWrap,
    /// The room of forgotten frames is used before the superblock on the disk has forgotten them.
    RoomTooSoon,
    /// The superblock is always written over the same copy.
    OneSuperblock,
}

impl StoreConfig {
    fn has(&self, bug: StoreBug) -> bool {
        self.bug == Some(bug)
    }

    /// Whether a frame is safe when its write ends.
    pub(super) fn writes_frames_through(&self) -> bool {
        !self.has(StoreBug::MissingFlush)
    }

    /// Whether replay counts what was skipped at the ring's end.
    pub(super) fn counts_what_is_skipped(&self) -> bool {
        !self.has(StoreBug::MiscountedWrap)
    }

    /// Whether the room of forgotten frames is free only when the disk's superblock has forgotten them.
    pub(super) fn waits_for_room(&self) -> bool {
        !self.has(StoreBug::RoomTooSoon)
    }

    /// Which copy the superblock of this sequence is.
    pub(super) fn superblock_copy(&self, sequence: u64) -> u64 {
        if self.has(StoreBug::OneSuperblock) { 0 } else { sequence % SUPERBLOCKS }
    }
}
