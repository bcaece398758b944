//! The worker: drives its disk's store, derives its own cells of every plan, and relies on
//! the other workers to derive theirs.
//!
//! - this file: a write from the first message until it is handed to the store
//! - [`cells`]: executing one cell of a plan
//! - [`outcome`]: votes, and from prepared to forgotten
//! - [`settling`]: what became of a write whose messages did not come
//! - [`memory`]: what became of hosts' requests, for hosts that ask again
//! - [`meta`]: what the journal keeps of a write besides its content
//! - [`ordering`]: who may go on at this disk
//! - [`reading`]: reads and scans
//! - [`catchup`]: what this disk missed
//! - [`life`]: ticks, epochs, and what the store has to say

mod catchup;
mod cells;
mod life;
mod memory;
mod meta;
mod ordering;
mod outcome;
mod reading;
mod settling;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use super::outbox::Outbox;
use super::pace::Pace;
use super::settle::{Inquiry, Verdict};
use super::{
    Body, Header, Item, NodeConfig, Notice, Output, Recollection, Refusal, Standing, Task,
};
use crate::cluster::{ClusterMap, Volume};
use crate::node::catchup::{Aside, Catchup};
use crate::node::task::Cast;
use crate::order::{Admission, Asker, LockTable, Ordering, Verdict as Admitted};
use crate::plan::{Commit, Destination, Range as VolumeRange, Role, Sending, Span};
use crate::store::{
    AnyStore, Change, ChangeKind, Changed, Event, JournalStore, PlainStore, Recovered, Superblock,
};
use crate::units::{Epoch, Nanos, NodeId, SECTOR, Timestamp, VolumeId};

use catchup::DirtyScan;
use cells::Cell;
use memory::{Memory, Recalling};
use ordering::{Before, Entrance, Waiting};
use reading::ReadJob;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    /// Cells are being executed.
    Working,
    /// The store is making the changes durable.
    Preparing,
    Prepared,
    Committed {
        safe: bool,
    },
}

/// A write as this participant sees it.
#[derive(Clone, Hash)]
struct Txn {
    epoch: Epoch,
    volume: VolumeId,
    extent: usize,
    column: usize,
    journal: bool,
    /// Whether it is written without waiting for the others.
    alone: bool,
    originator: NodeId,
    /// Who takes part, in column order.
    participants: Vec<(usize, NodeId)>,
    /// In the order of stripes.
    cells: Vec<Cell>,
    /// How many of them have more to do before the write is prepared.
    unfinished: usize,
    /// Nothing has been done for it yet.
    new: bool,
    /// What it changes.
    ranges: Vec<Changed>,
    /// The bytes of the volume that it writes; everything if that is not known any more.
    writes: VolumeRange,
    /// How the volume's requests are ordered.
    ordering: Ordering,
    /// It has had to wait for another.
    delayed: bool,
    /// Whether it copies from, or to, another disk.
    copies: bool,
    /// Whose request it is part of, if it is to be remembered.
    asker: Option<Asker>,
    phase: Phase,
    hops: u8,
    /// Its originator has been told that something here waits for its outcome.
    awaited: bool,
    /// Who said that it committed.
    told_by: Option<NodeId>,
    /// The originator knows the outcome, or is gone.
    heard: bool,
    since: Nanos,
}

#[derive(Clone, Debug, Hash)]
enum Ticket {
    Read { ts: Timestamp, run: usize },
    Cell { ts: Timestamp, cell: usize, part: usize },
    Flush { to: NodeId, id: u64 },
    Holes { ts: Timestamp, run: usize },
    Dirty,
    Own,
    Recall(Recalling),
}

/// What a worker shows to others at once.
#[derive(Default)]
struct Shares(BTreeMap<NodeId, (Role, Vec<Item>)>);

/// A part of a column to be put back: volume, stripe, column, bytes of the unit.
pub(crate) type Rebuild = (VolumeId, u64, usize, Span);

/// What a write covers if it is not known.
const EVERYTHING: VolumeRange = VolumeRange { offset: 0, len: u64::MAX };

