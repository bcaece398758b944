//! Where processes live, as the map has it: whom this one connects to, and what it does when it has left.

use std::collections::BTreeSet;

use weft_core::cluster::ClusterMap;
use weft_core::units::{MILLIS, Nanos, NodeId};
use weft_member::{Input, Note};

use super::warnings::HAS_LEFT;
use super::{Effect, Together};
use crate::clock::boot_time;
use crate::cluster::home::Known;

/// How long the connection to a process that has left stays, for what is on its way to it: the answer to who
/// asked there that it leave. Of what it says itself little is heard ([`super::is_farewell`]).
const FAREWELL: Nanos = 1_000 * MILLIS;

impl Together {
    /// Does what a map that is agreed on asks for.
    pub(super) fn follow_map(&mut self, map: &ClusterMap) {
        self.follow_homes(map);
        if let Err(e) = self.home.know(self.peers.values().cloned()) {
            self.effects.push(Effect::Fatal(e));
        }
        self.forget_removed(map);
        let warning = self.label_warning();
        if warning != self.warned {
            self.effects.extend(warning.iter().cloned().map(Note::warning).map(Effect::Log));
            self.warned = warning;
        }
    }

    /// Connects to the processes of a map, and to those no more that have left.
    pub(super) fn follow_homes(&mut self, map: &ClusterMap) {
        let nodes = (0..map.nodes.len() as u16).map(NodeId);
        let processes: BTreeSet<NodeId> = nodes.map(|n| map.process_of(n)).collect();
        for process in processes.into_iter().filter(|p| *p != self.home.process) {
            let info = |n: NodeId| &map.nodes[usize::from(n.0)];
            let there = |n: &NodeId| !info(*n).is_replaced();
            let Some(node) = map.served_by(process).find(there) else {
                if let Some(known) = self.peers.remove(&process) {
                    let name = known.name;
                    let text = format!("the process of {name} has left the cluster");
                    self.effects.push(Effect::Log(Note::info(text).of(process)));
                    self.links.tell_left(process);
                    self.links.retire_peer(process);
                    self.parting.insert(process, boot_time() + FAREWELL);
                }
                continue;
            };
            let Some(home) = info(node).home.as_ref() else { continue };
            let known = Known::of(process, home);
            let is_up = map.served_by(process).any(|n| map.is_up(n));
            if !is_up {
                self.links.give_up(process);
            }
            // It is back, and to be dialled now: what is asked of it is lost until then, and hosts
            // wait.
            let missed = is_up && !self.is_connected(process);
            if (missed || self.peers.get(&process) != Some(&known))
                && let Ok(peer) = known.peer()
            {
                match missed {
                    true => self.links.expect(peer),
                    false => self.links.add_peer(peer),
                }
                self.peers.insert(process, known);
            }
        }
    }

    /// Forgets those of our nodes that have left.
    pub(super) fn forget_removed(&mut self, map: &ClusterMap) {
        let left = |n: &NodeId| map.nodes.get(usize::from(n.0)).is_some_and(|i| i.removed);
        for node in self.ours().into_iter().filter(left) {
            if let Err(e) = self.home.forget(node) {
                self.effects.push(Effect::Fatal(e));
            }
            self.input(Input::NodeDied(node));
        }
        let known = usize::from(self.us().0) < map.nodes.len();
        if known && map.served_by(self.us()).next().is_none() {
            self.leave();
        }
    }

    /// Our last node has left: there is nothing to do any more.
    pub(super) fn leave(&mut self) {
        if self.home.has_left() {
            return;
        }
        if let Err(e) = self.home.leave() {
            self.effects.push(Effect::Fatal(e));
        }
        self.effects.push(Effect::Log(Note::info(HAS_LEFT)));
        let until = boot_time() + FAREWELL;
        self.parting.extend(std::mem::take(&mut self.peers).into_keys().map(|p| (p, until)));
    }
}
