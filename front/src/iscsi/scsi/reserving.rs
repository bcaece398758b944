//! PERSISTENT RESERVE IN and OUT (SPC-4, 6.15 and 6.16); RESERVE and RELEASE (SPC-2, 7.21 and 7.16).

use super::commands::Cdb;
use super::unit::Unit;
use super::{Sense, Work, long};
use crate::iscsi::reservation::{Action, Held, Kind, State};

/// What PERSISTENT RESERVE IN asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::iscsi) enum Query {
    Keys,
    Reservation,
    FullStatus,
}

/// What PERSISTENT RESERVE OUT is to do, before its parameters have come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::iscsi) enum Asked {
    Register,
    Reserve(Kind),
    Release(Kind),
    Clear,
    Preempt(Kind),
    RegisterAndIgnore,
    Move,
    /// RESERVE(6).
    Hold,
    /// RELEASE(6).
    Unhold,
}

/// Length of the parameter list; of REGISTER AND MOVE that of what comes before the TransportID.
pub(super) const LIST: u64 = 24;

/// The longest TransportID: a name of 223 bytes and a session's number.
const LONGEST_ID: u64 = 4 + 244;

/// The shortest.
const SHORTEST_ID: u64 = 24;

/// The sense data's pointers into the list of REGISTER AND MOVE.
const ITS_PORT: usize = 18;
const ITS_LENGTH: usize = 20;

/// Where its flags are.
const FLAGS: usize = 20;

fn query(cdb: &Cdb<'_>, query: Query) -> Result<Work, Sense> {
    Ok(Work::Reservations { query, most: cdb.number(7, 2) as usize })
}

pub(super) fn read_keys(cdb: &Cdb<'_>, _: &Unit) -> Result<Work, Sense> {
    query(cdb, Query::Keys)
}

pub(super) fn read_reservation(cdb: &Cdb<'_>, _: &Unit) -> Result<Work, Sense> {
    query(cdb, Query::Reservation)
}

pub(super) fn read_full_status(cdb: &Cdb<'_>, _: &Unit) -> Result<Work, Sense> {
    query(cdb, Query::FullStatus)
}

pub(super) fn hold(_: &Cdb<'_>, _: &Unit) -> Result<Work, Sense> {
    Ok(Work::Reserve { asked: Asked::Hold, list: 0 })
}

pub(super) fn unhold(_: &Cdb<'_>, _: &Unit) -> Result<Work, Sense> {
    Ok(Work::Reserve { asked: Asked::Unhold, list: 0 })
}

/// Whether a command that no node sees is refused while a session has the unit to itself (SPC-2, 5.5.1). What nodes do is
/// judged by the map that they have then.
pub(in crate::iscsi) fn is_excluded(opcode: u8, work: &Work, held: Held) -> bool {
    const IN: u8 = 0x5e;
    // TEST UNIT READY is not among them.
    const ALLOWED: [u8; 4] = [0x03, 0x12, 0xa0, 0xa3];
    let is_here = matches!(
        work,
        Work::Data(_) | Work::Nothing | Work::Flush | Work::Modes { .. } | Work::CopyStatus { .. }
    );
    match held {
        Held::Nobody => false,
        Held::Itself => is_here && opcode == IN,
        Held::Another => is_here && !ALLOWED.contains(&opcode),
    }
}

/// Reservations outlive power cuts, whatever is asked; all types are known. RESERVE and RELEASE of a registrant that may write
/// change nothing.
pub(super) fn report_capabilities(cdb: &Cdb<'_>, _: &Unit) -> Result<Work, Sense> {
    const PERSISTS: u8 = 0x01;
    const COMPATIBLE: u8 = 0x10;
    const TYPES_ARE_VALID: u8 = 0x80;
    Ok(cdb.answered(
        vec![0, 8, COMPATIBLE | PERSISTS, TYPES_ARE_VALID | PERSISTS, 0xea, 0x01, 0, 0],
        7,
        2,
    ))
}

/// One of PERSISTENT RESERVE OUT's actions, by the number of its type if it has one.
fn out(cdb: &Cdb<'_>, asked: Asked) -> Result<Work, Sense> {
    match cdb.number(5, 4) {
        LIST => Ok(Work::Reserve { asked, list: LIST }),
        _ => Err(Sense::LIST_LENGTH),
    }
}

