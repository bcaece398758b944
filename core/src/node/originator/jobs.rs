//! Jobs that have not begun: they wait for space, pause before a retry, or can begin.

use std::collections::{BTreeMap, VecDeque};

use super::job::Job;
use crate::units::{Nanos, Timestamp};

/// See the module.
#[derive(Clone, Default, Hash)]
pub(super) struct Jobs {
    /// Jobs that wait for space.
    queued: VecDeque<Job>,
    /// Jobs that can begin regardless of space.
    ready: VecDeque<Job>,
    /// Jobs that pause, by the time of their retry.
    paused: BTreeMap<(Nanos, Timestamp), Job>,
    /// Bytes of the jobs in progress.
    bytes: u64,
    retries: u64,
}

impl Jobs {
    /// Jobs wait for space behind those already waiting.
    pub fn queue(&mut self, jobs: impl IntoIterator<Item = Job>) {
        self.queued.extend(jobs);
    }

    /// A job can begin.
    pub fn ready(&mut self, job: Job) {
        self.ready.push_back(job);
    }

    /// Jobs can begin.
    pub fn all_ready(&mut self, jobs: impl IntoIterator<Item = Job>) {
        self.ready.extend(jobs);
    }

    /// A job can begin again.
    pub fn again(&mut self, mut job: Job) {
        job.attempts += 1;
        self.retries += 1;
        self.ready.push_back(job);
    }

    /// A job is retried at a time; jobs with the same time go by name. Returns whether that is the first of all such
    /// times.
    pub fn pause(&mut self, mut job: Job, due: (Nanos, Timestamp)) -> bool {
        job.attempts += 1;
        self.retries += 1;
        let is_first = self.paused.keys().next().is_none_or(|first| due < *first);
        self.paused.insert(due, job);
        is_first
    }

    /// Jobs whose pause is over can begin. Returns when the next one's is.
    pub fn end_pauses(&mut self, now: Nanos) -> Option<Nanos> {
        while let Some(first) = self.paused.first_entry() {
            let due = first.key().0;
            if due > now {
                return Some(due);
            }
            self.ready.push_back(first.remove());
        }
        None
    }

    /// The next job that can begin, with at most this number of bytes in progress; one alone may have more.
    #[inline]
    pub fn next(&mut self, most: u64) -> Option<Job> {
        if self.ready.is_empty() && self.queued.is_empty() {
            return None;
        }
        let has_room = |job: &Job| self.bytes == 0 || self.bytes + job.bytes() <= most;
        let ready = self.ready.pop_front();
        ready.or_else(|| self.queued.pop_front_if(|job| has_room(job)))
    }

    /// A job takes its space, if it has none.
    pub fn take_room(&mut self, job: &mut Job) {
        if !std::mem::replace(&mut job.has_room, true) {
            self.bytes += job.bytes();
        }
    }

    /// A job releases its space, if it has any: a job that is not in progress does not delay others, and requests to
    /// other volumes use its space meanwhile.
    pub fn give_room(&mut self, job: &mut Job) {
        if std::mem::take(&mut job.has_room) {
            self.bytes -= job.bytes();
        }
    }

    /// Whether no job waits here.
    pub fn is_empty(&self) -> bool {
        self.queued.is_empty() && self.ready.is_empty() && self.paused.is_empty()
    }

    /// The number of retries of jobs.
    pub fn retries(&self) -> u64 {
        self.retries
    }
}
