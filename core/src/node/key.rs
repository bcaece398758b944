//! Keys, by which those who act for a request show an endpoint that they were told of it (TPT-RAID, section 3.2: targets
//! log in to one another, so that no rogue target reads or writes a host's buffers).
//!
//! A key is two tags of `SipHash-2-4` (Aumasson and Bernstein, 2012) over what it is good for, under a secret
//! that a node is given when it is started and tells nobody.

use std::fmt;

/// 128 bits that nobody can guess who has not been told.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key(pub u128);

impl Key {
    /// What follows from a secret for something, by the numbers that describe it.
    pub fn derive(secret: u128, of: &[u64]) -> Key {
        let bytes = |half: u64| -> Vec<u8> {
            std::iter::once(half).chain(of.iter().copied()).flat_map(u64::to_le_bytes).collect()
        };
        let [low, high] = [0, 1].map(|half| u128::from(siphash(secret, &bytes(half))));
        Key(low | high << 64)
    }

    /// Half of it, for what needs no more.
    pub fn half(self) -> u64 {
        self.0 as u64
    }
}

/// It is not to stand in any log.
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key")
    }
}

fn siphash(secret: u128, message: &[u8]) -> u64 {
    let (k0, k1) = (secret as u64, (secret >> 64) as u64);
    let mut v = [
        k0 ^ 0x736f_6d65_7073_6575,
        k1 ^ 0x646f_7261_6e64_6f6d,
        k0 ^ 0x6c79_6765_6e65_7261,
        k1 ^ 0x7465_6462_7974_6573,
    ];
    let words = message.chunks_exact(8);
    let mut last = (message.len() as u64) << 56;
    for (n, byte) in words.remainder().iter().enumerate() {
        last |= u64::from(*byte) << (8 * n);
    }
    let words = words.map(|w| u64::from_le_bytes(w.try_into().expect("eight bytes")));
    for word in words.chain([last]) {
        v[3] ^= word;
        (0..2).for_each(|_| round(&mut v));
        v[0] ^= word;
    }
    v[2] ^= 0xff;
    (0..4).for_each(|_| round(&mut v));
    v[0] ^ v[1] ^ v[2] ^ v[3]
}

fn round(v: &mut [u64; 4]) {
    v[0] = v[0].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(13) ^ v[0];
    v[0] = v[0].rotate_left(32);
    v[2] = v[2].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(16) ^ v[2];
    v[0] = v[0].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(21) ^ v[0];
    v[2] = v[2].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(17) ^ v[2];
    v[2] = v[2].rotate_left(32);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From the paper's appendix A, and from the vectors of the reference implementation.
    #[test]
    fn tags_are_those_of_the_reference() {
        let secret = u128::from_le_bytes(std::array::from_fn(|n| n as u8));
        let message: Vec<u8> = (0..15).collect();
        assert_eq!(siphash(secret, &message), 0xa129_ca61_49be_45e5);
        assert_eq!(siphash(secret, &[]), 0x726f_db47_dd0e_0e31);
    }

    #[test]
    fn keys_differ_with_the_secret_and_with_all_that_they_are_for() {
        let keys = [
            Key::derive(1, &[1, 2]),
            Key::derive(2, &[1, 2]),
            Key::derive(1, &[2, 2]),
            Key::derive(1, &[1, 3]),
            Key::derive(1, &[1]),
        ];
        for (n, key) in keys.iter().enumerate() {
            assert!(keys[..n].iter().all(|other| other != key), "{n}");
            assert_ne!(key.half(), (key.0 >> 64) as u64);
        }
        assert_eq!(format!("{:?}", keys[0]), "Key");
    }
}
