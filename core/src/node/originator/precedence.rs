//! Hosts' requests that others keep overtaking: they get precedence at their originator.
//!
//! With timestamps a write of a busy stripe may be late again and again. Pauses separate conflicting requests only
//! while an attempt takes no longer than a pause; in a disk's queue it does. So a job that was overtaken often claims
//! its stripes: jobs of this originator that have yet to begin there wait until it is done. Jobs in progress end by
//! themselves, so the oldest of those with a claim always succeeds. A job that waits here has not begun and holds no
//! lock, so there is no deadlock.

use std::collections::BTreeMap;
use std::ops::Range;

use super::{Job, Originator, Purpose, What};
use crate::cluster::Volume;
use crate::units::VolumeId;

/// After this many late attempts a job claims its stripes.
const PASSED_OVER: u32 = 12;

/// The jobs with precedence, and the jobs that wait for them.
#[derive(Clone, Default, Hash)]
pub(super) struct Precedence {
    /// The claims, the oldest first.
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

    /// Whether a job has to wait for an older claim. A rebuild does not, because others may wait for it; nor does a job
    /// with a lock.
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

    /// A job is done, or must wait for something else: others go on.
    pub(super) fn give_up_claim(&mut self, job: &mut Job) {
        let Some(claim) = job.claim.take() else { return };
        self.precedence.claims.remove(&claim);
        self.jobs.all_ready(self.precedence.held.drain(..));
    }
}
