//! Deleting volumes, bringing them back, and giving them other names.
//!
//! A deleted volume stays in the map, where hosts do not see it, and is rebuilt and moved as others are. It goes for
//! good after a day, or when its space is needed: for a volume that is made or grows, or for what is to be rebuilt or
//! moved off a disk. Those that were deleted first go first.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::json;
use weft_core::cluster::{Change, ClusterMap, Volume, VolumeSize};
use weft_core::units::{Epoch, VolumeId};

use super::imports::refuse_import;
use super::snapshots::{check_deletion, refuse_renaming};
use super::{Commands, DISCONNECT, DeletionKind, Outcome, Wait, overtaken, used_by};
use crate::control::status;
use crate::control_protocol::{ControlRequest, ok};
use crate::engine::Ticket;
use crate::error::{Result, fail};
use crate::log::About;
use crate::volumes::{SNAPSHOT_MARK, check_name};

/// How long a deleted volume can be brought back.
pub(crate) const KEPT_FOR: Duration = Duration::from_secs(24 * 60 * 60);

/// How long this process must have known of a deleted volume before it removes it because its time is over. Until then a wrong
/// clock may be set right, or noticed.
const KNOWN_FOR: Duration = Duration::from_secs(60 * 60);

/// By then all processes have said whether a host uses a deleted volume.
const CERTAIN_AFTER: Duration = Duration::from_secs(60);

/// Seconds since 1970, by this machine's clock.
pub(crate) fn time_of_day() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// The deleted volumes whose content no other volume shows, those that were deleted first before others.
pub(crate) fn forgettable(map: &ClusterMap) -> Vec<&Arc<Volume>> {
    let mut deleted = map.deleted();
    if !deleted.is_empty() {
        let needed: BTreeSet<VolumeId> =
            map.volumes.values().filter_map(|volume| volume.lineage.below).collect();
        deleted.retain(|volume| !needed.contains(&volume.id));
    }
    deleted
}

/// The volume of a name that was deleted last, if no other has the name: hosts may see that one, or it is unfinished.
fn alone_of_its_name(map: &ClusterMap, name: &str) -> Option<Arc<Volume>> {
    let is_taken = map.volumes.values().any(|v| v.name == name && !v.is_deleted());
    deleted_last(map, name).filter(|_| !is_taken)
}

/// The volume of a name that was deleted last, and can be brought back.
fn deleted_last(map: &ClusterMap, name: &str) -> Option<Arc<Volume>> {
    let deleted = map.deleted().into_iter().rev();
    deleted.filter(|v| !v.is_snapshot()).find(|v| v.name == name).cloned()
}

/// Whether hosts see only a part of a volume: it grows, and its new room is not cleared yet, or it is made smaller.
pub(crate) fn is_half_sized(volume: &Volume) -> bool {
    volume.visible > 0 && volume.visible < volume.size
}

/// For how many seconds yet a volume can be brought back; none if it is not deleted, or is a snapshot.
pub(crate) fn seconds_left(volume: &Volume, now: u64) -> Option<u64> {
    if volume.is_snapshot() {
        return None;
    }
    volume.deletion.since.map(|since| since.saturating_add(KEPT_FOR.as_secs()).saturating_sub(now))
}

