//! Slots that are given back: those that belong to no volume any more, and those of thin volumes in which everything
//! has been discarded. A checkpoint drops them: the journal says so, and then the owners. Their places are free when
//! it is done.
//!
//! A slot without a place has no versions. So an empty slot is kept until no disk can have missed the discard. The
//! worker says so, and that no earlier write is under way. The superblock keeps the latest of these versions: a slot without
//! a place may have been written up to then. A slot is not empty while it hides slots of the views below.
//! When those are dropped, it is looked at again.
//!
//! Zeros for a slot of a thin volume that has no place change nothing, and are left out. A disk that misses them has
//! content in that row, or none has; then another disk has content there, too, and records the write.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::checkpoint::consecutive;
use super::table::State;
use super::{Change, ChangeKind, Changed, Event, JournalStore, Timestamp, Write};
use crate::Buffer;
use crate::units::{SECTOR, SPACE_SECTORS};

/// Slots that a checkpoint drops at most.
const BATCH: usize = 1024;
/// Empty slots that are remembered at most. Others are found when they are scanned again.
const MOST_EMPTY: usize = 1 << 16;

/// What can be given back.
#[derive(Clone, Default, Hash)]
pub(super) struct Dropping {
    /// The logical slots of volumes, in order; nothing before the map has said.
    kept: Option<Vec<Range<u64>>>,
    /// Whether there may be slots that belong to none, and from where on they are looked for next.
    searches: bool,
    next: u64,
    /// Slots of thin volumes whose sectors are all holes, and the latest write in them.
    empty: BTreeMap<u64, Timestamp>,
    /// Those of them that no disk can have missed.
    forgotten: BTreeSet<u64>,
    /// Slots that may be empty since nothing lies below them any more: they are looked at.
    uncovered: Vec<Range<u64>>,
}

impl JournalStore {
    /// Volumes have these sectors, in order, on this disk. `reserved` slots are kept for those that are not thin.
    pub fn keep_only(&mut self, sectors: &[Range<u64>], reserved: u64) {
        // Of a disk that is full from the beginning, in a simulation, nothing is dropped.
        if !self.superblock.has_spaces() || self.config.full.is_some() {
            return;
        }
        let size = self.superblock.slot();
        let mut kept: Vec<Range<u64>> = Vec::new();
        for slots in sectors.iter().map(|s| s.start / size..s.end.div_ceil(size)) {
            match kept.last_mut() {
                Some(last) if slots.start <= last.end => last.end = last.end.max(slots.end),
                _ => kept.push(slots),
            }
        }
        self.dropping.kept = Some(kept);
        (self.dropping.searches, self.dropping.next) = (true, 0);
        let leftovers = self.slots_of_nobody(0).filter(|slot| !self.slots.is_thin(*slot)).count();
        self.slots.promise(reserved + leftovers as u64);
    }

    /// Leaves out of a write the zeros for slots of thin volumes that have no place, and will get none.
    pub fn without_needless_zeros(&self, changes: Vec<Change>) -> Vec<Change> {
        if !changes.iter().any(|change| self.may_be_needless(change)) {
            return changes;
        }
        let mut needed = Vec::with_capacity(changes.len());
        for change in changes {
            match self.may_be_needless(&change) {
                true => needed.extend(self.needed_zeros(&change)),
                false => needed.push(change),
            }
        }
        needed
    }

    /// Whether a change writes zeros, which change nothing where there is no slot. If claims were lost, sectors without a
    /// slot are lost until they are written.
    fn may_be_needless(&self, change: &Change) -> bool {
        let has_data = matches!(change.kind, ChangeKind::Content | ChangeKind::Delta);
        let zeros = has_data && change.data.is_zero();
        zeros && !self.slots.is_reserved(change.sector) && !self.superblock.unplaced.are_lost
    }

