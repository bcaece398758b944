//! Read-modify-write requests of hosts: read and written at one timestamp, so that no other write comes between (a base
//! storage transaction, shared storage 4.5).
//!
//! A reader's timestamp stays at the sectors, which refuse earlier writes from then on. A later write that arrives
//! before ours refuses ours, and the attempt begins again with a read. A lost column is solved for from others, which
//! have the timestamps: each write of the lost column also writes parity.

use std::sync::Arc;

use super::job::Modifies;
use super::requests::{Answer, OpenRequest};
use super::spent::Course;
use super::{Attempt, Job, Originator, Purpose, What};
use crate::Buffer;
use crate::cluster::Volume;
use crate::node::outbox::Outbox;
use crate::node::{HostError, Modification};
use crate::order::Origin;
use crate::plan::Range;
use crate::units::{ColumnSet, Timestamp};

/// What a host asks for.
pub(super) struct HostModify {
    pub offset: u64,
    pub data: Buffer,
    pub by: Modification,
    pub origin: Option<Origin>,
}

impl Originator {
    /// A host's request.
    pub(super) fn modify(
        &mut self,
        id: u64,
        volume: &Volume,
        HostModify { offset, data, by, origin }: HostModify,
        outbox: &mut Outbox,
    ) {
        let range = Range { offset, len: data.len() as u64 };
        let part = |r: Range| {
            let at = (r.offset - offset) as usize;
            data.slice(at, at + r.len as usize)
        };
        let what = self.cut(volume, range, |r| What::Write(r, part(r)));
        let fits = match &by {
            Modification::IfEqual(expected) => expected.len() == data.len(),
            Modification::Or => true,
        };
        let is_whole = what.len() == 1 || matches!(by, Modification::Or);
        // When it was sent first, the policy may have allowed it.
        let again = origin.is_some_and(|o| o.again.is_some());
        if !fits || !(again || is_whole && volume.policy.can_modify()) {
            return outbox.reply(id, Err(HostError::NotOffered));
        }
        let request = OpenRequest::new(volume.id, Answer::Done, what.len());
        self.requests.insert(id, Box::new(request));
        let course = Course::new(outbox.now);
        self.jobs.queue(what.into_iter().map(|what| {
            let data = what.written().expect("only writes are cut").1.clone();
            let by = by.clone();
            let modifies = Some(Box::new(Modifies { by, data, is_whole, has_read: false }));
            Job { course, modifies, ..Job::new(Purpose::Host(id), volume.id, what) }
        }));
    }

    /// The old content has been read: the job writes at the same timestamp, or fails.
    pub(super) fn has_read_first(
        &mut self,
        ts: Timestamp,
        (mut job, volume, extent): (Job, Arc<Volume>, usize),
        (found, avoid): (Vec<Buffer>, ColumnSet),
        outbox: &mut Outbox,
    ) {
        let found = Buffer::join(&found);
        match written(&mut job, &found) {
            Ok(()) if !self.config.writes_at_once() => {
                let ts = self.clock.issue(outbox.now);
                self.begin(Attempt { ts, job, volume, extent, avoid }, outbox);
            }
            Ok(()) => self.begin(Attempt { ts, job, volume, extent, avoid }, outbox),
            Err(at) => self.refuse_begun(job, HostError::Differs { at: at as u64 }, outbox),
        }
    }
}

/// Whether a job reads before it writes, and the policy does not allow that, or not any more.
pub(super) fn is_forbidden(job: &Job, volume: &Volume) -> bool {
    let modifies = job.modifies.as_ref().filter(|_| matches!(job.what, What::Write(..)));
    modifies.is_some_and(|m| !(m.is_whole && volume.policy.can_modify()))
}

/// Sets the new content of a job. Fails with the first byte that differs from the expected content.
fn written(job: &mut Job, found: &[u8]) -> Result<(), usize> {
    let (Some(modifies), What::Write(_, data)) = (&mut job.modifies, &mut job.what) else {
        unreachable!("only such jobs read first")
    };
    modifies.has_read = true;
    let given = modifies.data.to_bytes();
    debug_assert_eq!(given.len(), found.len(), "all of it was read");
    *data = match &modifies.by {
        Modification::IfEqual(expected) => {
            let expected = expected.to_bytes();
            if let Some(at) = expected.iter().zip(found).position(|(a, b)| a != b) {
                return Err(at);
            }
            modifies.data.clone()
        }
        Modification::Or => {
            let or: Vec<u8> = given.iter().zip(found).map(|(a, b)| a | b).collect();
            or.into()
        }
    };
    Ok(())
}
