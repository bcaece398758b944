//! The slots of a disk, and what thin volumes use of them.

use serde::{Deserialize, Serialize};
use weft_core::store::SlotCounts;

/// How many slots of a disk are used for what. Each is free, placed or held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SlotsStatus {
    /// All of them.
    pub all: u64,
    /// Those that volumes can have: all but the spare ones.
    pub usable: u64,
    /// Free slots.
    pub free: u64,
    /// Free slots reserved for checkpoints of parts that were never written.
    pub reserved: u64,
    /// Slots with written content.
    pub placed: u64,
    /// Slots that unfinished writes, a checkpoint or readers still need. A quiet node has none.
    pub held: u64,
    /// Slots in use by thin volumes.
    pub thin: u64,
    /// Slots reserved for other volumes, written or not.
    pub promised: u64,
    /// Bytes of a slot.
    pub bytes: u64,
}

impl SlotsStatus {
    /// How much of what volumes can have is reserved or in use, in percent. It matters where a thin volume has a column.
    pub fn full_percent(&self) -> Option<u64> {
        ((self.promised + self.thin) * 100).checked_div(self.usable)
    }

    /// Whether thin volumes find no space any more.
    pub fn is_full(&self) -> bool {
        self.full_percent().is_some_and(|full| full >= 100)
    }
}

impl From<SlotCounts> for SlotsStatus {
    fn from(of: SlotCounts) -> SlotsStatus {
        let SlotCounts { all, usable, free, reserved, placed, held, thin, promised, bytes } = of;
        SlotsStatus { all, usable, free, reserved, placed, held, thin, promised, bytes }
    }
}

/// What a thin volume has on a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ThinStatus {
    /// The volume's number.
    pub volume: u32,
    /// Bytes of slots.
    pub bytes: u64,
    /// Bytes of slots of the volume below that it shows.
    pub shown_bytes: u64,
}
