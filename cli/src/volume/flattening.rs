//! `weft volume flatten`.

use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use serde_json::{Value, json};
use weft_host::status::{FlatteningStatus, VolumeStatus};
use weft_host::{Control, ControlRequest};
use weft_terminal::{Counts, Stage, say, say_json};

use crate::args::Common;

/// How often one looks how far it is.
const EVERY: Duration = Duration::from_millis(200);

/// The clone to make independent.
#[derive(Debug, Args)]
pub struct Flatten {
    /// Name of the clone
    name: String,
    /// Return at once instead of waiting
    #[arg(long)]
    no_wait: bool,
    #[command(flatten)]
    common: Common,
}

impl Flatten {
    /// Begins it, and waits until it is done.
    pub(super) fn run(&self) -> Result<ExitCode> {
        let mut control = self.common.target.connect()?;
        let request = ControlRequest::VolumeFlatten { name: self.name.clone() };
        let mut answer = control.request(&request)?;
        if !self.no_wait {
            answer = self.wait(&mut control, answer)?;
        }
        if self.common.json {
            say_json(answer)?;
            return Ok(ExitCode::SUCCESS);
        }
        let name = &self.name;
        say(match self.no_wait {
            true => format!(
                "volume {name} is being flattened; `weft volume show {name}` shows the progress"
            ),
            false => format!("volume {name} is independent of other volumes"),
        })?;
        Ok(ExitCode::SUCCESS)
    }

    /// Waits until the volume is independent. It goes on without who waits.
    fn wait(&self, control: &mut Control, mut answer: Value) -> Result<Value> {
        let name = &self.name;
        let stage = Stage::new("flattening", 100, Counts::Things);
        let mut told = None;
        loop {
            let volume: VolumeStatus = serde_json::from_value(answer["volume"].clone())?;
            let Some(now) = &volume.flattening else { break };
            stage.at(now.percent.unwrap_or(0.0) as u64);
            if !now.full.is_empty() {
                bail!("volume {name} {}", in_words(&volume).unwrap_or_default());
            }
            let waits = now.percent.is_none();
            if waits && told.is_none() {
                eprintln!("weft: waiting until all disks of the volume are up and up to date");
            }
            told = waits.then_some(());
            thread::sleep(EVERY);
            answer = control.request(&ControlRequest::VolumeShow { name: name.clone() })?;
        }
        stage.done("done");
        Ok(json!({ "volume": answer["volume"] }))
    }
}

/// How far it is, in words, while a volume is being flattened.
pub(super) fn in_words(volume: &VolumeStatus) -> Option<String> {
    let FlatteningStatus { percent, full } = volume.flattening.as_ref()?;
    let nodes: Vec<String> = full.iter().map(u16::to_string).collect();
    let how = match percent {
        _ if !full.is_empty() => format!(
            "waits for free space on the disks of nodes {}, and then continues automatically",
            nodes.join(", ")
        ),
        Some(percent) => format!("{percent:.0} % of it has been processed"),
        None => "waits until all its disks are up and up to date".to_string(),
    };
    Some(format!("is being flattened: {how}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_told_in_words() {
        let words = |percent, full| {
            let flattening = Some(FlatteningStatus { percent, full });
            in_words(&VolumeStatus { flattening, ..VolumeStatus::default() }).unwrap()
        };
        assert!(words(Some(42.4), Vec::new()).contains(": 42 % of it"));
        assert!(words(None, Vec::new()).contains("waits until all its disks are up"));
        assert!(words(Some(10.0), vec![1, 3]).contains("on the disks of nodes 1, 3"));
        assert_eq!(in_words(&VolumeStatus::default()), None);
    }
}
