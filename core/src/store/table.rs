//! The checksum and version table: for each data sector the CRC-32C of its content and the
//! timestamp of the write that made it. Pages are read when needed and kept while there is
//! room.
//!
//! A page has the numbers of its disk, of itself and of the checkpoint that wrote it; the [index](super::index)
//! says at which it was. So zeros, a page of another place, and an older copy are found: all its sectors count as
//! lost then, and are rebuilt from the other columns.
//!
//! Where data has only a length the table has no entries either: every sector of a page is
//! written, and it still uses its space.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::format::{Applied, seal, sealed};
use super::index::{Index, Known};
use super::page::{self, Kind};
use super::torn::{PageSum, TornPage};
use crate::Buffer;
use crate::buffer::are_zeros;
use crate::units::{SECTOR_BYTES, Timestamp};
use weft_bytes::{Read, Reader, Writer, checksum};

/// Bytes of an entry.
pub const ENTRY_BYTES: usize = 16;
/// Entries in a page, which is a sector; the last 16 bytes say what page it is.
pub const ENTRIES_PER_PAGE: usize = page::BODY_BYTES / ENTRY_BYTES;

/// The state of a sector's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum State {
    /// Reads as zeros; what stands in the place means nothing.
    Hole = 0,
    /// Holds content with the entry's checksum.
    Written = 1,
    /// Lost: what stood there could not be read.
    Bad = 2,
    /// Out of date: a later write has said so, and put nothing in its place. The entry's version is that write's.
    Marked = 3,
}

impl State {
    /// From its number on disk; unknown sectors count as lost.
    pub fn from_byte(byte: u8) -> State {
        match byte {
            0 => State::Hole,
            1 => State::Written,
            3 => State::Marked,
            _ => State::Bad,
        }
    }
}

/// A sector's entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TableEntry {
    /// The latest write in the content.
    pub version: Timestamp,
    /// CRC-32C of the content, if written.
    pub crc: u32,
    /// The content there.
    pub state: State,
    /// Whose sector it was when the entry was written: the lower 24 bits of the logical slot's number, 0 without slots.
    pub slot: u32,
}

impl TableEntry {
    /// A sector never written.
    pub const FRESH: TableEntry =
        TableEntry { version: Timestamp::ZERO, crc: 0, state: State::Hole, slot: 0 };
    /// A lost sector without a known version.
    pub const LOST: TableEntry = TableEntry { state: State::Bad, ..TableEntry::FRESH };
    /// A sector whose content is only a length.
    const LENGTH: TableEntry = TableEntry { state: State::Written, ..TableEntry::FRESH };

    /// What an apply entry says of a sector.
    pub(super) fn of(applied: &Applied) -> TableEntry {
        let Applied { version, crc, state, .. } = *applied;
        TableEntry { version, crc, state: State::from_byte(state), slot: 0 }
    }

    fn put(&self, w: &mut Writer) {
        w.u64(self.version.0);
        w.u32(self.crc);
        w.u32(u32::from(self.state as u8) | self.slot << 8);
    }

    fn take(r: &mut Reader) -> Read<TableEntry> {
        let (version, crc, state) = (Timestamp(r.u64()?), r.u32()?, r.u32()?);
        Ok(TableEntry { version, crc, state: State::from_byte(state as u8), slot: state >> 8 })
    }
}

#[derive(Clone, Hash)]
struct Page {
    /// None if the page has only a length.
    entries: Vec<TableEntry>,
    used: u64,
    /// The checkpoint at which it had been written when it was read; 0 if that is not known.
    written: u64,
}

/// The checkpoints that a disk knows while it is being opened; afterwards all. A page that was written at another is
/// from one whose apply entry was
/// lost: what it says has been put in place would be put in place again, and changes added twice.
#[derive(Clone, Hash)]
pub(crate) struct Numbers {
    /// All up to this one, which the superblock names.
    pub upto: u64,
    /// Those with an apply entry in the journal.
    pub applied: BTreeSet<u64>,
}

impl Default for Numbers {
    fn default() -> Numbers {
        Numbers { upto: u64::MAX, applied: BTreeSet::new() }
    }
}

