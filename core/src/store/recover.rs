//! Opening a disk, whatever state a crash left it in: superblock, replay of the journal, and
//! for sectors that a checkpoint was putting in place, a look at how far it came.
//!
//! A torn tail is what a crash leaves: the frame that was being written, which nobody has been promised. A frame
//! that is missing before others, or an index that is not the superblock's, is damage. Then nothing in the journal
//! can be believed, since what it says may have been overtaken: the disk opens with what
//! is in place, says that it has forgotten what it promised, and is made whole from the others.

use std::collections::{BTreeMap, BTreeSet};

use super::format::{
    Applied, ChangeHead, Entry, FORGOT, FrameHead, SUPERBLOCKS, decode_frame, decode_head,
};
use super::index::Index;
use super::overlay::{Over, Overlay};
use super::place::Base;
use super::table::{Numbers, State, Table, TableEntry, page_of};
use super::{
    Change, DiskOp, DiskResult, Event, FormatError, Heard, Journal, JournalStore, Purpose, Reached,
    Recovered, StoreConfig, StoreCounters, Superblock, Write,
};
use crate::Buffer;
use crate::units::{SECTOR, SECTOR_BYTES, Timestamp};

const PIECE: u64 = 256;
/// Of more sectors that cannot be read while opening the disk is not opened.
const MOST_UNREADABLE: u64 = 64;

#[derive(Clone, Hash)]
pub(super) struct Recovery {
    cluster: u128,
    disk: u16,
    disk_sectors: u64,
    /// What is being read: superblocks, then the journal, then the index. Zeros where it is yet to be read, or
    /// cannot be.
    part: Part,
    bytes: Vec<u8>,
    /// Sectors of it that have been read.
    have: u64,
    /// Sectors of the journal that cannot be read, and how many of all parts cannot.
    unreadable: (BTreeSet<u64>, u64),
    /// The frames of the journal, once it is known which: where each begins, and what is in it.
    journal: Vec<u8>,
    /// What had committed when the last checkpoint began.
    begun: Overlay,
    /// Sectors that apply entries name: for each entry what it was to put in place, and the
    /// outcome of that. A crash may have come before an entry took effect, and the sector
    /// been taken up again by a later life's entry; only the table and the place tell.
    candidates: BTreeMap<u64, Vec<(Over, Applied)>>,
    /// The last checkpoint that the journal speaks of.
    last: LastCheckpoint,
    /// What has been named as known since a checkpoint began, and the first frame that names any.
    known: (Option<u64>, Vec<Timestamp>),
    /// Those whose place must be looked at.
    waiting: usize,
    /// The journal has been replayed.
    replayed: bool,
    looked: bool,
}

/// A checkpoint of which an apply entry was found. It is ended when the disk is open.
#[derive(Clone, Default, Hash)]
struct LastCheckpoint {
    /// The sectors that it was to place.
    sectors: BTreeSet<u64>,
    /// What those consist of that are not in place.
    left: BTreeMap<u64, Over>,
    /// The known writes that it named, and the first frame that does.
    known: (Option<u64>, Vec<Timestamp>),
}

/// What is read one after the other when a disk is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Part {
    Superblocks,
    Journal,
    Index,
}

/// A frame that was found: where it begins, in sectors, its head, and what is in it.
type Found = (u64, FrameHead, Vec<Entry>);

impl JournalStore {
    /// The store of a disk that holds only lengths, for simulations of performance: every
    /// sector has been written, all is in place, and as much of the table as there is room for is
    /// in memory. `journal` sectors are the journal's, as in [`Superblock::divide`].
    ///
    /// # Errors
    /// If the disk is too small.
    pub fn full(
        config: StoreConfig,
        disk: u16,
        disk_sectors: u64,
        journal: u64,
    ) -> Result<JournalStore, FormatError> {
        let superblock = Superblock::divide(0, disk, 1, disk_sectors, journal)?;
        let mut store = JournalStore::open(config, 0, disk, disk_sectors);
        store.journal = Journal::new(&superblock, config.bug);
        store.recovery = None;
        store.ios.clear();
        store.out.clear();
        let pages = superblock.table_pages().min(config.table_pages as u64);
        for page in 0..pages {
            store.table.load(page, Some(&Buffer::Length(SECTOR_BYTES)));
        }
        // Its pages have bytes, but they are written as they are where data has some.
        store.table.index = Some(Index::new(superblock.incarnation, superblock.table_pages()));
        store.superblock = superblock;
        store.events.push_back(Event::Opened(Vec::new()));
        Ok(store)
    }

