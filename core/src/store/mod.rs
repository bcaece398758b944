//! The store under a worker: turns reads, prepares and outcomes into raw reads, writes and
//! flushes of one disk (DESIGN, section 7). It does no I/O itself: it asks for
//! [disk operations](DiskOp), is told of their ends, and answers with [events](Event).
//!
//! The life of a change: it is *prepared* (in the journal, durable), *committed* (visible:
//! in the overlay, in memory), *placed* by a checkpoint (in the data area, its checksum and
//! version in the table), and then its room in the journal is free again. A change is
//! content, or a delta that is added to what is there: that is how a parity column prepares
//! without reading, and folds many deltas into one read and one write later.
//!
//! - [`journal`]: the ring of frames, and what waits to be written to it
//! - [`overlay`]: committed changes that are not in place yet
//! - [`reads`]: reads and scans
//! - [`checkpoint`]: putting the overlay in place
//! - [`table`], [`index`], [`page`]: checksums and versions, and which pages of them there must be
//! - [`recover`]: opening a disk, whatever state a crash left it in
//! - [`verify`]: what a scrub looks at besides the data
//! - [`reached`]: how far a disk has got, as others know it
//!
//! That is [`JournalStore`]. What a worker needs of a store is the trait [`Store`]; there is
//! another, [`PlainStore`], that writes in place at once and survives nothing, for measuring what
//! the papers measured.

mod any;
mod api;
mod checkpoint;
mod format;
mod index;
mod journal;
mod journaled;
pub mod map_area;
mod overlay;
mod page;
mod plain;
mod reached;
mod reads;
mod recover;
mod table;
mod verify;

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use crate::Buffer;
use crate::units::{Epoch, NodeId, SECTOR, Timestamp};

pub use any::AnyStore;
pub use api::Store;
pub use format::{FORMAT_VERSION, FormatError, SUPERBLOCKS, Superblock};
pub use plain::PlainStore;
pub use reached::{Heard, Reached};
pub use reads::Scan;
pub use table::{State, TableEntry};

use checkpoint::Checkpoint;
use format::Entry;
use index::Index;
use journal::Journal;
use overlay::Overlay;
use reads::{ReadJob, ScanJob};
use recover::Recovery;
use table::Table;

/// Something to do to the disk. Offsets and lengths are bytes, multiples of the sector.
#[derive(Clone, Debug, Hash)]
pub enum DiskOp {
    /// Read.
    Read {
        /// First byte.
        offset: u64,
        /// Bytes.
        len: u64,
    },
    /// Write; with `durable` the data must be safe from a power cut when it ends.
    Write {
        /// First byte.
        offset: u64,
        /// What, in pieces that follow one another.
        data: Vec<Buffer>,
        /// Whether the end of it means safe.
        durable: bool,
    },
    /// Make every write that has ended safe from a power cut.
    Flush,
    /// What stands here is not needed any more.
    Discard {
        /// First byte.
        offset: u64,
        /// Bytes.
        len: u64,
    },
}

/// A disk operation with the number by which its end is told.
#[derive(Clone, Debug, Hash)]
pub struct DiskRequest {
    /// The number.
    pub id: u64,
    /// The operation.
    pub op: DiskOp,
}

/// How a disk operation ended: what was read (nothing for others), or what went wrong.
pub type DiskResult = Result<Buffer, String>;

/// Something that the store has to say.
#[derive(Clone, Debug, Hash)]
pub enum Event {
    /// The disk is open; these writes were prepared here and are not yet released.
    Opened(Vec<Recovered>),
    /// The disk is not one that can be opened.
    Refused(FormatError),
    /// A read is done.
    Read(ReadDone),
    /// A write is prepared: it will survive.
    Prepared(Timestamp),
    /// The outcomes of these writes are safe here.
    OutcomeSafe(Vec<Timestamp>),
    /// A write without journal is in place.
    Placed(Timestamp),
    /// A flush is done.
    Flushed(u64),
    /// A scan is done: sectors and their versions.
    Scanned(u64, Vec<(u64, Timestamp)>),
    /// The disk failed; nothing more can be stored.
    Failed(String),
    /// Something on the disk is damaged, in words for the operator. It goes on.
    Damaged(String),
}

