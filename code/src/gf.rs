//! Arithmetic in GF(2^8) with the polynomial 0x11d, in which 2 generates
//! every non-zero element. Addition is XOR.
//!
//! These are the functions for single elements, with which coefficients are
//! worked out; the loops over units are the kernels.

/// x^8 + x^4 + x^3 + x^2 + 1.
const POLYNOMIAL: u16 = 0x11d;

/// The non-zero elements: the powers of 2 repeat after this many.
const ORDER: usize = 255;

/// Powers of 2, twice over so that the sum of two logarithms is an index.
const EXP: [u8; 2 * ORDER] = exp_table();
const LOG: [u8; 256] = log_table();

const fn exp_table() -> [u8; 2 * ORDER] {
    let mut table = [0; 2 * ORDER];
    let mut power: u16 = 1;
    let mut i = 0;
    while i < table.len() {
        table[i] = power as u8;
        power <<= 1;
        if power & 0x100 != 0 {
            power ^= POLYNOMIAL;
        }
        i += 1;
    }
    table
}

const fn log_table() -> [u8; 256] {
    // Zero has no logarithm; its entry is never read.
    let mut table = [0; 256];
    let mut i = 0;
    while i < ORDER {
        table[EXP[i] as usize] = i as u8;
        i += 1;
    }
    table
}

/// The product of `a` and `b`.
pub const fn mul(a: u8, b: u8) -> u8 {
    if a == 0 || b == 0 {
        return 0;
    }
    EXP[LOG[a as usize] as usize + LOG[b as usize] as usize]
}

/// The element whose product with `a` is 1.
///
/// # Panics
///
/// If `a` is 0, which has no inverse.
pub const fn inv(a: u8) -> u8 {
    assert!(a != 0, "0 has no inverse");
    EXP[ORDER - LOG[a as usize] as usize]
}

/// 2 to the power `i`.
pub const fn exp(i: usize) -> u8 {
    EXP[i % ORDER]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Multiplication by shifting and reducing, without tables.
    fn slow_mul(a: u8, b: u8) -> u8 {
        let mut product = 0u16;
        for bit in (0..8).rev() {
            product <<= 1;
            if product & 0x100 != 0 {
                product ^= POLYNOMIAL;
            }
            if b >> bit & 1 == 1 {
                product ^= u16::from(a);
            }
        }
        product as u8
    }

    #[test]
    fn products_are_those_of_the_polynomial() {
        for a in 0..=255 {
            for b in 0..=255 {
                assert_eq!(mul(a, b), slow_mul(a, b), "{a} * {b}");
            }
        }
    }

    #[test]
    fn multiplication_commutes_associates_and_distributes() {
        for a in 0..=255 {
            for b in 0..=255 {
                assert_eq!(mul(a, b), mul(b, a));
                for c in [0, 1, 2, 3, 29, 128, 142, 255] {
                    assert_eq!(mul(mul(a, b), c), mul(a, mul(b, c)));
                    assert_eq!(mul(a, b ^ c), mul(a, b) ^ mul(a, c));
                }
            }
        }
    }

    #[test]
    fn one_is_neutral_and_inverses_invert() {
        for a in 0..=255 {
            assert_eq!(mul(a, 1), a);
            assert_eq!(mul(a, 0), 0);
            if a != 0 {
                assert_eq!(mul(a, inv(a)), 1);
            }
        }
    }

    #[test]
    #[should_panic(expected = "0 has no inverse")]
    fn zero_has_no_inverse() {
        inv(0);
    }

    #[test]
    fn two_generates_every_element() {
        let mut seen = [false; 256];
        let mut power = 1;
        for i in 0..ORDER {
            assert_eq!(exp(i), power);
            assert!(!std::mem::replace(&mut seen[power as usize], true));
            power = mul(power, 2);
        }
        assert_eq!(exp(ORDER), 1);
        assert!(!seen[0]);
    }
}
