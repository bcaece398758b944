//! Which slots are free. Those that were freed last are used first: they are in caches, and a thin disk has them.
//! Else what follows on the disk follows in the volume, too.

use std::collections::{BTreeSet, VecDeque};

use crate::store::sparse::Sparse;

/// Most slots that are remembered as freed last.
const RECENT: usize = 4096;

/// How many of so many slots are kept for other things than what they are for: a 64th, but at least 64, and of few slots
/// an eighth.
pub(in crate::store) fn kept_of(slots: u64) -> u64 {
    (slots / 64).max((slots / 8).min(64))
}

/// The free slots of a disk.
#[derive(Clone, Hash)]
pub(super) struct Room {
    count: u64,
    /// A bit for each slot that is in use.
    used: Sparse<u64>,
    free: u64,
    /// Slots that were freed last, the latest at the end. Some may be in use again.
    recent: VecDeque<u64>,
    /// Slots that were free when the disk was opened, and may hold something from before. Some may be in use.
    unsure: VecDeque<u64>,
    /// Where a free one is looked for next.
    next: u64,
}

impl Room {
    /// So many slots, all of them free.
    pub fn new(count: u64) -> Room {
        Room {
            count,
            used: Sparse::new(count.div_ceil(64)),
            free: count,
            recent: VecDeque::new(),
            unsure: VecDeque::new(),
            next: 0,
        }
    }

    /// How many are free.
    pub fn free(&self) -> u64 {
        self.free
    }

    /// For how many numbers memory is taken.
    #[cfg(test)]
    pub fn held(&self) -> u64 {
        self.used.held()
    }

    /// How many are kept for placing what is journalled, where nothing is yet.
    pub fn reserve(&self) -> u64 {
        kept_of(self.count)
    }

    /// Whether a slot is in use.
    pub fn is_used(&self, slot: u64) -> bool {
        self.used.get(slot / 64) & 1 << (slot % 64) != 0
    }

    /// A slot is in use.
    pub fn set_used(&mut self, slot: u64) {
        if !self.is_used(slot) {
            self.used.set(slot / 64, self.used.get(slot / 64) | 1 << (slot % 64));
            self.free -= 1;
        }
    }

    /// The first slots are in use. All are free yet.
    pub fn use_first(&mut self, count: u64) {
        assert_eq!(self.free, self.count, "all are free");
        self.used.fill(count.div_ceil(64), |word| match count - word * 64 {
            left @ 0..64 => (1 << left) - 1,
            _ => u64::MAX,
        });
        self.free -= count;
    }

    /// Takes a free slot, if there is one: one that was freed last, or else the one that would be `best`.
    pub fn take(&mut self, best: Option<u64>) -> Option<u64> {
        let slot = self.recent().or_else(|| best.filter(|s| self.is_free(*s))).or_else(|| {
            let from = self.next;
            self.first_free(from, self.count).or_else(|| self.first_free(0, from))
        })?;
        self.set_used(slot);
        self.next = (slot + 1) % self.count;
        Some(slot)
    }

    /// Checks that these slots are in use, and no others.
    pub fn check(&self, used: &BTreeSet<u64>) {
        let words = self.used.all().map(|(word, _)| word);
        let marked = words.flat_map(|word| word * 64..(word + 1) * 64).filter(|s| self.is_used(*s));
        assert!(marked.eq(used.iter().copied()), "slots in use are so for a reason: {used:?}");
        assert_eq!(self.free, self.count - used.len() as u64, "all others are free");
    }

    fn is_free(&self, slot: u64) -> bool {
        slot < self.count && !self.is_used(slot)
    }

    fn recent(&mut self) -> Option<u64> {
        while let Some(slot) = self.recent.pop_back() {
            if !self.is_used(slot) {
                return Some(slot);
            }
        }
        None
    }

    fn first_free(&self, from: u64, end: u64) -> Option<u64> {
        let mut slot = from;
        while slot < end {
            let unused = !self.used.get(slot / 64) >> (slot % 64);
            match unused {
                0 => slot = (slot / 64 + 1) * 64,
                bits => {
                    let found = slot + u64::from(bits.trailing_zeros());
                    return (found < end).then_some(found);
                }
            }
        }
        None
    }

