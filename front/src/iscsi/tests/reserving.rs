//! Reservations, and what an initiator is told of those of others.

use super::*;
use crate::iscsi::Failure;
use crate::iscsi::pdu::{FINAL, opcode};
use crate::iscsi::reservation::{Action, Held, Kind, Outcome, Registrant, State};
use crate::iscsi::scsi::unit::sample;
use crate::iscsi::{Attention, Unit as Disk};

const RESERVE: [u8; 10] = [0x5f, 0x01, 0x03, 0, 0, 0, 0, 0, 24, 0];

/// A command with its parameters, and its answer.
fn reserve(i: &mut Initiator, cdb: &[u8; 10], list: &[u8]) -> Unit {
    i.command(FINAL | 0x20, cdb, list.len() as u32, list);
    i.one()
}

fn list(key: u64, other: u64) -> Vec<u8> {
    [key.to_be_bytes(), other.to_be_bytes(), [0; 8]].concat()
}

#[test]
fn reservations_end_as_the_driver_says() {
    let mut i = Initiator::logged_in("");
    let conflict = 0x18;
    for (outcome, status, sense) in [
        (Outcome::Done, 0, None),
        (Outcome::Conflict, conflict, None),
        (Outcome::WrongRelease, 2, Some((5, 0x26, 4))),
        (Outcome::NoKey, 2, Some((5, 0x26, 0))),
        (Outcome::Full, 2, Some((5, 0x55, 4))),
    ] {
        i.outcome = outcome;
        let answer = reserve(&mut i, &RESERVE, &list(7, 0));
        assert_eq!(answer.status(), status, "{outcome:?}");
        assert_eq!(sense.map(|_| answer.sense()), sense);
    }
    let asked = Action::Reserve { key: 7, kind: Kind::ExclusiveAccess };
    assert!(i.asked.len() == 5 && i.asked.iter().all(|a| *a == asked));
    // What makes no sense does not reach the driver.
    for (at, value) in [(2, 0x13), (2, 0x02), (1, 0x08), (8, 23)] {
        let mut cdb = RESERVE;
        cdb[at] = value;
        assert_eq!(reserve(&mut i, &cdb, &list(7, 0)).sense().0, 5, "{at}");
    }
    assert_eq!(i.asked.len(), 5);
}

#[test]
fn a_reservation_is_moved_or_refused_with_what_is_wrong() {
    const MOVE: [u8; 10] = [0x5f, 0x07, 0, 0, 0, 0, 0, 0, 52, 0];
    let mut list = [list(7, 8), vec![0x45, 0, 0, 24]].concat();
    (list[19], list[23]) = (2, 28);
    list.extend_from_slice(b"iqn.b,i,0x800000000001\0\0");
    let mut i = Initiator::logged_in("");
    for (outcome, status, sense) in [
        (Outcome::Done, 0, None),
        (Outcome::Conflict, 0x18, None),
        (Outcome::WrongRelease, 2, Some((5, 0x24, 0))),
        (Outcome::NoPort, 2, Some((5, 0x26, 0))),
        (Outcome::NoInitiator, 2, Some((5, 0x26, 0))),
    ] {
        i.outcome = outcome;
        let answer = reserve(&mut i, &MOVE, &list);
        assert_eq!(answer.status(), status, "{outcome:?}");
        assert_eq!(sense.map(|_| answer.sense()), sense);
    }
    let name = "iqn.b,i,0x800000000001".to_string();
    let asked = Action::Move { key: 7, new: 8, name, port: 2, leaves: false };
    assert!(i.asked.len() == 5 && i.asked.iter().all(|a| *a == asked));
    // Lists that are too short or too long for a TransportID, and one of another length than it says.
    for (length, code) in [(24, 0x1a), (44, 0x1a), (300, 0x1a), (56, 0x26)] {
        let mut cdb = MOVE;
        cdb[7..9].copy_from_slice(&(length as u16).to_be_bytes());
        let mut list = list.clone();
        list.resize(length, 0);
        assert_eq!(reserve(&mut i, &cdb, &list).sense(), (5, code, 0), "{length}");
    }
    assert_eq!(i.asked.len(), 5);
    let one = [0xa3, 0x0c, 2, 0x5f, 0, 7, 0, 0, 0, 64, 0, 0];
    assert_eq!(i.read(&one, 64).0[1] & 0x07, 3, "it is supported");
}

