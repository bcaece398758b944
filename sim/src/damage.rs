//! Silent damage to sectors of a disk: they rot, cannot be read, or go back to earlier content.

use fastrand::Rng;
use weft_core::store::Superblock;

use crate::disk::SimDisk;

/// A kind of damage.
#[derive(Clone, Copy, Debug)]
pub enum Harm {
    Zeroed,
    Rotten,
    Unreadable,
    /// They have the content from before their last write.
    RolledBack,
    /// Only the first 512 bytes, or some more, of the last write are there.
    Torn,
}

/// A part of a disk.
#[derive(Clone, Copy, Debug)]
pub enum Region {
    Superblock,
    Journal,
    Index,
    Table,
    Owners,
    Data,
}

/// All harms.
pub const HARMS: [Harm; 5] =
    [Harm::Zeroed, Harm::Rotten, Harm::Unreadable, Harm::RolledBack, Harm::Torn];
/// All parts.
pub const REGIONS: [Region; 6] = [
    Region::Superblock,
    Region::Journal,
    Region::Index,
    Region::Table,
    Region::Data,
    Region::Owners,
];
/// How many of them disks without slots have: the first.
pub const UNSLOTTED_REGIONS: usize = 5;

/// Harms sectors of a part of a disk that follow one another.
pub fn harm(disk: &mut SimDisk, divided: &Superblock, harm: Harm, region: Region, rng: &mut Rng) {
    let (first, count) = sectors(region, divided);
    // Small disks have no owners.
    if count == 0 {
        return;
    }
    let at = first + rng.u64(0..count);
    let most = match region {
        Region::Superblock => 1,
        // A whole journal at once, in some cases. But a disk with that many unreadable sectors is not opened.
        Region::Journal if !matches!(harm, Harm::Unreadable) && rng.u8(0..3) == 0 => count,
        _ => rng.u64(1..=16),
    };
    let (at, end) = match most == count {
        true => (first, first + count),
        false => (at, (at + most).min(first + count)),
    };
    (at..end).for_each(|sector| harm_sector(disk, harm, sector, rng));
}

/// The first sector of a part of a disk, and how many it has.
fn sectors(region: Region, disk: &Superblock) -> (u64, u64) {
    match region {
        Region::Superblock => (0, 2),
        Region::Journal => (disk.journal_start(), disk.journal),
        Region::Index => (disk.index_start(), disk.index_pages()),
        Region::Table => (disk.table_start(), disk.table_pages()),
        Region::Owners => (disk.owners().start, disk.owners().end - disk.owners().start),
        Region::Data => (disk.data_start(), disk.data),
    }
}

fn harm_sector(disk: &mut SimDisk, harm: Harm, sector: u64, rng: &mut Rng) {
    match harm {
        Harm::Zeroed => disk.zero(sector),
        Harm::Rotten => disk.rot(sector, rng),
        Harm::Unreadable => disk.spoil(sector),
        Harm::RolledBack => disk.roll_back(sector),
        Harm::Torn => disk.tear(sector, 512 * rng.usize(1..8)),
    }
}