    /// Begins to open the disk `disk` of `cluster`, which has `disk_sectors` sectors; says
    /// [`Event::Opened`] or [`Event::Refused`].
    pub fn open(config: StoreConfig, cluster: u128, disk: u16, disk_sectors: u64) -> JournalStore {
        let superblock = Superblock::unread();
        let recovery = Recovery {
            cluster,
            disk,
            disk_sectors,
            part: Part::Superblocks,
            bytes: vec![0; (SUPERBLOCKS * SECTOR) as usize],
            have: 0,
            unreadable: (BTreeSet::new(), 0),
            journal: Vec::new(),
            begun: Overlay::default(),
            candidates: BTreeMap::new(),
            last: LastCheckpoint::default(),
            known: (None, Vec::new()),
            waiting: 0,
            replayed: false,
            looked: false,
        };
        let mut store = JournalStore {
            config,
            journal: Journal::new(&superblock, config.bug),
            superblock,
            latest_kept: Timestamp::ZERO,
            reached: Reached::default(),
            found: Reached::default(),
            heard_since: Heard::new(),
            unpromised: super::others::NOTHING_PROMISED,
            life_written: 0,
            life_to_write: None,
            table: Table::new(config.table_pages),
            overlay: Overlay::default(),
            writes: BTreeMap::new(),
            reads: BTreeMap::new(),
            scans: BTreeMap::new(),
            checkpoint: None,
            verifying: super::verify::Verifying::default(),
            forgiving: super::others::Forgiving::Done,
            recovery: Some(recovery),
            loading: BTreeMap::new(),
            ios: BTreeMap::new(),
            next_io: 1,
            unlogged: 0,
            failed: false,
            out: Vec::new(),
            events: std::collections::VecDeque::new(),
            counters: StoreCounters::default(),
        };
        store.read_piece();
        store
    }

    /// The sectors of what is being read.
    fn part(&self) -> (u64, u64) {
        let sb = &self.superblock;
        match self.recovery.as_ref().expect("opening").part {
            Part::Superblocks => (0, SUPERBLOCKS),
            Part::Journal => (sb.journal_start(), sb.journal),
            Part::Index => (sb.index_start(), sb.index_pages()),
        }
    }

    /// Reads the next piece of it; goes on if there is none.
    fn read_piece(&mut self) {
        let have = self.recovery.as_ref().expect("opening").have;
        let (first, sectors) = self.part();
        let count = PIECE.min(sectors - have);
        if count == 0 {
            return self.part_read();
        }
        let at = first + have;
        self.read_recovery(at, count);
    }

    fn read_recovery(&mut self, at: u64, count: u64) {
        let op = DiskOp::Read { offset: at * SECTOR, len: count * SECTOR };
        self.start(Purpose::Recovery { at, count }, op);
    }

    /// Sectors read while opening arrived, or could not be read.
    pub(super) fn recovery_read(&mut self, at: u64, count: u64, result: DiskResult) {
        if result.is_err() && count > 1 {
            // One bad sector must not cost its neighbours: each is tried alone.
            return (at..at + count).for_each(|sector| self.read_recovery(sector, 1));
        }
        let first = self.part().0;
        let bytes = match result {
            Ok(data) => data.to_bytes(),
            Err(error) => return self.cannot_be_read(at, first, error),
        };
        let recovery = self.recovery.as_mut().expect("opening");
        recovery.have += count;
        // Of a journal that has hardly been used no more memory is touched than that takes.
        if bytes.iter().any(|b| *b != 0) {
            let from = ((at - first) * SECTOR) as usize;
            recovery.bytes[from..from + bytes.len()].copy_from_slice(&bytes);
        }
        self.go_on_reading();
    }

