//! Showing a volume that is staged to a program: at a path of its own.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

use tonic::Status;

use super::machine::Machine;
use super::staging::{require_attached, required};
use crate::capability::Wanted;
use crate::grants;
use crate::proto::NodePublishVolumeRequest;

/// Shows a volume at the target path.
///
/// # Errors
/// If it is not staged.
pub fn publish(machine: &dyn Machine, asked: &NodePublishVolumeRequest) -> Result<(), Status> {
    let volume = required(&asked.volume_id, "volume's identifier")?;
    let target = Path::new(required(&asked.target_path, "target path")?);
    let wanted = Wanted::read(asked.volume_capability.as_ref())?;
    let staged = Path::new(required(&asked.staging_target_path, "staging path")?);
    let reads_only = asked.readonly || wanted.reads_only;
    let device = match machine.attached(volume)? {
        Some(device) => device,
        None => {
            return Err(Status::failed_precondition(format!(
                "volume '{volume}' is not staged here"
            )));
        }
    };
    if !machine.serves(volume, grants::read(&asked.publish_context)?)? {
        return Err(Status::failed_precondition(format!(
            "volume '{volume}' is staged here by an earlier right, which this machine has lost; stage it again"
        )));
    }
    if let Some(there) = machine.mounted(target)? {
        return match there.reads_only == reads_only || wanted.file_system.is_none() {
            true => Ok(()),
            false => Err(Status::already_exists(format!(
                "volume '{volume}' is published at {} with another right to write",
                target.display()
            ))),
        };
    }
    let elsewhere = machine.shown_at(&device)?.into_iter().find(|at| at != staged);
    if let Some(at) = elsewhere.filter(|_| wanted.is_single) {
        return Err(Status::failed_precondition(format!(
            "volume '{volume}' is for a single writer, and is published at {}",
            at.display()
        )));
    }
    match wanted.file_system {
        Some(_) => {
            if machine.mounted(staged)?.is_none() {
                return Err(Status::failed_precondition(format!(
                    "volume '{volume}' is not mounted at {}",
                    staged.display()
                )));
            }
            fs::create_dir_all(target).map_err(|e| cannot("make", target, &e))?;
            machine.bind(staged, target, reads_only)
        }
        None => {
            let parent = target.parent().unwrap_or(Path::new("/"));
            fs::create_dir_all(parent).map_err(|e| cannot("make", parent, &e))?;
            let file = fs::OpenOptions::new().write(true).create(true).truncate(false).open(target);
            file.map_err(|e| cannot("make", target, &e))?;
            machine.bind(&device, target, reads_only)
        }
    }
}

/// Ends that.
///
/// # Errors
/// If it is in use.
pub fn unpublish(machine: &dyn Machine, volume: &str, target: &str) -> Result<(), Status> {
    required(volume, "volume's identifier")?;
    let target = Path::new(required(target, "target path")?);
    while machine.mounted(target)?.is_some() {
        machine.unmount(target)?;
    }
    let removed = match fs::symlink_metadata(target) {
        Err(e) => Err(e),
        // Only if it is empty: other content is not the volume's.
        Ok(there) if there.is_dir() => fs::remove_dir(target),
        Ok(_) => fs::remove_file(target),
    };
    match removed {
        Err(e) if e.kind() != ErrorKind::NotFound => Err(cannot("remove", target, &e)),
        _ => Ok(()),
    }
}

/// Where a volume is shown: a directory, or else a device. It must be attached.
///
/// # Errors
/// `NotFound`, if it is not there.
pub fn require_shown<'a>(
    machine: &dyn Machine,
    volume: &str,
    at: &'a str,
) -> Result<&'a Path, Status> {
    let volume = required(volume, "volume's identifier")?;
    let at = Path::new(required(at, "volume's path")?);
    require_attached(machine, volume)?;
    match machine.mounted(at)? {
        Some(_) => Ok(at),
        None => Err(Status::not_found(format!("volume '{volume}' is not at {}", at.display()))),
    }
}

fn cannot(what: &str, path: &Path, why: &io::Error) -> Status {
    Status::internal(format!("cannot {what} {}: {why}", path.display()))
}
