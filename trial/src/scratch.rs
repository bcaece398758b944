//! A directory for one run, which is gone afterwards however the run ends.
//!
//! A run that is killed at once (SIGKILL, a crash) leaves it. So each has a marker, a file with the
//! directory's name that the run holds a lock on as long as it lives: by that a later run knows what
//! is left over, and [`Scratch::clear_leftovers`] removes it. What has no such marker, or is in use,
//! or holds anything that no run makes, is left as it is.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::{Mutex, Once, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tempfile::TempDir;

/// A file system in memory.
pub const MEMORY: &str = "/dev/shm";

/// The directory to remove when the run is interrupted.
static IN_USE: Mutex<Option<PathBuf>> = Mutex::new(None);

/// The marker's name.
const MARKER: &str = "weft-scratch";

/// What stands in the marker of a directory of this name.
fn mark(name: &OsStr) -> String {
    format!("made by weft for one run, which removes it: {}\n", name.to_string_lossy())
}

/// A temporary directory. There is one at a time.
pub struct Scratch {
    dir: TempDir,
    /// Locked as long as this lives.
    _marker: File,
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
        let _marker = put_marker(dir.path())
            .with_context(|| format!("cannot mark {}", dir.path().display()))?;
        Ok(Scratch { dir, _marker })
    }

    /// Removes what runs that were killed left in `parent`, whose directories begin with `prefix` and hold
    /// nothing but files for which `makes` holds.
    ///
    /// # Errors
    /// If such a directory holds anything else, or cannot be removed; with what to do. Then nothing of
    /// it is removed.
    pub fn clear_leftovers(prefix: &str, parent: &Path, makes: fn(&str) -> bool) -> Result<()> {
        let cannot = || format!("cannot look into {}", parent.display());
        for entry in fs::read_dir(parent).with_context(cannot)? {
            let entry = entry.with_context(cannot)?;
            let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if !is_dir || !entry.file_name().to_string_lossy().starts_with(prefix) {
                continue;
            }
            let dir = entry.path();
            if let Some(lock) = left_over(&dir) {
                remove_files(&dir, makes)?;
                eprintln!("removed {}, which a run that was killed had left", dir.display());
                drop(lock);
            }
        }
        Ok(())
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

/// Makes a directory's marker, and locks it. What is in it comes last: until then nobody takes the
/// directory for left over.
fn put_marker(dir: &Path) -> Result<File> {
    let mut marker = File::create_new(dir.join(MARKER))?;
    marker.lock()?;
    marker.write_all(mark(dir.file_name().unwrap_or_default()).as_bytes())?;
    Ok(marker)
}

/// The lock of a directory that a run made which lives no more; `None` of any other.
fn left_over(dir: &Path) -> Option<File> {
    let marker = dir.join(MARKER);
    let is_file = fs::symlink_metadata(&marker).is_ok_and(|there| there.is_file());
    let marker = is_file.then(|| File::open(&marker).ok()).flatten()?;
    marker.try_lock().ok()?;
    let name = dir.file_name()?;
    let is_own = fs::read_to_string(dir.join(MARKER)).is_ok_and(|t| t == mark(name));
    is_own.then_some(marker)
}

/// Removes a directory that was left over, the marker last; unless it holds what no run makes.
fn remove_files(dir: &Path, makes: fn(&str) -> bool) -> Result<()> {
    let cannot =
        || format!("cannot remove {}, which a run that was killed had left", dir.display());
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).with_context(cannot)? {
        let entry = entry.with_context(cannot)?;
        let (name, is_dir) = (entry.file_name(), entry.file_type().is_ok_and(|k| k.is_dir()));
        if name == MARKER {
            continue;
        }
        if is_dir || !name.to_str().is_some_and(makes) {
            bail!(
                "{} was left by a run that was killed, and it holds {}, which no run makes: move that \
                 away and run this again, or remove the directory yourself",
                dir.display(),
                name.display()
            );
        }
        files.push(entry.path());
    }
    files.push(dir.join(MARKER));
    files.iter().try_for_each(fs::remove_file).with_context(cannot)?;
    fs::remove_dir(dir).with_context(cannot)
}

fn remember(dir: Option<PathBuf>) {
    *IN_USE.lock().unwrap_or_else(PoisonError::into_inner) = dir;
}

/// Waits for interrupts in a thread of its own: the run itself may be waiting for the array.
fn watch() -> Result<()> {
    static ONCE: Once = Once::new();
    let mut outcome = Ok(());
    ONCE.call_once(|| {
        outcome = Signals::new([SIGINT, SIGTERM, SIGHUP]).and_then(|mut signals| {
            let wait = move || signals.forever().next().map(interrupted);
            thread::Builder::new().spawn(wait).map(drop)
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

#[cfg(test)]
mod tests {
    use super::*;

    const PREFIX: &str = "weft-test-";

    fn makes(name: &str) -> bool {
        name == "disk"
    }

    fn clear(parent: &Path) -> Result<()> {
        Scratch::clear_leftovers(PREFIX, parent, makes)
    }

    /// A directory with its marker, as a run has it.
    fn run(parent: &Path, name: &str) -> (PathBuf, File) {
        let dir = parent.join(format!("{PREFIX}{name}"));
        fs::create_dir(&dir).unwrap();
        let marker = put_marker(&dir).unwrap();
        fs::write(dir.join("disk"), "data").unwrap();
        (dir, marker)
    }

    #[test]
    fn what_a_run_left_is_removed_once_it_lives_no_more() {
        let parent = tempfile::tempdir().unwrap();
        let (dir, marker) = run(parent.path(), "a");
        clear(parent.path()).unwrap();
        assert!(dir.join("disk").exists(), "its run lives");
        drop(marker);
        clear(parent.path()).unwrap();
        assert!(!dir.exists());
    }

    #[test]
    fn what_no_run_made_is_left_as_it_is() {
        let parent = tempfile::tempdir().unwrap();
        // No marker; another's marker, as of a copy; another name; a marker that is not whole.
        let dirs = ["weft-test-none", "weft-test-copy", "mine", "weft-test-new"];
        for name in dirs {
            fs::create_dir(parent.path().join(name)).unwrap();
            fs::write(parent.path().join(name).join("disk"), "data").unwrap();
        }
        let put = |name: &str, of: &str| {
            fs::write(parent.path().join(name).join(MARKER), mark(OsStr::new(of))).unwrap();
        };
        put("weft-test-copy", "weft-test-original");
        put("mine", "mine");
        fs::write(parent.path().join("weft-test-new").join(MARKER), "").unwrap();
        clear(parent.path()).unwrap();
        assert!(dirs.iter().all(|name| parent.path().join(name).join("disk").exists()));
    }

    #[test]
    fn a_leftover_with_something_foreign_in_it_is_refused_whole() {
        let parent = tempfile::tempdir().unwrap();
        let (dir, marker) = run(parent.path(), "a");
        drop(marker);
        fs::write(dir.join("thesis.tex"), "dear").unwrap();
        let said = clear(parent.path()).unwrap_err().to_string();
        assert!(said.contains("it holds thesis.tex") && said.contains("move that away"), "{said}");
        assert!(dir.join("disk").exists() && dir.join("thesis.tex").exists());
        fs::remove_file(dir.join("thesis.tex")).unwrap();
        clear(parent.path()).unwrap();
        assert!(!dir.exists());
    }
}
