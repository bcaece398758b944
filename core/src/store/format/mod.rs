//! What stands on the disk, byte by byte. docs/internals/disk-format.md is this file in prose; offsets
//! are nowhere else.
//!
//! | sectors | what |
//! |---|---|
//! | 0, 1 | superblock, written in turn |
//! | then 2 M | copies of the cluster map |
//! | then J | journal |
//! | then I | index of the table |
//! | then T | table: 16 bytes for each data sector |
//! | then D | data |
//! | then 2 O | owners of the slots, two copies, from version 4 on |

//!
//! - [`superblock`]: who the disk is, how it is divided, where the journal begins
//! - [`frame`]: frames of the journal, and the entries in them
//! - [`versions`]: the versions of all this, and what is done with a disk of each
//!
//! Assertions come in pairs: what is asserted of a superblock or a frame before it is written is a
//! [`FormatError`] when it is read and does not hold. Bytes from a disk never make it panic.

mod carried;
mod frame;
mod superblock;
pub mod versions;

use weft_bytes::checksum;
use weft_bytes::{BytesError, Little, Read, Reader, Writer};

use super::reached::Reached;
use crate::units::{Epoch, NodeId, Timestamp};

pub(crate) use carried::{Carried, Standing};
pub(crate) use frame::{
    Applied, Bounds, ChangeHead, Entry, FrameHead, NOWHERE, Redirect, decode_frame, decode_head,
    encode_frame,
};
pub use superblock::Superblock;
pub use versions::{FORMAT_VERSION, OLDEST_VERSION};

/// Sectors of the superblock's copies.
pub const SUPERBLOCKS: u64 = 2;
/// Of how many other disks a superblock keeps what was heard; a disk with more neighbours keeps it of those
/// that follow it in number.
pub const MOST_HEARD: usize = 100;
/// No disk counts so many superblocks or frames; so no sum with such a number overflows.
pub(super) const MOST_COUNTED: u64 = 1 << 62;
/// In the place of an epoch: the disk has forgotten what it promised before.
pub const FORGOT: Epoch = 0;

/// Why a disk is refused.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum FormatError {
    /// Neither superblock is one.
    #[error("it is not a Weft disk (no valid superblock); format it, or restore the right file")]
    NotOurs,
    /// Written by another version of Weft.
    #[error(
        "its format is version {0} and this Weft reads versions {OLDEST_VERSION} to {FORMAT_VERSION}; use a Weft that reads it"
    )]
    Version(u32),
    /// Written by a version of Weft whose disks are not opened.
    #[error("its format is version {version}: {why}")]
    Refused {
        /// The version.
        version: u32,
        /// Why, and what to do.
        why: &'static str,
    },
    /// Its superblock has its checksum, and makes no sense.
    #[error("its superblock is invalid: {0}; the disk is not changed")]
    Superblock(BytesError),
    /// A frame of its journal has its checksum, and makes no sense.
    #[error("frame {number} of its journal is invalid: {why}; the disk is not changed")]
    Frame {
        /// The frame's number.
        number: u64,
        /// What is wrong.
        why: BytesError,
    },
    /// An entry of its journal contradicts those before it.
    #[error(
        "frame {frame} of its journal contradicts earlier frames: write {ts} {what}; the disk is not changed"
    )]
    Contradiction {
        /// The frame's number.
        frame: u64,
        /// The write of which it speaks.
        ts: Timestamp,
        /// What it says of the write.
        what: &'static str,
    },
    /// A frame of its journal has its checksum, and takes the room of frames that count.
    #[error("frame {0} of its journal overlaps frames that are needed; the disk is not changed")]
    Overlap(u64),
    /// A disk of another cluster.
    #[error("it belongs to cluster {found:032x}, not to {expected:032x}")]
    Cluster {
        /// The cluster that the disk names.
        found: u128,
        /// The cluster that opens it.
        expected: u128,
    },
    /// Another disk of this cluster.
    #[error("it is disk {found}, and disk {expected} was expected here")]
    Disk {
        /// The number on the disk.
        found: u16,
        /// The number expected.
        expected: u16,
    },
    /// Shorter than its superblock says.
    #[error("it is truncated: its superblock says {expected} sectors and there are {found}")]
    Truncated {
        /// Sectors by the superblock.
        expected: u64,
        /// Sectors that there are.
        found: u64,
    },
    /// Too small to hold anything.
    #[error(
        "{0} sectors are too few for a disk; at least {1} are needed, which are {kib}K, and 128M or more are better",
        kib = .1 * crate::units::SECTOR_BYTES as u64 / 1024
    )]
    TooSmall(u64, u64),
}

/// Ends what has been written with its CRC-32C.
pub(super) fn seal(mut w: Writer) -> Vec<u8> {
    w.u32(checksum::crc32c(w.written()));
    w.finish()
}

/// What stands before the CRC-32C that these bytes end with, if that is right.
pub(super) fn sealed(bytes: &[u8]) -> Option<&[u8]> {
    let (body, crc) = bytes.split_last_chunk::<4>()?;
    (Reader::<Little>::new(crc).u32() == Ok(checksum::crc32c(body))).then_some(body)
}

/// A count, then 34 bytes for each disk.
fn put_heard(w: &mut Writer, heard: impl ExactSizeIterator<Item = (NodeId, Reached)>) {
    w.list(heard, |w, (node, r)| {
        w.u16(node.0);
        [r.disk, r.life, r.frame, r.sequence].into_iter().for_each(|n| w.u64(n));
    });
}

fn take_heard(r: &mut Reader) -> Read<Vec<(NodeId, Reached)>> {
    r.list(34, |r| {
        let node = NodeId(r.u16()?);
        let (disk, life, frame, sequence) = (r.u64()?, r.u64()?, r.u64()?, r.u64()?);
        Ok((node, Reached { disk, life, frame, sequence }))
    })
}
