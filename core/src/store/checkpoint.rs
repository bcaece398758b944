//! Checkpoints: putting committed changes in place and freeing their room in the journal.
//!
//! The order is what makes a crash at any point harmless: an *apply* entry in the journal
//! says what each sector will be; then the data goes in place and is flushed; then the
//! table, and is flushed; then the superblock's tail moves. Until the table is there the
//! journal still holds everything needed to do it again, and the apply entry tells whether
//! a sector already has its deltas or not.
//!
//! Of what was written without the journal, with nothing else in it, there is no apply entry. Then
//! the superblock is written along with the data: it must name a timestamp as late as any in the
//! table, or after a crash the disk would not know how late its own content is.
//!
//! A checkpoint is known by the sequence of the superblock that it writes. Pages of the table carry it, and when
//! they are safe the index does; and when that is safe the superblock has the sum of the index. Each of them may
//! be older than what it speaks of, after a crash, and never newer.

use std::collections::{BTreeMap, BTreeSet};

use super::format::{Applied, Entry};
use super::others::Forgiving;
use super::overlay::Over;
use super::place::Base;
use super::table::{State, TableEntry, page_of};
use super::{DiskOp, DiskResult, Event, JournalStore, Purpose, Write};
use crate::Buffer;
use crate::units::{SECTOR, SECTOR_BYTES, Timestamp};

/// Most sectors and pages in one checkpoint: small enough that hosts hardly notice one.
const BATCH_SECTORS: usize = 1024;
const BATCH_PAGES: usize = 256;
/// The same while nothing is in the journal, so that no host waits for one: then it is what has been
/// rebuilt that is put in place, and fewer flushes are needed for it.
const QUIET_BATCH: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stage {
    /// Waiting for table pages.
    Pages,
    /// Waiting for what deltas are added to.
    Bases,
    /// Waiting for the apply entry to be safe.
    Log,
    Place,
    FlushData,
    Table,
    FlushTable,
    Index,
    FlushIndex,
    Superblock,
}

#[derive(Clone, Hash)]
pub(super) struct Checkpoint {
    stage: Stage,
    sectors: BTreeMap<u64, Over>,
    pages: BTreeSet<u64>,
    /// Of sectors that have deltas alone: the sum of those and of what stands in their places, as far as that
    /// could be read and is sound.
    sums: BTreeMap<u64, Buffer>,
    finals: Vec<Applied>,
    /// The committed writes that the journal names anew with this checkpoint.
    known: Vec<Timestamp>,
    waiting: usize,
    /// The sequence of the superblock that it writes, once it places anything.
    number: u64,
    /// The pages of the table that it has written, and whether a sector of each is marked.
    written: Vec<(u64, bool)>,
    /// Writes without journal that are in place, of which nothing is said before the superblock is safe.
    placed: Vec<Timestamp>,
    /// The journal said what it does before the disk was opened: it does it again.
    again: bool,
}

impl Checkpoint {
    /// One that is to put these sectors in place. `known` are the writes that the journal names anew with it,
    /// if it has said so `again` before.
    fn new(sectors: BTreeMap<u64, Over>, known: Vec<Timestamp>, again: bool) -> Checkpoint {
        Checkpoint {
            stage: Stage::Pages,
            pages: sectors.keys().map(|s| page_of(*s)).collect(),
            sectors,
            sums: BTreeMap::new(),
            finals: Vec::new(),
            known,
            waiting: 0,
            number: 0,
            written: Vec::new(),
            placed: Vec::new(),
            again,
        }
    }

    /// What a sector in work consists of, above what is in place.
    pub fn over(&self, sector: u64) -> Option<&Over> {
        self.sectors.get(&sector)
    }

    /// How far it is, in words.
    pub fn stage(&self) -> String {
        format!("checkpoint of {} sectors at {:?}", self.finals.len(), self.stage)
    }

    pub fn uses(&self, page: u64) -> bool {
        self.pages.contains(&page)
    }

    /// The sectors that it is to put in place.
    pub fn sectors(&self) -> impl Iterator<Item = (u64, &Over)> {
        self.sectors.iter().map(|(s, over)| (*s, over))
    }

    /// Checks what must hold of it while so many reads and writes of it are under way.
    pub fn check(&self, reads: usize, writes: usize) {
        let waits_for = match self.stage {
            Stage::Pages | Stage::Log => (0, 0),
            Stage::Bases => (self.waiting, 0),
            _ => (0, self.waiting),
        };
        assert_eq!(
            (reads, writes),
            waits_for,
            "a checkpoint waits for its operations: {:?}",
            self.stage
        );
        let idle = matches!(self.stage, Stage::Pages | Stage::Log);
        assert!(idle || self.waiting > 0, "a checkpoint waits for nothing: {:?}", self.stage);
    }

