//! Jobs that need nodes which are lost and may come back. They wait for as long as their volume's
//! policy says, and fail then: a host that is told of an error gives up its file system, and one
//! that waits for a machine to be started again does not notice.

use std::collections::VecDeque;

use super::{Job, Originator, Purpose, What};
use crate::node::HostError;
use crate::node::outbox::Outbox;
use crate::units::{ColumnSet, Nanos};

impl Originator {
    /// A job cannot go on without nodes that are lost: it waits for them, or fails.
    pub(super) fn lacks_nodes(&mut self, mut job: Job, outbox: &mut Outbox) {
        if !self.may_wait(&mut job, outbox.now) {
            return self.finish(job, Err(HostError::TooManyLost), outbox);
        }
        self.unlock_job(&mut job, outbox);
        // It is not in work: requests to other volumes have its room meanwhile.
        self.bytes -= job.bytes();
        (job.avoid, job.attempts, job.fresh_looks) = (ColumnSet::EMPTY, 0, 0);
        self.waiting.push_back(job);
    }

    /// Whether a job that needs lost nodes may wait for them, still.
    pub(super) fn may_wait(&self, job: &mut Job, now: Nanos) -> bool {
        let Purpose::Host(id) = job.purpose else { return false };
        let is_there = self.requests.get(&id).is_some_and(|r| !r.gone);
        let Some(volume) = self.map.volumes.get(&job.volume) else { return false };
        // A scrub goes past what it cannot see.
        if !is_there || matches!(job.what, What::Verify { .. }) || !self.map.is_asleep(volume) {
            return false;
        }
        let since = *job.lost_since.get_or_insert(now);
        now.saturating_sub(since) < volume.policy.lost_wait
    }

    /// There is a new map: nodes may be back, or not be waited for any more.
    pub(super) fn wake_waiting(&mut self) {
        self.queue.append(&mut self.waiting);
    }

    /// The host of a request is gone: nothing of it waits any more.
    pub(super) fn wake_waiting_of(&mut self, request: u64) {
        let is_its = |job: &Job| matches!(job.purpose, Purpose::Host(id) if id == request);
        let (its, others): (VecDeque<Job>, _) =
            std::mem::take(&mut self.waiting).into_iter().partition(is_its);
        self.queue.extend(its);
        self.waiting = others;
    }

    /// Some have waited for long enough.
    pub(super) fn tick_waiting(&mut self, outbox: &mut Outbox) {
        for mut job in std::mem::take(&mut self.waiting) {
            if self.may_wait(&mut job, outbox.now) {
                self.waiting.push_back(job);
            } else {
                self.bytes += job.bytes();
                self.finish(job, Err(HostError::TooManyLost), outbox);
            }
        }
    }
}
