//! What a volume's deletion is said to do, before and after.

use anyhow::Result;
use clap::Args;
use weft_core::policy::time::about;
use weft_host::Control;
use weft_host::status::VolumeStatus;
use weft_terminal::bytes;

use crate::args::Common;
use crate::confirm::Confirm;

/// The volume to delete.
#[derive(Debug, Args)]
pub struct Delete {
    /// Name of the volume
    pub(super) name: String,
    /// Free its space at once, so that it cannot be undeleted; also for a volume already deleted
    #[arg(long)]
    pub(super) now: bool,
    #[command(flatten)]
    confirm: Confirm,
    #[command(flatten)]
    pub(super) common: Common,
}

impl Delete {
    /// Asks whether it is meant. Of a volume that is not there the array says so.
    pub(super) fn confirm(&self, control: &mut Control) -> Result<()> {
        let volumes = control.status()?.volumes;
        let Some(volume) = volumes.iter().find(|v| v.name == self.name) else { return Ok(()) };
        self.confirm.ask(&at_stake(volume, self.now))
    }
}

/// What is gone when a volume is deleted.
fn at_stake(volume: &VolumeStatus, now: bool) -> String {
    if volume.snapshot_of.is_some() {
        return format!("snapshot {} would be deleted, and could not be undeleted", volume.name);
    }
    let back = match now {
        true => "could not be undeleted".to_string(),
        false => format!(
            "could be undeleted for a day (`weft volume undelete {}`), until its space is needed",
            volume.name
        ),
    };
    format!(
        "volume {} ({}) would be deleted with all its content, and {back}",
        volume.name,
        bytes(volume.size)
    )
}

/// That a volume has been deleted, and for how long it can be brought back.
pub(super) fn deleted(name: &str, seconds: Option<u64>) -> String {
    match seconds {
        None if name.contains('@') => format!("snapshot {name} is deleted"),
        None => format!("volume {name} is permanently deleted"),
        Some(left) => format!(
            "volume {name} is deleted; `weft volume undelete {name}` restores it within {}, until its space is needed",
            about(left)
        ),
    }
}
