//! The papers' tables as tests, and every plan executed on a byte-level array.

use super::Strategy;
use super::reference::Array;
use super::*;
use crate::layout::{Geometry, Grid, Layout, LayoutSpec, Local, Placement, Rotating};
use crate::policy::{CalculatedAt, Commit, Dispatch, Policy, Preference};
use crate::units::{ColumnSet, SECTOR};
use proptest::prelude::{Just, ProptestConfig, any, prop, prop_assert, prop_oneof, proptest};
use proptest::strategy::Strategy as Strategy_;

mod copied;

pub(super) const U: u64 = 16384;

fn raid5(k: usize) -> Geometry {
    geometry(k, 1)
}

pub(super) fn geometry(data: usize, parity: usize) -> Geometry {
    let placement = Placement::LeftSymmetric;
    Geometry::new(Layout::Rotating(Rotating { data, parity, placement }), U)
}

/// The row of a write of `units` whole units from unit 0 of stripe 0.
fn row(g: &Geometry, units: u64, avoid: ColumnSet, policy: Policy) -> WriteRow {
    let range = Range { offset: 0, len: units * U };
    WritePlan::new(g, range, avoid, policy).unwrap().rows[0]
}

fn column(row: &WriteRow, g: &Geometry, column: usize) -> Cell {
    row.cell(g, Role::Column(column))
}

/// TickerTAIP, Figure 4 and section 3.2.1: small below half, large above, full for all.
#[test]
fn strategies_by_cost() {
    let strategy =
        |g: &Geometry, n| row(g, n, ColumnSet::EMPTY, Policy::default()).strategy(g).unwrap();
    let five = raid5(4);
    use Strategy::*;
    assert_eq!([1, 2, 3, 4].map(|n| strategy(&five, n)), [Small, Large, Large, Full]);
    let eleven = raid5(10);
    let expected = [Small, Small, Small, Small, Large, Large, Large, Large, Large, Full];
    assert_eq!([1, 2, 3, 4, 5, 6, 7, 8, 9, 10].map(|n| strategy(&eleven, n)), expected);
    let forced = |s| Policy { strategy: Some(s), ..Policy::default() };
    assert_eq!(
        row(&five, 3, ColumnSet::EMPTY, forced(Preference::Small)).strategy(&five),
        Some(Small)
    );
    assert_eq!(
        row(&five, 1, ColumnSet::EMPTY, forced(Preference::Large)).strategy(&five),
        Some(Large)
    );
}

/// TickerTAIP, Figure 7: blocks 2 to 7 over four nodes are a small, a full and a large
/// stripe; here with the left-symmetric layout of Table II.
#[test]
fn tickertaip_figure_7() {
    let g = raid5(3);
    let range = Range { offset: 2 * U, len: 6 * U };
    let plan = WritePlan::new(&g, range, ColumnSet::EMPTY, Policy::default()).unwrap();
    let kinds: Vec<_> = plan.rows.iter().map(|r| r.strategy(&g).unwrap()).collect();
    assert_eq!(kinds, [Strategy::Small, Strategy::Full, Strategy::Large]);
}

/// TickerTAIP, Table III: the algorithm in failure mode by what the failed disk holds.
#[test]
fn tickertaip_table_3() {
    let g = raid5(4);
    let lose = |column| ColumnSet::of(column);
    let parity = g.layout.parity_column(0, 0);
    let data = |i| g.layout.data_column(0, i);
    // (units written, failed column, expected; None = no parity is computed)
    let table = [
        (1, data(0), Some(Strategy::Large)), // small, updated
        (1, parity, None),                   // small, parity
        (1, data(3), Some(Strategy::Small)), // small, not updated
        (3, data(0), Some(Strategy::Large)), // large, updated
        (3, parity, None),                   // large, parity
        (3, data(3), Some(Strategy::Small)), // large, not updated
        (4, data(0), Some(Strategy::Full)),  // full, updated
        (4, parity, None),                   // full, parity
    ];
    for (units, failed, expected) in table {
        let row = row(&g, units, lose(failed), Policy::default());
        let parity_made = !row.parities().is_empty();
        assert_eq!(
            parity_made.then_some(row.strategy(&g).unwrap()),
            expected,
            "{units} units, {failed} lost"
        );
        assert!(!row.decodes(), "whole units never need solving for in RAID 5");
        if !parity_made {
            let reads = (0..5).map(|c| column(&row, &g, c).reads().len()).sum::<u64>();
            assert_eq!(reads, 0, "nothing is read when the parity is lost");
        }
    }
}

