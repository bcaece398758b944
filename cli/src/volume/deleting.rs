//! What a volume's deletion is said to do, before and after.

use anyhow::Result;
use weft_core::policy::time::in_words;
use weft_host::Control;
use weft_host::status::VolumeStatus;
use weft_terminal::bytes;

use super::Delete;

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
    let back = match now {
        true => "could not be brought back".to_string(),
        false => format!(
            "could be brought back for a day (`weft volume undelete {}`), while nobody needs its room",
            volume.name
        ),
    };
    format!(
        "volume {} ({}) would be deleted with all that is on it, and {back}",
        volume.name,
        bytes(volume.size)
    )
}

/// That a volume has been deleted, and for how long it can be brought back.
pub(super) fn deleted(name: &str, seconds: Option<u64>) -> String {
    match seconds {
        None => format!("volume {name} is deleted for good"),
        Some(left) => format!(
            "volume {name} is deleted; `weft volume undelete {name}` brings it back within {}, while nobody needs its room",
            in_words(left)
        ),
    }
}
