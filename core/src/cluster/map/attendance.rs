//! Who takes part in a volume: which of its nodes it goes on without, what they have missed, and who has a say
//! in which write.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{ClusterMap, Volume};
use crate::units::{ColumnSet, NodeId, Timestamp, VolumeId};

/// Which nodes a volume goes on without, and what its nodes have missed of it.
///
/// A volume is *asleep* while more of its nodes are down or behind than its layout bears.
/// Then nothing is written to it and nothing is decided, so those that left last have missed
/// nothing: when they are back the volume goes on where it stopped, as after a power cut.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Attendance {
    /// The nodes that it goes on without. One that is down and not among these is what the
    /// volume waits for.
    pub away: BTreeSet<NodeId>,
    /// Of a disk that missed writes: the timestamp of the first that it may have missed.
    pub stale_since: BTreeMap<NodeId, Timestamp>,
    /// Writes before this one were decided without the node.
    pub counts_from: BTreeMap<NodeId, Timestamp>,
    /// Nodes whose disks have forgotten what they promised, while the volume cannot do without them: it waits.
    pub forgot: BTreeSet<NodeId>,
}

impl Attendance {
    fn is_missing_or_behind(&self, node: NodeId) -> bool {
        self.away.contains(&node)
            || self.stale_since.contains_key(&node)
            || self.forgot.contains(&node)
    }
}

impl ClusterMap {
    /// Whether a volume goes on without a node, or has what its disk missed or forgot still to be put back.
    pub(in crate::cluster) fn is_missing_or_behind(&self, volume: VolumeId, node: NodeId) -> bool {
        self.attendance.get(&volume).is_some_and(|a| a.is_missing_or_behind(node))
    }

    fn is_away(&self, volume: VolumeId, node: NodeId) -> bool {
        self.attendance.get(&volume).is_some_and(|a| a.away.contains(&node))
    }

    /// The nodes whose disks have forgotten what they promised of a volume that cannot do without them.
    pub fn forgetful(&self, volume: VolumeId) -> impl Iterator<Item = NodeId> + '_ {
        self.attendance.get(&volume).into_iter().flat_map(|a| a.forgot.iter().copied())
    }

    /// The columns of an extent of `volume` that cannot be used.
    pub fn lost(&self, volume: &Volume, extent: usize) -> ColumnSet {
        let columns = &volume.extents[extent].columns;
        let gone = |c: &usize| {
            let node = columns[*c].0;
            let forgot = self.forgetful(volume.id).any(|n| n == node);
            !self.is_up(node) || self.is_away(volume.id, node) || forgot
        };
        (0..columns.len()).filter(gone).collect()
    }

    /// Whether nothing can be written to a volume or decided of it, because it waits for nodes: for
    /// those that hold columns, those from which columns are being copied, and those that have forgotten what
    /// they promised.
    pub fn is_asleep(&self, volume: &Volume) -> bool {
        if self.forgetful(volume.id).next().is_some() {
            return true;
        }
        // Asked for every write: extents are many, and nodes that are awaited few, or none.
        let nodes = (0..self.nodes.len() as u16).map(NodeId);
        let mut awaited = nodes.filter(|n| !self.is_up(*n) && !self.is_away(volume.id, *n));
        awaited.any(|n| volume.extents.iter().any(|e| e.place_on(n).is_some()))
    }

    /// Whether a volume that [is asleep](ClusterMap::is_asleep) could go on: no more of it is missing than
    /// its layout bears. Nobody had anything to write to it when the nodes left that it waits for, and
    /// as soon as somebody has it goes on without them.
    pub fn rests(&self, volume: &Volume) -> bool {
        let a = self.attendance.get(&volume.id);
        let behind = |n: NodeId| a.is_some_and(|a| a.is_missing_or_behind(n));
        self.is_asleep(volume) && !volume.is_lost_with(|n| !self.is_up(n) || behind(n))
    }

    /// Whether a volume cannot go on before nodes are back: it is asleep, and does not only rest.
    pub fn lacks_nodes(&self, volume: &Volume) -> bool {
        self.is_asleep(volume) && !self.rests(volume)
    }

    /// Whether `node` has a say in whether the write `ts` to an extent happens. Nobody has in one to
    /// an extent that has been cut off.
    pub fn has_say(&self, volume: &Volume, extent: usize, node: NodeId, ts: Timestamp) -> bool {
        let Some(extent) = volume.extents.get(extent) else { return false };
        let came_later = extent.filling_on(node).is_some_and(|f| f > ts);
        // One that the column is leaving decides what was written while it had it.
        let left_earlier = || {
            let column = extent.column_leaving(node);
            column.is_none_or(|c| extent.filling.get(&c).is_none_or(|f| *f <= ts))
        };
        if came_later || (extent.column_of(node).is_none() && left_earlier()) {
            return false;
        }
        let Some(a) = self.attendance.get(&volume.id) else { return true };
        !a.away.contains(&node) && a.counts_from.get(&node).is_none_or(|from| *from <= ts)
    }

    /// Those of a write's participants that have a say in whether it happens.
    pub fn voters(
        &self,
        volume: &Volume,
        extent: usize,
        participants: &[(usize, NodeId)],
        ts: Timestamp,
    ) -> Vec<NodeId> {
        let Some(extent_of) = volume.extents.get(extent) else { return Vec::new() };
        let holds = |p: &&(usize, NodeId)| {
            extent_of.columns[p.0].0 == p.1
                || extent_of.leaving.get(&p.0).is_some_and(|l| l.0 == p.1)
        };
        let says = |p: &&(usize, NodeId)| self.has_say(volume, extent, p.1, ts);
        participants.iter().filter(holds).filter(says).map(|p| p.1).collect()
    }

    /// If a disk may have missed writes to an extent: since when.
    pub fn behind_since(&self, volume: &Volume, extent: usize, node: NodeId) -> Option<Timestamp> {
        if volume.extents[extent].filling_on(node).is_some() {
            return Some(Timestamp::ZERO);
        }
        volume.extents[extent].column_of(node)?;
        self.attendance.get(&volume.id)?.stale_since.get(&node).copied()
    }

    /// The latest timestamp that stands in the map. Every write after it must have a later one.
    pub(in crate::cluster) fn latest_timestamp(&self) -> Timestamp {
        let attended = |a: &Attendance| {
            let times = a.stale_since.values().chain(a.counts_from.values());
            times.copied().max()
        };
        let filled = self.volumes.values().flat_map(|v| &v.extents);
        let filled = filled.flat_map(|e| e.filling.values().copied());
        let latest = self.attendance.values().filter_map(attended).chain(filled).max();
        latest.unwrap_or(Timestamp::ZERO)
    }

    /// Whether a disk may have missed writes to a volume.
    pub(in crate::cluster) fn has_missed(&self, volume: VolumeId, node: NodeId) -> bool {
        self.attendance.get(&volume).is_some_and(|a| a.stale_since.contains_key(&node))
    }

    /// Whether a disk may have missed writes to any volume, or is being filled.
    pub fn is_stale(&self, node: NodeId) -> bool {
        let filling = |v: &Arc<Volume>| v.extents.iter().any(|e| e.filling_on(node).is_some());
        self.attendance.values().any(|a| a.stale_since.contains_key(&node))
            || self.volumes.values().any(filling)
    }
}
