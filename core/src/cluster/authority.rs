//! The authority: the one that changes the map, so that all nodes that take part enter a
//! new epoch together.
//!
//! A change goes in two steps. *Freeze*: every node that will take part stops serving and
//! says how far back it has unsettled writes and how late its clock is. *Enter*: the map,
//! made durable first, takes effect. For each volume that goes on without it, a node that
//! leaves is marked stale from the oldest write that anyone had unsettled; one that returns
//! takes part at once but counts as stale until it has caught up. A volume that cannot go on
//! sleeps until enough of those have returned that took part last.
//!
//! It is a state machine like a node. Today one process holds one; replicating it is what
//! remains to be done for several machines.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::map::{Attendance, ClusterMap, Volume};
use crate::node::{MapMessage, MemberReport};
use crate::units::{Epoch, NodeId, Timestamp, VolumeId};

/// What the authority is told.
#[derive(Clone, Debug)]
pub enum AuthorityInput {
    /// These nodes run, after a start of everything: nobody went on without anybody.
    Start(Vec<NodeId>),
    /// A node has been found dead.
    NodeDown(NodeId),
    /// A node has started and wants to take part.
    NodeUp(NodeId),
    /// An operator adds a volume.
    AddVolume(Arc<Volume>),
    /// An operator removes one.
    RemoveVolume(VolumeId),
    /// A node reports.
    Report(NodeId, MemberReport),
    /// The map handed out for storing is safe.
    Stored(Epoch),
}

/// What the authority wants done.
#[derive(Clone, Debug)]
pub enum AuthorityOutput {
    /// Tell a node.
    Tell(NodeId, MapMessage),
    /// Make the map durable, then say [`AuthorityInput::Stored`].
    Store(Arc<ClusterMap>),
}

#[derive(Debug)]
enum Phase {
    Settled,
    /// Waiting for every node that takes part to stop.
    Freezing {
        frozen: BTreeMap<NodeId, (Timestamp, Timestamp)>,
    },
    /// Waiting for the map to be durable.
    Storing {
        floor: Timestamp,
    },
}

/// The holder of the map.
#[derive(Debug)]
pub struct Authority {
    map: ClusterMap,
    /// The nodes that run, whether or not the map knows.
    running: BTreeMap<NodeId, bool>,
    /// Nodes that restarted since the map last saw them.
    restarted: Vec<NodeId>,
    caught_up: Vec<NodeId>,
    volumes: Vec<VolumeChange>,
    phase: Phase,
    next: ClusterMap,
    /// The highest epoch ever proposed.
    proposed: Epoch,
    settled_once: bool,
}

#[derive(Clone, Debug)]
enum VolumeChange {
    Add(Arc<Volume>),
    Remove(VolumeId),
}

impl Authority {
    /// An authority that takes up the map as it was last stored. No node runs yet.
    pub fn new(map: ClusterMap) -> Authority {
        Authority {
            next: map.clone(),
            map,
            running: BTreeMap::new(),
            restarted: Vec::new(),
            caught_up: Vec::new(),
            volumes: Vec::new(),
            phase: Phase::Settled,
            proposed: 0,
            settled_once: false,
        }
    }

    /// The map in force.
    pub fn map(&self) -> &ClusterMap {
        &self.map
    }

    /// Whether no change is under way.
    pub fn is_settled(&self) -> bool {
        matches!(self.phase, Phase::Settled)
    }

    /// Handles one input.
    pub fn handle(&mut self, input: AuthorityInput, out: &mut Vec<AuthorityOutput>) {
        match input {
            AuthorityInput::Start(nodes) => {
                self.running = nodes.into_iter().map(|n| (n, true)).collect();
                self.propose(out);
            }
            AuthorityInput::NodeDown(node) => {
                self.running.insert(node, false);
                self.restarted.retain(|n| *n != node);
                self.caught_up.retain(|n| *n != node);
                self.propose(out);
            }
            AuthorityInput::NodeUp(node) => {
                self.running.insert(node, true);
                self.restarted.push(node);
                self.caught_up.retain(|n| *n != node);
                self.propose(out);
            }
            AuthorityInput::AddVolume(volume) => {
                self.volumes.push(VolumeChange::Add(volume));
                self.propose(out);
            }
            AuthorityInput::RemoveVolume(id) => {
                self.volumes.push(VolumeChange::Remove(id));
                self.propose(out);
            }
            AuthorityInput::Report(node, report) => self.report(node, report, out),
            AuthorityInput::Stored(epoch) => self.stored(epoch, out),
        }
    }

    fn runs(&self, node: NodeId) -> bool {
        self.running.get(&node).copied().unwrap_or(false)
    }

    fn members(&self) -> Vec<NodeId> {
        (0..self.map.nodes.len() as u16).map(NodeId).filter(|n| self.runs(*n)).collect()
    }

