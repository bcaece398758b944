//! Volumes that nobody finishes: hosts do not see them, because they were being made or deleted, and
//! the process that did it leads no more.
//!
//! Whoever leads gives their room back, as `weft volume delete` does.

use std::time::{Duration, Instant};

use weft_core::units::{Epoch, VolumeId};

use super::Reactor;
use crate::control::Request;
use crate::control_connection::{ControlConnection, Line};
use crate::desk::Wait;

/// For how long nobody may have gone on with one: what is done about a volume is a question all the
/// time but for moments, and a change of the map takes no longer.
const FORGOTTEN: Duration = Duration::from_secs(5);

/// A volume that hosts do not see, since when nobody here does anything about it, and in which epoch.
pub(super) type LeftOver = Option<(VolumeId, Epoch, Instant)>;

impl Reactor {
    /// Deletes a volume that nobody has gone on with for a while, if this process leads.
    pub(super) fn delete_what_is_left_over(&mut self, now: Instant) {
        let left = self.left_over_volume();
        self.left_over = match (left, self.left_over) {
            (Some(there), Some((volume, epoch, since))) if there == (volume, epoch) => {
                if now.duration_since(since) >= FORGOTTEN {
                    self.delete_left_over(volume);
                }
                self.left_over
            }
            (there, _) => there.map(|(volume, epoch)| (volume, epoch, now)),
        };
    }

    /// The first volume that hosts do not see and nobody does anything about, and the epoch.
    fn left_over_volume(&self) -> Option<(VolumeId, Epoch)> {
        let together = self.engine.rule.together()?;
        if together.leader() != Some(together.us()) || !together.leads() || !together.may_serve() {
            return None;
        }
        let map = self.engine.map();
        let mut hidden = map.volumes.values().filter(|v| v.visible == 0).map(|v| v.id).peekable();
        hidden.peek()?;
        let about = |c: &ControlConnection| c.wait.as_ref().and_then(Wait::is_about);
        let in_hand: Vec<VolumeId> = self.controls.values().filter_map(about).collect();
        hidden.find(|id| !in_hand.contains(id)).map(|id| (id, map.epoch))
    }

    fn delete_left_over(&mut self, id: VolumeId) {
        let Some(volume) = self.engine.map().volumes.get(&id) else { return };
        let name = volume.name.clone();
        (self.log)(&format!("volume '{name}' was never finished and is given up"));
        let question = Request::VolumeDelete { name };
        let question = serde_json::to_vec(&question).expect("a request can be written");
        self.ask(Line::Nobody, question);
    }
}
