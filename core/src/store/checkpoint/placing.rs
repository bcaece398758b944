//! The writes of a checkpoint, in the order that makes a crash at any point harmless.

use super::super::others::Forgiving;
use std::collections::BTreeMap;

use super::super::format::Applied;
use super::super::overlay::Over;
use super::super::table::State;
use super::super::{DiskOp, Event};
use super::{JournalStore, Purpose, Stage, consecutive};
use crate::Buffer;
use crate::units::SECTOR;

impl JournalStore {
    /// Counts checkpoints that have begun to place sectors.
    pub(in crate::store) fn placings(&self) -> u64 {
        self.counters.checkpoints
    }

    pub(in crate::store) fn is_placing(&self) -> bool {
        self.checkpoint.as_ref().is_some_and(|c| matches!(c.stage, Stage::Place | Stage::FlushData))
    }

    /// The apply entry is safe: put the data in place.
    pub(in crate::store) fn checkpoint_logged(&mut self) {
        if self.checkpoint.is_some() {
            self.place(false);
        }
    }

    /// Puts the data in place, and with `mark` writes the superblock that says how late it is.
    pub(super) fn place(&mut self, mark: bool) {
        let mut c = self.checkpoint.take().expect("in work");
        debug_assert_eq!(c.stage, Stage::Log);
        c.stage = Stage::Place;
        self.counters.checkpoints += 1;
        // What is in its slot already counts, too, and neighbours count once wherever their slots lie.
        let placed = |f: &&Applied| c.sectors.contains_key(&f.sector);
        let have_content =
            c.finals.iter().filter(placed).filter(|f| f.state == State::Written as u8);
        let runs = consecutive(have_content.map(|f| f.sector).collect()).count();
        self.counters.disk_writes += runs as u64;
        let places = |state: State| {
            let those = c.finals.iter().filter(placed).filter(move |f| f.state == state as u8);
            those
                .map(|f| (self.place_in(c.pointers(), f.sector), f.sector))
                .collect::<BTreeMap<_, _>>()
        };
        let mut written = places(State::Written);
        written.retain(|_, sector| c.sectors[sector].settled().is_some());
        let runs: Vec<_> = consecutive(written.keys().copied().collect()).collect();
        let holes: Vec<_> = consecutive(places(State::Hole).into_keys().collect()).collect();
        c.waiting = runs.len() + holes.len() + usize::from(mark);
        let nothing = c.waiting == 0;
        c.number = self.superblock.sequence + 1;
        if mark {
            // Safe with the flush of the data.
            self.write_superblock(Purpose::Checkpoint, false);
        }
        for run in runs {
            let settled = |place| c.sectors[&written[&place]].settled().cloned();
            let data = run.clone().filter_map(settled).collect();
            self.write_place(Purpose::Checkpoint, run, data);
        }
        for run in holes {
            self.discard_place(Purpose::Discard, run);
        }
        if nothing {
            // What is where it is to be already is safe there.
            c.stage = Stage::FlushData;
        }
        self.checkpoint = Some(c);
        if nothing {
            self.next_stage();
        }
    }

    /// Where a sector will be when these pointers are written.
    pub(in crate::store) fn place_in(&self, pointers: &BTreeMap<u64, u64>, sector: u64) -> u64 {
        let slot = self.slots.slot_of(sector);
        match slot.and_then(|slot| Some((slot, pointers.get(&slot)?))) {
            Some((slot, place)) => {
                self.slots.sectors_of(*place).start + (sector - self.slots.sectors_of(slot).start)
            }
            None => self.slots.place_of(sector).expect("a checkpoint gives places"),
        }
    }

    pub(in crate::store) fn checkpoint_step_done(&mut self) {
        let c = self.checkpoint.as_mut().expect("in work");
        c.waiting -= 1;
        if c.waiting == 0 {
            self.next_stage();
        }
    }

