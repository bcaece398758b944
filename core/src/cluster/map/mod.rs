//! The cluster map: nodes, volumes, their stripe maps, and the epoch.

mod attendance;
mod check;
mod flattening;
mod hosts;
mod imports;
mod losses;
mod node;
mod ranges;
mod reservations;
mod room;
mod schedules;
mod views;
mod volume;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use attendance::{Attendance, TimeAway};
pub use hosts::{
    Access, Certificate, HostChange, HostList, KnownHost, LONGEST_SEALED, MOST_CERTIFICATES,
    MOST_HOSTS, MOST_SEALED, SealedSecret, is_host_name,
};
pub use imports::{Identity, Import, NoSource, Source};
pub use node::{Home, NodeInfo, NodeKind};
pub use ranges::{Area, MOST_RANGES, PolicyRange, Stripes};
pub use reservations::{
    Hold, LONGEST_REGISTRANT, MOST_REGISTRANTS, MOST_REMOVED, Registrant, Removal, Reservation,
    ReservationAction, ReservationChange, ReservationKind, ReservationOutcome, Reservations,
};
pub use schedules::{DueSnapshots, Scheduled};
pub use views::{Lineage, MOST_SNAPSHOTS, MOST_VIEWS, Snapshot, ViewError};
pub use volume::{Deletion, Extent, Volume};

use super::Settings;
use crate::order::sequencer::SequencerForm;
use crate::units::{Epoch, LAST_THIN, NodeId, VolumeId};

/// The label of failure domains that volumes go by unless another is chosen.
pub const APART: &str = "box";

/// The label of failure domains by which each disk is one by itself.
pub const APART_BY_NODE: &str = "node";

/// How many numbers of volumes are passed over when the map goes back to an older one: as many may have been given since, and
/// disks may have content of them.
const FORGOTTEN_NUMBERS: u32 = 100_000;

/// The nodes, the volumes, and the number of this state of affairs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ClusterMap {
    /// Grows with every change.
    pub epoch: Epoch,
    /// By node number.
    pub nodes: Vec<NodeInfo>,
    /// By volume number.
    pub volumes: BTreeMap<VolumeId, Arc<Volume>>,
    /// The number of the next volume. Numbers are not given twice, so that what a disk remembers
    /// of a deleted volume is never taken for a new one's.
    pub next_volume: u32,
    /// Whether room that no volume has may hold what one had: then it is cleared before hosts see
    /// it.
    pub room_used: bool,
    /// Whether columns are moved so that all disks are equally full (see [`super::plan_balance`]).
    pub rebalancing: bool,
    /// By volume number, if any of its nodes has been away.
    pub attendance: BTreeMap<VolumeId, Attendance>,
    /// What is chosen for the cluster as a whole.
    pub settings: Settings,
    /// The hosts that are known, by name.
    pub hosts: BTreeMap<String, KnownHost>,
}

impl ClusterMap {
    /// The node that serves locks, and is the controller of volumes that have one: the first that takes part, one
    /// without a disk if there is one.
    pub fn server(&self) -> Option<NodeId> {
        let idle = |n: &NodeId| !self.nodes[usize::from(n.0)].has_disk();
        self.serving().find(idle).or_else(|| self.serving().next())
    }

    /// So many nodes that serve locks, or as many as there are: the server, and those that come after it in the same order.
    pub fn lock_servers(&self, count: usize) -> Vec<NodeId> {
        let idle = |n: &NodeId| self.nodes[usize::from(n.0)].sectors == 0;
        let others = self.serving().filter(|n| !idle(n));
        self.serving().filter(idle).chain(others).take(count).collect()
    }

    /// The node that is the server if the process of the one that is now is lost.
    pub fn next_server(&self) -> Option<NodeId> {
        let process = self.process_of(self.server()?);
        let idle = |n: &NodeId| !self.nodes[usize::from(n.0)].has_disk();
        let others = || self.serving().filter(|n| self.process_of(*n) != process);
        others().find(idle).or_else(|| others().next())
    }

