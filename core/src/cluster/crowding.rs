//! Deleted volumes that are in the way of what must leave disks.
//!
//! A deleted volume can be brought back, so it is only forgotten where that helps: often there is no room because no failure
//! domain is left, and then it would be lost for nothing.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::map::{ClusterMap, Volume};
use super::moves::have_room;
use crate::units::{NodeId, VolumeId};

/// The deleted volume to forget so that columns have a place elsewhere: those on nodes that are given up or drained, or on
/// these `absent` ones, which will be given up. `deleted` are those that may be forgotten, in the order in which they go.
/// None if there is room, or would be none without all of them. It may take several: this is the last of the fewest, and
/// without it the answer is the next.
pub fn deleted_in_the_way(
    map: &ClusterMap,
    absent: &[NodeId],
    deleted: &[VolumeId],
) -> Option<VolumeId> {
    if deleted.is_empty() || moves(map) {
        return None;
    }
    // While lost content is not rebuilt, nobody else is given up. This cannot be rebuilt.
    let going = going(map);
    let lost = |id: &&VolumeId| map.volumes.get(id).is_some_and(|v| is_lost(map, v, &going));
    if let Some(id) = deleted.iter().find(lost) {
        return Some(*id);
    }
    let alone = absent.iter().map(|node| vec![*node]);
    let all = [Vec::new(), absent.to_vec()].into_iter().chain(alone);
    all.into_iter().find_map(|leave| {
        last_needed(map, deleted, |map| {
            let going = self::going(map);
            let leaves = |n: NodeId| going.contains(&n) || leave.contains(&n);
            !(going.is_empty() && leave.is_empty()) && have_room(map, leaves).is_err()
        })
    })
}

/// The last of the fewest deleted volumes, from the first on, without which the map lacks nothing.
fn last_needed(
    map: &ClusterMap,
    deleted: &[VolumeId],
    lacks: impl Fn(&ClusterMap) -> bool,
) -> Option<VolumeId> {
    let lacks_without = |count: usize| {
        let mut map = map.clone();
        deleted[..count].iter().for_each(|id| drop(map.volumes.remove(id)));
        lacks(&map)
    };
    if !lacks(map) || lacks_without(deleted.len()) {
        return None;
    }
    let (mut too_few, mut enough) = (0, deleted.len());
    while enough - too_few > 1 {
        let count = usize::midpoint(too_few, enough);
        match lacks_without(count) {
            true => too_few = count,
            false => enough = count,
        }
    }
    deleted.get(too_few).copied()
}

/// The nodes that columns are to leave.
fn going(map: &ClusterMap) -> BTreeSet<NodeId> {
    let goes = |n: &NodeId| {
        let info = &map.nodes[usize::from(n.0)];
        !info.removed && (info.given_up || info.draining) && map.columns_on(*n) > 0
    };
    (0..map.nodes.len() as u16).map(NodeId).filter(goes).collect()
}

/// Whether a column is on its way.
fn moves(map: &ClusterMap) -> bool {
    map.volumes.values().flat_map(|v| &v.extents).any(|e| !e.filling.is_empty())
}

/// Whether nodes that were given up have columns of a volume that cannot be rebuilt.
fn is_lost(map: &ClusterMap, volume: &Arc<Volume>, going: &BTreeSet<NodeId>) -> bool {
    let lost = |n: &NodeId| map.nodes[usize::from(n.0)].given_up && going.contains(n);
    map.is_asleep(volume) && volume.nodes().iter().any(lost)
}
