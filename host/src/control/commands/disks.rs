//! Disks: adding, replacing, draining them, and declaring them lost.

use std::sync::Arc;
use std::time::{Duration, Instant};

use weft_core::cluster::{APART_BY_NODE, Change, ClusterMap, Home, NewNodes, can_drain};
use weft_core::units::{MAX_NODES, NodeId, VolumeId};

use super::taking::{CREATES_ITS_OWN, Taker};
use super::{Commands, NewDisk, Wait, overtaken};
use crate::cluster::Together;
use crate::control_protocol::{ControlRequest, DiskAction};
use crate::engine::Ticket;
use crate::engine::taking::Held;
use crate::error::{Error, Result, fail};

/// Why a disk cannot be emptied: the volume of which a column has no room elsewhere.
fn does_not_fit(map: &ClusterMap, node: usize, volume: VolumeId) -> String {
    let Some(volume) = map.volumes.get(&volume) else {
        return format!("node {node} cannot be drained");
    };
    let (name, apart) = (&volume.name, &volume.apart);
    let what = match volume.is_deleted() {
        true => {
            format!("free the space of the deleted volume (`weft volume delete --now {name}`)")
        }
        false => "delete something".to_string(),
    };
    let others = others(map, apart);
    format!(
        "there is not enough free space for the content of node {node} in volume '{name}': \
         {others}; add a disk, or {what}"
    )
}

/// Where there is not enough room for a column, by what the columns of an extent are kept apart by.
fn others(map: &ClusterMap, apart: &str) -> String {
    let nodes = || map.nodes.iter().filter(|i| !i.removed);
    let labelled = nodes().filter_map(|i| i.home.as_ref()).any(|h| h.labels.contains_key(apart));
    let processes = apart != APART_BY_NODE && nodes().any(|i| i.process.is_some());
    match (labelled, processes) {
        (true, _) => format!(
            "no other node with a different '{apart}' from the rest of an extent has enough"
        ),
        (false, true) => "no other process outside the same extent has enough".to_string(),
        (false, false) => "no other disk outside the same extent has enough".to_string(),
    }
}

/// How long the cluster may take to find a number for a new disk.
const DECIDING: Duration = Duration::from_secs(30);

