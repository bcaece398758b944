//! The account by itself: whatever its disks and messages do.

use super::*;
use crate::cluster::Extent;
use crate::layout::{Geometry, LayoutSpec};
use crate::node::Task;
use crate::node::background::Background;
use crate::plan::Waits;
use crate::policy::{Policy, Redundancy, Roles, Setting};
use crate::units::MILLIS;

const UNIT: u64 = 8 * SECTOR;
const VOLUME: VolumeId = VolumeId(1);
const STRIPES: u64 = 100;

struct Bench {
    volume: Arc<Volume>,
    map: ClusterMap,
    accounts: Accounts,
    background: Background,
    /// The last attempt.
    last: u64,
    now: Nanos,
}

impl Bench {
    /// Of five disks.
    fn new(redundancy: Redundancy) -> Bench {
        Bench::with("raid5", 5, redundancy)
    }

    fn with(layout: &str, disks: u16, redundancy: Redundancy) -> Bench {
        let spec: LayoutSpec = layout.parse().unwrap();
        let geometry = Geometry::new(spec.over(disks.into()).unwrap(), UNIT);
        let extents = vec![Extent::new(0, (0..disks).map(|n| (NodeId(n), 0)).collect())];
        let size = STRIPES * geometry.stripe_bytes();
        let redundancy = Redundancy { timing: Timing::Deferred, ..redundancy };
        let policy = Policy { redundancy, ..Policy::default() };
        let policy = policy.with([Setting::Roles(Roles::Central)]);
        let made = Volume::new(VOLUME, "v", size, &spec, geometry, extents);
        let volume = Arc::new(Volume { policy, ..made });
        let config = NodeConfig::default();
        let mut accounts = Accounts::new(config);
        accounts.load.begins(0);
        accounts.of.insert(VOLUME, Account::new(&volume, None, 0));
        let background = Background::new(&config);
        Bench { volume, map: ClusterMap::default(), accounts, background, last: 0, now: 0 }
    }

    /// A sector of the first unit of a stripe.
    fn sector(&self, stripe: u64, sector: u64) -> Range {
        let offset = stripe * self.volume.geometry.stripe_bytes() + sector * SECTOR;
        Range { offset, len: SECTOR }
    }

    fn may_defer(&mut self, range: Range) -> bool {
        self.accounts.may_defer(&self.volume, range, ColumnSet::first(1), self.now)
    }

    fn begin(&mut self, task: Task, waits: Waits) -> Timestamp {
        self.last += 1;
        let ts = Timestamp::new(self.last, NodeId(0));
        let plan = task.plan(&self.volume, ColumnSet::EMPTY, waits).unwrap();
        self.accounts.begins(ts, VOLUME, &plan);
        ts
    }

    /// A write that defers, if it may. Returns whether it does.
    fn write(&mut self, stripe: u64, sector: u64) -> bool {
        let range = self.sector(stripe, sector);
        self.accounts.used(self.now);
        let may = self.may_defer(range);
        if may {
            let parities = ColumnSet::first(self.volume.geometry.code.parity_columns());
            let ts = self.begin(Task::Write(range), parities.into());
            self.accounts.happened(ts, VOLUME, self.now);
        }
        may
    }

    fn next(&mut self, is_busy: bool) -> Option<u64> {
        let (background, now) = (&mut self.background, self.now);
        let unit = self.accounts.next(&self.map, is_busy, |_| true, background, now)?;
        Some(unit.1)
    }

    /// The current computation succeeds.
    fn computed(&mut self) {
        let (place, _) = self.accounts.current.expect("something is being computed");
        self.compute(place, Span::new(0, UNIT));
    }

    fn compute(&mut self, place: Place, part: Span) {
        let task = Task::Rebuild { stripe: place.1, stripes: 1, column: place.2, part };
        let ts = self.begin(task, Waits::NONE);
        self.accounts.happened(ts, VOLUME, self.now);
        self.accounts.ended(place, true, self.now);
    }

    fn exposed(&self) -> Amount {
        self.accounts.of[&VOLUME].exposed_in(Area::Whole)
    }
}

