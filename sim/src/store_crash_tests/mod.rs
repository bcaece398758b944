//! One disk with slots, and a script of everything that can happen to it: small writes, whole slots, deltas, discards,
//! marks, aborts, checkpoints, a full disk. It crashes at every operation of the disk, with writes lost, done in part, or torn;
//! and at every operation of the opening after that. What was acknowledged must be there, what was undecided is there whole or not at
//! all, and what the store holds must fit together after each step.
//!
//! - [`script`]: what happens
//! - [`bench`]: where it happens
//! - [`course`]: how one run of a script serves many crashes
//! - [`views`]: how snapshots are taken and merged

mod bench;
mod copies;
mod course;
mod script;
mod views;

use weft_core::store::ChangeKind::{Content, Delta};
use weft_core::store::{Store, StoreBug};
use weft_core::units::{SECTOR, SPACE_SECTORS};

use bench::{Bench, Crash, Order, divided};
use copies::{COPY, FOLD};
use course::{Stage, play};
use script::Act::{self, *};
use script::{
    SLOT, adding, carrying, crowding, discarding, filling, given_back, pinned, prepared_again,
    script, short_of_slots,
};

/// The first sector of a thin volume.
const THIN: u64 = 3 * SPACE_SECTORS;

/// Says where it was when something fails.
struct Where(String);

impl Drop for Where {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.0);
        }
    }
}

const ORDERS: [Order; 3] = [Order::First, Order::Last, Order::Any];
const CRASHES: [Crash; 3] = [Crash::ProcessDies, Crash::PowerCut, Crash::Torn];

/// Runs a script up to an operation, crashes, and looks at what is there. Says whether it came to the end.
fn cut_off(acts: &[Act], order: Order, (at, crash): (usize, Crash), bug: Option<StoreBug>) -> bool {
    let mut bench = Bench::new(at as u64, order, bug);
    bench.left = Some(at);
    look_after(bench, acts, crash)
}

/// Runs the rest of a script up to where the bench is cut off, crashes, and looks.
fn look_after(mut bench: Bench, acts: &[Act], crash: Crash) -> bool {
    let ended = bench.run(acts);
    bench.left = None;
    if !ended {
        bench.crash(crash);
    }
    bench.check();
    ended
}

/// Crashes at every operation of a script, in each of these ways. Says how often.
fn at_every_operation(acts: &[Act], orders: &[Order], crashes: &[Crash]) -> usize {
    at_every_operation_of(0, acts, orders, crashes)
}

/// The same with a volume whose first sector has this number.
fn at_every_operation_of(base: u64, acts: &[Act], orders: &[Order], crashes: &[Crash]) -> usize {
    let start = |seed, order| Bench::of(base, seed, order, None);
    orders.iter().map(|order| crashes_of(acts, *order, start, |_| crashes.to_vec())).sum()
}

/// The same on a bench of one's own, in the ways that are chosen for an operation.
fn crashes_of(
    acts: &[Act],
    order: Order,
    start: impl Fn(u64, Order) -> Bench,
    ways: impl Fn(usize) -> Vec<Crash>,
) -> usize {
    let mut count = 0;
    play(acts, order, start, |stage| {
        for at in stage.operations() {
            let crash = |crash: Crash| {
                let _where = Where(format!("{order:?}, {crash:?} at operation {at}"));
                let (bench, acts) = stage.cut_off_at(at, at);
                look_after(bench, acts, crash)
            };
            let ended: Vec<bool> = ways(at).into_iter().map(crash).collect();
            if ended.contains(&true) {
                break;
            }
            count += ended.len();
        }
    });
    count
}

#[test]
fn what_is_acknowledged_is_there_after_a_crash_at_any_operation() {
    let crashes = at_every_operation(&script(), &ORDERS, &CRASHES);
    assert!(crashes > 800, "{crashes}");
}