/// What a read found.
#[derive(Clone, Debug, Hash)]
pub struct ReadDone {
    /// The reader's number for it.
    pub ticket: u64,
    /// The content; zeros where it is lost.
    pub data: Buffer,
    /// The newest write in each sector, if that was asked for.
    pub versions: Vec<Timestamp>,
    /// Sectors whose content is lost.
    pub erased: Vec<u64>,
    /// Whether the content was being replaced meanwhile; read again.
    pub raced: bool,
    /// Whether the content is that of a later moment than the one at which it was asked for.
    pub deferred: bool,
}

/// A write found in the journal.
#[derive(Clone, Debug, Hash)]
pub struct Recovered {
    /// Its name.
    pub ts: Timestamp,
    /// What the worker said of it.
    pub meta: Vec<u8>,
    /// Whether it is known to have committed; otherwise it is in doubt.
    pub committed: bool,
    /// What it changes, if in doubt.
    pub ranges: Vec<Changed>,
}

/// What a change does to what is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChangeKind {
    /// It takes the place of what is there.
    Content,
    /// It is added to what is there.
    Delta,
}

impl ChangeKind {
    /// Whether what it makes depends on what is there.
    pub fn is_delta(self) -> bool {
        self == ChangeKind::Delta
    }
}

/// Sectors that a write changes, and how.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Changed {
    /// The data sectors.
    pub sectors: Range<u64>,
    /// What becomes of them.
    pub kind: ChangeKind,
}

/// One contiguous part of a write.
#[derive(Clone, Debug, Hash)]
pub struct Change {
    /// First data sector.
    pub sector: u64,
    /// Whether `data` is put there or added.
    pub kind: ChangeKind,
    /// Whole sectors.
    pub data: Buffer,
}

impl Change {
    /// How many sectors.
    pub fn count(&self) -> u64 {
        self.data.len() as u64 / SECTOR
    }

    /// The data sectors.
    pub fn sectors(&self) -> Range<u64> {
        self.sector..self.sector + self.count()
    }

    /// Which sectors it changes, and how.
    pub fn changed(&self) -> Changed {
        Changed { sectors: self.sectors(), kind: self.kind }
    }
}

/// Transfers of volume data, as [`crate::plan::Totals`] counts them, and the store's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreCounters {
    /// Reads of data and parity.
    pub disk_reads: u64,
    /// Writes of data and parity, in place.
    pub disk_writes: u64,
    /// Prepare records journalled.
    pub journal_writes: u64,
    /// Journal frames written (each may hold many records).
    pub journal_frames: u64,
    /// Checkpoints done.
    pub checkpoints: u64,
    /// Sectors whose content did not match their checksum or could not be read.
    pub erasures: u64,
    /// Pages of the table and its index that were damaged, superblocks, and journals.
    pub damaged: u64,
    /// Bytes of changes that were added to what was there before (by a [`PlainStore`]).
    pub added_bytes: u64,
}

impl std::hash::Hash for StoreCounters {
    /// Counters decide nothing: states that differ only in them are one.
    fn hash<H: std::hash::Hasher>(&self, _: &mut H) {}
}

/// Sizes that a store is run with.
#[derive(Clone, Copy, Debug, Hash)]
pub struct StoreConfig {
    /// Use a [`PlainStore`] with this gap instead of a [`JournalStore`].
    pub plain: Option<u64>,
    /// Use a [`JournalStore`] on a disk of lengths with a journal of so many sectors, that is full
    /// and open at once: [`JournalStore::full`].
    pub full: Option<u64>,
    /// Table pages kept in memory.
    pub table_pages: usize,
    /// Committed sectors held in memory before a checkpoint is due.
    pub overlay_sectors: usize,
    /// Whether the disk keeps what it hears of other disks, and says how far it has got itself.
    pub keeps_heard: bool,
    /// A deliberate bug, for tests that prove that the checker bites.
    pub bug: Option<StoreBug>,
}

/// Deliberate bugs of a store that the simulation check must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StoreBug {
    /// "Prepared" is said before the journal is safe.
    MissingFlush,
    /// A frame that replay finds past the ring's end counts without what was skipped before it.
    MiscountedWrap,
    /// The room of forgotten frames is used before the superblock on the disk has forgotten them.
    RoomTooSoon,
    /// The superblock is always written over the same copy.
    OneSuperblock,
}

