//! What goes on beside the rounds: it is told when to stop, and tells what went wrong.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use anyhow::{Result, anyhow};

/// Shared by the rounds and some threads beside them.
#[derive(Default)]
pub struct Watch {
    stop: AtomicBool,
    failure: Mutex<Option<String>>,
}

impl Watch {
    /// Asks the threads to come to an end.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Whether a thread is to go on.
    pub fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }

    /// Tells how a thread's work ended; the first that went wrong is kept.
    pub fn tell<T>(&self, result: Result<T>) -> Result<T> {
        if let Err(e) = &result {
            let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
            failure.get_or_insert(format!("{e:#}"));
        }
        result
    }

    /// Fails if a thread has.
    pub fn check(&self) -> Result<()> {
        match &*self.failure.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(why) => Err(anyhow!("{why}")),
            None => Ok(()),
        }
    }
}
