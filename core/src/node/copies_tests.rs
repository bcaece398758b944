//! Copies of small writes at one disk with parity.

use super::test_bench::{Bench, PEER, THIRD, UNIT, VOLUME, at, header_of, map};
use super::*;
use crate::Buffer;
use crate::cluster::Attendance;
use crate::plan::{Part, Range, Span, Waits};
use crate::policy::Timing;
use crate::units::MILLIS;

/// Its data's disk would refuse it, but may be dead. Clocks of nodes differ.
#[test]
fn a_copy_that_comes_after_a_later_fold_of_its_data_is_refused() {
    let mut bench = Bench::new();
    // Of the third stripe the parity is on this node's disk.
    let range = Range { offset: 4 * UNIT, len: UNIT };
    // Only a small write adds to parity, as folds do.
    let fold = Header { task: Task::Fold { range, of: at(5) }, ..header_of(at(20), range) };
    bench.hear(PEER, Body::Write { header: fold, items: vec![] });
    let header = Header { waits: Waits::COPIED, ..header_of(at(10), range) };
    let data = Buffer::Length(UNIT as usize);
    let items = vec![Item { stripe: 2, part: Part::New, data }];
    bench.hear(PEER, Body::Write { header, items });
    let late = Err(Refusal::Late(at(20)));
    let is_refused =
        |b: &Body| matches!(b, Body::Vote { ts, vote, .. } if *ts == at(10) && *vote == late);
    assert!(bench.has_sent(is_refused), "{:?}", bench.sent);
}

/// The same map, of a volume whose small writes are copied.
fn copied(epoch: Epoch, attendance: Attendance) -> Arc<ClusterMap> {
    let mut map = (*map(epoch, attendance)).clone();
    let volume = Arc::make_mut(map.volumes.get_mut(&VOLUME).expect("the volume"));
    volume.policy.redundancy.timing = Timing::Copied;
    Arc::new(map)
}

/// The same while disks are made equally full.
fn moving(map: Arc<ClusterMap>) -> Arc<ClusterMap> {
    Arc::new(ClusterMap { rebalancing: true, ..ClusterMap::clone(&map) })
}

/// Of the first stripe this node's disk has data, of the third the parity.
const OF_FIRST_STRIPE: Range = Range { offset: 0, len: UNIT };
pub(super) const OF_THIRD_STRIPE: Range = Range { offset: 4 * UNIT, len: UNIT };

/// A node that has a copy of the first unit of a stripe, written at 50.
pub(super) fn with_a_copy(range: Range) -> Bench {
    let mut bench = Bench::new();
    bench.enter(copied(2, Attendance::default()), at(1));
    let stripe = range.offset / (2 * UNIT);
    let [of_whole, of_copy] = match stripe {
        2 => [Part::Result, Part::NewOf(0)],
        _ => [Part::New, Part::New],
    };
    // Only what has its place is copied.
    let whole = header_of(at(40), Range { len: 2 * UNIT, ..range });
    let copy = Header { waits: Waits::COPIED, ..header_of(at(50), range) };
    for (header, part) in [(whole, of_whole), (copy, of_copy)] {
        let items = vec![Item { stripe, part, data: Buffer::Length(UNIT as usize) }];
        bench.hear(PEER, Body::Write { header, items });
        while bench.disk_works().is_some() {}
        let is_vote =
            |b: &Body| matches!(b, Body::Vote { ts, vote: Ok(()), .. } if *ts == header.ts);
        assert!(bench.has_sent(is_vote), "{:?}", bench.sent);
        bench.hear_with(PEER, vec![Notice::Commit(header.ts)], None);
        while bench.disk_works().is_some() {}
    }
    assert_eq!(bench.node.worker.copied_volumes(), [VOLUME]);
    bench
}

/// A pause within a burst is shorter.
#[test]
fn copies_are_folded_when_hosts_have_paused_for_as_long_as_the_volume_says() {
    let mut bench = with_a_copy(OF_FIRST_STRIPE);
    let began = bench.now;
    let is_fold = |b: &Body| matches!(b, Body::Write { header, .. } if matches!(header.task, Task::Fold { .. }));
    for (ms, folds) in [(10, false), (70, false), (100, true)] {
        bench.now = began + ms * MILLIS;
        bench.handle(Input::Timer(Timer::Refresh));
        assert_eq!(bench.has_sent(is_fold), folds, "after {ms} ms: {:?}", bench.sent);
    }
}

