//! The member's log as a file, with its witness: what this process has promised the others.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use weft_member::{LogError, MemberId, Persist, Stored, Witness};

use crate::durable;
use crate::error::{Error, Result, at};

const FILE: &str = "member.log";
const SPARE: &str = "member.log.new";
const WITNESS: &str = "member.witness";
const WITNESS_SPARE: &str = "member.witness.new";

/// Where a damaged log goes when its process is to be admitted anew.
const LOST: &str = "member.log.lost";

/// Why a log is not to be taken up that looks whole, as the leader has found.
const OUTDATED: &str = "member.outdated";
const OUTDATED_SPARE: &str = "member.outdated.new";

/// What to do when a log is lost.
const REMEDY: &str = "This process does not take part, because it could contradict its earlier \
                      votes. If most of the cluster's voting members \
     have their logs, `weft cluster readmit --config FILE` and then `weft node --config FILE` readmit it; its disks stay \
     unchanged. If most have lost theirs, `weft recover --config FILE --found` founds the cluster again with the map on the \
     disks (without --found it only lists copies)";

/// Room that is kept for what comes, so that a full file system does not stop the member at
/// once.
const ROOM: u64 = 1 << 20;

/// An operator's change must leave this much, so that nodes can still leave and return.
const LEAST_ROOM: u64 = ROOM / 4;

/// Why a member's log cannot be taken up.
pub(super) enum Trouble {
    /// What the member promised is or may be lost. It says which number the member had, if that can be read.
    Lost(Error),
    /// It can be read, and is the wrong one; or it cannot be read.
    Other(Error),
}

impl From<Trouble> for Error {
    fn from(trouble: Trouble) -> Error {
        match trouble {
            Trouble::Lost(Error(why)) => Error(format!("{why}. {REMEDY}")),
            Trouble::Other(error) => error,
        }
    }
}

/// Says that the log has turned out to be an older one, and what to do. That is kept, since the log itself does not show
/// it: the process does not start with it again, and may be admitted anew.
pub(super) fn lost(dir: &Path, why: &LogError) -> Error {
    let why = format!("{}: {why}", dir.join(FILE).display());
    match durable::replace(&dir.join(OUTDATED), &dir.join(OUTDATED_SPARE), why.as_bytes()) {
        Ok(()) => Trouble::Lost(Error(why)).into(),
        Err(Error(e)) => {
            Error(format!("{why}; and this cannot be recorded for the next start: {e}"))
        }
    }
}

/// The log of a member, open for writing.
pub(crate) struct Memory {
    dir: PathBuf,
    witness: Witness,
    file: Option<LogFile>,
    witness_file: Option<File>,
    /// Progress of a failed write, which must be repeated.
    failed: Failed,
}

/// The file that records are appended to.
struct LogFile {
    file: File,
    /// Bytes of the records that are durable. What stands behind them is of a write that failed.
    len: u64,
}

/// How far a write got before it failed.
#[derive(Default)]
struct Failed {
    /// The record is in the log.
    in_log: bool,
    /// What the witness is to say of it, and where.
    slot: Option<(u64, Vec<u8>)>,
}

impl Memory {
    /// The log in `dir`, and what it says.
    pub(super) fn open(dir: &Path) -> std::result::Result<(Memory, Stored), Trouble> {
        let (stored, witness) = Memory::read(dir)?;
        Ok((Memory::of(dir, witness), stored))
    }

    /// A log of this member that is to be made, in the place of any that is there.
    pub(super) fn new(dir: &Path, member: MemberId) -> Result<Memory> {
        if let Some(bytes) = read(&dir.join(FILE))? {
            // It stays until another one takes its place.
            let lost = dir.join(LOST);
            durable::replace(&lost, &dir.join(SPARE), &bytes)?;
        }
        let memory = Memory::of(dir, Witness::new(member, 0));
        // From here on the old log is not that of the witness's member, so that it is not taken up either.
        memory.write_witness()?;
        durable::remove(&dir.join(OUTDATED))?;
        Ok(memory)
    }

    /// What the log in `dir` says, also while its process runs. Nothing is changed.
    pub(super) fn look(dir: &Path) -> Result<Stored> {
        Ok(Memory::read(dir)?.0)
    }

