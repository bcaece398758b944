//! What questions wait for: in words, and for whom.

use std::time::Instant;

use serde_json::Value;
use weft_core::cluster::{ClusterSetting, HostChange, PolicyChange, ReservationChange, Volume};
use weft_core::order::HostId;
use weft_core::units::{Epoch, NodeId, VolumeId};

use super::shrinking::Survey;
use super::taking::Taker;
use super::{Commands, DeletionKind};
use crate::control::copying::Copying;
use crate::control::diff::Diff;
use crate::control::losses::Losses;
use crate::control::scrub::Scrubbing;
use crate::control::usage::Usage;
use crate::control_protocol::ControlRequest;
use crate::disk::handle::Aside;
use crate::doors::secret::Secrets;
use crate::engine::Ticket;
use crate::engine::taking::{Held, Taking};

/// What a question waits for.
pub(crate) enum Wait {
    /// The node takes part.
    NodeUp(usize),
    /// The node is down, and the map says so.
    NodeDown(usize),
    /// The node is down, so that the leader can give it up; the loss of these volumes is accepted.
    DownHere(usize, Vec<String>),
    /// The map says that the node is given up.
    GivenUp(usize, Ticket),
    /// The map says that the node's disk is to be emptied, or not any more.
    Draining(usize, bool, Ticket),
    /// The map says that the node's disk is expected to fail, or not any more.
    Suspected(usize, bool, Ticket),
    /// The map says that columns are moved until disks are equally full, or not any more.
    Rebalancing(bool, Ticket),
    /// The map says what was chosen for the cluster as a whole.
    Set(ClusterSetting, Ticket),
    /// The map says what was asked about known hosts.
    Hosts(HostChange, Ticket),
    /// The key by which a host's secrets are sealed is in its file.
    Sealing(String, Box<Secrets>),
    /// The map says what became of a change of a volume's reservations.
    Reserved(ReservationChange, Ticket),
    /// The map holds the node, in the process of this number and name.
    NodeAdded(usize, NodeId, String, Ticket),
    /// The map holds the node, so that it can be started on its new disk.
    DiskAdded(usize, Ticket),
    /// The map holds a node of this process that has no disk yet, for this one.
    DiskAdmitted(Box<Held>, Option<Ticket>, Instant),
    /// A disk is claimed or made an empty one.
    Taking(Box<Taking>, Taker),
    /// The map says that the node has left.
    NodeRemoved(usize, Ticket),
    /// The map holds the volume, as it is here.
    VolumeThere(Box<Volume>, Ticket),
    /// The map says that the volume has this policy.
    PolicySet(VolumeId, PolicyChange, Ticket),
    /// The map holds the volume in whole stripes, so that its room can be cleared.
    RoomThere(Box<Volume>, Ticket),
    /// The volume's room can be cleared.
    ToClear(Box<Volume>),
    /// The volume's room is being cleared, since this epoch.
    Clearing(Box<Volume>, Epoch),
    /// A volume is to be made smaller, and it is being found out what that cuts off.
    Surveying(Box<Survey>),
    /// The next piece of that is to be looked at.
    LookOn(Box<Survey>),
    /// Hosts do not see any more what is to be cut off.
    Cut(Box<Survey>, Ticket),
    /// All processes have said, in this epoch or a later one, who uses the volume.
    Cuttable(Box<Survey>, Epoch),
    /// Hosts do not see the volume any more, which is to go in this way.
    Hidden(VolumeId, Ticket, DeletionKind),
    /// All processes have said, in this epoch or a later one, who uses the volume.
    Removable(VolumeId, Epoch, DeletionKind),
    /// The map says that the volume is deleted, and can be brought back.
    Deleted(VolumeId, Ticket),
    /// The map says that the volume is not deleted any more.
    Back(VolumeId, Ticket),
    /// The map says that the volume has this name.
    Renamed(VolumeId, String, Ticket),
    /// The map holds a snapshot of this name of each of the volumes.
    Snapped(Vec<VolumeId>, String, Ticket),
    /// The map holds a volume of this name over the snapshot.
    Cloned(VolumeId, String, Ticket),
    /// The map says that the volume's disks copy what it shows of others.
    Flattens(VolumeId, Ticket),
    /// The volume shows the content of this snapshot, and hosts see it again.
    RolledBack(VolumeId, VolumeId, Ticket),
    /// The map has a hidden volume for an import.
    Importing(String, Ticket),
    /// Nodes have listed changes of a hidden volume since the base of an import.
    Comparing(Box<Diff>, VolumeId),
    /// The next piece of that can be queried.
    CompareOn(Box<Diff>, VolumeId),
    /// The imported content is in place, and the volume has this snapshot.
    Imported(VolumeId, String, Ticket),
    /// The map does not hold deleted volumes any more whose room is needed for this request.
    Forgotten(Box<ControlRequest>, Vec<Ticket>),
    /// Hosts see the volume again: one uses it, or something else prevents the change.
    Kept(VolumeId, Option<String>, Ticket),
    /// The map does not hold the volume any more.
    VolumeGone(VolumeId, Ticket),
    /// Nothing of the host is in work any more, which was to leave during this stay.
    HostLeft(HostId, u64),
    /// Parity of a volume that waits has been computed.
    Refresh(String),
    /// What of a volume is lost has been listed, or accepted; and the next step of that.
    Losses(Box<Losses>),
    /// The next step of that.
    Accepting(Box<Losses>),
    /// Nodes have answered a step of a copy.
    Copying(Box<Copying>),
    /// The next step of a copy can be submitted.
    CopyOn(Box<Copying>),
    /// Nodes have told the holes of a piece of a volume.
    LookingAt(Box<Usage>),
    /// The next piece can be queried.
    LookAt(Box<Usage>),
    /// Nodes have told what has changed in a piece of a volume.
    Differing(Box<Diff>),
    /// The next piece can be queried.
    DiffOn(Box<Diff>),
    /// Nodes have scrubbed a volume.
    Scrub(Box<Scrubbing>),
    /// The next one can be scrubbed.
    ScrubOn(Box<Scrubbing>),
    /// An answer is computed in a thread of its own: nodes and members are not to wait for it.
    Computing(Aside<Value>),
    /// Everything is in place.
    Quiet(Instant),
    /// Everything has stopped.
    Shutdown,
    /// There is a leader, who must answer, and its nodes agree on a map if the answer depends on that.
    Leader(Box<ControlRequest>, bool, Instant),
    /// The hosts that use a volume are gone.
    Parting(Box<ControlRequest>, bool, Instant),
    /// Another process has answered.
    Elsewhere(NodeId),
}

