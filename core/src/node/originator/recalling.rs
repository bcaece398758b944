//! Repeated requests of a node that has stopped since, or that their host has left. The participants have settled the
//! parts that had begun, and another host may have written over them. So nothing of such a request is done before its
//! outcome is known.
//!
//! The workers that a part would change are asked, in an epoch after that of all attempts, so that no attempt can begin
//! there any more. The same is done for a part that this node began, if all nodes with a say in it have gone. If its
//! host does not name requests, that part goes by the timestamp of the attempt, which nobody remembers once it is over:
//!
//! | answers | result for the part |
//! |---|---|
//! | one has something undecided, or is finding out what it has | they are asked again |
//! | it has happened | it is done |
//! | in every stripe a parity worker, or all data workers, remember all that far back, or have no write there since | it has not happened, and is begun |
//! | none of these, and the volume has no votes now | it is begun: parts of it may have happened |
//! | none of these, and the content equals the request's | it is done |
//! | none of these, and the content differs | unknown; the host is told so |
//!
//! A worker of parity that covers the change, and that was never away, had a part in every attempt. So has every data
//! worker in the attempts that touch its column; a worker that was down counts as not remembering. A worker that only
//! marked its parity remembers the attempt, but not its outcome; if it does not remember that far back, its marks count
//! as writes since. Where writes may rely on marks, parity may never have heard of one. There only the worker with the
//! data is believed, and if it is away, the content is compared when it is back.

use std::collections::{BTreeMap, BTreeSet};

use super::{Job, Originator, Purpose, What};
use crate::Buffer;
use crate::cluster::Volume;
use crate::node::outbox::Outbox;
use crate::node::{Body, HostData, HostError, Recollection, Task};
use crate::order::{Again, Asker, Origin, RequestId};
use crate::plan::Range;
use crate::policy::Policy;
use crate::units::{ColumnSet, Epoch, NodeId, Timestamp};

/// A part of a request whose outcome is asked for.
#[derive(Clone, Hash)]
pub(super) struct Recall {
    job: Job,
    request: RequestId,
    again: Again,
    /// The workers that have not answered, or had something undecided.
    left: BTreeSet<NodeId>,
    answers: BTreeMap<NodeId, Recollection>,
    happened: Vec<Range>,
}

impl Originator {
    /// The known origin of a host's request.
    fn origin(&self, job: &Job) -> Option<Origin> {
        let Purpose::Host(id) = job.purpose else { return None };
        self.requests.get(&id)?.origin
    }

    /// Whether the volume's reservations have changed since a host's write was permitted.
    pub(super) fn is_outdated(&self, job: &Job, volume: &Volume) -> bool {
        let permitted = self.origin(job).map(|o| o.permitted);
        permitted.is_some_and(|version| version < volume.reservations.version)
            && self.config.heeds_reservations()
    }

    /// The host and number of the request that a write is part of.
    pub(super) fn asker(&self, job: &Job) -> Option<Asker> {
        self.origin(job).map(|o| o.asker)
    }

    /// Whether the outcome of an attempt at a host's write can be asked for.
    pub(super) fn recallable(&self, job: &Job, policy: &Policy) -> bool {
        // Without votes a part may have happened whatever the others answer.
        let voted = policy.commit.is_voted();
        let is_write = matches!((&job.what, job.purpose), (What::Write(..), Purpose::Host(_)));
        is_write && voted && self.config.recalls()
    }

    /// The name of a write, and since when it is asked for, if its outcome must be known first. Earlier attempts may have been
    /// voted on where writes are not now.
    pub(super) fn must_recall(&self, job: &Job) -> Option<(RequestId, Again)> {
        let in_doubt = job.in_doubt.as_ref().map(|doubt| doubt.again);
        let is_write = matches!((&job.what, job.purpose), (What::Write(..), Purpose::Host(_)));
        if job.recalled || !(in_doubt.is_some() || is_write && self.config.recalls()) {
            return None;
        }
        let origin = self.origin(job);
        let again = in_doubt.or(origin.and_then(|o| o.again))?;
        let name = origin.map_or(RequestId::of_attempt(again.since), |o| o.asker.id);
        Some((name, again))
    }