/// The type of the reservation, which is of the whole unit.
fn kind(cdb: &Cdb<'_>) -> Result<Kind, Sense> {
    if cdb.0[2] >> 4 != 0 {
        return Err(Sense::field(2, Some(7)));
    }
    Kind::of(cdb.0[2]).ok_or_else(|| Sense::field(2, Some(3)))
}

pub(super) fn register(cdb: &Cdb<'_>, _: &Unit) -> Result<Work, Sense> {
    out(cdb, Asked::Register)
}

pub(super) fn register_and_ignore(cdb: &Cdb<'_>, _: &Unit) -> Result<Work, Sense> {
    out(cdb, Asked::RegisterAndIgnore)
}

pub(super) fn reserve(cdb: &Cdb<'_>, _: &Unit) -> Result<Work, Sense> {
    out(cdb, Asked::Reserve(kind(cdb)?))
}

pub(super) fn release(cdb: &Cdb<'_>, _: &Unit) -> Result<Work, Sense> {
    out(cdb, Asked::Release(kind(cdb)?))
}

pub(super) fn clear(cdb: &Cdb<'_>, _: &Unit) -> Result<Work, Sense> {
    out(cdb, Asked::Clear)
}

/// With or without aborting: what others have asked for does not take effect after the answer either way.
pub(super) fn preempt(cdb: &Cdb<'_>, _: &Unit) -> Result<Work, Sense> {
    out(cdb, Asked::Preempt(kind(cdb)?))
}

/// REGISTER AND MOVE. The scope and the type mean nothing.
pub(super) fn register_and_move(cdb: &Cdb<'_>, _: &Unit) -> Result<Work, Sense> {
    match cdb.number(5, 4) {
        list if (LIST + SHORTEST_ID..=LIST + LONGEST_ID).contains(&list) => {
            Ok(Work::Reserve { asked: Asked::Move, list })
        }
        _ => Err(Sense::LIST_LENGTH),
    }
}

/// The parameters of REGISTER AND MOVE (SPC-4, 6.16.4).
fn moving(list: &[u8]) -> Result<Action, Sense> {
    const UNREG: u8 = 0x02;
    let (head, id) = list.split_at_checked(LIST as usize).ok_or(Sense::LIST_LENGTH)?;
    let (key, new) = (long(&head[..8]), long(&head[8..16]));
    let length = u32::from_be_bytes([head[20], head[21], head[22], head[23]]) as usize;
    if length != id.len() {
        return Err(Sense::parameter(ITS_LENGTH));
    }
    if new == 0 {
        return Err(Sense::NO_KEY);
    }
    let name = port_named(id).ok_or_else(|| Sense::parameter(LIST as usize))?;
    let port = u16::from_be_bytes([head[ITS_PORT], head[ITS_PORT + 1]]);
    Ok(Action::Move { key, new, name, port, leaves: head[17] & UNREG != 0 })
}

/// The initiator port in a TransportID. One without a session's number names all ports of an initiator.
fn port_named(id: &[u8]) -> Option<String> {
    let (head, name) = id.split_at_checked(4)?;
    let length = usize::from(u16::from_be_bytes([head[2], head[3]]));
    if head[0] != WITH_SESSION || length != name.len() || !length.is_multiple_of(4) {
        return None;
    }
    let end = name.iter().position(|byte| *byte == 0)?;
    let (initiator, session) = std::str::from_utf8(&name[..end]).ok()?.rsplit_once(",i,0x")?;
    let is_number = session.bytes().all(|c| c.is_ascii_hexdigit()) && session.len() <= 12;
    let session = u64::from_str_radix(session, 16).ok().filter(|_| is_number)?;
    (!initiator.is_empty()).then(|| format!("{initiator},i,0x{session:012x}"))
}

