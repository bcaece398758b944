//! Jobs that have not begun: they wait for space, pause before a retry, or can begin.
//!
//! Volumes share the space, and each has a part of its own: a volume whose disks do not answer stops no other.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound::{Excluded, Unbounded};

use super::job::Job;
use crate::units::{Nanos, Timestamp, VolumeId};

/// Each volume may use the space divided by this, whatever the others use.
const OWN_PART: u64 = 8;

/// See the module.
#[derive(Clone, Default, Hash)]
pub(super) struct Jobs {
    /// The volumes with jobs that wait for space or are in progress.
    volumes: BTreeMap<VolumeId, Share>,
    /// The volume that began a job last: the next one has the next turn.
    turn: Option<VolumeId>,
    /// How many jobs wait for space.
    queued: usize,
    /// Jobs that can begin regardless of space.
    ready: VecDeque<Job>,
    /// Jobs that pause, by the time of their retry.
    paused: BTreeMap<(Nanos, Timestamp), Job>,
    /// Bytes of the jobs in progress.
    bytes: u64,
    retries: u64,
}

/// The jobs of a volume.
#[derive(Clone, Default, Hash)]
struct Share {
    /// Those that wait for space.
    queued: VecDeque<Job>,
    /// Bytes of those in progress.
    bytes: u64,
}

impl Share {
    /// Whether the next job can begin, where all volumes have `all` bytes in progress and should have at most `most`.
    fn has_room(&self, most: u64, all: u64) -> bool {
        let Some(job) = self.queued.front() else { return false };
        let bytes = job.bytes();
        self.bytes == 0 || self.bytes + bytes <= most / OWN_PART || all + bytes <= most
    }
}

impl Jobs {
    /// Jobs wait for space behind those of their volumes already waiting.
    pub fn queue(&mut self, jobs: impl IntoIterator<Item = Job>) {
        for job in jobs {
            self.queued += 1;
            self.volumes.entry(job.volume).or_default().queued.push_back(job);
        }
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

    /// The next job that can begin. Volumes take turns. They share `most` bytes, and each may use its own part beyond
    /// that; a job that is alone in its volume may have any size.
    #[inline]
    pub fn next(&mut self, most: u64) -> Option<Job> {
        if self.ready.is_empty() && self.queued == 0 {
            return None;
        }
        self.ready.pop_front().or_else(|| self.next_queued(most))
    }

    fn next_queued(&mut self, most: u64) -> Option<Job> {
        let later = (self.turn.map_or(Unbounded, Excluded), Unbounded);
        let mut turns = self.volumes.range(later).chain(&self.volumes);
        let (volume, _) = turns.find(|(_, share)| share.has_room(most, self.bytes))?;
        let volume = *volume;
        self.turn = Some(volume);
        self.queued -= 1;
        self.volumes.get_mut(&volume)?.queued.pop_front()
    }

    /// A job takes its space, if it has none.
    pub fn take_room(&mut self, job: &mut Job) {
        if !std::mem::replace(&mut job.has_room, true) {
            self.bytes += job.bytes();
            self.volumes.entry(job.volume).or_default().bytes += job.bytes();
        }
    }

    /// A job releases its space, if it has any: a job that is not in progress does not delay others, and requests to
    /// other volumes use its space meanwhile.
    pub fn give_room(&mut self, job: &mut Job) {
        if std::mem::take(&mut job.has_room) {
            let bytes = job.bytes();
            self.bytes -= bytes;
            // If there is none, only jobs without bytes are in progress.
            let Some(share) = self.volumes.get_mut(&job.volume) else { return };
            share.bytes -= bytes;
            if share.bytes == 0 && share.queued.is_empty() {
                self.volumes.remove(&job.volume);
            }
        }
    }

    /// Whether no job waits here.
    pub fn is_empty(&self) -> bool {
        self.queued == 0 && self.ready.is_empty() && self.paused.is_empty()
    }

    /// The number of retries of jobs.
    pub fn retries(&self) -> u64 {
        self.retries
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::originator::job::{Purpose, What};
    use crate::plan::Range;

    const MOST: u64 = 16 << 20;

    fn read(volume: u32, len: u64) -> Job {
        let what = What::Read(Range { offset: 0, len });
        Job::new(Purpose::Host(0), VolumeId(volume), what)
    }

    /// Begins the jobs that can begin, and names their volumes.
    fn begin(jobs: &mut Jobs, begun: &mut Vec<Job>) -> Vec<u32> {
        let mut volumes = Vec::new();
        while let Some(mut job) = jobs.next(MOST) {
            jobs.take_room(&mut job);
            volumes.push(job.volume.0);
            begun.push(job);
        }
        volumes
    }

    #[test]
    fn a_volume_whose_jobs_do_not_end_stops_no_other() {
        let (mut jobs, mut stuck) = (Jobs::default(), Vec::new());
        jobs.queue((0..40).map(|_| read(1, 1 << 20)));
        assert_eq!(begin(&mut jobs, &mut stuck), [1; 16]);
        // Others have a part of their own, and a job that is alone in its volume may be longer.
        jobs.queue((0..3).map(|_| read(2, 1 << 20)));
        jobs.queue([read(3, 4 << 20), read(3, 4096)]);
        let mut begun = Vec::new();
        assert_eq!(begin(&mut jobs, &mut begun), [2, 3, 2]);
        for job in &mut begun {
            jobs.give_room(job);
        }
        begun.clear();
        assert_eq!(begin(&mut jobs, &mut begun), [3, 2]);
        begun.iter_mut().chain(&mut stuck).for_each(|job| jobs.give_room(job));
        assert_eq!(begin(&mut jobs, &mut begun), [1; 16]);
    }

    #[test]
    fn volumes_take_turns() {
        let (mut jobs, mut begun) = (Jobs::default(), Vec::new());
        for volume in [5, 5, 5, 1, 9, 1] {
            jobs.queue([read(volume, 4096)]);
        }
        assert_eq!(begin(&mut jobs, &mut begun), [1, 5, 9, 1, 5, 5]);
        begun.iter_mut().for_each(|job| jobs.give_room(job));
        assert!(jobs.is_empty() && jobs.volumes.is_empty() && jobs.bytes == 0);
    }
}
