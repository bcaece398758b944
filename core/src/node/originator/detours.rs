//! Reads that avoid a slow node: their data is decoded from the other columns.
//!
//! An originator measures how long each node takes to answer reads. A node that takes several times longer than the others is
//! *slow*: host reads avoid it, but for a few that tell when it is not slow any more. A read that waits much longer than
//! reads usually take is *hedged*: it begins again without the columns that have not answered. These are at most 5 % of reads
//! (Dean and Barroso, "The Tail at Scale", 2013: hedged requests), but for reads that have waited for a second.
//!
//! A hedged read is another attempt, with a timestamp of its own. Nothing of the first is used, so versions are never mixed.
//! No read avoids a column where others are lost already.

use std::collections::{BTreeMap, BTreeSet};

use super::{Job, Originator, Purpose, RunningJob, State, What, unlock_given_up};
use crate::cluster::Volume;
use crate::node::outbox::Outbox;
use crate::node::{Output, SlowNode, Timer};
use crate::order::Ordering;
use crate::units::{ColumnSet, MILLIS, Nanos, NodeId, Timestamp};

/// The factor by which a slow node is slower than the others, and the least difference.
const TIMES: Nanos = 4;
const AT_LEAST: Nanos = MILLIS;
/// One of this many reads that could avoid a slow node does not.
const PROBE: u64 = 32;
/// A read is hedged when it waits this many times longer than the median, within bounds.
const HEDGE_TIMES: Nanos = 8;
const HEDGE_AFTER: (Nanos, Nanos) = (5 * MILLIS, 500 * MILLIS);
/// A read that waits for this long is hedged regardless of others.
const TOO_LONG: Nanos = 1_000 * MILLIS;
/// One in this many reads may be hedged, and this many at once.
const ONE_IN: u64 = 20;
const BURST: u64 = 16;
/// The most hedges of a read.
const MOST_HEDGES: u8 = 8;
/// A node is reported as slow when it has been slow for this long, by at least this difference.
const SAID_AFTER: Nanos = 10_000 * MILLIS;
const SAID_FROM: Nanos = 5 * MILLIS;

/// The nodes' times to answer reads, as their originator sees them.
#[derive(Clone, Default, Hash)]
pub(super) struct Detours {
    /// Answers of a node before it is judged, and between two judgements. With zero nothing is measured.
    few: Option<u64>,
    nodes: BTreeMap<NodeId, Answers>,
    /// The slow nodes, and since when.
    slow: BTreeMap<NodeId, Nanos>,
    /// Answers until the next judgement.
    until_judged: u64,
    /// Reads that could have avoided a slow node.
    avoidable: u64,
    /// Twentieths of a read that may be hedged.
    tokens: u64,
    timer_is_set: bool,
}

/// A node's times.
#[derive(Clone, Copy, Default, Hash)]
struct Answers {
    count: u64,
    /// An estimate of the median.
    median: Nanos,
}

impl Answers {
    /// A step up or down by a sixteenth: the estimate settles where as many are above as below.
    fn count(&mut self, took: Nanos) {
        self.count += 1;
        let step = (self.median / 16).max(1);
        self.median = match took.cmp(&self.median) {
            _ if self.count == 1 => took,
            std::cmp::Ordering::Greater => self.median + step,
            std::cmp::Ordering::Less => self.median - step,
            std::cmp::Ordering::Equal => self.median,
        };
    }
}

/// The middle one, or the lower of two.
fn median(mut of: Vec<Nanos>) -> Option<Nanos> {
    of.sort_unstable();
    of.get(of.len().checked_sub(1)? / 2).copied()
}

impl Detours {
    pub fn new(few: Option<u64>) -> Detours {
        Detours { few, ..Detours::default() }
    }

    /// A node has answered a read, or has not for this long.
    fn count(&mut self, node: NodeId, took: Nanos, now: Nanos) {
        self.nodes.entry(node).or_default().count(took);
        match self.until_judged.checked_sub(1) {
            Some(left) => self.until_judged = left,
            None => self.judge(now),
        }
    }

    /// The others' times, if enough is known of enough of them.
    fn others(&self, node: NodeId) -> Option<Nanos> {
        let known = self.nodes.iter().filter(|(n, a)| **n != node && Some(a.count) >= self.few);
        let all: Vec<Nanos> = known.map(|(_, answers)| answers.median).collect();
        if all.len() < 2 { None } else { median(all) }
    }

    fn judge(&mut self, now: Nanos) {
        self.until_judged = self.few.unwrap_or(0);
        let is_slow = |node: NodeId, answers: &Answers| {
            let slower = |others: Nanos| answers.median >= (others * TIMES).max(others + AT_LEAST);
            Some(answers.count) >= self.few && self.others(node).is_some_and(slower)
        };
        let slow = self.nodes.iter().filter(|(node, answers)| is_slow(**node, answers));
        let since = |node| (node, self.slow.get(&node).copied().unwrap_or(now));
        self.slow = slow.map(|(node, _)| since(*node)).collect();
    }

