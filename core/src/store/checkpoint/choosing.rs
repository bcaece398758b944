//! What goes into a checkpoint, and when one is due.

use std::collections::{BTreeMap, BTreeSet};

use super::super::Write;
use super::super::carrying::{Carriable, Replacing};
use super::super::format::{Applied, Entry};
use super::super::merging::Merged;
use super::super::overlay::Over;
use super::super::table::page_of;
use super::{Checkpoint, JournalStore};
use crate::units::{SECTOR, SECTOR_BYTES, Timestamp};

const BATCH_SECTORS: usize = 1024;
const BATCH_PAGES: usize = 256;
/// The same while nothing is in the journal, so that no host waits for one: then it is what has been
/// rebuilt that is put in place, and fewer flushes are needed for it.
const QUIET_BATCH: usize = 4;
/// In a smaller journal its frame might find no room.
const QUIET_JOURNAL: u64 = 512;

impl JournalStore {
    /// Starts a checkpoint if one is due (or `now`), none is in work and there is anything
    /// to do. `held_back` says of a sector, its newest write and whether it has content,
    /// that an earlier write of it is undecided.
    pub fn checkpoint(&mut self, now: bool, held_back: impl Fn(u64, Timestamp, bool) -> bool) {
        self.go_on_in_epoch();
        let j = &self.journal;
        let full = j.used() > j.size() / 2 || j.stalled || self.slots.is_short();
        let idle = self.checkpoint.is_none() && self.recovery.is_none() && !self.failed;
        let now = self.makes_up_for_missed(now, idle && !full) || now;
        let due =
            now || full || self.unlogged > 0 || self.overlay.len() >= self.config.overlay_sectors;
        if now {
            self.look_at_free(idle && !full && self.overlay.is_empty());
        }
        if !idle || self.mend() || !due {
            return;
        }
        let mut dropped = if now || full { self.choose_dropped() } else { BTreeSet::new() };
        let merges = now && !full && self.merges_this_turn();
        let mut merged = if merges { self.choose_merged() } else { Merged::default() };
        let flattens = merges && merged.is_empty() && dropped.is_empty();
        if flattens {
            merged.given = self.choose_flattened();
        }
        if self.overlay.is_empty() && !full && dropped.is_empty() && merged.is_empty() {
            return;
        }
        let carriable = self.carriable(&held_back);
        let (chosen, mut slots, pages) = self.choose_worth(&held_back, &carriable);
        match flattens {
            true => self.fit_flattened(&mut merged, &slots),
            false => self.fit_given(&mut merged, &slots),
        }
        let cost_with = |merged: &Merged| {
            let sectors = chosen.len() + merged.sectors(self.superblock.slot());
            self.frame_cost(sectors, slots.len() + dropped.len() + merged.slots(), pages)
        };
        if self.journal.is_tight(cost_with(&merged)) {
            merged = Merged::default();
        }
        let cost = cost_with(&merged);
        let carried = self.choose_carried(&chosen, &carriable, cost);
        // With nothing to place, room may still be freed.
        let sparing = chosen.is_empty() || self.is_sparing(chosen.len(), slots.len(), cost);
        // What waits for a slot may find one among those that pointers have left.
        let wants_slots = chosen.is_empty() && self.slots.free() == 0 && self.slots.has_leaving();
        let wants_slots = wants_slots || !dropped.is_empty() || !merged.is_empty();
        let frees_slots = wants_slots && !self.journal.is_tight(cost);
        if sparing && !frees_slots && self.would_free(&chosen, &carried) <= cost {
            return;
        }
        self.carry(carried);
        self.journal.add(Entry::Begin);
        let take = |s| (s, self.overlay.remove(s).expect("just chosen"));
        let mut sectors: BTreeMap<u64, Over> = chosen.into_iter().map(take).collect();
        self.expect_places_of_given(&merged.given);
        slots.extend(merged.given.iter().filter_map(|sector| self.slots.slot_of(*sector)));
        sectors.extend(merged.given.into_iter().map(|sector| (sector, Over::default())));
        let pointers = slots.into_iter().filter_map(|slot| {
            let moves = self.slots.moved(slot).is_some() || !self.slots.is_placed(slot);
            moves.then(|| (slot, self.slots.point_at_checkpoint(slot).expect("as many were free")))
        });
        let mut pointers: BTreeMap<u64, u64> = pointers.collect();
        let place = |lower: &u64| self.slots.place(*lower).expect("it was chosen with its place");
        pointers.extend(merged.adopted.iter().map(|(upper, lower)| (*upper, place(lower))));
        dropped.extend(merged.dropped.into_iter().chain(merged.adopted.values().copied()));
        let checkpoint = Checkpoint::new(sectors, pointers);
        self.begin(Checkpoint { dropped, adopted: merged.adopted, ..checkpoint });
    }

