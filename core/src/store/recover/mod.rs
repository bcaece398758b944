//! Opening a disk, whatever state a crash left it in: superblock, replay of the journal, and
//! for sectors that a checkpoint was putting in place, a look at how far it came.
//!
//! A torn tail is what a crash leaves: the frame that was being written, which nobody has been promised. A frame
//! that is missing before others, or an index that is not the superblock's, is damage. Then nothing in the journal
//! can be believed, since what it says may have been overtaken: the disk opens with the content in place, reports that
//! it has lost acknowledged content, and catches up from the others.
//!
//! - [`replay`]: which frames of the journal count, and what their entries say
//! - [`contradiction`]: what an entry cannot say after those before it
//! - [`owners`]: which slots are whose, and whose content is not there
//! - [`candidates`]: sectors that a checkpoint was putting in place

mod candidates;
mod contradiction;
#[cfg(test)]
mod contradiction_tests;
mod owners;
mod replay;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use super::format::versions::Version;
use super::format::{Applied, SUPERBLOCKS};
use super::index::Index;
use super::overlay::{Over, Overlay};
use super::slots::{Claims, Moved, Slots};
use super::table::{Numbers, Table};
use super::torn::{PageSums, last_sums};
use super::{
    DiskOp, DiskResult, Event, FormatError, Heard, Journal, JournalStore, Purpose, Reached,
    Recovered, StoreConfig, StoreCounters, Superblock,
};
use crate::Buffer;
use crate::buffer::are_zeros;
use crate::units::{Epoch, SECTOR, SECTOR_BYTES, Timestamp};
use replay::Found;

const PIECE: u64 = 256;
/// Pages of the owners that are read at a time, of each copy.
const OWNERS_PIECE: u64 = 128;
/// Pages of the index that are read before they are taken in: of a large disk it is more than memory should hold at once.
const INDEX_PIECE: u64 = 1024;
/// Of more sectors that cannot be read while opening the disk is not opened.
const MOST_UNREADABLE: u64 = 64;

#[derive(Clone, Hash)]
pub(in crate::store) struct Recovery {
    cluster: u128,
    disk: u16,
    disk_sectors: u64,
    /// The read in progress: superblocks, then the journal, then the index. Zeros where it is yet to be read, or
    /// cannot be.
    part: Part,
    bytes: Vec<u8>,
    /// Sectors of it that have been read.
    have: u64,
    /// Sectors of the journal that cannot be read, and how many of all parts cannot.
    unreadable: (BTreeSet<u64>, u64),
    /// A copy of the superblock is damaged: it may have been the later one.
    superblock_is_damaged: bool,
    /// The frames of the journal, once it is known which: where each begins, and its content.
    journal: Vec<u8>,
    /// What the owners that are on the disk claim.
    claims: Claims,
    /// The first copy of some of their pages, while the second is read.
    other_copy: Vec<u8>,
    /// The frames that count, once that is known: they are replayed when the owners are here.
    frames: Vec<Found>,
    /// The last checkpoint that the journal names, and the pages that it was to write: it may have been cut off.
    cut_off: Option<(u64, PageSums)>,
    promised: Promised,
    /// What had committed when the last checkpoint began.
    begun: Overlay,
    /// And where pointers had moved.
    begun_moved: Moved,
    /// Sectors that apply entries name: for each entry what it was to put in place, and the
    /// outcome of that. A crash may have come before an entry took effect, and the sector
    /// been taken up again by a later life's entry; only the table and the place tell.
    candidates: BTreeMap<u64, Vec<Step>>,
    /// Sectors of slots that changed hands, and their places.
    adopted: BTreeMap<u64, (u64, Applied)>,
    /// The last checkpoint that the journal speaks of.
    last: LastCheckpoint,
    /// The number of the checkpoint whose apply entry is next; 0 if it has none.
    number: u64,
    /// What has been named as known since a checkpoint began, and the first frame that names any.
    known: (Option<u64>, Vec<Timestamp>),
    /// Those whose place must be looked at.
    waiting: usize,
    /// The journal has been replayed.
    replayed: bool,
    looked: bool,
}

/// What is found of what the disk had promised.
#[derive(Clone, Default, Hash)]
struct Promised {
    /// Frames with lower numbers were safe, and so was the content of their writes.
    durable_before: u64,
    /// The life that the superblock names, and those that begin with frames.
    lives: Vec<(u64, Epoch)>,
    /// Writes whose content is wrong.
    unfounded: BTreeSet<Timestamp>,
}

