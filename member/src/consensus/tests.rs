use raft::eraftpb::{Message, MessageType, Snapshot};

use super::*;

const US: MemberId = MemberId(2);
const LEADER: MemberId = MemberId(1);

/// A message of the leader, in term 3.
fn of_leader(kind: MessageType, snapshot: Option<Snapshot>) -> Vec<u8> {
    let mut message = Message::default();
    message.set_msg_type(kind);
    (message.from, message.to, message.term) = (LEADER.0, US.0, 3);
    if let Some(snapshot) = snapshot {
        message.set_snapshot(snapshot);
    }
    wire::encode(&message).expect("members send such messages")
}

/// The group of both, at entry 20.
fn snapshot() -> Snapshot {
    let mut snapshot = Snapshot::default();
    let metadata = snapshot.mut_metadata();
    (metadata.index, metadata.term) = (20, 3);
    metadata.mut_conf_state().voters = vec![LEADER.0, US.0];
    snapshot
}

/// A member whose disk has a snapshot of the leader's to write.
fn restoring() -> Consensus {
    let mut c = Consensus::new(US, Stored::empty(), &Config::default()).unwrap();
    let mut effects = Effects::default();
    c.pump(&mut effects);
    assert!(effects.persist.is_some(), "the log begins");
    c.step(LEADER, &of_leader(MessageType::MsgSnapshot, Some(snapshot()))).unwrap();
    c.pump(&mut effects);
    assert_eq!(c.group().0, [LEADER, US]);
    c
}

#[test]
fn who_has_a_snapshot_to_write_does_not_stand_for_election() {
    let mut c = restoring();
    c.step(LEADER, &of_leader(MessageType::MsgTimeoutNow, None)).unwrap();
    (0..5 * c.election_ticks).for_each(|_| c.tick());
    let mut effects = Effects::default();
    c.pump(&mut effects);
    assert_eq!((c.term(), effects.messages.len()), (3, 0));
    // The write before it, and its own.
    (0..2).for_each(|_| {
        c.written(&mut effects);
        c.pump(&mut effects);
    });
    (0..5 * c.election_ticks).for_each(|_| c.tick());
    let mut effects = Effects::default();
    c.pump(&mut effects);
    assert!(!effects.messages.is_empty(), "with the snapshot safe it asks for votes");
}
