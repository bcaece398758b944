//! The kernel for AVX2: products by byte shuffles of nibble tables.

use std::arch::x86_64::*;

use super::Kernel;
use super::tables::NIBBLES;

pub(super) const KERNEL: Kernel =
    Kernel { name: "avx2", supported: || is_x86_feature_detected!("avx2"), xor, dot };

type Vector = __m256i;
const WIDTH: usize = size_of::<Vector>();

vector_loops!("avx2");

#[inline]
#[target_feature(enable = "avx2")]
fn zero() -> Vector {
    _mm256_setzero_si256()
}

/// There must be a vector's bytes at `place`; they need no alignment.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn load(place: *const u8) -> Vector {
    // SAFETY: the caller vouches for the bytes.
    unsafe { _mm256_loadu_si256(place.cast()) }
}

/// There must be a vector's bytes at `place`; they need no alignment.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn store(place: *mut u8, vector: Vector) {
    // SAFETY: the caller vouches for the bytes.
    unsafe { _mm256_storeu_si256(place.cast(), vector) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn add(a: Vector, b: Vector) -> Vector {
    _mm256_xor_si256(a, b)
}

/// The nibble tables of a coefficient, in both halves of a vector.
struct Factor {
    low: Vector,
    high: Vector,
}

#[inline]
#[target_feature(enable = "avx2")]
fn factor(c: u8) -> Factor {
    let nibbles = &NIBBLES[usize::from(c)];
    Factor { low: broadcast(&nibbles.low), high: broadcast(&nibbles.high) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn broadcast(table: &[u8; 16]) -> Vector {
    // SAFETY: the table has the 16 bytes that are read.
    _mm256_broadcastsi128_si256(unsafe { _mm_loadu_si128(table.as_ptr().cast()) })
}

#[inline]
#[target_feature(enable = "avx2")]
fn mul_add(sum: Vector, factor: &Factor, vector: Vector) -> Vector {
    let mask = _mm256_set1_epi8(15);
    let low = _mm256_and_si256(vector, mask);
    let high = _mm256_and_si256(_mm256_srli_epi64::<4>(vector), mask);
    let product_low = _mm256_shuffle_epi8(factor.low, low);
    let product_high = _mm256_shuffle_epi8(factor.high, high);
    _mm256_xor_si256(sum, _mm256_xor_si256(product_low, product_high))
}
