//! Raft's messages and entries as bytes, in our own format.
//!
//! The library's own encoding is protocol buffers, read by `protobuf` 2, whose parser can be made
//! to overflow the stack (RUSTSEC-2024-0437). It is never handed a byte from outside: what comes
//! from a peer or from the log is read by this file, into the library's structs. One thing the
//! library does parse: the content of an entry that changes the group. So such an entry is kept
//! here as a kind and a member's number, and the bytes that the library parses are written anew
//! from these two, by ourselves.

use protobuf::Message as _;
use raft::eraftpb::{
    ConfChange, ConfChangeType, ConfState, Entry, EntryType, HardState, Message, MessageType,
    Snapshot,
};

use weft_bytes::{BytesError, Read, Reader, Writer, ensure};

/// What members may send one another, with their numbers on the wire. The library's local
/// messages, and those that nothing here uses, are not among them.
const TYPES: [(u8, MessageType); 10] = [
    (1, MessageType::MsgAppend),
    (2, MessageType::MsgAppendResponse),
    (3, MessageType::MsgRequestVote),
    (4, MessageType::MsgRequestVoteResponse),
    (5, MessageType::MsgSnapshot),
    (6, MessageType::MsgHeartbeat),
    (7, MessageType::MsgHeartbeatResponse),
    (8, MessageType::MsgTimeoutNow),
    (9, MessageType::MsgRequestPreVote),
    (10, MessageType::MsgRequestPreVoteResponse),
];

const NORMAL: u8 = 0;
const ADD_VOTER: u8 = 1;
const ADD_LEARNER: u8 = 2;
const REMOVE: u8 = 3;

/// The two numbers that an entry which changes the group consists of.
pub(super) fn conf_change(entry: &Entry) -> Option<ConfChange> {
    ConfChange::parse_from_bytes(&entry.data).ok()
}

/// The library's bytes for a change of the group.
fn conf_change_bytes(kind: ConfChangeType, member: u64) -> Option<Vec<u8>> {
    let mut change = ConfChange::default();
    change.set_change_type(kind);
    change.node_id = member;
    change.write_to_bytes().ok()
}

pub(crate) fn write_entry(w: &mut Writer, entry: &Entry) {
    w.u64(entry.term);
    w.u64(entry.index);
    let change = (entry.get_entry_type() == EntryType::EntryConfChange)
        .then(|| conf_change(entry).expect("written by ourselves"));
    match change {
        None => {
            w.u8(NORMAL);
            w.bytes(&entry.data);
        }
        Some(change) => {
            w.u8(match change.get_change_type() {
                ConfChangeType::AddNode => ADD_VOTER,
                ConfChangeType::AddLearnerNode => ADD_LEARNER,
                ConfChangeType::RemoveNode => REMOVE,
            });
            w.u64(change.node_id);
        }
    }
}

pub(crate) fn read_entry(r: &mut Reader) -> Read<Entry> {
    let mut entry = Entry { term: r.u64()?, index: r.u64()?, ..Entry::default() };
    let kind = match r.u8()? {
        NORMAL => {
            entry.data = r.bytes()?.to_vec().into();
            return Ok(entry);
        }
        ADD_VOTER => ConfChangeType::AddNode,
        ADD_LEARNER => ConfChangeType::AddLearnerNode,
        REMOVE => ConfChangeType::RemoveNode,
        value => return Err(BytesError::Unknown { what: "kind of entry", value }),
    };
    let member = r.u64()?;
    ensure(member != 0, "no member has the number 0")?;
    entry.set_entry_type(EntryType::EntryConfChange);
    let bytes = conf_change_bytes(kind, member);
    entry.data =
        bytes.ok_or(BytesError::Content("a change of the group cannot be written"))?.into();
    Ok(entry)
}

pub(crate) fn write_entries(w: &mut Writer, entries: &[Entry]) {
    w.list(entries.iter(), write_entry);
}

/// Entries must follow one another.
pub(crate) fn read_entries(r: &mut Reader) -> Read<Vec<Entry>> {
    let entries = r.list(21, read_entry)?;
    let follows = |p: &[Entry]| p[0].index.checked_add(1) == Some(p[1].index);
    ensure(entries.windows(2).all(follows), "its entries do not follow one another")?;
    Ok(entries)
}

pub(crate) fn write_snapshot(w: &mut Writer, snapshot: &Snapshot) {
    let metadata = snapshot.get_metadata();
    w.u64(metadata.index);
    w.u64(metadata.term);
    w.list(metadata.get_conf_state().voters.iter(), |w, n| w.u64(*n));
    w.list(metadata.get_conf_state().learners.iter(), |w, n| w.u64(*n));
    w.bytes(&snapshot.data);
}

/// A group must have a voter, and each member once.
pub(crate) fn read_snapshot(r: &mut Reader) -> Read<Snapshot> {
    let mut snapshot = Snapshot::default();
    let metadata = snapshot.mut_metadata();
    metadata.index = r.u64()?;
    metadata.term = r.u64()?;
    let mut conf = ConfState { voters: r.list(8, Reader::u64)?, ..ConfState::default() };
    conf.learners = r.list(8, Reader::u64)?;
    let mut all: Vec<u64> = conf.voters.iter().chain(&conf.learners).copied().collect();
    all.sort_unstable();
    ensure(!conf.voters.is_empty(), "a group has no voter")?;
    let once = !all.contains(&0) && all.windows(2).all(|p| p[0] != p[1]);
    ensure(once, "a group does not have each of its members once")?;
    metadata.set_conf_state(conf);
    snapshot.data = r.bytes()?.to_vec().into();
    Ok(snapshot)
}

