//! Thin volumes beside others: whether disks can hold them, and how much space they leave to reserve.

use serde_json::{Value, json};
use weft_core::cluster::Volume;

use super::Commands;
use crate::control::status;
use crate::error::{Result, fail};
use crate::size::rounded;
use crate::status::{NodeState, NodeStatus, VolumeStatus};

impl Commands<'_> {
    /// Refuses a volume if a disk cannot hold thin volumes, or if thin volumes use the space that it would reserve. Only
    /// the disks know how much they use.
    pub(super) fn check_space(&self, volume: &Volume) -> Result<()> {
        let nodes = status::nodes(self);
        match volume.is_thin() {
            true => check_slots(volume, &nodes, "a thin volume"),
            false => self.check_left(volume, &nodes),
        }
    }

    /// Refuses views of a volume if a disk cannot hold them. One of a thin volume that does not run can.
    pub(super) fn check_views(&self, volume: &Volume) -> Result<()> {
        check_views_on(volume, &status::nodes(self))
    }

    /// Refuses the first snapshot of a volume where a disk has no free slot: after it, all writes to the volume would fail. What
    /// deleted volumes have is free once it is needed.
    pub(super) fn check_first_snapshot(&self, volume: &Volume, nodes: &[NodeStatus]) -> Result<()> {
        let deleted = self.engine.map().deleted();
        let gives_way = |node: &NodeStatus| {
            deleted.iter().any(|volume| volume.nodes().iter().any(|n| n.0 == node.node))
        };
        let its = nodes.iter().filter(|node| volume.nodes().iter().any(|n| n.0 == node.node));
        let mut full =
            its.filter(|node| node.slots.is_some_and(|s| s.is_full()) && !gives_way(node));
        match full.next() {
            Some(node) if !volume.is_thin() => fail(format!(
                "the disk of node {} has no free space, so all writes to volume '{}' would fail after its first snapshot; \
                 shrink a volume, delete something, or add disks",
                node.node, volume.name
            )),
            _ => Ok(()),
        }
    }

    /// Adds a warning to an answer about these volumes if little space is left for them.
    pub(super) fn with_room_warning<'v>(
        mut answer: Value,
        volumes: impl IntoIterator<Item = &'v VolumeStatus>,
        nodes: &[NodeStatus],
    ) -> Value {
        if let Some(warning) = volumes.into_iter().find_map(|volume| volume.room_warning(nodes)) {
            answer["warning"] = json!(warning);
        }
        answer
    }

    /// The map with this volume in it must not reserve what thin volumes use.
    fn check_left(&self, volume: &Volume, nodes: &[NodeStatus]) -> Result<()> {
        let mut map = self.engine.map().clone();
        map.volumes.insert(volume.id, volume.clone().into());
        let reserved = map.used();
        for node in nodes.iter().filter(|node| volume.nodes().iter().any(|n| n.0 == node.node)) {
            let Some(slots) = node.slots.filter(|slots| slots.thin > 0) else { continue };
            let (usable, thin) = (slots.usable * slots.bytes, slots.thin * slots.bytes);
            if reserved[usize::from(node.node)] + thin > usable {
                return fail(format!(
                    "volume '{}' of {} does not fit on the disk of node {}: thin volumes use {} of its {}; make it smaller or \
                     thin, or delete or discard something",
                    volume.name,
                    rounded(volume.size),
                    node.node,
                    rounded(thin),
                    rounded(usable)
                ));
            }
        }
        Ok(())
    }
}

/// The same, on the disks of these nodes.
pub(super) fn check_views_on(volume: &Volume, nodes: &[NodeStatus]) -> Result<()> {
    let runs = |node: &&NodeStatus| node.quiet.is_some() && !is_starting(node);
    let counts = |node: &&NodeStatus| !volume.is_thin() || runs(node);
    check_slots(volume, nodes.iter().filter(counts), "snapshots")
}

/// Every disk with a column of a volume that has an address space of its own must be divided into slots, which only a running node can tell.
fn check_slots<'a>(
    volume: &Volume,
    nodes: impl IntoIterator<Item = &'a NodeStatus>,
    what: &str,
) -> Result<()> {
    let has = |node: &&NodeStatus| volume.nodes().iter().any(|n| n.0 == node.node);
    for node in nodes.into_iter().filter(has) {
        if node.quiet.is_none() {
            return fail(format!(
                "node {} is down, so it cannot be checked whether its disk can hold {what}; start it first",
                node.node
            ));
        }
        if is_starting(node) {
            return fail(format!(
                "node {} is still starting, so it is not known yet whether its disk can hold {what}; try again",
                node.node
            ));
        }
        if node.slots.is_none_or(|slots| slots.bytes == 0) {
            return fail(format!(
                "the disk of node {} cannot hold {what}: it is smaller than {}, or its process runs an earlier version \
                 of weft",
                node.node,
                rounded(LEAST_BYTES)
            ));
        }
    }
    Ok(())
}

/// Whether a node that runs has yet to find out what its disk has.
fn is_starting(node: &NodeStatus) -> bool {
    use NodeState::{CatchingUp, Draining, Suspect, Up};
    node.slots.is_none() && !matches!(node.state, Up | CatchingUp | Draining | Suspect)
}

/// Disks of this size are divided into slots.
const LEAST_BYTES: u64 = 8 << 20;
