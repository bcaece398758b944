//! What a node that is about to enter a new epoch says and keeps of writes that are on their way.

use std::collections::BTreeMap;

use super::test_bench::{Bench, PEER, THIRD, UNIT, US, VOLUME, at, map};
use super::*;
use crate::Buffer;
use crate::cluster::{Attendance, Extent, NodeInfo, NodeKind, Volume};
use crate::plan::{Calculators, Part, Range, Role, Span};
use crate::policy::{Commit, Dispatch, Ordering, Timing};
use crate::units::{ColumnSet, MILLIS};

/// The map with a volume whose writes are not voted on.
fn limited(epoch: Epoch) -> Arc<ClusterMap> {
    let mut map = ClusterMap::clone(&map(epoch, Attendance::default()));
    let volume = Arc::make_mut(map.volumes.get_mut(&VOLUME).unwrap());
    (volume.policy.commit, volume.policy.dispatch) = (Commit::Limited, Dispatch::Commanded);
    Arc::new(map)
}

#[test]
fn a_write_that_has_only_begun_counts_as_unsettled() {
    let first = at(100);
    let mut bench = Bench::new();
    bench.begin_write(first);
    assert!(!bench.disk.is_empty(), "it reads what is there");
    bench.handle(Input::Map(MapMessage::Freeze { epoch: 2 }));
    let [MemberReport::Frozen { oldest, written, .. }] = bench.reports[..] else { panic!() };
    while bench.disk_works().is_some() {}
    assert!(oldest <= first, "{oldest} is later than {first}");
    assert!(written >= first, "the clock of its originator may be ahead: {written}, {first}");
    // Here is why: it is prepared by the time of the new epoch.
    bench.enter(map(2, Attendance::default()), at(1000));
    assert!(bench.has_sent(|b| matches!(b, Body::Ask { ts } if *ts == first)));
}

/// The third node holds data that a write changed without it, so the write is remembered until it is back. A node that
/// leaves meanwhile has not missed the write, and its parity may be the only record of that data.
#[test]
fn a_write_that_is_kept_for_one_that_is_away_counts_as_settled() {
    let ts = at(100);
    let deferred = |epoch, attendance| {
        let mut map = ClusterMap::clone(&map(epoch, attendance));
        let volume = Arc::make_mut(map.volumes.get_mut(&VOLUME).unwrap());
        volume.policy.redundancy.timing = Timing::Deferred;
        map
    };
    for (waiting, counts) in [(true, true), (false, false)] {
        let mut bench = Bench::new();
        bench.enter(Arc::new(deferred(2, Attendance::default())), at(50));
        bench.begin_write(ts);
        while bench.disk_works().is_some() {}
        let (away, stale_since) = ([THIRD].into(), [(THIRD, at(50))].into());
        let mut map = deferred(3, Attendance { away, stale_since, ..Attendance::default() });
        map.nodes[usize::from(THIRD.0)].up = false;
        bench.enter(Arc::new(map), at(150));
        // It asks again until the outcome is durable everywhere.
        for _ in 0..4 {
            bench.hear(PEER, Body::Answer { ts, standing: Standing::Committed { safe: true } });
            while bench.disk_works().is_some() {}
            bench.now += NodeConfig::default().patience;
            bench.handle(Input::Timer(Timer::Tick));
        }
        bench.hear(PEER, Body::Answer { ts, standing: Standing::Committed { safe: true } });
        bench.hear(PEER, Body::QueryReply { ts, waiting });
        let kept: Vec<_> = bench.node.writes().collect();
        assert_eq!(kept, [(ts, Standing::Committed { safe: true })]);
        bench.reports.clear();
        bench.handle(Input::Map(MapMessage::Freeze { epoch: 4 }));
        let [MemberReport::Frozen { oldest, .. }] = bench.reports[..] else { panic!() };
        assert_eq!(oldest == ts, counts, "the originator asks: {waiting}, oldest {oldest}");
    }
}