impl Wait {
    /// The volume whose size is being changed.
    pub(crate) fn sizes(&self) -> Option<VolumeId> {
        match self {
            Wait::RoomThere(volume, _) | Wait::ToClear(volume) | Wait::Clearing(volume, _) => {
                Some(volume.id)
            }
            Wait::Surveying(s) | Wait::LookOn(s) | Wait::Cut(s, _) | Wait::Cuttable(s, _) => {
                Some(s.volume())
            }
            _ => None,
        }
    }

    /// The volume that is being made, changed or deleted.
    pub(crate) fn volume(&self) -> Option<VolumeId> {
        match self {
            Wait::VolumeThere(volume, _) => Some(volume.id),
            Wait::PolicySet(id, ..)
            | Wait::Hidden(id, ..)
            | Wait::Kept(id, ..)
            | Wait::Imported(id, ..)
            | Wait::Deleted(id, _)
            | Wait::Back(id, _)
            | Wait::Renamed(id, ..)
            | Wait::RolledBack(id, ..)
            | Wait::VolumeGone(id, _) => Some(*id),
            Wait::Removable(id, ..) => Some(*id),
            Wait::Comparing(diff, _) | Wait::CompareOn(diff, _) => Some(diff.volume.id),
            _ => self.sizes(),
        }
    }

    /// Whether it is over when whoever asked is gone: nothing has been changed, or it changes nothing.
    pub(crate) fn ends_with_its_asker(&self) -> bool {
        match self {
            Wait::Leader(..)
            | Wait::Parting(..)
            | Wait::DownHere(..)
            | Wait::Sealing(..)
            | Wait::Scrub(_)
            | Wait::ScrubOn(_)
            | Wait::Refresh(_)
            | Wait::Losses(_)
            | Wait::Accepting(_)
            | Wait::Copying(_)
            | Wait::CopyOn(_)
            | Wait::LookingAt(_)
            | Wait::LookAt(_)
            | Wait::Differing(_)
            | Wait::DiffOn(_)
            | Wait::HostLeft(..)
            | Wait::Computing(_)
            | Wait::Elsewhere(_) => true,
            Wait::Surveying(survey) | Wait::LookOn(survey) => !survey.hidden,
            _ => false,
        }
    }

