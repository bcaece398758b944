//! A controller and an endpoint, each by itself.

use super::test_bench::*;
use super::*;
use crate::Buffer;
use crate::cluster::{Attendance, NodeKind};
use crate::order::{Asker, HostId, RequestId};
use crate::plan::{Calculators, Part, Range, Role};
use crate::policy::{CalculatedAt, Roles, Setting};
use crate::units::{ColumnSet, MILLIS};

const RANGE: Range = Range { offset: 0, len: UNIT };

/// The volume has a controller that no data passes: the first node, or the second if the first has a disk and that has none.
fn controlled(epoch: Epoch, by_peer: bool) -> Arc<ClusterMap> {
    let mut map = ClusterMap::clone(&map(epoch, Attendance::default()));
    let volume = Arc::make_mut(map.volumes.get_mut(&VOLUME).expect("the volume"));
    Setting::Roles(Roles::Controller).apply(&mut volume.policy);
    if by_peer {
        (map.nodes[1].kind, map.nodes[1].sectors) = (NodeKind::Controller, 0);
    }
    Arc::new(map)
}

fn ask(number: u64, wish: Wish) -> Body {
    staged(number, wish, Stage::New)
}

fn staged(number: u64, wish: Wish, stage: Stage) -> Body {
    let id = RequestId { host: HostId(7), number };
    let origin = Origin { asker: Asker { id, oldest: 1 }, again: None, permitted: 0 };
    let (key, after) = (Key(9), at(500));
    Body::Request(Ask { number, oldest: 1, key, volume: VOLUME, wish, origin, after, stage })
}

fn controller() -> Bench {
    let mut bench = Bench::new();
    bench.enter(controlled(2, false), at(1));
    bench.sent.clear();
    bench
}

fn count(bench: &Bench, what: impl Fn(&Body) -> bool) -> usize {
    bench.sent.iter().filter(|b| what(b)).count()
}

fn writes(bench: &Bench) -> usize {
    count(bench, |b| matches!(b, Body::Write { .. }))
}

fn refused(bench: &Bench) -> u64 {
    bench.node.status().counters.refused_strangers
}

#[test]
fn a_request_that_comes_twice_happens_once_and_without_its_bytes() {
    let mut bench = controller();
    bench.hear(PEER, ask(1, Wish::Write(RANGE, None)));
    let told = writes(&bench);
    bench.hear(PEER, ask(1, Wish::Write(RANGE, None)));
    assert!(told > 0 && writes(&bench) == told, "workers are told once");
    let tells = told;
    let told = bench.sent.iter().find_map(|b| match b {
        Body::Write { header, items } => Some((*header, items.len())),
        _ => None,
    });
    let (header, items) = told.expect("just seen");
    assert_eq!((header.holder.map(|h| (h.node, h.key)), items), (Some((PEER, Key(9))), 0));
    assert!(header.ts > at(500), "later than the endpoint's clock");
    for (from, column) in [(US, 0), (THIRD, 2)] {
        bench.hear(from, Body::Vote { ts: header.ts, column, vote: Ok(()) });
    }
    let done =
        |b: &Body| matches!(b, Body::Done { number: 1, result: Ok(read), .. } if read.is_empty());
    assert_eq!(count(&bench, done), 1);
    bench.hear(PEER, ask(1, Wish::Write(RANGE, None)));
    assert_eq!(
        (count(&bench, done), writes(&bench)),
        (2, tells),
        "it is told again, and not done again"
    );
    assert_eq!(bench.node.status().counters.controlled_bytes, 0);
}

/// A repeat without bytes begins nothing. Where the request is not known the endpoint is told to ask anew.
#[test]
fn what_is_repeated_begins_nothing_and_is_asked_for_anew_where_it_is_not_known() {
    let mut bench = controller();
    let anew = |bench: &Bench| count(bench, |b| matches!(b, Body::Resend { number: 1, .. }));
    for wish in [Wish::Write(RANGE, None), Wish::Read(RANGE)] {
        bench.sent.clear();
        bench.hear(PEER, staged(1, wish, Stage::Repeated));
        assert_eq!((bench.sent.len(), anew(&bench)), (1, 1));
    }
    bench.hear(PEER, ask(1, Wish::Write(RANGE, None)));
    let told = writes(&bench);
    bench.hear(PEER, staged(1, Wish::Write(RANGE, None), Stage::Repeated));
    assert!(told > 0 && (writes(&bench), anew(&bench)) == (told, 1), "it is in work");
    bench.hear(PEER, staged(2, Wish::Write(RANGE, None), Stage::Abandoned));
    let gone = |b: &Body| matches!(b, Body::Done { number: 2, result: Err(HostError::Gone), .. });
    assert_eq!((count(&bench, gone), writes(&bench), refused(&bench)), (1, told, 0));
}

