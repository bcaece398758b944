//! How what a volume promises is kept.

use serde::{Deserialize, Serialize};

/// Of a volume whose requests are to end within a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PromiseStatus {
    /// How much of the background work goes on, on its disks, in percent of what it would do otherwise.
    pub background_percent: u64,
    /// For how many seconds more than 1 % of its requests have taken longer though no more can give way; only if they do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missed_seconds: Option<u64>,
}
