//! What locks and timestamps cost the workers that keep them (`nodes.path.lock`; shared storage 4.4 and 4.5).

use weft_core::node::{Body, Input, Notice};

use super::super::Ordering;
use super::Simulation;

impl Simulation {
    /// The messages of an input that ask for a worker's locks, give them back, have it check timestamps or enter
    /// prewrites: what reads and writes is one, and one that a transaction has read what it read.
    pub(super) fn locks_in(&self, node: u32, input: &Input) -> u64 {
        let Input::Message(message) = input else { return 0 };
        let has_own =
            matches!(self.system.volume.ordering, Ordering::DeviceLocks | Ordering::Timestamps);
        if !has_own || self.diskless.has(node) {
            return 0;
        }
        let asks = matches!(
            message.body,
            Some(Body::Read { .. } | Body::Write { .. } | Body::Part { .. })
        );
        let back = message.notices.iter().filter(|n| matches!(n, Notice::Unlock(_))).count();
        u64::from(asks) + back as u64
    }
}
