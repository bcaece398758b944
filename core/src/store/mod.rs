//! The store under a worker: turns reads, prepares and outcomes into raw reads, writes and
//! flushes of one disk (docs/internals/disk-format.md). It does no I/O itself: it asks for
//! [disk operations](DiskOp), is told of their ends, and answers with [events](Event).
//!
//! The life of a change: it is *prepared* (in the journal, durable), *committed* (visible:
//! in the overlay, in memory), *placed* by a checkpoint (in the data area, its checksum and
//! version in the table), and then its room in the journal is free again. A change is
//! content, or a delta that is added to what is there: that is how a parity column prepares
//! without reading, and folds many deltas into one read and one write later.
//!
//! - [`writes`]: the writes that are known, and how far each is
//! - [`journal`]: the ring of frames, and what waits to be written to it
//! - [`carrying`]: writes that go into it again, so that the oldest frames can leave
//! - [`overlay`]: committed changes that are not in place yet
//! - [`copies`]: committed content that no parity describes yet
//! - [`place`]: where a sector lies
//! - [`slots`]: the slots of the data area, the pointers to them, and whole slots of new content
//! - [`reads`]: reading sectors
//! - [`scans`]: which sectors are of some kind
//! - [`checkpoint`]: putting the overlay in place
//! - [`dropping`]: slots that are given back
//! - [`merging`]: deleted snapshots; [`flattening`]: clones that become independent
//! - [`table`], [`pages`], [`index`], [`page`]: checksums and versions, and which pages of them there must be
//! - [`sparse`]: lists that take memory where something is in them
//! - [`torn`]: pages that a power cut tears
//! - [`recover`]: opening a disk, whatever state a crash left it in
//! - [`views`]: sectors that show the content of others
//! - [`verify`]: what a scrub looks at besides the data
//! - [`fault`]: deliberate bugs
//! - [`check`]: what must hold between all these
//! - [`reached`], [`others`]: how far a disk has got, as others know it
//!
//! That is [`JournalStore`]. What a worker needs of a store is the trait [`Store`]; there is
//! another, [`PlainStore`], that writes in place at once and survives nothing, for measuring what
//! the papers measured.

mod any;
mod api;
mod carrying;
mod change;
mod check;
mod checkpoint;
mod config;
mod copies;
mod dropping;
mod fault;
mod flattening;
mod format;
mod index;
mod journal;
mod journaled;
pub mod map_area;
mod merging;
mod others;
mod overlay;
mod page;
mod pages;
mod place;
mod plain;
mod reached;
mod reads;
mod recover;
mod request;
mod scans;
mod slots;
mod sparse;
mod table;
mod torn;
mod verify;
mod views;
mod writes;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::Buffer;
use crate::units::{Epoch, SECTOR, Timestamp};

pub use any::AnyStore;
pub use api::Store;
pub use change::{Change, ChangeKind, Changed, Kept};
pub use config::{PlainConfig, StoreConfig, StoreCounters};
pub use copies::Copy;
pub use fault::StoreBug;
pub use format::versions::{Opening, VERSIONS, Version};
pub use format::{FORMAT_VERSION, FormatError, SUPERBLOCKS, Superblock};
pub use plain::PlainStore;
pub use reached::{Heard, Reached};
pub use request::{DiskOp, DiskRequest, DiskResult, Event, ReadDone, Recovered, Urgency};
pub use scans::Scan;
pub use slots::SlotCounts;
pub use table::{State, TableEntry};
pub use views::{View, Views};

use checkpoint::Checkpoint;
use copies::Copies;
use index::Index;
use journal::Journal;
use overlay::Overlay;
use reads::ReadJob;
use recover::Recovery;
use scans::ScanJob;
use slots::Slots;
use table::Table;
use writes::Write;

/// How many pages of the index are written at a time when a disk is formatted.
const FORMATTED_TOGETHER: u64 = 256;

