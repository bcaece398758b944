//! Until when nodes may serve, for all lanes of a process.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weft_core::units::Nanos;

use crate::clock::boot_time;

/// The end of the lease, by the time since boot. The reactor alone moves it, and only forward: a lane that has not heard of
/// a renewal waits too long, and never serves too long.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lease(Arc<AtomicU64>);

/// Clocks of processors may be so far apart.
const APART: Nanos = 1_000_000;

impl Lease {
    /// One that ends then.
    pub(crate) fn until(end: Nanos) -> Lease {
        Lease(Arc::new(AtomicU64::new(end)))
    }

    /// Whether it holds at this moment.
    pub(crate) fn holds(&self) -> bool {
        boot_time() < self.0.load(Ordering::Acquire)
    }

    /// It has been renewed, or not. Says whether a lane may have found that it does not hold, and does now.
    pub(crate) fn renew(&self, end: Nanos) -> bool {
        let before = self.0.fetch_max(end, Ordering::AcqRel);
        let now = boot_time();
        before < end && before <= now + APART && now < end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_only_grows_and_a_lapse_is_noticed() {
        let now = boot_time();
        let lease = Lease::default();
        assert!(!lease.holds() && !lease.renew(1));
        assert!(lease.renew(now + 60_000 * APART), "it begins");
        assert!(lease.holds());
        assert!(!lease.renew(now + 90_000 * APART), "it goes on");
        assert!(!lease.renew(now) && lease.holds(), "it is not shortened");
    }
}
