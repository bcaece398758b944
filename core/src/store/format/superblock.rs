//! The superblock: who the disk is, how it is divided, and where its journal begins.

use std::ops::Range;

use super::super::index::PAGES_PER_INDEX;
use super::super::map_area::{MAP_COPIES, MAP_SECTORS, map_area_sectors};
use super::super::reached::Heard;
use super::super::slots::{MOST_SLOT, MOST_SLOTS, OWNER_COPIES, OWNERS_PER_PAGE, kept_of};
use super::super::table::ENTRIES_PER_PAGE;
use super::versions::{FORMAT_VERSION, Version};
use super::{
    Bounds, FormatError, MOST_COUNTED, MOST_HEARD, SUPERBLOCKS, put_heard, seal, sealed, take_heard,
};
use crate::units::{Epoch, SECTOR_BYTES, Timestamp};
use weft_bytes::{BytesError, Read, Reader, Writer, at_most};

const SUPERBLOCK_MAGIC: &[u8; 8] = b"WEFTDISK";

/// The superblock: who the disk is, how it is divided, where the journal begins.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Superblock {
    /// The version of the disk's format.
    pub version: u32,
    /// The cluster that the disk belongs to.
    pub cluster: u128,
    /// The disk's number in the cluster.
    pub disk: u16,
    /// Told apart from every earlier formatting of the same disk; journal frames carry it.
    pub incarnation: u64,
    /// Sectors of the journal.
    pub journal: u64,
    /// Data sectors.
    pub data: u64,
    /// Counts superblock writes; the higher of the two copies holds.
    pub sequence: u64,
    /// Sector (from the journal's first) of the oldest frame still needed.
    pub tail: u64,
    /// That frame's number.
    pub tail_frame: u64,
    /// No write prepared on this disk before the tail has a later timestamp.
    pub latest: Timestamp,
    /// Sectors of each of the two copies of the cluster map; 0 on small disks.
    pub map: u64,
    /// The last epoch that the disk's node had entered.
    pub life: Epoch,
    /// Its journal was damaged, so it has forgotten what it promised, and the others have not been told yet.
    pub forgot: bool,
    /// Which versions of the pages of the table's index there were when this superblock was written: see
    /// [`Index::sum`](crate::store::index::Index::sum).
    pub index_sum: u64,
    /// How far other disks had got, as far as this one has heard.
    pub heard: Heard,
    /// Journal frames with lower numbers were durable when this was written, and so was the content of the writes in
    /// them; 0 if it does not say.
    pub durable_before: u64,
    /// Sectors of a slot; 0 if the disk is not divided into slots.
    pub slot: u64,
    /// Slots that volumes are not offered, so that whole slots of new content find free ones on a full disk, too.
    pub spare: u64,
    /// Slots without a place.
    pub unplaced: Unplaced,
}

/// What a disk knows of slots without a place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Unplaced {
    /// They are lost, not holes: a page of the owners was damaged.
    pub are_lost: bool,
    /// Those of thin volumes that were given back empty had no later versions.
    pub dropped: Timestamp,
}

impl Superblock {
    /// Sectors of the smallest journal.
    pub const LEAST_JOURNAL: u64 = 512;
    /// Sectors of the journal of disks that are large enough (64 MiB).
    pub const JOURNAL: u64 = 16_384;
    /// Sectors of the smallest disk: superblocks, journal, and a page each of index, table and data.
    pub const LEAST_SECTORS: u64 = SUPERBLOCKS + Self::LEAST_JOURNAL + 3;

    /// Sectors of a slot, of new disks.
    pub const SLOT: u64 = 16;
    /// The same of disks whose heads must move to get from one to the next: so what follows in a volume mostly follows on
    /// the disk, too.
    pub const ROTATING_SLOT: u64 = 64;
    /// Disks with fewer slots than this are not divided into any.
    pub const LEAST_SLOTS: u64 = 16;

    /// Divides a disk of `sectors` sectors; the journal gets `journal`, or a sixteenth of
    /// the disk if that is less.
    pub fn divide(
        cluster: u128,
        disk: u16,
        incarnation: u64,
        sectors: u64,
        journal: u64,
    ) -> Result<Superblock, FormatError> {
        Superblock::divide_in(Self::SLOT, cluster, disk, incarnation, sectors, journal)
    }