/// Whether two ranges have a sector in common.
fn share_sectors(a: VolumeRange, b: VolumeRange) -> bool {
    let first = |r: VolumeRange| r.offset / SECTOR;
    let end = |r: VolumeRange| r.offset.saturating_add(r.len).div_ceil(SECTOR);
    first(a) < end(b) && first(b) < end(a)
}

/// A node's worker.
#[derive(Clone, Hash)]
pub(crate) struct Worker {
    node: NodeId,
    config: NodeConfig,
    map: Arc<ClusterMap>,
    pub store: AnyStore,
    admission: Admission,
    /// Locks on this disk, of volumes that are ordered so.
    locks: LockTable<Timestamp>,
    waiting: BTreeMap<Timestamp, Waiting>,
    lock_timer_is_set: bool,
    /// Those whose turn has come and that have not gone on yet.
    granted: Vec<Timestamp>,
    /// Locks of reads that were answered, and when.
    lent: BTreeMap<Timestamp, Nanos>,
    txns: BTreeMap<Timestamp, Txn>,
    reads: BTreeMap<Timestamp, ReadJob>,
    tickets: BTreeMap<u64, Ticket>,
    next_ticket: u64,
    /// Writes that this disk will not take part in any more.
    fenced: BTreeSet<Timestamp>,
    /// What has happened of requests whose hosts may ask again.
    memory: Memory,
    /// By how much its node's clock is ahead of the cluster's time, if it is wrong.
    pub clock_is_ahead: Nanos,
    /// When to look for what is old enough to be forgotten.
    forgets_at: Nanos,
    inquiries: BTreeMap<Timestamp, Inquiry>,
    open: bool,
    catchup: Catchup,
    /// Who is behind and has asked what was written to which extents.
    dirty_asked: BTreeMap<NodeId, Vec<(VolumeId, usize)>>,
    dirty_scan: Option<DirtyScan>,
    rebuilds: Vec<Rebuild>,
    /// Stripes that may have been written in part by a host that is gone.
    half_written: BTreeSet<(VolumeId, u64)>,
    /// The time of the first epoch that it entered; zero before.
    began: Timestamp,
    /// Writes of this epoch come after this.
    floor: Timestamp,
    rebuilding: BTreeSet<(VolumeId, u64)>,
    /// Those that count as begun at the rate that is kept to, also if they are asked for again.
    paced: BTreeSet<(VolumeId, u64)>,
    pace: Pace,
    /// What it looked like when it was last looked what is to be rebuilt: how often what is stale had
    /// changed, whether there was room to hold more, whether hosts used the disk. Open if it is to be
    /// looked at anew.
    looked: Aside<Option<(u64, (bool, bool))>>,
    /// Writes without journal that brought stale sectors up to date and may not be in place yet.
    freshening: BTreeSet<Timestamp>,
    /// Something that others may wait for has changed.
    wake: bool,
    /// Writes, and reads, that look again then: they waited for earlier writes to be decided when they were last
    /// looked at. Some are over by now.
    stalled: BTreeSet<Timestamp>,
    stalled_reads: BTreeSet<Timestamp>,
    commits: u64,
    commits_at_tick: u64,
    ticks_busy: u32,
    /// Parts of hosts' requests since the last tick, and whether there were any before it.
    host_parts: u64,
    hosts_busy: bool,
    shares_sent: u64,
    pub rebuilt_sectors: u64,
}

impl Worker {
    pub fn new(node: NodeId, cluster: u128, disk_sectors: u64, config: NodeConfig) -> Worker {
        Worker {
            node,
            config,
            map: Arc::new(ClusterMap::default()),
            store: store(node, cluster, disk_sectors, &config),
            admission: Admission::default(),
            locks: LockTable::default(),
            waiting: BTreeMap::new(),
            lock_timer_is_set: false,
            granted: Vec::new(),
            lent: BTreeMap::new(),
            txns: BTreeMap::new(),
            reads: BTreeMap::new(),
            tickets: BTreeMap::new(),
            next_ticket: 1,
            fenced: BTreeSet::new(),
            memory: Memory::default(),
            clock_is_ahead: 0,
            forgets_at: 0,
            inquiries: BTreeMap::new(),
            open: false,
            catchup: Catchup::default(),
            dirty_asked: BTreeMap::new(),
            dirty_scan: None,
            rebuilds: Vec::new(),
            half_written: BTreeSet::new(),
            began: Timestamp::ZERO,
            floor: Timestamp::ZERO,
            rebuilding: BTreeSet::new(),
            paced: BTreeSet::new(),
            pace: Pace::default(),
            looked: Aside(None),
            freshening: BTreeSet::new(),
            wake: false,
            stalled: BTreeSet::new(),
            stalled_reads: BTreeSet::new(),
            commits: 0,
            commits_at_tick: 0,
            ticks_busy: 0,
            host_parts: 0,
            hosts_busy: false,
            shares_sent: 0,
            rebuilt_sectors: 0,
        }
    }

