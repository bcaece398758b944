//! Requests that wait for others which touch the same bytes, in the order in which they came.
//!
//! Of each it is counted what stands in its way: changes in work, and earlier requests that wait. When one of those is out
//! of the way, those that overlap it are found by where they begin, and counted down. So that costs a step for each of
//! them, however many others wait. (Linux' range locks do the same.)
//!
//! To be found by where they begin, requests are kept by their lengths: one that is at most `2^c` long and touches byte `b`
//! begins after `b - 2^c`.

use std::collections::{BTreeMap, BTreeSet};

use weft_core::units::VolumeId;

use super::overlap::Claim;

/// The binary logarithm of a length, rounded up.
type Class = u32;

/// A request, and how many stand in its way.
struct Waiting<T> {
    claim: Claim,
    in_the_way: usize,
    item: T,
}

/// The requests that wait.
pub(super) struct Queue<T> {
    next: u64,
    /// In the order in which they came.
    all: BTreeMap<u64, Waiting<T>>,
    /// By volume, class, first byte and number.
    places: BTreeSet<(VolumeId, Class, u64, u64)>,
    /// How many there are of each class.
    classes: BTreeMap<(VolumeId, Class), usize>,
    /// Those that nothing stands in the way of.
    ready: BTreeSet<u64>,
    /// How many requests have been looked at, for tests.
    #[cfg(test)]
    pub(super) steps: std::cell::Cell<usize>,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Queue {
            next: 0,
            all: BTreeMap::new(),
            places: BTreeSet::new(),
            classes: BTreeMap::new(),
            ready: BTreeSet::new(),
            #[cfg(test)]
            steps: std::cell::Cell::new(0),
        }
    }
}

impl<T> Queue<T> {
    /// Has a request wait, in whose way a number of changes in work stand. One that nothing stands in the way of is given
    /// back.
    pub(super) fn admit(&mut self, claim: Claim, in_work: usize, item: T) -> Option<T> {
        let conflicts = |n: &u64| self.all[n].claim.conflicts(&claim);
        let in_the_way = in_work + self.overlapping(&claim).into_iter().filter(conflicts).count();
        if in_the_way == 0 {
            return Some(item);
        }
        let number = self.next;
        self.next += 1;
        self.places.insert(place(&claim, number));
        *self.classes.entry((claim.volume, class(&claim))).or_default() += 1;
        self.all.insert(number, Waiting { claim, in_the_way, item });
        None
    }

    /// A change is not in work any more.
    pub(super) fn is_over(&mut self, change: &Claim) {
        for number in self.overlapping(change) {
            self.count_down(number);
        }
    }

    /// Takes out the first that nothing stands in the way of. It is in work from then on: a change stands in the way of
    /// the same ones as before, and a read of none.
    pub(super) fn begin(&mut self) -> Option<T> {
        let number = self.ready.pop_first()?;
        let waiting = self.take(number)?;
        if !waiting.claim.changes() {
            self.leaves(number, &waiting.claim);
        }
        Some(waiting.item)
    }

    /// Takes out those that are such.
    pub(super) fn drop_those(&mut self, is: impl Fn(&T) -> bool) {
        let such = self.all.iter().filter(|(_, w)| is(&w.item)).map(|(n, _)| *n);
        for number in such.collect::<Vec<u64>>() {
            if let Some(waiting) = self.take(number) {
                self.leaves(number, &waiting.claim);
            }
        }
    }

    /// All, in the order in which they came.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.all.values().map(|w| &w.item)
    }

    /// How many there are of a volume.
    pub(super) fn len_of(&self, volume: VolumeId) -> usize {
        self.classes.range((volume, 0)..=(volume, Class::MAX)).map(|(_, count)| count).sum()
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// One stands in the way of no later one any more.
    fn leaves(&mut self, number: u64, claim: &Claim) {
        for later in self.overlapping(claim) {
            if later > number && self.all[&later].claim.conflicts(claim) {
                self.count_down(later);
            }
        }
    }

    fn count_down(&mut self, number: u64) {
        let Some(waiting) = self.all.get_mut(&number) else { return };
        debug_assert!(waiting.in_the_way > 0, "something stood in its way: {:?}", waiting.claim);
        waiting.in_the_way = waiting.in_the_way.saturating_sub(1);
        if waiting.in_the_way == 0 {
            self.ready.insert(number);
        }
    }

    fn take(&mut self, number: u64) -> Option<Waiting<T>> {
        let waiting = self.all.remove(&number)?;
        let claim = &waiting.claim;
        self.ready.remove(&number);
        self.places.remove(&place(claim, number));
        let class = (claim.volume, class(claim));
        if let Some(count) = self.classes.get_mut(&class) {
            *count -= 1;
            if *count == 0 {
                self.classes.remove(&class);
            }
        }
        Some(waiting)
    }

    /// Those that touch the same bytes.
    fn overlapping(&self, claim: &Claim) -> Vec<u64> {
        let (volume, mut found) = (claim.volume, Vec::new());
        for (_, class) in
            self.classes.range((volume, 0)..=(volume, Class::MAX)).map(|(key, _)| *key)
        {
            let longest = 1_u64.checked_shl(class).unwrap_or(u64::MAX);
            let first = (volume, class, claim.from.saturating_sub(longest), 0);
            let end = (volume, class, claim.to, 0);
            let near = self.places.range(first..end).map(|(.., number)| *number);
            found.extend(near.filter(|n| {
                #[cfg(test)]
                self.steps.set(self.steps.get() + 1);
                self.all[n].claim.to > claim.from
            }));
        }
        found
    }
}