/// What a disk operation is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Purpose {
    Pages {
        first: u64,
        count: u64,
    },
    Read {
        ticket: u64,
        piece: usize,
    },
    Salvage {
        ticket: u64,
        sector: u64,
    },
    Frame,
    /// Content of a write that is being prepared, on its way to free slots.
    Content(Timestamp),
    Checkpoint,
    CheckpointBase {
        first: u64,
        count: u64,
    },
    Flush(u64),
    Recovery {
        at: u64,
        count: u64,
    },
    Candidate {
        sector: u64,
    },
    Undecided {
        ts: Timestamp,
        redirect: usize,
    },
    RecoveryFlush,
    RecoveryPages,
    RecoveryIndex,
    RecoverySuperblock,
    RecoveryJournal,
    Verify {
        part: verify::Part,
        sequence: u64,
    },
    VerifyJournal {
        first: u64,
        count: u64,
    },
    MendJournal,
    Discard,
    /// What a free slot had.
    DiscardFree {
        slot: u64,
    },
}

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
    slots: Slots,
    overlay: Overlay,
    copies: Copies,
    writes: BTreeMap<Timestamp, Write>,
    reads: BTreeMap<u64, ReadJob>,
    scans: BTreeMap<u64, ScanJob>,
    checkpoint: Option<Checkpoint>,
    verifying: verify::Verifying,
    forgiving: others::Forgiving,
    dropping: dropping::Dropping,
    /// Nothing before the map has said.
    views: Option<Views>,
    merging: merging::Merging,
    turns: merging::Turns,
    flattening: flattening::Flattening,
    recovery: Option<Recovery>,
    /// Pages of the table that are being read.
    loading: BTreeSet<u64>,
    ios: BTreeMap<u64, Purpose>,
    next_io: u64,
    unlogged: u64,
    /// So often in a row nothing was to be put in place.
    idle_looks: u32,
    failed: bool,
    out: Vec<DiskRequest>,
    events: VecDeque<Event>,
    /// What it has done.
    pub counters: StoreCounters,
}

impl JournalStore {
    /// The writes that make an empty disk; they must all be flushed before it is opened. They are made one after the
    /// other, since those of the index of a large disk would take much memory at once.
    pub fn format(superblock: &Superblock) -> impl Iterator<Item = DiskOp> + use<> {
        let sb = superblock.clone();
        let write =
            |sector: u64, data| DiskOp::Write { offset: sector * SECTOR, data, durable: true };
        let clear = move |sectors: std::ops::Range<u64>| {
            let zeros = Buffer::Zero(((sectors.end - sectors.start) * SECTOR) as usize);
            (!sectors.is_empty()).then(|| write(sectors.start, vec![zeros]))
        };
        let table = sb.table_start()..sb.table_start() + sb.table_pages();
        let cleared = [Some(table), sb.map_area(), Some(sb.owners())];
        let cleared = cleared.into_iter().flatten().filter_map(clear);
        let (disk, start, pages) = (sb.incarnation, sb.index_start(), sb.index_pages());
        let index = (0..pages).step_by(FORMATTED_TOGETHER as usize).map(move |first| {
            let some = first..(first + FORMATTED_TOGETHER).min(pages);
            write(start + first, some.map(|page| Index::fresh(disk, page)).collect())
        });
        let copies = (0..SUPERBLOCKS).map(move |copy| write(copy, vec![sb.encode().into()]));
        cleared.chain(index).chain(copies)
    }

    /// Bytes of the journal.
    pub fn journal_bytes(&self) -> u64 {
        self.superblock.journal * SECTOR
    }

    fn start(&mut self, purpose: Purpose, op: DiskOp) {
        let id = self.next_io;
        self.next_io += 1;
        self.ios.insert(id, purpose);
        let urgency = if self.gives_way(purpose) { Urgency::Placing } else { Urgency::Awaited };
        self.out.push(DiskRequest { id, op, urgency });
    }

