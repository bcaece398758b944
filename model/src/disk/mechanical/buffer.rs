//! What the track buffer holds.

use weft_core::units::Nanos;

use super::Access;

/// One run of sectors, read up to `end` at the time `since`, and being read on up to `limit`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Buffer {
    /// The first sector that it holds.
    pub first: u64,
    /// After the last sector that it holds.
    pub end: u64,
    /// When the last of them was in, and the head free to go on.
    pub since: Nanos,
    /// Where reading on will stop.
    pub limit: u64,
}

impl Buffer {
    /// Whether a read from `first` on can be served from it: it holds the first sector, or
    /// that is the very one being read.
    pub fn helps(&self, first: u64) -> bool {
        let held = (self.first..self.end).contains(&first);
        held || (self.reading_on() && first == self.end)
    }

    /// Whether the disk reads on if left alone.
    pub fn reading_on(&self) -> bool {
        self.end < self.limit
    }

    /// Whether it holds anything of what is to be written.
    pub fn overlaps(&self, write: &Access) -> bool {
        write.first < self.end && write.end() > self.first
    }

    /// The same, but the disk does not read on.
    pub fn stopped(self) -> Self {
        Buffer { limit: self.end, ..self }
    }

    /// Forgets what a buffer of so many sectors has no room for.
    pub fn hold(&mut self, sectors: u64) {
        self.first = self.first.max(self.end.saturating_sub(sectors));
    }
}
