//! Fields to bytes and back: the one pair of [`Writer`] and [`Reader`] that the disk format, the members' log, the wire,
//! NBD and the native protocol are written with.
//!
//! A reader believes nothing. Every read is bounded by the available bytes, a count is refused before anything is
//! allocated for it, and no input makes it panic: it ends with a [`BytesError`] that gives the reason. What a value
//! must be beyond its width, the format that reads it says, with
//! [`at_most`] or an error of its own.
//!
//! Numbers are [`Little`]-endian, or [`Big`]-endian where a protocol says so. The order is part of the type, so that no
//! format mixes them.

#[cfg(feature = "checksum")]
pub mod checksum;
pub mod escape;
pub mod fixture;
#[cfg(feature = "memory")]
pub mod memory;
pub mod text;

use std::marker::PhantomData;

/// Why bytes are not what they should be.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum BytesError {
    /// They end too early.
    #[error("it ends in the middle of a field")]
    Truncated,
    /// More bytes than the fields take.
    #[error("{0} bytes follow its end")]
    Trailing(usize),
    /// Not the bytes that a format begins with.
    #[error("it does not begin as {0} does")]
    Magic(&'static str),
    /// An unknown variant.
    #[error("there is no {what} with the number {value}")]
    Unknown {
        /// Of what.
        what: &'static str,
        /// The number.
        value: u8,
    },
    /// A value that cannot be.
    #[error("{what} is out of bounds: {value}")]
    Bounds {
        /// Which.
        what: &'static str,
        /// The value.
        value: u64,
    },
    /// A text that is not UTF-8.
    #[error("a text is not UTF-8")]
    Text,
    /// Values that each can be, and not together.
    #[error("{0}")]
    Content(&'static str),
}

/// What reading a field comes to.
pub type Read<T> = Result<T, BytesError>;

/// Checks that `value` is at most `max`.
pub fn at_most(what: &'static str, value: u64, max: u64) -> Read<()> {
    if value > max { Err(BytesError::Bounds { what, value }) } else { Ok(()) }
}

/// Checks what must hold between values that have been read; `wrong` says what does not.
pub fn ensure(holds: bool, wrong: &'static str) -> Read<()> {
    if holds { Ok(()) } else { Err(BytesError::Content(wrong)) }
}

/// In which order the bytes of a number stand.
pub trait Order {
    /// Whether the highest comes first.
    const BIG: bool;
}

/// The lowest byte first.
#[derive(Clone, Copy, Debug, Default)]
pub struct Little;

/// The highest byte first.
#[derive(Clone, Copy, Debug, Default)]
pub struct Big;

impl Order for Little {
    const BIG: bool = false;
}

impl Order for Big {
    const BIG: bool = true;
}

/// Fields, appended.
#[derive(Clone, Debug, Default)]
pub struct Writer<O: Order = Little> {
    bytes: Vec<u8>,
    order: PhantomData<O>,
}

/// Fields, taken in turn.
#[derive(Clone, Debug)]
pub struct Reader<'a, O: Order = Little> {
    rest: &'a [u8],
    order: PhantomData<O>,
}

macro_rules! numbers {
    ($($name:ident: $what:literal),*) => {
        impl<O: Order> Writer<O> {$(
            #[doc = $what]
            pub fn $name(&mut self, v: $name) {
                self.raw(&if O::BIG { v.to_be_bytes() } else { v.to_le_bytes() });
            }
        )*}
        impl<O: Order> Reader<'_, O> {$(
            #[doc = $what]
            pub fn $name(&mut self) -> Read<$name> {
                self.array().map(if O::BIG { $name::from_be_bytes } else { $name::from_le_bytes })
            }
        )*}
    };
}
numbers!(u8: "A byte.", u16: "Two bytes.", u32: "Four bytes.", u64: "Eight bytes.", u128: "Sixteen bytes.");

impl<O: Order> Writer<O> {
    /// A writer that goes on behind these bytes.
    pub fn behind(bytes: impl Into<Vec<u8>>) -> Writer<O> {
        Writer { bytes: bytes.into(), order: PhantomData }
    }

    /// A writer that reserves memory for this many bytes.
    pub fn with_room(bytes: usize) -> Writer<O> {
        Writer::behind(Vec::with_capacity(bytes))
    }

    /// Bytes as they are.
    pub fn raw(&mut self, v: &[u8]) {
        self.bytes.extend_from_slice(v);
    }

