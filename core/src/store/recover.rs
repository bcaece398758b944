//! Opening a disk, whatever state a crash left it in: superblock, replay of the journal, and
//! for sectors that a checkpoint was putting in place, a look at how far it came.

use std::collections::BTreeMap;

use super::format::{Applied, ChangeHead, Entry, JOURNAL_START, decode_frame, decode_head};
use super::overlay::{Over, Overlay};
use super::table::{State, Table, TableEntry, page_of};
use super::{
    Change, DiskOp, Event, FormatError, Journal, JournalStore, Purpose, Recovered, StoreConfig,
    StoreCounters, Superblock, Txn,
};
use crate::Buffer;
use crate::units::{SECTOR, SECTOR_BYTES, Timestamp};

const PIECE: u64 = 256;

#[derive(Clone, Hash)]
pub(super) struct Recovery {
    cluster: u128,
    disk: u16,
    disk_sectors: u64,
    /// As long as the journal; zeros where it is yet to be read.
    journal: Vec<u8>,
    /// Sectors of it that have been read.
    have: u64,
    /// What had committed when the last checkpoint began.
    begun: Overlay,
    /// Sectors that apply entries name: for each entry what it was to put in place, and the
    /// outcome of that. A crash may have come before an entry took effect, and the sector
    /// been taken up again by a later life's entry; only the table and the place tell.
    candidates: BTreeMap<u64, Vec<(Over, Applied)>>,
    /// Those whose place must be looked at.
    waiting: usize,
    looked: bool,
}

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
        (0..pages).for_each(|n| store.table.load(n, Some(&Buffer::Length(SECTOR_BYTES))));
        store.superblock = superblock;
        store.events.push_back(Event::Opened(Vec::new()));
        Ok(store)
    }

    /// Begins to open the disk `disk` of `cluster`, which has `disk_sectors` sectors; says
    /// [`Event::Opened`] or [`Event::Refused`].
    pub fn open(config: StoreConfig, cluster: u128, disk: u16, disk_sectors: u64) -> JournalStore {
        let superblock = Superblock {
            cluster,
            disk,
            incarnation: 0,
            journal: 0,
            data: 0,
            sequence: 0,
            tail: 0,
            tail_frame: 0,
            latest: Timestamp::ZERO,
        };
        let recovery = Recovery {
            cluster,
            disk,
            disk_sectors,
            journal: Vec::new(),
            have: 0,
            begun: Overlay::default(),
            candidates: BTreeMap::new(),
            waiting: 0,
            looked: false,
        };
        let mut store = JournalStore {
            config,
            journal: Journal::new(&superblock, config.bug),
            superblock,
            latest_kept: Timestamp::ZERO,
            table: Table::new(config.table_pages),
            overlay: Overlay::default(),
            txns: BTreeMap::new(),
            reads: BTreeMap::new(),
            scans: BTreeMap::new(),
            checkpoint: None,
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
        let op = DiskOp::Read { offset: 0, len: JOURNAL_START * SECTOR };
        store.start(Purpose::Recovery { at: 0 }, op);
        store
    }

    /// Something read while opening arrived; `at` is its first sector.
    pub(super) fn recovery_read(&mut self, at: u64, data: &Buffer) {
        let bytes = data.to_bytes();
        if self.superblock.sequence == 0 {
            match self.choose_superblock(&bytes) {
                Ok(sb) => {
                    let recovery = self.recovery.as_mut().expect("opening");
                    recovery.journal = vec![0; (sb.journal * SECTOR) as usize];
                    self.journal = Journal::new(&sb, self.config.bug);
                    self.latest_kept = sb.latest;
                    self.superblock = sb;
                    self.read_journal_piece();
                }
                Err(why) => self.refuse(why),
            }
        } else {
            debug_assert!(at < self.superblock.table_start());
            let recovery = self.recovery.as_mut().expect("opening");
            // Of a journal that has hardly been used no more memory is touched than that takes.
            if bytes.iter().any(|b| *b != 0) {
                let from = ((at - JOURNAL_START) * SECTOR) as usize;
                recovery.journal[from..from + bytes.len()].copy_from_slice(&bytes);
            }
            recovery.have += bytes.len() as u64 / SECTOR;
            self.read_journal_piece();
        }
    }

    fn refuse(&mut self, why: FormatError) {
        self.failed = true;
        self.events.push_back(Event::Refused(why));
    }

    fn choose_superblock(&self, bytes: &[u8]) -> Result<Superblock, FormatError> {
        let r = self.recovery.as_ref().expect("opening");
        let copies = [&bytes[..SECTOR_BYTES], &bytes[SECTOR_BYTES..]].map(Superblock::decode);
        let newest = copies.iter().flatten().max_by_key(|sb| sb.sequence);
        let Some(sb) = newest.cloned() else {
            let version = copies.into_iter().filter_map(Result::err);
            let clearest = version.max_by_key(|e| matches!(e, FormatError::Version(_)));
            return Err(clearest.expect("both failed"));
        };
        if sb.cluster != r.cluster {
            return Err(FormatError::Cluster { found: sb.cluster, expected: r.cluster });
        }
        if sb.disk != r.disk {
            return Err(FormatError::Disk { found: sb.disk, expected: r.disk });
        }
        if sb.sectors() > r.disk_sectors {
            return Err(FormatError::Truncated { expected: sb.sectors(), found: r.disk_sectors });
        }
        Ok(sb)
    }

    fn read_journal_piece(&mut self) {
        let have = self.recovery.as_ref().expect("opening").have;
        let count = PIECE.min(self.superblock.journal - have);
        if count == 0 {
            self.replay();
            return;
        }
        let at = JOURNAL_START + have;
        let op = DiskOp::Read { offset: at * SECTOR, len: count * SECTOR };
        self.start(Purpose::Recovery { at }, op);
    }

    fn replay(&mut self) {
        let bytes = std::mem::take(&mut self.recovery.as_mut().expect("opening").journal);
        let incarnation = self.superblock.incarnation;
        let (mut at, mut number) = (self.superblock.tail, self.superblock.tail_frame);
        let frame_at = |at: u64, number: u64| {
            let from = (at * SECTOR) as usize;
            let (head, entries) = decode_frame(incarnation, bytes.get(from..)?)?;
            (head.number == number).then_some((at, head, entries))
        };
        while let Some((found, head, entries)) =
            frame_at(at, number).or_else(|| frame_at(0, number))
        {
            let sectors = head.head_sectors + head.payload_sectors;
            let prepares = entries.iter().filter(|e| matches!(e, Entry::Prepare { .. })).count();
            self.journal.found(number, found, sectors, prepares as u32);
            let payload = ((found + head.head_sectors) * SECTOR) as usize;
            self.replay_entries(number, entries, &bytes[payload..]);
            at = (found + sectors) % self.superblock.journal;
            number += 1;
        }
        if let Some(later) = later_frame(incarnation, &bytes, number) {
            self.refuse(FormatError::Hole { missing: number, later });
            return;
        }
        self.step_recovery();
    }

    fn replay_entries(&mut self, frame: u64, entries: Vec<Entry>, payload: &[u8]) {
        let mut at = 0;
        for entry in entries {
            match entry {
                Entry::Prepare { ts, meta, changes } => {
                    self.superblock.latest = self.superblock.latest.max(ts);
                    let changes = changes.iter().map(|h| change(h, payload, &mut at)).collect();
                    self.txns.insert(ts, recovered(meta, changes, Some(frame)));
                }
                Entry::Outcome { ts, commit } => {
                    if self.txns.get(&ts).is_some_and(|t| !t.committed) {
                        self.decide(ts, commit);
                    }
                }
                Entry::Released { ts } => {
                    if let Some(txn) = self.txns.get_mut(&ts) {
                        txn.released = true;
                        if txn.remaining == 0 {
                            self.journal.unpin(txn.frame.take());
                            self.txns.remove(&ts);
                        }
                    }
                }
                Entry::Known { ts, meta } => {
                    let known = || Txn { committed: true, ..recovered(meta, Vec::new(), None) };
                    self.txns.entry(ts).or_insert_with(known);
                }
                Entry::Begin => {
                    self.recovery.as_mut().expect("opening").begun = self.overlay.clone();
                }
                Entry::Apply { sectors } => sectors.into_iter().for_each(|a| self.replay_apply(a)),
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
        if r.looked || self.superblock.sequence == 0 {
            return;
        }
        let pages: Vec<u64> = r.candidates.keys().map(|s| page_of(*s)).collect();
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
                let at = self.superblock.data_start() + sector;
                let op = DiskOp::Read { offset: at * SECTOR, len: SECTOR };
                self.start(Purpose::Candidate { sector }, op);
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

    /// A sector that has yet to be placed.
    fn put_back(&mut self, sector: u64, steps: Vec<(Over, Applied)>) {
        for (over, _) in steps.into_iter().rev().filter(|s| !s.0.is_empty()) {
            let superseded = self.overlay.get_mut(sector).underlay(over);
            self.unpin_all(superseded);
        }
    }

    /// A sector that was getting deltas: it has them, or has none or only the first of them
    /// yet, or is torn.
    pub(super) fn candidate_read(&mut self, sector: u64, data: Option<Buffer>) {
        let recovery = self.recovery.as_mut().expect("opening");
        let steps = recovery.candidates.remove(&sector).expect("a candidate");
        recovery.waiting -= 1;
        let entry = self.table.get(sector);
        let crc = data.map(|d| d.crc());
        let untouched =
            entry.state == State::Hole || (entry.state == State::Written && crc == Some(entry.crc));
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

    /// Everything that was found is safe: the disk is open.
    pub(super) fn opened(&mut self) {
        self.recovery = None;
        let open = self.txns.iter().filter(|(_, t)| !t.committed || !t.released);
        let found = open.map(|(ts, t)| Recovered {
            ts: *ts,
            meta: t.meta.clone(),
            committed: t.committed,
            ranges: t.changes.iter().map(|c| (c.sector, c.count() as u32, c.delta)).collect(),
        });
        let found = found.collect();
        self.events.push_back(Event::Opened(found));
    }
}

fn recovered(meta: Vec<u8>, changes: Vec<Change>, frame: Option<u64>) -> Txn {
    Txn {
        meta,
        changes,
        journaled: true,
        frame,
        prepared: true,
        committed: false,
        remaining: 0,
        released: false,
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
    Change { sector: head.sector, delta: head.delta, data }
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

impl JournalStore {
    /// The timestamps of writes that are prepared and undecided.
    pub fn undecided(&self) -> impl Iterator<Item = Timestamp> + '_ {
        self.txns.iter().filter(|(_, t)| !t.committed).map(|(ts, _)| *ts)
    }
}
