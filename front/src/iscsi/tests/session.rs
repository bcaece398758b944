//! Logins, questions, and how sessions end.

use super::*;
use crate::iscsi::pdu::{CONTINUE, FINAL, Head, NO_TAG, at, opcode};
use crate::iscsi::{Parting, ProtocolError};
use crate::{Awaits, Machine, Service};

const NAMES: &[u8] = b"InitiatorName=iqn.a\0TargetName=iqn.2026-11.weft.example:vol0\0";

fn text(unit: &Unit) -> Vec<String> {
    let lines = String::from_utf8(unit.data.clone()).unwrap();
    lines.split('\0').filter(|l| !l.is_empty()).map(str::to_string).collect()
}

#[test]
fn a_login_goes_through_its_stages() {
    let mut i = Initiator::new();
    assert_eq!(i.server.awaits(), Awaits::Greeting);
    let answer = i.login(0x81, &[NAMES, b"AuthMethod=CHAP,None\0SessionType=Normal\0"].concat());
    assert_eq!((answer.head.opcode(), answer.head.flags()), (opcode::LOGIN_RESPONSE, 0x81));
    assert_eq!(text(&answer), ["AuthMethod=None", "TargetAlias=vol0", "TargetPortalGroupTag=1"]);
    assert_eq!(answer.head.half(14), 0, "there is no session yet");
    let keys = b"HeaderDigest=None\0MaxBurstLength=16776192\0X-other=1\0InitialR2T=No\0";
    let answer = i.login(0x04, keys);
    assert_eq!(answer.head.flags(), 0x04);
    assert_eq!(
        text(&answer),
        [
            "HeaderDigest=None",
            "MaxBurstLength=1048576",
            "X-other=NotUnderstood",
            "InitialR2T=No",
            "MaxRecvDataSegmentLength=262144",
        ]
    );
    let answer = i.login(0x87, b"");
    assert_eq!((answer.head.flags(), answer.head.half(14)), (0x87, 5));
    assert_eq!((answer.head.word(at::EXP_CMD_SN), answer.head.word(at::MAX_CMD_SN)), (7, 7 + 127));
    assert_eq!(answer.head.word(at::STAT_SN), 2);
    assert_eq!(i.server.awaits(), Awaits::Nothing);
    assert_eq!(i.read(&[0; 6], 0).1.status(), 0, "TEST UNIT READY");
}

#[test]
fn an_initiator_sees_the_port_groups() {
    let mut i = Initiator::logged_in("");
    let one = |group: u8, state| [state, 0x09, 0, group, 0, 2, 0, 1, 0, 0, 0, group];
    let both = [one(1, 0), one(4, 3)].concat();
    let (groups, _) = i.read(&[0xa3, 0x0a, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0], 256);
    assert_eq!(groups, [&[0, 0, 0, 24][..], &both].concat());
    let (groups, _) = i.read(&[0xa3, 0x2a, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0], 256);
    assert_eq!(groups, [&[0, 0, 0, 28, 0x10, 0, 0, 0][..], &both].concat());
    let (groups, _) = i.read(&[0xa3, 0x0a, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0], 256);
    assert_eq!(groups, [0, 0, 0, 24, 0], "the length stays what it is");
    assert_eq!(i.read(&[0xa3, 0x4a, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0], 256).1.sense().0, 5);
}

#[test]
fn keys_may_come_in_pieces() {
    let mut i = Initiator::new();
    let (one, two) = NAMES.split_at(20);
    let answer = i.login(0x40, one);
    assert_eq!((answer.head.flags(), answer.data.len()), (0, 0));
    let answer = i.login(0x83, two);
    assert_eq!((answer.head.flags(), answer.head.half(36)), (0x83, 0));
    // And so may answers to many.
    let mut i = Initiator::new();
    i.login(0x81, NAMES);
    let many: String = (0..300).map(|n| format!("X-{n:040}=1\0")).collect();
    let (one, two) = many.as_bytes().split_at(8000);
    assert_eq!(i.login(0x44, one).data.len(), 0);
    let first = i.login(0x87, two);
    assert_eq!((first.head.flags(), first.data.len()), (CONTINUE | 0x04, 8192));
    let second = i.login(0x87, b"");
    assert_eq!((second.head.flags() & CONTINUE, second.data.len()), (CONTINUE, 8192));
    let third = i.login(0x87, b"");
    assert_eq!(third.head.flags(), 0x87);
    let all = [first.data, second.data, third.data].concat();
    assert_eq!(text(&Unit { head: third.head, data: all }).len(), 301);
}

