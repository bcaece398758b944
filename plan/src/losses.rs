//! The probability that all can be recovered when A boxes and B other disks are lost, whichever they are.
//!
//! Which sets of columns are recoverable, the layout says. Sets of a size are counted all, or drawn where there are
//! more than [`MOST_SETS`]. Of an MDS code one set is like the other, and one is looked at.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use weft_core::units::ColumnSet;

use crate::unit::Unit;

/// Sets beyond which they are drawn.
pub const MOST_SETS: u64 = 60_000;
/// How many are drawn then.
const DRAWN: u64 = 20_000;

/// The probabilities for an extent that has lost A boxes' columns and B others.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Share {
    /// The share of sets that are not recoverable.
    lost: f64,
    /// The share of its data that is lost, on the mean over all sets.
    data: f64,
}

/// The probabilities for a unit that has lost A boxes and B disks in others.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct State {
    /// The chance that all can be recovered.
    pub survived: f64,
    /// Bytes of data that are lost, on the mean over all sets; 0 where they can be recovered.
    pub bytes: f64,
    /// Bytes that must be readable to rebuild a disk and cannot be computed if they are not.
    pub critical_of_disk: f64,
    /// The same for a box.
    pub critical_of_box: f64,
}

/// What a unit bears.
#[derive(Debug)]
pub struct Losses<'a> {
    unit: &'a Unit,
    shares: RefCell<BTreeMap<(usize, usize), Share>>,
    sampled: Cell<bool>,
}

impl<'a> Losses<'a> {
    /// What this unit bears; nothing is counted before it is asked for.
    pub fn of(unit: &'a Unit) -> Losses<'a> {
        Losses { unit, shares: RefCell::default(), sampled: Cell::new(false) }
    }

    /// Whether sets were drawn, since there are too many.
    pub fn sampled(&self) -> bool {
        self.sampled.get()
    }

    /// The probabilities with A boxes lost, and B disks in others.
    pub fn state(&self, boxes: usize, disks: usize) -> State {
        let unit = self.unit;
        let left = (unit.disks as f64 - boxes as f64 * unit.disks_in_box()).round() as usize;
        let mut out = State::default();
        let (mut lost, mut data) = (0.0, 0.0);
        for slots in 0..=boxes.min(unit.slots()) {
            let chance = hypergeometric(unit.boxes, unit.slots(), boxes, slots);
            let outside = unit.width() - self.columns_in(slots);
            // A group's disks are its columns, also where boxes do not have as many each.
            let left = if unit.disks == unit.width() { outside } else { left };
            if chance == 0.0 {
                continue;
            }
            for others in 0..=disks.min(outside) {
                let chance = chance * hypergeometric(left, outside, disks, others);
                if chance == 0.0 {
                    continue;
                }
                let now = self.share(slots, others);
                lost += chance * now.lost;
                data += chance * now.data;
                if others < outside {
                    // Of those that can be recovered: the share in which one column more is too many.
                    let fatal = (self.share(slots, others + 1).lost - now.lost).max(0.0);
                    let columns = chance * fatal * (outside - others) as f64;
                    out.critical_of_disk += columns * others as f64 / disks.max(1) as f64;
                    out.critical_of_box += columns * slots as f64 / boxes.max(1) as f64;
                }
            }
        }
        let all = unit.extents as f64;
        out.survived = libm::exp(all * libm::log1p(-lost.min(1.0)));
        out.bytes = data * unit.data_bytes();
        out.critical_of_disk *= all * unit.column_bytes;
        out.critical_of_box *= all * unit.column_bytes;
        out
    }

    /// Mean number of columns in this many boxes of an extent.
    fn columns_in(&self, slots: usize) -> usize {
        let all = self.unit.slots().max(1);
        (self.unit.width() * slots + all / 2) / all
    }

    fn share(&self, slots: usize, others: usize) -> Share {
        // Where each box has one column, it is a column like the others.
        let each_its_own = self.unit.slots() == self.unit.width();
        let key = if each_its_own { (0, slots + others) } else { (slots, others) };
        if let Some(share) = self.shares.borrow().get(&key) {
            return *share;
        }
        let share = self.count(key.0, key.1);
        self.shares.borrow_mut().insert(key, share);
        share
    }

    /// Goes through the sets, or draws some.
    fn count(&self, slots: usize, others: usize) -> Share {
        let unit = self.unit;
        let outside = unit.width() - self.columns_in(slots);
        let boxes = choose(unit.slots() as u64, slots as u64);
        let sets = boxes.saturating_mul(choose(outside as u64, others as u64));
        let mut tally = Tally::default();
        if unit.geometry.code.is_mds() || sets <= MOST_SETS {
            each_set(ColumnSet::first(unit.slots()), slots, &mut |slots| {
                let inside = unit.columns_in(slots);
                let rest = ColumnSet::first(unit.width()).minus(inside);
                each_set(rest, others, &mut |set| {
                    tally.add(unit, inside.union(set));
                    !unit.geometry.code.is_mds()
                });
                true
            });
        } else {
            self.sampled.set(true);
            let mut random = fastrand::Rng::with_seed((slots * 64 + others) as u64);
            for _ in 0..DRAWN {
                let inside =
                    unit.columns_in(some(ColumnSet::first(unit.slots()), slots, &mut random));
                let rest = ColumnSet::first(unit.width()).minus(inside);
                tally.add(unit, inside.union(some(rest, others, &mut random)));
            }
        }
        tally.share()
    }
}

/// Sets that were looked at.
#[derive(Debug, Default)]
struct Tally {
    all: u64,
    /// Those that are not recoverable.
    lost: u64,
    /// Of some of these, the share of the data that they lose.
    measured: Vec<f64>,
}

impl Tally {
    fn add(&mut self, unit: &Unit, set: ColumnSet) {
        self.all += 1;
        if unit.geometry.is_always_recoverable(set) {
            return;
        }
        self.lost += 1;
        // The first, the second, the fourth and so on, so that they come from everywhere.
        if self.lost.is_power_of_two() {
            self.measured.push(unit.data_lost(set));
        }
    }

