//! Attaching a volume to a machine, and mounting its file system once.

use std::path::{Path, PathBuf};

use tonic::Status;

use super::machine::Machine;
use crate::capability::{FILE_SYSTEMS, Wanted};
use crate::grants;
use crate::proto::{NodeExpandVolumeRequest, NodeStageVolumeRequest};

/// Attaches a volume, and mounts its file system, which is made if nothing is on the volume.
///
/// # Errors
/// If it cannot be reached, or holds something else.
pub fn stage(machine: &dyn Machine, asked: &NodeStageVolumeRequest) -> Result<(), Status> {
    let volume = required(&asked.volume_id, "volume's identifier")?;
    let at = Path::new(required(&asked.staging_target_path, "staging path")?);
    let wanted = Wanted::read(asked.volume_capability.as_ref())?;
    let device = attach(machine, volume, grants::read(&asked.publish_context)?)?;
    let Some(file_system) = &wanted.file_system else { return Ok(()) };
    let there = match machine.file_system(&device)? {
        Some(there) => there,
        None if wanted.reads_only => {
            return Err(Status::failed_precondition(format!(
                "volume '{volume}' is empty and requested read-only: there is no file system to mount"
            )));
        }
        None => {
            let usual = FILE_SYSTEMS[0];
            let chosen = if file_system.is_empty() { usual } else { file_system };
            machine.format(&device, chosen)?;
            chosen.to_string()
        }
    };
    if !file_system.is_empty() && *file_system != there {
        return Err(Status::failed_precondition(format!(
            "volume '{volume}' holds {there}, and {file_system} was requested; nothing was changed"
        )));
    }
    match machine.mounted(at)? {
        Some(mounted) if mounted.reads_only != wanted.reads_only => {
            return Err(Status::already_exists(format!(
                "volume '{volume}' is staged with another right to write"
            )));
        }
        Some(_) => {}
        None => machine.mount(&device, at, &there, &options(&wanted, &there))?,
    }
    // It may have grown while it was attached nowhere.
    match wanted.reads_only {
        true => Ok(()),
        false => machine.grow(&device, at, &there),
    }
}

/// The device of a volume, attached by this right.
fn attach(machine: &dyn Machine, volume: &str, grant: Option<&str>) -> Result<PathBuf, Status> {
    if let Some(device) = machine.attached(volume)? {
        if machine.serves(volume, grant)? {
            return Ok(device);
        }
        leave(machine, volume, &device)?;
    }
    machine.attach(volume, grant)
}

/// Gives up the device of an earlier right. Another node may have written since. So the device is abandoned before it is
/// unmounted: the kernel would write what it has in memory.
fn leave(machine: &dyn Machine, volume: &str, device: &Path) -> Result<(), Status> {
    machine.abandon(volume)?;
    // An unmount may end other mounts, too.
    while let Some(at) = machine.shown_at(device)?.pop() {
        machine.unmount(&at).map_err(|e| {
            Status::failed_precondition(format!(
                "volume '{volume}' was attached by an earlier right, which this machine has lost, and is still in use at {}; \
                 end the programs that use it: {}",
                at.display(),
                e.message()
            ))
        })?;
    }
    match machine.attached(volume)? {
        Some(device) => machine.detach(volume, &device),
        None => Ok(()),
    }
}

/// Options to mount with. A file system that several read must not be repaired by any of them.
fn options(wanted: &Wanted, file_system: &str) -> Vec<String> {
    let mut all = wanted.options.clone();
    if wanted.reads_only {
        all.push("ro".to_string());
        let untouched = if file_system == "xfs" { "norecovery" } else { "noload" };
        all.push(untouched.to_string());
    }
    if file_system == "xfs" {
        // A clone of a volume has the same number as that.
        all.push("nouuid".to_string());
    }
    all
}

/// Unmounts a volume and detaches it.
///
/// # Errors
/// If it is in use.
pub fn unstage(machine: &dyn Machine, volume: &str, at: &str) -> Result<(), Status> {
    let volume = required(volume, "volume's identifier")?;
    let at = Path::new(required(at, "staging path")?);
    while machine.mounted(at)?.is_some() {
        machine.unmount(at)?;
    }
    match machine.attached(volume)? {
        Some(device) => machine.detach(volume, &device),
        None => Ok(()),
    }
}

/// Has a machine see a volume as large as it is now, and its file system take all of that.
///
/// # Errors
/// If it is not attached here.
pub fn expand(machine: &dyn Machine, asked: &NodeExpandVolumeRequest) -> Result<u64, Status> {
    let volume = required(&asked.volume_id, "volume's identifier")?;
    let path = PathBuf::from(required(&asked.volume_path, "volume's path")?);
    let device = require_attached(machine, volume)?;
    let range = asked.capacity_range.as_ref();
    let wanted = u64::try_from(range.map_or(0, |range| range.required_bytes)).unwrap_or(0);
    if wanted > machine.size(&device)? {
        machine.set_size(volume, &device, wanted)?;
    }
    let mounted = machine.mounted(&path)?.ok_or_else(|| {
        Status::not_found(format!("volume '{volume}' is not at {}", path.display()))
    })?;
    let is_mount = path.is_dir();
    if is_mount
        && !mounted.reads_only
        && let Some(file_system) = machine.file_system(&device)?
    {
        machine.grow(&device, &path, &file_system)?;
    }
    machine.size(&device)
}

/// The device of a volume that must be attached.
///
/// # Errors
/// `NotFound`, if it is not.
pub fn require_attached(machine: &dyn Machine, volume: &str) -> Result<PathBuf, Status> {
    let attached = machine.attached(volume)?;
    attached.ok_or_else(|| Status::not_found(format!("volume '{volume}' is not attached here")))
}

/// A word that must be there.
///
/// # Errors
/// `InvalidArgument`, if it is not.
pub fn required<'a>(word: &'a str, what: &str) -> Result<&'a str, Status> {
    match word.is_empty() {
        true => Err(Status::invalid_argument(format!("the {what} is missing"))),
        false => Ok(word),
    }
}
