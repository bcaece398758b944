//! Jobs that need lost nodes, which may come back. They wait until their volume has been asleep for the time in its
//! policy, and fail at once after that. A host that gets an error gives up its file system, while one that waits for a
//! machine to restart does not notice.
//!
//! A write that had begun waits only where votes are journalled. Otherwise a returning node may have lost its part, and
//! acknowledge the outcome anyway.
//!
//! A write to a volume that [rests](crate::cluster::ClusterMap::rests) waits too, but only until the authority, which
//! is told, has made a map in which the volume goes on without the absent nodes.

use std::collections::{BTreeMap, VecDeque};

use super::requests::{Answer, OpenRequest};
use super::{Job, Originator, Purpose, State, What, unlock};
use crate::cluster::Volume;
use crate::node::outbox::Outbox;
use crate::node::{HostError, MemberReport};
use crate::units::{MILLIS, Nanos, Timestamp, VolumeId};

/// Longest pause before a rebuild onto a full disk is tried again.
pub(super) const FULL_PAUSE: Nanos = 2_000 * MILLIS;

/// The jobs that wait for lost nodes, and since when these are lost.
#[derive(Clone, Default, Hash)]
pub(super) struct Lacking {
    jobs: VecDeque<Job>,
    /// Since when volumes sleep.
    asleep_since: BTreeMap<VolumeId, Nanos>,
    /// Since when disks are lost of volumes whose parity may have been deferred.
    lost_since: BTreeMap<VolumeId, Nanos>,
    /// The authority has been asked to wake resting volumes.
    wake_said: bool,
    /// When waiting reads were last tried.
    looked: Nanos,
}

impl Lacking {
    /// The number of waiting jobs.
    pub fn len(&self) -> usize {
        self.jobs.len()
    }

    /// Whether no job waits.
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }
}

impl Originator {
    /// A job has not begun, or begins again, and cannot go on without lost nodes: it waits for them, or fails.
    pub(super) fn lacks_nodes(&mut self, mut job: Job, outbox: &mut Outbox) {
        if self.map.volumes.get(&job.volume).is_some_and(|v| self.map.rests(v)) {
            self.wake_resting(outbox);
        }
        if !self.may_wait(&job, job.volume, outbox.now) {
            return self.fail_for_lost(job, outbox);
        }
        self.unlock_job(&mut job, outbox);
        self.give_up_claim(&mut job);
        self.jobs.give_room(&mut job);
        job.look_anew();
        // That there was an attempt is not forgotten.
        (job.attempts, job.fresh_looks) = (job.attempts.min(1), 0);
        self.lacking.jobs.push_back(job);
    }

    /// A disk is full. The host gets an error. A rebuild waits for space, and host requests do not wait for that rebuild.
    pub(super) fn lacks_space(&mut self, mut job: Job, outbox: &mut Outbox) {
        match (job.purpose, &job.what) {
            (Purpose::Host(_), What::Verify { .. }) | (Purpose::Repair, _) => {
                self.retry_later(job, outbox);
            }
            // The worker asks again when there may be space.
            (Purpose::Fold(..), _) => self.finish(job, Err(HostError::NoSpace), outbox),
            (Purpose::Host(_), _) => self.refuse(job, HostError::NoSpace, outbox),
            (Purpose::Rebuild, _) => {
                for waiting in self.take_waiting_for(&job) {
                    self.lacks_space(waiting, outbox);
                }
                job.attempts = 0;
                self.note_full(&job, outbox.now);
                self.retry_after(job, FULL_PAUSE, outbox);
            }
        }
    }

    /// The outcome of a write that has begun is unknown, and cannot be decided before lost nodes are back: it waits for
    /// them. False if it may not.
    pub(super) fn waits_undecided(&mut self, ts: Timestamp, now: Nanos) -> bool {
        let Some(mut txn) = self.txns.remove(&ts) else { return false };
        let waits = txn.policy.is_journaled() && self.may_wait(&txn.job, txn.volume.id, now);
        if waits {
            self.give_up_claim(&mut txn.job);
            self.jobs.give_room(&mut txn.job);
        }
        self.txns.insert(ts, txn);
        waits
    }

    /// A job may not wait for lost nodes, or no longer.
    pub(super) fn fail_for_lost(&mut self, job: Job, outbox: &mut Outbox) {
        let gone = |id| self.requests.get(&id).is_some_and(|r| r.gone);
        let error = match job.purpose {
            Purpose::Host(id) if gone(id) => HostError::Gone,
            _ => HostError::TooManyLost,
        };
        self.finish(job, Err(error), outbox);
    }

