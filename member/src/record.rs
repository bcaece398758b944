//! The log as it is kept on a disk: pure functions between bytes and state.
//!
//! A log is frames, one after the other; what the member asks to be made durable at once is one
//! frame. docs/internals/membership.md has the format with offsets and widths. Replaying stops at the
//! first frame that is not whole: a torn tail, which nobody was promised. A whole frame *after*
//! one that is not is another matter: then something that was durable is gone, and the log is
//! refused. Whether a tail was promised is what the witness tells ([`crate::Witness`]).

use raft::eraftpb::{Entry, HardState, Snapshot};

use weft_bytes::checksum;
use weft_bytes::{BytesError, Read, Reader, Writer, at_most};

use crate::decision::Decision;
use crate::frame::{ENTRIES, HARD_STATE, LogSpan, Most, Record, SNAPSHOT, STARTED};
use crate::process::{incarnation_of, node_of};
use crate::{MapCodec, MemberId, wire};
use weft_core::cluster::ClusterMap;

const MAGIC: [u8; 3] = *b"WMb";
/// Since version 2 a log has a witness beside it ([`crate::Witness`]); nothing else differs.
const VERSION: u8 = 2;
const HEADER: usize = 20;

/// What a log says of its member.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stored {
    /// Whose log it is, unless it is empty.
    pub(crate) member: Option<MemberId>,
    /// How often the member has started.
    pub(crate) starts: u64,
    pub(crate) hard: HardState,
    pub(crate) snapshot: Snapshot,
    pub(crate) entries: Vec<Entry>,
    /// The number of the last frame.
    pub(crate) frame: u64,
}

/// Why a log cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// It is not one, or of another version.
    #[error(
        "this is not a member's log that this version can read (it begins with {begins:02x?}); \
         check the path, or start the version that wrote it"
    )]
    Foreign {
        /// Its first bytes.
        begins: Vec<u8>,
    },
    /// Something in its middle cannot be read.
    #[error(
        "the member's log is damaged at byte {at} ({why}): votes or entries that this member \
             acknowledged are lost"
    )]
    Damaged {
        /// Where.
        at: usize,
        /// What is wrong there.
        why: BytesError,
    },
    /// It ends before what was promised.
    #[error(
        "the member's log is damaged, or an older copy of itself: it can be read up to frame \
         {frame} and once held frame {promised}, so votes or entries that this member acknowledged are lost"
    )]
    Behind {
        /// The last frame that it holds.
        frame: u64,
        /// The frame that it must hold at least.
        promised: u64,
    },
    /// The others have heard of more.
    #[error(
        "the member's log and its witness are older copies of themselves: the leader relies on \
         later entries, so votes or entries that this member acknowledged are lost"
    )]
    Older,
    /// What says how far it must go is not there.
    #[error(
        "the witness of the member's log is damaged or missing: it cannot be determined whether \
         the log is complete, so votes or entries that this member acknowledged may be lost"
    )]
    NoWitness,
    /// It belongs to another member.
    #[error(
        "the log belongs to {}, and this is {}; check the directory",
        named(found),
        named(wanted)
    )]
    OtherMember {
        /// Whose it is.
        found: u64,
        /// Who asked.
        wanted: u64,
    },
}

/// A member as people know it.
fn named(member: &u64) -> MemberId {
    MemberId(*member)
}

impl LogError {
    /// Whether what the member promised is or may be lost; otherwise it is another file, or another version's.
    pub fn is_loss(&self) -> bool {
        let process = |member: u64| node_of(MemberId(member));
        match self {
            LogError::Foreign { .. } => false,
            // An earlier member of the same process, or half of the files of a new one.
            LogError::OtherMember { found, wanted } => process(*found) == process(*wanted),
            _ => true,
        }
    }
}

impl Stored {
    /// Of a member that will join a cluster: nothing yet.
    pub fn empty() -> Stored {
        Stored::default()
    }

    /// Of the first member of a process, which will join a cluster: nothing yet.
    pub fn first(member: MemberId) -> Stored {
        Stored { member: Some(member), ..Stored::default() }
    }

    /// Of a process whose member has lost its log and comes back as a new one: it has promised nothing.
    /// Its nodes' lives must not bear the names of earlier ones.
    pub fn anew(member: MemberId) -> Stored {
        let starts = incarnation_of(member) << 32;
        Stored { member: Some(member), starts, ..Stored::default() }
    }

