//! How full volumes are, and how they are, as this machine sees them.

use std::path::Path;

use rustix::fs::{StatVfs, statvfs};
use tonic::Status;

use super::machine::Machine;
use super::publishing::require_shown;
use super::staging::{require_attached, required};
use crate::proto::volume_health::VolumeHealthEntry;
use crate::proto::volume_usage::Unit;
use crate::proto::{VolumeHealth, VolumeHealthErrorType, VolumeUsage};

/// How full a volume is that is shown at a path.
///
/// # Errors
/// `NotFound`, if it is not there.
pub fn of(machine: &dyn Machine, volume: &str, at: &str) -> Result<Vec<VolumeUsage>, Status> {
    let path = require_shown(machine, volume, at)?;
    if !path.is_dir() {
        let device = require_attached(machine, volume)?;
        let total = signed(machine.size(&device)?);
        return Ok(vec![VolumeUsage { total, unit: Unit::Bytes.into(), ..VolumeUsage::default() }]);
    }
    let full = statvfs(path).map_err(|e| Status::internal(format!("cannot look at {at}: {e}")))?;
    Ok(vec![bytes(&full), inodes(&full)])
}

fn bytes(full: &StatVfs) -> VolumeUsage {
    let unit = full.f_frsize;
    VolumeUsage {
        available: signed(full.f_bavail * unit),
        total: signed(full.f_blocks * unit),
        used: signed(full.f_blocks.saturating_sub(full.f_bfree) * unit),
        unit: Unit::Bytes.into(),
    }
}

fn inodes(full: &StatVfs) -> VolumeUsage {
    VolumeUsage {
        available: signed(full.f_favail),
        total: signed(full.f_files),
        used: signed(full.f_files.saturating_sub(full.f_ffree)),
        unit: Unit::Inodes.into(),
    }
}

fn signed(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// Troubles of a volume here: its device may not answer, or its file system may be gone. Paths may be open.
///
/// # Errors
/// `NotFound`, if it is not there.
pub fn health(
    machine: &dyn Machine,
    volume: &str,
    at: &str,
    staged: &str,
) -> Result<VolumeHealth, Status> {
    let device = require_attached(machine, required(volume, "volume's identifier")?)?;
    let mut health_statuses = Vec::new();
    let mut say = |reason: &str, message: String| {
        health_statuses.push(VolumeHealthEntry {
            status: VolumeHealthErrorType::Inaccessible.into(),
            reason: reason.to_string(),
            message,
        });
    };
    let is_mounted = [at, staged].into_iter().any(|path| Path::new(path).is_dir());
    match machine.file_system(&device) {
        Err(e) => say("DeviceFails", e.message().to_string()),
        Ok(None) if is_mounted && !machine.shown_at(&device)?.is_empty() => {
            say("FileSystemGone", "the file system on the device has disappeared".to_string());
        }
        Ok(_) => {}
    }
    if !at.is_empty() && machine.mounted(at.as_ref())?.is_none() {
        say("NotMounted", format!("nothing is mounted at {at}"));
    }
    Ok(VolumeHealth { volume_id: volume.to_string(), health_statuses })
}
