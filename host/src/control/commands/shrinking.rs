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
//! If whoever does this dies between, hosts see the smaller size and the room is kept; the same command
//! again finishes it.

use weft_core::cluster::{Volume, VolumeSize};
use weft_core::node::HostOp;
use weft_core::plan::Range;

use super::{Commands, DISCONNECT, Outcome, Wait, overtaken, used_by};
use crate::error::{Result, fail};
use crate::size::{exactly, require_multiple};
use crate::volumes::GRAIN;

/// How much is looked at at a time.
const PIECE: u64 = 64 << 20;

/// What a smaller size cuts off.
#[derive(Clone)]
pub(crate) struct Survey {
    /// The volume as it was.
    pub(super) volume: Volume,
    /// The size that it is to have.
    size: u64,
    /// Whether also bytes in use are cut off.
    force: bool,
    /// Whether hosts have been shown the new size.
    pub(super) hidden: bool,
    /// Up to where it has been looked at.
    at: u64,
    /// How many bytes are in use there, and the end of the last of them.
    used: u64,
    last: u64,
}

impl Survey {
    /// With what was found at the next piece: lengths, and whether each is a hole.
    pub(super) fn with(mut self, found: &[(u64, bool)]) -> Survey {
        for (len, hole) in found {
            self.at += len;
            if !hole {
                self.used += len;
                self.last = self.at;
            }
        }
        self
    }

    /// The next piece to look at, if any.
    fn next(&self) -> Option<Range> {
        // What hosts do not see is not in use.
        let len = PIECE.min(self.volume.visible.saturating_sub(self.at));
        (len > 0).then_some(Range { offset: self.at, len })
    }
}

impl Commands<'_> {
    /// Begins to make a volume smaller.
    pub(super) fn shrink(&mut self, volume: Volume, size: u64, force: bool) -> Result<Wait> {
        require_multiple("a volume size", size, GRAIN)?;
        self.refuse_unless_whole(&volume)?;
        self.refuse_while_used(&volume)?;
        let survey = Survey { size, force, hidden: false, at: size, used: 0, last: 0, volume };
        Ok(Wait::LookOn(Box::new(survey)))
    }

    fn refuse_while_used(&self, volume: &Volume) -> Result<()> {
        match self.clients_of(volume.id) {
            0 => Ok(()),
            n => fail(format!(
                "{} volume '{}', and hosts would not notice the smaller size; {DISCONNECT}",
                used_by(n),
                volume.name
            )),
        }
    }

    /// All that takes part must be there: one that is away could come back with what was prepared for
    /// what is cut off, when the volume has been made larger again.
    fn refuse_unless_whole(&self, volume: &Volume) -> Result<()> {
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
            Wait::LookOn(survey) => match survey.next() {
                Some(piece) if !survey.force => {
                    self.submit(conn, survey.volume.id, HostOp::Holes(piece));
                    Ok(Outcome::Wait(Wait::Surveying(survey)))
                }
                _ => self.surveyed(*survey),
            },
            Wait::Cut(survey, mut ticket) => {
                if !self.is_made(&mut ticket)? {
                    return Ok(Outcome::Wait(Wait::Cut(survey, ticket)));
                }
                let there = self.engine.map().volumes.get(&survey.volume.id);
                if there.is_none_or(|v| v.visible != survey.size || v.size != survey.volume.size) {
                    return Err(overtaken());
                }
                Ok(Outcome::Wait(Wait::Cuttable(survey, self.engine.map().epoch)))
            }
            Wait::Cuttable(survey, epoch) => {
                let still = self.refuse_unless_whole(&survey.volume);
                if still.is_ok() && !self.unheard_since(epoch).is_empty() {
                    return Ok(Outcome::Wait(Wait::Cuttable(survey, epoch)));
                }
                if let Err(e) = still.and_then(|()| self.refuse_while_used(&survey.volume)) {
                    self.give_back(&survey);
                    return Err(e);
                }
                // Again from the start: a host may have come and gone.
                let at = survey.size;
                let survey = Survey { hidden: true, at, used: 0, last: 0, ..*survey };
                Ok(Outcome::Wait(Wait::LookOn(Box::new(survey))))
            }
            wait => Ok(Outcome::Wait(wait)),
        }
    }

    /// All that would be cut off has been looked at.
    fn surveyed(&mut self, survey: Survey) -> Result<Outcome> {
        let Survey { volume, size, used, last, .. } = &survey;
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
        let Volume { id, size, visible, .. } = survey.volume;
        let seen = self.engine.map().volumes.get(&id).map(|v| v.visible);
        if seen.is_some_and(|seen| seen != visible) {
            self.engine.size_volume(id, VolumeSize { size, visible, more: Vec::new() });
        }
    }
}
