//! Converts between iSCSI requests and node requests.

use weft_core::Buffer;
use weft_core::cluster::Volume;
use weft_core::node::{HostData, HostError, HostOp, Modification};
use weft_core::plan::Range;
use weft_front::iscsi::reservation::Held;
use weft_front::iscsi::{self, Op, Piece, Reply, Request, Unit};

use super::names;
use crate::sessions::numbered::Failure;
use crate::volumes::Served;

/// The unit's properties for an initiator.
pub(super) fn unit(volume: &Volume, at: Served, read_only: bool) -> Unit {
    Unit {
        target: names::of(volume, at),
        alias: volume.name.clone(),
        group: names::group(at.process),
        size: volume.visible,
        block: volume.policy.block,
        // With the journal, every answered write is durable.
        write_cache: !volume.policy.is_journaled(),
        read_only,
        thin: volume.is_thin(),
        modifies: volume.policy.can_modify(),
        atomic: volume.atomic_bytes(),
        held: Held::Nobody,
        id: names::id(volume, at),
        short_id: names::short_id(volume, at),
    }
}

/// The node request; none for those about reservations.
pub(super) fn host_op(request: Request) -> Option<HostOp> {
    let range = Range { offset: request.offset, len: request.length };
    Some(match request.op {
        Op::Read => HostOp::Read(range),
        Op::Write(bytes) => HostOp::Write(request.offset, Buffer::Bytes(bytes)),
        Op::CompareAndWrite { expected, data } => HostOp::Modify {
            offset: request.offset,
            data: Buffer::Bytes(data),
            by: Modification::IfEqual(Buffer::Bytes(expected)),
        },
        Op::OrWrite(bytes) => HostOp::Modify {
            offset: request.offset,
            data: Buffer::Bytes(bytes),
            by: Modification::Or,
        },
        Op::WriteZeroes => HostOp::WriteZeroes(range),
        Op::Flush => HostOp::Flush,
        Op::Holes => HostOp::Holes(range),
        Op::Reserve(_) | Op::Reservations | Op::Ports => return None,
    })
}

/// Bytes of data that a request has in progress.
pub(super) fn bytes(request: &Request) -> u64 {
    match request.op {
        Op::Read | Op::Write(_) | Op::CompareAndWrite { .. } | Op::OrWrite(_) => request.length,
        Op::WriteZeroes | Op::Flush | Op::Holes | Op::Reserve(_) | Op::Reservations | Op::Ports => {
            0
        }
    }
}

/// The reply to an initiator.
pub(super) fn reply(result: Result<HostData, Failure>) -> Result<Reply, iscsi::Failure> {
    let error = match result {
        Ok(HostData::Bytes(pieces)) => {
            return Ok(Reply::Pieces(pieces.into_iter().map(piece).collect()));
        }
        Ok(HostData::Extents(found)) => return Ok(Reply::Extents(found)),
        Ok(
            HostData::Done
            | HostData::Refreshed(_)
            | HostData::Lost(..)
            | HostData::Exposed(_)
            | HostData::Changed(_)
            | HostData::Scrubbed(..),
        ) => return Ok(Reply::Done),
        Err(Failure::Host(error)) => error,
        Err(Failure::TooFarAhead { .. } | Failure::NamesLater { .. }) => {
            return Err(iscsi::Failure::Failed);
        }
    };
    Err(failure(error))
}

/// The failure as iSCSI has it.
pub(super) fn failure(error: HostError) -> iscsi::Failure {
    match error {
        HostError::NoProgress { .. } | HostError::NotServing => iscsi::Failure::Busy,
        HostError::OutOfRange { .. } => iscsi::Failure::OutOfRange,
        HostError::NoVolume => iscsi::Failure::Gone,
        HostError::ReadOnly => iscsi::Failure::Protected,
        HostError::Differs { at } => iscsi::Failure::Differs(at),
        HostError::Reserved => iscsi::Failure::Reserved,
        HostError::NoSpace => iscsi::Failure::NoSpace,
        HostError::NotOffered => iscsi::Failure::NotOffered,
        HostError::TooManyLost | HostError::Unrelated => iscsi::Failure::Failed,
        // An initiator sends aborted commands again, and might overwrite what another has written since.
        HostError::OutcomeUnknown => iscsi::Failure::Failed,
        HostError::Outdated | HostError::Gone | HostError::Place(_) => iscsi::Failure::Unknown,
    }
}

fn piece(buffer: Buffer) -> Piece {
    match buffer {
        Buffer::Bytes(bytes) => Piece::Data(bytes),
        Buffer::Length(_) => unreachable!("only simulations have lengths"),
        Buffer::Zero(len) => Piece::Zeroes(len as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_keep_their_meaning() {
        assert_eq!(failure(HostError::NotOffered), iscsi::Failure::NotOffered);
        assert_eq!(failure(HostError::TooManyLost), iscsi::Failure::Failed);
        assert_eq!(failure(HostError::Differs { at: 7 }), iscsi::Failure::Differs(7));
        assert_eq!(failure(HostError::NotServing), iscsi::Failure::Busy);
        assert_eq!(failure(HostError::OutcomeUnknown), iscsi::Failure::Failed);
        assert_eq!(failure(HostError::Gone), iscsi::Failure::Unknown);
    }
}
