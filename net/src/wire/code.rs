//! The machinery of the encoding: a writer, a reader that bounds everything, the trait that
//! each type has, and macros that derive it from a list of fields.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use weft_core::Buffer;

use weft_bytes::{BytesError, Read};

use super::MAX_BULK;

/// A type with an encoding.
pub(super) trait Wire: Sized {
    /// The names of its variants, if it is an enum.
    #[cfg(test)]
    const KINDS: &'static [&'static str] = &[];
    /// Appends it.
    fn put(&self, w: &mut Writer);
    /// Takes it off the front.
    fn take(r: &mut Reader<'_>) -> Read<Self>;
}

/// A message that is being encoded.
pub(super) struct Writer {
    pub head: weft_bytes::Writer,
    bulk: Vec<Bytes>,
}

impl Writer {
    pub fn new(head: Vec<u8>) -> Writer {
        Writer { head: weft_bytes::Writer::behind(head), bulk: Vec::new() }
    }

    /// The head and the bulk data.
    pub fn finish(self) -> (Vec<u8>, Vec<Bytes>) {
        (self.head.finish(), self.bulk)
    }
}

/// A message that is being decoded.
pub(super) struct Reader<'a> {
    pub head: weft_bytes::Reader<'a>,
    bulk: Bytes,
    /// How much bulk data the rest of the message may have.
    allowed: usize,
    /// The version of the encoding.
    pub version: u8,
}

impl<'a> Reader<'a> {
    pub fn new(version: u8, head: &'a [u8], bulk: Bytes) -> Reader<'a> {
        Reader { head: weft_bytes::Reader::new(head), bulk, allowed: MAX_BULK, version }
    }

    /// A count of elements, of which each takes a byte at least.
    pub fn count(&mut self) -> Read<usize> {
        self.head.count(1)
    }

    fn buffer_len(&mut self) -> Read<usize> {
        let len = self.head.u32()? as usize;
        let bounds = BytesError::Bounds { what: "a length of data", value: len as u64 };
        self.allowed = self.allowed.checked_sub(len).ok_or(bounds)?;
        Ok(len)
    }

    /// Checks that nothing is left over.
    pub fn finish(self) -> Read<()> {
        match self.head.left() + self.bulk.len() {
            0 => Ok(()),
            n => Err(BytesError::Trailing(n)),
        }
    }
}

macro_rules! wire_number {
    ($($number:ident),*) => {$(
        impl Wire for $number {
            fn put(&self, w: &mut Writer) {
                w.head.$number(*self);
            }
            fn take(r: &mut Reader<'_>) -> Read<Self> {
                r.head.$number()
            }
        }
    )*};
}
wire_number!(u8, u16, u32, u64, bool);

impl Wire for u128 {
    fn put(&self, w: &mut Writer) {
        (*self as u64).put(w);
        ((self >> 64) as u64).put(w);
    }
    fn take(r: &mut Reader<'_>) -> Read<Self> {
        let low = u128::from(u64::take(r)?);
        Ok(low | u128::from(u64::take(r)?) << 64)
    }
}

/// As four bytes; what does not fit becomes a number that is out of every bound.
impl Wire for usize {
    fn put(&self, w: &mut Writer) {
        u32::try_from(*self).unwrap_or(u32::MAX).put(w);
    }
    fn take(r: &mut Reader<'_>) -> Read<Self> {
        u32::take(r).map(|n| n as usize)
    }
}

impl Wire for () {
    fn put(&self, _: &mut Writer) {}
    fn take(_: &mut Reader<'_>) -> Read<Self> {
        Ok(())
    }
}

/// Texts of up to 65,535 bytes; the core has names of less than 256.
impl Wire for String {
    fn put(&self, w: &mut Writer) {
        let len = self.floor_char_boundary(usize::from(u16::MAX));
        (len as u16).put(w);
        w.head.raw(&self.as_bytes()[..len]);
    }
    fn take(r: &mut Reader<'_>) -> Read<Self> {
        let len = u16::take(r)?;
        r.head.text(len.into()).map(str::to_string)
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
    fn take(r: &mut Reader<'_>) -> Read<Self> {
        let zero = bool::take(r)?;
        let len = r.buffer_len()?;
        if zero {
            return Ok(Buffer::Zero(len));
        }
        if len > r.bulk.len() {
            return Err(BytesError::Truncated);
        }
        Ok(Buffer::Bytes(r.bulk.split_to(len)))
    }
}

impl<T: Wire> Wire for Arc<T> {
    fn put(&self, w: &mut Writer) {
        T::put(self, w);
    }
    fn take(r: &mut Reader<'_>) -> Read<Self> {
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
    fn take(r: &mut Reader<'_>) -> Read<Self> {
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
    fn take(r: &mut Reader<'_>) -> Read<Self> {
        Ok(if bool::take(r)? { Ok(T::take(r)?) } else { Err(E::take(r)?) })
    }
}

impl<A: Wire, B: Wire> Wire for (A, B) {
    fn put(&self, w: &mut Writer) {
        self.0.put(w);
        self.1.put(w);
    }
    fn take(r: &mut Reader<'_>) -> Read<Self> {
        Ok((A::take(r)?, B::take(r)?))
    }
}

impl<A: Wire, B: Wire, C: Wire> Wire for (A, B, C) {
    fn put(&self, w: &mut Writer) {
        self.0.put(w);
        self.1.put(w);
        self.2.put(w);
    }
    fn take(r: &mut Reader<'_>) -> Read<Self> {
        Ok((A::take(r)?, B::take(r)?, C::take(r)?))
    }
}

impl<T: Wire> Wire for Vec<T> {
    fn put(&self, w: &mut Writer) {
        self.len().put(w);
        self.iter().for_each(|value| value.put(w));
    }
    fn take(r: &mut Reader<'_>) -> Read<Self> {
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
    fn take(r: &mut Reader<'_>) -> Read<Self> {
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
    fn take(r: &mut Reader<'_>) -> Read<Self> {
        (0..r.count()?).map(|_| Ok((K::take(r)?, V::take(r)?))).collect()
    }
}

/// Takes a field; one that is called `column` or `seat` is that of a stripe.
macro_rules! take_field {
    (column, $r:expr) => {
        $crate::wire::words::take_column($r)?
    };
    (seat, $r:expr) => {
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
            ) -> $crate::wire::Read<Self> {
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
            #[cfg(test)]
            const KINDS: &'static [&'static str] = &[$(stringify!($variant)),*];
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
            ) -> $crate::wire::Read<Self> {
                let tag: u8 = $crate::wire::code::Wire::take(r)?;
                match tag {
                    $($tag => {
                        $($(let $item = $crate::wire::code::take_field!($item, r);)*)?
                        $($(let $field = $crate::wire::code::take_field!($field, r);)*)?
                        Ok($name::$variant $(($($item),*))? $({ $($field),* })?)
                    })*
                    value => Err($crate::wire::BytesError::Unknown { what: $what, value }),
                }
            }
        }
    };
}

pub(super) use {take_field, wire_enum, wire_struct};
