//! The worker: drives its disk's store, derives its own cells of every plan, and relies on
//! the other workers to derive theirs.
//!
//! - this file: transactions from the first message to the release
//! - [`cells`]: executing one cell of a plan
//! - [`reading`]: reads, scans and catching up

#[path = "worker_cells.rs"]
mod cells;
#[path = "worker_reading.rs"]
mod reading;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use super::catchup::Catchup;
use super::outbox::Outbox;
use super::settle::{Inquiry, Verdict};
use super::{Body, Bug, Header, Item, NodeConfig, Notice, Output, Refusal, Standing, Task};
use crate::cluster::{ClusterMap, Volume};
use crate::order::{Access, Admission, Verdict as Admitted};
use crate::plan::{Commit, Span, WritePlan};
use crate::store::{Event, Recovered, Store};
use crate::units::{Epoch, Nanos, NodeId, SECTOR, Timestamp, VolumeId};

use cells::Cell;
use reading::{DirtyScan, ReadJob};

/// Where a participant's vote goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Collector {
    Me,
    Node(NodeId),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
struct Txn {
    epoch: Epoch,
    volume: VolumeId,
    extent: usize,
    column: usize,
    journal: bool,
    collector: Collector,
    originator: NodeId,
    /// Who takes part, in column order.
    participants: Vec<(usize, NodeId)>,
    cells: Vec<Cell>,
    /// First sector, sectors, whether a delta.
    ranges: Vec<(u64, u64, bool)>,
    /// It is ready to be prepared once earlier writes are decided.
    waits: bool,
    phase: Phase,
    hops: u8,
    votes: BTreeSet<usize>,
    acks: BTreeSet<NodeId>,
    /// Who said that it committed.
    told_by: Option<NodeId>,
    /// The originator knows the outcome, or is gone.
    heard: bool,
    since: Nanos,
}

#[derive(Clone, Copy, Debug)]
enum Ticket {
    Read { ts: Timestamp, run: usize },
    Cell { ts: Timestamp, cell: usize, part: usize },
    Flush { to: NodeId, id: u64 },
    Holes { ts: Timestamp, run: usize },
    Dirty,
    Own,
}

/// A part of a column to be put back: volume, stripe, column, bytes of the unit.
pub(crate) type Rebuild = (VolumeId, u64, usize, Span);

/// A node's worker.
pub(crate) struct Worker {
    node: NodeId,
    config: NodeConfig,
    map: Arc<ClusterMap>,
    pub store: Store,
    admission: Admission,
    txns: BTreeMap<Timestamp, Txn>,
    reads: BTreeMap<Timestamp, ReadJob>,
    tickets: BTreeMap<u64, Ticket>,
    next_ticket: u64,
    /// Writes that this disk will not take part in any more.
    fenced: BTreeSet<Timestamp>,
    inquiries: BTreeMap<Timestamp, Inquiry>,
    open: bool,
    catchup: Catchup,
    dirty_asked: Vec<(NodeId, Timestamp)>,
    dirty_scan: Option<DirtyScan>,
    rebuilds: Vec<Rebuild>,
    rebuilding: BTreeSet<(VolumeId, u64)>,
    /// Something that others may wait for has changed.
    wake: bool,
    commits: u64,
    commits_at_tick: u64,
    ticks_busy: u32,
    deltas_sent: u64,
    pub rebuilt_sectors: u64,
}

