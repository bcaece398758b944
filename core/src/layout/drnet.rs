//! DR-net's two parity groups (Mimatsu and Yokota, PRDC 2000; Yokota, 1994): each data unit is in a first group,
//! and in a second that meets the first nowhere else.
//!
//! Five first groups (*pluses*, after their shape on a torus) have five columns each, and the columns of a plus are
//! its *arms*, 0 to 4. Column `5f + a` is arm `a` of plus `f`. Arms of one number in all pluses are a second group.
//! In stripe `s` both the parity of first group `f` and that of a second group stand on arm `(s - f) mod 5` of
//! plus `f`: that column holds two units, and all others hold one of data. So parity rotates, and a column
//! holds six units in five stripes. A column stays in its groups all the while; which of them hold two
//! units changes with the stripe, and with it which losses are recoverable.
//!
//! The paper's drawings are lost: docs/lab/papers/drnet.md names our choices.

use super::ColumnRole;

/// Pluses, and arms of each.
const SIDE: usize = 5;

/// Data units in a stripe.
pub(super) const DATA: usize = SIDE * (SIDE - 1);

/// Columns.
pub(super) const WIDTH: usize = SIDE * SIDE;

/// Units of a stripe.
pub(super) const SEATS: usize = WIDTH + SIDE;

/// After so many stripes every column holds what it held.
pub(super) const TURNS: u64 = SIDE as u64;

/// Columns that may be lost, whichever they are.
pub(super) const ANY_LOSSES: usize = 2;

/// Units that a column holds in [`TURNS`] stripes.
const UNITS: u64 = TURNS + 1;

/// The arm of a plus that holds parity.
fn parity_arm(stripe: u64, plus: usize) -> usize {
    ((stripe % TURNS) as usize + SIDE - plus) % SIDE
}

/// The first of the stripes in which a column holds parity; every fifth after it is another.
fn parity_stripe(column: usize) -> u64 {
    ((column / SIDE + column % SIDE) % SIDE) as u64
}

pub(super) fn role(stripe: u64, seat: usize) -> ColumnRole {
    if let Some(plus) = seat.checked_sub(WIDTH) {
        return ColumnRole::Parity(SIDE + plus);
    }
    let (plus, arm) = (seat / SIDE, seat % SIDE);
    match (arm + SIDE - parity_arm(stripe, plus)) % SIDE {
        0 => ColumnRole::Parity(plus),
        after => ColumnRole::Data(plus * (SIDE - 1) + after - 1),
    }
}

/// The column that a seat belongs to.
pub(super) fn column_at(stripe: u64, seat: usize) -> usize {
    match seat.checked_sub(WIDTH) {
        None => seat,
        Some(plus) => plus * SIDE + parity_arm(stripe, plus),
    }
}

/// The seat of a column's second unit, where it holds two.
pub(super) fn second_seat(stripe: u64, column: usize) -> Option<usize> {
    (stripe % TURNS == parity_stripe(column)).then_some(WIDTH + column / SIDE)
}

pub(super) fn parity_seat(stripe: u64, j: usize) -> usize {
    match j.checked_sub(SIDE) {
        None => j * SIDE + parity_arm(stripe, j),
        Some(plus) => WIDTH + plus,
    }
}

pub(super) fn data_column(stripe: u64, i: usize) -> usize {
    let (plus, i) = (i / (SIDE - 1), i % (SIDE - 1));
    plus * SIDE + (parity_arm(stripe, plus) + 1 + i) % SIDE
}

/// Units that a column holds in the stripes before this one.
pub(super) fn units_before(stripe: u64, column: usize) -> u64 {
    stripe + (stripe + TURNS - 1 - parity_stripe(column)) / TURNS
}

/// The stripe of a column's unit, and the seat of the unit; units count from stripe 0 on.
pub(super) fn unit_at(column: usize, unit: u64) -> (u64, usize) {
    let (turn, within) = (unit / UNITS, unit % UNITS);
    let doubled = parity_stripe(column);
    let stripe = turn * TURNS + within - u64::from(within > doubled);
    let seat = if within == doubled + 1 { WIDTH + column / SIDE } else { column };
    (stripe, seat)
}

/// The most units that a column holds in so many stripes.
pub(super) fn most_units(stripes: u64) -> u64 {
    stripes.saturating_add(stripes.div_ceil(TURNS))
}

/// Where the node of an arm is, from the centre of its plus.
const ARMS: [(i64, i64); SIDE] = [(0, 0), (1, 0), (0, 1), (0, -1), (-1, 0)];

/// Where the centre of a plus is, from that of plus 0 of its cell.
const CENTRES: [(i64, i64); SIDE] = [(0, 0), (1, 2), (2, -1), (-2, 1), (-1, -2)];

/// The cell, counted by rows of cells, and the column in it, of a node of a torus whose sides are multiples of
/// [`SIDE`]. Node `(x, y)` is arm `(x + 2y) mod 5` of the plus that it lies in, arm 0 is its centre, and the centre's
/// `x mod 5` is the plus's number. A cell is the five pluses around `(5u, 5v)`, so that all groups are close together.
pub(super) fn on_torus((x, y): (u32, u32), (width, height): (u32, u32)) -> (usize, usize) {
    let side = SIDE as i64;
    let (x, y) = (i64::from(x), i64::from(y));
    let arm = (x + 2 * y).rem_euclid(side) as usize;
    let centre = (x - ARMS[arm].0, y - ARMS[arm].1);
    let plus = centre.0.rem_euclid(side) as usize;
    let corner = |at: i64, from: i64, sides: u32| (at - from).rem_euclid(i64::from(sides)) / side;
    let (u, v) =
        (corner(centre.0, CENTRES[plus].0, width), corner(centre.1, CENTRES[plus].1, height));
    ((v * i64::from(width) / side + u) as usize, plus * SIDE + arm)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Each cell has each column once, and the nodes of a first group are a centre and its four neighbours.
    #[test]
    fn a_torus_is_cells_of_all_columns() {
        for sides in [(5, 5), (10, 5), (15, 10)] {
            let mut at: BTreeMap<(usize, usize), (u32, u32)> = BTreeMap::new();
            for (x, y) in (0..sides.0).flat_map(|x| (0..sides.1).map(move |y| (x, y))) {
                let earlier = at.insert(on_torus((x, y), sides), (x, y));
                assert_eq!(earlier, None, "({x}, {y}) of {sides:?}");
            }
            let cells = (sides.0 * sides.1) as usize / WIDTH;
            assert!(at.keys().all(|(cell, column)| *cell < cells && *column < WIDTH));
            let steps = |a: u32, b: u32, side: u32| a.abs_diff(b).min(side - a.abs_diff(b));
            for (cell, plus) in (0..cells).flat_map(|c| (0..SIDE).map(move |p| (c, p))) {
                let node = |arm| at[&(cell, plus * SIDE + arm)];
                let centre: (u32, u32) = node(0);
                for arm in 1..SIDE {
                    let (x, y) = node(arm);
                    let far = steps(x, centre.0, sides.0) + steps(y, centre.1, sides.1);
                    assert_eq!(far, 1, "arm {arm} of plus {plus} of cell {cell}");
                }
            }
        }
    }
}