    fn next_stage(&mut self) {
        let c = self.checkpoint.as_mut().expect("in work");
        c.waiting = 1;
        match c.stage {
            Stage::Place => {
                c.stage = Stage::FlushData;
                self.start(Purpose::Checkpoint, DiskOp::Flush);
            }
            Stage::FlushData => {
                c.stage = Stage::Table;
                if c.number == self.superblock.sequence {
                    self.superblock_is_safe();
                }
                self.set_table();
                self.write_table();
            }
            Stage::Table => {
                c.stage = Stage::FlushTable;
                self.start(Purpose::Checkpoint, DiskOp::Flush);
            }
            Stage::FlushTable => {
                c.stage = Stage::Owners;
                self.write_owners();
            }
            Stage::Owners => {
                c.stage = Stage::FlushOwners;
                self.start(Purpose::Checkpoint, DiskOp::Flush);
            }
            Stage::FlushOwners => {
                c.stage = Stage::Index;
                self.pages_are_safe();
                self.write_index();
            }
            Stage::Index => {
                c.stage = Stage::FlushIndex;
                self.start(Purpose::Checkpoint, DiskOp::Flush);
            }
            Stage::FlushIndex => {
                c.stage = Stage::Superblock;
                self.move_tail();
            }
            Stage::Superblock => {
                self.superblock_is_safe();
                if self.forgiving == Forgiving::Writing {
                    self.forgiving = Forgiving::Done;
                }
                let done = self.checkpoint.take().expect("in work");
                self.events.extend(done.placed.into_iter().map(Event::Placed));
                // What was freed together is used together: the first of them first.
                for place in done.freed.into_iter().rev() {
                    self.slots.left(place, self.config.waits_for_reads() && self.is_read(place));
                }
                self.journal.left();
                self.trim_table();
                self.pump();
            }
            Stage::Pages | Stage::Bases | Stage::Epoch | Stage::Log => {
                unreachable!("not an I/O stage")
            }
        }
    }

    /// The pages of the table and the owners are safe: its writes are in place.
    fn pages_are_safe(&mut self) {
        let c = self.checkpoint.as_mut().expect("in work");
        let gone = c.sectors.values().flat_map(Over::names).collect();
        let known = std::mem::take(&mut c.known);
        c.sectors.clear();
        self.unpin_all(gone);
        for ts in known {
            let write = self.writes.get_mut(&ts);
            if let Some(write) = write.filter(|w| w.unplaced() == Some(0)) {
                self.journal.unpin(write.frame.take());
            }
        }
    }

    /// The pointers lead where the content is, and the table says what that is.
    fn set_table(&mut self) {
        let mut c = self.checkpoint.take().expect("in work");
        for (slot, place) in &c.pointers {
            match self.slots.point(*slot, *place) {
                Some(before) if self.config.waits_for_pointers() => c.freed.push(before),
                Some(before) => self.slots.left(before, false),
                None => {}
            }
        }
        for (at, entry) in std::mem::take(&mut c.entries) {
            self.table.set(at, entry);
        }
        let mut slots: Vec<u64> =
            c.finals.iter().filter_map(|f| self.slots.slot_of(f.sector)).collect();
        slots.dedup();
        slots.into_iter().for_each(|slot| self.slots.changed(slot));
        let drops = !c.dropped.is_empty();
        let uncovered = self.sectors_over(&c.dropped);
        for before in self.slots_are_dropped(&c.dropped) {
            match self.config.waits_for_pointers() {
                true => c.freed.push(before),
                false => self.slots.left(before, false),
            }
        }
        let thin = c.finals.iter().map(|f| f.sector).filter(|s| !self.slots.is_reserved(*s));
        let placed: Vec<u64> = thin.collect();
        self.checkpoint = Some(c);
        if drops {
            self.expect_places_again();
        }
        for sectors in consecutive(placed).chain(uncovered) {
            self.look_for_empty(sectors);
        }
    }

