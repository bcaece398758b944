//! What must hold between the fields of a store whenever it is asked. The simulator and the explorer ask after every
//! input; each sentence here is one invariant, and the text of its assertion says it again.
//!
//! [`JournalStore::check`] costs as much as there are writes in work. [`JournalStore::check_sums`] walks over everything in
//! memory. Neither says anything while a disk is being opened, or when it has failed.

use std::collections::BTreeMap;

use super::table::page_of;
use super::writes::{Life, Write};
use super::{JournalStore, Purpose, Timestamp, format};

impl JournalStore {
    /// Checks what can be seen without walking over sectors.
    ///
    /// # Panics
    ///
    /// If it does not hold.
    pub fn check(&self) {
        if self.recovery.is_some() || self.failed {
            return;
        }
        self.journal.check();
        self.check_writes();
        self.check_progress();
        self.check_checkpoint();
    }

    /// Each write is where its life says.
    fn check_writes(&self) {
        let (mut pins, mut unlogged) = (BTreeMap::new(), 0);
        for (ts, write) in &self.writes {
            if let Some(frame) = write.frame {
                *pins.entry(frame).or_insert(0) += 1;
            }
            unlogged += u64::from(!write.journaled && write.unplaced().is_some_and(|n| n > 0));
            assert!(write.journaled || write.frame.is_none(), "{ts} has a frame without journal");
            let goes = matches!(write.life, Life::Released { unplaced: 0 });
            assert!(!goes, "{ts} is released and in place, and is remembered");
        }
        for frame in self.journal.doubted_frames() {
            *pins.entry(frame).or_insert(0) += 1;
        }
        assert_eq!(unlogged, self.unlogged, "writes without journal that are not in place");
        self.journal.check_pins(&pins);
        let last = self.writes.last_key_value().map_or(Timestamp::ZERO, |(ts, _)| *ts);
        assert!(last <= self.superblock.latest, "no write is later than the latest");
    }

    /// What is said of how far the disk has got is not ahead of what it has written.
    fn check_progress(&self) {
        let (sb, reached) = (&self.superblock, &self.reached);
        assert!(reached.frame <= self.journal.last_frame(), "a frame was reached before it began");
        assert!(reached.sequence <= sb.sequence, "a superblock was reached before it was written");
        assert!(reached.life <= sb.life, "a life was reached before it began");
        assert!(self.latest_kept <= sb.latest, "the disk names a later write than there is");
        assert!(self.life_written <= sb.life, "the disk names a later life than there is");
        assert!(sb.heard.len() <= format::MOST_HEARD, "more disks were heard of than fit");
    }

    /// A checkpoint waits for its operations, and for no others.
    fn check_checkpoint(&self) {
        let count = |of: fn(&Purpose) -> bool| self.ios.values().filter(|p| of(p)).count();
        let reads = count(|p| matches!(p, Purpose::CheckpointBase { .. }));
        let writes = count(|p| matches!(p, Purpose::Checkpoint | Purpose::Discard));
        match &self.checkpoint {
            Some(checkpoint) => checkpoint.check(reads, writes),
            None => assert_eq!((reads, writes), (0, 0), "operations of no checkpoint"),
        }
    }

    /// Checks what takes a walk over all sectors and operations in memory.
    ///
    /// # Panics
    ///
    /// If it does not hold.
    pub fn check_sums(&self) {
        if self.recovery.is_some() || self.failed {
            return;
        }
        self.check_sectors();
        self.check_reads();
        self.check_slots();
        for (ts, write) in &self.writes {
            let waits = matches!(write.life, Life::Preparing { .. });
            assert_eq!(waits, self.journal.prepares(*ts), "{ts} prepares while the journal does");
        }
    }