    /// Starts (or starts over) a change to what is known now.
    fn propose(&mut self, out: &mut Vec<AuthorityOutput>) {
        self.next = self.map.clone();
        self.proposed = self.proposed.max(self.map.epoch) + 1;
        self.next.epoch = self.proposed;
        self.phase = Phase::Freezing { frozen: BTreeMap::new() };
        for node in self.members() {
            out.push(AuthorityOutput::Tell(node, MapMessage::Freeze { epoch: self.next.epoch }));
        }
        self.try_freeze(out);
    }

    fn report(&mut self, node: NodeId, report: MemberReport, out: &mut Vec<AuthorityOutput>) {
        match report {
            MemberReport::Frozen { epoch, oldest, clock } => {
                if let Phase::Freezing { frozen } = &mut self.phase
                    && epoch == self.next.epoch
                {
                    frozen.insert(node, (oldest, clock));
                    self.try_freeze(out);
                }
            }
            MemberReport::CaughtUp { epoch } => {
                let current = epoch == self.map.epoch && self.is_settled();
                if current && self.map.is_stale(node) {
                    self.caught_up.push(node);
                    self.propose(out);
                }
            }
        }
    }

    /// When all have stopped, makes the new map.
    fn try_freeze(&mut self, out: &mut Vec<AuthorityOutput>) {
        let Phase::Freezing { frozen } = &self.phase else { return };
        let members = self.members();
        if members.is_empty() || !members.iter().all(|n| frozen.contains_key(n)) {
            return;
        }
        let oldest = frozen.values().map(|f| f.0).min().expect("not empty");
        let floor = frozen.values().map(|f| f.1).max().expect("not empty");
        self.make_map(&members, oldest, floor);
        self.phase = Phase::Storing { floor };
        out.push(AuthorityOutput::Store(Arc::new(self.next.clone())));
    }

    fn make_map(&mut self, members: &[NodeId], oldest: Timestamp, floor: Timestamp) {
        for change in &self.volumes {
            match change {
                VolumeChange::Add(v) => drop(self.next.volumes.insert(v.id, v.clone())),
                VolumeChange::Remove(id) => {
                    self.next.volumes.remove(id);
                    self.next.attendance.remove(id);
                }
            }
        }
        for (n, info) in self.next.nodes.iter_mut().enumerate() {
            info.up = members.contains(&NodeId(n as u16));
        }
        for (id, volume) in &self.next.volumes {
            let mut attendance = self.next.attendance.remove(id).unwrap_or_default();
            self.attend(volume, &mut attendance, members, oldest, floor);
            if attendance != Attendance::default() {
                self.next.attendance.insert(*id, attendance);
            }
        }
    }

    /// Who takes part in a volume from now on, and who has missed what of it.
    fn attend(
        &self,
        volume: &Volume,
        a: &mut Attendance,
        members: &[NodeId],
        oldest: Timestamp,
        floor: Timestamp,
    ) {
        a.stale_since.retain(|n, _| !(self.caught_up.contains(n) && members.contains(n)));
        let behind = a.stale_since.clone();
        let runs = |n: NodeId| members.contains(&n);
        let unsound = |n: NodeId| !runs(n) || a.away.contains(&n) || behind.contains_key(&n);
        if volume.too_many(unsound) {
            // It sleeps: nobody goes on without anybody.
            return;
        }
        // One that was not missed when it went and came may have lost what it was told; but if
        // the volume would then have too few, it is waited for as after a power cut.
        let slept = self.map.is_asleep(volume) || !self.settled_once;
        let lapsed =
            |n: NodeId| !slept && runs(n) && self.map.is_up(n) && self.restarted.contains(&n);
        let lapse = !volume.too_many(|n| unsound(n) || lapsed(n));
        for node in volume.nodes() {
            let was_away = a.away.contains(&node);
            let left = !was_away && (!runs(node) || (lapse && lapsed(node)));
            if left {
                let since = a.stale_since.entry(node).or_insert(oldest);
                *since = oldest.min(*since);
            }
            if runs(node) && (was_away || left) {
                a.counts_from.insert(node, floor);
            }
        }
        a.away = volume.nodes().into_iter().filter(|n| !runs(*n)).collect();
    }

    fn stored(&mut self, epoch: Epoch, out: &mut Vec<AuthorityOutput>) {
        let Phase::Storing { floor } = self.phase else { return };
        if epoch != self.next.epoch {
            return;
        }
        self.map = self.next.clone();
        self.phase = Phase::Settled;
        self.restarted.clear();
        self.caught_up.clear();
        self.volumes.clear();
        self.settled_once = true;
        let map = Arc::new(self.map.clone());
        for node in self.members() {
            out.push(AuthorityOutput::Tell(node, MapMessage::Enter { map: map.clone(), floor }));
        }
    }
}