    /// Whether a checkpoint of these numbers of sectors and slots must free more than its frame takes. If little room is
    /// left, others begin only if they place as much as one can, and leave room: for a second apply entry after a crash, and
    /// for a checkpoint that frees room. Without this limit, checkpoints behind a frame that must stay would take the last
    /// room, and none could free any again.
    fn is_sparing(&self, sectors: usize, slots: usize, cost: u64) -> bool {
        let (most_sectors, most_slots) = self.most();
        let whole = sectors >= most_sectors || slots >= most_slots;
        self.journal.is_tight(cost) && !(whole && self.journal.has_room(3 * cost))
    }

    /// Chooses as [`choose`](Self::choose) does. If the choice is not worth its room in the journal, it is made among the
    /// sectors for which the oldest frames are kept.
    fn choose_worth(
        &self,
        held_back: &impl Fn(u64, Timestamp, bool) -> bool,
        carriable: &Carriable,
    ) -> (Vec<u64>, BTreeSet<u64>, usize) {
        let (chosen, slots, pages) = self.choose(held_back, None);
        let cost = self.frame_cost(chosen.len(), slots.len(), pages);
        let is_worth = !self.is_sparing(chosen.len(), slots.len(), cost)
            || chosen.is_empty()
            || self.would_free(&chosen, &self.choose_carried(&chosen, carriable, cost)) > cost;
        let oldest = if is_worth { BTreeSet::new() } else { self.unplaced_in_oldest(carriable) };
        match oldest.is_empty() {
            true => (chosen, slots, pages),
            false => self.choose(held_back, Some(&oldest)),
        }
    }

    /// The writes in the oldest frames that are not in place yet: in those before the first undecided write that is not carried,
    /// since none from there on is free before that is decided.
    fn unplaced_in_oldest(&self, carriable: &Carriable) -> BTreeSet<Timestamp> {
        let stays = |(ts, w): &(&Timestamp, &Write)| w.is_undecided() && !carriable.has(**ts);
        let undecided = self.writes.iter().filter(stays);
        let undecided = undecided.filter_map(|(_, w)| w.frame).min().unwrap_or(u64::MAX);
        let before = undecided.min(self.journal.after_oldest());
        let is_unplaced = |w: &Write| w.unplaced().is_some_and(|sectors| sectors > 0);
        let oldest = |w: &Write| w.frame.is_some_and(|frame| frame < before) && is_unplaced(w);
        self.writes.iter().filter(|(_, w)| oldest(w)).map(|(ts, _)| *ts).collect()
    }

    /// Most sectors and pages in the next checkpoint.
    fn most(&self) -> (usize, usize) {
        let has_room = self.journal.used() == 0 && self.journal.size() >= QUIET_JOURNAL;
        let times = if has_room { QUIET_BATCH } else { 1 };
        (BATCH_SECTORS * times, BATCH_PAGES * times)
    }