    /// Of the one that founds a cluster: a group of this member, and the first map.
    pub fn founded(founder: MemberId, map: &ClusterMap, codec: &dyn MapCodec) -> Stored {
        Stored::first(founder).founding(map, codec, (1, 1))
    }

    /// Of the one that founds a cluster anew whose members have lost their logs: as [`Stored::founded`], and so
    /// that members that are left with logs take up this group's snapshot. `term` has to be one that no
    /// leader of the lost group has had.
    pub fn founded_after(
        founder: MemberId,
        map: &ClusterMap,
        codec: &dyn MapCodec,
        term: u64,
    ) -> Stored {
        // More than the entries that there can have been in the terms before.
        let index = term << 32;
        Stored::anew(founder).founding(map, codec, (index, term))
    }

    fn founding(mut self, map: &ClusterMap, codec: &dyn MapCodec, at: (u64, u64)) -> Stored {
        let founder = self.member.expect("somebody's");
        let decision = Decision { map: map.clone().into(), ..Decision::default() };
        self.snapshot.data = decision.encode(codec).into();
        let metadata = self.snapshot.mut_metadata();
        (metadata.index, metadata.term) = at;
        metadata.mut_conf_state().voters = vec![founder.0];
        (self.hard.commit, self.hard.term) = at;
        self
    }

    /// The highest term that it knows of.
    pub fn term(&self) -> u64 {
        self.hard.term
    }

    /// The last map that it knows to be agreed on, if there is one.
    pub fn map(&self, codec: &dyn MapCodec) -> Option<ClusterMap> {
        let base = self.snapshot.get_metadata().index;
        let known = self.hard.commit.saturating_sub(base) as usize;
        let decisions = self.entries.iter().take(known);
        let is_decision = |e: &&Entry| {
            e.get_entry_type() == raft::eraftpb::EntryType::EntryNormal && !e.data.is_empty()
        };
        let last = decisions.filter(is_decision).last().map(|e| e.data.to_vec());
        let bytes = last.unwrap_or_else(|| self.snapshot.data.to_vec());
        let decision = Decision::decode(&bytes, codec).ok()?;
        Some(ClusterMap::clone(&decision.map))
    }

    /// Whose log it is, unless it is empty.
    pub fn member(&self) -> Option<MemberId> {
        self.member
    }

    /// Whether there is nothing: the member must found a cluster or join one.
    pub fn is_empty(&self) -> bool {
        self.snapshot.get_metadata().index == 0 && self.entries.is_empty()
    }

    /// Reads a log. What follows the last whole frame is ignored if it may be a torn frame.
    pub(crate) fn replay(log: &[u8]) -> Result<Stored, LogError> {
        let (stored, at) = Stored::read(log)?;
        let begin = &log[..log.len().min(4)];
        let known = |n: usize, b: u8| match n {
            3 => b == VERSION || b == 0,
            _ => b == MAGIC[n] || b == 0,
        };
        if at == 0 && !begin.iter().enumerate().all(|(n, b)| known(n, *b)) {
            return Err(LogError::Foreign { begins: begin.to_vec() });
        }
        let later = (at + 1..log.len()).any(|b| frame_at(log, b, |n| n > stored.frame).is_some());
        let why = BytesError::Content("a later frame follows one that cannot be read");
        if later { Err(LogError::Damaged { at, why }) } else { Ok(stored) }
    }

    /// What can be read of a log that is lost: for its map, and never to go on with.
    pub fn salvage(log: &[u8]) -> Option<Stored> {
        Stored::read(log).ok().map(|read| read.0)
    }

    /// Reads the whole frames that a log begins with, and says where they end.
    fn read(log: &[u8]) -> Result<(Stored, usize), LogError> {
        let mut stored = Stored::default();
        let mut at = 0;
        let fits = |n: u64, before: u64| n.checked_sub(1) == Some(before);
        while let Some((number, body)) = frame_at(log, at, |n| at == 0 || fits(n, stored.frame)) {
            stored.frame = number;
            let applied = at_most("the number of a frame", number, Most::READ.others);
            let applied = applied.and_then(|()| stored.apply(body));
            applied.map_err(|why| LogError::Damaged { at, why })?;
            at += HEADER + body.len();
        }
        Ok((stored, at))
    }

