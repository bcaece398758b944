//! The space of disks: slots, the use that thin volumes make of them, and free bytes.

use std::collections::BTreeMap;

use weft_core::cluster::{ClusterMap, Fullness, Volume};
use weft_core::units::VolumeId;

use crate::status::{FlatteningOnDisk, FlatteningStatus, NodeStatus, SlotsStatus, ThinStatus};

/// What a running node knows of its disk's slots.
pub(super) fn tell(status: &mut NodeStatus, life: &weft_core::node::NodeStatus) {
    status.slots = life.slots.map(SlotsStatus::from);
    status.lost_claims = life.has_lost_claims;
    let bytes = life.slots.map_or(0, |slots| slots.bytes);
    let mut thin = BTreeMap::<u32, ThinStatus>::new();
    let of = |id: &VolumeId| ThinStatus { volume: id.0, ..ThinStatus::default() };
    for (id, slots) in &life.thin {
        thin.entry(id.0).or_insert_with(|| of(id)).bytes = slots * bytes;
    }
    for (id, slots) in &life.shown {
        thin.entry(id.0).or_insert_with(|| of(id)).shown_bytes = slots * bytes;
    }
    status.thin = thin.into_values().collect();
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
    without_redundancy(volume, nodes, |thin| thin.bytes)
}

/// Bytes that the deletion of a snapshot alone would free, without its redundancy. What the only view over it shows of it
/// becomes that view's own. If several lie over it, its content stays with it.
pub(super) fn exclusive_bytes(map: &ClusterMap, snapshot: &Volume, nodes: &[NodeStatus]) -> u64 {
    let used = match snapshot.is_thin() {
        true => used_bytes(snapshot, nodes),
        false => snapshot.size,
    };
    let mut above = map.above(snapshot.id);
    match (above.next(), above.next()) {
        (None, _) => used,
        (Some(above), None) => {
            used.saturating_sub(without_redundancy(above, nodes, |thin| thin.shown_bytes))
        }
        (Some(_), Some(_)) => 0,
    }
}

/// A number that disks have for a volume, all together, without its redundancy.
fn without_redundancy(
    volume: &Volume,
    nodes: &[NodeStatus],
    number: impl Fn(&ThinStatus) -> u64,
) -> u64 {
    let of = nodes.iter().flat_map(|node| &node.thin).filter(|thin| thin.volume == volume.id.0);
    let all: u128 = of.map(|thin| u128::from(number(thin))).sum();
    let geometry = &volume.geometry;
    (all * geometry.data_columns() as u128 / geometry.code.columns().max(1) as u128) as u64
}