/// What is asked for, with its parameters.
pub(super) fn action(asked: Asked, list: &[u8]) -> Result<Action, Sense> {
    /// SPEC_I_PT and ALL_TG_PT: registering others, and through all ports. APTPL is so in any case.
    const UNSUPPORTED: u8 = 0x0c;
    if asked == Asked::Move {
        return moving(list);
    }
    match asked {
        Asked::Hold => return Ok(Action::Hold),
        Asked::Unhold => return Ok(Action::Unhold),
        _ if list.len() as u64 != LIST => return Err(Sense::LIST_LENGTH),
        _ => {}
    }
    let registers = matches!(asked, Asked::Register | Asked::RegisterAndIgnore);
    if registers && list[FLAGS] & UNSUPPORTED != 0 {
        return Err(Sense::parameter(FLAGS));
    }
    let (key, other) = (long(&list[..8]), long(&list[8..16]));
    Ok(match asked {
        Asked::Register => Action::Register { key, new: other, ignores: false },
        Asked::RegisterAndIgnore => Action::Register { key, new: other, ignores: true },
        Asked::Reserve(kind) => Action::Reserve { key, kind },
        Asked::Release(kind) => Action::Release { key, kind },
        Asked::Clear => Action::Clear { key },
        Asked::Preempt(kind) => Action::Preempt { key, victim: other, kind },
        Asked::Move => return moving(list),
        Asked::Hold => Action::Hold,
        Asked::Unhold => Action::Unhold,
    })
}

/// The answer of PERSISTENT RESERVE IN.
pub(in crate::iscsi) fn report(query: Query, state: &State, most: usize) -> Vec<u8> {
    let body = match query {
        Query::Keys => state.registrants.iter().flat_map(|r| r.key.to_be_bytes()).collect(),
        Query::Reservation => state.reservation.map_or(Vec::new(), |kind| {
            let holder = state.registrants.iter().find(|r| r.holds && !kind.is_held_by_all());
            let key = holder.map_or(0, |r| r.key).to_be_bytes();
            [&key[..], &[0; 5], &[kind as u8, 0, 0]].concat()
        }),
        Query::FullStatus => full_status(state),
    };
    let head = [state.generation.to_be_bytes(), (body.len() as u32).to_be_bytes()].concat();
    let mut bytes = [head, body].concat();
    bytes.truncate(most);
    bytes
}

fn full_status(state: &State) -> Vec<u8> {
    let one = |r: &crate::iscsi::reservation::Registrant| {
        let kind = state.reservation.filter(|_| r.holds).map_or(0, |kind| kind as u8);
        let id = transport_id(&r.name);
        let mut bytes = r.key.to_be_bytes().to_vec();
        bytes.extend_from_slice(&[0, 0, 0, 0, u8::from(r.holds), kind, 0, 0, 0, 0]);
        bytes.extend_from_slice(&r.port.to_be_bytes());
        bytes.extend_from_slice(&(id.len() as u32).to_be_bytes());
        bytes.extend_from_slice(&id);
        bytes
    };
    state.registrants.iter().flat_map(one).collect()
}

/// The first byte of a TransportID of iSCSI whose name has the session's number.
const WITH_SESSION: u8 = 0x45;

