//! Nodes: stopping and starting them, admitting and removing them.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};
use weft_core::cluster::{Change, ClusterMap, ClusterSetting, Home, NewNodes, NodeInfo, NodeKind};
use weft_core::units::{MAX_NODES, NodeId};
use weft_net::identity::PublicKey;

use super::{Commands, Outcome, Wait, overtaken};
use crate::cluster::{Known, refuse_strangers};
use crate::control::{balance, status};
use crate::control_protocol::{NewHome, NodeAction, RebalanceAction, ok};
use crate::disk::handle::Aside;
use crate::engine::instance::Phase;
use crate::error::{Error, Result, fail};

/// How long a token is good at most: a month.
const LONGEST_TOKEN: u64 = 31 * 86_400;

impl Commands<'_> {
    pub(super) fn node(&mut self, action: NodeAction, node: usize) -> Result<Wait> {
        self.engine.known(node)?;
        match action {
            NodeAction::Stop => self.engine.drain_node(node).map(|()| Wait::NodeDown(node)),
            NodeAction::Kill => {
                self.engine.kill_node(node, "it was killed").map(|()| Wait::NodeDown(node))
            }
            NodeAction::Start => self.engine.start_node(node).map(|()| Wait::NodeUp(node)),
        }
    }

    /// How full disks are and what would be moved to make them equal, or the beginning or end of that.
    pub(super) fn rebalance(&mut self, action: RebalanceAction) -> Outcome {
        let on = match action {
            RebalanceAction::Plan => {
                let map = self.engine.map().clone();
                let plan = move || ok(balance::planned(&map));
                return Outcome::Wait(Wait::Computing(Aside::begin(plan)));
            }
            RebalanceAction::Start => true,
            RebalanceAction::Stop => false,
        };
        let ticket = self.engine.change(Change::Rebalance(on));
        Outcome::Wait(Wait::Rebalancing(on, ticket))
    }

    /// Chooses something for the cluster as a whole.
    pub(super) fn set(&mut self, key: &str, value: &str) -> Result<Wait> {
        let setting = ClusterSetting::parse(key, value).map_err(|e| Error(e.to_string()))?;
        let mut settings = self.engine.map().settings;
        settings.set(setting);
        settings.check().map_err(|e| Error(e.to_string()))?;
        Ok(Wait::Set(setting, self.engine.change(Change::Set(setting))))
    }

    /// What is chosen for the cluster as a whole.
    pub(super) fn settings(&self) -> Value {
        let map = self.engine.map();
        let mut answer = self.looked_at("settings", &status::settings(map));
        answer["id"] = json!(format!("{:032x}", self.engine.exports().at().cluster));
        ok(answer)
    }

    /// A token, and where to go with it.
    pub(super) fn token(&self, seconds: u64) -> Result<Value> {
        if seconds == 0 || seconds > LONGEST_TOKEN {
            return fail(format!(
                "a token cannot be valid for {seconds} seconds; choose 1 to {LONGEST_TOKEN}"
            ));
        }
        let Some(admission) = self.admission else {
            let other = self.peer_status.admits().and_then(|p| {
                let node = self.engine.map().served_by(p).next()?;
                Some(self.engine.map().nodes[usize::from(node.0)].home.as_ref()?.name.clone())
            });
            return match other {
                Some(name) => {
                    fail(format!("this process does not admit nodes; use {name}, which does"))
                }
                None => fail(
                    "this process does not admit nodes; use one whose configuration has `admit`",
                ),
            };
        };
        let (token, address) = admission.issue(seconds)?;
        Ok(ok(json!({ "token": token.to_string(), "admit": address.to_string() })))
    }

    pub(super) fn add_node(&mut self, name: String, home: &NewHome, key: &[u8]) -> Result<Outcome> {
        let map = self.engine.map();
        let key = PublicKey::from_bytes(key).map_err(|e| Error(e.to_string()))?.digest();
        refuse_removed_key(map, key)?;
        let address = home.address.to_string();
        let same = |info: &NodeInfo, f: fn(&Home) -> &str, to: &str| {
            let there = !info.removed && !info.is_replaced();
            there && info.home.as_ref().is_some_and(|h| f(h) == to)
        };
        let named = map.nodes.iter().position(|i| same(i, |h| &h.name, &name));
        let reached = map.nodes.iter().position(|i| same(i, |h| &h.address, &address));
        let process = |n: usize| map.process_of(NodeId(n as u16));
        let is_unseen = |process: NodeId| {
            let fresh = |n: NodeId| map.nodes[usize::from(n.0)].disk == 0;
            let nodes = map.served_by(process);
            nodes.clone().all(fresh) && nodes.count() == home.disks
        };
        let has_key = |n: usize| map.nodes[n].home.as_ref().is_some_and(|h| h.key == Some(key));
        let names = map.nodes.iter().filter(|i| !i.removed).filter_map(|i| i.home.as_ref());
        let others: BTreeSet<&str> =
            names.map(|h| h.name.as_str()).filter(|n| *n != name).collect();
        refuse_strangers(home.only.iter().map(String::as_str), &others)?;
        // Its first attempt was done and it has not heard of it.
        let is_again = |n: usize| reached == Some(n) && is_unseen(process(n)) && has_key(n);
        if let Some(n) = named.filter(|n| is_again(*n)) {
            return Ok(Outcome::Answer(self.admitted(process(n))));
        }
        let replaced = match (named, home.replaces) {
            (Some(n), true) => Some(process(n)),
            (None, true) => {
                let all: Vec<&str> = others.into_iter().collect();
                return fail(format!(
                    "no process of this cluster is called {name}; there are: {}",
                    all.join(", ")
                ));
            }
            (Some(n), false) => {
                return fail(format!(
                    "node {n} is called {name}; choose another name. If that machine is lost, `weft cluster replace {name}` on a new one replaces it"
                ));
            }
            (None, false) => None,
        };
        if let Some(n) = reached.filter(|n| replaced != Some(process(*n))) {
            return fail(format!("node {n} is reached at {address}; choose another address"));
        }
        if let Some(process) = replaced {
            self.can_be_replaced(&name, process, &home.accept_loss)?;
        }
        let (number, count) = (map.nodes.len(), home.disks);
        if count == 0 || count > MAX_NODES.saturating_sub(number) {
            return fail(format!(
                "{count} disks cannot be added to {number}: a cluster has {MAX_NODES} at most, and numbers are not reused"
            ));
        }
        let kind = match (home.is_controller, home.is_host) {
            (true, _) => NodeKind::Controller,
            (false, true) => NodeKind::Host,
            (false, false) => NodeKind::Disk,
        };
        if kind == NodeKind::Disk {
            check_labels(map, home)?;
        }
        let labels = home.labels.clone();
        let home = Arc::new(Home { name: name.clone(), address, labels, key: Some(key) });
        let first = NodeId(number as u16);
        let new = NewNodes { first, count, home: Some(home), kind, process: None, replaced };
        let ticket = self.engine.change(Change::AddNodes(new));
        Ok(Outcome::Wait(Wait::NodeAdded(number, first, name, ticket)))
    }

    /// Refuses to have another process take the place of this one.
    fn can_be_replaced(&self, name: &str, process: NodeId, accepted: &[String]) -> Result<()> {
        let map = self.engine.map();
        let nodes: Vec<NodeId> = map.served_by(process).collect();
        let together = self.engine.rule.together();
        let in_touch = together.is_some_and(|t| t.us() == process || t.is_connected(process));
        if in_touch || nodes.iter().any(|n| map.is_up(*n)) {
            return fail(format!(
                "the process of {name} is running, so it cannot be replaced; stop it first. If only one of its disks is lost, use \
             `weft disk replace`"
            ));
        }
        self.engine.can_do_without(&nodes, accepted)
    }

    /// What to do about a node whose process cannot be reached.
    pub(super) fn out_of_touch(&self, node: usize) -> String {
        let map = self.engine.map();
        let home = map.nodes.get(node).and_then(|i| i.home.as_ref());
        let then = match home {
            Some(home) if map.nodes[node].is_replaced() => {
                format!(
                    "the process of {} has been replaced, and its content is rebuilt",
                    home.name
                )
            }
            Some(home) => format!(
                "check that the process of {0} runs. If its machine is lost, `weft cluster replace {0}` on another one replaces it \
             (docs/use/runbook.md)",
                home.name
            ),
            None => "check that its process runs".to_string(),
        };
        format!("there is no connection to node {node}; {then}")
    }

    /// What a process that is in the map must know.
    fn admitted(&self, process: NodeId) -> Value {
        let map = self.engine.map();
        let nodes = (0..map.nodes.len() as u16).map(NodeId);
        let others: BTreeSet<NodeId> =
            nodes.map(|n| map.process_of(n)).filter(|p| *p != process).collect();
        let peer = |process: NodeId| {
            let node = map.served_by(process).next()?;
            let info = &map.nodes[usize::from(node.0)];
            let home = info.home.as_ref().filter(|_| !info.is_replaced())?;
            Some(json!(Known::of(process, home)))
        };
        let peers: Vec<Value> = others.into_iter().filter_map(peer).collect();
        let disks: Vec<u16> = map.served_by(process).map(|n| n.0).collect();
        ok(json!({ "node": process.0, "disks": disks, "peers": peers }))
    }

    pub(super) fn remove_node(&mut self, node: usize) -> Result<Wait> {
        let map = self.engine.map();
        let id = NodeId(node as u16);
        let Some(info) = map.nodes.get(node).filter(|i| !i.removed) else {
            return fail(format!("there is no node {node}; see `weft node list`"));
        };
        if info.home.is_none() {
            return fail(
                "nodes of an array in one process cannot be removed; use `weft disk fail`",
            );
        }
        if info.up {
            return fail(format!("node {node} is up; stop it first (`weft node stop {node}`)"));
        }
        if !info.given_up && !info.draining && info.has_disk() {
            return fail(format!(
                "node {node} is expected back; drain it while it runs (`weft disk drain {node}`), or declare its disk lost (`weft \
                 disk fail {node}`)"
            ));
        }
        if let Some(volume) = map.volumes.values().find(|v| v.nodes().contains(&id)) {
            return fail(format!(
                "parts of volume '{}' on node {node} are not yet rebuilt elsewhere; wait, and \
                 check that other disks have enough free space \
                 (`weft status`)",
                volume.name
            ));
        }
        let ticket = self.engine.change(Change::RemoveNode(id));
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
            Wait::DownHere(n, accepted) => {
                if self.engine.instances[*n].wanted {
                    return fail(format!("node {n} has been started again; its disk is kept"));
                }
                if self.engine.map().is_up(NodeId(*n as u16)) {
                    return Ok(Outcome::Wait(wait));
                }
                match self.leader() {
                    Err(_) => Ok(Outcome::Wait(wait)),
                    Ok(Some(leader)) => Ok(Outcome::HandOn(leader)),
                    Ok(None) => {
                        let ticket = self.engine.fail_disk(*n, accepted)?;
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
            Wait::Suspected(n, on, ticket) => {
                if !self.is_made(ticket)? {
                    return Ok(Outcome::Wait(wait));
                }
                match self.engine.map().nodes[*n].suspect == *on {
                    true => done(*n),
                    false => Err(overtaken()),
                }
            }
            Wait::Rebalancing(on, ticket) => {
                if !self.is_made(ticket)? {
                    return Ok(Outcome::Wait(wait));
                }
                let map = self.engine.map();
                // If there was nothing to do it is over by now.
                match map.rebalancing && !*on {
                    true => Err(overtaken()),
                    false => Ok(Outcome::Answer(ok(balance::planned(map)))),
                }
            }
            Wait::Set(setting, ticket) => {
                if !self.is_made(ticket)? {
                    return Ok(Outcome::Wait(wait));
                }
                let mut settings = self.engine.map().settings;
                settings.set(*setting);
                match settings == self.engine.map().settings {
                    true => Ok(Outcome::Answer(self.settings())),
                    false => Err(overtaken()),
                }
            }
            Wait::NodeAdded(n, process, name, ticket) => {
                if let Some(made) = self.engine.outcome(*ticket) {
                    made?;
                    let (map, node) = (self.engine.map(), NodeId(*n as u16));
                    let home = map.nodes.get(*n).and_then(|i| i.home.as_ref());
                    let named = home.is_some_and(|h| h.name == *name);
                    return match named && map.served_by(*process).any(|n| n == node) {
                        true => Ok(Outcome::Answer(self.admitted(*process))),
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
                        self.engine.truncate(n);
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
    fn node_arrived(&mut self, wait: &Wait, n: usize) -> Option<Result<()>> {
        let rests = self.engine.disk_rests(n);
        let instance = &self.engine.instances[n];
        let in_map = self.engine.map().is_up(NodeId(n as u16));
        match wait {
            Wait::NodeUp(_) if instance.phase == Phase::Down && !instance.wanted => {
                Some(Err(Error(format!("node {n} did not start: {}", instance.why))))
            }
            Wait::NodeUp(_) => {
                (self.engine.is_settled() && instance.runs() && in_map).then_some(Ok(()))
            }
            _ => {
                let down = instance.phase == Phase::Down;
                let nobody =
                    self.engine.originator(0).is_none() && self.engine.is_handed_over(|_| false);
                let is_known = down && self.engine.is_settled() && (!in_map || nobody);
                // Its disk may be replaced then.
                (is_known && rests).then_some(Ok(()))
            }
        }
    }
}

/// Removal revokes: whoever was removed comes back with another key or not.
fn refuse_removed_key(map: &ClusterMap, key: u128) -> Result<()> {
    let is_its_own =
        |n: &NodeId| map.nodes[usize::from(n.0)].home.as_ref().is_some_and(|h| h.key == Some(key));
    let nodes = || (0..map.nodes.len() as u16).map(NodeId);
    let Some(node) = nodes().find(is_its_own) else { return Ok(()) };
    match map.served_by(map.process_of(node)).next() {
        Some(_) => Ok(()),
        None => fail(format!(
            "this is the key of {node}, which has been removed; remove the directory, and join with another token"
        )),
    }
}

/// A label that all nodes with disks have is one that volumes may be kept apart by: a node without it
/// would be a failure domain by itself, and is rather a typing error.
fn check_labels(map: &ClusterMap, home: &NewHome) -> Result<()> {
    let counts = |i: &&NodeInfo| !i.removed && i.has_disk();
    let others: Vec<&Home> =
        map.nodes.iter().filter(counts).filter_map(|i| i.home.as_deref()).collect();
    let Some(first) = others.first() else { return Ok(()) };
    let all_have = |label: &&String| others.iter().all(|h| h.labels.contains_key(*label));
    let missing = first.labels.keys().filter(all_have).find(|l| !home.labels.contains_key(*l));
    let Some(missing) = missing else { return Ok(()) };
    let own: Vec<&str> = home.labels.keys().map(String::as_str).collect();
    let own = if own.is_empty() { "none".to_string() } else { own.join(", ") };
    fail(format!(
        "all other nodes have the label '{missing}', but this one does not (its labels: {own}); see [labels] in its \
             configuration"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_of_one_that_was_removed_does_not_come_back() {
        let with_key = |key, removed| {
            let home = Some(Arc::new(Home { key: Some(key), ..Home::default() }));
            NodeInfo { home, removed, up: !removed, ..NodeInfo::new(1, 1000) }
        };
        let nodes = vec![with_key(5, false), with_key(6, true), NodeInfo::new(1, 1000)];
        let mut map = ClusterMap { nodes, ..ClusterMap::default() };
        let refused = |map: &ClusterMap, key| refuse_removed_key(map, key).err().map(|e| e.0);
        assert_eq!((refused(&map, 5), refused(&map, 7)), (None, None));
        let why = refused(&map, 6).unwrap();
        assert!(why.contains("the key of node 1, which has been removed") && why.contains("token"));
        // A process stays that has lost one of its disks.
        map.nodes[1].process = Some(NodeId(0));
        assert_eq!(refused(&map, 6), None);
    }

    #[test]
    fn a_node_without_a_label_that_all_have_is_refused() {
        let labels = |text: &str| -> std::collections::BTreeMap<String, String> {
            let pairs = text.split_whitespace().filter_map(|pair| pair.split_once('='));
            pairs.map(|(label, value)| (label.to_string(), value.to_string())).collect()
        };
        let node = |text: &str, kind: NodeKind| {
            let home = Some(Arc::new(Home { labels: labels(text), ..Home::default() }));
            NodeInfo { home, kind, ..NodeInfo::new(1, 1000) }
        };
        let try_with = |nodes: &[NodeInfo], text: &str| {
            let map = ClusterMap { nodes: nodes.to_vec(), ..ClusterMap::default() };
            let address = "127.0.0.1:1".parse().unwrap();
            let labels = labels(text);
            let (is_host, is_controller, replaces) = (false, false, false);
            let (only, accept_loss) = (Vec::new(), Vec::new());
            let disks = 1;
            let home = NewHome {
                address,
                labels,
                is_host,
                is_controller,
                disks,
                only,
                replaces,
                accept_loss,
            };
            check_labels(&map, &home)
        };
        let disk = |text| node(text, NodeKind::Disk);
        let others = [NodeKind::Host, NodeKind::Controller].map(|kind| node("", kind));
        let nodes = [&[disk("box=b1 rack=r1"), disk("box=b2")], &others[..]].concat();
        let err = try_with(&nodes, "bx=b3 rack=r1").unwrap_err();
        assert!(err.0.contains("'box'") && err.0.contains("its labels: bx, rack"), "{err}");
        assert!(try_with(&nodes, "").unwrap_err().0.contains("its labels: none"));
        assert!(try_with(&nodes, "box=b3").is_ok(), "not all have a rack");
        assert!(try_with(&[], "bx=b3").is_ok() && try_with(&[disk("")], "bx=b3").is_ok());
    }
}
