//! From NBD's words to a node's and back.

use weft_core::Buffer;
use weft_core::cluster::Volume;
use weft_core::node::{HostData, HostError, HostOp};
use weft_core::plan::Range;
use weft_front::nbd::server::{Command, Op, Piece, Reply};
use weft_front::nbd::{Context, Errno, Export, Exposure, Extent};

use crate::sessions::numbered::Failure;
use crate::size::Size;

/// The largest request that a host may send.
const MAX_PAYLOAD: u32 = 32 << 20;

/// What NBD is told of a volume, which a host may only read or not.
pub(super) fn export(volume: &Volume, read_only: bool) -> Export {
    let unit = Size(volume.geometry.unit);
    let journal = if volume.policy.journal { "journalled" } else { "not journalled" };
    Export {
        description: format!("{}, stripe unit {unit}, {journal}", volume.layout),
        max_payload: MAX_PAYLOAD,
        // Every node sees a write that any node has answered, and a flush covers all.
        // (Where nothing orders them there is one connection.)
        multi_conn: !volume.takes_one_writer(),
        exposure: true,
        read_only,
        ..Export::new(volume.name.clone(), volume.visible)
    }
}

/// What a node is asked for a command; `None` if there is nothing to do.
pub(super) fn host_op(command: &Command) -> Option<HostOp> {
    let range = Range { offset: command.offset, len: u64::from(command.length) };
    match &command.op {
        Op::Read => Some(HostOp::Read(range)),
        Op::Write(bytes) => Some(HostOp::Write(command.offset, Buffer::Bytes(bytes.clone()))),
        Op::Flush => Some(HostOp::Flush),
        Op::Trim => Some(HostOp::Trim(range)),
        Op::WriteZeroes { .. } => Some(HostOp::WriteZeroes(range)),
        Op::Cache => None,
        Op::BlockStatus { context: Context::Allocation, .. } => Some(HostOp::Holes(range)),
        Op::BlockStatus { context: Context::Exposed, .. } => Some(HostOp::Exposed(range)),
    }
}

/// Whether the command changes the volume.
pub(super) fn changes(op: &Op) -> bool {
    matches!(op, Op::Write(_) | Op::Trim | Op::WriteZeroes { .. })
}

/// What NBD is told of an answer.
pub(super) fn reply(result: Result<HostData, Failure>) -> Result<Reply, Errno> {
    match result {
        Ok(HostData::Bytes(pieces)) => Ok(Reply::Pieces(pieces.into_iter().map(piece).collect())),
        Ok(HostData::Extents(found)) => {
            let extent = |(length, hole)| Extent { length, hole, zero: hole };
            Ok(Reply::Extents(lengths(&found).map(extent).collect()))
        }
        Ok(HostData::Exposed(found)) => {
            let exposure = |(length, exposed)| Exposure { length, exposed };
            Ok(Reply::Exposure(lengths(&found).map(exposure).collect()))
        }
        Ok(
            HostData::Done | HostData::Refreshed(_) | HostData::Lost(..) | HostData::Scrubbed(..),
        ) => Ok(Reply::Done),
        Err(error @ Failure::Host(HostError::OutOfRange { .. })) => {
            Err(Errno::EINVAL.with(error.to_string()))
        }
        Err(error @ Failure::Host(HostError::NoSpace)) => {
            Err(Errno::ENOSPC.with(error.to_string()))
        }
        Err(error @ Failure::Host(HostError::Reserved)) => {
            Err(Errno::EPERM.with(error.to_string()))
        }
        Err(error) => Err(Errno::EIO.with(error.to_string())),
    }
}

fn piece(buffer: Buffer) -> Piece {
    match buffer {
        Buffer::Bytes(bytes) => Piece::Data(bytes),
        Buffer::Length(_) => unreachable!("only simulations have lengths"),
        // No longer than a request, which NBD measures in 32 bits.
        Buffer::Zero(len) => Piece::Zeroes(len as u32),
    }
}

/// The longest extent that NBD can tell of and that ends at a sector.
const LONGEST: u64 = (u32::MAX as u64) / 4096 * 4096;

/// Lengths as NBD can tell of them.
fn lengths(found: &[(u64, bool)]) -> impl Iterator<Item = (u32, bool)> {
    found.iter().flat_map(|&(length, holds)| {
        let pieces = (0..length).step_by(LONGEST as usize);
        pieces.map(move |at| ((length - at).min(LONGEST) as u32, holds))
    })
}