#[test]
fn who_catches_up_is_answered_when_what_was_aborted_is_aborted_for_good() {
    let ts = at(100);
    let mut bench = Bench::new();
    bench.begin_write(ts);
    while bench.disk_works().is_some() {}
    assert!(bench.has_sent(|b| matches!(b, Body::Vote { .. })), "it is prepared");
    let behind = Attendance {
        stale_since: BTreeMap::from([(THIRD, at(50))]),
        counts_from: BTreeMap::from([(THIRD, at(150))]),
        ..Attendance::default()
    };
    bench.enter(map(2, behind), at(150));
    bench.hear(THIRD, Body::Dirty { extents: vec![(VOLUME, 0)] });
    let answered = |b: &Bench| b.has_sent(|b| matches!(b, Body::DirtyReply { .. }));
    assert!(!answered(&bench), "it does not know what became of the write");
    bench.hear(PEER, Body::Answer { ts, standing: Standing::Unknown });
    let mut written = false;
    while !answered(&bench) {
        written |= bench.disk_works().expect("the disk has something to do");
    }
    assert!(written, "the abort went to the journal first");
}

/// The others forget a write that is over. Whoever began it again and lost touch with them would decide it alone.
#[test]
fn a_write_that_is_over_does_not_begin_again_when_its_message_comes_twice() {
    type End = fn(&mut Bench, Timestamp);
    let abort: End = |bench, ts| bench.hear_with(PEER, vec![Notice::Abort(ts)], None);
    let ask: End = |bench, ts| bench.hear(PEER, Body::Ask { ts });
    let release: End = |bench, ts| {
        bench.hear_with(PEER, vec![Notice::Commit(ts)], None);
        bench.hear_with(PEER, vec![Notice::Release(ts)], None);
    };
    let ends = [
        ("aborted while it reads", false, abort),
        ("aborted when it is prepared", true, abort),
        ("asked after while it reads", false, ask),
        ("committed and released", true, release),
    ];
    let orderings = [Ordering::None, Ordering::Timestamps];
    for (ordering, (what, is_prepared, end)) in
        orderings.into_iter().flat_map(|ordering| ends.map(|end| (ordering, end)))
    {
        let ts = at(100);
        let mut bench = Bench::new();
        let mut map = ClusterMap::clone(&map(2, Attendance::default()));
        Arc::make_mut(map.volumes.get_mut(&VOLUME).unwrap()).policy.ordering = ordering;
        bench.enter(Arc::new(map), at(50));
        bench.begin_write(ts);
        while is_prepared && bench.disk_works().is_some() {}
        let votes = |bench: &Bench| bench.has_sent(|b| matches!(b, Body::Vote { .. }));
        assert_eq!(votes(&bench), is_prepared, "{what}");
        end(&mut bench, ts);
        bench.sent.clear();
        bench.begin_write(ts);
        while bench.disk_works().is_some() {}
        assert!(!votes(&bench), "{what}, {ordering:?}: {:?}", bench.sent);
        assert_eq!(bench.node.writes().count(), 0, "{what}, {ordering:?}");
    }
}

/// The simulation seldom finds this deliberate bug: a worker that ignores aborts asks about its writes in time.
#[test]
fn a_worker_that_ignores_aborts_is_found() {
    for (bug, left) in [(None, 0), (Some(Bug::SilentAborts), 1)] {
        let mut bench = Bench::with(NodeConfig { bug, ..NodeConfig::default() });
        bench.begin_write(at(100));
        bench.hear_with(PEER, vec![Notice::Abort(at(100))], None);
        assert_eq!(bench.node.writes().count(), left, "{bug:?}");
    }
}

/// A helper may have refused the write, and fail before anyone hears of that.
#[test]
fn nothing_is_put_back_over_an_undecided_write() {
    let mut bench = Bench::new();
    bench.begin_write(at(100));
    while bench.disk_works().is_some() {}
    let ts = at(200);
    let task = Task::Rebuild { stripe: 0, stripes: 1, column: 0, part: Span::new(0, UNIT) };
    let avoid = ColumnSet::of(0);
    let header = Header {
        ts,
        volume: VOLUME,
        avoid,
        waits: crate::plan::Waits::NONE,
        calculators: Calculators::default(),
        task,
        asker: None,
        holder: None,
    };
    let data = Buffer::Length(UNIT as usize);
    let items = vec![Item { stripe: 0, part: Part::Result, data }];
    bench.hear(PEER, Body::Part { header, to: Role::Column(0), items });
    let voted = |b: &Bench| b.has_sent(|b| matches!(b, Body::Vote { ts: t, .. } if *t == ts));
    while bench.disk_works().is_some() {}
    assert!(!voted(&bench), "it may happen yet, and would be hidden");
    bench.hear_with(PEER, vec![Notice::Abort(at(100))], None);
    while bench.disk_works().is_some() {}
    assert!(voted(&bench), "now nothing stands below it");
}