/// What an apply entry was to put in place in a sector, the outcome of that, and the number of its checkpoint, or 0.
type Step = (Over, Applied, u64);

/// A checkpoint whose apply entry was found. It is ended when the disk is open.
#[derive(Clone, Default, Hash)]
struct LastCheckpoint {
    /// Its number; 0 if it has none.
    number: u64,
    /// The sectors that it was to place.
    sectors: BTreeSet<u64>,
    /// What those consist of that are not in place.
    left: BTreeMap<u64, Over>,
    /// What they were to become.
    applied: Vec<Applied>,
    /// What it was to make of the pages that it writes.
    sums: PageSums,
    /// The pointers that it was to write.
    pointers: BTreeMap<u64, u64>,
    /// The known writes that it named, and the first frame that does.
    known: (Option<u64>, Vec<Timestamp>),
}

/// The reads, in order, when a disk is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Part {
    Superblocks,
    Journal,
    /// Some pages of the index, from this one on.
    Index(u64),
    /// A copy of some pages of the owners, from the first of them on.
    Owners {
        first: u64,
        copy: u64,
    },
}

impl JournalStore {
    /// The store of a disk that holds only lengths, for simulations of performance: every
    /// sector has been written, all is in place, and as much of the table as there is room for is
    /// in memory. Slots have `slot` sectors, as in [`Superblock::divide_in`].
    ///
    /// # Errors
    /// If the disk is too small.
    pub fn full(
        config: StoreConfig,
        disk: u16,
        disk_sectors: u64,
        slot: u64,
    ) -> Result<JournalStore, FormatError> {
        let journal = Superblock::JOURNAL;
        let superblock = Superblock::divide_in(slot, 0, disk, 1, disk_sectors, journal)?;
        let mut store = JournalStore::open(config, 0, disk, disk_sectors);
        store.journal = Journal::new(&superblock, config);
        store.recovery = None;
        store.ios.clear();
        store.out.clear();
        let pages = superblock.table_pages().min(config.table_pages as u64);
        for page in 0..pages {
            store.table.load(page, Some(&Buffer::Length(SECTOR_BYTES)));
        }
        // Its pages have bytes, but they are written as they are where data has some.
        let pages = superblock.table_pages() + superblock.owner_pages();
        store.table.index = Some(Index::new(superblock.incarnation, pages));
        store.slots = Slots::full(&superblock);
        store.superblock = superblock;
        store.events.push_back(Event::Opened(Vec::new()));
        Ok(store)
    }

    /// Begins to open the disk `disk` of `cluster`, which has `disk_sectors` sectors; says
    /// [`Event::Opened`] or [`Event::Refused`].
    pub fn open(config: StoreConfig, cluster: u128, disk: u16, disk_sectors: u64) -> JournalStore {
        let superblock = Superblock::unread();
        let recovery = Recovery {
            cluster,
            disk,
            disk_sectors,
            part: Part::Superblocks,
            bytes: vec![0; (SUPERBLOCKS * SECTOR) as usize],
            have: 0,
            unreadable: (BTreeSet::new(), 0),
            superblock_is_damaged: false,
            journal: Vec::new(),
            claims: Claims::default(),
            other_copy: Vec::new(),
            frames: Vec::new(),
            cut_off: None,
            promised: Promised::default(),
            begun: Overlay::default(),
            begun_moved: Moved::new(),
            candidates: BTreeMap::new(),
            adopted: BTreeMap::new(),
            last: LastCheckpoint::default(),
            number: 0,
            known: (None, Vec::new()),
            waiting: 0,
            replayed: false,
            looked: false,
        };
        let mut store = JournalStore {
            config,
            journal: Journal::new(&superblock, config),
            superblock,
            latest_kept: Timestamp::ZERO,
            reached: Reached::default(),
            found: Reached::default(),
            heard_since: Heard::new(),
            unpromised: super::others::NOTHING_PROMISED,
            life_written: 0,
            life_to_write: None,
            table: Table::new(config.table_pages),
            slots: Slots::new(&Superblock::unread()),
            overlay: Overlay::default(),
            copies: Default::default(),
            writes: BTreeMap::new(),
            reads: BTreeMap::new(),
            scans: BTreeMap::new(),
            checkpoint: None,
            verifying: super::verify::Verifying::default(),
            forgiving: super::others::Forgiving::Done,
            dropping: super::dropping::Dropping::default(),
            views: None,
            merging: super::merging::Merging::default(),
            turns: super::merging::Turns::default(),
            flattening: super::flattening::Flattening::default(),
            recovery: Some(recovery),
            loading: BTreeSet::new(),
            ios: BTreeMap::new(),
            next_io: 1,
            unlogged: 0,
            idle_looks: 0,
            failed: false,
            out: Vec::new(),
            events: std::collections::VecDeque::new(),
            counters: StoreCounters::default(),
        };
        store.read_piece();
        store
    }

