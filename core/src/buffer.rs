//! Bulk data on its way through the core: bytes that are shared and not copied, or a run of
//! zeros that is never spelled out (so that trimming a volume moves no data).

use bytes::Bytes;

/// A run of data.
#[derive(Clone, Debug)]
pub enum Buffer {
    /// Real bytes, shared.
    Bytes(Bytes),
    /// So many zeros.
    Zero(usize),
}

impl Buffer {
    /// Length in bytes.
    pub fn len(&self) -> usize {
        match self {
            Buffer::Bytes(b) => b.len(),
            Buffer::Zero(n) => *n,
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

    /// A shared part of it.
    pub fn slice(&self, lo: usize, hi: usize) -> Buffer {
        assert!(lo <= hi && hi <= self.len());
        match self {
            Buffer::Bytes(b) => Buffer::Bytes(b.slice(lo..hi)),
            Buffer::Zero(_) => Buffer::Zero(hi - lo),
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
        }
    }

    /// Adds `c` times it to `out`, in the code's field.
    pub fn add_to(&self, out: &mut [u8], c: u8) {
        if let Buffer::Bytes(b) = self {
            weft_code::mul_add(out, b, c);
        }
    }

    /// As bytes; zeros are spelled out.
    pub fn to_bytes(&self) -> Bytes {
        match self {
            Buffer::Bytes(b) => b.clone(),
            Buffer::Zero(n) => Bytes::from(vec![0; *n]),
        }
    }

    /// Its CRC-32C.
    pub fn crc(&self) -> u32 {
        match self {
            Buffer::Bytes(b) => crc32c::crc32c(b),
            Buffer::Zero(n) => crc32c::crc32c(&vec![0; *n]),
        }
    }
}

impl std::hash::Hash for Buffer {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.to_bytes().hash(state);
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
        self.len() == other.len() && self.to_bytes() == other.to_bytes()
    }
}
