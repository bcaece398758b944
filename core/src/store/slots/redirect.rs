//! Whole slots of new content: they go into free slots at once, beside the frame of the journal that says so. A write is
//! prepared when both are safe.

use super::Slots;
use crate::Buffer;
use crate::store::format::Redirect;
use crate::store::{Change, ChangeKind, DiskOp, JournalStore, Purpose};
use crate::units::{SECTOR, SECTOR_BYTES, Timestamp};

/// What an aborted write had taken.
#[derive(Clone, Hash)]
pub(super) struct Dropped {
    pub places: Vec<u64>,
    /// Whether the journal says that it has aborted, or never came to speak of it.
    pub safe: bool,
}

impl Slots {
    /// Takes a place for new content of a logical slot, if there are more than are kept for other things.
    pub(super) fn take_for(&mut self, slot: u64, reserve: u64) -> Option<u64> {
        match self.room.free() > reserve {
            true => self.room.take(self.beside(slot)),
            false => None,
        }
    }

    /// A whole slot of content is committed. `counts` says whether it has an effect.
    pub fn commit(&mut self, ts: Timestamp, redirect: &Redirect, counts: bool) {
        let later = self.moved.get(&redirect.slot).is_some_and(|(other, _)| *other > ts);
        if later || !counts {
            return self.leaving.push(redirect.place);
        }
        let before = self.moved.insert(redirect.slot, (ts, redirect.place));
        self.leaving.extend(before.map(|(_, place)| place));
    }

    /// A write has aborted. What it had taken is free when nothing more is written there, and when the journal says so, if
    /// that has ever spoken of it (`safe` if it has not): else it would be found there as one that was promised and is gone.
    pub fn abort(&mut self, ts: Timestamp, redirects: Vec<Redirect>, safe: bool) {
        let places: Vec<u64> = redirects.into_iter().map(|r| r.place).collect();
        if !places.is_empty() {
            self.dropped.insert(ts, Dropped { places, safe });
            self.give_back_dropped(ts);
        }
    }

    /// The journal says that a write has aborted.
    pub fn abort_is_safe(&mut self, ts: Timestamp) {
        if let Some(dropped) = self.dropped.get_mut(&ts) {
            dropped.safe = true;
            self.give_back_dropped(ts);
        }
    }

    fn give_back_dropped(&mut self, ts: Timestamp) {
        let free = self.dropped.get(&ts).is_some_and(|d| d.safe) && !self.is_landing(ts);
        if free && let Some(dropped) = self.dropped.remove(&ts) {
            dropped.places.into_iter().rev().for_each(|place| self.room.give_back(place));
        }
    }

    /// Whether content of a write is on its way to the disk.
    pub fn is_landing(&self, ts: Timestamp) -> bool {
        self.landing.contains_key(&ts)
    }

    /// The places that aborted writes hold.
    pub(super) fn dropped(&self) -> impl Iterator<Item = u64> + '_ {
        self.dropped.values().flat_map(|d| d.places.iter().copied())
    }
}

