//! Which hosts may use a volume.

use anyhow::Result;
use clap::Args;
use serde_json::Value;
use weft_host::status::VolumeStatus;
use weft_host::{ControlRequest, HostAction};
use weft_terminal::say;

use crate::args::Common;
use crate::output::map_of;

/// A volume and the host that may use it.
#[derive(Debug, Args)]
pub struct Allow {
    /// Name of the volume
    volume: String,
    /// Name of the host
    #[arg(required_unless_present = "all")]
    host: Option<String>,
    /// Let the host read only
    #[arg(long)]
    read_only: bool,
    /// Remove the list: all hosts may use the volume
    #[arg(long, conflicts_with_all = ["host", "read_only"])]
    all: bool,
    #[command(flatten)]
    common: Common,
}

/// A volume and the host to remove from its list.
#[derive(Debug, Args)]
pub struct Deny {
    /// Name of the volume
    volume: String,
    /// Name of the host
    host: String,
    #[command(flatten)]
    common: Common,
}

impl Allow {
    pub(super) fn common(&self) -> &Common {
        &self.common
    }

    pub(super) fn request(&self) -> ControlRequest {
        let (volume, host) = (self.volume.clone(), self.host.clone());
        let action = HostAction::Allow { volume, host, read_only: self.read_only };
        ControlRequest::Hosts { action }
    }

    pub(super) fn said(&self, answer: &Value) -> Result<()> {
        let map = map_of(answer);
        let what = if self.read_only { "read" } else { "read and write" };
        match &self.host {
            Some(host) => say(format!("host '{host}' may {what} volume '{}' ({map})", self.volume)),
            None => say(format!("all hosts may use volume '{}' ({map})", self.volume)),
        }
    }
}

/// Says that nothing is reserved any more.
pub(super) fn unreserved(volume: &str, answer: &Value) -> Result<()> {
    say(format!("volume '{volume}' has no reservation and no registrants ({})", map_of(answer)))
}

/// Says which hosts may use a volume, if not all, and which of them has reserved it.
pub(super) fn list(volume: &VolumeStatus) -> Result<()> {
    if let Some(reservation) = &volume.reservation {
        say(format!("reservation: {reservation}"))?;
    }
    for registrant in &volume.registrants {
        say(format!("registered: {registrant}"))?;
    }
    let Some(list) = &volume.hosts else { return Ok(()) };
    let hosts: Vec<String> = list.iter().map(|(host, word)| format!("{host} ({word})")).collect();
    match hosts.is_empty() {
        true => say("hosts: none may use it; `weft volume allow` adds one"),
        false => say(format!("hosts: {}", hosts.join(", "))),
    }
}

impl Deny {
    pub(super) fn common(&self) -> &Common {
        &self.common
    }

    pub(super) fn request(&self) -> ControlRequest {
        let (volume, host) = (self.volume.clone(), self.host.clone());
        ControlRequest::Hosts { action: HostAction::Deny { volume, host } }
    }

    pub(super) fn said(&self, answer: &Value) -> Result<()> {
        let map = map_of(answer);
        say(format!("host '{}' may no longer use volume '{}' ({map})", self.host, self.volume))
    }
}
