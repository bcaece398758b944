//! The journal: a ring of frames, each one write, one in flight at a time, so that what
//! waits meanwhile goes together in the next (group commit).
//!
//! - [`doubts`]: writes that were found without their content
//! - [`next_frame`]: what goes into the next frame

mod doubts;
mod next_frame;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::carrying;
use super::format::{Bounds, Carried, ChangeHead, Entry, Redirect, Standing};
use super::slots::Slots;
use super::{Change, DiskOp, Event, JournalStore, Purpose, StoreConfig, Superblock};
use crate::Buffer;
use crate::units::{Epoch, SECTOR, Timestamp};
use doubts::Doubts;
use next_frame::NextFrame;

#[derive(Clone, Hash)]
struct Pending {
    entry: Entry,
    payload: Vec<Buffer>,
}

#[derive(Clone, Hash)]
struct Frame {
    number: u64,
    at: u64,
    /// Sectors used, including those skipped before it at the ring's end.
    taken: u64,
    /// Prepared writes in it that are still needed.
    pins: u32,
}

/// The ring and what waits for it.
#[derive(Clone, Hash)]
pub(crate) struct Journal {
    incarnation: u64,
    size: u64,
    /// What entries may name.
    bounds: Bounds,
    head: u64,
    /// Where the sectors that may not be written over begin. They end at the head.
    tail: u64,
    /// How many they are.
    used: u64,
    /// Those of them whose frames are forgotten, but not yet on the disk.
    leaving: u64,
    next_frame: u64,
    frames: VecDeque<Frame>,
    pending: VecDeque<Pending>,
    urgent: bool,
    in_flight: Vec<Entry>,
    /// Safe frames that are not reported before the content of the writes in the first of them is safe, too: the
    /// number of each, and its entries.
    landed: VecDeque<(u64, Vec<Entry>)>,
    doubts: Doubts,
    /// Writes that the next frame carries.
    pub carries: BTreeSet<Timestamp>,
    /// Content of whole slots has become safe, and no frame says so.
    safe_unsaid: bool,
    /// The first frame that names the known writes; older frames may go, this one may not.
    known_from: Option<u64>,
    pub stalled: bool,
    /// No frame begins for the moment.
    held: bool,
    config: StoreConfig,
}

impl Journal {
    pub fn new(sb: &Superblock, config: StoreConfig) -> Journal {
        Journal {
            incarnation: sb.incarnation,
            size: sb.journal,
            bounds: sb.bounds(),
            head: sb.tail,
            tail: sb.tail,
            used: 0,
            leaving: 0,
            next_frame: sb.tail_frame,
            frames: VecDeque::new(),
            pending: VecDeque::new(),
            urgent: false,
            in_flight: Vec::new(),
            landed: VecDeque::new(),
            doubts: Doubts::default(),
            carries: BTreeSet::new(),
            safe_unsaid: false,
            known_from: None,
            stalled: false,
            held: false,
            config,
        }
    }

    /// Checks what must hold of the ring.
    pub fn check(&self) {
        let frames: u64 = self.frames.iter().map(|f| f.taken).sum();
        assert_eq!(self.used, frames + self.leaving, "used sectors hold frames, or did");
        assert!(self.used <= self.size, "the ring holds {} of {}", self.used, self.size);
        let end = (self.tail + self.used) % self.size;
        assert_eq!(end, self.head, "used sectors end where the next frame begins");
        let first = self.next_frame - self.frames.len() as u64;
        let numbered = self.frames.iter().zip(first..).all(|(f, n)| f.number == n);
        assert!(numbered, "frames are numbered one after the other, up to the next");
        assert!(
            self.known_from.is_none_or(|n| n < self.next_frame),
            "the known frame is named later"
        );
    }

    /// Checks that each frame is kept for as many writes as say that they need it.
    pub fn check_pins(&self, pins: &BTreeMap<u64, u32>) {
        let kept = self.frames.iter().filter(|f| f.pins > 0).map(|f| (&f.number, &f.pins));
        assert!(kept.eq(pins), "frames are kept for the writes in them: {pins:?}");
    }

