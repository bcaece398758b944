//! How equally full the disks are, and the moves that make them so.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use weft_core::cluster::{ClusterMap, Fullness, Plan, plan_balance};
use weft_core::units::{NodeId, SECTOR};

use crate::status::{Evenness, NodeStatus};

/// How full the disks of these nodes are, and whether they could be more equally so. The plan takes thin volumes to be as
/// large as they may become, which says nothing of how full a disk is.
pub(super) fn evenness(map: &ClusterMap, plan: &Plan, nodes: &[NodeStatus]) -> Evenness {
    let percent = |node: &NodeStatus| {
        let (used, free) = (node.used_bytes?, node.free_bytes?);
        Some(used as f64 * 100.0 / (used + free).max(1) as f64)
    };
    let full: Vec<f64> = nodes.iter().filter_map(percent).collect();
    Evenness {
        rebalancing: map.rebalancing,
        uneven: !plan.moves.is_empty(),
        fullest_percent: full.iter().copied().fold(0.0, f64::max),
        emptiest_percent: full.iter().copied().reduce(f64::min).unwrap_or(0.0),
    }
}

/// The moves that make the disks equally full.
pub(crate) fn planned(map: &ClusterMap) -> Value {
    let plan = plan_balance(map, usize::MAX);
    let disk = |(before, after): (&Fullness, &Fullness)| {
        json!({
            "node": before.node.0,
            "bytes": before.size,
            "used_bytes": before.used,
            "used_bytes_after": after.used,
        })
    };
    let extents = || map.volumes.values().flat_map(|v| &v.extents);
    json!({
        "rebalancing": map.rebalancing,
        "columns": plan.moves.len(),
        "bytes": plan.moves.iter().map(|m| m.sectors * SECTOR).sum::<u64>(),
        "under_way": extents().map(|e| e.leaving.len()).sum::<usize>(),
        "filled": extents().map(|e| e.filling.len()).sum::<usize>(),
        "disks": plan.before.iter().zip(&plan.after).map(disk).collect::<Vec<Value>>(),
        "waits_for": holding_up(map),
    })
}

/// The nodes that rebalancing waits for while it goes on: those that have parts of volumes and are
/// down, or have not caught up.
fn holding_up(map: &ClusterMap) -> Vec<Value> {
    let nodes: BTreeSet<NodeId> = map.volumes.values().flat_map(|v| v.nodes()).collect();
    let is_behind = |n| map.attendance.values().any(|a| a.stale_since.contains_key(&n));
    let state = |n: NodeId| match map.is_up(n) {
        false => Some("down"),
        true => is_behind(n).then_some("behind"),
    };
    let held_up =
        nodes.into_iter().filter_map(|n| Some(json!({ "node": n.0, "state": state(n)? })));
    held_up.filter(|_| map.rebalancing).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_as_full_as_it_is_used_whatever_thin_volumes_may_become() {
        let node =
            |used, free| NodeStatus { used_bytes: used, free_bytes: free, ..NodeStatus::default() };
        let worst = Fullness { node: NodeId(0), size: 100, used: 1 << 40 };
        let plan = Plan { before: vec![worst], after: vec![worst], moves: Vec::new() };
        let of = |nodes: &[NodeStatus]| {
            let evenness = evenness(&ClusterMap::default(), &plan, nodes);
            (evenness.fullest_percent, evenness.emptiest_percent)
        };
        // One gets no columns, and one is a host.
        let nodes = [
            node(Some(10), Some(90)),
            node(Some(40), Some(60)),
            node(Some(99), None),
            node(None, None),
        ];
        assert_eq!(of(&nodes), (40.0, 10.0));
        assert_eq!(of(&[node(Some(0), Some(0))]), (0.0, 0.0));
    }
}