impl Commands<'_> {
    pub(super) fn disk(
        &mut self,
        action: DiskAction,
        node: usize,
        accepted: Vec<String>,
    ) -> Result<Wait> {
        match action {
            DiskAction::Drain => self.drain(node),
            DiskAction::Undrain => {
                self.engine.known(node)?;
                if !self.engine.map().nodes[node].draining {
                    return fail(format!("the disk of node {node} is not being drained"));
                }
                let ticket = self.engine.change(Change::Drain(NodeId(node as u16), false));
                Ok(Wait::Draining(node, false, ticket))
            }
            DiskAction::Suspect => self.suspect(node, true),
            DiskAction::Trust => {
                self.engine.known(node)?;
                if !self.engine.map().nodes[node].suspect {
                    return fail(format!("the disk of node {node} is not suspect"));
                }
                self.suspect(node, false)
            }
            DiskAction::Clear => fail("errors are cleared by the process of the disk"),
            DiskAction::Fail => {
                self.engine.known(node)?;
                let here = |t: &Together| t.process_of(NodeId(node as u16)) == t.us();
                if self.engine.rule.together().is_some_and(here) && self.leader()?.is_some() {
                    self.engine.lose_disk(node, &accepted)?;
                    return Ok(Wait::DownHere(node, accepted));
                }
                self.engine.fail_disk(node, &accepted).map(|ticket| Wait::GivenUp(node, ticket))
            }
        }
    }

    /// Adds a node with an empty disk to an array in one process.
    pub(super) fn add_disk(&mut self, force: bool) -> Result<Wait> {
        if self.engine.rule.together().is_some() {
            return fail(
                "in a cluster give the disk on this process's machine with --path; for a disk of another machine, use the process \
                 there, or join a new one (`weft cluster token`)",
            );
        }
        let node = self.engine.instances.len();
        if node >= MAX_NODES {
            return fail(format!("an array has {MAX_NODES} nodes at most"));
        }
        if self.engine.is_adding() {
            return fail("another disk is being added; wait until that is done");
        }
        let (path, claimer) = self.engine.rule.claimer(node, force)?;
        Ok(self.take(&path, claimer, Taker::New(node)))
    }

    /// Adds a disk to this process of a cluster: a node more, whose number the leader gives.
    pub(super) fn add_disk_at(&mut self, new: &NewDisk, force: bool) -> Result<Wait> {
        let claimer = self.claimer(new, None, force)?;
        Ok(self.take(&new.path, claimer, Taker::Unnumbered))
    }

    /// Has one more node of this process admitted, unless one was before and got no disk.
    pub(super) fn admit_one(&mut self, conn: usize) -> Result<Option<Ticket>> {
        let Some(together) = self.engine.rule.together() else {
            return fail(CREATES_ITS_OWN);
        };
        let us = together.us();
        if together.without_disk().is_some() {
            return Ok(None);
        }
        let Some(leader) = self.leader()? else {
            let (_, new) = self.one_more(us)?;
            return Ok(Some(self.engine.change(Change::AddNodes(new))));
        };
        let request = ControlRequest::DiskAdmit { process: us.0 };
        let request = serde_json::to_vec(&request).map_err(|e| Error(e.to_string()))?;
        together.ask(leader, conn as u64, &request)?;
        Ok(None)
    }

    /// One more node of a process, as it is to be admitted, and where it lives.
    fn one_more(&self, process: NodeId) -> Result<(Arc<Home>, NewNodes)> {
        let map = self.engine.map();
        let first = map.served_by(process).next();
        let home = first.and_then(|n| map.nodes[usize::from(n.0)].home.clone());
        let Some(home) = home else {
            return fail(format!("there is no process {}", process.0));
        };
        let number = map.nodes.len();
        if number >= MAX_NODES {
            return fail(format!(
                "a cluster has {MAX_NODES} disks at most, and numbers are not reused"
            ));
        }
        let one = NewNodes::one(NodeId(number as u16));
        Ok((home.clone(), NewNodes { home: Some(home), process: Some(process), ..one }))
    }

    /// Admits one more node of a process that asks for it.
    pub(super) fn admit_disk(&mut self, process: u16) -> Result<Wait> {
        let (home, new) = self.one_more(NodeId(process))?;
        let (number, name) = (usize::from(new.first.0), home.name.clone());
        let ticket = self.engine.change(Change::AddNodes(new));
        Ok(Wait::NodeAdded(number, NodeId(process), name, ticket))
    }

    /// Puts an empty disk in the place of one whose node is down: where that is, or another.
    pub(super) fn replace_disk(
        &mut self,
        node: usize,
        new: Option<&NewDisk>,
        force: bool,
        accepted: &[String],
    ) -> Result<Wait> {
        self.engine.known(node)?;
        self.engine.may_get_disk(node)?;
        let (path, claimer) = match new {
            None => self.engine.rule.claimer(node, force)?,
            Some(new) => (new.path.clone(), self.claimer(new, Some(node), force)?),
        };
        let taker = Taker::Down { node, elsewhere: new.is_some(), accepted: accepted.to_vec() };
        Ok(self.take(&path, claimer, taker))
    }

    fn suspect(&mut self, node: usize, on: bool) -> Result<Wait> {
        self.engine.known(node)?;
        let info = &self.engine.map().nodes[node];
        if !info.has_disk() || info.removed {
            return fail(format!("node {node} has no disk; see `weft disk list`"));
        }
        let ticket = self.engine.change(Change::Suspect(NodeId(node as u16), on));
        Ok(Wait::Suspected(node, on, ticket))
    }

    fn drain(&mut self, node: usize) -> Result<Wait> {
        self.engine.known(node)?;
        let (map, id) = (self.engine.map(), NodeId(node as u16));
        if !map.is_up(id) {
            return fail(format!(
                "node {node} is not up, so nothing can be copied from it; start it, or rebuild its content (`weft disk fail \
             {node}`)"
            ));
        }
        if let Err(volume) = can_drain(map, id) {
            return fail(does_not_fit(map, node, volume));
        }
        let ticket = self.engine.change(Change::Drain(id, true));
        Ok(Wait::Draining(node, true, ticket))
    }

    /// Looks whether there is a number for a new disk; the disk is taken then.
    pub(super) fn check_admitted(
        &mut self,
        held: Box<Held>,
        ticket: Option<Ticket>,
        since: Instant,
    ) -> Result<Wait> {
        let free = self.engine.rule.together().and_then(Together::without_disk);
        let free = free.map(|n| usize::from(n.0)).filter(|n| self.engine.is_without_disk(*n));
        if let Some(n) = free {
            let taking = self.engine.make_disk(n, *held);
            return Ok(Wait::Taking(Box::new(taking), Taker::Numbered(n)));
        }
        if let Some(made) = ticket.and_then(|ticket| self.engine.outcome(ticket)) {
            made?;
            return Err(overtaken());
        }
        match since.elapsed() < DECIDING {
            true => Ok(Wait::DiskAdmitted(held, ticket, since)),
            false => fail("the cluster has not decided in time; try again"),
        }
    }
}

#[cfg(test)]
mod tests {
    use weft_core::cluster::NodeInfo;

    use super::*;

    #[test]
    fn a_refused_drain_names_a_label_only_where_disks_have_it() {
        let mut map =
            ClusterMap { nodes: vec![NodeInfo::new(0, 10_000); 3], ..ClusterMap::default() };
        assert!(others(&map, "box").starts_with("no other disk outside"));
        map.nodes[2].process = Some(NodeId(1));
        assert!(others(&map, "box").starts_with("no other process outside"));
        assert!(others(&map, APART_BY_NODE).starts_with("no other disk outside"));
        let labels = [("box".to_string(), "b1".to_string())].into();
        map.nodes[0].home = Some(Arc::new(Home { labels, ..Home::default() }));
        assert!(others(&map, "box").contains("a different 'box'"));
    }
}
