//! How many slots are promised to whom. Volumes whose room is reserved have as many as their columns need, written or
//! not. Thin volumes get the others, each when it is first written. A write that would take more is refused before it
//! is prepared; so whatever was prepared finds a place.

use std::collections::{BTreeMap, BTreeSet};

use super::{Run, Slots};
use crate::store::views::Views;
use crate::units::SPACE_SECTORS;

/// The promised slots of a disk.
#[derive(Clone, Hash)]
pub(super) struct Promised {
    /// Slots of volumes whose room is reserved. Nothing before the map has said how many: then all may be.
    own: Option<u64>,
    /// As many can be promised.
    all: u64,
    /// Slots of thin volumes that have no place yet, and have been promised one: by how many undecided writes, and
    /// whether by one that has committed.
    waiting: BTreeMap<u64, (u32, bool)>,
}

impl Promised {
    pub fn new(all: u64) -> Promised {
        Promised { own: None, all, waiting: BTreeMap::new() }
    }

    /// A slot has no place any more. In space 0 it belonged to no volume.
    pub fn dropped(&mut self, is_thin: bool) {
        let of_own = u64::from(!is_thin);
        self.own = self.own.map(|own| own.saturating_sub(of_own));
    }

    /// A slot has a place now.
    pub fn placed(&mut self, slot: u64) {
        self.waiting.remove(&slot);
    }
}

impl Slots {
    /// Reserves slots for volumes that are not thin, and for content of space 0 that will be dropped.
    pub fn promise(&mut self, slots: u64) {
        self.promised.own = Some(slots);
    }

    /// How many slots are known to be reserved, or have content of space 0 that belongs to no volume any more.
    pub(super) fn promised(&self) -> u64 {
        self.promised.own.unwrap_or(0).max(self.places.placed())
    }

    /// How many may be.
    fn own(&self) -> u64 {
        self.promised.own.unwrap_or(self.promised.all)
    }

    /// Slots without a place to which one is promised.
    pub(super) fn unplaced(&self) -> u64 {
        let own = self.own().saturating_sub(self.places.placed());
        own + self.promised.waiting.len() as u64
    }

    /// Whether a sector is one of address space 0, whose slots are reserved.
    pub fn is_reserved(&self, sector: u64) -> bool {
        sector < SPACE_SECTORS
    }

    /// Whether more slots are reserved than thin volumes have left.
    pub fn is_overcommitted(&self) -> bool {
        self.taken() > self.promised.all
    }

    /// How many slots are free, and how many are reserved, in use, or promised.
    pub fn room(&self) -> (u64, u64) {
        (self.free(), self.taken())
    }

    /// Slots that are reserved, in use, or promised.
    fn taken(&self) -> u64 {
        let own = self.own().max(self.places.placed());
        own + self.places.placed_thin() + self.promised.waiting.len() as u64
    }

    /// Whether a slot has a place, or has been promised one.
    pub fn has_or_gets(&self, slot: u64) -> bool {
        self.is_placed(slot) || self.promised.waiting.contains_key(&slot)
    }

    /// Whether the disk can promise places to all of these slots.
    pub fn can_promise(&self, slots: &BTreeSet<u64>) -> bool {
        let unplaced = || slots.iter().filter(|slot| self.place(**slot).is_none());
        let (thin, own): (Vec<u64>, Vec<u64>) =
            unplaced().partition(|slot| self.places.is_thin(**slot));
        let fresh =
            thin.iter().filter(|slot| !self.promised.waiting.contains_key(*slot)).count() as u64;
        let taken = self.taken();
        let fits = fresh == 0 || taken + fresh <= self.promised.all;
        // Reserved slots cannot run out unless more were reserved than thin volumes had left.
        fits && (own.is_empty()
            || taken <= self.promised.all
            || self.room.free() > self.room.reserve())
    }

    /// An undecided write changes these slots.
    pub fn expect_places(&mut self, slots: &BTreeSet<u64>) {
        for slot in slots {
            if self.places.is_thin(*slot) && self.place(*slot).is_none() {
                self.promised.waiting.entry(*slot).or_default().0 += 1;
            }
        }
    }