    /// A write without journal is in place.
    pub fn placed(&mut self, ts: Timestamp) {
        self.placed.push(ts);
    }
}

impl JournalStore {
    /// Starts a checkpoint if one is due (or `now`), none is in work and there is anything
    /// to do. `held_back` says of a sector, its newest write and whether it has content,
    /// that an earlier write of it is undecided.
    pub fn checkpoint(&mut self, now: bool, held_back: impl Fn(u64, Timestamp, bool) -> bool) {
        let j = &self.journal;
        let full = j.used() > j.size() / 2 || j.stalled;
        let due =
            now || full || self.unlogged > 0 || self.overlay.len() >= self.config.overlay_sectors;
        let idle = self.checkpoint.is_none() && self.recovery.is_none() && !self.failed;
        if !idle || self.mend() || !due || (self.overlay.is_empty() && !full) {
            return;
        }
        let times = if self.journal.used() == 0 { QUIET_BATCH } else { 1 };
        let (most_sectors, most_pages) = (BATCH_SECTORS * times, BATCH_PAGES * times);
        let mut pages = BTreeSet::new();
        let mut chosen = Vec::new();
        for (sector, over) in self.overlay.iter() {
            if chosen.len() >= most_sectors || pages.len() >= most_pages {
                break;
            }
            if !held_back(sector, over.newest(), over.content.is_some()) {
                pages.insert(page_of(sector));
                chosen.push(sector);
            }
        }
        // With nothing to place, room may still be freed. But the checkpoint's frame takes
        // room itself: one after the other behind a frame that must stay, they would take the
        // last of it, and no checkpoint could make any again. When little is left only those
        // begin that free more than they take, or place as much as one can.
        let whole = chosen.len() >= most_sectors || pages.len() >= most_pages;
        let cost = self.frame_cost(chosen.len());
        let sparing = chosen.is_empty() || (self.journal.is_tight(cost) && !whole);
        if sparing && self.would_free(&chosen) <= cost {
            return;
        }
        self.journal.add(Entry::Begin);
        let take = |s| (s, self.overlay.remove(s).expect("just chosen"));
        let sectors = chosen.into_iter().map(take).collect();
        self.checkpoint = Some(Checkpoint::new(sectors, Vec::new(), false));
        self.step_checkpoint();
    }

    /// Ends the checkpoint that the journal last speaks of: `sectors` are not in place yet of what it was to place,
    /// and `known` are the writes that it named. That takes no room in the journal. If every opening took
    /// some, a disk that dies again and again in checkpoints would have none left to free any.
    pub(super) fn end_last_checkpoint(
        &mut self,
        sectors: BTreeMap<u64, Over>,
        known: Vec<Timestamp>,
    ) {
        self.checkpoint = Some(Checkpoint::new(sectors, known, true));
        self.step_checkpoint();
    }

    /// At most how many sectors the frame of a checkpoint of so many sectors takes.
    fn frame_cost(&self, sectors: usize) -> u64 {
        let known = self.writes.values().filter(|w| w.is_to_be_known());
        let known: usize = known.map(|w| 16 + w.meta.len()).sum();
        let waiting = self.journal.control_len() * 16;
        // What is heard until then goes along.
        let heard = 32 + 34 * (self.superblock.heard.len() + 1);
        (64 + 32 * sectors + known + waiting + heard).div_ceil(SECTOR_BYTES) as u64
    }

    /// Sectors of the journal that are free once these sectors are in place.
    fn would_free(&self, chosen: &[u64]) -> u64 {
        let mut placed = BTreeMap::<Timestamp, u64>::new();
        for over in chosen.iter().filter_map(|s| self.overlay.get(*s)) {
            over.names().into_iter().for_each(|ts| *placed.entry(ts).or_default() += 1);
        }
        let goes = |ts, w: &Write| w.unplaced() == Some(placed.get(ts).map_or(0, |n| *n));
        let stays = self.writes.iter().filter(|(ts, w)| !goes(ts, w)).filter_map(|(_, w)| w.frame);
        self.journal.taken_before(stays.min().unwrap_or(u64::MAX))
    }

    /// Counts checkpoints that have begun to place sectors.
    pub(super) fn placings(&self) -> u64 {
        self.counters.checkpoints
    }

    pub(super) fn is_placing(&self) -> bool {
        self.checkpoint.as_ref().is_some_and(|c| matches!(c.stage, Stage::Place | Stage::FlushData))
    }

    /// Goes on if what the stage waits for is there.
    pub(super) fn step_checkpoint(&mut self) {
        let Some(c) = &self.checkpoint else { return };
        if c.stage != Stage::Pages {
            return;
        }
        let pages: Vec<u64> = c.pages.iter().copied().collect();
        let mut all = true;
        for run in consecutive(pages) {
            all &= self.want_pages(run.start, run.end - 1);
        }
        if all {
            self.read_bases();
        }
    }

