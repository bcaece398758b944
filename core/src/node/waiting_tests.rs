//! Requests to a volume that lacks nodes.

use super::test_bench::{Bench, PEER, THIRD, UNIT, VOLUME, at, map};
use super::*;
use crate::cluster::Attendance;
use crate::units::MILLIS;

const SECOND: Nanos = 1_000 * MILLIS;

/// The map without two of three nodes, of which the volume bears to lose one.
fn lacking(epoch: Epoch, lost_wait: Nanos) -> Arc<ClusterMap> {
    let mut map = ClusterMap::clone(&map(epoch, Attendance::default()));
    let volume = Arc::make_mut(map.volumes.get_mut(&VOLUME).unwrap());
    volume.policy.lost_wait = lost_wait;
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
    bench.enter(lacking(4, 0), at(250));
    bench.handle(Input::Host(3, VOLUME, write()));
    assert!(matches!(bench.replies[2..], [(3, Err(HostError::TooManyLost))]), "at once");
}

#[test]
fn a_write_that_nobody_can_decide_waits_for_those_who_can() {
    let mut bench = Bench::new();
    bench.handle(Input::Host(1, VOLUME, write()));
    let begun = bench.sent.iter().find_map(|b| match b {
        Body::Write { header, .. } => Some(header.ts),
        _ => None,
    });
    let ts = begun.expect("the peer is to write");
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

#[test]
fn what_waits_takes_no_room_from_what_can_be_done() {
    let mut bench = Bench::new();
    bench.enter(lacking(2, SECOND), at(50));
    let most = NodeConfig::default().max_in_flight / UNIT;
    for number in 0..=most {
        bench.handle(Input::Host(number, VOLUME, write()));
    }
    assert!(bench.sent.is_empty());
    // The first unit is on this node's own disk.
    bench.handle(Input::Host(most + 1, VOLUME, HostOp::Read(Range { offset: 0, len: UNIT })));
    assert!(bench.has_sent(|b| matches!(b, Body::Read { .. })));
}
