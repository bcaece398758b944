//! The rules of reservations, one by one.

use super::ReservationAction::*;
use super::*;

fn name(host: &str) -> Registrant {
    Registrant { host: host.into(), port: 1 }
}

/// Makes a change and says what became of it.
fn ask(r: &mut Reservations, who: &str, action: ReservationAction) -> ReservationOutcome {
    let stamp = r.outcomes.last().map_or(1, |(stamp, _)| stamp + 1);
    let version = r.version;
    r.take(&ReservationChange { volume: VolumeId(0), who: name(who), action, stamp });
    assert_eq!(r.wrong(), None);
    let outcome = r.outcome(stamp).expect("the latest is known");
    assert!(
        outcome == ReservationOutcome::Done || r.version == version,
        "a refused command changes nothing"
    );
    outcome
}

fn register(r: &mut Reservations, who: &str, key: u64) {
    assert_eq!(
        ask(r, who, Register { key: 0, new: key, ignores: false }),
        ReservationOutcome::Done
    );
}

/// A, B and C are registered with keys 1, 2, 3; A has reserved it.
fn reserved(kind: ReservationKind) -> Reservations {
    let mut r = Reservations::default();
    for (who, key) in [("a", 1), ("b", 2), ("c", 3)] {
        register(&mut r, who, key);
    }
    assert_eq!(ask(&mut r, "a", Reserve { key: 1, kind }), ReservationOutcome::Done);
    r
}

#[test]
fn a_registrant_gives_its_key_to_change_it() {
    let mut r = Reservations::default();
    let to = |key, new| Register { key, new, ignores: false };
    assert_eq!(ask(&mut r, "a", to(5, 6)), ReservationOutcome::Conflict, "it has none");
    assert_eq!(ask(&mut r, "a", to(0, 0)), ReservationOutcome::Done);
    assert_eq!((r.version, r.generation), (0, 0), "nothing has changed");
    assert_eq!(ask(&mut r, "a", to(0, 5)), ReservationOutcome::Done);
    assert_eq!(ask(&mut r, "a", to(0, 6)), ReservationOutcome::Conflict);
    assert_eq!(ask(&mut r, "a", to(5, 6)), ReservationOutcome::Done);
    assert_eq!(
        ask(&mut r, "a", Register { key: 9, new: 7, ignores: true }),
        ReservationOutcome::Done
    );
    assert_eq!((r.registered[&name("a")], r.generation), (7, 3));
    assert_eq!(ask(&mut r, "a", to(7, 0)), ReservationOutcome::Done);
    assert!(r.registered.is_empty());
    assert!((0..MOST_REGISTRANTS).all(|n| {
        let first = Register { key: 0, new: 1, ignores: false };
        ask(&mut r, &n.to_string(), first) == ReservationOutcome::Done
    }));
    assert_eq!(ask(&mut r, "one more", to(0, 5)), ReservationOutcome::Full);
    let more = |r: &mut Reservations| ask(r, "7", to(1, 1));
    for _ in 0..OUTCOMES {
        more(&mut r);
    }
    assert_eq!(r.outcomes.len(), OUTCOMES, "the oldest are forgotten");
}

/// SPC-4, table 56, and whom each kind serves.
#[test]
fn who_may_read_and_write_under_each_kind() {
    for kind in ReservationKind::ALL {
        let r = reserved(kind);
        let may = |who: Option<&str>| {
            let who = who.map(name);
            (r.permit(who.as_ref(), false), r.permit(who.as_ref(), true))
        };
        let excluded = (!kind.excludes_reads(), false);
        let registrant = if kind.serves_registrants() { (true, true) } else { excluded };
        assert_eq!(may(Some("a")), (true, true), "{kind:?}");
        assert_eq!(may(Some("b")), registrant, "{kind:?}");
        assert_eq!((may(Some("x")), may(None)), (excluded, excluded), "{kind:?}");
    }
    assert!(Reservations::default().permit(None, true));
}