pub(crate) fn write_hard_state(w: &mut Writer, state: &HardState) {
    w.u64(state.term);
    w.u64(state.vote);
    w.u64(state.commit);
}

pub(crate) fn read_hard_state(r: &mut Reader) -> Read<HardState> {
    Ok(HardState { term: r.u64()?, vote: r.u64()?, commit: r.u64()?, ..HardState::default() })
}

pub(crate) fn encode(m: &Message) -> Option<Vec<u8>> {
    let kind = TYPES.iter().find(|t| t.1 == m.get_msg_type())?.0;
    let mut w = Writer::default();
    w.u8(kind);
    for n in [m.to, m.from, m.term, m.log_term, m.index, m.commit, m.commit_term] {
        w.u64(n);
    }
    w.u64(m.request_snapshot);
    w.u64(m.reject_hint);
    w.bool(m.reject);
    w.bytes(&m.context);
    write_entries(&mut w, &m.entries);
    w.option(m.snapshot.as_ref(), write_snapshot);
    Some(w.finish())
}

pub(crate) fn decode(bytes: &[u8]) -> Read<Message> {
    let mut r: Reader = Reader::new(bytes);
    let value = r.u8()?;
    let mut m = Message::default();
    let kind = TYPES.iter().find(|t| t.0 == value);
    m.set_msg_type(kind.ok_or(BytesError::Unknown { what: "message of Raft", value })?.1);
    m.to = r.u64()?;
    m.from = r.u64()?;
    // Term 0 is the library's mark of a local message.
    m.term = r.u64()?;
    ensure(m.term > 0, "a message has no term")?;
    m.log_term = r.u64()?;
    m.index = r.u64()?;
    m.commit = r.u64()?;
    m.commit_term = r.u64()?;
    m.request_snapshot = r.u64()?;
    m.reject_hint = r.u64()?;
    m.reject = r.bool()?;
    m.context = r.bytes()?.to_vec().into();
    m.set_entries(read_entries(&mut r)?.into());
    if let Some(snapshot) = r.option(read_snapshot)? {
        m.set_snapshot(snapshot);
    }
    r.end()?;
    ensure(is_sound(&m), "a message of Raft contradicts itself")?;
    Ok(m)
}

/// What the library takes for granted of a message.
fn is_sound(m: &Message) -> bool {
    let appends = m.get_msg_type() == MessageType::MsgAppend;
    let snapshot = m.get_msg_type() == MessageType::MsgSnapshot;
    let first = m.entries.first().map(|e| e.index);
    let entries_fit = first.is_none_or(|f| appends && m.index.checked_add(1) == Some(f));
    let terms_fit = m.entries.iter().all(|e| e.term > 0 && e.term <= m.term);
    entries_fit && terms_fit && m.snapshot.is_some() == snapshot
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Message {
        let mut m = Message::default();
        m.set_msg_type(MessageType::MsgAppend);
        (m.to, m.from, m.term, m.index, m.log_term, m.commit) = (1, 2, 7, 41, 6, 40);
        let plain = Entry { term: 7, index: 42, data: vec![1, 2, 3].into(), ..Entry::default() };
        let mut change = Entry { term: 7, index: 43, ..Entry::default() };
        change.set_entry_type(EntryType::EntryConfChange);
        change.data = conf_change_bytes(ConfChangeType::AddLearnerNode, 9).unwrap().into();
        m.set_entries(vec![plain, change].into());
        m
    }

    #[test]
    fn a_message_comes_out_as_it_went_in() {
        let m = sample();
        assert_eq!(decode(&encode(&m).unwrap()), Ok(m));
    }

    #[test]
    fn a_snapshot_comes_out_as_it_went_in_and_needs_voters() {
        let mut m = Message::default();
        m.set_msg_type(MessageType::MsgSnapshot);
        (m.to, m.from, m.term) = (1, 2, 7);
        let mut s = Snapshot { data: vec![5; 9].into(), ..Snapshot::default() };
        s.mut_metadata().index = 3;
        s.mut_metadata().term = 2;
        s.mut_metadata().mut_conf_state().voters = vec![1, 2];
        m.set_snapshot(s);
        assert_eq!(decode(&encode(&m).unwrap()).as_ref(), Ok(&m));
        m.mut_snapshot().mut_metadata().mut_conf_state().voters = vec![];
        assert!(decode(&encode(&m).unwrap()).is_err());
        m.mut_snapshot().mut_metadata().mut_conf_state().voters = vec![2, 2];
        assert!(decode(&encode(&m).unwrap()).is_err());
    }

    #[test]
    fn no_cut_and_no_flipped_byte_panics() {
        let whole = encode(&sample()).unwrap();
        for n in 0..whole.len() {
            assert_eq!(decode(&whole[..n]), Err(BytesError::Truncated), "cut at {n}");
            for bit in 0..8 {
                let mut bad = whole.clone();
                bad[n] ^= 1 << bit;
                let _ = decode(&bad);
            }
        }
    }

    #[test]
    fn local_messages_do_not_travel() {
        let mut m = sample();
        m.set_msg_type(MessageType::MsgHup);
        assert_eq!(encode(&m), None);
    }
}