/// TickerTAIP, Table IV with late commit: after the failure of any one node, whether the
/// write can be finished, and from what. Everyone prepares with its final content, so the
/// write commits when the parity was computed (its node prepared), and then what the failed
/// node held follows from the parity; it aborts when it was not.
#[test]
fn tickertaip_table_4() {
    let g = raid5(4);
    for units in 1..=4 {
        let row = row(&g, units, ColumnSet::EMPTY, Policy::default());
        for failed in 0..5 {
            let survivors: Vec<usize> = (0..5).filter(|&c| c != failed).collect();
            let holds: Vec<_> = survivors.iter().map(|&c| column(&row, &g, c).writes()).collect();
            let updated = |c: &usize| !column(&row, &g, *c).new.is_empty();
            let parity = g.layout.parity_column(0, 0);
            if failed == parity {
                // "parity not computed": data participants alone decide; no parity is needed.
                assert_eq!(holds.iter().filter(|w| !w.is_empty()).count() as u64, units);
            } else if updated(&failed) {
                // "parity node has copy": all the other columns and the parity determine it.
                assert!(column(&row, &g, parity).write().is_some());
                let wanted = g.code_column(0, failed);
                let helpers = g.helpers(0, ColumnSet::of(failed), wanted, ColumnSet::EMPTY);
                assert!(helpers.unwrap().contains(g.code_column(0, parity)));
            } else {
                // Not updated: not a participant, so nothing of the write is lost with it.
                assert!(column(&row, &g, failed).write().is_none());
            }
        }
    }
}

/// Shared storage, Table 1, first two columns: reads and writes per BST.
#[test]
fn shared_storage_table_1_fault_free_and_degraded() {
    let g = raid5(4);
    let ops = |row: WriteRow| {
        let cells = (0..5).map(|c| column(&row, &g, c));
        cells.fold((0, 0), |(r, w), c| {
            let fold = if c.adds() { c.writes().count() } else { 0 };
            (r + c.reads().count() + fold, w + c.writes().count())
        })
    };
    let none = ColumnSet::EMPTY;
    assert_eq!(ops(row(&g, 1, none, Policy::default())), (2, 2)); // readModifyWrite
    assert_eq!(ops(row(&g, 3, none, Policy::default())), (1, 4)); // largeWrite
    assert_eq!(ops(row(&g, 4, none, Policy::default())), (0, 5)); // fullStripeWrite
    let lost = |i| ColumnSet::of(g.layout.data_column(0, i));
    assert_eq!(ops(row(&g, 1, lost(0), Policy::default())), (3, 1)); // reconstructWrite
    assert_eq!(ops(row(&g, 1, lost(2), Policy::default())), (2, 2)); // readModifyWrite
    let parity = ColumnSet::of(g.layout.parity_column(0, 0));
    assert_eq!(ops(row(&g, 1, parity, Policy::default())), (0, 1)); // parityFailedWrite
    let read = ReadPlan::new(&g, Range { offset: 0, len: U }, lost(0)).unwrap();
    assert_eq!(read.totals(&g).disk_reads, 4); // degradedRead
}

/// A small write inside one unit costs 2 + 2m messages and two round trips at any k.
#[test]
fn small_write_messages_do_not_grow_with_k() {
    for (k, m) in [(2, 1), (4, 1), (4, 2), (8, 2), (8, 3), (16, 4)] {
        let g = geometry(k, m);
        if k == 2 {
            continue; // large is cheaper in disk operations
        }
        let range = Range { offset: 8192, len: 4096 };
        let plan = WritePlan::new(&g, range, ColumnSet::EMPTY, Policy::default()).unwrap();
        let t = plan.totals(&g, Policy::default());
        let m = m as u64;
        assert_eq!((t.messages, t.round_trips), (2 + 2 * m, 2), "{k}+{m}");
        assert_eq!((t.disk_reads, t.disk_writes, t.journal_writes), (1 + m, 1 + m, 1 + m));
        assert_eq!(t.wire_bytes, 4096 * (1 + m));
    }
}