    fn apply(&mut self, body: &[u8]) -> Read<()> {
        let mut r: Reader = Reader::new(body);
        while r.left() > 0 {
            let record = Record::read(&mut r)?;
            record.check(&Most::READ)?;
            let base = self.snapshot.get_metadata().index;
            let mut span = LogSpan { base, last: base + self.entries.len() as u64 };
            span.follow(&record)?;
            match record {
                Record::Started(member, starts) => {
                    (self.member, self.starts) = (Some(member), starts);
                }
                Record::Hard(hard) => self.hard = hard,
                Record::Entries(entries) => {
                    let keep = entries.first().map_or(0, |e| e.index - base - 1);
                    self.entries.truncate(keep as usize);
                    self.entries.extend(entries);
                }
                Record::Snapshot(snapshot) => {
                    self.snapshot = snapshot;
                    self.entries.clear();
                }
            }
        }
        Ok(())
    }
}

/// Number and body of the frame that begins at `at`, if there is a whole one with a number that fits.
fn frame_at(log: &[u8], at: usize, fits: impl Fn(u64) -> bool) -> Option<(u64, &[u8])> {
    let header = log.get(at..at.checked_add(HEADER)?)?;
    if header[..3] != MAGIC || header[3] != VERSION {
        return None;
    }
    let mut r: Reader = Reader::new(&header[4..]);
    let (len, frame, crc) = (r.u32().ok()? as usize, r.u64().ok()?, r.u32().ok()?);
    let body = log.get(at + HEADER..(at + HEADER).checked_add(len)?)?;
    (fits(frame) && crc == checksum(&header[4..16], body)).then_some((frame, body))
}

/// The number of the frame that these bytes begin with.
pub(crate) fn frame_number(frame: &[u8]) -> u64 {
    let mut r: Reader = Reader::new(&frame[8..]);
    r.u64().expect("a frame has a number")
}

fn checksum(header: &[u8], body: &[u8]) -> u32 {
    checksum::crc32c_append(checksum::crc32c(header), body)
}

/// A frame in the making.
#[derive(Default)]
pub(crate) struct Frame(Writer);

impl Frame {
    pub fn started(&mut self, member: MemberId, starts: u64) {
        self.0.u8(STARTED);
        self.0.u64(member.0);
        self.0.u64(starts);
    }

    pub fn hard_state(&mut self, hard: &HardState) {
        self.0.u8(HARD_STATE);
        wire::write_hard_state(&mut self.0, hard);
    }

    pub fn entries(&mut self, entries: &[Entry]) {
        if !entries.is_empty() {
            self.0.u8(ENTRIES);
            wire::write_entries(&mut self.0, entries);
        }
    }

    pub fn snapshot(&mut self, snapshot: &Snapshot) {
        if snapshot.get_metadata().index > 0 {
            self.0.u8(SNAPSHOT);
            wire::write_snapshot(&mut self.0, snapshot);
        }
    }

    /// The bytes of frame number `frame`, which comes after what the log holds.
    ///
    /// # Panics
    ///
    /// If it would be refused when the log is read.
    pub fn finish(self, frame: u64, log: &mut LogSpan) -> Vec<u8> {
        let body = self.0.finish();
        if let Err(why) = log.follow_frame(frame, &body) {
            panic!("an invalid frame {frame} of a member's log would be written: {why}");
        }
        Frame::of(body, frame)
    }

    fn of(body: Vec<u8>, frame: u64) -> Vec<u8> {
        let mut w: Writer = Writer::behind(MAGIC);
        w.u8(VERSION);
        w.u32(u32::try_from(body.len()).expect("less than 4 GiB"));
        w.u64(frame);
        w.u32(checksum(&w.written()[4..16], &body));
        w.raw(&body);
        w.finish()
    }
}

#[cfg(test)]
mod tests {
    use weft_bytes::fixture;

    use super::*;

    fn entry(index: u64, term: u64) -> Entry {
        Entry { index, term, data: vec![index as u8; 5].into(), ..Entry::default() }
    }

