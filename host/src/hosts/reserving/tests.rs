use weft_core::cluster::Volume;
use weft_core::layout::{Geometry, LayoutSpec};

use super::*;

#[test]
fn a_host_that_may_only_read_resets_its_session() {
    assert_eq!(of_reader(&ReservationAction::Reset), Ok(ReservationOutcome::Done));
    assert_eq!(of_reader(&ReservationAction::Unhold), Ok(ReservationOutcome::Done));
    let clear = ReservationAction::Clear { key: 5 };
    assert_eq!(of_reader(&clear), Err(HostError::ReadOnly));
}

/// A map with a volume that a session has to itself.
fn map(port: u16, stamp: u64) -> ClusterMap {
    let spec = LayoutSpec::default();
    let geometry = Geometry::new(spec.over(3).unwrap(), 4096);
    let mut volume = Volume::new(VolumeId(1), "v", 0, &spec, geometry, Vec::new());
    let who = Registrant { host: "a".into(), port };
    volume.reservations.hold = Some(Hold { who, stamp });
    ClusterMap { volumes: [(VolumeId(1), volume.into())].into(), ..ClusterMap::default() }
}

#[test]
fn a_hold_ends_with_its_session_and_with_its_process() {
    let mut reservings = Reservings { holds: vec![(7, 70), (8, 80)], ..Reservings::default() };
    let ended = |reservings: &mut Reservings, port, stamp, up| {
        !reservings.ended_holds(&map(port, stamp), NodeId(0), |_| up).is_empty()
    };
    // Of another process nobody here knows the sessions.
    assert!(!ended(&mut reservings, 2, 5, true) && ended(&mut reservings, 2, 5, false));
    reservings.holds = vec![(7, 70), (8, 80)];
    assert!(!ended(&mut reservings, 1, 70, false), "its session is there");
    assert_eq!(reservings.holds, [(7, 70)], "the other has ended in some other way");
    assert!(ended(&mut reservings, 1, 71, true), "of a session before, or before a restart");
    let who = Registrant { host: "a".into(), port: 1 };
    let action = ReservationAction::EndHold { made_by: 71 };
    let change = ReservationChange { volume: VolumeId(1), who, action, stamp: 9 };
    reservings.ask(None, String::new(), &change);
    assert!(!ended(&mut reservings, 1, 71, true), "that is asked for already");
}
/// The leading process makes all that it was asked for.
fn answer_all(reservings: &mut Reservings, now: Instant) {
    reservings.pass(now);
    reservings.changes.retain(|c| matches!(c.state, State::ToAsk(_)));
}

fn reset(volume: u32, stamp: u64) -> ReservationChange {
    let who = Registrant { host: "a".into(), port: 1 };
    ReservationChange { volume: VolumeId(volume), who, action: ReservationAction::Reset, stamp }
}

/// Sessions that have their volume reset as fast as they can, and one of another volume that has it reset once. Some leave
/// before they have an answer.
#[test]
fn a_flood_of_changes_leaves_others_half_of_the_time() {
    let (mut reservings, start) = (Reservings::default(), Instant::now());
    let took = Duration::from_millis(10);
    let (mut now, mut rounds, mut asked, mut stamp) = (start, 0, 0, 0);
    let mut other = None;
    while now < start + Duration::from_secs(30) {
        while reservings.changes.iter().filter(|c| c.volume == VolumeId(1)).count() < 200 {
            stamp += 1;
            reservings.ask(Some((7, stamp)), String::new(), &reset(1, stamp));
        }
        if other.is_none() && now >= start + Duration::from_secs(10) {
            reservings.ask(Some((8, 0)), String::new(), &reset(2, 0));
            other = Some((now, None));
        }
        let questions = reservings.take_questions(now);
        if questions.is_empty() {
            now += Duration::from_millis(1);
            continue;
        }
        (rounds, asked) = (rounds + 1, asked + questions.len());
        assert!(questions.len() <= MOST_OF_A_VOLUME + 1, "each volume has a limit");
        let is_asked = |c: &Waiting| c.volume == VolumeId(2) && !matches!(c.state, State::ToAsk(_));
        if let Some((since, until @ None)) = &mut other
            && reservings.changes.iter().any(is_asked)
        {
            *until = Some(now - *since);
        }
        assert!(reservings.take_questions(now).is_empty(), "one round after the other");
        if rounds % 2 == 0 {
            // The session leaves. What it has asked for takes its time nevertheless.
            reservings.leave(7);
            assert!(reservings.take_questions(now).is_empty());
        }
        now += took;
        answer_all(&mut reservings, now);
    }
    // Half of 30 s and a burst of 900 ms, each round 10 ms.
    let (share, burst) = (1500, 90);
    assert!(rounds <= share + burst + 2, "{rounds} rounds");
    assert!(asked >= 10 * rounds, "{asked} in {rounds} rounds");
    let waited = other.and_then(|(_, waited)| waited).unwrap();
    assert!(waited <= 11 * took, "{waited:?}");
}

