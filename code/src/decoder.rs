//! The solved equation that gives back a lost column from available ones.

use crate::code::Code;
use crate::kernel::Kernel;

/// How to compute one column of a code from available ones; made by
/// [`Code::decoder`](crate::Code::decoder).
///
/// It depends only on which columns there are, so one decoder serves all
/// stripes that have lost the same columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoder {
    /// A coefficient for each available column.
    row: Vec<u8>,
}

impl Decoder {
    pub(crate) fn new(row: Vec<u8>) -> Decoder {
        Decoder { row }
    }

    /// What the available columns, lowest first, are multiplied with in the
    /// sum that is the wanted column. A column with the coefficient 0 is not
    /// needed.
    pub fn coefficients(&self) -> &[u8] {
        &self.row
    }

    /// Computes the wanted unit from the available units, lowest column first.
    ///
    /// # Panics
    ///
    /// If there is not one unit for each available column, or those that are
    /// needed differ in length from `out`.
    pub fn decode(&self, have: &[&[u8]], out: &mut [u8]) {
        assert_eq!(have.len(), self.row.len(), "available units");
        let mut terms: [(u8, &[u8]); Code::MAX_COLUMNS] = [(0, &[]); Code::MAX_COLUMNS];
        let needed = self.row.iter().copied().zip(have.iter().copied()).filter(|(c, _)| *c != 0);
        let mut count = 0;
        for (term, pair) in terms.iter_mut().zip(needed) {
            *term = pair;
            count += 1;
        }
        Kernel::best().dot(out, &terms[..count], false);
    }
}
