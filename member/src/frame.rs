//! What a frame of a member's log must be: asserted before it is written, and looked at again when it is read.

use raft::eraftpb::{Entry, HardState, Snapshot};

use weft_bytes::{BytesError, Read, Reader, at_most};

use crate::{MemberId, wire};

pub(crate) const STARTED: u8 = 1;
pub(crate) const HARD_STATE: u8 = 2;
pub(crate) const ENTRIES: u8 = 3;
pub(crate) const SNAPSHOT: u8 = 4;

/// A part of a frame.
pub(crate) enum Record {
    /// Whose log it is, and how often the member has started.
    Started(MemberId, u64),
    Hard(HardState),
    /// Entries, instead of any that have the same or higher numbers.
    Entries(Vec<Entry>),
    /// A snapshot instead of all entries.
    Snapshot(Snapshot),
}

impl Record {
    /// Reads one. Whether it fits what stands before it is [`LogSpan::follow`]'s to say.
    pub fn read(r: &mut Reader) -> Read<Record> {
        Ok(match r.u8()? {
            STARTED => Record::Started(MemberId(r.u64()?), r.u64()?),
            HARD_STATE => Record::Hard(wire::read_hard_state(r)?),
            ENTRIES => Record::Entries(wire::read_entries(r)?),
            SNAPSHOT => Record::Snapshot(wire::read_snapshot(r)?),
            value => return Err(BytesError::Unknown { what: "record", value }),
        })
    }

    /// None of its numbers may be higher than `most`.
    pub fn check(&self, most: &Most) -> Read<()> {
        let counted = |what, value| at_most(what, value, most.others);
        match self {
            Record::Started(_, starts) => at_most("the number of its starts", *starts, most.starts),
            Record::Hard(hard) => counted("a term", hard.term),
            Record::Entries(entries) => entries.iter().try_for_each(|entry| {
                counted("the term of an entry", entry.term)?;
                counted("the number of an entry", entry.index)
            }),
            Record::Snapshot(snapshot) => {
                let metadata = snapshot.get_metadata();
                counted("the term of a snapshot", metadata.term)?;
                counted("the number of a snapshot", metadata.index)
            }
        }
    }
}

/// Which entries a log has: those after its snapshot, without gaps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogSpan {
    /// The number of the snapshot.
    pub base: u64,
    /// The number of the last entry.
    pub last: u64,
}

impl LogSpan {
    /// A record comes after what the log holds.
    pub fn follow(&mut self, record: &Record) -> Read<()> {
        record.check(&Most::WRITTEN)?;
        match record {
            Record::Started(..) | Record::Hard(_) => {}
            Record::Entries(entries) => {
                let first = entries.first().map_or(0, |e| e.index);
                if first <= self.base || first > self.last + 1 {
                    return Err(BytesError::Content("its entries do not follow those before"));
                }
                if !entries.iter().zip(first..).all(|(entry, n)| entry.index == n) {
                    return Err(BytesError::Content("its entries do not follow one another"));
                }
                self.last = first + (entries.len() as u64 - 1);
            }
            Record::Snapshot(snapshot) => {
                let index = snapshot.get_metadata().index;
                *self = LogSpan { base: index, last: index };
            }
        }
        Ok(())
    }

    /// A frame of this number with this body comes after what the log holds.
    pub fn follow_frame(&mut self, number: u64, body: &[u8]) -> Read<()> {
        at_most("the number of a frame", number, Most::WRITTEN.others)?;
        let mut r: Reader = Reader::new(body);
        while r.left() > 0 {
            self.follow(&Record::read(&mut r)?)?;
        }
        Ok(())
    }
}

/// How far a member counts.
pub(crate) struct Most {
    /// Its starts. The first one of a member that is not its process's first is told by its 32 bits of incarnation,
    /// which stand above the others.
    starts: u64,
    /// Terms, entries and frames.
    pub others: u64,
}

impl Most {
    /// What a member that starts finds in its log leaves it room to count: one start, and for as long as it runs.
    pub const READ: Most = Most { starts: u64::MAX - 1, others: u64::MAX >> 2 };
    /// No sum that it and the library make overflows.
    pub const WRITTEN: Most = Most { starts: u64::MAX, others: u64::MAX >> 1 };
}
