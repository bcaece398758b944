//! Pages that a power cut tears. A disk may write any 512 bytes of a sector and lose the others, and a power cut does
//! that to all disks of an array at once. So a page of the table or its index must not depend on the one write that
//! replaces it in place.
//!
//! An entry of a page never lies across two such pieces. So of a torn page each entry is either the one that the checkpoint was
//! writing or the one from before, and a checkpoint that changes an entry names it in the journal. With those put in, the
//! page is what it was going to be. The apply entry holds a checksum of that, made before anything is written in place. A page
//! that does not fit the checksum has been damaged in another way, and counts as lost.
//!
//! The owners of slots and the superblock have two copies each, which are written in turn.

use std::collections::BTreeMap;

use super::JournalStore;
use super::checkpoint::Checkpoint;
use super::format::Applied;
use super::format::Entry;
use super::table::{State, TableEntry, page_of};
use crate::Buffer;
use crate::units::{SECTOR_BYTES, Timestamp};

/// The smallest piece of a sector that a disk writes as a whole.
const PIECE: usize = 512;

/// A page that a checkpoint writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PageSum {
    /// Its number: pages of the table first, then those of the owners, as the index counts them.
    pub page: u64,
    /// Whether a sector of it is marked.
    pub is_marked: bool,
    /// CRC-32C of the entries of a page of the table; 0 for one of the owners.
    pub crc: u32,
}

/// What a checkpoint makes of the pages that it writes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct PageSums {
    /// Pages of the table and the owners.
    pub pages: Vec<PageSum>,
    /// Pages of the index: the number of each, and the CRC-32C of its entries.
    pub index: Vec<(u64, u32)>,
}

impl PageSums {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }
}

/// A page of the table as the last checkpoint was going to write it: a checksum of all its entries, and the entries that
/// change, each with its place in the page.
#[derive(Clone, Debug, Default, Hash)]
pub(crate) struct TornPage {
    pub crc: u32,
    pub changed: Vec<(usize, TableEntry)>,
}

/// Of the last apply entry in these the number of its checkpoint, and the pages that it writes.
pub(super) fn last_sums<'a>(entries: impl Iterator<Item = &'a Entry>) -> Option<(u64, PageSums)> {
    let (mut number, mut last) = (None, None);
    for entry in entries {
        match entry {
            Entry::Checkpoint(n) => number = Some(*n),
            Entry::Apply { sums, .. } => last = number.take().map(|n| (n, sums)),
            _ => {}
        }
    }
    last.map(|(number, sums)| (number, sums.clone()))
}

impl JournalStore {
    /// The entries that a checkpoint sets in the table, each with its place. Pointers lead to places where something else stood
    /// before.
    pub(super) fn entries_to_set(
        &self,
        finals: &[Applied],
        pointers: &BTreeMap<u64, u64>,
    ) -> Vec<(u64, TableEntry)> {
        let unclaimed = self.unclaimed();
        let sectors = |slot: u64| self.slots.sectors_of(slot);
        let emptied = pointers.values().flat_map(|place| sectors(*place)).map(|at| (at, unclaimed));
        let set = finals.iter().map(|f| {
            let state = State::from_byte(f.state);
            let kept = state != State::Hole || self.config.keeps_versions();
            let version = if kept { f.version } else { Timestamp::ZERO };
            let slot = self.slots.mark_of(f.sector).unwrap_or(0);
            (self.place_in(pointers, f.sector), TableEntry { version, crc: f.crc, state, slot })
        });
        // Of a place that has both the later counts.
        emptied.chain(set).collect()
    }

