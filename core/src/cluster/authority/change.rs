//! What operators change of the map. A change that makes no sense any more when its turn comes is not done.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::policy::{PolicyChange, set_policy};
use crate::cluster::ClusterSetting;
use crate::cluster::map::{
    ClusterMap, Deletion, Extent, Home, HostChange, Import, NodeInfo, NodeKind, ReservationChange,
    Volume,
};
use crate::policy::Every;
use crate::units::{MAX_NODES, NodeId, VolumeId};

/// The new size of a volume.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct VolumeSize {
    /// Its size in bytes; extents behind it go, and their room may be had by others.
    pub size: u64,
    /// Bytes that hosts see.
    pub visible: u64,
    /// Extents that are put behind its own. If they do not begin where those end, their room has been taken meanwhile, or a
    /// snapshot was, after which the volume goes on in another address space, nothing is done.
    pub more: Vec<Extent>,
}

impl VolumeSize {
    fn apply(&self, map: &mut ClusterMap, id: VolumeId) {
        let Some(before) = map.volumes.get(&id).cloned() else { return };
        let first = self.more.first().map_or(before.stripes(), |e| e.first);
        let mut sized = Volume::clone(&before);
        (sized.size, sized.visible) = (self.size, self.visible);
        sized.extents.extend(self.more.iter().cloned());
        let (stripes, is_in_one_space) = (sized.stripes(), sized.is_in_one_space());
        sized.extents.retain(|e| e.first < stripes);
        sized.tidy_ranges();
        map.volumes.insert(id, Arc::new(sized));
        // Without room for more it can only become smaller, or stay in its last stripe.
        let grows = self.more.is_empty() && stripes > before.stripes();
        let is_behind = first == before.stripes() && is_in_one_space;
        if !is_behind || grows || map.check().is_err() {
            map.volumes.insert(id, before);
        } else if self.size < before.size {
            // What lies behind its end is shown by nobody, and is still there.
            map.room_used = true;
        }
    }
}

/// Nodes to admit, all in one process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NewNodes {
    /// The number of the first, which is the next that is free; if it is not, nothing is done.
    pub first: NodeId,
    /// How many, under the numbers from there on.
    pub count: usize,
    /// Where they live, if there are several processes.
    pub home: Option<Arc<Home>>,
    /// What they are for.
    pub kind: NodeKind,
    /// The process that serves them, if it has nodes already. If none: it gets the number of the
    /// first, or each has one of its own in an array in one process.
    pub process: Option<NodeId>,
    /// The process that they replace, which has no node up: its nodes are given up, and cannot come back.
    pub replaced: Option<NodeId>,
}

impl NewNodes {
    /// One node of an array in one process.
    pub fn one(node: NodeId) -> NewNodes {
        let (home, kind, process) = (None, NodeKind::Disk, None);
        NewNodes { first: node, count: 1, home, kind, process, replaced: None }
    }

    /// Whether it can be made while these nodes run.
    pub(super) fn can_be_made(&self, map: &ClusterMap, running: &[NodeId]) -> bool {
        self.replaced.is_none_or(|p| !map.served_by(p).any(|n| running.contains(&n)))
    }

    fn apply(&self, map: &mut ClusterMap) {
        let first = usize::from(self.first.0);
        let known = self.process.is_none_or(|p| map.served_by(p).next().is_some());
        let fits = first <= MAX_NODES && self.count <= MAX_NODES - first;
        if map.nodes.len() != first || !fits || !known {
            return;
        }
        if let Some(process) = self.replaced {
            replace_process(map, process);
        }
        for n in 0..self.count {
            let process = self.process.or((n > 0).then_some(self.first));
            let info = NodeInfo::expected(self.home.clone());
            map.nodes.push(NodeInfo { kind: self.kind, process, ..info });
        }
    }
}