impl Default for StoreConfig {
    fn default() -> Self {
        StoreConfig {
            plain: None,
            full: None,
            table_pages: 2048,
            overlay_sectors: 1536,
            keeps_heard: true,
            bug: None,
        }
    }
}

/// A write between prepare and release.
#[derive(Clone, Debug, Hash)]
struct Txn {
    meta: Vec<u8>,
    changes: Vec<Change>,
    journaled: bool,
    /// The frame that holds its changes, as long as it must stay in the journal: until they
    /// are in place, and until a later frame says that the write is known.
    frame: Option<u64>,
    prepared: bool,
    /// Sectors of its changes that later content had overtaken when it committed.
    overtaken: Vec<u64>,
    committed: bool,
    /// Committed sectors that are not in place.
    remaining: u64,
    released: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Purpose {
    Pages { first: u64, count: u64 },
    Read(u64),
    Salvage { ticket: u64, sector: u64 },
    Frame,
    Checkpoint,
    CheckpointBase { first: u64, count: u64 },
    Flush(u64),
    Recovery { at: u64, count: u64 },
    Candidate { sector: u64 },
    RecoveryFlush,
    RecoveryIndex,
    RecoverySuperblock,
    Verify { part: verify::Part, sequence: u64 },
    VerifyJournal { first: u64, count: u64 },
    MendJournal,
    Discard,
}

/// How far it is with writing that it is forgiven.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Forgiving {
    Wanted,
    /// The superblock that says so is being written.
    Writing,
    Done,
}

/// Nothing has been promised since the disk was opened.
const NOTHING_PROMISED: (u64, u64) = (u64::MAX, u64::MAX);

/// The store of one disk.
#[derive(Clone, Hash)]
pub struct JournalStore {
    config: StoreConfig,
    superblock: Superblock,
    /// The latest timestamp that the superblock on the disk names.
    latest_kept: Timestamp,
    /// How far it has got.
    reached: Reached,
    /// How far it had got when it was opened.
    found: Reached,
    /// What has been heard of other disks since it was last written to this one.
    heard_since: Heard,
    /// Journal frames up to this one, and superblocks up to that, were begun before the node had entered an
    /// epoch since the disk was opened: nobody was promised anything by them.
    unpromised: (u64, u64),
    /// The epoch that the superblock names which was written last.
    life_written: Epoch,
    /// The epoch in which promises are made, if the journal does not say so yet.
    life_to_write: Option<Epoch>,
    journal: Journal,
    table: Table,
    overlay: Overlay,
    txns: BTreeMap<Timestamp, Txn>,
    reads: BTreeMap<u64, ReadJob>,
    scans: BTreeMap<u64, ScanJob>,
    checkpoint: Option<Checkpoint>,
    verifying: verify::Verifying,
    forgiving: Forgiving,
    recovery: Option<Recovery>,
    loading: BTreeMap<u64, ()>,
    ios: BTreeMap<u64, Purpose>,
    next_io: u64,
    unlogged: u64,
    failed: bool,
    out: Vec<DiskRequest>,
    events: VecDeque<Event>,
    /// What it has done.
    pub counters: StoreCounters,
}

impl JournalStore {
    /// The writes that make an empty disk; they must all be flushed before it is opened.
    pub fn format(superblock: &Superblock) -> Vec<DiskOp> {
        let zeros = Buffer::Zero((superblock.table_pages() * SECTOR) as usize);
        let write =
            |sector: u64, data| DiskOp::Write { offset: sector * SECTOR, data, durable: true };
        let mut ops = vec![write(superblock.table_start(), vec![zeros])];
        if let Some(area) = superblock.map_area() {
            let zeros = Buffer::Zero(((area.end - area.start) * SECTOR) as usize);
            ops.push(write(area.start, vec![zeros]));
        }
        if superblock.has_index() {
            let index = Index::fresh(superblock.incarnation, superblock.table_pages());
            ops.push(write(superblock.index_start(), index));
        }
        ops.push(write(0, vec![superblock.encode().into()]));
        ops.push(write(1, vec![superblock.encode().into()]));
        ops
    }

    /// Bytes of the journal.
    pub fn journal_bytes(&self) -> u64 {
        self.superblock.journal * SECTOR
    }