/// Stripes 0, 5, 10, ... have their parity on one disk, whose share of ten would be two.
#[test]
fn a_bound_is_of_all_disks_wherever_the_parity_is() {
    let bounds = Redundancy { exposed_stripes: 10, ..Redundancy::default() };
    for (step, what) in [(5, "one disk's"), (1, "all disks'")] {
        let mut bench = Bench::new(bounds);
        for n in 0..10 {
            assert!(bench.next(true).is_none(), "{what}: hosts are there, and no bound is reached");
            assert!(bench.write(n * step, 0), "{what} {n}");
        }
        assert!(bench.next(true).is_some(), "{what}: the bound is reached");
        for n in 10..20 {
            assert!(bench.write(n * step % STRIPES + n * step / STRIPES, 0), "{what} {n}");
        }
        assert_eq!(bench.exposed().0, 20, "{what}");
        assert!(!bench.write(99, 0), "{what}: twice the bound");
        let computed = bench.accounts.current.unwrap().0.1;
        let other = if computed == 0 { step } else { 0 };
        assert!(bench.write(other, 1), "{what}: its stripe is exposed anyway");
        assert!(!bench.write(computed, 0), "{what}: its stripe will not be");
        bench.computed();
        assert_eq!(bench.exposed().0, 19, "{what}");
        assert!(bench.write(99, 0), "{what}");
    }
}

#[test]
fn attempts_in_progress_count_until_they_have_ended() {
    let mut bench = Bench::new(Redundancy { exposed_stripes: 1, ..Redundancy::default() });
    let deferred = || Waits::from(ColumnSet::first(1));
    let first = bench.sector(0, 0);
    let (one, other) =
        (bench.begin(Task::Write(first), deferred()), bench.begin(Task::Write(first), deferred()));
    let second = bench.sector(1, 0);
    assert!(bench.may_defer(second), "both are of one stripe");
    let third = bench.begin(Task::Write(second), deferred());
    let more = bench.sector(2, 0);
    assert!(!bench.may_defer(more));
    bench.accounts.happened(one, VOLUME, 0);
    assert!(!bench.may_defer(more), "what has happened counts as well, and once");
    bench.accounts.keep_coming(VOLUME, |ts| ts == other);
    assert!(bench.may_defer(more), "{third} did not happen");
}

#[test]
fn bytes_are_counted_to_the_sector() {
    // Of four data units.
    let mut bench = Bench::new(Redundancy { exposed_bytes: 4 * SECTOR, ..Redundancy::default() });
    assert!(bench.write(0, 0) && bench.write(0, 0) && bench.write(0, 1));
    assert_eq!(bench.exposed(), (1, 8 * SECTOR));
    assert!(!bench.write(0, 2), "it would be more than twice the bound");
    assert!(bench.write(0, 1), "it would be no more");
    assert_eq!(bench.next(true), Some(0));
    // A whole stripe has its parity.
    let whole = Range { offset: 0, len: bench.volume.geometry.stripe_bytes() };
    let ts = bench.begin(Task::Write(whole), Waits::NONE);
    bench.accounts.happened(ts, VOLUME, 0);
    assert_eq!(bench.exposed(), (0, 0));
}

#[test]
fn parity_is_computed_one_stripe_after_the_other_while_the_array_is_idle() {
    let mut bench = Bench::new(Redundancy::default());
    bench.now = 1_000 * MILLIS;
    assert!([7, 3, 50].into_iter().all(|stripe| bench.write(stripe, 0)));
    bench.now += 99 * MILLIS;
    assert_eq!(bench.next(false), None, "it is idle, and not for long enough");
    assert_eq!(bench.accounts.next_look(true, bench.now), Some(31_000 * MILLIS), "hosts are there");
    assert_eq!(bench.accounts.next_look(false, bench.now), Some(1_100 * MILLIS));
    bench.now += MILLIS;
    assert_eq!(bench.next(true), None, "a request is in progress");
    assert_eq!(bench.next(false), Some(3));
    assert_eq!(bench.next(false), None, "one is being computed");
    bench.computed();
    assert_eq!(bench.next(false), Some(7));
    bench.computed();
    // A host comes back: the rest waits.
    assert!(bench.write(1, 0));
    assert_eq!(bench.next(false), None);
    bench.now += 100 * MILLIS;
    assert_eq!(bench.next(false), Some(50), "in the order of the disks");
    bench.computed();
    assert_eq!(bench.next(false), Some(1));
    bench.computed();
    assert_eq!((bench.next(false), bench.exposed()), (None, (0, 0)));
    assert_eq!(bench.accounts.next_look(false, bench.now), None);
}

#[test]
fn what_could_not_be_computed_is_tried_again_after_a_while() {
    let mut bench = Bench::new(Redundancy::default());
    bench.now = 1_000 * MILLIS;
    assert!(bench.write(3, 0) && bench.write(4, 0));
    bench.now += 100 * MILLIS;
    assert_eq!(bench.next(false), Some(3));
    bench.accounts.ended(bench.accounts.current.unwrap().0, false, bench.now);
    assert_eq!(bench.next(false), Some(4));
    bench.computed();
    assert_eq!(bench.next(false), None);
    let patience = NodeConfig::default().patience;
    assert_eq!(bench.accounts.next_look(false, bench.now), Some(bench.now + patience));
    bench.now += patience;
    assert_eq!(bench.next(false), Some(3));
}

