//! Whether a request may begin under a map: by resets, rights, reservations, and the part of its volume that hosts see.

use weft_core::cluster::{Access, ClusterMap};
use weft_core::node::{HostError, HostOp};
use weft_core::plan::Range;

use super::{Owner, Pending, Requests};
use crate::hosts::resets::Resets;

impl Requests {
    /// Why a request may not begin under a map, whether it has begun before or not, if that is so.
    pub(super) fn refusal(&self, pending: &Pending, map: &ClusterMap) -> Option<HostError> {
        if pending.was_reset(&self.resets) || !pending.has_right(map) {
            return Some(HostError::Gone);
        }
        if pending.was_preempted(&self.resets) || !pending.is_permitted(map) {
            return Some(HostError::Reserved);
        }
        pending.out_of_range(self.shown.size(pending.job.volume), map)
    }
}

/// A request that its originator refuses. It takes the place of one that may not begin and has a place among others: those that
/// come after it are to hear that it was not done.
pub(super) const NOTHING: HostOp = HostOp::Read(Range { offset: 0, len: 0 });

impl Pending {
    /// Whether it compares and writes, and has begun before: its host must not hear that it was refused. Other writes are refused
    /// as before: hosts expect a conflict after another host's reservation.
    pub(super) fn may_have_happened(&self) -> bool {
        (self.again || self.job.again) && matches!(self.job.op, HostOp::Modify { .. })
    }

    /// Whether it is a change that came before a reset of the volume that concerns it.
    fn was_reset(&self, resets: &Resets) -> bool {
        let came = self.job.came.filter(|_| self.changes());
        came.is_some_and(|epoch| resets.is_after(self.job.volume, epoch))
    }

    /// Whether it is a change that came before its host was preempted.
    fn was_preempted(&self, resets: &Resets) -> bool {
        let came = self.job.came.filter(|_| self.changes());
        let asked = self.job.registrant.as_deref().zip(came);
        asked.is_some_and(|(who, epoch)| resets.is_preempted(self.job.volume, who, epoch))
    }

    /// Whether it writes for a host, or reads; nothing for what neither rights nor reservations are about.
    fn writes(&self) -> Option<bool> {
        match self.job.op {
            HostOp::Read(_) | HostOp::Holes(_) | HostOp::Changed(..) | HostOp::Exposed(_) => {
                Some(false)
            }
            HostOp::Write(..)
            | HostOp::Modify { .. }
            | HostOp::WriteZeroes(_)
            | HostOp::Trim(_) => Some(true),
            _ => None,
        }
    }

    /// Whether its host may do that with the volume.
    fn has_right(&self, map: &ClusterMap) -> bool {
        let Some((who, writes)) = self.job.who.as_deref().zip(self.writes()) else { return true };
        let Some(volume) = map.volumes.get(&self.job.volume) else { return true };
        who.access(map, volume).is_ok_and(|access| !writes || access == Access::Full)
    }

    /// Whether no other host's reservation forbids it.
    fn is_permitted(&self, map: &ClusterMap) -> bool {
        let Some(writes) = self.writes() else { return true };
        let of_host = !matches!(self.owner, Some(Owner::Control { .. }));
        let volume = map.volumes.get(&self.job.volume).filter(|_| of_host);
        volume.is_none_or(|v| v.reservations.permit(self.job.registrant.as_deref(), writes))
    }

    /// The error of a host's request for bytes that hosts do not see (`shown.rs`). Sessions of some protocols do not know the size.
    fn out_of_range(&self, size: u64, map: &ClusterMap) -> Option<HostError> {
        let of_host = !matches!(self.owner, Some(Owner::Control { .. }));
        map.volumes.get(&self.job.volume).filter(|_| of_host)?;
        let Range { offset, len } = self.job.op.range()?;
        let is_seen = offset.checked_add(len).is_some_and(|end| end <= size);
        (!is_seen).then(|| match self.changes() && (self.again || self.job.again) {
            // It may have happened before the volume was cut off.
            true => HostError::OutcomeUnknown,
            false => HostError::OutOfRange { offset, len, size },
        })
    }
}
