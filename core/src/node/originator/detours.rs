//! Reads that avoid a slow node: their data is decoded from the other columns.
//!
//! An originator measures how long each node takes to answer reads and to vote on writes ([`super::speeds`]). A node that
//! takes several times longer than the others is *slow*: host reads avoid one that is slow at reads, but for a few that tell when it is not slow any more. A read that waits much longer than
//! reads usually take is *hedged*: it begins again without the columns that have not answered. These are at most 5 % of reads
//! (Dean and Barroso, "The Tail at Scale", 2013: hedged requests), but for reads that have waited for a second where some
//! node is much faster: where all are slow, more reads would make them slower.
//!
//! A hedged read is another attempt, with a timestamp of its own. Nothing of the first is used, so versions are never mixed.
//! No read avoids a column where others are lost already.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::speeds::Speeds;
use super::{Job, Originator, Purpose, RunningJob, State, What, unlock_given_up};
use crate::cluster::Volume;
use crate::node::outbox::Outbox;
use crate::node::{Output, SlowAt, SlowNode, Timer};
use crate::order::Ordering;
use crate::units::{ColumnSet, MILLIS, Nanos, NodeId, Timestamp, VolumeId};

/// One of this many reads that could avoid a slow node does not.
const PROBE: u64 = 32;
/// A read is hedged when it waits this many times longer than the median, within bounds.
const HEDGE_TIMES: Nanos = 8;
const HEDGE_AFTER: (Nanos, Nanos) = (5 * MILLIS, 500 * MILLIS);
/// A read that waits for this long, and many times longer than for the fastest node, is hedged regardless of others.
const TOO_LONG: Nanos = 1_000 * MILLIS;
/// One in this many reads may be hedged, and this many at once.
const ONE_IN: u64 = 20;
const BURST: u64 = 16;
/// The most answers of nodes that hedged reads avoid that are still timed.
const MOST_LATE: usize = 256;
/// The most hedges of a read.
const MOST_HEDGES: u8 = 8;

/// The nodes' times to answer reads and to vote, as their originator sees them.
#[derive(Clone, Default, Hash)]
pub(super) struct Detours {
    /// Answers of a node before it is judged, and between two judgements. With zero nothing is measured.
    few: Option<u64>,
    /// The nodes that are busy with catching up or draining.
    busy: BTreeSet<NodeId>,
    /// The volumes that had no votes or no order: parity may not match their data.
    unmatched: BTreeSet<VolumeId>,
    reads: Speeds,
    writes: Speeds,
    /// Reads that could have avoided a slow node.
    avoidable: u64,
    /// Twentieths of a read that may be hedged.
    tokens: u64,
    timer_is_set: bool,
    /// Answers that hedged reads have not waited for: each one's node and the time of the request. They show how long it takes.
    late: BTreeMap<(Timestamp, usize), (NodeId, Nanos)>,
}

impl Detours {
    pub fn new(few: Option<u64>) -> Detours {
        Detours { few, ..Detours::default() }
    }

    /// A node has voted on a host's write that began then.
    pub(super) fn has_voted(&mut self, node: NodeId, since: Nanos, now: Nanos) {
        if let Some(few) = self.few {
            self.writes.count(node, now.saturating_sub(since), now, few);
        }
    }

    /// A read that began then goes on without a node's answer.
    fn goes_on_without(&mut self, its: (Timestamp, usize), node: NodeId, since: Nanos, now: Nanos) {
        let Some(few) = self.few else { return };
        self.reads.count_at_least(node, now.saturating_sub(since), now, few);
        if self.late.len() >= MOST_LATE {
            self.late.pop_first();
        }
        self.late.insert(its, (node, since));
    }

    fn speeds(&self, at: SlowAt) -> &Speeds {
        match at {
            SlowAt::Reads => &self.reads,
            SlowAt::Writes => &self.writes,
        }
    }

