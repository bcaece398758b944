//! A host, or the node that has its requests, was stopped, and asks again for a write that the others have settled.

mod snapshots;

use std::collections::BTreeMap;

use super::test_bench::*;
use super::*;
use crate::Buffer;
use crate::cluster::{Attendance, Extent, Volume};
use crate::order::{Again, Asker, HostId, Origin, RequestId};
use crate::plan::{Calculators, Part, Range};
use crate::units::{ColumnSet, MILLIS};

const RANGE: Range = Range { offset: 0, len: UNIT };

fn id() -> RequestId {
    RequestId { host: HostId(7), number: 3 }
}

/// The host asks node 0 again for a write of the first unit, which was begun in an epoch that is over.
fn asked_again() -> Bench {
    let mut bench = Bench::new();
    bench.enter(map(2, Attendance::default()), at(1));
    let again = Again { since: at(900), epoch: 1 };
    let origin = Origin { asker: Asker { id: id(), oldest: 3 }, again: Some(again), permitted: 0 };
    let data = Buffer::Length(UNIT as usize);
    bench.handle(Input::Named(1, VOLUME, origin, None, HostOp::Write(0, data)));
    bench
}

fn recalls(bench: &Bench) -> usize {
    bench.sent.iter().filter(|b| matches!(b, Body::Recall { .. })).count()
}

fn answer(bench: &mut Bench, from: NodeId, happened: Vec<Range>, recollection: Recollection) {
    bench.hear(from, Body::Recalled { id: 1, happened, recollection });
}

fn writes(bench: &Bench) -> bool {
    bench.has_sent(|b| matches!(b, Body::Write { .. }))
}

#[test]
fn what_has_happened_is_not_done_again() {
    let mut bench = asked_again();
    assert_eq!(recalls(&bench), 2, "its own disk, and that of the parity");
    assert!(!writes(&bench), "nothing is done before it is known what became of it");
    answer(&mut bench, US, vec![], Recollection::Touched);
    answer(&mut bench, THIRD, vec![RANGE], Recollection::All);
    assert!(!writes(&bench));
    assert!(matches!(bench.replies[..], [(1, Ok(HostData::Done))]), "{:?}", bench.replies);
}

#[test]
fn what_is_undecided_is_waited_for_and_what_has_not_happened_is_done() {
    let mut bench = asked_again();
    answer(&mut bench, US, vec![], Recollection::Touched);
    answer(&mut bench, THIRD, vec![], Recollection::Undecided);
    assert!(!writes(&bench) && bench.replies.is_empty());
    bench.handle(Input::Timer(Timer::Tick));
    assert_eq!(recalls(&bench), 3, "it is asked again");
    answer(&mut bench, THIRD, vec![], Recollection::All);
    assert!(writes(&bench), "the parity's worker was there all the time, and knows of nothing");
}

/// The disk of the data has lost what it knew. The parity's has not been written since.
#[test]
fn parity_that_has_no_write_since_speaks_for_data_that_is_lost() {
    let mut bench = asked_again();
    answer(&mut bench, US, vec![], Recollection::Touched);
    answer(&mut bench, THIRD, vec![], Recollection::Untouched);
    assert!(writes(&bench), "it has not happened: {:?}", bench.sent);
    assert!(bench.replies.is_empty());
}

#[test]
fn in_the_epoch_of_its_attempts_nobody_is_asked() {
    let mut bench = Bench::new();
    let again = Again { since: at(900), epoch: 1 };
    let origin = Origin { asker: Asker { id: id(), oldest: 3 }, again: Some(again), permitted: 0 };
    let data = Buffer::Length(UNIT as usize);
    bench.handle(Input::Named(1, VOLUME, origin, None, HostOp::Write(0, data)));
    assert_eq!(recalls(&bench), 0, "a message of an attempt may be on its way");
    bench.enter(map(2, Attendance::default()), at(1));
    assert_eq!(recalls(&bench), 2);
}

/// Those who voted on an attempt have been left by their columns, or have forgotten: what they say of it does not
/// count, and the attempt may have happened.
#[test]
fn an_attempt_that_nobody_has_a_say_in_is_asked_after_and_not_begun_again() {
    let mut bench = Bench::new();
    let origin = Origin { asker: Asker { id: id(), oldest: 3 }, again: None, permitted: 0 };
    let data = Buffer::Length(UNIT as usize);
    bench.handle(Input::Named(1, VOLUME, origin, None, HostOp::Write(0, data)));
    assert!(writes(&bench));
    bench.enter(map(2, Attendance::default()), at(1));
    assert!(
        bench.has_sent(|b| matches!(b, Body::Ask { .. })),
        "they may decide it now: {:?}",
        bench.sent
    );
    bench.sent.clear();
    let counts_from = [US, THIRD].map(|n| (n, at(1 << 40))).into();
    bench.enter(map(3, Attendance { counts_from, ..Attendance::default() }), at(1));
    assert!(!bench.has_sent(|b| matches!(b, Body::Ask { .. })), "{:?}", bench.sent);
    assert_eq!(recalls(&bench), 2);
    assert!(!writes(&bench), "it may have happened, and have been written over");
    answer(&mut bench, US, vec![], Recollection::Touched);
    answer(&mut bench, THIRD, vec![RANGE], Recollection::All);
    assert!(!writes(&bench));
    assert!(matches!(bench.replies[..], [(1, Ok(HostData::Done))]), "{:?}", bench.replies);
}

