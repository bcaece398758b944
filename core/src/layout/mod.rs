//! Where data and parity live.
//!
//! A [`Layout`] says which column of a stripe holds which data unit or parity unit, and by
//! which code parity comes of data; a [`Geometry`] adds the stripe unit's size, and turns volume
//! offsets into stripes, columns and back. A layout is a value: nothing outside this module asks
//! which one it is. What may be lost, and what a lost column is read from, the geometry asks of the
//! code; nobody counts parities for it.
//!
//! Each family of layouts is a module: [`Rotating`], [`Local`] and [`Grid`].

mod geometry;
mod grid;
mod local;
mod rotating;
mod spec;
mod survival;

pub use geometry::Geometry;
pub use grid::Grid;
pub use local::Local;
pub use rotating::{Placement, Rotating};
pub use spec::{LayoutError, LayoutSpec};

use weft_code::{Code, CodeError};

/// What a column of a stripe holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ColumnRole {
    /// The stripe's data unit of this index, `0..k`.
    Data(usize),
    /// The stripe's parity unit of this index, `0..m`.
    Parity(usize),
}

/// Which columns of a stripe hold data and parity, and by which equations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Layout {
    /// RAID 0 to 6 and Reed-Solomon codes: see [`Rotating`].
    Rotating(Rotating),
    /// Local reconstruction codes: see [`Local`].
    Local(Local),
    /// Parity of rows, of verticals and of everything: see [`Grid`].
    Grid(Grid),
}

impl Layout {
    /// Columns in a stripe.
    pub fn width(&self) -> usize {
        match self {
            Layout::Rotating(l) => l.data + l.parity,
            Layout::Local(l) => l.width(),
            Layout::Grid(l) => l.width(),
        }
    }

    /// Data units in a stripe, k.
    pub fn data_columns(&self) -> usize {
        match self {
            Layout::Rotating(l) => l.data,
            Layout::Local(l) => l.data,
            Layout::Grid(l) => l.data(),
        }
    }

    /// Units of parity that stand one behind the other on a disk, between units of data.
    pub fn parity_run(&self) -> usize {
        match self {
            Layout::Rotating(l) => l.parity,
            Layout::Local(_) => 1,
            Layout::Grid(_) => 2,
        }
    }

    /// The parity equations.
    ///
    /// # Errors
    ///
    /// If no code is such.
    pub fn code(&self) -> Result<Code, CodeError> {
        match self {
            Layout::Rotating(l) => Code::new(l.data, l.parity),
            Layout::Local(l) => Code::lrc(l.data, l.groups, l.globals),
            Layout::Grid(l) => Code::grid(l.rows, l.across),
        }
    }

    /// After so many stripes every column holds what it held.
    pub fn turns(&self) -> u64 {
        match self {
            Layout::Rotating(l) => l.turns(),
            Layout::Local(l) => l.turns(),
            Layout::Grid(l) => l.turns(),
        }
    }

    /// After so many stripes the same losses are recoverable again. Of an MDS code only their number counts, and
    /// where groups stay on their columns one stripe is like the other.
    pub fn loss_turns(&self) -> u64 {
        match self {
            Layout::Rotating(_) | Layout::Local(_) | Layout::Grid(_) => 1,
        }
    }

    /// What `column` of `stripe` holds.
    pub fn role(&self, stripe: u64, column: usize) -> ColumnRole {
        debug_assert!(column < self.width(), "column {column} of {}", self.width());
        match self {
            Layout::Rotating(l) => l.role(stripe, column),
            Layout::Local(l) => l.role(stripe, column),
            Layout::Grid(l) => l.role(stripe, column),
        }
    }

    /// The column that holds parity unit `j` of `stripe`.
    pub fn parity_column(&self, stripe: u64, j: usize) -> usize {
        match self {
            Layout::Rotating(l) => l.parity_column(stripe, j),
            Layout::Local(l) => l.parity_column(stripe, j),
            Layout::Grid(l) => l.parity_column(stripe, j),
        }
    }

    /// The column that holds data unit `i` of `stripe`.
    pub fn data_column(&self, stripe: u64, i: usize) -> usize {
        match self {
            Layout::Rotating(l) => l.data_column(stripe, i),
            Layout::Local(l) => l.data_column(stripe, i),
            Layout::Grid(l) => l.data_column(stripe, i),
        }
    }
}

#[cfg(test)]
mod tests;
