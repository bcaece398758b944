//! Locks on ranges of disks' sectors: shared to read, exclusive to write.
//!
//! One table serves a device's own sectors (shared storage, 4.4), a lock server's all (4.2.1), and
//! a host's among its own requests. Who asks gets all its locks or waits for all of them, in the
//! order of asking: nobody holds some and waits for others at one table, so within a table nothing
//! can wait in a circle, and nobody waits for ever behind those that came later.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use smallvec::SmallVec;

use crate::units::NodeId;

/// What one asks for at once: mostly it is one lock, which needs no room of its own.
type Locks = SmallVec<[Lock; 1]>;

/// A lock on sectors of a node's disk.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lock {
    /// Whose disk.
    pub disk: NodeId,
    /// Which of its data sectors.
    pub sectors: Range<u64>,
    /// To write; else to read, beside others who read.
    pub exclusive: bool,
}

impl Lock {
    /// Whether two owners cannot hold both.
    pub fn conflicts(&self, other: &Lock) -> bool {
        self.disk == other.disk
            && (self.exclusive || other.exclusive)
            && self.sectors.start < other.sectors.end
            && other.sectors.start < self.sectors.end
    }

    /// Whether who holds this one may do all that `other` is for.
    pub fn covers(&self, other: &Lock) -> bool {
        self.disk == other.disk
            && (self.exclusive || !other.exclusive)
            && self.sectors.start <= other.sectors.start
            && other.sectors.end <= self.sectors.end
    }
}

/// Joins locks on neighbouring sectors of one disk, so that a long request asks for few.
pub fn joined(mut locks: Vec<Lock>) -> Vec<Lock> {
    locks.sort_by_key(|l| (l.disk, l.exclusive, l.sectors.start));
    let mut out: Vec<Lock> = Vec::with_capacity(locks.len());
    for lock in locks {
        match out.last_mut() {
            Some(last)
                if last.disk == lock.disk
                    && last.exclusive == lock.exclusive
                    && last.sectors.end >= lock.sectors.start =>
            {
                last.sectors.end = last.sectors.end.max(lock.sectors.end);
            }
            _ => out.push(lock),
        }
    }
    out
}

#[derive(Clone, Debug, Hash)]
struct Entry {
    /// Its place in the order of asking.
    turn: u64,
    locks: Locks,
    granted: bool,
}

/// Who holds which locks, and who waits.
#[derive(Clone, Debug, Hash)]
pub struct LockTable<Owner> {
    entries: BTreeMap<Owner, Entry>,
    /// All locks, held or waited for: the disk, where they begin, whose turn, whether exclusive; and
    /// where they end, and whose they are. A server has thousands, and looks only at those that are near.
    places: BTreeMap<(NodeId, u64, u64, bool), (u64, Owner)>,
    /// Sectors of the longest lock that there has been: what overlaps a range begins at most so far
    /// before it.
    longest: u64,
    /// How many of the entries wait.
    waiting: usize,
    next: u64,
}

impl<Owner> Default for LockTable<Owner> {
    fn default() -> Self {
        let (entries, places) = (BTreeMap::new(), BTreeMap::new());
        LockTable { entries, places, longest: 0, waiting: 0, next: 0 }
    }
}

impl<Owner: Copy + Ord> LockTable<Owner> {
    /// Asks for locks. Says whether they are granted; else `owner` waits for its turn. One who has
    /// asked already is told how that stands.
    pub fn ask(&mut self, owner: Owner, locks: impl Into<Locks>) -> bool {
        if let Some(entry) = self.entries.get(&owner) {
            return entry.granted;
        }
        let locks = locks.into();
        let granted = !self.is_barred(self.next, &locks);
        self.enter(owner, locks, granted);
        granted
    }

    fn enter(&mut self, owner: Owner, locks: Locks, granted: bool) {
        let turn = self.next;
        self.next += 1;
        for lock in &locks {
            let Range { start, end } = lock.sectors;
            self.longest = self.longest.max(end - start);
            let place = (lock.disk, start, turn, lock.exclusive);
            let (ends, _) = self.places.entry(place).or_insert((end, owner));
            *ends = end.max(*ends);
        }
        self.waiting += usize::from(!granted);
        self.entries.insert(owner, Entry { turn, locks, granted });
    }

    /// Takes locks that were granted elsewhere, before this table was there.
    pub fn hold(&mut self, owner: Owner, locks: Vec<Lock>) {
        self.release(owner);
        self.enter(owner, locks.into(), true);
    }

    /// Those with a lock that conflicts with this one, and their turns.
    fn conflicting(&self, lock: &Lock) -> impl Iterator<Item = (u64, Owner)> {
        let Range { start, end } = lock.sectors;
        let first = (lock.disk, start.saturating_sub(self.longest), 0, false);
        let near = self.places.range(first..(lock.disk, end, 0, false));
        let exclusive = lock.exclusive;
        let conflicts = move |theirs: bool, ends: u64| ends > start && (exclusive || theirs);
        near.filter(move |((.., theirs), (ends, _))| conflicts(*theirs, *ends))
            .map(|((_, _, turn, _), (_, owner))| (*turn, *owner))
    }

    /// Those with a lock that one of these conflicts with, in the order of their turns.
    fn against(&self, locks: &[Lock]) -> BTreeSet<(u64, Owner)> {
        locks.iter().flat_map(|l| self.conflicting(l)).collect()
    }

    /// Whether someone earlier holds, or waits for, what stands against these locks.
    fn is_barred(&self, turn: u64, locks: &[Lock]) -> bool {
        locks.iter().any(|lock| self.conflicting(lock).any(|(t, _)| t < turn))
    }