    /// The same, with slots of so many sectors; or with none if that is 0, or the disk has too few or too many.
    pub fn divide_in(
        slot: u64,
        cluster: u128,
        disk: u16,
        incarnation: u64,
        sectors: u64,
        journal: u64,
    ) -> Result<Superblock, FormatError> {
        let journal = journal.min(sectors / 16).max(Self::LEAST_JOURNAL);
        let map = map_area_sectors(sectors) / MAP_COPIES as u64;
        let rest = sectors
            .checked_sub(SUPERBLOCKS + 2 * map + journal)
            .filter(|&r| r >= 3)
            .ok_or(FormatError::TooSmall(sectors, Self::LEAST_SECTORS))?;
        let few = rest < slot * (Self::LEAST_SLOTS + 1) + 4;
        let slot = if few || rest > slot.saturating_mul(MOST_SLOTS) { 0 } else { slot };
        let data = Superblock::data_in(rest, slot);
        Ok(Superblock {
            version: FORMAT_VERSION,
            cluster,
            disk,
            incarnation,
            journal,
            data,
            sequence: 1,
            tail_frame: 1,
            map,
            durable_before: 1,
            slot,
            spare: data.checked_div(slot).map_or(0, kept_of),
            ..Superblock::unread()
        })
    }

    /// Sectors that a new disk of `sectors` sectors offers, whichever slots it gets.
    ///
    /// # Errors
    /// If the disk is too small.
    pub fn offered_by(sectors: u64) -> Result<u64, FormatError> {
        let divided = |slot| Superblock::divide_in(slot, 0, 0, 1, sectors, Self::JOURNAL);
        Ok(divided(Self::SLOT)?.offered().min(divided(Self::ROTATING_SLOT)?.offered()))
    }

    /// How many data sectors there are, with all that they need, in so many sectors.
    fn data_in(rest: u64, slot: u64) -> u64 {
        let per_page = ENTRIES_PER_PAGE as u64;
        let taken = |data: u64| {
            let pages = data.div_ceil(per_page);
            let owners = data.checked_div(slot).unwrap_or(0).div_ceil(OWNERS_PER_PAGE);
            let index = (pages + owners).div_ceil(PAGES_PER_INDEX as u64);
            data + pages + index + OWNER_COPIES * owners
        };
        let (mut data, mut too_many) = (0, rest);
        while too_many - data > 1 {
            let middle = data + (too_many - data) / 2;
            match taken(middle) <= rest {
                true => data = middle,
                false => too_many = middle,
            }
        }
        data - data.checked_rem(slot).unwrap_or(0)
    }

    /// A superblock of nothing: that of a disk that has yet to be read.
    pub(in crate::store) fn unread() -> Superblock {
        Superblock {
            version: FORMAT_VERSION,
            cluster: 0,
            disk: 0,
            incarnation: 0,
            journal: 0,
            data: 0,
            sequence: 0,
            tail: 0,
            tail_frame: 0,
            latest: Timestamp::ZERO,
            map: 0,
            life: 0,
            forgot: false,
            index_sum: 0,
            heard: Heard::new(),
            durable_before: 0,
            slot: 0,
            spare: 0,
            unplaced: Unplaced::default(),
        }
    }

    /// Whether the journal has checksums of the pages that a checkpoint writes.
    pub fn has_page_sums(&self) -> bool {
        Version::of(self.version).is_ok_and(|v| v.has_page_sums)
    }

    /// Whether it can hold thin volumes.
    pub fn has_spaces(&self) -> bool {
        self.slot() > 0 && Version::of(self.version).is_ok_and(|v| v.has_spaces)
    }

    /// Sectors of a slot, or 0 if the disk is not divided into slots.
    pub fn slot(&self) -> u64 {
        if Version::of(self.version).is_ok_and(|v| v.has_slots) { self.slot } else { 0 }
    }

    /// How many physical slots there are. What data sectors are left behind them are in their places for good.
    pub fn slots(&self) -> u64 {
        self.data.checked_div(self.slot()).unwrap_or(0)
    }

    /// How many logical slots there are.
    pub fn logical_slots(&self) -> u64 {
        self.slots() - self.spare
    }

    /// How many sectors volumes are offered: the logical ones.
    pub fn offered(&self) -> u64 {
        self.data - self.spare * self.slot()
    }

    /// What numbers of sectors and slots mean on this disk.
    pub(in crate::store) fn bounds(&self) -> Bounds {
        Bounds {
            offered: self.offered(),
            data: self.data,
            slot: self.slot(),
            has_spaces: self.has_spaces(),
            pages: self.table_pages() + self.owner_pages(),
        }
    }

    /// The sectors of both copies of the cluster map, if the disk has room for them.
    pub fn map_area(&self) -> Option<Range<u64>> {
        (self.map > 0).then(|| SUPERBLOCKS..SUPERBLOCKS + 2 * self.map)
    }

