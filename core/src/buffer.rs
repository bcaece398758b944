//! Bulk data on its way through the core: bytes that are shared and not copied, a run of
//! zeros that is never spelled out (so that trimming a volume moves no data), or in simulations of
//! performance only a length (so that they move no data at all).

use bytes::{Bytes, BytesMut};
use weft_bytes::checksum;

/// A run of data.
#[derive(Clone, Debug)]
pub enum Buffer {
    /// Real bytes, shared.
    Bytes(Bytes),
    /// So many zeros.
    Zero(usize),
    /// So many bytes at which nobody will look: whatever is computed of them has only a length
    /// too. Looking at them is a bug, and a panic.
    Length(usize),
}

/// What is said of one who wants bytes of a length.
const NOTHING_THERE: &str = "nobody looks at data that has only a length";

impl Buffer {
    /// Length in bytes.
    pub fn len(&self) -> usize {
        match self {
            Buffer::Bytes(b) => b.len(),
            Buffer::Zero(n) | Buffer::Length(n) => *n,
        }
    }

    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether it is a run of zeros by construction (bytes are not inspected).
    pub fn is_zero(&self) -> bool {
        matches!(self, Buffer::Zero(_))
    }

    /// Whether it has only a length.
    pub fn is_length(&self) -> bool {
        matches!(self, Buffer::Length(_))
    }

    /// A shared part of it.
    pub fn slice(&self, lo: usize, hi: usize) -> Buffer {
        assert!(lo <= hi && hi <= self.len());
        match self {
            Buffer::Bytes(b) => Buffer::Bytes(b.slice(lo..hi)),
            Buffer::Zero(_) => Buffer::Zero(hi - lo),
            Buffer::Length(_) => Buffer::Length(hi - lo),
        }
    }

    /// Copies it over `out`, which has the same length.
    pub fn copy_to(&self, out: &mut [u8]) {
        match self {
            Buffer::Bytes(b) => out.copy_from_slice(b),
            Buffer::Zero(n) => {
                assert_eq!(out.len(), *n);
                out.fill(0);
            }
            Buffer::Length(_) => panic!("{NOTHING_THERE}"),
        }
    }

    /// Adds `c` times it to `out`, in the code's field.
    pub fn add_to(&self, out: &mut [u8], c: u8) {
        match self {
            Buffer::Bytes(b) => weft_code::mul_add(out, b, c),
            Buffer::Zero(_) => {}
            Buffer::Length(_) => panic!("{NOTHING_THERE}"),
        }
    }

    /// As bytes; zeros are spelled out.
    pub fn to_bytes(&self) -> Bytes {
        match self {
            Buffer::Bytes(b) => b.clone(),
            Buffer::Zero(n) => Bytes::from(vec![0; *n]),
            Buffer::Length(_) => panic!("{NOTHING_THERE}"),
        }
    }

    /// The bytes of several, one after the other.
    pub fn join(parts: &[Buffer]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(parts.iter().map(Buffer::len).sum());
        for part in parts {
            match part {
                Buffer::Bytes(b) => bytes.extend_from_slice(b),
                Buffer::Zero(n) => bytes.resize(bytes.len() + n, 0),
                Buffer::Length(_) => panic!("{NOTHING_THERE}"),
            }
        }
        bytes
    }

    /// Several, one after the other, as one. With a length among them there is only a length.
    pub fn joined(parts: &[Buffer]) -> Buffer {
        match parts.iter().any(Buffer::is_length) {
            true => Buffer::Length(parts.iter().map(Buffer::len).sum()),
            false => Buffer::join(parts).into(),
        }
    }

    /// Its bytes, to be changed: where they are if nobody else has them, else as a copy.
    pub fn into_mut(self) -> BytesMut {
        match self {
            Buffer::Bytes(b) => {
                b.try_into_mut().unwrap_or_else(|shared| BytesMut::from(&shared[..]))
            }
            Buffer::Zero(n) => BytesMut::zeroed(n),
            Buffer::Length(_) => panic!("{NOTHING_THERE}"),
        }
    }

    /// Its CRC-32C; 0 of a length, so that one fits any other.
    pub fn crc(&self) -> u32 {
        match self {
            Buffer::Bytes(b) => checksum::crc32c(b),
            Buffer::Zero(n) => checksum::crc32c(&vec![0; *n]),
            Buffer::Length(_) => 0,
        }
    }
}

/// Whether all bytes are zero. Faster than looking at one after the other.
pub(crate) fn are_zeros(bytes: &[u8]) -> bool {
    bytes.chunks(128).all(|chunk| chunk.iter().fold(0, |all, byte| all | byte) == 0)
}

impl std::hash::Hash for Buffer {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        match self {
            Buffer::Length(n) => n.hash(state),
            known => known.to_bytes().hash(state),
        }
    }
}

impl From<Vec<u8>> for Buffer {
    fn from(bytes: Vec<u8>) -> Self {
        Buffer::Bytes(bytes.into())
    }
}

impl From<Bytes> for Buffer {
    fn from(bytes: Bytes) -> Self {
        Buffer::Bytes(bytes)
    }
}

impl PartialEq for Buffer {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Buffer::Length(a), Buffer::Length(b)) => a == b,
            (Buffer::Length(_), _) | (_, Buffer::Length(_)) => false,
            _ => self.len() == other.len() && self.to_bytes() == other.to_bytes(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_is_equal_to_lengths_only_and_any_fits_any() {
        let whole = Buffer::Length(8192);
        assert_eq!(whole.slice(0, 4096), Buffer::Length(4096));
        assert_ne!(Buffer::Length(4), Buffer::Zero(4));
        assert_ne!(Buffer::from(vec![0; 4]), Buffer::Length(4));
        assert_eq!(whole.crc(), Buffer::Length(1).crc());
        assert!(!whole.is_zero(), "what it holds is not known");
    }

    #[test]
    fn several_are_one_after_the_other_and_with_lengths_only_a_length() {
        let (two, zero) = (Buffer::from(vec![1, 2]), Buffer::Zero(1));
        assert_eq!(Buffer::joined(&[two.clone(), zero]), Buffer::from(vec![1, 2, 0]));
        assert_eq!(Buffer::joined(&[two, Buffer::Length(3)]), Buffer::Length(5));
        assert!(Buffer::joined(&[]).is_empty());
    }

    #[test]
    #[should_panic(expected = "only a length")]
    fn nobody_looks_at_a_length() {
        Buffer::Length(4).to_bytes();
    }
}
