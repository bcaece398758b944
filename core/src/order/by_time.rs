//! A map by timestamp of what is in work.

use std::collections::VecDeque;
use std::hash::{Hash, Hasher};
use std::ops::Index;

use crate::units::Timestamp;

/// Values by timestamp, in the order of these. Most that come are later than all, or nearly, and most that go were among
/// the first: so a list in order moves less than a tree. What is looked up is mostly what was changed last, which is
/// found without a search. What is moved should be small: a box.
#[derive(Clone, Debug)]
pub struct ByTime<T> {
    list: VecDeque<(Timestamp, T)>,
    /// Where in the list that is which was changed last, if it is still there.
    recent: usize,
}

/// Where one looked last makes no difference.
impl<T: Hash> Hash for ByTime<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.list.hash(state);
    }
}

impl<T> Default for ByTime<T> {
    fn default() -> ByTime<T> {
        ByTime { list: VecDeque::new(), recent: 0 }
    }
}

impl<T> ByTime<T> {
    /// Where it is, or would be.
    #[inline]
    fn place(&self, ts: &Timestamp) -> Result<usize, usize> {
        match self.list.get(self.recent) {
            Some((recent, _)) if recent == ts => Ok(self.recent),
            _ => self.search(ts),
        }
    }

    #[inline(never)]
    fn search(&self, ts: &Timestamp) -> Result<usize, usize> {
        match self.list.back() {
            Some((last, _)) if ts <= last => self.list.binary_search_by(|(t, _)| t.cmp(ts)),
            _ => Err(self.list.len()),
        }
    }

    /// What is there of this time.
    pub fn get(&self, ts: &Timestamp) -> Option<&T> {
        self.place(ts).ok().map(|n| &self.list[n].1)
    }

    /// The same, to be changed. What is looked up next is mostly the same, and found at once.
    pub fn get_mut(&mut self, ts: &Timestamp) -> Option<&mut T> {
        let n = self.place(ts).ok()?;
        self.recent = n;
        Some(&mut self.list[n].1)
    }

    /// All of them, to be changed.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.list.iter_mut().map(|(_, value)| value)
    }

    /// Whether anything is there of this time.
    pub fn contains_key(&self, ts: &Timestamp) -> bool {
        self.place(ts).is_ok()
    }

    /// Puts something in, and takes out what was there.
    pub fn insert(&mut self, ts: Timestamp, value: T) -> Option<T> {
        let place = self.place(&ts);
        self.recent = place.unwrap_or_else(|n| n);
        match place {
            Ok(n) => Some(std::mem::replace(&mut self.list[n].1, value)),
            Err(n) => {
                self.list.insert(n, (ts, value));
                None
            }
        }
    }

    /// What is there of this time, which is put in if nothing is.
    pub fn get_or_insert(&mut self, ts: Timestamp) -> &mut T
    where
        T: Default,
    {
        let n = self.place(&ts).unwrap_or_else(|n| {
            self.list.insert(n, (ts, T::default()));
            n
        });
        self.recent = n;
        &mut self.list[n].1
    }

    /// Takes something out.
    pub fn remove(&mut self, ts: &Timestamp) -> Option<T> {
        self.place(ts).ok().and_then(|n| self.list.remove(n)).map(|(_, value)| value)
    }

    /// Takes out all of which this is true.
    pub fn take_where(&mut self, is_it: impl Fn(&T) -> bool) -> Vec<T> {
        let all = std::mem::take(&mut self.list);
        let (its, others): (Vec<_>, VecDeque<_>) = all.into_iter().fold(
            (Vec::new(), VecDeque::new()),
            |(mut its, mut others), (ts, value)| {
                match is_it(&value) {
                    true => its.push(value),
                    false => others.push_back((ts, value)),
                }
                (its, others)
            },
        );
        self.list = others;
        its
    }

    /// All, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&Timestamp, &T)> {
        self.list.iter().map(|(ts, value)| (ts, value))
    }

    /// All, in order, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&Timestamp, &mut T)> {
        self.list.iter_mut().map(|(ts, value)| (&*ts, value))
    }

    /// All timestamps, in order.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &Timestamp> {
        self.list.iter().map(|(ts, _)| ts)
    }

    /// All values, in order.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.list.iter().map(|(_, value)| value)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Takes all out.
    pub fn clear(&mut self) {
        self.list.clear();
    }
}

impl<T> Index<&Timestamp> for ByTime<T> {
    type Output = T;

    fn index(&self, ts: &Timestamp) -> &T {
        self.get(ts).expect("something of this time")
    }
}

impl<T> IntoIterator for ByTime<T> {
    type Item = (Timestamp, T);
    type IntoIter = std::collections::vec_deque::IntoIter<(Timestamp, T)>;

    fn into_iter(self) -> Self::IntoIter {
        self.list.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever comes and goes: it has what a tree would have, in the same order.
        #[test]
        fn it_is_a_map(steps in proptest::collection::vec((0..30u64, 0..5u8), 1..80)) {
            let (mut map, mut tree) = (ByTime::default(), BTreeMap::new());
            for (n, (ts, what)) in steps.into_iter().map(|(t, what)| (Timestamp(t), what)).enumerate() {
                match what {
                    0 => prop_assert_eq!(map.remove(&ts), tree.remove(&ts)),
                    1 => prop_assert_eq!(map.get_or_insert(ts), tree.entry(ts).or_default()),
                    2 => {
                        let taken: Vec<usize> = tree.extract_if(.., |_, v| *v < ts.0 as usize).map(|(_, v)| v).collect();
                        prop_assert_eq!(map.take_where(|v| *v < ts.0 as usize), taken);
                    }
                    _ => prop_assert_eq!(map.insert(ts, n), tree.insert(ts, n)),
                }
                prop_assert_eq!((map.get(&ts), map.contains_key(&ts)), (tree.get(&ts), tree.contains_key(&ts)));
                prop_assert!(map.iter().eq(tree.iter()) && map.keys().eq(tree.keys()));
                prop_assert_eq!((map.len(), map.is_empty()), (tree.len(), tree.is_empty()));
            }
        }
    }
}