    /// The parts of a change to zeros that are in slots with a place, or with one promised, or that show others' content.
    fn needed_zeros(&self, change: &Change) -> impl Iterator<Item = Change> {
        let slots = self.slots_of(std::iter::once(change.sectors()));
        let is_needed = |slot: &u64| self.slots.has_or_gets(*slot) || self.shows_others(*slot);
        let needed: Vec<u64> = slots.into_iter().filter(is_needed).collect();
        let (all, kind) = (change.sectors(), change.kind);
        let parts = consecutive(needed).map(|slots| {
            self.slots.sectors_of(slots.start).start..self.slots.sectors_of(slots.end - 1).end
        });
        let cut: Vec<Range<u64>> =
            parts.map(|s| s.start.max(all.start)..s.end.min(all.end)).collect();
        cut.into_iter().map(move |s| {
            let data = Buffer::Zero(((s.end - s.start) * SECTOR) as usize);
            Change { sector: s.start, kind, data }
        })
    }

    /// Whether the disk has places for these changes, or can promise them.
    pub fn can_place(&self, changes: &[Change]) -> bool {
        let takes_space = |change: &&Change| !change.kind.is_of_copies();
        let changes = || changes.iter().filter(takes_space);
        let thin = |change: &Change| !self.slots.is_reserved(change.sector);
        if !changes().any(thin) && !self.slots.is_overcommitted() {
            return true;
        }
        let has = changes().all(|change| self.slots.has(change.sectors()));
        has && self.slots.can_promise(&self.slots_of(changes().map(Change::sectors)))
    }

    /// The slots in which these sectors are.
    pub(super) fn slots_of(&self, sectors: impl Iterator<Item = Range<u64>>) -> BTreeSet<u64> {
        let size = self.superblock.slot().max(1);
        let slots = sectors.flat_map(|s| s.start / size..s.end.div_ceil(size));
        slots.filter(|slot| self.slots.is_slot(*slot)).collect()
    }

    /// Whether an undecided write changes anything of a thin volume.
    pub(super) fn is_thin(&self, write: &Write) -> bool {
        write.changes().iter().any(|change| change.sector >= SPACE_SECTORS)
            || write.redirects().iter().any(|redirect| self.slots.is_thin(redirect.slot))
    }

    /// The slots that an undecided write changes. Copies have their places.
    pub(super) fn slots_of_write(&self, write: &Write) -> BTreeSet<u64> {
        let changed = write.changed(self.superblock.slot());
        let takes_space = |c: &Changed| !c.kind.is_of_copies();
        let changed = changed.into_iter().filter(takes_space);
        self.slots_of(changed.map(|changed| changed.sectors))
    }

    /// A write is prepared: its slots are promised.
    pub(super) fn expect_places(&mut self, ts: Timestamp) {
        if self.is_thin(&self.writes[&ts]) {
            let slots = self.slots_of_write(&self.writes[&ts]);
            self.slots.expect_places(&slots);
        }
    }

    /// A write is decided.
    pub(super) fn places_decided(&mut self, ts: Timestamp, committed: bool) {
        let Some(write) = self.writes.get(&ts) else { return };
        if self.is_thin(write) {
            let slots = self.slots_of_write(write);
            self.slots.decided(&slots, committed);
        }
    }

    /// The disk is open: what its journal has is promised places.
    pub(super) fn expect_places_again(&mut self) {
        if !self.superblock.has_spaces() {
            return;
        }
        let undecided = self.writes.values().filter(|write| write.is_undecided());
        let undecided: Vec<_> = undecided.map(|write| self.slots_of_write(write)).collect();
        let placing = self.checkpoint.iter().flat_map(|c| c.sectors());
        let committed = self.overlay.iter().chain(placing).map(|(sector, _)| sector..sector + 1);
        let committed = self.slots_of(committed);
        self.slots.expect_again(undecided.iter(), &committed);
    }

