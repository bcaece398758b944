//! Scans: which sectors of a range are of some kind. A scan visits existing content, and skips slots without a place
//! in one step, however many.

use std::ops::{Range, RangeInclusive};

use super::checkpoint::Checkpoint;
use super::table::{ENTRIES_PER_PAGE, State, TableEntry, page_of};
use super::{Event, JournalStore};
use crate::Buffer;
use crate::units::{SPACE_SECTORS, Timestamp};

/// What a scan looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scan {
    /// Sectors written at this time or later; lost ones may have been.
    Since(Timestamp),
    /// Sectors that have content of this time or later; lost ones have none.
    Kept(Timestamp),
    /// Sectors that are not holes.
    Content,
    /// Sectors that are marked as out of date.
    Marked,
    /// Sectors that are anything but holes in place, on which nothing waits to be put in place: of the others it is safe
    /// that they read as zeros.
    Used,
    /// Sectors that have a place, or wait for one. The others were never written; nothing is read to know it.
    Placed,
}

impl Scan {
    /// Sectors that were ever written: zeros count as well as bytes, and so do lost ones.
    pub const WRITTEN: Scan = Scan::Since(Timestamp::ZERO);

    /// Whether it looks through a view at the content below, and not only at the view's own.
    fn sees_through(self) -> bool {
        match self {
            Scan::Content | Scan::Used | Scan::Marked => true,
            Scan::Since(_) | Scan::Kept(_) | Scan::Placed => false,
        }
    }
}

/// Finds the first of some sectors that are of a kind.
type Finder<'a> = &'a dyn Fn(&JournalStore, Range<u64>) -> Option<Range<u64>>;

/// This many sectors are examined together, as many as 64 pages of the table describe,
const PIECE: u64 = 64 * ENTRIES_PER_PAGE as u64;
/// in at most this many runs.
const RUNS: usize = 64;

/// For this many marked pages of the table, the owners of their sectors are looked up.
const FEW_MARKED: usize = 64;

#[derive(Clone, Hash)]
pub(super) struct ScanJob {
    next: u64,
    end: u64,
    what: Scan,
    found: Vec<(u64, Timestamp)>,
}

impl JournalStore {
    /// Looks for sectors in `first..first + count`; says [`Event::Scanned`] with `ticket`.
    pub fn scan(&mut self, ticket: u64, first: u64, count: u64, what: Scan) {
        let job = ScanJob { next: first, end: first + count, what, found: Vec::new() };
        self.scans.insert(ticket, job);
        self.step_scans();
    }

    pub(super) fn step_scans(&mut self) {
        for ticket in self.scans.keys().copied().collect::<Vec<_>>() {
            self.step_scan(ticket);
        }
    }

    fn step_scan(&mut self, ticket: u64) {
        loop {
            let job = &self.scans[&ticket];
            let (what, left) = (job.what, job.next..job.end);
            let runs = match what {
                Scan::Marked => self.next_marked(left.start, left.end).into_iter().collect(),
                _ => self.next_present(left.clone(), what.sees_through()),
            };
            let Some(end) = runs.last().map(|run| run.end) else {
                let job = self.scans.remove(&ticket).expect("just seen");
                self.events.push_back(Event::Scanned(ticket, job.found));
                return;
            };
            let mut knows = true;
            if what.sees_through() {
                runs.iter().for_each(|run| knows &= self.look_beneath(run.clone()));
            }
            let mut pages: Vec<u64> =
                runs.iter().flat_map(|r| self.pages_of(r.start, r.end - r.start)).collect();
            pages.sort_unstable();
            pages.dedup();
            if what != Scan::Placed && (!self.want(pages) || !knows) {
                return;
            }
            // Of a lost sector nobody knows when it was written last. One that is marked since then was.
            let lost = match what {
                Scan::Kept(_) | Scan::Marked => Timestamp::ZERO,
                _ => Timestamp(u64::MAX),
            };
            let mut found = Vec::new();
            for run in runs.iter().cloned() {
                match what {
                    Scan::Placed => found.extend(run.map(|sector| (sector, Timestamp::ZERO))),
                    Scan::Content if self.is_all_in_place(&run) => {
                        self.find_in_place(run, lost, &mut found);
                    }
                    _ => self.find(run, what, lost, &mut found),
                }
            }
            if what == Scan::Used {
                runs.into_iter().for_each(|run| self.look_for_empty(run));
            }
            let job = self.scans.get_mut(&ticket).expect("just seen");
            job.found.extend(found);
            job.next = end;
            self.trim_table();
        }
    }