impl Numbers {
    /// Whether the checkpoint is known to have existed.
    pub fn has(&self, checkpoint: u64) -> bool {
        checkpoint <= self.upto || self.applied.contains(&checkpoint)
    }
}

/// The pages in memory.
#[derive(Clone, Hash)]
pub(crate) struct Table {
    pages: BTreeMap<u64, Page>,
    /// Those to write with the next checkpoint.
    dirty: BTreeSet<u64>,
    room: usize,
    clock: u64,
    /// Pages that were seen with a marked sector, since before the index says so.
    marked: BTreeSet<u64>,
    /// Pages from an unknown checkpoint. They must be rewritten before their number becomes valid.
    refused: BTreeSet<u64>,
    /// Pages that the last checkpoint may have left torn, while the disk is being opened.
    pub torn: BTreeMap<u64, TornPage>,
    /// At which checkpoints there may be pages.
    pub numbers: Numbers,
    /// Which pages there must be; none before the disk is open, and where data has only a length.
    pub index: Option<Index>,
}

/// A page to write.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DirtyPage {
    pub number: u64,
    /// Whether a sector of it is marked.
    pub is_marked: bool,
    pub bytes: Buffer,
}

/// The page that holds a sector's entry.
pub(crate) fn page_of(sector: u64) -> u64 {
    sector / ENTRIES_PER_PAGE as u64
}

impl Table {
    pub fn new(room: usize) -> Table {
        Table {
            pages: BTreeMap::new(),
            dirty: BTreeSet::new(),
            room,
            clock: 0,
            marked: BTreeSet::new(),
            refused: BTreeSet::new(),
            torn: BTreeMap::new(),
            numbers: Numbers::default(),
            index: None,
        }
    }

    /// For how many numbers of its index memory is taken.
    #[cfg(test)]
    pub fn held(&self) -> u64 {
        self.index.as_ref().map_or(0, Index::held)
    }

    /// How many pages are in memory.
    pub fn len(&self) -> usize {
        self.pages.len()
    }

    pub fn has(&self, page: u64) -> bool {
        self.pages.contains_key(&page)
    }

    /// The entry of a sector whose page is in memory.
    pub fn get(&mut self, sector: u64) -> TableEntry {
        self.clock += 1;
        let page = self.pages.get_mut(&page_of(sector)).expect("page in memory");
        page.used = self.clock;
        page.entries.get(sector as usize % ENTRIES_PER_PAGE).copied().unwrap_or(TableEntry::LENGTH)
    }

    /// The same, if the page is in memory. The page does not count as used.
    pub fn peek(&self, sector: u64) -> Option<TableEntry> {
        let page = self.pages.get(&page_of(sector))?;
        let entry = page.entries.get(sector as usize % ENTRIES_PER_PAGE).copied();
        Some(entry.unwrap_or(TableEntry::LENGTH))
    }

    pub fn set(&mut self, sector: u64, entry: TableEntry) {
        let page = self.pages.get_mut(&page_of(sector)).expect("page in memory");
        self.dirty.insert(page_of(sector));
        if entry.state == State::Marked {
            self.marked.insert(page_of(sector));
        }
        if page.entries.is_empty() {
            if entry.state == State::Written {
                return;
            }
            page.entries = vec![TableEntry::LENGTH; ENTRIES_PER_PAGE];
        }
        page.entries[sector as usize % ENTRIES_PER_PAGE] = entry;
    }

    /// The first of these pages on which a sector may be marked.
    pub fn next_marked(&self, pages: Range<u64>) -> Option<u64> {
        let seen = self.marked.range(pages.clone()).next().copied();
        // Not past one that was seen.
        let unseen = pages.start..seen.unwrap_or(pages.end);
        self.index.as_ref().and_then(|index| index.next_marked(unseen)).or(seen)
    }

