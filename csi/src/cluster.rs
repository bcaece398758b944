//! The cluster, as the process on this machine knows it: asked over its control socket.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tonic::{Code, Status};
use weft_core::cluster::Access;
use weft_host::status::{Status as ArrayStatus, VolumeMode, VolumeStatus};
use weft_host::{Control, ControlRequest, HostAction};

use crate::grants::Grants;
use crate::names;

/// A name on the list of hosts of each volume that the driver has made. No certificate has it: so a volume that is
/// attached nowhere serves nobody, and its list says that it is complete.
pub const KEEPER: &str = "weft-csi";

/// How long the process on this machine may take to show a change that another has made.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long to wait between two looks.
const PAUSE: Duration = Duration::from_millis(20);

/// Whoever answers requests of operators.
pub trait Ask: Send + Sync + 'static {
    /// Asks, and waits for the answer.
    ///
    /// # Errors
    /// `Unavailable`, if it is not known whether it was done; `FailedPrecondition`, if it was refused.
    fn ask(&self, request: &ControlRequest) -> Result<Value, Status>;
}

/// The control socket in a directory.
#[derive(Debug)]
pub struct Socket(pub PathBuf);

impl Ask for Socket {
    fn ask(&self, request: &ControlRequest) -> Result<Value, Status> {
        let mut control =
            Control::connect(&self.0).map_err(|e| Status::unavailable(e.to_string()))?;
        control.request(request).map_err(|e| {
            // A process that goes on answering has refused.
            let is_there =
                control.request(&ControlRequest::VolumeList { snapshots: false }).is_ok();
            match is_there {
                true => Status::failed_precondition(e.to_string()),
                false => Status::unavailable(e.to_string()),
            }
        })
    }
}

/// The cluster.
#[derive(Clone)]
pub struct Cluster {
    by: Arc<dyn Ask>,
    /// The rights that were given to nodes through this process.
    pub grants: Arc<Grants>,
}

impl Cluster {
    /// Reached in this way.
    pub fn new(by: impl Ask) -> Cluster {
        Cluster { by: Arc::new(by), grants: Arc::default() }
    }

    /// Has something done.
    ///
    /// # Errors
    /// As [`Ask::ask`].
    pub fn ask(&self, request: &ControlRequest) -> Result<Value, Status> {
        self.by.ask(request)
    }

