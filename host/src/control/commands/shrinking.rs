//! Making volumes smaller.
//!
//! What is cut off is looked at first, by the maps of holes of all its disks: bytes that were written
//! and not trimmed since are in use, and are only cut off if that is forced. Then hosts are shown the
//! smaller size, while the volume still has its room; when all processes have said that no host has come
//! meanwhile that may have seen the larger size, it is looked at once more, and the map changes. Until
//! then everything can be given back. What is still in work of what is cut off was asked for by hosts
//! that are gone, and does no harm to whoever has its room then
//! (see [`RemoveVolume`](weft_core::cluster::Change::RemoveVolume)).
//!
//! If whoever does this dies between, hosts see the smaller size and the room is kept; the same command again finishes it,
//! and after some seconds the process that leads does ([`Commands::finish_orphan`]).

use weft_core::cluster::{Volume, VolumeSize};
use weft_core::units::VolumeId;

use super::{Commands, DISCONNECT, Outcome, Wait, overtaken, used_by};
use crate::control::usage::Usage;
use crate::error::{Result, fail};
use crate::size::{exactly, require_multiple};

/// Why a volume that hosts use is not made smaller.
const UNNOTICED: &str = "and hosts would not notice the smaller size";

/// A smaller size, and the usage beyond it.
#[derive(Clone)]
pub(crate) struct Survey {
    /// The usage of the part to cut off, with the volume as it was.
    usage: Usage,
    /// The new size.
    size: u64,
    /// Whether bytes in use are cut off, too.
    force: bool,
    /// Whether hosts have been shown the new size.
    pub(super) hidden: bool,
}

impl Survey {
    /// The survey after this answer for the next piece: lengths, and whether each is a hole.
    pub(super) fn with(self, found: &[(u64, bool)]) -> Survey {
        Survey { usage: self.usage.with(found), ..self }
    }

    /// The volume.
    pub(super) fn volume(&self) -> VolumeId {
        self.usage.volume.id
    }
}