    /// Adds those sectors of a run that are wanted, with their versions; a lost one has this version.
    fn find(
        &mut self,
        run: Range<u64>,
        what: Scan,
        lost: Timestamp,
        found: &mut Vec<(u64, Timestamp)>,
    ) {
        for sector in run {
            self.counters.scanned += 1;
            let version = self.version(sector, lost);
            let is_wanted = match what {
                // Marks say nothing about writes that a disk missed while it was down: that would have been
                // computed. But one that has lost what it had cannot tell what it has.
                Scan::Since(since) => {
                    let mut says = || since == Timestamp::ZERO || !self.is_marked(sector);
                    version > Timestamp::ZERO && version >= since && says()
                }
                Scan::Kept(since) => version > Timestamp::ZERO && version >= since,
                Scan::Content => !self.is_hole(sector),
                Scan::Marked => self.is_marked(sector),
                Scan::Used => self.is_used(sector),
                Scan::Placed => true,
            };
            found.extend(is_wanted.then_some((sector, version)));
        }
    }

    /// Whether the table alone says what these sectors have: nothing waits to be put in place, and nothing lies below.
    fn is_all_in_place(&self, run: &Range<u64>) -> bool {
        let is_placing = self.checkpoint.as_ref().and_then(|c| c.next(run.clone())).is_some();
        !(is_placing || self.lies_over(run.end - 1))
            && self.overlay.next(run.clone()).is_none()
            && self.copies.next(run.clone()).is_none()
    }

    /// The same of sectors that are all in place and have content: hosts ask for holes before they read.
    fn find_in_place(
        &mut self,
        run: Range<u64>,
        lost: Timestamp,
        found: &mut Vec<(u64, Timestamp)>,
    ) {
        self.counters.scanned += run.end - run.start;
        for sector in run {
            let entry = self.entry(sector);
            match entry.state {
                State::Hole => {}
                State::Bad => found.push((sector, lost)),
                State::Written | State::Marked => found.push((sector, entry.version)),
            }
        }
    }

    /// The next runs of these sectors that are not known to be unwritten.
    fn next_present(&self, sectors: Range<u64>, through: bool) -> Vec<Range<u64>> {
        let (mut runs, mut left) = (Vec::new(), PIECE);
        let mut from = sectors.start;
        while left > 0 && runs.len() < RUNS {
            let run = match through {
                true => self.next_run_seen(from..sectors.end, left),
                false => self.next_run(from..sectors.end, left),
            };
            let Some(run) = run else { break };
            left -= run.end - run.start;
            from = run.end;
            runs.push(run);
        }
        runs
    }

    /// The first of these runs, in these sectors or in those below them, up to `most` sectors.
    fn next_run_seen(&self, sectors: Range<u64>, most: u64) -> Option<Range<u64>> {
        self.first_seen(sectors, &|store, sectors| store.next_run(sectors, most))
    }

    /// The first match in these sectors, or in those below them.
    fn first_seen(&self, sectors: Range<u64>, find: Finder<'_>) -> Option<Range<u64>> {
        let own = find(self, sectors.clone());
        let below = self.views_in(sectors).into_iter().filter_map(|view| {
            let count = view.sectors.end - view.sectors.start;
            let found = self.first_seen(view.below..view.below + count, find)?;
            let above = |sector: u64| view.sectors.start + (sector - view.below);
            Some(above(found.start)..above(found.end))
        });
        own.into_iter().chain(below).min_by_key(|run| run.start)
    }