#[test]
fn a_reservation_is_its_holders() {
    for kind in ReservationKind::ALL {
        let mut r = reserved(kind);
        let all = kind.is_held_by_all();
        let by_b = if all { ReservationOutcome::Done } else { ReservationOutcome::Conflict };
        assert_eq!(ask(&mut r, "a", Reserve { key: 1, kind }), ReservationOutcome::Done, "again");
        assert_eq!(ask(&mut r, "b", Reserve { key: 2, kind }), by_b);
        assert_eq!(ask(&mut r, "b", Reserve { key: 1, kind }), ReservationOutcome::Conflict);
        let other = ReservationKind::ALL.into_iter().find(|k| *k != kind).unwrap();
        assert_eq!(ask(&mut r, "a", Reserve { key: 1, kind: other }), ReservationOutcome::Conflict);
        assert_eq!(
            ask(&mut r, "a", Release { key: 1, kind: other }),
            ReservationOutcome::WrongRelease
        );
        if !all {
            assert_eq!(ask(&mut r, "b", Release { key: 2, kind }), ReservationOutcome::Done);
            assert!(r.reservation.is_some(), "it was not b's");
        }
        assert_eq!(ask(&mut r, "a", Release { key: 1, kind }), ReservationOutcome::Done);
        assert!(r.reservation.is_none() && r.registered.len() == 3);
    }
}

#[test]
fn a_reservation_goes_with_its_holder_or_with_the_last_registrant() {
    for kind in ReservationKind::ALL {
        let mut r = reserved(kind);
        let leave = |key| Register { key, new: 0, ignores: false };
        assert_eq!(ask(&mut r, "a", leave(1)), ReservationOutcome::Done);
        assert_eq!(r.reservation.is_some(), kind.is_held_by_all(), "{kind:?}");
        assert_eq!(ask(&mut r, "b", leave(2)), ReservationOutcome::Done);
        assert_eq!(ask(&mut r, "c", leave(3)), ReservationOutcome::Done);
        assert!(r.reservation.is_none());
    }
}

#[test]
fn preempting_removes_registrants_and_takes_their_reservation() {
    for kind in ReservationKind::ALL {
        let taken = WriteExclusive;
        let preempt = |victim| Preempt { key: 2, victim, kind: taken };
        let mut r = reserved(kind);
        assert_eq!(
            ask(&mut r, "b", preempt(9)),
            ReservationOutcome::Conflict,
            "nobody has that key"
        );
        assert_eq!(
            ask(&mut r, "x", preempt(1)),
            ReservationOutcome::Conflict,
            "it is not registered"
        );
        assert_eq!(ask(&mut r, "b", preempt(3)), ReservationOutcome::Done);
        assert!(!r.registered.contains_key(&name("c")));
        assert_eq!(r.reservation.as_ref().map(|r| r.kind), Some(kind), "it was not c's");
        if kind.is_held_by_all() {
            assert_eq!(ask(&mut r, "b", preempt(0)), ReservationOutcome::Done);
        } else {
            assert_eq!(ask(&mut r, "b", preempt(0)), ReservationOutcome::NoKey);
            assert_eq!(ask(&mut r, "b", preempt(1)), ReservationOutcome::Done);
        }
        assert_eq!(r.registered.keys().collect::<Vec<_>>(), [&name("b")]);
        let removed: Vec<_> = r.removed.iter().map(|removal| &removal.who).collect();
        assert_eq!(removed, [&name("c"), &name("a")], "each since its own version");
        assert!(r.removed[0].version < r.removed[1].version);
        let reservation = Some(Reservation { kind: taken, holder: name("b") });
        assert_eq!(r.reservation, reservation);
        assert_eq!(ask(&mut r, "b", preempt(2)), ReservationOutcome::Done, "of itself");
        assert_eq!(r.reservation, reservation);
    }
}

/// SPC-4, 5.13.11.5: without the reservation, all registrants with the key are removed, and who asks is one of them.
#[test]
fn preempting_its_own_key_removes_who_does_not_hold_the_reservation() {
    let of_itself = |key| Preempt { key, victim: key, kind: WriteExclusive };
    for kind in ReservationKind::ALL {
        let mut r = reserved(kind);
        register(&mut r, "d", 2);
        assert_eq!(ask(&mut r, "b", of_itself(2)), ReservationOutcome::Done);
        assert_eq!(r.registered.keys().collect::<Vec<_>>(), [&name("a"), &name("c")], "{kind:?}");
        assert_eq!(r.reservation.as_ref().map(|r| r.kind), Some(kind));
        // The reservation goes with the last that all registrants hold. Another kind stays with its holder.
        assert_eq!(ask(&mut r, "c", of_itself(3)), ReservationOutcome::Done);
        assert_eq!(ask(&mut r, "a", of_itself(1)), ReservationOutcome::Done);
        let reservation = Reservation { kind: WriteExclusive, holder: name("a") };
        assert_eq!(r.reservation, (!kind.is_held_by_all()).then_some(reservation), "{kind:?}");
        assert_eq!(r.registered.is_empty(), kind.is_held_by_all());
    }
}

