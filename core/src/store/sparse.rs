//! Long lists of numbers of which most are zero: memory is taken by stretches in which others stand. So what is kept
//! for each slot or page of a large disk costs next to nothing while the disk is nearly empty, and is searched as fast.

use std::ops::Range;

/// How many numbers a chunk has.
const CHUNK: usize = 1024;

/// A list of fixed length. What has not been set is zero.
#[derive(Clone, Debug, Hash)]
pub(super) struct Sparse<T> {
    len: u64,
    /// Up to the last in which something was set.
    chunks: Vec<Option<Box<[T; CHUNK]>>>,
}

impl<T: Copy + Default + PartialEq> Sparse<T> {
    /// So many zeros.
    pub fn new(len: u64) -> Sparse<T> {
        Sparse { len, chunks: Vec::new() }
    }

    /// How many numbers there are.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// How many numbers take memory.
    #[cfg(test)]
    pub fn held(&self) -> u64 {
        (self.chunks.iter().flatten().count() * CHUNK) as u64
    }

    pub fn get(&self, at: u64) -> T {
        assert!(at < self.len, "number {at} of {}", self.len);
        let chunk = self.chunks.get(at as usize / CHUNK).and_then(Option::as_ref);
        chunk.map_or_else(T::default, |chunk| chunk[at as usize % CHUNK])
    }

    pub fn set(&mut self, at: u64, to: T) {
        assert!(at < self.len, "number {at} of {}", self.len);
        let number = at as usize / CHUNK;
        if number >= self.chunks.len() {
            if to == T::default() {
                return;
            }
            self.chunks.resize(number + 1, None);
        }
        let chunk = &mut self.chunks[number];
        if chunk.is_some() || to != T::default() {
            let chunk = chunk.get_or_insert_with(|| Box::new([T::default(); CHUNK]));
            chunk[at as usize % CHUNK] = to;
        }
    }

    /// The numbers in a range that are not zero, with their places, in order.
    pub fn within(&self, range: Range<u64>) -> impl DoubleEndedIterator<Item = (u64, T)> + '_ {
        let (first, end) = (range.start, range.end.min(self.len));
        let chunks = (self.chunks.len() as u64).min(end.div_ceil(CHUNK as u64));
        let chunks = first / CHUNK as u64..chunks;
        let held = chunks.filter_map(|n| Some((n, self.chunks[n as usize].as_ref()?)));
        let numbers = held.flat_map(move |(n, chunk)| {
            let base = n * CHUNK as u64;
            let places = first.max(base)..end.min(base + CHUNK as u64);
            places.map(move |at| (at, chunk[(at - base) as usize]))
        });
        numbers.filter(|(_, number)| *number != T::default())
    }

    /// All of them that are not zero.
    pub fn all(&self) -> impl DoubleEndedIterator<Item = (u64, T)> + '_ {
        self.within(0..self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_taken_where_something_is_set_and_only_that_is_walked_over() {
        let len = 1u64 << 40;
        let mut list = Sparse::<u32>::new(len / 1024);
        assert_eq!((list.held(), list.all().count(), list.get(12345)), (0, 0, 0));
        list.set(77, 0);
        assert_eq!(list.held(), 0, "a zero takes none");
        let set = [0, 1023, 1024, 500_000_000, len / 1024 - 1];
        set.into_iter().for_each(|at| list.set(at, at as u32 + 1));
        assert_eq!(list.held(), 4 * CHUNK as u64);
        assert!(list.all().eq(set.map(|at| (at, at as u32 + 1))));
        let some = list.within(1..500_000_000).map(|(at, _)| at);
        assert_eq!(some.collect::<Vec<_>>(), [1023, 1024]);
        assert_eq!(list.all().next_back().map(|(at, _)| at), Some(len / 1024 - 1));
        list.set(1024, 0);
        assert_eq!(list.within(1..2000).count(), 1);
        assert_eq!(list.within(len..2 * len).count(), 0);
    }
}
