//! A directory for one run, which is gone afterwards however the run ends.

use std::fs;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::{Mutex, Once, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tempfile::TempDir;

/// The directory to remove when the run is interrupted.
static IN_USE: Mutex<Option<PathBuf>> = Mutex::new(None);

/// A temporary directory. There is one at a time.
pub struct Scratch {
    dir: TempDir,
}

impl Scratch {
    /// Makes one in `parent`. From now on an interrupt removes it and ends the process.
    pub fn new(prefix: &str, parent: &Path) -> Result<Scratch> {
        watch()?;
        let dir = tempfile::Builder::new()
            .prefix(prefix)
            .tempdir_in(parent)
            .with_context(|| format!("cannot make a directory in {}", parent.display()))?;
        remember(Some(dir.path().to_path_buf()));
        Ok(Scratch { dir })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Leaves it where it is.
    pub fn keep(mut self) -> PathBuf {
        self.dir.disable_cleanup(true);
        self.dir.path().to_path_buf()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        remember(None);
    }
}

fn remember(dir: Option<PathBuf>) {
    *IN_USE.lock().unwrap_or_else(PoisonError::into_inner) = dir;
}

/// Waits for interrupts in a thread of its own: the run itself may be waiting for the array.
fn watch() -> Result<()> {
    static ONCE: Once = Once::new();
    let mut outcome = Ok(());
    ONCE.call_once(|| {
        outcome = Signals::new([SIGINT, SIGTERM, SIGHUP]).map(|mut signals| {
            thread::spawn(move || signals.forever().next().map(interrupted));
        });
    });
    outcome.context("cannot wait for signals")
}

fn interrupted(signal: i32) {
    let dir = IN_USE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(dir) = &*dir {
        // The array still runs, and may make a file while its directory is being removed.
        let gone = (0..10).any(|n| {
            thread::sleep(Duration::from_millis(10 * n));
            fs::remove_dir_all(dir).is_ok() || !dir.exists()
        });
        let state = if gone { "is removed" } else { "could not be removed" };
        eprintln!("\ninterrupted; {} {state}", dir.display());
    }
    process::exit(128 + signal);
}
