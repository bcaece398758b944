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

/// Events in the order of their time; of those at one time, in the order they were put in.
pub struct Queue<E> {
    heap: BinaryHeap<Reverse<Entry<E>>>,
    /// Those that happen at the time that it is now, and were put in at that time: they need no heap.
    /// Those of the heap with the same time were put in before.
    at_once: VecDeque<E>,
    now: Nanos,
    order: u64,
}

impl<E> Default for Queue<E> {
    fn default() -> Self {
        Queue { heap: BinaryHeap::new(), at_once: VecDeque::new(), now: 0, order: 0 }
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
        self.heap.push(Reverse(Entry { key, event }));
    }

    /// Takes the next event; time goes on to it.
    pub fn pop(&mut self) -> Option<E> {
        let is_before = self.heap.peek().is_some_and(|Reverse(first)| first.at() == self.now);
        if !is_before && let Some(event) = self.at_once.pop_front() {
            return Some(event);
        }
        let Reverse(entry) = self.heap.pop()?;
        debug_assert!(entry.at() >= self.now);
        self.now = entry.at();
        Some(entry.event)
    }

    /// How many events wait.
    pub fn len(&self) -> usize {
        self.heap.len() + self.at_once.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty() && self.at_once.is_empty()
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
}
