//! Deliberate bugs of a store, which the simulation check must find: the proof that it bites. All of them are here.
//! Elsewhere the code asks a question that has one right answer; with a bug it gets the wrong one.

use super::slots::Slots;
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
    /// "Prepared" is said before the content is safe that is written beside the journal.
    PreparedEarly,
    /// Opening takes the content of undecided writes for granted.
    ContentUnchecked,
    /// A slot is used again before the pointer that led there is replaced on the disk.
    SlotTooSoon,
    /// A slot is used again while it is read.
    SlotWhileRead,
    /// A discard leaves no version.
    VersionDropped,
    /// Slots whose claims cannot be read count as holes.
    LostForHoles,
    /// Whole slots of new content take the last slots that are free.
    NoReserve,
    /// A slot is used while what it had before is discarded.
    UsedWhileDiscarded,
    /// A deleted snapshot is dropped with the sectors that the view above it shows.
    DropsShown,
    /// A change is added to nothing where a view shows the content of another.
    ForgetsBase,
    /// A clone that is flattened does not get every sector.
    CopiesSome,
    /// Of two copies of the same data the one counts that was committed last.
    LastCopyCounts,
    /// Copies are dropped when what replaces them is prepared.
    DropsCopiesEarly,
    /// A carried write does not say where it has no effect.
    ForgetsOvertaken,
    /// Nothing is carried to the head of the journal.
    CarriesNothing,
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

    /// Whether a slot of a deleted snapshot stays while the view above it shows sectors of it.
    pub(super) fn keeps_shown(&self) -> bool {
        !self.has(StoreBug::DropsShown)
    }

    /// Whether changes of a view are added to what it shows.
    pub(super) fn adds_to_shown(&self) -> bool {
        !self.has(StoreBug::ForgetsBase)
    }

    /// Whether a clone that is flattened gets this sector.
    pub(super) fn copies(&self, sector: u64) -> bool {
        !self.has(StoreBug::CopiesSome) || sector % 16 != 4
    }

    /// Whether the room of forgotten frames is free only when the disk's superblock has forgotten them.
    pub(super) fn waits_for_room(&self) -> bool {
        !self.has(StoreBug::RoomTooSoon)
    }

    /// Whether a write that is carried says where it has no effect.
    pub(super) fn carries_overtaken(&self) -> bool {
        !self.has(StoreBug::ForgetsOvertaken)
    }

    /// Whether what keeps the oldest frames is carried.
    pub(super) fn carries(&self) -> bool {
        !self.has(StoreBug::CarriesNothing)
    }

    /// How many free slots new content leaves for what is put in place where nothing is yet.
    pub(super) fn reserve(&self, slots: &Slots) -> u64 {
        if self.has(StoreBug::NoReserve) { 0 } else { slots.reserved() }
    }

    /// Whether nobody gets a free slot while what it has is discarded.
    pub(super) fn holds_what_it_discards(&self) -> bool {
        !self.has(StoreBug::UsedWhileDiscarded)
    }

    /// Whether a frame promises nothing before the content of its writes is safe.
    pub(super) fn waits_for_content(&self) -> bool {
        !self.has(StoreBug::PreparedEarly)
    }

    /// Whether the content of undecided writes is looked at when a disk is opened.
    pub(super) fn checks_content(&self) -> bool {
        !self.has(StoreBug::ContentUnchecked)
    }

    /// Whether the newest copy counts, whatever was committed last.
    pub(super) fn newest_copy_counts(&self) -> bool {
        !self.has(StoreBug::LastCopyCounts)
    }

    /// Whether copies stay until what replaces them commits.
    pub(super) fn keeps_copies(&self) -> bool {
        !self.has(StoreBug::DropsCopiesEarly)
    }

    /// Whether a slot is free only when the pointer that led there is replaced.
    pub(super) fn waits_for_pointers(&self) -> bool {
        !self.has(StoreBug::SlotTooSoon)
    }

    /// Whether a slot is free only when nobody reads it.
    pub(super) fn waits_for_reads(&self) -> bool {
        !self.has(StoreBug::SlotWhileRead)
    }

    /// Whether a hole has the version of the write that made it.
    pub(super) fn keeps_versions(&self) -> bool {
        !self.has(StoreBug::VersionDropped)
    }

    /// Whether what nobody claims is lost where claims are.
    pub(super) fn loses_unclaimed(&self) -> bool {
        !self.has(StoreBug::LostForHoles)
    }

    /// Which copy the superblock of this sequence is.
    pub(super) fn superblock_copy(&self, sequence: u64) -> u64 {
        if self.has(StoreBug::OneSuperblock) { 0 } else { sequence % SUPERBLOCKS }
    }
}
