//! Sectors that a checkpoint was putting in place: apply entries name them, and only the table and the place
//! tell how far it came.
//!
//! The journal may lack content that an apply entry names: that of a write without journal. Where it is not in place,
//! the earlier content or mark counts that the journal has. So a second apply entry with the actual result precedes the
//! data. It waits until the node enters an epoch, since an earlier frame would hide that the disk had forgotten
//! something. If the ring has no space for it, it is omitted; then the pages of the table tell that the checkpoint has
//! ended. Where the journal has a whole slot, such content goes to the same place, which is read to tell what it has.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::super::format::Applied;
use super::super::overlay::{Content, Over};
use super::super::place::Base;
use super::super::table::{State, TableEntry};
use super::super::torn::before_torn_write;
use super::super::{Change, DiskOp, JournalStore, Purpose, Write};
use super::Step;
use crate::Buffer;
use crate::units::SECTOR_BYTES;

impl JournalStore {
    /// Goes on once the table pages of the candidates are there.
    pub(in crate::store) fn step_recovery(&mut self) {
        let Some(r) = &self.recovery else { return };
        if r.looked || !r.replayed {
            return;
        }
        // If the apply entry of a checkpoint was lost, the pages tell that it had put changes in place. All that it
        // put there is still in the journal; that it had committed may be lost with the entry.
        let changed = self.overlay.iter().filter(|(_, over)| !over.deltas.is_empty());
        let undecided = self.writes.values().flat_map(Write::changes);
        let deltas = undecided.filter(|change| change.kind.is_delta());
        let candidates = r.candidates.keys().copied();
        let candidates = candidates.chain(r.adopted.keys().copied());
        let sectors = candidates.chain(changed.map(|(s, _)| s));
        let sectors = sectors.chain(deltas.flat_map(Change::sectors));
        let mut pages: BTreeSet<u64> = sectors.flat_map(|s| self.pages_of(s, 1)).collect();
        for slot in r.last.pointers.keys() {
            let sectors = self.slots.sectors_of(*slot);
            pages.extend(self.pages_of(sectors.start, sectors.end - sectors.start));
        }
        // Whatever it wrote may be torn.
        pages.extend(self.table.torn.keys());
        if self.want(pages.into_iter().collect()) {
            self.look_at_candidates();
        }
    }

    fn look_at_candidates(&mut self) {
        let recovery = self.recovery.as_mut().expect("opening");
        recovery.looked = true;
        let candidates = std::mem::take(&mut recovery.candidates);
        self.forget_what_was_there(&candidates);
        let recovery = self.recovery.as_mut().expect("opening");
        let adopted = std::mem::take(&mut recovery.adopted);
        self.set_adopted(adopted);
        for (sector, steps) in candidates {
            let entry = self.entry(sector);
            let ended = self.ended_before(sector).filter(|_| entry.state != State::Bad);
            let is_ended = |step: &Step| ended.as_ref().is_some_and(|e| e.contains(&step.2));
            let steps = self.drop_done(steps, |step| entry == entry_of(&step.1) || is_ended(step));
            let steps = if entry.state == State::Bad { self.drop_replaced(steps) } else { steps };
            let steps = self.drop_superseded(steps);
            let Some((_, last, _)) = steps.last() else { continue };
            // Deltas on content in a slot may be in place there, or not.
            let in_slot = steps.iter().find_map(|s| s.0.in_slot());
            let adds = steps.iter().any(|s| !s.0.deltas.is_empty());
            let bytes = steps.iter().any(|s| s.0.content.is_some() && s.0.in_slot().is_none());
            let place = self.slots.place_of(sector);
            let in_slot = in_slot.filter(|_| !adds);
            // Content without the journal, or zeros, may have been put in place over that of the slot.
            let is_over = |(at, crc)| {
                let is_another = last.state == State::Written as u8 && crc != last.crc;
                place == Some(at) && (is_another || last.state == State::Hole as u8)
            };
            let is_over = in_slot.is_some_and(is_over);
            if bytes || place.is_none() || (in_slot.is_some() && !is_over) {
                self.put_back(sector, steps);
            } else if last.state != State::Written as u8 && !is_over {
                let entry = entry_of(last);
                self.set_entry(sector, entry);
                self.drop_done(steps, |_| true);
            } else {
                let recovery = self.recovery.as_mut().expect("opening");
                recovery.candidates.insert(sector, steps);
                recovery.waiting += 1;
                let at = self.slots.place_of(sector).expect("an apply entry gives places");
                self.read_place(Purpose::Candidate { sector }, at..at + 1);
            }
        }
        self.finish_opening();
    }

