//! A member's log and its witness on a disk that is not there, for simulated worlds: in which steps they are
//! written, what a crash may leave of them, and what may become of them later. Chance is an argument.

use crate::fault::{self, Bug};
use crate::{LogError, MemberId, Persist, Stored, Witness};

/// A number below the one given, by chance.
pub type Draw<'a> = &'a mut dyn FnMut(usize) -> usize;

/// How often an older copy of the log is kept, for a damage that puts it back: every so many frames.
const COPIES: u64 = 3;

/// The two files, and what is on its way to them.
#[derive(Clone, Debug)]
pub struct LogDisk {
    log: Vec<u8>,
    witness: Vec<u8>,
    notes: Witness,
    writing: Option<(u64, Persist)>,
    /// The slot that is being written, after the log.
    noting: Option<(u64, usize, Vec<u8>)>,
    older: Vec<u8>,
    bug: Option<Bug>,
}

impl LogDisk {
    /// Of a member that has nothing to remember yet.
    pub fn new(member: MemberId) -> LogDisk {
        let notes = Witness::new(member, 0);
        let witness = notes.bytes();
        let (log, older) = (Vec::new(), Vec::new());
        LogDisk { log, witness, notes, writing: None, noting: None, older, bug: None }
    }

    /// With a deliberate bug perhaps.
    pub fn with_bug(self, bug: Option<Bug>) -> LogDisk {
        LogDisk { bug, ..self }
    }

    /// Whether the member has lost its log: it cannot be taken up, or should not be.
    pub fn is_lost(&self) -> bool {
        self.clone().open().is_err() || fault::believes_any_log(self.bug)
    }

    /// Whose log it is.
    pub fn member(&self) -> MemberId {
        self.notes.member()
    }

    /// The member wants this durable.
    pub fn write(&mut self, number: u64, persist: Persist) {
        assert!(self.writing.is_none() && self.noting.is_none(), "two writes at once");
        self.writing = Some((number, persist));
    }

    /// A step of the write has ended. Returns its number when that was the last; there is another one otherwise.
    pub fn step(&mut self) -> Option<u64> {
        if let Some((number, at, slot)) = self.noting.take() {
            self.witness[at..at + slot.len()].copy_from_slice(&slot);
            return Some(number);
        }
        let (number, persist) = self.writing.take().expect("something was being written");
        let (at, slot) = self.notes.note(&persist);
        if persist.frame() % COPIES == 0 {
            self.older.clone_from(&self.log);
        }
        match persist {
            Persist::Append(bytes) => self.log.extend(bytes),
            Persist::Replace(bytes) => self.log = bytes,
        }
        self.noting = Some((number, at as usize, slot));
        None
    }

    /// The process dies: of what was being written, anything may remain.
    pub fn crash(&mut self, draw: Draw) {
        match self.writing.take() {
            Some((_, Persist::Append(bytes))) => {
                let kept = draw(bytes.len() + 1);
                self.log.extend_from_slice(&bytes[..kept]);
                if draw(2) == 1 {
                    // The file had grown, and the rest of it was never written.
                    self.log.resize(self.log.len() + bytes.len() - kept, 0);
                }
            }
            Some((_, Persist::Replace(bytes))) if draw(2) == 1 => self.log = bytes,
            Some((_, Persist::Replace(_))) | None => {}
        }
        if let Some((_, at, slot)) = self.noting.take() {
            let kept = draw(slot.len() + 1);
            self.witness[at..at + kept].copy_from_slice(&slot[..kept]);
        }
    }

    /// What a start finds.
    pub fn open(&mut self) -> Result<Stored, LogError> {
        let witness = fault::witness_heeded(self.bug, self.notes.member(), &self.witness);
        let (stored, notes) = Stored::open(&self.log, Some(&witness))?;
        self.notes = notes;
        Ok(stored)
    }

    /// Something becomes of the files of a process that does not run. Returns what, in words.
    pub fn damage(&mut self, draw: Draw) -> &'static str {
        assert!(self.writing.is_none() && self.noting.is_none(), "it does not run");
        let len = self.log.len();
        if len == 0 {
            return "nothing";
        }
        match draw(7) {
            0 => {
                self.log[draw(len)] ^= 1 << draw(8);
                "rot"
            }
            1 => {
                self.log[draw(len)..].fill(0);
                "zeros at the end"
            }
            2 => {
                self.log.fill(0);
                "nothing but zeros"
            }
            3 => {
                self.log.truncate(draw(len));
                "the end cut off"
            }
            4 => {
                self.log.clear();
                "emptied"
            }
            5 => {
                self.log.clone_from(&self.older);
                "an older copy"
            }
            _ => {
                let at = draw(self.witness.len());
                self.witness[at] ^= 1 << draw(8);
                "rot in the witness"
            }
        }
    }
}
