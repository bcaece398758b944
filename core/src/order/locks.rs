//! Locks on ranges of disks' sectors: shared to read, exclusive to write.
//!
//! One table serves a device's own sectors (shared storage, 4.4), a lock server's all (4.2.1), and
//! a host's among its own requests. Who asks gets all its locks or waits for all of them, in the
//! order of asking: nobody holds some and waits for others at one table, so within a table nothing
//! can wait in a circle, and nobody waits for ever behind those that came later.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Range, RangeBounds};

use crate::units::NodeId;

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
struct Entry<Owner> {
    owner: Owner,
    locks: Vec<Lock>,
    granted: bool,
}

/// Who holds which locks, and who waits.
#[derive(Clone, Debug, Hash)]
pub struct LockTable<Owner> {
    /// By turn: the order of asking.
    entries: BTreeMap<u64, Entry<Owner>>,
    turns: BTreeMap<Owner, u64>,
    /// All locks, held or waited for: the disk, where they begin, whose turn, whether exclusive; and
    /// where they end. A server has thousands, and looks only at those that are near.
    places: BTreeMap<(NodeId, u64, u64, bool), u64>,
    /// Sectors of the longest lock that there has been: what overlaps a range begins at most so far
    /// before it.
    longest: u64,
    /// How many of the entries wait.
    waiting: usize,
    next: u64,
}

impl<Owner> Default for LockTable<Owner> {
    fn default() -> Self {
        let (entries, turns) = (BTreeMap::new(), BTreeMap::new());
        LockTable { entries, turns, places: BTreeMap::new(), longest: 0, waiting: 0, next: 0 }
    }
}

impl<Owner: Copy + Ord> LockTable<Owner> {
    /// Asks for locks. Says whether they are granted; else `owner` waits for its turn. One who has
    /// asked already is told how that stands.
    pub fn ask(&mut self, owner: Owner, locks: Vec<Lock>) -> bool {
        if let Some(turn) = self.turns.get(&owner) {
            return self.entries[turn].granted;
        }
        let granted = !self.is_barred(self.next, &locks);
        self.enter(Entry { owner, locks, granted });
        granted
    }

    fn enter(&mut self, entry: Entry<Owner>) {
        let turn = self.next;
        self.next += 1;
        for lock in &entry.locks {
            let Range { start, end } = lock.sectors;
            self.longest = self.longest.max(end - start);
            let place = (lock.disk, start, turn, lock.exclusive);
            let ends = self.places.entry(place).or_default();
            *ends = end.max(*ends);
        }
        self.waiting += usize::from(!entry.granted);
        self.turns.insert(entry.owner, turn);
        self.entries.insert(turn, entry);
    }

    /// Takes locks that were granted elsewhere, before this table was there.
    pub fn hold(&mut self, owner: Owner, locks: Vec<Lock>) {
        self.release(owner);
        self.enter(Entry { owner, locks, granted: true });
    }

    /// The turns of those with a lock that conflicts with this one.
    fn conflicting(&self, lock: &Lock) -> impl Iterator<Item = u64> {
        let Range { start, end } = lock.sectors;
        let first = (lock.disk, start.saturating_sub(self.longest), 0, false);
        let near = self.places.range(first..(lock.disk, end, 0, false));
        let exclusive = lock.exclusive;
        let conflicts = move |theirs: bool, ends: u64| ends > start && (exclusive || theirs);
        near.filter(move |((.., theirs), ends)| conflicts(*theirs, **ends))
            .map(|((_, _, turn, _), _)| *turn)
    }

    /// The turns, in order, of those with a lock that one of these conflicts with.
    fn against(&self, turns: impl RangeBounds<u64>, locks: &[Lock]) -> BTreeSet<u64> {
        locks.iter().flat_map(|l| self.conflicting(l)).filter(|t| turns.contains(t)).collect()
    }

    /// Whether someone earlier holds, or waits for, what stands against these locks.
    fn is_barred(&self, turn: u64, locks: &[Lock]) -> bool {
        locks.iter().any(|lock| self.conflicting(lock).any(|t| t < turn))
    }

    /// Gives up what `owner` holds, or waits for. Returns those whose turn it is now, in order.
    pub fn release(&mut self, owner: Owner) -> Vec<Owner> {
        let Some(turn) = self.turns.remove(&owner) else { return Vec::new() };
        let left = self.entries.remove(&turn).expect("turns and entries go together");
        for lock in &left.locks {
            self.places.remove(&(lock.disk, lock.sectors.start, turn, lock.exclusive));
        }
        self.waiting -= usize::from(!left.granted);
        let mut now = Vec::new();
        if self.waiting == 0 {
            return now;
        }
        for turn in self.against(turn.., &left.locks) {
            if !self.entries[&turn].granted && !self.is_barred(turn, &self.entries[&turn].locks) {
                let entry = self.entries.get_mut(&turn).expect("just seen");
                entry.granted = true;
                self.waiting -= 1;
                now.push(entry.owner);
            }
        }
        now
    }

    /// Whether `owner` has asked and its locks are granted.
    pub fn is_granted(&self, owner: Owner) -> bool {
        self.turns.get(&owner).is_some_and(|t| self.entries[t].granted)
    }

    /// Those who hold what stands against these locks, whoever asks for them.
    pub fn holders(&self, locks: &[Lock]) -> Vec<Owner> {
        let against = self.against(.., locks);
        let entries = against.iter().map(|turn| &self.entries[turn]);
        entries.filter(|e| e.granted).map(|e| e.owner).collect()
    }

    /// Those who hold a lock on any of these sectors, to read or to write.
    pub fn holders_near(&self, lock: &Lock) -> Vec<Owner> {
        let any = Lock { exclusive: true, ..lock.clone() };
        let entries = self.conflicting(&any).map(|turn| &self.entries[&turn]);
        entries.filter(|e| e.granted).map(|e| e.owner).collect()
    }

    /// Those who wait for what stands against these locks.
    pub fn waiters(&self, locks: &[Lock]) -> Vec<Owner> {
        let against = self.against(.., locks);
        let entries = against.iter().map(|turn| &self.entries[turn]);
        entries.filter(|e| !e.granted).map(|e| e.owner).collect()
    }

    /// What `owner` holds, or waits for.
    pub fn locks_of(&self, owner: Owner) -> &[Lock] {
        self.turns.get(&owner).map_or(&[], |turn| &self.entries[turn].locks)
    }

    /// Those who wait, in order, and for what.
    pub fn waiting(&self) -> impl Iterator<Item = (Owner, &[Lock])> {
        self.entries.values().filter(|e| !e.granted).map(|e| (e.owner, &e.locks[..]))
    }

    /// Whether nobody holds or waits for anything.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Forgets everybody.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.turns.clear();
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
                let entries: Vec<_> = t.entries.values().collect();
                prop_assert_eq!(t.waiting, entries.iter().filter(|e| !e.granted).count());
                for (n, e) in entries.iter().enumerate() {
                    let barred = entries[..n].iter().any(|b| b.locks[0].conflicts(&e.locks[0]));
                    prop_assert_eq!(e.granted, !barred);
                }
            }
        }
    }
}
