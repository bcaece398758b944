//! Requests of a host to all disks at once: to make written content durable (a flush), to compute deferred parity, or
//! to list exposed or lost data. Also flushes of aborts before a write is refused. They are done when each disk has
//! reported its part.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::requests::{Answer, OpenRequest, joined};
use super::{Job, Originator};
use crate::cluster::Volume;
use crate::node::account::LEARNS;
use crate::node::outbox::Outbox;
use crate::node::worker::joined_losses;
use crate::node::{Body, HostData, HostError, LostRange, MOST_LOST};
use crate::plan::Range;
use crate::policy;
use crate::units::{Nanos, NodeId, VolumeId};

/// A flush, or the refreshing of a range, in progress.
#[derive(Clone, Hash)]
pub(super) struct Flush {
    then: Then,
    asks: Asks,
    left: BTreeSet<NodeId>,
    asked: Nanos,
}

/// The next step when all disks have answered.
#[derive(Clone, Hash)]
enum Then {
    /// A host's request is answered.
    Answer(u64),
    /// A write fails, which has not happened and must not.
    Refuse(Box<Job>, HostError),
}

/// The request to the disks.
#[derive(Clone, Copy, Hash)]
enum Asks {
    /// Make written content durable.
    Flush,
    /// Compute the deferred parity of this range.
    Refresh(VolumeId, Range),
    /// List the lost part of this range.
    Lost(VolumeId, Range),
    /// List the exposed part of this range.
    Exposed(VolumeId, Range),
}

impl Originator {
    /// With the journal, acknowledged content is already durable. It may have to be redundant, too.
    pub(super) fn flush(&mut self, id: u64, volume: &Volume, outbox: &mut Outbox) {
        let redundancy = &volume.policy.redundancy;
        let waits = volume.defers() && redundancy.flush == policy::Flush::Redundant;
        let asks = match volume.policy.is_journaled() {
            true if !waits => return outbox.reply(id, Ok(HostData::Done)),
            true => Asks::Refresh(volume.id, Range { offset: 0, len: volume.size }),
            false => Asks::Flush,
        };
        self.requests.insert(id, Box::new(OpenRequest::new(volume.id, Answer::Done, 1)));
        self.ask_disks(id, asks, outbox);
    }

    /// Computes the deferred parity of a range, on all disks.
    pub(super) fn refresh(&mut self, id: u64, volume: &Volume, range: Range, outbox: &mut Outbox) {
        self.requests.insert(id, Box::new(OpenRequest::new(volume.id, Answer::Refreshed(0), 1)));
        self.ask_disks(id, Asks::Refresh(volume.id, range), outbox);
    }

    /// Lists the permanently lost part of a range, on all disks.
    pub(super) fn list_lost(
        &mut self,
        id: u64,
        volume: &Volume,
        range: Range,
        outbox: &mut Outbox,
    ) {
        let answer = Answer::Lost(0, Vec::new());
        self.requests.insert(id, Box::new(OpenRequest::new(volume.id, answer, 1)));
        self.ask_disks(id, Asks::Lost(volume.id, range), outbox);
    }

    /// Lists the part of a range that deferred parity exposes, on all disks.
    pub(super) fn list_exposed(
        &mut self,
        id: u64,
        volume: &Volume,
        range: Range,
        outbox: &mut Outbox,
    ) {
        let answer = Answer::Exposed(range, Vec::new());
        self.requests.insert(id, Box::new(OpenRequest::new(volume.id, answer, 1)));
        self.ask_disks(id, Asks::Exposed(volume.id, range), outbox);
    }

    /// A host's write fails, and must never happen. An attempt at it may have been prepared by some nodes, whose aborts are
    /// not durable: if all power failed now they would commit it. So it fails when they are.
    pub(super) fn refuse(&mut self, job: Job, error: HostError, outbox: &mut Outbox) {
        let is_voted = |v: &Arc<Volume>| v.policy.is_journaled() && v.policy.commit.is_voted();
        // An earlier attempt may have been voted on under another policy.
        if job.may_be_prepared() || self.map.volumes.get(&job.volume).is_some_and(is_voted) {
            return self.ask_for(Then::Refuse(Box::new(job), error), Asks::Flush, outbox);
        }
        self.finish(job, Err(error), outbox);
    }

