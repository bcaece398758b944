//! Which slots with a place lie below one. A volume with many snapshots lies over as many views, and most of them have
//! no place for most slots. So the result of a search below a slot is remembered, until one below it gets a place or loses it.
//!
//! The memory for this is bounded, whatever volumes hold.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

use crate::store::views::Views;

/// Most slots that are remembered, with those below them.
const MOST: usize = 1 << 16;

/// The results of searches.
#[derive(Clone, Default)]
pub(super) struct Beneath {
    /// By the number in its space, which is the same for those that lie over one another, and the space: the slots with a
    /// place, from the upper to the lower. Nothing if views end within one of the slots.
    found: BTreeMap<(u64, u64), Option<Box<[u64]>>>,
    /// How many slots that makes.
    count: usize,
}

/// It only saves looking again: states that differ only in it are one.
impl Hash for Beneath {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

impl Beneath {
    pub fn get(&self, space: u64, at: u64) -> Option<&[u64]> {
        self.found.get(&(at, space))?.as_deref()
    }

    pub fn has(&self, space: u64, at: u64) -> bool {
        self.found.contains_key(&(at, space))
    }

    /// Remembers the result of a search.
    pub fn insert(&mut self, space: u64, at: u64, found: Option<Vec<u64>>) {
        let count = 1 + found.as_ref().map_or(0, Vec::len);
        if self.count + count > MOST {
            self.clear();
        }
        self.count += count;
        self.found.insert((at, space), found.map(Vec::into_boxed_slice));
    }

    /// A slot of this number in its space has got a place, or lost it.
    pub fn changed(&mut self, at: u64) {
        while let Some((&key, _)) = self.found.range((at, 0)..(at + 1, 0)).next() {
            let found = self.found.remove(&key).expect("just seen");
            self.count -= 1 + found.map_or(0, |found| found.len());
        }
    }

    /// Forgets everything: other views lie over one another now.
    pub fn clear(&mut self) {
        *self = Beneath::default();
    }

    /// Everything that is remembered: the space, the number there, and the slots found.
    pub fn all(&self) -> impl Iterator<Item = (u64, u64, Option<&[u64]>)> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_remembered_is_bounded_and_forgotten_with_its_slot() {
        let mut beneath = Beneath::default();
        for at in 0..MOST as u64 {
            beneath.insert(at % 3, at, Some(vec![at; 4]));
            assert!(beneath.count <= MOST && beneath.has(at % 3, at));
        }
        beneath.clear();
        beneath.insert(1, 7, Some(vec![70]));
        beneath.insert(2, 7, None);
        beneath.insert(1, 8, Some(Vec::new()));
        assert_eq!(beneath.get(1, 7), Some(&[70][..]));
        assert_eq!((beneath.get(2, 7), beneath.has(2, 7)), (None, true));
        beneath.changed(7);
        assert_eq!(beneath.all().collect::<Vec<_>>(), [(1, 8, Some(&[][..]))]);
        assert_eq!(beneath.count, 1);
    }
}