    /// Whether the prepare of a write waits, or is being written.
    pub fn prepares(&self, ts: Timestamp) -> bool {
        self.unsaid().any(|e| matches!(e, Entry::Prepare { ts: t, .. } if *t == ts))
    }

    /// Entries that have not been reported yet.
    fn unsaid(&self) -> impl Iterator<Item = &Entry> {
        let landed = self.landed.iter().flat_map(|(_, entries)| entries);
        self.pending.iter().map(|p| &p.entry).chain(&self.in_flight).chain(landed)
    }

    pub fn add_prepare(
        &mut self,
        ts: Timestamp,
        meta: &[u8],
        changes: &[Change],
        redirects: &[Redirect],
    ) {
        let heads = changes.iter().map(ChangeHead::of).collect();
        let payload = changes.iter().filter(|c| !c.data.is_zero()).map(|c| c.data.clone());
        let (meta, redirects) = (meta.to_vec(), redirects.to_vec());
        let entry = Entry::Prepare { ts, meta, changes: heads, redirects };
        self.pending.push_back(Pending { entry, payload: payload.collect() });
        self.urgent = true;
    }

    pub fn add_outcome(&mut self, ts: Timestamp, commit: bool) {
        self.add(Entry::Outcome { ts, commit });
    }

    pub fn add_released(&mut self, ts: Timestamp) {
        self.add(Entry::Released { ts });
    }

    pub fn add(&mut self, entry: Entry) {
        self.pending.push_back(Pending { entry, payload: Vec::new() });
    }

    /// The number of the frame that was begun last.
    pub fn last_frame(&self) -> u64 {
        self.next_frame - 1
    }

    /// Frames with lower numbers are safe, and so is the content of the writes in them.
    pub fn durable_before(&self) -> u64 {
        let written = self.next_frame - u64::from(!self.in_flight.is_empty());
        let landed = self.landed.front().map_or(written, |(number, _)| *number);
        landed.min(self.doubts.first.unwrap_or(u64::MAX))
    }

    /// The content of a write in this frame was found not to be there.
    pub fn doubt(&mut self, ts: Timestamp, frame: u64) {
        self.doubts.doubt(ts, frame);
    }

