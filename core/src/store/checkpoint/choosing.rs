//! What goes into a checkpoint, and when one is due.

use std::collections::{BTreeMap, BTreeSet};

use super::super::Write;
use super::super::format::Entry;
use super::super::overlay::Over;
use super::super::table::page_of;
use super::{Checkpoint, JournalStore};
use crate::units::{SECTOR_BYTES, Timestamp};

const BATCH_SECTORS: usize = 1024;
const BATCH_PAGES: usize = 256;
/// The same while nothing is in the journal, so that no host waits for one: then it is what has been
/// rebuilt that is put in place, and fewer flushes are needed for it.
const QUIET_BATCH: usize = 4;

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
    pub(in crate::store) fn end_last_checkpoint(
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
}