/// It was decided without this disk, and who decided it may forget it at any time.
#[test]
fn a_disk_has_caught_up_when_what_it_was_told_is_safe() {
    let ts = at(100);
    let mut bench = Bench::new();
    bench.begin_write(ts);
    while bench.disk_works().is_some() {}
    let behind = Attendance {
        stale_since: BTreeMap::from([(US, at(50))]),
        counts_from: BTreeMap::from([(US, at(150))]),
        ..Attendance::default()
    };
    bench.enter(map(2, behind), at(150));
    bench.hear(PEER, Body::Answer { ts, standing: Standing::Committed { safe: true } });
    let written = DirtySector { stripe: 0, seat: 1, within: 0, version: ts };
    let found = vec![(VOLUME, vec![written])];
    bench.hear(PEER, Body::DirtyReply { found, marked: vec![], owed: vec![] });
    bench.hear(THIRD, Body::DirtyReply { found: vec![], marked: vec![], owed: vec![] });
    let is_safe =
        |b: &Bench| b.node.writes().any(|w| w == (ts, Standing::Committed { safe: true }));
    for _ in 0..20 {
        let reported = bench.reports.iter().any(|r| matches!(r, MemberReport::CaughtUp { .. }));
        assert!(is_safe(&bench) || !reported, "it has caught up, and could forget again");
        if reported {
            return;
        }
        if bench.disk_works().is_none() {
            bench.now += 100 * MILLIS;
            bench.handle(Input::Timer(Timer::Tick));
        }
    }
    panic!("it does not catch up: {}", bench.node.status().waiting);
}

/// Who asked for a write without votes may have died in the middle of it, and be up again in the next map.
#[test]
fn a_stripe_that_may_be_half_written_is_looked_at_in_the_new_epoch() {
    let mut bench = Bench::new();
    bench.enter(limited(2), at(50));
    bench.begin_write(at(100));
    while bench.disk_works().is_some() {}
    bench.sent.clear();
    bench.enter(limited(3), at(150));
    assert!(bench.has_sent(|b| matches!(b, Body::Read { volume: VOLUME, .. })), "{:?}", bench.sent);
}

/// Who asked for a write without votes may die in the middle of it without a change of the map: a host without a disk whose
/// connections broke. Others may have written their parts.
#[test]
fn a_stripe_that_may_be_half_written_is_looked_at_when_nobody_goes_on_with_it() {
    let mut bench = Bench::new();
    bench.enter(limited(2), at(50));
    bench.begin_write_without_data(at(100));
    let looks = |b: &Bench| b.has_sent(|b| matches!(b, Body::Read { volume: VOLUME, .. }));
    let patience = NodeConfig::default().patience;
    for _ in 0..8 {
        while bench.disk_works().is_some() {}
        assert!(!looks(&bench), "its originator may be slow");
        bench.now += patience;
        bench.handle(Input::Timer(Timer::Tick));
    }
    assert!(looks(&bench), "{:?}", bench.sent);
}

/// An undecided write to a stripe that is cut off in the middle of an extent is decided all the same.
/// By then the sectors may be those of a column that is being filled: what it puts there is older.
#[test]
fn what_is_decided_of_a_cut_off_stripe_makes_nothing_fresh() {
    let ts = at(100);
    let mut bench = Bench::new();
    // The second unit of the second stripe, which is on this node's disk: its second sector.
    bench.begin_write_of(ts, 1, Range { offset: 3 * UNIT, len: UNIT });
    while bench.disk_works().is_some() {}
    assert!(bench.node.writes().any(|w| w == (ts, Standing::Prepared)));
    let mut cut = ClusterMap::clone(&map(2, Attendance::default()));
    let mut small = Volume::clone(&cut.volumes[&VOLUME]);
    (small.size, small.visible) = (2 * UNIT, 2 * UNIT);
    let mut extent = Extent::new(0, (0..3).map(|n| (NodeId(n), 1)).collect());
    extent.filling.insert(0, at(150));
    let id = VolumeId(2);
    let filled = Volume { id, size: 6 * UNIT, extents: vec![extent], ..small.clone() };
    cut.volumes = BTreeMap::from([(VOLUME, Arc::new(small)), (id, Arc::new(filled))]);
    cut.assert_sound();
    bench.enter(Arc::new(cut), at(150));
    bench.hear(PEER, Body::Answer { ts, standing: Standing::Committed { safe: true } });
    assert!(bench.node.writes().any(|w| matches!(w, (t, Standing::Committed { .. }) if t == ts)));
    assert!(bench.node.worker.lacks(1), "it has yet to be filled");
}

