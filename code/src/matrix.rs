//! Square matrices over GF(2^8), for as much as a decoder needs: the inverse.

use crate::gf;

/// A square matrix by rows.
pub(crate) type Matrix = Vec<Vec<u8>>;

/// The inverse of `matrix`, or `None` if it has none.
pub(crate) fn inverse(mut matrix: Matrix) -> Option<Matrix> {
    let size = matrix.len();
    let mut inverse = identity(size);
    for column in 0..size {
        let pivot = (column..size).find(|&row| matrix[row][column] != 0)?;
        matrix.swap(column, pivot);
        inverse.swap(column, pivot);
        let scale = gf::inv(matrix[column][column]);
        scale_row(&mut matrix[column], scale);
        scale_row(&mut inverse[column], scale);
        for row in 0..size {
            let factor = matrix[row][column];
            // Most rows of a decoder's matrix are unit rows, so this is
            // what makes the elimination cheap.
            if row != column && factor != 0 {
                subtract_row(&mut matrix, row, column, factor);
                subtract_row(&mut inverse, row, column, factor);
            }
        }
    }
    Some(inverse)
}

/// The row vector `row` times `matrix`.
pub(crate) fn row_times(row: &[u8], matrix: &Matrix) -> Vec<u8> {
    let mut product = vec![0; matrix.len()];
    for (&factor, line) in row.iter().zip(matrix) {
        for (sum, &value) in product.iter_mut().zip(line) {
            *sum ^= gf::mul(factor, value);
        }
    }
    product
}

/// The row vector that is 1 at `place` and 0 elsewhere.
pub(crate) fn unit_row(size: usize, place: usize) -> Vec<u8> {
    let mut row = vec![0; size];
    row[place] = 1;
    row
}

fn identity(size: usize) -> Matrix {
    (0..size).map(|place| unit_row(size, place)).collect()
}

fn scale_row(row: &mut [u8], scale: u8) {
    for value in row {
        *value = gf::mul(*value, scale);
    }
}

/// Takes `factor` times row `from` away from row `row`, another one.
fn subtract_row(matrix: &mut Matrix, row: usize, from: usize, factor: u8) {
    let [target, source] =
        matrix.get_disjoint_mut([row, from]).expect("two different rows of the matrix");
    for (value, &other) in target.iter_mut().zip(source.iter()) {
        *value ^= gf::mul(factor, other);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inverse_needs_row_swaps() {
        let matrix = vec![vec![0, 1, 0], vec![5, 7, 0], vec![3, 0, 9]];
        let inverse = inverse(matrix.clone()).expect("the rows are independent");
        for (place, row) in matrix.iter().enumerate() {
            assert_eq!(row_times(row, &inverse), unit_row(3, place));
        }
    }

    #[test]
    fn dependent_rows_have_no_inverse() {
        let twice = [3, 5].map(|value| gf::mul(2, value)).to_vec();
        assert_eq!(inverse(vec![vec![3, 5], twice]), None);
        assert_eq!(inverse(vec![vec![0]]), None);
    }
}