    /// What the log says, and its witness.
    fn read(dir: &Path) -> std::result::Result<(Stored, Witness), Trouble> {
        if let Some(why) = read(&dir.join(OUTDATED))? {
            return Err(Trouble::Lost(Error(String::from_utf8_lossy(&why).into_owned())));
        }
        // The witness first: a process that runs notes there what is in the log already.
        let witness = read(&dir.join(WITNESS))?;
        let path = dir.join(FILE);
        let Some(bytes) = read(&path)? else {
            let text = "is missing: this process's votes are lost";
            return Err(Trouble::Lost(Error(format!("{} {text}", path.display()))));
        };
        Stored::open(&bytes, witness.as_deref()).map_err(|e| {
            let error = Error(format!("{}: {e}", path.display()));
            if e.is_loss() { Trouble::Lost(error) } else { Trouble::Other(error) }
        })
    }

    /// What can be read of a log that is lost: for its map, and never to go on with.
    pub(super) fn salvage(dir: &Path) -> Option<Stored> {
        Stored::salvage(&std::fs::read(dir.join(FILE)).ok()?)
    }

    fn of(dir: &Path, witness: Witness) -> Memory {
        let failed = Failed::default();
        Memory { dir: dir.to_path_buf(), witness, file: None, witness_file: None, failed }
    }

    fn write_witness(&self) -> Result<()> {
        let (path, spare) = (self.dir.join(WITNESS), self.dir.join(WITNESS_SPARE));
        durable::replace(&path, &spare, &self.witness.bytes())
    }

    /// Makes something durable, and notes that it is. If that fails, the same must be written before anything else: it
    /// goes on where it failed.
    pub(super) fn write(&mut self, persist: &Persist) -> Result<()> {
        if !self.failed.in_log {
            self.write_log(persist)?;
            self.failed.in_log = true;
        }
        self.note(persist)?;
        self.failed = Failed::default();
        Ok(())
    }

    /// Tests whether the directory is writable, and has room for more in the log and in the next one, which overwrites
    /// the byte that this writes.
    pub(super) fn try_to_write(&self) -> Result<()> {
        let (path, log) = (self.dir.join(SPARE), self.dir.join(FILE));
        let test = || {
            let log = OpenOptions::new().write(true).open(log)?;
            let mut options = durable::private_file();
            let spare = options.write(true).create(true).truncate(false).open(&path)?;
            spare.write_all_at(&[0], 0)?;
            let least = log.metadata()?.len() + LEAST_ROOM;
            durable::keep_room(&log, least)?;
            durable::keep_room(&spare, least)?;
            spare.sync_data()
        };
        test().map_err(at("write to", &path))
    }

    fn write_log(&mut self, persist: &Persist) -> Result<()> {
        let path = self.dir.join(FILE);
        match persist {
            Persist::Replace(bytes) => {
                self.file = None;
                durable::replace(&path, &self.dir.join(SPARE), bytes)
            }
            Persist::Append(bytes) => {
                let log = match &mut self.file {
                    Some(log) => log,
                    none => none.insert(LogFile::open(&path)?),
                };
                // After a flush that failed, the next one says nothing of these bytes unless they are written again.
                let written = log.file.write_all_at(bytes, log.len);
                written.and_then(|()| log.file.sync_data()).map_err(at("write to", &path))?;
                log.len += bytes.len() as u64;
                Ok(())
            }
        }
    }

    fn note(&mut self, persist: &Persist) -> Result<()> {
        let path = self.dir.join(WITNESS);
        let file = match &mut self.witness_file {
            Some(file) => file,
            none => {
                let opened = OpenOptions::new().write(true).open(&path);
                none.insert(opened.map_err(at("open", &path))?)
            }
        };
        let witness = &mut self.witness;
        let (offset, slot) = self.failed.slot.get_or_insert_with(|| witness.note(persist));
        let written = file.write_all_at(slot, *offset).and_then(|()| file.sync_data());
        written.map_err(at("write to", &path))
    }
}

fn read(path: &Path) -> std::result::Result<Option<Vec<u8>>, Trouble> {
    if !durable::is_there(path).map_err(Trouble::Other)? {
        return Ok(None);
    }
    std::fs::read(path).map(Some).map_err(at("read", path)).map_err(Trouble::Other)
}

impl LogFile {
    fn open(path: &Path) -> Result<LogFile> {
        let file = OpenOptions::new().write(true).open(path).map_err(at("open", path))?;
        let len = file.metadata().map_err(at("read", path))?.len();
        // The existing room must do if there is no more.
        let _ = durable::keep_room(&file, len + ROOM);
        Ok(LogFile { file, len })
    }
}
