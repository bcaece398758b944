//! Making, growing, changing and deleting volumes.

use tonic::Status;
use weft_host::ControlRequest;
use weft_host::status::VolumeStatus;

use super::copies;
use crate::capability::{Sizes, Wanted};
use crate::cluster::{Cluster, is_kept, published};
use crate::names::{self, Use};
use crate::parameters::{self, Parameters};
use crate::proto::{
    ControllerExpandVolumeRequest, ControllerExpandVolumeResponse, ControllerModifyVolumeRequest,
    CreateVolumeRequest, Volume, VolumeContentSource,
};

/// Makes a volume, or goes on with it.
///
/// # Errors
/// If the request is invalid or does not fit, or there is another volume of this name.
pub fn create(cluster: &Cluster, asked: &CreateVolumeRequest) -> Result<Volume, Status> {
    if asked.name.is_empty() {
        return Err(Status::invalid_argument("the name of the volume is missing"));
    }
    Wanted::read_all(&asked.volume_capabilities)?;
    let kind = Parameters::read(&asked.parameters, &asked.mutable_parameters)?;
    let name = Use::Volume.name(&asked.name);
    let source = asked.volume_content_source.as_ref();
    let origin = source.map(|source| copies::Origin::find(cluster, source, &name)).transpose()?;
    let sizes = Sizes::read(asked.capacity_range.as_ref(), origin.as_ref().map(|o| o.volume.size))?;
    let there = match cluster.volume(&name)? {
        Some(there) => there,
        None => match &origin {
            Some(origin) => copies::make(cluster, origin, &kind, &name)?,
            None => new(cluster, &kind, &name, sizes.wanted)?,
        },
    };
    check_origin(&there, origin.as_ref())?;
    let there = match is_kept(&there) {
        true => there,
        false => complete(cluster, there, &kind, sizes, origin.is_some())?,
    };
    if !sizes.fits(there.size) {
        return Err(Status::already_exists(format!(
            "volume '{name}' already exists, with another size: {} bytes",
            there.size
        )));
    }
    Ok(described(&there, source.cloned()))
}

/// Makes a volume without content.
fn new(
    cluster: &Cluster,
    kind: &Parameters,
    name: &str,
    size: u64,
) -> Result<VolumeStatus, Status> {
    let request = kind.request(name, size);
    // All words of the request are valid: space or disks are missing.
    let made = cluster.change(&request, |cluster| cluster.has(name));
    made.map_err(|refused| match refused.code() {
        tonic::Code::FailedPrecondition => Status::resource_exhausted(refused.message()),
        _ => refused,
    })?;
    cluster.require_volume(name)
}

/// Gives a new volume what it lacks yet, and lets nobody use it until it is published.
fn complete(
    cluster: &Cluster,
    there: VolumeStatus,
    kind: &Parameters,
    sizes: Sizes,
    is_copy: bool,
) -> Result<VolumeStatus, Status> {
    let name = &there.name;
    if is_copy && there.size < sizes.wanted {
        grow(cluster, name, sizes.wanted)?;
    }
    if is_copy && !kind.set.is_empty() {
        set(cluster, name, kind.set.clone())?;
    }
    cluster.keep(name)?;
    cluster.require_volume(name)
}

fn grow(cluster: &Cluster, name: &str, size: u64) -> Result<(), Status> {
    let request = ControlRequest::VolumeResize { name: name.to_string(), size, force: false };
    let grown = cluster.change(&request, |cluster| {
        Ok(cluster.has(name)? && cluster.require_volume(name)?.size >= size)
    });
    grown.map_err(|refused| match refused.code() {
        tonic::Code::FailedPrecondition => Status::resource_exhausted(refused.message()),
        _ => refused,
    })
}

fn set(
    cluster: &Cluster,
    name: &str,
    set: std::collections::BTreeMap<String, String>,
) -> Result<(), Status> {
    let name = name.to_string();
    let request = ControlRequest::VolumeSet { name, set, force: false, range: None };
    cluster.ask(&request).map(drop).map_err(|refused| match refused.code() {
        tonic::Code::FailedPrecondition => Status::invalid_argument(refused.message()),
        _ => refused,
    })
}