    /// Deltas without content need what is in place.
    fn read_bases(&mut self) {
        let c = self.checkpoint.as_mut().expect("in work");
        c.stage = Stage::Bases;
        let table = &mut self.table;
        let needy = c.sectors.iter().filter(|(_, over)| over.content.is_none());
        let on_disk = needy.filter(|(s, over)| Base::of(over, table.get(**s)).is_on_disk());
        let runs: Vec<_> = consecutive(on_disk.map(|(s, _)| *s).collect()).collect();
        c.waiting = runs.len();
        let nothing = runs.is_empty();
        for run in runs {
            self.counters.disk_reads += 1;
            let purpose = Purpose::CheckpointBase { first: run.start, count: run.end - run.start };
            self.read_place(purpose, run);
        }
        if nothing {
            self.compute_finals();
        }
    }

    pub(super) fn base_arrived(&mut self, first: u64, count: u64, result: DiskResult) {
        if result.is_err() && count > 1 {
            // One bad sector must not cost its neighbours: each is tried alone.
            self.checkpoint.as_mut().expect("in work").waiting += count as usize - 1;
            for sector in first..first + count {
                let purpose = Purpose::CheckpointBase { first: sector, count: 1 };
                self.read_place(purpose, sector..sector + 1);
            }
            return;
        }
        if let Ok(data) = result {
            self.sum_up(first, count, data);
        }
        let c = self.checkpoint.as_mut().expect("in work");
        c.waiting -= 1;
        if c.waiting == 0 {
            self.compute_finals();
        }
    }

    /// Adds deltas to what they belong on as it comes, and not all at once when it is all there: meanwhile others have
    /// their turn. The bytes that were read are changed where they are.
    fn sum_up(&mut self, first: u64, count: u64, data: Buffer) {
        let c = self.checkpoint.as_mut().expect("in work");
        let is_sound = |n: usize, entry: TableEntry| {
            let piece = data.slice(n * SECTOR_BYTES, (n + 1) * SECTOR_BYTES);
            piece.crc() == entry.crc
        };
        let table = &mut self.table;
        let sound: Vec<bool> =
            (0..count as usize).map(|n| is_sound(n, table.get(first + n as u64))).collect();
        let summed = add_all(data, |n| &c.sectors[&(first + n as u64)]);
        let pieces = (first..).zip(summed).zip(sound);
        c.sums.extend(pieces.filter(|(_, sound)| *sound).map(|(piece, _)| piece));
    }

    /// What each sector will be; then says so in the journal.
    fn compute_finals(&mut self) {
        let mut c = self.checkpoint.take().expect("in work");
        let mut logged = false;
        for (&sector, over) in &mut c.sectors {
            let version = over.newest().max(self.table.get(sector).version);
            logged |= over.writes().any(|ts| self.writes.get(&ts).is_some_and(|w| w.journaled));
            let base = Base::of(over, self.table.get(sector));
            let content = match base.is_on_disk() {
                true => c.sums.remove(&sector),
                false => base.content(|| None).map(|b| add_deltas(b, over)),
            };
            if base.is_on_disk() && content.is_none() {
                self.counters.erasures += 1;
            }
            let (state, crc) = match &content {
                None if base.is_marked() => (State::Marked, 0),
                None => (State::Bad, 0),
                Some(b) if b.is_zero() => (State::Hole, 0),
                Some(b) => (State::Written, b.crc()),
            };
            c.finals.push(Applied { sector, version, crc, state: state as u8 });
            if let Some(content) = content {
                // From here on readers see the result; the names stay until it is in place.
                over.settle(content);
            }
        }
        c.sums.clear();
        c.stage = Stage::Log;
        if c.again {
            // The superblock names its number, as an apply entry would.
            let mark = self.superblock.has_index();
            self.checkpoint = Some(c);
            return self.place(mark);
        }
        let sectors = c.finals.clone();
        if !logged && self.journal.used() == 0 {
            self.checkpoint = Some(c);
            let has_index = self.superblock.has_index();
            self.place(has_index || self.superblock.latest > self.latest_kept);
            return;
        }
        let known = || self.writes.iter().filter(|(_, w)| w.is_to_be_known());
        c.known = known().map(|(ts, _)| *ts).collect();
        let entries = known().map(|(ts, w)| Entry::Known { ts: *ts, meta: w.meta.clone() });
        self.journal.name_known(entries);
        self.checkpoint = Some(c);
        if self.superblock.has_index() {
            self.journal.add(Entry::Checkpoint(self.superblock.sequence + 1));
        }
        self.journal.add(Entry::Apply { sectors });
        self.journal.urge();
        self.pump();
    }

    /// The apply entry is safe: put the data in place.
    pub(super) fn checkpoint_logged(&mut self) {
        if self.checkpoint.is_some() {
            self.place(false);
        }
    }

