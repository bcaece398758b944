//! How long nodes take for one kind of thing, and which of them take much longer than the others.

use std::collections::{BTreeMap, BTreeSet};

use crate::units::{MILLIS, Nanos, NodeId};

/// The factor by which a slow node is slower than the others, and the least difference.
const TIMES: Nanos = 4;
const AT_LEAST: Nanos = MILLIS;

/// Older answers do not show that a node has been slow without a break.
const GAP: Nanos = 30_000 * MILLIS;

/// An estimate of the median of times that come one after the other.
#[derive(Clone, Copy, Debug, Default, Hash)]
pub struct RunningMedian {
    count: u64,
    median: Nanos,
}

impl RunningMedian {
    /// A step up or down by a sixteenth: the estimate settles where as many are above as below.
    pub fn count(&mut self, took: Nanos) {
        self.count += 1;
        let step = (self.median / 16).max(1);
        self.median = match took.cmp(&self.median) {
            _ if self.count == 1 => took,
            std::cmp::Ordering::Greater => self.median + step,
            std::cmp::Ordering::Less => self.median - step,
            std::cmp::Ordering::Equal => self.median,
        };
    }

    /// Half of them take longer; 0 if there were none.
    pub fn get(&self) -> Nanos {
        self.median
    }
}

/// How long nodes take.
#[derive(Clone, Default, Hash)]
pub(super) struct Speeds {
    nodes: BTreeMap<NodeId, RunningMedian>,
    slow: BTreeMap<NodeId, Slow>,
    /// Answers until the next judgement.
    until_judged: u64,
}

/// Since when a node is slow, and when it was last seen to be.
#[derive(Clone, Copy, Hash)]
struct Slow {
    since: Nanos,
    last: Nanos,
}

/// The middle one, or the lower of two.
pub(super) fn median(mut of: Vec<Nanos>) -> Option<Nanos> {
    of.sort_unstable();
    of.get(of.len().checked_sub(1)? / 2).copied()
}

impl Speeds {
    /// A node has answered in this time. It is judged from `few` answers on, and again after as many.
    pub fn count(&mut self, node: NodeId, took: Nanos, now: Nanos, few: u64) {
        self.nodes.entry(node).or_default().count(took);
        if let Some(slow) = self.slow.get_mut(&node) {
            if now.saturating_sub(slow.last) >= GAP {
                slow.since = now;
            }
            slow.last = now;
        }
        match self.until_judged.checked_sub(1) {
            Some(left) => self.until_judged = left,
            None => self.judge(now, few),
        }
    }

    /// A node has not answered in this time. That shows nothing if it usually takes longer.
    pub fn count_at_least(&mut self, node: NodeId, waited: Nanos, now: Nanos, few: u64) {
        self.count(node, waited.max(self.of(node)), now, few);
    }

    fn judge(&mut self, now: Nanos, few: u64) {
        self.until_judged = few;
        let is_slow = |node: NodeId, its: &RunningMedian| {
            let slower = |others: Nanos| its.median >= (others * TIMES).max(others + AT_LEAST);
            its.count >= few && self.others(node, few).is_some_and(slower)
        };
        let slow = self.nodes.iter().filter(|(node, its)| is_slow(**node, its));
        let begins = Slow { since: now, last: now };
        let since = |node| (node, self.slow.get(&node).copied().unwrap_or(begins));
        self.slow = slow.map(|(node, _)| since(*node)).collect();
    }

    /// What a node takes.
    pub fn of(&self, node: NodeId) -> Nanos {
        self.nodes.get(&node).map_or(0, RunningMedian::get)
    }

    /// What the other nodes take, if enough is known of enough of them: the middle one, or the higher of two. So
    /// at most half of all nodes are slow. Nodes that share a busy processor are slow together, and may be
    /// the larger group.
    pub fn others(&self, node: NodeId, few: u64) -> Option<Nanos> {
        let known = self.nodes.iter().filter(|(n, its)| **n != node && its.count >= few);
        let mut all: Vec<Nanos> = known.map(|(_, its)| its.median).collect();
        all.sort_unstable();
        if all.len() < 2 { None } else { all.get(all.len() / 2).copied() }
    }

    /// What half of the nodes take at most.
    pub fn usual(&self) -> Nanos {
        median(self.nodes.values().map(RunningMedian::get).collect()).unwrap_or(0)
    }

    /// What the fastest node usually takes.
    pub fn fastest(&self) -> Nanos {
        self.nodes.values().map(RunningMedian::get).min().unwrap_or(0)
    }

    /// Whether no node is slow.
    pub fn none_is_slow(&self) -> bool {
        self.slow.is_empty()
    }

    /// Whether a node is slow.
    pub fn is_slow(&self, node: NodeId) -> bool {
        self.slow.contains_key(&node)
    }