    fn go_on_reading(&mut self) {
        let alone = self.ios.values().all(|p| !matches!(p, Purpose::Recovery { .. }));
        if alone && !self.failed {
            self.read_piece();
        }
    }

    /// A sector of what is read while opening cannot be read. That may pass: where it is more than a few the disk
    /// is not opened, and nothing is written to it.
    fn cannot_be_read(&mut self, at: u64, first: u64, error: String) {
        let recovery = self.recovery.as_mut().expect("opening");
        recovery.have += 1;
        recovery.unreadable.1 += 1;
        let of_journal = recovery.part == Part::Journal;
        if of_journal {
            recovery.unreadable.0.insert(at - first);
        }
        if recovery.unreadable.1 > MOST_UNREADABLE || (of_journal && !self.superblock.has_index()) {
            return self.fail(error);
        }
        self.damaged(format!("sector {at} cannot be read: {error}"));
        self.go_on_reading();
    }

    /// All of it is here.
    fn part_read(&mut self) {
        let recovery = self.recovery.as_mut().expect("opening");
        let bytes = std::mem::take(&mut recovery.bytes);
        recovery.have = 0;
        match recovery.part {
            Part::Superblocks => match self.choose_superblock(&bytes) {
                Ok(sb) => self.take_superblock(sb),
                Err(why) => self.refuse(why),
            },
            Part::Journal => {
                recovery.journal = bytes;
                recovery.part = Part::Index;
                let pages = self.superblock.index_pages();
                self.recovery.as_mut().expect("opening").bytes = vec![0; (pages * SECTOR) as usize];
                self.read_piece();
            }
            Part::Index => {
                self.take_index(&bytes);
                self.replay();
            }
        }
    }

    fn take_superblock(&mut self, sb: Superblock) {
        self.journal = Journal::new(&sb, self.config.bug);
        (self.latest_kept, self.life_written) = (sb.latest, sb.life);
        let recovery = self.recovery.as_mut().expect("opening");
        recovery.part = Part::Journal;
        recovery.bytes = vec![0; (sb.journal * SECTOR) as usize];
        self.superblock = sb;
        self.read_piece();
    }

    fn take_index(&mut self, bytes: &[u8]) {
        if !self.superblock.has_index() {
            return;
        }
        let mut index = Index::new(self.superblock.incarnation, self.superblock.table_pages());
        for (number, page) in bytes.chunks_exact(SECTOR_BYTES).enumerate() {
            if let Some(wrong) = index.load(number as u64, page) {
                self.damaged(format!("page {number} of the table's index is damaged: {wrong}"));
            }
        }
        self.table.index = Some(index);
    }

    fn refuse(&mut self, why: FormatError) {
        self.failed = true;
        self.events.push_back(Event::Refused(why));
    }

    fn choose_superblock(&mut self, bytes: &[u8]) -> Result<Superblock, FormatError> {
        let copies = [0, 1].map(|place| {
            let at = place as usize * SECTOR_BYTES;
            Superblock::decode_copy(&bytes[at..at + SECTOR_BYTES], place)
        });
        let newest = copies.iter().flatten().max_by_key(|sb| sb.sequence);
        let Some(sb) = newest.cloned() else {
            let version = copies.into_iter().filter_map(Result::err);
            let clearest = version.max_by_key(|e| matches!(e, FormatError::Version(_)));
            return Err(clearest.expect("both failed"));
        };
        let r = self.recovery.as_ref().expect("opening");
        if sb.cluster != r.cluster {
            return Err(FormatError::Cluster { found: sb.cluster, expected: r.cluster });
        }
        if sb.disk != r.disk {
            return Err(FormatError::Disk { found: sb.disk, expected: r.disk });
        }
        if sb.sectors() > r.disk_sectors {
            return Err(FormatError::Truncated { expected: sb.sectors(), found: r.disk_sectors });
        }
        if copies.iter().any(Result::is_err) {
            self.damaged("a copy of the superblock is damaged; the other is used".to_string());
        }
        Ok(sb)
    }