    fn start(&mut self, purpose: Purpose, op: DiskOp) {
        let id = self.next_io;
        self.next_io += 1;
        self.ios.insert(id, purpose);
        self.out.push(DiskRequest { id, op });
    }

    /// Prepares a write. With `journal` it says [`Event::Prepared`] once durable, otherwise
    /// at once. `meta` is kept with it and handed back by recovery.
    pub fn prepare(&mut self, ts: Timestamp, meta: Vec<u8>, changes: Vec<Change>, journal: bool) {
        assert!(!self.txns.contains_key(&ts), "prepared twice: {ts}");
        self.superblock.latest = self.superblock.latest.max(ts);
        if journal {
            self.journal.add_prepare(ts, &meta, &changes);
        }
        let txn = Txn {
            meta,
            changes,
            journaled: journal,
            frame: None,
            prepared: !journal,
            overtaken: Vec::new(),
            committed: false,
            remaining: 0,
            released: false,
        };
        self.txns.insert(ts, txn);
        if journal {
            self.pump();
        } else {
            self.events.push_back(Event::Prepared(ts));
        }
    }

    /// Commits or aborts a prepared write. Its changes are visible (or gone) at once; that
    /// the outcome is safe is said later.
    pub fn outcome(&mut self, ts: Timestamp, commit: bool) {
        if !commit && self.journal.withdraw(ts) {
            // It never came into the journal, so nothing has to be said there.
            self.txns.remove(&ts);
            self.pump();
            return;
        }
        let txn = self.txns.get_mut(&ts).expect("an outcome is for a prepared write");
        let journaled = txn.journaled;
        let overtaken = self.decide(ts, commit);
        if journaled {
            if !overtaken.is_empty() && self.superblock.has_index() {
                self.journal.add(Entry::Overtaken { ts, sectors: overtaken });
            }
            self.journal.add_outcome(ts, commit);
        }
    }

    /// Returns the sectors in which it has no effect, because later content is there. That must be kept: what is
    /// later may have been prepared first, and be gone from the journal when this is found there.
    fn decide(&mut self, ts: Timestamp, commit: bool) -> Vec<u64> {
        let txn = self.txns.get_mut(&ts).expect("an outcome is for a prepared write");
        assert!(!txn.committed, "decided twice: {ts}");
        let journaled = txn.journaled;
        if !commit {
            let txn = self.txns.remove(&ts).expect("just seen");
            self.journal.unpin(txn.frame);
            return Vec::new();
        }
        assert!(txn.prepared, "committed before it was prepared: {ts}");
        txn.committed = true;
        let changes = std::mem::take(&mut txn.changes);
        let mut overtaken = std::mem::take(&mut txn.overtaken);
        if !journaled {
            self.unlogged += 1;
        }
        let mut taken = 0;
        let mut superseded = Vec::new();
        for change in &changes {
            let by_now = &mut overtaken;
            taken += self.overlay.add(ts, change, !journaled, &mut superseded, by_now);
        }
        self.txns.get_mut(&ts).expect("just seen").remaining = taken;
        self.unpin_all(superseded);
        if taken == 0 {
            self.placed(ts);
        }
        overtaken
    }

    /// Whether a write is prepared or committed here and not yet released.
    pub fn knows(&self, ts: Timestamp) -> bool {
        self.txns.contains_key(&ts)
    }

    /// All participants know the outcome: the write need not be remembered.
    pub fn release(&mut self, ts: Timestamp) {
        let Some(txn) = self.txns.get_mut(&ts) else { return };
        debug_assert!(txn.committed, "released before it was decided: {ts}");
        txn.released = true;
        if txn.journaled {
            self.journal.add_released(ts);
        }
        if txn.remaining == 0 {
            self.journal.unpin(txn.frame.take());
            self.txns.remove(&ts);
        }
    }

    /// Sectors of committed changes are in place or superseded.
    fn unpin_all(&mut self, gone: Vec<Timestamp>) {
        for ts in gone {
            let txn = self.txns.get_mut(&ts).expect("remembered while not in place");
            txn.remaining -= 1;
            if txn.remaining == 0 {
                self.placed(ts);
            }
        }
    }

