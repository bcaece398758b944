//! Nodes that are much slower than the others, as the originators of this process and of others see it. The log reports
//! when a node becomes slow and when it recovers, and the status lists slow nodes. One that stays slow leaves the map.
//!
//! Nodes of one lane share a thread. If the thread has to wait for a processor, all of them take longer; so a node of this
//! process is slow only if its lane's other nodes are not.
//!
//! Only this process judges its disks. What originators see may be the network's, or a busy processor's. So a node is taken
//! out only if its disk itself takes a good part of that time. If several nodes are slow it is the load, and none is taken
//! out. Nor is one while another disk is out or behind, or has been so within that time.
//!
//! A rotating disk among others that do not rotate is not slow for that: it is like none of them. Reads still go round it.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use weft_core::node::{Node, SlowAt, SlowNode};
use weft_core::units::{Epoch, MILLIS, Nanos, NodeId};

use super::Engine;
use crate::length_of_time::duration_in_words;
use crate::log::About;

/// A node is reported as slow when it has been slow for this long, by at least this difference.
const SAID_AFTER: Nanos = 10_000 * MILLIS;
const SAID_FROM: Nanos = 5 * MILLIS;

/// An operation of a slow disk takes at least this part of what its node takes: an answer is several of them.
const PART: Nanos = 4;

/// A slow node as one process tells others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sighting {
    node: u16,
    writes: bool,
    takes: Nanos,
    others: Nanos,
    seen_for: Nanos,
}

impl From<&SlowNode> for Sighting {
    fn from(slow: &SlowNode) -> Sighting {
        let SlowNode { node, at, takes, others, seen_for, .. } = *slow;
        Sighting { node: node.0, writes: at == SlowAt::Writes, takes, others, seen_for }
    }
}

/// The known slow nodes.
#[derive(Default)]
pub(super) struct SlowNodes {
    /// What the originators of this process saw last.
    seen: Vec<SlowNode>,
    watched: Watched,
    /// What other processes have said last.
    heard: Vec<Sighting>,
    /// Nodes of other processes whose disks rotate, as these have said last.
    rotating: BTreeSet<u16>,
    /// Those that are said to be slow.
    said: BTreeMap<(NodeId, SlowAt), SlowNode>,
    whole: Whole,
    /// A node that volumes cannot do without, as it was found in this epoch.
    stays: Option<(NodeId, Epoch)>,
}

/// Since when no disk has been out or behind, as of a map.
#[derive(Default)]
struct Whole {
    epoch: Epoch,
    since: Option<Nanos>,
}

impl Engine {
    /// Asks the originators which nodes are slow.
    pub(super) fn look_for_slow_nodes(&mut self, now: Nanos) {
        let mut found = Vec::new();
        for by in 0..self.instances.len() {
            let Some(originator) = self.seat(by).and_then(|seat| seat.node.as_ref()) else {
                continue;
            };
            let slow = originator.slow_nodes().into_iter();
            let slow = slow.filter(|slow| !self.is_the_lane(originator, slow));
            found.extend(slow.map(|slow| (by, slow)));
        }
        self.slow.seen = self.slow.watched.look(found, now);
        self.say_slow_nodes();
        self.take_out_slow(now);
    }

    /// Whether the lane of a node of this process is slow with all its nodes.
    fn is_the_lane(&self, originator: &Node, slow: &SlowNode) -> bool {
        let n = usize::from(slow.node.0);
        if self.seat(n).is_none() {
            return false;
        }
        let others = (0..self.instances.len())
            .filter(|other| *other != n && self.seat(*other).is_some())
            .filter(|other| self.lane_of(*other) == self.lane_of(n));
        let takes = others.map(|other| originator.takes(slow.at, NodeId(other as u16)));
        take_as_long(slow.takes, takes.filter(|takes| *takes > 0).collect())
    }

