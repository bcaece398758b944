//! What is concluded from what nodes say that have stopped for a new epoch.

use std::collections::{BTreeMap, BTreeSet};

use crate::cluster::map::{ClusterMap, Volume};
use crate::cluster::message::{Memory, Undescribed};
use crate::order::FOLLOWED;
use crate::store::Reached;
use crate::units::{NodeId, Timestamp, VolumeId};

/// What a node said that has stopped, as in [`MemberReport::Frozen`].
#[derive(Clone, Debug, Hash)]
pub(super) struct Frozen {
    pub oldest: Timestamp,
    pub clock: Timestamp,
    pub written: Timestamp,
    pub busy: bool,
    pub memory: Memory,
    pub heard: Vec<(NodeId, Reached)>,
    pub undescribed: Undescribed,
}

/// The latest time that any of them has written or shows, but for clocks that are wrong: those that are farther
/// ahead of one in the middle than is followed (shared storage 4.1 wants clocks that are close; see [`FOLLOWED`]).
/// What is written is right by definition: all that comes must be later.
pub(super) fn latest_right(frozen: &BTreeMap<NodeId, Frozen>) -> Timestamp {
    let mut clocks: Vec<Timestamp> = frozen.values().map(|f| f.clock).collect();
    clocks.sort_unstable();
    let middle = clocks[(clocks.len() - 1) / 2];
    let followed = |c: &Timestamp| c.micros() <= middle.micros().saturating_add(FOLLOWED);
    let written = frozen.values().map(|f| f.written);
    clocks.into_iter().filter(followed).chain(written).max().expect("somebody has stopped")
}

/// How far a node's disk has got, as each knows who has stopped, or the map.
pub(super) fn known_of(
    node: NodeId,
    map: &ClusterMap,
    frozen: &BTreeMap<NodeId, Frozen>,
) -> impl Iterator<Item = Reached> {
    let heard = frozen.values().flat_map(|f| &f.heard).filter(move |(n, _)| *n == node);
    let own = frozen.get(&node).map(|f| f.memory.reached);
    let kept = map.nodes.get(usize::from(node.0)).map(|info| info.reached);
    heard.map(|(_, reached)| *reached).chain(own).chain(kept)
}

/// The nodes whose disks have forgotten something that they had promised: they know it themselves, or somebody
/// has heard that they had got further than they were found.
pub(super) fn forgetful(map: &ClusterMap, frozen: &BTreeMap<NodeId, Frozen>) -> BTreeSet<NodeId> {
    let shown = |node: NodeId, memory: &Memory| {
        known_of(node, map, frozen).any(|r| r.shows_loss(memory.found, memory.began))
    };
    let forgot = |(node, f): &(&NodeId, &Frozen)| f.memory.forgot || shown(**node, &f.memory);
    frozen.iter().filter(forgot).map(|(node, _)| *node).collect()
}

/// The volumes with columns on the disks of nodes that have just started. Such a node knows no volume yet, and not which parity
/// on its disk is marked: any may be.
pub(super) fn unsearched(
    map: &ClusterMap,
    fresh: &BTreeSet<NodeId>,
) -> BTreeSet<(VolumeId, NodeId)> {
    let has = |v: &Volume, n: NodeId| v.extents.iter().any(|e| e.column_of(n).is_some());
    let on = |n: NodeId| map.volumes.values().filter(move |v| has(v, n)).map(move |v| (v.id, n));
    fresh.iter().flat_map(|n| on(*n)).collect()
}
