//! Merging a deleted snapshot into the one view that lies over it, on this disk: the content that the view shows of the
//! snapshot becomes its own. When no disk shows anything of the snapshot, the map forgets it.
//!
//! Merging does not change the content of any view, so each disk merges by itself, at its own time. There are three cases
//! for a slot of the snapshot:
//!
//! - The view has no slot there. The slot *changes hands*: its pointer moves, and no content is copied.
//! - The view has a slot, and shows some sectors of the snapshot's. Those are copied to the view's slot. A checkpoint takes
//!   them from below, like the base of a delta.
//! - The view shows none of it. The slot is dropped.
//!
//! Checkpoints that nobody waits for do this. After a crash it continues: the slots tell how far it was.
//!
//! A disk that lacks content of the view does not rely on what it has of the snapshot: a copy there has a later timestamp than
//! the writes that hide it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::JournalStore;
use super::format::Applied;
use super::table::TableEntry;
use super::views::{View, Views};
use crate::units::SPACE_SECTORS;

/// Slots that change hands in one checkpoint at most.
const MOST_ADOPTED: usize = 64;
/// Sectors that are given to slots of the view in one checkpoint at most.
const MOST_GIVEN: usize = 512;
/// Slots that are looked at for one checkpoint at most.
const MOST_LOOKED_AT: usize = 1024;

/// All turns, in parts of them.
const ALL: u64 = 1000;

/// In which turns content is merged, or copied to clones: in all, unless that costs hosts more than a volume promises.
#[derive(Clone, Hash)]
pub(super) struct Turns {
    part: u64,
    /// Parts of turns that were not used.
    saved: u64,
}

impl Default for Turns {
    fn default() -> Turns {
        Turns { part: ALL, saved: 0 }
    }
}

impl Turns {
    /// Whether this turn is used.
    fn take(&mut self) -> bool {
        self.saved += self.part;
        let is_used = self.saved >= ALL;
        if is_used {
            self.saved -= ALL;
        }
        is_used
    }
}

/// How far the merging is.
#[derive(Clone, Default, Hash)]
pub(super) struct Merging {
    /// From which slot of the snapshots on it looks next.
    next: u64,
    /// Whether something was found, or had to wait, since it began with the first.
    found: bool,
    /// Nothing of a deleted snapshot is shown any more.
    done: bool,
    /// Its turn came when no checkpoint could merge: the next one that can does. Under load there is nearly always another
    /// under way.
    missed: bool,
}

/// What a checkpoint merges.
#[derive(Clone, Default)]
pub(super) struct Merged {
    /// Slots of views, and those of snapshots that become theirs.
    pub adopted: BTreeMap<u64, u64>,
    /// Sectors of views that get what they show.
    pub given: Vec<u64>,
    /// Slots of snapshots that no view shows.
    pub dropped: BTreeSet<u64>,
}

impl Merged {
    /// The number of sectors that a checkpoint names for it. A slot has `slot` sectors.
    pub fn sectors(&self, slot: u64) -> usize {
        self.given.len() + self.adopted.len() * slot as usize
    }

    /// How many slots at most.
    pub fn slots(&self) -> usize {
        self.given.len() + self.dropped.len() + 2 * self.adopted.len()
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.adopted.is_empty() && self.given.is_empty() && self.dropped.is_empty()
    }
}

impl JournalStore {
    /// The views have changed: the search begins with the first slot.
    pub(super) fn merge_anew(&mut self) {
        self.merging = Merging::default();
    }

    /// Whether a checkpoint merges or flattens although it is not the turn of one (`now`): when it was, none `can`, because
    /// another was under way, or the journal was full.
    pub(super) fn makes_up_for_missed(&mut self, now: bool, can: bool) -> bool {
        match can {
            true => std::mem::take(&mut self.merging.missed),
            false if now => {
                self.merging.missed = self.has_to_merge() || self.has_to_flatten();
                false
            }
            false => false,
        }
    }