    /// The sectors of the read in progress.
    fn part(&self) -> (u64, u64) {
        let sb = &self.superblock;
        match self.recovery.as_ref().expect("opening").part {
            Part::Superblocks => (0, SUPERBLOCKS),
            Part::Journal => (sb.journal_start(), sb.journal),
            Part::Index(first) => {
                (sb.index_start() + first, INDEX_PIECE.min(sb.index_pages() - first))
            }
            Part::Owners { first, copy } => {
                let count = OWNERS_PIECE.min(sb.owner_pages() - first);
                (sb.owners().start + copy * sb.owner_pages() + first, count)
            }
        }
    }

    /// Reads the next piece of it; goes on if there is none.
    fn read_piece(&mut self) {
        let have = self.recovery.as_ref().expect("opening").have;
        let (first, sectors) = self.part();
        let count = PIECE.min(sectors - have);
        if count == 0 {
            return self.part_read();
        }
        let at = first + have;
        self.read_recovery(at, count);
    }

    fn read_recovery(&mut self, at: u64, count: u64) {
        let op = DiskOp::Read { offset: at * SECTOR, len: count * SECTOR };
        self.start(Purpose::Recovery { at, count }, op);
    }

    /// Sectors read while opening arrived, or could not be read.
    pub(in crate::store) fn recovery_read(&mut self, at: u64, count: u64, result: DiskResult) {
        if result.is_err() && count > 1 {
            // One bad sector must not cost its neighbours: each is tried alone.
            return (at..at + count).for_each(|sector| self.read_recovery(sector, 1));
        }
        let first = self.part().0;
        let bytes = match result {
            Ok(data) => data.to_bytes(),
            Err(error) => return self.cannot_be_read(at, first, error),
        };
        let recovery = self.recovery.as_mut().expect("opening");
        recovery.have += count;
        // Of a journal that has hardly been used no more memory is touched than that takes.
        if !are_zeros(&bytes) {
            let from = ((at - first) * SECTOR) as usize;
            recovery.bytes[from..from + bytes.len()].copy_from_slice(&bytes);
        }
        self.go_on_reading();
    }

    fn go_on_reading(&mut self) {
        let alone = self.ios.values().all(|p| !matches!(p, Purpose::Recovery { .. }));
        if alone && !self.failed {
            self.read_piece();
        }
    }

    /// A sector needed for opening cannot be read. That may pass: where it is more than a few the disk
    /// is not opened, and nothing is written to it.
    fn cannot_be_read(&mut self, at: u64, first: u64, error: String) {
        let recovery = self.recovery.as_mut().expect("opening");
        recovery.have += 1;
        recovery.unreadable.1 += 1;
        let of_journal = recovery.part == Part::Journal;
        if of_journal {
            recovery.unreadable.0.insert(at - first);
        }
        if recovery.unreadable.1 > MOST_UNREADABLE {
            return self.fail(error);
        }
        self.damaged(format!("sector {at} cannot be read: {error}"));
        self.go_on_reading();
    }

    /// All of it is here.
    fn part_read(&mut self) {
        let recovery = self.recovery.as_mut().expect("opening");
        let bytes = std::mem::take(&mut recovery.bytes);
        recovery.have = 0;
        match recovery.part {
            Part::Superblocks => match self.choose_superblock(&bytes) {
                Ok(sb) => self.take_superblock(sb),
                Err(why) => self.refuse(why),
            },
            Part::Journal => {
                recovery.journal = bytes;
                self.take_journal();
            }
            Part::Index(first) => self.take_index(first, &bytes),
            Part::Owners { .. } => self.take_owners(bytes),
        }
    }

