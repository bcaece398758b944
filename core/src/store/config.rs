//! What a store is run with, and what it counts.

use super::StoreBug;

/// Transfers of volume data, as [`crate::plan::Totals`] counts them, and the store's own. Stretches of sectors that follow one
/// another count once, wherever the slots lie in which they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreCounters {
    /// Reads of data and parity.
    pub disk_reads: u64,
    /// Writes of data and parity that are in place.
    pub disk_writes: u64,
    /// Prepare records journalled.
    pub journal_writes: u64,
    /// Records written again at the head of the journal, so that old frames can go.
    pub carried: u64,
    /// Journal frames written (each may hold many records).
    pub journal_frames: u64,
    /// Checkpoints done.
    pub checkpoints: u64,
    /// Sectors whose content did not match their checksum or could not be read.
    pub erasures: u64,
    /// Reads of the disk that failed.
    pub read_errors: u64,
    /// Writes and flushes of the disk that failed.
    pub write_errors: u64,
    /// Sectors that were read and did not match their checksum.
    pub checksum_errors: u64,
    /// Pages of the table and its index that were damaged, superblocks, and journals.
    pub damaged: u64,
    /// Sectors that scans have looked at.
    pub scanned: u64,
    /// Bytes of changes that were added to what was there before (by a [`PlainStore`](super::PlainStore)).
    pub added_bytes: u64,
}

impl std::hash::Hash for StoreCounters {
    /// Counters decide nothing: states that differ only in them are one.
    fn hash<H: std::hash::Hasher>(&self, _: &mut H) {}
}

/// How a [`PlainStore`](super::PlainStore) puts transfers together.
#[derive(Clone, Copy, Debug, Hash)]
pub struct PlainConfig {
    /// Sectors between two reads that one transfer passes over rather than that there are two.
    pub gap: u64,
    /// Whether neighbours go in one transfer. Otherwise each unit of a stripe has a transfer of its own.
    pub coalesces: bool,
}

impl Default for PlainConfig {
    fn default() -> Self {
        PlainConfig { gap: 0, coalesces: true }
    }
}

/// Sizes that a store is run with.
#[derive(Clone, Copy, Debug, Hash)]
pub struct StoreConfig {
    /// Use a [`PlainStore`](super::PlainStore) instead of a [`JournalStore`](super::JournalStore).
    pub plain: Option<PlainConfig>,
    /// Use a [`JournalStore`](super::JournalStore) on a disk of lengths with slots of so many sectors, that is full and
    /// open at once: [`JournalStore::full`](super::JournalStore::full).
    pub full: Option<u64>,
    /// Table pages kept in memory.
    pub table_pages: usize,
    /// Committed sectors held in memory before a checkpoint is due.
    pub overlay_sectors: usize,
    /// Whether the disk keeps what it hears of other disks, and says how far it has got itself.
    pub keeps_heard: bool,
    /// What free slots hold is discarded when so often in a row nothing was to be put in place: those that were freed last
    /// are used first, and cost less while they hold something.
    pub discards_free: Option<u32>,
    /// A deliberate bug, for tests that prove that the checker bites.
    pub bug: Option<StoreBug>,
}

impl Default for StoreConfig {
    fn default() -> Self {
        StoreConfig {
            plain: None,
            full: None,
            table_pages: 2048,
            overlay_sectors: 1536,
            keeps_heard: true,
            discards_free: None,
            bug: None,
        }
    }
}