#[test]
fn copies_are_there_until_they_are_folded_with_a_crash_at_any_operation() {
    for (base, orders) in [(0, &ORDERS[..]), (THIN, &[Order::Any])] {
        let crashes = at_every_operation_of(base, &script::copied(), orders, &CRASHES);
        assert!(crashes > 200, "{crashes}");
    }
}

#[test]
fn copies_that_are_dropped_early_or_in_the_wrong_order_are_found() {
    for bug in [StoreBug::DropsCopiesEarly, StoreBug::LastCopyCounts] {
        let run =
            || cut_off(&script::copied(), Order::First, (usize::MAX, Crash::PowerCut), Some(bug));
        assert!(std::panic::catch_unwind(run).is_err(), "{bug:?}");
    }
}

#[test]
fn what_is_carried_is_there_with_a_crash_at_any_operation() {
    for (base, order) in [(0, Order::Any), (THIN, Order::Last)] {
        let crashes = at_every_operation_of(base, &carrying(), &[order], &CRASHES);
        assert!(crashes > 1000, "{crashes}");
    }
    let mut bench = Bench::new(1, Order::First, None);
    assert!(bench.run(&carrying()));
    let carried = Store::counters(&bench.store).carried;
    assert!(carried > 20, "each of them several times: {carried}");
}

/// A copy comes to a later frame than the write that will replace it, whose record goes first.
#[test]
fn a_carried_copy_does_not_come_back_with_a_crash_at_any_operation() {
    for order in ORDERS {
        let crashes = at_every_operation(&script::carrying_folded(), &[order], &CRASHES[..2]);
        assert!(crashes > 300, "{crashes}");
    }
    let mut bench = Bench::new(1, Order::First, None);
    assert!(bench.run(&script::carrying_folded()));
    assert!(Store::counters(&bench.store).carried > 3);
}

#[test]
fn a_journal_that_carries_nothing_or_forgets_what_was_overtaken_is_found() {
    let ends = (usize::MAX, Crash::PowerCut);
    let run = || cut_off(&carrying(), Order::First, ends, Some(StoreBug::CarriesNothing));
    assert!(std::panic::catch_unwind(run).is_err());
    // Nothing is carried at the beginning.
    let is_found = |at: usize| {
        let crash = (at, Crash::PowerCut);
        let run = || cut_off(&carrying(), Order::First, crash, Some(StoreBug::ForgetsOvertaken));
        std::panic::catch_unwind(run).is_err()
    };
    assert!((100..600).any(is_found));
}

/// A copy is forgotten that others have replaced. While the journal has it, it may be found again.
#[test]
fn a_forgotten_copy_is_expected_as_long_as_the_journal_has_it() {
    let mut bench = Bench::new(1, Order::First, None);
    let copied = [Write(1, 1, COPY, 3), Commit, Release, Rest, Release];
    let placed = [Write(0, 8, Content, 1), Commit, Checkpoint, Rest, Release];
    let forget = |bench: &mut Bench| {
        for copy in bench.store.copies_after(None, usize::MAX) {
            bench.store.drop_copy(copy);
        }
        bench.copies.clear();
    };
    assert!(bench.run(&placed) && bench.run(&copied));
    forget(&mut bench);
    assert!(bench.store.may_have_copies(), "a crash brings it back");
    bench.crash(Crash::PowerCut);
    assert!(bench.rest());
    assert_eq!(bench.store.copies_after(None, 2).len(), 1);
    forget(&mut bench);
    // A later write replaces it.
    assert!(bench.run(&[Write(1, 1, FOLD, 4), Commit, Release, Rest, Release]));
    bench.crash(Crash::PowerCut);
    assert!(bench.rest());
    bench.compare();
    for byte in 5..7 {
        assert!(bench.run(&[Write(2, 1, Content, byte), Commit, Checkpoint, Rest, Release]));
    }
    assert!(!bench.store.may_have_copies(), "nothing of it is left");
}

#[test]
fn a_thin_volume_is_as_safe() {
    for acts in [script(), pinned(true), prepared_again(), filling()] {
        let orders = [Order::Any];
        let crashes = at_every_operation_of(THIN, &acts, &orders, &CRASHES);
        assert!(crashes > 100, "{crashes}");
    }
}