/// Only registrants hold an all-registrants reservation: its maker loses it with the registration.
#[test]
fn who_made_a_reservation_and_is_registered_no_more_is_excluded() {
    for kind in ReservationKind::ALL {
        let leaves = Register { key: 1, new: 0, ignores: false };
        let removes = Preempt { key: 2, victim: 1, kind };
        for (who, action) in [("a", leaves), ("b", removes)] {
            let mut r = reserved(kind);
            assert_eq!(ask(&mut r, who, action.clone()), ReservationOutcome::Done);
            let excluded = r.reservation.is_some();
            assert_eq!(r.permit(Some(&name("a")), true), !excluded, "{kind:?} {action:?}");
        }
    }
}

#[test]
fn a_change_that_is_asked_for_twice_is_made_once() {
    let mut r = Reservations::default();
    let action = Register { key: 0, new: 5, ignores: false };
    let change = ReservationChange { volume: VolumeId(0), who: name("a"), action, stamp: 77 };
    assert_eq!(r.changes_nothing(&change), None);
    r.take(&change);
    r.take(&change);
    assert_eq!((r.outcome(77), r.version), (Some(ReservationOutcome::Done), 1));
    let again = ReservationChange { stamp: 78, ..change };
    assert_eq!(r.changes_nothing(&again), Some(ReservationOutcome::Conflict));
    assert_eq!(r.outcome(78), None, "it was not made");
}

#[test]
fn clearing_leaves_nothing() {
    let mut r = reserved(ExclusiveAccess);
    assert_eq!(ask(&mut r, "b", Clear { key: 1 }), ReservationOutcome::Conflict);
    assert_eq!(ask(&mut r, "b", Clear { key: 2 }), ReservationOutcome::Done);
    assert!(r.registered.is_empty() && r.reservation.is_none());
    let mut r = reserved(ExclusiveAccess);
    assert_eq!(ask(&mut r, "", ClearByOperator), ReservationOutcome::Done);
    assert!(r.registered.is_empty() && r.permit(None, true));
}

/// SPC-4, 5.13.8.
#[test]
fn a_reservation_moves_with_its_kind_and_registers_whom_it_moves_to() {
    let to_x = |key, new, leaves| Move { key, to: name("x"), new, leaves };
    for kind in ReservationKind::ALL {
        let mut r = reserved(kind);
        assert_eq!(ask(&mut r, "x", to_x(0, 9, false)), ReservationOutcome::Conflict, "a stranger");
        assert_eq!(ask(&mut r, "a", to_x(2, 9, false)), ReservationOutcome::Conflict, "its key");
        if kind.is_held_by_all() {
            assert_eq!(ask(&mut r, "a", to_x(1, 9, false)), ReservationOutcome::Conflict);
            continue;
        }
        assert_eq!(ask(&mut r, "b", to_x(2, 9, false)), ReservationOutcome::Conflict, "no holder");
        assert_eq!(ask(&mut r, "a", to_x(1, 0, false)), ReservationOutcome::NoKey);
        let to_itself = Move { key: 1, to: name("a"), new: 9, leaves: true };
        assert_eq!(ask(&mut r, "a", to_itself), ReservationOutcome::Conflict);
        let generation = r.generation;
        assert_eq!(ask(&mut r, "a", to_x(1, 9, false)), ReservationOutcome::Done);
        assert_eq!(r.reservation, Some(Reservation { kind, holder: name("x") }));
        assert_eq!((r.registered[&name("x")], r.registered.len()), (9, 4));
        assert_eq!(r.generation, generation + 1);
        // To one that is registered already: it gets the new key. The one before leaves.
        let to_b = Move { key: 9, to: name("b"), new: 7, leaves: true };
        assert_eq!(ask(&mut r, "x", to_b), ReservationOutcome::Done);
        assert_eq!(r.reservation, Some(Reservation { kind, holder: name("b") }));
        assert_eq!((r.registered[&name("b")], r.registered.get(&name("x"))), (7, None));
        assert!(r.permit(Some(&name("b")), true) && !r.permit(Some(&name("x")), true));
    }
    let mut r = Reservations::default();
    register(&mut r, "a", 1);
    assert_eq!(
        ask(&mut r, "a", to_x(1, 9, false)),
        ReservationOutcome::WrongRelease,
        "not reserved"
    );
    let kind = WriteExclusive;
    assert_eq!(ask(&mut r, "a", Reserve { key: 1, kind }), ReservationOutcome::Done);
    for n in 1..MOST_REGISTRANTS {
        register(&mut r, &n.to_string(), 1);
    }
    assert_eq!(ask(&mut r, "a", to_x(1, 9, true)), ReservationOutcome::Full);
    let to_known = Move { key: 1, to: name("7"), new: 2, leaves: true };
    assert_eq!(ask(&mut r, "a", to_known), ReservationOutcome::Done);
}

