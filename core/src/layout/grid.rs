//! Grids: a parity of each row of data columns, of each vertical (those that stand below one another), and
//! of everything.
//!
//! With its parities a grid is one more each way: `R + 1` rows by `C + 1` verticals, each of them an XOR
//! group. The last row and the last vertical hold the parities, and the corner the parity of everything. Rows and
//! verticals take turns in being the last. So every column holds everything in its turn, and takes part in as
//! many small writes as any other. A column stays in its row and its vertical all the while: all stripes
//! survive the same losses.

use super::ColumnRole;

/// Rows of data columns with a parity of each row, each vertical, and everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Grid {
    /// Rows of data units.
    pub rows: usize,
    /// Data units in a row.
    pub across: usize,
}

impl Grid {
    /// Columns with parity: of rows, of verticals, and of everything.
    pub fn parity(&self) -> usize {
        self.rows + self.across + 1
    }

    /// Rows and verticals, those with parity among them.
    fn sides(&self) -> (u64, u64) {
        (self.rows as u64 + 1, self.across as u64 + 1)
    }

    pub(super) fn width(&self) -> usize {
        (self.rows + 1) * (self.across + 1)
    }

    /// Columns with data.
    pub fn data(&self) -> usize {
        self.rows * self.across
    }

    pub(super) fn turns(&self) -> u64 {
        self.width() as u64
    }

    /// By how many rows and verticals a stripe is moved. Both move with each stripe, and verticals once more when
    /// both have come round at once: so each pair of moves has its turn.
    fn moved(&self, stripe: u64) -> (u64, u64) {
        let (rows, verticals) = self.sides();
        let both = (1..=verticals).map(|n| n * rows).find(|n| n.is_multiple_of(verticals));
        let stripe = stripe % self.turns();
        (stripe % rows, (stripe + stripe / both.expect("the product")) % verticals)
    }

    pub(super) fn role(&self, stripe: u64, column: usize) -> ColumnRole {
        let ((rows, verticals), (down, right)) = (self.sides(), self.moved(stripe));
        let (at_row, at_vertical) = (column as u64 / verticals, column as u64 % verticals);
        let row = ((at_row + down) % rows) as usize;
        let vertical = ((at_vertical + right) % verticals) as usize;
        match (row < self.rows, vertical < self.across) {
            (true, true) => ColumnRole::Data(row * self.across + vertical),
            (true, false) => ColumnRole::Parity(row),
            (false, _) => ColumnRole::Parity(self.rows + vertical),
        }
    }

    /// The column of a stripe that is in this row and vertical of the grid.
    fn column_at(&self, stripe: u64, row: usize, vertical: usize) -> usize {
        let ((rows, verticals), (down, right)) = (self.sides(), self.moved(stripe));
        let at_row = (row as u64 + rows - down) % rows;
        let at_vertical = (vertical as u64 + verticals - right) % verticals;
        (at_row * verticals + at_vertical) as usize
    }

    pub(super) fn parity_column(&self, stripe: u64, j: usize) -> usize {
        match j.checked_sub(self.rows) {
            None => self.column_at(stripe, j, self.across),
            Some(vertical) => self.column_at(stripe, self.rows, vertical),
        }
    }

    pub(super) fn data_column(&self, stripe: u64, i: usize) -> usize {
        self.column_at(stripe, i / self.across, i % self.across)
    }
}
