//! Bringing pages of the table into memory, and letting go of them.

use std::ops::Range;

use super::checkpoint::consecutive;
use super::table::page_of;
use super::views::Shown;
use super::{DiskOp, DiskResult, JournalStore, Purpose};
use crate::units::SECTOR;

/// While pages are on their way no others leave the memory, up to so many.
const MOST_PAGES_WAITED_FOR: usize = 8192;

impl JournalStore {
    /// The pages of the table for the places of these sectors and of those below them, each once and in order.
    pub(super) fn pages_of(&self, first: u64, count: u64) -> Vec<u64> {
        let mut pages = Vec::new();
        self.add_pages_of(first..first + count, &mut pages);
        for below in self.all_below(first..first + count) {
            self.add_pages_of(below, &mut pages);
        }
        pages.sort_unstable();
        pages.dedup();
        pages
    }

    /// The pages for the places of these sectors and of those that they show; of all below them where it is not known which they
    /// show.
    pub(super) fn pages_shown(&self, shown: &[Shown]) -> Vec<u64> {
        let mut pages = Vec::new();
        for Shown { sectors, runs } in shown {
            match runs {
                Some(runs) if runs.is_empty() => self.add_pages_of(sectors.clone(), &mut pages),
                Some(runs) => {
                    self.add_pages_of(sectors.clone(), &mut pages);
                    for shown in sectors.clone().filter_map(|s| self.shown_by(s, runs)) {
                        pages.extend(self.slots.place_of(shown).map(page_of));
                    }
                }
                None => pages.extend(self.pages_of(sectors.start, sectors.end - sectors.start)),
            }
        }
        pages.sort_unstable();
        pages.dedup();
        pages
    }

    pub(super) fn add_pages_of(&self, sectors: Range<u64>, pages: &mut Vec<u64>) {
        let (mut sector, end) = (sectors.start, sectors.end);
        while sector < end {
            // In a slot, and behind all of them, what follows on a sector follows on its place.
            let slot = self.slots.slot_of(sector);
            let next = slot.map_or(end, |slot| self.slots.sectors_of(slot).end.min(end));
            if let Some(place) = self.slots.place_of(sector) {
                pages.extend(page_of(place)..=page_of(place + (next - sector) - 1));
            }
            sector = next;
        }
    }

    /// Starts reading those of these pages, which are in order, that are neither in memory nor on their way. Says whether all
    /// are in memory.
    pub(super) fn want(&mut self, pages: Vec<u64>) -> bool {
        let mut all = true;
        for run in consecutive(pages) {
            all &= self.want_pages(run.start, run.end - 1);
        }
        all
    }

    /// Starts reading the pages of `first..=last` that are neither in memory nor on their
    /// way. Says whether all are in memory.
    fn want_pages(&mut self, first: u64, last: u64) -> bool {
        let mut all = true;
        let mut page = first;
        while page <= last {
            let missing = |s: &Self, p| !s.table.has(p) && !s.loading.contains(&p);
            all &= self.table.has(page);
            if !missing(self, page) {
                page += 1;
                continue;
            }
            let mut count = 0;
            while page <= last && count < 64 && missing(self, page) {
                self.loading.insert(page);
                page += 1;
                count += 1;
            }
            let first = page - count;
            let offset = (self.superblock.table_start() + first) * SECTOR;
            let op = DiskOp::Read { offset, len: count * SECTOR };
            self.start(Purpose::Pages { first, count }, op);
            all = false;
        }
        all
    }

    pub(super) fn pages_arrived(&mut self, first: u64, count: u64, result: DiskResult) {
        if result.is_err() && count > 1 {
            // One page that cannot be read must not cost its neighbours: each is tried alone.
            for page in first..first + count {
                let offset = (self.superblock.table_start() + page) * SECTOR;
                let op = DiskOp::Read { offset, len: SECTOR };
                self.start(Purpose::Pages { first: page, count: 1 }, op);
            }
            return;
        }
        for n in 0..count {
            let at = (n * SECTOR) as usize;
            self.loading.remove(&(first + n));
            let page = result.as_ref().ok().map(|b| b.slice(at, at + SECTOR as usize));
            if let Some(wrong) = self.table.load(first + n, page.as_ref()) {
                self.damaged(format!(
                    "page {} of the checksum table is damaged: {wrong}",
                    first + n
                ));
            }
        }
        self.step_reads();
        self.step_scans();
        self.step_checkpoint();
        self.step_recovery();
        self.trim_table();
    }

    pub(super) fn trim_table(&mut self) {
        // Who waits for several pages needs those that are there.
        let waits = !self.loading.is_empty() && self.table.len() < MOST_PAGES_WAITED_FOR;
        if self.recovery.is_none() && !waits {
            let checkpoint = &self.checkpoint;
            self.table.trim(|page| checkpoint.as_ref().is_some_and(|c| c.uses(page)));
        }
    }
}