impl JournalStore {
    /// Writes the whole slots among the content of a write to other places, as far as there are free ones. Returns
    /// what is left to be journalled, and where the rest goes.
    pub(in crate::store) fn redirect(
        &mut self,
        ts: Timestamp,
        changes: Vec<Change>,
    ) -> (Vec<Change>, Vec<Redirect>) {
        let size = self.slots.size;
        // What it had taken when it was prepared here before is not free yet.
        let again = self.slots.is_landing(ts) || self.slots.dropped.contains_key(&ts);
        let content = changes.iter().filter(|change| change.kind == ChangeKind::Content);
        let sectors: u64 = content.map(|change| change.sectors().end - change.sector).sum();
        if size == 0 || again || sectors < size {
            return (changes, Vec::new());
        }
        let (mut left, mut redirects, mut content) = (Vec::new(), Vec::new(), Vec::new());
        for run in joined(changes) {
            let (start, end) = (run[0].sector, run[run.len() - 1].sectors().end);
            let mut at = start;
            let first = start.next_multiple_of(size);
            for slot in first / size..end / size {
                if !self.slots.places.is_slot(slot) {
                    break;
                }
                let sectors = self.slots.sectors_of(slot);
                let pieces = cut(&run, sectors.start, sectors.end);
                if run[0].kind != ChangeKind::Content || !has_bytes(&pieces) {
                    continue;
                }
                let Some(place) = self.slots.take_for(slot, self.config.reserve(&self.slots))
                else {
                    break;
                };
                left.extend(cut(&run, at, sectors.start));
                at = sectors.end;
                let crcs = pieces.iter().flat_map(|piece| crcs(&piece.data)).collect();
                redirects.push(Redirect { slot, place, crcs });
                content.push((place, pieces));
            }
            left.extend(cut(&run, at, end));
        }
        self.write_content(ts, content);
        (left, redirects)
    }

    /// Writes content of slots to its places; those that follow one another at once.
    fn write_content(&mut self, ts: Timestamp, content: Vec<(u64, Vec<Change>)>) {
        let mut writes: Vec<(u64, u64, Vec<Buffer>)> = Vec::new();
        for (place, pieces) in content {
            let data = pieces.into_iter().map(|piece| piece.data);
            match writes.last_mut() {
                Some((_, end, all)) if *end == place => {
                    all.extend(data);
                    *end += 1;
                }
                _ => writes.push((place, place + 1, data.collect())),
            }
        }
        if !writes.is_empty() {
            self.slots.landing.insert(ts, writes.len() as u32);
        }
        for (place, _, data) in writes {
            let first = self.superblock.data_start() + place * self.slots.size;
            let op = DiskOp::Write { offset: first * SECTOR, data, durable: true };
            self.start(Purpose::Content(ts), op);
        }
    }

    /// Some of a write's content is safe in its place.
    pub(in crate::store) fn content_written(&mut self, ts: Timestamp) {
        let left = self.slots.landing.get_mut(&ts).expect("its content is on its way");
        *left -= 1;
        if *left == 0 {
            self.slots.landing.remove(&ts);
            self.slots.give_back_dropped(ts);
            self.land();
        }
    }
}

/// Whether there is anything in these pieces that takes room on a disk.
fn has_bytes(pieces: &[Change]) -> bool {
    pieces.iter().any(|piece| !piece.data.is_zero())
}

/// The checksum of each sector.
fn crcs(data: &Buffer) -> impl Iterator<Item = u32> + '_ {
    let sectors = data.len() / SECTOR_BYTES;
    (0..sectors).map(|n| data.slice(n * SECTOR_BYTES, (n + 1) * SECTOR_BYTES).crc())
}

/// Changes in runs of content that follow one another; every other change is a run by itself.
fn joined(changes: Vec<Change>) -> Vec<Vec<Change>> {
    let mut runs: Vec<Vec<Change>> = Vec::new();
    for change in changes {
        let follows = |last: &Change| {
            last.kind == ChangeKind::Content
                && change.kind == ChangeKind::Content
                && last.sectors().end == change.sector
        };
        match runs.last_mut() {
            Some(run) if run.last().is_some_and(follows) => run.push(change),
            _ => runs.push(vec![change]),
        }
    }
    runs
}

/// What changes of a run say of the sectors from `start` to `end`.
fn cut(run: &[Change], start: u64, end: u64) -> Vec<Change> {
    let piece = |change: &Change| {
        let sectors = change.sectors();
        let (from, to) = (sectors.start.max(start), sectors.end.min(end));
        let at = |sector: u64| ((sector - change.sector) * SECTOR) as usize;
        (from < to).then(|| Change {
            sector: from,
            kind: change.kind,
            data: change.data.slice(at(from), at(to)),
        })
    };
    run.iter().filter_map(piece).collect()
}