impl Worker {
    pub fn new(node: NodeId, cluster: u128, disk_sectors: u64, config: NodeConfig) -> Worker {
        Worker {
            node,
            config,
            map: Arc::new(ClusterMap::default()),
            store: Store::open(config.store, cluster, node.0, disk_sectors),
            admission: Admission::default(),
            txns: BTreeMap::new(),
            reads: BTreeMap::new(),
            tickets: BTreeMap::new(),
            next_ticket: 1,
            fenced: BTreeSet::new(),
            inquiries: BTreeMap::new(),
            open: false,
            catchup: Catchup::Fresh,
            dirty_asked: Vec::new(),
            dirty_scan: None,
            rebuilds: Vec::new(),
            rebuilding: BTreeSet::new(),
            wake: false,
            commits: 0,
            commits_at_tick: 0,
            ticks_busy: 0,
            deltas_sent: 0,
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
        let behind =
            !matches!(self.catchup, Catchup::Fresh | Catchup::Known { reported: true, .. });
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

    /// Whether the disk is open.
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// The oldest write that is not settled everywhere.
    pub fn oldest_unsettled(&self) -> Option<Timestamp> {
        let settled = |t: &&Txn| !matches!(t.phase, Phase::Working);
        self.txns.iter().find(|(_, t)| settled(t)).map(|(ts, _)| *ts)
    }

    /// Whether this worker collects the votes of a write.
    pub fn collects(&self, ts: Timestamp) -> bool {
        self.txns.get(&ts).is_some_and(|t| t.collector == Collector::Me)
    }

    pub fn take_rebuilds(&mut self) -> Vec<Rebuild> {
        std::mem::take(&mut self.rebuilds)
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
        for item in items {
            if let Some(cell) = txn.cells.iter_mut().find(|c| c.row.stripe == item.stripe) {
                cell.take(item);
            }
        }
        self.step(ts, outbox);
    }

    /// Takes up a write, if it is not too late for it.
    fn begin(&mut self, header: &Header, outbox: &mut Outbox) -> bool {
        let Some(volume) = self.map.volumes.get(&header.volume).cloned() else { return false };
        let g = &volume.geometry;
        let (plan, stripe) = match header.task {
            Task::Write(range) => {
                (WritePlan::new(g, range, header.avoid, volume.policy), range.stripes(g).start)
            }
            Task::Rebuild { stripe, column, part } => {
                (WritePlan::rebuild(g, stripe, column, part, header.avoid), stripe)
            }
        };
        let extent = volume.extent(stripe);
        let (Ok(plan), Some(column)) = (plan, extent.column_of(self.node)) else { return false };
        let cells: Vec<Cell> = plan
            .rows
            .iter()
            .map(|row| Cell::new(&volume, *header, *row, column))
            .filter(|c| !c.plan.is_idle())
            .collect();
        let node_of = |c: usize| (c, extent.columns[c].0);
        let participants: Vec<_> = plan.participants(g).iter().map(node_of).collect();
        let collector = match plan.collector(g) {
            Some(c) if c == column => Collector::Me,
            Some(c) => Collector::Node(extent.columns[c].0),
            None => Collector::Node(header.ts.originator()),
        };
        let accesses: Vec<_> = cells.iter().flat_map(Cell::accesses).collect();
        let ranges = cells.iter().flat_map(Cell::writes).collect();
        let txn = Txn {
            epoch: self.map.epoch,
            volume: header.volume,
            extent: volume.extent_of(stripe),
            column,
            journal: volume.policy.journal && volume.policy.commit == Commit::Late,
            collector,
            originator: header.ts.originator(),
            participants,
            cells,
            ranges,
            waits: false,
            phase: Phase::Working,
            hops: 0,
            votes: BTreeSet::new(),
            acks: BTreeSet::new(),
            told_by: None,
            heard: false,
            since: outbox.now,
        };
        let verdict = self.admission.admit(header.ts, &accesses);
        self.txns.insert(header.ts, txn);
        if let Admitted::Rejected(latest) = verdict {
            self.refuse(header.ts, Refusal::Late(latest), outbox);
            return false;
        }
        true
    }

    /// Executes whatever can be executed of a write.
    fn step(&mut self, ts: Timestamp, outbox: &mut Outbox) {
        let Some(txn) = self.txns.get(&ts) else { return };
        if txn.phase != Phase::Working {
            return;
        }
        for n in 0..txn.cells.len() {
            if let Err(refusal) = self.start_read(ts, n) {
                self.refuse(ts, refusal, outbox);
                return;
            }
            self.send_share(ts, n, outbox);
        }
        let txn = self.txns.get_mut(&ts).expect("just seen");
        if !txn.cells.iter_mut().all(|c| c.finish()) {
            return;
        }
        // What changes parity was computed from what the data columns had. One of them may not
        // have heard of an earlier write whose new parity this disk has prepared, and if it
        // fails that write may still happen: so until it is decided nothing is put on top.
        let admission = &self.admission;
        let on_top = |w: (u64, u64, bool)| admission.has_earlier_content(ts, w.0..w.0 + w.1);
        txn.waits = txn.cells.iter().any(|c| c.is_parity() && c.writes().any(on_top));
        if txn.waits {
            return;
        }
        let changes: Vec<_> = txn.cells.iter_mut().flat_map(Cell::changes).collect();
        if changes.is_empty() {
            // It only had something to show to the others.
            self.txns.remove(&ts);
            return;
        }
        txn.phase = Phase::Preparing;
        let (meta, journal) = (encode_meta(txn), txn.journal);
        txn.cells.clear();
        self.store.prepare(ts, meta, changes, journal);
    }

    fn start_read(&mut self, ts: Timestamp, n: usize) -> Result<(), Refusal> {
        let cell = &self.txns[&ts].cells[n];
        if !cell.must_read() {
            return Ok(());
        }
        let ranges: Vec<Range<u64>> = cell.read_ranges().collect();
        let ignore = self.config.bug == Some(Bug::StaleRead);
        if !ignore && ranges.iter().any(|r| self.admission.must_wait(ts, r.clone())) {
            return Ok(());
        }
        let passed = ranges.iter().map(|r| self.admission.latest_committed(r.clone())).max();
        if let Some(later) = passed.filter(|l| *l > ts && !ignore) {
            return Err(Refusal::Late(later));
        }
        if let Some(stale) = ranges.iter().find(|r| self.catchup.is_stale((*r).clone())) {
            let part = cell.span_of(stale.clone());
            return Err(Refusal::Erased {
                column: cell.column,
                parts: vec![(cell.row.stripe, part)],
            });
        }
        self.txns.get_mut(&ts).expect("just seen").cells[n].reading(ranges.len());
        for (part, range) in ranges.into_iter().enumerate() {
            let ticket = self.ticket(Ticket::Cell { ts, cell: n, part });
            self.store.read(ticket, range.start, range.end - range.start);
        }
        Ok(())
    }

    /// Sends what a cell has to show, once it can be computed.
    fn send_share(&mut self, ts: Timestamp, n: usize, outbox: &mut Outbox) {
        let txn = self.txns.get_mut(&ts).expect("just seen");
        let Some((to_parities, item)) = txn.cells[n].share() else { return };
        let cell = &txn.cells[n];
        let header = cell.header;
        // It was asked for by the originator, the first message; what came for other rows
        // meanwhile is no part of this chain.
        let hops = 2;
        if !to_parities {
            let body = Body::Part { header, items: vec![item] };
            outbox.send_after(ts.originator(), body, hops);
            return;
        }
        self.deltas_sent += 1;
        if self.config.bug == Some(Bug::LostDelta) && self.deltas_sent.is_multiple_of(50) {
            // The bug: the parity columns get zeros where the delta should be.
            let zeros = Item { data: crate::Buffer::Zero(item.data.len()), ..item };
            for to in cell.parity_nodes() {
                outbox.send_after(to, Body::Part { header, items: vec![zeros.clone()] }, hops);
            }
            return;
        }
        for to in cell.parity_nodes() {
            outbox.send_after(to, Body::Part { header, items: vec![item.clone()] }, hops);
        }
    }

    /// This disk cannot do its part.
    fn refuse(&mut self, ts: Timestamp, refusal: Refusal, outbox: &mut Outbox) {
        let txn = &self.txns[&ts];
        let (collector, column, originator) = (txn.collector, txn.column, txn.originator);
        match collector {
            Collector::Me => self.abort_all(ts, refusal, originator, outbox),
            Collector::Node(node) => {
                outbox.send(node, Body::Vote { ts, column, vote: Err(refusal) });
                self.drop_txn(ts);
            }
        }
    }

    /// As collector: tells the participants and the originator that it will not happen.
    fn abort_all(
        &mut self,
        ts: Timestamp,
        refusal: Refusal,
        originator: NodeId,
        outbox: &mut Outbox,
    ) {
        for (_, node) in self.txns[&ts].participants.clone() {
            if node != self.node {
                outbox.notice(node, Notice::Abort(ts));
            }
        }
        outbox.hurry();
        outbox.send(originator, Body::Done { ts, result: Err(refusal) });
        self.drop_txn(ts);
    }

    /// Forgets an undecided write and takes no part in it any more.
    fn drop_txn(&mut self, ts: Timestamp) {
        let Some(txn) = self.txns.remove(&ts) else { return };
        debug_assert!(!matches!(txn.phase, Phase::Committed { .. }));
        for (sector, count, _) in &txn.ranges {
            self.admission.resolve(ts, *sector..sector + count, false);
        }
        if matches!(txn.phase, Phase::Preparing | Phase::Prepared) {
            self.store.outcome(ts, false);
        }
        self.fenced.insert(ts);
        self.inquiries.remove(&ts);
        self.wake = true;
    }

    fn on_prepared(&mut self, ts: Timestamp, outbox: &mut Outbox) {
        let Some(txn) = self.txns.get_mut(&ts) else { return };
        txn.phase = Phase::Prepared;
        txn.since = outbox.now;
        let column = txn.column;
        if txn.epoch != self.map.epoch {
            // Those who asked meanwhile were told to wait.
            let mut asked: BTreeSet<NodeId> = txn.participants.iter().map(|p| p.1).collect();
            asked.remove(&self.node);
            asked.insert(txn.originator);
            for node in asked.into_iter().filter(|n| self.map.is_up(*n)) {
                outbox.send(node, Body::Answer { ts, standing: Standing::Prepared });
            }
            self.inquire(ts, outbox);
            return;
        }
        match txn.collector {
            Collector::Me => {
                txn.votes.insert(column);
                self.count_votes(ts, outbox);
            }
            Collector::Node(node) => {
                let hops = txn.hops + 1;
                outbox.send_after(node, Body::Vote { ts, column, vote: Ok(()) }, hops);
            }
        }
    }

    /// A vote for a write whose votes this worker collects.
    pub fn on_vote(
        &mut self,
        ts: Timestamp,
        column: usize,
        vote: Result<(), Refusal>,
        outbox: &mut Outbox,
    ) {
        let Some(txn) = self.txns.get_mut(&ts) else { return };
        if matches!(txn.phase, Phase::Committed { .. }) || txn.epoch != self.map.epoch {
            return;
        }
        txn.hops = txn.hops.max(outbox.hops);
        match vote {
            Ok(()) => {
                txn.votes.insert(column);
                self.count_votes(ts, outbox);
            }
            Err(refusal) => {
                let originator = txn.originator;
                self.abort_all(ts, refusal, originator, outbox);
            }
        }
    }

    fn count_votes(&mut self, ts: Timestamp, outbox: &mut Outbox) {
        let txn = &self.txns[&ts];
        let needed = txn.participants.iter().filter(|p| !txn.votes.contains(&p.0)).count();
        let early = self.config.bug == Some(Bug::AnswerBeforeLastVote);
        if early && needed == 1 {
            let hops = txn.hops + 1;
            outbox.send_after(txn.originator, Body::Done { ts, result: Ok(()) }, hops);
        }
        if needed > 0 || txn.phase != Phase::Prepared {
            return;
        }
        let (originator, journal, hops) = (txn.originator, txn.journal, txn.hops + 1);
        for (_, node) in txn.participants.clone() {
            if node != self.node {
                outbox.notice(node, Notice::Commit(ts));
            }
        }
        self.commit(ts, None, outbox);
        if journal {
            outbox.send_after(originator, Body::Done { ts, result: Ok(()) }, hops);
        } else {
            outbox.hurry();
        }
    }

    /// The write happened.
    fn commit(&mut self, ts: Timestamp, told_by: Option<NodeId>, outbox: &mut Outbox) {
        let txn = self.txns.get_mut(&ts).expect("a known write");
        assert_eq!(txn.phase, Phase::Prepared, "committed without being prepared: {ts}");
        txn.phase = Phase::Committed { safe: false };
        txn.told_by = told_by;
        txn.since = outbox.now;
        let ranges = std::mem::take(&mut txn.ranges);
        self.store.outcome(ts, true);
        // A write from before this node was away makes nothing fresh: others came after it.
        let makes_fresh = self.has_say(ts);
        for (sector, count, delta) in ranges {
            self.admission.resolve(ts, sector..sector + count, true);
            if !delta && makes_fresh {
                self.rebuilt_sectors += self.catchup.wrote(sector..sector + count);
            }
        }
        self.inquiries.remove(&ts);
        self.commits += 1;
        self.wake = true;
        outbox.want_soon();
    }

    /// Told that a write happened.
    pub fn on_commit(&mut self, from: NodeId, ts: Timestamp, outbox: &mut Outbox) {
        match self.txns.get(&ts).map(|t| t.phase) {
            Some(Phase::Prepared) => self.commit(ts, Some(from), outbox),
            Some(Phase::Committed { safe: false }) => {
                self.txns.get_mut(&ts).expect("just seen").told_by = Some(from);
            }
            Some(Phase::Committed { safe: true }) | None => outbox.notice(from, Notice::Ack(ts)),
            // Nobody commits a write that is not prepared here, unless this disk has no say.
            Some(Phase::Working | Phase::Preparing) => {}
        }
    }

    /// Told that a write did not happen.
    pub fn on_abort(&mut self, ts: Timestamp, _outbox: &mut Outbox) {
        match self.txns.get(&ts).map(|t| t.phase) {
            Some(Phase::Committed { .. }) => {}
            Some(_) => self.drop_txn(ts),
            None => drop(self.fenced.insert(ts)),
        }
    }

    /// Told that everyone knows of a commit.
    pub fn on_release(&mut self, ts: Timestamp) {
        if matches!(self.txns.get(&ts).map(|t| t.phase), Some(Phase::Committed { .. })) {
            self.txns.remove(&ts);
            self.inquiries.remove(&ts);
            self.store.release(ts);
            // A message that comes twice must not begin it again.
            self.fenced.insert(ts);
        }
    }

    /// A participant knows the outcome for good.
    pub fn on_ack(&mut self, from: NodeId, ts: Timestamp, outbox: &mut Outbox) {
        let Some(txn) = self.txns.get_mut(&ts) else { return };
        if txn.collector == Collector::Me && matches!(txn.phase, Phase::Committed { .. }) {
            txn.acks.insert(from);
            self.count_acks(ts, outbox);
        }
    }

    fn count_acks(&mut self, ts: Timestamp, outbox: &mut Outbox) {
        let txn = &self.txns[&ts];
        if !txn.participants.iter().all(|p| txn.acks.contains(&p.1)) {
            return;
        }
        if !txn.journal && !txn.heard {
            let hops = txn.hops + 3;
            outbox.send_after(txn.originator, Body::Done { ts, result: Ok(()) }, hops);
        }
        if !txn.heard {
            return;
        }
        for (_, node) in &txn.participants {
            if *node != self.node {
                outbox.notice(*node, Notice::Release(ts));
            }
        }
        self.on_release(ts);
    }

    /// The originator knows the outcome of a write whose votes this worker collected.
    pub fn on_heard(&mut self, ts: Timestamp, outbox: &mut Outbox) {
        let Some(txn) = self.txns.get_mut(&ts) else { return };
        if matches!(txn.phase, Phase::Committed { .. }) {
            txn.heard = true;
            if txn.collector == Collector::Me {
                self.count_acks(ts, outbox);
            }
        }
    }

    /// Whether the originator still asks after a write.
    pub fn on_query_reply(&mut self, ts: Timestamp, waiting: bool, outbox: &mut Outbox) {
        if let Some(txn) = self.txns.get_mut(&ts)
            && !waiting
        {
            txn.heard = true;
            self.judge(ts, outbox);
        }
    }

    /// The outcome of a write is safe on this disk.
    fn on_outcome_safe(&mut self, ts: Timestamp, outbox: &mut Outbox) {
        let Some(txn) = self.txns.get_mut(&ts) else { return };
        let Phase::Committed { safe } = &mut txn.phase else { return };
        *safe = true;
        let me = self.node;
        if txn.collector == Collector::Me {
            txn.acks.insert(me);
            self.count_acks(ts, outbox);
        } else if let Some(node) = txn.told_by {
            outbox.notice(node, Notice::Ack(ts));
            if !txn.journal {
                outbox.hurry();
            }
        }
    }

    /// What this disk knows of a write. Who asks may take "nothing" for "never".
    pub fn on_ask(&mut self, from: NodeId, ts: Timestamp, outbox: &mut Outbox) {
        let standing = match self.txns.get(&ts).map(|t| t.phase) {
            None => {
                self.fenced.insert(ts);
                Standing::Unknown
            }
            Some(Phase::Working) => {
                self.drop_txn(ts);
                Standing::Unknown
            }
            Some(Phase::Preparing) if self.store.waits_for_room(ts) => {
                self.drop_txn(ts);
                Standing::Unknown
            }
            Some(Phase::Preparing) => Standing::Busy,
            Some(Phase::Prepared) => Standing::Prepared,
            Some(Phase::Committed { safe }) => Standing::Committed { safe },
        };
        outbox.send(from, Body::Answer { ts, standing });
    }

    /// The other participants that have a say in a write, unless too much of its volume is
    /// lost to decide anything.
    fn voters(&self, ts: Timestamp) -> Option<Vec<NodeId>> {
        let txn = &self.txns[&ts];
        let volume = self.map.volumes.get(&txn.volume)?;
        if self.map.is_asleep(volume) {
            return None;
        }
        let counting = self.map.voters(volume, txn.extent, ts);
        let others = txn.participants.iter().filter(|p| p.1 != self.node);
        Some(others.filter(|p| counting.contains(p.0)).map(|p| p.1).collect())
    }

    /// Whether this disk itself has a say.
    fn has_say(&self, ts: Timestamp) -> bool {
        self.map.has_say(self.txns[&ts].volume, self.node, ts)
    }

    /// Asks the others about a write.
    fn inquire(&mut self, ts: Timestamp, outbox: &mut Outbox) {
        let gone = !self.map.volumes.contains_key(&self.txns[&ts].volume);
        if gone {
            // The volume has been deleted: nobody cares any more.
            match self.txns[&ts].phase {
                Phase::Committed { .. } => self.on_release(ts),
                _ => self.drop_txn(ts),
            }
            return;
        }
        let Some(voters) = self.voters(ts) else { return };
        let inquiry = self.inquiries.entry(ts).or_default();
        inquiry.asked = outbox.now;
        for node in inquiry.unanswered(&voters) {
            outbox.send(node, Body::Ask { ts });
        }
        let txn = self.txns.get_mut(&ts).expect("just seen");
        txn.heard |= !self.map.is_up(txn.originator);
        if matches!(txn.phase, Phase::Committed { .. }) && !txn.heard {
            outbox.send(txn.originator, Body::Query { ts });
        }
        self.judge(ts, outbox);
    }

    /// An answer to this disk's own question.
    pub fn on_answer(
        &mut self,
        from: NodeId,
        ts: Timestamp,
        standing: Standing,
        outbox: &mut Outbox,
    ) {
        let Some(inquiry) = self.inquiries.get_mut(&ts) else { return };
        inquiry.answer(from, standing);
        self.judge(ts, outbox);
    }

    fn judge(&mut self, ts: Timestamp, outbox: &mut Outbox) {
        let (Some(txn), Some(inquiry)) = (self.txns.get(&ts), self.inquiries.get(&ts)) else {
            return;
        };
        let Some(voters) = self.voters(ts) else { return };
        match txn.phase {
            Phase::Prepared => {
                let verdict = match inquiry.verdict(&voters) {
                    // All that had to prepare have.
                    Verdict::Wait if txn.participants.len() == 1 => Verdict::Commit,
                    // The only participant left decides, if it has a say; else it will catch up.
                    Verdict::Wait if voters.is_empty() && self.has_say(ts) => Verdict::Commit,
                    Verdict::Wait if voters.is_empty() => Verdict::Abort,
                    // One without a say only follows.
                    Verdict::Commit if !self.has_say(ts) && !inquiry.any_committed() => {
                        Verdict::Wait
                    }
                    verdict => verdict,
                };
                match verdict {
                    Verdict::Wait => {}
                    Verdict::Commit => self.commit(ts, None, outbox),
                    Verdict::Abort => self.drop_txn(ts),
                }
            }
            Phase::Committed { safe } => {
                for node in inquiry.unheard(&voters) {
                    outbox.notice(node, Notice::Commit(ts));
                }
                if safe && txn.heard && inquiry.all_know(&voters) {
                    self.on_release(ts);
                }
            }
            Phase::Working | Phase::Preparing => {}
        }
    }

    /// Asks about what has waited too long, and forgets what is old.
    pub fn tick(&mut self, outbox: &mut Outbox) {
        let now = outbox.now;
        let patience = self.config.patience;
        let old = |since: Nanos, times: u64| now.saturating_sub(since) >= times * patience;
        let mut ask = Vec::new();
        let mut stuck = Vec::new();
        for (ts, txn) in &self.txns {
            let asked = self.inquiries.get(ts).map_or(0, |i| i.asked);
            match txn.phase {
                Phase::Working if old(txn.since, 8) => stuck.push(*ts),
                Phase::Prepared | Phase::Committed { .. } if old(txn.since.max(asked), 1) => {
                    ask.push(*ts);
                }
                _ => {}
            }
        }
        stuck.into_iter().for_each(|ts| self.drop_txn(ts));
        self.give_way(outbox);
        ask.into_iter().for_each(|ts| self.inquire(ts, outbox));
        let window = self.config.timestamp_window;
        let horizon = Timestamp::new(now.saturating_sub(window) / 1000, NodeId(0));
        self.admission.raise_floor(horizon);
        self.fenced = self.fenced.split_off(&horizon);
        self.rebuilding.clear();
        self.repeat_dirty(outbox);
        self.place();
        if !self.txns.is_empty() {
            outbox.want_soon();
        }
    }

    /// Writes that wait for room in this journal may hold room in others', where those wait
    /// that hold it here. The later ones give way: they are refused, and tried again.
    fn give_way(&mut self, outbox: &mut Outbox) {
        let long = |t: &Txn| outbox.now.saturating_sub(t.since) >= self.config.place_after;
        let held = self.txns.iter().find(|(_, t)| t.phase == Phase::Prepared && long(t));
        let Some((&oldest, _)) = held else { return };
        let waits = |ts: &Timestamp, t: &Txn| {
            *ts > oldest && t.phase == Phase::Preparing && long(t) && self.store.waits_for_room(*ts)
        };
        let later = self.txns.iter().filter(|(ts, t)| waits(ts, t)).map(|(ts, _)| *ts);
        for ts in later.collect::<Vec<_>>() {
            self.refuse(ts, Refusal::Late(ts), outbox);
        }
    }

    /// Puts committed changes in place when no new ones come, or none were put for long.
    fn place(&mut self) {
        self.ticks_busy += 1;
        let quiet = self.commits == self.commits_at_tick;
        self.commits_at_tick = self.commits;
        if quiet || self.ticks_busy >= 10 {
            self.ticks_busy = 0;
            let admission = &self.admission;
            self.store.checkpoint(true, |s, ts, content| admission.holds_back(s, ts, content));
            self.store.flush_outcomes();
        }
    }

    /// A new epoch: what was not prepared is gone, what was is settled with the others.
    pub fn enter(&mut self, map: &Arc<ClusterMap>, floor: Timestamp, outbox: &mut Outbox) {
        self.map = map.clone();
        self.reads.clear();
        let working = self.txns.iter().filter(|(_, t)| t.phase == Phase::Working);
        let working: Vec<_> = working.map(|(ts, _)| *ts).collect();
        working.into_iter().for_each(|ts| self.drop_txn(ts));
        self.admission.raise_floor(floor);
        self.inquiries.clear();
        self.rebuilding.clear();
        self.dirty_asked.clear();
        let unsettled: Vec<_> = self.txns.keys().copied().collect();
        for ts in unsettled {
            if self.txns.get(&ts).is_some_and(|t| t.phase != Phase::Preparing) {
                self.inquire(ts, outbox);
            }
        }
        self.enter_catchup(outbox);
    }

    /// Follows up on what the store has to say. Returns whether there was anything.
    pub fn run(&mut self, serving: bool, outbox: &mut Outbox) -> bool {
        let mut worked = false;
        while let Some(event) = self.store.poll() {
            worked = true;
            self.store_event(event, outbox);
        }
        if serving && std::mem::take(&mut self.wake) {
            worked = true;
            self.wake_waiting(outbox);
        }
        let admission = &self.admission;
        self.store.checkpoint(false, |s, ts, content| admission.holds_back(s, ts, content));
        if serving {
            self.run_dirty();
            self.run_catchup(outbox);
        }
        for request in self.store.take_ops() {
            outbox.push(Output::Disk(request));
        }
        worked || self.store.has_events() || (serving && self.wake)
    }

    /// Those that waited for a write to be decided try again.
    fn wake_waiting(&mut self, outbox: &mut Outbox) {
        let waits =
            |t: &Txn| t.phase == Phase::Working && (t.waits || t.cells.iter().any(Cell::must_read));
        let txns: Vec<_> = self.txns.iter().filter(|(_, t)| waits(t)).map(|(ts, _)| *ts).collect();
        txns.into_iter().for_each(|ts| self.step(ts, outbox));
        let reads: Vec<_> = self.reads.keys().copied().collect();
        reads.into_iter().for_each(|ts| self.step_read(ts, outbox));
    }

    fn store_event(&mut self, event: Event, outbox: &mut Outbox) {
        match event {
            Event::Opened(found) => {
                found.into_iter().for_each(|r| self.reinstate(r, outbox.now));
                self.open = true;
                outbox.push(Output::Ready);
            }
            Event::Refused(why) => outbox.push(Output::Refused(why)),
            Event::Failed(why) => outbox.push(Output::DiskFailed(why)),
            Event::Prepared(ts) => self.on_prepared(ts, outbox),
            Event::OutcomeSafe(list) => {
                list.into_iter().for_each(|ts| self.on_outcome_safe(ts, outbox));
            }
            Event::Placed(ts) => self.on_outcome_safe(ts, outbox),
            Event::Flushed(ticket) => {
                if let Some(Ticket::Flush { to, id }) = self.tickets.remove(&ticket) {
                    outbox.send(to, Body::Flushed { id });
                }
            }
            Event::Read(done) => self.read_done(done, outbox),
            Event::Scanned(ticket, found) => self.scan_done(ticket, found, outbox),
        }
    }

    /// A write that was prepared before this node last stopped.
    fn reinstate(&mut self, found: Recovered, now: Nanos) {
        let Some(mut txn) = decode_meta(&found.meta) else { return };
        for (sector, count, delta) in &found.ranges {
            let access = if *delta { Access::Delta } else { Access::Content };
            let range = *sector..sector + u64::from(*count);
            if !found.committed {
                self.admission.reinstate(found.ts, range.clone(), access);
                txn.ranges.push((range.start, u64::from(*count), *delta));
            }
        }
        txn.originator = found.ts.originator();
        txn.phase = if found.committed { Phase::Committed { safe: true } } else { Phase::Prepared };
        txn.since = now;
        self.txns.insert(found.ts, txn);
    }

    /// Make what has been written safe.
    pub fn on_flush(&mut self, from: NodeId, id: u64) {
        let ticket = self.ticket(Ticket::Flush { to: from, id });
        self.store.flush(ticket);
    }
}

/// What the journal keeps of a write besides its changes: volume, extent, column, and who
/// takes part.
fn encode_meta(txn: &Txn) -> Vec<u8> {
    let mut out = Vec::with_capacity(12 + 4 * txn.participants.len());
    out.extend_from_slice(&txn.volume.0.to_le_bytes());
    out.extend_from_slice(&(txn.extent as u32).to_le_bytes());
    out.extend_from_slice(&(txn.column as u16).to_le_bytes());
    out.extend_from_slice(&(txn.participants.len() as u16).to_le_bytes());
    for (column, node) in &txn.participants {
        out.extend_from_slice(&(*column as u16).to_le_bytes());
        out.extend_from_slice(&node.0.to_le_bytes());
    }
    out
}

fn decode_meta(meta: &[u8]) -> Option<Txn> {
    let u16_at = |at: usize| Some(u16::from_le_bytes(meta.get(at..at + 2)?.try_into().ok()?));
    let u32_at = |at: usize| Some(u32::from_le_bytes(meta.get(at..at + 4)?.try_into().ok()?));
    let count = u16_at(10)? as usize;
    let participant = |n: usize| Some((u16_at(12 + 4 * n)? as usize, NodeId(u16_at(14 + 4 * n)?)));
    Some(Txn {
        epoch: 0,
        volume: VolumeId(u32_at(0)?),
        extent: u32_at(4)? as usize,
        column: u16_at(8)? as usize,
        journal: true,
        // Whoever collected the votes, the outcome is found by asking.
        collector: Collector::Node(NodeId(u16::MAX)),
        originator: NodeId(0),
        participants: (0..count).map(participant).collect::<Option<_>>()?,
        cells: Vec::new(),
        ranges: Vec::new(),
        waits: false,
        phase: Phase::Prepared,
        hops: 0,
        votes: BTreeSet::new(),
        acks: BTreeSet::new(),
        told_by: None,
        heard: false,
        since: 0,
    })
}

/// The sectors that hold these bytes of a unit which begins at sector `base`.
fn sectors(base: u64, span: Span) -> Range<u64> {
    let out = span.sectors_out();
    base + out.lo / SECTOR..base + out.hi / SECTOR
}

/// A volume's part on this disk, for those who look at it as a whole.
fn extents_of(volume: &Volume, node: NodeId) -> impl Iterator<Item = (usize, u64, u64)> + '_ {
    volume.extents.iter().enumerate().filter_map(move |(n, extent)| {
        let column = extent.column_of(node)?;
        Some((n, extent.columns[column].1, volume.extent_sectors(n)))
    })
}