/// What is in work of a volume ends when it is removed, also what waits to hear that all know of it.
#[test]
fn requests_of_a_removed_volume_are_answered() {
    let mut bench = Bench::new();
    let write = HostOp::Write(0, Buffer::Length(UNIT as usize));
    bench.handle(Input::Host(1, VOLUME, write));
    bench.handle(Input::Host(2, VOLUME, HostOp::Scrub { from: 0, rate: 1, trust: Trust::Nobody }));
    assert!(bench.replies.is_empty());
    let gone = ClusterMap {
        volumes: BTreeMap::new(),
        ..ClusterMap::clone(&map(2, Attendance::default()))
    };
    bench.enter(Arc::new(gone), at(150));
    while bench.disk_works().is_some() {}
    bench.replies.sort_by_key(|r| r.0);
    let failed: Vec<_> = bench.replies.iter().map(|r| (r.0, r.1.clone().err())).collect();
    assert_eq!(failed, [(1, Some(HostError::NoVolume)), (2, Some(HostError::NoVolume))]);
    assert_eq!(bench.node.writes().count(), 0);
    assert_eq!(bench.node.status().in_flight, 0);
}

#[test]
fn a_flush_waits_for_disks_and_not_for_hosts_that_are_their_own_controllers() {
    let mut bench = Bench::new();
    let mut map = ClusterMap::clone(&map(2, Attendance::default()));
    map.nodes.push(NodeInfo { kind: NodeKind::Host, up: true, ..NodeInfo::new(1, 0) });
    let volume = map.volumes.get_mut(&VOLUME).unwrap();
    Arc::make_mut(volume).policy.journal = false;
    bench.handle(Input::Map(MapMessage::Freeze { epoch: 2 }));
    bench.enter(Arc::new(map), at(1000));
    bench.handle(Input::Host(7, VOLUME, HostOp::Flush));
    let asked = bench.sent.iter().filter(|b| matches!(b, Body::Flush { .. })).count();
    assert_eq!((asked, bench.replies.len()), (3, 0));
    for node in [US, PEER, THIRD] {
        bench.hear(node, Body::Flushed { id: 1 });
    }
    assert!(matches!(bench.replies[..], [(7, Ok(HostData::Done))]));
}

/// The originator found out by asking that a write is decided; not all that prepared it may have heard.
#[test]
fn a_decided_write_is_forgotten_only_when_all_that_prepared_it_have_heard() {
    let mut bench = Bench::new();
    let write = HostOp::Write(UNIT, Buffer::Length(UNIT as usize));
    bench.handle(Input::Host(1, VOLUME, write));
    let ts = bench.has_begun();
    bench.enter(map(2, Attendance::default()), at(150));
    for node in [PEER, THIRD] {
        bench.hear(node, Body::Answer { ts, standing: Standing::Prepared });
    }
    assert!(matches!(bench.replies[..], [(1, Ok(HostData::Done))]));
    let released = |b: &Bench| b.notices.iter().any(|(_, n)| *n == Notice::Release(ts));
    bench.hear_with(PEER, vec![Notice::Ack(ts)], None);
    bench.handle(Input::Timer(Timer::Soon));
    assert!(!released(&bench), "the third has not heard");
    bench.hear_with(THIRD, vec![Notice::Ack(ts)], None);
    bench.handle(Input::Timer(Timer::Soon));
    assert!(released(&bench));
}

/// Outcomes ride on other messages, or go when the timer fires: but at once to a worker at which something waits,
/// whether it says so before or after the decision, and again if it still does.
#[test]
fn who_waits_for_an_outcome_hears_it_at_once() {
    let mut bench = Bench::new();
    let write = HostOp::Write(UNIT, Buffer::Length(UNIT as usize));
    bench.handle(Input::Host(1, VOLUME, write));
    let ts = bench.has_begun();
    let told = |b: &Bench, node: NodeId| b.notices.contains(&(node, Notice::Commit(ts)));
    let awaited = |b: &mut Bench, node: NodeId| {
        b.notices.clear();
        b.hear_with(node, vec![Notice::Awaited(ts)], None);
    };
    awaited(&mut bench, PEER);
    assert!(!told(&bench, PEER), "nothing is decided");
    for (column, node) in [(1, PEER), (2, THIRD)] {
        bench.hear(node, Body::Vote { ts, column, vote: Ok(()) });
    }
    assert!(matches!(bench.replies[..], [(1, Ok(HostData::Done))]));
    assert!(told(&bench, PEER) && !told(&bench, THIRD));
    awaited(&mut bench, THIRD);
    assert!(told(&bench, THIRD));
    awaited(&mut bench, THIRD);
    assert!(told(&bench, THIRD), "it may have been lost");
    bench.hear_with(THIRD, vec![Notice::Ack(ts)], None);
    awaited(&mut bench, THIRD);
    assert!(!told(&bench, THIRD), "it knows");
}

