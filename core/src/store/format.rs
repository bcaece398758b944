//! What stands on the disk, byte by byte. docs/disk-format.md is this file in prose; offsets
//! are nowhere else.
//!
//! | sectors | what |
//! |---|---|
//! | 0, 1 | superblock, written in turn |
//! | then 2 M | copies of the cluster map, from version 2 on |
//! | then J | journal |
//! | then I | index of the table, from version 2 on |
//! | then T | table: 16 bytes for each data sector |
//! | then the rest | data |

use std::ops::Range;

use super::ChangeKind;
use super::index::PAGES_PER_INDEX;
use super::map_area::{MAP_COPIES, map_area_sectors};
use super::reached::{Heard, Reached};
use super::table::ENTRIES_PER_PAGE;
use crate::units::{Epoch, NodeId, SECTOR, SECTOR_BYTES, Timestamp};

/// Version of the format that new disks get.
pub const FORMAT_VERSION: u32 = 2;
/// The oldest version that this code reads, and writes on disks that have it: without an index, copies of
/// the map, or what others know.
pub const OLDEST_VERSION: u32 = 1;
const SUPERBLOCK_MAGIC: &[u8; 8] = b"WEFTDISK";
const FRAME_MAGIC: &[u8; 8] = b"WEFTJRNL";
/// Sectors of the superblock's copies.
pub const SUPERBLOCKS: u64 = 2;
/// Of how many other disks a superblock keeps what was heard; a disk with more neighbours keeps it of those
/// that follow it in number.
pub const MOST_HEARD: usize = 100;
/// In the place of an epoch: the disk has forgotten what it promised before.
pub const FORGOT: Epoch = 0;
const FRAME_FIXED: usize = 48;

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
    /// Frames are missing between others, on a disk of version 1.
    #[error(
        "its journal is corrupt: frame {missing} is unreadable though frame {later} follows it"
    )]
    Hole {
        /// The first frame that cannot be read.
        missing: u64,
        /// A later one that can.
        later: u64,
    },
    /// Too small to hold anything.
    #[error("{0} sectors are too few for a disk; at least {1} are needed")]
    TooSmall(u64, u64),
}

/// Little-endian fields, appended.
#[derive(Default)]
pub(crate) struct Writer(pub Vec<u8>);

impl Writer {
    pub fn u8(&mut self, v: u8) {
        self.0.push(v);
    }
    pub fn u32(&mut self, v: u32) {
        self.0.extend_from_slice(&v.to_le_bytes());
    }
    pub fn u64(&mut self, v: u64) {
        self.0.extend_from_slice(&v.to_le_bytes());
    }
    pub fn bytes(&mut self, v: &[u8]) {
        self.u32(v.len() as u32);
        self.0.extend_from_slice(v);
    }
}

/// Little-endian fields, taken in turn; `None` past the end.
pub(crate) struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    pub fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(n)?;
        self.0 = tail;
        Some(head)
    }
    pub fn u8(&mut self) -> Option<u8> {
        self.take(1).map(|b| b[0])
    }
    pub fn u32(&mut self) -> Option<u32> {
        self.take(4).map(|b| u32::from_le_bytes(b.try_into().expect("4 bytes")))
    }
    pub fn u64(&mut self) -> Option<u64> {
        self.take(8).map(|b| u64::from_le_bytes(b.try_into().expect("8 bytes")))
    }
    pub fn bytes(&mut self) -> Option<&'a [u8]> {
        let n = self.u32()? as usize;
        self.take(n)
    }
}

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
    /// Sectors of each of the two copies of the cluster map; 0 on small disks and those of version 1.
    pub map: u64,
    /// The last epoch that the disk's node had entered.
    pub life: Epoch,
    /// Its journal was damaged, so it has forgotten what it promised, and the others have not been told yet.
    pub forgot: bool,
    /// Which versions of the pages of the table's index there were when this superblock was written: see
    /// [`Index::sum`](super::index::Index::sum).
    pub index_sum: u64,
    /// How far other disks had got, as far as this one has heard.
    pub heard: Heard,
    /// Journal frames with lower numbers were durable when this was written; 0 if it does not say.
    pub durable_before: u64,
}

