//! Hosts' requests that others keep coming before: they get precedence at their originator.
//!
//! With timestamps a write of a stripe that is read and written all the time comes too late again and again. Pauses put
//! those that hinder one another out of step only while an attempt takes no longer than a pause; one that waits in a disk's
//! queue does. So a job that was passed over often claims its stripes: jobs of this originator that have yet to begin
//! there wait until it is done. What is under way ends by itself, so one of those with a claim, the oldest, always gets
//! through. Nobody who waits here has begun anything or holds a lock, so nothing can wait in a circle.

use std::collections::BTreeMap;
use std::ops::Range;

use super::{Job, Originator, Purpose, What};
use crate::cluster::Volume;
use crate::units::VolumeId;

/// So many attempts that came too late, and a job claims its stripes.
const PASSED_OVER: u32 = 12;

/// Who has precedence, and who waits for them.
#[derive(Clone, Default, Hash)]
pub(super) struct Precedence {
    /// The claims, by age.
    claims: BTreeMap<u64, Claim>,
    next: u64,
    /// Jobs that wait until a claim is given up.
    held: Vec<Job>,
}

#[derive(Clone, Hash)]
struct Claim {
    volume: VolumeId,
    stripes: Range<u64>,
    writes: bool,
}

impl Claim {
    fn of(job: &Job, volume: &Volume) -> Claim {
        let writes = matches!(job.what, What::Write(..));
        Claim { volume: job.volume, stripes: job.what.stripes(volume), writes }
    }

    fn meets(&self, other: &Claim) -> bool {
        self.volume == other.volume
            && (self.writes || other.writes)
            && self.stripes.start < other.stripes.end
            && other.stripes.start < self.stripes.end
    }
}

impl Precedence {
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }
}

impl Originator {
    /// A job came too late. If that was often, it claims its stripes.
    pub(super) fn is_passed_over(&mut self, job: &mut Job) {
        let host = matches!(job.purpose, Purpose::Host(_));
        if !host || job.attempts < PASSED_OVER || job.claim.is_some() {
            return;
        }
        if let Some(volume) = self.map.volumes.get(&job.volume) {
            self.precedence.claims.insert(self.precedence.next, Claim::of(job, volume));
            job.claim = Some(self.precedence.next);
            self.precedence.next += 1;
        }
    }

    /// Whether a job has to wait for an older claim. What is to be put back does not: others may wait for it. Nor does who
    /// has a lock.
    pub(super) fn gives_way(&self, job: &Job, volume: &Volume) -> bool {
        let host = matches!(job.purpose, Purpose::Host(_));
        if self.precedence.claims.is_empty() || !host || job.locked.is_some() {
            return false;
        }
        let own = Claim::of(job, volume);
        let older = ..job.claim.unwrap_or(u64::MAX);
        self.precedence.claims.range(older).any(|(_, claim)| claim.meets(&own))
    }

    /// A job waits until a claim is given up.
    pub(super) fn hold(&mut self, job: Job) {
        self.precedence.held.push(job);
    }

    /// A job is done, or is to wait for something else: others go on.
    pub(super) fn give_up_claim(&mut self, job: &mut Job) {
        let Some(claim) = job.claim.take() else { return };
        self.precedence.claims.remove(&claim);
        self.jobs.all_ready(self.precedence.held.drain(..));
    }
}