    /// What a checkpoint is going to make of the pages that it writes.
    pub(super) fn page_sums(&self, c: &Checkpoint) -> PageSums {
        let Some(index) = self.table.index.as_ref().filter(|_| self.superblock.has_page_sums())
        else {
            return PageSums::default();
        };
        let mut pages = self.table.sums(c.entries());
        let owners = self.slots.pages_to_write(c.pointers(), c.dropped());
        let first = self.superblock.table_pages();
        let owner = |page| PageSum { page: first + page, is_marked: false, crc: 0 };
        pages.extend(owners.into_iter().map(owner));
        let index = index.sums(&pages, self.superblock.sequence + 1);
        PageSums { pages, index }
    }

    /// Pages of the table that the last checkpoint may have left torn. What it was to set is known: pointers have been replayed.
    pub(super) fn torn_pages(
        &self,
        finals: &[Applied],
        pointers: &BTreeMap<u64, u64>,
        sums: &PageSums,
    ) -> BTreeMap<u64, TornPage> {
        let tables = self.superblock.table_pages();
        let of_table = sums.pages.iter().filter(|sum| sum.page < tables);
        let mut torn: BTreeMap<u64, TornPage> = of_table
            .map(|sum| (sum.page, TornPage { crc: sum.crc, changed: Vec::new() }))
            .collect();
        let placed = |f: &&Applied| self.slots.place_of(f.sector).is_some();
        let finals: Vec<Applied> = finals.iter().filter(placed).copied().collect();
        for (at, entry) in self.entries_to_set(&finals, pointers) {
            if let Some(page) = torn.get_mut(&page_of(at)) {
                page.changed.push((at as usize % super::table::ENTRIES_PER_PAGE, entry));
            }
        }
        torn
    }
}

/// The content of a sector before `delta` was added to it in place, if a power cut tore that write: some pieces have the delta and
/// others have not. The checksums from before and after tell which.
pub(super) fn before_torn_write(
    torn: &Buffer,
    delta: &[u8],
    before: u32,
    after: u32,
) -> Option<Vec<u8>> {
    let changed: Vec<usize> = (0..SECTOR_BYTES)
        .step_by(PIECE)
        .filter(|at| delta[*at..at + PIECE].iter().any(|b| *b != 0))
        .collect();
    let add = |bytes: &mut [u8], at: usize, len: usize| {
        bytes[at..at + len].iter_mut().zip(&delta[at..at + len]).for_each(|(b, d)| *b ^= d);
    };
    (0..1u32 << changed.len()).find_map(|pieces| {
        let mut bytes = torn.to_bytes().to_vec();
        let written = changed.iter().enumerate().filter(|(n, _)| pieces >> n & 1 == 1);
        written.for_each(|(_, at)| add(&mut bytes, *at, PIECE));
        if weft_bytes::checksum::crc32c(&bytes) != before {
            return None;
        }
        let was = bytes.clone();
        add(&mut bytes, 0, SECTOR_BYTES);
        (weft_bytes::checksum::crc32c(&bytes) == after).then_some(was)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_bytes::checksum::crc32c;

    #[test]
    fn what_stood_in_a_torn_sector_is_found_whichever_pieces_were_written() {
        let before: Vec<u8> = (0..SECTOR_BYTES).map(|n| (n % 251) as u8).collect();
        let mut delta = vec![0; SECTOR_BYTES];
        delta[700..3000].fill(0x5a);
        let after: Vec<u8> = before.iter().zip(&delta).map(|(b, d)| b ^ d).collect();
        let sums = (crc32c(&before), crc32c(&after));
        for pieces in 0..256 {
            let mut torn = before.clone();
            for n in (0..8).filter(|n| pieces >> n & 1 == 1) {
                torn[n * PIECE..(n + 1) * PIECE]
                    .copy_from_slice(&after[n * PIECE..(n + 1) * PIECE]);
            }
            let found = before_torn_write(&torn.clone().into(), &delta, sums.0, sums.1);
            assert_eq!(found.as_ref(), Some(&before), "{pieces:#b}");
            torn[9] ^= 1;
            assert_eq!(before_torn_write(&torn.into(), &delta, sums.0, sums.1), None, "rot");
        }
    }
}