/// A host does not keep another from fencing it.
#[test]
fn hosts_take_turns_with_changes_of_a_volume() {
    let mut reservings = Reservings::default();
    for stamp in 0..1000 {
        reservings.ask(Some((7, stamp)), String::new(), &reset(1, stamp));
    }
    let change = ReservationChange {
        who: Registrant { host: "iqn.2026-01.b,i,0x1 b".into(), port: 1 },
        ..reset(1, 5000)
    };
    reservings.ask(Some((8, 1)), String::new(), &change);
    let mut now = Instant::now();
    assert_eq!(reservings.take_questions(now).len(), MOST_OF_A_VOLUME);
    let is_asked = |c: &Waiting| c.stamp == 5000 && !matches!(c.state, State::ToAsk(_));
    assert!(reservings.changes.iter().any(is_asked));
    let left = reservings.changes.len();
    now += Duration::from_millis(10);
    answer_all(&mut reservings, now);
    assert_eq!(reservings.take_questions(now).len(), MOST_OF_A_VOLUME, "the other goes on");
    assert_eq!(reservings.changes.len(), left - MOST_OF_A_VOLUME);
    assert_eq!(host_of("iqn.2026-01.b,i,0x1 b"), (true, "b"));
    assert_eq!(host_of("iqn.2026-01.b,i,0x1"), (false, "iqn.2026-01.b"));
    assert_eq!(host_of("a"), (false, "a"));
}

#[test]
fn a_few_changes_do_not_wait_for_one_another() {
    let (mut reservings, mut now) = (Reservings::default(), Instant::now());
    for stamp in 0..10 {
        reservings.ask(Some((7, stamp)), String::new(), &reset(1, stamp));
        now = now.max(Instant::now());
        assert_eq!(reservings.take_questions(now).len(), 1, "at once");
        now += Duration::from_millis(20);
        answer_all(&mut reservings, now);
    }
}

#[test]
fn what_has_no_answer_does_not_keep_others_waiting_for_good() {
    let (mut reservings, mut now) = (Reservings::default(), Instant::now());
    reservings.ask(Some((7, 1)), String::new(), &reset(1, 1));
    now = now.max(Instant::now());
    let _unanswered = reservings.take_questions(now);
    reservings.ask(Some((8, 2)), String::new(), &reset(2, 2));
    assert!(reservings.take_questions(now).is_empty());
    assert!(reservings.due().is_some_and(|due| due >= AGAIN), "nobody spins");
    let later = now + PATIENCE - Duration::from_secs(1);
    assert_eq!(reservings.take_questions(later).len(), 1);
}

/// The leading process may be cut off, and may make the change later.
#[test]
fn a_change_that_was_asked_for_is_not_said_to_be_undone() {
    let (map, late) = (map(1, 70), Duration::from_secs(9));
    let mut reservings = Reservings::default();
    let ask = |reservings: &mut Reservings, stamp| {
        reservings.ask(Some((7, stamp)), String::new(), &reset(1, stamp));
    };
    ask(&mut reservings, 1);
    let now = Instant::now();
    let unanswered = reservings.take_questions(now);
    assert!(reservings.step(&map, now + AGAIN).is_empty());
    let told = reservings.step(&map, now + late);
    assert_eq!(told, [(Err(HostError::OutcomeUnknown), (7, 1))], "whether answered or not");
    drop(unanswered);
    ask(&mut reservings, 2);
    for question in reservings.take_questions(Instant::now()) {
        let answer = br#"{"ok":false,"error":"the request may or may not have been done"}"#;
        question.answer.send(answer.to_vec()).unwrap();
    }
    assert!(reservings.step(&map, Instant::now()).is_empty(), "it is asked for again");
    assert!(reservings.changes.iter().all(|c| matches!(c.state, State::ToAsk(_))));
    let told = reservings.step(&map, Instant::now() + late);
    assert_eq!(told, [(Err(HostError::OutcomeUnknown), (7, 2))]);
    ask(&mut reservings, 3);
    let told = reservings.step(&map, Instant::now() + late);
    assert_eq!(told, [(Err(HostError::NotServing), (7, 3))], "it was never asked for");
    assert!(reservings.changes.is_empty());
}

/// Its host does not count on it. One that has the volume already, and asks again, does.
#[test]
fn a_hold_that_is_made_after_its_host_was_answered_ends() {
    let late = Duration::from_secs(9);
    for renews in [false, true] {
        let mut reservings = Reservings { holds: vec![(7, 71)], ..Reservings::default() };
        reservings.holds.extend(renews.then_some((7, 70)));
        let who = Registrant { host: "a".into(), port: 1 };
        let action = ReservationAction::Hold;
        let change = ReservationChange { volume: VolumeId(1), who, action, stamp: 71 };
        reservings.ask(Some((7, 1)), String::new(), &change);
        let _unanswered = reservings.take_questions(Instant::now());
        let told = reservings.step(&map(1, 70), Instant::now() + late);
        assert_eq!(told, [(Err(HostError::OutcomeUnknown), (7, 1))]);
        let made = map(1, 71);
        assert_eq!(reservings.ended_holds(&made, NodeId(0), |_| true).is_empty(), renews);
    }
}
