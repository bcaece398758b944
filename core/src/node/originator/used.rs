//! Zeroing, hole maps and verification of many stripes. The disks are first asked which stripes are in use, a GiB of
//! the volume at a time. Stripes that are not in use on any disk of their extent read as zeros already. So the work
//! depends on the written content, and not on the length of the request.
//!
//! Why unused stripes need not be written: such a stripe was never written, or its zeros are in place on every disk,
//! and nothing is undecided there. Zeroing would change nothing, for hosts and for disks that come back later: no disk
//! has content that a version would have to be later than. It is as if it had been zeroed at the timestamp of the
//! question: later writes count as in use, and no write with an earlier timestamp is admitted any more.

use std::ops::Range as Stripes;

use super::requests::{Answer, whole_stripes};
use super::spent::Course;
use super::{Attempt, Job, Originator, Purpose, What};
use crate::Buffer;
use crate::cluster::Volume;
use crate::node::outbox::Outbox;
use crate::node::{Body, HostData, Wanted};
use crate::order::Ordering;
use crate::plan::{self, Calculators, Range, chunks, together};
use crate::units::ColumnSet;

/// The range of a volume of one question.
const TOGETHER: u64 = 1 << 30;
/// The most questions of a request at a time.
const AT_ONCE: u64 = 16;
/// The bytes in progress that it counts as.
pub(super) const COST: u64 = 256 << 10;
/// The most questions to the disks. After that the whole range counts as in use.
const MOST_ATTEMPTS: u32 = 3;

/// The operation on the stripes that are in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Then {
    /// They are zeroed.
    Zero,
    /// Their holes are reported.
    Holes,
    /// Their sectors written in this volume, and not in those that it lies over, are reported.
    Changed,
    /// They are verified. The question is whether they have ever been written.
    Verify,
}

impl Then {
    /// The operation on a range whose use is unknown.
    fn to(self, range: Range) -> What {
        match self {
            Then::Zero => What::Write(range, Buffer::Zero(range.len as usize)),
            Then::Holes | Then::Verify => What::Holes(range),
            Then::Changed => What::Own(range),
        }
    }
}

impl Originator {
    /// The operation on a range: several whole stripes are asked about first.
    pub(super) fn with_care(&self, volume: &Volume, range: Range, then: Then) -> Vec<What> {
        let stripe = volume.geometry.stripe_bytes();
        let Some(inner) = whole_stripes(volume, range).filter(|inner| inner.len > stripe) else {
            return self.cut(volume, range, |r| then.to(r));
        };
        let part = |from: u64, to: u64| Range { offset: from, len: to - from };
        let mut out = Vec::new();
        if inner.offset > range.offset {
            out.extend(self.cut(volume, part(range.offset, inner.offset), |r| then.to(r)));
        }
        let each = (inner.len / AT_ONCE).max(TOGETHER).next_multiple_of(stripe);
        for from in (inner.offset..inner.end()).step_by(each as usize) {
            out.push(What::Used(part(from, inner.end().min(from + each)), then));
        }
        if range.end() > inner.end() {
            out.extend(self.cut(volume, part(inner.end(), range.end()), |r| then.to(r)));
        }
        out
    }

    /// A job asks about its first part alone, and about the next when that is done or its writes are queued: a request
    /// for petabytes takes no more memory than others, and delays none of them.
    pub(super) fn leave_rest(&self, job: &mut Job, volume: &Volume) {
        let What::Used(range, then) = job.what else { return };
        let stripe = volume.geometry.stripe_bytes();
        let most = (range.offset + TOGETHER.max(stripe)) / stripe * stripe;
        let end = volume.extent_end(range.offset / stripe) * stripe;
        let to = range.end().min(most).min(end);
        if then != Then::Verify && to < range.end() {
            let end = job.rest.map_or(range.end(), |rest| rest.end());
            job.what = What::Used(Range { offset: range.offset, len: to - range.offset }, then);
            job.rest = Some(Range { offset: to, len: end - to });
        }
    }

    /// A range in chunks.
    pub(super) fn cut(
        &self,
        volume: &Volume,
        range: Range,
        what: impl Fn(Range) -> What,
    ) -> Vec<What> {
        let g = &volume.geometry;
        let most = together(g, volume.policy.commands(), self.most_atomic(g));
        let cut = chunks(g, range, most, |s| volume.extent_end(s).min(volume.redundancy_end(s)));
        let mut out = Vec::new();
        for chunk in cut {
            match what(chunk) {
                What::Write(..) => {
                    let policy = volume.policy_at(chunk.offset / g.stripe_bytes());
                    if self.accounts.is_closed(volume, chunk) {
                        out.push(what(chunk));
                        continue;
                    }
                    out.extend(plan::cut(g, &policy, chunk).into_iter().map(&what));
                }
                other => out.push(other),
            }
        }
        out
    }

