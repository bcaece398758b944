//! What operators change of the map. A change that makes no sense any more when its turn comes is not done.

use std::sync::Arc;

use super::policy::{PolicyChange, set_policy};
use crate::cluster::map::{ClusterMap, Extent, Home, NodeInfo, Volume};
use crate::units::{MAX_NODES, NodeId, VolumeId};

/// How large a volume is to be.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct VolumeSize {
    /// Its size in bytes; extents behind it go, and their room may be had by others.
    pub size: u64,
    /// Bytes that hosts see.
    pub visible: u64,
    /// Extents that are put behind its own. If they do not begin where those end, or their room
    /// has been taken meanwhile, nothing is done.
    pub more: Vec<Extent>,
}

/// Nodes that are to be admitted, all in one process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NewNodes {
    /// The number of the first, which is the next that is free; if it is not, nothing is done.
    pub first: NodeId,
    /// How many, under the numbers from there on.
    pub count: usize,
    /// Where they live, if there are several processes.
    pub home: Option<Arc<Home>>,
    /// Whether it is a host that is its own controller.
    pub is_host: bool,
    /// The process that serves them, if it has nodes already. If none: it gets the number of the
    /// first, or each has one of its own in an array in one process.
    pub process: Option<NodeId>,
}

impl NewNodes {
    /// One node of an array in one process.
    pub fn one(node: NodeId) -> NewNodes {
        NewNodes { first: node, count: 1, home: None, is_host: false, process: None }
    }

    fn apply(&self, map: &mut ClusterMap) {
        let first = usize::from(self.first.0);
        let known = self.process.is_none_or(|p| map.served_by(p).next().is_some());
        if map.nodes.len() != first || first + self.count > MAX_NODES || !known {
            return;
        }
        for n in 0..self.count {
            let process = self.process.or((n > 0).then_some(self.first));
            let info = NodeInfo::expected(self.home.clone());
            map.nodes.push(NodeInfo { is_host: self.is_host, process, ..info });
        }
    }
}

#[derive(Clone, Debug, Hash)]
pub(super) enum Change {
    AddVolume(Arc<Volume>),
    SizeVolume(VolumeId, VolumeSize),
    SetPolicy(VolumeId, PolicyChange),
    RemoveVolume(VolumeId),
    Drain(NodeId, bool),
    Rebalance(bool),
    AddNodes(NewNodes),
    RemoveNode(NodeId),
}

impl Change {
    /// Applies it, if what comes of it is sound.
    pub(super) fn apply(&self, map: &mut ClusterMap) {
        match self {
            Change::AddVolume(volume) => {
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
            Change::SizeVolume(id, to) => {
                let Some(before) = map.volumes.get(id).cloned() else { return };
                let first = to.more.first().map_or(before.stripes(), |e| e.first);
                let mut sized = Volume::clone(&before);
                (sized.size, sized.visible) = (to.size, to.visible);
                sized.extents.extend(to.more.iter().cloned());
                let stripes = sized.stripes();
                sized.extents.retain(|e| e.first < stripes);
                map.volumes.insert(*id, Arc::new(sized));
                // Without room for more it can only become smaller, or stay in its last stripe.
                let grows = to.more.is_empty() && stripes > before.stripes();
                if first != before.stripes() || grows || map.check().is_err() {
                    map.volumes.insert(*id, before);
                } else if stripes < before.stripes() {
                    map.room_used = true;
                }
            }
            Change::SetPolicy(id, change) => set_policy(map, *id, change),
            Change::RemoveVolume(id) => {
                map.volumes.remove(id);
                map.attendance.remove(id);
                map.room_used = true;
            }
            Change::Drain(node, draining) => {
                if let Some(info) = map.nodes.get_mut(usize::from(node.0)) {
                    info.draining = *draining;
                }
            }
            Change::Rebalance(on) => map.rebalancing = *on,
            Change::AddNodes(new) => new.apply(map),
            Change::RemoveNode(node) => {
                let holds = map.volumes.values().any(|v| v.nodes().contains(node));
                let info = map.nodes.get_mut(usize::from(node.0));
                let gone = |i: &&mut NodeInfo| !i.up && (i.given_up || i.draining || i.is_host);
                if let Some(info) = info.filter(|i| !holds && gone(i)) {
                    info.removed = true;
                }
            }
        }
    }
}