    /// The table is safe: the owners say so.
    fn write_owners(&mut self) {
        let c = self.checkpoint.as_mut().expect("in work");
        let pages = self.slots.take_dirty(self.superblock.incarnation, c.number);
        let first = self.superblock.table_pages();
        c.written.extend(pages.iter().map(|page| (first + page.number, false)));
        let pages = pages.into_iter().map(|page| (page.sector, page.bytes)).collect();
        let start = self.superblock.owners().start;
        let started = self.write_pages(Purpose::Checkpoint, start, pages, false);
        let c = self.checkpoint.as_mut().expect("in work");
        c.waiting = started;
        if started == 0 {
            c.stage = Stage::FlushOwners;
            self.next_stage();
        }
    }

    fn write_table(&mut self) {
        let c = self.checkpoint.as_mut().expect("in work");
        let pages = self.table.take_dirty(c.number);
        c.written = pages.iter().map(|page| (page.number, page.is_marked)).collect();
        let pages = pages.into_iter().map(|page| (page.number, page.bytes)).collect();
        let started =
            self.write_pages(Purpose::Checkpoint, self.superblock.table_start(), pages, false);
        self.checkpoint.as_mut().expect("in work").waiting = started;
        if started == 0 {
            self.next_stage();
        }
    }

    /// Writes pages, those that follow one another together; returns how many writes that took.
    pub(in crate::store) fn write_pages(
        &mut self,
        purpose: Purpose,
        start: u64,
        pages: Vec<(u64, Buffer)>,
        durable: bool,
    ) -> usize {
        let mut writes: Vec<(u64, Vec<Buffer>)> = Vec::new();
        for (number, bytes) in pages {
            match writes.last_mut() {
                Some((first, data)) if *first + data.len() as u64 == number => data.push(bytes),
                _ => writes.push((number, vec![bytes])),
            }
        }
        let count = writes.len();
        for (first, data) in writes {
            let offset = (start + first) * SECTOR;
            self.start(purpose, DiskOp::Write { offset, data, durable });
        }
        count
    }

    /// The pages of the table are safe: the index says so.
    fn write_index(&mut self) {
        let c = self.checkpoint.as_mut().expect("in work");
        let written = std::mem::take(&mut c.written);
        let next = self.superblock.sequence + 1;
        let pages = self.table.index.as_mut().map_or_else(Vec::new, |index| {
            let wrote = |(page, is_marked)| index.wrote(page, c.number, is_marked);
            written.into_iter().for_each(wrote);
            index.take_dirty(next)
        });
        let start = self.superblock.index_start();
        let waiting = self.write_pages(Purpose::Checkpoint, start, pages, false);
        let c = self.checkpoint.as_mut().expect("in work");
        c.waiting = waiting;
        if waiting == 0 {
            c.stage = Stage::FlushIndex;
            self.next_stage();
        }
    }

    /// The last step: the superblock with the new tail, and the sum of the index.
    fn move_tail(&mut self) {
        let (tail, frame) = self.journal.advance();
        let sb = &mut self.superblock;
        (sb.tail, sb.tail_frame) = (tail, frame);
        self.write_superblock(Purpose::Checkpoint, true);
    }

    /// What the superblock says is safe.
    fn superblock_is_safe(&mut self) {
        if self.superblock.sequence > self.unpromised.1 {
            self.reached.life = self.reached.life.max(self.life_written);
            self.reached.sequence = self.superblock.sequence;
        }
    }

    /// The older copy of the superblock becomes the newer one.
    pub(in crate::store) fn write_superblock(&mut self, purpose: Purpose, durable: bool) {
        let sb = &mut self.superblock;
        sb.sequence += 1;
        sb.durable_before = self.journal.durable_before();
        if durable && self.forgiving == Forgiving::Wanted {
            self.forgiving = Forgiving::Writing;
        }
        if let Some(index) = &self.table.index {
            sb.index_sum = index.sum();
        }
        self.latest_kept = sb.latest;
        self.life_written = sb.life;
        let offset = self.config.superblock_copy(sb.sequence) * SECTOR;
        let data = vec![sb.encode().into()];
        self.start(purpose, DiskOp::Write { offset, data, durable });
    }
}
