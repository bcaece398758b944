//! A page that says what it is: pages of the table, and of its index. The last 16 bytes of the sector hold its
//! number, the checkpoint at which it was written, and a checksum that also covers which disk and which kind of
//! page it is. So a page that stands in another's place, or on another disk, is no page.

use crate::units::SECTOR_BYTES;

/// Bytes of a page before what it says of itself.
pub const BODY_BYTES: usize = SECTOR_BYTES - 16;
const NUMBER: usize = BODY_BYTES;
const CHECKPOINT: usize = BODY_BYTES + 4;
const CRC: usize = SECTOR_BYTES - 4;

/// The kinds of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Of the checksum and version table.
    Table = 1,
    /// Of the index of the table.
    Index = 2,
}

/// Completes a page whose body stands in `sector`.
pub fn seal(kind: Kind, disk: u64, number: u64, checkpoint: u64, sector: &mut [u8]) {
    let number = u32::try_from(number).expect("a disk has fewer pages than that");
    sector[NUMBER..CHECKPOINT].copy_from_slice(&number.to_le_bytes());
    sector[CHECKPOINT..CRC].copy_from_slice(&checkpoint.to_le_bytes());
    let crc = crc_of(kind, disk, sector);
    sector[CRC..].copy_from_slice(&crc.to_le_bytes());
}

/// At which checkpoint the page was written that stands in `sector`.
///
/// # Errors
///
/// What is wrong, if it is not this page of this disk.
pub fn decode(kind: Kind, disk: u64, number: u64, sector: &[u8]) -> Result<u64, &'static str> {
    if crc_of(kind, disk, sector).to_le_bytes() != sector[CRC..] {
        return Err("it does not fit its checksum");
    }
    if u64::from(u32::from_le_bytes(sector[NUMBER..CHECKPOINT].try_into().expect("4 bytes")))
        != number
    {
        return Err("another page stands in its place");
    }
    Ok(u64::from_le_bytes(sector[CHECKPOINT..CRC].try_into().expect("8 bytes")))
}

fn crc_of(kind: Kind, disk: u64, sector: &[u8]) -> u32 {
    let crc = crc32c::crc32c_append(crc32c::crc32c(&[kind as u8]), &disk.to_le_bytes());
    crc32c::crc32c_append(crc, &sector[..CRC])
}
