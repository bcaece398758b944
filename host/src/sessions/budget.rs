//! Memory for hosts' requests and their answers, of all connections together.
//!
//! Each connection may have a share in any case, so that none waits for others. Beyond that it may have more only while
//! all together have less than the budget. A connection that has too much is not read from until it has taken its answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a connection may have however much the others have.
const SHARE: u64 = 256 << 10;

/// The budget, and what is in use.
#[derive(Debug)]
pub(crate) struct Budget {
    all: u64,
    used: AtomicU64,
}

impl Budget {
    /// Of this many bytes.
    pub(crate) fn new(all: u64) -> Arc<Budget> {
        Arc::new(Budget { all, used: AtomicU64::new(0) })
    }

    /// Bytes in use.
    pub(crate) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }
}

/// What a connection uses of the budget.
#[derive(Debug)]
pub(crate) struct Use {
    budget: Arc<Budget>,
    bytes: u64,
}

impl Use {
    /// Of one that has just come in.
    pub(crate) fn new(budget: &Arc<Budget>) -> Use {
        Use { budget: budget.clone(), bytes: 0 }
    }

    /// It uses this many bytes now.
    pub(crate) fn is(&mut self, bytes: u64) {
        self.budget.used.fetch_add(bytes, Ordering::Relaxed);
        self.budget.used.fetch_sub(self.bytes, Ordering::Relaxed);
        self.bytes = bytes;
    }

    /// Whether it may not have more.
    pub(crate) fn is_used_up(&self) -> bool {
        self.bytes >= SHARE && self.budget.used() >= self.budget.all
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
    fn what_all_have_is_bounded_and_nobody_waits_for_others() {
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
}