/// A rebuild that waits for folds was admitted before it was refused, again and again. What it would have read could then not be
/// changed by folds that had begun before.
#[test]
fn what_waits_for_folds_does_not_keep_them_from_happening() {
    let mut bench = with_a_copy(OF_THIRD_STRIPE);
    let stale_since = [(THIRD, at(1))].into();
    bench.enter(copied(3, Attendance { stale_since, ..Attendance::default() }), at(60));
    bench.sent.clear();
    let (volume, part) = (&bench.node.map.volumes[&VOLUME], Span::new(0, UNIT));
    let layout = &volume.geometry.layout;
    let column = (0..3).find(|seat| layout.column_at(2, *seat) == 2).expect("its seat");
    let task = Task::Rebuild { stripe: 2, stripes: 1, column, part };
    let rebuild = Header { task, ..header_of(at(90), OF_THIRD_STRIPE) };
    bench.hear(PEER, Body::Write { header: rebuild, items: vec![] });
    let vote_on = |of: u64, wanted: Refusal| move |b: &Body| matches!(b, Body::Vote { ts, vote: Err(why), .. } if *ts == at(of) && *why == wanted);
    assert!(bench.has_sent(vote_on(90, Refusal::Busy)), "{:?}", bench.sent);
    let task = Task::Fold { range: OF_THIRD_STRIPE, of: at(50) };
    let fold = Header { task, ..header_of(at(80), OF_THIRD_STRIPE) };
    bench.hear(PEER, Body::Write { header: fold, items: vec![] });
    assert!(!bench.has_sent(vote_on(80, Refusal::Late(at(90)))), "{:?}", bench.sent);
}

/// A drain or a snapshot waited for it for ever.
#[test]
fn who_said_that_it_has_copies_reports_when_it_has_none_any_more() {
    let mut bench = Bench::new();
    bench.enter(copied(2, Attendance::default()), at(1));
    bench.begin_write_of(at(40), 0, Range { offset: 0, len: 2 * UNIT });
    while bench.disk_works().is_some() {}
    bench.hear_with(PEER, vec![Notice::Commit(at(40))], None);
    while bench.disk_works().is_some() {}
    // The journal is being written, so the copy waits for its turn.
    let of_fourth_stripe = Range { offset: 6 * UNIT, len: 2 * UNIT };
    let item = |stripe| Item { stripe, part: Part::New, data: Buffer::Length(UNIT as usize) };
    let body = Body::Write { header: header_of(at(45), of_fourth_stripe), items: vec![item(3)] };
    bench.hear(PEER, body);
    let header = Header { waits: Waits::COPIED, ..header_of(at(50), OF_FIRST_STRIPE) };
    bench.hear(PEER, Body::Write { header, items: vec![item(0)] });
    assert_eq!(bench.node.worker.copied_volumes(), [VOLUME]);
    bench.handle(Input::Map(MapMessage::Freeze { epoch: 3 }));
    let said = |r: &MemberReport| matches!(r, MemberReport::Frozen { undescribed, .. } if undescribed.copied == [VOLUME]);
    assert!(bench.reports.iter().any(said), "{:?}", bench.reports);
    bench.enter(moving(copied(3, Attendance::default())), at(60));
    while bench.disk_works().is_some() {}
    bench.handle(Input::Timer(Timer::Tick));
    assert!(bench.node.worker.copied_volumes().is_empty());
    let folded = |r: &MemberReport| matches!(r, MemberReport::ParityDone { epoch: 3, volumes } if *volumes == [VOLUME]);
    assert!(bench.reports.iter().any(folded), "{:?}", bench.reports);
}

/// It could not name any volume when it stopped: the authority counts all on its disk as named.
#[test]
fn a_node_that_has_started_reports_when_it_knows_which_parity_is_marked() {
    let first = moving(copied(1, Attendance::default()));
    let mut bench = Bench::in_map(NodeConfig::default(), first);
    while bench.disk_works().is_some() {}
    bench.handle(Input::Timer(Timer::Tick));
    let done = |r: &MemberReport| matches!(r, MemberReport::ParityDone { epoch: 1, volumes } if *volumes == [VOLUME]);
    assert!(bench.reports.iter().any(done), "{:?}", bench.reports);
}

/// Whatever waits for folds of other volumes goes on without it.
#[test]
fn copies_that_cannot_be_folded_are_not_waited_for() {
    let mut bench = with_a_copy(OF_FIRST_STRIPE);
    bench.handle(Input::Map(MapMessage::Freeze { epoch: 3 }));
    let mut asleep = ClusterMap::clone(&moving(copied(3, Attendance::default())));
    for node in [PEER, THIRD] {
        asleep.nodes[usize::from(node.0)].up = false;
    }
    bench.enter(Arc::new(asleep), at(60));
    bench.handle(Input::Timer(Timer::Tick));
    let has_said = |b: &Bench, of: Epoch| {
        b.reports
            .iter()
            .any(|r| matches!(r, MemberReport::ParityDone { epoch, .. } if *epoch == of))
    };
    assert!(!has_said(&bench, 3), "there was nothing to fold");
    bench.handle(Input::Map(MapMessage::Freeze { epoch: 4 }));
    bench.enter(moving(copied(4, Attendance::default())), at(70));
    bench.handle(Input::Timer(Timer::Tick));
    assert!(!has_said(&bench, 4), "its copy can be folded");
}
