//! Locks that a disk serves for its own sectors, when messages about them are late, repeated or lost.

use super::test_bench::{Bench, PEER, THIRD, UNIT, VOLUME, at, map};
use super::*;
use crate::Buffer;
use crate::cluster::Attendance;
use crate::plan::{Calculators, Range};
use crate::policy::{Ordering, Preference};
use crate::units::ColumnSet;

fn locking() -> Bench {
    let mut map = ClusterMap::clone(&map(2, Attendance::default()));
    let policy = &mut Arc::make_mut(map.volumes.get_mut(&VOLUME).unwrap()).policy;
    (policy.ordering, policy.strategy) = (Ordering::DeviceLocks, Some(Preference::Large));
    let mut bench = Bench::new();
    bench.enter(Arc::new(map), at(50));
    bench
}

/// The peer reads the first unit, which is on this disk.
fn read(bench: &mut Bench, ts: Timestamp) {
    let range = Range { offset: 0, len: UNIT };
    let body = Body::Read {
        ts,
        volume: VOLUME,
        range,
        avoid: ColumnSet::EMPTY,
        calculators: Calculators::default(),
        wanted: Wanted::Data,
        holder: None,
    };
    bench.hear(PEER, body);
    while bench.disk_works().is_some() {}
}

/// The peer writes there; returns the vote.
fn write(bench: &mut Bench, ts: Timestamp) -> Option<Result<(), Refusal>> {
    bench.begin_write_of(ts, 0, Range { offset: 0, len: UNIT });
    while bench.disk_works().is_some() {}
    vote(bench, ts)
}

fn vote(bench: &Bench, of: Timestamp) -> Option<Result<(), Refusal>> {
    bench.sent.iter().find_map(|body| match body {
        Body::Vote { ts, vote, .. } if *ts == of => Some(vote.clone()),
        _ => None,
    })
}

/// The disk has waited too long for a lock.
fn waits_too_long(bench: &mut Bench) {
    bench.now += bench.node.config.lock_timeout;
    bench.handle(Input::Timer(Timer::Locks));
}

fn end(bench: &mut Bench, ts: Timestamp) {
    bench.hear_with(PEER, vec![Notice::Unlock(ts)], None);
}

#[test]
fn a_read_that_has_ended_takes_no_lock_when_its_message_comes_again() {
    let mut bench = locking();
    read(&mut bench, at(100));
    assert_eq!(write(&mut bench, at(200)), None, "the reader has the lock");
    end(&mut bench, at(100));
    while bench.disk_works().is_some() {}
    assert_eq!(vote(&bench, at(200)), Some(Ok(())));
    bench.hear_with(PEER, vec![Notice::Abort(at(200))], None);
    read(&mut bench, at(100));
    assert_eq!(write(&mut bench, at(300)), Some(Ok(())), "nobody reads any more");
}

#[test]
fn a_write_that_only_reads_here_takes_no_lock_after_it_has_ended() {
    let mut bench = locking();
    let second_unit = Range { offset: UNIT, len: UNIT };
    let is_in_work = |bench: &Bench| bench.node.writes().count() > 0;
    // It ends before it has read, and after that.
    for (ts, has_read) in [(at(100), false), (at(200), true)] {
        bench.begin_write_of(ts, 0, second_unit);
        assert!(is_in_work(&bench));
        while has_read && bench.disk_works().is_some() {}
        end(&mut bench, ts);
        assert!(!is_in_work(&bench), "{ts}");
        bench.begin_write_of(ts, 0, second_unit);
        while bench.disk_works().is_some() {}
        let next = Timestamp::new(ts.micros() + 50, PEER);
        assert_eq!(write(&mut bench, next), Some(Ok(())), "{ts}");
        bench.hear_with(PEER, vec![Notice::Abort(next)], None);
    }
}

#[test]
fn a_write_that_takes_part_here_is_not_ended_by_the_end_of_a_read() {
    let mut bench = locking();
    bench.begin_write_of(at(100), 0, Range { offset: 0, len: UNIT });
    end(&mut bench, at(100));
    while bench.disk_works().is_some() {}
    assert_eq!(vote(&bench, at(100)), Some(Ok(())), "it has begun");
    end(&mut bench, at(100));
    assert_eq!(bench.node.writes().count(), 1);
    assert_eq!(write(&mut bench, at(200)), None, "the first keeps its lock until it is decided");
}

