//! Flattening a clone on this disk: what the clone shows of the views below becomes its own. When no disk needs those any
//! more, the map says that the clone lies over nothing.
//!
//! Flattening does not change the content of any view, so each disk copies by itself, at its own time. Sectors are copied to the
//! clone's slots as in [`merging`](super::merging): a checkpoint takes them from below, like the base of a delta. If the clone
//! shows only zeros of a slot, it is not copied.
//!
//! Checkpoints that nobody waits for do this. After a crash it continues: copied sectors are the clone's own.

use std::collections::BTreeSet;
use std::ops::Range;

use super::JournalStore;
use super::merging::Merged;
use super::table::{State, TableEntry};
use super::views::{View, Views};
use crate::units::SPACE_SECTORS;

/// Sectors that are copied in one checkpoint at most.
const MOST_COPIED: usize = 512;
/// Slots that are looked at for one checkpoint at most.
const MOST_LOOKED_AT: usize = 1024;

/// How far the flattening is.
#[derive(Clone, Default, Hash)]
pub(super) struct Flattening {
    /// From which slot of the clones on it looks next.
    next: u64,
    /// Whether something was chosen, or had to wait, since it began with the first.
    found: bool,
    /// The clones show nothing of what lies below.
    done: bool,
    /// It had no places for what it was to copy: how many slots were free then, and how many were reserved, in use or promised.
    short: Option<(u64, u64)>,
}

impl JournalStore {
    /// The views have changed: the search begins with the first slot.
    pub(super) fn flatten_anew(&mut self) {
        self.flattening = Flattening::default();
    }

    /// Whether clones have content left to copy.
    pub fn has_to_flatten(&self) -> bool {
        let any = self.views.as_ref().is_some_and(|views| views.flattening().next().is_some());
        any && !self.flattening.done && self.recovery.is_none() && !self.failed
    }

    /// Whether clones have copied all that they show of what they lie over.
    pub fn has_flattened(&self) -> bool {
        self.flattening.done && self.checkpoint.is_none()
    }

    /// Whether it waits for space.
    pub fn flattens_without_space(&self) -> bool {
        self.flattening.short.is_some()
    }

    /// How far it is: for each address space whose content is copied, in thousandths.
    pub fn flattening(&self) -> Vec<(u64, u64)> {
        let size = self.superblock.slot().max(1);
        let mut spaces: Vec<(u64, Range<u64>)> = Vec::new();
        for view in self.views.iter().flat_map(Views::flattening) {
            let (space, end) = (view.sectors.start / SPACE_SECTORS, view.sectors.end);
            match spaces.last_mut().filter(|(last, _)| *last == space) {
                Some((_, sectors)) => sectors.end = end,
                None => spaces.push((space, view.sectors.clone())),
            }
        }
        let done = |sectors: Range<u64>| match self.flattening.done {
            true => 1000,
            false => {
                let at = (self.flattening.next * size).clamp(sectors.start, sectors.end);
                (at - sectors.start) * 1000 / (sectors.end - sectors.start)
            }
        };
        spaces.into_iter().map(|(space, sectors)| (space, done(sectors))).collect()
    }

    /// The sectors of clones that the next checkpoint is to copy from below.
    pub(super) fn choose_flattened(&mut self) -> Vec<u64> {
        let mut chosen = Vec::new();
        let waits = self.flattening.short == Some(self.slots.room());
        if !self.has_to_flatten() || waits || self.superblock.unplaced.are_lost {
            return chosen;
        }
        let views: Vec<View> = self.views.iter().flat_map(Views::flattening).cloned().collect();
        let undecided = self.writes.values().filter(|write| write.is_undecided());
        let busy: BTreeSet<u64> = undecided.flat_map(|write| self.slots_of_write(write)).collect();
        let (from, mut looked) = (self.flattening.next, 0);
        let size = self.superblock.slot();
        for view in views {
            let slots = view.sectors.start / size..view.sectors.end.div_ceil(size);
            let below = self.all_below(view.sectors.clone());
            // Changes without a place yet are copied once they have one.
            for sectors in &below {
                let its = sectors.start / size..sectors.end.div_ceil(size);
                self.flattening.found |= self.overlay.next(sectors.clone()).is_some()
                    || busy.range(its).next().is_some();
            }
            let mut next = slots.start.max(from);
            while let Some(slot) = self.next_shown(next..slots.end, &below) {
                if chosen.len() >= MOST_COPIED || looked >= MOST_LOOKED_AT {
                    self.flattening.next = slot;
                    self.flattening.found = true;
                    return chosen;
                }
                looked += 1;
                self.flattening.found |= self.copy_slot(slot, &view, &busy, &mut chosen);
                next = slot + 1;
            }
        }
        // All have been looked at.
        self.flattening.done = !std::mem::take(&mut self.flattening.found);
        self.flattening.next = 0;
        chosen
    }

    /// The first of these slots of a view below which a slot has a place. Slots of all spaces are at the same places.
    fn next_shown(&self, slots: Range<u64>, below: &[Range<u64>]) -> Option<u64> {
        let size = self.superblock.slot();
        let per_space = SPACE_SECTORS / size;
        let first = slots.start - slots.start % per_space;
        let of = below.iter().filter_map(|sectors| {
            let its = sectors.start / size..sectors.end.div_ceil(size);
            let lowest = its.start - its.start % per_space;
            let from = (lowest + (slots.start - first)).max(its.start);
            let found = self.slots.next_placed(from..its.end.max(from))?;
            Some(first + (found - lowest))
        });
        of.min().filter(|slot| *slot < slots.end)
    }

    /// Chooses what a view shows from below in a slot. Returns whether the slot needs another look: something was chosen, or must
    /// wait.
    fn copy_slot(
        &mut self,
        slot: u64,
        view: &View,
        busy: &BTreeSet<u64>,
        chosen: &mut Vec<u64>,
    ) -> bool {
        let all = self.slots.sectors_of(slot);
        let shown = all.start.max(view.sectors.start)..all.end.min(view.sectors.end);
        let below = self.all_below(shown.clone());
        let waits = |sectors: &Range<u64>| {
            let slot = self.slots.slot_of(sectors.start);
            let moves = slot.is_some_and(|s| busy.contains(&s) || self.slots.moved(s).is_some());
            moves || self.overlay.next(sectors.clone()).is_some()
        };
        if waits(&shown) || below.iter().any(waits) {
            return true;
        }
        if !self.want(self.pages_of(shown.start, shown.end - shown.start)) {
            return true;
        }
        let mut copied = Vec::new();
        let mut has_content = false;
        for sector in shown {
            if self.entry(sector) != TableEntry::FRESH || !self.config.copies(sector) {
                continue;
            }
            let (_, entry, _) = self.seen(sector);
            if entry != TableEntry::FRESH {
                has_content |= entry.state != State::Hole;
                copied.push(sector);
            }
        }
        if has_content {
            chosen.extend(copied);
        }
        has_content
    }

    /// Leaves out what would need places that are not there.
    pub(super) fn fit_flattened(&mut self, merged: &mut Merged, slots: &BTreeSet<u64>) {
        let was_to = !merged.given.is_empty();
        while !merged.given.is_empty() && !self.has_places(&merged.given, slots) {
            merged.given.truncate(merged.given.len() / 2);
        }
        if was_to {
            self.flattening.short = merged.given.is_empty().then(|| self.slots.room());
        }
    }
}
