//! Where logical slots are: of each the physical slot that the last checkpoint gave it.
//!
//! The numbers of logical slots go by address space, as those of sectors do ([`SPACE_SECTORS`]). Space 0 has as many
//! slots as the disk promises to volumes whose slots are all reserved. The others belong to thin volumes, and have
//! slots without end: which of them have content is in memory, and only that takes any.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::store::sparse::Sparse;
use crate::units::SPACE_SECTORS;

/// The physical slot of each logical one, kept plus 1; 0 if it has none.
#[derive(Clone, Hash)]
pub(super) struct Places {
    /// Space 0.
    own: Sparse<u32>,
    /// All others with content.
    thin: BTreeMap<u64, Space>,
    /// Slots of a space; 0 on a disk without address spaces.
    per_space: u64,
    /// How many slots of space 0 have a place.
    placed: u64,
    /// The same of all others.
    placed_thin: u64,
}

/// An address space of a thin volume.
#[derive(Clone, Hash)]
struct Space {
    places: Sparse<u32>,
    /// How many of its slots have a place.
    placed: u64,
}

impl Places {
    /// `slots` logical slots in space 0, and address spaces if the disk `has_spaces`. A slot has `size` sectors.
    pub fn new(slots: u64, size: u64, has_spaces: bool) -> Places {
        let per_space = if has_spaces { SPACE_SECTORS.checked_div(size).unwrap_or(0) } else { 0 };
        let (own, thin) = (Sparse::new(slots), BTreeMap::new());
        Places { own, thin, per_space, placed: 0, placed_thin: 0 }
    }

    /// Slots of space 0.
    pub fn own(&self) -> u64 {
        self.own.len()
    }

    /// How many slots of space 0 have a place.
    pub fn placed(&self) -> u64 {
        self.placed
    }

    /// How many slots of thin volumes have one.
    pub fn placed_thin(&self) -> u64 {
        self.placed_thin
    }

    /// The address spaces in which slots have places, each with their number.
    pub fn thin(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.thin.iter().map(|(space, of)| (*space, of.placed))
    }

    /// Whether a slot of this number can have content.
    pub fn is_slot(&self, slot: u64) -> bool {
        slot < self.own.len() || self.is_thin(slot)
    }

    /// Whether a slot is a thin volume's.
    pub fn is_thin(&self, slot: u64) -> bool {
        self.per_space > 0 && slot >= self.per_space
    }

    /// The space of a slot, and its number there.
    fn space_of(&self, slot: u64) -> Option<(u64, u64)> {
        Some((slot.checked_div(self.per_space)?, slot % self.per_space))
    }

    pub fn get(&self, slot: u64) -> u32 {
        // Nearly always, and asked for each sector of each request.
        if slot < self.own.len() {
            return self.own.get(slot);
        }
        match self.space_of(slot) {
            Some((space, at)) if space > 0 => self.thin.get(&space).map_or(0, |s| s.places.get(at)),
            _ => self.own.get(slot),
        }
    }

    pub fn set(&mut self, slot: u64, to: u32) {
        let (more, less) = (u64::from(to != 0), u64::from(self.get(slot) != 0));
        match self.space_of(slot) {
            Some((space, at)) if space > 0 => {
                let fresh = || Space { places: Sparse::new(self.per_space), placed: 0 };
                let of = self.thin.entry(space).or_insert_with(fresh);
                of.places.set(at, to);
                of.placed = of.placed + more - less;
                if of.placed == 0 {
                    self.thin.remove(&space);
                }
                self.placed_thin = self.placed_thin + more - less;
            }
            _ => {
                self.own.set(slot, to);
                self.placed = self.placed + more - less;
            }
        }
    }

    /// Those of a range of slots, all of one space, that have a place, in order.
    pub fn within(
        &self,
        slots: Range<u64>,
    ) -> Box<dyn DoubleEndedIterator<Item = (u64, u32)> + '_> {
        match self.space_of(slots.start) {
            Some((space, at)) if space > 0 => {
                let first = slots.start - at;
                let within = at..slots.end - first;
                let of = self.thin.get(&space).into_iter();
                let placed = of.flat_map(move |s| s.places.within(within.clone()));
                Box::new(placed.map(move |(at, place)| (first + at, place)))
            }
            _ => Box::new(self.own.within(slots)),
        }
    }

    /// Those of a range of slots, of any spaces, that have a place, in order.
    pub fn across(&self, slots: Range<u64>) -> impl Iterator<Item = u64> + '_ {
        let spaces = self.thin.keys().map(|space| space * self.per_space);
        let within = std::iter::once(0..self.own.len())
            .chain(spaces.map(|first| first..first + self.per_space));
        let cut = within.map(move |s| s.start.max(slots.start)..s.end.min(slots.end));
        cut.filter(|s| s.start < s.end).flat_map(|s| self.within(s).map(|(slot, _)| slot))
    }

    /// All that have a place.
    pub fn all(&self) -> impl Iterator<Item = (u64, u32)> + '_ {
        let per_space = self.per_space;
        let thin = self.thin.iter().flat_map(move |(space, of)| {
            of.places.all().map(move |(at, place)| (space * per_space + at, place))
        });
        self.own.all().chain(thin)
    }

    /// For how many numbers memory is taken.
    #[cfg(test)]
    pub fn held(&self) -> u64 {
        self.own.held() + self.thin.values().map(|s| s.places.held()).sum::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_of_each_space_are_apart_and_counted() {
        const SIZE: u64 = 16;
        let per_space = SPACE_SECTORS / SIZE;
        let mut places = Places::new(100, SIZE, true);
        let set = [3, 99, per_space + 3, per_space + per_space - 1, 7 * per_space];
        set.into_iter().zip(1..).for_each(|(slot, place)| places.set(slot, place));
        assert!(places.all().eq(set.into_iter().zip(1..)));
        assert_eq!(set.map(|slot| places.get(slot)), [1, 2, 3, 4, 5]);
        assert_eq!(
            (places.get(4), places.get(per_space + 4), places.get(2 * per_space)),
            (0, 0, 0)
        );
        assert_eq!((places.placed(), places.placed_thin()), (2, 3));
        assert!(places.thin().eq([(1, 2), (7, 1)]));
        assert!(places.within(per_space..2 * per_space).eq([(set[2], 3), (set[3], 4)]));
        assert!(places.within(2 * per_space..3 * per_space).next().is_none());
        assert!(!places.is_slot(100) && places.is_slot(per_space) && !places.is_thin(99));
        set.into_iter().for_each(|slot| places.set(slot, 0));
        assert_eq!((places.placed(), places.placed_thin(), places.thin().count()), (0, 0, 0));
        let without = Places::new(100, SIZE, false);
        assert!(without.is_slot(99) && !without.is_slot(per_space));
    }

    /// Also when a damaged owners' page names slots that no volume has.
    #[test]
    fn a_lone_slot_costs_the_same_wherever_it_is_in_its_space() {
        let mut places = Places::new(100, 4, true);
        let spaces = SPACE_SECTORS / 4;
        let alone = (1..200).map(|space| (space + 1) * spaces - 1).collect::<Vec<_>>();
        alone.iter().for_each(|slot| places.set(*slot, 1));
        assert!(places.all().map(|(slot, _)| slot).eq(alone));
        assert_eq!(places.held(), 199 * 1024);
    }
}
