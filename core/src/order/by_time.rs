//! A map by timestamp of what is in work.

use std::collections::VecDeque;
use std::ops::Index;

use crate::units::Timestamp;

/// Values by timestamp, in the order of these. Most that come are later than all, or nearly, and most that go were among
/// the first: so a list in order finds and moves less than a tree. What is moved should be small: a box.
#[derive(Clone, Debug, Hash)]
pub struct ByTime<T>(VecDeque<(Timestamp, T)>);

impl<T> Default for ByTime<T> {
    fn default() -> ByTime<T> {
        ByTime(VecDeque::new())
    }
}

impl<T> ByTime<T> {
    /// Where it is, or would be.
    fn place(&self, ts: &Timestamp) -> Result<usize, usize> {
        match self.0.back() {
            Some((last, _)) if ts <= last => self.0.binary_search_by(|(t, _)| t.cmp(ts)),
            _ => Err(self.0.len()),
        }
    }

    /// What is there of this time.
    pub fn get(&self, ts: &Timestamp) -> Option<&T> {
        self.place(ts).ok().map(|n| &self.0[n].1)
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self, ts: &Timestamp) -> Option<&mut T> {
        self.place(ts).ok().map(|n| &mut self.0[n].1)
    }

    /// Whether anything is there of this time.
    pub fn contains_key(&self, ts: &Timestamp) -> bool {
        self.place(ts).is_ok()
    }

    /// Puts something in, and takes out what was there.
    pub fn insert(&mut self, ts: Timestamp, value: T) -> Option<T> {
        match self.place(&ts) {
            Ok(n) => Some(std::mem::replace(&mut self.0[n].1, value)),
            Err(n) => {
                self.0.insert(n, (ts, value));
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
            self.0.insert(n, (ts, T::default()));
            n
        });
        &mut self.0[n].1
    }

    /// Takes something out.
    pub fn remove(&mut self, ts: &Timestamp) -> Option<T> {
        self.place(ts).ok().and_then(|n| self.0.remove(n)).map(|(_, value)| value)
    }

    /// Takes out all of which this is true.
    pub fn take_where(&mut self, is_it: impl Fn(&T) -> bool) -> Vec<T> {
        let all = std::mem::take(&mut self.0);
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
        self.0 = others;
        its
    }

    /// All, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&Timestamp, &T)> {
        self.0.iter().map(|(ts, value)| (ts, value))
    }

    /// All, in order, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&Timestamp, &mut T)> {
        self.0.iter_mut().map(|(ts, value)| (&*ts, value))
    }

    /// All timestamps, in order.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &Timestamp> {
        self.0.iter().map(|(ts, _)| ts)
    }

    /// All values, in order.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|(_, value)| value)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes all out.
    pub fn clear(&mut self) {
        self.0.clear();
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
        self.0.into_iter()
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
