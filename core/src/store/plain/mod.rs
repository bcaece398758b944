//! A store without journal, table or checkpoints: every change is written where it belongs when
//! it is committed, in as few transfers as its sectors allow, and nothing else is. So work the
//! arrays of the papers; a crash in the middle of a write leaves it half done.
//!
//! Transfers that touch the same sectors take turns, in the order in which they were asked for.
//! What changes are added to (old parity) is read once and kept while there are undecided changes
//! of it: in whatever order they are decided, each is added to what the ones before it made.

mod turns;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

use smallvec::SmallVec;

use super::api::{HeldBack, Store};
use super::{
    Change, ChangeKind, DiskOp, DiskRequest, DiskResult, Event, PlainConfig, ReadDone, Scan,
    StoreCounters, Timestamp, Urgency,
};
use turns::Turns;

use crate::Buffer;
use crate::order::ByTime;
use crate::units::{SECTOR, SECTOR_BYTES};

/// A transfer that has been asked for.
#[derive(Clone, Debug, Hash)]
struct Job {
    purpose: Purpose,
    sectors: Range<u64>,
    /// What to write, until it runs.
    data: Option<Vec<Buffer>>,
    writes: bool,
    /// Whether others are in its way.
    waits: bool,
}

#[derive(Clone, Debug, Hash)]
enum Purpose {
    /// One transfer serves these reads.
    Read(Reads),
    Base,
    Place(Timestamp),
}

/// Reads, mostly one: tickets, and the sectors of each.
type Reads = SmallVec<[(u64, Range<u64>); 1]>;

/// Runs of sectors, mostly one.
type Runs = SmallVec<[Range<u64>; 1]>;

/// What a sector holds while changes that are to be added to it are undecided.
#[derive(Clone, Debug, Default, Hash)]
struct Base {
    content: Option<Buffer>,
    /// Writes that expect to change it, or have yet to be written.
    users: u32,
}

/// A write that has yet to be in place, or dropped.
#[derive(Clone, Debug, Default, Hash)]
struct PendingWrite {
    /// Sectors of whose bases it is a user.
    bases: Runs,
    /// It is prepared when these are here.
    vital: Runs,
    changes: Vec<Change>,
    stage: Stage,
    /// Transfers that have yet to end.
    left: u32,
}

