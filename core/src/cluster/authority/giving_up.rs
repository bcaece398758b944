//! Nodes that are given up without an operator: nodes that have been down for as long as the cluster's settings say,
//! and those whose disks have failed.
//!
//! Facts are recounted with every tick and with every new map, and judged again: so a condition that held when a
//! change began need not hold when it is made. A node is given up
//!
//! - when earlier losses have been rebuilt, since losses are tolerated one failure domain at a time;
//! - if every volume can go on without it, which the code is asked of each;
//! - if all that is on it has room elsewhere;
//! - if no parity that waits leaves content on its disk alone, which those know who have the parity.
//!
//! How long a node has been down is counted from when this authority first saw it so: after a change of leader from then
//! on. That is later than the truth, and never earlier.

use std::collections::{BTreeMap, BTreeSet};

use super::fault::{self, AuthorityBug};
use crate::cluster::map::{ClusterMap, NodeInfo, Volume};
use crate::cluster::moves;
use crate::units::{Epoch, Nanos, NodeId, VolumeId};

/// Why a node is not given up, though it is time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Hindrance {
    /// Content of other lost nodes is being rebuilt, or will be.
    Rebuilding,
    /// A volume could not go on without it.
    Needed(VolumeId),
    /// Other disks lack space for its content, with each column of an extent in another failure domain.
    NoRoom,
    /// Parity of a volume is out of date: some content may be on its disk alone.
    Exposed(VolumeId),
}

/// The future of a node that is down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Prospect {
    /// Nothing: nobody is given up without an operator.
    Waits,
    /// It is given up after this time, if nothing prevents it then.
    GivenUpIn(Nanos),
    /// It is time, and this is against it.
    Hindered(Hindrance),
    /// It has been given up.
    GivenUp,
}

/// A node that is down, or has been given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Absence {
    /// Which.
    pub node: NodeId,
    /// For how long this authority has seen it down.
    pub down_for: Nanos,
    /// Whether its process says that its disk has failed.
    pub disk_failed: bool,
    /// Its future.
    pub prospect: Prospect,
}

/// Nodes that are down, and the last decision about each.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct Absences {
    now: Nanos,
    /// Since when each node is down that has a disk.
    since: BTreeMap<NodeId, Nanos>,
    /// Of these, whose disks have failed.
    failed: BTreeSet<NodeId>,
    judged: Judged,
    /// The volumes with stale parity when all nodes last stopped, and when that was requested.
    exposed: BTreeSet<VolumeId>,
    asked: Option<Nanos>,
    pub bug: Option<AuthorityBug>,
}

/// The findings on due nodes, for one map. It is looked again with another map, or others.
#[derive(Clone, Debug, Default, Hash)]
struct Judged {
    epoch: Epoch,
    due: Vec<NodeId>,
    hindered: BTreeMap<NodeId, Hindrance>,
}

impl Absences {
    /// Time has passed: looks for nodes that are down now.
    pub fn look(&mut self, now: Nanos, map: &ClusterMap, runs: impl Fn(NodeId) -> bool) {
        self.now = now;
        for (n, info) in map.nodes.iter().enumerate() {
            let node = NodeId(n as u16);
            match has_disk(info) && !runs(node) {
                true => drop(self.since.entry(node).or_insert(now)),
                false => drop(self.since.remove(&node)),
            }
        }
    }

    /// A node's disk has failed, as its process says.
    pub fn disk_failed(&mut self, node: NodeId) {
        self.failed.insert(node);
    }

    /// A node is back, with a disk that works.
    pub fn is_back(&mut self, node: NodeId) {
        self.failed.remove(&node);
        self.since.remove(&node);
    }

    /// Whether any node will be given up. What parity waits for is asked when all stop for the next epoch; if it is
    /// against it, again after as long as nodes are waited for.
    pub fn begins(&mut self, map: &ClusterMap) -> bool {
        let due = self.due(map);
        if due.is_empty() {
            self.asked = None;
            return false;
        }
        if self.judged.due != due {
            self.asked = None;
        }
        if (self.judged.epoch, &self.judged.due) != (map.epoch, &due) {
            let (_, hindered) = judge(map, &due, &BTreeSet::new(), self.bug);
            self.judged = Judged { epoch: map.epoch, due, hindered };
        }
        let free = |n: &NodeId| !self.judged.hindered.contains_key(n);
        let after = map.settings.give_up_after.unwrap_or(0);
        let again = self.asked.is_none_or(|asked| self.now >= asked.saturating_add(after));
        let begins = again && self.judged.due.iter().any(free);
        if begins {
            self.asked = Some(self.now);
        }
        begins
    }

    /// Those who are given up with a map that is being made: `exposed` are the volumes with stale parity.
    pub fn given_up(&mut self, map: &ClusterMap, exposed: &BTreeSet<VolumeId>) -> Vec<NodeId> {
        self.exposed.clone_from(exposed);
        let due = self.due(map);
        let down: Vec<NodeId> = due.into_iter().filter(|n| !map.is_up(*n)).collect();
        let (going, _) = judge(map, &down, exposed, self.bug);
        if !going.is_empty() {
            self.asked = None;
        }
        going
    }

    /// Those of whom it has turned out since that a volume needs them: others have lost acknowledged content, or were
    /// not missed when they restarted.
    pub fn needed(&self, map: &ClusterMap, going: &[NodeId]) -> Vec<NodeId> {
        let needed = |n: &&NodeId| needs(map, **n, going, self.bug).is_some();
        going.iter().filter(needed).copied().collect()
    }