#[test]
fn logins_that_cannot_be_are_told_why() {
    let fails = |flags, keys: &[u8]| {
        let mut i = Initiator::new();
        let answer = i.login(flags, keys);
        assert!(i.server.closing() || answer.head.half(36) == 0);
        answer.head.half(36)
    };
    assert_eq!(fails(0x87, NAMES), 0);
    assert_eq!(fails(0x87, b"InitiatorName=iqn.a\0TargetName=iqn.b\0"), 0x0203);
    assert_eq!(fails(0x87, b"InitiatorName=iqn.a\0"), 0x0207);
    assert_eq!(fails(0x87, b"TargetName=iqn.b\0"), 0x0207);
    assert_eq!(fails(0x87, b"InitiatorName=iqn.a\0SessionType=Strange\0"), 0x0209);
    assert_eq!(fails(0x81, &[NAMES, b"AuthMethod=CHAP\0"].concat()), 0x0201);
    assert_eq!(fails(0x87, &[NAMES, b"InitialR2T=No\0InitialR2T=No\0"].concat()), 0x0200);
    assert_eq!(fails(0x87, b"nonsense"), 0x0200);
    let keys = |n: usize| -> Vec<u8> {
        let key = |n: usize| format!("X-{n}=1\0").into_bytes();
        NAMES.iter().copied().chain((0..n).flat_map(key)).collect()
    };
    assert_eq!([500, 520].map(|n| fails(0x87, &keys(n))), [0, 0x0200]);
    // From the second stage to the first, to one that there is none of, and with text that goes on.
    assert_eq!(fails(0x84, NAMES), 0x020b);
    assert_eq!(fails(0x86, NAMES), 0x020b);
    assert_eq!(fails(0xc7, NAMES), 0x020b);
    let mut i = Initiator::new();
    for n in 0..9 {
        assert_eq!(i.login(0x40, &[b'x'; 8192]).head.half(36), if n == 8 { 0x0200 } else { 0 });
    }
    let mut i = Initiator::new();
    let head = Head::new(opcode::LOGIN | 0x40).with_byte(1, 0x87).with_half(14, 9);
    i.send(head, NAMES);
    assert_eq!(i.one().head.half(36), 0x020a, "there is no session to join");
    let nop = Head::new(opcode::NOP_OUT);
    assert_eq!(Initiator::new().try_send(nop, &[]), Err(ProtocolError::NoLogin(0)));
    let long = Initiator::new().try_send(Head::new(opcode::LOGIN | 0x40), &[0; 8193]);
    assert_eq!(long, Err(ProtocolError::DataLength(8193)));
}

#[test]
fn a_discovery_session_lists_targets_and_does_nothing_else() {
    let mut i = Initiator::new();
    let answer = i.login(0x87, b"InitiatorName=iqn.a\0SessionType=Discovery\0");
    assert_eq!((answer.head.flags(), answer.head.half(14)), (0x87, 1));
    let all = i.targets("All");
    assert_eq!(all.matches("TargetName=iqn.t:").count(), 500);
    assert!(all.starts_with(
        "TargetName=iqn.t:0\0TargetAddress=10.0.0.1:3260,1\0TargetAddress=[::1]:3260,2\0"
    ));
    assert_eq!(i.targets("iqn.t:77").matches("TargetName").count(), 1);
    assert_eq!(i.targets("iqn.t:777"), "");
    i.command(FINAL, &[0; 6], 0, &[]);
    assert_eq!(i.one().head.0[..3], [opcode::REJECT, FINAL, 0x05]);
    let head = Head::new(opcode::LOGOUT | 0x40).answering(9);
    i.send(head, &[]);
    assert_eq!((i.one().head.opcode(), i.server.closing()), (opcode::LOGOUT_RESPONSE, true));
}

