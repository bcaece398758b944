//! Where data and parity live.
//!
//! A [`Layout`] says which column of a stripe holds which data unit or parity unit; a
//! [`Geometry`] adds the stripe unit's size and the code, and turns volume offsets into
//! stripes, columns and back. A layout is a value: nothing outside this module asks which
//! RAID level it is.

mod geometry;
mod spec;

pub use geometry::Geometry;
pub use spec::{LayoutError, LayoutSpec};

/// What a column of a stripe holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ColumnRole {
    /// The stripe's data unit of this index, `0..k`.
    Data(usize),
    /// The stripe's parity unit of this index, `0..m`.
    Parity(usize),
}

/// How parity moves from stripe to stripe (Lee 1990 names the four rotations).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Placement {
    /// Parity stays on the last columns (RAID 4).
    Fixed,
    /// Parity moves to the left, data begins after it and wraps (TickerTAIP, Table II).
    LeftSymmetric,
    /// Parity moves to the left, data fills the other columns from the first.
    LeftAsymmetric,
    /// Parity moves to the right, data begins after it and wraps.
    RightSymmetric,
    /// Parity moves to the right, data fills the other columns from the first.
    RightAsymmetric,
}

/// Data and parity columns of a stripe, and how they rotate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    /// Data units in a stripe, k.
    pub data: usize,
    /// Parity units in a stripe, m.
    pub parity: usize,
    /// How parity moves.
    pub placement: Placement,
}

impl Layout {
    /// Columns in a stripe.
    pub fn width(&self) -> usize {
        self.data + self.parity
    }

    /// The column where the stripe's run of parity units begins.
    fn first_parity(&self, stripe: u64) -> usize {
        let n = self.width();
        let turn = (stripe % n as u64) as usize;
        match self.placement {
            Placement::Fixed => self.data,
            Placement::LeftSymmetric | Placement::LeftAsymmetric => n - 1 - turn,
            Placement::RightSymmetric | Placement::RightAsymmetric => turn,
        }
    }

    fn wraps_data(&self) -> bool {
        matches!(self.placement, Placement::LeftSymmetric | Placement::RightSymmetric)
    }

    /// What `column` of `stripe` holds.
    pub fn role(&self, stripe: u64, column: usize) -> ColumnRole {
        let n = self.width();
        assert!(column < n, "column {column} of {n}");
        if self.parity == 0 {
            return ColumnRole::Data(column);
        }
        let after = (column + n - self.first_parity(stripe)) % n;
        if after < self.parity {
            return ColumnRole::Parity(after);
        }
        if self.wraps_data() {
            return ColumnRole::Data(after - self.parity);
        }
        let parity_before =
            (0..self.parity).filter(|&j| self.parity_column(stripe, j) < column).count();
        ColumnRole::Data(column - parity_before)
    }

    /// The column that holds parity unit `j` of `stripe`.
    pub fn parity_column(&self, stripe: u64, j: usize) -> usize {
        debug_assert!(j < self.parity);
        (self.first_parity(stripe) + j) % self.width()
    }

    /// The column that holds data unit `i` of `stripe`.
    pub fn data_column(&self, stripe: u64, i: usize) -> usize {
        debug_assert!(i < self.data);
        if self.parity == 0 {
            return i;
        }
        if self.wraps_data() {
            return (self.first_parity(stripe) + self.parity + i) % self.width();
        }
        (0..self.width())
            .find(|&c| self.role(stripe, c) == ColumnRole::Data(i))
            .expect("every data unit has a column")
    }
}

#[cfg(test)]
mod tests;