    fn replay(&mut self) {
        let bytes = std::mem::take(&mut self.recovery.as_mut().expect("opening").journal);
        self.recovery.as_mut().expect("opening").replayed = true;
        let frames = self.find_frames(&bytes);
        let missing = self.superblock.tail_frame + frames.len() as u64;
        if let Some(later) = later_frame(self.superblock.incarnation, &bytes, missing) {
            if !self.superblock.has_index() {
                return self.refuse(FormatError::Hole { missing, later });
            }
            let what = format!(
                "frame {missing} of the journal is unreadable though frame {later} follows it"
            );
            self.forget_journal(frames, &bytes, what);
        } else if missing < self.superblock.durable_before {
            let what = format!("frame {missing} of the journal is not there, and has been");
            self.forget_journal(frames, &bytes, what);
        } else if let Some(sector) = self.ends_unreadable(&frames) {
            let what = format!(
                "sector {sector} of the journal cannot be read, and frame {missing} may begin there"
            );
            self.forget_journal(frames, &bytes, what);
        } else if self.index_is_old() {
            if let Some(index) = &mut self.table.index {
                index.forget_all();
            }
            let what = "the table's index is not the one that the superblock names".to_string();
            self.forget_journal(frames, &bytes, what);
        } else {
            // It may have died again before the index was written anew.
            if let Some(index) = self.table.index.as_mut().filter(|_| self.superblock.forgot) {
                index.forget_all();
            }
            if self.superblock.durable_before > 0 {
                self.table.numbers.upto = self.superblock.sequence;
            }
            self.count_on();
            for (at, head, entries) in frames {
                let prepares =
                    entries.iter().filter(|e| matches!(e, Entry::Prepare { .. })).count();
                self.journal.found(head.number, at, head.sectors(), prepares as u32);
                let payload = ((at + head.head_sectors) * SECTOR) as usize;
                self.replay_entries(head.number, entries, &bytes[payload..]);
            }
        }
        self.note_what_was_found();
        self.step_recovery();
    }

    /// The frames from the tail on, up to the first that is not whole.
    fn find_frames(&self, bytes: &[u8]) -> Vec<Found> {
        let sb = &self.superblock;
        let (mut at, mut number) = (sb.tail, sb.tail_frame);
        let frame_at = |at: u64, number: u64| {
            let from = (at * SECTOR) as usize;
            let (head, entries) = decode_frame(sb.incarnation, bytes.get(from..)?)?;
            (head.number == number).then_some((at, head, entries))
        };
        let mut frames = Vec::new();
        while let Some(found) = frame_at(at, number).or_else(|| frame_at(0, number)) {
            at = (found.0 + found.1.sectors()) % sb.journal;
            number += 1;
            frames.push(found);
        }
        frames
    }

    /// The sector after the last frame, if it cannot be read.
    fn ends_unreadable(&self, frames: &[Found]) -> Option<u64> {
        let unreadable = &self.recovery.as_ref().expect("opening").unreadable.0;
        let sb = &self.superblock;
        let end = frames.last().map_or(sb.tail, |(at, head, _)| at + head.sectors());
        // A frame may also begin anew at the ring's first sector, and have any sector that cannot be read in it.
        let after = [end % sb.journal.max(1), 0];
        let first = unreadable.iter().find(|s| after.contains(s) || **s >= end).copied();
        first.filter(|_| sb.has_index())
    }

    /// Whether the index, or a page of it, is older than the superblock, or damaged: then some pages of the table
    /// may be older copies without a trace.
    fn index_is_old(&self) -> bool {
        let sb = &self.superblock;
        self.table.index.as_ref().is_some_and(|i| !i.fits(sb.sequence, sb.index_sum))
    }

