//! Sets of columns.

use std::fmt;

/// Some of up to 32 columns, by number.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ColumnSet(pub u32);

impl ColumnSet {
    /// No columns.
    pub const EMPTY: ColumnSet = ColumnSet(0);

    /// Columns `0..n`.
    pub fn first(n: usize) -> Self {
        debug_assert!(n <= 32);
        ColumnSet(if n == 32 { u32::MAX } else { (1 << n) - 1 })
    }

    /// The set of one column.
    pub fn of(column: usize) -> Self {
        ColumnSet(1 << column)
    }

    /// Whether `column` is in the set.
    pub fn contains(self, column: usize) -> bool {
        self.0 >> column & 1 == 1
    }

    /// Adds `column`.
    pub fn insert(&mut self, column: usize) {
        self.0 |= 1 << column;
    }

    /// Takes `column` out.
    pub fn remove(&mut self, column: usize) {
        self.0 &= !(1 << column);
    }

    /// How many columns there are.
    pub fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The columns of either set.
    pub fn union(self, other: Self) -> Self {
        ColumnSet(self.0 | other.0)
    }

    /// The columns of this set that are not in `other`.
    pub fn minus(self, other: Self) -> Self {
        ColumnSet(self.0 & !other.0)
    }

    /// The columns of both sets.
    pub fn intersection(self, other: Self) -> Self {
        ColumnSet(self.0 & other.0)
    }

    /// Whether all columns of `other` are in this set.
    pub fn covers(self, other: Self) -> bool {
        other.minus(self).is_empty()
    }

    /// The columns, lowest first.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            (rest != 0).then(|| {
                let column = rest.trailing_zeros() as usize;
                rest &= rest - 1;
                column
            })
        })
    }
}

impl FromIterator<usize> for ColumnSet {
    fn from_iter<I: IntoIterator<Item = usize>>(columns: I) -> Self {
        let mut set = ColumnSet::EMPTY;
        columns.into_iter().for_each(|c| set.insert(c));
        set
    }
}

impl fmt::Debug for ColumnSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// The numbers, with commas between.
impl fmt::Display for ColumnSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, column) in self.iter().enumerate() {
            write!(f, "{}{column}", if n == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}