#[test]
fn what_is_given_back_or_cut_off_is_gone_and_nothing_else_with_a_crash_at_any_operation() {
    for acts in [given_back(), script::cut_off()] {
        let crashes = at_every_operation_of(THIN, &acts, &ORDERS, &CRASHES);
        assert!(crashes > 300, "{crashes}");
    }
    // What belongs to no volume is dropped in any address space.
    let crashes = at_every_operation(&script::cut_off(), &[Order::Any], &CRASHES);
    assert!(crashes > 100, "{crashes}");
}

#[test]
fn snapshots_are_taken_and_merged_with_a_crash_at_any_operation() {
    for (base, orders) in [(0, &ORDERS[..]), (THIN, &[Order::Any])] {
        let crashes = at_every_operation_of(base, &script::snapshots(), orders, &CRASHES);
        assert!(crashes > 500, "{crashes}");
    }
}

#[test]
fn a_volume_becomes_independent_of_its_snapshots_with_a_crash_at_any_operation() {
    for merges in [false, true] {
        let acts = script::flattening(merges);
        for (base, orders) in [(0, &ORDERS[..]), (THIN, &[Order::Any])] {
            let crashes = at_every_operation_of(base, &acts, orders, &CRASHES);
            assert!(crashes > 300, "{crashes}");
        }
        let mut bench = Bench::of(THIN, 1, Order::First, None);
        assert!(bench.run(&acts));
        bench.come_to_an_end();
        let slots = Store::slots(&bench.store).expect("it is open");
        assert_eq!(slots.placed, 7, "zeros are not copied");
        bench.compare();
    }
}

/// The same while the journal cannot forget: all of it is replayed.
#[test]
fn snapshots_are_merged_and_copied_while_the_journal_cannot_forget_with_a_crash_at_any_operation() {
    let scripts = [script::snapshots(), script::flattening(true), given_back(), script::cut_off()];
    for acts in scripts {
        // Each operation in one of the orders.
        let of_turn = |(turn, order): (usize, Order)| {
            let ways = |at: usize| match at / 3 % 3 == turn {
                true => vec![CRASHES[at % 3]],
                false => Vec::new(),
            };
            let start = |seed, order| Bench::pinned(THIN, seed, order);
            crashes_of(&acts, order, start, ways)
        };
        let crashes: usize = ORDERS.into_iter().enumerate().map(of_turn).sum();
        assert!(crashes > 50, "{crashes}");
    }
}

/// All slots were promised, and some of them are not any more. As many are free as before.
#[test]
fn a_volume_gets_its_copy_when_slots_are_not_promised_any_more() {
    let mut bench = Bench::of(THIN, 1, Order::First, None);
    assert!(bench.run(&[Write(0, 4 * SLOT, Content, 1), Commit, Checkpoint, Rest, Release]));
    let promised = Write(4 * SLOT, 20 * SLOT, Delta, 0);
    assert!(bench.run(&[Snapshot, promised, Flatten, Checkpoint, Rest, Checkpoint, Rest]));
    assert!(bench.store.flattens_without_space());
    assert!(bench.run(&[Abort, Flattened]));
    bench.compare();
}

#[test]
fn a_copy_that_leaves_something_out_is_found() {
    let run = || {
        cut_off(
            &script::flattening(false),
            Order::First,
            (999_999, Crash::PowerCut),
            Some(StoreBug::CopiesSome),
        )
    };
    assert!(std::panic::catch_unwind(run).is_err());
}

/// When a snapshot is merged, only slots with visible content are left.
#[test]
fn a_merged_snapshot_keeps_no_slot() {
    let mut bench = Bench::of(THIN, 1, Order::First, None);
    assert!(bench.run(&script::snapshots()));
    bench.come_to_an_end();
    let slots = Store::slots(&bench.store).expect("it is open");
    assert_eq!((slots.placed, slots.thin), (7, 7), "six slots of the first write, and one more");
    bench.compare();
}