    fn take_superblock(&mut self, found: Superblock) {
        let sb = match Version::of(found.version) {
            Ok(version) => version.open(found),
            Err(why) => return self.refuse(why),
        };
        self.journal = Journal::new(&sb, self.config);
        (self.latest_kept, self.life_written) = (sb.latest, sb.life);
        self.slots = Slots::new(&sb);
        let recovery = self.recovery.as_mut().expect("opening");
        recovery.promised.durable_before = sb.durable_before;
        recovery.promised.lives.push((0, sb.life));
        recovery.part = Part::Journal;
        recovery.bytes = vec![0; (sb.journal * SECTOR) as usize];
        self.superblock = sb;
        self.read_piece();
    }

    /// The journal is here. What the last checkpoint in it was to make of the index must be known before that is read.
    fn take_journal(&mut self) {
        let bytes = std::mem::take(&mut self.recovery.as_mut().expect("opening").journal);
        let frames = match self.find_frames(&bytes) {
            Ok(frames) => frames,
            Err(why) => return self.refuse(why),
        };
        let recovery = self.recovery.as_mut().expect("opening");
        recovery.cut_off = last_sums(frames.iter().flat_map(|(_, _, entries)| entries));
        (recovery.frames, recovery.journal) = (frames, bytes);
        let pages = self.superblock.table_pages() + self.superblock.owner_pages();
        self.table.index = Some(Index::new(self.superblock.incarnation, pages));
        self.read_index(0);
    }

    /// Reads the index from this page on, or goes on if there are no more.
    fn read_index(&mut self, first: u64) {
        if first >= self.superblock.index_pages() {
            return self.judge_journal();
        }
        self.recovery.as_mut().expect("opening").part = Part::Index(first);
        let count = self.part().1;
        self.recovery.as_mut().expect("opening").bytes = vec![0; (count * SECTOR) as usize];
        self.read_piece();
    }

    fn take_index(&mut self, first: u64, bytes: &[u8]) {
        let cut_off = self.recovery.as_mut().expect("opening").cut_off.take();
        for (number, page) in (first..).zip(bytes.chunks_exact(SECTOR_BYTES)) {
            let index = self.table.index.as_mut().expect("there is one to be read");
            if let Some(wrong) = index.load(number, page, cut_off.as_ref()) {
                self.damaged(format!("page {number} of the table's index is damaged: {wrong}"));
            }
        }
        self.recovery.as_mut().expect("opening").cut_off = cut_off;
        self.read_index(first + INDEX_PIECE);
    }

    fn refuse(&mut self, why: FormatError) {
        self.failed = true;
        self.events.push_back(Event::Refused(why));
    }

    fn choose_superblock(&mut self, bytes: &[u8]) -> Result<Superblock, FormatError> {
        let copies = [0, 1].map(|place| {
            let at = place as usize * SECTOR_BYTES;
            Superblock::decode_copy(&bytes[at..at + SECTOR_BYTES], place)
        });
        // If one is of a version that is not opened, so is the disk: what the other says may be older.
        let is_version =
            |e: &&FormatError| matches!(e, FormatError::Version(_) | FormatError::Refused { .. });
        if let Some(version) = copies.iter().filter_map(|c| c.as_ref().err()).find(is_version) {
            return Err(version.clone());
        }
        let newest = copies.iter().flatten().max_by_key(|sb| sb.sequence);
        let Some(sb) = newest.cloned() else {
            let wrong = copies.into_iter().filter_map(Result::err);
            let clearest = wrong.max_by_key(|e| *e != FormatError::NotOurs);
            return Err(clearest.expect("both failed"));
        };
        let r = self.recovery.as_ref().expect("opening");
        if sb.cluster != r.cluster {
            return Err(FormatError::Cluster { found: sb.cluster, expected: r.cluster });
        }
        if sb.disk != r.disk {
            return Err(FormatError::Disk { found: sb.disk, expected: r.disk });
        }
        if sb.sectors() > r.disk_sectors {
            return Err(FormatError::Truncated { expected: sb.sectors(), found: r.disk_sectors });
        }
        if copies.iter().any(Result::is_err) {
            self.recovery.as_mut().expect("opening").superblock_is_damaged = true;
            self.damaged("a copy of the superblock is damaged; the other is used".to_string());
        }
        Ok(sb)
    }

