//! What is found of the slots when a disk is opened: the claims of the owners, the pointers that the journal names, and then
//! which slots are in use.

use super::owners::{self, Page};
use super::room::Room;
use super::{NONE, OWNER_COPIES, OWNERS_PER_PAGE, Slots, kept};
use crate::store::index::{Index, Known};
use crate::store::table::Numbers;
use crate::units::SECTOR_BYTES;

/// How late the claims are that have been found.
#[derive(Clone, Default, Hash)]
pub(in crate::store) struct Claims {
    /// The checkpoint at which each page was written.
    pages: Vec<u64>,
}

impl Slots {
    /// Takes in a piece of the owners: both copies of some pages from `first` on. Returns what is wrong with each page
    /// of which neither copy can be believed. Of a page of which the index knows nothing the older copy may have been
    /// taken: the disk has forgotten what it promised, and others know what is missing. The page is written anew before that is
    /// over, so that the index knows it again.
    pub fn load(
        &mut self,
        (index, numbers): (&Index, &Numbers),
        claims: &mut Claims,
        (table, first): (u64, u64),
        copies: [&[u8]; OWNER_COPIES as usize],
    ) -> Vec<(u64, &'static str)> {
        let mut damaged = Vec::new();
        claims.pages.resize(self.newer.len(), 0);
        for (n, number) in (0..copies[0].len() / SECTOR_BYTES).zip(first..) {
            let page = copies.map(|copy| &copy[n * SECTOR_BYTES..(n + 1) * SECTOR_BYTES]);
            let slots = (self.places.len() as u64, self.owners.len() as u64);
            let chosen = owners::choose(index, numbers, table + number, number, slots, page);
            if let Some(refused) = chosen.refused {
                self.refused.insert(number, refused);
            }
            match chosen.newest {
                Ok((copy, page)) => {
                    // A crash may have come before the index said that the page was written.
                    let is_known = match index.known(table + number) {
                        Known::Written(last) => last == page.0,
                        Known::Never => page.0 == 0,
                        Known::Nothing => false,
                    };
                    if !is_known {
                        self.dirty.insert(number);
                    }
                    self.newer[number as usize] = copy;
                    self.claim(claims, number, page);
                }
                Err(wrong) => {
                    self.dirty.insert(number);
                    damaged.push((number, wrong));
                }
            }
        }
        damaged
    }

    /// Of two slots that claim the same content the one counts whose page was written later: the other had not been written
    /// anew when a crash came.
    fn claim(&mut self, claims: &mut Claims, number: u64, (written, owners): Page) {
        claims.pages[number as usize] = written;
        for (place, owner) in (number * OWNERS_PER_PAGE..).zip(owners) {
            let Some(slot) = super::number(owner) else { continue };
            self.owners[place as usize] = owner;
            let page_of = |place: u64| claims.pages[(place / OWNERS_PER_PAGE) as usize];
            if self.place(slot).is_none_or(|other| page_of(other) < written) {
                self.places[slot as usize] = kept(place);
            }
        }
    }

    /// An apply entry names a pointer.
    pub fn replay_pointer(&mut self, slot: u64, place: u64) {
        self.places[slot as usize] = kept(place);
    }

    /// All pointers are known. `held` are the places of writes that are undecided. Says whether pointers contradict
    /// one another, or lead to what such a write holds, which only damage does: then some of them count for nothing.
    pub fn settle(&mut self, held: impl Iterator<Item = u64>) -> bool {
        let mut contradict = false;
        let count = self.owners.len();
        let found = std::mem::replace(&mut self.owners, vec![NONE; count]);
        self.placed = 0;
        self.room = Room::new(count as u64);
        let moved = self.moved.values().map(|(_, place)| *place);
        held.chain(moved).for_each(|place| self.room.set_used(place));
        for (slot, place) in (0..).zip(&mut self.places) {
            let Some(at) = super::number(*place) else { continue };
            let owner = &mut self.owners[at as usize];
            match *owner {
                NONE if !self.room.is_used(at) => {
                    (*owner, self.placed) = (kept(slot), self.placed + 1)
                }
                _ => (*place, contradict) = (NONE, true),
            }
        }
        (self.leaving, self.dropped) = (Vec::new(), super::BTreeMap::new());
        for (place, (found, owner)) in (0..).zip(found.iter().zip(&self.owners)) {
            if found != owner {
                self.dirty.insert(place / OWNERS_PER_PAGE);
            }
            if *owner != NONE {
                self.room.set_used(place);
            } else if *found != NONE && !self.room.is_used(place) {
                // The owners on the disk still name it.
                self.room.set_used(place);
                self.leaving.push(place);
            }
        }
        self.room.reopened();
        contradict
    }
}