#[test]
fn full_stripes_go_out_once_and_are_answered_once() {
    let g = geometry(4, 2);
    let range = Range { offset: 0, len: 4 * U };
    let plan = WritePlan::new(&g, range, ColumnSet::EMPTY, Policy::default()).unwrap();
    let t = plan.totals(&g, Policy::default());
    assert_eq!((t.messages, t.round_trips, t.disk_reads, t.disk_writes), (12, 1, 0, 6));
    assert_eq!(t.wire_bytes, 6 * U);
}

#[test]
fn long_reads_go_through_parity() {
    let g = raid5(4);
    let range = Range { offset: 0, len: 20 * 4 * U };
    let t = ReadPlan::new(&g, range, ColumnSet::EMPTY).unwrap().totals(&g);
    assert_eq!((t.disk_reads, t.messages, t.wire_bytes), (5, 10, range.len));
}

#[test]
fn too_many_lost_is_refused() {
    let g = raid5(4);
    let lost: ColumnSet = [0, 1].into_iter().collect();
    let range = Range { offset: 0, len: 4096 };
    assert!(WritePlan::new(&g, range, lost, Policy::default()).is_err());
    assert!(ReadPlan::new(&g, range, lost).is_err());
    let spared = Range { offset: 2 * U, len: 4096 };
    assert!(ReadPlan::new(&g, spared, lost).is_ok(), "column 2 can still be read");
}

#[test]
fn chunks_cut_between_stripes_and_at_extents() {
    let g = raid5(4);
    let cut = |offset, len, max, extent| {
        chunks(&g, Range { offset, len }, max, |s| (s / extent + 1) * extent)
            .map(|c| (c.offset, c.len))
            .collect::<Vec<_>>()
    };
    let s = g.stripe_bytes();
    assert_eq!(cut(100, 3 * s, 2 * s, 1000), [(100, 2 * s - 100), (2 * s, s + 100)]);
    assert_eq!(cut(0, 3 * s, 100 * s, 2), [(0, 2 * s), (2 * s, s)]);
    assert_eq!(cut(0, s, s / 2, 1000), [(0, s / 2), (s / 2, s / 2)]);
}

/// No disk has more to journal of a piece than it has room for: of each stripe one unit, of data or of parity.
#[test]
fn an_atomic_piece_fits_the_journal_of_each_disk() {
    const TOTAL: u64 = 4 << 20;
    const PER_DISK: u64 = 512 << 10;
    let mut most = Vec::new();
    for layout in ["raid1", "raid5", "rs:4+2"] {
        for unit in [4 << 10, 64 << 10, 256 << 10, 512 << 10, 1 << 20] {
            let layout = layout.parse::<LayoutSpec>().unwrap().over(6).unwrap();
            let g = Geometry::new(layout, unit);
            let piece = most_atomic(&g, TOTAL, PER_DISK);
            most.push(piece >> 10);
            for offset in [0, 512, unit - 512, 3 * unit + 4096, g.stripe_bytes() - 512] {
                let range = Range { offset, len: 3 * TOTAL };
                for chunk in chunks(&g, range, piece, |_| u64::MAX) {
                    let stripes = chunk.stripes(&g);
                    let of_a_disk = (stripes.end - stripes.start) * unit;
                    assert!(of_a_disk.min(chunk.len) <= PER_DISK && chunk.len <= TOTAL);
                }
            }
        }
    }
    assert_eq!(most[5..10], [2560, 2560, 2560, 2560, 512], "RAID 5 of six disks");
}

/// A stripe of `g` with something in it, and 100 bytes that change in each of its data units.
fn stripe_and_change(g: &Geometry) -> (Array, Vec<u8>, impl Fn(usize) -> (Span, Vec<u8>)) {
    let mut array = Array::new(g.clone(), 1);
    let before: Vec<u8> = (0..g.stripe_bytes()).map(|i| (i * i) as u8).collect();
    array.write(0, &before, Policy::default()).unwrap();
    let span = |i: usize| Span::new(64 * i as u64, 64 * i as u64 + 100);
    let mut after = before;
    for i in 0..g.data_columns() {
        let at = i as u64 * g.unit + span(i).lo;
        after[at as usize..][..100].fill(i as u8 + 100);
    }
    let unit = g.unit as usize;
    let new = move |i: usize| {
        let mut bytes = vec![0; unit];
        bytes[span(i).lo as usize..span(i).hi as usize].fill(i as u8 + 100);
        (span(i), bytes)
    };
    (array, after, new)
}