#[test]
fn slots_come_back_when_all_of_them_is_discarded() {
    let mut bench = Bench::of(THIN, 1, Order::First, None);
    let thin = |bench: &Bench| Store::slots(&bench.store).map(|slots| (slots.thin, slots.free));
    let all = divided().slots();
    assert!(bench.run(&[Write(0, 8 * SLOT, Content, 1), Commit, Checkpoint, Rest, Release]));
    assert_eq!(thin(&bench), Some((8, all - 8)));
    assert!(bench.run(&[Write(1, 6 * SLOT, Content, 0), Commit, Checkpoint, Rest, Release]));
    assert!(bench.run(&[Forget, Checkpoint, Rest]));
    assert_eq!(thin(&bench), Some((3, all - 3)), "two that are used in part, and one");
    let dropped = Store::dropped(&bench.store);
    assert!(dropped.0 > 0);
    bench.come_to_an_end();
    bench.crash(Crash::PowerCut);
    bench.check();
    assert_eq!(Store::dropped(&bench.store), dropped, "it is on the disk");
}

/// A slot was dropped, and later got the place of one that was placed just then and is dropped since. An undecided write keeps the
/// journal from forgetting all that.
#[test]
fn a_place_that_two_slots_have_had_does_not_bring_back_what_was_dropped() {
    let mut bench = Bench::of(THIN, 1, Order::First, None);
    let (first, later) = (11 * SLOT, 2 * SLOT);
    let before = [Write(first, SLOT, Content, 2), Commit, Release, Rest, Release, Checkpoint, Rest];
    let pin = [Write(0, 1, Content, 1), Rest, Keep(3 * SLOT)];
    let placed = [Write(later + 1, 1, Content, 7), Commit, Checkpoint, Rest];
    let dropped = [Keep(SLOT), Checkpoint, Rest, Keep(script::SLOTS * SLOT)];
    let again = [Write(first + 1, 1, Content, 9), Commit, Checkpoint, Rest];
    assert!(bench.run(&[&before[..], &pin, &placed, &dropped, &again].concat()));
    bench.crash(Crash::ProcessDies);
    assert!(bench.rest());
    bench.store.read(7, bench.base + later, SLOT);
    bench.rest();
    let (_, bytes, erased) = bench.reads.pop().expect("it is read");
    assert!(
        erased.is_empty() && bytes.iter().all(|b| *b == 0),
        "it was dropped: {}",
        bytes[SECTOR as usize]
    );
    bench.check();
}

#[test]
fn a_slot_that_moves_twice_keeps_what_was_added_while_the_journal_cannot_forget() {
    for small in [false, true] {
        let crashes = at_every_operation(&pinned(small), &ORDERS, &CRASHES[..2]);
        assert!(crashes > 100, "{crashes}");
    }
}

#[test]
fn what_aborts_while_it_is_prepared_does_not_count_for_what_has_its_name() {
    let crashes = at_every_operation(&prepared_again(), &ORDERS, &CRASHES[..2]);
    assert!(crashes > 100, "{crashes}");
}

#[test]
fn a_full_disk_goes_on_and_survives_a_crash_at_any_operation() {
    let crashes = at_every_operation(&filling(), &[Order::Any], &[Crash::PowerCut]);
    assert!(crashes > 300, "{crashes}");
}

#[test]
fn what_free_slots_had_is_discarded_and_nothing_else_with_a_crash_at_any_operation() {
    let crashes = at_every_operation(&discarding(), &ORDERS, &CRASHES);
    assert!(crashes > 300, "{crashes}");
}

#[test]
fn opening_may_crash_at_any_operation_after_a_crash_at_any() {
    let mut crashes = 0;
    let start = |seed, order| Bench::new(seed, order, None);
    play(&script(), Order::Any, start, |stage| {
        for at in stage.operations() {
            let Some(count) = opening_after(stage, at) else { break };
            crashes += count;
        }
    });
    assert!(crashes > 1000, "{crashes}");
}