impl PendingWrite {
    fn waits(&self) -> bool {
        matches!(self.stage, Stage::Preparing | Stage::Committed)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Stage {
    #[default]
    Expected,
    /// Its vote waits for its bases.
    Preparing,
    Prepared,
    /// Its transfers wait for its bases.
    Committed,
    Placing,
}

/// A store of one disk that keeps nothing but data.
#[derive(Clone, Hash)]
pub struct PlainStore {
    sectors: u64,
    config: PlainConfig,
    latest: Timestamp,
    txns: ByTime<Box<PendingWrite>>,
    /// Those of them that wait for their bases.
    unready: BTreeSet<Timestamp>,
    bases: BTreeMap<u64, Base>,
    /// The marking memory (AFRAID 1.1): sectors that are out of date, each since which write. It costs no transfer.
    marks: BTreeMap<u64, Timestamp>,
    /// The transfers that wait and those that run.
    turns: Turns,
    /// Reads asked for since the operations were last taken, to be put together.
    asked: Vec<(u64, Range<u64>)>,
    flushes: BTreeMap<u64, u64>,
    next: u64,
    out: Vec<DiskRequest>,
    events: VecDeque<Event>,
    counters: StoreCounters,
}

impl PlainStore {
    /// A store of so many sectors, open at once.
    pub fn new(sectors: u64, config: PlainConfig) -> PlainStore {
        PlainStore {
            sectors,
            config,
            latest: Timestamp::ZERO,
            txns: ByTime::default(),
            unready: BTreeSet::new(),
            bases: BTreeMap::new(),
            marks: BTreeMap::new(),
            turns: Turns::default(),
            asked: Vec::new(),
            flushes: BTreeMap::new(),
            next: 1,
            out: Vec::new(),
            events: VecDeque::from([Event::Opened(Vec::new())]),
            counters: StoreCounters::default(),
        }
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    /// Asks for a transfer: it starts when none before it is in its way.
    fn ask(&mut self, purpose: Purpose, sectors: Range<u64>, data: Option<Vec<Buffer>>) {
        let id = self.number();
        let writes = data.is_some();
        let waits = self.turns.is_barred(id, &sectors, writes);
        let mut job = Job { purpose, sectors, data, writes, waits };
        if !waits {
            self.begin(id, operation(&mut job));
        }
        self.turns.enter(id, job);
    }

    fn begin(&mut self, id: u64, op: DiskOp) {
        match op {
            DiskOp::Write { .. } => self.counters.disk_writes += 1,
            _ => self.counters.disk_reads += 1,
        }
        self.out.push(DiskRequest { id, op, urgency: Urgency::Awaited });
    }

    /// Becomes a user of what these sectors hold, and reads what of it is not here.
    fn use_bases(&mut self, ts: Timestamp, sectors: Range<u64>) {
        let mut missing: SmallVec<[u64; 8]> = SmallVec::new();
        for sector in sectors.clone() {
            let base = self.bases.entry(sector).or_default();
            if base.users == 0 {
                missing.push(sector);
            }
            base.users += 1;
        }
        for run in runs(&missing) {
            self.ask(Purpose::Base, run, None);
        }
        self.txns.get_or_insert(ts).bases.push(sectors);
    }

    fn has(&self, mut sectors: impl Iterator<Item = u64>) -> bool {
        sectors.all(|s| self.bases.get(&s).is_some_and(|b| b.content.is_some()))
    }

    fn drop_bases(&mut self, ranges: Runs) {
        for sector in ranges.into_iter().flatten() {
            let base = self.bases.get_mut(&sector).expect("a base in use");
            base.users -= 1;
            if base.users == 0 {
                self.bases.remove(&sector);
            }
        }
    }

    /// Those that waited for bases go on, in their order.
    fn step_all(&mut self) {
        if self.unready.is_empty() {
            return;
        }
        let list: Vec<Timestamp> = self.unready.iter().copied().collect();
        list.into_iter().for_each(|ts| self.step(ts));
    }

    fn step(&mut self, ts: Timestamp) {
        let txn = &self.txns[&ts];
        let deltas = txn.changes.iter().filter(|c| c.kind.is_delta());
        let is_ready = match txn.stage {
            Stage::Preparing => self.has(txn.vital.iter().cloned().flatten()),
            Stage::Committed => self.has(deltas.flat_map(Change::sectors)),
            Stage::Expected | Stage::Prepared | Stage::Placing => return,
        };
        if !is_ready {
            self.unready.insert(ts);
            return;
        }
        if !self.unready.is_empty() {
            self.unready.remove(&ts);
        }
        let txn = self.txns.get_mut(&ts).expect("just seen");
        if txn.stage == Stage::Preparing {
            txn.stage = Stage::Prepared;
            return self.events.push_back(Event::Prepared(ts));
        }
        self.place(ts);
    }

    /// Writes a committed change where it belongs; neighbours go in one transfer, if transfers coalesce.
    fn place(&mut self, ts: Timestamp) {
        let txn = self.txns.get_mut(&ts).expect("a committed write");
        txn.stage = Stage::Placing;
        let mut changes = std::mem::take(&mut txn.changes);
        changes.sort_by_key(|c| c.sector);
        let coalesces = self.config.coalesces;
        let mut jobs: SmallVec<[(Range<u64>, Vec<Buffer>); 1]> = SmallVec::new();
        for change in changes {
            self.mark(ts, &change);
            if change.kind.is_mark() {
                continue;
            }
            let pieces = self.contents(&change);
            match jobs.last_mut() {
                Some((sectors, data)) if coalesces && sectors.end == change.sector => {
                    sectors.end = change.sectors().end;
                    data.extend(pieces);
                }
                _ => jobs.push((change.sectors(), pieces)),
            }
        }
        if jobs.is_empty() {
            return self.is_placed(ts);
        }
        self.txns.get_mut(&ts).expect("just seen").left = jobs.len() as u32;
        // What was to be read before this must not see it.
        self.gather();
        for (sectors, data) in jobs {
            self.ask(Purpose::Place(ts), sectors, Some(data));
        }
    }

    /// What a change makes of its sectors, which others that are added to them will build on.
    fn contents(&mut self, change: &Change) -> Vec<Buffer> {
        if self.bases.range(change.sectors()).next().is_none() {
            return vec![change.data.clone()];
        }
        let mut whole = true;
        let mut pieces = Vec::with_capacity(change.count() as usize);
        for (n, sector) in change.sectors().enumerate() {
            let at = n * SECTOR_BYTES;
            let mut piece = change.data.slice(at, at + SECTOR_BYTES);
            if let Some(base) = self.bases.get_mut(&sector) {
                if change.kind.is_delta() {
                    let old = base.content.as_ref().expect("read before it is changed");
                    self.counters.added_bytes += SECTOR;
                    piece = sum(old, &piece);
                    whole = false;
                }
                base.content = Some(piece.clone());
            }
            pieces.push(piece);
        }
        if whole { vec![change.data.clone()] } else { pieces }
    }

    fn placed(&mut self, ts: Timestamp) {
        let txn = self.txns.get_mut(&ts).expect("a write being placed");
        txn.left -= 1;
        if txn.left == 0 {
            self.is_placed(ts);
        }
    }

    /// Marks sectors, or does so no more: content of a later write is up to date.
    fn mark(&mut self, ts: Timestamp, change: &Change) {
        match change.kind {
            ChangeKind::Delta | ChangeKind::Copy(_) | ChangeKind::Fold(_) => {}
            ChangeKind::Mark => change.sectors().for_each(|sector| {
                let mark = self.marks.entry(sector).or_default();
                *mark = ts.max(*mark);
            }),
            ChangeKind::Content => change.sectors().for_each(|sector| {
                if self.marks.get(&sector).is_some_and(|mark| *mark < ts) {
                    self.marks.remove(&sector);
                }
            }),
        }
    }

    /// All of a write is in place.
    fn is_placed(&mut self, ts: Timestamp) {
        let txn = self.txns.remove(&ts).expect("just seen");
        self.drop_bases(txn.bases);
        self.events.push_back(Event::Placed(ts));
    }

    /// Puts together the reads that have been asked for since: those that follow one another on
    /// the disk, or nearly, are one operation, if transfers coalesce.
    #[inline]
    fn gather(&mut self) {
        if !self.asked.is_empty() {
            self.gather_asked();
        }
    }

    #[inline(never)]
    fn gather_asked(&mut self) {
        if self.asked.len() == 1 {
            let alone = Reads::from_iter(self.asked.pop());
            return self.ask_group(alone);
        }
        let mut asked = std::mem::take(&mut self.asked);
        asked.sort_by_key(|(_, r)| r.start);
        let mut group = Reads::new();
        for (ticket, range) in asked {
            let end = group.iter().map(|(_, r)| r.end).max();
            if end.is_some_and(|end| !self.config.coalesces || range.start > end + self.config.gap)
            {
                self.ask_group(std::mem::take(&mut group));
            }
            group.push((ticket, range));
        }
        self.ask_group(group);
    }

    fn ask_group(&mut self, group: Reads) {
        let Some(first) = group.first().map(|(_, r)| r.start) else { return };
        let end = group.iter().map(|(_, r)| r.end).max().expect("just seen");
        self.ask(Purpose::Read(group), first..end, None);
    }

    fn read_done(&mut self, group: Reads, first: u64, data: &Buffer) {
        for (ticket, range) in group {
            let at = |sector: u64| ((sector - first) * SECTOR) as usize;
            let erased: Vec<u64> = self.marks.range(range.clone()).map(|(s, _)| *s).collect();
            let done = ReadDone {
                ticket,
                data: data.slice(at(range.start), at(range.end)),
                versions: Vec::new(),
                erased,
                damaged: Vec::new(),
                raced: false,
                deferred: false,
            };
            self.events.push_back(Event::Read(done));
        }
    }

    fn base_done(&mut self, sectors: Range<u64>, data: &Buffer) {
        for (n, sector) in sectors.enumerate() {
            if let Some(base) = self.bases.get_mut(&sector)
                && base.content.is_none()
            {
                let at = n * SECTOR_BYTES;
                base.content = Some(data.slice(at, at + SECTOR_BYTES));
            }
        }
        self.step_all();
    }
}

/// What the disk does for a transfer.
fn operation(job: &mut Job) -> DiskOp {
    let Range { start, end } = job.sectors;
    match job.data.take() {
        Some(data) => DiskOp::Write { offset: start * SECTOR, data, durable: true },
        None => DiskOp::Read { offset: start * SECTOR, len: (end - start) * SECTOR },
    }
}

/// Numbers in ascending order as ranges.
fn runs(numbers: &[u64]) -> Runs {
    let mut out = Runs::new();
    for n in numbers {
        match out.last_mut() {
            Some(run) if run.end == *n => run.end += 1,
            _ => out.push(*n..n + 1),
        }
    }
    out
}

fn sum(a: &Buffer, b: &Buffer) -> Buffer {
    match (a, b) {
        (Buffer::Zero(_), other) | (other, Buffer::Zero(_)) => other.clone(),
        (Buffer::Length(len), _) | (_, Buffer::Length(len)) => Buffer::Length(*len),
        (Buffer::Bytes(_), Buffer::Bytes(_)) => {
            let mut bytes = a.to_bytes().to_vec();
            b.add_to(&mut bytes, 1);
            bytes.into()
        }
    }
}

impl Store for PlainStore {
    fn data_sectors(&self) -> u64 {
        self.sectors
    }

    fn incarnation(&self) -> u64 {
        1
    }

    fn latest(&self) -> Timestamp {
        self.latest
    }

    fn most_bytes(&self) -> u64 {
        u64::MAX
    }

    fn counters(&self) -> StoreCounters {
        self.counters
    }

    fn added_bytes(&self) -> u64 {
        self.counters.added_bytes
    }

    fn read(&mut self, ticket: u64, first: u64, count: u64) {
        assert!(count > 0 && first + count <= self.sectors, "read {first}+{count}");
        self.asked.push((ticket, first..first + count));
    }

    /// It keeps no versions: every sector may have been written at any time, also before it was opened.
    fn scan(&mut self, ticket: u64, first: u64, count: u64, what: Scan) {
        let (all, latest) = (first..first + count, self.latest.max(Timestamp(1)));
        let found = match what {
            Scan::Marked => self.marks.range(all).map(|(s, ts)| (*s, *ts)).collect(),
            _ => all.map(|s| (s, latest)).collect(),
        };
        self.events.push_back(Event::Scanned(ticket, found));
    }

    fn expect(&mut self, ts: Timestamp, first: u64, count: u64, vital: bool) {
        self.use_bases(ts, first..first + count);
        if vital {
            self.txns.get_or_insert(ts).vital.push(first..first + count);
        }
    }

    fn keeps_meta(&self) -> bool {
        false
    }

    fn prepare(&mut self, ts: Timestamp, _: Vec<u8>, changes: Vec<Change>, _: bool) {
        self.latest = self.latest.max(ts);
        let expected = self.txns.get_mut(&ts).map(|t| t.bases.clone()).unwrap_or_default();
        for change in changes.iter().filter(|c| c.kind.is_delta()) {
            let known = |s: &u64| expected.iter().any(|r| r.contains(s));
            let rest: SmallVec<[u64; 8]> = change.sectors().filter(|s| !known(s)).collect();
            runs(&rest).into_iter().for_each(|run| self.use_bases(ts, run));
        }
        let txn = self.txns.get_or_insert(ts);
        assert_eq!(txn.stage, Stage::Expected, "prepared twice: {ts}");
        txn.changes = changes;
        txn.stage = Stage::Preparing;
        self.step(ts);
    }

    fn outcome(&mut self, ts: Timestamp, commit: bool) {
        if !commit {
            return self.forget(ts);
        }
        let txn = self.txns.get_mut(&ts).expect("an outcome is for a prepared write");
        assert_eq!(txn.stage, Stage::Prepared, "committed before it was prepared: {ts}");
        txn.stage = Stage::Committed;
        self.step(ts);
    }

    fn forget(&mut self, ts: Timestamp) {
        if let Some(txn) = self.txns.remove(&ts) {
            self.unready.remove(&ts);
            self.drop_bases(txn.bases);
        }
    }

    fn release(&mut self, _: Timestamp) {}

    fn flush(&mut self, ticket: u64) {
        let id = self.number();
        self.flushes.insert(id, ticket);
        self.out.push(DiskRequest { id, op: DiskOp::Flush, urgency: Urgency::Awaited });
    }

    fn is_queued(&self, _: Timestamp) -> bool {
        false
    }

    fn waits_for_room(&self, _: Timestamp) -> bool {
        false
    }

    fn is_quiet(&self) -> bool {
        self.turns.is_empty() && self.asked.is_empty()
    }

    fn waiting(&self) -> String {
        let (running, waiting) = self.turns.count();
        format!("{running} transfers, {waiting} waiting")
    }

    fn held_bytes(&self) -> u64 {
        self.bases.len() as u64 * SECTOR
    }

    fn checkpoint(&mut self, _: bool, _: HeldBack<'_>) {}

    fn oldest_abort(&self) -> Option<Timestamp> {
        None
    }

    fn flush_outcomes(&mut self) {}

    /// Transfers take turns, and each base is held as often as writes use it.
    fn check_sums(&self) {
        self.turns.check();
        let mut users = BTreeMap::<u64, u32>::new();
        for sector in self.txns.values().flat_map(|t| t.bases.iter().cloned().flatten()) {
            *users.entry(sector).or_default() += 1;
        }
        let held = self.bases.iter().map(|(sector, base)| (sector, &base.users));
        assert!(held.eq(&users), "bases are held for the writes that add to them: {users:?}");
        let unready = |ts: &Timestamp| self.txns.get(ts).is_some_and(|t| t.waits());
        assert!(self.unready.iter().all(unready), "a write waits for its bases that does not");
    }

    fn take_ops(&mut self) -> Vec<DiskRequest> {
        self.gather();
        std::mem::take(&mut self.out)
    }

    fn move_ops(&mut self, to: &mut Vec<DiskRequest>) {
        self.gather();
        if !self.out.is_empty() {
            to.append(&mut self.out);
        }
    }

    fn done(&mut self, id: u64, result: DiskResult) {
        if let Some(ticket) = self.flushes.remove(&id) {
            return self.events.push_back(match result {
                Ok(_) => Event::Flushed(ticket),
                Err(error) => Event::Failed(error),
            });
        }
        let Some((job, next)) = self.turns.leave(id) else { return };
        let data = match result {
            Ok(data) => data,
            Err(error) => return self.events.push_back(Event::Failed(error)),
        };
        match job.purpose {
            Purpose::Read(group) => self.read_done(group, job.sectors.start, &data),
            Purpose::Base => self.base_done(job.sectors, &data),
            Purpose::Place(ts) => self.placed(ts),
        }
        for id in next {
            let job = self.turns.of(id).expect("it waited for its turn");
            let op = operation(job);
            self.begin(id, op);
        }
    }

    fn poll(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn has_events(&self) -> bool {
        !self.events.is_empty()
    }
}

#[cfg(test)]
mod tests;
