//! The event queue.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use weft_core::units::Nanos;

struct Entry<E> {
    /// The time, and below that how many were put in before: one number, since that is compared at once.
    key: u128,
    event: E,
}

impl<E> Entry<E> {
    fn at(&self) -> Nanos {
        (self.key >> 64) as Nanos
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}
impl<E> Eq for Entry<E> {}
impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key.cmp(&other.key)
    }
}

/// So many of the first events are kept in a list. Most that are put in happen soon, and find their place near its end.
const FIRST: usize = 32;

/// Events in the order of their time; of those at one time, in the order they were put in.
pub struct Queue<E> {
    /// The first of those that wait, the very first at the end. It is empty only if the heap is.
    first: Vec<Entry<E>>,
    /// All others: each comes after all of the list.
    heap: BinaryHeap<Reverse<Entry<E>>>,
    /// Those that happen at the time that it is now, and were put in at that time: they need no place.
    /// Those of the list and the heap with the same time were put in before.
    at_once: VecDeque<E>,
    now: Nanos,
    order: u64,
}

impl<E> Default for Queue<E> {
    fn default() -> Self {
        Queue {
            first: Vec::with_capacity(FIRST + 1),
            heap: BinaryHeap::new(),
            at_once: VecDeque::new(),
            now: 0,
            order: 0,
        }
    }
}

impl<E> Queue<E> {
    /// The time of the event taken last.
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// Puts in an event that happens `after` from now.
    pub fn push(&mut self, after: Nanos, event: E) {
        if after == 0 {
            return self.at_once.push_back(event);
        }
        self.order += 1;
        let key = u128::from(self.now + after) << 64 | u128::from(self.order);
        let entry = Entry { key, event };
        if self.first.last().is_some_and(|first| key < first.key) && self.first.len() < FIRST {
            return self.first.push(entry);
        }
        if self.heap.peek().is_some_and(|Reverse(next)| next.key < key) {
            return self.heap.push(Reverse(entry));
        }
        let place = self.first.iter().rposition(|e| e.key > key).map_or(0, |later| later + 1);
        self.first.insert(place, entry);
        if self.first.len() > FIRST {
            self.heap.extend(self.first.drain(..FIRST / 2).map(Reverse));
        }
    }

    /// Takes the next event; time goes on to it.
    pub fn pop(&mut self) -> Option<E> {
        let is_before = self.first.last().is_some_and(|first| first.at() == self.now);
        if !is_before && let Some(event) = self.at_once.pop_front() {
            return Some(event);
        }
        let entry = self.first.pop()?;
        if self.first.is_empty() {
            self.refill();
        }
        debug_assert!(entry.at() >= self.now);
        self.now = entry.at();
        Some(entry.event)
    }

    /// Moves the first events of the heap to the list, which is empty.
    fn refill(&mut self) {
        let next = std::iter::from_fn(|| self.heap.pop()).take(FIRST / 4);
        self.first.extend(next.map(|Reverse(entry)| entry));
        self.first.reverse();
    }

    /// How many events wait.
    pub fn len(&self) -> usize {
        self.first.len() + self.heap.len() + self.at_once.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.first.is_empty() && self.at_once.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_order_then_first_come() {
        let mut q = Queue::default();
        q.push(5, 'b');
        q.push(1, 'a');
        q.push(5, 'c');
        let all: Vec<char> = std::iter::from_fn(|| q.pop()).collect();
        assert_eq!(all, ['a', 'b', 'c']);
        assert_eq!(q.now(), 5);
    }

    #[test]
    fn what_happens_at_once_comes_behind_what_was_put_in_for_that_time_before() {
        let mut q = Queue::default();
        for (after, event) in [(3, 'a'), (3, 'b'), (4, 'e')] {
            q.push(after, event);
        }
        assert_eq!(q.pop(), Some('a'));
        for (after, event) in [(0, 'c'), (1, 'f'), (0, 'd')] {
            q.push(after, event);
        }
        assert_eq!(q.len(), 5);
        let all: String = std::iter::from_fn(|| q.pop()).collect();
        assert_eq!(all, "bcdef");
        assert!(q.is_empty());
    }

    #[test]
    fn many_come_in_the_order_of_their_time_whenever_they_were_put_in() {
        let mut chance = fastrand::Rng::with_seed(7);
        let (mut q, mut waits) = (Queue::default(), std::collections::BTreeSet::new());
        for number in 0..20_000 {
            // Now and then many wait, and now and then few.
            let many = if number / 1000 % 2 == 0 { 3 } else { 1 };
            for _ in 0..chance.u64(0..=many) {
                let after = 1 << chance.u64(0..20);
                q.push(after, (q.now() + after, q.order));
                waits.insert((q.now() + after, q.order - 1));
            }
            assert_eq!(q.len(), waits.len());
            assert_eq!(q.pop(), waits.pop_first());
            let last = q.first.first().map_or(0, |e| e.key);
            assert!(q.heap.iter().all(|Reverse(e)| e.key > last), "the heap comes after the list");
            assert!(!q.first.is_empty() || q.heap.is_empty());
        }
    }
}