/// The same for a host that does not name its requests: the attempt is asked after by its timestamp.
#[test]
fn an_attempt_without_a_name_that_nobody_has_a_say_in_is_asked_after() {
    let mut bench = Bench::new();
    let data = Buffer::Length(UNIT as usize);
    bench.handle(Input::Host(1, VOLUME, HostOp::Write(0, data)));
    let ts = Some(bench.has_begun());
    bench.enter(map(2, Attendance::default()), at(1));
    bench.sent.clear();
    let counts_from = [US, THIRD].map(|n| (n, at(1 << 40))).into();
    bench.enter(map(3, Attendance { counts_from, ..Attendance::default() }), at(1));
    // A node without a say may have been away, and knows nothing of a write that the others decided.
    assert!(!bench.has_sent(|b| matches!(b, Body::Ask { .. })), "{:?}", bench.sent);
    let asked = |b: &Body| matches!(b, Body::Recall { request, .. } if request.attempt() == ts);
    assert_eq!(bench.sent.iter().filter(|b| asked(b)).count(), 2);
    answer(&mut bench, US, vec![], Recollection::Touched);
    answer(&mut bench, THIRD, vec![RANGE], Recollection::Touched);
    assert!(!writes(&bench));
    assert!(matches!(bench.replies[..], [(1, Ok(HostData::Done))]), "{:?}", bench.replies);
}

/// A participant has prepared a write and is asked after it when it has dropped it. If power failed before that is on the
/// disk, it would be prepared again, and this node might decide it alone.
#[test]
fn that_nothing_is_known_of_a_write_is_said_when_its_abort_is_durable() {
    let mut bench = Bench::new();
    bench.enter(map(2, Attendance::default()), at(1));
    bench.begin_write_of(at(1000), 0, RANGE);
    while bench.disk_works().is_some() {}
    let says = |bench: &Bench| {
        bench.sent.iter().find_map(|b| match b {
            Body::Answer { ts, standing } if *ts == at(1000) => Some(*standing),
            _ => None,
        })
    };
    bench.hear_with(PEER, vec![Notice::Abort(at(1000))], Some(Body::Ask { ts: at(1000) }));
    assert_eq!(says(&bench), None);
    let recall =
        Body::Recall { id: 9, request: id(), since: at(900), volume: VOLUME, range: RANGE };
    bench.hear(PEER, recall);
    let undecided =
        |b: &Body| matches!(b, Body::Recalled { recollection: Recollection::Undecided, .. });
    assert!(bench.has_sent(undecided), "{:?}", bench.sent);
    assert_eq!(bench.disk_works(), Some(true), "the abort is written at once");
    while bench.disk_works().is_some() {}
    assert_eq!(says(&bench), Some(Standing::Unknown));
}

/// A slot of a thin volume was given back, with its versions: sectors without a version may have been written.
#[test]
fn a_disk_that_gave_slots_back_does_not_say_that_a_range_is_untouched() {
    let mut bench = Bench::new();
    let mut map = ClusterMap::clone(&map(2, Attendance::default()));
    let volume = Arc::make_mut(map.volumes.get_mut(&VOLUME).expect("its own"));
    for (_, at) in volume.extents.iter_mut().flat_map(|e| &mut e.columns) {
        *at += 2 * crate::units::SPACE_SECTORS;
    }
    bench.enter(Arc::new(map), at(1));
    let mut recollects = |since| {
        bench.sent.clear();
        let request = RequestId::of_attempt(since);
        bench.hear(PEER, Body::Recall { id: 9, request, since, volume: VOLUME, range: RANGE });
        while bench.disk_works().is_some() {}
        bench.sent.iter().find_map(|b| match b {
            Body::Recalled { recollection, .. } => Some(*recollection),
            _ => None,
        })
    };
    assert_eq!(recollects(Timestamp(1)), Some(Recollection::Untouched), "it never had any");
    assert_eq!(recollects(Timestamp::ZERO), Some(Recollection::Touched));
}