/// The cells of data columns that read and write their new bytes, and do this with the change.
fn data_cells(
    g: &Geometry,
    new: &impl Fn(usize) -> (Span, Vec<u8>),
    add: impl Fn(usize, Span, &mut Cell),
) -> Vec<Cell> {
    let cell = |i: usize| {
        let (span, sectors) = (new(i).0, Spans::from(new(i).0.sectors_out()));
        let mut cell = Cell { new: span, ..Cell::idle(Role::Column(g.layout.data_column(0, i))) };
        cell.steps.push(Step::Read(sectors));
        add(i, span, &mut cell);
        let (value, how) = (Value::Content, How::Content);
        cell.steps.push(Step::Write(Write { value, spans: sectors, how }));
        cell
    };
    let hand_out = |i: usize| {
        let (value, spans) = (Value::Given(Part::NewOf(i)), new(i).0.into());
        let to = Destination::Role(Role::Column(g.layout.data_column(0, i)));
        Step::Send(Send { value, spans, part: Part::New, to })
    };
    let steps = (0..g.data_columns()).map(hand_out).collect();
    let endpoint = Cell { steps, ..Cell::idle(Role::Endpoint) };
    (0..g.data_columns()).map(cell).chain([endpoint]).collect()
}

fn parity_cell(g: &Geometry, j: usize, spans: Spans, value: Value) -> Cell {
    let write = Step::Write(Write { value, spans, how: How::Change });
    let at = Role::Column(g.layout.parity_column(0, j));
    Cell { steps: [write].into_iter().collect(), ..Cell::idle(at) }
}

/// Reads the stripe as it is, and as it is without its first data column.
fn assert_holds(mut array: Array, expected: &[u8]) {
    let all = Range { offset: 0, len: expected.len() as u64 };
    assert!(array.read(all, Policy::default()).unwrap() == expected);
    array.lose(array.g.layout.data_column(0, 0));
    assert!(array.read(all, Policy::default()).unwrap() == expected);
}

/// TPT-RAID's star is another way to build cells: data columns send what changes to one that
/// calculates, and that sends each parity column what to add.
#[test]
fn a_star_is_made_of_the_same_steps() {
    let g = geometry(4, 2);
    let (mut array, expected, new) = stripe_and_change(&g);
    let mut cells = data_cells(&g, &new, |i, span, cell| {
        let (value, to) = (Value::Change, Destination::Role(Role::Calculator));
        cell.steps.push(Step::Send(Send { value, spans: span.into(), part: Part::From(i), to }));
    });
    let all = Spans::from(Span::new(0, SECTOR));
    let awaited = (0..4).map(|i| (Part::From(i), new(i).0.into())).collect();
    let mut star = Cell::idle(Role::Calculator);
    star.steps.push(Step::Await(awaited));
    for j in 0..2 {
        let term = |i: usize| Term::new(g.code.coefficient(j, i), Part::From(i), new(i).0);
        let value = Value::Sum((0..4).map(term).collect());
        let to = Destination::Role(Role::Column(g.layout.parity_column(0, j)));
        star.steps.push(Step::Send(Send { value, spans: all, part: Part::Result, to }));
        cells.push(parity_cell(&g, j, all, Value::Given(Part::Result)));
    }
    cells.push(star);
    array.carry_out(0, cells, new);
    assert_holds(array, &expected);
}