    /// Three frames: a start with a snapshot, two entries, one entry in place of the second.
    fn sample() -> (Vec<u8>, Vec<usize>) {
        let mut first = Frame::default();
        first.started(MemberId(3), 2);
        let mut snapshot = Snapshot { data: vec![7; 4].into(), ..Snapshot::default() };
        snapshot.mut_metadata().index = 10;
        snapshot.mut_metadata().term = 1;
        snapshot.mut_metadata().mut_conf_state().voters = vec![3];
        first.snapshot(&snapshot);
        let mut second = Frame::default();
        second.hard_state(&HardState { term: 2, vote: 3, commit: 10, ..HardState::default() });
        second.entries(&[entry(11, 2), entry(12, 2)]);
        let mut third = Frame::default();
        third.entries(&[entry(12, 3)]);
        let (mut log, mut ends, mut span) = (Vec::new(), Vec::new(), LogSpan::default());
        for (n, frame) in [first, second, third].into_iter().enumerate() {
            log.extend(frame.finish(5 + n as u64, &mut span));
            ends.push(log.len());
        }
        (log, ends)
    }

    #[test]
    fn whose_log_it_is_is_said_as_processes_are_numbered() {
        let of = |n: u16| crate::member_of(weft_core::units::NodeId(n)).0;
        let error = LogError::OtherMember { found: of(2), wanted: of(0) };
        let said = error.to_string();
        assert_eq!(
            said,
            "the log belongs to process 2, and this is process 0; check the directory"
        );
    }

    #[test]
    fn what_was_written_is_read() {
        let stored = Stored::replay(&sample().0).unwrap();
        assert_eq!((stored.member, stored.starts, stored.frame), (Some(MemberId(3)), 2, 7));
        assert_eq!(stored.entries, [entry(11, 2), entry(12, 3)]);
        assert_eq!((stored.hard.term, stored.hard.vote), (2, 3));
        assert_eq!(stored.snapshot.get_metadata().index, 10);
    }

    #[test]
    fn a_tail_torn_at_any_byte_is_as_if_it_had_not_been_written() {
        let (log, ends) = sample();
        for cut in 0..log.len() {
            let whole = ends.iter().filter(|e| **e <= cut).count() as u64;
            let stored = Stored::replay(&log[..cut]).unwrap();
            assert_eq!(stored.frame, if whole == 0 { 0 } else { 4 + whole }, "cut at {cut}");
            // What a disk makes of the rest does not matter either.
            let mut rubbish = log[..cut].to_vec();
            rubbish.resize(log.len() + 9, 0);
            assert_eq!(Stored::replay(&rubbish).unwrap().frame, stored.frame, "cut at {cut}");
        }
    }

    #[test]
    fn a_hole_in_the_middle_is_refused() {
        let (log, ends) = sample();
        for at in 0..ends[1] {
            let mut bad = log.clone();
            bad[at] ^= 1;
            assert!(Stored::replay(&bad).is_err(), "byte {at}");
        }
    }

    /// Found by fuzzing: the next number overflowed.
    #[test]
    fn numbers_that_no_member_comes_to_are_refused() {
        let refused = |write: &dyn Fn(&mut Frame), number: u64| {
            let mut frame = Frame::default();
            frame.started(MemberId(3), 2);
            write(&mut frame);
            let error = Stored::replay(&Frame::of(frame.0.finish(), number)).unwrap_err();
            assert!(error.to_string().contains("out of bounds"), "{error}");
        };
        let mut far = Snapshot::default();
        far.mut_metadata().index = u64::MAX;
        far.mut_metadata().mut_conf_state().voters = vec![3];
        refused(&|_| {}, u64::MAX);
        refused(&|f| f.started(MemberId(3), u64::MAX), 5);
        refused(&|f| f.hard_state(&HardState { term: u64::MAX, ..HardState::default() }), 5);
        refused(&|f| f.snapshot(&far), 5);
        refused(&|f| f.entries(&[entry(1, u64::MAX)]), 5);
        refused(&|f| f.entries(&[entry(u64::MAX, 1)]), 5);
    }

    /// Found by fuzzing: a log whose numbers were the highest that may be written was read, and could not be added to.
    #[test]
    fn a_log_that_is_read_leaves_room_to_count() {
        let log = |starts: u64| {
            let mut frame = Frame::default();
            frame.started(MemberId(3), starts);
            frame.finish(1, &mut LogSpan::default())
        };
        assert_eq!(Stored::replay(&log(u64::MAX - 1)).unwrap().starts, u64::MAX - 1);
        let error = Stored::replay(&log(u64::MAX)).unwrap_err().to_string();
        assert!(error.contains("out of bounds"), "{error}");
        let last = crate::member_anew(node_of(MemberId(3)), u64::from(u32::MAX));
        assert!(Stored::replay(&anew(&Stored { frame: 1, ..Stored::anew(last) })).is_ok());
    }

