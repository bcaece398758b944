//! Periodic work, without an event that causes it.

use std::time::{Duration, Instant};

use weft_core::cluster::ClusterMap;

use super::orphans::Orphans;
use super::schedules::Schedules;
use super::upkeep::Upkeep;
use crate::control::commands::Witnessed;

/// How long hosts wait for a cluster whose nodes have not all come.
const GATHERING: Duration = Duration::from_secs(30);

/// The interval: rates of catching up, and abandoned volumes.
const LOOKS: Duration = Duration::from_millis(200);

/// The state of periodic work: its start, and its last run.
pub(super) struct Housekeeping {
    started: Instant,
    looked: Instant,
    orphans: Orphans,
    crowding: Orphans,
    /// Removes deleted volumes.
    removal: Upkeep,
    witnessed: Witnessed,
    schedules: Schedules,
}

impl Housekeeping {
    /// It begins now.
    pub(super) fn new() -> Housekeeping {
        let now = Instant::now();
        Housekeeping {
            started: now,
            looked: now,
            orphans: Orphans::default(),
            crowding: Orphans::default(),
            removal: Upkeep::default(),
            witnessed: Witnessed::default(),
            schedules: Schedules::default(),
        }
    }

    /// For how long this process has run.
    pub(super) fn uptime(&self) -> Duration {
        self.started.elapsed()
    }

    /// Whether nodes that have not come are waited for, for the sake of hosts.
    pub(super) fn is_gathering(&self) -> bool {
        self.uptime() < GATHERING
    }

    /// Whether it is time to look around; if so, it is done now.
    pub(super) fn is_time(&mut self, now: Instant) -> bool {
        let is_time = now.duration_since(self.looked) >= LOOKS;
        if is_time {
            self.looked = now;
        }
        is_time
    }

    /// The deleted volume whose room others need, if there is one.
    pub(super) fn crowding(&mut self) -> &mut Orphans {
        &mut self.crowding
    }

    /// The removal of deleted volumes.
    pub(super) fn removal(&mut self) -> &mut Upkeep {
        &mut self.removal
    }

    /// Since when this process has known of deleted volumes.
    pub(super) fn witnessed(&self) -> &Witnessed {
        &self.witnessed
    }

    /// Takes note of the deleted volumes of the map.
    pub(super) fn witness(&mut self, map: &ClusterMap, now: Instant) {
        self.witnessed.look(map, now);
    }

    /// What has been done about scheduled snapshots, and said of them.
    pub(super) fn schedules(&mut self) -> &mut Schedules {
        &mut self.schedules
    }

    /// What is known of volumes that nobody finishes.
    pub(super) fn orphans(&mut self) -> &mut Orphans {
        &mut self.orphans
    }
}
