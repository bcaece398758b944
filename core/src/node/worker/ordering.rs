//! Admission at this disk: by timestamps, and in volumes with device locks also by locks that the disk serves for its
//! own sectors.
//!
//! Timestamps are checked under every ordering but none. Under the others they refuse hardly anything, because
//! conflicting transactions come one after the other anyway. But a host that was paused while its locks expired comes
//! with an old timestamp, and does no harm.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::reading::ReadJob;
use super::{Admittance, Participation, Phase, Worker};
use crate::node::outbox::Outbox;
use crate::node::{Notice, Output, Refusal, Timer};
use crate::order::{Access, Accesses, Lock, LockTable, Ordering, joined};
use crate::units::{Nanos, Timestamp};

/// The result of admission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entrance {
    /// It may go on.
    Open,
    /// It waits for a lock.
    Waits,
    /// It is too late; a timestamp above this one would do.
    Late(Timestamp),
}

impl From<Entrance> for Result<(), Refusal> {
    fn from(entrance: Entrance) -> Self {
        match entrance {
            Entrance::Open | Entrance::Waits => Ok(()),
            Entrance::Late(latest) => Err(Refusal::Late(latest)),
        }
    }
}

/// The obstacle to a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Before {
    /// None: it may read.
    Nothing,
    /// An earlier write is undecided: it waits.
    Undecided,
    /// A later write has replaced the content that it should see.
    Later(Timestamp),
}

/// A transaction that waits for its locks here.
#[derive(Clone, Debug, Hash)]
struct Waiting {
    since: Nanos,
    accesses: Accesses,
}

/// Locks on this disk, of volumes with device locks.
#[derive(Clone, Default, Hash)]
pub(super) struct DeviceLocks {
    table: LockTable<Timestamp>,
    waiting: BTreeMap<Timestamp, Waiting>,
    timer_is_set: bool,
    /// Transactions that have got their locks and have not continued yet.
    granted: Vec<Timestamp>,
    /// Locks of reads that were answered, and when.
    lent: BTreeMap<Timestamp, Nanos>,
}

impl Worker {
    /// A transaction wants to begin here.
    pub(super) fn admit(
        &mut self,
        ts: Timestamp,
        ordering: Ordering,
        accesses: Accesses,
        outbox: &mut Outbox,
    ) -> Entrance {
        if ordering != Ordering::DeviceLocks {
            return self.check_time(ts, ordering, &accesses);
        }
        let lock = |(sectors, access): &(Range<u64>, Access)| Lock {
            disk: self.node,
            sectors: sectors.clone(),
            exclusive: *access != Access::Read,
        };
        let locks = joined(accesses.iter().map(lock).collect());
        if self.device_locks.table.ask(ts, locks.clone()) {
            return self.check_time(ts, ordering, &accesses);
        }
        let mut first = self.device_locks.table.holders(&locks);
        first.extend(self.device_locks.table.waiters(&locks));
        self.hasten(first, outbox);
        outbox.push(Output::Delayed(ts.originator()));
        if !std::mem::replace(&mut self.device_locks.timer_is_set, true) {
            outbox.push(Output::Timer(Timer::Locks, self.config.lock_timeout));
        }
        self.device_locks.waiting.insert(ts, Waiting { since: outbox.now, accesses });
        Entrance::Waits
    }

    /// A write wants to begin here. What waits for folds is refused first. Once admitted, it would keep folds with earlier
    /// timestamps from happening, and it is tried again and again.
    pub(super) fn admit_write(
        &mut self,
        ts: Timestamp,
        txn: &Participation,
        accesses: Accesses,
        outbox: &mut Outbox,
    ) -> Result<(), Refusal> {
        if let Some(refusal) = self.refused_before_admission(&txn.cells) {
            return Err(refusal);
        }
        self.admit(ts, txn.ordering, accesses, outbox).into()
    }

    /// The same for a read.
    pub(super) fn admit_read(
        &mut self,
        ts: Timestamp,
        job: &ReadJob,
        outbox: &mut Outbox,
    ) -> Result<(), Refusal> {
        if let Some(refusal) = self.refused_to_solve_before_admission(job) {
            return Err(refusal);
        }
        let accesses: Accesses = job.ranges().map(|r| (r, Access::Read)).collect();
        self.admit(ts, job.ordering, accesses, outbox).into()
    }

    /// Checks timestamps.
    fn check_time(
        &mut self,
        ts: Timestamp,
        ordering: Ordering,
        accesses: &[(Range<u64>, Access)],
    ) -> Entrance {
        let verdict = match ordering {
            Ordering::None => {
                self.admission.admit_unchecked(ts, accesses);
                return Entrance::Open;
            }
            // A lock keeps a reader from later and undecided content; and later writers have waited for its lock.
            Ordering::DeviceLocks => {
                let writes = accesses.iter().filter(|a| a.1 != Access::Read);
                self.admission.admit(ts, &writes.cloned().collect::<Vec<_>>())
            }
            _ => self.admission.admit(ts, accesses),
        };
        match verdict {
            Admittance::Admitted => Entrance::Open,
            Admittance::Rejected(latest) => Entrance::Late(latest),
        }
    }