/// Whoever asks: earlier permissions are out of date, and nothing else changes.
#[test]
fn a_reset_leaves_registrants_and_the_reservation() {
    let mut r = reserved(ExclusiveAccess);
    let before = r.clone();
    assert_eq!(ask(&mut r, "x", Reset), ReservationOutcome::Done);
    assert_eq!((r.version, r.resets), (before.version + 1, 1));
    assert_eq!((r.generation, &r.registered), (before.generation, &before.registered));
    assert_eq!(r.reservation, before.reservation);
}

#[test]
fn a_port_is_that_of_a_process() {
    for process in [0, 1, 7, 499] {
        let port = Registrant::port_of(NodeId(process));
        assert_eq!(Registrant { host: "a".into(), port }.process(), NodeId(process));
    }
}

/// SPC-2, 5.5.1, and SPC-4, 5.13.3.
#[test]
fn a_session_has_the_volume_to_itself_until_it_releases_it_or_ends() {
    let done = ReservationOutcome::Done;
    let conflict = ReservationOutcome::Conflict;
    let mut r = Reservations::default();
    let may = |r: &Reservations| ["a", "b"].map(|who| r.permit(Some(&name(who)), false));
    assert_eq!((ask(&mut r, "a", Unhold), r.version), (done, 0), "there is none");
    assert_eq!(ask(&mut r, "a", Hold), done);
    assert_eq!((may(&r), r.permit(None, false)), ([true, false], false));
    assert!(r.permit(Some(&name("a")), true) && !r.permit(Some(&name("b")), true));
    assert_eq!(ask(&mut r, "b", Hold), conflict);
    let version = r.version;
    assert_eq!((ask(&mut r, "b", Unhold), r.version), (done, version), "it is not b's");
    // Whoever asks: a hold and registrants exclude each other.
    for who in ["a", "b"] {
        for action in [
            Register { key: 0, new: 5, ignores: false },
            Register { key: 0, new: 5, ignores: true },
            Clear { key: 0 },
            Preempt { key: 0, victim: 5, kind: ExclusiveAccess },
        ] {
            assert_eq!(ask(&mut r, who, action), conflict);
        }
    }
    // A later session of the same host has a hold of its own, which does not end with the one before.
    let first = r.hold.as_ref().unwrap().stamp;
    assert_eq!(ask(&mut r, "a", Hold), done);
    let second = r.hold.as_ref().unwrap().stamp;
    let version = r.version;
    assert_eq!((ask(&mut r, "", EndHold { made_by: first }), r.version), (done, version));
    assert_eq!(may(&r), [true, false]);
    assert_eq!(ask(&mut r, "", EndHold { made_by: second }), done);
    assert_eq!((may(&r), r.version), ([true, true], version + 1));
    for ends in [Unhold, Reset, ClearByOperator] {
        assert_eq!((ask(&mut r, "a", Hold), may(&r)), (done, [true, false]));
        assert_eq!((ask(&mut r, "a", ends), may(&r)), (done, [true, true]));
    }
}

#[test]
fn registrants_that_may_write_need_no_hold_and_others_get_none() {
    for kind in ReservationKind::ALL {
        let mut r = reserved(kind);
        let before = r.clone();
        let by_registrant = match kind.serves_registrants() {
            true => ReservationOutcome::Done,
            false => ReservationOutcome::Conflict,
        };
        for action in [Hold, Unhold] {
            assert_eq!(ask(&mut r, "a", action.clone()), ReservationOutcome::Done, "{kind:?}");
            assert_eq!(ask(&mut r, "b", action.clone()), by_registrant, "{kind:?}");
            assert_eq!(ask(&mut r, "x", action), ReservationOutcome::Conflict, "{kind:?}");
        }
        assert_eq!(
            (r.version, &r.hold, &r.reservation),
            (before.version, &None, &before.reservation)
        );
    }
    // Registered, without a reservation.
    let mut r = Reservations::default();
    register(&mut r, "a", 1);
    assert_eq!(ask(&mut r, "a", Hold), ReservationOutcome::Conflict);
}
