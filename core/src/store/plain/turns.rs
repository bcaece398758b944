//! Transfers that wait or run: those that touch the same sectors take turns, in the order in which they were asked for.
//! Reads of the same sectors run side by side.

use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;

use smallvec::SmallVec;

use super::Job;

/// Numbers of transfers whose turn has come: mostly none.
pub(super) type Next = SmallVec<[u64; 4]>;

/// The transfers of one disk. Their numbers are in the order of asking.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct Turns {
    /// The sector where each begins, and its number: what is near is found without looking at all.
    places: BTreeSet<(u64, u64)>,
    /// By number, from `oldest` on. What is over, or was no transfer, is not there.
    jobs: VecDeque<Option<Job>>,
    oldest: u64,
    /// Sectors of the longest that there has been: what overlaps a range begins at most so far before it.
    longest: u64,
    /// How many wait.
    waiting: usize,
}

impl Turns {
    /// Whether a transfer with this number would have to wait for others.
    pub fn is_barred(&self, number: u64, sectors: &Range<u64>, writes: bool) -> bool {
        self.conflicting(sectors, writes).any(|earlier| earlier < number)
    }

    /// Numbers of the transfers that cannot run beside one of these sectors.
    fn conflicting(&self, sectors: &Range<u64>, writes: bool) -> impl Iterator<Item = u64> {
        let Range { start, end } = *sectors;
        let near = self.places.range((start.saturating_sub(self.longest), 0)..(end, 0));
        let conflicts = move |job: &Job| job.sectors.end > start && (writes || job.writes);
        near.map(|(_, number)| *number).filter(move |n| self.get(*n).is_some_and(conflicts))
    }

    fn get(&self, number: u64) -> Option<&Job> {
        self.jobs.get(number.checked_sub(self.oldest)? as usize)?.as_ref()
    }

    /// A transfer waits or runs from now on.
    pub fn enter(&mut self, number: u64, job: Job) {
        if self.jobs.is_empty() {
            self.oldest = number;
        }
        while self.oldest + (self.jobs.len() as u64) < number {
            self.jobs.push_back(None);
        }
        let Range { start, end } = job.sectors;
        self.longest = self.longest.max(end - start);
        self.waiting += usize::from(job.waits);
        self.places.insert((start, number));
        self.jobs.push_back(Some(job));
    }

    /// A transfer whose turn has come runs.
    pub fn of(&mut self, number: u64) -> Option<&mut Job> {
        self.jobs.get_mut(number.checked_sub(self.oldest)? as usize)?.as_mut()
    }

    /// A transfer is over. Returns it, and those whose turn it is now, in order.
    pub fn leave(&mut self, number: u64) -> Option<(Job, Next)> {
        let place = number.checked_sub(self.oldest)? as usize;
        let left = self.jobs.get_mut(place)?.take()?;
        while let Some(None) = self.jobs.front() {
            self.jobs.pop_front();
            self.oldest += 1;
        }
        self.places.remove(&(left.sectors.start, number));
        self.waiting -= usize::from(left.waits);
        let next = self.next_after(number, &left);
        Some((left, next))
    }

    /// Those whose turn it is when a transfer has left.
    fn next_after(&mut self, left: u64, job: &Job) -> Next {
        let mut next = Next::new();
        if self.waiting == 0 {
            return next;
        }
        let mut later: Next = self.conflicting(&job.sectors, job.writes).collect();
        later.retain(|number| *number > left);
        later.sort_unstable();
        for number in later {
            let Some(Job { sectors, writes, waits: true, .. }) = self.of(number) else { continue };
            let (sectors, writes) = (sectors.clone(), *writes);
            if !self.is_barred(number, &sectors, writes) {
                self.of(number).expect("just seen").waits = false;
                self.waiting -= 1;
                next.push(number);
            }
        }
        next
    }

    /// How many run, and how many wait.
    pub fn count(&self) -> (usize, usize) {
        (self.places.len() - self.waiting, self.waiting)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Who waits has a reason, who runs has none to wait, and each is found by its number.
    pub fn check(&self) {
        let jobs = || self.jobs.iter().flatten();
        assert_eq!(jobs().filter(|job| job.waits).count(), self.waiting, "transfers that wait");
        assert_eq!(jobs().count(), self.places.len(), "each begins somewhere");
        for (start, number) in &self.places {
            let job = self.get(*number).expect("what begins somewhere is a transfer");
            assert_eq!(job.sectors.start, *start, "where transfer {number} begins");
            let is_barred = self.is_barred(*number, &job.sectors, job.writes);
            assert_eq!(job.waits, is_barred, "transfer {number} waits for another");
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::Purpose;
    use super::*;
    use crate::order::{Lock, LockTable};
    use crate::units::NodeId;

    proptest! {
        /// Transfers take turns as those do who ask a table for locks.
        #[test]
        fn turns_are_those_of_a_table_of_locks(
            steps in proptest::collection::vec((0..20u64, 1..6u64, any::<bool>(), 0..4usize), 1..80)
        ) {
            let (mut turns, mut table) = (Turns::default(), LockTable::default());
            let mut running = Vec::new();
            // Some numbers are not those of transfers.
            for (number, (start, len, writes, ends)) in (5u64..).step_by(2).zip(steps) {
                let sectors = start..start + len;
                let lock = Lock { disk: NodeId(0), sectors: sectors.clone(), exclusive: writes };
                let waits = turns.is_barred(number, &sectors, writes);
                prop_assert_eq!(table.ask(number, [lock]), !waits);
                let (purpose, data) = (Purpose::Base, None);
                turns.enter(number, Job { purpose, sectors, data, writes, waits });
                running.extend((!waits).then_some(number));
                turns.check();
                for _ in 0..ends.min(running.len()) {
                    let over = running.remove(ends % running.len());
                    let (_, next) = turns.leave(over).expect("it runs");
                    prop_assert_eq!(table.release(over), next.to_vec());
                    prop_assert!(turns.leave(over).is_none());
                    running.extend(next);
                    turns.check();
                }
                prop_assert_eq!(turns.count().0, running.len());
            }
        }
    }
}
