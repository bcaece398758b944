//! Columns that compute for one another: every such plan is naive RAID, costs what is promised, and gives work to whom
//! has least.

use super::tests::{U, assert_naive_by, geometry, over_least};
use super::*;
use crate::policy::{CalculatedAt, Controller, Policy};

fn policy(calculated_at: CalculatedAt) -> Policy {
    Policy { calculated_at: Some(calculated_at), ..Policy::default() }
}

const COLUMNS: [CalculatedAt; 2] = [CalculatedAt::Balanced, CalculatedAt::Tree];

/// The plan of a write of whole units from the beginning of stripe 0.
fn written(g: &Geometry, units: u64, avoid: ColumnSet, at: CalculatedAt) -> WritePlan {
    let range = Range { offset: 0, len: units * g.unit };
    WritePlan::new(g, range, avoid, policy(at)).unwrap()
}

#[test]
fn any_calculator_is_naive_raid_without_any_recoverable_columns() {
    let all = [CalculatedAt::Originator, CalculatedAt::Solely, CalculatedAt::Parity];
    for layout in ["raid5", "raid6", "rs:2+2", "rs:1+2", "rs:6+2", "rs:5+3", "lrc:4+2+1"] {
        let g = over_least(layout);
        // Of one data column three units are three stripes, which leave no choice where to begin.
        let stripes = if g.data_columns() == 1 { 4 } else { 3 };
        let sets = (0..1u32 << g.layout.width()).map(ColumnSet);
        for lost in sets.filter(|lost| g.is_always_recoverable(*lost)) {
            for at in all.into_iter().chain(COLUMNS) {
                assert_naive_by(&g, lost, stripes, policy(at));
            }
        }
    }
}

