//! Fingerprints of states: 64 bits, the same in every run and on every machine.

use std::hash::{BuildHasher, Hash, Hasher};

/// A hasher that folds the 128-bit product of what came and a constant, as wyhash does (Wang Yi,
/// Diep, "wyhash", 2019). Not meant for keys that an enemy chooses.
#[derive(Clone, Copy)]
pub(super) struct Mixer(u64);

const SEED: u64 = 0xa076_1d64_78bd_642f;
const FACTOR: u64 = 0xe703_7ed1_a0b4_28db;

impl Mixer {
    fn mix(&mut self, value: u64) {
        let product = u128::from(self.0 ^ value) * u128::from(FACTOR);
        self.0 = (product as u64) ^ (product >> 64) as u64 ^ self.0.rotate_left(23);
    }
}

impl Hasher for Mixer {
    fn write(&mut self, bytes: &[u8]) {
        let mut words = bytes.chunks_exact(8);
        for word in &mut words {
            self.mix(u64::from_le_bytes(word.try_into().expect("8 bytes")));
        }
        let mut last = [0; 8];
        last[..words.remainder().len()].copy_from_slice(words.remainder());
        self.mix(u64::from_le_bytes(last) ^ (bytes.len() as u64) << 56);
    }

    fn write_u8(&mut self, n: u8) {
        self.mix(n.into());
    }

    fn write_u16(&mut self, n: u16) {
        self.mix(n.into());
    }

    fn write_u32(&mut self, n: u32) {
        self.mix(n.into());
    }

    fn write_u64(&mut self, n: u64) {
        self.mix(n);
    }

    fn write_usize(&mut self, n: usize) {
        self.mix(n as u64);
    }

    fn finish(&self) -> u64 {
        let mut last = *self;
        last.mix(SEED);
        last.0
    }
}

/// The fingerprint of a value.
pub(super) fn print(of: &(impl Hash + ?Sized)) -> u64 {
    let mut mixer = Mixer(SEED);
    of.hash(&mut mixer);
    mixer.finish()
}

/// For sets of fingerprints: they need no more hashing.
#[derive(Clone, Copy, Default)]
pub(super) struct AsItIs(u64);

impl Hasher for AsItIs {
    fn write(&mut self, _: &[u8]) {
        unreachable!("only fingerprints");
    }

    fn write_u64(&mut self, n: u64) {
        self.0 = n;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl BuildHasher for AsItIs {
    type Hasher = AsItIs;

    fn build_hasher(&self) -> AsItIs {
        AsItIs(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_has_another_fingerprint() {
        let all = [
            print(&[0u8; 8][..]),
            print(&[0u8; 7][..]),
            print(&[0u8; 0][..]),
            print(&(1u8, 2u8)),
            print(&(2u8, 1u8)),
            print(&vec![1u64, 2]),
            print(&vec![2u64, 1]),
        ];
        for (n, a) in all.iter().enumerate() {
            assert!(all[..n].iter().all(|b| a != b), "{n}");
        }
        assert_eq!(print(&[3u8; 100][..]), print(&[3u8; 100][..]));
    }
}
