//! A page that says what it is: pages of the table, of its index, and of the slots' owners. The last 16 bytes of the sector hold its
//! number, the checkpoint at which it was written, and a checksum that also covers which disk and which kind of
//! page it is. So a page that stands in another's place, or on another disk, is no page.

use weft_bytes::checksum;
use weft_bytes::{Reader, Writer};

use crate::units::SECTOR_BYTES;

/// Bytes of a page before what it says of itself.
pub const BODY_BYTES: usize = SECTOR_BYTES - 16;
const CRC: usize = SECTOR_BYTES - 4;

/// The kinds of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Of the checksum and version table.
    Table = 1,
    /// Of the index of the table.
    Index = 2,
    /// Of the owners of the slots.
    Owners = 3,
}

/// What is wrong with a page that names a checkpoint of which neither the superblock nor the journal knows.
pub const UNKNOWN_CHECKPOINT: &str = "it is from a checkpoint that the journal does not have";

/// The page with this body, as a sector.
pub fn seal(kind: Kind, disk: u64, number: u64, checkpoint: u64, mut body: Writer) -> Vec<u8> {
    body.pad(BODY_BYTES);
    body.u32(u32::try_from(number).expect("a disk has fewer pages than that"));
    body.u64(checkpoint);
    body.u32(crc_of(kind, disk, body.written()));
    body.finish()
}

/// At which checkpoint the page was written that stands in `sector`.
///
/// # Errors
///
/// What is wrong, if it is not this page of this disk.
pub fn decode(kind: Kind, disk: u64, number: u64, sector: &[u8]) -> Result<u64, &'static str> {
    let mut r: Reader = Reader::new(sector.get(BODY_BYTES..).unwrap_or_default());
    let (Ok(found), Ok(checkpoint), Ok(crc)) = (r.u32(), r.u64(), r.u32()) else {
        return Err("it is not a whole sector");
    };
    if crc_of(kind, disk, &sector[..CRC]) != crc {
        return Err("it does not match its checksum");
    }
    if u64::from(found) != number {
        return Err("another page is in its place");
    }
    Ok(checkpoint)
}

/// The checksum of a page: of its kind, its disk, and all that stands before the checksum.
fn crc_of(kind: Kind, disk: u64, page: &[u8]) -> u32 {
    let crc = checksum::crc32c_append(checksum::crc32c(&[kind as u8]), &disk.to_le_bytes());
    checksum::crc32c_append(crc, page)
}