    /// Pages of the index may have been written by a checkpoint whose superblock was not. Its number is not used
    /// again; the next superblock takes the place of the older copy all the same.
    fn count_on(&mut self) {
        let Some(index) = &mut self.table.index else { return };
        let sb = &mut self.superblock;
        index.settle(sb.sequence);
        let ahead = index.latest().saturating_sub(sb.sequence);
        sb.sequence += ahead.next_multiple_of(SUPERBLOCKS);
    }

    /// The journal is damaged: what is in place is what this disk has, and it begins a new journal.
    fn forget_journal(&mut self, frames: Vec<Found>, bytes: &[u8], what: String) {
        // What was heard of others, and how late the disk's writes are, is true all the same.
        for entry in frames.into_iter().flat_map(|f| f.2) {
            match entry {
                Entry::Prepare { ts, .. } => {
                    self.superblock.latest = self.superblock.latest.max(ts);
                }
                Entry::Heard(_) | Entry::Life(_) => self.replay_entries(0, vec![entry], &[]),
                _ => {}
            }
        }
        let last = last_frame(self.superblock.incarnation, bytes);
        self.count_on();
        let sb = &mut self.superblock;
        sb.forgot = true;
        sb.tail = 0;
        sb.tail_frame = last.max(sb.tail_frame).max(sb.durable_before).saturating_add(1);
        self.journal = Journal::new(sb, self.config.bug);
        self.damaged(format!("{what}; what it had promised is forgotten"));
    }

    fn note_what_was_found(&mut self) {
        if self.keeps_heard() {
            self.found = Reached {
                disk: self.superblock.incarnation,
                life: self.superblock.life,
                frame: self.journal.last_frame(),
                sequence: self.superblock.sequence,
            };
            self.reached = self.found;
            self.heard_since.clear();
        }
    }

    fn replay_entries(&mut self, frame: u64, entries: Vec<Entry>, payload: &[u8]) {
        let mut at = 0;
        for entry in entries {
            match entry {
                Entry::Prepare { ts, meta, changes } => {
                    self.superblock.latest = self.superblock.latest.max(ts);
                    let changes = changes.iter().map(|h| change(h, payload, &mut at)).collect();
                    self.writes.insert(ts, Write::found(meta, changes, frame));
                }
                Entry::Outcome { ts, commit } => {
                    if self.writes.get(&ts).is_some_and(Write::is_undecided) {
                        self.decide(ts, commit);
                    }
                }
                Entry::Released { ts } => self.released(ts),
                Entry::Known { ts, meta } => {
                    let named = &mut self.recovery.as_mut().expect("opening").known;
                    named.0.get_or_insert(frame);
                    named.1.push(ts);
                    self.writes.entry(ts).or_insert_with(|| Write::known(meta));
                }
                Entry::Begin => {
                    let recovery = self.recovery.as_mut().expect("opening");
                    recovery.begun = self.overlay.clone();
                    recovery.known = (None, Vec::new());
                }
                Entry::Apply { sectors } => {
                    let recovery = self.recovery.as_mut().expect("opening");
                    recovery.last.sectors = sectors.iter().map(|a| a.sector).collect();
                    recovery.last.known = std::mem::take(&mut recovery.known);
                    sectors.into_iter().for_each(|a| self.replay_apply(a));
                }
                Entry::Heard(heard) => heard.into_iter().for_each(|(n, r)| self.hear(n, r)),
                Entry::Life(FORGOT) => self.superblock.forgot = true,
                Entry::Overtaken { ts, sectors } => {
                    if let Some(write) = self.writes.get_mut(&ts) {
                        write.overtaken_in(sectors);
                    }
                }
                Entry::Checkpoint(number) => {
                    self.table.numbers.applied.insert(number);
                }
                // A life begins when it is forgiven.
                Entry::Life(life) => {
                    self.superblock.forgot = false;
                    self.superblock.life = self.superblock.life.max(life);
                }
            }
        }
    }