    /// Whether nobody waits for an operation. Writes that wait for room in the journal wait for the checkpoint.
    fn gives_way(&self, purpose: Purpose) -> bool {
        let places = matches!(
            purpose,
            Purpose::Checkpoint
                | Purpose::CheckpointBase { .. }
                | Purpose::Discard
                | Purpose::DiscardFree { .. }
        );
        places && !self.journal.stalled
    }

    /// Makes what is in place safe; says [`Event::Flushed`].
    pub fn flush(&mut self, ticket: u64) {
        self.start(Purpose::Flush(ticket), DiskOp::Flush);
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
        (self.overlay.len() + self.copies.len()) as u64 * SECTOR
    }

    /// How many slots of the disk are used for what, if it is open and has any.
    pub fn slots(&self) -> Option<SlotCounts> {
        self.slots.counts().filter(|_| self.recovery.is_none())
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
        if result.is_err() {
            self.count_error(&purpose);
        }
        match (purpose, result) {
            (Purpose::Read { ticket, piece }, result) => self.read_arrived(ticket, piece, result),
            (Purpose::CheckpointBase { first, count }, result) => {
                self.base_arrived(first, count, result);
            }
            // That room could not be given back does no harm; that it is given back late would.
            (Purpose::Discard, _) => self.checkpoint_step_done(),
            (Purpose::DiscardFree { slot }, _) if self.config.holds_what_it_discards() => {
                self.slots.discarded(slot);
            }
            (Purpose::DiscardFree { .. }, _) => {}
            (Purpose::Salvage { ticket, sector }, result) => self.salvaged(ticket, sector, result),
            (Purpose::Candidate { sector }, result) => self.candidate_read(sector, result.ok()),
            (Purpose::Undecided { ts, redirect }, result) => {
                self.undecided_read(ts, redirect, result.ok());
            }
            (Purpose::Pages { first, count }, result) => self.pages_arrived(first, count, result),
            (Purpose::VerifyJournal { first, count }, result) => {
                self.looked_at_journal(first, count, result);
            }
            (Purpose::Verify { part, sequence }, result) => self.looked_at(part, sequence, result),
            (Purpose::Recovery { at, count }, result) => self.recovery_read(at, count, result),
            (_, Err(error)) => self.fail(error),
            (Purpose::Frame, Ok(_)) => self.frame_written(),
            (Purpose::Content(ts), Ok(_)) => self.content_written(ts),
            (Purpose::Checkpoint, Ok(_)) => self.checkpoint_step_done(),
            (Purpose::Flush(ticket), Ok(_)) => self.events.push_back(Event::Flushed(ticket)),
            (Purpose::RecoveryFlush, Ok(_)) => self.recovery_flushed(),
            (Purpose::MendJournal, Ok(_)) => self.journal_mended(),
            (Purpose::RecoveryPages, Ok(_)) => self.recovery_pages_written(),
            (Purpose::RecoveryIndex, Ok(_)) => self.recovery_index_written(),
            (Purpose::RecoverySuperblock, Ok(_)) => self.recovery_superblock_written(),
            (Purpose::RecoveryJournal, Ok(_)) => self.recovery_journal_written(),
        }
    }

    fn count_error(&mut self, purpose: &Purpose) {
        match purpose {
            // It looks again at what a read has failed to get, sector by sector.
            Purpose::Salvage { .. } | Purpose::Discard | Purpose::DiscardFree { .. } => {}
            Purpose::Pages { .. }
            | Purpose::Read { .. }
            | Purpose::CheckpointBase { .. }
            | Purpose::Recovery { .. }
            | Purpose::Candidate { .. }
            | Purpose::Undecided { .. }
            | Purpose::Verify { .. }
            | Purpose::VerifyJournal { .. } => self.counters.read_errors += 1,
            _ => self.counters.write_errors += 1,
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
}