    /// The first of these runs, up to this many sectors of it.
    fn next_run(&self, sectors: Range<u64>, most: u64) -> Option<Range<u64>> {
        if sectors.is_empty() {
            return None;
        }
        let upto = |first: u64, end: u64| first..end.min(sectors.end).min(first + most);
        if self.superblock.slot() == 0 && sectors.start >= SPACE_SECTORS {
            return None;
        }
        // Without slots every sector is in its place, and where claims were lost a slot without a place is lost.
        if self.superblock.slot() == 0 || self.unclaimed() != TableEntry::FRESH {
            return Some(upto(sectors.start, sectors.end));
        }
        let slot_of = |sector: u64| sector / self.superblock.slot();
        let slots = slot_of(sectors.start)..slot_of(sectors.end - 1) + 1;
        let placed = self.slots.next_placed(slots).map(|slot| self.slots.sectors_of(slot));
        let behind = self.slots.behind(&sectors);
        let waiting = self.overlay.next(sectors.clone()).into_iter();
        let placing = self.checkpoint.as_ref().and_then(|c| c.next(sectors.clone()));
        let copied = self.copies.next(sectors.clone());
        let waiting = waiting.chain(placing).chain(copied).min().map(|sector| sector..sector + 1);
        let runs = [placed, behind, waiting].into_iter().flatten();
        let first = runs.min_by_key(|run| run.start.max(sectors.start))?;
        let mut end = first.end;
        // Slots side by side are one run.
        while end < sectors.end && end < first.start + most {
            match self.slots.slot_of(end).filter(|slot| self.slots.place(*slot).is_some()) {
                Some(slot) => end = self.slots.sectors_of(slot).end,
                None => break,
            }
        }
        Some(upto(first.start.max(sectors.start), end))
    }

    /// Those of these sectors that are on the next page on which one may be marked.
    fn next_marked(&self, from: u64, end: u64) -> Option<Range<u64>> {
        self.first_seen(from..end, &|store, sectors| {
            store.next_marked_here(sectors.start, sectors.end)
        })
    }

    fn next_marked_here(&self, from: u64, end: u64) -> Option<Range<u64>> {
        if from >= end {
            return None;
        }
        if self.superblock.slot() > 0 {
            return self.next_marked_slot(from, end);
        }
        let on_disk = self.table.next_marked(page_of(from)..page_of(end - 1) + 1);
        let page = self.next_marked_in_memory(from, end).map(page_of).into_iter().chain(on_disk);
        let page = page.min()?;
        let entries = ENTRIES_PER_PAGE as u64;
        Some(from.max(page * entries)..end.min((page + 1) * entries))
    }

    /// The first of these sectors that is marked in memory, and not in place.
    fn next_marked_in_memory(&self, from: u64, end: u64) -> Option<u64> {
        let placing = self.checkpoint.iter().flat_map(Checkpoint::sectors);
        let placing = placing.filter(|(s, over)| (from..end).contains(s) && over.is_marked());
        self.overlay.next_mark(from, end).into_iter().chain(placing.map(|(s, _)| s)).min()
    }

    /// The same where there are slots: of a slot, or of the sectors behind all of them.
    fn next_marked_slot(&self, from: u64, end: u64) -> Option<Range<u64>> {
        let first = self.next_marked_in_memory(from, end);
        let in_place = self.next_marked_in_place(from..first.unwrap_or(end));
        let sectors = in_place.or(first.map(|sector| sector..=sector))?;
        Some(*sectors.start()..*sectors.end() + 1)
    }

    /// Those of these sectors that are in the next slot, or behind all slots, and may be marked where they are on the disk.
    fn next_marked_in_place(&self, sectors: Range<u64>) -> Option<RangeInclusive<u64>> {
        let (end, mut pages) = (self.superblock.table_pages(), Vec::new());
        let next = |pages: &[u64]| pages.last().map_or(0, |page| page + 1);
        while let Some(page) = self.table.next_marked(next(&pages)..end) {
            if pages.len() == FEW_MARKED {
                return self.walk_to_marked(sectors);
            }
            pages.push(page);
        }
        let entries = ENTRIES_PER_PAGE as u64;
        let places = pages.into_iter().map(|page| page * entries..(page + 1) * entries);
        let those = places.flat_map(|places| self.slots.sectors_in(places));
        let wanted = those.map(|s| s.start.max(sectors.start)..s.end.min(sectors.end));
        let next = wanted.filter(|s| s.start < s.end).min_by_key(|s| s.start)?;
        Some(next.start..=next.end - 1)
    }

    /// The same where many pages are marked: the next is not far.
    fn walk_to_marked(&self, sectors: Range<u64>) -> Option<RangeInclusive<u64>> {
        let size = self.superblock.slot();
        let slots = self.slots.placed_in(sectors.start / size..sectors.end.div_ceil(size));
        let placed = slots.map(|slot| self.slots.sectors_of(slot));
        let runs = placed.chain(self.slots.behind(&sectors));
        let cut = runs.map(|run| run.start.max(sectors.start)..run.end.min(sectors.end));
        let is_marked = |run: &Range<u64>| {
            let place = self.slots.place_of(run.start).expect("the slot has one");
            let (first, last) = (page_of(place), page_of(place + (run.end - run.start) - 1));
            self.table.next_marked(first..last + 1).is_some()
        };
        let next = cut.filter(|run| run.start < run.end).find(is_marked)?;
        Some(next.start..=next.end - 1)
    }