    /// Looks whether slots of a thin volume are empty whose pages of the table are in memory.
    pub(super) fn look_for_empty(&mut self, sectors: Range<u64>) {
        let Some(slots) = sectors.start.checked_div(self.superblock.slot()) else { return };
        let end = sectors.end.div_ceil(self.superblock.slot());
        for slot in slots..end {
            if self.slots.is_thin(slot) {
                self.look_whether_empty(slot);
            }
        }
    }

    fn look_whether_empty(&mut self, slot: u64) {
        self.dropping.empty.remove(&slot);
        self.dropping.forgotten.remove(&slot);
        if self.slots.place(slot).is_none() {
            return;
        }
        let sectors = self.slots.sectors_of(slot);
        let pages = self.pages_of(sectors.start, sectors.end - sectors.start);
        if !pages.into_iter().all(|page| self.table.has(page)) {
            return;
        }
        let entries: Vec<_> = sectors.map(|sector| self.entry(sector)).collect();
        let is_empty = entries.iter().all(|entry| entry.state == State::Hole)
            && self.views.is_some()
            && !self.shows_others(slot);
        if is_empty && self.dropping.empty.len() < MOST_EMPTY {
            let latest = entries.iter().map(|entry| entry.version).max().unwrap_or_default();
            self.dropping.empty.insert(slot, latest);
        }
    }

    /// Whether slots are empty that may be given back.
    pub fn has_empty(&self) -> bool {
        !self.dropping.empty.is_empty()
    }

    /// Whether a checkpoint may have slots to drop, now or soon.
    pub fn has_to_drop(&self) -> bool {
        let dropping = &self.dropping;
        let drops = dropping.searches
            || !dropping.empty.is_empty()
            || !dropping.forgotten.is_empty()
            || !dropping.uncovered.is_empty();
        drops && self.recovery.is_none() && !self.failed && !self.superblock.unplaced.are_lost
    }

    /// Gives back empty slots. The worker says by their first sectors whether no disk can have missed the discard.
    pub fn forget_empty(&mut self, oldest: Timestamp, is_whole: impl Fn(u64) -> bool) {
        let known = self.writes.first_key_value().map_or(Timestamp(u64::MAX), |(ts, _)| *ts);
        let oldest = oldest.min(known);
        let may = |slot: &u64, latest: &Timestamp| {
            *latest < oldest && is_whole(self.slots.sectors_of(*slot).start)
        };
        let gone = self.dropping.empty.iter().filter(|(slot, latest)| may(slot, latest));
        let gone: Vec<(u64, Timestamp)> =
            gone.map(|(s, latest)| (*s, *latest)).take(BATCH).collect();
        for (slot, latest) in gone {
            self.dropping.empty.remove(&slot);
            self.dropping.forgotten.insert(slot);
            // The checkpoint that drops it ends with the superblock.
            self.superblock.unplaced.dropped = self.superblock.unplaced.dropped.max(latest);
        }
    }

    /// Slots that were written up to then may have been given back.
    #[cfg(test)]
    pub fn drops_up_to(&mut self, latest: Timestamp) {
        self.superblock.unplaced.dropped = latest;
    }

    /// Nothing lies below these sectors any more, which were views of others.
    pub(super) fn uncover(&mut self, sectors: Range<u64>) {
        let size = self.superblock.slot().max(1);
        self.dropping.uncovered.push(sectors.start / size..sectors.end.div_ceil(size));
    }

    /// Looks at some slots below which nothing lies any more.
    fn look_at_uncovered(&mut self) {
        for _ in 0..BATCH {
            let Some(slots) = self.dropping.uncovered.pop() else { return };
            let Some(slot) = self.slots.placed_in(slots.clone()).next() else { continue };
            let sectors = self.slots.sectors_of(slot);
            if !self.want(self.pages_of(sectors.start, sectors.end - sectors.start)) {
                return self.dropping.uncovered.push(slot..slots.end);
            }
            self.look_for_empty(sectors);
            self.dropping.uncovered.push(slot + 1..slots.end);
        }
    }

