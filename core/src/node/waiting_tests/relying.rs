//! Writes that rely on marks, at their originator and at the disk that has the data.

use super::super::test_bench::{Bench, PEER, THIRD, UNIT, US, VOLUME, at, map};
use super::super::*;
use crate::Buffer;
use crate::cluster::Attendance;
use crate::plan::{Calculators, Part, Range, Span, Waits};
use crate::policy::{Policy, Redundancy, Timing};
use crate::units::{ColumnSet, MILLIS};

/// A volume whose parity waits for ever and which goes on without some nodes; requests wait for those for a second.
fn waiting(epoch: Epoch, down: &[NodeId]) -> Arc<ClusterMap> {
    let away = down.iter().copied().collect();
    let mut map = ClusterMap::clone(&map(epoch, Attendance { away, ..Attendance::default() }));
    let redundancy = Redundancy { timing: Timing::Never, ..Redundancy::default() };
    let policy = Policy { redundancy, lost_wait: 1_000 * MILLIS, ..Policy::default() };
    Arc::make_mut(map.volumes.get_mut(&VOLUME).unwrap()).policy = policy;
    for node in down {
        map.nodes[usize::from(node.0)].up = false;
    }
    Arc::new(map)
}

fn bench() -> Bench {
    let mut bench = Bench::new();
    bench.enter(waiting(2, &[]), at(5));
    bench.sent.clear();
    bench
}

/// This node's host writes the second unit, which is on the peer's disk. Returns what is told to whom.
fn host_writes(bench: &mut Bench, request: u64) -> Vec<Header> {
    bench.sent.clear();
    bench.handle(Input::Host(request, VOLUME, HostOp::Write(UNIT, Buffer::Length(UNIT as usize))));
    told_of(bench)
}

fn told_of(bench: &mut Bench) -> Vec<Header> {
    let header = |b: &Body| if let Body::Write { header, .. } = b { Some(*header) } else { None };
    std::mem::take(&mut bench.sent).iter().filter_map(header).collect()
}

fn vote(bench: &mut Bench, ts: Timestamp, column: usize, vote: Result<(), Refusal>) {
    let from = [US, PEER, THIRD][column];
    bench.hear(from, Body::Vote { ts, column, vote });
}

/// Has parity marked, so that this node knows of it.
fn mark(bench: &mut Bench, request: u64) -> Timestamp {
    let told = host_writes(bench, request);
    assert!(told.len() == 2 && told[0].waits.marked_since.is_none(), "data and parity: {told:?}");
    let ts = told[0].ts;
    vote(bench, ts, 1, Ok(()));
    vote(bench, ts, 2, Ok(()));
    assert!(matches!(bench.replies.pop(), Some((n, Ok(HostData::Done))) if n == request));
    ts
}

#[test]
fn who_has_had_parity_marked_tells_only_the_data_until_that_is_refused() {
    let mut bench = bench();
    let marked = mark(&mut bench, 1);
    let told = host_writes(&mut bench, 2);
    assert_eq!(told.len(), 1, "the peer alone: {told:?}");
    assert_eq!(told[0].waits.marked_since, Some(marked));
    vote(&mut bench, told[0].ts, 1, Ok(()));
    assert!(matches!(bench.replies.pop(), Some((2, Ok(HostData::Done)))));
    // Parity has been computed meanwhile.
    let told_again = host_writes(&mut bench, 3);
    let ts = told_again[0].ts;
    vote(&mut bench, ts, 1, Err(Refusal::MarksAreGone));
    bench.hear(PEER, Body::Answer { ts, standing: Standing::Unknown });
    assert!(bench.replies.is_empty());
    let again = told_of(&mut bench);
    assert!(
        again.len() == 2 && again[0].waits.marked_since.is_none(),
        "it is marked anew: {again:?}"
    );
}

/// What a disk lacks that is catching up is determined by the others' parity. Once that is marked it is lost.
#[test]
fn no_parity_waits_while_a_disk_of_its_extent_is_behind() {
    for behind in [US, PEER, THIRD] {
        let mut bench = Bench::new();
        let mut map = ClusterMap::clone(&waiting(2, &[]));
        let attendance = map.attendance.get_mut(&VOLUME).unwrap();
        attendance.stale_since.insert(behind, at(2));
        attendance.counts_from.insert(behind, at(3));
        bench.enter(Arc::new(map), at(5));
        let told = host_writes(&mut bench, 1);
        let at_once = |header: &Header| header.waits.parities.is_empty();
        assert!(told.len() > 1 && told.iter().all(at_once), "{behind} is behind: {told:?}");
        bench.enter(waiting(3, &[]), at(500_000));
        let told = host_writes(&mut bench, 2);
        assert!(!told.is_empty() && !told.iter().any(at_once), "{behind} has it all: {told:?}");
    }
}

/// Should the disk that a column comes to miss anything, the others' parity determines the rest.
#[test]
fn no_parity_waits_while_columns_move_or_are_to() {
    let draining = |map: &mut ClusterMap| map.nodes[usize::from(THIRD.0)].draining = true;
    let rebalancing = |map: &mut ClusterMap| map.rebalancing = true;
    for moves in [draining as fn(&mut ClusterMap), rebalancing] {
        let mut bench = Bench::new();
        let mut map = ClusterMap::clone(&waiting(2, &[]));
        moves(&mut map);
        bench.enter(Arc::new(map), at(5));
        let told = host_writes(&mut bench, 1);
        let at_once = |header: &Header| header.waits.parities.is_empty();
        assert!(told.len() > 1 && told.iter().all(at_once), "{told:?}");
    }
}

