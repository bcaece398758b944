//! Requests to a volume that lacks nodes.

mod relying;

use std::collections::BTreeSet;

use super::test_bench::{Bench, PEER, THIRD, UNIT, VOLUME, at, map};
use super::*;
use crate::Buffer;
use crate::cluster::Attendance;
use crate::plan::{Range, Span};
use crate::policy::Policy;
use crate::units::MILLIS;

const SECOND: Nanos = 1_000 * MILLIS;

/// The map without two of three nodes, of which the volume bears to lose one.
fn lacking(epoch: Epoch, lost_wait: Nanos) -> Arc<ClusterMap> {
    lacking_with(epoch, Policy { lost_wait, ..Policy::default() })
}

fn lacking_with(epoch: Epoch, policy: Policy) -> Arc<ClusterMap> {
    let mut map = ClusterMap::clone(&map(epoch, Attendance::default()));
    Arc::make_mut(map.volumes.get_mut(&VOLUME).unwrap()).policy = policy;
    for node in [PEER, THIRD] {
        map.nodes[usize::from(node.0)].up = false;
    }
    Arc::new(map)
}

/// A write to the second unit, which is on the peer's disk.
fn write() -> HostOp {
    HostOp::Write(UNIT, Buffer::Length(UNIT as usize))
}

fn pass(bench: &mut Bench, time: Nanos) {
    bench.now += time;
    bench.handle(Input::Timer(Timer::Tick));
}

#[test]
fn requests_wait_for_lost_nodes_and_go_on_when_they_are_back() {
    let mut bench = Bench::new();
    bench.enter(lacking(2, SECOND), at(50));
    bench.handle(Input::Host(1, VOLUME, write()));
    bench.handle(Input::Host(2, VOLUME, HostOp::Read(Range { offset: UNIT, len: UNIT })));
    pass(&mut bench, SECOND - 1);
    assert!(bench.replies.is_empty() && bench.sent.is_empty(), "{:?}", bench.sent);
    assert!(bench.node.status().waiting.contains("2 for lost nodes"));
    // One that is back is not enough for the write.
    bench.enter(lacking(3, SECOND), at(150));
    assert!(bench.replies.is_empty() && bench.sent.is_empty(), "{:?}", bench.sent);
    bench.enter(map(4, Attendance::default()), at(250));
    assert!(bench.has_sent(|b| matches!(b, Body::Write { .. })));
    assert!(bench.has_sent(|b| matches!(b, Body::Read { .. })));
    assert!(bench.replies.is_empty());
}

#[test]
fn requests_fail_when_they_have_waited_long_enough_or_nobody_wants_them() {
    let mut bench = Bench::new();
    bench.enter(lacking(2, SECOND), at(50));
    for number in [1, 2] {
        bench.handle(Input::Host(number, VOLUME, write()));
    }
    bench.handle(Input::HostGone(2));
    assert!(matches!(bench.replies[..], [(2, Err(HostError::Gone))]));
    // Another map in between does not make it begin to wait anew.
    pass(&mut bench, SECOND / 2);
    bench.enter(lacking(3, SECOND), at(150));
    pass(&mut bench, SECOND / 2);
    assert!(matches!(bench.replies[1..], [(1, Err(HostError::TooManyLost))]));
    bench.handle(Input::Host(3, VOLUME, write()));
    assert!(matches!(bench.replies[2..], [(3, Err(HostError::TooManyLost))]), "it is too late");
    // Nodes that were back for a moment are waited for anew.
    bench.enter(map(4, Attendance::default()), at(250));
    bench.enter(lacking(5, SECOND), at(350));
    bench.handle(Input::Host(4, VOLUME, write()));
    assert_eq!(bench.replies.len(), 3);
    bench.enter(lacking(6, 0), at(450));
    bench.handle(Input::Host(5, VOLUME, write()));
    let ends: Vec<u64> = bench.replies[3..].iter().map(|r| r.0).collect();
    assert_eq!(ends, [4, 5], "as soon as nobody is to wait");
}

