//! The index of the table: for each page of the table the checkpoint at which it was last written, or that it
//! never was. It is what finds a page that was lost on its way to the disk, and tells zeros that were never
//! written from damage.
//!
//! The superblock has a sum of the versions of its pages, so an older copy of a page of the index is found, too. A
//! page says at which superblocks it was written the last three times, since after a crash it may
//! be newer than the superblock.
//!
//! It is in memory, 8 bytes for 255 sectors where anything was ever written. A page of it is written after the pages of the table
//! that it names are safe; so after a crash a page of the table may be newer than the index says, never older.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::format::MOST_COUNTED;
use super::page::{self, Kind};
use super::sparse::Sparse;
use super::torn::{PageSum, PageSums};
use crate::Buffer;
use crate::units::SECTOR_BYTES;
use weft_bytes::{BytesError, Read, Reader, Writer, checksum};

/// How many pages of the table a page of the index is for.
pub const PAGES_PER_INDEX: usize = EARLIER / 8;

/// Where in a page of the index the two checkpoints stand at which it was written before.
const EARLIER: usize = page::BODY_BYTES - 16;

/// Set in the entry of a page on which a sector is marked.
const MARKED: u64 = 1 << 63;

const NEVER: u64 = 0;
const UNKNOWN: u64 = u64::MAX;

/// The state of a page of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// It was never written: it is all zeros.
    Never,
    /// It was written last at this checkpoint, or later.
    Written(u64),
    /// Nothing: the page of the index is damaged.
    Nothing,
}

/// The index of a disk's table.
#[derive(Clone, Debug, Hash)]
pub struct Index {
    /// The disk's incarnation.
    pub disk: u64,
    entries: Sparse<u64>,
    /// Pages of it to write.
    dirty: BTreeSet<u64>,
    /// When each of its pages was written the last three times, the latest first.
    written: Vec<[u64; 3]>,
    /// The sum over all of them as they are now.
    sum: u64,
    /// Whether nothing is known of some of its pages.
    damaged: bool,
}

impl Index {
    /// The index of a table of this many pages that were never written.
    pub fn new(disk: u64, pages: u64) -> Index {
        let written = vec![[0; 3]; (pages as usize).div_ceil(PAGES_PER_INDEX)];
        let (entries, dirty) = (Sparse::new(pages), BTreeSet::new());
        Index { disk, entries, dirty, written, sum: 0, damaged: false }
    }

    /// A page of the index of a fresh disk.
    pub fn fresh(disk: u64, number: u64) -> Buffer {
        page::seal(Kind::Index, disk, number, 0, Writer::with_room(SECTOR_BYTES)).into()
    }

