//! Local reconstruction codes (Huang et al., USENIX ATC 2012): groups of data columns with an XOR
//! parity each, and global parities over all.
//!
//! A group stays on its columns, and data and parity rotate inside it; so do the global parities
//! on theirs. If they all took turns, a stripe would survive the loss of as many sets of columns, but
//! each stripe of others, and a volume only those that all its stripes survive. The price is that the
//! columns with global parities take part in every small write; with more disks than columns, extents
//! spread that over all.

use super::ColumnRole;

/// Data columns in groups, each with a parity of its own, and global parities.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Local {
    /// Data units in a stripe, k: a multiple of the groups.
    pub data: usize,
    /// Groups, of one parity each.
    pub groups: usize,
    /// Parities over all data.
    pub globals: usize,
}

impl Local {
    /// Data units in a group.
    fn size(&self) -> usize {
        self.data / self.groups
    }

    /// Columns of a group.
    fn group_width(&self) -> usize {
        self.size() + 1
    }

    /// The first column with a global parity.
    fn first_global(&self) -> usize {
        self.groups * self.group_width()
    }

    pub(super) fn width(&self) -> usize {
        self.data + self.groups + self.globals
    }

    pub(super) fn turns(&self) -> u64 {
        let (group, globals) = (self.group_width() as u64, self.globals.max(1) as u64);
        (1..=globals).map(|n| n * group).find(|n| n.is_multiple_of(globals)).expect("the product")
    }

    /// In a group, the place of its parity: it moves to the left.
    fn parity_place(&self, stripe: u64) -> usize {
        self.size() - (stripe % self.group_width() as u64) as usize
    }

    pub(super) fn role(&self, stripe: u64, column: usize) -> ColumnRole {
        if let Some(global) = column.checked_sub(self.first_global()) {
            let turned = (global as u64 + stripe) % self.globals as u64;
            return ColumnRole::Parity(self.groups + turned as usize);
        }
        let (group, place) = (column / self.group_width(), column % self.group_width());
        let after = (place + self.group_width() - self.parity_place(stripe)) % self.group_width();
        match after.checked_sub(1) {
            None => ColumnRole::Parity(group),
            Some(i) => ColumnRole::Data(group * self.size() + i),
        }
    }

    pub(super) fn parity_column(&self, stripe: u64, j: usize) -> usize {
        match j.checked_sub(self.groups) {
            None => j * self.group_width() + self.parity_place(stripe),
            Some(global) => {
                let back = self.globals as u64 - stripe % self.globals as u64;
                self.first_global() + ((global as u64 + back) % self.globals as u64) as usize
            }
        }
    }

    pub(super) fn data_column(&self, stripe: u64, i: usize) -> usize {
        let (group, n) = (i / self.size(), i % self.size());
        let place = (self.parity_place(stripe) + 1 + n) % self.group_width();
        group * self.group_width() + place
    }
}
