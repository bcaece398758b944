//! Which slot below one each of its sectors shows. A volume with many snapshots lies over as many views, and a sector that was
//! not written in the volume shows the uppermost view that has it. So the result of a search below a slot is remembered, until
//! a slot below gets a place, loses it, or changes.
//!
//! The memory for this is bounded, whatever volumes hold.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

use crate::store::views::Views;

/// Most runs that are remembered, and a slot counts as one, too.
const MOST: usize = 1 << 16;

/// Sectors of a slot that follow one another and show the same slot below, if any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) struct Run {
    /// The first of them: its number in the slot.
    pub first: u64,
    /// The slot that has what they show.
    pub slot: Option<u64>,
}

/// The results of searches.
#[derive(Clone, Default)]
pub(super) struct Beneath {
    /// By the number in its space, which is the same for those that lie over one another, and the space: the runs of a slot, in
    /// order. Nothing if views end within one of the slots.
    found: BTreeMap<(u64, u64), Option<Box<[Run]>>>,
    /// How many runs and slots that makes.
    count: usize,
}

/// It only saves looking again: states that differ only in it are one.
impl Hash for Beneath {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

impl Beneath {
    pub fn get(&self, space: u64, at: u64) -> Option<&[Run]> {
        self.found.get(&(at, space))?.as_deref()
    }

    pub fn has(&self, space: u64, at: u64) -> bool {
        self.found.contains_key(&(at, space))
    }

    /// Remembers the result of a search.
    pub fn insert(&mut self, space: u64, at: u64, found: Option<Vec<Run>>) {
        let count = 1 + found.as_ref().map_or(0, Vec::len);
        if self.count + count > MOST {
            self.clear();
        }
        self.count += count;
        self.found.insert((at, space), found.map(Vec::into_boxed_slice));
    }

    /// A slot has changed: those of this number in spaces above may show another.
    pub fn changed(&mut self, space: u64, at: u64) {
        while let Some((&key, _)) = self.found.range((at, space + 1)..(at + 1, 0)).next() {
            let found = self.found.remove(&key).expect("just seen");
            self.count -= 1 + found.map_or(0, |found| found.len());
        }
    }

    /// Forgets everything: other views lie over one another now.
    pub fn clear(&mut self) {
        *self = Beneath::default();
    }

    /// Everything that is remembered: the space, the number there, and the runs.
    pub fn all(&self) -> impl Iterator<Item = (u64, u64, Option<&[Run]>)> {
        self.found.iter().map(|((at, space), found)| (*space, *at, found.as_deref()))
    }
}

/// The slots with a place below one, from the upper to the lower; nothing if views end within one of them, since its sectors
/// show different ones then, or if there are no slots below. A slot has `size` sectors; `is_placed` says of one whether it
/// has a place.
pub(super) fn look(
    slot: u64,
    size: u64,
    views: &Views,
    is_placed: impl Fn(u64) -> Option<bool>,
) -> Option<Vec<u64>> {
    let mut placed = Vec::new();
    let mut sectors = slot * size..(slot + 1) * size;
    while let Some(view) = views.in_range(sectors.clone()).next() {
        if view.sectors != sectors {
            return None;
        }
        sectors = view.below..view.below + size;
        if is_placed(sectors.start / size)? {
            placed.push(sectors.start / size);
        }
    }
    Some(placed)
}

/// The runs of a slot, of whose sectors each shows the slot that it is listed with.
pub(super) fn runs(shown: &[Option<u64>]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (first, slot) in (0..).zip(shown) {
        if runs.last().is_none_or(|last| last.slot != *slot) {
            runs.push(Run { first, slot: *slot });
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_remembered_is_bounded_and_forgotten_with_a_slot_below() {
        let mut beneath = Beneath::default();
        let run = Run { first: 0, slot: Some(70) };
        for at in 0..MOST as u64 {
            beneath.insert(at % 3, at, Some(vec![run; 4]));
            assert!(beneath.count <= MOST && beneath.has(at % 3, at));
        }
        beneath.clear();
        beneath.insert(1, 7, Some(vec![run]));
        beneath.insert(2, 7, None);
        beneath.insert(4, 7, Some(vec![run; 3]));
        beneath.insert(4, 8, Some(Vec::new()));
        assert_eq!(beneath.get(1, 7), Some(&[run][..]));
        assert_eq!((beneath.get(2, 7), beneath.has(2, 7), beneath.count), (None, true, 8));
        beneath.changed(1, 7);
        let left: Vec<(u64, u64)> = beneath.all().map(|(space, at, _)| (space, at)).collect();
        assert_eq!((left, beneath.count), (vec![(1, 7), (4, 8)], 3));
    }

    #[test]
    fn sectors_side_by_side_that_show_the_same_are_one_run() {
        let shown = [None, None, Some(4), Some(4), Some(2), None];
        let firsts: Vec<(u64, Option<u64>)> =
            runs(&shown).into_iter().map(|run| (run.first, run.slot)).collect();
        assert_eq!(firsts, [(0, None), (2, Some(4)), (4, Some(2)), (5, None)]);
    }
}