/// The TransportID of an initiator port (SPC-4, 7.6.4.6), whose name has the session's number.
fn transport_id(name: &str) -> Vec<u8> {
    let mut name = name.as_bytes().to_vec();
    name.resize((name.len() + 1).next_multiple_of(4).max(20), 0);
    let length = (name.len() as u16).to_be_bytes();
    [&[WITH_SESSION, 0, length[0], length[1]], &name[..]].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::iscsi::reservation::Registrant;

    fn list(key: u64, other: u64, flags: u8) -> Vec<u8> {
        let mut list = [key.to_be_bytes(), other.to_be_bytes(), [0; 8]].concat();
        list[FLAGS] = flags;
        list
    }

    #[test]
    fn parameters_become_actions() {
        let kind = Kind::ExclusiveAccess;
        let of = |asked| action(asked, &list(1, 2, 1)).unwrap();
        assert_eq!(of(Asked::Register), Action::Register { key: 1, new: 2, ignores: false });
        assert_eq!(
            of(Asked::RegisterAndIgnore),
            Action::Register { key: 1, new: 2, ignores: true }
        );
        assert_eq!(of(Asked::Reserve(kind)), Action::Reserve { key: 1, kind });
        assert_eq!(of(Asked::Release(kind)), Action::Release { key: 1, kind });
        assert_eq!(of(Asked::Clear), Action::Clear { key: 1 });
        assert_eq!(of(Asked::Preempt(kind)), Action::Preempt { key: 1, victim: 2, kind });
        for flags in [0x08, 0x04] {
            assert_eq!(action(Asked::Register, &list(0, 2, flags)), Err(Sense::parameter(FLAGS)));
        }
        assert_eq!(action(Asked::Clear, &[0; 23]), Err(Sense::LIST_LENGTH));
    }

    #[test]
    fn a_reservation_is_moved_to_an_initiator_port() {
        let list = |id: &[u8], length: usize| {
            let mut list = [1_u64.to_be_bytes(), 2_u64.to_be_bytes(), [0; 8]].concat();
            (list[17], list[19]) = (0x03, 7);
            list[20..24].copy_from_slice(&(length as u32).to_be_bytes());
            [&list[..], id].concat()
        };
        let name = "iqn.a,i,0x80000000000a".to_string();
        let id = transport_id(&name);
        let moved = Action::Move { key: 1, new: 2, name, port: 7, leaves: true };
        assert_eq!(action(Asked::Move, &list(&id, id.len())), Ok(moved.clone()));
        assert_eq!(
            action(Asked::Move, &list(&transport_id("iqn.a,i,0x80000000000A"), id.len())),
            Ok(moved)
        );
        let wrong =
            |list: &[u8], at| assert_eq!(action(Asked::Move, list), Err(Sense::parameter(at)));
        wrong(&list(&id, id.len() - 1), ITS_LENGTH);
        wrong(&list(&id[..id.len() - 4], id.len()), ITS_LENGTH);
        for name in ["iqn.a", "iqn.a,i,0x", "iqn.a,i,0x1g", "iqn.a,i,0x1234567890123", ",i,0x1"] {
            let id = transport_id(name);
            wrong(&list(&id, id.len()), LIST as usize);
        }
        // Another protocol, all ports of an initiator, another length, no end, no text.
        for (at, byte) in [(0, 0x46), (0, 0x05), (3, 20), (4, 0xff)] {
            let mut id = id.clone();
            id[at] = byte;
            wrong(&list(&id, id.len()), LIST as usize);
        }
        let endless = [&[WITH_SESSION, 0, 0, 20], "iqn.aaaaaa,i,0x12345".as_bytes()].concat();
        wrong(&list(&endless, endless.len()), LIST as usize);
        let mut no_key = list(&id, id.len());
        no_key[15] = 0;
        assert_eq!(action(Asked::Move, &no_key), Err(Sense::NO_KEY));
    }

    #[test]
    fn reports_are_as_the_standard_has_them() {
        let name = |n: &str| format!("iqn.{n},i,0x800000000001");
        let state = State {
            generation: 7,
            registrants: vec![
                Registrant { name: name("a"), port: 3, key: 0x11, holds: false },
                Registrant { name: name("b"), port: 4, key: 0x22, holds: true },
            ],
            reservation: Some(Kind::WriteExclusive),
        };
        let keys = report(Query::Keys, &state, 100);
        assert_eq!(keys[..8], [0, 0, 0, 7, 0, 0, 0, 16]);
        assert_eq!((keys[15], keys[23], keys.len()), (0x11, 0x22, 24));
        assert_eq!(report(Query::Keys, &state, 10).len(), 10, "the length stays what it is");
        let held = report(Query::Reservation, &state, 100);
        assert_eq!((held.len(), held[7], held[15], held[21]), (24, 16, 0x22, 1));
        let all = State { reservation: Some(Kind::WriteExclusiveAllRegistrants), ..state.clone() };
        let held = report(Query::Reservation, &all, 100);
        assert_eq!((held[15], held[21]), (0, 7), "all hold it, and so none is named");
        assert_eq!(report(Query::Reservation, &State::default(), 100), [0; 8]);
        let full = report(Query::FullStatus, &state, 1000);
        let second = 8 + 24 + 28;
        assert_eq!((full.len(), full[8 + 12], full[second + 12]), (second + 52, 0, 1));
        assert_eq!((full[second + 13], full[second + 19], full[second + 23]), (1, 4, 28));
        assert_eq!(full[second + 24..second + 28], [0x45, 0, 0, 24]);
        assert_eq!(full[second + 28..second + 28 + 22], *name("b").as_bytes());
    }
}
