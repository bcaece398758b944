//! What a store asks of its disk, and what it has to say to its worker.

use std::ops::Range;

use super::change::Changed;
use super::format::FormatError;
use crate::Buffer;
use crate::units::Timestamp;

/// Something to do to the disk. Offsets and lengths are bytes, multiples of the sector.
#[derive(Clone, Debug, Hash)]
pub enum DiskOp {
    /// Read.
    Read {
        /// First byte.
        offset: u64,
        /// Bytes.
        len: u64,
    },
    /// Write; with `durable` the data must be safe from a power cut when it ends.
    Write {
        /// First byte.
        offset: u64,
        /// What, in pieces that follow one another.
        data: Vec<Buffer>,
        /// Whether the end of it means safe.
        durable: bool,
    },
    /// Make every write that has ended safe from a power cut.
    Flush,
    /// What stands here is not needed any more.
    Discard {
        /// First byte.
        offset: u64,
        /// Bytes.
        len: u64,
    },
}

/// Whether somebody waits for a disk operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Urgency {
    /// A host does, or another node, or room in the journal.
    Awaited,
    /// Nobody does: it belongs to putting in place what is durable already, and may give way.
    Placing,
}

/// A disk operation with the number by which its end is told.
#[derive(Clone, Debug, Hash)]
pub struct DiskRequest {
    /// The number.
    pub id: u64,
    /// The operation.
    pub op: DiskOp,
    /// Whether somebody waits for it.
    pub urgency: Urgency,
}

/// How a disk operation ended: what was read (nothing for others), or what went wrong.
pub type DiskResult = Result<Buffer, String>;

/// Something that the store has to say.
#[derive(Clone, Debug, Hash)]
pub enum Event {
    /// The disk is open; these writes were prepared here and are not yet released.
    Opened(Vec<Recovered>),
    /// The disk is not one that can be opened.
    Refused(FormatError),
    /// A read is done.
    Read(ReadDone),
    /// A write is prepared: it will survive.
    Prepared(Timestamp),
    /// The outcomes of these writes are safe here.
    OutcomeSafe(Vec<Timestamp>),
    /// A write without journal is in place.
    Placed(Timestamp),
    /// A flush is done.
    Flushed(u64),
    /// A scan is done: sectors and their versions.
    Scanned(u64, Vec<(u64, Timestamp)>),
    /// These sectors belong to no volume any more, and their content is gone.
    Dropped(Vec<Range<u64>>),
    /// The disk failed; nothing more can be stored.
    Failed(String),
    /// Something on the disk is damaged, in words for the operator. It goes on.
    Damaged(String),
}

/// What a read found.
#[derive(Clone, Debug, Hash)]
pub struct ReadDone {
    /// The reader's number for it.
    pub ticket: u64,
    /// The content; zeros where it is lost.
    pub data: Buffer,
    /// The newest write in each sector, if that was asked for.
    pub versions: Vec<Timestamp>,
    /// Sectors whose content is lost.
    pub erased: Vec<u64>,
    /// Those of them that are not marked as out of date: the disk is at fault.
    pub damaged: Vec<u64>,
    /// Whether the content was being replaced meanwhile; read again.
    pub raced: bool,
    /// Whether the content is that of a later moment than the one at which it was asked for.
    pub deferred: bool,
}

impl ReadDone {
    /// What is to be put back before anything else can be, and whether that is only marked: damage comes first.
    pub fn missing(&self) -> (&[u64], bool) {
        match self.damaged.is_empty() {
            true => (&self.erased, true),
            false => (&self.damaged, false),
        }
    }
}

/// A write found in the journal.
#[derive(Clone, Debug, Hash)]
pub struct Recovered {
    /// Its name.
    pub ts: Timestamp,
    /// What the worker said of it.
    pub meta: Vec<u8>,
    /// Whether it is known to have committed; otherwise it is in doubt.
    pub committed: bool,
    /// What it changes, if in doubt.
    pub ranges: Vec<Changed>,
}
