//! What is found of the slots when a disk is opened: the claims of the owners, the pointers that the journal names, and then
//! which slots are in use.

use std::collections::{BTreeMap, BTreeSet};

use super::owners::{self, Page};
use super::room::Room;
use super::{NONE, OWNER_COPIES, OWNERS_PER_PAGE, Slots, kept};
use crate::store::index::{Index, Known};
use crate::store::sparse::Sparse;
use crate::store::table::Numbers;
use crate::units::{LAST_THIN, SECTOR_BYTES, SPACE_SECTORS, thin_space};

/// How late the claims are that have been found.
#[derive(Clone, Default, Hash)]
pub(in crate::store) struct Claims {
    /// The checkpoint at which each page was written that has been read.
    pages: BTreeMap<u64, u64>,
}

impl Claims {
    /// The checkpoint at which a page was written.
    fn of(&self, page: u64) -> u64 {
        self.pages.get(&page).copied().unwrap_or_default()
    }
}

/// Damage to pages of the owners.
#[derive(Default)]
pub(in crate::store) struct Loaded {
    /// Pages without a copy that can be believed, each with why.
    pub damaged: Vec<(u64, &'static str)>,
    /// Those with claims of slots that cannot exist, each with how many.
    pub stray: Vec<(u64, u64)>,
}

impl Slots {
    /// Takes in a piece of the owners: both copies of some pages from `first` on. Returns what is wrong with each page
    /// of which neither copy can be believed. Of a page of which the index knows nothing the older copy may have been
    /// taken: the disk has forgotten what it promised, and others know what is missing. The page is written anew before that is
    /// over, so that the index knows it again. Claims of slots that cannot exist are ignored and counted.
    pub fn load(
        &mut self,
        (index, numbers): (&Index, &Numbers),
        claims: &mut Claims,
        (table, first): (u64, u64),
        copies: [&[u8]; OWNER_COPIES as usize],
    ) -> Loaded {
        let mut found = Loaded::default();
        let end = (thin_space(LAST_THIN) + SPACE_SECTORS) / self.size;
        for (n, number) in (0..copies[0].len() / SECTOR_BYTES).zip(first..) {
            let page = copies.map(|copy| &copy[n * SECTOR_BYTES..(n + 1) * SECTOR_BYTES]);
            let is_slot = |slot| self.places.is_slot(slot) && slot < end;
            let slots = (&is_slot as &dyn Fn(u64) -> bool, self.owners.len());
            let chosen = owners::choose(index, numbers, table + number, number, slots, page);
            if let Some(refused) = chosen.refused {
                self.refused.insert(number, refused);
            }
            match chosen.newest {
                Ok((copy, page)) => {
                    // A crash may have come before the index said that the page was written.
                    let is_known = match index.known(table + number) {
                        Known::Written(last) => last == page.written,
                        Known::Never => page.written == 0,
                        Known::Nothing => false,
                    };
                    if !is_known || page.stray > 0 {
                        self.dirty.insert(number);
                    }
                    if page.stray > 0 {
                        found.stray.push((number, page.stray));
                    }
                    self.newer[number as usize] = copy;
                    self.claim(claims, number, page);
                }
                Err(wrong) => {
                    self.dirty.insert(number);
                    found.damaged.push((number, wrong));
                }
            }
        }
        found
    }

    /// Of two slots that claim the same content the one counts whose page was written later: the other had not been written
    /// anew when a crash came.
    fn claim(&mut self, claims: &mut Claims, number: u64, page: Page) {
        let Page { written, owners, .. } = page;
        claims.pages.insert(number, written);
        for (place, owner) in (number * OWNERS_PER_PAGE..).zip(owners) {
            let Some(slot) = super::number(owner) else { continue };
            self.owners.set(place, owner);
            let page_of = |place: u64| claims.of(place / OWNERS_PER_PAGE);
            if self.place(slot).is_none_or(|other| page_of(other) < written) {
                self.places.set(slot, kept(place));
            }
        }
    }

    /// An apply entry names a pointer.
    pub fn replay_pointer(&mut self, slot: u64, place: u64) {
        self.places.set(slot, kept(place));
    }

    /// An apply entry says that a slot is dropped.
    pub fn replay_drop(&mut self, slot: u64) {
        self.places.set(slot, 0);
    }

    /// All pointers are known. `held` are the places of writes that are undecided. Says whether pointers contradict
    /// one another, or lead to what such a write holds, which only damage does: then some of them count for nothing.
    pub fn settle(&mut self, held: impl Iterator<Item = u64>) -> bool {
        let mut contradict = false;
        let count = self.owners.len();
        let found = std::mem::replace(&mut self.owners, Sparse::new(count));
        self.room = Room::new(count);
        let moved = self.moved.values().map(|(_, place)| *place);
        held.chain(moved).for_each(|place| self.room.set_used(place));
        let mut refused = Vec::new();
        for (slot, place) in self.places.all() {
            let at = super::number(place).expect("a kept place is none of these");
            match self.owners.get(at) {
                NONE if !self.room.is_used(at) => self.owners.set(at, slot + 1),
                _ => refused.push(slot),
            }
        }
        contradict |= !refused.is_empty();
        refused.into_iter().for_each(|slot| self.places.set(slot, 0));
        (self.leaving, self.dropped) = (Vec::new(), BTreeMap::new());
        let claimed = found.all().chain(self.owners.all()).map(|(place, _)| place);
        for place in claimed.collect::<BTreeSet<_>>() {
            let (found, owner) = (found.get(place), self.owners.get(place));
            if found != owner {
                self.dirty.insert(place / OWNERS_PER_PAGE);
            }
            if owner != NONE {
                self.room.set_used(place);
            } else if !self.room.is_used(place) {
                // The owners on the disk still name it.
                self.room.set_used(place);
                self.leaving.push(place);
            }
        }
        self.room.reopened();
        contradict
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Superblock;

    /// A slot has moved to a place whose owner is on another page, and a crash came when one of both pages was written.
    #[test]
    fn of_two_places_that_claim_a_slot_the_later_claim_counts() {
        const SLOT: u64 = 5;
        let sb = Superblock::divide(7, 3, 9, 100_000, 4096).expect("it is large enough");
        let places = [SLOT, OWNERS_PER_PAGE + 1];
        for checkpoints in [[3, 4], [4, 3]] {
            let (mut slots, mut claims) = (Slots::new(&sb), Claims::default());
            let mut index = Index::new(sb.incarnation, sb.table_pages() + sb.owner_pages());
            for ((page, place), checkpoint) in (0..).zip(places).zip(checkpoints) {
                let mut before = Slots::new(&sb);
                before.owners.set(place, SLOT + 1);
                before.mark_dirty(page);
                let written = before.take_dirty(sb.incarnation, checkpoint).remove(0);
                let bytes = written.bytes.to_bytes();
                index.wrote(sb.table_pages() + page, checkpoint, false);
                let (known, copies) = (Numbers::default(), [&bytes[..]; 2]);
                let pages = (sb.table_pages(), page);
                let found = slots.load((&index, &known), &mut claims, pages, copies);
                assert!(found.damaged.is_empty() && found.stray.is_empty());
            }
            let later = usize::from(checkpoints[1] > checkpoints[0]);
            assert_eq!(slots.place(SLOT), Some(places[later]), "written at {checkpoints:?}");
            assert!(!slots.settle(std::iter::empty()), "one of both is from before");
            assert_eq!(slots.take_leaving(), [places[1 - later]]);
            slots.check(std::iter::once(places[1 - later]));
        }
    }
}