/// So is its tree: each column multiplies what changes, adds its children's sum, and sends it on.
#[test]
fn a_tree_is_made_of_the_same_steps() {
    let g = geometry(4, 1);
    let (mut array, expected, new) = stripe_and_change(&g);
    let all = Spans::from(Span::new(0, SECTOR));
    // Units 0 and 1 send to unit 2, units 2 and 3 to the parity.
    let children = |i: usize| if i == 2 { vec![0, 1] } else { Vec::new() };
    let parent = |i: usize| match i {
        0 | 1 => g.layout.data_column(0, 2),
        _ => g.layout.parity_column(0, 0),
    };
    let mut cells = data_cells(&g, &new, |i, span, cell| {
        cell.steps.push(Step::Combine(Part::From(i), span.into(), Value::Change));
        let awaited: Awaited = children(i).into_iter().map(|c| (Part::From(c), all)).collect();
        let own = Term::new(g.code.coefficient(0, i), Part::From(i), span);
        let sums = children(i).into_iter().map(|c| Term::new(1, Part::From(c), all));
        let value = Value::Sum([own].into_iter().chain(sums).collect());
        let to = Destination::Role(Role::Column(parent(i)));
        cell.steps.push(Step::Await(awaited));
        cell.steps.push(Step::Send(Send { value, spans: all, part: Part::From(i), to }));
    });
    let sum = [2, 3].map(|i| Term::new(1, Part::From(i), all));
    cells.push(parity_cell(&g, 0, all, Value::Sum(sum.to_vec())));
    array.carry_out(0, cells, new);
    assert_holds(array, &expected);
}

fn any_geometry() -> impl Strategy_<Value = Geometry> {
    let placement = prop_oneof![
        Just(Placement::Fixed),
        Just(Placement::LeftSymmetric),
        Just(Placement::RightAsymmetric)
    ];
    let rotating = (1usize..=6, 0usize..=3, placement).prop_map(|(data, parity, placement)| {
        Layout::Rotating(Rotating { data, parity, placement })
    });
    let local = (2usize..=3, 2usize..=3, 0usize..=3).prop_map(|(groups, size, globals)| {
        Layout::Local(Local { data: groups * size, groups, globals })
    });
    let grid =
        (2usize..=3, 2usize..=3).prop_map(|(rows, across)| Layout::Grid(Grid { rows, across }));
    prop_oneof![2 => rotating, 2 => local, 1 => grid, 1 => Just(Layout::DrNet)]
        .prop_map(|layout| Geometry::new(layout, U))
}

fn any_policy() -> impl Strategy_<Value = Policy> {
    let strategy =
        prop_oneof![Just(None), Just(Some(Preference::Small)), Just(Some(Preference::Large))];
    let place = prop_oneof![
        Just(None),
        Just(Some(CalculatedAt::Originator)),
        Just(Some(CalculatedAt::Solely)),
        Just(Some(CalculatedAt::Parity)),
        Just(Some(CalculatedAt::Balanced)),
        Just(Some(CalculatedAt::Tree))
    ];
    let dispatch = prop_oneof![3 => Just(Dispatch::Collaborative), 1 => Just(Dispatch::Commanded)];
    let commit = prop_oneof![Just(Commit::Late), Just(Commit::Limited)];
    (strategy, place, dispatch, commit).prop_map(|(strategy, calculated_at, dispatch, commit)| {
        Policy { strategy, calculated_at, dispatch, commit, ..Policy::default() }
    })
}

/// What is written and read of an array that has lost `lost`, beside naive RAID: ranges within a unit, over
/// two, of a row of a grid and more, and of whole stripes.
fn assert_naive_without(g: &Geometry, lost: ColumnSet, stripes: u64) {
    assert_naive_by(g, lost, stripes, Policy::default());
}

