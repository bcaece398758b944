//! Zeroing, telling holes of and scrubbing many stripes goes by those that are in use.

use super::test_bench::{Bench, PEER, THIRD, UNIT, US, VOLUME, at, map};
use super::*;
use crate::Buffer;
use crate::cluster::{Attendance, Volume};
use crate::plan::Range;
use crate::units::ColumnSet;

/// A volume of 1 TiB, which is far more than the node's disk really has.
fn large(epoch: Epoch, attendance: Attendance) -> Arc<ClusterMap> {
    let mut map = ClusterMap::clone(&map(epoch, attendance));
    let volume = map.volumes.get_mut(&VOLUME).expect("it is there");
    Arc::<Volume>::make_mut(volume).size = 1 << 40;
    Arc::new(map)
}

/// What the node has asked others: who, when, which bytes, and what of them.
fn asked(bench: &mut Bench) -> Vec<(Timestamp, Range, Wanted)> {
    let read = |body: &Body| match body {
        Body::Read { ts, range, wanted, .. } => Some((*ts, *range, *wanted)),
        _ => None,
    };
    let all: Vec<_> = bench.sent.iter().filter_map(read).collect();
    bench.sent.clear();
    all
}

fn answer(bench: &mut Bench, ts: Timestamp, runs: [&[(u64, u64)]; 3]) {
    for (column, runs) in runs.into_iter().enumerate() {
        let piece =
            |(first, count): &(u64, u64)| (*first, Buffer::from(count.to_le_bytes().to_vec()));
        let result = Ok(runs.iter().map(piece).collect());
        bench.hear([US, PEER, THIRD][column], Body::ReadReply { ts, column, result });
    }
}

fn bench() -> Bench {
    let mut bench = Bench::new();
    bench.enter(large(2, Attendance::default()), Timestamp::ZERO);
    bench
}

const GIB: u64 = 1 << 30;

#[test]
fn what_is_not_in_use_is_zeroed_without_a_write() {
    let mut bench = bench();
    bench.handle(Input::Host(1, VOLUME, HostOp::Trim(Range { offset: 0, len: 8 * GIB })));
    let all = asked(&mut bench);
    assert_eq!(all.len(), 8 * 3, "every disk, once for a GiB");
    assert!(all.iter().all(|(.., wanted)| *wanted == Wanted::UsedBefore));
    for (ts, ..) in all.chunks(3).map(|three| three[0]) {
        answer(&mut bench, ts, [&[], &[], &[]]);
    }
    assert!(matches!(bench.replies[..], [(1, Ok(HostData::Done))]));
    assert!(!bench.has_sent(|b| matches!(b, Body::Write { .. })) && bench.disk.is_empty());
}

#[test]
fn a_very_long_request_asks_a_few_questions_at_a_time_and_delays_no_others() {
    let mut bench = bench();
    bench.handle(Input::Host(1, VOLUME, HostOp::Trim(Range { offset: 0, len: 1 << 40 })));
    let mut all = asked(&mut bench);
    bench.handle(Input::Host(2, VOLUME, HostOp::Read(Range { offset: 0, len: UNIT })));
    assert_eq!(asked(&mut bench).len(), 1, "the read does not wait");
    let (mut bytes, mut questions) = (0, 0);
    while !all.is_empty() {
        assert!(all.len() <= 16 * 3, "{}", all.len());
        for (ts, range, _) in all.chunks(3).map(|three| three[0]) {
            (bytes, questions) = (bytes + range.len, questions + 1);
            answer(&mut bench, ts, [&[], &[], &[]]);
        }
        all = asked(&mut bench);
    }
    assert_eq!((bytes, questions), (1 << 40, 1 << 10), "every GiB once");
    assert!(matches!(bench.replies[..], [(1, Ok(HostData::Done))]));
}

#[test]
fn what_is_in_use_on_any_disk_is_zeroed_and_nothing_else() {
    let mut bench = bench();
    let stripe = 2 * UNIT;
    bench.handle(Input::Host(
        1,
        VOLUME,
        HostOp::WriteZeroes(Range { offset: stripe, len: GIB / 2 }),
    ));
    let (ts, range, _) = asked(&mut bench)[0];
    assert_eq!(range, Range { offset: stripe, len: GIB / 2 });
    // Stripes 5 and 6, and 9 to 11: data here, data there, parity.
    answer(&mut bench, ts, [&[(5, 1)], &[(6, 1), (9, 1)], &[(9, 3)]]);
    let written = |b: &Body| match b {
        Body::Write { header: Header { task: Task::Write(range), .. }, .. } => Some(*range),
        _ => None,
    };
    let mut ranges: Vec<Range> = Vec::new();
    for range in bench.sent.iter().filter_map(written) {
        match ranges.last_mut() {
            Some(last) if last.end() >= range.end() => {}
            Some(last) if last.end() == range.offset => last.len += range.len,
            _ => ranges.push(range),
        }
    }
    let stripes = |first, count| Range { offset: first * stripe, len: count * stripe };
    assert_eq!(ranges, [stripes(5, 2), stripes(9, 3)]);
    assert!(bench.replies.is_empty(), "they have yet to be zeroed");
}