#[test]
fn a_unit_that_another_session_resets_is_told_and_cuts_what_has_not_begun() {
    let mut i = Initiator::logged_in("");
    i.holds = true;
    // One command is at a node, of another the data are missing.
    i.command(FINAL | 0x40, &[0x28, 0, 0, 0, 0, 0, 0, 0, 1, 0], 512, &[]);
    i.command(FINAL | 0x20, &[0x2a, 0, 0, 0, 0, 8, 0, 0, 2, 0], 1024, &[7; 512]);
    assert_eq!(i.one().head.0[0] & 0x3f, 0x31, "they are asked for");
    i.server.is_reset(false);
    assert_eq!(i.one().sense(), (0x0b, 0, 0), "it is cut off");
    i.fail(Failure::Busy);
    assert_eq!(i.one().status(), 8, "it ends as it does");
    i.holds = false;
    assert_eq!(i.read(&[0; 6], 0).1.sense(), (6, 0x29, 3));
    assert_eq!(i.read(&[0; 6], 0).1.status(), 0);
}

/// TARGET COLD RESET: the reset, its answer, and then the end of all connections. If the reset fails nothing ends.
#[test]
fn connections_end_after_a_cold_reset_and_no_other() {
    for (function, fails, ended) in [(5, false, 0), (6, false, 0), (7, false, 1), (7, true, 0)] {
        let mut i = Initiator::logged_in("");
        i.holds = true;
        i.command(FINAL | 0x40, &[0x28, 0, 0, 0, 0, 0, 0, 0, 1, 0], 512, &[]);
        i.manage(function, 0);
        assert_eq!((i.take().len(), i.ended), (0, 0), "a node has something to do");
        match fails {
            true => i.fail(Failure::Busy),
            false => i.release(),
        }
        i.work().expect("nothing is wrong");
        let answer = i.one();
        assert_eq!(answer.head.opcode(), opcode::TASK_MANAGEMENT_RESPONSE);
        assert_eq!((answer.head.0[2], i.ended), (if fails { 255 } else { 0 }, ended));
    }
}

/// RESERVE and RELEASE, of SPC-2. Those of ten bytes are not offered.
#[test]
fn a_session_reserves_the_unit_and_releases_it() {
    let mut i = Initiator::logged_in("");
    let hold = |i: &mut Initiator, opcode: u8| {
        i.command(FINAL, &[opcode, 0, 0, 0, 0, 0], 0, &[]);
        i.one()
    };
    for (outcome, status) in [(Outcome::Done, 0), (Outcome::Conflict, 0x18)] {
        i.outcome = outcome;
        assert_eq!([hold(&mut i, 0x16).status(), hold(&mut i, 0x17).status()], [status; 2]);
    }
    assert_eq!(i.asked, [Action::Hold, Action::Unhold, Action::Hold, Action::Unhold]);
    // For a third party, and of an extent.
    for byte in [0x10, 0x12, 0x01] {
        i.command(FINAL, &[0x16, byte, 0, 0, 0, 0], 0, &[]);
        assert_eq!(i.one().sense(), (5, 0x24, 0), "{byte:#x}");
    }
    for (opcode, support) in [(0x16, 3), (0x17, 3), (0x56, 1), (0x57, 1)] {
        let one = [0xa3, 0x0c, 1, opcode, 0, 0, 0, 0, 0, 64, 0, 0];
        assert_eq!(i.read(&one, 64).0[1] & 0x07, support, "{opcode:#x}");
    }
    assert_eq!(i.asked.len(), 4);
}