    /// The sectors of the next checkpoint, the slots that they are in, and how many pages of the table the others are on. Where a pointer moves all sectors of the slot
    /// go together. Those of a slot that has no place wait until there is one. With `of` only those count
    /// that these writes have changed.
    fn choose(
        &self,
        held_back: &impl Fn(u64, Timestamp, bool) -> bool,
        of: Option<&BTreeSet<Timestamp>>,
    ) -> (Vec<u64>, BTreeSet<u64>, usize) {
        let (most_sectors, most_pages) = self.most();
        let (mut pages, mut slots) = (BTreeSet::new(), BTreeSet::new());
        let (mut chosen, mut free) = (Vec::new(), self.slots.free());
        let mut sectors = self.overlay.iter().peekable();
        while let Some(&(first, _)) = sectors.peek() {
            if chosen.len() >= most_sectors || pages.len() + slots.len() >= most_pages {
                break;
            }
            let slot = self.slots.slot_of(first);
            let end = slot.map_or(first + 1, |slot| self.slots.sectors_of(slot).end);
            let of_slot = std::iter::from_fn(|| sectors.next_if(|(sector, _)| *sector < end));
            let (held, ready): (Vec<_>, Vec<_>) = of_slot.partition(|(s, over)| {
                held_back(*s, over.newest(), over.content.is_some()) || self.waits_below(*s, over)
            });
            let is_of = |of: &BTreeSet<Timestamp>| ready.iter().any(|(_, o)| o.is_of(of));
            if !of.is_none_or(is_of) {
                continue;
            }
            let moves = slot.is_some_and(|slot| self.slots.moved(slot).is_some());
            if ready.is_empty() || (moves && !held.is_empty()) {
                continue;
            }
            if slot.is_some_and(|slot| !self.slots.is_placed(slot)) {
                if free == 0 {
                    continue;
                }
                free -= 1;
            }
            slots.extend(slot);
            if slot.is_none() {
                pages.insert(page_of(first));
            }
            chosen.extend(ready.into_iter().map(|(sector, _)| sector));
        }
        (chosen, slots, pages.len())
    }

    /// Ends the checkpoint that the journal last speaks of: `sectors` are not in place yet of what it was to place, and
    /// `known` are the writes that it named. `applied` is what it was to make of all its sectors. If it still can, that takes
    /// no room in the journal. If every opening took some, a disk that dies again and again in checkpoints would have none
    /// left to free any.
    pub(in crate::store) fn end_last_checkpoint(
        &mut self,
        sectors: BTreeMap<u64, Over>,
        (pointers, freed): (BTreeMap<u64, u64>, Vec<u64>),
        known: Vec<Timestamp>,
        applied: Vec<Applied>,
    ) {
        let checkpoint = Checkpoint::new(sectors, pointers);
        self.begin(Checkpoint { freed, known, again: Some(applied), ..checkpoint });
    }

    /// The pages are those of the places where its sectors are and where they go.
    fn begin(&mut self, mut checkpoint: Checkpoint) {
        let again = checkpoint.again.iter().flatten().map(|applied| applied.sector);
        let sectors = checkpoint.sectors.keys().copied().chain(again);
        let places = sectors.filter_map(|sector| self.slots.place_of(sector));
        checkpoint.pages.extend(places.map(page_of));
        for place in checkpoint.pointers.values() {
            let sectors = self.slots.sectors_of(*place);
            checkpoint.pages.extend(page_of(sectors.start)..=page_of(sectors.end - 1));
        }
        self.checkpoint = Some(checkpoint);
        self.step_checkpoint();
    }

    /// At most how many sectors of the journal the frame of a checkpoint takes: of so many sectors, in so many slots, and on so many
    /// other pages of the table.
    pub(super) fn frame_cost(&self, sectors: usize, slots: usize, pages: usize) -> u64 {
        let known = self.writes.values().filter(|w| w.is_to_be_known());
        let known: usize = known.map(|w| 16 + w.meta.len()).sum();
        let waiting = self.journal.control_len() * 16;
        // What is heard until then goes along.
        let heard = 32 + 34 * (self.superblock.heard.len() + 1);
        // A slot may move between two pages of the owners, each of which is on a page of the index, and its place is on two of
        // the table.
        let sums = (16 + 4 * 13 + 3 * 12) * slots + (13 + 12) * pages;
        (64 + 21 * sectors + sums + known + waiting + heard).div_ceil(SECTOR_BYTES) as u64
    }

