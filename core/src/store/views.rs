//! Which sectors of a disk show content of others while they have none of their own.
//!
//! A volume and its snapshots are views of one history, each in an address space of its own. A sector that was never
//! written in a view shows what the view below it has there, on the same disk. So taking a snapshot copies nothing, and
//! only later writes take space.
//!
//! Every write changes data and parity in one view. Each disk falls through by itself, so in every view parity is the
//! code of the data, whatever was written to the views above it.

use std::ops::Range;

use smallvec::SmallVec;

use super::JournalStore;
use super::overlay::Over;
use super::slots::Run;
use super::table::TableEntry;
use crate::units::SPACE_SECTORS;

/// The runs of a slot whose sectors show the same slots below.
pub(super) type Runs = SmallVec<[Run; 3]>;

/// Sectors of a slot, and its runs if they are known.
pub(super) struct Shown {
    pub sectors: Range<u64>,
    pub runs: Option<Runs>,
}

/// Sectors of a view that lie over another view's.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct View {
    /// The sectors.
    pub sectors: Range<u64>,
    /// The first of those below, which follow one another as these do.
    pub below: u64,
    /// Whether the content below is merged into it.
    pub merges: bool,
    /// Whether it gets a copy of all that it shows of those below.
    pub flattens: bool,
}

impl View {
    /// Whether another follows it, here and below.
    fn goes_on_in(&self, next: &View) -> bool {
        let count = self.sectors.end - self.sectors.start;
        self.sectors.end == next.sectors.start
            && self.below + count == next.below
            && (self.merges, self.flattens) == (next.merges, next.flattens)
    }
}

/// The views of a disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Views {
    /// In the order of their sectors, which do not overlap.
    all: Vec<View>,
    /// The address spaces over which others lie, in order.
    beneath: Vec<u64>,
}

impl Views {
    /// These views.
    ///
    /// # Panics
    /// If a view does not lie above what it shows, at the same place of another address space, or two overlap.
    pub fn new(mut all: Vec<View>) -> Views {
        all.sort_unstable_by_key(|view| view.sectors.start);
        assert!(
            all.iter().all(|view| view.below < view.sectors.start),
            "a view lies above another"
        );
        let same_place =
            |view: &View| view.below % SPACE_SECTORS == view.sectors.start % SPACE_SECTORS;
        assert!(all.iter().all(same_place), "a view lies at the same place of another space");
        let mut beneath: Vec<u64> = all.iter().map(|view| view.below / SPACE_SECTORS).collect();
        beneath.sort_unstable();
        beneath.dedup();
        let apart = |pair: &[View]| pair[0].sectors.end <= pair[1].sectors.start;
        assert!(all.windows(2).all(apart), "two views overlap");
        // Extents side by side are one: slots need not end with them.
        let mut joined: Vec<View> = Vec::with_capacity(all.len());
        for view in all {
            match joined.last_mut().filter(|last| last.goes_on_in(&view)) {
                Some(last) => last.sectors.end = view.sectors.end,
                None => joined.push(view),
            }
        }
        Views { all: joined, beneath }
    }

    /// The views into which the content below is merged, in the order of the sectors below.
    pub fn merging(&self) -> Vec<View> {
        let mut merging: Vec<View> = self.all.iter().filter(|view| view.merges).cloned().collect();
        merging.sort_unstable_by_key(|view| view.below);
        merging
    }

    /// The views that get a copy of what they show.
    pub fn flattening(&self) -> impl Iterator<Item = &View> {
        self.all.iter().filter(|view| view.flattens)
    }

    /// Whether no sector lies over another.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The sector that a sector shows while it has no content of its own.
    pub fn below(&self, sector: u64) -> Option<u64> {
        let view =
            self.all[..self.all.partition_point(|view| view.sectors.start <= sector)].last()?;
        view.sectors.contains(&sector).then(|| view.below + (sector - view.sectors.start))
    }