    /// The waiting time after which a read is hedged.
    fn hedge_after(&self) -> Nanos {
        (self.reads.usual() * HEDGE_TIMES).clamp(HEDGE_AFTER.0, HEDGE_AFTER.1)
    }

    /// The waiting time after which a read is hedged however many others are.
    fn too_long(&self) -> Nanos {
        TOO_LONG.max(self.reads.fastest().saturating_mul(HEDGE_TIMES))
    }

    fn slow_columns(&self, volume: &Volume, extent: usize) -> ColumnSet {
        let columns = volume.extents[extent].columns.iter().enumerate();
        columns.filter(|(_, (node, _))| self.reads.is_slow(*node)).map(|(c, _)| c).collect()
    }
}

impl Originator {
    /// The additional columns that a read avoids: those of slow nodes, or those that have kept it waiting.
    pub(super) fn detour(
        &mut self,
        job: &mut Job,
        volume: &Volume,
        extent: usize,
        must: ColumnSet,
    ) -> ColumnSet {
        let reads = matches!((&job.purpose, &job.what), (Purpose::Host(_), What::Read(_)));
        if self.detours.few.is_none() || !reads || !self.may_detour(volume, extent) {
            return ColumnSet::EMPTY;
        }
        let detour = match job.detour {
            Some(detour) => detour,
            None if self.detours.reads.none_is_slow() => return ColumnSet::EMPTY,
            None => {
                self.detours.avoidable += 1;
                let probes = self.detours.avoidable.is_multiple_of(PROBE);
                let slow = self.detours.slow_columns(volume, extent);
                if probes { ColumnSet::EMPTY } else { slow }
            }
        };
        job.detour = Some(detour);
        let stripes = job.what.stripes(volume);
        match volume.geometry.is_recoverable_in(stripes, must.union(detour)) {
            true => detour.minus(must),
            false => ColumnSet::EMPTY,
        }
    }

    /// Whether decoded content is certain to equal the stored content. Without votes or an order parity may not match
    /// the data for a while, after a host or a node died during a write; also when the volume has got them since.
    fn may_detour(&self, volume: &Volume, extent: usize) -> bool {
        !self.detours.unmatched.contains(&volume.id) && self.is_whole(volume, extent)
    }

    /// A read has begun: its time is watched.
    pub(super) fn may_be_hedged(&mut self, job: &Job, outbox: &mut Outbox) {
        if self.detours.few.is_none() || !matches!(job.what, What::Read(_)) {
            return;
        }
        self.detours.tokens = (self.detours.tokens + 1).min(BURST * ONE_IN);
        if !std::mem::replace(&mut self.detours.timer_is_set, true) {
            outbox.push(Output::Timer(Timer::Hedge, self.detours.hedge_after()));
        }
    }

    /// A node has answered a read that began then.
    pub(super) fn has_answered(&mut self, node: NodeId, since: Nanos, now: Nanos) {
        if let Some(few) = self.detours.few {
            self.detours.reads.count(node, now.saturating_sub(since), now, few);
        }
    }

    /// A column has answered a read that is not under way any more.
    pub(super) fn has_answered_late(&mut self, ts: Timestamp, column: usize, now: Nanos) {
        if let Some((node, since)) = self.detours.late.remove(&(ts, column)) {
            self.has_answered(node, since, now);
        }
    }

    /// Hedges reads that have waited for long, while the node serves. Otherwise they begin again when it does.
    pub fn on_hedge(&mut self, serving: bool, outbox: &mut Outbox) {
        let (now, after) = (outbox.now, self.detours.hedge_after());
        let too_long = self.detours.too_long();
        self.detours.timer_is_set = false;
        if !serving {
            return;
        }
        let waited = |txn: &RunningJob| now.saturating_sub(txn.started);
        let late = self.txns.iter().filter(|(_, txn)| waited(txn) >= after);
        let late = late.filter(|(_, txn)| self.awaited_columns(txn).is_some());
        for ts in late.map(|(ts, _)| *ts).collect::<Vec<Timestamp>>() {
            let is_due = waited(&self.txns[&ts]) >= too_long;
            if !is_due && self.detours.tokens < ONE_IN {
                continue;
            }
            self.detours.tokens = self.detours.tokens.saturating_sub(ONE_IN);
            self.hedge(ts, outbox);
        }
        if self.txns.iter().any(|(_, txn)| matches!(txn.state, State::Reading(_))) {
            self.detours.timer_is_set = true;
            outbox.push(Output::Timer(Timer::Hedge, after));
        }
    }