impl Superblock {
    /// Sectors of the smallest journal.
    pub const LEAST_JOURNAL: u64 = 512;
    /// Sectors of the journal of disks that are large enough (64 MiB).
    pub const JOURNAL: u64 = 16_384;
    /// Sectors of the smallest disk: superblocks, journal, and a page each of index, table and data.
    pub const LEAST_SECTORS: u64 = SUPERBLOCKS + Self::LEAST_JOURNAL + 3;

    /// Divides a disk of `sectors` sectors; the journal gets `journal`, or a sixteenth of
    /// the disk if that is less.
    pub fn divide(
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
        let per_page = ENTRIES_PER_PAGE as u64;
        let mut data = rest * per_page / (per_page + 1);
        let taken = |data: u64| {
            let pages = data.div_ceil(per_page);
            data + pages + pages.div_ceil(PAGES_PER_INDEX as u64)
        };
        // An index page stands for so much data that few steps do.
        while taken(data) > rest {
            data -= 1;
        }
        Ok(Superblock {
            version: FORMAT_VERSION,
            cluster,
            disk,
            incarnation,
            journal,
            data,
            sequence: 1,
            tail: 0,
            tail_frame: 1,
            latest: Timestamp::ZERO,
            map,
            life: 0,
            forgot: false,
            index_sum: 0,
            heard: Heard::new(),
            durable_before: 1,
        })
    }

    /// A superblock of nothing: that of a disk that has yet to be read.
    pub(super) fn unread() -> Superblock {
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
        }
    }

    /// Whether the disk has an index of its table, and keeps what others have reached.
    pub fn has_index(&self) -> bool {
        self.version >= 2
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
        match self.has_index() {
            true => self.table_pages().div_ceil(PAGES_PER_INDEX as u64),
            false => 0,
        }
    }

    /// First sector of the table.
    pub fn table_start(&self) -> u64 {
        self.index_start() + self.index_pages()
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
        self.data_start() + self.data
    }

    /// The superblock as a sector.
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer(SUPERBLOCK_MAGIC.to_vec());
        w.u32(self.version);
        w.u32(u32::from(self.disk));
        w.0.extend_from_slice(&self.cluster.to_le_bytes());
        for field in
            [self.incarnation, self.journal, self.data, self.sequence, self.tail, self.tail_frame]
        {
            w.u64(field);
        }
        w.u64(self.latest.0);
        if self.has_index() {
            w.u64(self.map);
            w.u64(self.life);
            w.u64(self.index_sum);
            w.u32(u32::from(self.forgot));
            put_heard(&mut w, self.heard.iter().take(MOST_HEARD).map(|(n, r)| (*n, *r)));
            w.u64(self.durable_before);
        }
        assert!(w.0.len() <= SECTOR_BYTES - 4, "what was heard fits");
        w.0.resize(SECTOR_BYTES - 4, 0);
        let crc = crc32c::crc32c(&w.0);
        w.u32(crc);
        w.0
    }

    /// Reads a superblock from a sector.
    pub fn decode(sector: &[u8]) -> Result<Superblock, FormatError> {
        let (body, crc) = sector.split_at(SECTOR_BYTES - 4);
        let mut r = Reader(body);
        let bad = FormatError::NotOurs;
        if r.take(8) != Some(SUPERBLOCK_MAGIC) {
            return Err(bad);
        }
        if crc32c::crc32c(body).to_le_bytes() != crc {
            return Err(bad);
        }
        let mut fields = || {
            let version = r.u32()?;
            let disk = r.u32()? as u16;
            let cluster = u128::from_le_bytes(r.take(16)?.try_into().ok()?);
            let mut next = || r.u64();
            let mut sb = Superblock {
                version,
                cluster,
                disk,
                incarnation: next()?,
                journal: next()?,
                data: next()?,
                sequence: next()?,
                tail: next()?,
                tail_frame: next()?,
                latest: Timestamp(next()?),
                ..Superblock::unread()
            };
            if sb.has_index() {
                (sb.map, sb.life, sb.index_sum) = (next()?, next()?, next()?);
                sb.forgot = r.u32()? != 0;
                sb.heard = take_heard(&mut r)?.into_iter().collect();
                sb.durable_before = r.u64()?;
            }
            Some((version, sb))
        };
        let (version, sb) = fields().ok_or(bad)?;
        match (OLDEST_VERSION..=FORMAT_VERSION).contains(&version) {
            true => Ok(sb),
            false => Err(FormatError::Version(version)),
        }
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

/// An entry of a journal frame.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Entry {
    /// A participant's part of a write: what to do if it commits, and who else takes part.
    Prepare { ts: Timestamp, meta: Vec<u8>, changes: Vec<ChangeHead> },
    /// The outcome of a write prepared earlier.
    Outcome { ts: Timestamp, commit: bool },
    /// All participants know the outcome.
    Released { ts: Timestamp },
    /// These sectors are about to be written in place.
    Apply { sectors: Vec<Applied> },
    /// A checkpoint begins: what has committed by now, and nothing later, goes into it.
    Begin,
    /// The number of the checkpoint whose sectors the next apply entry names.
    Checkpoint(u64),
    /// A write that commits has no effect in these sectors: later content is there.
    Overtaken { ts: Timestamp, sectors: Vec<u64> },
    /// A write known to have committed, whose content is in place or superseded.
    Known { ts: Timestamp, meta: Vec<u8> },
    /// How far other disks had got, as far as this one has heard.
    Heard(Vec<(NodeId, Reached)>),
    /// What follows is promised in this epoch, or a later one; or [`FORGOT`].
    Life(Epoch),
}