    fn say_slow_nodes(&mut self) {
        let is_said = |s: &&SlowNode| is_worth_saying(s) && !self.is_unlike_others(s.node.0);
        let mut said: BTreeMap<(NodeId, SlowAt), SlowNode> = BTreeMap::new();
        for found in self.slow.seen.iter().filter(is_said) {
            let known = said.entry((found.node, found.at)).or_insert(*found);
            if known.takes < found.takes {
                *known = *found;
            }
        }
        let before = std::mem::replace(&mut self.slow.said, said);
        for (key, found) in self.slow.said.iter().filter(|(key, _)| !before.contains_key(key)) {
            let then = match key.1 {
                SlowAt::Reads => "; hosts' reads avoid it",
                SlowAt::Writes => "; hosts' writes wait for it",
            };
            let text = format!(
                "node {} is slow: {}{then}",
                found.node.0,
                in_words(key.1, found.takes, found.others)
            );
            self.log.on(About::node(found.node.0.into())).warn(&text);
        }
        for (node, at) in before.keys().filter(|key| !self.slow.said.contains_key(key)) {
            let text = format!("node {} is no longer slow at {}", node.0, what(*at));
            self.log.on(About::node(node.0.into())).info(&text);
        }
    }

    /// Whether a node is slow at something, as this process sees it.
    pub(crate) fn slow_node(&self, n: usize, at: SlowAt) -> Option<SlowNode> {
        self.slow.said.get(&(NodeId(n as u16), at)).copied()
    }

    /// What other processes are told.
    pub(crate) fn sightings(&self) -> Vec<Sighting> {
        self.slow.seen.iter().map(Sighting::from).collect()
    }

    /// What other processes say.
    pub(crate) fn hear_of_slow_nodes(&mut self, sightings: Vec<Sighting>, rotating: BTreeSet<u16>) {
        (self.slow.heard, self.slow.rotating) = (sightings, rotating);
    }

    /// The nodes of this process whose disks rotate.
    pub(crate) fn rotating(&self) -> Vec<u16> {
        let all = (0..).zip(&self.instances);
        all.filter(|(_, instance)| instance.rotating).map(|(n, _)| n).collect()
    }

    /// Whether a node's disk rotates, and fewer than half of the others do.
    fn is_unlike_others(&self, n: u16) -> bool {
        let own = self.rotating();
        let rotates = |n: &u16| own.contains(n) || self.slow.rotating.contains(n);
        let nodes = (0..).zip(&self.map().nodes);
        let others = nodes.filter(|(other, info)| *other != n && info.disk != 0 && !info.removed);
        rotates(&n) && are_few(others.map(|(other, _)| rotates(&other)))
    }

    /// This part of the background work of a node of this process may go on, in thousandths.
    pub(crate) fn gives_way(&mut self, n: usize, part: u64) {
        if let Some(node) = self.seat_mut(n).and_then(|seat| seat.node.as_mut()) {
            node.gives_way(part);
        }
    }

    /// Takes out the node of a disk of this process that has been slow for long.
    fn take_out_slow(&mut self, now: Nanos) {
        let whole = self.whole_for(now);
        let Some(after) = self.slow_disk_timeout.time().filter(|after| whole >= *after) else {
            return;
        };
        let own = self.slow.seen.iter().map(Sighting::from);
        let all: Vec<Sighting> = own.chain(self.slow.heard.iter().copied()).collect();
        let Some(found) = worst_of_one(&all).filter(|found| found.seen_for >= after) else {
            return;
        };
        let n = usize::from(found.node);
        let is_alike = !self.slow_disk_timeout.needs_spare() || !self.is_unlike_others(found.node);
        if is_alike && self.is_slow_itself(n, &found) && self.may_go(n) {
            let at = if found.writes { SlowAt::Writes } else { SlowAt::Reads };
            self.goes_for_a_while(n, &in_words(at, found.takes, found.others), now);
        }
    }