    /// Has something changed, and waits until the process on this machine shows it: another one may have made the change.
    ///
    /// # Errors
    /// As [`Ask::ask`]; `Unavailable`, if it is not shown in time.
    pub fn change(
        &self,
        request: &ControlRequest,
        is_shown: impl Fn(&Cluster) -> Result<bool, Status>,
    ) -> Result<(), Status> {
        self.ask(request)?;
        let end = Instant::now() + PATIENCE;
        while !is_shown(self)? {
            if Instant::now() > end {
                return Err(Status::unavailable(
                    "the process on this machine does not show a change that was made; try again",
                ));
            }
            thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// Whether there is a volume, or a snapshot, of a name, which is neither being made nor deleted.
    ///
    /// # Errors
    /// If the cluster cannot be asked.
    pub fn has(&self, name: &str) -> Result<bool, Status> {
        let all = if names::parts(name).is_some() { self.snapshots()? } else { self.volumes()? };
        Ok(all.iter().any(|volume| volume.name == name && volume.mode != VolumeMode::Unfinished))
    }

    /// The host's right to a volume, as the list has it.
    fn right(&self, volume: &str, host: &str) -> Result<Option<String>, Status> {
        let there = self.volumes()?.into_iter().find(|there| there.name == volume);
        Ok(there.and_then(|there| there.hosts?.get(host).cloned()))
    }

    /// How the cluster is.
    ///
    /// # Errors
    /// If it cannot be asked.
    pub fn status(&self) -> Result<ArrayStatus, Status> {
        let answer = self.ask(&ControlRequest::Status)?;
        require_current(&answer)?;
        read(answer)
    }

    /// The volumes that are not deleted, by name.
    ///
    /// # Errors
    /// If the cluster cannot be asked.
    pub fn volumes(&self) -> Result<Vec<VolumeStatus>, Status> {
        let mut all = self.all_volumes()?;
        all.retain(|volume| volume.mode != VolumeMode::Deleted);
        Ok(all)
    }

    /// The volumes by name, also those that are deleted and can be brought back.
    ///
    /// # Errors
    /// If the cluster cannot be asked.
    pub fn all_volumes(&self) -> Result<Vec<VolumeStatus>, Status> {
        self.list(false)
    }

    /// The snapshots, by name.
    ///
    /// # Errors
    /// If the cluster cannot be asked.
    pub fn snapshots(&self) -> Result<Vec<VolumeStatus>, Status> {
        self.list(true)
    }

    /// The volumes that are not deleted, as the process on this machine knew them last: for looking only.
    ///
    /// # Errors
    /// If it cannot be asked.
    pub fn last_known_volumes(&self) -> Result<Vec<VolumeStatus>, Status> {
        let mut all = by_name(self.ask(&ControlRequest::VolumeList { snapshots: false })?)?;
        all.retain(|volume| volume.mode != VolumeMode::Deleted);
        Ok(all)
    }

    fn list(&self, snapshots: bool) -> Result<Vec<VolumeStatus>, Status> {
        let answer = self.ask(&ControlRequest::VolumeList { snapshots })?;
        require_current(&answer)?;
        by_name(answer)
    }

    /// The volume of a name, if there is one.
    ///
    /// # Errors
    /// If the cluster cannot be asked, or the volume is neither made nor deleted yet.
    pub fn volume(&self, name: &str) -> Result<Option<VolumeStatus>, Status> {
        let found = self.volumes()?.into_iter().find(|volume| volume.name == name);
        match found {
            Some(volume) if volume.mode == VolumeMode::Unfinished => Err(Status::aborted(format!(
                "volume '{name}' is being created or deleted; try again when that is done"
            ))),
            found => Ok(found),
        }
    }

    /// The volume of a name that there must be.
    ///
    /// # Errors
    /// `NotFound`, or as [`Cluster::volume`].
    pub fn require_volume(&self, name: &str) -> Result<VolumeStatus, Status> {
        self.volume(name)?.ok_or_else(|| Status::not_found(format!("there is no volume '{name}'")))
    }

    /// The snapshot of a full name, if there is one.
    ///
    /// # Errors
    /// If the cluster cannot be asked.
    pub fn snapshot(&self, name: &str) -> Result<Option<VolumeStatus>, Status> {
        match names::parts(name) {
            Some(_) => Ok(self.snapshots()?.into_iter().find(|snapshot| snapshot.name == name)),
            None => Ok(None),
        }
    }

    /// The snapshot of a full name that there must be.
    ///
    /// # Errors
    /// `NotFound`, or if the cluster cannot be asked.
    pub fn require_snapshot(&self, name: &str) -> Result<VolumeStatus, Status> {
        let found = self.snapshot(name)?;
        found.ok_or_else(|| Status::not_found(format!("there is no snapshot '{name}'")))
    }

    /// The names of the hosts that the cluster knows.
    ///
    /// # Errors
    /// If the cluster cannot be asked.
    pub fn hosts(&self) -> Result<Vec<String>, Status> {
        let answer = self.ask(&ControlRequest::Hosts { action: HostAction::List })?;
        let known = answer["known"].as_array().map_or(&[][..], Vec::as_slice);
        Ok(known.iter().filter_map(|host| Some(host["name"].as_str()?.to_string())).collect())
    }

    /// Lets a host use a volume.
    ///
    /// # Errors
    /// As [`Ask::ask`].
    pub fn allow(&self, volume: &str, host: &str, read_only: bool) -> Result<(), Status> {
        let action = HostAction::Allow {
            volume: volume.to_string(),
            host: Some(host.to_string()),
            read_only,
        };
        self.change(&ControlRequest::Hosts { action }, |cluster| {
            let right = cluster.right(volume, host)?;
            Ok(right.is_some_and(|right| reads_only(&right) == read_only))
        })
    }

    /// Ends a host's right to use a volume, and its connections. One that has none, as the leading process knows, is no
    /// error.
    ///
    /// # Errors
    /// As [`Ask::ask`].
    pub fn deny(&self, volume: &str, host: &str) -> Result<(), Status> {
        let action = HostAction::Deny { volume: volume.to_string(), host: host.to_string() };
        let denied = self.change(&ControlRequest::Hosts { action }, |cluster| {
            Ok(cluster.right(volume, host)?.is_none())
        });
        match denied {
            Err(refused) if has_no_right(&refused) => Ok(()),
            denied => denied,
        }
    }

    /// Has a volume serve nobody but those who are allowed from now on.
    ///
    /// # Errors
    /// As [`Ask::ask`].
    pub fn keep(&self, volume: &str) -> Result<(), Status> {
        if !self.hosts()?.iter().any(|host| host == KEEPER) {
            let made = self.ask(&ControlRequest::Hosts {
                action: HostAction::Create { name: KEEPER.to_string() },
            });
            // Somebody else may just have made it.
            if made.is_err() && !self.hosts()?.iter().any(|host| host == KEEPER) {
                return made.map(drop);
            }
        }
        self.allow(volume, KEEPER, true)
    }
}

/// Whether the leading process says that a host has no right that could end.
fn has_no_right(refused: &Status) -> bool {
    const SAYS: [&str; 4] = [
        "is not on the list of volume",
        "has no list",
        "there is no volume",
        "there are no volumes",
    ];
    refused.code() == Code::FailedPrecondition
        && SAYS.iter().any(|says| refused.message().contains(says))
}

/// Refuses what a process answers that reaches no majority: the cluster may have changed without it.
fn require_current(answer: &Value) -> Result<(), Status> {
    match answer["cut_off"].as_str() {
        Some(why) => Err(Status::unavailable(format!("the process on this machine: {why}"))),
        None => Ok(()),
    }
}

/// The volumes that an answer lists, by name.
fn by_name(mut answer: Value) -> Result<Vec<VolumeStatus>, Status> {
    let mut all: Vec<VolumeStatus> = read(answer["volumes"].take())?;
    all.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(all)
}

/// The hosts that may use a volume, without the driver's own name, and whether each may only read.
pub fn published(volume: &VolumeStatus) -> BTreeMap<String, bool> {
    let list = volume.hosts.iter().flatten().filter(|(host, _)| *host != KEEPER);
    list.map(|(host, access)| (host.clone(), reads_only(access))).collect()
}

/// Whether a right, as the status has it, is one to read only.
fn reads_only(right: &str) -> bool {
    right == Access::ReadOnly.word()
}

/// Whether the driver has made a volume completely.
pub fn is_kept(volume: &VolumeStatus) -> bool {
    volume.hosts.as_ref().is_some_and(|list| list.contains_key(KEEPER))
}

/// What an answer says.
fn read<T: serde::de::DeserializeOwned>(answer: Value) -> Result<T, Status> {
    serde_json::from_value(answer).map_err(|e| {
        Status::internal(format!("the answer of the process is of another version: {e}"))
    })
}
