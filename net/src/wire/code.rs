//! The machinery of the encoding: a writer, a reader that bounds everything, the trait that
//! each type has, and macros that derive it from a list of fields.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use weft_core::Buffer;

use super::{MAX_BULK, WireError};

/// A type with an encoding.
pub(super) trait Wire: Sized {
    /// Appends it.
    fn put(&self, w: &mut Writer);
    /// Takes it off the front.
    fn take(r: &mut Reader<'_>) -> Result<Self, WireError>;
}

/// A message that is being encoded.
pub(super) struct Writer {
    head: Vec<u8>,
    bulk: Vec<Bytes>,
}

impl Writer {
    pub fn new(head: Vec<u8>) -> Writer {
        Writer { head, bulk: Vec::new() }
    }

    pub fn bytes(&mut self, bytes: &[u8]) {
        self.head.extend_from_slice(bytes);
    }

    /// The head and the bulk data.
    pub fn finish(self) -> (Vec<u8>, Vec<Bytes>) {
        (self.head, self.bulk)
    }
}

/// A message that is being decoded.
pub(super) struct Reader<'a> {
    head: &'a [u8],
    bulk: Bytes,
    /// How much bulk data the rest of the message may have.
    allowed: usize,
}

impl<'a> Reader<'a> {
    pub fn new(head: &'a [u8], bulk: Bytes) -> Reader<'a> {
        Reader { head, bulk, allowed: MAX_BULK }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let (first, rest) = self.head.split_first_chunk().ok_or(WireError::Truncated)?;
        self.head = rest;
        Ok(*first)
    }

    pub fn bytes(&mut self, len: usize) -> Result<&'a [u8], WireError> {
        let (first, rest) = self.head.split_at_checked(len).ok_or(WireError::Truncated)?;
        self.head = rest;
        Ok(first)
    }

    /// A count of elements, of which each takes a byte at least.
    pub fn count(&mut self) -> Result<usize, WireError> {
        let count = u32::take(self)? as usize;
        if count > self.head.len() { Err(WireError::Truncated) } else { Ok(count) }
    }

    fn buffer_len(&mut self) -> Result<usize, WireError> {
        let len = u32::take(self)? as usize;
        let bounds = WireError::Bounds { what: "a length of data", value: len as u64 };
        self.allowed = self.allowed.checked_sub(len).ok_or(bounds)?;
        Ok(len)
    }

    /// Checks that nothing is left over.
    pub fn finish(self) -> Result<(), WireError> {
        match self.head.len() + self.bulk.len() {
            0 => Ok(()),
            n => Err(WireError::Trailing(n)),
        }
    }
}

/// Checks that `value` is at most `max`.
pub(super) fn at_most(what: &'static str, value: u64, max: u64) -> Result<(), WireError> {
    if value > max { Err(WireError::Bounds { what, value }) } else { Ok(()) }
}

macro_rules! wire_number {
    ($($number:ty),*) => {$(
        impl Wire for $number {
            fn put(&self, w: &mut Writer) {
                w.bytes(&self.to_le_bytes());
            }
            fn take(r: &mut Reader<'_>) -> Result<Self, WireError> {
                r.array().map(<$number>::from_le_bytes)
            }
        }
    )*};
}
wire_number!(u8, u16, u32, u64);

/// As four bytes; what does not fit becomes a number that is out of every bound.
impl Wire for usize {
    fn put(&self, w: &mut Writer) {
        u32::try_from(*self).unwrap_or(u32::MAX).put(w);
    }
    fn take(r: &mut Reader<'_>) -> Result<Self, WireError> {
        u32::take(r).map(|n| n as usize)
    }
}

impl Wire for bool {
    fn put(&self, w: &mut Writer) {
        u8::from(*self).put(w);
    }
    fn take(r: &mut Reader<'_>) -> Result<Self, WireError> {
        match u8::take(r)? {
            0 => Ok(false),
            1 => Ok(true),
            value => Err(WireError::Unknown { what: "truth value", value }),
        }
    }
}

impl Wire for () {
    fn put(&self, _: &mut Writer) {}
    fn take(_: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(())
    }
}

/// Texts of up to 65,535 bytes; the core has names of less than 256.
impl Wire for String {
    fn put(&self, w: &mut Writer) {
        let len = self.floor_char_boundary(usize::from(u16::MAX));
        (len as u16).put(w);
        w.bytes(&self.as_bytes()[..len]);
    }
    fn take(r: &mut Reader<'_>) -> Result<Self, WireError> {
        let len = u16::take(r)?;
        let text = std::str::from_utf8(r.bytes(len.into())?).map_err(|_| WireError::Text)?;
        Ok(text.to_string())
    }
}

impl Wire for Buffer {
    fn put(&self, w: &mut Writer) {
        assert!(!self.is_length(), "only simulations have lengths");
        self.is_zero().put(w);
        self.len().put(w);
        if let Buffer::Bytes(bytes) = self
            && !bytes.is_empty()
        {
            w.bulk.push(bytes.clone());
        }
    }
    fn take(r: &mut Reader<'_>) -> Result<Self, WireError> {
        let zero = bool::take(r)?;
        let len = r.buffer_len()?;
        if zero {
            return Ok(Buffer::Zero(len));
        }
        if len > r.bulk.len() {
            return Err(WireError::Truncated);
        }
        Ok(Buffer::Bytes(r.bulk.split_to(len)))
    }
}

