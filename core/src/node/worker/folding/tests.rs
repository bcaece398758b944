//! When folds are asked for.

use super::*;
use crate::node::copies_tests::{OF_THIRD_STRIPE, with_a_copy};
use crate::node::{Input, Timer};

const KEPT: Kept = Kept { unit: 0, volume: VolumeId(1) };

/// A copy, and the fold of its write, of this many bytes.
fn fold(len: u64) -> (Copy, FoldOf) {
    let ts = Timestamp::new(5, NodeId(0));
    let range = Bytes { offset: 0, len };
    let fold = FoldOf { range, data: Buffer::Zero(len as usize), of: ts, kept: KEPT };
    (Copy { sector: 70, ts, kept: KEPT }, fold)
}

/// What the originator reports of some bytes of it.
fn end(range: Range<u64>, result: Result<Folded, HostError>) -> FoldEnd {
    let (copy, _) = fold(0);
    let range = Bytes { offset: range.start, len: range.end - range.start };
    FoldEnd { range, of: copy.ts, kept: KEPT, result }
}

/// Each that was asked for again beside the first kept the others from happening, where a fold took long.
#[test]
fn a_fold_in_progress_is_not_asked_for_again() {
    let (copy, fold) = fold(2 * SECTOR);
    let mut folding = Folding::default();
    folding.ask(copy, fold, 0);
    folding.enter(BTreeSet::new());
    for now in [0, ASKED_FOR, 100 * ASKED_FOR] {
        folding.forget_failed(now);
        assert!(folding.asked.contains_key(&copy), "{now}");
    }
    assert_eq!((folding.in_progress(0), folding.in_progress(ASKED_FOR)), (1, 0));
    folding.ended(end(SECTOR..2 * SECTOR, Ok(Folded::InPlace)), ASKED_FOR);
    assert!(folding.asked.contains_key(&copy), "a part of it goes on");
    folding.ended(end(0..SECTOR, Ok(Folded::InPlace)), ASKED_FOR);
    assert!(folding.asked.is_empty());
}

#[test]
fn a_fold_that_failed_is_asked_for_again_later() {
    let (copy, fold) = fold(SECTOR);
    let mut folding = Folding::default();
    folding.ask(copy, fold, 0);
    folding.ended(end(0..SECTOR, Err(HostError::TooManyLost)), ASKED_FOR);
    folding.forget_failed(2 * ASKED_FOR - 1);
    assert!(folding.asked.contains_key(&copy));
    folding.forget_failed(2 * ASKED_FOR);
    assert!(folding.asked.is_empty());
}

/// A fold whose copies were gone began the pauses for a full disk again, though it had found no space.
#[test]
fn a_fold_without_copies_does_not_end_the_wait_for_space() {
    let mut folding = Folding::default();
    let full = |folding: &mut Folding, now| {
        folding.ended(end(0..SECTOR, Err(HostError::NoSpace)), now);
        folding.full.map(|(until, _)| until - now)
    };
    assert_eq!(full(&mut folding, 0), Some(FULL_PAUSE));
    folding.ended(end(0..SECTOR, Ok(Folded::Gone)), FULL_PAUSE);
    assert_eq!(full(&mut folding, FULL_PAUSE), Some(2 * FULL_PAUSE));
    folding.ended(end(0..SECTOR, Ok(Folded::InPlace)), 3 * FULL_PAUSE);
    assert_eq!(full(&mut folding, 3 * FULL_PAUSE), Some(FULL_PAUSE), "there was space");
}

/// It is no sum of pauses, and a new epoch does not end it.
#[test]
fn under_steady_load_no_copies_are_taken_until_hosts_pause() {
    let redundancy = Redundancy { idle: 100 * MILLIS, ..Redundancy::default() };
    let mut folding = Folding::default();
    assert!(!folding.rests(&redundancy), "there was room in the journal");
    assert_eq!(folding.pause(&redundancy), 100 * MILLIS);
    folding.is_pressed();
    for _ in 0..20 {
        folding.paused(10 * MILLIS - 1);
        assert!(folding.rests(&redundancy));
    }
    assert_eq!(folding.pause(&redundancy), 10 * MILLIS);
    folding.enter(BTreeSet::new());
    assert!(folding.rests(&redundancy));
    folding.paused(10 * MILLIS);
    folding.paused(0);
    assert!(!folding.rests(&redundancy), "the longest pause counts");
    assert!(folding.rests(&Redundancy { idle: 1_000 * MILLIS, ..redundancy }));
    assert_eq!(folding.pause(&redundancy), 10 * MILLIS, "the load goes on");
    folding.paused(100 * MILLIS);
    assert_eq!(folding.pause(&redundancy), 100 * MILLIS, "it was over");
    folding.is_pressed();
    assert!(folding.rests(&redundancy), "only pauses since then count");
}

/// All later copies there were folded at once: a sector was wanted until the disk had no copies at all.
#[test]
fn what_has_no_copy_any_more_is_not_wanted() {
    let mut bench = with_a_copy(OF_THIRD_STRIPE);
    let there = bench.node.worker.store.copies_after(None, 1)[0];
    let gone = Copy { sector: there.sector + 8, ..there };
    bench.node.worker.folding.want(&[there, gone]);
    bench.handle(Input::Timer(Timer::Refresh));
    assert_eq!(bench.node.worker.folding.wanted, [there.sector].into());
}