    /// For how long no disk has been out or behind.
    fn whole_for(&mut self, now: Nanos) -> Nanos {
        let epoch = self.map().epoch;
        if self.slow.whole.epoch != epoch {
            let is_whole = self.map().is_whole();
            let since = self.slow.whole.since.filter(|_| is_whole).or(is_whole.then_some(now));
            self.slow.whole = Whole { epoch, since };
        }
        self.slow.whole.since.map_or(0, |since| now.saturating_sub(since))
    }

    /// Whether it is the disk that is slow, of a node of this process that takes part.
    fn is_slow_itself(&self, n: usize, found: &Sighting) -> bool {
        let runs = self.instances.get(n).is_some_and(|s| s.phase == super::Phase::Running);
        let takes = self.seat(n).map_or(0, |seat| seat.usual(found.writes));
        runs && takes * PART >= found.takes
    }

    /// Whether volumes can do without a node that is slow; it is said once if they cannot.
    fn may_go(&mut self, n: usize) -> bool {
        let (node, epoch) = (NodeId(n as u16), self.map().epoch);
        if self.slow.stays == Some((node, epoch)) {
            return false;
        }
        let refused = match self.slow_disk_timeout.needs_spare() {
            true if self.can_spare(node) => None,
            true => Some("volumes would have no redundancy without it".to_string()),
            false => self.can_do_without(&[node], &[]).err().map(|e| e.0),
        };
        if let Some(why) = &refused {
            if self.slow.stays.is_none_or(|(before, _)| before != node) {
                let text = format!("node {n} is slow, and is not evicted: {why}");
                self.log.on(About::node(n)).warn(&text);
            }
            self.slow.stays = Some((node, epoch));
        }
        refused.is_none()
    }

    fn goes_for_a_while(&mut self, n: usize, why: &str, now: Nanos) {
        let stays = self.instances[n].back_off.goes(now);
        let stays = duration_in_words(std::time::Duration::from_nanos(stays));
        // That it runs has been seen.
        let _ =
            self.kill_node(n, &format!("its disk is slow: {why}; it starts again after {stays}"));
        self.instances[n].wanted = true;
    }

    /// Whether a node stays away since its disk is slow. While another is out it comes back at once.
    pub(super) fn stays_away(&self, n: usize, now: Nanos) -> bool {
        let others = (0..self.map().nodes.len()).filter(|other| *other != n);
        self.instances[n].back_off.left(now).is_some()
            && !others.into_iter().any(|other| self.map().is_out(NodeId(other as u16)))
    }
}

/// The nodes that originators of this process have seen as slow at each look, and since when.
#[derive(Default)]
struct Watched(BTreeMap<(usize, NodeId, SlowAt), Nanos>);

impl Watched {
    /// What originators see now. A node has not been slow for longer than it has been so at each look.
    fn look(&mut self, found: Vec<(usize, SlowNode)>, now: Nanos) -> Vec<SlowNode> {
        let before = std::mem::take(&mut self.0);
        let mut seen = Vec::new();
        for (by, slow) in found {
            let key = (by, slow.node, slow.at);
            let since = before.get(&key).copied().unwrap_or(now);
            self.0.insert(key, since);
            seen.push(SlowNode { seen_for: slow.seen_for.min(now.saturating_sub(since)), ..slow });
        }
        seen
    }
}

/// Whether a slow node is in the status and the log: its answers have shown it for long enough.
fn is_worth_saying(slow: &SlowNode) -> bool {
    slow.seen_for >= SAID_AFTER && slow.takes >= slow.others + SAID_FROM
}

/// Whether half of the others, if there are any, take a good part of this time as well.
fn take_as_long(takes: Nanos, mut others: Vec<Nanos>) -> bool {
    others.sort_unstable();
    let half = others.len().checked_sub(1).and_then(|last| others.get(last / 2));
    half.is_some_and(|other| other * PART > takes)
}

