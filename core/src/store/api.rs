//! What a worker asks of its store.
//!
//! There are two: [`JournalStore`](super::JournalStore), which survives crashes and checks what it
//! reads, and [`PlainStore`](super::PlainStore), which does neither and costs nothing but the transfers that
//! were asked for: that of the papers' arrays.

use super::{
    Change, Copy, DiskRequest, DiskResult, Event, Heard, Kept, Reached, Scan, SlotCounts,
    StoreCounters, Timestamp, Views,
};
use std::ops::Range;

use crate::Buffer;
use crate::units::{Epoch, NodeId, VolumeId};

/// Says of a sector, its newest write and whether it has content, that an earlier write of it is
/// undecided.
pub type HeldBack<'a> = &'a dyn Fn(u64, Timestamp, bool) -> bool;

/// A store: turns reads, prepares and outcomes into operations of one disk.
pub trait Store: Send {
    /// Data sectors of the disk.
    fn data_sectors(&self) -> u64;
    /// The end of its logical sectors, in all address spaces.
    fn end(&self) -> u64 {
        self.data_sectors()
    }
    /// Told apart from every other formatting of a disk.
    fn incarnation(&self) -> u64;
    /// The latest timestamp of any write ever prepared here.
    fn latest(&self) -> Timestamp;
    /// The most bytes that one write may change here.
    fn most_bytes(&self) -> u64;
    /// What it has done.
    fn counters(&self) -> StoreCounters;
    /// Of that, the bytes that it has added up: asked for at every input of a simulated node.
    fn added_bytes(&self) -> u64 {
        self.counters().added_bytes
    }

    /// How far it has got; nothing is known of a store that does not say.
    fn reached(&self) -> Reached {
        Reached::default()
    }
    /// How far it had got when it was opened.
    fn found(&self) -> Reached {
        Reached::default()
    }
    /// Whether it knows by itself that it has forgotten what it promised.
    fn forgot(&self) -> bool {
        false
    }
    /// What it has heard of other disks.
    fn heard(&self) -> Option<&Heard> {
        None
    }
    /// Its node enters an epoch: what is promised from now on is promised in it.
    fn begin_life(&mut self, _: Epoch) {}
    /// Others have found that it has forgotten what it promised, and cannot do without it.
    fn forgotten(&mut self) {}
    /// Others know that it had forgotten what it promised, and it is made whole.
    fn forgiven(&mut self) {}
    /// Whether it has yet to write that it is forgiven.
    fn is_forgiving(&self) -> bool {
        false
    }
    /// How far another disk has got.
    fn hear(&mut self, _: NodeId, _: Reached) {}

    /// Reads `count` sectors from `first`; says [`Event::Read`] with `ticket`.
    fn read(&mut self, ticket: u64, first: u64, count: u64);
    /// The same, with the versions of the sectors.
    fn read_versions(&mut self, ticket: u64, first: u64, count: u64) {
        self.read(ticket, first, count);
    }
    /// The same with a volume's copies of the sectors' own content above it.
    fn read_newest(&mut self, ticket: u64, first: u64, count: u64, _volume: VolumeId) {
        self.read(ticket, first, count);
    }
    /// Whether the content of these sectors, or of data whose parity they are, may be kept as a copy.
    fn may_copy(&self, _sectors: Range<u64>) -> bool {
        false
    }
    /// The oldest copies that come after this one.
    fn copies_after(&self, _after: Option<Copy>, _most: usize) -> Vec<Copy> {
        Vec::new()
    }
    /// The copies in these sectors.
    fn copies_in(&self, _sectors: Range<u64>) -> Vec<Copy> {
        Vec::new()
    }
    /// The copy of a volume's data unit in a sector, and its write.
    fn copied(&self, _sector: u64, _kept: Kept) -> Option<(Timestamp, Buffer)> {
        None
    }
    /// Forgets a copy that other disks have replaced.
    fn drop_copy(&mut self, _copy: Copy) {}
    /// Whether to fold copies at once.
    fn copies_are_due(&self) -> bool {
        false
    }
    /// Whether other writes would take the room in the journal that folds need.
    fn waits_for_folds(&self) -> bool {
        false
    }
    /// Whether there are copies, or undecided writes may become some.
    fn may_have_copies(&self) -> bool {
        false
    }
    /// Bytes of the copies.
    fn copied_bytes(&self) -> u64 {
        0
    }
    /// Looks for sectors in `first..first + count`; says [`Event::Scanned`] with `ticket`.
    fn scan(&mut self, ticket: u64, first: u64, count: u64, what: Scan);
    /// A change by `ts` of these sectors will be prepared: what it will be added to may be
    /// fetched already; if that is `vital`, the write is prepared only when it is here.
    /// Forgotten with the write's outcome.
    fn expect(&mut self, ts: Timestamp, first: u64, count: u64, vital: bool);
    /// Whether it keeps `meta` of what is prepared.
    fn keeps_meta(&self) -> bool {
        true
    }
    /// Prepares a write. With `journal` it says [`Event::Prepared`] once durable, otherwise
    /// as soon as it can take effect. `meta` is kept with it and handed back by recovery.
    fn prepare(&mut self, ts: Timestamp, meta: Vec<u8>, changes: Vec<Change>, journal: bool);
    /// Commits or aborts a prepared write. Its changes are visible (or
    /// gone) at once; that the outcome is safe is said later.
    fn outcome(&mut self, ts: Timestamp, commit: bool);
    /// A write that was expected will not be prepared.
    fn forget(&mut self, ts: Timestamp);
    /// All participants know the outcome: the write need not be remembered.
    fn release(&mut self, ts: Timestamp);
    /// Makes what is in place safe; says [`Event::Flushed`].
    fn flush(&mut self, ticket: u64);