/// Refuses a volume that is there with other content than is asked.
fn check_origin(there: &VolumeStatus, origin: Option<&copies::Origin>) -> Result<(), Status> {
    let below = there
        .below
        .as_deref()
        .filter(|below| names::parts(below).is_none_or(|(volume, _)| volume != there.name));
    let wanted = origin.map(|origin| origin.snapshot.as_str());
    // A volume with snapshots of its own lies over the last of them.
    let lies_over_its_own = there.below.is_some() && below.is_none();
    if below == wanted || (lies_over_its_own && is_kept(there)) {
        return Ok(());
    }
    let name = &there.name;
    Err(Status::already_exists(match below {
        Some(below) => format!("volume '{name}' already exists, as a copy of '{below}'"),
        None => format!("volume '{name}' already exists, and is not a copy of that source"),
    }))
}

/// A volume as the orchestrator is told of it.
pub fn described(volume: &VolumeStatus, content_source: Option<VolumeContentSource>) -> Volume {
    Volume {
        capacity_bytes: i64::try_from(volume.size).unwrap_or(i64::MAX),
        volume_id: volume.name.clone(),
        content_source,
        ..Volume::default()
    }
}

/// Deletes a volume that is published nowhere, with its scheduled snapshots. Unless it is a clone it can be brought back
/// for a day.
///
/// # Errors
/// If it is in use, or has other snapshots.
pub fn delete(cluster: &Cluster, name: &str) -> Result<(), Status> {
    if name.is_empty() {
        return Err(Status::invalid_argument("the volume's identifier is missing"));
    }
    if let Some(volume) = cluster.volume(name)? {
        if let Some(node) = published(&volume).keys().next() {
            return Err(Status::failed_precondition(format!(
                "volume '{name}' is published to node '{node}'"
            )));
        }
        copies::release_all(cluster, &volume)?;
        // A clone that could be brought back would keep the snapshot that it lies over.
        let now = copies::is_clone(&volume);
        let request = ControlRequest::VolumeDelete { name: name.to_string(), now };
        cluster.change(&request, |cluster| Ok(!is_listed(cluster, name)?))?;
    }
    copies::forget(cluster, name)
}

fn is_listed(cluster: &Cluster, name: &str) -> Result<bool, Status> {
    Ok(cluster.volumes()?.iter().any(|volume| volume.name == name))
}

/// Grows a volume.
///
/// # Errors
/// If there is no such volume, or no space.
pub fn expand(
    cluster: &Cluster,
    asked: &ControllerExpandVolumeRequest,
) -> Result<ControllerExpandVolumeResponse, Status> {
    let name = &asked.volume_id;
    if name.is_empty() {
        return Err(Status::invalid_argument("the volume's identifier is missing"));
    }
    let range = asked.capacity_range.as_ref();
    let range = range.ok_or_else(|| Status::invalid_argument("the capacity range is missing"))?;
    if let Some(capability) = &asked.volume_capability {
        Wanted::read(Some(capability))?;
    }
    let volume = cluster.require_volume(name)?;
    let sizes = Sizes::read(Some(range), None)?;
    let size = volume.size.max(sizes.wanted);
    if size > sizes.most {
        return Err(Status::out_of_range(format!(
            "volume '{name}' has {size} bytes already, more than the limit"
        )));
    }
    if volume.size < size {
        grow(cluster, name, size)?;
    }
    Ok(ControllerExpandVolumeResponse {
        capacity_bytes: i64::try_from(size).unwrap_or(i64::MAX),
        node_expansion_required: true,
    })
}

/// Changes choices of a volume in use.
///
/// # Errors
/// `InvalidArgument`, for unknown choices.
pub fn modify(cluster: &Cluster, asked: &ControllerModifyVolumeRequest) -> Result<(), Status> {
    if asked.volume_id.is_empty() {
        return Err(Status::invalid_argument("the volume's identifier is missing"));
    }
    let changes = parameters::changes(&asked.mutable_parameters)?;
    let volume = cluster.require_volume(&asked.volume_id)?;
    match changes.is_empty() {
        true => Ok(()),
        false => set(cluster, &volume.name, changes),
    }
}