    /// Whether a sector whose page is in memory is marked.
    fn is_marked(&mut self, sector: u64) -> bool {
        self.source(sector).base.is_marked()
    }

    /// Whether a sector whose page is in memory reads as zeros without a look.
    fn is_hole(&mut self, sector: u64) -> bool {
        let source = self.source(sector);
        self.copies.latest(sector).is_none()
            && source.base.is_zero()
            && source.deltas.iter().all(Buffer::is_zero)
    }

    /// Whether a sector whose page is in memory is anything but a hole in place, with nothing above it.
    fn is_used(&mut self, sector: u64) -> bool {
        let (layers, entry, _) = self.seen(sector);
        !layers.is_empty() || entry.state != State::Hole || self.copies.latest(sector).is_some()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use bytes::Bytes;

    use super::super::{
        Change, ChangeKind, DiskOp, DiskResult, Event, Scan, Store, StoreConfig, Superblock,
    };
    use super::*;
    use crate::units::{SECTOR, SECTOR_BYTES};

    /// A disk of 1 TiB. Sectors that were never written take no memory.
    const SECTORS: u64 = 1 << 28;

    #[derive(Default)]
    struct Disk {
        sectors: BTreeMap<u64, Bytes>,
        reads: u64,
    }

    impl Disk {
        fn work(&mut self, op: DiskOp) -> DiskResult {
            match op {
                DiskOp::Read { offset, len } => {
                    self.reads += 1;
                    let mut read = vec![0; len as usize];
                    for (sector, to) in (offset / SECTOR..).zip(read.chunks_exact_mut(SECTOR_BYTES))
                    {
                        self.sectors.get(&sector).iter().for_each(|b| to.copy_from_slice(b));
                    }
                    return Ok(read.into());
                }
                DiskOp::Write { offset, data, .. } => {
                    let mut at = offset / SECTOR;
                    for run in data {
                        let sectors = run.len() as u64 / SECTOR;
                        if !run.is_zero() {
                            let run = run.to_bytes();
                            let cut = |n| run.slice(n * SECTOR_BYTES..(n + 1) * SECTOR_BYTES);
                            self.sectors.extend((at..).zip((0..sectors as usize).map(cut)));
                        }
                        at += sectors;
                    }
                }
                DiskOp::Flush | DiskOp::Discard { .. } => {}
            }
            Ok(Buffer::Zero(0))
        }
    }

    /// Does what the store asks of its disk; what it has said.
    fn settle(store: &mut JournalStore, disk: &mut Disk) -> Vec<Event> {
        loop {
            let ops = store.take_ops();
            if ops.is_empty() {
                return std::iter::from_fn(|| store.poll()).collect();
            }
            for request in ops {
                let result = disk.work(request.op);
                store.done(request.id, result);
            }
        }
    }

    fn scan(store: &mut JournalStore, disk: &mut Disk, what: Scan) -> Vec<u64> {
        let all = store.data_sectors();
        store.scan(1, 0, all, what);
        let found = settle(store, disk).into_iter().find_map(|event| match event {
            Event::Scanned(1, found) => Some(found),
            _ => None,
        });
        found.expect("the scan has ended").into_iter().map(|(sector, _)| sector).collect()
    }

    fn write(store: &mut JournalStore, disk: &mut Disk, ts: u64, sector: u64, data: Buffer) {
        let change = Change { sector, kind: ChangeKind::Content, data };
        store.prepare(Timestamp(ts), Vec::new(), vec![change], true);
        settle(store, disk);
        store.outcome(Timestamp(ts), true);
        store.release(Timestamp(ts));
    }

    /// Found by trials: an empty array took memory and time for all that it could hold.
    #[test]
    fn an_empty_disk_costs_next_to_nothing_however_large_it_is() {
        let superblock = Superblock::divide(7, 3, 9, SECTORS, 512).expect("it is large enough");
        let mut disk = Disk::default();
        for op in JournalStore::format(&superblock) {
            if let DiskOp::Write { data, .. } = &op {
                let bytes = |b: &Buffer| if b.is_zero() { 0 } else { b.len() };
                assert!(
                    data.iter().map(bytes).sum::<usize>() <= 1 << 20,
                    "it is written by pieces"
                );
            }
            disk.work(op).expect("it works");
        }
        let mut store = JournalStore::open(StoreConfig::default(), 7, 3, SECTORS);
        settle(&mut store, &mut disk);
        let held = |store: &JournalStore| store.slots.held() + store.table.held();
        assert_eq!(held(&store), 0, "memory of a disk on which nothing is written");
        let kinds = [
            Scan::Since(Timestamp::ZERO),
            Scan::Kept(Timestamp::ZERO),
            Scan::Content,
            Scan::Marked,
            Scan::Used,
            Scan::Placed,
        ];
        disk.reads = 0;
        for what in kinds {
            assert_eq!(scan(&mut store, &mut disk, what), [0; 0], "{what:?}");
        }
        assert_eq!((disk.reads, store.counters.scanned), (0, 0), "nothing was looked at");

        // Two sectors far apart: one is in place, one waits for it.
        let (first, last) = (5, store.data_sectors() - 100);
        write(&mut store, &mut disk, 10, first, vec![1; SECTOR_BYTES].into());
        store.checkpoint(true, |_, _, _| false);
        settle(&mut store, &mut disk);
        assert!(store.is_quiet(), "it is in place");
        write(&mut store, &mut disk, 20, last, vec![2; SECTOR_BYTES].into());
        let both = [first, last];
        assert_eq!(scan(&mut store, &mut disk, Scan::Since(Timestamp::ZERO)), both);
        assert_eq!(scan(&mut store, &mut disk, Scan::Content), both);
        assert_eq!(scan(&mut store, &mut disk, Scan::Used), both);
        assert!(scan(&mut store, &mut disk, Scan::Placed).ends_with(&[15, last]));
        assert_eq!(scan(&mut store, &mut disk, Scan::Since(Timestamp(15))), [last]);
        assert!(
            store.counters.scanned < 4 * 18,
            "{} sectors were looked at",
            store.counters.scanned
        );
        assert!(held(&store) <= 5 * 1024, "{} numbers take memory", held(&store));

        // Zeroed sectors are in use until their zeros are in place.
        write(&mut store, &mut disk, 30, first, Buffer::Zero(SECTOR_BYTES));
        assert_eq!(scan(&mut store, &mut disk, Scan::Content), [last]);
        assert_eq!(scan(&mut store, &mut disk, Scan::Used), both);
        store.checkpoint(true, |_, _, _| false);
        settle(&mut store, &mut disk);
        assert_eq!(scan(&mut store, &mut disk, Scan::Used), [last]);
        assert_eq!(
            scan(&mut store, &mut disk, Scan::Since(Timestamp(25))),
            [first],
            "but it says when"
        );
    }

    /// Content, zeros and sectors that were never written, in the same run: before they are in place, and after.
    #[test]
    fn content_is_found_whether_or_not_it_is_in_place() {
        let superblock = Superblock::divide(7, 3, 9, SECTORS, 512).expect("it is large enough");
        let mut disk = Disk::default();
        for op in JournalStore::format(&superblock) {
            disk.work(op).expect("it works");
        }
        let mut store = JournalStore::open(StoreConfig::default(), 7, 3, SECTORS);
        settle(&mut store, &mut disk);
        let one = || Buffer::from(vec![1; SECTOR_BYTES]);
        for (ts, sector) in (10..).zip([0, 1, 3, 4, 15, 16, 40]) {
            write(&mut store, &mut disk, ts, sector, one());
        }
        write(&mut store, &mut disk, 30, 4, Buffer::Zero(SECTOR_BYTES));
        let found = [0, 1, 3, 15, 16, 40];
        assert!(!store.is_all_in_place(&(0..16)));
        assert_eq!(scan(&mut store, &mut disk, Scan::Content), found);
        store.checkpoint(true, |_, _, _| false);
        settle(&mut store, &mut disk);
        assert!(store.is_all_in_place(&(0..64)));
        assert_eq!(scan(&mut store, &mut disk, Scan::Content), found);
        // What waits over zeros in place, and zeros that wait over content.
        write(&mut store, &mut disk, 40, 4, one());
        write(&mut store, &mut disk, 41, 40, Buffer::Zero(SECTOR_BYTES));
        assert!(!store.is_all_in_place(&(0..64)) && store.is_all_in_place(&(5..40)));
        assert_eq!(scan(&mut store, &mut disk, Scan::Content), [0, 1, 3, 4, 15, 16]);
    }
}
