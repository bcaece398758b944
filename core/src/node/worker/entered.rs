//! The epochs that a worker has entered.

use crate::units::Timestamp;

/// When the first epoch that it entered began, and when the one in force did.
#[derive(Clone, Copy, Default, Hash)]
pub(super) struct Entered {
    /// Zero before it has entered one.
    first: Timestamp,
    floor: Timestamp,
    /// Writes from before may be undecided, or their aborts not durable.
    settles: bool,
}

impl Entered {
    /// An epoch begins, whose writes all come after `floor`.
    pub fn enter(&mut self, floor: Timestamp) {
        assert!(floor >= self.floor, "an epoch begins before the one that it follows");
        if self.first == Timestamp::ZERO {
            self.first = floor;
        }
        (self.floor, self.settles) = (floor, true);
    }

    /// Whether writes from before it may be undecided, or their aborts not durable.
    pub fn settles(&self) -> bool {
        self.settles
    }

    /// All writes from before it are durably decided.
    pub fn set_settled(&mut self) {
        self.settles = false;
    }

    /// The time of the first epoch that it entered; zero before.
    pub fn first(&self) -> Timestamp {
        self.first
    }

    /// Writes of the epoch in force come after this.
    pub fn floor(&self) -> Timestamp {
        self.floor
    }
}