#[test]
fn holes_are_told_of_by_runs() {
    let mut bench = bench();
    bench.handle(Input::Host(1, VOLUME, HostOp::Holes(Range { offset: 0, len: 2 * GIB })));
    let all = asked(&mut bench);
    let stripe = 2 * UNIT;
    answer(&mut bench, all[0].0, [&[(7, 1)], &[], &[]]);
    answer(&mut bench, all[3].0, [&[], &[], &[]]);
    let (ts, range, wanted) = asked(&mut bench)[0];
    assert_eq!((range, wanted), (Range { offset: 7 * stripe, len: stripe }, Wanted::Holes));
    // The parity of stripe 7 is at the second column.
    for column in [0, 2] {
        let result = Ok(vec![(7, Buffer::from(vec![u8::from(column == 0)]))]);
        bench.hear([US, PEER, THIRD][column], Body::ReadReply { ts, column, result });
    }
    let Some((1, Ok(HostData::Extents(found)))) = bench.replies.pop() else { panic!() };
    let holes: u64 = found.iter().filter(|(_, hole)| *hole).map(|(len, _)| len).sum();
    assert_eq!((holes, found.len()), (2 * GIB - UNIT, 3), "{found:?}");
}

/// A column that is away, or behind, may have had what the others have not.
#[test]
fn where_a_disk_is_away_nobody_is_asked_what_is_in_use() {
    let mut bench = Bench::new();
    let away = Attendance { away: [PEER].into(), ..Attendance::default() };
    bench.enter(large(2, away), Timestamp::ZERO);
    bench.handle(Input::Host(1, VOLUME, HostOp::Trim(Range { offset: 0, len: 4 * UNIT })));
    assert!(bench.has_sent(|b| matches!(b, Body::Write { .. })));
    assert!(asked(&mut bench).is_empty());
}

#[test]
fn a_scrub_passes_over_what_was_never_written() {
    let mut bench = bench();
    let stripes = (1 << 40) / (2 * UNIT);
    bench.handle(Input::Host(1, VOLUME, HostOp::SCRUB));
    let (mut verified, mut rounds) = (Vec::new(), 0);
    while bench.replies.is_empty() {
        rounds += 1;
        assert!(rounds < 2000, "it goes on and on");
        for (ts, range, wanted) in asked(&mut bench).chunks(3).map(|three| three[0]) {
            if wanted == Wanted::Stripes {
                verified.push(range.offset / (2 * UNIT));
                let data = || Buffer::Zero(UNIT as usize);
                let versions = || Buffer::Zero(8);
                for column in 0..3 {
                    let stripe = range.offset / (2 * UNIT);
                    let result = Ok(vec![(stripe, data()), (stripe, versions())]);
                    bench.hear([US, PEER, THIRD][column], Body::ReadReply { ts, column, result });
                }
                continue;
            }
            assert_eq!(wanted, Wanted::Placed);
            let runs: &[(u64, u64)] = if range.offset == 0 { &[(77, 2)] } else { &[] };
            answer(&mut bench, ts, [&[], runs, &[]]);
        }
        bench.now += MILLIS;
        bench.handle(Input::Timer(Timer::Tick));
    }
    let Some((1, Ok(HostData::Scrubbed(progress, _)))) = bench.replies.pop() else { panic!() };
    assert_eq!(verified, [77, 78]);
    assert_eq!((progress.verified, progress.skipped, progress.unclear), (stripes, 0, 0));
}

/// Else what was found to be zeros when a later write was known already could be overwritten by an earlier one.
#[test]
fn no_earlier_write_comes_to_what_was_found_not_to_be_in_use() {
    let mut bench = Bench::new();
    let ask = |bench: &mut Bench, ts, wanted| {
        let body = Body::Read {
            ts,
            volume: VOLUME,
            range: Range { offset: 0, len: 8 * UNIT },
            avoid: ColumnSet::EMPTY,
            calculators: crate::plan::Calculators::default(),
            wanted,
            holder: None,
        };
        bench.hear(PEER, body);
        while bench.disk_works().is_some() {}
    };
    let late = |b: &Body| matches!(b, Body::Vote { vote: Err(Refusal::Late(_)), .. });
    ask(&mut bench, at(500), Wanted::Used);
    bench.begin_write(at(400));
    while bench.disk_works().is_some() {}
    assert!(!bench.has_sent(late), "who only looks stands in nobody's way");
    ask(&mut bench, at(600), Wanted::UsedBefore);
    bench.begin_write_of(at(550), 3, Range { offset: 6 * UNIT + UNIT / 2, len: UNIT });
    assert!(bench.has_sent(late), "{:?}", bench.sent);
}