#[test]
fn what_a_controller_cannot_take_is_refused_and_counted() {
    let mut bench = controller();
    bench.hear(PEER, ask(1 + controlling::AHEAD, Wish::Write(RANGE, None)));
    bench.hear(PEER, ask(2, Wish::Write(RANGE, Some(Buffer::Zero(1)))));
    assert_eq!((writes(&bench), refused(&bench)), (0, 2));
    bench.enter(controlled(3, true), at(2));
    bench.hear(PEER, ask(3, Wish::Read(RANGE)));
    assert_eq!(refused(&bench), 3, "another node is the controller");
}

/// A host has asked this node, whose peer is the controller, for a write of the first unit.
fn endpoint() -> Bench {
    let mut bench = Bench::new();
    bench.enter(controlled(2, true), at(1));
    bench.sent.clear();
    bench.handle(Input::Host(1, VOLUME, HostOp::Write(0, Buffer::Length(UNIT as usize))));
    bench
}

fn last_asked(bench: &Bench) -> Ask {
    let asked = |b: &Body| if let Body::Request(ask) = b { Some(ask.clone()) } else { None };
    bench.sent.iter().rev().find_map(asked).expect("the controller is asked")
}

fn header(ask: &Ask, ts: Timestamp, key: Key) -> Header {
    let holder = Some(Holder { node: US, number: ask.number, key });
    let (avoid, waits) = (ColumnSet::EMPTY, crate::plan::Waits::NONE);
    let (task, asker) = (Task::Write(RANGE), Some(ask.origin.asker));
    let calculators = Calculators::default();
    Header { ts, volume: VOLUME, avoid, waits, calculators, task, asker, holder }
}

#[test]
fn bytes_stay_at_the_endpoint_and_go_to_who_has_the_key_and_the_column() {
    let mut bench = endpoint();
    let ask = last_asked(&bench);
    assert!(matches!(ask.wish, Wish::Write(RANGE, None)), "{ask:?}");
    let gives = |b: &Body| matches!(b, Body::Part { items, .. } if items[0].part == Part::New);
    for (from, column, key) in [(US, 0, Key(1)), (THIRD, 0, ask.key)] {
        bench.hear(from, Body::Fetch { header: header(&ask, at(900), key), column });
        assert_eq!(count(&bench, gives), 0, "{from} {column}");
    }
    assert_eq!(refused(&bench), 2);
    bench.hear(US, Body::Fetch { header: header(&ask, at(900), ask.key), column: 0 });
    assert_eq!(count(&bench, gives), 1);
    let done =
        Body::Done { volume: VOLUME, number: ask.number, result: Ok(vec![]), counted: vec![] };
    bench.hear(THIRD, done.clone());
    assert!(bench.replies.is_empty(), "only the controller says what became of it");
    bench.hear(PEER, done);
    assert!(matches!(bench.replies[..], [(1, Ok(HostData::Done))]), "{:?}", bench.replies);
    bench.hear(US, Body::Fetch { header: header(&ask, at(950), ask.key), column: 0 });
    assert_eq!(count(&bench, gives), 1, "the key is dead");
}

/// All data passes the controller. It gets a write's bytes once, and again when it says that it has not got them.
#[test]
fn bytes_go_to_the_controller_once_and_anew_when_it_asks_for_them() {
    let mut map = ClusterMap::clone(&controlled(2, true));
    let volume = Arc::make_mut(map.volumes.get_mut(&VOLUME).expect("the volume"));
    Setting::Roles(Roles::Central).apply(&mut volume.policy);
    let mut bench = Bench::new();
    bench.enter(Arc::new(map.clone()), at(1));
    let write = |at| HostOp::Write(at, Buffer::Length(UNIT as usize));
    bench.handle(Input::Host(1, VOLUME, write(0)));
    let asked = |bench: &Bench| {
        let ask = last_asked(bench);
        (count(bench, |b| matches!(b, Body::Request(_))), ask.stage, ask.wish.payload())
    };
    assert_eq!(asked(&bench), (1, Stage::New, UNIT));
    bench.now += NodeConfig::default().patience;
    bench.handle(Input::Timer(Timer::Tick));
    assert_eq!(asked(&bench), (2, Stage::Repeated, 0));
    let anew = Body::Resend { volume: VOLUME, number: last_asked(&bench).number };
    bench.hear(THIRD, anew.clone());
    assert_eq!((asked(&bench).0, refused(&bench)), (2, 1), "it is not the controller");
    bench.hear(PEER, anew.clone());
    assert_eq!(asked(&bench), (3, Stage::New, UNIT));
    map.epoch = 3;
    bench.enter(Arc::new(map), at(2));
    assert_eq!(asked(&bench), (4, Stage::New, UNIT), "this one has not been asked");
    bench.handle(Input::HostGone(1));
    assert_eq!(asked(&bench), (5, Stage::Abandoned, 0));
    bench.hear(PEER, anew.clone());
    assert_eq!(asked(&bench), (6, Stage::Abandoned, 0));
    let (number, result) = (last_asked(&bench).number, Err(HostError::Gone));
    bench.hear(PEER, Body::Done { volume: VOLUME, number, result, counted: vec![] });
    bench.hear(PEER, anew);
    assert_eq!(asked(&bench).0, 6, "it is over");
}