    fn placed(&mut self, ts: Timestamp) {
        let txn = self.txns.get_mut(&ts).expect("remembered while not in place");
        if !txn.journaled {
            self.unlogged -= 1;
            match &mut self.checkpoint {
                // Only the superblock shows, to who has heard of it, that the disk has this.
                Some(checkpoint) if self.superblock.has_index() => checkpoint.placed(ts),
                _ => self.events.push_back(Event::Placed(ts)),
            }
        }
        if txn.released {
            self.journal.unpin(txn.frame.take());
            self.txns.remove(&ts);
        }
    }

    /// Makes what is in place safe; says [`Event::Flushed`].
    pub fn flush(&mut self, ticket: u64) {
        self.start(Purpose::Flush(ticket), DiskOp::Flush);
    }

    /// Whether it keeps what it hears of others, and says how far it has got itself.
    fn keeps_heard(&self) -> bool {
        self.config.keeps_heard && self.superblock.has_index()
    }

    /// Its node enters an epoch: what is promised from now on is promised in it.
    pub fn begin_life(&mut self, epoch: Epoch) {
        if self.keeps_heard() && epoch > self.superblock.life {
            if self.unpromised == NOTHING_PROMISED {
                self.unpromised = (self.journal.last_frame(), self.superblock.sequence);
            }
            self.superblock.life = epoch;
            self.life_to_write = Some(epoch);
        }
    }

    /// Others have found that it has forgotten what it promised, and cannot do without it. It says so itself from
    /// now on, also when it is opened again.
    pub fn forgotten(&mut self) {
        if self.keeps_heard() && !self.superblock.forgot {
            self.superblock.forgot = true;
            self.life_to_write = Some(format::FORGOT);
        }
    }

    /// Others know that it had forgotten what it promised, and it is made whole. That is written, even if nothing
    /// else is: it would be found to have forgotten again when it is opened next.
    pub fn forgiven(&mut self) {
        if std::mem::take(&mut self.superblock.forgot) {
            self.forgiving = Forgiving::Wanted;
            self.verifying.mend = self.verifying.mend.max(1);
        }
    }

    /// Whether the disk still says that it has forgotten, though it is forgiven.
    pub fn is_forgiving(&self) -> bool {
        self.forgiving != Forgiving::Done
    }

    /// How far another disk has got. It is kept with the next frame, and from then on in the superblock.
    pub fn hear(&mut self, node: NodeId, reached: Reached) {
        if !self.keeps_heard() || reached.disk == 0 || node.0 == self.superblock.disk {
            return;
        }
        let before = self.superblock.heard.get(&node).copied().unwrap_or_default();
        let now = before.merge(reached);
        if now == before {
            return;
        }
        self.superblock.heard.insert(node, now);
        self.heard_since.insert(node, now);
        if self.superblock.heard.len() > format::MOST_HEARD {
            let own = self.superblock.disk;
            let farthest = |n: &&NodeId| n.0.wrapping_sub(own);
            let farthest = *self.superblock.heard.keys().max_by_key(farthest).expect("not empty");
            self.superblock.heard.remove(&farthest);
            self.heard_since.remove(&farthest);
        }
    }

    /// Whether anything committed still waits to be put in place, or outcomes to be written.
    pub fn is_quiet(&self) -> bool {
        let mends = self.verifying.mend > 0;
        self.overlay.is_empty() && self.checkpoint.is_none() && !mends && self.journal.is_idle()
    }

    /// What is in work, in words.
    pub fn waiting(&self) -> String {
        let checkpoint = self.checkpoint.as_ref().map_or("no checkpoint".into(), Checkpoint::stage);
        let journal = if self.journal.is_idle() { "idle" } else { "busy" };
        let used = self.journal.used();
        format!(
            "{} disk operations, {} reads, {} scans, {} sectors to place, {checkpoint}, journal \
             {journal} with {used} of {} sectors used",
            self.ios.len(),
            self.reads.len(),
            self.scans.len(),
            self.overlay.len(),
            self.journal.size(),
        )
    }

    /// Bytes of committed changes held in memory.
    pub fn held_bytes(&self) -> u64 {
        self.overlay.len() as u64 * SECTOR
    }

    /// Writes outcomes that no prepare has carried along.
    pub fn flush_outcomes(&mut self) {
        self.journal.urge();
        self.pump();
    }