/// What a change is, apart from its bytes, which follow the frame's head.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ChangeHead {
    pub sector: u64,
    pub count: u32,
    pub kind: ChangeKind,
    /// `None` for a run of zeros, which has no bytes in the frame.
    pub crc: Option<u32>,
}

/// What a sector in place will be once an apply is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Applied {
    pub sector: u64,
    pub version: Timestamp,
    pub crc: u32,
    pub state: u8,
}

/// The fixed part of a frame's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameHead {
    pub number: u64,
    pub head_sectors: u64,
    pub payload_sectors: u64,
}

impl FrameHead {
    /// Sectors of the whole frame.
    pub fn sectors(&self) -> u64 {
        self.head_sectors + self.payload_sectors
    }
}

/// A frame's head: fixed part and entries, in whole sectors.
pub(crate) fn encode_frame(
    incarnation: u64,
    number: u64,
    entries: &[Entry],
) -> (Vec<u8>, FrameHead) {
    let mut body = Writer::default();
    let mut payload_sectors = 0;
    for entry in entries {
        payload_sectors += encode_entry(&mut body, entry);
    }
    let head_sectors = (FRAME_FIXED + body.0.len()).div_ceil(SECTOR_BYTES) as u64;
    let mut w = Writer(FRAME_MAGIC.to_vec());
    w.u64(incarnation);
    w.u64(number);
    w.u32(head_sectors as u32);
    w.u32(payload_sectors as u32);
    w.u32(body.0.len() as u32);
    w.u32(crc32c::crc32c(&body.0));
    w.u32(entries.len() as u32);
    let crc = crc32c::crc32c(&w.0);
    w.u32(crc);
    debug_assert_eq!(w.0.len(), FRAME_FIXED);
    w.0.extend_from_slice(&body.0);
    w.0.resize((head_sectors * SECTOR) as usize, 0);
    (w.0, FrameHead { number, head_sectors, payload_sectors })
}

/// The fixed part at `at`, if a frame of this disk begins there.
pub(crate) fn decode_head(incarnation: u64, sector: &[u8]) -> Option<(FrameHead, u32, u32, u32)> {
    let fixed = sector.get(..FRAME_FIXED)?;
    let mut r = Reader(fixed);
    if r.take(8)? != FRAME_MAGIC || r.u64()? != incarnation {
        return None;
    }
    let number = r.u64()?;
    let (head_sectors, payload_sectors) = (u64::from(r.u32()?), u64::from(r.u32()?));
    let (body_len, body_crc, count) = (r.u32()?, r.u32()?, r.u32()?);
    let crc = r.u32()?;
    if crc32c::crc32c(&fixed[..FRAME_FIXED - 4]) != crc {
        return None;
    }
    Some((FrameHead { number, head_sectors, payload_sectors }, body_len, body_crc, count))
}