    /// The writes that keep frames once these sectors are in place, by frame.
    fn staying(&self, chosen: &[u64]) -> BTreeMap<u64, Vec<Timestamp>> {
        let mut placed = BTreeMap::<Timestamp, u64>::new();
        for over in chosen.iter().filter_map(|s| self.overlay.get(*s)) {
            over.names().into_iter().for_each(|ts| *placed.entry(ts).or_default() += 1);
        }
        let goes = |ts, w: &Write| w.unplaced() == Some(placed.get(ts).map_or(0, |n| *n));
        let mut staying = BTreeMap::<u64, Vec<Timestamp>>::new();
        for (ts, write) in self.writes.iter().filter(|(ts, write)| !goes(ts, write)) {
            if let Some(frame) = write.frame {
                staying.entry(frame).or_default().push(*ts);
            }
        }
        staying
    }

    /// Sectors of the journal that are free once these sectors are in place, and these writes are carried.
    fn would_free(&self, chosen: &[u64], carried: &BTreeSet<Timestamp>) -> u64 {
        let staying = self.staying(chosen);
        let stays = |(_, writes): &(&u64, &Vec<_>)| !writes.iter().all(|ts| carried.contains(ts));
        self.journal.taken_before(staying.iter().find(stays).map_or(u64::MAX, |(frame, _)| *frame))
    }

    /// The writes that may be carried: some if more than half of the journal is in use, and these take not too much of it.
    fn carriable(&self, held_back: &impl Fn(u64, Timestamp, bool) -> bool) -> Carriable {
        let size = self.journal.size();
        if self.journal.used() <= size / 2 || !self.config.carries() {
            return Carriable::default();
        }
        let is_held =
            |sector, over: &Over| held_back(sector, over.newest(), over.content.is_some());
        let (waiting, unsaid) = ((&self.overlay, &self.copies), self.journal.unsaid_outcomes());
        let most = size * SECTOR * 3 / 8;
        Carriable::among(&self.writes, waiting, &unsaid, most, is_held)
    }

    /// The writes to be carried with a checkpoint of these sectors, whose frame takes `cost`: those that then keep the oldest
    /// frames. None if it frees enough without, or not enough with them.
    fn choose_carried(
        &self,
        chosen: &[u64],
        carriable: &Carriable,
        cost: u64,
    ) -> BTreeSet<Timestamp> {
        if carriable.is_empty() || self.would_free(chosen, &BTreeSet::new()) > cost {
            return BTreeSet::new();
        }
        let most = self.journal.size() * SECTOR / 16;
        let (mut carried, mut bytes) = (BTreeSet::new(), 0);
        let replacing = Replacing::among(&self.writes);
        for staying in self.staying(chosen).into_values() {
            let replaced_by = |ts: &Timestamp| replacing.of(*ts, &self.writes[ts], &self.copies);
            let also = staying.iter().flat_map(replaced_by);
            let mut writes: BTreeSet<Timestamp> = staying.iter().copied().chain(also).collect();
            writes.retain(|ts| !carried.contains(ts));
            let each = writes.iter().map(|ts| carriable.bytes(*ts));
            let Some(more) = each.sum::<Option<u64>>() else { break };
            let is_too_much = bytes > 0 && bytes + more > most;
            if is_too_much || !self.journal.has_room_to_carry(bytes + more, cost) {
                break;
            }
            bytes += more;
            carried.extend(writes);
        }
        match self.would_free(chosen, &carried) > cost {
            true => carried,
            false => BTreeSet::new(),
        }
    }

    /// Writes these again at the head of the journal.
    fn carry(&mut self, writes: BTreeSet<Timestamp>) {
        if !writes.is_empty() {
            self.journal.carries = writes;
            self.pump();
        }
    }
}
