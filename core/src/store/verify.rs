//! What a scrub looks at besides the data: the parts of the disk that are in memory while it is open, and are
//! read again only when it is opened next. The page of the table behind what is scrubbed, the page of the index
//! behind that, the superblocks and the journal are read, and what is damaged is written anew from memory. Otherwise the damage would
//! show when the memory is gone, and then, perhaps, together with that of another disk.

use std::collections::{BTreeMap, BTreeSet};

use super::index::Known;
use super::page::{self, Kind};
use super::{DiskOp, DiskResult, JournalStore, Purpose, SUPERBLOCKS, Superblock};
use crate::Buffer;
use crate::units::{SECTOR, SECTOR_BYTES};

/// Sectors of the journal that are read at a time.
const PIECE: u64 = 256;

/// What is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Part {
    /// A page of the table.
    Table(u64),
    /// A page of its index.
    Index(u64),
    /// A page of the slots' owners.
    Owners(u64),
    /// The place of a superblock.
    Superblock(u64),
}

/// What has been looked at, and what is to be done about it.
#[derive(Clone, Default, Hash)]
pub(super) struct Verifying {
    /// The sector that was scrubbed last, and the page of the table that was looked at with it.
    last: Option<(u64, u64)>,
    /// The page of the owners that was looked at last.
    last_owners: Option<u64>,
    /// How many checkpoints are wanted, so that what is damaged is written anew.
    pub mend: u8,
    /// Sectors of the journal that cannot be read.
    unreadable: BTreeSet<u64>,
}

impl JournalStore {
    /// Sectors are scrubbed: looks at what belongs to them, if that has not been done just now.
    pub(super) fn verify(&mut self, first: u64, count: u64) {
        // What is being written may be read before or after it is.
        if self.checkpoint.is_some() || count == 0 {
            return;
        }
        let index_of = |page: u64| page / super::index::PAGES_PER_INDEX as u64;
        let mut begins = self.verifying.last.is_none_or(|(sector, _)| first <= sector);
        self.look_at_owners(first, count, begins);
        for page in self.pages_of(first, count) {
            let last = self.verifying.last;
            if !self.table.has(page) || last.is_some_and(|(_, p)| p == page && !begins) {
                continue;
            }
            self.look_at(Part::Table(page));
            if last.is_none_or(|(_, p)| begins || index_of(p) != index_of(page)) {
                self.look_at(Part::Index(index_of(page)));
            }
            if begins {
                (0..SUPERBLOCKS).for_each(|place| self.look_at(Part::Superblock(place)));
                self.look_at_journal(0);
            }
            self.verifying.last = Some((first, page));
            begins = false;
        }
        if let Some((sector, _)) = &mut self.verifying.last {
            *sector = first;
        }
    }

    /// Looks at the pages of the owners that name the places of sectors, but for the one that was looked at last.
    fn look_at_owners(&mut self, first: u64, count: u64, begins: bool) {
        if begins {
            self.verifying.last_owners = None;
        }
        let slots = (first..first + count).filter_map(|sector| self.slots.slot_of(sector));
        let pages: BTreeSet<u64> = slots.filter_map(|slot| self.slots.page_of(slot)).collect();
        for page in pages {
            if self.verifying.last_owners.replace(page) != Some(page) {
                self.look_at(Part::Owners(page));
            }
        }
    }

    /// Reads the journal from this sector of it on, a piece after the other.
    fn look_at_journal(&mut self, first: u64) {
        let count = PIECE.min(self.superblock.journal.saturating_sub(first));
        if count > 0 {
            self.read_journal(first, count);
        } else {
            self.mend_journal();
        }
    }

    fn read_journal(&mut self, first: u64, count: u64) {
        let offset = (self.superblock.journal_start() + first) * SECTOR;
        let op = DiskOp::Read { offset, len: count * SECTOR };
        self.start(Purpose::VerifyJournal { first, count }, op);
    }

    /// A piece of the journal could be read, or not.
    pub(super) fn looked_at_journal(&mut self, first: u64, count: u64, result: DiskResult) {
        match result {
            Ok(_) => {}
            Err(_) if count > 1 => {
                return (first..first + count).for_each(|sector| self.read_journal(sector, 1));
            }
            Err(_) => drop(self.verifying.unreadable.insert(first)),
        }
        let reads = |p: &Purpose| matches!(p, Purpose::VerifyJournal { .. });
        if !self.ios.values().any(reads) {
            self.look_at_journal((first / PIECE + 1) * PIECE);
        }
    }

