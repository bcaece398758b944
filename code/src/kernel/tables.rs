//! What the kernels multiply by, for every coefficient, made at compile time.

use crate::gf;

/// The products of a coefficient with every low and every high half of a
/// byte: the product with a byte is the XOR of two of them. Each half is the
/// table of a byte shuffle.
#[derive(Clone, Copy)]
#[repr(align(16))]
pub(super) struct Nibbles {
    /// The products with 0, 1, … 15.
    pub(super) low: [u8; 16],
    /// The products with 0, 16, … 240.
    pub(super) high: [u8; 16],
}

/// The nibble tables by coefficient.
pub(super) static NIBBLES: [Nibbles; 256] = nibbles();

const fn nibbles() -> [Nibbles; 256] {
    let zero = Nibbles { low: [0; 16], high: [0; 16] };
    let mut tables = [zero; 256];
    let mut c = 0;
    while c < tables.len() {
        let mut i = 0;
        while i < 16 {
            tables[c].low[i] = gf::mul(c as u8, i as u8);
            tables[c].high[i] = gf::mul(c as u8, (i << 4) as u8);
            i += 1;
        }
        c += 1;
    }
    tables
}

/// Multiplication by each coefficient as a matrix of bits, as the GFNI affine
/// instruction takes it: byte `7 - i` is the mask of those bits of the operand
/// whose parity is bit `i` of the product.
#[cfg(any(target_arch = "x86_64", test))]
pub(super) static BIT_MATRICES: [u64; 256] = bit_matrices();

#[cfg(any(target_arch = "x86_64", test))]
const fn bit_matrices() -> [u64; 256] {
    let mut matrices = [0; 256];
    let mut c = 0;
    while c < matrices.len() {
        let mut j = 0;
        while j < 8 {
            let product = gf::mul(c as u8, 1 << j);
            let mut i = 0;
            while i < 8 {
                let bit = (product >> i & 1) as u64;
                matrices[c] |= bit << (8 * (7 - i) + j);
                i += 1;
            }
            j += 1;
        }
        c += 1;
    }
    matrices
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The affine instruction on one byte, by its definition.
    fn affine(matrix: u64, x: u8) -> u8 {
        let rows = matrix.to_le_bytes();
        (0..8).fold(0, |product, i| product | ((rows[7 - i] & x).count_ones() as u8 & 1) << i)
    }

    #[test]
    fn tables_multiply() {
        for c in 0..=255u8 {
            let nibbles = NIBBLES[usize::from(c)];
            for x in 0..=255u8 {
                let product = gf::mul(c, x);
                let (low, high) = (usize::from(x & 15), usize::from(x >> 4));
                assert_eq!(nibbles.low[low] ^ nibbles.high[high], product);
                assert_eq!(affine(BIT_MATRICES[usize::from(c)], x), product);
            }
        }
    }
}
