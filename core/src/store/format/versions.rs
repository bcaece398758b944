//! The versions of the disk format, and what this code does with a disk of each. The superblock names the version, and
//! this table decides: so a coming version is one more entry here, with what it has that others have not.
//!
//! A disk is written in the version that it has, unless its entry converts it in place. A conversion is
//! one write of the superblock: it comes when the journal has been replayed and all that was found is safe, as
//! the last step of opening. Before that the disk is of the old version, and after it of the new one; a crash
//! leaves one of the two. So what a new version adds must be such that the old one's sectors stand for it:
//! fields that zeros are right for, or an area in what the old version left free.

use super::FormatError;
use super::superblock::Superblock;

/// Version of the format that new disks get.
pub const FORMAT_VERSION: u32 = 7;
/// The oldest version that this code reads, and writes on disks that have it.
pub const OLDEST_VERSION: u32 = 3;

/// A version of the format.
pub struct Version {
    /// The number that superblocks name.
    pub number: u32,
    /// Whether its disks are divided into slots, if they are large enough.
    pub has_slots: bool,
    /// Whether its journal has checksums of the pages that a checkpoint writes.
    pub has_page_sums: bool,
    /// Whether its slots may belong to thin volumes, which have address spaces of their own.
    pub has_spaces: bool,
    /// What is done with a disk of it.
    pub opening: Opening,
}

/// What is done with a disk of some version.
#[derive(Clone, Copy)]
pub enum Opening {
    /// It is opened, and stays what it is.
    AsItIs,
    /// It is opened, and this makes its superblock that of a newer version.
    Convert(fn(Superblock) -> Superblock),
    /// It is not opened, for this reason, which also says what to do.
    Refuse(&'static str),
}

/// All versions that there have been.
pub const VERSIONS: &[Version] = &[
    version(3, Opening::Convert(to_newest)),
    Version { has_slots: true, ..version(4, Opening::Convert(to_newest)) },
    Version { has_slots: true, has_page_sums: true, ..version(5, Opening::Convert(to_newest)) },
    with_spaces(6, Opening::Convert(to_newest)),
    with_spaces(FORMAT_VERSION, Opening::AsItIs),
    #[cfg(test)]
    tests::CONVERTED,
    #[cfg(test)]
    tests::REFUSED,
];

/// A version whose disks have none of what came later.
const fn version(number: u32, opening: Opening) -> Version {
    Version { number, has_slots: false, has_page_sums: false, has_spaces: false, opening }
}

/// A version whose disks have slots, checksums of pages and address spaces.
const fn with_spaces(number: u32, opening: Opening) -> Version {
    let version = version(number, opening);
    Version { has_slots: true, has_page_sums: true, has_spaces: true, ..version }
}

/// A disk without slots says so with zeros, and one without address spaces has no thin volumes. From the next checkpoint on the
/// journal has checksums of pages. No journal of an earlier version has carried entries.
fn to_newest(superblock: Superblock) -> Superblock {
    Superblock { version: FORMAT_VERSION, ..superblock }
}

impl Version {
    /// The entry of a version.
    ///
    /// # Errors
    ///
    /// If there is none, or its disks are refused.
    pub fn of(number: u32) -> Result<&'static Version, FormatError> {
        let entry = VERSIONS.iter().find(|v| v.number == number);
        match entry.ok_or(FormatError::Version(number))? {
            Version { opening: Opening::Refuse(why), .. } => {
                Err(FormatError::Refused { version: number, why })
            }
            version => Ok(version),
        }
    }

