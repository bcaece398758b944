//! Errors of a disk that may pass: a write finds no free space, or a read or a write fails once. A flush that fails is never
//! tried again: the kernel reports lost pages once, and a second flush would succeed. For the same reason nor is a durable
//! write through the page cache, or through a cache of the device that is flushed for it.
//!
//! A full file system is not a failed disk. What is on the disk can be read, and what writes wait for may come: so they are
//! retried until it does. Meanwhile the disk counts as full (`engine::hung` decides what follows from that).

use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::io::Errno;

/// How long a write that found no free space waits before it is retried.
pub(crate) const RETRY_AFTER: Duration = Duration::from_millis(250);

/// How many writes to a disk wait for free space.
#[derive(Debug, Default)]
pub(crate) struct Space {
    waiting: AtomicUsize,
    /// When the first of them began to wait.
    since: Mutex<Option<Instant>>,
}

impl Space {
    /// One more waits.
    pub(crate) fn is_awaited(&self) {
        if self.waiting.fetch_add(1, Ordering::Relaxed) == 0 {
            *self.since.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        }
    }

    /// One has found some, or is not retried any more.
    pub(crate) fn is_found(&self) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }

    /// For how long writes have waited for it, if any do.
    pub(crate) fn lacks_for(&self) -> Option<Duration> {
        let since = *self.since.lock().unwrap_or_else(PoisonError::into_inner);
        since.filter(|_| self.waiting.load(Ordering::Relaxed) > 0).map(|since| since.elapsed())
    }
}

/// Whether an operation found no free space, on the file system or within a quota.
pub(crate) fn is_full(error: &io::Error) -> bool {
    let full = [Errno::NOSPC, Errno::DQUOT].map(|e| Some(e.raw_os_error()));
    full.contains(&error.raw_os_error())
}

/// Whether a read or a write that failed with this error is tried a second time.
pub(crate) fn may_pass(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::IO.raw_os_error())
}

/// Counts errors that have passed: the second try succeeded.
#[derive(Debug, Default)]
pub(crate) struct Passed(AtomicU64);

impl Passed {
    /// One more has.
    pub(crate) fn count(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// How many have.
    pub(crate) fn so_far(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