    /// First sector of the journal.
    pub fn journal_start(&self) -> u64 {
        SUPERBLOCKS + 2 * self.map
    }

    /// First sector of the table's index, which ends where the table begins.
    pub fn index_start(&self) -> u64 {
        self.journal_start() + self.journal
    }

    /// Pages (sectors) of the index.
    pub fn index_pages(&self) -> u64 {
        (self.table_pages() + self.owner_pages()).div_ceil(PAGES_PER_INDEX as u64)
    }

    /// First sector of the table.
    pub fn table_start(&self) -> u64 {
        self.index_start() + self.index_pages()
    }

    /// Pages (sectors) of each copy of the owners.
    pub fn owner_pages(&self) -> u64 {
        self.slots().div_ceil(OWNERS_PER_PAGE)
    }

    /// The sectors of the owners, one copy after the other. They are behind the data.
    pub fn owners(&self) -> Range<u64> {
        let start = self.data_start() + self.data;
        start..start + OWNER_COPIES * self.owner_pages()
    }

    /// Pages (sectors) of the table.
    pub fn table_pages(&self) -> u64 {
        self.data.div_ceil(ENTRIES_PER_PAGE as u64)
    }

    /// First data sector.
    pub fn data_start(&self) -> u64 {
        self.table_start() + self.table_pages()
    }

    /// Sectors in all.
    pub fn sectors(&self) -> u64 {
        self.owners().end
    }

    /// What must hold of every superblock that is written, and of every one that is read. Neither counts farther than `most`.
    fn check(&self, most: u64) -> Read<()> {
        let positive = |what, value| match value {
            0 => Err(BytesError::Bounds { what, value }),
            _ => Ok(()),
        };
        positive("the size of its journal", self.journal)?;
        positive("the number of its data sectors", self.data)?;
        positive("its sequence", self.sequence)?;
        positive("the number of the journal's oldest frame", self.tail_frame)?;
        // No disk is larger; so no sum of these overflows.
        at_most("the size of its journal", self.journal, 1 << 48)?;
        at_most("the number of its data sectors", self.data, 1 << 48)?;
        at_most("its sequence", self.sequence, most)?;
        at_most("the number of the journal's oldest frame", self.tail_frame, most)?;
        at_most("the number of a durable frame", self.durable_before, most)?;
        at_most("the sectors of a copy of the map", self.map, MAP_SECTORS)?;
        at_most("the journal's tail", self.tail, self.journal - 1)?;
        at_most("the sectors of a slot", self.slot, MOST_SLOT)?;
        at_most("the number of its slots", self.slots(), MOST_SLOTS)?;
        if self.spare > 0 {
            at_most("the number of spare slots", self.spare, self.slots().saturating_sub(1))?;
            at_most("the data sectors behind the last slot", self.data % self.slot, 0)?;
        }
        at_most("the number of known disks", self.heard.len() as u64, MOST_HEARD as u64)
    }

    /// The superblock as a sector.
    pub fn encode(&self) -> Vec<u8> {
        // A disk with the last numbers that are read counts on.
        if let Err(why) = self.check(2 * MOST_COUNTED) {
            panic!("an invalid superblock would be written: {why}: {self:?}");
        }
        let mut w: Writer = Writer::behind(SUPERBLOCK_MAGIC);
        w.u32(self.version);
        w.u32(u32::from(self.disk));
        w.u128(self.cluster);
        for field in
            [self.incarnation, self.journal, self.data, self.sequence, self.tail, self.tail_frame]
        {
            w.u64(field);
        }
        w.u64(self.latest.0);
        w.u64(self.map);
        w.u64(self.life);
        w.u64(self.index_sum);
        w.u32(u32::from(self.forgot));
        put_heard(&mut w, self.heard.iter().map(|(n, r)| (*n, *r)));
        w.u64(self.durable_before);
        if Version::of(self.version).is_ok_and(|v| v.has_slots) {
            w.u64(self.slot);
            w.u64(self.spare);
            w.u64(self.unplaced.are_lost.into());
            w.u64(self.unplaced.dropped.0);
        }
        w.pad(SECTOR_BYTES - 4);
        seal(w)
    }

