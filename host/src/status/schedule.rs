//! Scheduled snapshots of a volume.

use serde::{Deserialize, Serialize};

/// A kind of snapshots in the schedule of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ScheduleStatus {
    /// Its word: `hourly`, `daily`, `weekly` or `monthly`.
    pub kind: String,
    /// How many are kept.
    pub keep: usize,
    /// How many there are.
    pub snapshots: usize,
    /// When the newest was taken, UTC; `null` if there is none.
    pub newest: Option<String>,
    /// Seconds since then, by the clock of the process that is asked.
    pub age_seconds: Option<u64>,
    /// When the next is due, UTC. In the past if it is due now.
    pub next: String,
    /// What keeps the one that is due from being taken; only if something does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hindrance: Option<String>,
}