    /// Takes in a page of it as read from the disk. The `last` checkpoint, and its pages, are known if the journal
    /// names it: that may have been cut off while it wrote this one. Of a page that is damaged otherwise nothing is
    /// known; the reason is returned.
    pub fn load(
        &mut self,
        number: u64,
        bytes: &[u8],
        last: Option<&(u64, PageSums)>,
    ) -> Option<&'static str> {
        let checkpoint = page::decode(Kind::Index, self.disk, number, bytes);
        match checkpoint.and_then(|n| decode_body(bytes, n).map(|body| (n, body))) {
            Ok((checkpoint, (all, earlier))) => {
                self.entries_of(number)
                    .zip(all)
                    .for_each(|(at, entry)| self.entries.set(at, entry));
                self.written[number as usize] = [checkpoint, earlier[0], earlier[1]];
                None
            }
            Err(_) if last.is_some_and(|last| self.load_torn(number, bytes, last)) => None,
            Err(wrong) => {
                self.forget(number);
                Some(wrong)
            }
        }
    }

    /// The entries that stand in a page of it.
    fn entries_of(&self, number: u64) -> Range<u64> {
        let first = number * PAGES_PER_INDEX as u64;
        first..(first + PAGES_PER_INDEX as u64).min(self.entries.len())
    }

    /// Nothing is known of a page of it.
    fn forget(&mut self, number: u64) {
        self.entries_of(number).for_each(|at| self.entries.set(at, UNKNOWN));
        // No page is written with superblock 1: with this no sum matches until it is rewritten.
        self.written[number as usize] = [1, 0, 0];
        self.dirty.insert(number);
        self.damaged = true;
    }

    /// Nothing is known of any page of it.
    pub fn forget_all(&mut self) {
        (0..self.written.len() as u64).for_each(|n| self.forget(n));
    }

    /// A sum of the versions of its pages, for the next superblock.
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// What the sum was when the superblock of this sequence was written.
    fn sum_at(&self, sequence: u64) -> u64 {
        let version = |w: &[u64; 3]| w.iter().copied().find(|n| *n <= sequence).unwrap_or(0);
        let each = self.written.iter().enumerate().map(|(n, w)| mix(n as u64, version(w)));
        each.fold(0, u64::wrapping_add)
    }

    /// Whether it is what a superblock says: as old as that, or newer.
    pub fn fits(&self, sequence: u64, sum: u64) -> bool {
        !self.damaged && self.sum_at(sequence) == sum
    }

    /// The disk was opened with the superblock of this sequence, and may be again after the next crash: of each page
    /// the version that it names is remembered, and none between that and the present one.
    pub fn settle(&mut self, sequence: u64) {
        for written in self.written.iter_mut().filter(|w| w[0] > sequence) {
            let named = written.iter().copied().find(|n| *n <= sequence).unwrap_or(0);
            *written = [written[0], named, 0];
        }
        self.sum = self.sum_at(u64::MAX);
    }

    /// The state of a page of the table.
    pub fn known(&self, page: u64) -> Known {
        match self.entries.get(page) {
            NEVER => Known::Never,
            UNKNOWN => Known::Nothing,
            entry => Known::Written(entry & !MARKED),
        }
    }

    /// Whether a sector of a page of the table may be marked, by the written checkpoints.
    pub fn may_be_marked(&self, page: u64) -> bool {
        self.entries.get(page) & MARKED != 0
    }

    /// The first of these pages where that holds. Pages that were never written are skipped in one step.
    pub fn next_marked(&self, pages: Range<u64>) -> Option<u64> {
        self.entries.within(pages).map(|(page, _)| page).find(|page| self.may_be_marked(*page))
    }

    /// A page of the table that was written at a checkpoint is safe. Says whether a sector of it is marked.
    pub fn wrote(&mut self, page: u64, checkpoint: u64, is_marked: bool) {
        let entry = self.entries.get(page);
        let forward = entry == UNKNOWN || entry & !MARKED <= checkpoint;
        assert!(forward && checkpoint < MARKED, "checkpoints go forward");
        self.entries.set(page, entry_of(checkpoint, is_marked));
        self.dirty.insert(index_page(page));
    }

    /// A page was written last at this checkpoint, or never if it is 0; an unknown one is named instead.
    pub fn correct(&mut self, page: u64, checkpoint: u64) {
        assert!(checkpoint < MARKED, "no checkpoint has such a number");
        self.entries.set(page, checkpoint);
        self.dirty.insert(index_page(page));
    }

    /// For how many entries memory is taken.
    #[cfg(test)]
    pub fn held(&self) -> u64 {
        self.entries.held()
    }

    /// The checkpoint at which a page of it was written last.
    pub fn written_at(&self, page: u64) -> u64 {
        self.written[page as usize][0]
    }

    /// Marks a page of it for writing with the next checkpoint.
    pub fn mark_dirty(&mut self, page: u64) {
        self.dirty.insert(page);
    }

    /// The latest checkpoint at which a page of it was written.
    pub fn latest(&self) -> u64 {
        self.written.iter().map(|w| w[0]).max().unwrap_or(0)
    }

    /// The pages of it that a checkpoint writes which writes these pages: the number of each, and the checksum of its entries
    /// then.
    pub fn sums(&self, pages: &[PageSum], checkpoint: u64) -> Vec<(u64, u32)> {
        let mut entries: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for number in self.dirty.iter().copied().chain(pages.iter().map(|sum| index_page(sum.page)))
        {
            entries.entry(number).or_insert_with(|| self.whole_page(number));
        }
        for sum in pages {
            let of = entries.get_mut(&index_page(sum.page)).expect("just put in");
            of[sum.page as usize % PAGES_PER_INDEX] = entry_of(checkpoint, sum.is_marked);
        }
        entries.into_iter().map(|(number, of)| (number, crc_of(&of))).collect()
    }

    /// Takes in a page that a power cut tore while the checkpoint wrote it that was to write these pages: see
    /// [`torn`](super::torn). Says whether it is what that was going to make of it.
    fn load_torn(
        &mut self,
        number: u64,
        bytes: &[u8],
        (checkpoint, sums): &(u64, PageSums),
    ) -> bool {
        let Some((_, crc)) = sums.index.iter().find(|(page, _)| *page == number) else {
            return false;
        };
        let mut r: Reader = Reader::new(bytes);
        let entries: Read<Vec<u64>> = (0..PAGES_PER_INDEX).map(|_| r.u64()).collect();
        // What a page says of itself stands in one piece: it is from before, or from now.
        let versions = (|| Ok::<_, BytesError>((r.u64()?, r.u64()?, r.u32()?, r.u64()?)))();
        let (Ok(mut entries), Ok((before, earlier, _, written))) = (entries, versions) else {
            return false;
        };
        for sum in sums.pages.iter().filter(|sum| index_page(sum.page) == number) {
            entries[sum.page as usize % PAGES_PER_INDEX] = entry_of(*checkpoint, sum.is_marked);
        }
        let fits = crc_of(&entries) == *crc && written.max(before).max(earlier) <= MOST_COUNTED;
        if fits {
            self.entries_of(number)
                .zip(entries)
                .for_each(|(at, entry)| self.entries.set(at, entry));
            self.written[number as usize] = [written, before, earlier];
            self.dirty.insert(number);
        }
        fits
    }

    /// The entries of a page of it, and zeros behind the last.
    fn whole_page(&self, number: u64) -> Vec<u64> {
        let mut entries: Vec<u64> =
            self.entries_of(number).map(|at| self.entries.get(at)).collect();
        entries.resize(PAGES_PER_INDEX, NEVER);
        entries
    }

    /// The pages of it to write at this checkpoint; they count as written from now on.
    pub fn take_dirty(&mut self, checkpoint: u64) -> Vec<(u64, Buffer)> {
        let dirty = std::mem::take(&mut self.dirty);
        for n in &dirty {
            let [last, before, _] = self.written[*n as usize];
            assert!(last < checkpoint, "checkpoints go forward");
            self.sum = self.sum.wrapping_sub(mix(*n, last)).wrapping_add(mix(*n, checkpoint));
            self.written[*n as usize] = [checkpoint, last, before];
        }
        dirty.into_iter().map(|n| (n, self.encode(n))).collect()
    }

    fn encode(&self, number: u64) -> Buffer {
        let mut w = Writer::with_room(SECTOR_BYTES);
        self.entries_of(number).for_each(|at| w.u64(self.entries.get(at)));
        w.pad(EARLIER);
        let [checkpoint, before, earlier] = self.written[number as usize];
        w.u64(before);
        w.u64(earlier);
        page::seal(Kind::Index, self.disk, number, checkpoint, w).into()
    }
}

