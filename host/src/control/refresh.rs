//! Having parity of a volume computed that waits, as an operator asks for it.

use weft_core::cluster::Volume;
use weft_core::node::HostOp;
use weft_core::plan::Range;

use crate::error::{Result, fail};
use crate::size::exactly;

/// The request for a range of a volume, up to its end if no length is given.
pub(crate) fn operation(volume: &Volume, offset: u64, length: Option<u64>) -> Result<HostOp> {
    let size = volume.size;
    let rest = size.saturating_sub(offset);
    let len = length.unwrap_or(rest);
    if len == 0 || len > rest {
        return fail(format!(
            "the range must not be empty and must be within the volume, which has {}; it begins at {} and has {}",
            exactly(size),
            exactly(offset),
            exactly(len)
        ));
    }
    Ok(HostOp::Refresh(Range { offset, len }))
}
