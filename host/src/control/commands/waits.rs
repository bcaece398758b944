//! What questions wait for: in words, and for whom.

use weft_core::units::VolumeId;

use super::{Commands, Wait};
use crate::control_protocol::ControlRequest;

impl Wait {
    /// The volume whose size is being changed.
    pub(crate) fn sizes(&self) -> Option<VolumeId> {
        match self {
            Wait::RoomThere(volume, _) | Wait::Clearing(volume) => Some(volume.id),
            Wait::Surveying(s) | Wait::LookOn(s) | Wait::Cut(s, _) | Wait::Cuttable(s, _) => {
                Some(s.volume.id)
            }
            _ => None,
        }
    }

    /// The volume that is being made, changed or deleted.
    pub(crate) fn volume(&self) -> Option<VolumeId> {
        match self {
            Wait::VolumeThere(volume, _) => Some(volume.id),
            Wait::PolicySet(id, ..)
            | Wait::Hidden(id, _)
            | Wait::Removable(id, _)
            | Wait::Kept(id, _)
            | Wait::VolumeGone(id, _) => Some(*id),
            _ => self.sizes(),
        }
    }

    /// Whether it is over when whoever asked is gone: nothing has been changed, or it changes nothing.
    pub(crate) fn ends_with_its_asker(&self) -> bool {
        match self {
            Wait::Leader(..)
            | Wait::Parting(..)
            | Wait::DownHere(_)
            | Wait::Scrub(..)
            | Wait::Refresh(_)
            | Wait::Losses(_)
            | Wait::Accepting(_)
            | Wait::Elsewhere(_) => true,
            Wait::Surveying(survey) | Wait::LookOn(survey) => !survey.hidden,
            _ => false,
        }
    }

    /// Whether time alone may bring it about.
    pub(crate) fn is_timed(&self) -> bool {
        matches!(self, Wait::Leader(..) | Wait::Parting(..) | Wait::DownHere(_))
    }
}

impl Commands<'_> {
    /// Connections to a volume that a request must not have.
    pub(super) fn hosts_in_the_way(&self, request: &ControlRequest) -> u64 {
        let exports = self.engine.exports();
        // All the room that is left is more than it has.
        let volume = match request {
            ControlRequest::VolumeDelete { name } if !name.is_empty() => exports.named(name),
            ControlRequest::VolumeResize { name, size, .. } => {
                exports.named(name).filter(|v| *size != 0 && *size < v.visible)
            }
            _ => None,
        };
        volume.map_or(0, |v| self.clients_of(v.id))
    }

    /// What is waited for, in words for whoever asked and wonders.
    pub(crate) fn waits_for(&self, wait: &Wait) -> Option<String> {
        Some(match wait {
            Wait::Leader(..) | Wait::DownHere(_) if self.begins_to_lead() => {
                "the process that leads the cluster to find out which nodes run".to_string()
            }
            Wait::DownHere(_) if self.leader().is_ok() => return None,
            Wait::Leader(request, ..) if self.leader().is_ok() && !self.is_ready_for(request) => {
                "the nodes to start and to agree on the cluster map".to_string()
            }
            Wait::Leader(..) | Wait::DownHere(_) => {
                "a process that leads the cluster; a majority of the nodes' \
                                 processes must run and reach one another"
                    .to_string()
            }
            Wait::Parting(request, ..) => {
                let n = self.hosts_in_the_way(request);
                format!("the hosts that use the volume to disconnect (connections: {n})")
            }
            Wait::Cuttable(_, epoch) | Wait::Removable(_, epoch) => {
                let unheard = self.unheard_since(*epoch);
                let unheard: Vec<String> = unheard.iter().map(|p| p.0.to_string()).collect();
                format!(
                    "the processes of these nodes to say that no host uses the volume: {}",
                    unheard.join(", ")
                )
            }
            Wait::Surveying(_) | Wait::LookOn(_) => "a look at what would be cut off".to_string(),
            Wait::Clearing(_) => "the room that the volume has got to be cleared".to_string(),
            Wait::VolumeThere(..)
            | Wait::PolicySet(..)
            | Wait::RoomThere(..)
            | Wait::Cut(..)
            | Wait::Hidden(..)
            | Wait::Kept(..)
            | Wait::VolumeGone(..) => "all nodes to agree on the new cluster map".to_string(),
            _ => return None,
        })
    }
}