/// The page of the index that has the entry of a page of the table.
fn index_page(page: u64) -> u64 {
    page / PAGES_PER_INDEX as u64
}

/// The entry of a page of the table that was written at a checkpoint.
fn entry_of(checkpoint: u64, is_marked: bool) -> u64 {
    if is_marked { checkpoint | MARKED } else { checkpoint }
}

fn crc_of(entries: &[u64]) -> u32 {
    let mut w: Writer = Writer::with_room(EARLIER);
    entries.iter().for_each(|entry| w.u64(*entry));
    checksum::crc32c(w.written())
}

/// The entries of a page, and the two checkpoints at which it was written before. None of them is later than the one
/// at which it was written last.
fn decode_body(page: &[u8], checkpoint: u64) -> Result<(Vec<u64>, [u64; 2]), &'static str> {
    let mut r: Reader = Reader::new(page);
    let mut numbers = |count| (0..count).map(|_| r.u64()).collect::<Read<Vec<_>>>();
    let (Ok(entries), Ok(earlier)) = (numbers(PAGES_PER_INDEX), numbers(2)) else {
        return Err("it is not a whole sector");
    };
    let known = entries.iter().filter(|entry| **entry != UNKNOWN).map(|entry| entry & !MARKED);
    let named = known.chain(earlier.iter().copied());
    match checkpoint <= MOST_COUNTED && named.max() <= Some(checkpoint) {
        true => Ok((entries, [earlier[0], earlier[1]])),
        false => Err("it names checkpoints of the future"),
    }
}