fn class(claim: &Claim) -> Class {
    let length = claim.to - claim.from;
    u64::BITS - length.saturating_sub(1).leading_zeros()
}

fn place(claim: &Claim, number: u64) -> (VolumeId, Class, u64, u64) {
    (claim.volume, class(claim), claim.from, number)
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::super::overlap::Claims;
    use super::*;

    fn claim(volume: u32, from: u64, to: u64, changes: bool) -> Claim {
        Claim { volume: VolumeId(volume), from, to, changes }
    }

    /// The queue and the changes in work, and beside them the rule itself: all that came earlier are looked at.
    #[derive(Default)]
    struct World {
        queue: Queue<u64>,
        claims: Claims,
        in_work: Vec<(u64, Claim)>,
        begun: Vec<u64>,
        waiting: VecDeque<(u64, Claim)>,
        expected: Vec<u64>,
        next: u64,
    }

    impl World {
        fn come(&mut self, claim: Claim) {
            let number = self.next;
            self.next += 1;
            self.waiting.push_back((number, claim));
            if self.queue.admit(claim, self.claims.overlapping(&claim), number).is_some() {
                self.begin(number, claim);
            }
            self.compare();
        }

        fn begin(&mut self, number: u64, claim: Claim) {
            self.begun.push(number);
            if claim.changes() {
                self.claims.take(&claim);
            }
        }

        fn begin_those_that_may(&mut self) {
            while let Some(number) = self.queue.begin() {
                let claim = self.waiting.iter().find(|(n, _)| *n == number).unwrap().1;
                self.begin(number, claim);
            }
            self.compare();
        }

        fn end(&mut self, nth: usize) {
            let (_, claim) = self.in_work.remove(nth);
            self.claims.give_back(&claim);
            self.queue.is_over(&claim);
            self.begin_those_that_may();
        }

        /// What should have begun, in this order.
        fn compare(&mut self) {
            let mut n = 0;
            while n < self.waiting.len() {
                let (number, claim) = self.waiting[n];
                let earlier = self.waiting.iter().take(n);
                let mut others = self.in_work.iter().chain(earlier);
                if others.any(|(_, other)| other.conflicts(&claim)) {
                    n += 1;
                    continue;
                }
                self.waiting.remove(n);
                self.expected.push(number);
                if claim.changes() {
                    self.in_work.push((number, claim));
                }
            }
            assert_eq!(self.begun, self.expected);
            assert!(self.queue.iter().eq(self.waiting.iter().map(|(n, _)| n)));
        }
    }

    #[test]
    fn requests_begin_when_nothing_that_came_earlier_conflicts() {
        let mut seed = 1_u64;
        let mut random = move |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % below
        };
        for _ in 0..200 {
            let mut w = World::default();
            for _ in 0..60 {
                match random(5) {
                    0 | 1 if !w.in_work.is_empty() => {
                        let nth = random(w.in_work.len() as u64) as usize;
                        w.end(nth);
                    }
                    2 if random(4) == 0 => {
                        let gone = random(3);
                        w.queue.drop_those(|n| n % 3 == gone);
                        w.waiting.retain(|(n, _)| n % 3 != gone);
                        w.begin_those_that_may();
                    }
                    _ => {
                        let from = random(40);
                        let length = [1, 2, 7, 40, u64::MAX - 40][random(5) as usize];
                        w.come(claim(random(2) as u32, from, from + length, random(3) > 0));
                    }
                }
            }
            while !w.in_work.is_empty() {
                w.end(0);
            }
            assert!(w.waiting.is_empty() && w.queue.len() == 0);
            let queue = &w.queue;
            assert!(queue.places.is_empty() && queue.classes.is_empty() && queue.ready.is_empty());
        }
    }

    /// Each overlaps the next.
    #[test]
    fn the_end_of_one_costs_as_many_steps_as_wait_for_it() {
        const MANY: u64 = 20_000;
        let (mut queue, mut claims) = (Queue::default(), Claims::default());
        let all: Vec<Claim> = (0..MANY).map(|n| claim(0, n, n + 2, true)).collect();
        claims.take(&all[0]);
        for claim in &all[1..] {
            assert!(queue.admit(*claim, claims.overlapping(claim), *claim).is_none());
        }
        let came = queue.steps.replace(0);
        let mut over = all[0];
        while queue.len() > 0 {
            claims.give_back(&over);
            queue.is_over(&over);
            over = queue.begin().expect("the next may begin");
            claims.take(&over);
            assert!(queue.begin().is_none(), "and no other");
        }
        let ended = queue.steps.get();
        assert!(came < 10 * MANY as usize, "{came} steps when they came");
        assert!(ended < 10 * MANY as usize, "{ended} steps when they ended");
    }
}