    /// Leaves out the steps up to the last that is `done`.
    fn drop_done(&mut self, mut steps: Vec<Step>, done: impl Fn(&Step) -> bool) -> Vec<Step> {
        let count = steps.iter().rposition(done).map_or(0, |n| n + 1);
        let rest = steps.split_off(count);
        steps.iter().for_each(|s| self.unpin_all(s.0.names()));
        rest
    }

    /// Leaves out the steps before the last with content. That may stand in another slot than theirs, whose entry in the table
    /// does not say that they were done.
    fn drop_superseded(&mut self, mut steps: Vec<Step>) -> Vec<Step> {
        let count = steps.iter().rposition(|s| s.0.content.is_some()).unwrap_or(0);
        let rest = steps.split_off(count);
        steps.iter().for_each(|s| self.unpin_all(s.0.names()));
        rest
    }

    /// Leaves out the changes that content without the journal has replaced: the step's result does not follow from what the
    /// journal has. The sector is lost then, unless that content is in its place. A later step may show that the journal's
    /// changes count nevertheless.
    fn drop_replaced(&mut self, mut steps: Vec<Step>) -> Vec<Step> {
        let (mut first, mut sum, mut all) = (None, Over::default(), Over::default());
        for (n, (over, applied, _)) in steps.iter().enumerate() {
            for sum in [&mut sum, &mut all] {
                let mut next = over.clone();
                next.underlay(std::mem::take(sum));
                *sum = next;
            }
            match (gives(&sum, applied), gives(&all, applied)) {
                (Some(true), _) => {}
                (_, Some(true)) => (first, sum) = (None, all.clone()),
                (Some(false), _) => (first, sum) = (Some(n), Over::default()),
                (None, _) => {}
            }
        }
        let Some(first) = first else { return steps };
        let mut rest = steps.split_off(first);
        let replaced = std::mem::take(&mut rest[0].0);
        let names = steps.iter().map(|s| &s.0).chain([&replaced]).flat_map(Over::names);
        self.unpin_all(names.collect());
        rest
    }

    /// A sector that has yet to be placed: by the last checkpoint, if that was to place it, or by another.
    fn put_back(&mut self, sector: u64, steps: Vec<Step>) {
        let last = &mut self.recovery.as_mut().expect("opening").last;
        // Without a place, which only damage takes away, it gets one from another checkpoint.
        let ends = last.sectors.contains(&sector) && self.slots.place_of(sector).is_some();
        let left = ends.then_some(&mut last.left);
        let mut superseded = Vec::new();
        let steps: Vec<Over> = steps.into_iter().map(|s| s.0).filter(|o| !o.is_empty()).collect();
        if !steps.is_empty() {
            let over = match left {
                Some(left) => left.entry(sector).or_default(),
                None => self.overlay.get_mut(sector),
            };
            steps.into_iter().rev().for_each(|step| superseded.extend(over.underlay(step)));
        }
        self.unpin_all(superseded);
    }

    /// A sector that was getting deltas: it has them, or has none or only the first of them
    /// yet, or is torn.
    pub(in crate::store) fn candidate_read(&mut self, sector: u64, data: Option<Buffer>) {
        let recovery = self.recovery.as_mut().expect("opening");
        let steps = recovery.candidates.remove(&sector).expect("a candidate");
        recovery.waiting -= 1;
        let entry = self.entry(sector);
        let crc = data.as_ref().map(Buffer::crc);
        let below = match steps.iter().find_map(|s| s.0.in_slot()) {
            Some((_, crc)) => TableEntry { crc, state: State::Written, ..entry },
            None => entry,
        };
        let place = self.slots.place_of(sector);
        let torn = data.clone();
        let base = Base::of(&Over::default(), below, place);
        // A mark loses nothing. If the sector counted as lost, nobody would know that it must be computed.
        let untouched = base.is_marked() || base.content(|| data).is_some();
        let in_place = |s: &Step| crc == Some(s.1.crc) && s.1.state == State::Written as u8;
        if let Some((_, applied, _)) = steps.iter().rfind(|s| in_place(s)) {
            let entry = entry_of(applied);
            self.set_entry(sector, entry);
            let rest = self.drop_done(steps, in_place);
            self.put_back(sector, rest);
        } else if untouched {
            self.put_back(sector, steps);
        } else if let Some(content) = self.content_of_torn(&steps, below, torn) {
            // It is put in place again.
            let (mut over, ..) = steps.into_iter().next().expect("there is one");
            over.settle(content);
            let last = &mut self.recovery.as_mut().expect("opening").last;
            last.left.insert(sector, over);
        } else if let Some((_, applied, _)) =
            steps.last().filter(|s| s.1.state == State::Hole as u8)
        {
            let entry = entry_of(applied);
            self.set_entry(sector, entry);
            self.drop_done(steps, |_| true);
        } else {
            let version = steps.last().expect("not empty").1.version;
            self.set_entry(sector, TableEntry { version, ..TableEntry::LOST });
            self.counters.erasures += 1;
            self.drop_done(steps, |_| true);
        }
        self.finish_opening();
    }