#[test]
fn only_attempts_that_the_endpoint_knows_are_asked_after() {
    let mut bench = endpoint();
    bench.enter(controlled(3, true), at(2));
    assert_eq!(last_asked(&bench).origin.again, None, "nobody can have prepared it");
    let ask = last_asked(&bench);
    bench.hear(US, Body::Fetch { header: header(&ask, at(900), ask.key), column: 0 });
    bench.enter(controlled(4, true), at(3));
    let again = last_asked(&bench).origin.again.expect("somebody may have prepared it");
    assert!(again.since < at(900) && again.epoch == 3, "{again:?}");
}

/// A write of two parts, of which one has happened; then the volume has no controller any more, and this node begins all of
/// it. Another host may have written over that part: so it is asked after, though the other part has never begun.
#[test]
fn a_part_that_is_over_is_asked_after_when_its_request_is_the_nodes_own() {
    for has_happened in [false, true] {
        let by_stripe = NodeConfig { max_chunk: 2 * UNIT, ..NodeConfig::default() };
        let mut bench = Bench::with(by_stripe);
        bench.enter(controlled(2, true), at(1));
        bench.sent.clear();
        let write = HostOp::Write(UNIT, Buffer::Length(2 * UNIT as usize));
        bench.handle(Input::Host(1, VOLUME, write));
        let asked = |b: &Body| if let Body::Request(ask) = b { Some(ask.clone()) } else { None };
        let asked: Vec<Ask> = bench.sent.iter().filter_map(asked).collect();
        let first = Range { offset: UNIT, len: UNIT };
        assert_eq!((asked.len(), asked[0].wish.range()), (2, first));
        if has_happened {
            let (number, task) = (asked[0].number, Task::Write(first));
            let header = Header { task, ..header(&asked[0], at(900), asked[0].key) };
            bench.hear(PEER, Body::Fetch { header, column: 1 });
            let (result, counted) = (Ok(vec![]), vec![]);
            bench.hear(PEER, Body::Done { volume: VOLUME, number, result, counted });
        }
        let mut map = ClusterMap::clone(&controlled(3, true));
        let volume = Arc::make_mut(map.volumes.get_mut(&VOLUME).expect("the volume"));
        Setting::Roles(Roles::Node).apply(&mut volume.policy);
        bench.sent.clear();
        bench.enter(Arc::new(map), at(2));
        let recalls = count(&bench, |b| matches!(b, Body::Recall { .. }));
        assert_eq!((recalls > 0, writes(&bench) > 0), (has_happened, !has_happened));
    }
}

#[test]
fn a_read_is_answered_when_all_that_counts_is_here() {
    let mut bench = Bench::new();
    bench.enter(controlled(2, true), at(1));
    bench.handle(Input::Host(1, VOLUME, HostOp::Read(Range { offset: 0, len: 2 * UNIT })));
    let ask = last_asked(&bench);
    let (number, key) = (ask.number, ask.key);
    let place = |ts, column, len| Body::Place {
        holder: Holder { node: US, number, key },
        ts,
        volume: VOLUME,
        range: Range { offset: 0, len: 2 * UNIT },
        avoid: ColumnSet::EMPTY,
        calculators: Calculators::default(),
        column,
        pieces: vec![(0, Buffer::Length(len))],
    };
    bench.hear(US, place(at(900), 0, UNIT as usize));
    bench.hear(US, place(at(950), 0, UNIT as usize));
    bench.hear(
        PEER,
        Body::Done { volume: VOLUME, number, result: Ok(vec![]), counted: vec![at(950)] },
    );
    assert!(bench.replies.is_empty(), "a piece is missing");
    bench.hear(PEER, place(at(900), 1, UNIT as usize));
    assert!(bench.replies.is_empty(), "that was an earlier attempt");
    bench.hear(PEER, place(at(950), 1, UNIT as usize));
    assert!(matches!(&bench.replies[..], [(1, Ok(HostData::Bytes(b)))] if b.len() == 2));
}