/// The frame that begins `journal`, with its entries, if it is whole.
pub(crate) fn decode_frame(incarnation: u64, journal: &[u8]) -> Option<(FrameHead, Vec<Entry>)> {
    let (head, body_len, body_crc, count) = decode_head(incarnation, journal)?;
    let body = journal.get(FRAME_FIXED..FRAME_FIXED + body_len as usize)?;
    if crc32c::crc32c(body) != body_crc {
        return None;
    }
    let mut r = Reader(body);
    let entries = (0..count).map(|_| decode_entry(&mut r)).collect::<Option<Vec<_>>>()?;
    let mut at = (head.head_sectors * SECTOR) as usize;
    for change in entries.iter().flat_map(changes_of) {
        if let Some(crc) = change.crc {
            let bytes = change.count as usize * SECTOR_BYTES;
            if crc32c::crc32c(journal.get(at..at + bytes)?) != crc {
                return None;
            }
            at += bytes;
        }
    }
    Some((head, entries))
}

pub(crate) fn changes_of(entry: &Entry) -> &[ChangeHead] {
    match entry {
        Entry::Prepare { changes, .. } => changes,
        _ => &[],
    }
}

/// Appends an entry; returns the sectors of bytes that follow the head for it.
fn encode_entry(w: &mut Writer, entry: &Entry) -> u64 {
    match entry {
        Entry::Prepare { ts, meta, changes } => {
            w.u8(1);
            w.u64(ts.0);
            w.bytes(meta);
            w.u32(changes.len() as u32);
            for c in changes {
                w.u64(c.sector);
                w.u32(c.count);
                w.u8(u8::from(c.kind.is_delta()) | u8::from(c.crc.is_none()) << 1);
                w.u32(c.crc.unwrap_or(0));
            }
            changes.iter().filter(|c| c.crc.is_some()).map(|c| u64::from(c.count)).sum()
        }
        Entry::Outcome { ts, commit } => {
            w.u8(2);
            w.u64(ts.0);
            w.u8(u8::from(*commit));
            0
        }
        Entry::Released { ts } => {
            w.u8(3);
            w.u64(ts.0);
            0
        }
        Entry::Apply { sectors } => {
            w.u8(4);
            w.u32(sectors.len() as u32);
            for a in sectors {
                w.u64(a.sector);
                w.u64(a.version.0);
                w.u32(a.crc);
                w.u8(a.state);
            }
            0
        }
        Entry::Known { ts, meta } => {
            w.u8(5);
            w.u64(ts.0);
            w.bytes(meta);
            0
        }
        Entry::Begin => {
            w.u8(6);
            0
        }
        Entry::Overtaken { ts, sectors } => {
            w.u8(10);
            w.u64(ts.0);
            w.u32(sectors.len() as u32);
            sectors.iter().for_each(|s| w.u64(*s));
            0
        }
        Entry::Checkpoint(number) => {
            w.u8(9);
            w.u64(*number);
            0
        }
        Entry::Heard(heard) => {
            w.u8(7);
            put_heard(w, heard.iter().copied());
            0
        }
        Entry::Life(epoch) => {
            w.u8(8);
            w.u64(*epoch);
            0
        }
    }
}

/// A count, then 34 bytes for each disk.
fn put_heard(w: &mut Writer, heard: impl ExactSizeIterator<Item = (NodeId, Reached)>) {
    w.u32(heard.len() as u32);
    for (node, r) in heard {
        w.0.extend_from_slice(&node.0.to_le_bytes());
        [r.disk, r.life, r.frame, r.sequence].into_iter().for_each(|n| w.u64(n));
    }
}

fn take_heard(r: &mut Reader<'_>) -> Option<Vec<(NodeId, Reached)>> {
    let count = r.u32()?;
    let mut one = || {
        let node = NodeId(u16::from_le_bytes(r.take(2)?.try_into().expect("2 bytes")));
        let (disk, life, frame, sequence) = (r.u64()?, r.u64()?, r.u64()?, r.u64()?);
        Some((node, Reached { disk, life, frame, sequence }))
    };
    (0..count).map(|_| one()).collect()
}

