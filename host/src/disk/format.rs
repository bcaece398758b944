//! Formatting a disk for a cluster, and checking its content before that.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::Path;

use weft_core::store::{DiskOp, FormatError, JournalStore, Superblock};
use weft_core::units::NodeId;
use weft_core::{Buffer, SECTOR};

use crate::disk::{Disk, open_to_read};
use crate::durable::random;
use crate::error::{Error, Result, at, fail};
use crate::size::Size;

/// How much of a disk must be empty for it to be taken without being asked twice.
const HEAD: usize = 1 << 20;

/// How a disk of this size is divided, into slots of this many sectors, or none if that is 0.
fn divided(slot: u64, size: u64) -> Result<Superblock> {
    Superblock::divide_in(slot, 0, 0, 1, size / SECTOR, Superblock::JOURNAL)
        .map_err(|e| too_small(size, &e))
}

fn too_small(size: u64, why: &FormatError) -> Error {
    Error(format!("disks of {}: {why}", Size(size)))
}

/// Sectors for data on a new disk of this size.
pub(crate) fn data_sectors(size: u64) -> Result<u64> {
    Superblock::offered_by(size / SECTOR).map_err(|e| too_small(size, &e))
}

/// The most sectors for data that a disk of this size can have: when it is not divided into slots.
pub(crate) fn most_data_sectors(size: u64) -> Result<u64> {
    Ok(divided(0, size)?.offered())
}

/// Formats a disk for a node, with at least `needed` data sectors. If they are more than slots leave
/// it has no slots, as disks of earlier versions had none. Whatever was on it is lost.
pub(crate) fn format_disk(
    disk: &Disk,
    size: u64,
    (cluster, node): (u128, NodeId),
    needed: u64,
) -> Result<()> {
    let slot = if is_rotating(&disk.file) { Superblock::ROTATING_SLOT } else { Superblock::SLOT };
    let mut superblock = divided(slot, size)?;
    if superblock.offered() < needed {
        superblock = divided(0, size)?;
    }
    (superblock.cluster, superblock.disk) = (cluster, node.0);
    superblock.incarnation = random() as u64;
    disk.allocate_head(superblock.index_start() * SECTOR)?;
    for op in JournalStore::format(&superblock) {
        disk.format(op).map_err(Error)?;
    }
    disk.sync().map_err(Error)
}

/// Whether a file or a block device is on a rotating disk, by the system's information.
pub(crate) fn is_rotating(file: &File) -> bool {
    queue_says(file, "rotational").as_deref() == Some("1")
}

/// Whether the device of a file, or a block device, has a cache that loses its content without power. A durable write may flush
/// it, also where the device can write past it (FUA): for the length of a file, or since the kernel flushes block devices
/// after such writes. If the system does not say so, it has none.
pub(crate) fn has_volatile_cache(file: &File) -> bool {
    queue_says(file, "write_cache").as_deref() == Some("write back")
}

/// What the system says about the queue of a device.
fn queue_says(file: &File, what: &str) -> Option<String> {
    let metadata = file.metadata().ok()?;
    let block = metadata.file_type().is_block_device();
    let device = if block { metadata.rdev() } else { metadata.dev() };
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    // A partition has the queue of its disk.
    let found = ["queue", "../queue"].iter().find_map(|queue| {
        std::fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/{queue}/{what}")).ok()
    })?;
    Some(found.trim().to_string())
}

/// Signatures of content on a disk: a name, where, and the bytes that are there.
const SIGNATURES: [(&str, usize, &[u8]); 9] = [
    ("a disk of Weft", 0, b"WEFTDISK"),
    ("an XFS file system", 0, b"XFSB"),
    ("LUKS", 0, b"LUKS"),
    ("a GPT partition table", 512, b"EFI PART"),
    ("an LVM physical volume", 512, b"LABELONE"),
    ("a partition table", 510, &[0x55, 0xaa]),
    ("an ext file system", 1080, &[0x53, 0xef]),
    ("swap space", 4086, b"SWAPSPACE2"),
    ("a Btrfs file system", 0x10040, b"_BHRfS_M"),
];

/// Whose earlier content may be on a disk that is taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Own {
    pub(crate) cluster: u128,
    pub(crate) node: NodeId,
}

/// Refuses a disk that holds something other than its node's own content.
pub(crate) fn refuse_used(disk: &Disk, own: Option<Own>) -> Result<()> {
    let head = read_head(&disk.file, HEAD).map_err(at("read", &disk.path))?;
    let is_own = |own: Own| {
        superblock_in(&head).is_some_and(|s| (s.cluster, s.disk) == (own.cluster, own.node.0))
    };
    if own.is_some_and(is_own) {
        return Ok(());
    }
    let is = |(_, offset, bytes): &&(&str, usize, &[u8])| head[*offset..].starts_with(bytes);
    let found = SIGNATURES.iter().filter(|s| s.1 < head.len()).find(is);
    let what = match found {
        Some((name, ..)) => name,
        None if head.iter().any(|b| *b != 0) => "something",
        None => return Ok(()),
    };
    fail(format!(
        "{} holds {what}; choose another disk, or add --force to overwrite it",
        disk.path.display()
    ))
}

/// Makes a disk that has just been formatted one that holds nothing.
pub(crate) fn blank_disk(disk: &Disk) -> Result<()> {
    let zeros = Buffer::Zero((SUPERBLOCKS * SECTOR) as usize);
    let write = DiskOp::Write { offset: 0, data: vec![zeros], durable: true };
    disk.run(write).map(drop).map_err(Error)
}

/// The node whose disk of this cluster is at a path, if one is.
pub(crate) fn holder(path: &Path, cluster: u128) -> Option<u16> {
    read_holder(path, cluster).ok().flatten()
}

fn read_holder(path: &Path, cluster: u128) -> Result<Option<u16>> {
    let file = open_to_read(path)?;
    let head = read_head(&file, (SUPERBLOCKS * SECTOR) as usize).map_err(at("read", path))?;
    let own = superblock_in(&head).filter(|superblock| superblock.cluster == cluster);
    Ok(own.map(|superblock| superblock.disk))
}

/// Refuses to open another node's disk for a node: a link to it, or one that was put in the wrong place. The
/// other node could not open it meanwhile. A disk that cannot be read is refused too: of that one nobody could tell.
pub(crate) fn refuse_others(path: &Path, cluster: u128, node: NodeId) -> Result<()> {
    match read_holder(path, cluster)?.filter(|other| *other != node.0) {
        Some(other) => fail(format!(
            "{} is, or links to, the disk of node {other}; replace it by the disk of node {}",
            path.display(),
            node.0
        )),
        None => Ok(()),
    }
}

/// How many copies of the superblock a disk begins with.
pub(crate) const SUPERBLOCKS: u64 = 2;

/// A superblock of those at the beginning of a disk.
pub(crate) fn superblock_in(head: &[u8]) -> Option<Superblock> {
    let sectors = head.chunks_exact(SECTOR as usize).take(SUPERBLOCKS as usize);
    sectors.filter_map(|sector| Superblock::decode(sector).ok()).next()
}

/// The first bytes of a disk, this many or all.
fn read_head(file: &File, len: usize) -> io::Result<Vec<u8>> {
    read_from(file, 0, len)
}

/// This many bytes of a disk from an offset on, or all.
pub(crate) fn read_from(file: &File, offset: u64, len: usize) -> io::Result<Vec<u8>> {
    let (mut head, mut done) = (vec![0; len], 0);
    while done < len {
        match file.read_at(&mut head[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(n) => done += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    head.truncate(done);
    Ok(head)
}
