//! Scheduled snapshots: the process that leads takes them, and deletes those beyond the number that is kept.
//!
//! The map says which they are ([`due_snapshots`](weft_core::cluster::ClusterMap::due_snapshots)). So nothing is lost
//! when another process leads.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use weft_core::cluster::Change;
use weft_core::policy::Every;
use weft_core::units::VolumeId;

use super::Reactor;
use super::upkeep::{Turn, Upkeep};
use crate::control::commands::{Due, time_of_day};
use crate::log::About;

/// What has been done about scheduled snapshots, and said of them.
#[derive(Debug, Default)]
pub(super) struct Schedules {
    /// The snapshots that are being taken.
    taking: BTreeSet<String>,
    /// The change that takes them, and which they are.
    upkeep: Upkeep,
    asked: Vec<Due>,
    /// The last of each volume and kind that could not be taken, and was reported.
    hindered: BTreeMap<(VolumeId, Every), String>,
    /// Those that were reported because they could not be deleted.
    kept: BTreeSet<VolumeId>,
}

impl Schedules {
    /// Whether it has not been reported yet that this snapshot cannot be taken.
    fn is_news(&mut self, kind: (VolumeId, Every), name: &str) -> bool {
        self.hindered.insert(kind, name.to_string()).is_none_or(|before| before != name)
    }

    /// The snapshots among those in work that are there now.
    fn taken<'a>(&mut self, there: impl Iterator<Item = &'a str>) -> Vec<String> {
        if self.taking.is_empty() {
            return Vec::new();
        }
        there.filter_map(|name| self.taking.take(name)).collect()
    }

    /// These snapshots exceed the number that is kept. Others are reported again when they do.
    fn are_over(&mut self, over: &[VolumeId]) {
        self.kept.retain(|id| over.contains(id));
    }
}

impl Reactor {
    /// Takes the snapshots that are due, all with one change of the map, and deletes one of those that are too many.
    pub(super) fn keep_schedules(&mut self) {
        let leads = self.engine.rule.together().is_none_or(|t| t.is_in_charge());
        if !leads || !self.with_commands(|commands| commands.is_ready()) {
            return;
        }
        let there = self.engine.map().volumes.values().filter(|v| v.is_snapshot());
        let taken = self.housekeeping.schedules().taken(there.map(|v| v.name.as_str()));
        for name in taken {
            self.engine.log.info(&format!("scheduled snapshot '{name}' has been taken"));
        }
        let (schedules, engine) = (self.housekeeping.schedules(), &mut self.engine);
        match schedules.upkeep.turn(Instant::now(), |ticket| engine.outcome(ticket)) {
            Turn::Now => {}
            Turn::Later => return,
            Turn::Refused(why) => {
                let asked = std::mem::take(&mut schedules.asked);
                return asked.iter().for_each(|one| self.say_hindered(one, &why.0));
            }
        }
        let now = time_of_day();
        let due = self.engine.map().due_snapshots(now);
        if !self.take_due(&due.take, now) {
            self.delete_over(&due.delete);
        }
    }

    /// Says whether any is being taken.
    fn take_due(&mut self, due: &[(VolumeId, Every)], now: u64) -> bool {
        let due = self.with_commands(|commands| commands.due(due, now));
        let (hindered, due): (Vec<_>, Vec<_>) =
            due.into_iter().partition(|d| d.hindrance.is_some());
        for one in hindered {
            self.say_hindered(&one, one.hindrance.as_deref().unwrap_or_default());
        }
        if due.is_empty() {
            return false;
        }
        let take = due.iter().map(|one| (one.of, one.every)).collect();
        let ticket = self.engine.change(Change::TakeScheduled(take, now));
        let schedules = self.housekeeping.schedules();
        schedules.taking = due.iter().map(|one| one.name.clone()).collect();
        schedules.upkeep.has_asked(ticket);
        schedules.asked = due;
        true
    }

    /// Says once of each snapshot why it cannot be taken.
    fn say_hindered(&mut self, due: &Due, why: &str) {
        if self.housekeeping.schedules().is_news((due.of, due.every), &due.name) {
            let text = format!("scheduled snapshot '{}' cannot be taken: {why}", due.name);
            self.engine.log.on(About::volume(&due.name)).warn(&text);
        }
    }

    /// Deletes one snapshot that is beyond the number that is kept. Those that have clones, and those that hosts use, stay
    /// until then.
    fn delete_over(&mut self, over: &[VolumeId]) {
        self.housekeeping.schedules().are_over(over);
        let in_hand = self.controls.volumes_in_hand();
        for id in over.iter().filter(|id| !in_hand.contains(id)) {
            let Some(volume) = self.engine.map().volumes.get(id) else { continue };
            let name = volume.name.clone();
            match self.with_commands(|commands| commands.delete(&name, false)) {
                Ok(wait) => {
                    self.engine.log.info(&format!("scheduled snapshot '{name}' is being deleted"));
                    self.have_done(wait);
                    return;
                }
                Err(why) if self.housekeeping.schedules().kept.insert(*id) => {
                    let text = format!("scheduled snapshot '{name}' is not deleted yet: {why}");
                    self.engine.log.on(About::volume(&name)).warn(&text);
                }
                Err(_) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_each_snapshot_it_is_said_once() {
        let mut schedules = Schedules::default();
        let [hourly, daily] = [Every::Hour, Every::Day].map(|every| (VolumeId(1), every));
        assert!(schedules.is_news(hourly, "a@hourly-1"));
        assert!(!schedules.is_news(hourly, "a@hourly-1"));
        assert!(schedules.is_news(daily, "a@daily-1"));
        assert!(!schedules.is_news(hourly, "a@hourly-1"));
        assert!(schedules.is_news(hourly, "a@hourly-2"));
        schedules.taking = ["a@x".to_string(), "b@x".to_string()].into();
        assert_eq!(schedules.taken(["a", "b@x", "c@x"].into_iter()), ["b@x"]);
        assert_eq!(schedules.taken(["a", "b@x", "c@x"].into_iter()), [""; 0]);
        schedules.kept = [VolumeId(3), VolumeId(4)].into();
        schedules.are_over(&[VolumeId(4), VolumeId(5)]);
        assert_eq!(schedules.kept, [VolumeId(4)].into());
    }
}