/// With a controller that no data passes a column gathers what has to be, whatever was chosen.
#[test]
fn a_controller_leaves_all_that_is_gathered_to_columns() {
    let chosen = [None, Some(CalculatedAt::Solely), Some(CalculatedAt::Parity)];
    for layout in ["raid5", "rs:2+2", "rs:4+3", "lrc:4+2+1"] {
        let g = over_least(layout);
        let sets = (0..1u32 << g.layout.width()).map(ColumnSet);
        for lost in sets.filter(|lost| g.is_always_recoverable(*lost)) {
            for calculated_at in chosen.into_iter().chain(COLUMNS.map(Some)) {
                let controller = Some(Controller::OutOfBand);
                let policy = Policy { calculated_at, controller, ..Policy::default() };
                assert_naive_by(&g, lost, 3, policy);
                for units in 1..=2 * g.data_columns() as u64 {
                    let range = Range { offset: g.unit / 2, len: units * g.unit };
                    let plan = WritePlan::new(&g, range, lost, policy).unwrap();
                    for row in plan.rows {
                        let gathers = row.cell(&g, Role::Calculator).gathers();
                        assert!(!gathers || row.calculator.is_some(), "{row:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn columns_of_grids_calculate_as_naive_raid() {
    let g = over_least("grid:2x2");
    let sets = (0..1u32 << g.layout.width()).map(ColumnSet);
    for lost in sets.filter(|lost| lost.len() <= 4 && g.is_always_recoverable(*lost)) {
        COLUMNS.into_iter().for_each(|at| assert_naive_by(&g, lost, 3, policy(at)));
    }
}

/// Each of two columns that are lost together, and both ways in turn.
#[test]
fn columns_of_drnet_calculate_as_naive_raid() {
    let g = over_least("drnet");
    COLUMNS.into_iter().for_each(|at| assert_naive_by(&g, ColumnSet::EMPTY, 5, policy(at)));
    for (a, b) in (0..25).flat_map(|a| (a..25).map(move |b| (a, b))).step_by(3) {
        let lost = [a, b].into_iter().collect();
        assert_naive_by(&g, lost, 5, policy(COLUMNS[(a + b) % 2]));
    }
}

/// Of a full stripe each column gets its unit from the host's node; four go on to the first parity's column, which
/// computes, and one result to the second's. All six vote.
#[test]
fn a_star_sends_each_unit_on_once() {
    let g = geometry(4, 2);
    let plan = written(&g, 4, ColumnSet::EMPTY, CalculatedAt::Balanced);
    let row = plan.rows[0];
    assert_eq!(row.calculator, Some(g.layout.parity_column(0, 0)));
    let t = plan.totals(&g, policy(CalculatedAt::Balanced));
    assert_eq!((t.messages, t.wire_bytes), (4 + 4 + 1 + 6, (4 + 4 + 1) * U));
    // To a data column, to the calculator, to the other parity, and its vote.
    assert_eq!((row.serial_messages(&g), t.round_trips), (4, 2));
}

/// Of eight columns the last of a binary tree is three away from its root, which sends to the parity.
#[test]
fn a_tree_is_as_deep_as_it_has_to_be() {
    let g = geometry(8, 1);
    let plan = written(&g, 8, ColumnSet::EMPTY, CalculatedAt::Tree);
    let row = plan.rows[0];
    let sends = |i: usize| row.sent_at(&g, Role::Column(g.layout.data_column(0, i)), 1);
    assert_eq!([7, 3, 1, 0].map(sends), [2, 3, 4, 5]);
    assert_eq!(row.serial_messages(&g), 6);
    let t = plan.totals(&g, policy(CalculatedAt::Tree));
    assert_eq!((t.messages, t.wire_bytes), (8 + 8 + 9, (8 + 8) * U));
    // Nobody takes in more than two sums.
    for cell in row.cells(&g) {
        assert!(cell.awaited().len() <= 2, "{cell:?}");
    }
}

/// No column of either gets more than the star's calculator does, and the originator computes nothing.
#[test]
fn the_originator_computes_nothing() {
    for at in COLUMNS {
        for lost in [ColumnSet::EMPTY, ColumnSet::of(0), [0, 3].into_iter().collect()] {
            let g = geometry(4, 2);
            for units in 1..=4 {
                let row = written(&g, units, lost, at).rows[0];
                let calculates = !row.cell(&g, Role::Calculator).is_idle();
                assert!(!calculates || row.calculator.is_some(), "{row:?}");
            }
            let whole = Span::new(0, U);
            let plan =
                WritePlan::rebuild(&g, 0..1, 1, whole, ColumnSet::EMPTY, policy(at)).unwrap();
            assert!(plan.rows[0].cell(&g, Role::Calculator).is_idle());
        }
    }
}

#[test]
fn who_has_least_to_compute_calculates() {
    let g = geometry(4, 2);
    let range = Range { offset: 0, len: 12 * g.stripe_bytes() };
    let lost = ColumnSet::of(2);
    let plan =
        || WritePlan::deferring(&g, range, lost, policy(CalculatedAt::Balanced), ColumnSet::EMPTY);
    // All have as much: they take turns.
    let mut turns = plan().unwrap();
    turns.choose_calculators(&g, |_| 0);
    for column in (0..6).filter(|c| !lost.contains(*c)) {
        let its = turns.rows.iter().filter(|row| row.calculator == Some(column)).count();
        assert!((2..=3).contains(&its), "column {column} calculates for {its} of 12 stripes");
    }
    // One has nothing to do.
    let mut one = plan().unwrap();
    let chosen = one.choose_calculators(&g, |column| if column == 4 { 0 } else { u64::MAX / 2 });
    assert!(one.rows.iter().all(|row| row.calculator == Some(4)));
    // Who is told derives the same.
    let mut told = plan().unwrap();
    told.assign(&g, chosen).unwrap();
    assert!(told.rows == one.rows);
}

#[test]
fn who_cannot_calculate_is_not_believed() {
    let g = geometry(4, 2);
    let range = Range { offset: 0, len: U };
    let told = |columns: &[u8]| {
        let lost = ColumnSet::of(2);
        let balanced = policy(CalculatedAt::Balanced);
        let mut plan = WritePlan::deferring(&g, range, lost, balanced, ColumnSet::EMPTY).unwrap();
        plan.assign(&g, Calculators::new(columns).unwrap())
    };
    assert_eq!(told(&[3]), Ok(()));
    for bad in [&[][..], &[2], &[6], &[255]] {
        assert_eq!(told(bad), Err(PlanError::NoCalculator { stripe: 0 }));
    }
    assert_eq!(Calculators::new(&[0; Calculators::MOST + 1]), None);
}
