//! RAID 0, 1, 4, 5, 6 and k+m: one run of parity columns that moves from stripe to stripe.

use super::ColumnRole;

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

/// Data and parity columns of a stripe, and how they rotate. The code is MDS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rotating {
    /// Data units in a stripe, k.
    pub data: usize,
    /// Parity units in a stripe, m.
    pub parity: usize,
    /// How parity moves.
    pub placement: Placement,
}

impl Rotating {
    fn width(&self) -> usize {
        self.data + self.parity
    }

    pub(super) fn turns(&self) -> u64 {
        match (self.placement, self.parity) {
            (Placement::Fixed, _) | (_, 0) => 1,
            _ => self.width() as u64,
        }
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

    pub(super) fn role(&self, stripe: u64, column: usize) -> ColumnRole {
        let n = self.width();
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

    pub(super) fn parity_column(&self, stripe: u64, j: usize) -> usize {
        debug_assert!(j < self.parity);
        (self.first_parity(stripe) + j) % self.width()
    }

    pub(super) fn data_column(&self, stripe: u64, i: usize) -> usize {
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
