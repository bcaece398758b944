//! What goes into the next frame, and whether there is room for it.

use std::collections::{BTreeSet, VecDeque};

use super::{Journal, Pending};
use crate::store::ChangeKind;
use crate::store::format::{ChangeHead, Entry, FrameHead, encode_frame};
use crate::units::{SECTOR, Timestamp};

/// Most bytes of changes in a frame, in sectors.
const FRAME_PAYLOAD: u64 = 1024;
/// Most entries in a frame.
const FRAME_ENTRIES: usize = 512;

/// A frame that is about to be written.
pub(super) struct NextFrame {
    /// How many of the waiting entries are in it.
    pub count: usize,
    /// Its head.
    pub frame: (Vec<u8>, FrameHead),
    /// Sectors that are skipped before it.
    pub skipped: u64,
}

impl Journal {
    pub(super) fn room(&self, sectors: u64, reserve: u64) -> Option<u64> {
        let skipped = if self.head + sectors > self.size { self.size - self.head } else { 0 };
        (self.used + skipped + sectors + reserve <= self.size).then_some(skipped)
    }

    /// What a frame must leave free for those that free room: prepares for outcomes, and both
    /// for checkpoints, which also take along what waits before them. Of prepares those leave less that replace copies.
    /// Carried writes go with a checkpoint.
    fn reserve<'a>(&self, mut entries: impl Iterator<Item = &'a Entry> + Clone) -> u64 {
        let frees =
            |e: &Entry| matches!(e, Entry::Apply { .. } | Entry::Known { .. } | Entry::Carried(_));
        let folds = |c: &ChangeHead| matches!(c.kind, ChangeKind::Fold(_));
        let mut prepares = entries.clone().filter_map(|e| match e {
            Entry::Prepare { changes, .. } => Some(changes.iter().any(folds)),
            _ => None,
        });
        if let Some(first) = prepares.next() {
            if first && prepares.all(|folds| folds) { self.size * 3 / 16 } else { self.size / 4 }
        } else if entries.any(frees) {
            0
        } else {
            self.size / 8
        }
    }

    /// Whether there is room to carry some bytes, and then for a checkpoint's frame of this many sectors, wherever the ring ends.
    pub fn has_room_to_carry(&self, bytes: u64, checkpoint: u64) -> bool {
        let head = 64 + 16 * self.control_len() as u64;
        self.room((head + bytes).div_ceil(SECTOR), 2 * checkpoint).is_some()
    }

    /// The writes whose outcomes wait.
    pub fn unsaid_outcomes(&self) -> BTreeSet<Timestamp> {
        let of = |p: &Pending| match p.entry {
            Entry::Outcome { ts, .. } => Some(ts),
            _ => None,
        };
        self.pending.iter().filter_map(of).collect()
    }

    /// What of these goes into the next frame, and its head: with the other entries that are no prepares, or alone. `None` if
    /// there is no room.
    pub(super) fn frame_of_carried(
        &mut self,
        first: &[Entry],
        carried: Vec<Pending>,
    ) -> Option<NextFrame> {
        let (alone, control) = (carried.len(), self.put_control_first());
        carried.into_iter().rev().for_each(|entry| self.pending.push_front(entry));
        let next = [alone + control, alone].into_iter().find_map(|count| {
            let (frame, room) = self.frame_of(first, count);
            Some(NextFrame { count, frame, skipped: room? })
        });
        if next.is_none() {
            self.pending.drain(..alone);
        }
        next
    }

    /// What of the waiting entries goes into the next frame, and its head, if there is room.
    pub(super) fn frame_of_waiting(&mut self, first: &[Entry]) -> Option<NextFrame> {
        let mut count = self.batch();
        let (mut frame, mut room) = self.frame_of(first, count);
        let prepare = |p: &Pending| matches!(p.entry, Entry::Prepare { .. });
        if room.is_none() && !self.pending.iter().all(prepare) {
            // What frees room must not wait behind what needs it.
            count = self.put_control_first();
            (frame, room) = self.frame_of(first, count);
        }
        Some(NextFrame { count, frame, skipped: room? })
    }

    /// The head of the next frame with these entries and this many waiting ones, and its place: the sectors to be
    /// skipped before it, if there is room.
    fn frame_of(&self, first: &[Entry], count: usize) -> ((Vec<u8>, FrameHead), Option<u64>) {
        let waiting = self.pending.iter().take(count).map(|p| &p.entry);
        let entries = first.iter().chain(waiting);
        let frame = encode_frame(self.incarnation, self.next_frame, entries.clone());
        let room = self.room(frame.1.sectors(), self.reserve(entries));
        (frame, room)
    }

    /// Moves everything but prepares to the front, in its order; returns how many that are.
    /// Only an abort can come before its prepare thereby, and a prepare without outcome is
    /// aborted too.
    fn put_control_first(&mut self) -> usize {
        let prepare = |p: &Pending| matches!(p.entry, Entry::Prepare { .. });
        let (prepares, control): (VecDeque<_>, VecDeque<_>) =
            std::mem::take(&mut self.pending).into_iter().partition(prepare);
        let count = control.len();
        self.pending = control;
        self.pending.extend(prepares);
        count
    }

    /// How many of what waits go into the next frame.
    fn batch(&self) -> usize {
        let mut payload = 0;
        let sizes = self.pending.iter().take(FRAME_ENTRIES).map(|p| {
            payload += p.payload.iter().map(|b| b.len() as u64 / SECTOR).sum::<u64>();
            payload
        });
        let fit = sizes.take_while(|&total| total <= FRAME_PAYLOAD.min(self.size / 4)).count();
        fit.max(1).min(self.pending.len())
    }
}
