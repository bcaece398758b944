//! The memory budget of hosts' connections: `--memory`.
//!
//! Each connection may use 256 KiB in any case, so that no host waits for another with short requests. What connections
//! use beyond that, for requests in progress and unsent replies, shares the budget. A request longer than 256 KiB waits
//! until the budget has room for all of it. Such requests begin in turn. While one waits, others begin nothing beyond
//! their 256 KiB, so room that becomes free is left for it.
//!
//! A connection that may use no more is not read from. Its host waits until replies have been sent.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What each connection may use, whatever the others use.
const SHARE: u64 = 256 << 10;

/// The budget, and how much of it is used. One thread works with it; others may look.
#[derive(Debug)]
pub(crate) struct Budget {
    total: u64,
    /// What connections use beyond their shares.
    used: AtomicU64,
    /// The connection whose long request is next, by its number here; 0 if none waits.
    first: AtomicU64,
    latest: AtomicU64,
}

impl Budget {
    /// A budget of this many bytes.
    pub(crate) fn new(total: u64) -> Arc<Budget> {
        let none = || AtomicU64::new(0);
        let (used, first, latest) = (none(), none(), none());
        Arc::new(Budget { total, used, first, latest })
    }

    /// Bytes that connections use beyond their shares.
    pub(crate) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }
}

/// What one connection uses of the budget.
#[derive(Debug)]
pub(crate) struct Use {
    budget: Arc<Budget>,
    number: u64,
    bytes: u64,
}

impl Use {
    /// The use of a new connection: nothing.
    pub(crate) fn new(budget: &Arc<Budget>) -> Use {
        let number = budget.latest.fetch_add(1, Ordering::Relaxed) + 1;
        Use { budget: budget.clone(), number, bytes: 0 }
    }

    /// The connection uses this many bytes now.
    pub(crate) fn is(&mut self, bytes: u64) {
        self.budget.used.fetch_add(beyond_share(bytes), Ordering::Relaxed);
        self.budget.used.fetch_sub(beyond_share(self.bytes), Ordering::Relaxed);
        self.bytes = bytes;
    }

    /// Whether the connection may begin no more requests.
    pub(crate) fn is_used_up(&self) -> bool {
        let is_full = self.budget.used() >= self.budget.total;
        self.bytes >= SHARE && (is_full || self.must_wait_its_turn())
    }

    /// Whether the connection uses memory that others could use.
    pub(crate) fn is_beyond_share(&self) -> bool {
        self.bytes > SHARE
    }

    /// Whether a request of this many bytes may begin. One that is longer than the budget must be alone.
    pub(crate) fn has_room_for(&self, bytes: u64) -> bool {
        if bytes <= SHARE {
            return true;
        }
        let others = self.budget.used() - beyond_share(self.bytes);
        let own = beyond_share(self.bytes.saturating_add(bytes));
        let fits = self.budget.used() == 0 || others.saturating_add(own) <= self.budget.total;
        fits && !self.must_wait_its_turn()
    }

    /// Whether the long request of another connection is next.
    fn must_wait_its_turn(&self) -> bool {
        ![0, self.number].contains(&self.budget.first.load(Ordering::Relaxed))
    }

    /// The connection's long request is next.
    pub(crate) fn is_first(&self) {
        self.budget.first.store(self.number, Ordering::Relaxed);
    }

    /// The connection's long request is not next any more, if it was.
    pub(crate) fn is_not_first(&self) {
        let (own, order) = (self.number, Ordering::Relaxed);
        // Otherwise it is another's.
        let _ = self.budget.first.compare_exchange(own, 0, order, order);
    }
}

fn beyond_share(bytes: u64) -> u64 {
    bytes.saturating_sub(SHARE)
}

impl Drop for Use {
    fn drop(&mut self) {
        self.is(0);
        self.is_not_first();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_bounded_and_nobody_waits_for_others() {
        let budget = Budget::new(10 * SHARE);
        let mut greedy = Use::new(&budget);
        greedy.is(10 * SHARE);
        assert!(!greedy.is_used_up());
        greedy.is(11 * SHARE);
        assert!(greedy.is_used_up());
        let mut other = Use::new(&budget);
        other.is(SHARE - 1);
        assert!(!other.is_used_up(), "it has its share");
        other.is(SHARE);
        assert!(other.is_used_up());
        greedy.is(SHARE);
        assert!(!other.is_used_up() && budget.used() == 0);
        drop((greedy, other));
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn long_requests_wait_for_room_and_short_ones_do_not() {
        let budget = Budget::new(10 * SHARE);
        let (mut one, other) = (Use::new(&budget), Use::new(&budget));
        assert!(other.has_room_for(20 * SHARE), "it is alone");
        one.is(5 * SHARE);
        assert!(other.has_room_for(7 * SHARE) && !other.has_room_for(7 * SHARE + 1));
        one.is(11 * SHARE);
        assert!(other.has_room_for(SHARE) && !other.has_room_for(SHARE + 1));
    }

    #[test]
    fn room_that_becomes_free_is_left_for_who_is_first() {
        let budget = Budget::new(10 * SHARE);
        let [mut busy, long, longer] = [(); 3].map(|()| Use::new(&budget));
        busy.is(8 * SHARE);
        assert!(!long.has_room_for(5 * SHARE) && longer.has_room_for(4 * SHARE));
        long.is_first();
        assert!(busy.is_used_up() && !longer.has_room_for(4 * SHARE), "another is first");
        assert!(busy.has_room_for(SHARE), "short ones go on");
        busy.is(SHARE - 1);
        assert!(!busy.is_used_up(), "within its share");
        assert!(long.has_room_for(5 * SHARE));
        longer.is_not_first();
        assert!(!longer.has_room_for(4 * SHARE), "it was not the first");
        drop(long);
        assert!(longer.has_room_for(4 * SHARE), "who was first is gone");
    }
}
