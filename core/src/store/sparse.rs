//! Long lists of numbers of which most are zero: memory is taken by stretches in which others stand. So what is kept
//! for each slot or page of a large disk costs next to nothing while the disk is nearly empty, and is searched as fast.
//! The same holds of an address space, whose slots are far more than those of any disk: a lone number near its end
//! costs no more than one at its start.

use std::collections::BTreeMap;
use std::ops::Range;

/// How many numbers a chunk has, and how many chunks a group.
const CHUNK: usize = 1024;

/// Pieces of this many numbers are passed over at once if all are zero.
const PIECE: usize = 16;

/// Numbers of a group.
const GROUP: u64 = (CHUNK * CHUNK) as u64;

/// Numbers next to one another.
type Chunk<T> = Box<[T; CHUNK]>;

/// A list of fixed length. What has not been set is zero.
#[derive(Clone, Debug, Hash)]
pub(super) struct Sparse<T> {
    len: u64,
    /// The groups in which something was set.
    groups: BTreeMap<u64, Box<[Option<Chunk<T>>; CHUNK]>>,
}

impl<T: Copy + Default + PartialEq> Sparse<T> {
    /// So many zeros.
    pub fn new(len: u64) -> Sparse<T> {
        Sparse { len, groups: BTreeMap::new() }
    }

    /// How many numbers there are.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// How many numbers take memory.
    #[cfg(test)]
    pub fn held(&self) -> u64 {
        let chunks = self.groups.values().flat_map(|group| group.iter().flatten());
        (chunks.count() * CHUNK) as u64
    }

    pub fn get(&self, at: u64) -> T {
        assert!(at < self.len, "number {at} of {}", self.len);
        let group = self.groups.get(&(at / GROUP));
        let chunk = group.and_then(|group| group[chunk_of(at)].as_ref());
        chunk.map_or_else(T::default, |chunk| chunk[at as usize % CHUNK])
    }

    pub fn set(&mut self, at: u64, to: T) {
        assert!(at < self.len, "number {at} of {}", self.len);
        if to == T::default() && self.get(at) == to {
            return;
        }
        self.chunk(at)[at as usize % CHUNK] = to;
    }

    /// Sets the first `count` numbers, each to that of its place.
    pub fn fill(&mut self, count: u64, number: impl Fn(u64) -> T) {
        assert!(count <= self.len, "{count} numbers of {}", self.len);
        for base in (0..count).step_by(CHUNK) {
            let numbers = (base..count).map(&number);
            self.chunk(base).iter_mut().zip(numbers).for_each(|(at, number)| *at = number);
        }
    }

    /// The chunk with a number.
    fn chunk(&mut self, at: u64) -> &mut Chunk<T> {
        let group = self.groups.entry(at / GROUP);
        let group = group.or_insert_with(|| Box::new([const { None }; CHUNK]));
        group[chunk_of(at)].get_or_insert_with(|| Box::new([T::default(); CHUNK]))
    }

    /// The numbers in a range that are not zero, with their places, in order.
    pub fn within(&self, range: Range<u64>) -> impl DoubleEndedIterator<Item = (u64, T)> + '_ {
        let end = range.end.min(self.len);
        let first = range.start.min(end);
        let groups = self.groups.range(first / GROUP..end.div_ceil(GROUP));
        let chunks = groups.flat_map(move |(group, chunks)| {
            let base = group * GROUP;
            let (from, to) = (first.max(base) - base, end.min(base + GROUP) - base);
            let within = from as usize / CHUNK..(to as usize).div_ceil(CHUNK);
            let held = within.filter_map(|n| Some((n, chunks[n].as_ref()?)));
            held.map(move |(n, chunk)| (base + (n * CHUNK) as u64, chunk))
        });
        let pieces = chunks.flat_map(move |(base, chunk)| {
            let (from, to) = (first.max(base), end.min(base + CHUNK as u64));
            let numbers = &chunk[(from - base) as usize..(to - base) as usize];
            let pieces = numbers.chunks(PIECE).enumerate();
            pieces.map(move |(n, piece)| (from + (n * PIECE) as u64, piece))
        });
        let zeros = [T::default(); PIECE];
        let pieces = pieces.filter(move |(_, piece)| **piece != zeros[..piece.len()]);
        let numbers = pieces.flat_map(|(from, piece)| {
            piece.iter().enumerate().map(move |(n, number)| (from + n as u64, *number))
        });
        numbers.filter(|(_, number)| *number != T::default())
    }

    /// All of them that are not zero.
    pub fn all(&self) -> impl DoubleEndedIterator<Item = (u64, T)> + '_ {
        self.within(0..self.len)
    }
}

/// Which chunk of its group has a number.
fn chunk_of(at: u64) -> usize {
    (at % GROUP) as usize / CHUNK
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

    #[test]
    fn what_is_filled_is_as_if_it_were_set() {
        for count in [0, 1, 1023, 1024, 5000] {
            let (mut filled, mut set) = (Sparse::<u32>::new(5000), Sparse::<u32>::new(5000));
            filled.fill(count, |at| at as u32 + 7);
            (0..count).for_each(|at| set.set(at, at as u32 + 7));
            assert!(filled.all().eq(set.all()) && filled.held() == set.held(), "{count}");
        }
    }

    /// Each range is walked over from both ends, with borders at and beside those of pieces, chunks and groups.
    #[test]
    fn a_range_shows_what_was_set_within_it() {
        let near = [0, 1, 15, 17, 32, 1023, 1024, 1039];
        let far = [GROUP - 1, GROUP, GROUP + 1025, 3 * GROUP - 1, 5 * GROUP + 7];
        let set = [&near[..], &far].concat();
        let mut list = Sparse::<u64>::new(6 * GROUP);
        set.iter().for_each(|at| list.set(*at, at + 1));
        let borders = set.iter().flat_map(|at| [*at, at + 1]).collect::<Vec<_>>();
        for (first, end) in borders.iter().flat_map(|a| borders.iter().map(move |b| (*a, *b))) {
            let should = set.iter().filter(|at| (first..end).contains(*at));
            let should = should.map(|at| (*at, at + 1)).collect::<Vec<_>>();
            assert_eq!(list.within(first..end).collect::<Vec<_>>(), should, "{first}..{end}");
            let turned = list.within(first..end).rev().collect::<Vec<_>>();
            assert!(turned.into_iter().rev().eq(should), "{first}..{end} from its end");
        }
    }
}
