//! The slots when a disk is opened: the owners are read, the journal's pointers moved, and the content of undecided writes is
//! looked at. A write whose content is not what its frame says was never prepared: both are written side by side, and
//! nobody was told before both were safe. Nor was anybody told of what later frames say, so the disk counts as one whose journal ended
//! there. If more was heard of it, that is found out (docs/internals/disk-format.md, "What others know of a disk").

use super::super::format::Redirect;
use super::super::index::Known;
use super::super::page;
use super::super::{JournalStore, Purpose, Write};
use super::Part;
use crate::Buffer;
use crate::units::{SECTOR, SECTOR_BYTES, Timestamp};

impl JournalStore {
    /// Reads the owners from this page on, or goes on if there are no more. Pages that were never written claim nothing.
    pub(super) fn read_owners(&mut self, first: u64) {
        let table = self.superblock.table_pages();
        let known = |page: &u64| self.table.index.as_ref().map(|index| index.known(table + page));
        let mut pages = first..self.superblock.owner_pages();
        match pages.find(|page| known(page) != Some(Known::Never)) {
            Some(page) => self.read_copy(page, 0),
            None => self.replay(),
        }
    }

    fn read_copy(&mut self, first: u64, copy: u64) {
        self.recovery.as_mut().expect("opening").part = Part::Owners { first, copy };
        let count = self.part().1;
        self.recovery.as_mut().expect("opening").bytes = vec![0; (count * SECTOR) as usize];
        self.read_piece();
    }

    /// A copy of some pages is here. With the second both are looked at.
    pub(super) fn take_owners(&mut self, bytes: Vec<u8>) {
        let table = self.superblock.table_pages();
        let recovery = self.recovery.as_mut().expect("opening");
        let Part::Owners { first, copy } = recovery.part else { unreachable!("owners were read") };
        if copy == 0 {
            recovery.other_copy = bytes;
            return self.read_copy(first, 1);
        }
        let other = std::mem::take(&mut recovery.other_copy);
        let index = self.table.index.as_ref().expect("it has been read");
        let known = (index, &self.table.numbers);
        let claims = &mut recovery.claims;
        let found = self.slots.load(known, claims, (table, first), [&other, &bytes]);
        let pages = (bytes.len() / SECTOR_BYTES) as u64;
        for page in self.slots.refused(first..first + pages) {
            if !found.damaged.iter().any(|(lost, _)| *lost == page) {
                let wrong = page::UNKNOWN_CHECKPOINT;
                self.damaged(format!(
                    "a copy of page {page} of the slots' owners is damaged: {wrong}; the other is used"
                ));
            }
        }
        for (page, wrong) in found.damaged {
            self.superblock.unplaced.are_lost = true;
            self.damaged(format!(
                "page {page} of the slots' owners is damaged: {wrong}; the content of its slots is lost"
            ));
        }
        for (page, count) in found.stray {
            // Which slots should stand there nobody knows. Without a claim they must not pass for holes.
            self.superblock.unplaced.are_lost = true;
            self.damaged(format!(
                "page {page} of the slots' owners is damaged: {count} of its claims name slots that cannot exist; the content \
                 in their places is lost"
            ));
        }
        self.read_owners(first + pages);
    }

    /// The journal has been replayed: it is known which slots are in use. The content of undecided writes is looked at.
    pub(super) fn settle_slots(&mut self) {
        let undecided = self.writes.values().flat_map(Write::redirects).map(|r| r.place);
        if self.slots.settle(undecided.collect::<Vec<_>>().into_iter()) {
            self.superblock.unplaced.are_lost = true;
            self.damaged("owners of slots contradict one another".to_string());
        }
        let promised = self.recovery.as_ref().expect("opening").promised.durable_before;
        let size = self.superblock.slot();
        let mut reads = Vec::new();
        for (ts, write) in &self.writes {
            if write.frame.is_some_and(|frame| frame >= promised) && !write.is_carried {
                let places = write.redirects().iter().map(|r| r.place).enumerate();
                reads.extend(places.map(|(n, place)| (*ts, n, place * size)));
            }
        }
        self.recovery.as_mut().expect("opening").waiting += reads.len();
        for (ts, redirect, at) in reads {
            self.read_place(Purpose::Undecided { ts, redirect }, at..at + size);
        }
    }

    /// Content of an undecided write was read, or cannot be.
    pub(in crate::store) fn undecided_read(
        &mut self,
        ts: Timestamp,
        redirect: usize,
        data: Option<Buffer>,
    ) {
        let is_there = |redirect: &Redirect, data: Buffer| {
            let sector = |n: usize| data.slice(n * SECTOR_BYTES, (n + 1) * SECTOR_BYTES);
            redirect.crcs.iter().enumerate().all(|(n, crc)| sector(n).crc() == *crc)
        };
        let redirect = &self.writes[&ts].redirects()[redirect];
        let whole = data.is_some_and(|data| is_there(redirect, data));
        let recovery = self.recovery.as_mut().expect("opening");
        recovery.waiting -= 1;
        if !whole && self.config.checks_content() {
            recovery.promised.unfounded.insert(ts);
        }
        self.finish_opening();
    }

    /// The disk counts as one whose journal ended before this frame: it has promised nothing in a life that began with it or
    /// later.
    fn ends_before(&mut self, frame: u64) {
        let lives = &self.recovery.as_ref().expect("opening").promised.lives;
        let before = lives.iter().filter(|(first, _)| *first < frame).map(|(_, life)| *life).max();
        let life = before.expect("the superblock names one");
        self.found.frame = self.found.frame.min(frame - 1);
        self.found.life = self.found.life.min(life);
        self.superblock.life = self.found.life;
        self.reached = self.found;
    }

    /// Writes without their content were never prepared. The journal says so before their places are used again: the same
    /// content might come to stand there. But it says so only when the node enters an epoch, and others have compared how far the
    /// disk was found with what they remember. A frame before that would hide at the next opening that anything was lost.
    pub(super) fn abort_unfounded(&mut self) {
        let recovery = self.recovery.as_mut().expect("opening");
        for ts in std::mem::take(&mut recovery.promised.unfounded) {
            let write = self.writes.remove(&ts).expect("an undecided write");
            self.copies.decided(ts);
            let frame = write.frame.expect("it is in the journal");
            self.slots.abort(ts, write.redirects().to_vec(), false);
            self.journal.doubt(ts, frame);
            if self.keeps_heard() {
                self.ends_before(frame);
            }
        }
        if !self.keeps_heard() {
            self.journal.abort_doubted();
        }
    }
}