    /// A request here waits for the outcomes of these writes: their originators should report them at once, and not
    /// with their next message.
    pub(super) fn hasten(
        &mut self,
        writes: impl IntoIterator<Item = Timestamp>,
        outbox: &mut Outbox,
    ) {
        for ts in writes {
            // In a new epoch the participants ask one another; without votes each decides by itself.
            let told = |t: &&mut Box<Participation>| t.epoch == self.map.epoch && !t.alone;
            if let Some(txn) = self.txns.get_mut(&ts).filter(told)
                && !matches!(txn.phase, Phase::Committed { .. })
                && !std::mem::replace(&mut txn.awaited, true)
            {
                outbox.notice_at_once(ts.originator(), Notice::Awaited(ts));
            }
        }
    }

    /// The same for the writes that block one that reads at `ts`.
    pub(super) fn hasten_before(
        &mut self,
        ts: Timestamp,
        ordering: Ordering,
        ranges: impl IntoIterator<Item = Range<u64>>,
        outbox: &mut Outbox,
    ) {
        let before = |range| self.before(ts, ordering, range);
        let writes: Vec<Timestamp> = ranges.into_iter().flat_map(before).collect();
        self.hasten(writes, outbox);
    }

    /// The undecided writes in `range` that one that reads at `ts` waits for. Without an order a prepared write may
    /// have been answered, and be read next by way of another node: that is waited for regardless of its timestamp, and
    /// nothing else.
    fn before(&self, ts: Timestamp, ordering: Ordering, range: Range<u64>) -> Vec<Timestamp> {
        let prepared = |e: &Timestamp| self.txns.get(e).is_some_and(|t| t.phase == Phase::Prepared);
        match ordering {
            Ordering::None => {
                let beneath = self.undecided_beneath(Timestamp(u64::MAX), range.clone());
                let all = self.admission.all_unresolved(range).chain(beneath);
                all.filter(prepared).collect()
            }
            _ => {
                let beneath = self.undecided_beneath(ts, range.clone());
                self.admission.earlier_unresolved(ts, range).chain(beneath).collect()
            }
        }
    }

    /// The originator of a transaction that changes nothing here reports its end. A message of it that comes late or twice
    /// must not begin it again: nobody would give that lock back.
    pub fn on_unlock(&mut self, ts: Timestamp) {
        if let Some(txn) = self.txns.get_mut(&ts) {
            // A participant learns the outcome.
            let takes_part = txn.participants.iter().any(|p| p.1 == self.node);
            if !takes_part {
                self.drop_txn(ts);
            }
            return;
        }
        let job = self.reads.get(&ts);
        if job.is_some_and(|job| !job.has_started() || job.solving.is_some()) {
            self.reads.remove(&ts);
        }
        self.unlock(ts);
        self.fenced.insert(ts);
    }

    /// A transaction does not need its locks here any more, or does not wait for them any more.
    pub(super) fn unlock(&mut self, ts: Timestamp) {
        self.device_locks.waiting.remove(&ts);
        self.device_locks.lent.remove(&ts);
        let next = self.device_locks.table.release(ts);
        if !next.is_empty() {
            self.stalled.wake();
        }
        self.device_locks.granted.extend(next);
    }

    /// Continues the transactions that have got their locks.
    pub(super) fn enter_granted(&mut self, outbox: &mut Outbox) {
        for ts in std::mem::take(&mut self.device_locks.granted) {
            let Some(waiting) = self.device_locks.waiting.remove(&ts) else { continue };
            match self.check_time(ts, Ordering::DeviceLocks, &waiting.accesses) {
                Entrance::Late(latest) => self.turn_away(ts, Refusal::Late(latest), outbox),
                Entrance::Open | Entrance::Waits => {
                    self.step(ts, outbox);
                    self.step_read(ts, outbox);
                }
            }
        }
    }

    /// Whether a transaction waits for its locks.
    pub(super) fn waits_for_locks(&self, ts: Timestamp) -> bool {
        self.device_locks.waiting.contains_key(&ts)
    }