#[test]
fn pings_texts_and_nonsense_are_answered() {
    let mut i = Initiator::logged_in("");
    let ping = Head::new(opcode::NOP_OUT | 0x40).answering(3).with_word(at::TRANSFER_TAG, NO_TAG);
    i.send(ping, b"hello");
    let pong = i.one();
    assert_eq!(
        (pong.head.opcode(), pong.head.tag(), &pong.data[..]),
        (opcode::NOP_IN, 3, &b"hello"[..])
    );
    i.send(Head::new(opcode::NOP_OUT | 0x40).answering(NO_TAG), &[]);
    assert!(i.take().is_empty(), "nothing is asked");
    let answer = i.text(NO_TAG, b"MaxRecvDataSegmentLength=512\0InitialR2T=Yes\0");
    assert_eq!(answer.data, b"InitialR2T=Reject\0");
    assert_eq!(i.read(&[0x12, 1, 0x83, 4, 0], 1024).1.head.opcode(), opcode::DATA_IN);
    for (kind, reason) in [(opcode::SNACK, 3), (0x1c, 5), (opcode::LOGIN, 4)] {
        let head = Head::new(kind | 0x40).answering(77);
        i.send(head, &[]);
        let answer = i.one();
        assert_eq!((answer.head.0[2], answer.data[..48].to_vec()), (reason, head.0.to_vec()));
    }
}

#[test]
fn commands_are_taken_in_turn_and_within_the_window() {
    let mut i = Initiator::logged_in("");
    i.holds = true;
    let read = [0x28, 0, 0, 0, 0, 0, 0, 0, 1];
    for _ in 0..128 {
        i.command(FINAL | 0x40, &read, 512, &[]);
    }
    assert_eq!(i.held.len(), 128);
    i.command(FINAL | 0x40, &read, 512, &[]);
    assert_eq!(i.held.len(), 128, "one beyond the window is as if it had not come");
    i.cmd_sn -= 1;
    i.release();
    let all = i.take();
    assert_eq!(all.len(), 128);
    let last = all.last().unwrap().head;
    assert_eq!(last.word(at::MAX_CMD_SN), last.word(at::EXP_CMD_SN) + 127);
    // One that came before.
    i.cmd_sn -= 1;
    i.command(FINAL | 0x40, &read, 512, &[]);
    assert!(i.take().is_empty());
    let head = Head::new(opcode::COMMAND).answering(5).with_word(at::CMD_SN, i.cmd_sn + 1);
    let wrong = ProtocolError::OutOfOrder { due: i.cmd_sn, came: i.cmd_sn + 1 };
    assert_eq!(i.try_send(head, &[]), Err(wrong));
}

#[test]
fn reads_come_in_segments_and_bursts() {
    let mut i = Initiator::logged_in("MaxRecvDataSegmentLength=1024\0MaxBurstLength=2560\0");
    i.disk.iter_mut().zip(0_u32..).for_each(|(byte, n)| *byte = (n / 7) as u8);
    i.command(FINAL | 0x40, &[0x28, 0, 0, 0, 0, 2, 0, 0, 10], 5120, &[]);
    let all = i.take();
    let lengths: Vec<usize> = all.iter().map(|u| u.data.len()).collect();
    assert_eq!(lengths, [1024, 1024, 512, 1024, 1024, 512]);
    let flags: Vec<u8> = all.iter().map(|u| u.head.flags()).collect();
    assert_eq!(flags, [0, 0, FINAL, 0, 0, FINAL | 1]);
    let data: Vec<u8> = all.into_iter().flat_map(|u| u.data).collect();
    assert_eq!(data, i.disk[1024..1024 + 5120]);
}

#[test]
fn lengths_that_differ_are_told() {
    let mut i = Initiator::logged_in("");
    let mut read = |cdb: &[u8], expected| {
        let (data, last) = i.read(cdb, expected);
        (data.len(), last.status(), last.residual())
    };
    let one = [0x28, 0, 0, 0, 0, 0, 0, 0, 1];
    assert_eq!(read(&one, 512), (512, 0, (0, 0)));
    assert_eq!(read(&one, 0), (0, 0, (4, 512)));
    assert_eq!(read(&one, 10_000), (512, 0, (2, 10_000 - 512)));
    assert_eq!(read(&one, 200), (200, 0, (4, 312)));
    assert_eq!(read(&[0x12, 0, 0, 0, 36], 255), (36, 0, (2, 255 - 36)));
}

#[test]
fn failures_of_nodes_have_their_sense() {
    for (failure, sense) in [
        (crate::iscsi::Failure::OutOfRange, (5, 0x21, 0)),
        (crate::iscsi::Failure::Gone, (5, 0x25, 0)),
        (crate::iscsi::Failure::NotOffered, (5, 0x20, 0)),
        (crate::iscsi::Failure::Failed, (4, 0x44, 0)),
        (crate::iscsi::Failure::NoSpace, (7, 0x27, 7)),
        (crate::iscsi::Failure::Unknown, (0x0b, 0, 0)),
    ] {
        let mut i = Initiator::logged_in("");
        i.holds = true;
        i.command(FINAL | 0x40, &[0x28, 0, 0, 0, 0, 0, 0, 0, 1], 512, &[]);
        i.fail(failure);
        assert_eq!(i.one().sense(), sense);
    }
    let mut i = Initiator::logged_in("");
    i.holds = true;
    i.command(FINAL | 0x40, &[0x28, 0, 0, 0, 0, 0, 0, 0, 1], 512, &[]);
    i.fail(crate::iscsi::Failure::Busy);
    assert_eq!(i.one().status(), 8);
}

