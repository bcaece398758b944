//! The index of the table: for each page of the table the checkpoint at which it was last written, or that it
//! never was. It is what finds a page that was lost on its way to the disk, and tells zeros that were never
//! written from damage.
//!
//! It is in memory as a whole, 8 bytes for 255 sectors. A page of it is written after the pages of the table
//! that it names are safe; so after a crash a page of the table may be newer than the index says, never older.

use std::collections::BTreeSet;

use super::page::{self, Kind};
use crate::Buffer;
use crate::units::SECTOR_BYTES;

/// How many pages of the table a page of the index is for.
pub const PAGES_PER_INDEX: usize = page::BODY_BYTES / 8;

const NEVER: u64 = 0;
const UNKNOWN: u64 = u64::MAX;

/// What is known of a page of the table.
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
    entries: Vec<u64>,
    /// Pages of it that are to be written.
    dirty: BTreeSet<u64>,
    /// The latest checkpoint that it names.
    latest: u64,
}

impl Index {
    /// The index of a table of so many pages that were never written.
    pub fn new(disk: u64, pages: u64) -> Index {
        Index { disk, entries: vec![NEVER; pages as usize], dirty: BTreeSet::new(), latest: 0 }
    }

    /// The pages of the index of a fresh disk.
    pub fn fresh(disk: u64, pages: u64) -> Vec<Buffer> {
        let index = Index::new(disk, pages);
        (0..pages.div_ceil(PAGES_PER_INDEX as u64)).map(|n| index.encode(n, 1)).collect()
    }

    /// Takes in a page of it as read from the disk. Of one that is damaged nothing is known; what is wrong with
    /// it is returned.
    pub fn load(&mut self, number: u64, bytes: &[u8]) -> Option<&'static str> {
        let first = number as usize * PAGES_PER_INDEX;
        let end = (first + PAGES_PER_INDEX).min(self.entries.len());
        match page::decode(Kind::Index, self.disk, number, bytes) {
            Ok(checkpoint) => {
                let entries = bytes
                    .chunks_exact(8)
                    .map(|b| u64::from_le_bytes(b.try_into().expect("8 bytes")));
                self.entries[first..end].iter_mut().zip(entries).for_each(|(e, read)| *e = read);
                self.latest = self.latest.max(checkpoint);
                None
            }
            Err(wrong) => {
                self.entries[first..end].fill(UNKNOWN);
                self.dirty.insert(number);
                Some(wrong)
            }
        }
    }

    /// What is known of a page of the table.
    pub fn known(&self, page: u64) -> Known {
        match self.entries[page as usize] {
            NEVER => Known::Never,
            UNKNOWN => Known::Nothing,
            checkpoint => Known::Written(checkpoint),
        }
    }

    /// A page of the table that was written at a checkpoint is safe.
    pub fn wrote(&mut self, page: u64, checkpoint: u64) {
        let entry = &mut self.entries[page as usize];
        assert!(*entry == UNKNOWN || *entry <= checkpoint, "checkpoints go forward");
        *entry = checkpoint;
        self.latest = self.latest.max(checkpoint);
        self.dirty.insert(page / PAGES_PER_INDEX as u64);
    }

    /// The latest checkpoint at which a page of it was written.
    pub fn latest(&self) -> u64 {
        self.latest
    }

    /// The pages of it that are to be written, at this checkpoint; they count as written from now on.
    pub fn take_dirty(&mut self, checkpoint: u64) -> Vec<(u64, Buffer)> {
        let dirty = std::mem::take(&mut self.dirty);
        dirty.into_iter().map(|n| (n, self.encode(n, checkpoint))).collect()
    }

    fn encode(&self, number: u64, checkpoint: u64) -> Buffer {
        let mut bytes = vec![0; SECTOR_BYTES];
        let entries = self.entries.iter().skip(number as usize * PAGES_PER_INDEX);
        for (entry, out) in entries.zip(bytes[..page::BODY_BYTES].chunks_exact_mut(8)) {
            out.copy_from_slice(&entry.to_le_bytes());
        }
        page::seal(Kind::Index, self.disk, number, checkpoint, &mut bytes);
        bytes.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_round_trips_page_by_page_and_forgets_what_is_damaged() {
        let pages = 2 * PAGES_PER_INDEX as u64 + 3;
        let mut index = Index::new(9, pages);
        let last = pages - 1;
        index.wrote(0, 3);
        index.wrote(last, 4);
        let written = index.take_dirty(4);
        assert_eq!(written.iter().map(|(n, _)| *n).collect::<Vec<_>>(), [0, 2]);
        assert!(index.take_dirty(5).is_empty());
        let mut again = Index::new(9, pages);
        for (n, fresh) in Index::fresh(9, pages).iter().enumerate() {
            assert_eq!(again.load(n as u64, &fresh.to_bytes()), None);
        }
        for (n, page) in &written {
            assert_eq!(again.load(*n, &page.to_bytes()), None);
        }
        assert_eq!((again.known(0), again.known(1)), (Known::Written(3), Known::Never));
        assert_eq!((again.known(last), again.latest()), (Known::Written(4), 4));
        assert!(again.load(2, &written[0].1.to_bytes()).is_some(), "a page of another place");
        assert_eq!((again.known(last), again.known(0)), (Known::Nothing, Known::Written(3)));
        assert_eq!(again.take_dirty(6).len(), 1, "it is written anew");
        again.wrote(last, 7);
        assert_eq!(again.known(last), Known::Written(7));
    }
}
