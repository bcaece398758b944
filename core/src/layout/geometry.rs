//! Offsets to stripes and back.

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
        let code = Code::new(layout.data, layout.parity).expect("a layout that a code bears");
        Geometry { layout, unit, code: Arc::new(code) }
    }

    /// Bytes of a volume in one stripe.
    pub fn stripe_bytes(&self) -> u64 {
        self.unit * self.layout.data as u64
    }

    /// The number of `column` of `stripe` in the code: data `0..k`, parity `k..k + m`.
    pub fn code_column(&self, stripe: u64, column: usize) -> usize {
        match self.layout.role(stripe, column) {
            ColumnRole::Data(i) => i,
            ColumnRole::Parity(j) => self.layout.data + j,
        }
    }

    /// The column of `stripe` that is number `code_column` in the code.
    pub fn column_of(&self, stripe: u64, code_column: usize) -> usize {
        if code_column < self.layout.data {
            self.layout.data_column(stripe, code_column)
        } else {
            self.layout.parity_column(stripe, code_column - self.layout.data)
        }
    }

    /// The k columns to decode `stripe` from when those of `avoid` cannot be used: data
    /// first, then parity. `None` if fewer than k are left.
    pub fn sources(&self, stripe: u64, avoid: ColumnSet) -> Option<ColumnSet> {
        let chosen: ColumnSet = (0..self.layout.width())
            .map(|code_column| self.column_of(stripe, code_column))
            .filter(|&c| !avoid.contains(c))
            .take(self.layout.data)
            .collect();
        (chosen.len() == self.layout.data).then_some(chosen)
    }

    /// Where the byte of the volume at `offset` lives: stripe, column, byte in the unit.
    pub fn locate(&self, offset: u64) -> (u64, usize, u64) {
        let stripe = offset / self.stripe_bytes();
        let within = offset % self.stripe_bytes();
        let column = self.layout.data_column(stripe, (within / self.unit) as usize);
        (stripe, column, within % self.unit)
    }
}
