//! The kernel for AVX-512 with the Galois field instructions. Their own
//! multiplication has another polynomial, so products are by the affine
//! transform, which does any linear map of a byte's bits.

use std::arch::x86_64::*;

use super::Kernel;
use super::avx512::{self, Vector, WIDTH, add, load, store, zero};
use super::tables::BIT_MATRICES;

pub(super) const KERNEL: Kernel = Kernel {
    name: "avx512-gfni",
    supported: || (avx512::KERNEL.supported)() && is_x86_feature_detected!("gfni"),
    xor,
    dot,
};

vector_loops!("avx512f,avx512bw,gfni");

/// The bit matrix of a coefficient, in each eight bytes of a vector.
type Factor = Vector;

#[inline]
#[target_feature(enable = "avx512f,avx512bw,gfni")]
fn factor(c: u8) -> Factor {
    _mm512_set1_epi64(BIT_MATRICES[usize::from(c)].cast_signed())
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,gfni")]
fn mul_add(sum: Vector, factor: &Factor, vector: Vector) -> Vector {
    _mm512_xor_si512(sum, _mm512_gf2p8affine_epi64_epi8::<0>(vector, *factor))
}
