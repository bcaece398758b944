//! The kernel without special instructions; also does what is left over of a
//! unit when the vector kernels have no whole vector any more.

use super::Kernel;
use super::tables::NIBBLES;

pub(super) const KERNEL: Kernel = Kernel { name: "portable", supported: || true, xor, dot };

/// So many bytes are done for all sources in turn, to keep the destination in
/// the first-level cache meanwhile.
const BLOCK: usize = 4096;

fn xor(dst: &mut [u8], sources: &[&[u8]], keep: bool) {
    xor_from(dst, sources, keep, 0);
}

fn dot(dst: &mut [u8], terms: &[(u8, &[u8])], keep: bool) {
    dot_from(dst, terms, keep, 0);
}

/// Does the bytes from `start` on.
pub(super) fn xor_from(dst: &mut [u8], sources: &[&[u8]], keep: bool, start: usize) {
    for_blocks(dst, keep, start, |at, block| {
        for source in sources {
            xor_block(block, &source[at..][..block.len()]);
        }
    });
}

/// Does the bytes from `start` on.
pub(super) fn dot_from(dst: &mut [u8], terms: &[(u8, &[u8])], keep: bool, start: usize) {
    for_blocks(dst, keep, start, |at, block| {
        for (c, source) in terms {
            let source = &source[at..][..block.len()];
            match c {
                0 => {}
                1 => xor_block(block, source),
                _ => mul_add_block(block, source, *c),
            }
        }
    });
}

/// Calls `add` with each block from `start` on and where it begins.
fn for_blocks(dst: &mut [u8], keep: bool, start: usize, mut add: impl FnMut(usize, &mut [u8])) {
    let blocks = (start..).step_by(BLOCK);
    for (at, block) in blocks.zip(dst[start..].chunks_mut(BLOCK)) {
        if !keep {
            block.fill(0);
        }
        add(at, block);
    }
}

fn xor_block(block: &mut [u8], source: &[u8]) {
    for (sum, byte) in block.iter_mut().zip(source) {
        *sum ^= byte;
    }
}

fn mul_add_block(block: &mut [u8], source: &[u8], c: u8) {
    let nibbles = &NIBBLES[usize::from(c)];
    for (sum, byte) in block.iter_mut().zip(source) {
        *sum ^= nibbles.low[usize::from(byte & 15)] ^ nibbles.high[usize::from(byte >> 4)];
    }
}
