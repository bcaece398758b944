//! The memory budget of hosts' connections: `--memory`.
//!
//! Requests in progress and unsent replies of all connections share the budget. Each connection may use 256 KiB in any
//! case, so that no host waits for another with short requests. It may use more while the total is below the budget. A
//! longer request waits until the budget has room for all of it.
//!
//! A connection that may use no more is not read from. Its host waits until replies have been sent.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What each connection may use, whatever the others use.
const SHARE: u64 = 256 << 10;

/// The budget, and how much of it is used.
#[derive(Debug)]
pub(crate) struct Budget {
    total: u64,
    used: AtomicU64,
}

impl Budget {
    /// A budget of this many bytes.
    pub(crate) fn new(total: u64) -> Arc<Budget> {
        Arc::new(Budget { total, used: AtomicU64::new(0) })
    }

    /// Bytes that are used.
    pub(crate) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }
}

/// What one connection uses of the budget.
#[derive(Debug)]
pub(crate) struct Use {
    budget: Arc<Budget>,
    bytes: u64,
}

impl Use {
    /// The use of a new connection: nothing.
    pub(crate) fn new(budget: &Arc<Budget>) -> Use {
        Use { budget: budget.clone(), bytes: 0 }
    }

    /// The connection uses this many bytes now.
    pub(crate) fn is(&mut self, bytes: u64) {
        self.budget.used.fetch_add(bytes, Ordering::Relaxed);
        self.budget.used.fetch_sub(self.bytes, Ordering::Relaxed);
        self.bytes = bytes;
    }

    /// Whether the connection may begin no more requests.
    pub(crate) fn is_used_up(&self) -> bool {
        self.bytes >= SHARE && self.budget.used() >= self.budget.total
    }

    /// Whether a request of this many bytes may begin. One that is longer than the budget must be alone.
    pub(crate) fn has_room_for(&self, bytes: u64) -> bool {
        let used = self.budget.used();
        bytes <= SHARE || used == 0 || used.saturating_add(bytes) <= self.budget.total
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        self.is(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_bounded_and_nobody_waits_for_others() {
        let budget = Budget::new(10 * SHARE);
        let mut greedy = Use::new(&budget);
        greedy.is(9 * SHARE);
        assert!(!greedy.is_used_up());
        greedy.is(10 * SHARE);
        assert!(greedy.is_used_up());
        let mut other = Use::new(&budget);
        other.is(SHARE - 1);
        assert!(!other.is_used_up(), "it has its share");
        other.is(SHARE);
        assert!(other.is_used_up());
        greedy.is(SHARE);
        assert!(!other.is_used_up() && budget.used() == 2 * SHARE);
        drop((greedy, other));
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn long_requests_wait_for_room_and_short_ones_do_not() {
        let budget = Budget::new(10 * SHARE);
        let (mut one, other) = (Use::new(&budget), Use::new(&budget));
        assert!(other.has_room_for(11 * SHARE), "it is alone");
        one.is(4 * SHARE);
        assert!(other.has_room_for(6 * SHARE) && !other.has_room_for(6 * SHARE + 1));
        one.is(10 * SHARE);
        assert!(other.has_room_for(SHARE) && !other.has_room_for(SHARE + 1));
    }
}
