//! What nodes answer to the requests that commands make.

use serde_json::json;
use weft_core::node::{HostData, HostError};

use super::{Commands, Outcome, Wait};
use crate::control::losses::Next;
use crate::control_protocol::{error, ok};

impl Commands<'_> {
    /// Takes the nodes' answer to the request that is waited for.
    pub(crate) fn answered(&mut self, wait: Wait, result: Result<HostData, HostError>) -> Outcome {
        match (wait, result) {
            (Wait::Scrub(scrubbing), Ok(HostData::Scrubbed(progress, findings))) => {
                Outcome::Wait(self.scrubbed(*scrubbing, &progress, &findings))
            }
            (Wait::Scrub(scrubbing), Err(HostError::NoVolume)) if scrubbing.is_below() => {
                Outcome::Wait(Wait::ScrubOn(Box::new(scrubbing.gone())))
            }
            (Wait::Refresh(name), Ok(HostData::Refreshed(left))) => {
                Outcome::Answer(ok(json!({ "volume": name, "sectors_left": left })))
            }
            (Wait::Losses(losses), Ok(HostData::Lost(bytes, found))) => {
                match losses.listed(bytes, &found) {
                    Next::Ask(losses) => Outcome::Wait(Wait::Accepting(losses)),
                    Next::Answer(answer) => Outcome::Answer(ok(answer)),
                }
            }
            (Wait::Losses(losses), Ok(_)) => Outcome::Wait(Wait::Accepting(losses)),
            (Wait::Copying(copying), result) => match result {
                Ok(answer) => Outcome::Wait(Wait::CopyOn(Box::new(copying.with(answer)))),
                Err(e) => Outcome::Answer(error(format!("{}: {e}", copying.doing()))),
            },
            (Wait::LookingAt(usage), Ok(HostData::Extents(found))) => {
                Outcome::Wait(Wait::LookAt(Box::new(usage.with(&found))))
            }
            (Wait::Differing(diff), Ok(HostData::Changed(found))) => {
                Outcome::Wait(Wait::DiffOn(Box::new(diff.with(found))))
            }
            (Wait::Differing(diff), Ok(HostData::Extents(found))) => {
                let content = found.into_iter().map(|(len, hole)| (len, !hole));
                Outcome::Wait(Wait::DiffOn(Box::new(diff.with(content))))
            }
            (Wait::Comparing(diff, hidden), Ok(HostData::Changed(found))) => {
                Outcome::Wait(Wait::CompareOn(Box::new(diff.with(found)), hidden))
            }
            (Wait::Comparing(diff, _), Err(e)) => {
                let why = format!("its changes cannot be listed: {e}");
                Outcome::Wait(self.keep(diff.volume, Some(why)))
            }
            (Wait::Clearing(volume, since), Ok(_)) => Outcome::Wait(self.cleared(volume, since)),
            (Wait::Clearing(volume, _), Err(e)) => {
                self.undo_growth(volume.id);
                Outcome::Answer(error(format!("the space could not be zeroed: {e}")))
            }
            (Wait::Surveying(survey), Ok(HostData::Extents(found))) => {
                Outcome::Wait(Wait::LookOn(Box::new(survey.with(&found))))
            }
            (Wait::Surveying(survey), Err(e)) => {
                self.give_back(&survey);
                Outcome::Answer(error(format!(
                    "the data beyond the new size could not be read: {e}"
                )))
            }
            (_, Err(e)) => Outcome::Answer(error(e)),
            (wait, Ok(_)) => Outcome::Wait(wait),
        }
    }
}