    /// No node has a say any more in whether an attempt at a job happened, though some had. They may have decided it,
    /// and then lost their columns with it, or been away; and another host may have written over it. So its outcome is
    /// asked for before it begins again.
    pub(super) fn recall_attempt(&mut self, ts: Timestamp, participants: &[(usize, NodeId)]) {
        let mut job = self.txns.remove(&ts).expect("an attempt in work").job;
        job.doubts(ts, self.map.epoch, participants.iter().map(|p| p.1).collect());
        self.retry(job);
    }

    /// Fails a job. Where an earlier attempt at it may have happened, its outcome is unknown.
    pub(super) fn give_up_on(&mut self, job: Job, error: HostError, outbox: &mut Outbox) {
        let is_in_doubt = self.must_recall(&job).is_some();
        let error = if is_in_doubt { HostError::OutcomeUnknown } else { error };
        self.finish(job, Err(error), outbox);
    }

    /// Asks for the outcome of a write.
    pub(super) fn recall(
        &mut self,
        job: Job,
        (request, again): (RequestId, Again),
        volume: &Volume,
        outbox: &mut Outbox,
    ) {
        let What::Write(range, _) = job.what else { unreachable!("only writes are recalled") };
        let extent = volume.extent_of(job.what.first_stripe(volume));
        let columns = &volume.extents[extent].columns;
        let involved = columns_of(volume, range).into_iter().flat_map(|row| row.changed.iter());
        let took_part = job.in_doubt.iter().flat_map(|doubt| &doubt.participants);
        let nodes = involved.map(|c| columns[c].0).chain(took_part.copied());
        let left = nodes.filter(|n| self.map.is_up(*n)).collect::<BTreeSet<_>>();
        let (answers, happened) = (BTreeMap::new(), Vec::new());
        let recall = Recall { job, request, again, left, answers, happened };
        let id = self.recalls.add(recall);
        let recall = self.recalls.get_mut(id).expect("just added");
        ask_recall(id, recall, self.map.epoch, outbox);
    }

    /// A worker's answer.
    pub fn on_recalled(
        &mut self,
        from: NodeId,
        id: u64,
        happened: Vec<Range>,
        recollection: Recollection,
        outbox: &mut Outbox,
    ) {
        let Some(recall) = self.recalls.get_mut(id).filter(|r| r.left.contains(&from)) else {
            return;
        };
        recall.happened.extend(happened);
        if recollection == Recollection::Undecided {
            return;
        }
        recall.left.remove(&from);
        recall.answers.insert(from, recollection);
        if let Some(recall) = self.recalls.take_if(id, |r| r.left.is_empty()) {
            self.recalled(recall, outbox);
        }
    }

    /// All have answered.
    fn recalled(&mut self, recall: Recall, outbox: &mut Outbox) {
        let Recall { mut job, answers, happened, .. } = recall;
        let Some(volume) = self.map.volumes.get(&job.volume).cloned() else {
            return self.jobs.ready(job);
        };
        let What::Write(range, data) = job.what.clone() else { unreachable!("only writes are") };
        let rest = without(range, &happened);
        if rest.is_empty() {
            return self.finish(job, Ok(HostData::Done), outbox);
        }
        let touched =
            answers.values().any(|a| *a == Recollection::Touched) || volume.relies_on_marks();
        // A write without votes may have been applied in part: it is completed.
        let may_compare = volume.policy.commit.is_voted() || job.modifies.is_some();
        let compares = may_compare && touched && !is_known(&volume, range, &answers);
        self.give_up_claim(&mut job);
        self.jobs.give_room(&mut job);
        job.recalled = true;
        if let Purpose::Host(id) = job.purpose
            && let Some(request) = self.requests.get_mut(&id)
        {
            request.left += rest.len() - 1;
        }
        for part in rest {
            let at = (part.offset - range.offset) as usize;
            let data = data.slice(at, at + part.len as usize);
            let what = if compares { What::Compare(part, data) } else { What::Write(part, data) };
            let modifies = job.modifies.as_ref().map(|m| Box::new(m.part(at, part.len as usize)));
            self.jobs.ready(Job { what, modifies, ..job.clone() });
        }
    }