#[test]
fn what_is_known_to_be_marked_is_forgotten_with_the_epoch() {
    let mut bench = bench();
    mark(&mut bench, 1);
    bench.enter(waiting(3, &[]), at(2_000));
    assert_eq!(host_writes(&mut bench, 2).len(), 2);
}

/// Only who has the data can say what became of it. Others would not know, and it could happen twice.
#[test]
fn a_write_that_relied_on_marks_waits_for_the_disk_that_has_its_data() {
    let mut bench = bench();
    mark(&mut bench, 1);
    let ts = host_writes(&mut bench, 2)[0].ts;
    bench.enter(waiting(3, &[PEER]), at(2_000));
    assert!(told_of(&mut bench).is_empty() && bench.replies.is_empty(), "it is not tried again");
    bench.enter(waiting(4, &[]), at(3_000));
    assert!(bench.has_sent(|b| matches!(b, Body::Ask { ts: t } if *t == ts)));
    bench.hear(PEER, Body::Answer { ts, standing: Standing::Prepared });
    assert!(matches!(bench.replies.pop(), Some((2, Ok(HostData::Done)))));
    // If it does not come back nobody can know.
    let ts = mark(&mut bench, 3);
    assert_eq!(host_writes(&mut bench, 4)[0].waits.marked_since, Some(ts));
    bench.enter(waiting(5, &[PEER]), at(4_000));
    for _ in 0..3 {
        bench.now += 1_000 * MILLIS;
        bench.handle(Input::Timer(Timer::Tick));
    }
    assert!(matches!(bench.replies[..], [(4, Err(HostError::TooManyLost))]));
}

/// The peer writes the first unit, which is on this node's disk.
fn peer_writes(bench: &mut Bench, time: u64, marked_since: Option<Timestamp>) -> Body {
    let waits = Waits { marked_since, ..ColumnSet::first(1).into() };
    let data = Buffer::Length(UNIT as usize);
    let items = vec![Item { stripe: 0, part: Part::New, data }];
    let task = Task::Write(Range { offset: 0, len: UNIT });
    tell(bench, at(time), waits, task, items)
}

fn tell(bench: &mut Bench, ts: Timestamp, waits: Waits, task: Task, items: Vec<Item>) -> Body {
    let (volume, avoid, calculators) = (VOLUME, ColumnSet::EMPTY, Calculators::default());
    let header = Header { ts, volume, avoid, waits, calculators, task, asker: None, holder: None };
    bench.sent.clear();
    bench.hear(ts.originator(), Body::Write { header, items });
    while bench.disk_works().is_some() {}
    bench.sent.pop().expect("it says something")
}

#[test]
fn who_has_the_data_refuses_once_parity_has_been_computed_from_it() {
    let mut bench = bench();
    let prepared = |b: &Body| matches!(b, Body::Vote { vote: Ok(()), .. });
    let gone = |b: &Body| matches!(b, Body::Vote { vote: Err(Refusal::MarksAreGone), .. });
    let said = peer_writes(&mut bench, 20, Some(at(5)));
    assert!(gone(&said), "it names a time before this epoch: {said:?}");
    let said = peer_writes(&mut bench, 30, Some(at(10)));
    assert!(prepared(&said), "nothing has been computed: {said:?}");
    bench.hear_with(PEER, vec![Notice::Commit(at(30))], None);
    // Parity is computed where it lies.
    let task = Task::Rebuild { stripe: 0, stripes: 1, column: 2, part: Span::new(0, UNIT) };
    let ts = Timestamp::new(40, THIRD);
    let said = tell(&mut bench, ts, Waits::NONE, task, vec![]);
    assert!(matches!(said, Body::Part { .. }), "it shows what it has: {said:?}");
    let said = peer_writes(&mut bench, 50, Some(at(10)));
    assert!(gone(&said), "the mark may be gone: {said:?}");
    let said = peer_writes(&mut bench, 60, None);
    assert!(prepared(&said), "it is marked anew: {said:?}");
    bench.hear_with(PEER, vec![Notice::Commit(at(60))], None);
    let said = peer_writes(&mut bench, 70, Some(at(60)));
    assert!(prepared(&said), "{said:?}");
}

/// Parity that is computed at an earlier time than such a write, and has not read before it, is refused: else it would take
/// the mark away on which the write relies.
#[test]
fn parity_is_not_computed_before_a_write_that_relies_on_its_mark() {
    let mut bench = bench();
    peer_writes(&mut bench, 50, Some(at(10)));
    let task = Task::Rebuild { stripe: 0, stripes: 1, column: 2, part: Span::new(0, UNIT) };
    let said = tell(&mut bench, Timestamp::new(40, THIRD), Waits::NONE, task, vec![]);
    let late = matches!(said, Body::Vote { vote: Err(Refusal::Late(ts)), .. } if ts >= at(50));
    assert!(late, "{said:?}");
}