/// Crashes at an operation, and at every operation of the opening after that. Says how often that was; nothing if the script ended
/// before.
fn opening_after(stage: &Stage, at: usize) -> Option<usize> {
    for again in 0.. {
        let crash = CRASHES[(at + again) % 3];
        let _where = Where(format!("{crash:?} at {at}, again at {again}"));
        let (mut bench, acts) = stage.cut_off_at(at, at * 1000 + again);
        if bench.run(acts) {
            return None;
        }
        bench.left = Some(again);
        bench.crash(crash);
        let opened = bench.rest();
        bench.left = None;
        if !opened {
            bench.crash(CRASHES[again % 3]);
        }
        bench.check();
        if opened {
            return Some(again);
        }
    }
    unreachable!("the disk is opened at last");
}

/// The disk loses a write though it has said that it is safe, or puts it elsewhere, and crashes some operations later; perhaps once more, so many
/// operations after that. Nothing wrong is read, unless it is known that the disk has forgotten something. Says whether a write was
/// lost before the crash; nothing if the script came to its end.
fn lies(stage: &Stage, lost: usize, at: usize, again: Option<usize>) -> Option<bool> {
    let crash = CRASHES[(lost + at) % 2];
    let _where = Where(format!("write {lost} is lost, {crash:?} at {at}, then {again:?}"));
    let (mut bench, acts) = stage.cut_off_at(at, lost * 1000 + at);
    bench.lies_after = Some(lost - bench.written);
    let ended = bench.run(acts);
    bench.left = again;
    if !bench.has_lied || ended {
        return (!ended).then_some(false);
    }
    bench.crash(crash);
    if again.is_some() && !bench.rest() {
        bench.left = None;
        bench.crash(Crash::ProcessDies);
    }
    bench.left = None;
    bench.check();
    Some(true)
}

/// Most operations between a lost write and a crash, and between that and another.
const SOON: usize = 24;

/// A write is lost, each in turn, and the disk crashes soon after: at each operation; and after every so many of these again, at each.
/// Says how often.
fn lies_about_every_write(acts: &[Act], order: Order, every: usize) -> usize {
    let mut count = 0;
    let start = |seed, order| Bench::new(seed, order, None);
    play(acts, order, start, |stage| {
        for lost in stage.writes() {
            let mut since = 0;
            for at in stage.ended().. {
                let lied = lies(stage, lost, at, None);
                if lied == Some(true) && (lost + at).is_multiple_of(every) {
                    for again in 0..SOON {
                        lies(stage, lost, at, Some(again));
                    }
                    count += SOON;
                }
                since += usize::from(lied == Some(true));
                if lied.is_none() || since == SOON {
                    break;
                }
            }
            if since == 0 {
                break;
            }
        }
    });
    count
}

#[test]
fn what_a_disk_loses_though_it_was_safe_is_not_taken_for_something_else() {
    let times = ORDERS.map(|order| lies_about_every_write(&adding(), order, 5));
    assert!(times.iter().all(|n| *n > 1000), "{times:?}");
}

#[test]
fn what_is_journalled_finds_room_while_whole_slots_are_undecided() {
    let mut bench = Bench::new(1, Order::First, None);
    assert!(bench.run(&short_of_slots()));
    bench.check();
}

/// Whether a bug is found by any crash at any operation of a script.
fn is_found(bug: StoreBug, acts: &[Act]) -> bool {
    let start = |seed, order| Bench::new(seed, order, Some(bug));
    ORDERS.into_iter().any(|order| {
        let run = || crashes_of(acts, order, start, |_| CRASHES.to_vec());
        std::panic::catch_unwind(run).is_err()
    })
}

#[test]
fn prepared_before_the_content_is_safe_is_found() {
    assert!(is_found(StoreBug::PreparedEarly, &script()));
}

#[test]
fn opening_that_takes_content_for_granted_is_found() {
    assert!(is_found(StoreBug::ContentUnchecked, &script()));
}

