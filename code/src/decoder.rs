//! The solved equations that give back lost columns from available ones.

use crate::code::Code;
use crate::kernel::Kernel;

/// How to compute some columns of a code from `k` available ones; made by
/// [`Code::decoder`](crate::Code::decoder).
///
/// It depends only on which columns there are, so one decoder serves all
/// stripes that have lost the same columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoder {
    have: usize,
    /// A row of coefficients, one for each available column, for each wanted.
    rows: Vec<Vec<u8>>,
}

impl Decoder {
    pub(crate) fn new(have: usize, rows: Vec<Vec<u8>>) -> Decoder {
        Decoder { have, rows }
    }

    /// What the available columns, in the order in which they were given as
    /// `have`, are multiplied with in the sum that is the column
    /// `want[want_index]`. A column with the coefficient 0 is not needed.
    ///
    /// # Panics
    ///
    /// If fewer columns were wanted.
    pub fn coefficients(&self, want_index: usize) -> &[u8] {
        &self.rows[want_index]
    }

    /// Computes the unit of column `want[want_index]` from the available
    /// units, given in the order of `have`.
    ///
    /// # Panics
    ///
    /// If fewer columns were wanted, there is not one unit for each available
    /// column, or they differ in length.
    pub fn decode(&self, want_index: usize, have: &[&[u8]], out: &mut [u8]) {
        assert_eq!(have.len(), self.have, "available units");
        let row = self.coefficients(want_index);
        let mut terms: [(u8, &[u8]); Code::MAX_COLUMNS] = [(0, &[]); Code::MAX_COLUMNS];
        let terms = &mut terms[..have.len()];
        for (term, pair) in terms.iter_mut().zip(row.iter().copied().zip(have.iter().copied())) {
            *term = pair;
        }
        Kernel::best().dot(out, terms, false);
    }
}