    /// The parts of views that lie in these sectors.
    pub fn in_range(&self, sectors: Range<u64>) -> impl Iterator<Item = View> + '_ {
        let first = self.all.partition_point(|view| view.sectors.end <= sectors.start);
        let end = sectors.end;
        let meets = self.all[first..].iter().take_while(move |view| view.sectors.start < end);
        meets.map(move |view| {
            let from = view.sectors.start.max(sectors.start);
            let below = view.below + (from - view.sectors.start);
            View { sectors: from..view.sectors.end.min(end), below, ..view.clone() }
        })
    }

    /// All sectors that these may show, view by view downwards, without these themselves.
    pub fn all_below(&self, sectors: Range<u64>) -> Vec<Range<u64>> {
        let mut all: Vec<Range<u64>> = Vec::new();
        if self.is_empty() {
            return all;
        }
        let below = |view: View| view.below..view.below + (view.sectors.end - view.sectors.start);
        all.extend(self.in_range(sectors).map(below));
        let mut next = 0;
        while next < all.len() {
            let further: Vec<_> = self.in_range(all[next].clone()).map(below).collect();
            all.extend(further);
            next += 1;
        }
        all
    }

    /// Whether something that these sectors may show `is` so. Only sectors of `spaces` can be: usually none of them lies
    /// below anything, and nothing is walked over.
    pub fn any_below(
        &self,
        sectors: Range<u64>,
        mut spaces: impl Iterator<Item = u64>,
        is: impl Fn(Range<u64>) -> bool,
    ) -> bool {
        let (own, count) = (sectors.start / SPACE_SECTORS, sectors.end - sectors.start);
        let may_be = |space: u64| {
            let first = space * SPACE_SECTORS + sectors.start % SPACE_SECTORS;
            space < own && self.beneath.binary_search(&space).is_ok() && is(first..first + count)
        };
        !self.is_empty() && spaces.any(may_be) && self.all_below(sectors).into_iter().any(is)
    }
}

impl JournalStore {
    /// Which sectors show the content of others, by the map in force.
    pub fn set_views(&mut self, views: &Views) {
        let before = self.views.replace(views.clone());
        self.slots.set_views(views);
        for view in before.iter().flat_map(Views::flattening) {
            if views.below(view.sectors.start).is_none() {
                self.uncover(view.sectors.clone());
            }
        }
        self.merge_anew();
        self.flatten_anew();
        self.step_checkpoint();
    }

    /// The sector that a sector shows while it has no content of its own.
    pub(super) fn below(&self, sector: u64) -> Option<u64> {
        if sector < SPACE_SECTORS {
            return None;
        }
        self.views.as_ref()?.below(sector)
    }

    /// Whether a sector may show another.
    pub(super) fn lies_over(&self, sector: u64) -> bool {
        sector >= SPACE_SECTORS && self.views.as_ref().is_some_and(|views| !views.is_empty())
    }

    /// All sectors that these may show, without these themselves.
    pub(super) fn all_below(&self, sectors: Range<u64>) -> Vec<Range<u64>> {
        match &self.views {
            Some(views) if sectors.end > SPACE_SECTORS => views.all_below(sectors),
            _ => Vec::new(),
        }
    }

    /// The parts of views that lie in these sectors.
    pub(super) fn views_in(&self, sectors: Range<u64>) -> Vec<View> {
        let views = self.views.as_ref().filter(|_| sectors.end > SPACE_SECTORS);
        views.map_or(Vec::new(), |views| views.in_range(sectors).collect())
    }

    /// Whether a sector may have to be added up from what lies below it, before the map has said where that is.
    pub(super) fn needs_views(&self, sector: u64, over: &Over) -> bool {
        self.views.is_none() && sector >= SPACE_SECTORS && over.needs_base()
    }

    /// Whether changes of a sector must wait until those of a sector below it are in place.
    pub(super) fn waits_below(&self, sector: u64, over: &Over) -> bool {
        let waits = |sectors: Range<u64>| self.overlay.next(sectors).is_some();
        let spaces = || self.overlay.spaces_before(sector / SPACE_SECTORS);
        let any_waits = |views: &Views| views.any_below(sector..sector + 1, spaces(), waits);
        self.needs_views(sector, over)
            || (over.needs_base() && self.views.as_ref().is_some_and(any_waits))
    }

