//! What a frame of a member's log must be: asserted before it is written, and looked at again when it is read.

use raft::eraftpb::{Entry, HardState, Snapshot};

use weft_bytes::{BytesError, Read, Reader, at_most};

use crate::MemberId;
use crate::consensus::wire;

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

    /// What must hold of its numbers.
    fn check(&self) -> Read<()> {
        match self {
            Record::Started(_, starts) => counted("the number of its starts", *starts),
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
        record.check()?;
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
        counted("the number of a frame", number)?;
        let mut r: Reader = Reader::new(body);
        while r.left() > 0 {
            self.follow(&Record::read(&mut r)?)?;
        }
        Ok(())
    }
}

/// No member counts further; so none of the sums that it and the library make overflows.
pub(crate) fn counted(what: &'static str, value: u64) -> Read<()> {
    at_most(what, value, u64::MAX >> 1)
}