    /// The waiting time after which a read is hedged.
    fn hedge_after(&self) -> Nanos {
        let usual = median(self.nodes.values().map(|a| a.median).collect()).unwrap_or(0);
        (usual * HEDGE_TIMES).clamp(HEDGE_AFTER.0, HEDGE_AFTER.1)
    }

    fn slow_columns(&self, volume: &Volume, extent: usize) -> ColumnSet {
        let columns = volume.extents[extent].columns.iter().enumerate();
        columns.filter(|(_, (node, _))| self.slow.contains_key(node)).map(|(c, _)| c).collect()
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
            None if self.detours.slow.is_empty() => return ColumnSet::EMPTY,
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
    /// the data for a while, after a host or a node died during a write.
    fn may_detour(&self, volume: &Volume, extent: usize) -> bool {
        let policy = &volume.policy;
        policy.commit.is_voted()
            && policy.ordering != Ordering::None
            && self.is_whole(volume, extent)
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
        if self.detours.few.is_some() {
            self.detours.count(node, now.saturating_sub(since), now);
        }
    }

    /// Hedges reads that have waited for long, while the node serves. Otherwise they begin again when it does.
    pub fn on_hedge(&mut self, serving: bool, outbox: &mut Outbox) {
        let (now, after) = (outbox.now, self.detours.hedge_after());
        self.detours.timer_is_set = false;
        if !serving {
            return;
        }
        let waited = |txn: &RunningJob| now.saturating_sub(txn.started);
        let late = self.txns.iter().filter(|(_, txn)| waited(txn) >= after);
        let late = late.filter(|(_, txn)| self.awaited_columns(txn).is_some());
        for ts in late.map(|(ts, _)| *ts).collect::<Vec<Timestamp>>() {
            let is_due = waited(&self.txns[&ts]) >= TOO_LONG;
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
            self.has_answered(node, txn.started, outbox.now);
        }
        txn.job.course.silent(outbox.now);
        unlock_given_up(ts, &txn, outbox);
        txn.job.detour = Some(awaited);
        txn.job.hedges += 1;
        outbox.counters.hedged += 1;
        self.retry(txn.job);
    }

    /// Nodes that have been slow for a while, and are not busy with catching up or draining.
    pub fn slow_nodes(&self, now: Nanos) -> Vec<SlowNode> {
        let lasts = |(node, since): &(&NodeId, &Nanos)| {
            now.saturating_sub(**since) >= SAID_AFTER && !self.map.is_stale(**node)
        };
        let said = |node: NodeId| {
            let (takes, others) = (self.detours.nodes[&node].median, self.detours.others(node)?);
            (takes >= others + SAID_FROM).then_some(SlowNode { node, takes, others })
        };
        self.detours.slow.iter().filter(lasts).filter_map(|(node, _)| said(*node)).collect()
    }

    /// A new map: nodes that have left it are forgotten.
    pub(super) fn enter_detours(&mut self) {
        let up: BTreeSet<NodeId> = self.map.up().collect();
        self.detours.nodes.retain(|node, _| up.contains(node));
        self.detours.slow.retain(|node, _| up.contains(node));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(detours: &mut Detours, node: u16, takes: Nanos, times: usize) {
        (0..times).for_each(|n| detours.count(NodeId(node), takes + n as Nanos % 7, 0));
    }

    fn slow(detours: &Detours) -> Vec<u16> {
        detours.slow.keys().map(|n| n.0).collect()
    }

    #[test]
    fn a_node_that_takes_much_longer_than_the_others_is_slow_until_it_does_not() {
        let mut detours = Detours::new(Some(32));
        (0..5).for_each(|node| count(&mut detours, node, 200_000, 100));
        assert_eq!(slow(&detours), []);
        assert_eq!(detours.hedge_after(), HEDGE_AFTER.0);
        count(&mut detours, 3, 8 * MILLIS, 200);
        assert_eq!(slow(&detours), [3]);
        assert!(detours.nodes[&NodeId(3)].median >= 7 * MILLIS);
        count(&mut detours, 3, 200_000, 200);
        assert_eq!(slow(&detours), []);
    }

    #[test]
    fn disks_that_are_all_slow_or_differ_by_little_are_not() {
        let mut detours = Detours::new(Some(32));
        (0..5).for_each(|node| count(&mut detours, node, 30 * MILLIS, 100));
        count(&mut detours, 2, 100 * MILLIS, 200);
        assert_eq!(slow(&detours), [], "less than four times");
        assert!(detours.hedge_after() > 200 * MILLIS);
        let mut detours = Detours::new(Some(32));
        (0..5).for_each(|node| count(&mut detours, node, 20_000, 100));
        count(&mut detours, 2, 900_000, 500);
        assert_eq!(slow(&detours), [], "less than a millisecond");
    }

    #[test]
    fn of_two_nodes_neither_is_slow() {
        let mut detours = Detours::new(Some(32));
        count(&mut detours, 0, 200_000, 100);
        count(&mut detours, 1, 90 * MILLIS, 100);
        assert_eq!(slow(&detours), []);
    }
}
