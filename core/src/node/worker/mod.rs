//! The worker: it drives its disk's store, derives its own cells of every plan, and relies on the other workers to
//! derive theirs.
//!
//! - this file: the worker's state
//! - [`writing`]: a write from the first message to the store
//! - [`cells`]: one cell of a plan at its disk
//! - [`copies`]: copies of writes that no parity describes yet
//! - [`folding`]: which of them are folded, and when
//! - [`beneath`]: what lies beneath volumes with snapshots
//! - [`calculating`]: computation for other columns
//! - [`outcome`]: votes, and from prepared to forgotten
//! - [`authorization`]: checks of senders
//! - [`tickets`]: operations at the store
//! - [`entered`]: the epochs that it has entered
//! - [`fenced`]: writes in which it takes no part any more
//! - [`undecided`]: earlier undecided writes that a write must wait for
//! - [`stalled`]: writes and reads that wait for earlier writes
//! - [`settling`]: outcomes of writes whose messages were lost
//! - [`memory`]: outcomes of hosts' requests, for repeated requests
//! - [`meta`]: a write's metadata in the journal
//! - [`ordering`]: admission at this disk
//! - [`reading`]: reads and scans
//! - [`solving`]: lost content of reads
//! - [`used`]: which of many stripes are in use
//! - [`catchup`]: content that this disk missed
//! - [`filling`]: the rebuild of that content
//! - [`relying`]: writes that rely on marks
//! - [`load`]: the use of the disk by hosts
//! - [`life`]: ticks, epochs, and results of the store

mod authorization;
mod beneath;
pub(in crate::node) mod bounds;
mod calculating;
mod catchup;
mod cells;
mod check;
mod copies;
mod entered;
mod exposing;
pub(in crate::node) mod exposure;
mod fenced;
mod filling;
mod folding;
mod keeping;
mod life;
pub(in crate::node) mod load;
mod losses;
mod memory;
mod meta;
mod ordering;
mod outcome;
mod reading;
mod refreshing;
mod relying;
mod settling;
mod solving;
mod stalled;
pub(in crate::node) mod target;
mod tickets;
mod undecided;
mod used;
mod writing;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use super::calculator::Calculator;
use super::fault::Sent;
use super::outbox::Outbox;
use super::settle::{Inquiry, Verdict};
use super::{
    Body, Header, Item, NodeConfig, Notice, Output, Recollection, Refusal, Standing, Task,
};
use crate::cluster::{ClusterMap, Volume};
use crate::node::catchup::{Aside, Catchup};
use crate::node::task::Cast;
use crate::order::{Accesses, Admission, Admittance, Asker, ByTime, Ordering};
use crate::plan::{Destination, Part, Range as VolumeRange, Role, Sending, Span, WriteRow};
use crate::policy::Commit;
use crate::store::{
    AnyStore, Change, Changed, DiskRequest, Event, JournalStore, PlainStore, Recovered, Superblock,
    Views,
};
use crate::units::{ColumnSet, Epoch, Nanos, NodeId, SECTOR, Timestamp, VolumeId};

use authorization::EarlyParts;
use catchup::Telling;
use cells::{Cell, CellNumbers, Ranges};
use entered::Entered;
use exposure::Exposure;
use fenced::Fenced;
use filling::Filling;
use folding::Folding;
pub(in crate::node) use folding::{FoldEnd, FoldOf, Folded};
use load::Load;
pub(super) use losses::joined as joined_losses;
use memory::Memory;
use ordering::{Before, DeviceLocks};
use reading::ReadJob;
use refreshing::Refreshing;
use relying::IntoParity;
use solving::ShownItems;
use stalled::Stalled;
use target::Targets;
use tickets::{Ticket, Tickets};

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