fn decode_entry(r: &mut Reader<'_>) -> Option<Entry> {
    match r.u8()? {
        1 => {
            let (ts, meta) = (Timestamp(r.u64()?), r.bytes()?.to_vec());
            let n = r.u32()?;
            let changes = (0..n).map(|_| decode_change(r)).collect::<Option<_>>()?;
            Some(Entry::Prepare { ts, meta, changes })
        }
        2 => Some(Entry::Outcome { ts: Timestamp(r.u64()?), commit: r.u8()? == 1 }),
        3 => Some(Entry::Released { ts: Timestamp(r.u64()?) }),
        4 => {
            let n = r.u32()?;
            let sectors = (0..n).map(|_| decode_applied(r)).collect::<Option<_>>()?;
            Some(Entry::Apply { sectors })
        }
        5 => Some(Entry::Known { ts: Timestamp(r.u64()?), meta: r.bytes()?.to_vec() }),
        6 => Some(Entry::Begin),
        9 => Some(Entry::Checkpoint(r.u64()?)),
        10 => {
            let (ts, n) = (Timestamp(r.u64()?), r.u32()?);
            let sectors = (0..n).map(|_| r.u64()).collect::<Option<_>>()?;
            Some(Entry::Overtaken { ts, sectors })
        }
        7 => take_heard(r).map(Entry::Heard),
        8 => r.u64().map(Entry::Life),
        _ => None,
    }
}

fn decode_change(r: &mut Reader<'_>) -> Option<ChangeHead> {
    let (sector, count, flags, crc) = (r.u64()?, r.u32()?, r.u8()?, r.u32()?);
    let kind = if flags & 1 == 1 { ChangeKind::Delta } else { ChangeKind::Content };
    Some(ChangeHead { sector, count, kind, crc: (flags & 2 == 0).then_some(crc) })
}

fn decode_applied(r: &mut Reader<'_>) -> Option<Applied> {
    let (sector, version) = (r.u64()?, Timestamp(r.u64()?));
    Some(Applied { sector, version, crc: r.u32()?, state: r.u8()? })
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn a_disk_of_version_1_is_divided_as_it_always_was() {
        let sb = Superblock {
            version: 1,
            map: 0,
            durable_before: 0,
            ..Superblock::divide(7, 3, 9, 100_000, 4096).unwrap()
        };
        assert_eq!((sb.journal_start(), sb.table_start()), (2, 4098));
        assert_eq!(Superblock::decode(&sb.encode()), Ok(sb));
    }

    #[test]
    fn frames_round_trip_and_any_flipped_bit_is_seen() {
        let payload = vec![5u8; SECTOR_BYTES];
        let change = ChangeHead {
            sector: 9,
            count: 1,
            kind: ChangeKind::Delta,
            crc: Some(crc32c::crc32c(&payload)),
        };
        let zeros = ChangeHead { sector: 77, count: 512, kind: ChangeKind::Content, crc: None };
        let entries = vec![
            Entry::Prepare { ts: Timestamp(5), meta: vec![1, 2], changes: vec![change, zeros] },
            Entry::Outcome { ts: Timestamp(4), commit: true },
            Entry::Released { ts: Timestamp(3) },
            Entry::Known { ts: Timestamp(2), meta: vec![] },
            Entry::Begin,
            Entry::Checkpoint(7),
            Entry::Overtaken { ts: Timestamp(4), sectors: vec![5, 6] },
            Entry::Life(8),
            Entry::Heard(vec![(NodeId(3), Reached { disk: 1, life: 2, frame: 3, sequence: 4 })]),
            Entry::Apply {
                sectors: vec![Applied { sector: 1, version: Timestamp(2), crc: 3, state: 1 }],
            },
        ];
        let (mut frame, head) = encode_frame(42, 8, &entries);
        assert_eq!((head.head_sectors, head.payload_sectors), (1, 1));
        frame.extend_from_slice(&payload);
        assert_eq!(decode_frame(42, &frame), Some((head, entries)));
        assert_eq!(decode_frame(43, &frame), None, "a frame of another formatting");
        for at in [0, 20, 60, SECTOR_BYTES + 7] {
            frame[at] ^= 4;
            assert_eq!(decode_frame(42, &frame), None, "byte {at}");
            frame[at] ^= 4;
        }
    }
}
