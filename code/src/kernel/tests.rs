//! Every kernel that this CPU can run, against plain loops over bytes.

use super::*;
use crate::gf;
use proptest::prelude::*;

/// Offsets into larger buffers, so that units begin at odd addresses.
const MOST_OFFSET: usize = 67;

/// Bytes that look random, and differ by `seed`.
fn bytes(len: usize, seed: usize) -> Vec<u8> {
    let mut state = (seed as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    std::iter::repeat_with(next).take(len).collect()
}

/// The sum that all loops are special cases of.
fn plain_sum(dst: &[u8], terms: &[(u8, &[u8])], keep: bool) -> Vec<u8> {
    let byte = |i: usize| {
        let start = if keep { dst[i] } else { 0 };
        terms.iter().fold(start, |sum, (c, source)| sum ^ gf::mul(*c, source[i]))
    };
    (0..dst.len()).map(byte).collect()
}

/// Runs `operation` on a destination at `offset` in a buffer, checks that it
/// left the rest of the buffer alone, and gives back what it wrote.
fn within(dst: &[u8], offset: usize, operation: impl FnOnce(&mut [u8])) -> Vec<u8> {
    const GUARD: u8 = 0xa5;
    let end = offset + dst.len();
    let mut buffer = vec![GUARD; end + MOST_OFFSET];
    buffer[offset..end].copy_from_slice(dst);
    operation(&mut buffer[offset..end]);
    let outside = buffer[..offset].iter().chain(&buffer[end..]);
    assert!(outside.into_iter().all(|&byte| byte == GUARD));
    buffer[offset..end].to_vec()
}

/// Compares both loops of every kernel with the plain sum, for sources at
/// different offsets.
fn check_all(len: usize, offset: usize, coefficients: &[u8], keep: bool) {
    let old = bytes(len, 999);
    let buffers: Vec<Vec<u8>> =
        (0..coefficients.len()).map(|seed| bytes(MOST_OFFSET + len, seed)).collect();
    let place = |i: usize| (offset * (i + 2)) % MOST_OFFSET;
    let sources: Vec<&[u8]> = (0..buffers.len()).map(|i| &buffers[i][place(i)..][..len]).collect();
    let terms = |factor: &dyn Fn(u8) -> u8| -> Vec<(u8, &[u8])> {
        let factors = coefficients.iter().map(|&c| factor(c));
        factors.zip(sources.iter().copied()).collect()
    };
    let ones = plain_sum(&old, &terms(&|_| 1), keep);
    let terms = terms(&|c| c);
    let sum = plain_sum(&old, &terms, keep);
    for kernel in Kernel::all() {
        let written = within(&old, offset, |dst| kernel.xor(dst, &sources, keep));
        assert_eq!(written, ones, "xor of {}", kernel.name);
        let written = within(&old, offset, |dst| kernel.dot(dst, &terms, keep));
        assert_eq!(written, sum, "dot of {}", kernel.name);
    }
}

proptest! {
    #[test]
    fn kernels_agree_with_plain_loops(
        len in 0..300usize,
        offset in 0..MOST_OFFSET,
        coefficients in prop::collection::vec(any::<u8>(), 0..8),
        keep: bool,
    ) {
        check_all(len, offset, &coefficients, keep);
    }
}

#[test]
fn kernels_agree_for_each_coefficient() {
    for c in 0..=255 {
        check_all(256 + 64 + 32 + 5, 3, &[c], c % 2 == 0);
    }
}

#[test]
fn kernels_agree_around_their_steps_and_for_many_sources() {
    let many: Vec<u8> = (0..40).collect();
    for len in [31, 32, 33, 63, 64, 65, 127, 128, 255, 256, 257, 4095, 4096, 9001] {
        check_all(len, 0, &[1, 2, 0], false);
        check_all(len, 5, &many, true);
    }
}

#[test]
fn portable_kernel_is_the_last_resort() {
    let names: Vec<&str> = Kernel::all().map(|kernel| kernel.name).collect();
    assert_eq!(names.last(), Some(&"portable"));
    assert_eq!(names.first(), Some(&kernel_name()));
}

#[test]
fn public_functions_are_the_sums_they_say() {
    let len = 777;
    let (old, a, b) = (bytes(len, 1), bytes(len, 2), bytes(len, 3));
    let check = |terms: &[(u8, &[u8])], keep, operation: &dyn Fn(&mut [u8])| {
        let mut dst = old.clone();
        operation(&mut dst);
        assert_eq!(dst, plain_sum(&old, terms, keep));
    };
    check(&[(1, &a)], true, &|dst| xor_into(dst, &a));
    check(&[(1, &a), (1, &b)], false, &|dst| xor_sources(dst, &[&a, &b]));
    check(&[], false, &|dst| xor_sources(dst, &[]));
    check(&[(1, &a), (1, &b)], false, &|dst| delta(dst, &a, &b));
    check(&[], false, &|dst| dot(dst, &[]));
    check(&[(7, &a), (1, &b)], false, &|dst| dot(dst, &[(7, &a), (1, &b)]));
    for c in [0, 1, 2, 143] {
        check(&[(c, &a)], false, &|dst| mul_into(dst, &a, c));
        check(&[(c, &a)], true, &|dst| mul_add(dst, &a, c));
    }
}

#[test]
#[should_panic(expected = "length of a source")]
fn a_longer_source_is_refused() {
    xor_into(&mut [0; 3], &[0; 4]);
}

#[test]
#[should_panic(expected = "length of a source")]
fn a_shorter_source_is_refused() {
    dot(&mut [0; 4], &[(1, &[0; 4]), (2, &[0; 3])]);
}
