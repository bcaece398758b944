//! Who takes part in a volume: which of its nodes it goes on without, what they have missed, and who has a say
//! in which write.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use super::{ClusterMap, Extent, NodeInfo, Volume};
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
    /// When nodes were away that have yet to catch up on it, the earliest first: what their disks show as written in
    /// that time was there before. What they have been given of what they missed, they have since they were back for the
    /// first time.
    pub times_away: BTreeMap<NodeId, Vec<TimeAway>>,
}

/// A time that a volume went on without a node.
///
/// Timestamps of what was written to that node's disk alone (a sector that was put back, say) may have run ahead of all
/// that the others knew of when it left. They went on from `from` all the same. So a version of that disk which lies in
/// this time is no later than what they wrote: it came before all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TimeAway {
    /// Whatever was written without the node is later than this.
    pub from: Timestamp,
    /// Whatever was written since it is back is later than this; `None` while it is away.
    pub until: Option<Timestamp>,
}

impl TimeAway {
    /// What a version that the node's disk shows counts as, beside those of the others.
    pub fn as_of_its_leaving(&self, version: Timestamp) -> Timestamp {
        let within = self.until.is_some_and(|until| self.from <= version && version < until);
        if within { Timestamp(self.from.0.saturating_sub(1)) } else { version }
    }
}

impl Attendance {
    /// Takes down who is away from now on and who is back, at the `floor` of a new epoch. `written` says up to when a
    /// disk shows writes.
    pub(in crate::cluster) fn note_times_away(
        &mut self,
        floor: Timestamp,
        written: impl Fn(NodeId) -> Timestamp,
    ) {
        for node in &self.away {
            let times = self.times_away.entry(*node).or_default();
            if times.last().is_none_or(|a| a.until.is_some()) {
                times.push(TimeAway { from: floor, until: None });
            }
        }
        let (away, behind) = (&self.away, &self.stale_since);
        self.times_away.retain(|node, times| {
            if !away.contains(node)
                && let Some(last) = times.last_mut().filter(|a| a.until.is_none())
            {
                last.until = Some(floor);
                // Nearly always: nothing there is from a time that the others did not know of. When it was back for
                // the first time is kept all the same.
                if written(*node) < last.from && times.len() > 1 {
                    times.pop();
                }
            }
            times.retain(|a| a.until.is_none() || behind.contains_key(node));
            !times.is_empty()
        });
    }

    pub(in crate::cluster) fn is_missing_or_behind(&self, node: NodeId) -> bool {
        self.away.contains(&node)
            || self.stale_since.contains_key(&node)
            || self.forgot.contains(&node)
    }
}