    /// It is decided.
    pub fn decided(&mut self, slots: &BTreeSet<u64>, committed: bool) {
        for slot in slots {
            let Some((undecided, waits)) = self.promised.waiting.get_mut(slot) else { continue };
            *undecided = undecided.saturating_sub(1);
            *waits |= committed;
            if *undecided == 0 && !*waits {
                self.promised.waiting.remove(slot);
            }
        }
    }

    /// The disk has been opened: these slots have changes of undecided writes, and those of committed ones.
    pub fn expect_again<'a>(
        &mut self,
        undecided: impl Iterator<Item = &'a BTreeSet<u64>>,
        committed: &BTreeSet<u64>,
    ) {
        self.promised.waiting.clear();
        self.expect_places(committed);
        self.decided(committed, true);
        undecided.for_each(|slots| self.expect_places(slots));
    }

    /// Checks that places are promised to these slots of thin volumes, and to no others.
    pub fn check_promised(&self, changed: &BTreeSet<u64>) {
        let unplaced = |slot: &&u64| self.places.is_thin(**slot) && self.place(**slot).is_none();
        let waiting = self.promised.waiting.keys();
        assert!(
            waiting.eq(changed.iter().filter(unplaced)),
            "promised slots are those with changes"
        );
    }

    /// How many slots each address space but the first has in use, by its number.
    pub fn used_by_space(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.places.thin()
    }

    /// How many slots each address space shows of the one that it lies over, by its number.
    pub fn shown_by_space(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.places.shown()
    }

    /// Address spaces lie over one another like this now.
    pub fn set_views(&mut self, views: &Views) {
        self.places.set_views(views, self.size);
    }

    /// Whether it is known which slots below one its sectors show.
    pub fn knows_beneath(&self, slot: u64) -> bool {
        self.places.knows_beneath(slot)
    }

    /// The slots with a place below one, from the upper to the lower; nothing if its sectors lie over different ones.
    pub fn placed_beneath(&self, slot: u64, views: &Views) -> Option<Vec<u64>> {
        self.places.placed_beneath(slot, views, self.size)
    }

    /// The slots that the sectors of one show are found: nothing if they lie over different ones.
    pub fn found_beneath(&mut self, slot: u64, shown: Option<&[Option<u64>]>) {
        self.places.found_beneath(slot, shown);
    }

    /// The runs of a slot whose sectors show the same slots below, if they have been found.
    pub fn runs_beneath(&self, slot: u64) -> Option<&[Run]> {
        self.places.runs_beneath(slot)
    }

    /// The entries of a slot's sectors have changed.
    pub fn changed(&mut self, slot: u64) {
        self.places.changed(slot);
    }

    /// The slots whose runs are remembered.
    pub fn all_beneath(&self) -> impl Iterator<Item = (u64, Option<&[Run]>)> {
        self.places.all_beneath()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Superblock;
    use crate::units::{VolumeId, thin_space};

    fn slot(n: u64) -> u64 {
        thin_space(VolumeId(0)) / Superblock::SLOT + n
    }

    #[test]
    fn thin_volumes_get_what_is_not_reserved() {
        let sb = Superblock::divide(7, 3, 9, 100_000, 4096).expect("it is large enough");
        let mut slots = Slots::new(&sb);
        let some = |n: u64| (0..n).map(slot).collect::<BTreeSet<u64>>();
        assert!(!slots.can_promise(&some(1)), "all may be reserved");
        assert_eq!(
            slots.promised(),
            0,
            "but none is known to be: the disk does not seem to be full"
        );
        slots.promise(sb.logical_slots() - 10);
        assert_eq!(slots.promised(), sb.logical_slots() - 10);
        assert!(slots.can_promise(&some(10)) && !slots.can_promise(&some(11)));

        slots.expect_places(&some(4));
        slots.expect_places(&some(2));
        assert!(slots.can_promise(&some(10)), "those that wait count once");
        let others: BTreeSet<u64> = (100..107).map(slot).collect();
        assert!(!slots.can_promise(&others));
        slots.decided(&some(2), false);
        slots.decided(&some(4), true);
        assert!(!slots.can_promise(&others), "what has committed waits for its place");
        slots.decided(&some(4), false);
        slots.check_promised(&some(4));
        assert!(slots.can_promise(&[0, 5].into()), "what is reserved is always there");
        assert_eq!(SPACE_SECTORS % Superblock::SLOT, 0);
    }
}