/// Of a full stripe over three columns the first adds up what the second has, and the third has the parity.
#[test]
fn a_sum_counts_only_from_the_column_that_is_to_send_it() {
    for roles in [Roles::Node, Roles::Controller] {
        let mut map = ClusterMap::clone(&controlled(2, true));
        let volume = Arc::make_mut(map.volumes.get_mut(&VOLUME).expect("the volume"));
        Setting::Roles(roles).apply(&mut volume.policy);
        volume.policy.calculated_at = Some(CalculatedAt::Tree);
        let mut bench = Bench::new();
        bench.enter(Arc::new(map), at(1));
        let holder = Holder { node: THIRD, number: 1, key: Key(9) };
        let header = Header {
            ts: Timestamp::new(900, PEER),
            volume: VOLUME,
            avoid: ColumnSet::EMPTY,
            waits: crate::plan::Waits::NONE,
            calculators: Calculators::default(),
            task: Task::Write(Range { offset: 0, len: 2 * UNIT }),
            asker: None,
            holder: (roles == Roles::Controller).then_some(holder),
        };
        bench.hear(PEER, Body::Write { header, items: Vec::new() });
        let sum = || {
            let (part, data) = (Part::Sum { from: 1, of: 2 }, Buffer::Length(UNIT as usize));
            Body::Part { header, to: Role::Column(0), items: vec![Item { stripe: 0, part, data }] }
        };
        bench.hear(THIRD, sum());
        assert_eq!(refused(&bench), 1, "{roles}: it has the parity, and no share");
        bench.hear(PEER, sum());
        assert_eq!(refused(&bench), 1, "{roles}: that is whose it is");
        let new = Item { stripe: 0, part: Part::New, data: Buffer::Length(UNIT as usize) };
        let sender = if roles == Roles::Controller { THIRD } else { PEER };
        bench.hear(sender, Body::Part { header, to: Role::Column(0), items: vec![new] });
        let goes_on = |b: &Body| match b {
            Body::Part { items, .. } => items[0].part == Part::Sum { from: 0, of: 2 },
            _ => false,
        };
        assert_eq!((count(&bench, goes_on), refused(&bench)), (1, 1), "{roles}");
    }
}

/// The second unit is lost. This node, which has the first, solves for it with the parity that the third shows it, before or
/// after the word to read.
#[test]
fn what_is_shown_counts_only_from_the_column_that_has_it() {
    for is_early in [false, true] {
        let mut bench = Bench::new();
        bench.enter(controlled(2, true), at(1));
        bench.sent.clear();
        let ts = Timestamp::new(900, PEER);
        let read = Body::Read {
            ts,
            volume: VOLUME,
            range: Range { offset: UNIT, len: UNIT },
            avoid: ColumnSet::of(1),
            calculators: Calculators::new(&[0]).expect("one"),
            wanted: Wanted::Data,
            holder: Some(Holder { node: THIRD, number: 1, key: Key(9) }),
        };
        let show = |from: usize| Body::Show {
            ts,
            to: Role::Calculator,
            items: vec![Item {
                stripe: 0,
                part: Part::From(from),
                data: Buffer::Length(UNIT as usize),
            }],
        };
        if is_early {
            bench.hear(PEER, show(2));
        }
        bench.hear(PEER, read.clone());
        while bench.disk_works().is_some() {}
        if !is_early {
            bench.hear(PEER, show(2));
        }
        assert_eq!(refused(&bench), 1, "it has not the parity");
        let is_placed = |b: &Body| matches!(b, Body::Place { pieces, .. } if pieces.len() == 1);
        let is_answered = |b: &Body| matches!(b, Body::ReadReply { result: Ok(_), .. });
        assert_eq!(count(&bench, is_placed), 0);
        bench.hear(THIRD, show(2));
        assert_eq!((count(&bench, is_placed), count(&bench, is_answered)), (1, 1));
        // What comes twice begins nothing.
        bench.hear(PEER, read);
        bench.hear(THIRD, show(2));
        while bench.disk_works().is_some() {}
        assert_eq!((count(&bench, is_placed), bench.node.status().quiet), (1, true));
    }
}