    /// The columns that keep a host's read waiting, if it can do without them.
    fn awaited_columns(&self, txn: &RunningJob) -> Option<ColumnSet> {
        let State::Reading(reading) = &txn.state else { return None };
        let is_hosts = matches!(txn.job.purpose, Purpose::Host(_));
        let may = is_hosts && txn.job.hedges < MOST_HEDGES && !reading.columns_wait();
        let awaited = reading.awaited();
        let without = || {
            let stripes = txn.job.what.stripes(&txn.volume);
            txn.volume.geometry.is_recoverable_in(stripes, awaited)
        };
        let is_read = matches!(txn.job.what, What::Read(_));
        (may && is_read && self.may_detour(&txn.volume, txn.extent) && without()).then_some(awaited)
    }

    fn hedge(&mut self, ts: Timestamp, outbox: &mut Outbox) {
        let awaited = self.awaited_columns(&self.txns[&ts]).expect("it has been looked at");
        let mut txn = self.txns.remove(&ts).expect("just seen");
        for column in awaited.iter() {
            let node = txn.volume.extents[txn.extent].columns[column].0;
            self.detours.goes_on_without((ts, column), node, txn.started, outbox.now);
        }
        txn.job.course.silent(outbox.now);
        unlock_given_up(ts, &txn, outbox);
        txn.job.detour = Some(awaited);
        txn.job.hedges += 1;
        if !self.config.hedges_afresh()
            && let State::Reading(reading) = txn.state
        {
            txn.job.kept = reading.into_pieces();
        }
        outbox.counters.hedged += 1;
        self.retry(txn.job);
    }

    /// Nodes that are slow, and are not busy with catching up or draining.
    pub fn slow_nodes(&self) -> Vec<SlowNode> {
        let few = self.detours.few.unwrap_or(0);
        let found = SlowAt::ALL.into_iter().flat_map(|at| {
            let speeds = self.detours.speeds(at);
            speeds.slow().filter_map(move |(node, seen_for)| {
                let (takes, others) = (speeds.of(node), speeds.others(node, few)?);
                Some(SlowNode { node, at, takes, others, seen_for })
            })
        });
        found.filter(|slow| !self.detours.busy.contains(&slow.node)).collect()
    }

    /// How long half of a node's answers take at most; 0 if that is not known.
    pub fn takes(&self, at: SlowAt, node: NodeId) -> Nanos {
        self.detours.speeds(at).of(node)
    }

    /// A new map: nodes that have left it are forgotten. One that has just caught up was busy until now, and is judged by
    /// its later answers.
    pub(super) fn enter_detours(&mut self) {
        let matches =
            |v: &&Arc<Volume>| v.policy.commit.is_voted() && v.policy.ordering != Ordering::None;
        let unmatched = self.map.volumes.values().filter(|v| !matches(v)).map(|v| v.id);
        self.detours.unmatched.extend(unmatched);
        let up: BTreeSet<NodeId> = self.map.up().collect();
        let busy = self.map.stale().intersection(&up).copied().collect();
        let before = std::mem::replace(&mut self.detours.busy, busy);
        self.detours.late.retain(|_, (node, _)| up.contains(node));
        for speeds in [&mut self.detours.reads, &mut self.detours.writes] {
            speeds.retain(&up);
            before.difference(&self.detours.busy).for_each(|node| speeds.begin_again(*node));
        }
    }
}