    /// The content of the range of a write that may have happened.
    pub(super) fn compared(&mut self, job: Job, found: &HostData, outbox: &mut Outbox) {
        let (What::Compare(_, wanted), HostData::Bytes(found)) = (&job.what, found) else { return };
        let found = Buffer::join(found);
        let is_so = match &job.modifies {
            Some(modifies) => modifies.may_have_left(&wanted.to_bytes(), &found),
            None => wanted.to_bytes()[..] == found[..],
        };
        let result = match is_so {
            true => Ok(HostData::Done),
            false => Err(HostError::OutcomeUnknown),
        };
        self.finish(job, result, outbox);
    }

    /// Unanswered questions were lost, or had an undecided answer.
    pub(super) fn tick_recalls(&mut self, outbox: &mut Outbox) {
        let epoch = self.map.epoch;
        self.recalls.iter().for_each(|(id, recall)| ask_recall(id, recall, epoch, outbox));
    }

    /// A new epoch: other workers may be asked now.
    pub(super) fn enter_recalls(&mut self) {
        self.jobs.all_ready(self.recalls.take_all().map(|r| r.job));
    }
}

fn ask_recall(id: u64, recall: &Recall, epoch: Epoch, outbox: &mut Outbox) {
    let Recall { request, again, .. } = *recall;
    // In the epoch of an attempt it may still begin somewhere.
    if epoch <= again.epoch {
        return;
    }
    let What::Write(range, _) = recall.job.what else { return };
    let (volume, since) = (recall.job.volume, again.since);
    for node in &recall.left {
        outbox.send(*node, Body::Recall { id, request, since, volume, range });
    }
}

/// The changes of a write of a range in a stripe.
struct Row {
    changed: ColumnSet,
    /// The columns with parity of the change.
    parity: ColumnSet,
}

fn columns_of(volume: &Volume, range: Range) -> Vec<Row> {
    let g = &volume.geometry;
    let plan = Task::Write(range).plan(volume, ColumnSet::EMPTY, ColumnSet::EMPTY);
    let rows = plan.expect("all columns are there").rows;
    let row = |row: &crate::plan::WriteRow| Row {
        changed: g.columns_at(row.stripe, row.changed_seats(g)),
        parity: g.columns_at(row.stripe, row.seats_of(g, row.parities())),
    };
    rows.iter().map(row).collect()
}

/// Whether at each stripe of a write it is known that nothing has happened but the reported parts. Whatever changes data
/// changes all parity that covers it: so a parity worker that remembers all attempts, or has no write there since, speaks
/// for all data of its stripe, also for a disk that has lost what it knew.
fn is_known(volume: &Volume, range: Range, answers: &BTreeMap<NodeId, Recollection>) -> bool {
    let extent = volume.extent(range.stripes(&volume.geometry).start);
    let answer = |c: usize| answers.get(&extent.columns[c].0);
    let knows = |c: usize| answer(c) == Some(&Recollection::All);
    let stands = |c: usize| knows(c) || answer(c) == Some(&Recollection::Untouched);
    let vouches = |c: usize| stands(c) && !volume.relies_on_marks();
    let known = |row: &Row| {
        row.parity.iter().any(vouches) || row.changed.minus(row.parity).iter().all(stands)
    };
    columns_of(volume, range).iter().all(known)
}

/// The parts of a range that others leave.
fn without(range: Range, others: &[Range]) -> Vec<Range> {
    let mut left = vec![range];
    for other in others {
        let cut = |r: Range| {
            let before = r.offset..r.end().min(other.offset);
            let after = r.offset.max(other.end())..r.end();
            let some = [before, after].into_iter().filter(|p| p.start < p.end);
            some.map(|p| Range { offset: p.start, len: p.end - p.start })
        };
        left = left.into_iter().flat_map(cut).collect();
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_happened_is_taken_out() {
        let range = |offset, len| Range { offset, len };
        let whole = range(100, 50);
        assert_eq!(without(whole, &[]), [whole]);
        assert_eq!(without(whole, &[range(90, 10), range(150, 9)]), [whole]);
        assert_eq!(without(whole, &[range(110, 10)]), [range(100, 10), range(120, 30)]);
        assert_eq!(without(whole, &[range(0, 120), range(140, 60)]), [range(120, 20)]);
        assert_eq!(without(whole, &[range(100, 50)]), []);
    }
}