    /// Takes in a page as read from the disk, unless it is there already. If it is damaged, or could not be read, all
    /// its sectors are lost, and the reason is returned.
    pub fn load(&mut self, number: u64, page: Option<&Buffer>) -> Option<&'static str> {
        if self.has(number) {
            return None;
        }
        let found = match page {
            None => Err("it cannot be read"),
            Some(Buffer::Length(_)) => Ok((0, Vec::new())),
            Some(page) => {
                let bytes = page.to_bytes();
                let whole = self.decode(number, &bytes);
                whole.or_else(|why| Ok((0, self.mended(number, &bytes).ok_or(why)?)))
            }
        };
        let wrong = found.as_ref().err().copied();
        if wrong == Some(page::UNKNOWN_CHECKPOINT) {
            self.refused.insert(number);
        }
        let (written, entries) = found.unwrap_or_else(|_| (0, lost_page()));
        // A crash may have come before the index said that the page was written, and that a sector is marked.
        let is_newer = self.index.as_ref().is_some_and(|index| match index.known(number) {
            Known::Never => written > 0,
            Known::Written(last) => written > last,
            Known::Nothing => false,
        });
        if is_newer {
            self.dirty.insert(number);
        }
        if entries.iter().any(|e| e.state == State::Marked) {
            self.marked.insert(number);
        }
        self.clock += 1;
        self.pages.insert(number, Page { entries, used: self.clock, written });
        wrong
    }

    /// The checkpoint at which the page of a sector had been written when it was read; 0 if that is not known.
    pub fn written_at(&self, sector: u64) -> u64 {
        self.pages.get(&page_of(sector)).map_or(0, |page| page.written)
    }

    /// The entries of a page that a power cut tore, if they are those that the last checkpoint was going to write: see
    /// [`torn`](super::torn). It must be written again.
    fn mended(&mut self, number: u64, bytes: &[u8]) -> Option<Vec<TableEntry>> {
        let torn = self.torn.get(&number)?;
        let disk = self.index.as_ref()?.disk;
        if page::decode(Kind::Table, disk, number, bytes).is_ok() {
            return None;
        }
        let mut entries = decode_entries(bytes).ok()?;
        torn.changed.iter().for_each(|(at, entry)| entries[*at] = *entry);
        let fits = crc_of(&entries) == torn.crc;
        fits.then(|| {
            self.dirty.insert(number);
            entries
        })
    }

    /// The checksums of the pages that a checkpoint writes which sets these entries, by the sector that each is of.
    pub fn sums(&self, set: &[(u64, TableEntry)]) -> Vec<PageSum> {
        let mut changed: BTreeMap<u64, Vec<(usize, TableEntry)>> =
            self.dirty.iter().map(|page| (*page, Vec::new())).collect();
        for (sector, entry) in set {
            let at = *sector as usize % ENTRIES_PER_PAGE;
            changed.entry(page_of(*sector)).or_default().push((at, *entry));
        }
        let sum = |(page, changed): (u64, Vec<(usize, TableEntry)>)| {
            let mut entries = self.pages.get(&page).expect("page in memory").entries.clone();
            // A page that has only a length is never torn, and its sum takes as much room as any.
            for (at, entry) in changed {
                if let Some(old) = entries.get_mut(at) {
                    *old = entry;
                }
            }
            let is_marked = entries.iter().any(|e| e.state == State::Marked);
            PageSum { page, is_marked, crc: crc_of(&entries) }
        };
        changed.into_iter().map(sum).collect()
    }

    /// The difference between a page on the disk and the one in memory, if any.
    pub fn differs(&self, number: u64, bytes: &[u8]) -> Option<&'static str> {
        let clean = |page: &&Page| !self.dirty.contains(&number) && !page.entries.is_empty();
        let page = self.pages.get(&number).filter(clean)?;
        match self.decode(number, bytes) {
            Err(wrong) => Some(wrong),
            Ok((_, entries)) => {
                (entries != page.entries).then_some("it differs from the last write")
            }
        }
    }

    /// Marks a page in memory for writing with the next checkpoint.
    pub fn mark_dirty(&mut self, number: u64) {
        if self.has(number) {
            self.dirty.insert(number);
        }
    }

    /// The checkpoint at which a page was written, if that is known, and its entries.
    fn decode(&self, number: u64, bytes: &[u8]) -> Result<(u64, Vec<TableEntry>), &'static str> {
        let zeros = || are_zeros(bytes);
        let Some(index) = &self.index else {
            // Version 1: a page of zeros was never written.
            return match sealed(bytes).is_some() || zeros() {
                true => Ok((0, decode_entries(bytes)?)),
                false => Err("it does not match its checksum"),
            };
        };
        match (page::decode(Kind::Table, index.disk, number, bytes), index.known(number)) {
            (Ok(written), Known::Written(last)) if written < last => Err("it is an older copy"),
            (Ok(written), _) if !self.numbers.has(written) => Err(page::UNKNOWN_CHECKPOINT),
            (Ok(written), _) => Ok((written, decode_entries(bytes)?)),
            (Err(_), Known::Never) if zeros() => Ok((0, vec![TableEntry::FRESH; ENTRIES_PER_PAGE])),
            (Err(_), _) if zeros() => Err("it is all zeros"),
            (Err(wrong), _) => Err(wrong),
        }
    }

    /// Makes room by dropping the clean pages used least lately, except those to keep.
    pub fn trim(&mut self, keep: impl Fn(u64) -> bool) {
        if self.pages.len() <= self.room {
            return;
        }
        let clean = self.pages.iter().filter(|(n, _)| !self.dirty.contains(n) && !keep(**n));
        let mut old: Vec<(u64, u64)> = clean.map(|(n, p)| (p.used, *n)).collect();
        old.sort_unstable();
        let excess = self.pages.len() - self.room + self.room / 8;
        for (_, number) in old.into_iter().take(excess) {
            self.pages.remove(&number);
        }
    }

    /// The dirty pages as bytes, written at this checkpoint; they count as clean from now on.
    pub fn take_dirty(&mut self, checkpoint: u64) -> Vec<DirtyPage> {
        let dirty = std::mem::take(&mut self.dirty);
        dirty.into_iter().map(|number| self.written(number, checkpoint)).collect()
    }

    /// The pages that were refused as bytes, written at this checkpoint: all their sectors are lost, except those
    /// whose content the journal has given.
    pub fn take_refused(&mut self, checkpoint: u64) -> Vec<DirtyPage> {
        let refused = std::mem::take(&mut self.refused);
        self.dirty.retain(|number| !refused.contains(number));
        refused.into_iter().map(|number| self.written(number, checkpoint)).collect()
    }

    /// A page as it is written at this checkpoint.
    fn written(&mut self, number: u64, checkpoint: u64) -> DirtyPage {
        let entries = &self.pages.get(&number).expect("dirty pages stay in memory").entries;
        let bytes = match entries.is_empty() {
            true => Buffer::Length(SECTOR_BYTES),
            false => encode_page(self.index.as_ref(), number, checkpoint, entries).into(),
        };
        let is_marked = entries.iter().any(|e| e.state == State::Marked);
        if !is_marked {
            self.marked.remove(&number);
        }
        DirtyPage { number, is_marked, bytes }
    }
}