    /// A disk operation ended.
    pub fn done(&mut self, id: u64, result: DiskResult) {
        let Some(purpose) = self.ios.remove(&id) else { return };
        if self.failed {
            return;
        }
        match (purpose, result) {
            (Purpose::Read(ticket), result) => self.read_arrived(ticket, result),
            (Purpose::CheckpointBase { first, count }, result) => {
                self.base_arrived(first, count, result);
            }
            // That room could not be given back does no harm; that it is given back late would.
            (Purpose::Discard, _) => self.checkpoint_step_done(),
            (Purpose::Salvage { ticket, sector }, result) => self.salvaged(ticket, sector, result),
            (Purpose::Candidate { sector }, result) => self.candidate_read(sector, result.ok()),
            (Purpose::Pages { first, count }, result) => self.pages_arrived(first, count, result),
            (Purpose::VerifyJournal { first, count }, result) => {
                self.looked_at_journal(first, count, result);
            }
            (Purpose::Verify { part, sequence }, result) => self.looked_at(part, sequence, result),
            (Purpose::Recovery { at, count }, result) => self.recovery_read(at, count, result),
            (_, Err(error)) => self.fail(error),
            (Purpose::Frame, Ok(_)) => self.frame_written(),
            (Purpose::Checkpoint, Ok(_)) => self.checkpoint_step_done(),
            (Purpose::Flush(ticket), Ok(_)) => self.events.push_back(Event::Flushed(ticket)),
            (Purpose::RecoveryFlush, Ok(_)) => self.recovery_flushed(),
            (Purpose::MendJournal, Ok(_)) => self.journal_mended(),
            (Purpose::RecoveryIndex, Ok(_)) => self.recovery_index_written(),
            (Purpose::RecoverySuperblock, Ok(_)) => self.opened(),
        }
    }

    /// Something on the disk is not what was written there last: it is counted and said.
    fn damaged(&mut self, what: String) {
        self.counters.damaged += 1;
        self.events.push_back(Event::Damaged(what));
    }

    fn fail(&mut self, error: String) {
        if !self.failed {
            self.failed = true;
            self.events.push_back(Event::Failed(error));
        }
    }

    /// Starts reading the pages of `first..=last` that are neither in memory nor on their
    /// way. Says whether all are in memory.
    fn want_pages(&mut self, first: u64, last: u64) -> bool {
        let mut all = true;
        let mut page = first;
        while page <= last {
            let missing = |s: &Self, p| !s.table.has(p) && !s.loading.contains_key(&p);
            all &= self.table.has(page);
            if !missing(self, page) {
                page += 1;
                continue;
            }
            let mut count = 0;
            while page <= last && count < 64 && missing(self, page) {
                self.loading.insert(page, ());
                page += 1;
                count += 1;
            }
            let first = page - count;
            let offset = (self.superblock.table_start() + first) * SECTOR;
            let op = DiskOp::Read { offset, len: count * SECTOR };
            self.start(Purpose::Pages { first, count }, op);
            all = false;
        }
        all
    }

    fn pages_arrived(&mut self, first: u64, count: u64, result: DiskResult) {
        if result.is_err() && count > 1 {
            // One page that cannot be read must not cost its neighbours: each is tried alone.
            for page in first..first + count {
                let offset = (self.superblock.table_start() + page) * SECTOR;
                let op = DiskOp::Read { offset, len: SECTOR };
                self.start(Purpose::Pages { first: page, count: 1 }, op);
            }
            return;
        }
        for n in 0..count {
            let at = (n * SECTOR) as usize;
            self.loading.remove(&(first + n));
            let page = result.as_ref().ok().map(|b| b.slice(at, at + SECTOR as usize));
            if let Some(wrong) = self.table.load(first + n, page.as_ref()) {
                self.damaged(format!(
                    "page {} of the checksum table is damaged: {wrong}",
                    first + n
                ));
            }
        }
        self.step_reads();
        self.step_scans();
        self.step_checkpoint();
        self.step_recovery();
        self.trim_table();
    }

    fn trim_table(&mut self) {
        if self.recovery.is_none() {
            let checkpoint = &self.checkpoint;
            self.table.trim(|page| checkpoint.as_ref().is_some_and(|c| c.uses(page)));
        }
    }
}
