//! Locks that disks serve for their own sectors, and take back after a lease.

use super::*;

/// In all runs.
const LOCKED: Options = Options { ordering: Some(Ordering::DeviceLocks), ..Options::DEFAULT };

/// Content of two times was put together: a write was seen in part (22), and a lost column was computed from it (64).
#[test]
fn reads_that_outlive_their_locks_are_found() {
    for seed in [22, 64] {
        passed(seed, LOCKED);
        assert!(fails(seed, Bug::OutlivesLocks, LOCKED), "seed {seed}");
    }
}