/// A write at this participant.
#[derive(Clone, Hash)]
struct Participation {
    epoch: Epoch,
    /// The volume whose address space it changes: a snapshot, if one was taken before it was decided.
    volume: VolumeId,
    /// The volume that its host named.
    named: VolumeId,
    /// The address space that it changes; unknown if an earlier version has journalled it.
    space: Option<u64>,
    extent: usize,
    column: usize,
    journal: bool,
    /// Whether it is written without waiting for the others.
    alone: bool,
    originator: NodeId,
    /// The participants, in column order.
    participants: Vec<(usize, NodeId)>,
    /// The participants that only mark parity as out of date.
    markers: ColumnSet,
    /// Parity of some of its stripes is out of date once it has happened.
    waits: bool,
    /// In the order of stripes.
    cells: Vec<Cell>,
    /// The calculators of the stripes for which this column computes other columns' content.
    calculators: Vec<Calculator>,
    /// The number of cells and calculators with steps left before the write is prepared.
    unfinished: usize,
    /// No step has been done yet.
    new: bool,
    /// It has asked the endpoint, which must know of it before anything is prepared.
    fetches: bool,
    /// It has asked it, whether it has been answered or not.
    has_fetched: bool,
    /// The coordinator has said that it begins.
    is_told: bool,
    /// Its changes.
    ranges: Vec<Changed>,
    /// The bytes of the volume that it writes; everything if unknown.
    writes: VolumeRange,
    /// How the volume's requests are ordered.
    ordering: Ordering,
    /// It has had to wait for another.
    delayed: bool,
    /// What it is part of, unless it is from before this disk was opened.
    task: Option<Task>,
    /// The request that it is part of, if that must be remembered.
    asker: Option<Asker>,
    phase: Phase,
    hops: u8,
    /// Its originator has been told that a request here waits for its outcome.
    awaited: bool,
    /// The node that reported the commit.
    told_by: Option<NodeId>,
    /// The originator knows the outcome, or is gone.
    heard: bool,
    /// All nodes with a say have committed it, and that is durable. It is kept for nodes that are away.
    settled: bool,
    since: Nanos,
}

/// A worker's messages and outputs at one time.
#[derive(Default)]
struct Shares(BTreeMap<(NodeId, Role, u8), Vec<Item>>);

impl Shares {
    /// Something for a role at a node, of a message with this number in a chain.
    fn add(&mut self, node: NodeId, to: Role, sent_at: u8, item: Item) {
        self.0.entry((node, to, sent_at)).or_default().push(item);
    }
}

/// A part of a unit to be rebuilt: volume, stripe, seat, bytes of the unit.
pub(crate) type Rebuild = (VolumeId, u64, usize, Span);

/// The range of a write if it is unknown.
const EVERYTHING: VolumeRange = VolumeRange { offset: 0, len: u64::MAX };

/// All sectors of a disk.
const EVERYWHERE: Range<u64> = 0..u64::MAX;

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
    device_locks: DeviceLocks,
    txns: ByTime<Box<Participation>>,
    reads: ByTime<Box<ReadJob>>,
    tickets: Tickets,
    early: EarlyParts,
    shown: ShownItems,
    fenced: Fenced,
    /// Happened parts of requests that hosts may repeat.
    memory: Memory,
    /// How far its node's clock is ahead of the cluster's time, if it is wrong.
    pub clock_is_ahead: Nanos,
    inquiries: BTreeMap<Timestamp, Inquiry>,
    /// Sectors that could not be read, and have not been written since.
    damaged: BTreeSet<u64>,
    /// The number of those written again since the node started.
    mended: Aside<u64>,
    open: bool,
    /// Writes to the disk wait for free space on its file system.
    is_full: bool,
    catchup: Catchup,
    telling: Telling,
    /// Stripes that a lost host may have written in part.
    half_written: BTreeSet<(VolumeId, u64)>,
    /// Sectors of thin volumes, in order, whose discards this disk may not forget; all, before a map is in force.
    unforgettable: Vec<Range<u64>>,
    /// Which sectors show the content of others.
    views: Views,
    /// Whether it has reported that nothing is left to merge, and that clones have all that they show.
    said_merged: (bool, bool),
    entered: Entered,
    filling: Filling,
    stalled: Stalled,
    load: Load,
    exposure: Exposure,
    refreshing: Refreshing,
    folding: Folding,
    into_parity: IntoParity,
    targets: Targets,
    /// Space for the disk's next operations: empty between inputs.
    ops: Vec<DiskRequest>,
    /// The deliberate bugs in effect.
    sent: Sent,
}

impl Worker {
    pub fn new(node: NodeId, cluster: u128, disk_sectors: u64, config: NodeConfig) -> Worker {
        Worker {
            node,
            config,
            map: Arc::new(ClusterMap::default()),
            store: store(node, cluster, disk_sectors, &config),
            admission: Admission::default(),
            device_locks: DeviceLocks::default(),
            txns: ByTime::default(),
            reads: ByTime::default(),
            tickets: Tickets::default(),
            early: EarlyParts::default(),
            shown: ShownItems::default(),
            fenced: Fenced::default(),
            memory: Memory::default(),
            clock_is_ahead: 0,
            inquiries: BTreeMap::new(),
            damaged: BTreeSet::new(),
            mended: Aside(0),
            open: false,
            is_full: false,
            catchup: Catchup::default(),
            telling: Telling::default(),
            half_written: BTreeSet::new(),
            unforgettable: vec![EVERYWHERE],
            views: Views::default(),
            said_merged: (false, false),
            entered: Entered::default(),
            filling: Filling::default(),
            stalled: Stalled::default(),
            load: Load::default(),
            exposure: Exposure::default(),
            refreshing: Refreshing::default(),
            folding: Folding::default(),
            into_parity: IntoParity::default(),
            targets: Targets::default(),
            ops: Vec::new(),
            sent: Sent::default(),
        }
    }

