//! What a write changes on one disk.

use std::ops::Range;

use crate::Buffer;
use crate::units::{SECTOR, VolumeId};

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
    /// It is kept beside the old content: content of this data unit of the stripe that no parity describes yet, on the disk of the
    /// data and on those of its parity (`redundancy=copied`).
    Copy(Kept),
    /// It changes nothing there, and drops the copies of this data unit that are earlier, or of all units with
    /// [`ChangeKind::EVERY_UNIT`]: parity describes later content.
    Fold(u8),
}

impl ChangeKind {
    /// Stands for all data units of a stripe in [`ChangeKind::Fold`].
    pub const EVERY_UNIT: u8 = u8::MAX;

    /// Whether it replaces the content, or says that this is out of date.
    pub fn replaces(self) -> bool {
        matches!(self, ChangeKind::Content | ChangeKind::Mark)
    }

    /// Whether it concerns copies, and not the content in place.
    pub fn is_of_copies(self) -> bool {
        matches!(self, ChangeKind::Copy(_) | ChangeKind::Fold(_))
    }

    /// Whether it is a copy.
    pub fn is_copy(self) -> bool {
        matches!(self, ChangeKind::Copy(_))
    }

    /// Whether what it makes depends on what is there.
    pub fn is_delta(self) -> bool {
        self == ChangeKind::Delta
    }

    /// Whether it only says that what is there is out of date.
    pub fn is_mark(self) -> bool {
        self == ChangeKind::Mark
    }
}

/// Of what a copy is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kept {
    /// The data unit of the stripe.
    pub unit: u8,
    /// The volume: no other that has the sectors later sees it.
    pub volume: VolumeId,
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
    /// Whole sectors; of a mark and of a fold zeros, which mean nothing.
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
