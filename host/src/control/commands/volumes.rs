//! Making and changing volumes.

use std::sync::Arc;

use serde_json::{Value, json};
use weft_core::cluster::{Access, Change, ClusterMap, PolicyChange, Volume, VolumeSize};
use weft_core::layout::LayoutSpec;
use weft_core::node::HostOp;
use weft_core::plan::Range;
use weft_core::units::{Epoch, VolumeId};

use super::hosts::require_host;
use super::snapshots::refuse_snapshot;
use super::{Commands, DISCONNECT, Outcome, Wait, overtaken, used_by};
use crate::control::status;
use crate::control_protocol::{ControlRequest, VolumeCreation, ok};
use crate::error::{Error, Result, fail};
use crate::policy::{self, refused};
use crate::spec::Spec;
use crate::volumes::{self, NewVolume, SNAPSHOT_MARK};

impl Commands<'_> {
    /// A volume that hosts see, by its name.
    pub(super) fn volume(&self, name: &str) -> Result<Volume> {
        let exports = self.engine.exports();
        // There may be many snapshots.
        let volumes = exports.all().filter(|v| !v.is_snapshot());
        let names: Vec<&str> = volumes.map(|v| v.name.as_str()).collect();
        let origin = name.split_once(SNAPSHOT_MARK).and_then(|(of, _)| exports.named(of));
        match (exports.named(name), origin) {
            (Some(volume), _) => Ok(Volume::clone(volume)),
            (None, Some(origin)) => self.own_snapshot(origin, name),
            (None, None) if names.is_empty() => fail("there are no volumes; create one first"),
            (None, None) => {
                fail(format!("there is no volume '{name}'; there are: {}", names.join(", ")))
            }
        }
    }

    /// A volume that hosts do not see: it is being made or deleted, or whoever did that is gone.
    pub(super) fn hidden(&self, name: &str) -> Option<Volume> {
        let mut volumes = self.engine.map().volumes.values();
        let is_it = |v: &&Arc<Volume>| v.name == name && v.visible == 0 && !v.is_deleted();
        volumes.find(is_it).map(|v| Volume::clone(v))
    }

    pub(super) fn create(
        &mut self,
        request: &ControlRequest,
        asked: VolumeCreation,
    ) -> Result<Wait> {
        let VolumeCreation { name, size, thin, layout, stripe_unit, apart, set, hosts, import } =
            asked;
        let policy = policy::given(&set)?;
        for host in hosts.iter().flatten() {
            require_host(self.engine.map(), host)?;
        }
        self.require_ready()?;
        let parse = |l: String| l.parse::<LayoutSpec>().map_err(|e| Error(e.to_string()));
        let layout = layout.map(parse).transpose()?;
        let spec = Spec { layout, stripe_unit, apart, policy, ..Spec::default() };
        let new = NewVolume { thin, ..NewVolume::of(&spec, name, size) };
        let mut volume = match self.engine.place_volume(&new) {
            Ok(volume) if new.size == 0 => {
                let place =
                    |size| volumes::place(&NewVolume { size, ..new.clone() }, self.engine.map());
                self.with_space(volume, 0, place)
            }
            Ok(volume) => volume,
            Err(e) => {
                return self.forget_for(request, |map| volumes::place(&new, map).is_ok()).ok_or(e);
            }
        };
        volume.hosts = hosts.map(|all| all.into_iter().map(|host| (host, Access::Full)).collect());
        if let Some(import) = import {
            self.hide_until_imported(&mut volume, import)?;
        }
        // One graph of requests spans all volumes that have a sequencer.
        let form = policy::form(&spec.policy).or(self.engine.map().sequencer());
        volume.policy.sequencer = form.unwrap_or_default();
        self.engine.map().check_new_policy(&volume, &spec.policy).map_err(refused)?;
        self.check_schedule(&volume)?;
        self.check_space(&volume)?;
        // A thin volume has an address space of its own, and nothing is in it.
        if !self.engine.map().room_used || thin {
            let ticket = self.engine.add_volume(volume.clone());
            return Ok(Wait::VolumeThere(Box::new(volume), ticket));
        }
        // What another volume left has parity of another layout: it must be overwritten in
        // whole stripes, so the volume is whole stripes at first.
        let size = volume.stripes() * volume.geometry.stripe_bytes();
        let ticket = self.engine.add_volume(Volume { size, visible: 0, ..volume.clone() });
        Ok(Wait::RoomThere(Box::new(volume), ticket))
    }

    /// A volume that has all free space, or the largest above `least` bytes for which there is space: thin volumes and snapshots
    /// may have used some that was free.
    fn with_space(
        &self,
        largest: Volume,
        least: u64,
        place: impl Fn(u64) -> Result<Volume>,
    ) -> Volume {
        if self.check_space(&largest).is_ok() {
            return largest;
        }
        let stripe = largest.geometry.stripe_bytes();
        let (mut fits, mut too_many) = (least / stripe, largest.size / stripe);
        let mut found = None;
        while fits + 1 < too_many {
            let middle = fits.midpoint(too_many);
            match place(middle * stripe).ok().filter(|volume| self.check_space(volume).is_ok()) {
                Some(volume) => (fits, found) = (middle, Some(volume)),
                None => too_many = middle,
            }
        }
        // Without any the refusal says what uses the space.
        found.unwrap_or(largest)
    }

    pub(super) fn resize(
        &mut self,
        request: &ControlRequest,
        (name, size): (&str, u64),
        force: bool,
    ) -> Result<Wait> {
        self.require_ready()?;
        let volume = self.volume(name)?;
        refuse_snapshot(&volume, "resized")?;
        if self.sizing.contains(&volume.id) {
            return fail(format!("volume '{}' is already being resized", volume.name));
        }
        let smaller = size != 0 && size < volume.visible;
        if smaller || (size == volume.visible && volume.visible < volume.size) {
            return self.shrink(volume, size, force);
        }
        if volume.visible < volume.size {
            return fail(format!(
                "an earlier resize of volume '{}' was interrupted, and is being ended; try again in a few seconds",
                volume.name
            ));
        }
        let grown = match volumes::grow(&volume, size, self.engine.map()) {
            Ok(grown) if size == 0 => {
                let grow = |size| volumes::grow(&volume, size, self.engine.map());
                self.with_space(grown, volume.size, grow)
            }
            Ok(grown) => grown,
            Err(e) => {
                let fits = |map: &ClusterMap| volumes::grow(&volume, size, map).is_ok();
                return self.forget_for(request, fits).ok_or(e);
            }
        };
        self.check_space(&grown)?;
        if grown.is_thin() && self.engine.map().room_used {
            self.refuse_unless_whole(&volume)?;
        }
        let more = grown.extents[volume.extents.len()..].to_vec();
        if !self.engine.map().room_used {
            let to = VolumeSize { size: grown.size, visible: grown.size, more };
            let ticket = self.engine.size_volume(grown.id, to);
            return Ok(Wait::VolumeThere(Box::new(grown), ticket));
        }
        // As above: whole stripes at first.
        let size = grown.stripes() * grown.geometry.stripe_bytes();
        let to = VolumeSize { size, visible: volume.size, more };
        let ticket = self.engine.size_volume(grown.id, to);
        Ok(Wait::RoomThere(Box::new(grown), ticket))
    }

    /// Changes a volume's policy. Nothing orders the requests of several hosts with an ordering of
    /// none, so that is for one, unless it is forced.
    pub(super) fn set_policy(&mut self, name: &str, change: PolicyChange) -> Result<Wait> {
        self.require_ready()?;
        let volume = self.volume(name)?;
        refuse_snapshot(&volume, "changed")?;
        let mut changed = volume.clone();
        change.apply(&mut changed);
        self.engine.map().check_policy(volume.id, &change).map_err(refused)?;
        if changed.policy.snapshots != volume.policy.snapshots {
            self.check_schedule(&changed)?;
        }
        let hosts = self.clients_of(volume.id);
        if changed.takes_one_writer() && hosts > 1 {
            return fail(format!(
                "{} volume '{}', and with ordering=none nothing orders their writes: disconnect all but one, or add --force if they \
             use disjoint ranges",
                used_by(hosts),
                volume.name
            ));
        }
        let ticket = self.engine.set_policy(volume.id, change.clone());
        Ok(Wait::PolicySet(volume.id, change, ticket))
    }

    /// Clears the part of a volume that hosts do not see yet. The last stripe, too, may hold what was there before the volume was
    /// made smaller. Disks of a thin volume keep no record of zeros where they have no slot, so all take part: one that is away
    /// might have kept slots from before.
    fn clear(&mut self, conn: usize, volume: Box<Volume>) -> Result<Outcome> {
        let map = self.engine.map();
        let Some(whole) = map.volumes.get(&volume.id).cloned() else { return Err(overtaken()) };
        if whole.visible >= whole.size {
            return Ok(Outcome::Wait(self.show(volume)));
        }
        let epoch = map.epoch;
        let grows = whole.is_thin() && whole.visible > 0;
        if let Err(e) = self.refuse_unless_whole(&whole)
            && grows
        {
            self.undo_growth(volume.id);
            return Err(e);
        }
        let new = Range { offset: whole.visible, len: whole.size - whole.visible };
        self.submit(conn, volume.id, HostOp::WriteZeroes(new));
        Ok(Outcome::Wait(Wait::Clearing(volume, epoch)))
    }

    /// A volume's room has been cleared, since this epoch. In a later one some disk may not have taken part.
    pub(super) fn cleared(&mut self, volume: Box<Volume>, since: Epoch) -> Wait {
        match volume.is_thin() && self.engine.map().epoch != since {
            true => Wait::ToClear(volume),
            false => self.show(volume),
        }
    }

    /// Gives back the room that a volume was to have, or removes a volume that hosts have never seen.
    pub(super) fn undo_growth(&mut self, id: VolumeId) {
        let seen = self.engine.map().volumes.get(&id).map_or(0, |v| v.visible);
        if seen > 0 {
            let to = VolumeSize { size: seen, visible: seen, more: Vec::new() };
            self.engine.size_volume(id, to);
        } else {
            self.engine.remove_volume(id);
        }
    }

    /// Ends a resize that nobody goes on with: the volume has the size that hosts see. If it was growing, its new room may hold
    /// content of others, so it cannot be shown. If it was being made smaller, the operator asked for this.
    pub(super) fn end_resize(&mut self, mut volume: Volume) -> Wait {
        volume.cut_to_visible();
        self.show(Box::new(volume))
    }

    /// Has hosts see all of a volume of this size.
    pub(super) fn show(&mut self, volume: Box<Volume>) -> Wait {
        let to = VolumeSize { size: volume.size, visible: volume.size, more: Vec::new() };
        let ticket = self.engine.size_volume(volume.id, to);
        Wait::VolumeThere(volume, ticket)
    }

    /// Has hosts see a volume again that is not deleted because one uses it.
    /// If it is for another reason, that is the answer.
    pub(super) fn keep(&mut self, volume: Volume, why: Option<String>) -> Wait {
        let ticket = match volume.is_deleted() && !volume.is_snapshot() {
            true => self.engine.change(Change::UndeleteVolume(volume.id)),
            false => {
                let to = VolumeSize { size: volume.size, visible: volume.size, more: Vec::new() };
                self.engine.size_volume(volume.id, to)
            }
        };
        Wait::Kept(volume.id, why, ticket)
    }

    /// The answer when a volume has been made or changed.
    fn answer_of(&self, volume: &Volume) -> Value {
        let nodes = status::nodes(self);
        let its = status::of(self, volume, &nodes);
        let answer = json!({ "volume": its });
        ok(Self::with_room_warning(answer, [&its], &nodes))
    }

    /// Goes on with what is done about a volume.
    pub(super) fn check_volume(&mut self, conn: usize, mut wait: Wait) -> Result<Outcome> {
        if self.engine.is_settled() && self.engine.originator(0).is_none() {
            return fail("no node is running; start nodes and try again");
        }
        if matches!(wait, Wait::LookOn(_) | Wait::Cut(..) | Wait::Cuttable(..)) {
            return self.check_shrinking(conn, wait);
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
                Ok(Outcome::Answer(self.answer_of(volume)))
            }
            Wait::PolicySet(id, change, ticket) => {
                if !self.is_made(ticket)? {
                    return Ok(Outcome::Wait(wait));
                }
                let Some(there) = self.engine.map().volumes.get(id).cloned() else {
                    return Err(overtaken());
                };
                let mut changed = Volume::clone(&there);
                change.apply(&mut changed);
                if changed != *there {
                    return Err(overtaken());
                }
                Ok(Outcome::Answer(ok(json!({ "volume": status::volume(self, &there) }))))
            }
            Wait::RoomThere(volume, ticket) => {
                if !self.is_made(ticket)? {
                    return Ok(Outcome::Wait(wait));
                }
                self.clear(conn, volume.clone())
            }
            Wait::ToClear(volume) => self.clear(conn, volume.clone()),
            Wait::Hidden(id, ticket, kind) => {
                if !self.is_made(ticket)? {
                    return Ok(Outcome::Wait(wait));
                }
                Ok(Outcome::Wait(Wait::Removable(*id, self.engine.map().epoch, *kind)))
            }
            Wait::Removable(id, epoch, kind) => self.check_removable(conn, *id, *epoch, *kind),
            Wait::Kept(id, why, ticket) => {
                if !self.is_made(ticket)? {
                    return Ok(Outcome::Wait(wait));
                }
                match self.clients_of(*id) {
                    0 if why.is_some() => fail(why.take().unwrap_or_default()),
                    0 => Err(overtaken()),
                    n => fail(format!("{} the volume; {DISCONNECT}", used_by(n))),
                }
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
