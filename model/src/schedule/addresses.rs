//! Guessing positions from addresses.

use super::Positions;

/// A disk of which only the addresses are known. Neighbouring addresses are taken to lie near
/// each other, which holds for all common disks; rotation is unknown, so an access costs as
/// much as its seek.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Addresses {
    /// The address after the end of the access that was started last.
    pub here: u64,
}

impl Positions<u64> for Addresses {
    fn address(&self, request: &u64) -> u64 {
        *request
    }

    fn here(&self) -> u64 {
        self.here
    }

    fn seek(&self, request: &u64) -> u64 {
        request.abs_diff(self.here)
    }

    fn access(&self, request: &u64) -> u64 {
        self.seek(request)
    }
}
