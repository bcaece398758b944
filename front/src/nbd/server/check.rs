//! Which commands reach the driver, and why the others do not.

use bytes::Bytes;

use super::transmission::Session;
use super::{Context, Errno, Op};
use crate::nbd::wire::{RequestHeader, command, flag};

/// What a request asks for, or how it is refused. The payload of a write is
/// not there yet, so a write comes out empty; a question for the state of a range comes out with the first context.
pub(super) fn check(request: &RequestHeader, session: &Session) -> Result<Op, Errno> {
    let op = op(request)?;
    check_flags(request, session)?;
    if op == Op::Flush {
        return check_flush(request).map(|()| op);
    }
    check_permission(&op, session)?;
    check_range(request, &op, session)?;
    Ok(op)
}

fn op(request: &RequestHeader) -> Result<Op, Errno> {
    let set = |bit| request.flags & bit != 0;
    Ok(match request.kind {
        command::READ => Op::Read,
        command::WRITE => Op::Write(Bytes::new()),
        command::FLUSH => Op::Flush,
        command::TRIM => Op::Trim,
        command::CACHE => Op::Cache,
        command::WRITE_ZEROES => {
            Op::WriteZeroes { no_hole: set(flag::NO_HOLE), fast: set(flag::FAST_ZERO) }
        }
        command::BLOCK_STATUS => {
            Op::BlockStatus { one: set(flag::REQ_ONE), context: Context::Allocation }
        }
        command::RESIZE => return Err(Errno::ENOTSUP.with("resize is not supported")),
        _ => return Err(Errno::EINVAL.with("unknown command")),
    })
}

fn check_flags(request: &RequestHeader, session: &Session) -> Result<(), Errno> {
    // Clients are known to set FUA where it means nothing.
    let own = match request.kind {
        command::READ if session.structured => flag::DF,
        command::WRITE_ZEROES => flag::NO_HOLE | flag::FAST_ZERO,
        command::BLOCK_STATUS => flag::REQ_ONE,
        _ => 0,
    };
    if request.flags & !(flag::FUA | own) != 0 {
        return Err(Errno::EINVAL.with("flag not valid for this command"));
    }
    if request.flags & own & flag::FAST_ZERO != 0 && !session.export.fast_zero {
        return Err(Errno::ENOTSUP.with("fast zeroing was not offered"));
    }
    if request.kind == command::BLOCK_STATUS && session.contexts.is_empty() {
        return Err(Errno::EINVAL.with("no metadata context was negotiated"));
    }
    Ok(())
}

fn check_flush(request: &RequestHeader) -> Result<(), Errno> {
    if request.offset == 0 && request.length == 0 {
        return Ok(());
    }
    Err(Errno::EINVAL.with("flush takes no range"))
}

fn check_permission(op: &Op, session: &Session) -> Result<(), Errno> {
    let changes = matches!(op, Op::Write(_) | Op::Trim | Op::WriteZeroes { .. });
    if changes && session.export.read_only {
        return Err(Errno::EPERM.with("export is read-only"));
    }
    Ok(())
}

fn check_range(request: &RequestHeader, op: &Op, session: &Session) -> Result<(), Errno> {
    let export = &session.export;
    if request.length == 0 {
        return Err(Errno::EINVAL.with("length is zero"));
    }
    let carries = matches!(op, Op::Read | Op::Write(_));
    if carries && request.length > export.max_payload {
        return Err(Errno::EINVAL.with("length exceeds the maximum payload"));
    }
    let end = request.offset.checked_add(u64::from(request.length));
    if end.is_none_or(|end| end > export.size) {
        let errno = match op {
            Op::Write(_) | Op::WriteZeroes { .. } => Errno::ENOSPC,
            _ => Errno::EINVAL,
        };
        return Err(errno.with("range goes past the end"));
    }
    let mask = export.min_block - 1;
    if (request.offset as u32 | request.length) & mask != 0 {
        return Err(Errno::EINVAL.with("range is not a multiple of the minimum block size"));
    }
    Ok(())
}
