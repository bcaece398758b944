//! Errors of a disk that may pass: a write finds no free space, or an operation fails once.
//!
//! A full file system is not a failed disk. What is on the disk can be read, and what writes wait for may come: so they are
//! retried until it does. Meanwhile the disk counts as full (`engine::hung` decides what follows from that).

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustix::io::Errno;

/// How long a write that found no free space waits before it is retried.
pub(crate) const RETRY_AFTER: Duration = Duration::from_millis(250);

/// How many writes to a disk wait for free space.
#[derive(Debug, Default)]
pub(crate) struct Space(AtomicUsize);

impl Space {
    /// One more waits.
    pub(crate) fn is_awaited(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// One has found some, or is not retried any more.
    pub(crate) fn is_found(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether writes wait for it.
    pub(crate) fn is_lacking(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }
}

/// Whether an operation found no free space, on the file system or within a quota.
pub(crate) fn is_full(error: &io::Error) -> bool {
    let full = [Errno::NOSPC, Errno::DQUOT].map(|e| Some(e.raw_os_error()));
    full.contains(&error.raw_os_error())
}

/// Whether an operation that failed with this error is tried a second time.
pub(crate) fn may_pass(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::IO.raw_os_error())
}
