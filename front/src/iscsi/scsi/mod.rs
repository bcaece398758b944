//! Commands of disks (SPC-4, SBC-3): what one asks for, and what it is answered.
//!
//! [`plan`] says what a command is to do, or why it is refused; nothing has moved by then. What needs no node is answered
//! at once. The rest becomes [`Step`]s once the data of the command are there.

mod commands;
mod copying;
mod inquiry;
mod mode;
mod opcodes;
mod reserving;
mod sense;
mod steps;
pub(super) mod unit;

use bytes::Bytes;

pub(super) use commands::plan;
pub(super) use copying::{CopyState, name as copy_name, result as copy_result, segments};
pub(super) use inquiry::{absent, port_groups};
pub(super) use reserving::{Query, is_excluded, report as reservations};
pub(super) use sense::Sense;
pub(super) use steps::{Then, allocation, further, repeated};
#[cfg(test)]
pub(super) use unit::BLOCK;
pub(super) use unit::Designator;

/// The longest read or write of the usual blocks, in bytes.
pub(super) const MOST_BYTES: u64 = 4 << 20;
/// The longest COMPARE AND WRITE, in blocks: one never lies in two transactions.
const MOST_COMPARED: u64 = 1;
/// The longest WRITE SAME, in blocks. libiscsi's suite takes a limit of 65,536 for one of WRITE, too, which would be more
/// data than a connection may have in work.
const MOST_SAME: u64 = 32 << 10;
/// The most bytes of an UNMAP, and the most descriptors.
const MOST_UNMAPPED: u64 = 512 << 20;
const MOST_DESCRIPTORS: u64 = 64;
/// The stretch that GET LBA STATUS looks at first, in bytes. Initiators that only want to know whether a read pays ask often.
const FIRST_STATUS: u64 = 256 << 10;
/// The same for an initiator with this many other commands in progress: it asks for each of them, so a longer stretch is
/// looked at several times.
pub(super) const MANY_IN_PROGRESS: usize = 4;
const FIRST_OF_MANY: u64 = 64 << 10;
/// The longest that it looks at, if all of it is one hole.
const MOST_STATUS: u64 = 1 << 30;
/// The longest list of parameters.
const MOST_PARAMETERS: u64 = 4096;

/// Bytes of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stretch {
    pub(super) offset: u64,
    pub(super) length: u64,
}

/// What a command is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// It is done already, and these are the data.
    Data(Vec<u8>),
    /// It is done.
    Nothing,
    Read(Stretch),
    /// Make all answered writes durable.
    Flush,
    Write {
        at: Stretch,
        /// Make it durable before the answer.
        durable: bool,
        then: Check,
    },
    /// All of it or nothing.
    WriteAtomic {
        at: Stretch,
        durable: bool,
    },
    Verify {
        at: Stretch,
        check: Check,
    },
    /// What must stand there comes along, and what is written if it does.
    CompareAndWrite {
        at: Stretch,
        durable: bool,
    },
    OrWrite {
        at: Stretch,
        durable: bool,
    },
    /// The same block everywhere, or zeros without any.
    Same {
        at: Stretch,
        /// Bytes of the block.
        block: u64,
        zeros: bool,
    },
    /// An UNMAP parameter list of `list` bytes.
    Unmap {
        list: u64,
    },
    /// A mode parameter list of `list` bytes.
    Modes {
        list: u64,
        long: bool,
    },
    /// The allocation status of a stretch, in at most `most` bytes.
    Status {
        at: Stretch,
        most: usize,
    },
    /// REPORT TARGET PORT GROUPS, in at most `most` bytes; with a header that is longer, if it is `extended`.
    Ports {
        extended: bool,
        most: usize,
    },
    /// EXTENDED COPY with a list of `list` bytes.
    Copy {
        list: u64,
    },
    /// What became of the copy with this name, in at most `most` bytes.
    CopyStatus {
        name: u8,
        most: usize,
    },
    /// PERSISTENT RESERVE OUT with a list of `list` bytes, or RESERVE or RELEASE without.
    Reserve {
        asked: reserving::Asked,
        list: u64,
    },
    /// Nothing, since another session has the unit to itself.
    Conflict,
    /// PERSISTENT RESERVE IN, in at most `most` bytes.
    Reservations {
        query: Query,
        most: usize,
    },
}

/// How stored content is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Check {
    /// Not at all.
    Nothing,
    /// Whether it can be read.
    Readable,
    /// Whether it is what the command brings along.
    Equal,
}

impl Work {
    /// The same among many commands in progress.
    pub(super) fn among_many(self) -> Work {
        match self {
            Work::Status { at: Stretch { offset, length }, most } => {
                let at = Stretch { offset, length: length.min(FIRST_OF_MANY) };
                Work::Status { at, most }
            }
            work => work,
        }
    }

    /// Whether it writes to the unit. A copy may write to another unit, so its steps decide.
    pub(super) fn changes_content(&self) -> bool {
        matches!(
            self,
            Work::Write { .. }
                | Work::WriteAtomic { .. }
                | Work::CompareAndWrite { .. }
                | Work::OrWrite { .. }
                | Work::Same { .. }
                | Work::Unmap { .. }
        )
    }

    /// Bytes that the command brings along.
    pub(super) fn data_out(&self) -> u64 {
        match self {
            Work::Write { at, .. } | Work::Verify { at, check: Check::Equal } => at.length,
            Work::CompareAndWrite { at, .. } => 2 * at.length,
            Work::OrWrite { at, .. } | Work::WriteAtomic { at, .. } => at.length,
            Work::Same { zeros: false, block, .. } => *block,
            Work::Reserve { list, .. } | Work::Unmap { list } => *list,
            Work::Modes { list, .. } | Work::Copy { list } => *list,
            _ => 0,
        }
    }
}

/// What a node is to do for a command, one step after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) op: super::Op,
    pub(super) at: Stretch,
    pub(super) durable: bool,
    /// What becomes of the answer.
    pub(super) then: Then,
    /// Another unit that it is about.
    pub(super) unit: Option<Designator>,
}

/// A field of eight bytes.
fn long(bytes: &[u8]) -> u64 {
    bytes.iter().take(8).fold(0, |n, byte| n << 8 | u64::from(*byte))
}

/// The steps of a command whose data are there.
pub(super) fn steps(work: &Work, data: Bytes, unit: &unit::Unit) -> Result<Vec<Step>, Sense> {
    steps::steps(work, data, unit)
}

#[cfg(test)]
mod tests;