    /// The frames of writes that were found without their content, which may not be reported yet.
    pub fn doubted_frames(&self) -> impl Iterator<Item = u64> + '_ {
        self.doubts.frames()
    }

    /// Says that writes which were found without their content have aborted.
    pub fn abort_doubted(&mut self) {
        for (ts, frame) in self.doubts.take() {
            self.unpin(Some(frame));
            self.add(Entry::Outcome { ts, commit: false });
        }
    }

    /// The known writes are about to be named again.
    pub fn name_known(&mut self, known: impl Iterator<Item = Entry>) {
        self.known_from = None;
        known.for_each(|entry| self.add(entry));
    }

    /// This frame, found by recovery, is the first that names the known writes.
    pub fn found_known(&mut self, frame: Option<u64>) {
        self.known_from = frame;
    }

    /// Waiting entries must be written now.
    pub fn urge(&mut self) {
        self.urgent |= !self.pending.is_empty();
    }

    /// The writes whose aborts are not safe yet.
    pub fn unsafe_aborts(&self) -> impl Iterator<Item = Timestamp> + '_ {
        self.unsaid().filter_map(|e| match e {
            Entry::Outcome { ts, commit: false } => Some(*ts),
            _ => None,
        })
    }

    /// The oldest of them.
    pub fn oldest_abort(&self) -> Option<Timestamp> {
        self.unsafe_aborts().min()
    }

    /// Nothing waits that anyone must be told of, and nothing is being written.
    pub fn is_idle(&self) -> bool {
        let lazy = |p: &Pending| matches!(p.entry, Entry::Released { .. } | Entry::Begin);
        self.in_flight.is_empty() && self.landed.is_empty() && self.pending.iter().all(lazy)
    }

    fn queued(&self, ts: Timestamp) -> Option<usize> {
        self.pending.iter().position(|p| matches!(p.entry, Entry::Prepare { ts: t, .. } if t == ts))
    }

    /// Whether a write still waits for room.
    pub fn is_queued(&self, ts: Timestamp) -> bool {
        self.queued(ts).is_some()
    }

    /// Takes a write out of the queue; says whether it was there.
    pub fn withdraw(&mut self, ts: Timestamp) -> bool {
        let at = self.queued(ts);
        at.is_some_and(|at| self.pending.remove(at).is_some())
    }

    pub fn used(&self) -> u64 {
        self.used
    }

    pub fn size(&self) -> u64 {
        self.size
    }

    /// A prepared write in this frame is not needed there any more.
    pub fn unpin(&mut self, frame: Option<u64>) {
        let Some(number) = frame else { return };
        let first = self.frames.front().map_or(0, |f| f.number);
        let frame = &mut self.frames[(number - first) as usize];
        debug_assert_eq!(frame.number, number);
        frame.pins -= 1;
    }

    /// Forgets the oldest frames that nothing needs; returns the new tail. Their room is free
    /// when the disk's superblock has it too: see [`left`](Journal::left).
    pub fn advance(&mut self) -> (u64, u64) {
        let carries = |e: &Entry| matches!(e, Entry::Carried(_));
        assert!(!self.unsaid().any(carries), "a frame is kept until its writes are carried safely");
        let keep = self.known_from.unwrap_or(u64::MAX);
        while self.frames.front().is_some_and(|f| f.pins == 0 && f.number < keep) {
            let frame = self.frames.pop_front().expect("just seen");
            self.leaving += frame.taken;
        }
        if !self.config.waits_for_room() {
            self.left();
        }
        match self.frames.front() {
            Some(f) => (f.at, f.number),
            None => (self.head, self.next_frame),
        }
    }

    /// The superblock does not name the forgotten frames any more.
    pub fn left(&mut self) {
        let leaving = std::mem::take(&mut self.leaving);
        self.used -= leaving;
        self.tail = (self.tail + leaving) % self.size;
    }

    /// Whether a frame up to this one may be found when the disk is opened next.
    pub fn may_have(&self, number: u64) -> bool {
        self.leaving > 0 || self.frames.front().is_some_and(|f| f.number <= number)
    }

    /// Sectors of the frames before this one.
    pub fn taken_before(&self, number: u64) -> u64 {
        self.frames.iter().take_while(|f| f.number < number).map(|f| f.taken).sum()
    }

    /// The frames before this one are the oldest, and take an eighth of the ring or all that is in use.
    pub fn after_oldest(&self) -> u64 {
        let mut taken = 0;
        let oldest = self.frames.iter().take_while(|f| {
            let is_of = taken < self.size / 8;
            taken += f.taken;
            is_of
        });
        oldest.last().map_or(0, |f| f.number + 1)
    }

    /// Whether a frame of this many sectors would use space reserved for checkpoints.
    pub fn is_tight(&self, sectors: u64) -> bool {
        self.room(sectors, self.size / 4).is_none()
    }

    /// Whether there is room for a checkpoint's frame of this many sectors.
    pub fn has_room(&self, sectors: u64) -> bool {
        self.room(sectors, 0).is_some()
    }

    /// No frame begins from now on, unless one is being written. Says whether that is so.
    pub fn hold(&mut self) -> bool {
        self.held = self.in_flight.is_empty();
        self.held
    }

    /// Frames may begin again.
    pub fn go_on(&mut self) {
        self.held = false;
    }

    /// Whether no frame that counts has this sector.
    pub fn is_free(&self, sector: u64) -> bool {
        (sector + self.size - self.tail) % self.size >= self.used
    }

    /// How many entries wait that are no prepares.
    pub fn control_len(&self) -> usize {
        self.pending.iter().filter(|p| !matches!(p.entry, Entry::Prepare { .. })).count()
    }

    /// Takes in a frame found by recovery.
    pub fn found(&mut self, number: u64, at: u64, sectors: u64, pins: u32) {
        // The first frame of an empty ring restarts it.
        let wraps = at < self.head && !self.frames.is_empty();
        let skipped =
            if wraps && self.config.counts_what_is_skipped() { self.size - self.head } else { 0 };
        if self.frames.is_empty() {
            self.tail = at;
        }
        self.take_room(Frame { number, at, taken: sectors + skipped, pins }, sectors);
        self.next_frame = number + 1;
    }

    /// A frame of this many sectors is in the ring.
    fn take_room(&mut self, frame: Frame, sectors: u64) {
        self.used += frame.taken;
        self.head = (frame.at + sectors) % self.size;
        assert!(self.used <= self.size, "the ring holds {} of {} sectors", self.used, self.size);
        let end = (self.tail + self.used) % self.size;
        assert_eq!(end, self.head, "used sectors end where the next frame begins");
        self.frames.push_back(frame);
    }
}