fn crc_of(entries: &[TableEntry]) -> u32 {
    let mut w: Writer = Writer::with_room(page::BODY_BYTES);
    entries.iter().for_each(|entry| entry.put(&mut w));
    checksum::crc32c(w.written())
}

fn encode_page(
    index: Option<&Index>,
    number: u64,
    checkpoint: u64,
    entries: &[TableEntry],
) -> Vec<u8> {
    let mut w = Writer::with_room(SECTOR_BYTES);
    entries.iter().for_each(|entry| entry.put(&mut w));
    match index {
        Some(index) => page::seal(Kind::Table, index.disk, number, checkpoint, w),
        None => {
            w.pad(SECTOR_BYTES - 4);
            seal(w)
        }
    }
}

fn decode_entries(page: &[u8]) -> Result<Vec<TableEntry>, &'static str> {
    let mut r = Reader::new(page);
    let entries = (0..ENTRIES_PER_PAGE).map(|_| TableEntry::take(&mut r));
    entries.collect::<Read<_>>().map_err(|_| "it is not a whole sector")
}

fn lost_page() -> Vec<TableEntry> {
    vec![TableEntry::LOST; ENTRIES_PER_PAGE]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_round_trip_and_are_dropped_when_clean() {
        let mut t = Table::new(2);
        for n in 0..4 {
            t.load(n, Some(&Buffer::Zero(SECTOR_BYTES)));
        }
        let entry = TableEntry { version: Timestamp(9), crc: 7, state: State::Written, slot: 5 };
        t.set(300, entry);
        t.trim(|n| n == 3);
        assert!(t.has(1) && t.has(3), "dirty and wanted pages stay");
        assert!(!t.has(0));
        let DirtyPage { number, bytes: page, is_marked } = t.take_dirty(5).pop().unwrap();
        assert_eq!((number, is_marked), (1, false));
        let mut again = Table::new(2);
        again.load(1, Some(&page));
        assert_eq!(again.get(300), entry);
        assert_eq!(again.get(301), TableEntry::FRESH);
        let mut bytes = page.to_bytes().to_vec();
        bytes[77] ^= 1;
        let mut rotten = Table::new(2);
        rotten.load(1, Some(&bytes.into()));
        assert_eq!(rotten.get(300).state, State::Bad);
    }

    /// A table of a disk with one index page: page 1 was written at checkpoint 5, page 2 never, and of 3 nothing
    /// is known.
    #[test]
    fn a_page_is_what_the_index_says_or_lost() {
        let mut t = Table::new(9);
        let mut index = Index::new(77, 9);
        index.wrote(1, 5, false);
        t.index = Some(index);
        let entry = TableEntry { version: Timestamp(9), crc: 7, state: State::Written, slot: 5 };
        let written = |disk, number, checkpoint| {
            let index = Index::new(disk, 9);
            Buffer::from(encode_page(Some(&index), number, checkpoint, &[entry; ENTRIES_PER_PAGE]))
        };
        let zeros = Buffer::Zero(SECTOR_BYTES);
        let mut load = |number, page: &Buffer| {
            t.pages.clear();
            let wrong = t.load(number, Some(page));
            (wrong.is_some(), t.get(number * ENTRIES_PER_PAGE as u64).state)
        };
        let lost = (true, State::Bad);
        assert_eq!(load(1, &written(77, 1, 5)), (false, State::Written));
        assert_eq!(load(1, &written(77, 1, 6)), (false, State::Written), "before the index was");
        assert_eq!(load(1, &written(77, 1, 4)), lost, "an older copy");
        assert_eq!(load(1, &zeros), lost);
        assert_eq!(load(1, &written(77, 2, 5)), lost, "of another place");
        assert_eq!(load(1, &written(78, 1, 5)), lost, "of another disk");
        assert_eq!(load(2, &zeros), (false, State::Hole));
        assert_eq!(load(2, &written(77, 2, 6)), (false, State::Written), "before the index was");
        t.index.as_mut().unwrap().load(0, &[0; SECTOR_BYTES], None);
        let mut load = |number, page: &Buffer| {
            t.pages.clear();
            t.load(number, Some(page)).is_some()
        };
        assert!(load(2, &zeros), "nobody knows whether it was ever written");
        assert!(!load(2, &written(77, 2, 1)));
    }

    #[test]
    fn a_page_of_a_length_takes_up_its_room_and_is_written_as_a_length() {
        let mut t = Table::new(2);
        for n in 0..3 {
            t.load(n, Some(&Buffer::Length(SECTOR_BYTES)));
        }
        assert_eq!(t.get(300), TableEntry::LENGTH);
        let entry = TableEntry { version: Timestamp(9), ..TableEntry::LENGTH };
        t.set(300, entry);
        let bytes = Buffer::Length(SECTOR_BYTES);
        assert_eq!(t.take_dirty(5), [DirtyPage { number: 1, is_marked: false, bytes }]);
        t.set(300, TableEntry::FRESH);
        assert_eq!((t.get(300), t.get(301)), (TableEntry::FRESH, TableEntry::LENGTH));
        t.trim(|_| false);
        assert!(!t.has(0) && t.has(1));
    }
}