/// What an operator changes of the map.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    /// A node that is down is not expected back.
    GiveUp(NodeId),
    /// An operator adds a volume. It is not done if there is one of that number, if what it chooses does not
    /// go together, or if the map would not be sound: if its room has been taken meanwhile.
    AddVolume(Arc<Volume>),
    /// An operator changes how large a volume is. Nothing else of it changes: columns may have
    /// moved since the operator looked.
    SizeVolume(VolumeId, VolumeSize),
    /// An operator changes a volume's policy. It is not done if its values do not go together
    /// ([`ClusterMap::check_policy`]). Writes that are not settled yet are settled as
    /// after any change of the map: what a participant has prepared does not depend on it.
    SetPolicy(VolumeId, PolicyChange),
    /// An operator removes one. Its room may be another's with the next map, whatever is in work of it
    /// now, is undecided, not in place, or in the journal of a node that is down. Nothing of it can come to
    /// lie in what has its room then, for four reasons:
    ///
    /// - Nothing of it begins any more: messages of the epochs before are dropped, and without a map
    ///   of it no node takes part in anything new. Volumes' numbers are not used twice.
    /// - Nothing of it is decided any more: each node, as it enters an epoch without the volume,
    ///   aborts what it has prepared, also what it found in its journal when it opened its disk.
    /// - The decision is older. A disk orders what is written to a sector by timestamp, whatever
    ///   volume it is of: in memory, in place and in replaying the journal later content stays on top, and
    ///   a sector with an earlier write that is undecided is not put in place before that is decided.
    /// - Whoever gets the room is not seen before all of it has been written to, in whole stripes,
    ///   later than all this (`ClusterMap::room_used`). A disk that was away then, or that a column comes to, is behind
    ///   there until it has been rebuilt, later still; and what it has from before makes nothing
    ///   fresh.
    ///
    /// The same holds of what [`Change::SizeVolume`] cuts off; but where a stripe is cut off and
    /// others of its extent stay, a write that crosses the cut is decided later nevertheless. It is older
    /// than what has come there since, and makes nothing fresh either.
    RemoveVolume(VolumeId),
    /// An operator deletes a volume, at this time in seconds since 1970. Hosts do not see it any more, and it keeps its room
    /// until it is forgotten. Room that hosts never saw is given back at once. It is not done if it has snapshots. A snapshot,
    /// unless a clone lies over it, is merged into what lies over it, and forgotten.
    DeleteVolume(VolumeId, u64),
    /// An operator has hosts see a deleted volume again. It is not done if it is not deleted, or if another volume
    /// has its name now.
    UndeleteVolume(VolumeId),
    /// A deleted volume is removed permanently. It is not done if it is not deleted: it may have been brought back.
    ForgetVolume(VolumeId),
    /// An operator takes a snapshot of volumes, all at one time, under this name
    /// ([`ClusterMap::check_snapshot`]). The time is in seconds since 1970.
    TakeSnapshots(Vec<VolumeId>, String, u64),
    /// The snapshots that are due by the schedules of these volumes are taken, all at one time, which is in seconds since
    /// 1970. Those that cannot be taken are left out.
    TakeScheduled(Vec<(VolumeId, Every)>, u64),
    /// An operator makes a volume out of a snapshot, under this name ([`ClusterMap::check_clone`]).
    CloneVolume(VolumeId, String),
    /// An operator sets a volume back to a snapshot of it ([`ClusterMap::check_rollback`]).
    RollBack(VolumeId, VolumeId),
    /// An operator makes the hidden volume of an import on top of a snapshot ([`ClusterMap::check_import`]).
    BeginImport(VolumeId, Import),
    /// The content of a hidden volume is durable up to this offset.
    AdvanceImport(VolumeId, u64),
    /// The content of a hidden volume is complete: it is put in place, and its snapshot is taken. It is not done if the
    /// volume, or a name, is gone or taken meanwhile.
    FinishImport(VolumeId),
    /// An operator has a clone become independent of the snapshot below it ([`ClusterMap::check_flatten`]).
    Flatten(VolumeId),
    /// An operator gives a volume another name. It is not done if another volume has that.
    RenameVolume(VolumeId, String),
    /// An operator drains a node's disk to others, or stops that.
    Drain(NodeId, bool),
    /// An operator expects a node's disk to fail, or does not any more.
    Suspect(NodeId, bool),
    /// An operator has columns moved until all disks are equally full, or that stopped: moves in progress then finish.
    Rebalance(bool),
    /// An operator admits nodes.
    AddNodes(NewNodes),
    /// An operator removes a node permanently. It is not done unless the node is down, given up or
    /// drained, and holds nothing.
    RemoveNode(NodeId),
    /// An operator chooses something for the cluster as a whole.
    Set(ClusterSetting),
    /// An operator changes which hosts are known, or what they may do.
    Hosts(HostChange),
    /// A host registers with a volume, or reserves it. It is done if it may be
    /// ([`Reservations::outcome`](crate::cluster::Reservations::outcome)).
    Reserve(ReservationChange),
}