#[test]
fn there_is_one_unit() {
    let mut i = Initiator::logged_in("");
    let mut ask = |cdb: &[u8]| {
        let tag = i.next_tag();
        let mut head = Head::new(opcode::COMMAND)
            .with_byte(1, FINAL | 0x40)
            .with_byte(9, 1)
            .answering(tag)
            .with_word(at::TRANSFER_TAG, 255)
            .with_word(at::CMD_SN, i.cmd_sn);
        head.0[at::CDB..at::CDB + cdb.len()].copy_from_slice(cdb);
        i.cmd_sn += 1;
        i.send(head, &[]);
        i.one()
    };
    assert_eq!(ask(&[0x12, 0, 0, 0, 255]).data[0], 0x7f);
    assert_eq!(ask(&[0x03, 0, 0, 0, 255]).data[12], 0x25);
    assert_eq!(ask(&[0xa0, 0, 0, 0, 0, 0, 0, 0, 0, 255]).data[3], 8);
    assert_eq!(ask(&[0; 6]).sense(), (5, 0x25, 0));
}

#[test]
fn digests_are_looked_at() {
    let both = "HeaderDigest=CRC32C\0DataDigest=CRC32C\0";
    let mut i = Initiator::logged_in(both);
    assert_eq!(i.read(&[0x12, 0, 0, 0, 37], 37).0.len(), 37);
    let write = [0x2a, 0, 0, 0, 0, 0, 0, 0, 1];
    i.command(FINAL | 0x20, &write, 512, &[7; 512]);
    assert_eq!((i.one().status(), i.disk[511]), (0, 7));
    // Damaged data: the command fails, and the session goes on.
    i.data_digest = false;
    i.command(FINAL | 0x20, &write, 512, &[8; 512]);
    assert!(i.take().is_empty(), "four bytes are missing");
    i.send_bytes(&[0; 4]).unwrap();
    i.data_digest = true;
    let answer = i.one();
    assert_eq!((answer.sense(), i.disk[511]), ((0x0b, 0x47, 5), 7));
    // A damaged header.
    i.header_digest = false;
    let head = Head::new(opcode::NOP_OUT | 0x40).answering(3);
    i.send(head, &[]);
    assert_eq!(i.send_bytes(&[0; 4]), Err(ProtocolError::HeaderDigest));
}

#[test]
fn aborts_wait_for_what_nodes_have_in_work() {
    let mut i = Initiator::logged_in("");
    i.holds = true;
    let write = [0x2a, 0, 0, 0, 0, 0, 0, 0, 1];
    let tag = i.command(FINAL | 0x20, &write, 512, &[7; 512]);
    let other = i.command(FINAL | 0x20, &write, 512, &[8; 512]);
    let abort = i.manage(1, tag);
    assert!(i.take().is_empty(), "a node has it");
    i.release();
    let all = i.take();
    let answered: Vec<(u8, u32)> = all.iter().map(|u| (u.head.opcode(), u.head.tag())).collect();
    assert_eq!(answered, [(opcode::TASK_MANAGEMENT_RESPONSE, abort), (opcode::RESPONSE, other)]);
    assert_eq!(all[0].head.0[2], 0);
    for (function, referenced, outcome) in
        [(1, 4711, 1), (3, 0, 5), (7, 0, 0), (8, 0, 4), (2, 0, 0), (5, 0, 0), (99, 0, 5)]
    {
        let tag = i.manage(function, referenced);
        let answer = i.one();
        assert_eq!((answer.head.tag(), answer.head.0[2]), (tag, outcome), "{function}");
    }
}

#[test]
fn only_some_aborts_wait_at_a_time() {
    let mut i = Initiator::logged_in("");
    i.holds = true;
    i.command(FINAL | 0x20, &[0x2a, 0, 0, 0, 0, 0, 0, 0, 1], 512, &[7; 512]);
    for _ in 0..64 {
        i.manage(2, 0);
    }
    assert!(i.take().is_empty(), "a node has the command");
    for function in [2, 5] {
        i.manage(function, 0);
        assert_eq!(i.one().head.0[2], 255, "one too many");
    }
    assert_eq!(i.held.len(), 1, "no reset is asked for");
    i.release();
    let all = i.take();
    assert!(all.len() == 64 && all.iter().all(|u| u.head.0[2] == 0));
    i.manage(2, 0);
    assert_eq!(i.one().head.0[2], 0);
}

