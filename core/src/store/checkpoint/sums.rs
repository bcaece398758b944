//! What each sector will be: its content, or what is in place with the deltas above it.

use std::collections::BTreeMap;
use std::ops::Range;

use super::super::DiskResult;
use super::super::format::{Applied, Entry, NOWHERE};
use super::super::overlay::Over;
use super::super::place::Base;
use super::super::table::{State, page_of};
use super::{Checkpoint, JournalStore, Purpose, Stage, consecutive};
use crate::Buffer;
use crate::units::SECTOR_BYTES;

impl JournalStore {
    /// Goes on if what the stage waits for is there.
    pub(in crate::store) fn step_checkpoint(&mut self) {
        let Some(c) = &self.checkpoint else { return };
        if c.stage != Stage::Pages || c.sectors.iter().any(|(s, over)| self.needs_views(*s, over)) {
            return;
        }
        let needy = c.sectors.iter().filter(|(_, over)| over.needs_base());
        let below = needy.flat_map(|(sector, _)| self.all_below(*sector..*sector + 1)).flatten();
        let below: Vec<u64> = below.filter_map(|s| self.slots.place_of(s)).map(page_of).collect();
        let c = self.checkpoint.as_mut().expect("just seen");
        c.pages.extend(below);
        let pages = c.pages.iter().copied().collect();
        if self.want(pages) {
            self.read_bases();
        }
    }

    /// Deltas without content need what is in place.
    fn read_bases(&mut self) {
        let c = self.checkpoint.as_mut().expect("in work");
        c.stage = Stage::Bases;
        let needy = c.sectors.iter().filter(|(_, over)| over.needs_base());
        let needy: Vec<(u64, Over)> = needy.map(|(s, over)| (*s, over.clone())).collect();
        let bases = needy.into_iter().filter_map(|(sector, over)| match self.base(&over, sector) {
            Base::Disk { at, crc } => Some((sector, (at, crc))),
            _ => None,
        });
        let bases: BTreeMap<u64, (u64, u32)> = bases.collect();
        let runs: Vec<_> = runs_of(bases.iter().map(|(sector, (at, _))| (*sector, *at))).collect();
        self.counters.disk_reads += consecutive(bases.keys().copied().collect()).count() as u64;
        let c = self.checkpoint.as_mut().expect("in work");
        c.bases = bases;
        c.waiting = runs.len();
        let nothing = runs.is_empty();
        for (first, at) in runs {
            let purpose = Purpose::CheckpointBase { first, count: at.end - at.start };
            self.read_place(purpose, at);
        }
        if nothing {
            self.compute_finals();
        }
    }