    /// Each committed write counts as many sectors as name it.
    fn check_sectors(&self) {
        let mut named = BTreeMap::<Timestamp, u64>::new();
        let placing = self.checkpoint.iter().flat_map(|c| c.sectors());
        for (sector, over) in self.overlay.iter().chain(placing) {
            assert!(self.slots.has(sector..sector + 1), "sector {sector} is not on the disk");
            let names = over.names();
            let is_given = over.newest() == Timestamp::ZERO;
            assert!(is_given || !names.is_empty(), "sector {sector} is no write's");
            names.into_iter().for_each(|ts| *named.entry(ts).or_default() += 1);
            let content = over.content.as_ref().map_or(Timestamp::ZERO, |c| c.0);
            let above = over.deltas.iter().all(|d| d.0 >= content);
            assert!(above, "sector {sector} has a delta from before its content");
        }
        self.copies.check(self.writes.iter().map(|(ts, write)| (*ts, write.changes())));
        for copy in self.copies.all() {
            let has_place = self.slots.place_of(copy.sector).is_some() || self.has_lost_claims();
            assert!(has_place, "{copy:?} has no place to go to");
            *named.entry(copy.ts).or_default() += 1;
        }
        for (ts, write) in &self.writes {
            let sectors = named.remove(ts).unwrap_or(0);
            assert_eq!(write.unplaced().unwrap_or(0), sectors, "sectors of {ts} not in place");
        }
        assert!(named.is_empty(), "sectors of writes that are forgotten: {named:?}");
    }

    /// Each slot that is in use is so for one reason, but for those that are read besides.
    fn check_slots(&self) {
        let undecided = self.writes.values().flat_map(Write::redirects).map(|r| r.place);
        let checkpoint = self.checkpoint.iter().flat_map(|c| c.places());
        let discarded = self.ios.values().filter_map(|purpose| match purpose {
            Purpose::DiscardFree { slot } if self.config.holds_what_it_discards() => Some(*slot),
            _ => None,
        });
        self.slots.check(undecided.chain(checkpoint).chain(discarded));
        self.check_beneath();
        if self.superblock.has_spaces() {
            let undecided = self.writes.values().filter(|write| write.is_undecided());
            let undecided = undecided.flat_map(|write| self.slots_of_write(write));
            let placing = self.checkpoint.iter().flat_map(|c| c.sectors());
            let committed = self.overlay.iter().chain(placing).map(|(s, _)| s..s + 1);
            let changed = undecided.chain(self.slots_of(committed)).collect();
            self.slots.check_promised(&changed);
        }
        for slot in self.slots.moving() {
            let all = self
                .slots
                .sectors_of(slot)
                .all(|sector| self.overlay.get(sector).is_some_and(|over| over.content.is_some()));
            assert!(all, "all sectors of slot {slot}, whose pointer has moved, are in memory");
        }
        for place in self.slots.being_read() {
            assert!(self.is_read(place), "slot {place} is kept for reads, and nobody reads it");
        }
    }

    /// What waits, waits for something that is under way.
    fn check_reads(&self) {
        let mut reads = BTreeMap::<u64, usize>::new();
        let mut pages = 0;
        for purpose in self.ios.values() {
            match purpose {
                Purpose::Read { ticket, .. } | Purpose::Salvage { ticket, .. } => {
                    *reads.entry(*ticket).or_default() += 1;
                }
                Purpose::Pages { first, count } => {
                    let loading =
                        |page: &u64| self.loading.contains(page) && !self.table.has(*page);
                    let all = (*first..first + count).all(|page| loading(&page));
                    assert!(all, "a page is read that is here, or not on its way");
                    pages += count;
                }
                _ => {}
            }
        }
        assert_eq!(self.loading.len() as u64, pages, "each page on its way is read once");
        for (ticket, job) in &self.reads {
            let reading = reads.contains_key(ticket);
            assert_eq!(job.waits_for_disk(), reading, "read {ticket} waits for the disk");
            assert!(reading || pages > 0, "read {ticket} waits for nothing");
        }
        assert!(self.scans.is_empty() || pages > 0, "a scan waits for nothing");
        let unplaced = self.checkpoint.iter().flat_map(|c| c.sectors());
        let places = unplaced.filter_map(|(sector, _)| self.slots.place_of(sector));
        let pages = places.map(page_of);
        let known = |page| self.checkpoint.as_ref().is_some_and(|c| c.uses(page));
        let mut pages = pages;
        assert!(pages.all(known), "a checkpoint uses the pages of its sectors");
    }
}
