//! How many slots each view shows of the view that it lies over: those with content there, where it has none itself.
//! When a deleted snapshot is merged into the only view over it, these slots change hands, and all others of the
//! snapshot are free. So this says what the deletion of a snapshot would free.
//!
//! The numbers are kept with every slot that gets or loses its place. Only spaces that begin to lie over another are counted.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::store::views::{View, Views};
use crate::units::SPACE_SECTORS;

/// Which spaces lie over which, and how many slots they show.
#[derive(Clone, Default, Hash)]
pub(super) struct Shown {
    /// By the space above.
    over: BTreeMap<u64, Over>,
    /// The spaces over a space.
    above: BTreeMap<u64, Vec<u64>>,
}

/// A space that lies over another.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Over {
    /// The space below.
    below: u64,
    /// Where it does: numbers of slots, which are the same in both spaces.
    at: Vec<Range<u64>>,
    /// How many slots of the other it shows.
    shown: u64,
}

impl Over {
    fn covers(&self, at: u64) -> bool {
        let next = self.at.partition_point(|range| range.end <= at);
        self.at.get(next).is_some_and(|range| range.start <= at)
    }
}

/// The slots that spaces have, each by its number in its space.
pub(super) trait Placed {
    /// Whether one has a place.
    fn has(&self, space: u64, at: u64) -> bool;
    /// How many of a space have.
    fn count(&self, space: u64) -> u64;
    /// Those in a range that have.
    fn within(&self, space: u64, at: Range<u64>) -> Box<dyn Iterator<Item = u64> + '_>;
}

/// Which space each space lies over, and where. A slot has `size` sectors.
fn all_over(views: &Views, size: u64) -> BTreeMap<u64, Over> {
    let mut all = BTreeMap::<u64, Over>::new();
    for View { sectors, below, .. } in views.in_range(0..u64::MAX) {
        let (first, last) = (sectors.start % SPACE_SECTORS, (sectors.end - 1) % SPACE_SECTORS);
        let slots = first / size..last / size + 1;
        let fresh = || Over { below: below / SPACE_SECTORS, at: Vec::new(), shown: 0 };
        let at = &mut all.entry(sectors.start / SPACE_SECTORS).or_insert_with(fresh).at;
        // Two extents may share a slot.
        match at.last_mut().filter(|before| before.end >= slots.start) {
            Some(before) => before.end = before.end.max(slots.end),
            None => at.push(slots),
        }
    }
    all
}

/// How many slots a space shows of the one below.
fn count(space: u64, over: &Over, placed: &impl Placed) -> u64 {
    if placed.count(over.below) == 0 {
        return 0;
    }
    let hidden = |at: &u64| placed.has(space, *at);
    let all = over.at.iter().flat_map(|range| placed.within(over.below, range.clone()));
    all.filter(|at| !hidden(at)).count() as u64
}

impl Shown {
    /// Spaces lie over one another like this now.
    pub fn set_views(&mut self, views: &Views, size: u64, placed: &impl Placed) {
        let mut over = all_over(views, size);
        for (space, its) in &mut over {
            let before = self.over.get(space).filter(|b| b.below == its.below && b.at == its.at);
            its.shown = before.map_or_else(|| count(*space, its, placed), |before| before.shown);
        }
        self.above = BTreeMap::new();
        for (space, its) in &over {
            self.above.entry(its.below).or_default().push(*space);
        }
        self.over = over;
    }

    /// A slot has got a place, or lost it.
    pub fn changed(&mut self, (space, at): (u64, u64), has: bool, placed: &impl Placed) {
        let adjust = |over: &mut Over, more: bool| match more {
            true => over.shown += 1,
            false => over.shown -= 1,
        };
        if let Some(over) = self.over.get_mut(&space)
            && over.covers(at)
            && placed.has(over.below, at)
        {
            adjust(over, !has);
        }
        for above in self.above.get(&space).into_iter().flatten() {
            let Some(over) = self.over.get_mut(above) else { continue };
            if over.covers(at) && !placed.has(*above, at) {
                adjust(over, has);
            }
        }
    }

    /// Whether others lie over a space.
    pub fn has_above(&self, space: u64) -> bool {
        self.above.contains_key(&space)
    }

    /// Whether nothing lies over anything.
    pub fn is_empty(&self) -> bool {
        self.over.is_empty()
    }

    /// How many slots each space shows of the one below, by its number.
    pub fn all(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.over.iter().map(|(space, over)| (*space, over.shown))
    }

    /// Checks the numbers by counting again.
    pub fn check(&self, placed: &impl Placed) {
        for (space, over) in &self.over {
            let shown = count(*space, over, placed);
            assert_eq!(over.shown, shown, "slots that space {space} shows of {}", over.below);
        }
    }
}