    /// Fails a write at once that was not prepared before, and others as [`Originator::refuse`] does.
    pub(super) fn refuse_begun(&mut self, job: Job, error: HostError, outbox: &mut Outbox) {
        match job.may_be_prepared() {
            true => self.refuse(job, error, outbox),
            false => self.finish(job, Err(error), outbox),
        }
    }

    /// The disks that have to answer.
    fn disks_asked(&self, then: &Then) -> BTreeSet<NodeId> {
        let all = self.map.with_disks();
        let Then::Refuse(job, _) = then else { return all.collect() };
        let Some(volume) = self.map.volumes.get(&job.volume) else { return BTreeSet::new() };
        let extent = volume.extent_of(job.what.first_stripe(volume));
        // A disk that a column leaves may have prepared an attempt.
        let its = |node: &NodeId| {
            volume.extents.get(extent).is_some_and(|extent| extent.place_on(*node).is_some())
        };
        all.filter(its).collect()
    }

    fn ask_disks(&mut self, request: u64, asks: Asks, outbox: &mut Outbox) {
        self.ask_for(Then::Answer(request), asks, outbox);
    }

    fn ask_for(&mut self, then: Then, asks: Asks, outbox: &mut Outbox) {
        let left = self.disks_asked(&then);
        let request = then.request();
        let id = self.flushes.add(Flush { then, asks, left, asked: outbox.now });
        // In a new epoch all disks are asked again, and earlier answers do not count.
        match request.and_then(|id| self.requests.get_mut(&id)).map(|r| &mut r.answer) {
            Some(Answer::Refreshed(left)) => *left = 0,
            Some(Answer::Lost(bytes, found)) => (*bytes, *found) = (0, Vec::new()),
            Some(Answer::Exposed(range, found)) => {
                if let Asks::Exposed(_, whole) = asks {
                    (*range, *found) = (whole, Vec::new());
                }
            }
            _ => {}
        }
        self.flushes.get_mut(id).expect("just added").ask(id, outbox);
        self.tell_controller(id, asks, outbox);
        self.end_flush(id, outbox);
    }

    /// A controller without a disk has parity computed, too. It answers at once, and its answer does not count.
    fn tell_controller(&self, id: u64, asks: Asks, outbox: &mut Outbox) {
        let Asks::Refresh(volume, range) = asks else { return };
        let is_central = self.map.volumes.get(&volume).is_some_and(|v| v.has_one_account());
        let server =
            self.map.server().filter(|n| is_central && self.map.with_disks().all(|d| d != *n));
        if let Some(node) = server {
            outbox.send(node, Body::Refresh { id, volume, range });
        }
    }

    /// Repeats the request to disks without an answer.
    pub(super) fn tick_flushes(&mut self, outbox: &mut Outbox) {
        let (now, patience) = (outbox.now, self.config.patience);
        let late = self.flushes.iter_mut().filter(|f| now.saturating_sub(f.1.asked) >= patience);
        late.for_each(|(id, flush)| flush.ask(id, outbox));
    }

    /// In a new epoch all disks are asked again.
    pub(super) fn enter_flushes(&mut self, outbox: &mut Outbox) {
        for flush in self.flushes.take_all() {
            self.ask_for(flush.then, flush.asks, outbox);
        }
    }

    /// A disk has made its content durable.
    pub fn on_flushed(&mut self, from: NodeId, id: u64, outbox: &mut Outbox) {
        if let Some(flush) = self.flushes.get_mut(id) {
            flush.left.remove(&from);
            self.end_flush(id, outbox);
        }
    }

    /// A disk has computed its parity, except this number of sectors.
    pub fn on_refreshed(&mut self, from: NodeId, id: u64, left: u64, outbox: &mut Outbox) {
        let Some(flush) = self.flushes.get_mut(id) else { return };
        if flush.left.remove(&from)
            && let Some(request) = flush.then.request().and_then(|id| self.requests.get_mut(&id))
            && let Answer::Refreshed(sum) = &mut request.answer
        {
            *sum += left;
        }
        self.end_flush(id, outbox);
    }