    /// Whether a write has yet to be written to the journal, so that it can be taken back.
    fn is_queued(&self, ts: Timestamp) -> bool;
    /// Whether a write waits for room in the journal.
    fn waits_for_room(&self, ts: Timestamp) -> bool;
    /// Whether nothing committed waits to be put in place, and no outcome to be written.
    fn is_quiet(&self) -> bool;
    /// What is in work, in words.
    fn waiting(&self) -> String;
    /// Bytes of committed changes held in memory.
    fn held_bytes(&self) -> u64;
    /// Whether free slots hold something that is to be discarded when nothing has been put in place for long.
    fn has_free_to_discard(&self) -> bool {
        false
    }
    /// Sectors of a slot; 0 if it has none.
    fn slot(&self) -> u64 {
        0
    }
    /// Volumes have these sectors of the disk, in order; other content may be dropped. `reserved` slots are kept for volumes
    /// that are not thin.
    fn keep_only(&mut self, _sectors: &[Range<u64>], _reserved: u64) {}
    /// Which sectors show the content of others. Said before anything is read or written.
    fn set_views(&mut self, _views: &Views) {}
    /// Whether the disk has space for these changes. A change prepared without space may never be placed.
    fn can_place(&self, _changes: &[Change]) -> bool {
        true
    }
    /// Whether slots may be dropped, now or soon.
    fn has_to_drop(&self) -> bool {
        false
    }
    /// Whether deleted snapshots have content left to merge.
    fn has_to_merge(&self) -> bool {
        false
    }
    /// Whether no content is left to merge.
    fn has_merged(&self) -> bool {
        true
    }
    /// In this part of its turns content is merged or copied from now on, in thousandths.
    fn merge_in_part(&mut self, _part: u64) {}
    /// Whether clones have content left to copy from what they lie over.
    fn has_to_flatten(&self) -> bool {
        false
    }
    /// Whether clones have copied all that they show of what they lie over.
    fn has_flattened(&self) -> bool {
        true
    }
    /// How far that is: by address space, in thousandths.
    fn flattening(&self) -> Vec<(u64, u64)> {
        Vec::new()
    }
    /// Whether it waits for space on the disk.
    fn flattens_without_space(&self) -> bool {
        false
    }
    /// Whether damage destroyed the record of used slots. Slots without a known place are lost then, until the disk is replaced.
    fn has_lost_claims(&self) -> bool {
        false
    }
    /// Whether slots of thin volumes are empty.
    fn has_empty(&self) -> bool {
        false
    }
    /// Gives back empty slots. `is_whole` says of a sector whether no disk has missed, or can miss, the discard.
    /// No write before `oldest` is under way.
    fn forget_empty(&mut self, _oldest: Timestamp, _is_whole: &dyn Fn(u64) -> bool) {}
    /// No empty slot that was given back had a later version.
    fn dropped(&self) -> Timestamp {
        Timestamp::ZERO
    }
    /// Leaves out of a write the zeros for slots of thin volumes that have no place, and will get none.
    fn without_needless_zeros(&self, changes: Vec<Change>) -> Vec<Change> {
        changes
    }
    /// How many slots each address space but the first has here, by its number.
    fn used_by_space(&self) -> Vec<(u64, u64)> {
        Vec::new()
    }
    /// How many slots each address space shows of the one that it lies over, by its number.
    fn shown_by_space(&self) -> Vec<(u64, u64)> {
        Vec::new()
    }
    /// How many slots of its disk are used for what, if it has any.
    fn slots(&self) -> Option<SlotCounts> {
        None
    }

    /// Starts to put committed changes in place if that is due (or `now`).
    fn checkpoint(&mut self, now: bool, held_back: HeldBack<'_>);
    /// The oldest prepared write that was aborted without that being safe yet: after a crash it is prepared again.
    fn oldest_abort(&self) -> Option<Timestamp>;
    /// All such writes.
    fn unsafe_aborts(&self) -> Vec<Timestamp> {
        Vec::new()
    }
    /// Writes outcomes that no prepare has carried along.
    fn flush_outcomes(&mut self);

    /// Checks what must hold between its fields; cheap enough to be done after every input.
    fn check(&self) {}
    /// Checks what takes a walk over all that it has in memory.
    fn check_sums(&self) {}

    /// Disk operations to start, in order.
    fn take_ops(&mut self) -> Vec<DiskRequest>;
    /// The same, into a list that has its room already.
    fn move_ops(&mut self, to: &mut Vec<DiskRequest>) {
        to.append(&mut self.take_ops());
    }
    /// A disk operation ended.
    fn done(&mut self, id: u64, result: DiskResult);
    /// The next thing to say.
    fn poll(&mut self) -> Option<Event>;
    /// Whether there is something to say.
    fn has_events(&self) -> bool;
}