    /// What a sector was to become to which the last checkpoint was adding deltas in place when a power cut tore that write.
    /// `below` is what it held before.
    fn content_of_torn(
        &self,
        steps: &[Step],
        below: TableEntry,
        torn: Option<Buffer>,
    ) -> Option<Buffer> {
        let ([(over, applied, _)], Some(torn)) = (steps, torn) else { return None };
        let last = &self.recovery.as_ref().expect("opening").last;
        let has_sums = below.state == State::Written && applied.state == State::Written as u8;
        if !has_sums || !last.sectors.contains(&applied.sector) || torn.is_length() {
            return None;
        }
        let mut delta = vec![0; SECTOR_BYTES];
        over.deltas.iter().for_each(|(_, added)| added.add_to(&mut delta, 1));
        let before = before_torn_write(&torn, &delta, below.crc, applied.crc)?;
        let content = before.iter().zip(&delta).map(|(before, added)| before ^ added);
        Some(Buffer::from(content.collect::<Vec<u8>>()))
    }

    /// In the places of pointers that the last checkpoint was to write stood other slots before: what the table says of
    /// them counts only if it is what the checkpoint was to make of it.
    fn forget_what_was_there(&mut self, candidates: &BTreeMap<u64, Vec<Step>>) {
        let last = &self.recovery.as_ref().expect("opening").last;
        let (slots, applied, number) = (last.pointers.keys(), &last.sectors, last.number);
        let sectors: Vec<u64> = slots.flat_map(|slot| self.slots.sectors_of(*slot)).collect();
        let applied = applied.clone();
        for sector in sectors {
            let is = self.entry(sector);
            let done = candidates.get(&sector).and_then(|steps| steps.last());
            let done =
                done.is_some_and(|step| applied.contains(&sector) && is == entry_of(&step.1));
            let unclaimed = self.unclaimed();
            // What a damaged page says is lost stays so: it may have been put in place.
            let is_lost = is.state == State::Bad && !self.is_anothers(sector);
            let is_ended = self.ended_before(sector).is_some_and(|e| e.contains(&number));
            if !done && is != unclaimed && !is_lost && !is_ended {
                self.set_entry(sector, unclaimed);
            }
        }
    }

    /// The checkpoints that have ended, because the page of the table with a sector's entry was written at a later one. Their
    /// apply entries say nothing of the sector any more. A damaged page may have been written again since. But then the entry
    /// says that the sector is lost, unless it is in place.
    fn ended_before(&self, sector: u64) -> Option<Range<u64>> {
        let place = self.slots.place_of(sector)?;
        Some(1..self.table.written_at(place).max(1))
    }

    pub(super) fn finish_opening(&mut self) {
        let done = self.recovery.as_ref().is_some_and(|r| r.looked && r.waiting == 0);
        if done {
            self.abort_unfounded();
            // What was found may not be safe yet: a process that died may have left it in a
            // cache. It must be before anything relies on it.
            self.start(Purpose::RecoveryFlush, DiskOp::Flush);
        }
    }
}

/// Whether these changes had that result, if they can tell. A mark is believed in any case: its sector is computed again.
fn gives(over: &Over, result: &Applied) -> Option<bool> {
    let (state, crc) = match &over.content {
        None | Some((_, Content::Mark)) => return None,
        Some((_, Content::Slot { .. })) if !over.deltas.is_empty() => return None,
        Some((_, Content::Slot { crc, .. })) => (State::Written, *crc),
        Some((_, Content::Bytes(content))) if content.is_length() => return None,
        Some((_, Content::Bytes(content))) => {
            let mut bytes = content.to_bytes().to_vec();
            over.deltas.iter().for_each(|(_, delta)| delta.add_to(&mut bytes, 1));
            let content = Buffer::from(bytes);
            if content.is_zero() { (State::Hole, 0) } else { (State::Written, content.crc()) }
        }
    };
    Some((state as u8, crc) == (result.state, result.crc))
}

fn entry_of(a: &Applied) -> TableEntry {
    TableEntry::of(a)
}
