//! The loops of the vector kernels, written once as a macro: a function for
//! certain instructions can only inline functions for the same ones, so each
//! kernel needs loops of its own.
//!
//! All sources are read side by side, a few vectors of each at a time, while
//! the sums stay in registers: each source is read and the destination written
//! just once, however many sources there are.

use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

/// How far ahead of a source's next read its memory is asked for. The CPU does
/// so unasked as well, but stops at each page; this makes loops over memory
/// outside the cache a tenth faster, and costs less time than that inside it.
const AHEAD: usize = 512;

/// Asks for the cache line that is [`AHEAD`] of `place`.
#[inline(always)]
pub(super) fn prefetch(place: *const u8) {
    // SAFETY: a prefetch does nothing if there is no memory at its address.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(place.wrapping_add(AHEAD).cast()) }
}

/// Defines the functions `xor` and `dot` of a kernel with the instructions
/// `$features`, from these of the invoking module:
///
/// - `Vector`, and `WIDTH`, its bytes;
/// - `zero()`, `load(*const u8)`, `store(*mut u8, Vector)` and
///   `add(Vector, Vector)`, which is XOR;
/// - `Factor`, what multiplication by a coefficient needs; `factor(u8)`, and
///   `mul_add(Vector, &Factor, Vector)`, the first plus the factor times the
///   last.
macro_rules! vector_loops {
    ($features:literal) => {
        /// How many vectors of each source are read at a time.
        const UNROLL: usize = 4;

        /// A [`Xor`](super::Xor).
        #[target_feature(enable = $features)]
        unsafe fn xor(dst: &mut [u8], sources: &[&[u8]], keep: bool) {
            let mut at = 0;
            while dst.len() - at >= UNROLL * WIDTH {
                // SAFETY: so many bytes are left, in the sources too: the
                // caller sees to it that they are as long.
                unsafe { xor_at::<UNROLL>(dst, sources, keep, at) };
                at += UNROLL * WIDTH;
            }
            while dst.len() - at >= WIDTH {
                // SAFETY: as above.
                unsafe { xor_at::<1>(dst, sources, keep, at) };
                at += WIDTH;
            }
            if at < dst.len() {
                super::portable::xor_from(dst, sources, keep, at);
            }
        }

        /// Does the `N` vectors at `at`; all slices must reach that far.
        #[inline]
        #[target_feature(enable = $features)]
        unsafe fn xor_at<const N: usize>(dst: &mut [u8], sources: &[&[u8]], keep: bool, at: usize) {
            // SAFETY: the caller vouches for the length of all slices.
            unsafe {
                let mut sums = start_at::<N>(dst, keep, at);
                for source in sources {
                    let place = source.as_ptr().add(at);
                    for (i, sum) in sums.iter_mut().enumerate() {
                        *sum = add(*sum, fetch(place.add(i * WIDTH)));
                    }
                }
                finish_at(dst, at, sums);
            }
        }

        /// A [`Dot`](super::Dot).
        #[target_feature(enable = $features)]
        unsafe fn dot(dst: &mut [u8], terms: &[(u8, &[u8])], keep: bool) {
            let mut at = 0;
            while dst.len() - at >= UNROLL * WIDTH {
                // SAFETY: as in `xor`.
                unsafe { dot_at::<UNROLL>(dst, terms, keep, at) };
                at += UNROLL * WIDTH;
            }
            while dst.len() - at >= WIDTH {
                // SAFETY: as in `xor`.
                unsafe { dot_at::<1>(dst, terms, keep, at) };
                at += WIDTH;
            }
            if at < dst.len() {
                super::portable::dot_from(dst, terms, keep, at);
            }
        }

        /// Does the `N` vectors at `at`; all slices must reach that far.
        #[inline]
        #[target_feature(enable = $features)]
        unsafe fn dot_at<const N: usize>(
            dst: &mut [u8],
            terms: &[(u8, &[u8])],
            keep: bool,
            at: usize,
        ) {
            // SAFETY: the caller vouches for the length of all slices.
            unsafe {
                let mut sums = start_at::<N>(dst, keep, at);
                for &(c, source) in terms {
                    let place = source.as_ptr().add(at);
                    match c {
                        0 => {}
                        1 => {
                            for (i, sum) in sums.iter_mut().enumerate() {
                                *sum = add(*sum, fetch(place.add(i * WIDTH)));
                            }
                        }
                        _ => {
                            let factor = factor(c);
                            for (i, sum) in sums.iter_mut().enumerate() {
                                *sum = mul_add(*sum, &factor, fetch(place.add(i * WIDTH)));
                            }
                        }
                    }
                }
                finish_at(dst, at, sums);
            }
        }

        /// Loads a vector of a source and asks for a later one.
        #[inline]
        #[target_feature(enable = $features)]
        unsafe fn fetch(place: *const u8) -> Vector {
            super::vector::prefetch(place);
            // SAFETY: the caller vouches for a vector's bytes at `place`.
            unsafe { load(place) }
        }

        /// What the sums of the `N` vectors at `at`, within `dst`, start from.
        #[inline]
        #[target_feature(enable = $features)]
        unsafe fn start_at<const N: usize>(dst: &[u8], keep: bool, at: usize) -> [Vector; N] {
            let mut sums = [zero(); N];
            if keep {
                for (i, sum) in sums.iter_mut().enumerate() {
                    // SAFETY: the caller vouches for the length.
                    *sum = unsafe { load(dst.as_ptr().add(at + i * WIDTH)) };
                }
            }
            sums
        }

        /// Stores the sums at `at`; they must end within `dst`.
        #[inline]
        #[target_feature(enable = $features)]
        unsafe fn finish_at<const N: usize>(dst: &mut [u8], at: usize, sums: [Vector; N]) {
            for (i, sum) in sums.into_iter().enumerate() {
                // SAFETY: the caller vouches for the length.
                unsafe { store(dst.as_mut_ptr().add(at + i * WIDTH), sum) };
            }
        }
    };
}