    /// A checkpoint was about to place this sector.
    fn replay_apply(&mut self, applied: Applied) {
        let sector = applied.sector;
        self.superblock.latest = self.superblock.latest.max(applied.version);
        let recovery = self.recovery.as_mut().expect("opening");
        let mut chosen = Over::default();
        // Without a trace of what was chosen it is either done and gone from the journal, or
        // what an earlier step did not come to.
        if let Some(begun) = recovery.begun.get(sector) {
            let over = self.overlay.get_mut(sector);
            chosen = over.split_off_earlier(begun);
            if over.is_empty() {
                self.overlay.remove(sector);
            }
        }
        recovery.candidates.entry(sector).or_default().push((chosen, applied));
    }

    /// Goes on once the table pages of the candidates are there.
    pub(super) fn step_recovery(&mut self) {
        let Some(r) = &self.recovery else { return };
        if r.looked || !r.replayed {
            return;
        }
        // If the apply entry of a checkpoint was lost, the pages tell that it had put changes in place. All that it
        // put there is still in the journal.
        let changed = self.overlay.iter().filter(|(_, over)| !over.deltas.is_empty());
        let candidates = r.candidates.keys().copied();
        let pages: BTreeSet<u64> = candidates.chain(changed.map(|(s, _)| s)).map(page_of).collect();
        let mut all = true;
        for page in pages {
            all &= self.want_pages(page, page);
        }
        if all {
            self.look_at_candidates();
        }
    }

    fn look_at_candidates(&mut self) {
        let recovery = self.recovery.as_mut().expect("opening");
        recovery.looked = true;
        let candidates = std::mem::take(&mut recovery.candidates);
        for (sector, steps) in candidates {
            let entry = self.table.get(sector);
            let steps = self.drop_done(steps, |applied| entry == entry_of(applied));
            let Some((_, last)) = steps.last() else { continue };
            if steps.iter().any(|s| s.0.content.is_some()) {
                self.put_back(sector, steps);
            } else if last.state != State::Written as u8 {
                self.table.set(sector, entry_of(last));
                self.drop_done(steps, |_| true);
            } else {
                let recovery = self.recovery.as_mut().expect("opening");
                recovery.candidates.insert(sector, steps);
                recovery.waiting += 1;
                self.read_place(Purpose::Candidate { sector }, sector..sector + 1);
            }
        }
        self.finish_opening();
    }

    /// Leaves out the steps up to the last that is `done`.
    fn drop_done(
        &mut self,
        mut steps: Vec<(Over, Applied)>,
        done: impl Fn(&Applied) -> bool,
    ) -> Vec<(Over, Applied)> {
        let count = steps.iter().rposition(|s| done(&s.1)).map_or(0, |n| n + 1);
        let rest = steps.split_off(count);
        steps.iter().for_each(|s| self.unpin_all(s.0.names()));
        rest
    }