#[test]
fn an_initiator_is_asked_to_log_out_and_told_when_it_is_dropped() {
    let mut i = Initiator::logged_in("HeaderDigest=CRC32C\0");
    i.holds = true;
    i.command(FINAL | 0x40, &[0x28, 0, 0, 0, 0, 0, 0, 0, 1], 512, &[]);
    assert!(i.server.part(Parting::Logout(2)));
    let asked = i.one();
    assert_eq!((asked.head.opcode(), asked.head.tag()), (opcode::ASYNCHRONOUS, NO_TAG));
    assert_eq!(asked.head.0[36..48], [1, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0]);
    assert_eq!(asked.head.0[8..16], [0; 8], "it is about no unit");
    // Commands in work go on, and statuses are numbered on.
    i.release();
    let read = i.one();
    assert_eq!(read.head.word(at::STAT_SN), asked.head.word(at::STAT_SN) + 1);
    assert_eq!(i.read(&[0; 6], 0).1.status(), 0);
    assert!(i.server.part(Parting::Drop(7)));
    assert_eq!(i.one().head.0[36..44], [3, 0, 0, 0, 0, 7, 0, 0]);
    i.send(Head::new(opcode::LOGOUT | 0x40).answering(9), &[]);
    assert_eq!((i.one().head.opcode(), i.server.closing()), (opcode::LOGOUT_RESPONSE, true));
    assert!(!i.server.part(Parting::Drop(0)) && i.take().is_empty(), "it has logged out");
    // Before a login and in a discovery session there is nobody to tell.
    let mut i = Initiator::new();
    assert!(!i.server.part(Parting::Logout(2)) && i.take().is_empty());
    i.login(0x87, b"InitiatorName=iqn.a\0SessionType=Discovery\0");
    assert!(!i.server.part(Parting::Logout(2)) && i.take().is_empty());
}

#[test]
fn a_login_can_be_sent_to_another_process() {
    let mut i = Initiator::new();
    i.moves = Some("[2001:db8::7]:3260".to_string());
    let answer = i.login(0x87, NAMES);
    assert_eq!((answer.head.half(36), answer.head.flags()), (0x0101, 0));
    assert_eq!(text(&answer), ["TargetAddress=[2001:db8::7]:3260"]);
    assert!(i.server.closing());
}

#[test]
fn a_logout_waits_for_what_is_in_work() {
    let mut i = Initiator::logged_in("");
    i.holds = true;
    i.command(FINAL | 0x40, &[0x28, 0, 0, 0, 0, 0, 0, 0, 1], 512, &[]);
    // Of this one no data ever come.
    i.command(FINAL | 0x20, &[0x2a, 0, 0, 0, 0, 0, 0, 0, 1], 512, &[]);
    assert_eq!(i.one().head.opcode(), opcode::R2T);
    i.send(Head::new(opcode::LOGOUT | 0x40).answering(9), &[]);
    assert!(i.take().is_empty() && !i.server.closing());
    i.release();
    let kinds: Vec<u8> = i.take().iter().map(|u| u.head.opcode()).collect();
    assert_eq!(kinds, [opcode::DATA_IN, opcode::LOGOUT_RESPONSE]);
    assert!(i.server.closing());
}

/// A request that only fetches the rest of an answer is not looked at, and so leads nowhere.
#[test]
fn no_stage_is_left_by_fetching_an_answer() {
    let mut i = Initiator::new();
    let many: String = (0..200).map(|n| format!("X-{n:040}=1\0")).collect();
    let (one, two) = many.as_bytes().split_at(4000);
    i.login(0x40, &[NAMES, one].concat());
    let first = i.login(0x00, two);
    assert_eq!((first.head.flags(), first.data.len()), (CONTINUE, 8192), "there is more of it");
    let rest = i.login(0x83, b"");
    assert_eq!((rest.head.flags(), rest.head.half(14)), (0, 0), "it is in the same stage");
    let last = i.login(0x83, b"");
    assert_eq!((last.head.flags(), last.head.half(36)), (0x83, 0), "and goes on from there");
    assert_eq!(i.read(&[0; 6], 0).1.status(), 0);
}