    /// A disk has reported its lost data.
    pub fn on_lost_here(
        &mut self,
        from: NodeId,
        id: u64,
        bytes: u64,
        found: Vec<LostRange>,
        outbox: &mut Outbox,
    ) {
        let Some(flush) = self.flushes.get_mut(id) else { return };
        if flush.left.remove(&from)
            && let Some(request) = flush.then.request().and_then(|id| self.requests.get_mut(&id))
            && let Answer::Lost(sum, all) = &mut request.answer
        {
            *sum += bytes;
            all.extend(found);
            all.sort_by_key(|l| l.range.offset);
            *all = joined_losses(std::mem::take(all));
            all.truncate(MOST_LOST);
        }
        self.end_flush(id, outbox);
    }

    /// A disk has reported the data that its deferred parity exposes, up to an offset.
    pub fn on_exposed_here(
        &mut self,
        from: NodeId,
        id: u64,
        until: u64,
        found: Vec<Range>,
        outbox: &mut Outbox,
    ) {
        if id & LEARNS != 0 {
            return self.accounts.hears(from, id, (until, found), outbox);
        }
        let Some(flush) = self.flushes.get_mut(id) else { return };
        if flush.left.remove(&from)
            && let Some(request) = flush.then.request().and_then(|id| self.requests.get_mut(&id))
            && let Answer::Exposed(range, all) = &mut request.answer
        {
            range.len = range.len.min(until.saturating_sub(range.offset));
            all.extend(found);
        }
        self.end_flush(id, outbox);
    }

    /// Ends the request when it waits for no disk any more.
    fn end_flush(&mut self, id: u64, outbox: &mut Outbox) {
        match self.flushes.take_if(id, |f| f.left.is_empty()).map(|flush| flush.then) {
            Some(Then::Answer(id)) => {
                if let Some(request) = self.requests.remove(&id) {
                    outbox.reply(id, request.result());
                }
            }
            Some(Then::Refuse(job, error)) => self.finish(*job, Err(error), outbox),
            None => {}
        }
    }
}

impl Then {
    /// The host's request that is answered.
    fn request(&self) -> Option<u64> {
        match self {
            Then::Answer(id) => Some(*id),
            Then::Refuse(..) => None,
        }
    }
}

impl Flush {
    fn ask(&mut self, id: u64, outbox: &mut Outbox) {
        self.asked = outbox.now;
        for node in &self.left {
            let body = match self.asks {
                Asks::Flush => Body::Flush { id },
                Asks::Refresh(volume, range) => Body::Refresh { id, volume, range },
                Asks::Lost(volume, range) => Body::Lost { id, volume, range },
                Asks::Exposed(volume, range) => Body::Exposed { id, volume, range },
            };
            outbox.send(*node, body);
        }
    }
}

/// A range, cut where its exposed parts begin and end: lengths, and whether each is exposed.
pub(super) fn cut(range: Range, mut exposed: Vec<Range>) -> Vec<(u64, bool)> {
    exposed.sort_by_key(|r| r.offset);
    let (mut out, mut at) = (Vec::new(), range.offset);
    for found in exposed {
        let (from, to) = (found.offset.max(at), found.end().min(range.end()));
        if from < to {
            out.extend([(from - at, false), (to - from, true)]);
            at = to;
        }
    }
    out.push((range.end() - at, false));
    joined(out.into_iter().filter(|piece| piece.0 > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_disks_expose_may_overlap_and_reach_beyond_what_all_have_looked_at() {
        let range = |from: u64, to: u64| Range { offset: from, len: to - from };
        let found = vec![range(50, 60), range(10, 20), range(15, 30), range(30, 40), range(12, 14)];
        assert_eq!(
            cut(range(0, 55), found.clone()),
            [(10, false), (30, true), (10, false), (5, true)]
        );
        assert_eq!(cut(range(12, 45), found), [(28, true), (5, false)]);
        assert_eq!(cut(range(5, 7), Vec::new()), [(2, false)]);
    }
}
