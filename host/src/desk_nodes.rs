//! Nodes and disks: stopping and starting them, admitting and removing them.

use std::sync::Arc;

use serde_json::{Value, json};
use weft_core::cluster::{AuthorityInput, Home, NodeInfo, can_drain};
use weft_core::units::{MAX_NODES, NodeId};

use super::{Desk, Outcome, Wait, overtaken};
use crate::control::{DiskAction, NewHome, NodeAction, ok};
use crate::error::{Error, Result, fail};
use crate::slot::Phase;

/// How long a token is good at most: a month.
const LONGEST_TOKEN: u64 = 31 * 86_400;

impl Desk<'_> {
    pub(super) fn node(&mut self, action: NodeAction, node: usize) -> Result<Wait> {
        match action {
            NodeAction::Stop => self.engine.drain_node(node).map(|()| Wait::NodeDown(node)),
            NodeAction::Kill => {
                self.engine.kill_node(node, "it was killed").map(|()| Wait::NodeDown(node))
            }
            NodeAction::Start => self.engine.start_node(node).map(|()| Wait::NodeUp(node)),
        }
    }

    pub(super) fn disk(&mut self, action: DiskAction, node: usize) -> Result<Wait> {
        match action {
            DiskAction::Drain => self.drain(node),
            DiskAction::Undrain => {
                self.engine.known(node)?;
                let ticket = self.engine.change(AuthorityInput::Drain(NodeId(node as u16), false));
                Ok(Wait::Draining(node, false, ticket))
            }
            DiskAction::Replace => self.engine.replace_disk(node).map(|()| Wait::NodeUp(node)),
            DiskAction::Fail => {
                let here =
                    self.engine.rule.together().is_some_and(|t| usize::from(t.us().0) == node);
                if here && self.leader()?.is_some() {
                    self.engine.lose_disk(node)?;
                    return Ok(Wait::DownHere(node));
                }
                self.engine.fail_disk(node).map(|ticket| Wait::GivenUp(node, ticket))
            }
        }
    }

    /// Adds a node with an empty disk to an array in one process.
    pub(super) fn add_disk(&mut self) -> Result<Wait> {
        if self.engine.rule.together().is_some() {
            return fail(
                "each node of a cluster has one disk; run a node for the new one, on this machine \
                 or another: `weft cluster token` says how it joins",
            );
        }
        let node = self.engine.slots.len();
        if node >= MAX_NODES {
            return fail(format!("an array has {MAX_NODES} nodes at most"));
        }
        self.engine.add_slot()?;
        let change = AuthorityInput::AddNode(NodeId(node as u16), None, false);
        Ok(Wait::DiskAdded(node, self.engine.change(change)))
    }

    fn drain(&mut self, node: usize) -> Result<Wait> {
        self.engine.known(node)?;
        let (map, id) = (self.engine.map(), NodeId(node as u16));
        if !map.is_up(id) {
            return fail(format!(
                "node {node} does not take part, so nothing can be copied from it; start it, or \
                 have what is on it rebuilt (`weft disk fail {node}`)"
            ));
        }
        if !can_drain(map, id) {
            return fail(format!(
                "what is on node {node} does not fit on the others, with each column of an extent \
                 in another failure domain; add a node, or delete something"
            ));
        }
        let ticket = self.engine.change(AuthorityInput::Drain(id, true));
        Ok(Wait::Draining(node, true, ticket))
    }

    /// A token, and where to go with it.
    pub(super) fn token(&self, seconds: u64) -> Result<Value> {
        if seconds == 0 || seconds > LONGEST_TOKEN {
            return fail(format!(
                "a token cannot be good for {seconds} seconds; choose 1 to {LONGEST_TOKEN}"
            ));
        }
        let Some(admission) = self.admission else {
            return fail(
                "this process does not let nodes in; ask one whose configuration has `admit`",
            );
        };
        let (token, address) = admission.issue(seconds)?;
        Ok(ok(json!({ "token": token.to_string(), "admit": address.to_string() })))
    }

    pub(super) fn add_node(&mut self, name: String, home: &NewHome) -> Result<Outcome> {
        let map = self.engine.map();
        let address = home.address.to_string();
        let same = |info: &NodeInfo, f: fn(&Home) -> &str, to: &str| {
            !info.removed && info.home.as_ref().is_some_and(|h| f(h) == to)
        };
        let named = map.nodes.iter().position(|i| same(i, |h| &h.name, &name));
        let reached = map.nodes.iter().position(|i| same(i, |h| &h.address, &address));
        match (named, reached) {
            // Its first attempt was done and it has not heard of it.
            (Some(n), Some(m)) if n == m && map.nodes[n].disk == 0 => {
                return Ok(Outcome::Answer(self.admitted(n)));
            }
            (Some(n), _) => return fail(format!("node {n} is called {name}; choose another name")),
            (None, Some(n)) => {
                return fail(format!("node {n} is reached at {address}; choose another address"));
            }
            (None, None) => {}
        }
        let number = map.nodes.len();
        let is_host = home.is_host;
        let home = Arc::new(Home { name: name.clone(), address, labels: home.labels.clone() });
        let change = AuthorityInput::AddNode(NodeId(number as u16), Some(home), is_host);
        let ticket = self.engine.change(change);
        Ok(Outcome::Wait(Wait::NodeAdded(number, name, ticket)))
    }

    /// What a node that is in the map must know.
    fn admitted(&self, number: usize) -> Value {
        let nodes = self.engine.map().nodes.iter().enumerate();
        let others = nodes.filter(|(n, info)| *n != number && !info.removed);
        let peer = |(n, info): (usize, &NodeInfo)| {
            let home = info.home.as_ref()?;
            Some(json!({ "node": n, "name": home.name, "address": home.address }))
        };
        let peers: Vec<Value> = others.filter_map(peer).collect();
        ok(json!({ "node": number, "peers": peers }))
    }

    pub(super) fn remove_node(&mut self, node: usize) -> Result<Wait> {
        let map = self.engine.map();
        let id = NodeId(node as u16);
        let Some(info) = map.nodes.get(node).filter(|i| !i.removed) else {
            return fail(format!("there is no node {node}; see `weft node list`"));
        };
        if info.home.is_none() {
            return fail("an array in one process keeps its nodes; use `weft disk fail`");
        }
        if info.up {
            return fail(format!(
                "node {node} takes part; stop it first (`weft node stop {node}`)"
            ));
        }
        if !info.given_up && !info.draining && !info.is_host {
            return fail(format!(
                "node {node} is expected back; move what is on it to others while it runs (`weft \
                 disk drain {node}`), or say that it will not come (`weft disk fail {node}`)"
            ));
        }
        if let Some(volume) = map.volumes.values().find(|v| v.nodes().contains(&id)) {
            return fail(format!(
                "parts of volume '{}' are not yet rebuilt from what was on node {node}; wait \
                 until they are, and see that others have room (`weft status`)",
                volume.name
            ));
        }
        let ticket = self.engine.change(AuthorityInput::RemoveNode(id));
        Ok(Wait::NodeRemoved(node, ticket))
    }

    /// Goes on with what is done about a node.
    pub(super) fn check_node(&mut self, mut wait: Wait) -> Result<Outcome> {
        let epoch = self.engine.map().epoch;
        let done = |n: usize| Ok(Outcome::Answer(ok(json!({ "node": n, "epoch": epoch }))));
        match &mut wait {
            Wait::NodeUp(n) | Wait::NodeDown(n) => {
                let n = *n;
                match self.node_arrived(&wait, n) {
                    Some(Ok(())) => done(n),
                    Some(Err(e)) => Err(e),
                    None => Ok(Outcome::Wait(wait)),
                }
            }
            Wait::DownHere(n) => {
                if self.engine.map().is_up(NodeId(*n as u16)) {
                    return Ok(Outcome::Wait(wait));
                }
                match self.leader()? {
                    Some(leader) => Ok(Outcome::HandOn(leader)),
                    None => {
                        let ticket = self.engine.fail_disk(*n)?;
                        Ok(Outcome::Wait(Wait::GivenUp(*n, ticket)))
                    }
                }
            }
            Wait::GivenUp(n, ticket) => {
                if !self.is_made(ticket)? {
                    return Ok(Outcome::Wait(wait));
                }
                match self.engine.map().nodes[*n].given_up {
                    true => done(*n),
                    // When the last node goes nobody is left to agree on a map that says so.
                    false if self.engine.originator(0).is_none() => done(*n),
                    false => Err(overtaken()),
                }
            }
            Wait::Draining(n, on, ticket) => {
                if !self.is_made(ticket)? {
                    return Ok(Outcome::Wait(wait));
                }
                match self.engine.map().nodes[*n].draining == *on {
                    true => done(*n),
                    false => Err(overtaken()),
                }
            }
            Wait::NodeAdded(n, name, ticket) => {
                if let Some(made) = self.engine.outcome(*ticket) {
                    made?;
                    let info = self.engine.map().nodes.get(*n);
                    let home = info.and_then(|i| i.home.as_ref());
                    return match home.is_some_and(|h| h.name == *name) {
                        true => Ok(Outcome::Answer(self.admitted(*n))),
                        false => Err(overtaken()),
                    };
                }
                Ok(Outcome::Wait(wait))
            }
            Wait::DiskAdded(n, ticket) => {
                if !self.is_made(ticket)? {
                    return Ok(Outcome::Wait(wait));
                }
                let n = *n;
                match self.engine.map().nodes.len() > n {
                    true => self.engine.start_node(n).map(|()| Outcome::Wait(Wait::NodeUp(n))),
                    // No node runs to agree on a map, or it could not be stored.
                    false => {
                        self.engine.slots.truncate(n);
                        Err(overtaken())
                    }
                }
            }
            Wait::NodeRemoved(n, ticket) => match self.engine.outcome(*ticket) {
                None => Ok(Outcome::Wait(wait)),
                Some(made) => {
                    made?;
                    match self.engine.map().nodes[*n].removed {
                        true => done(*n),
                        false => Err(overtaken()),
                    }
                }
            },
            _ => Ok(Outcome::Wait(wait)),
        }
    }

    /// Whether a node is where it was to be, or can never come there.
    fn node_arrived(&self, wait: &Wait, n: usize) -> Option<Result<()>> {
        let slot = &self.engine.slots[n];
        let in_map = self.engine.map().is_up(NodeId(n as u16));
        match wait {
            Wait::NodeUp(_) if slot.phase == Phase::Down && !slot.wanted => {
                Some(Err(Error(format!("node {n} did not start: {}", slot.why))))
            }
            Wait::NodeUp(_) => {
                (self.engine.is_settled() && slot.runs() && in_map).then_some(Ok(()))
            }
            _ => {
                let down = slot.phase == Phase::Down;
                let alone = self.engine.rule.together().is_none();
                let nobody = alone && self.engine.originator(0).is_none();
                (down && self.engine.is_settled() && (!in_map || nobody)).then_some(Ok(()))
            }
        }
    }
}