    /// Finds the slots below that these sectors show, so that it is known afterwards. Whether it is; else pages of the table are
    /// on their way.
    pub(super) fn look_beneath(&mut self, sectors: Range<u64>) -> bool {
        if !self.lies_over(sectors.start) {
            return true;
        }
        let mut all = true;
        let mut left = sectors;
        while !left.is_empty() {
            let slot = self.slots.slot_of(left.start);
            let unknown = slot.filter(|slot| !self.slots.knows_beneath(*slot));
            all &= unknown.is_none_or(|slot| self.look_beneath_slot(slot));
            left.start = self.slots.run_of(left.clone()).end;
        }
        all
    }

    fn look_beneath_slot(&mut self, slot: u64) -> bool {
        let views = self.views.as_ref().expect("it lies over another");
        let Some(placed) = self.slots.placed_beneath(slot, views) else {
            self.slots.found_beneath(slot, None);
            return true;
        };
        let mut pages = Vec::new();
        placed.iter().for_each(|slot| self.add_pages_of(self.slots.sectors_of(*slot), &mut pages));
        pages.sort_unstable();
        pages.dedup();
        if !self.want(pages) {
            return false;
        }
        let mut shown = vec![None; self.superblock.slot() as usize];
        for below in placed {
            let sectors = self.slots.sectors_of(below);
            for (sector, shown) in sectors.zip(&mut shown).filter(|(_, shown)| shown.is_none()) {
                *shown = (self.entry(sector) != TableEntry::FRESH).then_some(below);
            }
        }
        self.slots.found_beneath(slot, Some(&shown));
        true
    }

    /// The runs of a sector's slot that show the same slots below, if they are known, and nothing else below has content.
    pub(super) fn runs_beneath(&self, sector: u64) -> Option<Runs> {
        let views = self.views.as_ref()?;
        if !self.lies_over(sector) {
            return Some(Runs::new());
        }
        let slot = self.slots.slot_of(sector)?;
        let runs = self.slots.runs_beneath(slot)?;
        let placing = |sectors| self.checkpoint.as_ref().and_then(|c| c.next(sectors)).is_some();
        let waits = |s: Range<u64>| self.overlay.next(s.clone()).is_some() || placing(s);
        let space = sector / SPACE_SECTORS;
        let of_checkpoint = self.checkpoint.iter().flat_map(|c| c.spaces_before(space));
        let spaces = self.overlay.spaces_before(space).chain(of_checkpoint);
        let is_all = self.unclaimed() == TableEntry::FRESH
            && !views.any_below(self.slots.sectors_of(slot), spaces, waits);
        is_all.then(|| runs.into())
    }

    /// These sectors by their slots, and what each slot shows.
    pub(super) fn shown(&self, sectors: Range<u64>) -> SmallVec<[Shown; 1]> {
        let mut all = SmallVec::new();
        let mut left = sectors;
        while !left.is_empty() {
            let sectors = self.slots.run_of(left.clone());
            left.start = sectors.end;
            all.push(Shown { runs: self.runs_beneath(sectors.start), sectors });
        }
        all
    }

    /// The sector below that a sector shows, by the runs of its slot.
    pub(super) fn shown_by(&self, sector: u64, runs: &[Run]) -> Option<u64> {
        let at = sector % self.superblock.slot().max(1);
        let run = runs[..runs.partition_point(|run| run.first <= at)].last()?;
        run.slot.map(|slot| self.slots.sectors_of(slot).start + at)
    }