    /// The nodes that are slow, and for how long their answers have shown it without a break.
    pub fn slow(&self) -> impl Iterator<Item = (NodeId, Nanos)> + '_ {
        self.slow.iter().map(|(node, slow)| (*node, slow.last - slow.since))
    }

    /// Forgets that a node is slow, until it is judged the next time.
    pub fn begin_again(&mut self, node: NodeId) {
        self.slow.remove(&node);
    }

    /// Of other nodes than these nothing is known any more.
    pub fn retain(&mut self, nodes: &BTreeSet<NodeId>) {
        self.nodes.retain(|node, _| nodes.contains(node));
        self.slow.retain(|node, _| nodes.contains(node));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FEW: u64 = 32;

    fn count(speeds: &mut Speeds, node: u16, takes: Nanos, times: usize) {
        (0..times).for_each(|n| speeds.count(NodeId(node), takes + n as Nanos % 7, 0, FEW));
    }

    fn slow(speeds: &Speeds) -> Vec<u16> {
        speeds.slow().map(|(n, ..)| n.0).collect()
    }

    #[test]
    fn a_node_that_takes_much_longer_than_the_others_is_slow_until_it_does_not() {
        let mut speeds = Speeds::default();
        (0..5).for_each(|node| count(&mut speeds, node, 200_000, 100));
        assert_eq!(slow(&speeds), []);
        count(&mut speeds, 3, 8 * MILLIS, 200);
        assert_eq!(slow(&speeds), [3]);
        assert!(speeds.of(NodeId(3)) >= 7 * MILLIS);
        count(&mut speeds, 3, 200_000, 200);
        assert_eq!(slow(&speeds), []);
    }

    #[test]
    fn disks_that_are_all_slow_or_differ_by_little_are_not() {
        let mut speeds = Speeds::default();
        (0..5).for_each(|node| count(&mut speeds, node, 30 * MILLIS, 100));
        count(&mut speeds, 2, 100 * MILLIS, 200);
        assert_eq!(slow(&speeds), [], "less than four times");
        assert!(speeds.usual() > 25 * MILLIS);
        let mut speeds = Speeds::default();
        (0..5).for_each(|node| count(&mut speeds, node, 20_000, 100));
        count(&mut speeds, 2, 900_000, 500);
        assert_eq!(slow(&speeds), [], "less than a millisecond");
    }

    #[test]
    fn most_nodes_are_not_slow() {
        // Three nodes of a process share a processor with other programs.
        let mut speeds = Speeds::default();
        [1, 3].into_iter().for_each(|node| count(&mut speeds, node, MILLIS, 100));
        [0, 2, 4].into_iter().for_each(|node| count(&mut speeds, node, 20 * MILLIS, 100));
        assert_eq!(slow(&speeds), []);
        // Two of five may be.
        count(&mut speeds, 4, MILLIS, 200);
        assert_eq!(slow(&speeds), [0, 2]);
        // Of four, two are not most of the others.
        let mut speeds = Speeds::default();
        [1, 3].into_iter().for_each(|node| count(&mut speeds, node, MILLIS, 100));
        count(&mut speeds, 0, 20 * MILLIS, 100);
        assert_eq!(slow(&speeds), [0]);
    }

    #[test]
    fn answers_that_are_not_waited_for_make_no_node_look_faster() {
        let mut speeds = Speeds::default();
        (0..5).for_each(|node| count(&mut speeds, node, 200_000, 100));
        let mut hedged = |takes: Nanos, times: usize| {
            (0..times).for_each(|_| {
                speeds.count_at_least(NodeId(3), 6 * MILLIS, 0, FEW);
                speeds.count(NodeId(3), takes, 0, FEW);
            });
            speeds.of(NodeId(3))
        };
        assert!(hedged(40 * MILLIS, 200) > 35 * MILLIS);
        assert!(hedged(20 * MILLIS, 200) < 23 * MILLIS);
        // It never answers.
        let mut speeds = Speeds::default();
        (0..5).for_each(|node| count(&mut speeds, node, 200_000, 100));
        (0..200).for_each(|_| speeds.count_at_least(NodeId(3), 6 * MILLIS, 0, FEW));
        assert_eq!(slow(&speeds), [3]);
    }

    #[test]
    fn what_a_node_did_while_it_was_busy_does_not_count_as_slow() {
        let mut speeds = Speeds::default();
        (0..5).for_each(|node| count(&mut speeds, node, 200_000, 100));
        count(&mut speeds, 3, 8 * MILLIS, 200);
        speeds.count(NodeId(3), 8 * MILLIS, GAP - 1, FEW);
        assert_eq!(speeds.slow().collect::<Vec<_>>(), [(NodeId(3), GAP - 1)]);
        speeds.begin_again(NodeId(3));
        assert_eq!(slow(&speeds), []);
        (0..=FEW).for_each(|_| speeds.count(NodeId(3), 8 * MILLIS, GAP, FEW));
        assert_eq!(speeds.slow().collect::<Vec<_>>(), [(NodeId(3), 0)]);
    }

    #[test]
    fn of_two_nodes_neither_is_slow() {
        let mut speeds = Speeds::default();
        count(&mut speeds, 0, 200_000, 100);
        count(&mut speeds, 1, 90 * MILLIS, 100);
        assert_eq!(slow(&speeds), []);
    }

    #[test]
    fn what_nobody_has_seen_for_a_while_is_a_break() {
        let mut speeds = Speeds::default();
        (0..5).for_each(|node| count(&mut speeds, node, 200_000, 100));
        count(&mut speeds, 3, 8 * MILLIS, 200);
        let lasts = |speeds: &Speeds| speeds.slow().next().map(|(_, lasts)| lasts);
        assert_eq!(lasts(&speeds), Some(0));
        let mut seen = |at| {
            speeds.count(NodeId(3), 8 * MILLIS, at, FEW);
            lasts(&speeds)
        };
        assert_eq!(seen(GAP - 1), Some(GAP - 1));
        assert_eq!(seen(2 * GAP - 2), Some(2 * GAP - 2));
        assert_eq!(seen(3 * GAP - 2), Some(0));
    }
}