    /// A sector that has yet to be placed: by the last checkpoint, if that was to place it, or by another.
    fn put_back(&mut self, sector: u64, steps: Vec<(Over, Applied)>) {
        let last = &mut self.recovery.as_mut().expect("opening").last;
        let left = last.sectors.contains(&sector).then_some(&mut last.left);
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
    pub(super) fn candidate_read(&mut self, sector: u64, data: Option<Buffer>) {
        let recovery = self.recovery.as_mut().expect("opening");
        let steps = recovery.candidates.remove(&sector).expect("a candidate");
        recovery.waiting -= 1;
        let entry = self.table.get(sector);
        let crc = data.as_ref().map(Buffer::crc);
        let untouched = Base::of(&Over::default(), entry).content(|| data).is_some();
        let in_place = |a: &Applied| crc == Some(a.crc) && a.state == State::Written as u8;
        if let Some((_, applied)) = steps.iter().rfind(|s| in_place(&s.1)) {
            self.table.set(sector, entry_of(applied));
            let rest = self.drop_done(steps, in_place);
            self.put_back(sector, rest);
        } else if untouched {
            self.put_back(sector, steps);
        } else {
            let version = steps.last().expect("not empty").1.version;
            self.table.set(sector, TableEntry { version, crc: 0, state: State::Bad });
            self.counters.erasures += 1;
            self.drop_done(steps, |_| true);
        }
        self.finish_opening();
    }

    fn finish_opening(&mut self) {
        let done = self.recovery.as_ref().is_some_and(|r| r.looked && r.waiting == 0);
        if done {
            // What was found may not be safe yet: a process that died may have left it in a
            // cache. It must be before anything relies on it.
            self.start(Purpose::RecoveryFlush, DiskOp::Flush);
        }
    }

    /// Everything that was found is safe. A superblock is written, so that the number of a checkpoint that a crash
    /// has cut off is not used again: an older page of the table would pass for a newer one. Of a journal that is
    /// forgotten the disk must know, and not find its frames again; and what is damaged of the index is written
    /// anew, or it would be found again and again.
    pub(super) fn recovery_flushed(&mut self) {
        if !self.superblock.has_index() {
            return self.opened();
        }
        let next = self.superblock.sequence + 1;
        let pages = self.table.index.as_mut().map(|i| i.take_dirty(next)).unwrap_or_default();
        let start = self.superblock.index_start();
        let mut writes = self.write_pages(Purpose::RecoveryIndex, start, pages, true);
        // No frame that counts has such a sector in it: it is written, so that it can be read next time.
        let unreadable = self.recovery.as_ref().map(|r| r.unreadable.0.clone()).unwrap_or_default();
        let zeros: Vec<_> =
            unreadable.into_iter().map(|s| (s, Buffer::Zero(SECTOR_BYTES))).collect();
        let start = self.superblock.journal_start();
        writes += self.write_pages(Purpose::RecoveryIndex, start, zeros, true);
        if writes == 0 {
            self.write_superblock(Purpose::RecoverySuperblock, true);
        }
    }

    /// A run of pages of the index, or of sectors of the journal, has been written.
    pub(super) fn recovery_index_written(&mut self) {
        if self.ios.values().all(|p| *p != Purpose::RecoveryIndex) {
            self.write_superblock(Purpose::RecoverySuperblock, true);
        }
    }

    /// The disk is open.
    pub(super) fn opened(&mut self) {
        let last = self.recovery.take().expect("opening").last;
        self.table.numbers = Numbers::default();
        let open = self.writes.iter().filter(|(_, w)| w.is_undecided() || w.is_unreleased());
        let found = open.map(|(ts, w)| Recovered {
            ts: *ts,
            meta: w.meta.clone(),
            committed: !w.is_undecided(),
            ranges: w.changes().iter().map(Change::changed).collect(),
        });
        let found = found.collect();
        self.events.push_back(Event::Opened(found));
        if self.journal.used() > 0 {
            self.journal.found_known(last.known.0);
            self.end_last_checkpoint(last.left, last.known.1);
        }
    }
}

fn entry_of(a: &Applied) -> TableEntry {
    TableEntry { version: a.version, crc: a.crc, state: State::from_byte(a.state) }
}

fn change(head: &ChangeHead, payload: &[u8], at: &mut usize) -> Change {
    let bytes = head.count as usize * SECTOR_BYTES;
    let data = match head.crc {
        None => Buffer::Zero(bytes),
        Some(_) => {
            let from = *at;
            *at += bytes;
            Buffer::from(payload[from..from + bytes].to_vec())
        }
    };
    Change { sector: head.sector, kind: head.kind, data }
}

/// The highest number of any frame whose head can be read.
fn last_frame(incarnation: u64, bytes: &[u8]) -> u64 {
    let heads = bytes.chunks_exact(SECTOR_BYTES).filter_map(|s| decode_head(incarnation, s));
    heads.map(|h| h.0.number).max().unwrap_or(0)
}

/// A whole frame numbered above `number`, which is the first that could not be read.
fn later_frame(incarnation: u64, bytes: &[u8], number: u64) -> Option<u64> {
    (0..bytes.len() / SECTOR_BYTES).find_map(|n| {
        let here = &bytes[n * SECTOR_BYTES..];
        let later = decode_head(incarnation, here)?.0.number > number;
        (later && decode_frame(incarnation, here).is_some())
            .then(|| decode_head(incarnation, here).map(|h| h.0.number).expect("just decoded"))
    })
}