    /// The slots that the next checkpoint drops. Where a claim to a place was lost, a slot without one would count as lost.
    pub(super) fn choose_dropped(&mut self) -> BTreeSet<u64> {
        if self.superblock.unplaced.are_lost {
            return BTreeSet::new();
        }
        self.look_at_uncovered();
        // Content may have come meanwhile below an empty slot, which hides it.
        let forgotten = std::mem::take(&mut self.dropping.forgotten);
        self.dropping.forgotten =
            forgotten.into_iter().filter(|slot| !self.shows_others(*slot)).collect();
        let mut candidates: Vec<u64> = self.dropping.forgotten.iter().copied().collect();
        if self.dropping.searches {
            let from = self.dropping.next;
            let found: Vec<u64> = self.slots_of_nobody(from).take(BATCH).collect();
            self.dropping.next = found.last().map_or(0, |last| last + 1);
            // Those that writes kept from being dropped are looked at again.
            self.dropping.searches = from > 0 || !found.is_empty();
            candidates.extend(found);
        }
        let (mut chosen, mut undecided) = (BTreeSet::new(), None);
        for slot in candidates {
            let busy = undecided.get_or_insert_with(|| {
                let open = self.writes.values().filter(|write| write.is_undecided());
                let changed = open.flat_map(|write| write.changed(self.superblock.slot()));
                self.slots_of(changed.map(|changed| changed.sectors))
            });
            let sectors = self.slots.sectors_of(slot);
            let waits = busy.contains(&slot)
                || self.slots.moved(slot).is_some()
                || self.overlay.next(sectors.clone()).is_some()
                || (self.is_of_a_volume(slot) && self.copies.next(sectors).is_some());
            if !waits {
                chosen.insert(slot);
            }
            if chosen.len() == BATCH {
                break;
            }
        }
        chosen
    }

    /// Whether a checkpoint is dropping a slot.
    pub(super) fn is_being_dropped(&self, slot: u64) -> bool {
        self.checkpoint.as_ref().is_some_and(|c| c.dropped().contains(&slot))
    }

    /// Whether a slot belongs to a volume, by the map.
    fn is_of_a_volume(&self, slot: u64) -> bool {
        let kept = self.dropping.kept.as_deref();
        kept.is_none_or(|kept| kept.iter().any(|slots| slots.contains(&slot)))
    }

    /// Slots with a place that belong to no volume, from a number on.
    fn slots_of_nobody(&self, from: u64) -> impl Iterator<Item = u64> + '_ {
        let kept = self.dropping.kept.as_deref();
        kept.into_iter().flat_map(move |kept| {
            let mut gaps = Vec::with_capacity(kept.len() + 1);
            let mut end = 0;
            for slots in kept {
                gaps.push(end.max(from)..slots.start);
                end = slots.end;
            }
            gaps.push(end.max(from)..u64::MAX);
            gaps.into_iter()
                .filter(|gap| gap.start < gap.end)
                .flat_map(|gap| self.slots.placed_in(gap))
        })
    }

    /// A checkpoint has dropped these slots; returns their places. What has been written there since needs another.
    pub(super) fn slots_are_dropped(&mut self, dropped: &BTreeSet<u64>) -> Vec<u64> {
        dropped.iter().for_each(|slot| {
            self.dropping.forgotten.remove(slot);
        });
        for slot in
            dropped.iter().filter(|slot| !self.is_of_a_volume(**slot)).copied().collect::<Vec<_>>()
        {
            self.drop_all_copies(self.slots.sectors_of(slot));
        }
        let sectors = dropped.iter().flat_map(|slot| self.slots.sectors_of(*slot));
        let gone: Vec<u64> = sectors.filter(|sector| self.overlay.get(*sector).is_none()).collect();
        self.events.push_back(Event::Dropped(consecutive(gone).collect()));
        dropped.iter().filter_map(|slot| self.slots.drop_pointer(*slot)).collect()
    }
}