    /// In this part of its turns content is merged or copied from now on, in thousandths.
    pub(super) fn merge_in_part(&mut self, part: u64) {
        self.turns.part = part.clamp(1, ALL);
    }

    /// Whether a checkpoint, whose turn it is, may merge or flatten.
    pub(super) fn merges_this_turn(&mut self) -> bool {
        (self.has_to_merge() || self.has_to_flatten()) && self.turns.take()
    }

    /// Whether content is left to merge.
    pub fn has_to_merge(&self) -> bool {
        let merges = self.views.as_ref().is_some_and(|views| !views.merging().is_empty());
        merges && !self.merging.done && self.recovery.is_none() && !self.failed
    }

    /// Whether no content is left to merge.
    pub fn has_merged(&self) -> bool {
        self.merging.done && self.checkpoint.is_none()
    }

    /// What the next checkpoint is to merge.
    pub(super) fn choose_merged(&mut self) -> Merged {
        let mut merged = Merged::default();
        if !self.has_to_merge() || self.superblock.unplaced.are_lost {
            return merged;
        }
        let views: Vec<View> = self.views.as_ref().map_or(Vec::new(), Views::merging);
        let undecided = self.writes.values().filter(|write| write.is_undecided());
        let busy: BTreeSet<u64> = undecided.flat_map(|write| self.slots_of_write(write)).collect();
        let (from, mut looked) = (self.merging.next, 0);
        let size = self.superblock.slot();
        for view in views {
            let count = view.sectors.end - view.sectors.start;
            let slots = view.below / size..(view.below + count).div_ceil(size);
            // Changes without a place yet are merged once they have one.
            self.merging.found |= self.overlay.next(view.below..view.below + count).is_some()
                || busy.range(slots.clone()).next().is_some();
            let lower: Vec<u64> =
                self.slots.placed_in(slots.start.max(from)..slots.end.max(from)).collect();
            for slot in lower {
                let is_enough = merged.adopted.len() >= MOST_ADOPTED
                    || merged.given.len() >= MOST_GIVEN
                    || looked >= MOST_LOOKED_AT;
                if is_enough {
                    self.merging.next = slot;
                    self.merging.found = true;
                    return merged;
                }
                looked += 1;
                self.merging.found |= self.merge_slot(slot, &view, &busy, &mut merged);
            }
        }
        // All have been looked at.
        self.merging.done = !std::mem::take(&mut self.merging.found);
        self.merging.next = 0;
        merged
    }

    /// Merges a slot that has a place. Returns whether it needs another look: something was chosen, or must wait.
    fn merge_slot(
        &mut self,
        slot: u64,
        view: &View,
        busy: &BTreeSet<u64>,
        merged: &mut Merged,
    ) -> bool {
        let all = self.slots.sectors_of(slot);
        let count = view.sectors.end - view.sectors.start;
        let shown = all.start.max(view.below)..all.end.min(view.below + count);
        let above = |sector: u64| view.sectors.start + (sector - view.below);
        let first = above(shown.start);
        // Both spaces have slots at the same places.
        let upper = (first - (shown.start - all.start)) / self.superblock.slot();
        debug_assert_eq!(
            all.start % SPACE_SECTORS,
            self.slots.sectors_of(upper).start % SPACE_SECTORS
        );
        let waits = |slot: u64| {
            busy.contains(&slot)
                || self.slots.moved(slot).is_some()
                || self.overlay.next(self.slots.sectors_of(slot)).is_some()
        };
        if waits(slot) || waits(upper) {
            return true;
        }
        let mut pages = self.pages_of(first, shown.end - shown.start);
        pages.extend(self.pages_of(all.start, all.end - all.start));
        pages.sort_unstable();
        pages.dedup();
        if !self.want(pages) {
            return true;
        }
        let is_fresh = |store: &mut Self, sector| store.entry(sector) == TableEntry::FRESH;
        // What else is in the slot may be another volume's.
        let mut others = (all.start..shown.start).chain(shown.end..all.end);
        let is_whole = others.all(|sector| is_fresh(self, sector));
        if is_whole && !self.slots.has_or_gets(upper) {
            merged.adopted.insert(upper, slot);
            return true;
        }
        let given: Vec<u64> = shown
            .filter(|sector| !is_fresh(self, *sector) && is_fresh(self, above(*sector)))
            .map(above)
            .collect();
        if !given.is_empty() && self.config.keeps_shown() {
            merged.given.extend(given);
            return true;
        }
        if is_whole {
            merged.dropped.insert(slot);
        }
        is_whole
    }

