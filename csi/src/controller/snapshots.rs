//! Snapshots of one volume.

use prost_types::Timestamp;
use tonic::Status;
use weft_host::ControlRequest;
use weft_host::status::VolumeStatus;

use super::copies;
use crate::cluster::Cluster;
use crate::names::{self, Use};
use crate::parameters;
use crate::proto::{CreateSnapshotRequest, Snapshot};

/// Takes a snapshot.
///
/// # Errors
/// `AlreadyExists`, if another volume has a snapshot of this name.
pub fn create(cluster: &Cluster, asked: &CreateSnapshotRequest) -> Result<Snapshot, Status> {
    if asked.name.is_empty() {
        return Err(Status::invalid_argument("the name of the snapshot is missing"));
    }
    if asked.source_volume_id.is_empty() {
        return Err(Status::invalid_argument("the source volume's identifier is missing"));
    }
    parameters::none(&asked.parameters)?;
    let part = Use::Snapshot.name(&asked.name);
    let full = names::snapshot(&asked.source_volume_id, &part);
    let snapshots = cluster.snapshots()?;
    let such = snapshots.iter().find(|s| names::parts(&s.name).is_some_and(|(_, p)| p == part));
    match such {
        Some(there) if there.name == full => return Ok(described(there)),
        Some(there) => {
            return Err(Status::already_exists(format!(
                "there is a snapshot of this name of another volume: '{}'",
                there.name
            )));
        }
        None => {}
    }
    let volume = cluster.require_volume(&asked.source_volume_id)?;
    let request = ControlRequest::VolumeSnapshot { volumes: vec![volume.name], snapshot: part };
    cluster.change(&request, |cluster| cluster.has(&full))?;
    Ok(described(&cluster.require_snapshot(&full)?))
}

/// Deletes a snapshot.
///
/// # Errors
/// If it is one of several that were taken together, or has clones that are not independent of it yet.
pub fn delete(cluster: &Cluster, name: &str) -> Result<(), Status> {
    if name.is_empty() {
        return Err(Status::invalid_argument("the snapshot's identifier is missing"));
    }
    if let Some(group) = group_of(name) {
        return Err(Status::invalid_argument(format!(
            "snapshot '{name}' was taken with others; delete them together, as '{group}'"
        )));
    }
    match cluster.snapshot(name)? {
        Some(there) => copies::release(cluster, &there.name),
        None => Ok(()),
    }
}

/// One snapshot.
///
/// # Errors
/// `NotFound`, if it is not there.
pub fn get(cluster: &Cluster, name: &str) -> Result<Snapshot, Status> {
    match name.is_empty() {
        true => Err(Status::invalid_argument("the snapshot's identifier is missing")),
        false => Ok(described(&cluster.require_snapshot(name)?)),
    }
}

/// The snapshots that were taken with this one, if it was taken with others.
pub fn group_of(snapshot: &str) -> Option<&str> {
    let (_, part) = names::parts(snapshot)?;
    Use::Group.is_of(part).then_some(part)
}

/// A snapshot as the orchestrator is told of it.
pub fn described(snapshot: &VolumeStatus) -> Snapshot {
    let of = names::parts(&snapshot.name).map_or("", |(volume, _)| volume);
    Snapshot {
        size_bytes: i64::try_from(snapshot.size).unwrap_or(i64::MAX),
        snapshot_id: snapshot.name.clone(),
        source_volume_id: of.to_string(),
        creation_time: snapshot.taken.as_deref().and_then(|taken| taken.parse::<Timestamp>().ok()),
        ready_to_use: true,
        group_snapshot_id: group_of(&snapshot.name).unwrap_or_default().to_string(),
        ..Snapshot::default()
    }
}

/// Whether the orchestrator is told of a snapshot: of all but those that are taken for clones.
pub fn is_listed(snapshot: &VolumeStatus) -> bool {
    names::parts(&snapshot.name).is_some_and(|(_, part)| !Use::Clone.is_of(part))
}