/// The same with this policy.
pub(super) fn assert_naive_by(g: &Geometry, lost: ColumnSet, stripes: u64, policy: Policy) {
    let (size, unit) = (stripes * g.stripe_bytes(), g.unit);
    let content = |n: u64, len: u64| -> Vec<u8> { (0..len).map(|i| (i * i + n) as u8).collect() };
    let mut array = Array::new(g.clone(), stripes);
    let mut naive = content(0, size);
    array.write(0, &naive, Policy::default()).unwrap();
    lost.iter().for_each(|c| array.lose(c));
    let whole = Range { offset: 0, len: size };
    let lens =
        [100, unit, unit + 100, 2 * unit, 3 * unit, g.stripe_bytes() - unit, g.stripe_bytes()];
    for (n, len) in (0..).zip(lens) {
        let offset = (n * (g.stripe_bytes() + unit) + 50) % (size - len);
        let data = content(n + 1, len);
        array.write(offset, &data, policy).unwrap();
        naive[offset as usize..][..len as usize].copy_from_slice(&data);
        let written = array.read(Range { offset, len }, policy).unwrap();
        assert!(written == data, "{len} at {offset} without {lost:?}");
    }
    assert!(array.read(whole, policy).unwrap() == naive, "without {lost:?}");
    for column in lost.iter() {
        array.rebuild(0..stripes, column, policy).unwrap();
        array.lost.remove(column);
    }
    assert!(array.read(whole, policy).unwrap() == naive, "{lost:?} was put back");
    // What was put back must be what parity is of: others are lost in its place.
    let columns = ColumnSet::first(g.layout.width());
    let others: ColumnSet = columns.minus(lost).iter().take(g.any_losses()).collect();
    others.iter().for_each(|c| array.lose(c));
    assert!(array.read(whole, policy).unwrap() == naive, "{others:?} after {lost:?}");
}

pub(super) fn over_least(layout: &str) -> Geometry {
    let spec: LayoutSpec = layout.parse().unwrap();
    Geometry::new(spec.over(spec.least_nodes()).unwrap(), SECTOR)
}

#[test]
fn small_arrays_are_naive_raid_without_any_recoverable_columns() {
    for layout in ["lrc:4+2+1", "grid:2x2"] {
        let g = over_least(layout);
        let sets = (0..1u32 << g.layout.width()).map(ColumnSet);
        let sets = sets.filter(|lost| lost.len() <= 4 && g.is_always_recoverable(*lost));
        sets.for_each(|lost| assert_naive_without(&g, lost, 3));
    }
}

/// Five stripes are all that there are, but for their numbers.
#[test]
fn drnet_is_naive_raid_without_any_two_columns() {
    let g = over_least("drnet");
    assert_naive_without(&g, ColumnSet::EMPTY, 5);
    for (a, b) in (0..25).flat_map(|a| (a..25).map(move |b| (a, b))) {
        assert_naive_without(&g, [a, b].into_iter().collect(), 5);
    }
}

/// A small write of `drnet` reaches two parities, and changes three columns in place.
#[test]
fn a_small_write_of_drnet_takes_six_messages_and_six_disk_accesses() {
    let spec: LayoutSpec = "drnet".parse().unwrap();
    let g = Geometry::new(spec.over(25).unwrap(), U);
    for unit in 0..100 {
        let range = Range { offset: unit * U + SECTOR, len: SECTOR };
        let plan = WritePlan::new(&g, range, ColumnSet::EMPTY, Policy::default()).unwrap();
        let t = plan.totals(&g, Policy::default());
        assert_eq!((t.messages, t.round_trips), (6, 2), "unit {unit}");
        assert_eq!((t.disk_reads, t.disk_writes, t.journal_writes), (3, 3, 3));
        assert_eq!(t.wire_bytes, 3 * SECTOR);
    }
    // Of a full stripe each unit goes out in a message, and each column votes.
    let range = Range { offset: 0, len: g.stripe_bytes() };
    let plan = WritePlan::new(&g, range, ColumnSet::EMPTY, Policy::default()).unwrap();
    let t = plan.totals(&g, Policy::default());
    assert_eq!((t.messages, t.round_trips, t.disk_reads), (30 + 25, 1, 0));
    assert_eq!(t.disk_writes, 25, "two units of a column stand next to each other");
    // A read of a lost unit asks the four others of a group.
    let lost = ColumnSet::of(g.layout.data_column(0, 0));
    let read = ReadPlan::new(&g, Range { offset: 0, len: U }, lost).unwrap();
    assert_eq!(read.totals(&g).disk_reads, 4);
}

/// Of a column with two units only the one that is copied is read where the column leaves, and written.
#[test]
fn a_copy_is_of_one_unit() {
    let g = over_least("drnet");
    let seats: Vec<usize> = (0..5).flat_map(|s| g.layout.seats_of(s, 6)).collect();
    assert_eq!(seats, [6, 6, 6, 26, 6, 6], "two in stripe 2");
    for seat in [6, 26] {
        let plan = WritePlan::copy(&g, 2, seat, Span::new(0, SECTOR));
        let at: Vec<Role> = plan.rows[0].cells(&g).map(|cell| cell.at).collect();
        assert_eq!(at, [Role::Column(seat), Role::Source(seat)]);
        let other = if seat == 6 { 26 } else { 6 };
        assert!(plan.rows[0].cell(&g, Role::Source(other)).is_idle());
    }
}

