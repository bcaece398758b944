//! Predictions from the map: what would become of the volumes if nodes were lost, or disks were added.
//!
//! Both are worked out on a copy of the map, by the rules by which the authority itself gives columns to other disks
//! ([`super::moves`]).

use std::collections::BTreeSet;
use std::sync::Arc;

use super::balance::{self, Fullness};
use super::map::{APART_BY_NODE, ClusterMap, NodeInfo, Volume};
use super::moves;
use crate::units::{ColumnSet, NodeId, Timestamp, VolumeId};

/// A disk that could be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddedDisk {
    /// The process that would have it. Without one it would be in a box of its own.
    pub process: Option<NodeId>,
    /// Data sectors.
    pub sectors: u64,
}

/// What would become of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fate {
    /// Which.
    pub volume: VolumeId,
    /// Whether any of its columns would be lost.
    pub is_affected: bool,
    /// Whether hosts would lose access to some of its content.
    pub fails: bool,
    /// How many more nodes could be lost, whichever they are.
    pub survives: usize,
    /// The same when everything that has a place on another disk has been rebuilt there.
    pub survives_rebuilt: usize,
}

/// A column that would be rebuilt on another disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rebuilt {
    /// Its volume.
    pub volume: VolumeId,
    /// The lost node.
    pub from: NodeId,
    /// The node that gets it.
    pub to: NodeId,
    /// Its sectors.
    pub sectors: u64,
}

/// What the loss of nodes would mean.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loss {
    /// Volumes, by number: neither snapshots nor deleted ones.
    pub fates: Vec<Fate>,
    /// The columns that would be rebuilt.
    pub rebuilt: Vec<Rebuilt>,
    /// Volumes with a column for which there is no place: no space, or none in another failure domain.
    pub homeless: BTreeSet<VolumeId>,
    /// The other disks, when all that is rebuilt.
    pub after: Vec<Fullness>,
}

/// The map with more disks, which are empty and take part.
pub fn with_disks(map: &ClusterMap, added: &[AddedDisk]) -> ClusterMap {
    let mut map = map.clone();
    for disk in added {
        let home = disk.process.and_then(|n| map.nodes.get(usize::from(n.0))?.home.clone());
        let number = map.nodes.len() as u64 + 1;
        let node = NodeInfo { process: disk.process, home, ..NodeInfo::new(number, disk.sectors) };
        map.nodes.push(node);
    }
    map
}

/// What the loss of these nodes would mean. `lacks` says whether the column of an extent, by its number, that is on a node
/// is lost or behind already.
pub fn loss(
    map: &ClusterMap,
    nodes: &BTreeSet<NodeId>,
    lacks: impl Fn(&Volume, usize, NodeId) -> bool,
) -> Loss {
    let gone = |v: &Volume, n: usize, node: NodeId| nodes.contains(&node) || lacks(v, n, node);
    let fails = |v: &Volume| {
        v.extents.iter().enumerate().any(|(n, extent)| {
            let columns = &extent.columns;
            let lost = (0..columns.len()).filter(|c| gone(v, n, columns[*c].0));
            !v.geometry.is_always_recoverable(lost.collect::<ColumnSet>())
        })
    };
    let failed: BTreeSet<VolumeId> =
        map.volumes.values().filter(|v| fails(v)).map(|v| v.id).collect();
    let then = given_up(map, nodes, &failed);
    let fate = |volume: &Arc<Volume>| {
        let is_affected = volume.nodes().iter().any(|n| nodes.contains(n));
        let now = |n: usize, node: NodeId| gone(volume, n, node);
        let rebuilt = &then.volumes[&volume.id];
        Fate {
            volume: volume.id,
            is_affected,
            fails: failed.contains(&volume.id),
            survives: map.survives(volume, APART_BY_NODE, now),
            survives_rebuilt: then.survives(rebuilt, APART_BY_NODE, now),
        }
    };
    let shown = |v: &&Arc<Volume>| !v.is_snapshot() && !v.is_deleted();
    let is_left =
        |v: &&Arc<Volume>| !failed.contains(&v.id) && v.nodes().iter().any(|n| nodes.contains(n));
    let mut rebuilt = rebuilt(map, &then);
    rebuilt.retain(|r| nodes.contains(&r.from));
    Loss {
        fates: map.volumes.values().filter(shown).map(fate).collect(),
        rebuilt,
        after: balance::plan(&then, 0).before,
        homeless: then.volumes.values().filter(is_left).map(|v| v.id).collect(),
    }
}

/// The map when these nodes have been given up, and all has been rebuilt that has a place. Volumes that have failed wait.
fn given_up(map: &ClusterMap, nodes: &BTreeSet<NodeId>, failed: &BTreeSet<VolumeId>) -> ClusterMap {
    let mut map = map.clone();
    for node in nodes {
        let info = &mut map.nodes[usize::from(node.0)];
        (info.up, info.given_up) = (false, true);
    }
    let ids: Vec<VolumeId> = map.volumes.keys().copied().collect();
    for id in ids.iter().filter(|id| !failed.contains(id)) {
        map.attendance.entry(*id).or_default().away.extend(nodes);
    }
    let left = |map: &ClusterMap| nodes.iter().map(|n| map.columns_on(*n)).sum::<usize>();
    loop {
        let before = left(&map);
        moves::move_columns(&mut map, Timestamp::ZERO, &BTreeSet::new());
        let up: Vec<NodeId> = map.up().collect();
        for volume in map.volumes.values_mut() {
            up.iter().for_each(|node| moves::filled(volume, *node));
        }
        if left(&map) == before {
            return map;
        }
    }
}

/// The columns that are on other disks in the second map than in the first.
fn rebuilt(before: &ClusterMap, after: &ClusterMap) -> Vec<Rebuilt> {
    let of = |(old, new): (&Arc<Volume>, &Arc<Volume>)| {
        let extents = old.extents.iter().zip(&new.extents).enumerate();
        let moved = extents.flat_map(|(n, (a, b))| {
            let both = a.columns.iter().zip(&b.columns);
            both.filter(|(a, b)| a.0 != b.0).map(move |(a, b)| (n, a.0, b.0))
        });
        let one = |(n, from, to)| {
            let (volume, sectors) = (old.id, old.extent_sectors(n));
            Rebuilt { volume, from, to, sectors }
        };
        moved.map(one).collect::<Vec<_>>()
    };
    before.volumes.values().zip(after.volumes.values()).flat_map(of).collect()
}

#[cfg(test)]
mod tests;