    /// Sectors of the journal that cannot be read are written, if nothing is there that counts: a frame may have been
    /// there, for all that one knows who opens the disk.
    fn mend_journal(&mut self) {
        let unreadable = std::mem::take(&mut self.verifying.unreadable);
        if !self.journal.hold() {
            return;
        }
        let free: Vec<u64> = unreadable.into_iter().filter(|s| self.journal.is_free(*s)).collect();
        for sector in &free {
            self.damaged(format!("sector {sector} of the journal cannot be read; it is rewritten"));
        }
        let zeros = free.into_iter().map(|s| (s, Buffer::Zero(SECTOR_BYTES))).collect();
        let start = self.superblock.journal_start();
        if self.write_pages(Purpose::MendJournal, start, zeros, true) == 0 {
            self.journal_mended();
        }
    }

    /// A run of sectors of the journal has been written.
    pub(super) fn journal_mended(&mut self) {
        if self.ios.values().all(|p| *p != Purpose::MendJournal) {
            self.journal.go_on();
            self.pump();
        }
    }

    fn look_at(&mut self, part: Part) {
        let sector = match part {
            Part::Table(page) => self.superblock.table_start() + page,
            Part::Index(page) => self.superblock.index_start() + page,
            Part::Owners(page) => self.superblock.owners().start + self.slots.newer_copy(page),
            Part::Superblock(place) => place,
        };
        let sequence = self.superblock.sequence;
        let op = DiskOp::Read { offset: sector * SECTOR, len: SECTOR };
        self.start(Purpose::Verify { part, sequence }, op);
    }

    /// A part that is looked at is here.
    pub(super) fn looked_at(&mut self, part: Part, sequence: u64, result: DiskResult) {
        if self.checkpoint.is_some() || self.superblock.sequence != sequence {
            // It may have been written meanwhile: the next scrub looks at it.
            self.verifying.last = None;
            return;
        }
        if result.as_ref().is_ok_and(Buffer::is_length) {
            return;
        }
        let bytes = result.as_ref().map(|b| b.to_bytes());
        let bytes = bytes.as_ref().map_err(|_| "it cannot be read");
        let wrong = match (part, bytes) {
            (_, Err(wrong)) => Some(wrong),
            (Part::Table(page), Ok(bytes)) => self.table.differs(page, bytes),
            (Part::Index(page), Ok(bytes)) => {
                let index = self.table.index.as_ref().expect("the disk is open");
                let written = page::decode(Kind::Index, index.disk, page, bytes);
                match written {
                    Ok(written) => {
                        (written != index.written_at(page)).then_some("it is an older copy")
                    }
                    Err(wrong) => Some(wrong),
                }
            }
            (Part::Owners(page), Ok(bytes)) => {
                let index = self.table.index.as_ref().expect("the disk is open");
                match index.known(self.superblock.table_pages() + page) {
                    Known::Written(last) => self.slots.differs(index.disk, page, last, bytes),
                    // It is as it was formatted, or nobody can say.
                    Known::Never | Known::Nothing => None,
                }
            }
            (Part::Superblock(place), Ok(bytes)) => {
                let found = Superblock::decode_copy(bytes, place).map(|sb| sb.sequence);
                let newest = sequence % SUPERBLOCKS == place;
                let good = found.is_ok_and(|found| found == sequence || !newest);
                (!good).then_some("it differs from the last write")
            }
        };
        let Some(wrong) = wrong else { return };
        match part {
            Part::Table(page) => {
                self.table.mark_dirty(page);
                self.damaged(format!(
                    "page {page} of the checksum table is damaged: {wrong}; it is rewritten"
                ));
            }
            Part::Index(page) => {
                self.table.index.as_mut().expect("the disk is open").mark_dirty(page);
                self.damaged(format!(
                    "page {page} of the table's index is damaged: {wrong}; it is rewritten"
                ));
            }
            Part::Owners(page) => {
                self.slots.mark_dirty(page);
                self.damaged(format!(
                    "page {page} of the slots' owners is damaged: {wrong}; it is rewritten"
                ));
            }
            Part::Superblock(place) => {
                self.damaged(format!("superblock {place} is damaged: {wrong}; it is rewritten"));
                // They are written in turn.
                self.verifying.mend += 1;
            }
        }
        self.verifying.mend = (self.verifying.mend + 1).min(2);
    }

    /// Begins a checkpoint that puts nothing in place, if one is wanted. Says whether it has.
    pub(super) fn mend(&mut self) -> bool {
        let wanted = self.verifying.mend > 0;
        if wanted {
            self.verifying.mend -= 1;
            let nothing = (BTreeMap::new(), Vec::new());
            self.end_last_checkpoint(BTreeMap::new(), nothing, Vec::new(), Vec::new());
        }
        wanted
    }
}