/// What a participant is told and remembers.
#[test]
fn a_participant_remembers_what_has_happened() {
    let mut bench = Bench::new();
    bench.enter(map(2, Attendance::default()), at(1));
    let (task, avoid) = (Task::Write(RANGE), ColumnSet::EMPTY);
    let asker = Some(Asker { id: id(), oldest: 3 });
    let header = Header {
        ts: at(1000),
        volume: VOLUME,
        avoid,
        waits: crate::plan::Waits::NONE,
        calculators: Calculators::default(),
        task,
        asker,
        holder: None,
    };
    let data = Buffer::Length(UNIT as usize);
    let items = vec![Item { stripe: 0, part: Part::New, data }];
    bench.hear(PEER, Body::Write { header, items });
    while bench.disk_works().is_some() {}
    let recollects = |bench: &mut Bench, number, since| {
        bench.sent.clear();
        let request = RequestId { number, ..id() };
        let (volume, range) = (VOLUME, RANGE);
        bench.hear(PEER, Body::Recall { id: 9, request, since: at(since), volume, range });
        while bench.disk_works().is_some() {}
        bench.sent.iter().find_map(|b| match b {
            Body::Recalled { happened, recollection, .. } => Some((happened.len(), *recollection)),
            _ => None,
        })
    };
    assert_eq!(recollects(&mut bench, 3, 900), Some((0, Recollection::Undecided)));
    bench.hear_with(PEER, vec![Notice::Commit(at(1000))], None);
    while bench.disk_works().is_some() {}
    bench.hear_with(PEER, vec![Notice::Release(at(1000))], None);
    assert_eq!(recollects(&mut bench, 3, 900), Some((1, Recollection::All)));
    assert_eq!(recollects(&mut bench, 4, 900), Some((0, Recollection::All)));
    // Also when the others have gone on meanwhile.
    bench.enter(map(3, Attendance::default()), at(2000));
    assert_eq!(recollects(&mut bench, 3, 900), Some((1, Recollection::All)));
}

/// The answer of this node, which was away from 500 to 1500, on a request of 900 for its disk.
fn recollects_after_absence(bench: &mut Bench) -> Option<Recollection> {
    bench.sent.clear();
    let (request, since, volume, range) = (id(), at(900), VOLUME, RANGE);
    bench.hear(PEER, Body::Recall { id: 9, request, since, volume, range });
    while bench.disk_works().is_some() {}
    bench.sent.iter().find_map(|b| match b {
        Body::Recalled { recollection, .. } => Some(*recollection),
        _ => None,
    })
}

fn was_away() -> Attendance {
    Attendance {
        stale_since: BTreeMap::from([(US, at(500))]),
        counts_from: BTreeMap::from([(US, at(1500))]),
        ..Attendance::default()
    }
}

/// A node that is back asks what it has missed. After that it knows whether its disk was written.
#[test]
fn a_participant_that_will_know_is_asked_again() {
    let mut bench = Bench::new();
    bench.enter(map(2, was_away()), at(1500));
    assert_eq!(recollects_after_absence(&mut bench), Some(Recollection::Undecided));
    for node in [PEER, THIRD] {
        assert_eq!(recollects_after_absence(&mut bench), Some(Recollection::Undecided));
        bench.hear(node, Body::DirtyReply { found: vec![], marked: vec![], owed: vec![] });
    }
    for _ in 0..20 {
        if bench.node.stale_sectors().is_none() && bench.disk_works().is_none() {
            bench.now += 100 * MILLIS;
            bench.handle(Input::Timer(Timer::Tick));
        }
    }
    assert_eq!(bench.node.stale_sectors(), Some(0));
    assert_eq!(recollects_after_absence(&mut bench), Some(Recollection::Untouched));
}

/// While a volume sleeps, its writes are unknown, perhaps for long.
#[test]
fn a_participant_that_may_never_know_says_so() {
    let mut bench = Bench::new();
    let mut asleep = ClusterMap::clone(&map(2, was_away()));
    asleep.nodes[usize::from(THIRD.0)].up = false;
    asleep.attendance.get_mut(&VOLUME).expect("its own").away.insert(THIRD);
    let mut other = Volume::clone(&asleep.volumes[&VOLUME]);
    (other.id, other.name) = (VolumeId(2), "other".into());
    other.extents = vec![Extent::new(1, (0..3).map(|n| (NodeId(n), 2048)).collect())];
    asleep.attendance.insert(other.id, was_away());
    asleep.volumes.insert(other.id, Arc::new(other));
    bench.enter(Arc::new(asleep), at(1500));
    bench.hear(PEER, Body::DirtyReply { found: vec![], marked: vec![], owed: vec![] });
    assert_eq!(recollects_after_absence(&mut bench), Some(Recollection::Touched));
}