#[test]
fn a_write_that_nobody_can_decide_waits_for_those_who_can() {
    let mut bench = Bench::new();
    bench.handle(Input::Host(1, VOLUME, write()));
    let ts = bench.has_begun();
    bench.enter(lacking(2, SECOND), at(50));
    pass(&mut bench, SECOND / 2);
    bench.sent.clear();
    bench.enter(map(3, Attendance::default()), at(150));
    let asks = |b: &Body| matches!(b, Body::Ask { ts: t } if *t == ts);
    assert!(bench.has_sent(asks) && bench.replies.is_empty());
    for node in [PEER, THIRD] {
        bench.hear(node, Body::Answer { ts, standing: Standing::Prepared });
    }
    assert!(matches!(bench.replies[..], [(1, Ok(HostData::Done))]), "the same write, once");
    // Where they do not come it is not known what became of it.
    let mut bench = Bench::new();
    bench.handle(Input::Host(1, VOLUME, write()));
    bench.enter(lacking(2, SECOND), at(50));
    for _ in 0..3 {
        pass(&mut bench, SECOND);
    }
    assert!(matches!(bench.replies[..], [(1, Err(HostError::TooManyLost))]));
}

/// A node that comes back may have lost its part of it, and its answer would be taken for a promise.
#[test]
fn a_write_that_has_begun_without_journal_does_not_wait() {
    let mut bench = Bench::new();
    let policy = Policy { journal: false, lost_wait: SECOND, ..Policy::default() };
    let mut whole = ClusterMap::clone(&map(2, Attendance::default()));
    Arc::make_mut(whole.volumes.get_mut(&VOLUME).unwrap()).policy = policy;
    bench.enter(Arc::new(whole), at(50));
    bench.handle(Input::Host(1, VOLUME, write()));
    bench.enter(lacking_with(3, policy), at(150));
    assert!(matches!(bench.replies[..], [(1, Err(HostError::TooManyLost))]));
    bench.handle(Input::Host(2, VOLUME, write()));
    assert_eq!(bench.replies.len(), 1, "one that has not begun waits");
}

#[test]
fn a_begun_write_of_a_host_that_is_gone_waits_for_nobody() {
    let mut bench = Bench::new();
    bench.handle(Input::Host(1, VOLUME, write()));
    bench.enter(lacking(2, Policy::FOREVER), at(50));
    pass(&mut bench, SECOND);
    assert!(bench.replies.is_empty());
    bench.handle(Input::HostGone(1));
    pass(&mut bench, 1);
    assert!(matches!(bench.replies[..], [(1, Err(HostError::Gone))]));
}

/// Of a volume that sleeps, what healthy columns hold can be read. A read that takes long may wait for a
/// write that is undecided, or only for a slow disk.
#[test]
fn a_read_that_takes_long_is_tried_again() {
    let mut bench = Bench::new();
    bench.enter(lacking(2, Policy::FOREVER), at(50));
    bench.handle(Input::Host(1, VOLUME, own_read()));
    for _ in 0..5 {
        assert!(bench.has_sent(|b| matches!(b, Body::Read { .. })));
        bench.sent.clear();
        // It is given up, and tried again after as long.
        pass(&mut bench, NodeConfig::default().patience);
        pass(&mut bench, NodeConfig::default().patience);
    }
    assert!(bench.replies.is_empty());
}

#[test]
fn what_waits_takes_no_room_from_what_can_be_done() {
    let mut bench = Bench::new();
    let most = NodeConfig::default().max_in_flight / UNIT;
    for number in 0..=most {
        bench.handle(Input::Host(number, VOLUME, write()));
    }
    let begun = bench.sent.iter().filter_map(|b| match b {
        Body::Write { header, .. } => Some(header.ts),
        _ => None,
    });
    assert_eq!(begun.collect::<BTreeSet<_>>().len() as u64, most, "one waits for room");
    bench.enter(lacking(2, SECOND), at(50));
    bench.sent.clear();
    bench.handle(Input::Host(most + 1, VOLUME, own_read()));
    assert!(bench.has_sent(|b| matches!(b, Body::Read { .. })));
}