    /// The obstacle to a read at `ts`.
    pub(super) fn before_read(
        &self,
        ts: Timestamp,
        ordering: Ordering,
        ranges: impl Iterator<Item = Range<u64>>,
    ) -> Before {
        if !self.config.orders_reads() {
            return Before::Nothing;
        }
        if ordering == Ordering::None {
            return match ranges.into_iter().any(|r| !self.before(ts, ordering, r).is_empty()) {
                true => Before::Undecided,
                false => Before::Nothing,
            };
        }
        let mut latest = Timestamp::ZERO;
        for range in ranges {
            let (waits, committed) = self.admission.before_read(ts, range.clone());
            if waits || !self.undecided_beneath(ts, range).is_empty() {
                return Before::Undecided;
            }
            latest = latest.max(committed);
        }
        match latest >= self.horizon(ts, ordering) {
            true => Before::Later(latest),
            false => Before::Nothing,
        }
    }

    /// From when on content is too late for a transaction that reads at `ts`. Under its device's lock it may see later
    /// content than itself, but none from half a lease later on: another device may have taken a lock of it back since, and
    /// admits only such writes then.
    pub(super) fn horizon(&self, ts: Timestamp, ordering: Ordering) -> Timestamp {
        match ordering {
            _ if !self.config.orders_reads() => Timestamp(u64::MAX),
            Ordering::None => Timestamp(u64::MAX),
            Ordering::DeviceLocks if !self.config.doubts_locks() => Timestamp(u64::MAX),
            Ordering::DeviceLocks => ts.later(self.config.lease / 2),
            _ => Timestamp(ts.0.saturating_add(1)),
        }
    }

    /// Refuses transactions that have waited for too long: they may wait for one another.
    pub fn on_lock_timer(&mut self, outbox: &mut Outbox) {
        self.device_locks.timer_is_set = false;
        let timeout = self.config.lock_timeout;
        let late =
            self.device_locks.waiting.iter().filter(|(_, w)| w.since + timeout <= outbox.now);
        let late: Vec<Timestamp> = late.map(|(ts, _)| *ts).collect();
        self.ask_for_lent(&late, outbox);
        late.into_iter().for_each(|ts| self.turn_away(ts, Refusal::Busy, outbox));
        if let Some(since) = self.device_locks.waiting.values().map(|w| w.since).min() {
            let left = (since + timeout).saturating_sub(outbox.now);
            self.device_locks.timer_is_set = true;
            outbox.push(Output::Timer(Timer::Locks, left.max(1)));
        }
    }

    /// Asks for the lent locks that these wait for: the message that gives one back may have been lost. Nobody sends it
    /// again unasked, and until the end of the lease all that wait would be refused.
    fn ask_for_lent(&self, waiting: &[Timestamp], outbox: &mut Outbox) {
        let DeviceLocks { table, lent, .. } = &self.device_locks;
        let before = waiting.iter().flat_map(|ts| table.holders(table.locks_of(*ts)));
        let lent: BTreeSet<Timestamp> = before.filter(|ts| lent.contains_key(ts)).collect();
        for ts in lent {
            outbox.notice_at_once(ts.originator(), Notice::Awaited(ts));
        }
    }

    fn turn_away(&mut self, ts: Timestamp, refusal: Refusal, outbox: &mut Outbox) {
        if let Some(job) = self.reads.remove(&ts) {
            self.unlock(ts);
            self.reply_read(&job, ts, Err(refusal), outbox);
        } else if self.txns.contains_key(&ts) {
            self.refuse(ts, refusal, outbox);
        } else {
            self.unlock(ts);
        }
    }

    /// A read has been answered: its lock is the originator's to give back.
    pub(super) fn lend(&mut self, ts: Timestamp, now: Nanos) {
        if self.device_locks.table.is_granted(ts) {
            self.device_locks.lent.insert(ts, now);
        }
    }

    /// Takes back locks that were lent for longer than a lease.
    pub(super) fn expire_locks(&mut self, now: Nanos) {
        let over = |since: &Nanos| now.saturating_sub(*since) >= self.config.lease;
        let over: Vec<Timestamp> =
            self.device_locks.lent.iter().filter(|(_, s)| over(s)).map(|(ts, _)| *ts).collect();
        for ts in over {
            self.bar_earlier(ts);
            self.unlock(ts);
        }
    }

    /// A transaction loses its locks here, and its messages to other disks may still be under way. Writes get these locks
    /// only if they are so late that no disk shows them to it. A lease has gone by, so nearly all are.
    pub(super) fn bar_earlier(&mut self, ts: Timestamp) {
        if !self.config.doubts_locks() || !self.device_locks.table.is_granted(ts) {
            return;
        }
        let horizon = self.horizon(ts, Ordering::DeviceLocks);
        for lock in self.device_locks.table.locks_of(ts) {
            self.admission.bar(horizon, lock.sectors.clone());
        }
    }

    /// A new epoch: unprepared writes begin again, and with them their locks.
    pub(super) fn forget_locks(&mut self) {
        let timer_is_set = self.device_locks.timer_is_set;
        self.device_locks = DeviceLocks { timer_is_set, ..DeviceLocks::default() };
    }
}