/// Without votes one that has written its part says nothing of the others: only when all have is the
/// write done.
#[test]
fn a_write_without_votes_is_answered_when_all_have_written() {
    let mut bench = Bench::new();
    bench.enter(limited(2), at(50));
    let write = HostOp::Write(UNIT, Buffer::Length(UNIT as usize));
    bench.handle(Input::Host(1, VOLUME, write));
    bench.enter(limited(3), at(150));
    let ts = bench.sent.iter().find_map(|b| match b {
        Body::Ask { ts } => Some(*ts),
        _ => None,
    });
    let ts = ts.expect("it asks what became of its write");
    let wrote = Standing::Committed { safe: true };
    bench.hear(PEER, Body::Answer { ts, standing: wrote });
    bench.handle(Input::Timer(Timer::Soon));
    let told = |b: &Bench| b.notices.iter().any(|(_, n)| *n == Notice::Commit(ts));
    assert!(
        !told(&bench),
        "the third, told of a write that it knows nothing of, says that all is well"
    );
    bench.hear(THIRD, Body::Answer { ts, standing: wrote });
    bench.hear_with(PEER, vec![Notice::Ack(ts)], None);
    bench.hear_with(THIRD, vec![Notice::Ack(ts)], None);
    assert!(matches!(bench.replies[..], [(1, Ok(HostData::Done))]), "{:?}", bench.replies);
}

/// Who has written its part without votes, said so in vain, and asks whether that is heard, does not wait for
/// the originator to lose patience.
#[test]
fn a_question_that_shows_that_a_message_was_lost_is_followed_up_at_once() {
    let mut bench = Bench::new();
    bench.enter(limited(2), at(50));
    bench.handle(Input::Host(1, VOLUME, HostOp::Write(UNIT, Buffer::Length(UNIT as usize))));
    let ts = bench.has_begun();
    bench.hear(PEER, Body::Query { ts });
    let asked = bench.sent.iter().filter(|b| matches!(b, Body::Ask { ts: t } if *t == ts)).count();
    assert!(asked > 1, "all that write are asked");
}

/// One refuses and another has written its part already: the write is tried again as soon as that one says
/// that what it wrote is safe, and not when the originator asks again.
#[test]
fn a_given_up_write_goes_on_when_those_who_wrote_say_so() {
    let mut bench = Bench::new();
    bench.enter(limited(2), at(50));
    bench.handle(Input::Host(1, VOLUME, HostOp::Write(UNIT, Buffer::Length(UNIT as usize))));
    bench.enter(limited(3), at(150));
    let asked = |b: &Body| if let Body::Ask { ts } = b { Some(*ts) } else { None };
    let ts = bench.sent.iter().find_map(asked).expect("it asks what became of its write");
    bench.hear(PEER, Body::Answer { ts, standing: Standing::Committed { safe: false } });
    bench.hear(THIRD, Body::Vote { ts, column: 2, vote: Err(Refusal::Late(at(200))) });
    bench.sent.clear();
    bench.hear_with(PEER, vec![Notice::Ack(ts)], None);
    assert!(!bench.sent.is_empty(), "the next attempt begins");
}

/// A vote that comes when it has been asked for is an answer.
#[test]
fn a_vote_that_comes_late_answers_the_question() {
    let mut bench = Bench::new();
    bench.handle(Input::Host(1, VOLUME, HostOp::Write(UNIT, Buffer::Length(UNIT as usize))));
    let ts = bench.has_begun();
    bench.enter(map(2, Attendance::default()), at(150));
    bench.hear(PEER, Body::Answer { ts, standing: Standing::Prepared });
    assert!(bench.replies.is_empty());
    bench.hear(THIRD, Body::Vote { ts, column: 2, vote: Ok(()) });
    assert!(matches!(bench.replies[..], [(1, Ok(HostData::Done))]), "{:?}", bench.replies);
}