    #[test]
    fn something_else_is_refused_and_nothing_is_empty() {
        let text = Stored::replay(b"{\"version\": 1}").unwrap_err().to_string();
        assert!(text.contains("not a member's log"), "{text}");
        assert!(Stored::replay(b"WMb\x03....").is_err());
        assert!(Stored::replay(b"").unwrap().is_empty());
    }

    /// The log that a member begins anew with what is stored.
    fn anew(stored: &Stored) -> Vec<u8> {
        let mut frame = Frame::default();
        frame.started(stored.member.expect("somebody's"), stored.starts);
        frame.snapshot(&stored.snapshot);
        frame.entries(&stored.entries);
        frame.hard_state(&stored.hard);
        frame.finish(stored.frame, &mut LogSpan::default())
    }

    fn samples() -> Vec<(String, Vec<u8>)> {
        let change = raft::eraftpb::EntryType::EntryConfChange;
        let mut joins = raft::eraftpb::ConfChange { node_id: 4, ..Default::default() };
        joins.set_change_type(raft::eraftpb::ConfChangeType::AddLearnerNode);
        let data = protobuf::Message::write_to_bytes(&joins).expect("it is small");
        let mut change = Entry { entry_type: change, data: data.into(), ..entry(13, 3) };
        change.term = 3;
        let whole = Stored::replay(&sample().0).expect("it is whole");
        let first = Stored { starts: 1, frame: 1, ..Stored::first(MemberId(3)) };
        let mut regrouped = whole.clone();
        regrouped.entries.push(change);
        [("started", first), ("snapshot-and-entries", whole), ("change-of-the-group", regrouped)]
            .map(|(name, stored)| (name.to_string(), anew(&stored)))
            .into()
    }

    /// Logs of this version must stay readable: these bytes are what it wrote.
    #[test]
    fn logs_of_version_2() {
        let images = include_str!("images/member-log-2.hex");
        fixture::check(images, &samples(), |_, log| anew(&Stored::replay(log).expect("whole")));
    }

    /// Found in reading: a log with a gap was taken up as if it had none.
    #[test]
    fn entries_with_a_gap_are_refused() {
        let mut frame = Frame::default();
        frame.started(MemberId(3), 2);
        frame.entries(&[entry(1, 1), entry(3, 1)]);
        let error = Stored::replay(&Frame::of(frame.0.finish(), 5)).unwrap_err().to_string();
        assert!(error.contains("do not follow one another"), "{error}");
    }

    #[test]
    #[should_panic(expected = "its entries do not follow those before")]
    fn a_frame_that_would_be_refused_is_not_written() {
        let mut span = LogSpan::default();
        let mut frame = Frame::default();
        frame.entries(&[entry(1, 1), entry(2, 1)]);
        frame.finish(1, &mut span);
        let mut frame = Frame::default();
        frame.entries(&[entry(4, 1)]);
        frame.finish(2, &mut span);
    }

    /// Logs of this version must stay readable, and those of no other are read: these bytes are what it wrote.
    #[test]
    fn the_first_frame_of_version_2() {
        let mut frame = Frame::default();
        frame.started(MemberId(3), 2);
        frame.hard_state(&HardState { term: 4, vote: 5, commit: 6, ..HardState::default() });
        let written = frame.finish(9, &mut LogSpan::default());
        let mut expected = b"WMb\x02\x2a\0\0\0\x09\0\0\0\0\0\0\0".to_vec();
        expected.extend(0xfa12_9ebb_u32.to_le_bytes());
        expected.extend(b"\x01\x03\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0");
        expected.extend(b"\x02\x04\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\0\x06\0\0\0\0\0\0\0");
        assert_eq!(written, expected);
        assert_eq!(Stored::replay(&written).unwrap().starts, 2);
        expected[3] = 1;
        assert!(matches!(Stored::replay(&expected), Err(LogError::Foreign { .. })));
    }
}