impl ClusterMap {
    /// Whether a volume goes on without a node, or has what its disk missed or forgot still to be put back.
    pub(crate) fn is_missing_or_behind(&self, volume: VolumeId, node: NodeId) -> bool {
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

    /// The volumes whose columns go from one disk to another, or are to. No parity of theirs may wait: should the disk that a
    /// column comes to miss anything, parity alone determines the rest (`moves.rs`). Nor are writes to them copied, since that
    /// disk would have no copies.
    pub fn moving(&self) -> BTreeSet<VolumeId> {
        let drains = |n: NodeId| {
            self.nodes.get(usize::from(n.0)).is_some_and(|info| info.draining && !info.removed)
        };
        let leaves = |e: &Extent| !e.leaving.is_empty() || e.columns.iter().any(|c| drains(c.0));
        let moves = |v: &Volume| self.rebalancing || v.extents.iter().any(leaves);
        self.volumes.values().filter(|v| moves(v)).map(|v| v.id).collect()
    }

    /// Whether a disk with columns of these stripes is expected to fail.
    pub fn has_suspect(&self, volume: &Volume, stripes: Range<u64>) -> bool {
        let is_suspect =
            |n: NodeId| self.nodes.get(usize::from(n.0)).is_some_and(|info| info.suspect);
        let last = stripes.end.saturating_sub(1).max(stripes.start);
        let extents = volume.extent_of(stripes.start)..=volume.extent_of(last);
        volume.extents[extents].iter().any(|e| e.columns.iter().any(|c| is_suspect(c.0)))
    }

    /// The times that a volume went on without a node which has yet to catch up.
    pub fn times_away(&self, volume: VolumeId, node: NodeId) -> &[TimeAway] {
        let of = self.attendance.get(&volume).and_then(|a| a.times_away.get(&node));
        of.map_or(&[], Vec::as_slice)
    }

    /// The latest timestamp that stands in the map. Every write after it must have a later one.
    pub(in crate::cluster) fn latest_timestamp(&self) -> Timestamp {
        let attended = |a: &Attendance| {
            let times = a.stale_since.values().chain(a.counts_from.values()).copied();
            let left = a.times_away.values().flatten().map(|time| time.from);
            times.chain(left).max()
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

    /// All nodes that are stale ([`ClusterMap::is_stale`]).
    pub fn stale(&self) -> BTreeSet<NodeId> {
        let behind = self.attendance.values().flat_map(|a| a.stale_since.keys().copied());
        let extents = self.volumes.values().flat_map(|volume| &volume.extents);
        let filling = extents.flat_map(|e| e.filling.keys().map(|column| e.columns[*column].0));
        behind.chain(filling).collect()
    }

    /// Whether a disk is out that belongs to the cluster and has been seen. One that was given up is none any more when
    /// nothing is on it.
    pub fn is_out(&self, node: NodeId) -> bool {
        let is_out = |info: &NodeInfo| {
            let there = info.has_disk() && !info.removed && info.disk != 0;
            there && !info.up && !(info.given_up && self.columns_on(node) == 0)
        };
        self.nodes.get(usize::from(node.0)).is_some_and(is_out)
    }

    /// Whether no disk is out and none has anything to catch up on.
    pub fn is_whole(&self) -> bool {
        let mut all = (0..self.nodes.len() as u16).map(NodeId);
        let mut extents = self.volumes.values().flat_map(|v| &v.extents);
        !all.any(|n| self.is_out(n))
            && self.attendance.values().all(|a| a.stale_since.is_empty())
            && extents.all(|e| e.filling.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_is_whole_unless_a_disk_is_out_or_behind() {
        let mut map =
            ClusterMap { nodes: vec![NodeInfo::new(1, 1000); 3], ..ClusterMap::default() };
        map.nodes[0] = NodeInfo::expected(None);
        assert!(map.is_whole(), "one that has not come yet is not missed");
        map.nodes[1].up = false;
        assert!(map.is_out(NodeId(1)) && !map.is_whole());
        map.nodes[1].given_up = true;
        assert!(map.is_whole(), "nothing is on it");
        let stale_since = [(NodeId(2), Timestamp(1))].into();
        map.attendance.insert(VolumeId(1), Attendance { stale_since, ..Attendance::default() });
        assert!(!map.is_whole() && !map.is_out(NodeId(2)));
    }

    #[test]
    fn the_first_time_away_is_kept_and_those_of_disks_that_show_what_nobody_knew_of() {
        let (shows_more, shows_less, at) = (NodeId(1), NodeId(2), Timestamp);
        let nodes = BTreeSet::from([shows_more, shows_less]);
        let mut a = Attendance { away: nodes.clone(), ..Attendance::default() };
        a.stale_since = nodes.iter().map(|n| (*n, at(80))).collect();
        a.note_times_away(at(100), |_| at(0));
        let open = vec![TimeAway { from: at(100), until: None }];
        assert_eq!(a.times_away, nodes.iter().map(|n| (*n, open.clone())).collect());
        a.note_times_away(at(150), |_| at(0));
        a.away.clear();
        a.note_times_away(at(200), |_| at(99));
        let time = TimeAway { from: at(100), until: Some(at(200)) };
        assert_eq!(a.times_away, nodes.iter().map(|n| (*n, vec![time])).collect());
        a.away = nodes;
        a.note_times_away(at(220), |_| at(0));
        a.away.clear();
        a.note_times_away(at(240), |n| if n == shows_more { at(220) } else { at(219) });
        let again = TimeAway { from: at(220), until: Some(at(240)) };
        assert_eq!(
            a.times_away,
            [(shows_more, vec![time, again]), (shows_less, vec![time])].into()
        );
        let counts_as = [99, 100, 199, 200].map(|v| time.as_of_its_leaving(at(v)).0);
        assert_eq!(counts_as, [99, 99, 99, 200]);
        a.stale_since.clear();
        a.note_times_away(at(300), |_| at(250));
        assert!(a.times_away.is_empty(), "it has caught up");
    }
}
