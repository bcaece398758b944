//! Making and deleting volumes.

use std::time::Instant;

use serde_json::json;
use weft_core::cluster::Volume;
use weft_core::layout::LayoutSpec;
use weft_core::node::HostOp;
use weft_core::plan::Range;

use super::{Desk, Outcome, Wait, overtaken};
use crate::control::ok;
use crate::error::{Error, Result, fail};
use crate::spec::Spec;
use crate::status;
use crate::volumes::{self, NewVolume};

impl Desk<'_> {
    pub(super) fn create(
        &mut self,
        name: String,
        size: u64,
        layout: Option<String>,
        stripe_unit: Option<u64>,
        journal: Option<bool>,
        apart: Option<String>,
    ) -> Result<Wait> {
        if !self.engine.is_settled() || self.engine.originator(0).is_none() {
            return fail("the nodes are just starting or changing; try again in a moment");
        }
        let parse = |l: String| l.parse::<LayoutSpec>().map_err(|e| Error(e.to_string()));
        let layout = layout.map(parse).transpose()?;
        let spec = Spec { layout, stripe_unit, journal, apart, ..Spec::default() };
        let volume = self.engine.place_volume(&NewVolume::of(&spec, name, size))?;
        Ok(self.clear_and_show(volume, 0))
    }

    pub(super) fn resize(&mut self, name: &str, size: u64) -> Result<Wait> {
        if !self.engine.is_settled() || self.engine.originator(0).is_none() {
            return fail("the nodes are just starting or changing; try again in a moment");
        }
        let volume = self.volume(name)?;
        if volume.visible < volume.size {
            return fail(format!("volume '{}' is being resized already", volume.name));
        }
        let grown = volumes::grow(&volume, size, self.engine.map())?;
        Ok(self.clear_and_show(grown, volume.size))
    }

    /// Has hosts see a volume, of which they saw so much until now.
    fn clear_and_show(&mut self, volume: Volume, visible: u64) -> Wait {
        if self.engine.map().room_used {
            // What another volume left has parity of another layout: it must be
            // overwritten in whole stripes, so the volume is whole stripes at first.
            let size = volume.stripes() * volume.geometry.stripe_bytes();
            let whole = Volume { size, visible, ..volume.clone() };
            let ticket = self.engine.add_volume(whole);
            return Wait::RoomThere(volume, ticket);
        }
        let ticket = self.engine.add_volume(volume.clone());
        Wait::VolumeThere(volume, ticket)
    }

    pub(super) fn delete(&mut self, name: &str) -> Result<Wait> {
        if name.is_empty() {
            return fail("say which volume to delete, by its name");
        }
        // Also one that hosts do not see, because whoever made or deleted it is gone.
        let hidden = self.engine.map().volumes.values().find(|v| v.name == name && v.visible == 0);
        let volume = match hidden {
            Some(volume) => Volume::clone(volume),
            None => self.volume(name)?,
        };
        match self.clients_of(volume.id) {
            0 => {}
            n => {
                return fail(format!(
                    "{n} connections use volume '{name}'; disconnect the hosts first"
                ));
            }
        }
        let id = volume.id;
        let ticket = self.engine.add_volume(Volume { visible: 0, ..volume });
        Ok(Wait::Hidden(id, ticket))
    }

    /// Goes on with what is done about a volume.
    pub(super) fn check_volume(&mut self, conn: usize, mut wait: Wait) -> Result<Outcome> {
        if self.engine.is_settled() && self.engine.originator(0).is_none() {
            return fail("no node runs any more; start nodes and look again");
        }
        match &mut wait {
            Wait::VolumeThere(volume, ticket) => {
                if !self.is_made(ticket)? {
                    return Ok(Outcome::Wait(wait));
                }
                let there = self.engine.map().volumes.get(&volume.id);
                if there.is_none_or(|v| v.size != volume.size || v.visible != volume.visible) {
                    return Err(overtaken());
                }
                Ok(Outcome::Answer(ok(json!({ "volume": status::volume(self, volume) }))))
            }
            Wait::RoomThere(volume, ticket) => {
                if !self.is_made(ticket)? {
                    return Ok(Outcome::Wait(wait));
                }
                let Some(whole) = self.engine.map().volumes.get(&volume.id) else {
                    return Err(overtaken());
                };
                let stripe = whole.geometry.stripe_bytes();
                let from = whole.visible.div_ceil(stripe) * stripe;
                if from >= whole.size {
                    // There is room enough in the last stripe.
                    let ticket = self.engine.add_volume(volume.clone());
                    return Ok(Outcome::Wait(Wait::VolumeThere(volume.clone(), ticket)));
                }
                let new = Range { offset: from, len: whole.size - from };
                self.submit(conn, volume.id, HostOp::WriteZeroes(new));
                Ok(Outcome::Wait(Wait::Clearing(volume.clone())))
            }
            Wait::Hidden(id, ticket) => {
                if !self.is_made(ticket)? {
                    return Ok(Outcome::Wait(wait));
                }
                Ok(Outcome::Wait(Wait::Removable(*id, Instant::now())))
            }
            Wait::Removable(id, since) => {
                if !self.is_quiet_since(*since) {
                    return Ok(Outcome::Wait(wait));
                }
                if self.clients_of(*id) > 0 {
                    if let Some(volume) = self.engine.map().volumes.get(id) {
                        let mut seen = Volume::clone(volume);
                        seen.visible = seen.size;
                        self.engine.add_volume(seen);
                    }
                    return fail("a host has connected to the volume meanwhile");
                }
                let (id, ticket) = (*id, self.engine.remove_volume(*id));
                Ok(Outcome::Wait(Wait::VolumeGone(id, ticket)))
            }
            Wait::VolumeGone(id, ticket) => {
                if !self.is_made(ticket)? {
                    return Ok(Outcome::Wait(wait));
                }
                match self.engine.map().volumes.contains_key(id) {
                    true => Err(overtaken()),
                    false => Ok(Outcome::Answer(ok(json!({})))),
                }
            }
            _ => Ok(Outcome::Wait(wait)),
        }
    }
}
