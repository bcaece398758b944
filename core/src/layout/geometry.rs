//! Offsets to stripes and back, and what the code says of a stripe's columns.

use std::ops::Range;
use std::sync::Arc;

use weft_code::Code;

use super::{ColumnRole, Layout};
use crate::units::ColumnSet;

/// A layout with its stripe unit and its code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Columns and rotation.
    pub layout: Layout,
    /// Bytes in a stripe unit: a multiple of the sector.
    pub unit: u64,
    /// The parity equations.
    pub code: Arc<Code>,
}

impl std::hash::Hash for Geometry {
    /// The code follows from the layout.
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        (self.layout, self.unit).hash(state);
    }
}

impl Geometry {
    /// A geometry with the code that fits the layout.
    ///
    /// # Panics
    /// If the layout has more columns than a code bears; [`super::LayoutSpec`] makes none
    /// such.
    pub fn new(layout: Layout, unit: u64) -> Self {
        assert!(unit > 0 && unit.is_multiple_of(crate::SECTOR), "unit of {unit} bytes");
        let code = layout.code().expect("a layout that its code supports");
        Geometry { layout, unit, code: Arc::new(code) }
    }

    /// Data units in a stripe, k.
    pub fn data_columns(&self) -> usize {
        self.layout.data_columns()
    }

    /// Bytes of a volume in one stripe.
    pub fn stripe_bytes(&self) -> u64 {
        self.unit * self.data_columns() as u64
    }

    /// The number of what `seat` of `stripe` holds in the code: data `0..k`, parity `k..k + m`.
    pub fn code_column(&self, stripe: u64, seat: usize) -> usize {
        match self.layout.role(stripe, seat) {
            ColumnRole::Data(i) => i,
            ColumnRole::Parity(j) => self.data_columns() + j,
        }
    }

    /// The seat of `stripe` that holds number `code_column` of the code.
    pub fn seat_of(&self, stripe: u64, code_column: usize) -> usize {
        match code_column.checked_sub(self.data_columns()) {
            None => self.layout.data_column(stripe, code_column),
            Some(j) => self.layout.parity_seat(stripe, j),
        }
    }

    /// The column of `stripe` that holds number `code_column` of the code.
    pub fn column_of(&self, stripe: u64, code_column: usize) -> usize {
        self.layout.column_at(stripe, self.seat_of(stripe, code_column))
    }

    /// The numbers in the code of what these seats of `stripe` hold.
    pub fn code_columns(&self, stripe: u64, seats: ColumnSet) -> ColumnSet {
        seats.iter().map(|s| self.code_column(stripe, s)).collect()
    }

    /// The seats of these columns of `stripe`.
    pub fn seats_of(&self, stripe: u64, columns: ColumnSet) -> ColumnSet {
        columns.iter().flat_map(|c| self.layout.seats_of(stripe, c)).collect()
    }

    /// The numbers in the code of all that these columns of `stripe` hold.
    pub fn units_of(&self, stripe: u64, columns: ColumnSet) -> ColumnSet {
        self.code_columns(stripe, self.seats_of(stripe, columns))
    }

    /// The columns of `stripe` that these seats belong to.
    pub fn columns_at(&self, stripe: u64, seats: ColumnSet) -> ColumnSet {
        seats.iter().map(|s| self.layout.column_at(stripe, s)).collect()
    }

    /// Whether there is any parity.
    pub fn is_redundant(&self) -> bool {
        self.code.any_losses() > 0
    }

    /// How many columns may be lost, whichever they are.
    pub fn any_losses(&self) -> usize {
        self.layout.any_losses(&self.code)
    }

    /// Whether what is left of `stripe` without these seats determines what they hold.
    pub fn determines(&self, stripe: u64, seats: ColumnSet) -> bool {
        self.code.is_recoverable(self.code_columns(stripe, seats))
    }

    /// Whether what is left of `stripe` without these columns determines them.
    pub fn is_recoverable(&self, stripe: u64, lost: ColumnSet) -> bool {
        lost.len() <= self.any_losses() || self.determines(stripe, self.seats_of(stripe, lost))
    }

    /// Whether that is so of each of these stripes.
    pub fn is_recoverable_in(&self, stripes: Range<u64>, lost: ColumnSet) -> bool {
        if lost.len() <= self.any_losses() {
            return true;
        }
        let end = stripes.end.min(stripes.start + self.layout.loss_turns());
        (stripes.start..end).all(|stripe| self.is_recoverable(stripe, lost))
    }

    /// Whether that is so of every stripe.
    pub fn is_always_recoverable(&self, lost: ColumnSet) -> bool {
        self.is_recoverable_in(0..u64::MAX, lost)
    }

    /// The fewest columns of the code from which column `wanted` of the code can be computed in
    /// `stripe` when the seats of `avoid` cannot be used; those of `near` (of the code) are read
    /// anyway. Where sets tie, stripes take turns, and stripes of which columns hold the same do, too. `None` if
    /// it cannot be computed.
    pub fn helpers(
        &self,
        stripe: u64,
        avoid: ColumnSet,
        wanted: usize,
        near: ColumnSet,
    ) -> Option<ColumnSet> {
        let turns = self.layout.turns();
        let turn = stripe % turns + stripe / turns;
        self.code.helpers(self.code_columns(stripe, avoid), wanted, near, turn)
    }

    /// Columns of the code from which all of `wanted` can be computed; see [`Geometry::helpers`].
    pub fn helpers_of_all(
        &self,
        stripe: u64,
        avoid: ColumnSet,
        wanted: ColumnSet,
        near: ColumnSet,
    ) -> Option<ColumnSet> {
        wanted.iter().try_fold(ColumnSet::EMPTY, |all, wanted| {
            Some(all.union(self.helpers(stripe, avoid, wanted, near.union(all))?))
        })
    }

    /// Where the byte of the volume at `offset` lives: stripe, column, byte in the unit.
    pub fn locate(&self, offset: u64) -> (u64, usize, u64) {
        let stripe = offset / self.stripe_bytes();
        let within = offset % self.stripe_bytes();
        let column = self.layout.data_column(stripe, (within / self.unit) as usize);
        (stripe, column, within % self.unit)
    }
}
