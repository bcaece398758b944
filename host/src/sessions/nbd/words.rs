//! From NBD's words to a node's and back.

use weft_core::Buffer;
use weft_core::cluster::{ClusterMap, Volume};
use weft_core::node::{HostData, HostError, HostOp};
use weft_core::plan::Range;
use weft_core::units::VolumeId;
use weft_front::nbd::server::{Command, Op, Piece, Reply};
use weft_front::nbd::{Change, Context, Errno, Export, Exposure, Extent, Snapshot};

use crate::sessions::numbered::Failure;
use crate::size::Size;
use crate::volumes::SNAPSHOT_MARK;

/// The largest request that a host may send.
const MAX_PAYLOAD: u32 = 32 << 20;

/// What NBD is told of a volume, which a host may only read or not, and which can be compared with these.
pub(super) fn export(volume: &Volume, read_only: bool, snapshots: Vec<Snapshot>) -> Export {
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
        snapshots,
        ..Export::new(volume.name.clone(), volume.visible)
    }
}

/// The snapshots with which a volume, or a snapshot, can be compared: its own by their short names, and those that a
/// clone lies over by their full names.
pub(super) fn snapshots(map: &ClusterMap, volume: &Volume) -> Vec<Snapshot> {
    let origin = volume.lineage.snapshot.map_or(volume.id, |snapshot| snapshot.of);
    let of = |v: &Volume| v.lineage.snapshot.map(|snapshot| snapshot.of);
    let own = map.snapshots_of(origin);
    let below = map.all_below(volume.id).filter(|v| of(v).is_some_and(|of| of != origin));
    let below = below.filter(|v| !v.is_deleted()).map(|v| (v.name.as_str(), v.id));
    let own = own.iter().filter(|v| v.id != volume.id);
    let own = own.filter_map(|v| Some((v.name.split_once(SNAPSHOT_MARK)?.1, v.id)));
    let fits = |id: &VolumeId| id.0 <= Snapshot::MOST;
    own.chain(below)
        .filter(|(_, id)| fits(id))
        .map(|(name, id)| Snapshot { name: name.to_string(), number: id.0 })
        .collect()
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
        Op::BlockStatus { context: Context::Since { snapshot, .. }, .. } => {
            Some(HostOp::Changed(range, VolumeId(*snapshot)))
        }
    }
}

/// A sector, and the bytes of an extent of an answer: in the worst case each sector is one.
const SECTOR: u64 = 4096;
const EXTENT: u64 = 16;

/// Bytes that a command holds in memory, or its answer at most.
pub(super) fn payload(command: &Command) -> u64 {
    let length = u64::from(command.length);
    match command.op {
        Op::Read | Op::Write(_) => length,
        Op::BlockStatus { .. } => length / SECTOR * EXTENT,
        _ => 0,
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
        Ok(HostData::Changed(found)) => {
            let change = |(length, changed)| Change { length, changed };
            Ok(Reply::Changes(lengths(&found).map(change).collect()))
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