#[test]
fn a_disk_asks_for_a_lock_whose_return_was_lost() {
    let mut bench = locking();
    read(&mut bench, at(100));
    assert_eq!(write(&mut bench, at(200)), None);
    let asked = |bench: &Bench| bench.notices.contains(&(PEER, Notice::Awaited(at(100))));
    assert!(!asked(&bench), "mostly it comes by itself");
    waits_too_long(&mut bench);
    assert_eq!(vote(&bench, at(200)), Some(Err(Refusal::Busy)));
    assert!(asked(&bench));
    end(&mut bench, at(100));
    assert_eq!(write(&mut bench, at(300)), Some(Ok(())));
}

#[test]
fn who_is_asked_for_a_lock_of_what_has_ended_gives_it_back() {
    let mut bench = locking();
    let range = Range { offset: UNIT, len: UNIT };
    bench.handle(Input::Host(1, VOLUME, HostOp::Read(range)));
    let begun = |b: &Body| if let Body::Read { ts, .. } = b { Some(*ts) } else { None };
    let ts = bench.sent.iter().find_map(begun).expect("the peer is asked");
    let unlocked = |b: &Bench| b.notices.contains(&(PEER, Notice::Unlock(ts)));
    let ask = |b: &mut Bench| {
        b.notices.clear();
        b.hear_with(PEER, vec![Notice::Awaited(ts)], None);
    };
    ask(&mut bench);
    assert!(!unlocked(&bench), "it still reads");
    let result = Ok(vec![(0, Buffer::Length(UNIT as usize))]);
    bench.hear(PEER, Body::ReadReply { ts, column: 1, result });
    assert!(matches!(bench.replies[..], [(1, Ok(_))]));
    assert!(unlocked(&bench), "it tells so at once");
    ask(&mut bench);
    assert!(unlocked(&bench), "that was lost");
    let others = bench.notices.iter().any(|(to, _)| *to == THIRD);
    assert!(!others, "who has not asked hears nothing");
}

/// A reader's clock is fast: this disk would remember what comes after it.
const READER: u64 = 60_000_000;

/// One that only reads here, for a host or for parity, loses its lock. Its messages to other disks may still be under way:
/// they know by their times what came after that.
#[test]
fn a_lock_that_is_taken_back_goes_to_later_writes_only() {
    for writes in [false, true] {
        let mut bench = locking();
        let (reader, lease) = (at(READER), bench.node.config.lease);
        match writes {
            true => bench.begin_write_of(reader, 0, Range { offset: UNIT, len: UNIT }),
            false => read(&mut bench, reader),
        }
        while bench.disk_works().is_some() {}
        let soon = reader.later(lease / 4);
        assert_eq!(write(&mut bench, soon), None, "it has its lock");
        bench.now += lease;
        bench.handle(Input::Timer(Timer::Tick));
        while bench.disk_works().is_some() {}
        let horizon = reader.later(lease / 2);
        assert_eq!(vote(&bench, soon), Some(Err(Refusal::Late(horizon))), "{writes}");
        assert_eq!(write(&mut bench, reader.later(lease)), Some(Ok(())));
    }
}

/// Its message is late. Another disk may have taken back its lock and shown it earlier content.
#[test]
fn a_late_read_does_not_see_what_may_have_got_its_lock_elsewhere() {
    let lease = NodeConfig::default().lease;
    for (by, shows) in [(lease / 4, true), (lease / 2, false)] {
        let mut bench = locking();
        let (reader, writer) = (at(READER), at(READER).later(by));
        assert_eq!(write(&mut bench, writer), Some(Ok(())));
        bench.hear_with(PEER, vec![Notice::Commit(writer)], None);
        read(&mut bench, reader);
        let reply = bench.sent.iter().find_map(|body| match body {
            Body::ReadReply { ts, result, .. } if *ts == reader => Some(result.as_ref()),
            _ => None,
        });
        let expected = if shows { None } else { Some(&Refusal::Late(writer)) };
        assert_eq!(reply.expect("it is answered").err(), expected);
    }
}
