//! Where data and parity live.
//!
//! A [`Layout`] says which column of a stripe holds which data unit or parity unit, and by
//! which code parity comes of data; a [`Geometry`] adds the stripe unit's size, and turns volume
//! offsets into stripes, columns and back. A layout is a value: nothing outside this module asks
//! which one it is. What may be lost, and what a lost column is read from, the geometry asks of the
//! code; nobody counts parities for it.
//!
//! Each family of layouts is a module: [`Rotating`], [`Local`], [`Grid`] and DR-net's.
//!
//! A *column* is a disk's place in a stripe, and what may be lost. What it holds are *units*, each on a *seat*: seat
//! `c` is that of column `c`'s unit. In some layouts and stripes a column holds two; the second has a seat
//! behind those of all columns. Whatever is about a disk goes by column, and whatever is about content by seat.

mod drnet;
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

/// What a seat of a stripe holds.
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
    /// DR-net's two groups.
    DrNet,
}

impl Layout {
    /// Columns in a stripe.
    pub fn width(&self) -> usize {
        match self {
            Layout::Rotating(l) => l.data + l.parity,
            Layout::Local(l) => l.width(),
            Layout::Grid(l) => l.width(),
            Layout::DrNet => drnet::WIDTH,
        }
    }

    /// Units of a stripe, each with a seat: those of the columns come first.
    pub fn seats(&self) -> usize {
        match self {
            Layout::DrNet => drnet::SEATS,
            Layout::Rotating(_) | Layout::Local(_) | Layout::Grid(_) => self.width(),
        }
    }

    /// The column that a seat of `stripe` belongs to.
    pub fn column_at(&self, stripe: u64, seat: usize) -> usize {
        match self {
            Layout::DrNet => drnet::column_at(stripe, seat),
            Layout::Rotating(_) | Layout::Local(_) | Layout::Grid(_) => seat,
        }
    }

    /// The seats of `column` in `stripe`, in the order of its disk.
    pub fn seats_of(&self, stripe: u64, column: usize) -> impl Iterator<Item = usize> + use<> {
        let second = match self {
            Layout::DrNet => drnet::second_seat(stripe, column),
            Layout::Rotating(_) | Layout::Local(_) | Layout::Grid(_) => None,
        };
        std::iter::once(column).chain(second)
    }

    /// Units that `column` holds in the stripes before this one.
    pub fn units_before(&self, stripe: u64, column: usize) -> u64 {
        match self {
            Layout::DrNet => drnet::units_before(stripe, column),
            Layout::Rotating(_) | Layout::Local(_) | Layout::Grid(_) => stripe,
        }
    }

    /// Units that stand before that of `seat` on its column's disk, from stripe 0 on.
    pub fn units_before_seat(&self, stripe: u64, seat: usize) -> u64 {
        let column = self.column_at(stripe, seat);
        self.units_before(stripe, column) + u64::from(seat != column)
    }

    /// The stripe and the seat of a unit of `column`; its units count from stripe 0 on.
    pub fn unit_at(&self, column: usize, unit: u64) -> (u64, usize) {
        match self {
            Layout::DrNet => drnet::unit_at(column, unit),
            Layout::Rotating(_) | Layout::Local(_) | Layout::Grid(_) => (unit, column),
        }
    }

    /// The most units that a column holds in so many stripes.
    pub fn most_units(&self, stripes: u64) -> u64 {
        match self {
            Layout::DrNet => drnet::most_units(stripes),
            Layout::Rotating(_) | Layout::Local(_) | Layout::Grid(_) => stripes,
        }
    }

    /// Data units in a stripe, k.
    pub fn data_columns(&self) -> usize {
        match self {
            Layout::Rotating(l) => l.data,
            Layout::Local(l) => l.data,
            Layout::Grid(l) => l.data(),
            Layout::DrNet => drnet::DATA,
        }
    }

    /// Units of parity that stand one behind the other on a disk, between units of data.
    pub fn parity_run(&self) -> usize {
        match self {
            Layout::Rotating(l) => l.parity,
            Layout::Local(_) => 1,
            Layout::Grid(_) | Layout::DrNet => 2,
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
            Layout::DrNet => Ok(Code::drnet()),
        }
    }

    /// After so many stripes every column holds what it held.
    pub fn turns(&self) -> u64 {
        match self {
            Layout::Rotating(l) => l.turns(),
            Layout::Local(l) => l.turns(),
            Layout::Grid(l) => l.turns(),
            Layout::DrNet => drnet::TURNS,
        }
    }

    /// After so many stripes the same losses are recoverable again. Of an MDS code only their number counts, and
    /// where groups stay on their columns one stripe is like the other.
    pub fn loss_turns(&self) -> u64 {
        match self {
            Layout::Rotating(_) | Layout::Local(_) | Layout::Grid(_) => 1,
            Layout::DrNet => drnet::TURNS,
        }
    }

    /// Nodes along a side of a cell, if the layout is made for a torus: cells of as many by as many.
    pub fn torus_cell(&self) -> Option<u32> {
        match self {
            Layout::DrNet => Some(drnet::TURNS as u32),
            Layout::Rotating(_) | Layout::Local(_) | Layout::Grid(_) => None,
        }
    }

    /// The cell of a torus with these sides, and the column in it, of the node at a position; if it is made for one.
    pub fn on_torus(&self, at: (u32, u32), sides: (u32, u32)) -> Option<(usize, usize)> {
        match self {
            Layout::DrNet => Some(drnet::on_torus(at, sides)),
            Layout::Rotating(_) | Layout::Local(_) | Layout::Grid(_) => None,
        }
    }

    /// How many columns may be lost, whichever they are.
    pub fn any_losses(&self, code: &Code) -> usize {
        match self {
            Layout::Rotating(_) | Layout::Local(_) | Layout::Grid(_) => code.any_losses(),
            Layout::DrNet => drnet::ANY_LOSSES,
        }
    }

    /// What `seat` of `stripe` holds.
    pub fn role(&self, stripe: u64, seat: usize) -> ColumnRole {
        debug_assert!(seat < self.seats(), "seat {seat} of {}", self.seats());
        match self {
            Layout::Rotating(l) => l.role(stripe, seat),
            Layout::Local(l) => l.role(stripe, seat),
            Layout::Grid(l) => l.role(stripe, seat),
            Layout::DrNet => drnet::role(stripe, seat),
        }
    }

    /// The seat that holds parity unit `j` of `stripe`.
    pub fn parity_seat(&self, stripe: u64, j: usize) -> usize {
        match self {
            Layout::Rotating(l) => l.parity_column(stripe, j),
            Layout::Local(l) => l.parity_column(stripe, j),
            Layout::Grid(l) => l.parity_column(stripe, j),
            Layout::DrNet => drnet::parity_seat(stripe, j),
        }
    }

    /// The column that holds parity unit `j` of `stripe`.
    pub fn parity_column(&self, stripe: u64, j: usize) -> usize {
        self.column_at(stripe, self.parity_seat(stripe, j))
    }

    /// The column that holds data unit `i` of `stripe`, and its seat: no column holds more beside data.
    pub fn data_column(&self, stripe: u64, i: usize) -> usize {
        match self {
            Layout::Rotating(l) => l.data_column(stripe, i),
            Layout::Local(l) => l.data_column(stripe, i),
            Layout::Grid(l) => l.data_column(stripe, i),
            Layout::DrNet => drnet::data_column(stripe, i),
        }
    }
}

#[cfg(test)]
mod tests;