impl Change {
    /// The volumes among these that it takes a snapshot of.
    pub(super) fn shown_of(&self, volumes: &BTreeSet<VolumeId>) -> Vec<VolumeId> {
        let shown: Vec<VolumeId> = match self {
            Change::TakeSnapshots(of, ..) => of.clone(),
            Change::TakeScheduled(due, _) => due.iter().map(|(id, _)| *id).collect(),
            _ => Vec::new(),
        };
        shown.into_iter().filter(|id| volumes.contains(id)).collect()
    }

    /// The map that would come of it, but for what follows from that.
    pub fn made_on(&self, map: &ClusterMap) -> ClusterMap {
        let mut map = map.clone();
        self.apply(&mut map);
        map
    }

    /// Makes it, if what comes of it is sound.
    pub(super) fn apply(&self, map: &mut ClusterMap) {
        match self {
            Change::GiveUp(node) => {
                if let Some(info) = map.nodes.get_mut(usize::from(node.0)) {
                    info.given_up = true;
                }
            }
            Change::AddVolume(volume) => add_volume(map, volume),
            Change::SizeVolume(id, size) => size.apply(map, *id),
            Change::SetPolicy(id, change) => set_policy(map, *id, change),
            Change::RemoveVolume(id) => remove_volume(map, *id),
            Change::DeleteVolume(id, since) => delete_volume(map, *id, *since),
            Change::UndeleteVolume(id) => undelete_volume(map, *id),
            Change::ForgetVolume(id) => {
                if map.volumes.get(id).is_some_and(|v| v.is_deleted()) {
                    remove_volume(map, *id);
                }
            }
            Change::TakeSnapshots(of, name, taken) => map.take_snapshots(of, name, *taken),
            Change::TakeScheduled(due, taken) => map.take_scheduled(due, *taken),
            Change::CloneVolume(snapshot, name) => map.clone_volume(*snapshot, name),
            Change::RollBack(id, snapshot) => map.roll_back(*id, *snapshot),
            Change::BeginImport(base, import) => map.begin_import(*base, import),
            Change::AdvanceImport(id, done) => map.advance_import(*id, *done),
            Change::FinishImport(id) => map.finish_import(*id),
            Change::Flatten(id) => map.flatten(*id),
            Change::RenameVolume(id, name) => rename_volume(map, *id, name),
            Change::Drain(node, draining) => {
                if let Some(info) = map.nodes.get_mut(usize::from(node.0)) {
                    info.draining = *draining;
                }
            }
            Change::Suspect(node, suspect) => {
                if let Some(info) = map.nodes.get_mut(usize::from(node.0)) {
                    info.suspect = *suspect;
                }
            }
            Change::Rebalance(on) => map.rebalancing = *on,
            Change::AddNodes(new) => new.apply(map),
            Change::RemoveNode(node) => remove_node(map, *node),
            Change::Set(setting) => map.settings.set(*setting),
            Change::Hosts(change) => change.apply(map),
            Change::Reserve(change) => change.apply(map),
        }
    }
}

