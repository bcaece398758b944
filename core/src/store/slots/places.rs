//! Where logical slots are: of each the physical slot that the last checkpoint gave it.
//!
//! The numbers of logical slots go by address space, as those of sectors do ([`SPACE_SECTORS`]). Space 0 has as many
//! slots as the disk promises to volumes whose slots are all reserved. The others belong to thin volumes, and have
//! slots without end: which of them have content is in memory, and only that takes any.

use std::collections::BTreeMap;
use std::ops::Range;

use super::beneath::{self, Beneath, Run};
use super::shown::{Placed, Shown};
use crate::store::sparse::Sparse;
use crate::store::views::Views;
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
    shown: Shown,
    beneath: Beneath,
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
        let (shown, beneath) = (Shown::default(), Beneath::default());
        Places { own, thin, per_space, placed: 0, placed_thin: 0, shown, beneath }
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

    /// All slots of space 0 get the places that `place` gives them. None has one yet.
    pub fn fill(&mut self, place: impl Fn(u64) -> u32) {
        assert!(self.placed == 0 && self.shown.is_empty(), "places are filled once");
        self.own.fill(self.own.len(), place);
        self.placed = self.own.len();
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
        if more != less && !self.shown.is_empty() {
            let at = self.space_of(slot).unwrap_or((0, slot));
            let mut shown = std::mem::take(&mut self.shown);
            shown.changed(at, to != 0, self);
            self.shown = shown;
        }
        self.changed(slot);
    }

    /// Spaces lie over one another like this now. A slot has `size` sectors.
    pub fn set_views(&mut self, views: &Views, size: u64) {
        if self.per_space > 0 {
            let mut shown = std::mem::take(&mut self.shown);
            shown.set_views(views, size, self);
            self.shown = shown;
            self.beneath.clear();
        }
    }

    /// Whether a slot has a place, if there is one of this number.
    fn is_placed(&self, slot: u64) -> Option<bool> {
        self.is_slot(slot).then(|| self.get(slot) != 0)
    }

    /// The slots with a place below one, from the upper to the lower; nothing if its sectors lie over different ones. A slot has
    /// `size` sectors.
    pub fn placed_beneath(&self, slot: u64, views: &Views, size: u64) -> Option<Vec<u64>> {
        beneath::look(slot, size, views, |below| self.is_placed(below))
    }

    /// Whether it is known which slots below one its sectors show.
    pub fn knows_beneath(&self, slot: u64) -> bool {
        self.space_of(slot).is_none_or(|(space, at)| self.beneath.has(space, at))
    }

    /// Remembers the slots that the sectors of one show; nothing if they lie over different ones.
    pub fn found_beneath(&mut self, slot: u64, shown: Option<&[Option<u64>]>) {
        if let Some((space, at)) = self.space_of(slot) {
            self.beneath.insert(space, at, shown.map(beneath::runs));
        }
    }

    /// The runs of a slot whose sectors show the same slots below, if they have been found.
    pub fn runs_beneath(&self, slot: u64) -> Option<&[Run]> {
        let (space, at) = self.space_of(slot)?;
        self.beneath.get(space, at)
    }

    /// A slot has got a place, lost it, or changed there: those above it may show another.
    pub fn changed(&mut self, slot: u64) {
        if let Some((space, at)) =
            self.space_of(slot).filter(|(space, _)| self.shown.has_above(*space))
        {
            self.beneath.changed(space, at);
        }
    }

    /// The slots whose runs are remembered.
    pub fn all_beneath(&self) -> impl Iterator<Item = (u64, Option<&[Run]>)> {
        self.beneath.all().map(|(space, at, runs)| (space * self.per_space + at, runs))
    }

    /// How many slots each space shows of the one that it lies over, by its number.
    pub fn shown(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.shown.all()
    }

    /// Checks the numbers of shown slots by counting again.
    pub fn check_shown(&self) {
        self.shown.check(self);
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

impl Placed for Places {
    fn has(&self, space: u64, at: u64) -> bool {
        self.get(space * self.per_space + at) != 0
    }

    fn count(&self, space: u64) -> u64 {
        match space {
            0 => self.placed,
            space => self.thin.get(&space).map_or(0, |s| s.placed),
        }
    }

    fn within(&self, space: u64, at: Range<u64>) -> Box<dyn Iterator<Item = u64> + '_> {
        match space {
            0 => Box::new(self.own.within(at).map(|(at, _)| at)),
            space => {
                let of = self.thin.get(&space).into_iter();
                Box::new(of.flat_map(move |s| s.places.within(at.clone())).map(|(at, _)| at))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::View;

    /// Slots get and lose places at random, and spaces come to lie over others: the numbers are those that a count of all
    /// finds, and the remembered slots below others are those that another look finds.
    #[test]
    fn slots_that_are_shown_are_counted() {
        const SIZE: u64 = 16;
        let per_space = SPACE_SECTORS / SIZE;
        let view = |above: u64, below: u64, slots: Range<u64>| {
            let at = |space: u64, slot: u64| space * SPACE_SECTORS + slot * SIZE;
            let sectors = at(above, slots.start) + 3..at(above, slots.end);
            View { sectors, below: at(below, slots.start) + 3, merges: false, flattens: false }
        };
        // Over slots 4 to 8 and 20 to 30 of space 0 lie two spaces, and over one of them a third.
        let all = |below_3: u64| {
            let over_0 = [4..8, 20..30].map(|slots| [view(1, 0, slots.clone()), view(2, 0, slots)]);
            let over_1 = [4..8, 20..30].map(|slots| view(3, below_3, slots));
            Views::new(over_0.into_iter().flatten().chain(over_1).collect())
        };
        let mut places = Places::new(100, SIZE, true);
        let (mut views, mut found) = (Views::default(), [0; 4]);
        let mut draw = 1_u64;
        for round in 0..4000 {
            draw = draw
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let (space, slot, place) = (draw >> 33 & 3, draw >> 40 & 31, draw >> 50 & 1);
            places.set(space * per_space + slot, place as u32);
            if round % 100 == 50 {
                views = all(if round % 200 == 50 { 1 } else { 2 });
                places.set_views(&views, SIZE);
            }
            places.check_shown();
            let above = (draw >> 35 & 3) * per_space + (draw >> 42 & 31);
            let look = |places: &Places, slot| places.placed_beneath(slot, &views, SIZE);
            // As if every sector showed the uppermost slot.
            let shown = |placed: Vec<u64>| placed.first().copied();
            let beneath = look(&places, above);
            found[beneath.as_ref().map_or(3, Vec::len)] += 1;
            places.found_beneath(
                above,
                beneath.map(|placed| [shown(placed)]).as_ref().map(|s| &s[..]),
            );
            for (slot, runs) in places.all_beneath() {
                let again = look(&places, slot).map(shown);
                assert_eq!(runs.map(|runs| runs[0].slot), again, "slot {slot} in round {round}");
            }
        }
        assert!(found.iter().all(|count| *count > 50), "{found:?}");
        let shown = |space, below| {
            let within = (4..8).chain(20..30);
            let mut shows = within.filter(|at| places.has(below, *at) && !places.has(space, *at));
            (space, shows.by_ref().count() as u64)
        };
        let should = [shown(1, 0), shown(2, 0), shown(3, 2)];
        assert!(should.iter().all(|(_, count)| *count > 0), "{should:?}");
        assert!(places.shown().eq(should));
        places.set_views(&Views::default(), SIZE);
        assert_eq!(places.shown().count(), 0);
    }

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
