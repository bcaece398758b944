//! What a write changes on one disk.

use std::ops::Range;

use crate::Buffer;
use crate::units::SECTOR;

/// What a change does to what is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChangeKind {
    /// It takes the place of what is there.
    Content,
    /// It is added to what is there.
    Delta,
    /// It says that what is there is out of date, and puts nothing in its place: parity that waits (AFRAID), or data
    /// that is lost for good. The sectors are erased until content of a later write comes.
    Mark,
}

impl ChangeKind {
    /// Whether what it makes depends on what is there.
    pub fn is_delta(self) -> bool {
        self == ChangeKind::Delta
    }

    /// Whether it only says that what is there is out of date.
    pub fn is_mark(self) -> bool {
        self == ChangeKind::Mark
    }
}

/// Sectors that a write changes, and how.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Changed {
    /// The data sectors.
    pub sectors: Range<u64>,
    /// What becomes of them.
    pub kind: ChangeKind,
}

/// One contiguous part of a write.
#[derive(Clone, Debug, Hash)]
pub struct Change {
    /// First data sector.
    pub sector: u64,
    /// Whether `data` is put there or added.
    pub kind: ChangeKind,
    /// Whole sectors; of a mark zeros, which mean nothing.
    pub data: Buffer,
}

impl Change {
    /// How many sectors.
    pub fn count(&self) -> u64 {
        self.data.len() as u64 / SECTOR
    }

    /// The data sectors.
    pub fn sectors(&self) -> Range<u64> {
        self.sector..self.sector + self.count()
    }

    /// Which sectors it changes, and how.
    pub fn changed(&self) -> Changed {
        Changed { sectors: self.sectors(), kind: self.kind }
    }
}
