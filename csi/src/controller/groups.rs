//! Snapshots of several volumes at one instant.

use std::collections::BTreeSet;

use tonic::Status;
use weft_host::ControlRequest;
use weft_host::status::VolumeStatus;

use super::{copies, snapshots};
use crate::cluster::Cluster;
use crate::names::{self, Use};
use crate::parameters;
use crate::proto::{CreateVolumeGroupSnapshotRequest, VolumeGroupSnapshot};

/// Takes snapshots of volumes, all at one instant.
///
/// # Errors
/// `AlreadyExists`, if there are snapshots of this name of other volumes.
pub fn create(
    cluster: &Cluster,
    asked: &CreateVolumeGroupSnapshotRequest,
) -> Result<VolumeGroupSnapshot, Status> {
    if asked.name.is_empty() {
        return Err(Status::invalid_argument("the name of the group snapshot is missing"));
    }
    if asked.source_volume_ids.is_empty() {
        return Err(Status::invalid_argument("the source volumes' identifiers are missing"));
    }
    parameters::none(&asked.parameters)?;
    let group = Use::Group.name(&asked.name);
    let wanted: BTreeSet<&str> = asked.source_volume_ids.iter().map(String::as_str).collect();
    let there = members(cluster, &group)?;
    if there.is_empty() {
        for volume in &wanted {
            cluster.require_volume(volume)?;
        }
        let volumes = wanted.iter().map(|name| name.to_string()).collect();
        let request = ControlRequest::VolumeSnapshot { volumes, snapshot: group.clone() };
        cluster.change(&request, |cluster| Ok(!members(cluster, &group)?.is_empty()))?;
        return Ok(described(&group, &members(cluster, &group)?));
    }
    let volumes = there.iter().filter_map(|s| Some(names::parts(&s.name)?.0)).collect();
    match wanted == volumes {
        true => Ok(described(&group, &there)),
        false => Err(Status::already_exists(format!(
            "group snapshot '{group}' already exists, of other volumes"
        ))),
    }
}

/// Deletes all snapshots that were taken together.
///
/// # Errors
/// `InvalidArgument`, if others are named; or if one has clones that are not independent yet.
pub fn delete(cluster: &Cluster, group: &str, snapshots: &[String]) -> Result<(), Status> {
    let there = checked(cluster, group, snapshots)?;
    there.iter().try_for_each(|snapshot| copies::release(cluster, &snapshot.name))
}

/// The snapshots that were taken together.
///
/// # Errors
/// `NotFound`, if there are none.
pub fn get(
    cluster: &Cluster,
    group: &str,
    snapshots: &[String],
) -> Result<VolumeGroupSnapshot, Status> {
    let there = checked(cluster, group, snapshots)?;
    match there.is_empty() {
        true => Err(Status::not_found(format!("there is no group snapshot '{group}'"))),
        false => Ok(described(group, &there)),
    }
}

/// The snapshots of a group that are there, if no other is named.
fn checked(cluster: &Cluster, group: &str, named: &[String]) -> Result<Vec<VolumeStatus>, Status> {
    if group.is_empty() {
        return Err(Status::invalid_argument("the group snapshot's identifier is missing"));
    }
    match named.iter().find(|name| snapshots::group_of(name) != Some(group)) {
        Some(other) => Err(Status::invalid_argument(format!(
            "snapshot '{other}' is not one of the group snapshot '{group}'"
        ))),
        None => members(cluster, group),
    }
}

fn members(cluster: &Cluster, group: &str) -> Result<Vec<VolumeStatus>, Status> {
    let mut all = cluster.snapshots()?;
    all.retain(|snapshot| snapshots::group_of(&snapshot.name) == Some(group));
    Ok(all)
}

fn described(group: &str, members: &[VolumeStatus]) -> VolumeGroupSnapshot {
    let snapshots: Vec<_> = members.iter().map(snapshots::described).collect();
    VolumeGroupSnapshot {
        group_snapshot_id: group.to_string(),
        creation_time: snapshots.first().and_then(|first| first.creation_time),
        ready_to_use: true,
        snapshots,
    }
}
