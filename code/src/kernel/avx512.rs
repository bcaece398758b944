//! The kernel for AVX-512 with byte instructions: products by byte shuffles of
//! nibble tables.

use std::arch::x86_64::*;

use super::Kernel;
use super::tables::NIBBLES;

pub(super) const KERNEL: Kernel = Kernel {
    name: "avx512",
    supported: || is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw"),
    xor,
    dot,
};

pub(super) type Vector = __m512i;
pub(super) const WIDTH: usize = size_of::<Vector>();

vector_loops!("avx512f,avx512bw");

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn zero() -> Vector {
    _mm512_setzero_si512()
}

/// There must be a vector's bytes at `place`; they need no alignment.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) unsafe fn load(place: *const u8) -> Vector {
    // SAFETY: the caller vouches for the bytes.
    unsafe { _mm512_loadu_si512(place.cast()) }
}

/// There must be a vector's bytes at `place`; they need no alignment.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) unsafe fn store(place: *mut u8, vector: Vector) {
    // SAFETY: the caller vouches for the bytes.
    unsafe { _mm512_storeu_si512(place.cast(), vector) }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn add(a: Vector, b: Vector) -> Vector {
    _mm512_xor_si512(a, b)
}

/// The nibble tables of a coefficient, in all quarters of a vector.
struct Factor {
    low: Vector,
    high: Vector,
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn factor(c: u8) -> Factor {
    let nibbles = &NIBBLES[usize::from(c)];
    Factor { low: broadcast(&nibbles.low), high: broadcast(&nibbles.high) }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn broadcast(table: &[u8; 16]) -> Vector {
    // SAFETY: the table has the 16 bytes that are read.
    _mm512_broadcast_i32x4(unsafe { _mm_loadu_si128(table.as_ptr().cast()) })
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn mul_add(sum: Vector, factor: &Factor, vector: Vector) -> Vector {
    let mask = _mm512_set1_epi8(15);
    let low = _mm512_and_si512(vector, mask);
    let high = _mm512_and_si512(_mm512_srli_epi64::<4>(vector), mask);
    let product_low = _mm512_shuffle_epi8(factor.low, low);
    let product_high = _mm512_shuffle_epi8(factor.high, high);
    _mm512_xor_si512(sum, _mm512_xor_si512(product_low, product_high))
}