#[test]
fn what_a_session_has_to_itself_is_a_conflict_for_others() {
    let inquiry = [0x12, 0, 0, 0, 36, 0];
    let capabilities = [0x5e, 2, 0, 0, 0, 0, 0, 0, 255, 0];
    let capacity = [0x25, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let sense = [0x03, 0, 0, 0, 18, 0];
    let commands: [(&[u8], u32, [u8; 3]); 5] = [
        (&[0; 6], 0, [0, 0, 0x18]),
        (&capacity, 8, [0, 0, 0x18]),
        (&capabilities, 8, [0, 0x18, 0x18]),
        (&inquiry, 36, [0; 3]),
        (&sense, 18, [0; 3]),
    ];
    for (at, held) in [Held::Nobody, Held::Itself, Held::Another].into_iter().enumerate() {
        let mut i = Initiator::logged_in("");
        i.server.update(Disk { held, ..sample() });
        for (cdb, expected, status) in &commands {
            assert_eq!(i.read(cdb, *expected).1.status(), status[at], "{held:?} {:#x}", cdb[0]);
        }
    }
}

#[test]
fn an_initiator_sees_who_has_registered() {
    let mut i = Initiator::logged_in("");
    let holder = Registrant { name: "iqn.b,i,0x1".into(), port: 2, key: 9, holds: true };
    i.reservations =
        State { generation: 3, registrants: vec![holder], reservation: Some(Kind::WriteExclusive) };
    let (keys, _) = i.read(&[0x5e, 0, 0, 0, 0, 0, 0, 0, 255, 0], 255);
    assert_eq!(keys, [0, 0, 0, 3, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 9]);
    let (held, _) = i.read(&[0x5e, 1, 0, 0, 0, 0, 0, 0, 255, 0], 255);
    assert_eq!((held.len(), held[15], held[21]), (24, 9, 1));
    let (can, _) = i.read(&[0x5e, 2, 0, 0, 0, 0, 0, 0, 255, 0], 255);
    assert_eq!(
        can,
        [0, 8, 0x11, 0x81, 0xea, 1, 0, 0],
        "and RESERVE of a registrant is no conflict"
    );
}

#[test]
fn what_another_has_reserved_is_a_conflict() {
    let mut i = Initiator::logged_in("");
    i.holds = true;
    i.command(FINAL | 0x40, &[0x28, 0, 0, 0, 0, 0, 0, 0, 1, 0], 512, &[]);
    i.fail(Failure::Reserved);
    assert_eq!(i.one().status(), 0x18);
}

#[test]
fn what_others_do_is_told_once_and_not_with_an_inquiry() {
    let mut i = Initiator::logged_in("");
    i.server.attend(Attention::RegistrationsPreempted);
    i.server.attend(Attention::RegistrationsPreempted);
    let inquiry = [0x12, 0, 0, 0, 36, 0];
    assert_eq!(i.read(&inquiry, 36).1.status(), 0);
    assert_eq!(i.read(&[0; 6], 0).1.sense(), (6, 0x2a, 5));
    assert_eq!(i.read(&[0; 6], 0).1.status(), 0);
    i.server.attend(Attention::ReservationsReleased);
    let block = [7; 512];
    i.command(FINAL | 0x20, &[0x2a, 0, 0, 0, 0, 0, 0, 0, 1, 0], 512, &block);
    assert_eq!(i.one().sense(), (6, 0x2a, 4));
    assert!(i.disk[..512].iter().all(|byte| *byte == 0), "nothing was written");
}

#[test]
fn a_unit_that_changes_is_told_once() {
    let mut i = Initiator::logged_in("");
    i.server.update(sample());
    let ready = |i: &mut Initiator| {
        i.command(FINAL, &[0; 6], 0, &[]);
        i.one()
    };
    assert_eq!(ready(&mut i).status(), 0, "nothing has changed");
    let larger = Disk { size: 2 << 20, write_cache: false, ..sample() };
    i.server.update(larger);
    assert_eq!(ready(&mut i).sense(), (6, 0x2a, 0x09));
    assert_eq!(ready(&mut i).sense(), (6, 0x2a, 0x01));
    assert_eq!(ready(&mut i).status(), 0);
    let capacity = i.read(&[0x25, 0, 0, 0, 0, 0, 0, 0, 0, 0], 8).0;
    assert_eq!(capacity[..4], (4096_u32 - 1).to_be_bytes());
}

#[test]
fn a_host_that_may_only_read_is_told_so() {
    let mut i = Initiator::logged_in("");
    let parameter = |i: &mut Initiator| i.read(&[0x1a, 8, 0x3f, 0, 255, 0], 255).0[2];
    assert_eq!(parameter(&mut i), 0x10);
    i.server.update(Disk { read_only: true, ..sample() });
    assert_eq!(parameter(&mut i), 0x90);
}