    /// A length (4 bytes) and that many bytes.
    pub fn bytes(&mut self, v: &[u8]) {
        self.u32(u32::try_from(v.len()).expect("less than 4 GiB"));
        self.raw(v);
    }

    /// 0 or 1.
    pub fn bool(&mut self, v: bool) {
        self.u8(u8::from(v));
    }

    /// A count (4 bytes) and what `write` makes of each.
    pub fn list<T>(
        &mut self,
        all: impl ExactSizeIterator<Item = T>,
        mut write: impl FnMut(&mut Writer<O>, T),
    ) {
        self.u32(u32::try_from(all.len()).expect("fewer than 2^32"));
        all.for_each(|one| write(self, one));
    }

    /// 0, or 1 and what `write` writes.
    pub fn option<T>(&mut self, v: Option<T>, write: impl FnOnce(&mut Writer<O>, T)) {
        self.bool(v.is_some());
        if let Some(v) = v {
            write(self, v);
        }
    }

    /// Zeros up to a length in all.
    pub fn pad(&mut self, len: usize) {
        assert!(self.bytes.len() <= len, "{} bytes are to fit {len}", self.bytes.len());
        self.bytes.resize(len, 0);
    }

    /// What has been written.
    pub fn written(&self) -> &[u8] {
        &self.bytes
    }

    /// What has been written.
    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }
}

impl<'a, O: Order> Reader<'a, O> {
    /// A reader of these bytes.
    pub fn new(bytes: &'a [u8]) -> Reader<'a, O> {
        Reader { rest: bytes, order: PhantomData }
    }

    /// How many bytes are left.
    pub fn left(&self) -> usize {
        self.rest.len()
    }

    /// Raw bytes of this number.
    pub fn raw(&mut self, n: usize) -> Read<&'a [u8]> {
        let (head, rest) = self.rest.split_at_checked(n).ok_or(BytesError::Truncated)?;
        self.rest = rest;
        Ok(head)
    }

    /// All that is left, as it is.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    /// Raw bytes of this number.
    pub fn array<const N: usize>(&mut self) -> Read<[u8; N]> {
        let (head, rest) = self.rest.split_first_chunk().ok_or(BytesError::Truncated)?;
        self.rest = rest;
        Ok(*head)
    }

    /// The bytes that `what` begins with.
    pub fn magic(&mut self, magic: &[u8], what: &'static str) -> Read<()> {
        match self.raw(magic.len()) {
            Ok(found) if found == magic => Ok(()),
            _ => Err(BytesError::Magic(what)),
        }
    }

    /// A length (4 bytes) and that many bytes.
    pub fn bytes(&mut self) -> Read<&'a [u8]> {
        let n = self.u32()?;
        self.raw(n as usize)
    }

    /// 0 or 1, nothing else.
    pub fn bool(&mut self) -> Read<bool> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            value => Err(BytesError::Unknown { what: "truth value", value }),
        }
    }

    /// A count (4 bytes) of items that each take `least` bytes at least: one that the rest cannot hold is
    /// refused.
    pub fn count(&mut self, least: usize) -> Read<usize> {
        let count = self.u32()? as usize;
        match count.checked_mul(least) {
            Some(bytes) if bytes <= self.left() => Ok(count),
            _ => Err(BytesError::Truncated),
        }
    }

    /// A count (4 bytes), and that many items, each of `least` bytes at least.
    pub fn list<T>(
        &mut self,
        least: usize,
        mut read: impl FnMut(&mut Reader<'a, O>) -> Read<T>,
    ) -> Read<Vec<T>> {
        (0..self.count(least)?).map(|_| read(self)).collect()
    }

    /// What `read` reads if a truth value before it says that it is there.
    pub fn option<T>(
        &mut self,
        read: impl FnOnce(&mut Reader<'a, O>) -> Read<T>,
    ) -> Read<Option<T>> {
        if self.bool()? { read(self).map(Some) } else { Ok(None) }
    }

    /// UTF-8 of this many bytes.
    pub fn text(&mut self, n: usize) -> Read<&'a str> {
        std::str::from_utf8(self.raw(n)?).map_err(|_| BytesError::Text)
    }

    /// Checks that nothing is left over.
    pub fn end(&self) -> Read<()> {
        match self.left() {
            0 => Ok(()),
            n => Err(BytesError::Trailing(n)),
        }
    }
}

#[cfg(test)]
mod tests;
