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
use crate::volumes::NewVolume;

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
        let map = self.engine.map();
        if map.next_volume as usize > map.volumes.len() {
            // What a deleted volume left has parity of another layout: it must be
            // overwritten in whole stripes, so the volume is whole stripes at first.
            let size = volume.stripes() * volume.geometry.stripe_bytes();
            let whole = Volume { size, clearing: true, ..volume.clone() };
            let ticket = self.engine.add_volume(whole);
            return Ok(Wait::RoomThere(volume, ticket));
        }
        let ticket = self.engine.add_volume(volume.clone());
        Ok(Wait::VolumeThere(volume, ticket))
    }

    pub(super) fn delete(&mut self, name: &str) -> Result<Wait> {
        if name.is_empty() {
            return fail("say which volume to delete, by its name");
        }
        let volume = self.volume(name)?;
        match self.clients_of(volume.id) {
            0 => {}
            n => {
                return fail(format!(
                    "{n} connections use volume '{name}'; disconnect the hosts first"
                ));
            }
        }
        let id = volume.id;
        let ticket = self.engine.add_volume(Volume { clearing: true, ..volume });
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
                if there.is_none_or(|v| v.size != volume.size || v.clearing) {
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
                let all = Range { offset: 0, len: whole.size };
                self.submit(conn, volume.id, HostOp::WriteZeroes(all));
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
                        let seen = Volume { clearing: false, ..Volume::clone(volume) };
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