impl JournalStore {
    /// Writes the next frame if there is something to write, nothing is being written, and
    /// there is room.
    pub(super) fn pump(&mut self) {
        let j = &mut self.journal;
        let waits = j.urgent && !j.pending.is_empty();
        if !j.in_flight.is_empty() || j.held || (!waits && j.carries.is_empty()) {
            return;
        }
        if self.awaits_epoch() {
            return self.go_on_in_epoch();
        }
        let j = &mut self.journal;
        if j.used == 0 {
            // An empty ring has all its room in one piece.
            (j.head, j.tail) = (0, 0);
        }
        // Received positions go with the next frame: it must be safe before what follows from it.
        let mut first: Vec<Entry> = self.life_to_write.map(Entry::Life).into_iter().collect();
        if !self.heard_since.is_empty() {
            first.push(Entry::Heard(self.heard_since.iter().map(|(n, r)| (*n, *r)).collect()));
        }
        if j.safe_unsaid {
            first.push(Entry::Safe(j.durable_before()));
        }
        let carried = self.entries_to_carry();
        let j = &mut self.journal;
        let mut next = None;
        if !carried.is_empty() {
            next = j.frame_of_carried(&first, carried);
        }
        if next.is_none() && waits {
            next = j.frame_of_waiting(&first);
            j.stalled = next.is_none();
        }
        if let Some(next) = next {
            self.heard_since.clear();
            self.life_to_write = None;
            self.begin_frame(first, next);
        }
    }

    /// The entries that the next frame carries.
    fn entries_to_carry(&mut self) -> Vec<Pending> {
        let due = std::mem::take(&mut self.journal.carries);
        if due.is_empty() {
            return Vec::new();
        }
        let (waiting, unsaid) = ((&self.overlay, &self.copies), self.journal.unsaid_outcomes());
        let entries = carrying::entries(&due, &self.writes, waiting, &unsaid);
        let pending = |(mut carried, payload): (Carried, _)| {
            if !self.config.carries_overtaken() {
                carried.overtaken.clear();
            }
            Pending { entry: Entry::Carried(carried), payload }
        };
        entries.into_iter().map(pending).collect()
    }

    fn begin_frame(&mut self, first: Vec<Entry>, next: NextFrame) {
        let j = &mut self.journal;
        (j.stalled, j.safe_unsaid) = (false, false);
        let sectors = next.frame.1.sectors();
        let (mut entries, mut data) = (first, vec![Buffer::from(next.frame.0)]);
        for waiting in j.pending.drain(..next.count) {
            entries.push(waiting.entry);
            data.extend(waiting.payload);
        }
        for entry in &entries {
            if let Err(why) = entry.check(j.bounds) {
                panic!("an invalid entry would be written: {why}: {entry:?}");
            }
        }
        let at = if next.skipped > 0 { 0 } else { j.head };
        let pins = entries.iter().filter(|entry| entry.keeps_its_frame()).count() as u32;
        let frame = Frame { number: j.next_frame, at, taken: sectors + next.skipped, pins };
        j.take_room(frame, sectors);
        j.urgent = j
            .pending
            .iter()
            .any(|p| matches!(p.entry, Entry::Prepare { .. } | Entry::Apply { .. }));
        let number = j.next_frame;
        if entries.iter().any(|e| matches!(e, Entry::Known { .. })) {
            j.known_from.get_or_insert(number);
        }
        j.next_frame += 1;
        entries.iter().for_each(|entry| self.goes_to_frame(entry, number));
        self.journal.in_flight = entries;
        self.counters.journal_frames += 1;
        let durable = self.config.writes_frames_through();
        let offset = (self.superblock.journal_start() + at) * SECTOR;
        self.start(Purpose::Frame, DiskOp::Write { offset, data, durable });
    }

