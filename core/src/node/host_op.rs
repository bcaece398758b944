//! What hosts ask of a node, and what they are answered.

use super::{ScrubFindings, ScrubProgress, Trust, UNBOUNDED};
use crate::Buffer;
use crate::order::PlaceError;
use crate::plan::Range;
use crate::units::{Timestamp, VolumeId};

/// What a host asks of a volume. Ranges are inside the volume and not empty.
#[derive(Clone, Debug, Hash)]
pub enum HostOp {
    /// Read.
    Read(Range),
    /// Write these bytes at this offset.
    Write(u64, Buffer),
    /// Read, and write new content that depends on the old, as one transaction. Only where the volume's policy
    /// [allows it](crate::policy::Policy::can_modify).
    Modify {
        /// Where.
        offset: u64,
        /// The bytes of the request.
        data: Buffer,
        /// How the new content follows from the old.
        by: Modification,
    },
    /// Make the range read as zeros.
    WriteZeroes(Range),
    /// The range is not needed; it may read as anything until it is written.
    Trim(Range),
    /// Everything acknowledged before must be safe from a power cut.
    Flush,
    /// Which parts of the range are holes.
    Holes(Range),
    /// Which parts of the range may differ from the same range of a snapshot. The volumes must have a common origin.
    Changed(Range, VolumeId),
    /// Parity of the range that waits is computed now (AFRAID 5: the host can ask that stripes be made redundant).
    Refresh(Range),
    /// What of the range is lost for good.
    Lost(Range),
    /// What of the range parity that waits exposes.
    Exposed(Range),
    /// What of the range, whole sectors, is lost for good is zeros from now on; what has been written there meanwhile stays.
    Accept(Range),
    /// Read and verify every stripe of the volume; repair what can be.
    Scrub {
        /// The first stripe: where an earlier scrub came to an end.
        from: u64,
        /// Most bytes a second that are read of each disk; [`UNBOUNDED`] for as fast as it goes.
        rate: u64,
        /// Whom to believe where it cannot be told who is wrong.
        trust: Trust,
    },
}

impl HostOp {
    /// The bytes of the volume that it covers, if any.
    pub fn range(&self) -> Option<Range> {
        match self {
            HostOp::Read(r) | HostOp::WriteZeroes(r) | HostOp::Trim(r) | HostOp::Holes(r) => {
                Some(*r)
            }
            HostOp::Refresh(r) | HostOp::Lost(r) | HostOp::Exposed(r) | HostOp::Accept(r) => {
                Some(*r)
            }
            HostOp::Changed(r, _) => Some(*r),
            HostOp::Write(offset, data) | HostOp::Modify { offset, data, .. } => {
                Some(Range { offset: *offset, len: data.len() as u64 })
            }
            HostOp::Flush | HostOp::Scrub { .. } => None,
        }
    }
}

/// How the new content follows from the old.
#[derive(Clone, Debug, Hash)]
pub enum Modification {
    /// Write the data if the old content equals these bytes, which have the same length. They must fit one transaction.
    IfEqual(Buffer),
    /// Write the bitwise OR of the old content and the data, in one or more transactions.
    Or,
}

impl HostOp {
    /// A scrub of everything, as fast as it goes.
    pub const SCRUB: HostOp = HostOp::Scrub { from: 0, rate: UNBOUNDED, trust: Trust::Nobody };
}

/// What a host is answered.
#[derive(Clone, Debug, Hash)]
pub enum HostData {
    /// It is done.
    Done,
    /// The bytes read, in pieces that follow one another.
    Bytes(Vec<Buffer>),
    /// Lengths, and whether each is a hole.
    Extents(Vec<(u64, bool)>),
    /// Lengths, and whether each may have changed.
    Changed(Vec<(u64, bool)>),
    /// How far a scrub has come, and what it has found.
    Scrubbed(ScrubProgress, ScrubFindings),
    /// Parity that waited has been computed; of so many sectors of parity it could not be, since disks are away or
    /// content is lost.
    Refreshed(u64),
    /// Lengths, and whether each is exposed. They begin where the range does and may end before it.
    Exposed(Vec<(u64, bool)>),
    /// So many bytes are lost, and these are the first [`MOST_LOST`] ranges of them.
    Lost(u64, Vec<LostRange>),
}

/// A range that is lost for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LostRange {
    /// The bytes of the volume.
    pub range: Range,
    /// Since when that is known.
    pub since: Timestamp,
}

/// How many ranges are listed at most of those that are lost.
pub const MOST_LOST: usize = 1000;

/// Of how many ranges a scrub says that they are unclear; of more it only counts the stripes.
pub const MOST_UNCLEAR: usize = 1000;

/// Why a host's request failed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum HostError {
    /// The volume is not there.
    #[error("the volume does not exist")]
    NoVolume,
    /// The snapshot to compare with is deleted, or has no common origin with the volume.
    #[error("the snapshot is deleted, or has no common origin with the volume")]
    Unrelated,
    /// More columns are lost or unreadable than the layout can recover.
    #[error("more columns are lost or unreadable than the layout can recover")]
    TooManyLost,
    /// Tried very often, and each time something came between.
    #[error(
        "gave up after {attempts} attempts, each interrupted by other requests or changes of the cluster"
    )]
    NoProgress {
        /// How often it was tried.
        attempts: u32,
    },
    /// Past the end.
    #[error("bytes {offset}+{len} are past the end of the volume, {size} bytes")]
    OutOfRange {
        /// First byte asked for.
        offset: u64,
        /// Bytes asked for.
        len: u64,
        /// The volume's size.
        size: u64,
    },
    /// Nobody waits for it any more.
    #[error("the host has disconnected")]
    Gone,
    /// It was asked for before, and nobody can say whether it has happened. The participants have forgotten it, and parity that
    /// covers its range may have been written since.
    #[error(
        "the request was sent before, and its outcome is unknown: no node can say whether it has \
         happened. Read the range, and write again if needed"
    )]
    OutcomeUnknown,
    /// The node is not part of the cluster now.
    #[error("this node is not up in the cluster now")]
    NotServing,
    /// The old content is not the expected one; `at` is the first byte that differs, counted from the offset.
    #[error("the content differs from the expected content at byte {at}")]
    Differs {
        /// Where.
        at: u64,
    },
    /// The volume's policy does not allow it, or it is too long for one transaction.
    #[error("the policy of this volume does not allow that, or it is too long for one transaction")]
    NotOffered,
    /// The volume's reservations have changed since it was permitted, and nothing of it begins any more. What has begun
    /// may have happened.
    #[error("the volume's reservations have changed in the meantime")]
    Outdated,
    /// A disk has no free slots for what a thin volume would have to take, or its file system is full.
    #[error("a disk has no free space for this write; `weft status` shows which, and what to do")]
    NoSpace,
    /// Another host has reserved the volume.
    #[error("another host has reserved the volume")]
    Reserved,
    /// The host may only read the volume.
    #[error("this host may only read the volume")]
    ReadOnly,
    /// It cannot have the place in the graph of requests that its host gave it.
    #[error(transparent)]
    Place(#[from] PlaceError),
}