/// Data that is unreadable may be computed from the one once that is computed from others.
#[test]
fn parities_that_could_not_be_computed_together_are_computed_alone() {
    let mut bench = Bench::with("raid6", 6, Redundancy::default());
    bench.now = 1_000 * MILLIS;
    assert!(bench.write(3, 0));
    bench.now += 100 * MILLIS;
    let seat = |bench: &Bench, j| bench.volume.geometry.layout.parity_seat(3, j);
    assert_eq!(bench.next(false), Some(3));
    assert_eq!(bench.accounts.current.unwrap().0.2, seat(&bench, 0), "the first leads");
    // It was computed alone.
    bench.computed();
    assert_eq!(bench.next(false), Some(3));
    assert_eq!(bench.accounts.current.unwrap().0.2, seat(&bench, 1));
    bench.computed();
    assert_eq!(bench.next(false), None);
    // Or only the first half of it: the rest comes next.
    assert!(bench.write(3, 0) && bench.write(3, 7));
    let account = &bench.accounts.of[&VOLUME];
    let whole = Span::new(0, UNIT);
    assert_eq!(account.units_of(3), [((VOLUME, 3, seat(&bench, 0), whole), bench.now)]);
    bench.compute((VOLUME, 3, seat(&bench, 0)), Span::new(0, UNIT / 2));
    let rest = Span::new(UNIT - SECTOR, UNIT);
    let account = &bench.accounts.of[&VOLUME];
    assert_eq!(account.units_of(3), [((VOLUME, 3, seat(&bench, 0), rest), bench.now)]);
}

#[test]
fn nothing_is_deferred_before_all_disks_have_listed_their_marks() {
    let mut bench = Bench::new(Redundancy::default());
    let account = bench.accounts.of.get_mut(&VOLUME).unwrap();
    account.to_learn = (0..5).map(|n| (NodeId(n), 0)).collect();
    let mut outbox = Outbox::new(NodeId(9), 1);
    let (size, id) = (bench.volume.size, LEARNS | u64::from(VOLUME.0));
    let parity_on = |stripe: u64| {
        let g = &bench.volume.geometry;
        NodeId(g.layout.column_at(stripe, g.layout.parity_seat(stripe, 0)) as u16)
    };
    let (first, last) = (parity_on(0), parity_on(1));
    let range = |stripe| Range { len: 2 * SECTOR, ..bench.sector(stripe, 3) };
    let (in_first, in_last) = (vec![range(0)], vec![range(1)]);
    for node in (0..5).map(NodeId).filter(|n| *n != first && *n != last) {
        bench.accounts.hears(node, id, (size, Vec::new()), &mut outbox);
    }
    // The first one's list is long: it is asked for the rest.
    let half = size / 2;
    bench.accounts.hears(first, id, (half, in_first.clone()), &mut outbox);
    bench.accounts.hears(first, id, (half, in_first), &mut outbox);
    bench.accounts.hears(last, id, (size, in_last), &mut outbox);
    let range = bench.sector(7, 0);
    assert!(bench.accounts.is_learning() && !bench.may_defer(range));
    bench.accounts.hears(first, id, (size, Vec::new()), &mut outbox);
    assert!(!bench.accounts.is_learning() && bench.may_defer(range));
    assert_eq!(bench.exposed(), (2, 2 * 2 * 4 * SECTOR));
}

/// The share of the time is of the volume, not a fifth of it for each disk.
#[test]
fn a_target_is_the_volumes() {
    let rates = Bench::new(Redundancy::default()).volume.rates();
    // Such that a hundredth of the time may be exposed.
    let hours = rates.mttdl(0.01) as u64;
    let mut bench = Bench::new(Redundancy { mttdl: hours, ..Redundancy::default() });
    assert!(!bench.write(0, 0), "nothing may be exposed yet");
    bench.now = 100_000 * MILLIS;
    assert!(bench.write(0, 0));
    bench.now += 750 * MILLIS;
    assert!(
        bench.next(true).is_none(),
        "there is more than to compute this stripe and another takes"
    );
    bench.now += 100 * MILLIS;
    assert_eq!(bench.next(true), Some(0), "there is not");
    assert!(!bench.write(1, 0));
    // More than twenty stripes are too many, whatever time is left.
    let mut bench = Bench::new(Redundancy { mttdl: hours, ..Redundancy::default() });
    bench.now = 1_000_000 * MILLIS;
    assert!((0..20).all(|stripe| bench.write(stripe, 0)) && bench.next(true).is_none());
    assert!(bench.write(20, 0));
    assert!(bench.next(true).is_some());
}