    /// Checks the remembered runs against the entries that are in memory.
    pub(super) fn check_beneath(&self) {
        let Some(views) = &self.views else { return };
        for (slot, runs) in self.slots.all_beneath() {
            let placed = self.slots.placed_beneath(slot, views);
            assert_eq!(runs.is_some(), placed.is_some(), "slot {slot} lies over single slots");
            let (Some(runs), Some(placed)) = (runs, placed) else { continue };
            for sector in self.slots.sectors_of(slot) {
                let shown = self.shown_by(sector, runs);
                for below in placed.iter().map(|slot| self.slots.in_slot(sector, *slot)) {
                    let (entry, is_it) = (self.entry_in_memory(below), Some(below) == shown);
                    let fits = entry.is_none_or(|entry| (entry != TableEntry::FRESH) == is_it);
                    assert!(fits, "sector {sector} shows {shown:?}, and {below} has {entry:?}");
                    if is_it {
                        break;
                    }
                }
            }
        }
    }

    /// Whether a slot shows content of others, or may.
    pub(super) fn shows_others(&self, slot: u64) -> bool {
        let below = self.all_below(self.slots.sectors_of(slot));
        let is_placed = |sector: u64| {
            self.slots.slot_of(sector).is_none_or(|slot| self.slots.has_or_gets(slot))
        };
        below.into_iter().any(|sectors| {
            let waits = self.overlay.next(sectors.clone()).is_some();
            let placing = self.checkpoint.as_ref().and_then(|c| c.next(sectors.clone())).is_some();
            waits || placing || is_placed(sectors.start) || is_placed(sectors.end - 1)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPACE: u64 = SPACE_SECTORS;

    fn view_of(sectors: Range<u64>, below: u64) -> View {
        View { sectors, below, merges: false, flattens: false }
    }

    /// Over sectors 100 to 110 lies a view, and over half of that another.
    fn two() -> Views {
        let lower = view_of(SPACE + 100..SPACE + 110, 100);
        let upper = view_of(3 * SPACE + 105..3 * SPACE + 115, SPACE + 105);
        Views::new(vec![upper, lower])
    }

    #[test]
    fn a_sector_shows_what_lies_below_it() {
        let views = two();
        assert_eq!(
            [SPACE + 99, SPACE + 100, SPACE + 109, SPACE + 110, 3 * SPACE + 109]
                .map(|s| views.below(s)),
            [None, Some(100), Some(109), None, Some(SPACE + 109)]
        );
        let below = |first| views.all_below(3 * SPACE + first..3 * SPACE + first + 3);
        assert_eq!(below(106), [SPACE + 106..SPACE + 109, 106..109]);
        assert_eq!(below(108), [SPACE + 108..SPACE + 111, 108..110]);
        assert!(views.all_below(0..100).is_empty() && Views::default().all_below(0..9).is_empty());
        let cut: Vec<View> = views.in_range(SPACE + 105..3 * SPACE + 107).collect();
        let upper = view_of(3 * SPACE + 105..3 * SPACE + 107, SPACE + 105);
        assert_eq!(cut, [view_of(SPACE + 105..SPACE + 110, 105), upper]);
        let view = |first: u64| view_of(SPACE + first..SPACE + first + 10, first);
        let side_by_side = Views::new(vec![view(300), view(310), view(330)]);
        assert_eq!(side_by_side.in_range(0..2 * SPACE).count(), 2);
    }

    #[test]
    fn what_lies_below_is_asked_for_where_it_can_be_so() {
        let views = two();
        let any = |spaces: &[u64], sectors: Range<u64>, at: u64| {
            let asked = std::cell::Cell::new(0);
            let is = |below: Range<u64>| {
                asked.set(asked.get() + 1);
                below.contains(&at)
            };
            (views.any_below(sectors, spaces.iter().copied(), is), asked.get())
        };
        let some = 3 * SPACE + 105..3 * SPACE + 112;
        assert_eq!(any(&[], some.clone(), 106), (false, 0));
        assert_eq!(any(&[3, 2], some.clone(), 106), (false, 0), "nothing shows those");
        assert_eq!(any(&[1, 0], some.clone(), 106), (true, 4));
        assert_eq!(any(&[1], some.clone(), SPACE + 106), (true, 2));
        assert_eq!(any(&[0], some, 111), (false, 3), "beyond the lower view");
        assert_eq!(any(&[0], 0..9, 5), (false, 0));
    }
}