    /// Gives up what `owner` holds, or waits for. Returns those whose turn it is now, in order.
    pub fn release(&mut self, owner: Owner) -> Vec<Owner> {
        let Some(left) = self.entries.remove(&owner) else { return Vec::new() };
        for lock in &left.locks {
            self.places.remove(&(lock.disk, lock.sectors.start, left.turn, lock.exclusive));
        }
        self.waiting -= usize::from(!left.granted);
        let mut now = Vec::new();
        if self.waiting == 0 {
            return now;
        }
        for (turn, owner) in self.against(&left.locks) {
            let entry = &self.entries[&owner];
            if turn > left.turn && !entry.granted && !self.is_barred(turn, &entry.locks) {
                self.entries.get_mut(&owner).expect("just seen").granted = true;
                self.waiting -= 1;
                now.push(owner);
            }
        }
        now
    }

    /// Whether `owner` has asked and its locks are granted.
    pub fn is_granted(&self, owner: Owner) -> bool {
        self.entries.get(&owner).is_some_and(|entry| entry.granted)
    }

    /// Those who hold what stands against these locks, whoever asks for them.
    pub fn holders(&self, locks: &[Lock]) -> Vec<Owner> {
        let against = self.against(locks).into_iter().map(|(_, owner)| owner);
        against.filter(|owner| self.entries[owner].granted).collect()
    }

    /// Those who hold a lock on any of these sectors, to read or to write.
    pub fn holders_near(&self, lock: &Lock) -> Vec<Owner> {
        let any = Lock { exclusive: true, ..lock.clone() };
        let near = self.conflicting(&any).map(|(_, owner)| owner);
        near.filter(|owner| self.entries[owner].granted).collect()
    }

    /// Those who wait for what stands against these locks.
    pub fn waiters(&self, locks: &[Lock]) -> Vec<Owner> {
        let against = self.against(locks).into_iter().map(|(_, owner)| owner);
        against.filter(|owner| !self.entries[owner].granted).collect()
    }

    /// What `owner` holds, or waits for.
    pub fn locks_of(&self, owner: Owner) -> &[Lock] {
        self.entries.get(&owner).map_or(&[], |entry| &entry.locks)
    }

    /// Those who wait, in order, and for what.
    pub fn waiting(&self) -> impl Iterator<Item = (Owner, &[Lock])> {
        let mut waiting: Vec<_> = self.entries.iter().filter(|(_, e)| !e.granted).collect();
        waiting.sort_by_key(|(_, entry)| entry.turn);
        waiting.into_iter().map(|(owner, entry)| (*owner, &entry.locks[..]))
    }

    /// Whether nobody holds or waits for anything.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Forgets everybody.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.places.clear();
        self.waiting = 0;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lock(from: u64, to: u64, exclusive: bool) -> Lock {
        Lock { disk: NodeId(0), sectors: from..to, exclusive }
    }

    #[test]
    fn readers_share_and_writers_do_not() {
        let mut t = LockTable::default();
        assert!(t.ask(1, vec![lock(0, 4, false)]));
        assert!(t.ask(2, vec![lock(2, 6, false)]));
        assert!(!t.ask(3, vec![lock(3, 5, true)]));
        assert!(!t.ask(4, vec![lock(3, 4, false)]), "not past a writer that waits");
        assert!(t.ask(5, vec![lock(6, 9, true)]), "nobody else wants that");
        assert_eq!(t.release(1), vec![]);
        assert_eq!(t.release(2), vec![3]);
        assert_eq!(t.release(3), vec![4]);
        assert!(t.is_granted(4) && !t.is_granted(3));
    }

    #[test]
    fn one_that_gives_up_waiting_lets_those_behind_it_pass() {
        let mut t = LockTable::default();
        assert!(t.ask(1, vec![lock(0, 4, false)]));
        assert!(!t.ask(2, vec![lock(0, 4, true)]));
        assert!(!t.ask(3, vec![lock(0, 4, false)]));
        assert_eq!(t.release(2), vec![3]);
    }

    #[test]
    fn asking_twice_is_asking_once() {
        let mut t = LockTable::default();
        assert!(t.ask(1, vec![lock(0, 4, true)]));
        assert!(!t.ask(2, vec![lock(0, 4, true)]));
        assert!(t.ask(1, vec![lock(0, 4, true)]) && !t.ask(2, vec![lock(0, 4, true)]));
        assert_eq!(t.release(1), vec![2]);
        assert_eq!(t.release(2), vec![]);
        assert!(t.is_empty());
    }

    #[test]
    fn neighbours_are_joined_and_others_are_not() {
        let all = vec![lock(4, 8, true), lock(0, 4, true), lock(0, 8, false), lock(9, 10, true)];
        assert_eq!(joined(all), vec![lock(0, 8, false), lock(0, 8, true), lock(9, 10, true)]);
    }

    proptest! {
        /// Whatever is asked and released: no two who hold conflict, and who waits has a reason:
        /// somebody before it in the queue.
        #[test]
        fn nobody_conflicts_and_nobody_waits_for_nothing(
            steps in proptest::collection::vec((0..12u32, 0..20u64, 1..6u64, any::<bool>(), any::<bool>()), 1..60)
        ) {
            let mut t = LockTable::default();
            for (owner, from, len, exclusive, releases) in steps {
                if releases {
                    t.release(owner);
                } else {
                    t.ask(owner, vec![lock(from, from + len, exclusive)]);
                }
                let mut entries: Vec<_> = t.entries.values().collect();
                entries.sort_by_key(|entry| entry.turn);
                prop_assert_eq!(t.waiting, entries.iter().filter(|e| !e.granted).count());
                for (n, e) in entries.iter().enumerate() {
                    let barred = entries[..n].iter().any(|b| b.locks[0].conflicts(&e.locks[0]));
                    prop_assert_eq!(e.granted, !barred);
                }
            }
        }
    }
}
