//! Writes that were found without their content when the disk was opened.

use crate::units::Timestamp;

/// Those whose aborts are not in the journal.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct Doubts {
    /// The first frame with one, until the journal says that it has aborted.
    pub first: Option<u64>,
    /// Those whose aborts may not be reported yet, and their frames.
    writes: Vec<(Timestamp, u64)>,
}

impl Doubts {
    /// The content of a write in this frame was found not to be there.
    pub fn doubt(&mut self, ts: Timestamp, frame: u64) {
        self.first = Some(self.first.map_or(frame, |other| other.min(frame)));
        self.writes.push((ts, frame));
    }

    /// The frames of writes whose aborts may not be reported yet.
    pub fn frames(&self) -> impl Iterator<Item = u64> + '_ {
        self.writes.iter().map(|(_, frame)| *frame)
    }

    /// Their aborts are reported now.
    pub fn take(&mut self) -> Vec<(Timestamp, u64)> {
        std::mem::take(&mut self.writes)
    }

    /// Whether all aborts have been reported, and may not be safe.
    pub fn are_reported(&self) -> bool {
        self.first.is_some() && self.writes.is_empty()
    }
}