    /// The nodes that take part and are not hosts that are their own controllers: those on which
    /// roles can be that serve everybody.
    pub fn serving(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.up().filter(|n| !self.nodes[usize::from(n.0)].is_host())
    }

    /// The nodes that take part and have a disk.
    pub fn with_disks(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.up().filter(|n| self.nodes[usize::from(n.0)].has_disk())
    }

    /// Whether any volume needs a lock server.
    pub fn locks_are_served(&self) -> bool {
        self.volumes.values().any(|v| v.policy.ordering.keeps_locks().is_some())
    }

    /// Who keeps the graph of requests, if any volume has a sequencer.
    pub fn sequencer(&self) -> Option<SequencerForm> {
        self.volumes.values().find(|v| v.is_sequenced()).map(|v| v.policy.sequencer)
    }

    /// Whether a node takes part.
    pub fn is_up(&self, node: NodeId) -> bool {
        self.nodes.get(node.0 as usize).is_some_and(|n| n.up)
    }

    /// The nodes that take part.
    pub fn up(&self) -> impl Iterator<Item = NodeId> + '_ {
        (0..self.nodes.len() as u16).map(NodeId).filter(|n| self.is_up(*n))
    }

    /// The number of the process that serves a node.
    pub fn process_of(&self, node: NodeId) -> NodeId {
        self.nodes.get(usize::from(node.0)).and_then(|i| i.process).unwrap_or(node)
    }

    /// The nodes that a process serves, and that have not left.
    pub fn served_by(&self, process: NodeId) -> impl Iterator<Item = NodeId> + Clone + '_ {
        let serves = move |n: &NodeId| {
            self.process_of(*n) == process && !self.nodes[usize::from(n.0)].removed
        };
        (0..self.nodes.len() as u16).map(NodeId).filter(serves)
    }

    /// Whether another volume than this one has a name. A deleted one does not keep others from it.
    pub fn name_is_taken(&self, name: &str, by: VolumeId) -> bool {
        self.volumes.values().any(|v| v.id != by && v.name == name && !v.is_deleted())
    }

    /// The volumes that have been deleted and can be brought back, those that were deleted first before others.
    pub fn deleted(&self) -> Vec<&Arc<Volume>> {
        let mut all: Vec<_> = self.volumes.values().filter(|v| v.is_deleted()).collect();
        all.sort_by_key(|v| (v.deletion.since, v.id));
        all
    }

    /// How many numbers volumes have had, and how many there are. They run out one day: each names an address space, and a
    /// disk that was away may still have content there.
    pub fn numbers(&self) -> (u32, u32) {
        (self.next_volume.min(LAST_THIN.0), LAST_THIN.0)
    }

    /// Whether `count` more volumes can be made.
    fn has_number(&self, count: u32) -> Result<(), ViewError> {
        match self.next_volume.checked_add(count).is_some_and(|next| next <= LAST_THIN.0) {
            true => Ok(()),
            false => Err(ViewError::NoNumber),
        }
    }

    fn next_number(&mut self) -> VolumeId {
        let id = VolumeId(self.next_volume);
        self.next_volume += 1;
        id
    }

    /// Passes over the numbers that have been given since, when this map takes the place of a newer one that is lost. Nothing
    /// that was written under them can come to light then, and no snapshot is taken for another. Near the end some are left.
    pub fn pass_over_forgotten_numbers(&mut self) {
        let left = LAST_THIN.0.saturating_sub(self.next_volume);
        self.next_volume += FORGOTTEN_NUMBERS.min(left / 2);
    }

    /// A volume by name; the empty name means the first.
    pub fn volume_named(&self, name: &str) -> Option<&Arc<Volume>> {
        self.volumes.values().find(|v| name.is_empty() || v.name == name)
    }
}
