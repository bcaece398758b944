//! The codes: which coefficients make parity out of data.
//!
//! Parity is on disk for good, so the coefficients of a code must never
//! change: they are part of the format.

use crate::columns::ColumnSet;
use crate::error::CodeError;
use crate::gf;
use crate::kernel::Kernel;

/// Units are encoded in blocks of this many bytes, so that the data of a
/// block is still in the cache when the second and later parities read it.
const BLOCK: usize = 4096;

/// Where the points of the data columns of a Cauchy matrix begin. It stands
/// in parity on disks: it stays 32 however many columns codes may have.
const CAUCHY_DATA_POINTS: usize = 32;

/// A set of parity equations over data columns.
///
/// The data columns are numbered `0..k`, the parity columns `k..k + m`.
/// Equation `j` says that parity column `k + j` is the sum of all data
/// columns, each times its coefficient. Where coefficients are not 0 is the
/// equation's *support*. All else follows from these rows: what a change
/// reaches, what may be lost, and what a lost column is computed from (see
/// the module `recovery`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Code {
    data: usize,
    /// A row of coefficients, one for each data column, for each parity.
    pub(crate) rows: Vec<Vec<u8>>,
    /// The data columns with coefficients other than 0, for each parity.
    supports: Vec<ColumnSet>,
    /// The parities with coefficients other than 0, for each data column.
    reached: Vec<ColumnSet>,
    covers_all: bool,
    /// How many columns may be lost, whichever they are.
    any: usize,
}

impl Code {
    /// The most columns, data and parity together, that a code can have.
    pub const MAX_COLUMNS: usize = 32;