    /// A slot is free again.
    pub fn give_back(&mut self, slot: u64) {
        assert!(self.is_used(slot), "slot {slot} is freed twice");
        self.used.set(slot / 64, self.used.get(slot / 64) & !(1 << (slot % 64)));
        self.free += 1;
        if self.recent.len() == RECENT {
            self.recent.drain(..RECENT / 2);
        }
        self.recent.push_back(slot);
    }

    /// Takes the slot that was freed longest ago and is free still, so that nobody uses it (if it `holds` it) while what it
    /// has is discarded.
    pub fn take_to_discard(&mut self, holds: bool) -> Option<u64> {
        while let Some(slot) = self.recent.pop_front().or_else(|| self.unsure.pop_front()) {
            if self.is_used(slot) {
                continue;
            }
            if holds {
                self.set_used(slot);
            }
            return Some(slot);
        }
        None
    }

    /// Whether there may be such slots.
    pub fn has_to_discard(&self) -> bool {
        !self.recent.is_empty() || !self.unsure.is_empty()
    }

    /// The disk has been opened, and it is known what is in use. The free ones before the last of those may hold something, as far as
    /// so many are remembered; behind it probably nothing has been written.
    pub fn reopened(&mut self) {
        let last = self.used.all().next_back().map_or(0, |(word, _)| word + 1);
        let before = 0..(last * 64).min(self.count);
        self.unsure = before.filter(|slot| !self.is_used(*slot)).take(RECENT).collect();
    }

    /// What a slot had is discarded: it is free, and no better than others.
    pub fn discarded(&mut self, slot: u64) {
        self.give_back(slot);
        self.recent.pop_back();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_freed_last_is_used_first_and_else_what_follows() {
        let mut room = Room::new(200);
        let taken = [None, Some(70), Some(70)].map(|best| room.take(best));
        assert_eq!(taken, [Some(0), Some(70), Some(71)]);
        room.give_back(70);
        room.give_back(0);
        assert_eq!([Some(72); 3].map(|best| room.take(best)), [Some(0), Some(70), Some(72)]);
        assert_eq!(room.free(), 196);
        let rest: BTreeSet<u64> = std::iter::from_fn(|| room.take(None)).collect();
        assert_eq!((rest.len(), room.free(), room.take(Some(5))), (196, 0, None));
        room.check(&(0..200).collect());
    }

    #[test]
    fn what_was_freed_first_is_discarded_first_and_used_like_any_other_then() {
        let mut room = Room::new(8);
        (0..6).for_each(|slot| room.set_used(slot));
        [3, 1, 4].into_iter().for_each(|slot| room.give_back(slot));
        assert_eq!(room.take(None), Some(4));
        assert_eq!([room.take_to_discard(true), room.take_to_discard(true)], [Some(3), Some(1)]);
        assert_eq!((room.take_to_discard(true), room.free()), (None, 2));
        room.discarded(3);
        assert_eq!((room.take_to_discard(true), room.free()), (None, 3));
        assert_eq!(room.take(Some(7)), Some(7), "the best one, and not the one that was freed");
    }

    #[test]
    fn what_was_free_when_a_disk_was_opened_is_discarded_once() {
        let mut room = Room::new(300);
        [0, 2, 70].into_iter().for_each(|slot| room.set_used(slot));
        room.reopened();
        room.set_used(1);
        let discarded: Vec<u64> = std::iter::from_fn(|| room.take_to_discard(true)).collect();
        assert_eq!(discarded.len(), 128 - 4);
        assert!(discarded.contains(&3) && !discarded.contains(&1) && !room.has_to_discard());
        discarded.into_iter().for_each(|slot| room.discarded(slot));
        assert!(!room.has_to_discard() && room.free() == 296);
    }

    #[test]
    fn a_small_disk_keeps_an_eighth_and_a_large_one_a_sixty_fourth() {
        let reserves = [16, 24, 512, 4096, 1 << 20].map(|count| Room::new(count).reserve());
        assert_eq!(reserves, [2, 3, 64, 64, 1 << 14]);
    }
}