    /// An entry is in the frame of this number, which is about to be written.
    fn goes_to_frame(&mut self, entry: &Entry, number: u64) {
        match entry {
            // A write aborted while it waited has no use for its frame.
            Entry::Prepare { ts, .. } => match self.writes.get_mut(ts) {
                Some(write) => write.frame = Some(number),
                None => self.journal.unpin(Some(number)),
            },
            Entry::Carried(carried) => {
                self.counters.carried += 1;
                let copies = carried.changes.iter().any(|change| change.kind.is_copy());
                if copies && carried.standing != Standing::Undecided {
                    self.copies.are_in_frame(number);
                }
                let write = self.writes.get_mut(&carried.ts).expect("a write that is carried");
                let from = write.frame.replace(number).expect("it has a frame");
                self.journal.unpin(Some(from));
            }
            _ => {}
        }
    }

    /// The frame in flight is safe.
    pub(super) fn frame_written(&mut self) {
        let entries = std::mem::take(&mut self.journal.in_flight);
        self.journal.landed.push_back((self.journal.last_frame(), entries));
        self.land();
        self.pump();
    }

    /// Reports frames, one after the other, up to the first write whose content is not safe.
    pub(super) fn land(&mut self) {
        let waits = |slots: &Slots, entry: &Entry| match entry {
            Entry::Prepare { ts, .. } => slots.is_landing(*ts),
            _ => false,
        };
        while let Some((number, entries)) = self.journal.landed.pop_front() {
            let waits = entries.iter().any(|entry| waits(&self.slots, entry));
            if waits && self.config.waits_for_content() {
                return self.journal.landed.push_front((number, entries));
            }
            self.landed(number, entries);
        }
    }

    /// A frame is safe, with all that belongs to it.
    fn landed(&mut self, number: u64, entries: Vec<Entry>) {
        if number > self.unpromised.0 {
            let life = entries.iter().filter_map(|e| match e {
                Entry::Life(epoch) => Some(*epoch),
                _ => None,
            });
            self.reached.life = life.fold(self.reached.life, Epoch::max);
            self.reached.frame = number;
        }
        let mut outcomes = Vec::new();
        let mut applied = false;
        for entry in entries {
            match entry {
                Entry::Prepare { ts, redirects, .. } => {
                    self.counters.journal_writes += 1;
                    self.journal.safe_unsaid |= !redirects.is_empty();
                    // Another that was prepared at the same time since is in a later frame.
                    let write = self.writes.get_mut(&ts).filter(|w| w.frame == Some(number));
                    if let Some(write) = write {
                        write.prepared();
                        self.events.push_back(Event::Prepared(ts));
                    }
                }
                Entry::Outcome { ts, commit } => {
                    outcomes.push(ts);
                    if !commit {
                        self.slots.abort_is_safe(ts);
                    }
                }
                Entry::Apply { .. } => applied = true,
                Entry::Released { .. }
                | Entry::Known { .. }
                | Entry::Begin
                | Entry::Checkpoint(_)
                | Entry::Overtaken { .. }
                | Entry::Heard(_)
                | Entry::Life(_)
                | Entry::Safe(_)
                | Entry::Carried(_) => {}
            }
        }
        if !outcomes.is_empty() {
            self.events.push_back(Event::OutcomeSafe(outcomes));
        }
        // Writes that were found without their content are known to have aborted from now on.
        let abort = |e: &Entry| matches!(e, Entry::Outcome { commit: false, .. });
        if self.journal.doubts.are_reported() && !self.journal.unsaid().any(abort) {
            self.journal.doubts.first = None;
        }
        if applied {
            self.checkpoint_logged();
        }
    }
}