    /// Whether time alone may bring it about.
    pub(crate) fn is_timed(&self) -> bool {
        matches!(
            self,
            Wait::Leader(..)
                | Wait::Parting(..)
                | Wait::NodeDown(_)
                | Wait::DownHere(..)
                | Wait::Taking(..)
                | Wait::Computing(_)
        )
    }
}

impl Commands<'_> {
    /// Connections to a volume that a request must not have.
    pub(super) fn hosts_in_the_way(&self, request: &ControlRequest) -> u64 {
        let exports = self.engine.exports();
        // All the room that is left is more than it has.
        let volume = match request {
            ControlRequest::VolumeDelete { name, .. }
            | ControlRequest::VolumeRename { name, .. }
            | ControlRequest::VolumeRollback { name, .. }
            | ControlRequest::VolumeImported { name, .. } => exports.named(name),
            ControlRequest::VolumeResize { name, size, .. } => {
                exports.named(name).filter(|v| *size != 0 && *size < v.visible)
            }
            _ => None,
        };
        // Snapshots are renamed with their volume.
        let snapshots = match request {
            ControlRequest::VolumeRename { .. } => {
                volume.map_or(Vec::new(), |v| self.engine.map().snapshots_of(v.id))
            }
            _ => Vec::new(),
        };
        volume.into_iter().chain(snapshots).map(|v| self.clients_of(v.id)).sum()
    }

    /// What is waited for, in words for whoever asked and wonders.
    pub(crate) fn waits_for(&self, wait: &Wait) -> Option<String> {
        Some(match wait {
            Wait::Leader(..) | Wait::DownHere(..) if self.begins_to_lead() => {
                "the leading process to find running nodes".to_string()
            }
            Wait::DownHere(..) if self.leader().is_ok() => return None,
            Wait::Leader(request, ..) if self.leader().is_ok() && !self.is_ready_for(request) => {
                "the nodes to start and to agree on the cluster map".to_string()
            }
            Wait::Leader(..) | Wait::DownHere(..) => {
                "a leader of the cluster; a majority of the nodes' processes must run and reach one another"
                    .to_string()
            }
            Wait::Parting(request, ..) => {
                let n = self.hosts_in_the_way(request);
                format!("the hosts that use the volume to disconnect (connections: {n})")
            }
            Wait::Computing(_) => "the answer to be computed".to_string(),
            Wait::Taking(taking, _) => format!("{} to answer", taking.path().display()),
            Wait::Sealing(..) => {
                "the key for secrets to be written in this process's directory".to_string()
            }
            Wait::Cuttable(_, epoch) | Wait::Removable(_, epoch, _) => {
                let unheard = self.unheard_since(*epoch);
                let unheard: Vec<String> = unheard.iter().map(|p| p.0.to_string()).collect();
                format!(
                    "the processes of these nodes to confirm that no host uses the volume: {}",
                    unheard.join(", ")
                )
            }
            Wait::Surveying(_) | Wait::LookOn(_) => "a check of the data beyond the new size".to_string(),
            Wait::ToClear(_) | Wait::Clearing(..) => "the added space of the volume to be zeroed".to_string(),
            Wait::VolumeThere(..)
            | Wait::PolicySet(..)
            | Wait::RoomThere(..)
            | Wait::Cut(..)
            | Wait::Hidden(..)
            | Wait::Kept(..)
            | Wait::Deleted(..)
            | Wait::Back(..)
            | Wait::Renamed(..)
            | Wait::Snapped(..)
            | Wait::Cloned(..)
            | Wait::Flattens(..)
            | Wait::RolledBack(..)
            | Wait::Importing(..)
            | Wait::Imported(..)
            | Wait::Forgotten(..)
            | Wait::Hosts(..)
            | Wait::Reserved(..)
            | Wait::VolumeGone(..) => "all nodes to agree on the new cluster map".to_string(),
            _ => return None,
        })
    }
}