    pub(in crate::store) fn base_arrived(&mut self, first: u64, count: u64, result: DiskResult) {
        if result.is_err() && count > 1 {
            // One bad sector must not cost its neighbours: each is tried alone.
            self.checkpoint.as_mut().expect("in work").waiting += count as usize - 1;
            for sector in first..first + count {
                let purpose = Purpose::CheckpointBase { first: sector, count: 1 };
                let at = self.checkpoint.as_ref().expect("in work").bases[&sector].0;
                self.read_place(purpose, at..at + 1);
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
        let is_sound = |n: usize| {
            let piece = data.slice(n * SECTOR_BYTES, (n + 1) * SECTOR_BYTES);
            piece.crc() == c.bases[&(first + n as u64)].1
        };
        let sound: Vec<bool> = (0..count as usize).map(is_sound).collect();
        let summed = add_all(data, |n| &c.sectors[&(first + n as u64)]);
        let pieces = (first..).zip(summed).zip(sound);
        c.sums.extend(pieces.filter(|(_, sound)| *sound).map(|(piece, _)| piece));
    }

    /// What each sector will be; then says so in the journal.
    fn compute_finals(&mut self) {
        let mut c = self.checkpoint.take().expect("in work");
        let mut logged = false;
        for (&sector, over) in &mut c.sectors {
            let below = match over.content {
                Some(_) => self.entry(sector).version,
                None => self.seen(sector).1.version,
            };
            let version = over.newest().max(below);
            logged |= over.writes().any(|ts| self.writes.get(&ts).is_some_and(|w| w.journaled));
            if let Some((_, crc)) = over.in_slot().filter(|_| over.deltas.is_empty()) {
                over.settle_in_slot();
                c.finals.push(Applied { sector, version, crc, state: State::Written as u8 });
                continue;
            }
            let base = self.base(over, sector);
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
        for (upper, lower) in &c.adopted {
            c.finals.extend(self.adopted_sectors(*upper, *lower));
        }
        c.sums.clear();
        c.stage = Stage::Log;
        let applied = c.again.take();
        let (again, otherwise) = (applied.is_some(), self.ends_otherwise(&c, applied));
        c.finals = otherwise.clone().unwrap_or(c.finals);
        c.entries = self.entries_to_set(&c.finals, &c.pointers);
        if again {
            // What stood in the places of its pointers has been seen to when the disk was opened.
            let finals = c.entries.len() - c.finals.len();
            c.entries.drain(..finals);
        }
        if again && otherwise.is_none() {
            // The superblock names its number, as an apply entry would.
            let mark = self.superblock.has_index();
            self.checkpoint = Some(c);
            return self.place(mark);
        }
        if again && self.has_promised_nothing() {
            c.stage = Stage::Epoch;
            self.checkpoint = Some(c);
            return;
        }
        self.log_checkpoint(c, logged);
    }

    /// Whether a checkpoint waits for the node to enter an epoch.
    pub(in crate::store) fn awaits_epoch(&self) -> bool {
        self.checkpoint.as_ref().is_some_and(|c| c.stage == Stage::Epoch)
    }

    /// The node enters an epoch, or works without any.
    pub(in crate::store) fn go_on_in_epoch(&mut self) {
        if let Some(mut c) = self.checkpoint.take_if(|c| c.stage == Stage::Epoch) {
            c.stage = Stage::Log;
            self.log_checkpoint(c, true);
        }
    }

    /// The journal says what a checkpoint does, which then begins; `logged` if it has content of the journal's.
    fn log_checkpoint(&mut self, mut c: Checkpoint, logged: bool) {
        let (sectors, sums) = (c.finals.clone(), self.page_sums(&c));
        let moves = !c.pointers.is_empty() || !c.dropped.is_empty();
        if !logged && sums.is_empty() && self.journal.used() == 0 && !moves {
            self.checkpoint = Some(c);
            let has_index = self.superblock.has_index();
            self.place(has_index || self.superblock.latest > self.latest_kept);
            return;
        }
        let dropped = c.dropped.iter().map(|slot| (*slot, NOWHERE));
        let pointers = c.pointers.iter().map(|(slot, place)| (*slot, *place));
        let pointers = pointers.chain(dropped).collect();
        c.freed.extend(self.slots.take_leaving());
        let known = || self.writes.iter().filter(|(_, w)| w.is_to_be_known());
        c.known = known().map(|(ts, _)| *ts).collect();
        let entries = known().map(|(ts, w)| Entry::Known { ts: *ts, meta: w.meta.clone() });
        self.journal.name_known(entries);
        self.checkpoint = Some(c);
        if self.superblock.has_index() {
            self.journal.add(Entry::Checkpoint(self.superblock.sequence + 1));
        }
        self.journal.add(Entry::Apply { sectors, pointers, sums });
        self.journal.urge();
        self.pump();
    }

    /// The result of a checkpoint whose apply entry is from before the disk was opened, if it differs from that entry
    /// (`applied`). It does if content that was written without the journal was not in place yet: then earlier content of
    /// the journal counts. A second apply entry must record that. By the first one alone the next opening would take these
    /// sectors for unfinished, and undo them. A journal as large as any disk's always has room for it, since checkpoints leave
    /// some. In one that has none, only the numbers of the table's pages tell that the checkpoint has ended, and not of pages
    /// that are torn.
    fn ends_otherwise(
        &mut self,
        c: &Checkpoint,
        applied: Option<Vec<Applied>>,
    ) -> Option<Vec<Applied>> {
        let applied = applied.filter(|_| self.superblock.has_index())?;
        let computed: BTreeMap<u64, Applied> = c.finals.iter().map(|f| (f.sector, *f)).collect();
        let mut finals = Vec::with_capacity(applied.len());
        let mut same = true;
        for before in applied {
            let sector = before.sector;
            if self.slots.place_of(sector).is_none() {
                continue;
            }
            let entry = self.entry(sector);
            let is = Applied {
                sector,
                version: entry.version,
                crc: entry.crc,
                state: entry.state as u8,
            };
            let is = computed.get(&sector).copied().unwrap_or(is);
            same &= is == before;
            finals.push(is);
        }
        let cost = self.frame_cost(finals.len(), c.pointers.len(), c.pages.len());
        (!same && self.journal.has_room(cost)).then_some(finals)
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

/// Sectors in runs that follow one another, and so do their places: the first of each run, and the places.
fn runs_of(places: impl Iterator<Item = (u64, u64)>) -> impl Iterator<Item = (u64, Range<u64>)> {
    let mut rest = places.peekable();
    std::iter::from_fn(move || {
        let (first, at) = rest.next()?;
        let mut end = at + 1;
        while rest.next_if(|&(s, place)| place == end && s - first == end - at).is_some() {
            end += 1;
        }
        Some((first, at..end))
    })
}