    fn share(&self) -> Share {
        // More columns than there are: no such set, and nothing left.
        if self.all == 0 {
            return Share { lost: 1.0, data: 1.0 };
        }
        let lost = self.lost as f64 / self.all as f64;
        let each = self.measured.iter().sum::<f64>() / self.measured.len().max(1) as f64;
        Share { lost, data: lost * each }
    }
}

/// Calls `each` with each set of this size of these columns, as long as it returns true.
pub(crate) fn each_set(of: ColumnSet, size: usize, each: &mut impl FnMut(ColumnSet) -> bool) {
    fn go(
        of: &[usize],
        size: usize,
        with: ColumnSet,
        each: &mut impl FnMut(ColumnSet) -> bool,
    ) -> bool {
        if size == 0 {
            return each(with);
        }
        (0..(of.len() + 1).saturating_sub(size))
            .all(|n| go(&of[n + 1..], size - 1, with.union(ColumnSet::of(of[n])), each))
    }
    go(&of.iter().collect::<Vec<_>>(), size, ColumnSet::EMPTY, each);
}

/// This many of these columns, or all.
fn some(of: ColumnSet, size: usize, random: &mut fastrand::Rng) -> ColumnSet {
    let mut columns: Vec<usize> = of.iter().collect();
    random.shuffle(&mut columns);
    columns.into_iter().take(size).collect()
}

/// Ways to choose `k` of `n`; the largest number if there are more.
fn choose(n: u64, k: u64) -> u64 {
    (0..k).fold(1u64, |ways, i| ways.saturating_mul(n.saturating_sub(i)) / (i + 1))
}

/// The probability that `hits` of `drawn` items are marked, with `marked` among `all`.
fn hypergeometric(all: usize, marked: usize, drawn: usize, hits: usize) -> f64 {
    if hits > marked || hits > drawn || drawn > all || marked + drawn > all + hits {
        return 0.0;
    }
    let ways =
        |n: usize, k: usize| (0..k).map(|i| (n - i) as f64 / (i + 1) as f64).product::<f64>();
    ways(marked, hits) * ways(all - marked, drawn - hits) / ways(all, drawn)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unit::group;

    fn survived(unit: &Unit, boxes: usize, disks: usize) -> f64 {
        Losses::of(unit).state(boxes, disks).survived
    }

    #[test]
    fn groups_survive_what_the_layout_says() {
        for (layout, lost, some, all) in [
            ("rs:4+1", 1, 1.0, 1.0),
            ("rs:4+1", 2, 0.0, 1.0),
            ("rs:17+3", 3, 1.0, 1.0),
            ("rs:17+3", 4, 0.0, 1.0),
            ("lrc:12+2+2", 4, 1568.0, 1820.0),
            ("grid:4x4", 4, 12_550.0, 12_650.0),
            ("drnet", 3, 2200.0, 2300.0),
        ] {
            let unit = group(layout, 0);
            let is = survived(&unit, 0, lost);
            assert!((is - some / all).abs() < 1e-12, "{layout}, {lost} lost: {is}");
        }
    }

    #[test]
    fn boxes_take_their_columns_with_them() {
        // Six columns in three boxes: two each.
        let unit = group("rs:4+2", 3);
        assert_eq!(survived(&unit, 1, 0), 1.0);
        assert_eq!(survived(&unit, 1, 1), 0.0);
        assert_eq!(survived(&unit, 2, 0), 0.0);
        // Each in a box of its own: like disks.
        let unit = group("lrc:12+2+2", 16);
        assert_eq!(survived(&unit, 2, 2), survived(&group("lrc:12+2+2", 0), 0, 4));
    }

    /// RAID 5 over 10 disks, each extent on 5: two disks share an extent with a chance of 2/9.
    #[test]
    fn extents_that_are_spread_share_pairs_of_disks() {
        let unit = Unit { disks: 10, extents: 7, ..group("rs:4+1", 0) };
        let each: f64 = 1.0 - 5.0 * 4.0 / (10.0 * 9.0);
        let expected = each.powi(7);
        assert!((survived(&unit, 0, 2) - expected).abs() < 1e-12);
        let lost = Losses::of(&unit).state(0, 2).bytes;
        assert!((lost - unit.data_bytes() * (1.0 - each) * 0.4).abs() < 1.0, "{lost}");
    }

    /// What RAID 5 must be able to read for a rebuild: all other disks. RAID 6 with one disk lost: nothing in particular.
    #[test]
    fn what_must_be_readable() {
        let critical =
            |layout: &str, lost| Losses::of(&group(layout, 0)).state(0, lost).critical_of_disk;
        assert_eq!(critical("rs:4+1", 1), 4e12);
        assert_eq!(critical("rs:4+2", 1), 0.0);
        assert_eq!(critical("rs:4+2", 2), 4e12);
    }

    #[test]
    fn too_many_sets_are_drawn_and_that_is_said() {
        let unit = group("drnet", 0);
        let losses = Losses::of(&unit);
        losses.state(0, 3);
        assert!(!losses.sampled());
        let four = losses.share(0, 4).lost;
        assert!(!losses.sampled());
        assert!(losses.share(0, 9).lost > four && losses.sampled());
    }

    #[test]
    fn chances_sum_to_one() {
        for drawn in 0..=10 {
            let all: f64 = (0..=drawn).map(|h| hypergeometric(10, 4, drawn, h)).sum();
            assert!((all - 1.0).abs() < 1e-12);
        }
        assert_eq!((choose(25, 3), choose(3, 4)), (2300, 0));
    }
}
