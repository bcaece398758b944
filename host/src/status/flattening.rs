//! Clones that become independent of the snapshots below them.

use serde::{Deserialize, Serialize};

/// How far a clone is with becoming independent of the snapshot below it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FlatteningStatus {
    /// How much of it the disks have looked at, on average; it begins again when the map changes. `null` while they wait,
    /// because one of them is away, lacks something or is being filled.
    pub percent: Option<f64>,
    /// Nodes whose disks have no space for it.
    pub full: Vec<u16>,
}

/// How far a disk is with a volume that is flattened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FlatteningOnDisk {
    /// The volume's number.
    pub volume: u32,
    /// How much of it has been looked at.
    pub thousandths: u64,
    /// Whether it waits for space.
    pub lacks_space: bool,
}
