use super::*;
use crate::units::{MILLIS, NodeId};

const VOLUME: VolumeId = VolumeId(7);

fn unit(sector: u64) -> Option<Unit> {
    (sector < 8).then_some(Unit {
        volume: VOLUME,
        area: None,
        stripe: 3,
        sectors: 0..8,
        covers: Some(4),
    })
}

fn so_far(exposure: &Exposure, now: Nanos) -> Exposed {
    let all: Vec<_> = exposure.all(now * MILLIS).collect();
    assert_eq!(all.len(), 1);
    all[0].1
}

#[test]
fn what_was_measured_in_earlier_lives_counts_with_what_comes() {
    let ts = Timestamp::new(1, NodeId(0));
    let mut first = Exposure::default();
    first.keep([(VOLUME, Area::Whole)].into_iter(), 1_000 * MILLIS);
    first.found(vec![(0, ts), (1, ts)], 1_500 * MILLIS, unit);
    let before = so_far(&first, 2_000);
    assert_eq!((before.watched, before.unprotected), (1_000 * MILLIS, 500 * MILLIS));
    assert_eq!((before.mean_bytes(), before.most_bytes), (4 * SECTOR, 8 * SECTOR));

    // The next life finds one mark on the disk, at another time of another clock.
    let mut second = Exposure::default();
    second.measured_before([((VOLUME, Area::Whole), before), ((VolumeId(8), Area::Whole), before)]);
    second.keep([(VOLUME, Area::Whole)].into_iter(), 100 * MILLIS);
    second.found(vec![(0, ts)], 100 * MILLIS, unit);
    let after = so_far(&second, 1_100);
    assert_eq!((after.stripes, after.bytes), (1, 4 * SECTOR), "what is on the disk, and no more");
    assert_eq!((after.watched, after.unprotected), (2_000 * MILLIS, 1_500 * MILLIS));
    assert_eq!((after.mean_bytes(), after.most_bytes), (4 * SECTOR, 8 * SECTOR));
    assert_eq!(second.of(VOLUME).unwrap().watched_now(1_100 * MILLIS), 1_000 * MILLIS);

    // It counts once, however often the map changes.
    second.keep([(VOLUME, Area::Whole)].into_iter(), 1_200 * MILLIS);
    assert_eq!(so_far(&second, 1_200).watched, 2_100 * MILLIS);
    second.keep([].into_iter(), 1_300 * MILLIS);
    second.keep([(VOLUME, Area::Whole)].into_iter(), 1_300 * MILLIS);
    assert_eq!(so_far(&second, 1_300).watched, 0, "the column came anew");
}

#[test]
fn only_content_that_is_later_than_a_mark_clears_it() {
    let at = |n| Timestamp::new(n, NodeId(0));
    let mut exposure = Exposure::default();
    exposure.found(vec![(2, at(9))], 0, unit);
    for (ts, is_marked) in [(5, true), (10, false)] {
        let changed = Changed { sectors: 0..8, kind: ChangeKind::Content };
        exposure.changed(at(ts), &changed, 0, unit);
        assert_eq!(exposure.has(&(0..8)), is_marked, "content of {ts}");
    }
}

#[test]
fn a_range_counts_on_unless_it_was_none_meanwhile() {
    let measured = Exposed { most_bytes: 4096, watched: 100, ..Exposed::default() };
    let (whole, range) = ((VOLUME, Area::Whole), (VOLUME, Area::Range(3)));
    let watched = |kept: &[&[Counted]]| {
        let mut exposure = Exposure::default();
        exposure.measured_before([(whole, measured), (range, measured)]);
        kept.iter().for_each(|all| exposure.keep(all.iter().copied(), 10));
        exposure.all(15).map(|(counted, e)| (counted, e.watched)).collect::<Vec<_>>()
    };
    assert_eq!(watched(&[&[], &[whole, range]]), [(whole, 105), (range, 105)]);
    assert_eq!(watched(&[&[whole], &[whole, range]]), [(whole, 105), (range, 5)]);
}

#[test]
fn a_mark_that_was_replaced_during_the_search_is_gone() {
    let at = |n| Timestamp::new(n, NodeId(0));
    let mut exposure = Exposure::default();
    exposure.replaced(at(10), &(1..3));
    exposure.replaced(at(8), &(2..4));
    exposure.found([1, 2, 3, 4].map(|s| (s, at(9))).to_vec(), 0, unit);
    let marked: Vec<u64> = exposure.marked_since(0..8).map(|(sector, _)| sector).collect();
    assert_eq!(marked, [3, 4], "content of 10 replaced 1 and 2, 3 was marked after it came");
    exposure.found(vec![(1, at(9))], 0, unit);
    assert!(exposure.has(&(1..2)), "a later search begins again");
}

#[test]
fn a_sector_that_is_dropped_has_no_mark_left() {
    let at = |n| Timestamp::new(n, NodeId(0));
    let mut exposure = Exposure::default();
    exposure.keep([(VOLUME, Area::Whole)].into_iter(), 0);
    exposure.found([1, 2, 9].map(|s| (s, at(9))).to_vec(), 0, unit);
    exposure.give_up(&unit(1).unwrap(), 1..2);
    exposure.dropped(&[0..2, 9..10], 0, unit);
    let marked: Vec<u64> = exposure.marked_since(0..16).map(|(sector, _)| sector).collect();
    assert_eq!(marked, [2]);
    assert_eq!(exposure.now(VOLUME), (1, 4 * SECTOR));
    assert_eq!(exposure.unrecoverable_in(0..8), 0);
    exposure.check_sums();
}

#[test]
fn content_that_is_not_in_place_counts_as_marked_after_a_search() {
    let at = |n| Timestamp::new(n, NodeId(0));
    let content = |sectors| Changed { sectors, kind: ChangeKind::Content };
    let mut exposure = Exposure::default();
    exposure.unplaced.insert(at(5), vec![content(2..4), content(20..21)]);
    // The search has found no mark there: it has seen the content.
    exposure.found(vec![(6, at(1))], 0, unit);
    let marked = |e: &Exposure| e.marked_since(0..99).map(|(sector, _)| sector).collect::<Vec<_>>();
    assert_eq!(marked(&exposure), [2, 3, 6], "sector 20 is no parity");
    assert!(exposure.lacks_content(6) && !exposure.lacks_content(2) && !exposure.lacks_content(7));
    exposure.changed(at(5), &content(2..4), 0, unit);
    assert_eq!(marked(&exposure), [6]);
}