impl Commands<'_> {
    /// Begins to make a volume smaller.
    pub(super) fn shrink(&mut self, volume: Volume, size: u64, force: bool) -> Result<Wait> {
        require_multiple("a volume size", size, volume.policy.block)?;
        self.refuse_below_snapshot(&volume, size)?;
        self.refuse_unless_whole(&volume)?;
        self.refuse_while_used(&volume, UNNOTICED)?;
        let survey = Survey { usage: Usage::of(volume, size), size, force, hidden: false };
        Ok(Wait::LookOn(Box::new(survey)))
    }

    /// Refuses what a connected host stands in the way of, for this reason.
    pub(super) fn refuse_while_used(&self, volume: &Volume, why: &str) -> Result<()> {
        match self.clients_of(volume.id) {
            0 => Ok(()),
            n => fail(format!("{} volume '{}', {why}; {DISCONNECT}", used_by(n), volume.name)),
        }
    }

    /// A volume is no smaller than the snapshot that it lies over.
    fn refuse_below_snapshot(&self, volume: &Volume, size: u64) -> Result<()> {
        let map = self.engine.map();
        let below = volume.lineage.below.and_then(|id| map.volumes.get(&id));
        match below.filter(|below| size < below.size) {
            Some(below) => fail(format!(
                "volume '{}' shares content with snapshot '{}' of {}, and cannot be smaller than that",
                volume.name,
                below.name,
                exactly(below.size)
            )),
            None => Ok(()),
        }
    }

    /// All that takes part must be there: one that is away could come back with what was prepared for
    /// what is cut off, when the volume has been made larger again.
    pub(super) fn refuse_unless_whole(&self, volume: &Volume) -> Result<()> {
        let map = self.engine.map();
        let name = &volume.name;
        let away = |n: &weft_core::units::NodeId| !map.is_up(*n) || !self.engine.runs(*n);
        if let Some(node) = volume.nodes().into_iter().find(away) {
            return fail(format!(
                "node {}, which holds parts of volume '{name}', is down; start it, or rebuild its content on others first",
                node.0
            ));
        }
        let stale = map.attendance.get(&volume.id).is_some_and(|a| !a.stale_since.is_empty());
        if stale || volume.extents.iter().any(|e| !e.filling.is_empty()) {
            return fail(format!(
                "volume '{name}' is being rebuilt, or parts of it are being moved; wait until that is \
                 done (`weft status`)"
            ));
        }
        Ok(())
    }

    /// Goes on with making a volume smaller.
    pub(super) fn check_shrinking(&mut self, conn: usize, wait: Wait) -> Result<Outcome> {
        match wait {
            Wait::LookOn(survey) => match survey.usage.request() {
                Some(query) if !survey.force => {
                    self.submit(conn, survey.volume(), query);
                    Ok(Outcome::Wait(Wait::Surveying(survey)))
                }
                _ => self.surveyed(*survey),
            },
            Wait::Cut(survey, mut ticket) => {
                if !self.is_made(&mut ticket)? {
                    return Ok(Outcome::Wait(Wait::Cut(survey, ticket)));
                }
                let before = &survey.usage.volume;
                let there = self.engine.map().volumes.get(&before.id);
                if there.is_none_or(|v| v.visible != survey.size || v.size != before.size) {
                    return Err(overtaken());
                }
                Ok(Outcome::Wait(Wait::Cuttable(survey, self.engine.map().epoch)))
            }
            Wait::Cuttable(survey, epoch) => {
                let still = self.refuse_unless_whole(&survey.usage.volume);
                if still.is_ok() && !self.unheard_since(epoch).is_empty() {
                    return Ok(Outcome::Wait(Wait::Cuttable(survey, epoch)));
                }
                let unused = |()| self.refuse_while_used(&survey.usage.volume, UNNOTICED);
                if let Err(e) = still.and_then(unused) {
                    self.give_back(&survey);
                    return Err(e);
                }
                // Again from the start: a host may have come and gone.
                let usage = Usage::of(survey.usage.volume, survey.size);
                let survey = Survey { usage, hidden: true, ..*survey };
                Ok(Outcome::Wait(Wait::LookOn(Box::new(survey))))
            }
            wait => Ok(Outcome::Wait(wait)),
        }
    }

    /// All that would be cut off has been looked at.
    fn surveyed(&mut self, survey: Survey) -> Result<Outcome> {
        let Survey { usage: Usage { volume, used, last, .. }, size, .. } = &survey;
        if *used > 0 && !survey.force {
            self.give_back(&survey);
            return fail(format!(
                "{} of volume '{}' beyond {} are in use, up to {}; trim or move them, or discard them with --force",
                exactly(*used),
                volume.name,
                exactly(*size),
                exactly(*last),
            ));
        }
        if !survey.hidden {
            let to = VolumeSize { size: volume.size, visible: *size, more: Vec::new() };
            let ticket = self.engine.size_volume(volume.id, to);
            return Ok(Outcome::Wait(Wait::Cut(Box::new(survey), ticket)));
        }
        let to = VolumeSize { size: *size, visible: *size, more: Vec::new() };
        let mut shrunk = Volume { visible: *size, ..volume.clone() };
        shrunk.cut_to_visible();
        let ticket = self.engine.size_volume(volume.id, to);
        Ok(Outcome::Wait(Wait::VolumeThere(Box::new(shrunk), ticket)))
    }

    /// Hosts see again what they saw.
    pub(super) fn give_back(&mut self, survey: &Survey) {
        let Volume { id, size, visible, .. } = survey.usage.volume;
        let seen = self.engine.map().volumes.get(&id).map(|v| v.visible);
        if seen.is_some_and(|seen| seen != visible) {
            self.engine.size_volume(id, VolumeSize { size, visible, more: Vec::new() });
        }
    }
}