    fn ticket(&mut self, what: Ticket) -> u64 {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.tickets.insert(ticket, what);
        ticket
    }

    /// Whether anything is in work or has yet to be put in place.
    pub fn is_busy(&self) -> bool {
        let behind = self.catchup.is_behind();
        let asked = self.dirty_scan.is_some() || !self.dirty_asked.is_empty();
        let idle = self.txns.is_empty() && self.reads.is_empty() && self.store.is_quiet();
        !idle || behind || asked
    }

    /// What is in work, in words.
    pub fn waiting(&self) -> String {
        format!(
            "{} writes unsettled, {} reads, {}",
            self.txns.len(),
            self.reads.len(),
            self.store.waiting()
        )
    }

    /// Most bytes that a write may have so that every disk can journal its part. One without a disk
    /// of its own goes by the smallest that there may be.
    pub fn most_bytes(&self) -> u64 {
        match self.config.store.plain.is_none() && self.store.data_sectors() == 0 {
            true => Superblock::LEAST_JOURNAL * SECTOR / 4,
            false => self.store.most_bytes(),
        }
    }

    /// Whether the disk is open.
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// The oldest write that is not settled everywhere. One that has only begun counts: what its disk
    /// still has to do for it is done also while the node is frozen, and when the node enters the new
    /// epoch the write may be prepared. So does one that was aborted, until that is safe: after a crash it is
    /// prepared again, and who knew nothing of it may have no say by then.
    pub fn oldest_unsettled(&self) -> Option<Timestamp> {
        let begun = self.config.counts_begun_writes();
        let counts = |t: &Txn| begun || !matches!(t.phase, Phase::Working | Phase::Preparing);
        let open = self.txns.iter().find(|(_, t)| counts(t)).map(|(ts, _)| *ts);
        open.into_iter().chain(self.store.oldest_abort()).min()
    }

    /// The latest write that it has begun and not forgotten: perhaps of an originator whose clock is ahead
    /// of all others', and not prepared yet.
    pub fn latest_begun(&self) -> Timestamp {
        self.txns.keys().next_back().copied().unwrap_or_default()
    }