    /// Everything that was found is safe. A superblock is written, so that the number of a checkpoint that a crash
    /// has cut off is not used again: an older page of the table would pass for a newer one. But refused pages are
    /// rewritten before, since with that superblock their numbers count.
    pub(in crate::store) fn recovery_flushed(&mut self) {
        if self.write_refused() == 0 {
            self.write_found_index();
        }
    }

    /// Writes the pages that were refused; returns how many writes that took.
    fn write_refused(&mut self) -> usize {
        let (next, first_owners) = (self.superblock.sequence + 1, self.superblock.table_pages());
        let table = self.table.take_refused(next);
        let (owners, numbers) = self.slots.take_refused(self.superblock.incarnation, next);
        let index = self.table.index.as_mut().expect("it has an index");
        table.iter().for_each(|page| index.wrote(page.number, next, page.is_marked));
        numbers.into_iter().for_each(|(page, number)| index.correct(first_owners + page, number));
        let table = table.into_iter().map(|page| (page.number, page.bytes)).collect();
        let owners = owners.into_iter().map(|page| (page.sector, page.bytes)).collect();
        let starts = (self.superblock.table_start(), self.superblock.owners().start);
        self.write_pages(Purpose::RecoveryPages, starts.0, table, true)
            + self.write_pages(Purpose::RecoveryPages, starts.1, owners, true)
    }

    /// A run of pages that were refused has been written.
    pub(in crate::store) fn recovery_pages_written(&mut self) {
        if self.ios.values().all(|p| *p != Purpose::RecoveryPages) {
            self.write_found_index();
        }
    }

    /// Of a journal that is forgotten the disk must know, and not find its frames again; and damaged pages of the
    /// index are rewritten, or they would be found again and again.
    fn write_found_index(&mut self) {
        let next = self.superblock.sequence + 1;
        let pages = self.table.index.as_mut().map(|i| i.take_dirty(next)).unwrap_or_default();
        let start = self.superblock.index_start();
        if self.write_pages(Purpose::RecoveryIndex, start, pages, true) == 0 {
            self.write_superblock(Purpose::RecoverySuperblock, true);
        }
    }

    /// A run of pages of the index has been written.
    pub(in crate::store) fn recovery_index_written(&mut self) {
        if self.ios.values().all(|p| *p != Purpose::RecoveryIndex) {
            self.write_superblock(Purpose::RecoverySuperblock, true);
        }
    }

    /// The superblock says what there is. No frame that counts has a sector in it that cannot be read: those are written, so that
    /// they can be read next time. Before the superblock they are the only ones to say that something may have been there.
    pub(in crate::store) fn recovery_superblock_written(&mut self) {
        let unreadable = self.recovery.as_ref().map(|r| r.unreadable.0.clone()).unwrap_or_default();
        let zeros: Vec<_> =
            unreadable.into_iter().map(|s| (s, Buffer::Zero(SECTOR_BYTES))).collect();
        let start = self.superblock.journal_start();
        if self.write_pages(Purpose::RecoveryJournal, start, zeros, true) == 0 {
            self.opened();
        }
    }

    /// A run of sectors of the journal that could not be read has been written.
    pub(in crate::store) fn recovery_journal_written(&mut self) {
        if self.ios.values().all(|p| *p != Purpose::RecoveryJournal) {
            self.opened();
        }
    }

    /// The disk is open.
    pub(in crate::store) fn opened(&mut self) {
        let last = self.recovery.take().expect("opening").last;
        self.table.numbers = Numbers::default();
        self.table.torn.clear();
        let open = self.writes.iter().filter(|(_, w)| w.is_undecided() || w.is_unreleased());
        let found = open.map(|(ts, w)| Recovered {
            ts: *ts,
            meta: w.meta.clone(),
            committed: !w.is_undecided(),
            ranges: w.changed(self.superblock.slot()),
        });
        let found = found.collect();
        self.events.push_back(Event::Opened(found));
        self.expect_places_again();
        if self.journal.used() > 0 {
            self.journal.found_known(last.known.0);
            let mut pointers = last.pointers;
            pointers.retain(|slot, place| self.slots.place(*slot) == Some(*place));
            let moves = (pointers, self.slots.take_leaving());
            self.end_last_checkpoint(last.left, moves, last.known.1, last.applied);
        }
    }
}