    /// Reads a superblock from a sector.
    ///
    /// # Errors
    ///
    /// If it is none, or of a version that is not opened, or makes no sense.
    pub fn decode(sector: &[u8]) -> Result<Superblock, FormatError> {
        let whole = sector.len() == SECTOR_BYTES;
        let body = sealed(sector).filter(|_| whole).ok_or(FormatError::NotOurs)?;
        let mut r = Reader::new(body);
        r.magic(SUPERBLOCK_MAGIC, "a disk").map_err(|_| FormatError::NotOurs)?;
        let number = r.u32().map_err(FormatError::Superblock)?;
        let version = Version::of(number)?;
        let sb = Superblock::fields(version, &mut r).map_err(FormatError::Superblock)?;
        sb.check(MOST_COUNTED).map_err(FormatError::Superblock)?;
        Ok(sb)
    }

    fn fields(version: &Version, r: &mut Reader) -> Read<Superblock> {
        let disk = r.u32()?;
        at_most("its number", disk.into(), u16::MAX.into())?;
        let mut sb = Superblock {
            version: version.number,
            disk: disk as u16,
            cluster: r.u128()?,
            incarnation: r.u64()?,
            journal: r.u64()?,
            data: r.u64()?,
            sequence: r.u64()?,
            tail: r.u64()?,
            tail_frame: r.u64()?,
            latest: Timestamp(r.u64()?),
            map: r.u64()?,
            life: r.u64()?,
            index_sum: r.u64()?,
            forgot: r.u32()? != 0,
            heard: take_heard(r)?.into_iter().collect(),
            durable_before: r.u64()?,
            ..Superblock::unread()
        };
        if version.has_slots {
            (sb.slot, sb.spare) = (r.u64()?, r.u64()?);
            sb.unplaced.are_lost = r.u64()? != 0;
            sb.unplaced.dropped = Timestamp(r.u64()?);
        }
        Ok(sb)
    }

    /// Reads the copy that stands in a sector. One that belongs in the other's place got there by a write that
    /// went astray.
    pub fn decode_copy(sector: &[u8], place: u64) -> Result<Superblock, FormatError> {
        let sb = Superblock::decode(sector)?;
        // A fresh disk of any version has the same in both places.
        match sb.sequence % SUPERBLOCKS == place || sb.sequence == 1 {
            true => Ok(sb),
            false => Err(FormatError::NotOurs),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::reached::Reached;
    use super::*;
    use crate::units::NodeId;

    #[test]
    fn superblocks_round_trip_and_tell_what_is_wrong() {
        let sb = Superblock::divide(7, 3, 9, 100_000, 4096).unwrap();
        assert!(sb.sectors() <= 100_000 && sb.sectors() > 99_990);
        let reached = Reached { disk: 5, life: 6, frame: 7, sequence: 8 };
        let heard = (0..MOST_HEARD as u16).map(|n| (NodeId(n), reached)).collect();
        let sb = Superblock {
            sequence: 4,
            life: 3,
            forgot: true,
            index_sum: 9,
            heard,
            durable_before: 10,
            unplaced: Unplaced { are_lost: true, dropped: Timestamp(11) },
            ..sb
        };
        let mut sector = sb.encode();
        assert_eq!(Superblock::decode_copy(&sector, 0), Ok(sb.clone()));
        assert_eq!(Superblock::decode_copy(&sector, 1), Err(FormatError::NotOurs), "astray");
        sector[100] ^= 1;
        assert_eq!(Superblock::decode(&sector), Err(FormatError::NotOurs));
        let least = Superblock::LEAST_SECTORS;
        assert_eq!(Superblock::divide(7, 3, 9, least, 64).unwrap().data, 1);
        let small = Superblock::divide(7, 3, 9, least - 1, 64);
        assert_eq!(small, Err(FormatError::TooSmall(least - 1, least)));
    }

    /// Found by fuzzing: the next number overflowed, or could not be written.
    #[test]
    fn counters_that_no_disk_comes_to_make_no_sense() {
        let sb = Superblock::divide(7, 3, 9, 100_000, 4096).unwrap();
        let last = Superblock { sequence: MOST_COUNTED, ..sb.clone() };
        assert_eq!(Superblock::decode(&last.encode()), Ok(last.clone()));
        let next = Superblock { sequence: MOST_COUNTED + 1, ..last };
        assert!(matches!(Superblock::decode(&next.encode()), Err(FormatError::Superblock(_))));
        for wrong in [
            Superblock { sequence: u64::MAX, ..sb.clone() },
            Superblock { tail_frame: u64::MAX, ..sb.clone() },
            Superblock { durable_before: u64::MAX, ..sb },
        ] {
            assert!(matches!(
                wrong.check(2 * MOST_COUNTED),
                Err(BytesError::Bounds { value: u64::MAX, .. })
            ));
        }
    }
}
