//! Scheduled snapshots: whether a volume can have them, how they stand, and what keeps one from being taken.

use std::time::{Duration, UNIX_EPOCH};

use weft_core::cluster::{Scheduled, ViewError, Volume};
use weft_core::policy::Every;
use weft_core::units::VolumeId;

use super::Commands;
use super::deleting::time_of_day;
use super::snapshots::refused;
use super::thin::check_views_on;
use crate::control::status;
use crate::error::Result;
use crate::log::stamp;
use crate::status::{NodeStatus, ScheduleStatus};

/// A snapshot that is due.
#[derive(Debug)]
pub(crate) struct Due {
    /// Its volume.
    pub(crate) of: VolumeId,
    /// Its kind.
    pub(crate) every: Every,
    /// Its name.
    pub(crate) name: String,
    /// What keeps it from being taken.
    pub(crate) hindrance: Option<String>,
}

impl Commands<'_> {
    /// Refuses a schedule if no snapshot of the volume can be taken.
    pub(super) fn check_schedule(&self, volume: &Volume) -> Result<()> {
        match volume.policy.snapshots.is_none() {
            true => Ok(()),
            false => self.check_views(volume),
        }
    }

    /// The snapshots that are due, by schedules of volumes.
    pub(crate) fn due(&self, due: &[(VolumeId, Every)], now: u64) -> Vec<Due> {
        let nodes = if due.is_empty() { Vec::new() } else { status::nodes(self) };
        let one = |(of, every): &(VolumeId, Every)| {
            let volume = self.engine.map().volumes.get(of)?;
            let name = volume.snapshot_name(&every.name(now));
            let hindrance = self.hindrance(volume, *every, now, &nodes);
            Some(Due { of: *of, every: *every, name, hindrance })
        };
        due.iter().filter_map(one).collect()
    }

    /// What keeps a scheduled snapshot from being taken.
    fn hindrance(
        &self,
        volume: &Volume,
        every: Every,
        now: u64,
        nodes: &[NodeStatus],
    ) -> Option<String> {
        let name = every.name(now);
        let full = volume.snapshot_name(&name);
        match self.engine.map().check_snapshot(volume.id, &name) {
            Ok(()) => {
                let views = check_views_on(volume, nodes);
                views.and_then(|()| self.check_first_snapshot(volume, nodes)).err().map(|e| e.0)
            }
            Err(ViewError::NameTaken) => {
                Some(format!("'{full}' already exists, and no schedule took it"))
            }
            Err(why) => Some(refused(why, volume, &full).0),
        }
    }

    /// How the schedule of a volume stands.
    pub(crate) fn schedule(&self, volume: &Volume, nodes: &[NodeStatus]) -> Vec<ScheduleStatus> {
        let now = time_of_day();
        let in_words = |time| stamp(UNIX_EPOCH + Duration::from_secs(time));
        let of = |of: Scheduled| {
            let is_due = of.is_due(now) && volume.visible > 0;
            let hindrance = is_due.then(|| self.hindrance(volume, of.every, now, nodes));
            ScheduleStatus {
                kind: of.every.word().to_string(),
                keep: of.keep,
                snapshots: of.there,
                newest: of.newest.map(in_words),
                age_seconds: of.newest.map(|newest| now.saturating_sub(newest)),
                next: in_words(of.next),
                hindrance: hindrance.flatten(),
            }
        };
        self.engine.map().schedule_of(volume, now).into_iter().map(of).collect()
    }
}