/// The longest lasting sighting of the slowest node, if it is slow alone: no other takes a good part of its time.
fn worst_of_one(all: &[Sighting]) -> Option<Sighting> {
    let slowest = all.iter().max_by_key(|s| s.takes)?;
    let is_alone = |s: &Sighting| s.node == slowest.node || s.takes * PART <= slowest.takes;
    let its = all.iter().filter(|s| s.node == slowest.node);
    its.max_by_key(|s| s.seen_for).copied().filter(|_| all.iter().all(is_alone))
}

/// Whether fewer than half of them are so.
fn are_few(all: impl Iterator<Item = bool>) -> bool {
    let (count, so) = all.fold((0, 0), |(count, so), is| (count + 1, so + usize::from(is)));
    2 * so < count
}

fn what(at: SlowAt) -> &'static str {
    match at {
        SlowAt::Reads => "reads",
        SlowAt::Writes => "writes",
    }
}

fn in_words(at: SlowAt, takes: Nanos, others: Nanos) -> String {
    format!(
        "half of its {} take {:.1} ms or more, and those of the others {:.1} ms",
        what(at),
        millis(takes),
        millis(others)
    )
}

fn millis(time: Nanos) -> f64 {
    time as f64 / MILLIS as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_rotating_disk_is_like_others_if_half_of_them_rotate() {
        let few = |all: &[bool]| are_few(all.iter().copied());
        assert!(few(&[false, false, false]) && few(&[true, false, false]));
        assert!(!few(&[true, true, false, false]) && !few(&[true]) && !few(&[]));
    }

    #[test]
    fn a_lane_whose_nodes_all_take_long_has_no_slow_disk() {
        assert!(take_as_long(20, vec![20]) && take_as_long(20, vec![6]));
        assert!(take_as_long(20, vec![6, 30]) && take_as_long(20, vec![6, 30, 30]));
        assert!(!take_as_long(20, vec![]) && !take_as_long(20, vec![5]));
        assert!(!take_as_long(20, vec![1, 20]), "half of them are fast");
        assert!(!take_as_long(20, vec![1, 1, 20]));
    }

    #[test]
    fn a_node_is_said_to_be_slow_when_that_has_been_seen_at_each_look_for_a_while() {
        const SECOND: Nanos = 1000 * MILLIS;
        let (at, node) = (SlowAt::Reads, NodeId(3));
        let (takes, others) = (9 * MILLIS, MILLIS);
        let slow = |seen_for| (0, SlowNode { node, at, takes, others, seen_for });
        let mut watched = Watched::default();
        let mut said = |second: Nanos, found: Option<Nanos>| {
            let found = found.map(|seconds| slow(seconds * SECOND)).into_iter().collect();
            watched.look(found, (100 + second) * SECOND).iter().any(is_worth_saying)
        };
        // Its answers had shown it for long before its lane was seen to be fast.
        assert!(!said(0, Some(60)) && !said(9, Some(69)) && said(10, Some(70)));
        // A look at which it was not.
        assert!(
            !said(11, None) && !said(12, Some(72)) && !said(21, Some(81)) && said(22, Some(82))
        );
        // Nobody asks it for anything any more, soon after it became slow.
        assert!(!said(30, None) && !said(31, Some(1)) && !said(60, Some(1)));
    }

    #[test]
    fn where_several_nodes_are_slow_none_is_the_one() {
        let of = |node, seen_for| Sighting { node, writes: true, takes: 9, others: 1, seen_for };
        assert_eq!(worst_of_one(&[]), None);
        assert_eq!(worst_of_one(&[of(3, 5), of(3, 9), of(3, 7)]), Some(of(3, 9)));
        assert_eq!(worst_of_one(&[of(3, 5), of(4, 1)]), None);
        let much = Sighting { takes: 9 * PART, ..of(4, 1) };
        assert_eq!(worst_of_one(&[of(3, 5), much]), Some(much), "the other is much less slow");
        let less = Sighting { takes: 9 * PART - 1, ..of(4, 1) };
        assert_eq!(worst_of_one(&[of(3, 5), less]), None, "the other takes a quarter of its time");
    }
}