/// A number for a version of a page, 0 if it was never written but when the disk was formatted.
fn mix(page: u64, checkpoint: u64) -> u64 {
    if checkpoint == 0 {
        return 0;
    }
    // The finalizer of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): neighbours get unlike numbers.
    let mut z = page.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ checkpoint;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_page_does_not_fit_the_sum_and_a_newer_one_does() {
        let pages = PAGES_PER_INDEX as u64 + 1;
        let (first, second) = (0, PAGES_PER_INDEX as u64);
        let mut index = Index::new(9, pages);
        let mut steps = Vec::new();
        for checkpoint in 2..6 {
            index.wrote(first, checkpoint, false);
            if checkpoint % 2 == 0 {
                index.wrote(second, checkpoint, false);
            }
            let written = index.take_dirty(checkpoint);
            assert_eq!(index.sum(), index.sum_at(checkpoint));
            steps.push((index.sum(), written));
        }
        let load = |upto: usize, but: Option<usize>| {
            let mut index = Index::new(9, pages);
            for n in 0..2 {
                index.load(n, &Index::fresh(9, n).to_bytes(), None);
            }
            for (step, (_, written)) in steps.iter().enumerate().take(upto) {
                for (n, page) in written.iter().filter(|_| Some(step) != but) {
                    index.load(*n, &page.to_bytes(), None);
                }
            }
            index
        };
        // The superblock of checkpoint 4, with or without the pages of the next.
        let sum = steps[2].0;
        for upto in 3..=4 {
            assert!(load(upto, None).fits(4, sum), "{upto}");
        }
        assert!(!load(3, Some(2)).fits(4, sum), "the last pages are missing");
        assert!(!load(1, None).fits(4, sum));
        let mut damaged = load(3, None);
        damaged.load(1, &[7; SECTOR_BYTES], None);
        assert!(!damaged.fits(4, sum));
        // It crashes again and again before the next superblock is written.
        let mut index = load(4, None);
        for checkpoint in [6, 8, 10] {
            index.settle(4);
            index.wrote(first, checkpoint, false);
            index.take_dirty(checkpoint);
            assert!(index.fits(4, sum));
        }
    }

    /// Found by fuzzing: such a page has its checksum, and counting on from it went wrong.
    #[test]
    fn a_page_that_names_later_checkpoints_than_its_own_is_damaged() {
        let page = |entry: u64, before: u64, checkpoint: u64| {
            let mut w = Writer::with_room(SECTOR_BYTES);
            w.u64(entry);
            w.pad(EARLIER);
            w.u64(before);
            page::seal(Kind::Index, 9, 0, checkpoint, w)
        };
        let load = |page: Vec<u8>| Index::new(9, 3).load(0, &page, None);
        assert_eq!(load(page(5, 4, 5)), None);
        assert_eq!(load(page(UNKNOWN, 0, 5)), None);
        let wrong = Some("it names checkpoints of the future");
        assert_eq!(load(page(6, 4, 5)), wrong);
        assert_eq!(load(page(5, 6, 5)), wrong);
        assert_eq!(load(page(5, 4, MOST_COUNTED + 1)), wrong);
    }

    #[test]
    fn an_index_round_trips_page_by_page_and_forgets_what_is_damaged() {
        let pages = 2 * PAGES_PER_INDEX as u64 + 3;
        let mut index = Index::new(9, pages);
        let last = pages - 1;
        index.wrote(0, 3, false);
        index.wrote(last, 4, false);
        let written = index.take_dirty(4);
        assert_eq!(written.iter().map(|(n, _)| *n).collect::<Vec<_>>(), [0, 2]);
        assert!(index.take_dirty(5).is_empty());
        let mut again = Index::new(9, pages);
        for n in 0..3 {
            assert_eq!(again.load(n, &Index::fresh(9, n).to_bytes(), None), None);
        }
        assert_eq!(again.held(), 0, "what was never written takes no memory");
        for (n, page) in &written {
            assert_eq!(again.load(*n, &page.to_bytes(), None), None);
        }
        assert_eq!((again.known(0), again.known(1)), (Known::Written(3), Known::Never));
        assert_eq!((again.known(last), again.latest()), (Known::Written(4), 4));
        assert!(again.load(2, &written[0].1.to_bytes(), None).is_some(), "a page of another place");
        assert_eq!((again.known(last), again.known(0)), (Known::Nothing, Known::Written(3)));
        assert_eq!(again.take_dirty(6).len(), 1, "it is written anew");
        again.wrote(last, 7, false);
        assert_eq!(again.known(last), Known::Written(7));
    }
}
