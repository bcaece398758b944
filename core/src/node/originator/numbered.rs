//! What others are asked under a number, until all have answered.

use std::collections::BTreeMap;

/// Such things, each with a number that no other has had.
#[derive(Clone, Hash)]
pub(super) struct Numbered<T> {
    of: BTreeMap<u64, T>,
    last: u64,
}

impl<T> Default for Numbered<T> {
    fn default() -> Numbered<T> {
        Numbered { of: BTreeMap::new(), last: 0 }
    }
}

impl<T> Numbered<T> {
    /// Keeps one. Returns its number.
    pub fn add(&mut self, what: T) -> u64 {
        self.last += 1;
        self.of.insert(self.last, what);
        self.last
    }

    /// The one with a number, if it has not been answered.
    pub fn get_mut(&mut self, id: u64) -> Option<&mut T> {
        self.of.get_mut(&id)
    }

    /// All, by number.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        self.of.iter().map(|(id, what)| (*id, what))
    }

    /// All, by number.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u64, &mut T)> {
        self.of.iter_mut().map(|(id, what)| (*id, what))
    }

    /// Takes one out if it is done.
    pub fn take_if(&mut self, id: u64, is_done: impl FnOnce(&T) -> bool) -> Option<T> {
        self.of.get(&id).is_some_and(is_done).then(|| self.of.remove(&id).expect("just seen"))
    }

    /// Takes all out.
    pub fn take_all(&mut self) -> impl Iterator<Item = T> + use<T> {
        std::mem::take(&mut self.of).into_values()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.of.is_empty()
    }
}