#[test]
fn room_that_is_used_again_too_soon_is_found() {
    assert!(is_found(StoreBug::RoomTooSoon, &crowding()));
}

#[test]
fn a_slot_that_is_used_again_too_soon_is_found() {
    assert!(is_found(StoreBug::SlotTooSoon, &script()));
}

#[test]
fn a_slot_that_is_used_again_while_it_is_read_is_found() {
    assert!(is_found(StoreBug::SlotWhileRead, &script()));
}

#[test]
fn a_discard_that_leaves_no_version_is_found() {
    assert!(is_found(StoreBug::VersionDropped, &script()));
}

#[test]
fn a_slot_that_is_used_while_what_it_had_is_discarded_is_found() {
    assert!(is_found(StoreBug::UsedWhileDiscarded, &discarding()));
}

#[test]
fn a_missing_reserve_is_found() {
    assert!(is_found(StoreBug::NoReserve, &short_of_slots()));
}

/// A page of the owners rots: what it claimed is lost, and what nobody else claims is.
fn with_a_rotten_page(bug: Option<StoreBug>) {
    let mut bench = Bench::new(1, Order::First, bug);
    assert!(bench.run(&script()));
    bench.come_to_an_end();
    let divided = divided();
    for sector in divided.owners() {
        bench.disk.rot(sector, &mut bench.rng);
    }
    bench.may_lose = true;
    for _ in 0..2 {
        bench.crash(Crash::ProcessDies);
        bench.rest();
        bench.compare();
        bench.store.read(7, NEVER_WRITTEN, 1);
        bench.rest();
        let (_, _, erased) = bench.reads.pop().expect("it is read");
        assert_eq!(erased, [NEVER_WRITTEN], "nobody knows that it is a hole");
        // What is written is there, and the rest is lost as before when the disk is opened again.
        assert!(bench.run(&[Write(8, SLOT, Content, 9), Commit, Release]));
        bench.come_to_an_end();
    }
    bench.store.read(7, 8, SLOT);
    bench.rest();
    assert!(bench.reads.pop().is_some_and(|(_, _, erased)| erased.is_empty()));
}

/// A sector in a slot to which the script writes nothing.
const NEVER_WRITTEN: u64 = 45;

#[test]
fn what_nobody_claims_is_lost_when_claims_are() {
    with_a_rotten_page(None);
    let taken_for_holes = || with_a_rotten_page(Some(StoreBug::LostForHoles));
    assert!(std::panic::catch_unwind(taken_for_holes).is_err());
}

/// A crash may come when the owners are written and the index does not say so yet. It must learn of them, though no pointer
/// moves later: or an older copy counts when the newer one rots, and with it what stood in its places before.
#[test]
fn an_older_copy_of_the_owners_is_known_as_such_after_a_crash_at_any_operation() {
    let put =
        |at, count, byte| [Write(at, count, Content, byte), Commit, Release, Checkpoint, Rest];
    let moves: Vec<Act> = (1..4).flat_map(|byte| put(0, SLOT, byte)).collect();
    let stays = [put(1, 1, 8), put(2, 1, 9)].concat();
    for at in 0.. {
        let _where = Where(format!("at operation {at}"));
        let mut bench = Bench::new(1, Order::First, None);
        bench.left = Some(at);
        if bench.run(&moves) {
            assert!(at > 30, "{at}");
            return;
        }
        bench.left = None;
        bench.crash(Crash::ProcessDies);
        assert!(bench.rest() && bench.run(&stays));
        let (newest, _) = bench.newest_owners();
        bench.disk.rot(newest, &mut bench.rng);
        bench.may_lose = true;
        bench.crash(Crash::ProcessDies);
        bench.rest();
        bench.compare();
    }
}

#[test]
fn frames_that_are_not_safe_when_they_promise_are_found() {
    let found = (0..100).any(|at| {
        let crash = (at, Crash::PowerCut);
        let run = || cut_off(&script(), Order::First, crash, Some(StoreBug::MissingFlush));
        std::panic::catch_unwind(run).is_err()
    });
    assert!(found);
}