    /// The writes that it has begun and not forgotten. One that it may still drop, or that has
    /// yet to become durable, is busy.
    pub fn writes(&self) -> impl Iterator<Item = (Timestamp, Standing)> + '_ {
        self.txns.iter().map(|(ts, txn)| {
            let standing = match txn.phase {
                Phase::Working | Phase::Preparing => Standing::Busy,
                Phase::Prepared => Standing::Prepared,
                Phase::Committed { safe } => Standing::Committed { safe },
            };
            (*ts, standing)
        })
    }

    pub fn take_rebuilds(&mut self) -> Vec<Rebuild> {
        std::mem::take(&mut self.rebuilds)
    }

    pub fn take_half_written(&mut self) -> BTreeSet<(VolumeId, u64)> {
        std::mem::take(&mut self.half_written)
    }

    /// A write without votes is left behind by its originator: others may have written their parts.
    fn leave_behind(&mut self, ts: Timestamp) {
        let txn = &self.txns[&ts];
        let Some(volume) = self.map.volumes.get(&txn.volume) else { return };
        if !txn.alone || txn.writes == EVERYTHING || !volume.geometry.is_redundant() {
            return;
        }
        let stripes = txn.writes.stripes(&volume.geometry);
        self.half_written.extend(stripes.map(|stripe| (txn.volume, stripe)));
    }

    /// Whether what it has of a sector may be of no use.
    #[cfg(test)]
    pub fn is_stale(&self, sector: u64) -> bool {
        self.catchup.is_stale(sector..sector + 1)
    }

    /// Sectors yet to be caught up on; `None` until known.
    pub fn stale_sectors(&self) -> Option<u64> {
        self.catchup.stale_sectors()
    }

    /// A write, or data for it, arrived.
    pub fn on_part(
        &mut self,
        from: NodeId,
        header: Header,
        items: Vec<Item>,
        told: bool,
        outbox: &mut Outbox,
    ) {
        let ts = header.ts;
        debug_assert!(
            ts > self.floor,
            "{ts} is from before this epoch, which began at {}",
            self.floor
        );
        debug_assert!(!told || from == ts.originator());
        if self.fenced.contains(&ts)
            || (!self.txns.contains_key(&ts) && !self.begin(&header, outbox))
        {
            return;
        }
        let txn = self.txns.get_mut(&ts).expect("just begun");
        if txn.phase != Phase::Working {
            return;
        }
        txn.hops = txn.hops.max(outbox.hops);
        let mut touched = Vec::with_capacity(items.len());
        for item in items {
            if let Ok(n) = txn.cells.binary_search_by_key(&item.stripe, |c| c.row.stripe) {
                txn.cells[n].execution.take(item.part, item.data);
                touched.push(n);
            }
        }
        if std::mem::take(&mut txn.new) {
            self.step(ts, outbox);
        } else {
            touched.sort_unstable();
            touched.dedup();
            self.step_cells(ts, touched.into_iter(), outbox);
        }
    }

    /// Takes up a write, if it is not too late for it.
    fn begin(&mut self, header: &Header, outbox: &mut Outbox) -> bool {
        let Some(volume) = self.map.volumes.get(&header.volume).cloned() else { return false };
        let (g, task) = (&volume.geometry, &header.task);
        if !task.fits(&volume) {
            return false;
        }
        let stripe = task.first_stripe(&volume);
        let extent = volume.extent(stripe);
        let originator = header.ts.originator();
        let cast = Cast { volume: &volume, extent: volume.extent_of(stripe), originator };
        let coordinator = cast.node(Role::Coordinator).expect("every task has one");
        let Some(role) = cast.role_of(self.node, task) else { return false };
        let Ok(plan) = task.plan(&volume, header.avoid) else { return false };
        let cells = plan.rows.iter().map(|row| Cell::new(&volume, *header, *row, role));
        let cells: Vec<Cell> = cells.filter(|c| !c.execution.cell().is_idle()).collect();
        let (Role::Column(column) | Role::Source(column)) = role else { return false };
        let node_of = |c: usize| (c, extent.columns[c].0);
        let participants: Vec<_> = plan.participants(g).iter().map(node_of).collect();
        let accesses: Vec<_> = cells.iter().flat_map(Cell::accesses).collect();
        let ranges = cells.iter().flat_map(Cell::writes).collect();
        let txn = Txn {
            epoch: self.map.epoch,
            volume: header.volume,
            extent: volume.extent_of(stripe),
            column,
            // What is put back can be put back again: until it is in place the map, or the table,
            // says that it is missing. But parity that is copied must be there if a change that
            // comes on top of it is.
            journal: volume.policy.is_journaled()
                && match header.task {
                    Task::Write(_) => true,
                    Task::Rebuild { .. } => false,
                    Task::Copy { .. } => cells.iter().any(Cell::is_parity),
                },
            alone: !volume.policy.commit.is_voted(),
            originator: coordinator,
            participants,
            unfinished: cells.len(),
            cells,
            new: true,
            ranges,
            writes: match header.task {
                Task::Write(range) => range,
                Task::Rebuild { .. } | Task::Copy { .. } => EVERYTHING,
            },
            ordering: volume.policy.ordering,
            delayed: false,
            copies: matches!(header.task, Task::Copy { .. }),
            // Without votes what one has done says nothing of the others.
            asker: header.asker.filter(|_| volume.policy.commit.is_voted()),
            phase: Phase::Working,
            hops: 0,
            awaited: false,
            told_by: None,
            heard: false,
            since: outbox.now,
        };
        self.host_parts += u64::from(matches!(header.task, Task::Write(_)));
        if let Some(asker) = header.asker {
            self.memory.hear(asker);
        }
        let vital = volume.policy.commit == Commit::Late;
        for Changed { sectors, .. } in txn.ranges.iter().filter(|r| r.kind.is_delta()) {
            self.store.expect(header.ts, sectors.start, sectors.end - sectors.start, vital);
        }
        let entrance = self.admit(header.ts, txn.ordering, accesses, outbox);
        self.txns.insert(header.ts, txn);
        if let Entrance::Late(latest) = entrance {
            self.refuse(header.ts, Refusal::Late(latest), outbox);
            return false;
        }
        true
    }

    /// Executes whatever can be executed of a write.
    fn step(&mut self, ts: Timestamp, outbox: &mut Outbox) {
        let Some(txn) = self.txns.get(&ts) else { return };
        self.step_cells(ts, 0..txn.cells.len(), outbox);
    }

    /// Executes whatever can be executed of some cells of a write, and if that was all there was
    /// to do, prepares it.
    fn step_cells(
        &mut self,
        ts: Timestamp,
        cells: impl Iterator<Item = usize> + Clone,
        outbox: &mut Outbox,
    ) {
        let works = self.txns.get(&ts).is_some_and(|t| t.phase == Phase::Working);
        if !works || self.waits_for_locks(ts) {
            return;
        }
        let mut shares = Shares::default();
        for n in cells.clone() {
            if let Err(refusal) = self.start_read(ts, n, outbox) {
                self.refuse(ts, refusal, outbox);
                return;
            }
            self.send_share(ts, n, &mut shares, outbox);
        }
        let txn = self.txns.get_mut(&ts).expect("just seen");
        for n in cells {
            let cell = &mut txn.cells[n];
            if !cell.is_finished && cell.execution.is_done() {
                cell.is_finished = true;
                txn.unfinished -= 1;
            }
            outbox.counters.xor_bytes += cell.execution.take_added();
            if cell.execution.must_read() {
                self.stalled.insert(ts);
            }
        }
        if let Some(header) = txn.cells.first().map(|c| c.header) {
            for (node, (to, items)) in shares.0 {
                outbox.send_after(node, Body::Part { header, to, items }, 2);
            }
        }
        if txn.unfinished > 0 {
            return;
        }
        let mut undecided = self.undecided_below(ts);
        undecided.extend(self.undecided_before_copy(ts));
        if !undecided.is_empty() || self.copies_too_early(ts) {
            self.hasten(undecided, outbox);
            self.stalled.insert(ts);
            return;
        }
        let txn = self.txns.get_mut(&ts).expect("just seen");
        let copies = txn.copies;
        let mut changes: Vec<_> = txn.cells.iter_mut().flat_map(Cell::changes).collect();
        if copies && !changes.is_empty() {
            let (column, part) = self.txns[&ts].cells[0].whole();
            let lost = |c: &Change| c.sectors().any(|s| self.catchup.is_lost(s));
            if changes.iter().any(lost) {
                // It was here, and is lost: then no other disk has it.
                let refusal = Refusal::Erased { column, parts: vec![part], behind: false };
                return self.refuse(ts, refusal, outbox);
            }
            changes = self.still_missing(changes);
            if changes.is_empty() {
                return self.refuse(ts, Refusal::Aborted, outbox);
            }
        }
        let txn = self.txns.get_mut(&ts).expect("just seen");
        if changes.is_empty() {
            // It only had something to show to the others. Its lock is the originator's to give back.
            self.txns.remove(&ts);
            self.lend(ts, outbox.now);
            return;
        }
        txn.phase = Phase::Preparing;
        let (meta, journal) = (meta::encode(txn), txn.journal);
        txn.cells.clear();
        self.store.prepare(ts, meta, changes, journal);
    }

    /// The writes on top of whose parity a write would go, and which are still undecided.
    ///
    /// What changes parity was computed from what the data columns had. One of them may not have
    /// heard of an earlier write whose parity this disk has prepared, or know that it did not
    /// happen; and if those who know fail, it may yet happen here. So nothing is put on top of
    /// new parity, and no change on top of a change of the same data, until that is decided.
    fn undecided_below(&self, ts: Timestamp) -> BTreeSet<Timestamp> {
        let txn = &self.txns[&ts];
        if txn.ordering == Ordering::None {
            return BTreeSet::new();
        }
        let overlaps = |earlier: &Txn, range: &Range<u64>| {
            let meets = |r: &Changed| r.sectors.start < range.end && range.start < r.sectors.end;
            earlier.volume == txn.volume
                && !matches!(earlier.phase, Phase::Committed { .. })
                && share_sectors(earlier.writes, txn.writes)
                && earlier.ranges.iter().any(meets)
        };
        let below = |Changed { sectors, kind }: Changed| {
            let range = sectors.clone();
            let same_data = move |e: &Timestamp| {
                kind.is_delta() && self.txns.get(e).is_some_and(|t| overlaps(t, &range))
            };
            let changes = self.admission.earlier_unresolved(ts, sectors.clone()).filter(same_data);
            let waits = self.config.waits_for_undecided_content();
            let content = self.admission.earlier_content(ts, sectors).filter(move |_| waits);
            content.chain(changes)
        };
        let parity = txn.cells.iter().filter(|c| c.is_parity());
        parity.flat_map(Cell::writes).flat_map(below).collect()
    }

    /// The writes from before a copy that are undecided where it is to go: it comes from a disk that knows
    /// nothing of them.
    fn undecided_before_copy(&self, ts: Timestamp) -> Vec<Timestamp> {
        let txn = &self.txns[&ts];
        let cells = txn.cells.iter().filter(|_| txn.copies);
        let before = |c: Changed| self.admission.earlier_unresolved(ts, c.sectors);
        cells.flat_map(Cell::writes).flat_map(before).collect()
    }

    /// Whether a copy must wait because this disk does not know yet what it has.
    fn copies_too_early(&self, ts: Timestamp) -> bool {
        self.txns[&ts].copies && self.catchup.is_asking()
    }

    /// Of a copy, what has not been written since by anyone else.
    fn still_missing(&self, changes: Vec<Change>) -> Vec<Change> {
        let mut out = Vec::new();
        for change in changes {
            for (n, sector) in change.sectors().enumerate() {
                if self.catchup.is_stale(sector..sector + 1) {
                    let at = n * SECTOR as usize;
                    let data = change.data.slice(at, at + SECTOR as usize);
                    out.push(Change { sector, kind: ChangeKind::Content, data });
                }
            }
        }
        out
    }

    /// While a column is copied to this disk no change goes on top of what is not there yet: it
    /// is copied first, so that no redundancy is lost on the way.
    fn refuse_change_of_missing(&self, cell: &Cell) -> Result<(), Refusal> {
        let extent = self.map.volumes.get(&cell.header.volume).map(|v| v.extent(cell.row.stripe));
        let copied = extent.is_some_and(|e| e.leaving.contains_key(&cell.column));
        let missing = |c: &Changed| c.kind.is_delta() && self.catchup.is_stale(c.sectors.clone());
        match cell.writes().find(missing).filter(|_| copied) {
            None => Ok(()),
            Some(Changed { sectors, .. }) => {
                let part = cell.span_of(sectors);
                let column = cell.column;
                let parts = vec![(cell.row.stripe, part)];
                Err(Refusal::Erased { column, parts, behind: true })
            }
        }
    }

    fn start_read(&mut self, ts: Timestamp, n: usize, outbox: &mut Outbox) -> Result<(), Refusal> {
        let txn = &self.txns[&ts];
        let cell = &txn.cells[n];
        self.refuse_change_of_missing(cell)?;
        if !cell.execution.must_read() {
            return Ok(());
        }
        let ranges: Vec<Range<u64>> = cell.read_ranges().collect();
        let ordering = txn.ordering;
        match self.before_read(ts, ordering, ranges.iter().cloned()) {
            Before::Nothing => {}
            Before::Later(later) => return Err(Refusal::Late(later)),
            Before::Undecided => {
                self.hasten_before(ts, ordering, ranges, outbox);
                let txn = self.txns.get_mut(&ts).expect("just seen");
                if !std::mem::replace(&mut txn.delayed, true) {
                    outbox.push(Output::Delayed(ts.originator()));
                }
                return Ok(());
            }
        }
        if let Some(stale) = ranges.iter().find(|r| self.catchup.is_stale((*r).clone())) {
            let part = cell.span_of(stale.clone());
            return Err(Refusal::Erased {
                column: cell.column,
                parts: vec![(cell.row.stripe, part)],
                behind: true,
            });
        }
        self.txns.get_mut(&ts).expect("just seen").cells[n].execution.reading(ranges.len());
        for (part, range) in ranges.into_iter().enumerate() {
            let ticket = self.ticket(Ticket::Cell { ts, cell: n, part });
            self.store.read(ticket, range.start, range.end - range.start);
        }
        Ok(())
    }

    /// Goes on with a cell as far as that can be, and sends what it has to show. What takes no read goes
    /// together with that of other stripes: all of it is ready when the write begins.
    fn send_share(&mut self, ts: Timestamp, n: usize, shares: &mut Shares, outbox: &mut Outbox) {
        let txn = self.txns.get_mut(&ts).expect("just seen");
        for sending in txn.cells[n].advance() {
            self.send_part(ts, n, sending, shares, outbox);
        }
    }

    fn send_part(
        &mut self,
        ts: Timestamp,
        n: usize,
        sending: Sending,
        shares: &mut Shares,
        outbox: &mut Outbox,
    ) {
        let cell = &self.txns[&ts].cells[n];
        let Sending { to, part, mut data } = sending;
        let is_share = matches!(cell.execution.cell().at, Role::Column(_));
        if let (Destination::Columns(_), true) = (to, is_share) {
            self.shares_sent += 1;
            data = self.config.share(self.shares_sent, data);
        }
        let (header, cast) = (cell.header, cell.cast());
        let item = Item { stripe: cell.row.stripe, part, data };
        let waits = !cell.execution.cell().reads().is_empty();
        for to in to.roles() {
            let node = cast.node(to).expect("a role in this plan");
            match matches!(to, Role::Column(_)) && !waits {
                true => shares.0.entry(node).or_insert((to, Vec::new())).1.push(item.clone()),
                // It was asked for by the originator, the first message; what came for other rows
                // meanwhile is no part of this chain.
                false => {
                    let items = vec![item.clone()];
                    outbox.send_after(node, Body::Part { header, to, items }, 2);
                }
            }
        }
    }

    /// This disk cannot do its part.
    fn refuse(&mut self, ts: Timestamp, refusal: Refusal, outbox: &mut Outbox) {
        let txn = &self.txns[&ts];
        let vote = Body::Vote { ts, column: txn.column, vote: Err(refusal) };
        outbox.send(txn.originator, vote);
        self.drop_txn(ts);
    }

    /// Forgets an undecided write and takes no part in it any more.
    fn drop_txn(&mut self, ts: Timestamp) {
        let Some(txn) = self.txns.remove(&ts) else { return };
        debug_assert!(!matches!(txn.phase, Phase::Committed { .. }));
        for Changed { sectors, .. } in &txn.ranges {
            self.admission.resolve(ts, sectors.clone(), false);
        }
        if matches!(txn.phase, Phase::Preparing | Phase::Prepared) {
            self.store.outcome(ts, false);
        } else {
            self.store.forget(ts);
        }
        self.unlock(ts);
        self.fenced.insert(ts);
        self.inquiries.remove(&ts);
        self.wake = true;
    }
}

fn store(node: NodeId, cluster: u128, sectors: u64, config: &NodeConfig) -> AnyStore {
    match config.store.plain {
        Some(gap) => AnyStore::Plain(Box::new(PlainStore::new(sectors, gap))),
        None if sectors == 0 => AnyStore::Plain(Box::new(PlainStore::new(0, 0))),
        None => AnyStore::Journal(Box::new(match config.store.full {
            Some(journal) => JournalStore::full(config.store, node.0, sectors, journal)
                .expect("a disk that is simulated has room for its journal"),
            None => JournalStore::open(config.store, cluster, node.0, sectors),
        })),
    }
}

/// The sectors that hold these bytes of a unit which begins at sector `base`.
fn sectors(base: u64, span: Span) -> Range<u64> {
    let out = span.sectors_out();
    base + out.lo / SECTOR..base + out.hi / SECTOR
}