    /// Those whose time has come.
    fn due(&self, map: &ClusterMap) -> Vec<NodeId> {
        let Some(after) = map.settings.give_up_after else { return Vec::new() };
        let is_due = |(node, since): (&NodeId, &Nanos)| {
            let long = self.now >= since.saturating_add(after);
            let there = map.nodes.get(usize::from(node.0)).is_some_and(is_missed);
            ((long || self.failed.contains(node)) && there).then_some(*node)
        };
        self.since.iter().filter_map(is_due).collect()
    }

    /// Nodes that are down, and the future of each.
    pub fn all(&self, map: &ClusterMap) -> Vec<Absence> {
        let due = self.due(map);
        let (_, hindered) = judge(map, &due, &self.exposed, self.bug);
        let absence = |(node, since): (&NodeId, &Nanos)| {
            let down_for = self.now.saturating_sub(*since);
            let disk_failed = self.failed.contains(node);
            let prospect = match (map.settings.give_up_after, hindered.get(node)) {
                _ if map.nodes[usize::from(node.0)].given_up => Prospect::GivenUp,
                (None, _) => Prospect::Waits,
                (Some(_), Some(hindrance)) => Prospect::Hindered(*hindrance),
                (Some(_), None) if due.contains(node) => Prospect::GivenUpIn(0),
                (Some(after), None) => Prospect::GivenUpIn(after.saturating_sub(down_for)),
            };
            Absence { node: *node, down_for, disk_failed, prospect }
        };
        let there = |n: &NodeId| map.nodes.get(usize::from(n.0)).is_some_and(has_disk);
        self.since.iter().filter(|(node, _)| there(node)).map(absence).collect()
    }
}

/// Whether a node has been seen with a disk.
fn has_disk(info: &NodeInfo) -> bool {
    info.disk != 0 && info.sectors > 0 && !info.removed
}

/// Whether such a node is missed while it is down: it is expected back.
fn is_missed(info: &NodeInfo) -> bool {
    has_disk(info) && !info.given_up
}

/// The due nodes that can be given up together, and the reasons against the others.
fn judge(
    map: &ClusterMap,
    due: &[NodeId],
    exposed: &BTreeSet<VolumeId>,
    bug: Option<AuthorityBug>,
) -> (Vec<NodeId>, BTreeMap<NodeId, Hindrance>) {
    let (mut going, mut hindered) = (Vec::new(), BTreeMap::new());
    if due.is_empty() {
        return (going, hindered);
    }
    let waits = is_rebuilding(map) && fault::waits_for_rebuilds(bug);
    for node in due {
        let other = going.first().is_some_and(|first| !are_one_domain(map, *first, *node));
        let against = match waits || (other && fault::waits_for_rebuilds(bug)) {
            true => Some(Hindrance::Rebuilding),
            false => against(map, *node, &going, exposed, bug),
        };
        match against {
            Some(hindrance) => drop(hindered.insert(*node, hindrance)),
            None => going.push(*node),
        }
    }
    (going, hindered)
}

/// The reason against giving up a node together with these others.
fn against(
    map: &ClusterMap,
    node: NodeId,
    going: &[NodeId],
    exposed: &BTreeSet<VolumeId>,
    bug: Option<AuthorityBug>,
) -> Option<Hindrance> {
    if let Some(volume) = needs(map, node, going, bug) {
        return Some(Hindrance::Needed(volume));
    }
    if let Some(v) = volumes_on(map, node).find(|v| !v.is_deleted() && exposed.contains(&v.id)) {
        return Some(Hindrance::Exposed(v.id));
    }
    let goes = |n: NodeId| n == node || going.contains(&n);
    moves::have_room(map, goes).is_err().then_some(Hindrance::NoRoom)
}

/// A volume that could not go on without a node and those that go, if there is one.
fn needs(
    map: &ClusterMap,
    node: NodeId,
    going: &[NodeId],
    bug: Option<AuthorityBug>,
) -> Option<VolumeId> {
    let lacks = |v: &Volume, n: NodeId| {
        n == node || going.contains(&n) || !map.is_up(n) || map.is_missing_or_behind(v.id, n)
    };
    // A deleted one is no reason: it may go at any time.
    let lost = |v: &&Volume| !v.is_deleted() && fault::is_lost_with(bug, v, |n| lacks(v, n));
    volumes_on(map, node).find(lost).map(|v| v.id)
}

fn volumes_on(map: &ClusterMap, node: NodeId) -> impl Iterator<Item = &Volume> {
    let on_it = move |v: &&Volume| v.extents.iter().any(|e| e.place_on(node).is_some());
    map.volumes.values().map(|v| &**v).filter(on_it)
}

/// Whether a column is being rebuilt somewhere, or must be moved from a node that was given up.
fn is_rebuilding(map: &ClusterMap) -> bool {
    let filled = |v: &Volume| {
        v.extents.iter().any(|e| e.filling.keys().any(|column| !e.leaving.contains_key(column)))
    };
    let left = |n: usize| map.nodes[n].given_up && map.columns_on(NodeId(n as u16)) > 0;
    map.volumes.values().any(|v| filled(v)) || (0..map.nodes.len()).any(left)
}

/// Whether two nodes are in one failure domain, by the label of every volume.
fn are_one_domain(map: &ClusterMap, a: NodeId, b: NodeId) -> bool {
    let labels: BTreeSet<&str> = map.volumes.values().map(|v| v.apart.as_str()).collect();
    labels.into_iter().all(|label| {
        let domains = map.domains(label);
        domains[usize::from(a.0)] == domains[usize::from(b.0)]
    })
}