    /// Puts the data in place, and with `mark` writes the superblock that says how late it is.
    fn place(&mut self, mark: bool) {
        let mut c = self.checkpoint.take().expect("in work");
        debug_assert_eq!(c.stage, Stage::Log);
        c.stage = Stage::Place;
        self.counters.checkpoints += 1;
        let written = c.finals.iter().filter(|f| f.state == State::Written as u8);
        let runs: Vec<_> = consecutive(written.map(|f| f.sector).collect::<Vec<_>>()).collect();
        let holes = c.finals.iter().filter(|f| f.state == State::Hole as u8);
        let holes: Vec<_> = consecutive(holes.map(|f| f.sector).collect::<Vec<_>>()).collect();
        c.waiting = runs.len() + holes.len() + usize::from(mark);
        let nothing = c.waiting == 0;
        c.number = self.superblock.sequence + 1;
        if mark {
            // Safe with the flush of the data.
            self.write_superblock(Purpose::Checkpoint, false);
        }
        for run in runs {
            let data = run.clone().map(|s| c.sectors[&s].settled().clone());
            let data = data.collect();
            self.counters.disk_writes += 1;
            self.write_place(Purpose::Checkpoint, run, data);
        }
        for run in holes {
            self.discard_place(Purpose::Discard, run);
        }
        self.checkpoint = Some(c);
        if nothing {
            self.next_stage();
        }
    }

    pub(super) fn checkpoint_step_done(&mut self) {
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
                let c = self.checkpoint.as_ref().expect("in work");
                for f in &c.finals {
                    let state = State::from_byte(f.state);
                    let entry = TableEntry { version: f.version, crc: f.crc, state };
                    self.table.set(f.sector, entry);
                }
                self.write_table();
            }
            Stage::Table => {
                c.stage = Stage::FlushTable;
                self.start(Purpose::Checkpoint, DiskOp::Flush);
            }
            Stage::FlushTable => {
                c.stage = Stage::Index;
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
                let placed = self.checkpoint.take().expect("in work").placed;
                self.events.extend(placed.into_iter().map(Event::Placed));
                self.journal.left();
                self.trim_table();
                self.pump();
            }
            Stage::Pages | Stage::Bases | Stage::Log => unreachable!("not an I/O stage"),
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
    pub(super) fn write_pages(
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
        let moved = (sb.tail, sb.tail_frame) != (tail, frame);
        (sb.tail, sb.tail_frame) = (tail, frame);
        match moved || sb.has_index() {
            true => self.write_superblock(Purpose::Checkpoint, true),
            false => self.next_stage(),
        }
    }

    /// What the superblock says is safe.
    fn superblock_is_safe(&mut self) {
        if self.superblock.sequence > self.unpromised.1 {
            self.reached.life = self.reached.life.max(self.life_written);
            self.reached.sequence = self.superblock.sequence;
        }
    }

    /// The older copy of the superblock becomes the newer one.
    pub(super) fn write_superblock(&mut self, purpose: Purpose, durable: bool) {
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

/// The content of a sector with its deltas.
fn add_deltas(content: Buffer, over: &Over) -> Buffer {
    add_all(content, |_| over).pop().expect("a sector")
}

/// Sectors that follow one another, each with the deltas that are over it. Nothing is copied if nobody else has the bytes.
fn add_all<'a>(content: Buffer, over: impl Fn(usize) -> &'a Over) -> Vec<Buffer> {
    let count = content.len() / SECTOR_BYTES;
    let deltas = |n: usize| over(n).deltas.iter().map(|d| &d.1);
    let piece = |all: &Buffer, n: usize| all.slice(n * SECTOR_BYTES, (n + 1) * SECTOR_BYTES);
    if (0..count).all(|n| deltas(n).all(Buffer::is_zero)) {
        return (0..count).map(|n| piece(&content, n)).collect();
    }
    if content.is_length() || (0..count).flat_map(deltas).any(Buffer::is_length) {
        return (0..count).map(|_| Buffer::Length(SECTOR_BYTES)).collect();
    }
    let mut bytes = content.into_mut();
    for (n, sector) in bytes.chunks_exact_mut(SECTOR_BYTES).enumerate() {
        deltas(n).for_each(|delta| delta.add_to(sector, 1));
    }
    let all = Buffer::from(bytes.freeze());
    (0..count).map(|n| piece(&all, n)).collect()
}

/// The maximal runs of consecutive numbers.
fn consecutive(numbers: Vec<u64>) -> impl Iterator<Item = std::ops::Range<u64>> {
    let mut rest = numbers.into_iter().peekable();
    std::iter::from_fn(move || {
        let first = rest.next()?;
        let mut end = first + 1;
        while rest.next_if_eq(&end).is_some() {
            end += 1;
        }
        Some(first..end)
    })
}
