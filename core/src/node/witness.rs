//! What a node knows of how far other nodes' disks have got, and whom it has told.
//!
//! Every message says how far its sender's disk has got. When a write is decided its originator tells each
//! participant how far the others had got when they voted, with the same message that tells the outcome. A
//! participant keeps that on its disk with its next journal frame. So soon after a disk has promised something
//! those that share a stripe with it know, for good, that it had got as far as that.

use std::collections::BTreeMap;

use crate::store::{Heard, Reached};
use crate::units::NodeId;

/// See the module.
#[derive(Clone, Debug, Default, Hash)]
pub(crate) struct Witness {
    heard: Heard,
    /// Whom (first) has been told what of whom (second), in this epoch.
    told: BTreeMap<(NodeId, NodeId), Reached>,
    /// What goes to whom with the next message.
    queue: BTreeMap<NodeId, Vec<(NodeId, Reached)>>,
}

impl Witness {
    /// What was known when the disk was last used.
    pub fn remember(&mut self, heard: &Heard) {
        for (node, reached) in heard {
            self.hear(*node, *reached);
        }
    }

    /// How far a node's disk has got. Returns whether that is news.
    pub fn hear(&mut self, node: NodeId, reached: Reached) -> bool {
        if reached.disk == 0 {
            return false;
        }
        let known = self.heard.entry(node).or_default();
        let now = known.merge(reached);
        std::mem::replace(known, now) != now
    }

    /// What another says of how far a node's disk has got. It may speak of a disk that has been replaced since.
    pub fn hear_of(&mut self, node: NodeId, reached: Reached) -> bool {
        let other = self.heard.get(&node).is_some_and(|known| known.disk != reached.disk);
        !other && self.hear(node, reached)
    }

    /// Tells nodes that take part in a write how far the others' disks have got.
    pub fn tell_each_other(&mut self, nodes: &[NodeId], own: NodeId) {
        for to in nodes.iter().filter(|n| **n != own) {
            self.tell_of(*to, nodes, own);
        }
    }

    /// Tells a node how far the disks of these others have got.
    pub fn tell_of(&mut self, to: NodeId, nodes: &[NodeId], own: NodeId) {
        if self.heard.is_empty() {
            return;
        }
        for about in nodes.iter().filter(|n| **n != to && **n != own) {
            let Some(reached) = self.heard.get(about).copied() else { continue };
            if self.told.insert((to, *about), reached) != Some(reached) {
                self.queue.entry(to).or_default().push((*about, reached));
            }
        }
    }

    /// What is to be told with a message.
    pub fn take(&mut self, to: NodeId) -> Vec<(NodeId, Reached)> {
        if self.queue.is_empty() {
            return Vec::new();
        }
        self.queue.remove(&to).unwrap_or_default()
    }

    /// A new epoch: who has been told may have forgotten.
    pub fn enter(&mut self) {
        self.told.clear();
        self.queue.clear();
    }

    /// What is known of a node's disk.
    pub fn heard_of(&self, node: NodeId) -> Option<Reached> {
        self.heard.get(&node).copied()
    }

    /// All that is known.
    pub fn known(&self) -> Vec<(NodeId, Reached)> {
        self.heard.iter().map(|(node, reached)| (*node, *reached)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_told_once_of_every_other() {
        let (a, b, own) = (NodeId(1), NodeId(2), NodeId(0));
        let mut witness = Witness::default();
        let at = |frame| Reached { disk: 3, frame, ..Reached::default() };
        assert!(witness.hear(a, at(5)) && witness.hear(b, at(6)) && !witness.hear(b, at(4)));
        assert!(!witness.hear(NodeId(4), Reached::default()), "it has no disk");
        witness.tell_each_other(&[own, a, b], own);
        assert_eq!(witness.take(a), [(b, at(6))]);
        assert_eq!(witness.take(b), [(a, at(5))]);
        witness.hear(b, at(7));
        witness.tell_each_other(&[own, a, b], own);
        assert_eq!((witness.take(a), witness.take(b)), (vec![(b, at(7))], vec![]));
        assert!(witness.take(own).is_empty());
        assert!(!witness.hear_of(b, Reached { disk: 9, ..at(99) }), "of another disk");
        witness.enter();
        witness.tell_each_other(&[a, b], own);
        assert_eq!(witness.take(b), [(a, at(5))]);
    }
}