impl<T: Wire> Wire for Arc<T> {
    fn put(&self, w: &mut Writer) {
        T::put(self, w);
    }
    fn take(r: &mut Reader<'_>) -> Result<Self, WireError> {
        T::take(r).map(Arc::new)
    }
}

impl<T: Wire> Wire for Option<T> {
    fn put(&self, w: &mut Writer) {
        self.is_some().put(w);
        if let Some(value) = self {
            value.put(w);
        }
    }
    fn take(r: &mut Reader<'_>) -> Result<Self, WireError> {
        if bool::take(r)? { T::take(r).map(Some) } else { Ok(None) }
    }
}

impl<T: Wire, E: Wire> Wire for Result<T, E> {
    fn put(&self, w: &mut Writer) {
        self.is_ok().put(w);
        match self {
            Ok(value) => value.put(w),
            Err(value) => value.put(w),
        }
    }
    fn take(r: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(if bool::take(r)? { Ok(T::take(r)?) } else { Err(E::take(r)?) })
    }
}

impl<A: Wire, B: Wire> Wire for (A, B) {
    fn put(&self, w: &mut Writer) {
        self.0.put(w);
        self.1.put(w);
    }
    fn take(r: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok((A::take(r)?, B::take(r)?))
    }
}

impl<A: Wire, B: Wire, C: Wire> Wire for (A, B, C) {
    fn put(&self, w: &mut Writer) {
        self.0.put(w);
        self.1.put(w);
        self.2.put(w);
    }
    fn take(r: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok((A::take(r)?, B::take(r)?, C::take(r)?))
    }
}

impl<T: Wire> Wire for Vec<T> {
    fn put(&self, w: &mut Writer) {
        self.len().put(w);
        self.iter().for_each(|value| value.put(w));
    }
    fn take(r: &mut Reader<'_>) -> Result<Self, WireError> {
        let count = r.count()?;
        // The count is not yet believed: an element may be larger here than on the wire.
        let mut values = Vec::with_capacity(count.min(1024));
        for _ in 0..count {
            values.push(T::take(r)?);
        }
        Ok(values)
    }
}

impl<T: Wire + Ord> Wire for BTreeSet<T> {
    fn put(&self, w: &mut Writer) {
        self.len().put(w);
        self.iter().for_each(|value| value.put(w));
    }
    fn take(r: &mut Reader<'_>) -> Result<Self, WireError> {
        (0..r.count()?).map(|_| T::take(r)).collect()
    }
}

impl<K: Wire + Ord, V: Wire> Wire for BTreeMap<K, V> {
    fn put(&self, w: &mut Writer) {
        self.len().put(w);
        for (key, value) in self {
            key.put(w);
            value.put(w);
        }
    }
    fn take(r: &mut Reader<'_>) -> Result<Self, WireError> {
        (0..r.count()?).map(|_| Ok((K::take(r)?, V::take(r)?))).collect()
    }
}

/// Takes a field; one that is called `column` is a column of a stripe.
macro_rules! take_field {
    (column, $r:expr) => {
        $crate::wire::words::take_column($r)?
    };
    ($field:ident, $r:expr) => {
        $crate::wire::code::Wire::take($r)?
    };
}

/// The encoding of a struct: its fields in the order listed. Behind `check`, a function that
/// says what is wrong with the values, if anything.
macro_rules! wire_struct {
    ($name:ident { $($field:ident),* $(,)? } $(check $check:expr)?) => {
        impl $crate::wire::code::Wire for $name {
            fn put(&self, w: &mut $crate::wire::code::Writer) {
                $($crate::wire::code::Wire::put(&self.$field, w);)*
            }
            fn take(
                r: &mut $crate::wire::code::Reader<'_>,
            ) -> Result<Self, $crate::wire::WireError> {
                $(let $field = $crate::wire::code::take_field!($field, r);)*
                let value = $name { $($field),* };
                $($check(&value)?;)?
                Ok(value)
            }
        }
    };
}

/// The encoding of an enum: the number of the variant, then its fields in the order listed.
macro_rules! wire_enum {
    ($name:ident, $what:literal {
        $($tag:literal = $variant:ident $(($($item:ident),*))? $({ $($field:ident),* })?),* $(,)?
    }) => {
        impl $crate::wire::code::Wire for $name {
            fn put(&self, w: &mut $crate::wire::code::Writer) {
                match self {$(
                    $name::$variant $(($($item),*))? $({ $($field),* })? => {
                        $crate::wire::code::Wire::put(&($tag as u8), w);
                        $($($crate::wire::code::Wire::put($item, w);)*)?
                        $($($crate::wire::code::Wire::put($field, w);)*)?
                    }
                )*}
            }
            fn take(
                r: &mut $crate::wire::code::Reader<'_>,
            ) -> Result<Self, $crate::wire::WireError> {
                let tag: u8 = $crate::wire::code::Wire::take(r)?;
                match tag {
                    $($tag => {
                        $($(let $item = $crate::wire::code::take_field!($item, r);)*)?
                        $($(let $field = $crate::wire::code::take_field!($field, r);)*)?
                        Ok($name::$variant $(($($item),*))? $({ $($field),* })?)
                    })*
                    value => Err($crate::wire::WireError::Unknown { what: $what, value }),
                }
            }
        }
    };
}

pub(super) use {take_field, wire_enum, wire_struct};