    /// The MDS code of `k` data and `m` parity columns: any `k` of them
    /// determine the others.
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
        let coefficient = match (k, m) {
            (1, _) | (_, 0..=1) => ones,
            (_, 2) => p_and_q,
            _ => scaled_cauchy,
        };
        Code::with_rows(k, m, m, coefficient)
    }

    /// The local reconstruction code of `k` data columns in `groups` groups
    /// of as many neighbours: the first `groups` parities are the XOR of a
    /// group each, and the `globals` others cover all data. Global parity
    /// `g` is the sum of `2^((g+1)i)` times data column `i`. Any
    /// `globals + 1` columns may be lost.
    ///
    /// # Errors
    ///
    /// If there are too many columns, fewer than two groups or two data
    /// columns in a group, groups would differ in size, or `globals` exceeds
    /// [`Code::MAX_GLOBALS`].
    pub fn lrc(k: usize, groups: usize, globals: usize) -> Result<Code, CodeError> {
        let uneven = groups < 2 || !k.is_multiple_of(groups) || k / groups < 2;
        if uneven || globals > Code::MAX_GLOBALS {
            return Err(CodeError::Groups { data: k, groups, globals });
        }
        let coefficient = |parity: usize, data: usize| match parity.checked_sub(groups) {
            Some(global) => gf::exp((global + 1) * data),
            None => u8::from(data / (k / groups) == parity),
        };
        Code::with_rows(k, groups + globals, globals + 1, coefficient)
    }

    /// The most global parities of a local reconstruction code. With four,
    /// the powers that are their coefficients would not do.
    pub const MAX_GLOBALS: usize = 3;

    /// The code of a grid of `rows` by `across` data columns: the first `rows`
    /// parities are the XOR of a row each, the next `across` the XOR of those
    /// that stand below one another (a vertical), and the last is the XOR of
    /// all data. So it is that of the rows' parities, and of the verticals',
    /// too. Any three columns may be lost.
    ///
    /// # Errors
    ///
    /// If there are too many columns, or a side is shorter than 2.
    pub fn grid(rows: usize, across: usize) -> Result<Code, CodeError> {
        let k = rows.saturating_mul(across);
        let m = rows.saturating_add(across).saturating_add(1);
        if rows < 2 || across < 2 {
            return Err(CodeError::Sides { rows, across });
        }
        let covers = |parity: usize, data: usize| match parity.checked_sub(rows) {
            None => data / across == parity,
            Some(vertical) => vertical == across || data % across == vertical,
        };
        Code::with_rows(k, m, 3, |parity, data| u8::from(covers(parity, data)))
    }

    /// The code of DR-net (Mimatsu and Yokota, PRDC 2000): five groups of four
    /// data columns. Parity `f` of the first five is the XOR of group `f`.
    /// Parity `5 + g` is the XOR of one column of each group but `g`: of group
    /// `f`, column `(f - g - 1) mod 5`. So two parities cover each data column.
    /// Any two columns may be lost.
    pub fn drnet() -> Code {
        let covers = |parity: usize, data: usize| {
            let (group, column) = (data / 4, data % 4);
            match parity.checked_sub(5) {
                None => group == parity,
                Some(without) => group != without && (group + 4 - without) % 5 == column,
            }
        };
        let rows = Code::with_rows(20, 10, 2, |parity, data| u8::from(covers(parity, data)));
        rows.expect("30 columns")
    }

    fn with_rows(
        k: usize,
        m: usize,
        any: usize,
        coefficient: impl Fn(usize, usize) -> u8,
    ) -> Result<Code, CodeError> {
        if k == 0 {
            return Err(CodeError::NoData { parity: m });
        }
        if k.saturating_add(m) > Code::MAX_COLUMNS {
            return Err(CodeError::TooManyColumns { data: k, parity: m });
        }
        let row = |parity| (0..k).map(|data| coefficient(parity, data)).collect();
        let rows: Vec<Vec<u8>> = (0..m).map(row).collect();
        let support = |row: &Vec<u8>| (0..k).filter(|&data| row[data] != 0).collect();
        let supports: Vec<ColumnSet> = rows.iter().map(support).collect();
        let reaches = |data| (0..m).filter(|&parity| rows[parity][data] != 0).collect();
        let reached = (0..k).map(reaches).collect();
        let covers_all = supports.iter().all(|s| *s == ColumnSet::first(k));
        Ok(Code { data: k, rows, supports, reached, covers_all, any })
    }

    /// How many columns hold data: `k`.
    pub fn data_columns(&self) -> usize {
        self.data
    }

    /// How many columns hold parity: `m`. It is not how many may be lost:
    /// for that ask [`Code::is_recoverable`].
    pub fn parity_columns(&self) -> usize {
        self.rows.len()
    }

    /// Whether these are all parities of it, counted from 0.
    pub fn has_parities(&self, parities: ColumnSet) -> bool {
        ColumnSet::first(self.parity_columns()).covers(parities)
    }

    /// How many columns there are: `k + m`.
    pub fn columns(&self) -> usize {
        self.data + self.rows.len()
    }

    /// What data column `data` is multiplied with in the sum that is parity
    /// `parity`, counted from 0. It is 0 where the parity does not cover it.
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

    /// The data columns that parity `parity`, counted from 0, covers.
    pub fn support(&self, parity: usize) -> ColumnSet {
        self.supports[parity]
    }

    /// Whether every parity covers all data.
    pub fn covers_all(&self) -> bool {
        self.covers_all
    }

    /// The parities, counted from 0, that a change of data column `data`
    /// reaches.
    pub fn parities_of(&self, data: usize) -> ColumnSet {
        self.reached[data]
    }

    /// How many columns may be lost, whichever they are.
    pub fn any_losses(&self) -> usize {
        self.any
    }

    /// Whether any `k` columns determine the others.
    pub fn is_mds(&self) -> bool {
        self.any == self.rows.len()
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
        for start in (0..len).step_by(BLOCK) {
            let range = start..len.min(start + BLOCK);
            for (parity, unit) in parity.iter_mut().enumerate() {
                let covered = self.supports[parity];
                for (term, i) in terms.iter_mut().zip(covered.iter()) {
                    *term = (self.rows[parity][i], &data[i][range.clone()]);
                }
                kernel.dot(&mut unit[range.clone()], &terms[..covered.len()], false);
            }
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
    let y = (CAUCHY_DATA_POINTS + data) as u8;
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
        let rows = Code::lrc(4, 2, 3).expect("9 columns").rows;
        let globals = [[1, 2, 4, 8], [1, 4, 16, 64], [1, 8, 64, 58]];
        assert_eq!(rows[..2], [[1, 1, 0, 0], [0, 0, 1, 1]]);
        assert_eq!(rows[2..], globals);
        let rows = Code::grid(2, 3).expect("12 columns").rows;
        let verticals = [[1, 0, 0, 1, 0, 0], [0, 1, 0, 0, 1, 0], [0, 0, 1, 0, 0, 1]];
        assert_eq!(rows[..2], [[1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1]]);
        assert_eq!(rows[2..5], verticals);
        assert_eq!(rows[5..], [[1; 6]]);
        let code = Code::drnet();
        let supports: Vec<Vec<usize>> = (0..10).map(|j| code.support(j).iter().collect()).collect();
        assert_eq!(supports[..2], [[0, 1, 2, 3], [4, 5, 6, 7]]);
        assert_eq!(supports[5..7], [[4, 9, 14, 19], [3, 8, 13, 18]]);
        assert_eq!(supports[9], [0, 5, 10, 15]);
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