/// Another process takes the place of this one: nobody looks for its nodes any more, and what they had is rebuilt.
fn replace_process(map: &mut ClusterMap, process: NodeId) {
    let nodes: Vec<NodeId> = map.served_by(process).collect();
    for node in nodes {
        let info = &mut map.nodes[usize::from(node.0)];
        (info.given_up, info.draining) = (true, false);
        if let Some(home) = &mut info.home {
            Arc::make_mut(home).address.clear();
        }
    }
}

/// Nodes whose process was replaced leave when they hold nothing any more.
pub(super) fn remove_replaced(map: &mut ClusterMap) {
    let nodes = (0..map.nodes.len() as u16).map(NodeId);
    let replaced = |n: &NodeId| {
        let info = &map.nodes[usize::from(n.0)];
        info.is_replaced() && !info.removed
    };
    for node in nodes.filter(replaced).collect::<Vec<_>>() {
        remove_node(map, node);
    }
}

fn add_volume(map: &mut ClusterMap, volume: &Arc<Volume>) {
    let refused = map.check_new_policy(volume, &[]).is_err();
    if map.volumes.contains_key(&volume.id) || refused {
        return;
    }
    map.volumes.insert(volume.id, volume.clone());
    if map.check().is_err() {
        map.volumes.remove(&volume.id);
    } else {
        map.next_volume = map.next_volume.max(volume.id.0 + 1);
    }
}

/// Not done while other volumes show its content.
fn remove_volume(map: &mut ClusterMap, id: VolumeId) {
    if !map.can_forget(id) {
        return;
    }
    map.volumes.remove(&id);
    map.attendance.remove(&id);
    map.room_used = true;
}

fn delete_volume(map: &mut ClusterMap, id: VolumeId, since: u64) {
    let cloned = map.above(id).any(|volume| map.is_clone_of(volume, id));
    let may = |v: &Volume| !v.is_deleted() && !cloned && map.snapshots_of(id).is_empty();
    if !map.volumes.get(&id).is_some_and(|v| may(v)) {
        return;
    }
    if let Some(volume) = map.volumes.get_mut(&id) {
        let volume = Arc::make_mut(volume);
        // What a growth had yet to clear must not be seen if the volume is brought back.
        if volume.visible > 0 && volume.visible < volume.size {
            volume.cut_to_visible();
            map.room_used = true;
        }
        (volume.visible, volume.deletion.since) = (0, Some(since));
    }
}

fn undelete_volume(map: &mut ClusterMap, id: VolumeId) {
    let Some(before) = map.volumes.get(&id).filter(|v| v.is_deleted()).cloned() else { return };
    // A deleted snapshot is merged at once.
    if map.name_is_taken(&before.name, id) || before.is_snapshot() {
        return;
    }
    let back = Volume { visible: before.size, deletion: Deletion::default(), ..(*before).clone() };
    map.volumes.insert(id, Arc::new(back));
    // Its sequencer may not go with what volumes choose that were made meanwhile.
    if map.check().is_err() {
        map.volumes.insert(id, before);
    }
}

fn rename_volume(map: &mut ClusterMap, id: VolumeId, name: &str) {
    let taken = map.name_is_taken(name, id);
    let Some(volume) = map.volumes.get_mut(&id).filter(|v| !taken && !v.is_snapshot()) else {
        return;
    };
    let before = std::mem::replace(&mut Arc::make_mut(volume).name, name.to_string());
    // Those of its snapshots begin with it.
    for snapshot in map.volumes.values_mut() {
        let of_it = snapshot.lineage.snapshot.is_some_and(|s| s.of == id);
        if let Some(rest) = snapshot.name.strip_prefix(&before).filter(|_| of_it) {
            let name = format!("{name}{rest}");
            Arc::make_mut(snapshot).name = name;
        }
    }
}

fn remove_node(map: &mut ClusterMap, node: NodeId) {
    let holds = map.volumes.values().any(|v| v.nodes().contains(&node));
    let info = map.nodes.get_mut(usize::from(node.0));
    let gone = |i: &&mut NodeInfo| !i.up && (i.given_up || i.draining || !i.has_disk());
    if let Some(info) = info.filter(|i| !holds && gone(i)) {
        info.removed = true;
    }
}