    /// What becomes of the superblock of a disk that is opened.
    pub fn open(&self, superblock: Superblock) -> Superblock {
        match self.opening {
            Opening::Convert(convert) => convert(superblock),
            Opening::AsItIs | Opening::Refuse(_) => superblock,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::{DiskOp, Event, JournalStore, Store, StoreConfig};
    use super::*;
    use crate::Buffer;
    use crate::units::SECTOR_BYTES;
    use weft_bytes::checksum;

    /// A version whose superblock is converted, and that differs in nothing else.
    pub const CONVERTED: Version = version(900, Opening::Convert(to_newest));
    pub const REFUSED: Version = Version { ..version(901, Opening::Refuse("it was a draft")) };

    fn disk_of(version: u32) -> Vec<u8> {
        let fresh = Superblock::divide(7, 3, 9, 700, 512).expect("it is large enough");
        let mut disk = vec![0; fresh.sectors() as usize * SECTOR_BYTES];
        for op in JournalStore::format(&Superblock { version, ..fresh }) {
            run(&mut disk, op);
        }
        disk
    }

    fn run(disk: &mut [u8], op: DiskOp) -> Buffer {
        match op {
            DiskOp::Read { offset, len } => {
                return disk[offset as usize..(offset + len) as usize].to_vec().into();
            }
            DiskOp::Write { offset, data, .. } => {
                let bytes = Buffer::join(&data);
                disk[offset as usize..offset as usize + bytes.len()].copy_from_slice(&bytes);
            }
            DiskOp::Flush | DiskOp::Discard { .. } => {}
        }
        Buffer::Zero(0)
    }

    /// Opens a disk, at most up to a number of operations; says what the store said.
    fn open(disk: &mut [u8], most: usize) -> Option<Event> {
        let sectors = (disk.len() / SECTOR_BYTES) as u64;
        let mut store = JournalStore::open(StoreConfig::default(), 7, 3, sectors);
        for _ in 0..most {
            for request in store.take_ops() {
                let read = run(disk, request.op);
                Store::done(&mut store, request.id, Ok(read));
            }
        }
        store.poll()
    }

    fn versions(disk: &[u8]) -> [u32; 2] {
        [0, 1].map(|n| {
            let at = n * SECTOR_BYTES;
            Superblock::decode(&disk[at..at + SECTOR_BYTES]).expect("a superblock").version
        })
    }

    #[test]
    fn every_version_has_one_entry_and_new_disks_get_the_newest() {
        let released = VERSIONS.iter().map(|v| v.number).filter(|n| *n < CONVERTED.number);
        assert_eq!(
            released.collect::<Vec<_>>(),
            (OLDEST_VERSION..=FORMAT_VERSION).collect::<Vec<_>>()
        );
        for unknown in [1, 2, 77] {
            assert_eq!(Version::of(unknown).err(), Some(FormatError::Version(unknown)));
        }
    }

    #[test]
    fn a_disk_is_converted_by_the_superblock_that_opening_writes() {
        let mut disk = disk_of(CONVERTED.number);
        assert_eq!(versions(&disk), [CONVERTED.number; 2]);
        // Cut off anywhere before that, it is what it was.
        let mut cut = disk.clone();
        open(&mut cut, 3);
        assert_eq!(versions(&cut), [CONVERTED.number; 2]);
        assert!(matches!(open(&mut disk, 99), Some(Event::Opened(_))));
        assert!(versions(&disk).contains(&FORMAT_VERSION), "one copy is the new one");
        assert!(matches!(open(&mut disk, 99), Some(Event::Opened(_))));
        assert_eq!(versions(&disk), [FORMAT_VERSION; 2], "and at the next writing both are");
    }

    #[test]
    fn a_disk_that_is_refused_is_left_as_it_is() {
        let mut disk = disk_of(3);
        for copy in disk[..2 * SECTOR_BYTES].chunks_exact_mut(SECTOR_BYTES) {
            copy[8..12].copy_from_slice(&REFUSED.number.to_le_bytes());
            let crc = checksum::crc32c(&copy[..SECTOR_BYTES - 4]);
            copy[SECTOR_BYTES - 4..].copy_from_slice(&crc.to_le_bytes());
        }
        let before = disk.clone();
        let refused = |disk: &mut [u8]| match open(disk, 99) {
            Some(Event::Refused(why)) => why.to_string(),
            other => panic!("it is not refused: {other:?}"),
        };
        assert_eq!(refused(&mut disk), "its format is version 901: it was a draft");
        assert!(disk == before);
        // One copy is enough: a newer Weft has begun to write this disk.
        disk[..SECTOR_BYTES].copy_from_slice(&disk_of(3)[..SECTOR_BYTES]);
        assert_eq!(refused(&mut disk), "its format is version 901: it was a draft");
    }
}