    /// Whether a job that needs lost nodes of a volume may still wait for them.
    fn may_wait(&self, job: &Job, volume: VolumeId, now: Nanos) -> bool {
        let Some(volume) = self.map.volumes.get(&volume) else { return false };
        let rests = self.map.rests(volume);
        let Purpose::Host(id) = job.purpose else { return rests };
        // A scrub skips stripes with missing columns.
        let waits = |r: &OpenRequest| !r.gone && !matches!(r.answer, Answer::Scrub(_));
        if !self.requests.get(&id).is_some_and(|request| waits(request)) {
            return false;
        }
        let waited = |since: &Nanos| now.saturating_sub(*since);
        let since = self.lacking.asleep_since.get(&volume.id);
        let is_without = |_: &&Nanos| !self.nobody_is_lost(job);
        let lost = self.lacking.lost_since.get(&volume.id).filter(is_without);
        rests || since.max(lost).is_some_and(|s| waited(s) < volume.policy.lost_wait)
    }

    /// Asks the authority to wake resting volumes: once for all that wait for it.
    fn wake_resting(&mut self, outbox: &mut Outbox) {
        if !std::mem::replace(&mut self.lacking.wake_said, true) {
            outbox.report(MemberReport::Wake { epoch: self.map.epoch });
        }
    }

    /// A new map: nodes may be back, or gone.
    pub(super) fn enter_waiting(&mut self, now: Nanos) {
        let map = &self.map;
        let asleep = map.volumes.values().filter(|v| map.lacks_nodes(v)).map(|v| v.id);
        let before = std::mem::take(&mut self.lacking.asleep_since);
        let since = |v| (v, before.get(&v).copied().unwrap_or(now));
        self.lacking.asleep_since = asleep.map(since).collect();
        let lost = |v: &Volume| (0..v.extents.len()).any(|n| !map.lost(v, n).is_empty());
        // What it chooses now does not say whether all parity is computed that was deferred before.
        let with_lost = map.volumes.values().filter(|v| v.geometry.is_redundant() && lost(v));
        let before = std::mem::take(&mut self.lacking.lost_since);
        let since = |v| (v, before.get(&v).copied().unwrap_or(now));
        self.lacking.lost_since = with_lost.map(|v| since(v.id)).collect();
        self.jobs.queue(self.lacking.jobs.drain(..));
        self.lacking.wake_said = false;
    }

    /// The host of a request is gone: its jobs wait no longer.
    pub(super) fn wake_waiting_of(&mut self, request: u64) {
        let is_its = |job: &Job| matches!(job.purpose, Purpose::Host(id) if id == request);
        let (its, others): (VecDeque<Job>, _) =
            std::mem::take(&mut self.lacking.jobs).into_iter().partition(is_its);
        self.jobs.queue(its);
        self.lacking.jobs = others;
    }

    /// Ends waits that are too long or no longer needed, and tries reads again: an earlier write that blocked them may
    /// have been decided.
    pub(super) fn tick_waiting(&mut self, outbox: &mut Outbox) {
        if self.lacking.asleep_since.is_empty()
            && self.lacking.lost_since.is_empty()
            && !self.lacking.wake_said
        {
            return;
        }
        let now = outbox.now;
        // The message may have been lost.
        if std::mem::take(&mut self.lacking.wake_said) {
            self.wake_resting(outbox);
        }
        let looks = now.saturating_sub(self.lacking.looked) >= self.config.patience;
        if looks {
            self.lacking.looked = now;
        }
        for job in std::mem::take(&mut self.lacking.jobs) {
            let reads = matches!(
                job.what,
                What::Read(_) | What::Holes(_) | What::Own(_) | What::Used(..) | What::Compare(..)
            );
            if !self.may_wait(&job, job.volume, now) {
                self.fail_for_lost(job, outbox);
            } else if reads && looks {
                self.jobs.queue([job]);
            } else {
                self.lacking.jobs.push_back(job);
            }
        }
        let undecided = self.txns.iter().filter(|(_, txn)| {
            let (State::Asking(_, participants) | State::GivingUp(_, participants, _)) = &txn.state
            else {
                return false;
            };
            let host = matches!(txn.job.purpose, Purpose::Host(_));
            let asleep = self.lacking.asleep_since.contains_key(&txn.volume.id);
            host && (asleep || self.awaits_holder(txn, participants))
        });
        for ts in undecided.map(|(ts, _)| *ts).collect::<Vec<_>>() {
            if !self.waits_undecided(ts, now) {
                let txn = self.txns.remove(&ts).expect("just seen");
                unlock(ts, &txn, outbox);
                self.fail_for_lost(txn.job, outbox);
            }
        }
    }
}