/// A read of the first unit, which is on this node's own disk.
fn own_read() -> HostOp {
    HostOp::Read(Range { offset: 0, len: UNIT })
}

/// The map without one of three nodes, which left when nobody had anything to write.
fn resting(epoch: Epoch) -> Arc<ClusterMap> {
    let mut map = ClusterMap::clone(&map(epoch, Attendance::default()));
    Arc::make_mut(map.volumes.get_mut(&VOLUME).unwrap()).policy.lost_wait = 0;
    map.nodes[usize::from(THIRD.0)].up = false;
    Arc::new(map)
}

#[test]
fn what_is_to_be_written_to_a_volume_that_rests_wakes_it() {
    let mut bench = Bench::new();
    bench.enter(resting(2), at(50));
    bench.handle(Input::Host(1, VOLUME, HostOp::Read(Range { offset: UNIT, len: UNIT })));
    assert!(bench.has_sent(|b| matches!(b, Body::Read { .. })), "what is there can be read");
    assert!(bench.reports.is_empty());
    bench.handle(Input::Host(2, VOLUME, write()));
    assert_eq!(bench.reports, [MemberReport::Wake { epoch: 2 }]);
    assert!(!bench.has_sent(|b| matches!(b, Body::Write { .. })));
    // As often as it takes, and however short others wait for nodes that are really needed.
    pass(&mut bench, SECOND);
    assert!(bench.reports.len() > 1 && bench.replies.is_empty());
    bench.handle(Input::Map(MapMessage::Freeze { epoch: 3 }));
    assert!(matches!(bench.reports.last(), Some(MemberReport::Frozen { busy: true, .. })));
    let mut awake = ClusterMap::clone(&resting(3));
    let away = Attendance { away: BTreeSet::from([THIRD]), ..Attendance::default() };
    awake.attendance.insert(VOLUME, away);
    bench.enter(Arc::new(awake), at(150));
    assert!(bench.has_sent(|b| matches!(b, Body::Write { .. })));
}

#[test]
fn who_has_nothing_in_work_says_so_when_it_stops() {
    let mut bench = Bench::new();
    bench.handle(Input::Map(MapMessage::Freeze { epoch: 2 }));
    assert!(matches!(bench.reports[..], [MemberReport::Frozen { busy: false, .. }]));
    bench.enter(map(2, Attendance::default()), at(50));
    bench.begin_write(at(100));
    bench.handle(Input::Map(MapMessage::Freeze { epoch: 3 }));
    assert!(matches!(bench.reports[1..], [MemberReport::Frozen { busy: true, .. }]));
}

/// What is lost is put back when the volume goes on; to fail would be to leave it lost.
#[test]
fn what_is_to_be_repaired_of_a_volume_that_rests_wakes_it_too() {
    let mut bench = Bench::new();
    bench.enter(resting(2), at(50));
    let part = Span::new(0, UNIT);
    bench.node.originator.rebuild(Run { volume: VOLUME, stripe: 0, stripes: 1, seat: 1, part });
    pass(&mut bench, MILLIS);
    assert_eq!(bench.reports, [MemberReport::Wake { epoch: 2 }]);
    assert!(bench.node.status().waiting.contains("1 for lost nodes"));
    bench.enter(map(3, Attendance::default()), at(150));
    let rebuilds = |b: &Body| matches!(b, Body::Write { header, .. } if matches!(header.task, Task::Rebuild { .. }));
    assert!(bench.has_sent(rebuilds), "{:?}", bench.sent);
}
