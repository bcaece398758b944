//! The space of disks: slots, the use that thin volumes make of them, and free bytes.

use weft_core::cluster::{ClusterMap, Fullness, Volume};
use weft_core::units::VolumeId;

use crate::status::{FlatteningOnDisk, FlatteningStatus, NodeStatus, SlotsStatus, ThinStatus};

/// What a running node knows of its disk's slots.
pub(super) fn tell(status: &mut NodeStatus, life: &weft_core::node::NodeStatus) {
    status.slots = life.slots.map(SlotsStatus::from);
    let bytes = life.slots.map_or(0, |slots| slots.bytes);
    let thin = life.thin.iter().map(|(id, slots)| (id.0, slots * bytes));
    status.thin = thin.map(|(volume, bytes)| ThinStatus { volume, bytes }).collect();
    let lacks_space = life.flattens_without_space;
    let of = |(id, done): &(VolumeId, u64)| FlatteningOnDisk {
        volume: id.0,
        thousandths: *done,
        lacks_space,
    };
    status.flattening = life.flattening.iter().map(of).collect();
}

/// How far disks are that copy what a clone shows of others.
pub(super) fn flattening(
    map: &ClusterMap,
    volume: &Volume,
    nodes: &[NodeStatus],
) -> Option<FlatteningStatus> {
    // That may be the first of its snapshots.
    let lowest = map.flattening(volume.id)?;
    let said = |node: &NodeStatus| {
        let its = node.flattening.iter().find(|its| its.volume == lowest.id.0)?;
        Some((node.node, its.thousandths, its.lacks_space))
    };
    let all: Vec<(u16, u64, bool)> = nodes.iter().filter_map(said).collect();
    let sum: u64 = all.iter().map(|(_, done, _)| done).sum();
    Some(FlatteningStatus {
        percent: (!all.is_empty()).then(|| sum as f64 / all.len() as f64 / 10.0),
        full: all.iter().filter(|(.., lacks_space)| *lacks_space).map(|(n, ..)| *n).collect(),
    })
}

/// Used and free bytes of each node's disk. `reserved` are the bytes that volumes reserve, by node.
pub(super) fn fill_in(nodes: &mut [NodeStatus], reserved: &[u64], disks: &[Fullness]) {
    let thin = |node: &NodeStatus| node.thin.iter().map(|thin| thin.bytes).sum::<u64>();
    for node in nodes.iter_mut().filter(|node| node.disk.is_some()) {
        let reserved = reserved.get(usize::from(node.node));
        node.used_bytes = reserved.map(|reserved| reserved + thin(node));
    }
    for disk in disks {
        if let Some(node) = nodes.iter_mut().find(|node| node.node == disk.node.0) {
            node.free_bytes = Some(disk.size.saturating_sub(node.used_bytes.unwrap_or_default()));
        }
    }
    for node in nodes {
        node.thin.clear();
        node.flattening.clear();
    }
}

/// Bytes of a thin volume that have space on disks, without its redundancy.
pub(super) fn used_bytes(volume: &Volume, nodes: &[NodeStatus]) -> u64 {
    let of = nodes.iter().flat_map(|node| &node.thin).filter(|thin| thin.volume == volume.id.0);
    let all: u128 = of.map(|thin| u128::from(thin.bytes)).sum();
    let geometry = &volume.geometry;
    (all * geometry.data_columns() as u128 / geometry.code.columns().max(1) as u128) as u64
}