impl Commands<'_> {
    /// Deletes a volume: hosts see it no more, every process says that none uses it, and the map
    /// changes. Nothing is waited for that is in work of it, or of anything else: what is undecided
    /// is forgotten with it, scrubs and rebuilding end, and who gets its room is safe from what was
    /// written before (see [`RemoveVolume`](weft_core::cluster::Change::RemoveVolume)).
    ///
    /// Unless it is to go at once, it keeps its room and its redundancy then, and can be brought back. So it is hidden
    /// and deleted by one change of the map: if whoever does this dies between, it can be brought back, too. Until all
    /// processes have said that no host uses it, its room is not had by others.
    ///
    /// If it is to go at once, and whoever does this dies between, the volume is shown as unfinished and keeps its room
    /// until the process that leads deletes it ([`Commands::finish_orphan`]).
    pub(crate) fn delete(&mut self, name: &str, now: bool) -> Result<Wait> {
        self.require_ready()?;
        let deleted = alone_of_its_name(self.engine.map(), name).filter(|_| now);
        if let Some(volume) = deleted {
            // It may have been deleted just now.
            let epoch = self.engine.map().epoch;
            return Ok(Wait::Removable(volume.id, epoch, DeletionKind::Permanent));
        }
        // Also one that hosts do not see, because whoever made or deleted it is gone. What it has may not be its own yet.
        let (volume, now) = match self.hidden(name) {
            Some(volume) => (volume, true),
            None => (self.volume(name)?, now),
        };
        if self.sizing.contains(&volume.id) {
            return fail(format!(
                "volume '{name}' is being created or resized; wait until that is done"
            ));
        }
        check_deletion(self.engine.map(), &volume)?;
        match self.clients_of(volume.id) {
            0 => {}
            n => {
                return fail(format!("{} volume '{name}'; {DISCONNECT}", used_by(n)));
            }
        }
        let kind = if now { DeletionKind::Permanent } else { DeletionKind::Restorable };
        Ok(self.hide(&volume, kind))
    }

    pub(super) fn hide(&mut self, volume: &Volume, kind: DeletionKind) -> Wait {
        let ticket = match kind {
            DeletionKind::Restorable if !volume.is_snapshot() => {
                self.engine.change(Change::DeleteVolume(volume.id, time_of_day()))
            }
            _ => {
                // If it is shown again, it is with the size that hosts saw.
                let size = if volume.visible > 0 { volume.visible } else { volume.size };
                let to = VolumeSize { size, visible: 0, more: Vec::new() };
                self.engine.size_volume(volume.id, to)
            }
        };
        Wait::Hidden(volume.id, ticket, kind)
    }

    /// Whether nobody finishes a volume that hosts do not see, or see a part of, unless someone has it in hand: it is not
    /// deleted, or a host uses it.
    pub(crate) fn is_unfinished(&self, volume: &Volume) -> bool {
        let is_used = || !volume.is_snapshot() && self.clients_of(volume.id) > 0;
        match volume.visible {
            0 => !volume.is_deleted() || is_used(),
            _ => is_half_sized(volume),
        }
    }

    /// Deletes a volume that hosts do not see and nobody finishes. If a host uses it, because whoever was
    /// deleting it died before that was known, hosts see it again; and also if snapshots of it are left, even deleted
    /// ones: it was being rolled back. If hosts see a part of a volume, it keeps that.
    pub(crate) fn finish_orphan(&mut self, id: VolumeId) -> Result<Wait> {
        self.require_ready()?;
        let left = self.engine.map().volumes.get(&id).filter(|v| self.is_unfinished(v));
        let Some(volume) = left.map(|v| Volume::clone(v)) else { return Err(overtaken()) };
        if is_half_sized(&volume) {
            return Ok(self.end_resize(volume));
        }
        let map = self.engine.map();
        let is_deletable = check_deletion(map, &volume).is_ok() && !map.has_any_snapshot(id);
        match self.clients_of(id) {
            0 if is_deletable => Ok(self.hide(&volume, DeletionKind::Permanent)),
            _ => Ok(self.keep(volume, None)),
        }
    }

    /// The volumes that can be brought back, in the order in which they were deleted.
    fn all_deleted(&self) -> impl Iterator<Item = &Arc<Volume>> {
        self.engine.map().deleted().into_iter().filter(|volume| !volume.is_snapshot())
    }

    /// Has a volume go that hosts do not see and do not use. A snapshot whose content others show is only marked as
    /// deleted: it goes when they do not need it any more.
    pub(super) fn part_with(&mut self, id: VolumeId, kind: DeletionKind) -> Wait {
        let map = self.engine.map();
        let is_snapshot = map.volumes.get(&id).is_some_and(|volume| volume.is_snapshot());
        let kind = match map.above(id).next() {
            Some(_) if is_snapshot => DeletionKind::Restorable,
            None if is_snapshot => DeletionKind::Permanent,
            _ => kind,
        };
        match kind {
            // An import is compared first.
            DeletionKind::Import(..) => unreachable!("nothing is deleted by an import"),
            DeletionKind::RollBack(snapshot) => {
                let ticket = self.engine.change(Change::RollBack(id, snapshot));
                Wait::RolledBack(id, snapshot, ticket)
            }
            DeletionKind::Permanent if map.volumes.get(&id).is_some_and(|v| v.is_deleted()) => {
                Wait::VolumeGone(id, self.engine.change(Change::ForgetVolume(id)))
            }
            DeletionKind::Permanent => Wait::VolumeGone(id, self.engine.remove_volume(id)),
            DeletionKind::Restorable => {
                Wait::Deleted(id, self.engine.change(Change::DeleteVolume(id, time_of_day())))
            }
        }
    }

    /// When all processes have said that no host uses a hidden volume, it goes.
    pub(super) fn check_removable(
        &mut self,
        conn: usize,
        id: VolumeId,
        epoch: Epoch,
        kind: DeletionKind,
    ) -> Result<Outcome> {
        let hidden = self.engine.map().volumes.get(&id).filter(|v| v.visible == 0);
        // Another process may have led meanwhile, and gone on with it.
        let Some(volume) = hidden.map(|v| Volume::clone(v)) else { return Err(overtaken()) };
        if !self.unheard_since(epoch).is_empty() {
            return Ok(Outcome::Wait(Wait::Removable(id, epoch, kind)));
        }
        // A snapshot or a clone may have been made just before.
        let deletes = !matches!(kind, DeletionKind::RollBack(_) | DeletionKind::Import(..));
        let needed = deletes && check_deletion(self.engine.map(), &volume).is_err();
        if self.clients_of(id) > 0 || needed {
            return Ok(Outcome::Wait(self.keep(volume, None)));
        }
        match kind {
            DeletionKind::Restorable if volume.is_deleted() && !volume.is_snapshot() => {
                let left = seconds_left(&volume, time_of_day());
                Ok(Outcome::Answer(ok(json!({ "seconds_left": left }))))
            }
            DeletionKind::Import(hidden, base) => self.compare(conn, volume, (hidden, base)),
            kind => Ok(Outcome::Wait(self.part_with(id, kind))),
        }
    }

    /// Brings back a deleted volume.
    pub(super) fn undelete(&mut self, name: &str) -> Result<Wait> {
        self.require_ready()?;
        let Some(volume) = deleted_last(self.engine.map(), name) else {
            let names: Vec<&str> = self.all_deleted().map(|v| v.name.as_str()).collect();
            return match names.is_empty() {
                _ if name.contains(SNAPSHOT_MARK) => fail(format!(
                    "a deleted snapshot cannot be restored, and '{name}' is the name of one"
                )),
                _ if self.volume(name).is_ok() => fail(format!("volume '{name}' is not deleted")),
                true => fail(
                    "no deleted volume can be restored: their space was needed, or a day has passed",
                ),
                false => fail(format!(
                    "there is no deleted volume '{name}'; these can be restored: {}",
                    names.join(", ")
                )),
            };
        };
        if self.engine.map().name_is_taken(name, volume.id) {
            return fail(format!(
                "there is now another volume '{name}'; rename it first (`weft volume rename {name} NEW`)"
            ));
        }
        Ok(Wait::Back(volume.id, self.engine.change(Change::UndeleteVolume(volume.id))))
    }

    /// Gives a volume another name. Hosts that use it would not find it again by the old one.
    pub(super) fn rename(&mut self, name: &str, to: String) -> Result<Wait> {
        self.require_ready()?;
        let volume = self.volume(name)?;
        refuse_renaming(&volume)?;
        refuse_import(&volume)?;
        let map = self.engine.map();
        check_name(&to, &map.volumes)?;
        match self.clients_of(volume.id) {
            0 => {}
            n => {
                return fail(format!("{} volume '{name}', by this name; {DISCONNECT}", used_by(n)));
            }
        }
        // The names of its snapshots begin with its own.
        let snapshots = map.snapshots_of(volume.id);
        if let Some(used) = snapshots.iter().find(|s| self.clients_of(s.id) > 0) {
            let (n, snapshot) = (self.clients_of(used.id), &used.name);
            return fail(format!(
                "{} snapshot '{snapshot}', by this name; {DISCONNECT}",
                used_by(n)
            ));
        }
        let ticket = self.engine.change(Change::RenameVolume(volume.id, to.clone()));
        Ok(Wait::Renamed(volume.id, to, ticket))
    }

    /// Goes on with what is done about a volume that goes, comes back, or gets another name.
    pub(super) fn check_deletion_wait(&mut self, mut wait: Wait) -> Result<Outcome> {
        let (id, ticket) = match &mut wait {
            Wait::Deleted(id, ticket) | Wait::Back(id, ticket) | Wait::Renamed(id, _, ticket) => {
                (*id, ticket)
            }
            _ => return Ok(Outcome::Wait(wait)),
        };
        if !self.is_made(ticket)? {
            return Ok(Outcome::Wait(wait));
        }
        let volume = self.engine.map().volumes.get(&id).cloned();
        let is_done = |v: &Arc<Volume>| match &wait {
            Wait::Deleted(..) => v.is_deleted(),
            Wait::Back(..) => v.visible > 0,
            Wait::Renamed(_, name, _) => v.name == *name,
            _ => false,
        };
        let volume = volume.filter(is_done).ok_or_else(overtaken)?;
        Ok(Outcome::Answer(match wait {
            Wait::Deleted(..) => {
                ok(json!({ "seconds_left": seconds_left(&volume, time_of_day()) }))
            }
            _ => ok(json!({ "volume": status::volume(self, &volume) })),
        }))
    }

    /// Whether a deleted volume has been kept for long enough, by the time of day and by this process's uptime.
    pub(crate) fn is_over(&self, volume: &Volume) -> bool {
        is_over(volume, time_of_day(), self.witnessed.known_for(volume, Instant::now()))
    }

    /// Whether no host uses a deleted volume. That is known for certain if it was not deleted just now.
    pub(crate) fn is_let_go(&self, volume: &Volume) -> bool {
        let is_certain = || {
            volume.is_snapshot()
                || self.witnessed.known_for(volume, Instant::now()) > CERTAIN_AFTER
                || self.unheard_since(self.engine.map().epoch).is_empty()
        };
        self.clients_of(volume.id) == 0 && is_certain()
    }

    /// Has as few deleted volumes forgotten as make room for what is asked, those that were deleted first before
    /// others. None if that would not do, or there are none.
    pub(super) fn forget_for(
        &mut self,
        request: &ControlRequest,
        fits: impl Fn(&ClusterMap) -> bool,
    ) -> Option<Wait> {
        let mut map = self.engine.map().clone();
        let mut forgotten = Vec::new();
        // What others show stays; when those are forgotten, it can be, too.
        while forgotten.is_empty() || !fits(&map) {
            let next = forgettable(&map).into_iter().find(|v| self.is_let_go(v))?.id;
            map.volumes.remove(&next);
            forgotten.push(next);
        }
        let tickets = forgotten.iter().map(|id| self.forget(*id, "its space is needed")).collect();
        Some(Wait::Forgotten(Box::new(request.clone()), tickets))
    }

    /// Has a deleted volume forgotten for good.
    pub(crate) fn forget(&mut self, id: VolumeId, why: &str) -> Ticket {
        if let Some(volume) = self.engine.map().volumes.get(&id) {
            self.engine.log.on(About::volume(&volume.name)).info(&format!(
                "deleted volume '{}' is being permanently removed: {why}",
                volume.name
            ));
        }
        self.engine.change(Change::ForgetVolume(id))
    }

    /// Looks whether there is the room that a request needs.
    pub(super) fn check_forgotten(
        &mut self,
        conn: usize,
        request: Box<ControlRequest>,
        mut tickets: Vec<Ticket>,
    ) -> Result<Outcome> {
        for ticket in &mut tickets {
            if !self.is_made(ticket)? {
                return Ok(Outcome::Wait(Wait::Forgotten(request, tickets)));
            }
        }
        self.try_handle(conn, *request)
    }
}