/// A write to a lost unit sends changes of its old content, or computes parity afresh: whatever reads least. Of a
/// whole unit that is afresh for both parities, each from the three others of its group; of less, its old content
/// is solved for from one group, and both parities take in the change.
#[test]
fn a_write_to_a_lost_unit_of_drnet_reads_least() {
    let spec: LayoutSpec = "drnet".parse().unwrap();
    let g = Geometry::new(spec.over(25).unwrap(), U);
    let lost = ColumnSet::of(g.layout.data_column(0, 0));
    for len in [U, SECTOR] {
        let range = Range { offset: 0, len };
        let plan = WritePlan::new(&g, range, lost, Policy::default()).unwrap();
        let t = plan.totals(&g, Policy::default());
        assert_eq!((t.disk_reads, t.disk_writes), (6, 2), "{len} bytes");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn drnet_is_naive_raid_without_any_that_it_survives(
        lost in prop::collection::btree_set(0usize..25, 3..=5),
    ) {
        let g = over_least("drnet");
        let lost: ColumnSet = lost.into_iter().collect();
        // Stripes that do not survive it are not written to.
        if g.is_always_recoverable(lost) {
            assert_naive_without(&g, lost, 5);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]

    #[test]
    fn large_arrays_are_naive_raid_without_recoverable_columns(
        wide in any::<bool>(),
        drawn in prop::collection::vec(0usize..25, 0..=8),
        many in 1usize..=8,
    ) {
        let g = over_least(if wide { "grid:4x4" } else { "grid:3x4" });
        let mut lost = ColumnSet::EMPTY;
        for column in drawn.into_iter().filter(|c| *c < g.layout.width()) {
            let more = lost.union(ColumnSet::of(column));
            if lost.len() < many && g.is_always_recoverable(more) {
                lost = more;
            }
        }
        assert_naive_without(&g, lost, 4);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Any plan, executed on bytes, is naive RAID: reads return what was written, before
    /// and after any columns that the code bears are lost, aligned or not.
    #[test]
    fn plans_executed_are_naive_raid(
        g in any_geometry(),
        policy in any_policy(),
        writes in prop::collection::vec((0u64..6 * U * 6, 1u64..3 * U * 6, any::<u8>()), 1..8),
        lost in prop::collection::vec(0usize..16, 0..=6),
        lose_after in 0usize..8,
    ) {
        let stripes = 6;
        let size = stripes * g.stripe_bytes();
        let mut array = Array::new(g.clone(), stripes);
        let mut naive = vec![0u8; size as usize];
        for (n, (offset, len, fill)) in writes.into_iter().enumerate() {
            if n == lose_after {
                for &c in &lost {
                    let more = array.lost.union(ColumnSet::of(c));
                    if c < g.layout.width() && g.is_always_recoverable(more) && more != array.lost {
                        array.lose(c);
                    }
                }
            }
            let offset = offset % size;
            let len = len.min(size - offset);
            let data: Vec<u8> = (0..len).map(|i| fill.wrapping_add(i as u8)).collect();
            array.write(offset, &data, policy).unwrap();
            naive[offset as usize..][..len as usize].copy_from_slice(&data);
            let read = array.read(Range { offset: 0, len: size }, Policy::default()).unwrap();
            prop_assert!(read == naive, "write {n} at {offset} of {len}");
        }
        let some = Range { offset: size / 3 + 17, len: size / 5 + 1 };
        let read = array.read(some, Policy::default()).unwrap();
        prop_assert!(read == naive[some.offset as usize..some.end() as usize]);
        for column in array.lost.iter() {
            array.rebuild(0..stripes, column, policy).unwrap();
        }
        array.lost = ColumnSet::EMPTY;
        let read = array.read(Range { offset: 0, len: size }, Policy::default()).unwrap();
        prop_assert!(read == naive, "after rebuilding");
    }
}