/// So many requests in all. What is beyond is not kept; the endpoint asks for it again, and it is begun when there is room.
#[test]
fn a_controller_has_so_many_requests_in_work() {
    let mut bench = controller();
    let half = controlling::MOST_REQUESTS as u64 / 2;
    let in_work = |bench: &Bench| bench.node.controlling.in_work();
    for number in 1..=half {
        for from in [PEER, THIRD] {
            bench.hear(from, ask(number, Wish::Read(RANGE)));
        }
    }
    assert_eq!((in_work(&bench), refused(&bench)), (controlling::MOST_REQUESTS, 0));
    for from in [PEER, THIRD] {
        bench.hear(from, ask(half + 1, Wish::Read(RANGE)));
    }
    assert_eq!((in_work(&bench), refused(&bench)), (controlling::MOST_REQUESTS, 2));
    // One that is asked for twice has its place.
    bench.hear(PEER, ask(half, Wish::Read(RANGE)));
    assert_eq!(refused(&bench), 2);
    bench.enter(controlled(3, false), at(2));
    assert_eq!(in_work(&bench), 0, "in a new epoch all are asked for again");
    bench.hear(PEER, ask(half + 1, Wish::Read(RANGE)));
    assert_eq!((in_work(&bench), refused(&bench)), (1, 2));
}

/// An endpoint has so many parts in work, and so many bytes. The rest waits there until others are over.
#[test]
fn an_endpoint_is_bounded_in_parts_and_bytes() {
    let asked = |bench: &Bench| count(bench, |b| matches!(b, Body::Request(_)));
    for (limit, expected) in [(u64::MAX, endpoint::MOST_PARTS), (10 * UNIT, 10)] {
        let mut bench = Bench::with(NodeConfig { max_in_flight: limit, ..NodeConfig::default() });
        bench.enter(controlled(2, true), at(1));
        bench.sent.clear();
        let all = endpoint::MOST_PARTS as u64 + 3;
        let write = || HostOp::Write(0, Buffer::Length(UNIT as usize));
        (1..=all).for_each(|id| bench.handle(Input::Host(id, VOLUME, write())));
        assert_eq!(asked(&bench), expected);
        let (number, result) = (last_asked(&bench).number, Ok(Vec::new()));
        bench.hear(PEER, Body::Done { volume: VOLUME, number, result, counted: vec![] });
        assert_eq!((asked(&bench), bench.replies.len()), (expected + 1, 1), "its place is free");
    }
}

#[test]
fn a_controller_takes_no_bytes_but_inline_ones() {
    let mut bench = controller();
    bench.hear(PEER, ask(1, Wish::Write(RANGE, Some(Buffer::Length(UNIT as usize)))));
    assert_eq!((writes(&bench), refused(&bench)), (0, 1));
}

/// Whoever sends a lot that is not heeded does not fill the log.
#[test]
fn what_is_not_heeded_is_counted_and_logged_now_and_then() {
    let mut bench = Bench::new();
    bench.enter(controlled(2, true), at(1));
    let logged = |bench: &Bench| bench.logged.iter().filter(|l| l.contains("is ignored")).count();
    for number in 1..=100 {
        bench.hear(THIRD, ask(number, Wish::Read(RANGE)));
    }
    assert_eq!((refused(&bench), logged(&bench)), (100, 1));
    bench.now += 2_000 * MILLIS;
    bench.hear(THIRD, ask(101, Wish::Read(RANGE)));
    assert_eq!((refused(&bench), logged(&bench)), (101, 2));
    assert!(bench.logged.last().is_some_and(|l| l.contains("101 such messages")));
}

/// The word to read comes again when the attempt is over, and what stands there is another's. The endpoint, which has not got
/// the first piece, would take the second for one of the same attempt.
#[test]
fn what_is_read_for_an_endpoint_is_placed_once() {
    let mut bench = Bench::new();
    bench.enter(controlled(2, true), at(1));
    bench.sent.clear();
    let ts = Timestamp::new(900, PEER);
    let read = Body::Read {
        ts,
        volume: VOLUME,
        range: RANGE,
        avoid: ColumnSet::EMPTY,
        calculators: Calculators::default(),
        wanted: Wanted::Data,
        holder: Some(Holder { node: THIRD, number: 1, key: Key(9) }),
    };
    for _ in 0..2 {
        bench.hear(PEER, read.clone());
        while bench.disk_works().is_some() {}
        assert_eq!(count(&bench, |b| matches!(b, Body::Place { .. })), 1);
        bench.hear_with(PEER, vec![Notice::Unlock(ts)], None);
    }
}