    /// The sectors of views that lie over slots of deleted snapshots.
    pub(super) fn sectors_over(&self, lower: &BTreeSet<u64>) -> Vec<Range<u64>> {
        let views = self.views.as_ref().map_or(Vec::new(), Views::merging);
        let over = |slot: &u64| {
            let all = self.slots.sectors_of(*slot);
            let view = views[..views.partition_point(|view| view.below < all.end)].last()?;
            let shown = all.start.max(view.below)..all.end;
            let above = |sector: u64| view.sectors.start + (sector - view.below);
            Some(above(shown.start)..above(shown.end).min(view.sectors.end))
        };
        lower.iter().filter_map(over).filter(|sectors| !sectors.is_empty()).collect()
    }

    /// Leaves out what would need places that are not there.
    pub(super) fn fit_given(&self, merged: &mut Merged, slots: &BTreeSet<u64>) {
        if !self.has_places(&merged.given, slots) {
            merged.given.clear();
        }
    }

    /// Whether there are places for what a checkpoint is to give, beside those of its other slots.
    pub(super) fn has_places(&self, given: &[u64], slots: &BTreeSet<u64>) -> bool {
        let of_given = given.iter().filter_map(|sector| self.slots.slot_of(*sector));
        let all: BTreeSet<u64> = of_given.collect();
        let unplaced = all.union(slots).filter(|slot| !self.slots.is_placed(**slot)).count() as u64;
        unplaced <= self.slots.free() && self.slots.can_promise(&all)
    }

    /// The slots of what a checkpoint is to give get their places.
    pub(super) fn expect_places_of_given(&mut self, given: &[u64]) {
        let slots = given.iter().filter_map(|sector| self.slots.slot_of(*sector));
        let unplaced = slots.filter(|slot| !self.slots.is_placed(*slot)).collect();
        self.slots.expect_places(&unplaced);
        self.slots.decided(&unplaced, true);
    }

    /// What a view's sectors in a slot that it is given will be: what the snapshot's are.
    pub(super) fn adopted_sectors(&mut self, upper: u64, lower: u64) -> Vec<Applied> {
        let (from, to) = (self.slots.sectors_of(lower), self.slots.sectors_of(upper));
        let entries = from.zip(to).map(|(from, to)| (to, self.entry(from)));
        let known = entries.filter(|(_, entry)| *entry != TableEntry::FRESH);
        let applied = known.map(|(sector, entry)| Applied {
            sector,
            version: entry.version,
            crc: entry.crc,
            state: entry.state as u8,
        });
        applied.collect()
    }

    /// The disk is open: sectors of slots that had changed hands have entries of their own, whether the table had them
    /// already or not.
    pub(super) fn set_adopted(&mut self, adopted: BTreeMap<u64, (u64, Applied)>) {
        for (sector, (place, applied)) in adopted {
            let slot = self.slots.slot_of(sector);
            if slot.and_then(|slot| self.slots.place(slot)) != Some(place) {
                continue;
            }
            if self.entry(sector) == TableEntry::FRESH || self.is_anothers(sector) {
                self.set_entry(sector, TableEntry::of(&applied));
            }
        }
    }
}
