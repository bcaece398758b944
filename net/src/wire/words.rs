//! The encoding of the core's small types: numbers of things, ranges, column sets.

use weft_code::Code;
use weft_core::order::HostId;
use weft_core::plan::{Range, Span};
use weft_core::units::{ColumnSet, MAX_NODES, NodeId, Timestamp, VolumeId};

use weft_bytes::{Read, at_most};

use super::code::{Reader, Wire, Writer, wire_struct};

/// Types that are a number with a name.
macro_rules! wire_newtype {
    ($($name:ident),*) => {$(
        impl Wire for $name {
            fn put(&self, w: &mut Writer) {
                self.0.put(w);
            }
            fn take(r: &mut Reader<'_>) -> Read<Self> {
                Wire::take(r).map($name)
            }
        }
    )*};
}
wire_newtype!(VolumeId, Timestamp, ColumnSet, HostId);

impl Wire for NodeId {
    fn put(&self, w: &mut Writer) {
        self.0.put(w);
    }
    fn take(r: &mut Reader<'_>) -> Read<Self> {
        let number = u16::take(r)?;
        at_most("a node's number", number.into(), MAX_NODES as u64 - 1)?;
        Ok(NodeId(number))
    }
}

/// A column of a stripe, or of a code.
pub(super) fn take_column(r: &mut Reader<'_>) -> Read<usize> {
    let column = usize::take(r)?;
    at_most("a column", column as u64, Code::MAX_COLUMNS as u64 - 1)?;
    Ok(column)
}

wire_struct!(Range { offset, len } check |range: &Range| {
    at_most("a range's length", range.len, u64::MAX - range.offset)
});

wire_struct!(Span { lo, hi } check |span: &Span| at_most("a span's begin", span.lo, span.hi));
