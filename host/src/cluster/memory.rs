//! The member's log as a file: what this process has promised the others.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate};
use weft_member::{Persist, Stored};

use crate::durable;
use crate::error::{Error, Result, at, fail};

const FILE: &str = "member.log";
const SPARE: &str = "member.log.new";

/// Room that is kept for what comes, so that a full file system does not stop the member at
/// once.
const ROOM: u64 = 1 << 20;

/// The log of a member, open for writing.
pub(crate) struct Memory {
    dir: PathBuf,
    file: Option<File>,
}

impl Memory {
    /// The log in `dir`, and what it says.
    pub(super) fn open(dir: &Path) -> Result<(Memory, Stored)> {
        let path = dir.join(FILE);
        if !path.exists() {
            return fail(format!(
                "{} is not there: what this node promised the others is lost, and it must not \
                 come back under its number. Take it out of the cluster (`weft node remove`), \
                 choose an empty directory, and let it join again",
                path.display()
            ));
        }
        let bytes = std::fs::read(&path).map_err(at("read", &path))?;
        let stored =
            Stored::replay(&bytes).map_err(|e| Error(format!("{}: {e}", path.display())))?;
        Ok((Memory { dir: dir.to_path_buf(), file: None }, stored))
    }

    /// A log that will be made.
    pub(super) fn new(dir: &Path) -> Memory {
        Memory { dir: dir.to_path_buf(), file: None }
    }

    /// Makes something durable.
    pub(super) fn write(&mut self, persist: &Persist) -> Result<()> {
        let path = self.dir.join(FILE);
        match persist {
            Persist::Replace(bytes) => {
                self.file = None;
                durable::replace(&path, &self.dir.join(SPARE), bytes)
            }
            Persist::Append(bytes) => {
                let file = match &mut self.file {
                    Some(file) => file,
                    none => none.insert(open(&path)?),
                };
                file.write_all(bytes).and_then(|()| file.sync_data()).map_err(at("write to", &path))
            }
        }
    }
}

fn open(path: &Path) -> Result<File> {
    let file = OpenOptions::new().append(true).open(path).map_err(at("open", path))?;
    let len = file.metadata().map_err(at("read", path))?.len();
    // A file system that cannot keep room does without.
    let _ = fallocate(&file, FallocateFlags::KEEP_SIZE, 0, len + ROOM);
    Ok(file)
}