/// Whether a deleted volume has been kept for a day, at this time in seconds since 1970. This process has known of it for
/// `known_for`.
fn is_over(volume: &Volume, now: u64, known_for: Duration) -> bool {
    seconds_left(volume, now) == Some(0) && known_for >= KNOWN_FOR
}

#[cfg(test)]
mod tests {
    use weft_core::cluster::Deletion;
    use weft_core::layout::{Geometry, LayoutSpec};

    use super::*;

    fn volume(id: u32) -> Volume {
        let spec = LayoutSpec::default();
        let geometry = Geometry::new(spec.over(3).unwrap(), 4096);
        Volume::new(VolumeId(id), "v", 0, &spec, geometry, Vec::new())
    }

    fn deleted(id: u32, since: u64) -> Volume {
        Volume { deletion: Deletion { since: Some(since) }, ..volume(id) }
    }

    fn map(volumes: impl IntoIterator<Item = Volume>) -> ClusterMap {
        let volumes = volumes.into_iter().map(|v| (v.id, Arc::new(v))).collect();
        ClusterMap { volumes, ..ClusterMap::default() }
    }

    #[test]
    fn a_deleted_volume_is_removed_by_name_if_no_other_has_the_name() {
        let found = |map: &ClusterMap| alone_of_its_name(map, "v").map(|v| v.id.0);
        let all = [deleted(1, 20), deleted(2, 10)];
        assert_eq!(found(&map(all.clone())), Some(1));
        // One that hosts see, and one that is unfinished, which they do not.
        for visible in [4096, 0] {
            let other = Volume { visible, size: 4096, ..volume(3) };
            let map = map(all.clone().into_iter().chain([other]));
            assert_eq!(found(&map), None);
            assert_eq!(deleted_last(&map, "v").map(|v| v.id.0), Some(1));
        }
    }

    #[test]
    fn a_deleted_volume_is_kept_for_a_day() {
        let mut volume = volume(0);
        assert_eq!(seconds_left(&volume, 100), None);
        volume.deletion = Deletion { since: Some(100) };
        assert_eq!(seconds_left(&volume, 100), Some(86_400));
        assert_eq!(seconds_left(&volume, 86_499), Some(1));
        assert_eq!(seconds_left(&volume, 90_000), Some(0));
        assert_eq!(seconds_left(&volume, 0), Some(86_500), "a clock that was set back");
    }

    #[test]
    fn a_clock_that_is_ahead_removes_nothing_at_once() {
        let deleted = deleted(0, 1000);
        let a_day_ahead = 1000 + KEPT_FOR.as_secs();
        assert!(!is_over(&deleted, a_day_ahead, Duration::ZERO));
        assert!(!is_over(&deleted, a_day_ahead, KNOWN_FOR - Duration::from_secs(1)));
        assert!(is_over(&deleted, a_day_ahead, KNOWN_FOR));
        assert!(!is_over(&deleted, a_day_ahead - 1, 2 * KEPT_FOR));
    }
}
