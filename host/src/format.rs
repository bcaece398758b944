//! Making a disk one of a cluster's, and looking at what is on one before that.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use weft_core::SECTOR;
use weft_core::store::{JournalStore, Superblock};

use crate::disk::Disk;
use crate::durable::random;
use crate::error::{Error, Result, at, fail};
use crate::size::Size;

/// How much of a disk must be empty for it to be taken without being asked twice.
const HEAD: usize = 1 << 20;

fn superblock(cluster: u128, node: u16, incarnation: u64, size: u64) -> Result<Superblock> {
    Superblock::divide(cluster, node, incarnation, size / SECTOR, Superblock::JOURNAL)
        .map_err(|e| Error(format!("disks of {}: {e}", Size(size))))
}

/// Sectors for data on a disk of this size.
pub(crate) fn data_sectors(size: u64) -> Result<u64> {
    Ok(superblock(0, 0, 0, size)?.data)
}

/// Makes a disk the empty one of a node. Whatever was on it is lost.
pub(crate) fn format_disk(disk: &Disk, size: u64, cluster: u128, node: u16) -> Result<()> {
    let superblock = superblock(cluster, node, random() as u64, size)?;
    for op in JournalStore::format(&superblock) {
        disk.format(op).map_err(Error)?;
    }
    disk.sync().map_err(Error)
}

/// What tells of what is on a disk: a name, where, and the bytes that are there.
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

/// Refuses a disk that holds something.
pub(crate) fn refuse_used(path: &Path) -> Result<()> {
    let mut head = vec![0; HEAD];
    let len = File::open(path)
        .and_then(|mut file| read_most(&mut file, &mut head))
        .map_err(at("read", path))?;
    let head = &head[..len];
    let is = |(_, offset, bytes): &&(&str, usize, &[u8])| head[*offset..].starts_with(bytes);
    let found = SIGNATURES.iter().filter(|s| s.1 < len).find(is);
    let what = match found {
        Some((name, ..)) => name,
        None if head.iter().any(|b| *b != 0) => "something",
        None => return Ok(()),
    };
    fail(format!(
        "{} holds {what}; choose another disk, or add --force to overwrite it",
        path.display()
    ))
}

/// The node whose disk of this cluster is at a path, if one is.
pub(crate) fn holder(path: &Path, cluster: u128) -> Option<u16> {
    let mut head = vec![0; SECTOR as usize];
    let len = File::open(path).and_then(|mut file| read_most(&mut file, &mut head)).ok()?;
    let superblock = (len == head.len()).then(|| Superblock::decode(&head))?.ok()?;
    (superblock.cluster == cluster).then_some(superblock.disk)
}

fn read_most(file: &mut File, buffer: &mut [u8]) -> io::Result<usize> {
    let mut len = 0;
    while len < buffer.len() {
        match file.read(&mut buffer[len..])? {
            0 => break,
            n => len += n,
        }
    }
    Ok(len)
}
