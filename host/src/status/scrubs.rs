//! Scrubs under way.

use serde::{Deserialize, Serialize};

/// A scrub that is under way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ScrubStatus {
    /// The name of its volume; `null` if that has been deleted.
    pub volume: Option<String>,
    /// The node that does it.
    pub node: u16,
    /// Stripes of the volume.
    pub stripes: u64,
    /// Stripes before the first, which are not looked at.
    pub from: u64,
    /// Stripes that it has read and found true, perhaps after repair.
    pub verified: u64,
    /// Units in which something could not be read and was rebuilt.
    pub rebuilt: u64,
    /// Units that did not fit the rest of their stripe and were computed again.
    pub mismatched: u64,
    /// Stripes whose parity does not fit and it cannot be told why; they are left.
    pub unclear: u64,
    /// Stripes that could not be verified because a column is lost.
    pub skipped: u64,
}

impl ScrubStatus {
    /// How many stripes it is past.
    pub fn done(&self) -> u64 {
        self.from + self.verified + self.skipped
    }
}
