//! The space of disks: slots, the use that thin volumes make of them, and free bytes.

use weft_core::cluster::{Fullness, Volume};

use crate::status::{NodeStatus, SlotsStatus, ThinStatus};

/// What a running node knows of its disk's slots.
pub(super) fn tell(status: &mut NodeStatus, life: &weft_core::node::NodeStatus) {
    status.slots = life.slots.map(SlotsStatus::from);
    let bytes = life.slots.map_or(0, |slots| slots.bytes);
    let thin = life.thin.iter().map(|(id, slots)| (id.0, slots * bytes));
    status.thin = thin.map(|(volume, bytes)| ThinStatus { volume, bytes }).collect();
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
    nodes.iter_mut().for_each(|node| node.thin.clear());
}

/// Bytes of a thin volume that have space on disks, without its redundancy.
pub(super) fn used_bytes(volume: &Volume, nodes: &[NodeStatus]) -> u64 {
    let of = nodes.iter().flat_map(|node| &node.thin).filter(|thin| thin.volume == volume.id.0);
    let all: u128 = of.map(|thin| u128::from(thin.bytes)).sum();
    let geometry = &volume.geometry;
    (all * geometry.data_columns() as u128 / geometry.code.columns().max(1) as u128) as u64
}