    /// Whether anything is in progress or not yet in place.
    pub fn is_busy(&self) -> bool {
        let behind = self.catchup.is_behind();
        let asked = self.telling.is_busy();
        let idle = self.txns.is_empty() && self.reads.is_empty() && self.store.is_quiet();
        !idle || behind || asked || self.has_to_refresh()
    }

    /// A summary of the work in progress.
    pub fn waiting(&self) -> String {
        format!(
            "{} writes unsettled, {} reads, {}, {}",
            self.txns.len(),
            self.reads.len(),
            self.exposure.in_words(),
            self.store.waiting()
        )
    }

    /// The most bytes of a write such that every disk can journal its part. A node without a disk uses the smallest
    /// possible one.
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

    /// The oldest write that is not settled at all nodes with a say. One that has only begun counts: its disk's
    /// operations are done also while the node is frozen, and when the node enters the new epoch the write may be
    /// prepared. An aborted one counts until the abort is durable: after a crash it is prepared again, and nodes that
    /// knew nothing of it may have no say by then.
    pub fn oldest_unsettled(&self) -> Option<Timestamp> {
        let begun = self.config.counts_begun_writes();
        let counts = |t: &Participation| {
            !t.settled && (begun || !matches!(t.phase, Phase::Working | Phase::Preparing))
        };
        let open = self.txns.iter().find(|(_, t)| counts(t)).map(|(ts, _)| *ts);
        open.into_iter().chain(self.store.oldest_abort()).min()
    }

    /// The latest write that it has begun and not forgotten: perhaps of an originator whose clock is ahead of all
    /// others', and not prepared yet.
    pub fn latest_begun(&self) -> Timestamp {
        self.txns.keys().next_back().copied().unwrap_or_default()
    }

    /// The writes that it has begun and not forgotten. One that it may still drop, or that is not durable yet, is busy.
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

    /// Whether writes of earlier epochs are undecided here.
    pub fn settles_earlier_writes(&self) -> bool {
        let undecided = |t: &Participation| !matches!(t.phase, Phase::Committed { .. });
        self.txns.values().any(|t| t.epoch != self.map.epoch && undecided(t))
    }

    /// Whether hosts used the disk lately.
    pub fn hosts_are_busy(&self) -> bool {
        self.load.hosts_are_busy()
    }

    /// The number of sectors rebuilt on its disk since the node started.
    pub fn rebuilt_sectors(&self) -> u64 {
        self.filling.sectors_put_back()
    }

    /// The number of unreadable sectors that were written again since the node started.
    pub fn mended_sectors(&self) -> u64 {
        self.mended.0
    }

    /// Whether there is anything for the originator of its node to do.
    pub fn has_wishes(&self) -> bool {
        self.filling.has_asked()
            || self.refreshing.has_to_ask()
            || self.folding.has_to_ask()
            || !self.half_written.is_empty()
    }

    pub fn take_rebuilds(&mut self) -> Vec<crate::node::Run> {
        self.filling.take_asked()
    }

    pub fn take_half_written(&mut self) -> BTreeSet<(VolumeId, u64)> {
        std::mem::take(&mut self.half_written)
    }

    /// A write without votes was left by its originator: others may have written their parts.
    fn leave_behind(&mut self, ts: Timestamp) {
        let txn = &self.txns[&ts];
        let Some(volume) = self.map.volumes.get(&txn.volume) else { return };
        if !txn.alone || txn.writes == EVERYTHING || !volume.geometry.is_redundant() {
            return;
        }
        let stripes = txn.writes.stripes(&volume.geometry);
        self.half_written.extend(stripes.map(|stripe| (txn.volume, stripe)));
    }

    /// Whether its content of a sector may be useless.
    #[cfg(test)]
    pub fn lacks(&self, sector: u64) -> bool {
        self.is_stale(sector..sector + 1)
    }

    /// Sectors yet to be caught up on; `None` until known.
    pub fn stale_sectors(&self) -> Option<u64> {
        self.catchup.stale_sectors()
    }
}

fn store(node: NodeId, cluster: u128, sectors: u64, config: &NodeConfig) -> AnyStore {
    match config.store.plain {
        Some(plain) => AnyStore::Plain(Box::new(PlainStore::new(sectors, plain))),
        None if sectors == 0 => {
            AnyStore::Plain(Box::new(PlainStore::new(0, crate::store::PlainConfig::default())))
        }
        None => AnyStore::Journal(Box::new(match config.store.full {
            Some(slot) => JournalStore::full(config.store, node.0, sectors, slot)
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