    /// Whether the disks can be asked which stripes of a job are in use: all of them must be present, and have missed
    /// nothing. For the sectors written, enough disks to determine the content of all suffice: every write changed
    /// the parity of its units, too.
    pub(super) fn may_ask_for_used(&self, job: &Job, volume: &Volume, avoid: ColumnSet) -> bool {
        let stripes = job.what.stripes(volume);
        let enough = match job.what {
            What::Used(_, Then::Changed) => {
                volume.geometry.is_recoverable_in(stripes.clone(), avoid)
            }
            _ => self.is_whole(volume, volume.extent_of(stripes.start)),
        };
        job.attempts <= MOST_ATTEMPTS && stripes.end <= volume.extent_end(stripes.start) && enough
    }

    /// Asks all disks of an extent, or all that are present.
    pub(super) fn ask_for_used(
        &self,
        attempt: &Attempt,
        (range, then): (Range, Then),
        outbox: &mut Outbox,
    ) -> ColumnSet {
        let Attempt { ts, volume, extent, avoid, .. } = attempt;
        let is_ordered = volume.policy.ordering != Ordering::None;
        let wanted = match then {
            Then::Zero if is_ordered => Wanted::UsedBefore,
            Then::Zero | Then::Holes => Wanted::Used,
            Then::Changed => Wanted::UsedOwn,
            Then::Verify => Wanted::Placed,
        };
        let columns = &volume.extents[*extent].columns;
        let asked = match then {
            Then::Changed => ColumnSet::first(columns.len()).minus(*avoid),
            _ => ColumnSet::first(columns.len()),
        };
        for (node, _) in asked.iter().map(|column| columns[column]) {
            let body = Body::Read {
                ts: *ts,
                volume: volume.id,
                range,
                avoid: ColumnSet::EMPTY,
                calculators: Calculators::default(),
                wanted,
                holder: None,
            };
            outbox.send_after(node, body, 1);
        }
        asked
    }

    /// It is known which stripes are in use: the others are done, or reported as holes.
    pub(super) fn found_used(
        &mut self,
        job: Job,
        volume: &Volume,
        mut used: Vec<Stripes<u64>>,
        outbox: &mut Outbox,
    ) {
        let (What::Used(range, then), Purpose::Host(id)) = (&job.what, job.purpose) else { return };
        let (range, then, stripe) = (*range, *then, volume.geometry.stripe_bytes());
        used.sort_by_key(|run| run.start);
        if then == Then::Verify {
            if let Some(scrub) = self.scrub_of(id) {
                scrub.found_used(range.stripes(&volume.geometry), used);
            }
            return self.finish(job, Ok(HostData::Done), outbox);
        }
        let (mut at, mut what, mut holes) = (range.offset, Vec::new(), Vec::new());
        let part = |from: u64, to: u64| Range { offset: from, len: to - from };
        for run in used {
            let bytes = run.start * stripe..run.end.saturating_mul(stripe).min(range.end());
            let from = bytes.start.max(at);
            if from >= bytes.end {
                continue;
            }
            holes.extend((from > at).then(|| part(at, from)));
            what.extend(self.cut(volume, part(from, bytes.end), |r| then.to(r)));
            at = bytes.end;
        }
        holes.extend((range.end() > at).then(|| part(at, range.end())));
        let Some(request) = self.requests.get_mut(&id) else { return };
        request.left += what.len();
        if let Answer::Extents(all) = &mut request.answer {
            all.extend(holes.into_iter().map(|hole| (hole.offset, vec![(hole.len, true)])));
        }
        if let Some(rest) = job.rest {
            request.left += 1;
            what.push(What::Used(rest, then));
        }
        let course = Course::new(outbox.now);
        let jobs =
            what.into_iter().map(|what| Job { course, ..Job::new(job.purpose, volume.id, what) });
        self.jobs.queue(jobs);
        self.finish(job, Ok(HostData::Done), outbox);
    }

    /// The question has failed: all stripes may be in use.
    pub(super) fn is_all_used(&mut self, job: Job, volume: &Volume, outbox: &mut Outbox) {
        let stripes = job.what.stripes(volume);
        self.found_used(job, volume, vec![stripes], outbox);
    }
}

/// The disks are asked which of the stripes from this one on have ever been written.
pub(super) fn to_verify(volume: &Volume, stripe: u64) -> What {
    let bytes = volume.geometry.stripe_bytes();
    let most = stripe + (TOGETHER / bytes).max(1);
    let end = volume.extent_end(stripe).min(volume.stripes()).min(most);
    let range = Range { offset: stripe * bytes, len: (end - stripe) * bytes };
    What::Used(range, Then::Verify)
}

/// The runs of stripes that a column says are in use.
pub(super) fn runs_of(pieces: &[(u64, Buffer)]) -> impl Iterator<Item = Stripes<u64>> + '_ {
    pieces.iter().map(|(first, count)| {
        let count = <[u8; 8]>::try_from(&count.to_bytes()[..]).map_or(u64::MAX, u64::from_le_bytes);
        *first..first.saturating_add(count)
    })
}
