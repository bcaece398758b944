//! The codes: which coefficients make parity out of data.
//!
//! Parity is on disk for good, so the coefficients of a code must never
//! change: they are part of the format.

use crate::decoder::Decoder;
use crate::error::CodeError;
use crate::gf;
use crate::kernel::Kernel;
use crate::matrix;

/// Units are encoded in blocks of this many bytes, so that the data of a
/// block is still in the cache when the second and later parities read it.
const BLOCK: usize = 4096;

/// An MDS code of some data and parity columns: any as many columns as there
/// are data columns determine all the others.
///
/// The data columns are numbered `0..k`, the parity columns `k..k + m`. The
/// first parity is always the XOR of the data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Code {
    data: usize,
    /// A row of coefficients, one for each data column, for each parity.
    rows: Vec<Vec<u8>>,
}

impl Code {
    /// The most columns, data and parity together, that a code can have.
    pub const MAX_COLUMNS: usize = 32;

    /// The code of `k` data and `m` parity columns.
    ///
    /// - With one data column, each parity is a copy of it: mirrors.
    /// - With one parity, it is the XOR of the data.
    /// - With two, they are P, the XOR, and Q, the sum of `2^i` times data
    ///   column `i`.
    /// - With more, they are the rows of a Cauchy matrix scaled so that the
    ///   first is all ones.
    ///
    /// # Errors
    ///
    /// If `k` is 0 or `k + m` exceeds [`Code::MAX_COLUMNS`].
    pub fn new(k: usize, m: usize) -> Result<Code, CodeError> {
        if k == 0 {
            return Err(CodeError::NoData { parity: m });
        }
        if k.saturating_add(m) > Code::MAX_COLUMNS {
            return Err(CodeError::TooManyColumns { data: k, parity: m });
        }
        let coefficient = match (k, m) {
            (1, _) | (_, 0..=1) => ones,
            (_, 2) => p_and_q,
            _ => scaled_cauchy,
        };
        let row = |parity| (0..k).map(|data| coefficient(parity, data)).collect();
        let rows = (0..m).map(row).collect();
        Ok(Code { data: k, rows })
    }

    /// How many columns hold data: `k`.
    pub fn data_columns(&self) -> usize {
        self.data
    }

    /// How many columns hold parity: `m`.
    pub fn parity_columns(&self) -> usize {
        self.rows.len()
    }

    /// How many columns there are: `k + m`.
    pub fn columns(&self) -> usize {
        self.data + self.rows.len()
    }

    /// What data column `data` is multiplied with in the sum that is parity
    /// `parity`, counted from 0. It is never 0.
    ///
    /// A change of a data unit is carried over to this parity with
    /// [`mul_add`](crate::mul_add), this coefficient and the XOR of the old
    /// and the new contents.
    ///
    /// # Panics
    ///
    /// If there is no such parity or data column.
    pub fn coefficient(&self, parity: usize, data: usize) -> u8 {
        self.rows[parity][data]
    }

    /// Computes all parity units from all data units.
    ///
    /// # Panics
    ///
    /// If there is not one unit for each column, or they differ in length.
    pub fn encode(&self, data: &[&[u8]], parity: &mut [&mut [u8]]) {
        assert_eq!(data.len(), self.data, "data units");
        assert_eq!(parity.len(), self.rows.len(), "parity units");
        let len = data[0].len();
        for unit in data {
            assert_eq!(unit.len(), len, "length of a source");
        }
        for unit in parity.iter() {
            assert_eq!(unit.len(), len, "length of a parity unit");
        }
        let kernel = Kernel::best();
        let mut terms: [(u8, &[u8]); Code::MAX_COLUMNS] = [(0, &[]); Code::MAX_COLUMNS];
        let terms = &mut terms[..self.data];
        for start in (0..len).step_by(BLOCK) {
            let range = start..len.min(start + BLOCK);
            for (row, unit) in self.rows.iter().zip(parity.iter_mut()) {
                for (i, term) in terms.iter_mut().enumerate() {
                    *term = (row[i], &data[i][range.clone()]);
                }
                kernel.dot(&mut unit[range.clone()], terms, false);
            }
        }
    }

    /// The solution for the columns `want` from the available columns `have`:
    /// exactly `k` different ones, in any order.
    ///
    /// A column may be wanted and available at once; it is then copied.
    ///
    /// # Errors
    ///
    /// If there are not exactly `k` columns in `have`, one of them is there
    /// twice, or the code has no such column.
    pub fn decoder(&self, have: &[usize], want: &[usize]) -> Result<Decoder, CodeError> {
        self.check_columns(have, want)?;
        let available = have.iter().map(|&column| self.row(column)).collect();
        let solution = matrix::inverse(available)
            .expect("any k columns of an MDS code determine the data columns");
        let rows =
            want.iter().map(|&column| matrix::row_times(&self.row(column), &solution)).collect();
        Ok(Decoder::new(self.data, rows))
    }

    fn check_columns(&self, have: &[usize], want: &[usize]) -> Result<(), CodeError> {
        let (given, needed, columns) = (have.len(), self.data, self.columns());
        if given != needed {
            return Err(CodeError::WrongHaveCount { given, needed });
        }
        if let Some(&column) = have.iter().chain(want).find(|&&column| column >= columns) {
            return Err(CodeError::NoSuchColumn { column, columns });
        }
        for (i, &column) in have.iter().enumerate() {
            if have[..i].contains(&column) {
                return Err(CodeError::RepeatedColumn { column });
            }
        }
        Ok(())
    }

    /// What `column` is as a sum of the data columns.
    fn row(&self, column: usize) -> Vec<u8> {
        match column.checked_sub(self.data) {
            Some(parity) => self.rows[parity].clone(),
            None => matrix::unit_row(self.data, column),
        }
    }
}

fn ones(_parity: usize, _data: usize) -> u8 {
    1
}

fn p_and_q(parity: usize, data: usize) -> u8 {
    gf::exp(parity * data)
}

/// The entry `1 / (x + y)` of a Cauchy matrix, where `x` is different for
/// each parity, `y` for each data column, and no `x` is a `y`; times that
/// column's `x + y` of the first parity, which makes the first row all ones.
/// To scale a column by other than 0 does not make a square submatrix
/// singular, so the code stays MDS.
///
/// Neither `k` nor `m` is in it, so a code is also a part of each wider one.
fn scaled_cauchy(parity: usize, data: usize) -> u8 {
    let x = parity as u8;
    let y = (Code::MAX_COLUMNS + data) as u8;
    gf::mul(y, gf::inv(x ^ y))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The figures are worked out apart from this crate.
    #[test]
    fn coefficients_are_those_on_disk() {
        let rows = Code::new(4, 3).expect("7 columns").rows;
        assert_eq!(rows, [[1, 1, 1, 1], [236, 109, 80, 56], [115, 163, 217, 198]]);
        let rows = Code::new(4, 2).expect("6 columns").rows;
        assert_eq!(rows, [[1, 1, 1, 1], [1, 2, 4, 8]]);
    }

    #[test]
    fn a_cauchy_code_is_a_part_of_each_wider_one() {
        let wide = Code::new(20, 12).expect("32 columns");
        let narrow = Code::new(7, 3).expect("10 columns");
        for (row, wide_row) in narrow.rows.iter().zip(&wide.rows) {
            assert_eq!(row[..], wide_row[..7]);
        }
    }
}
