//! Checkpoints: putting committed changes in place and freeing their room in the journal.
//!
//! The order is what makes a crash at any point harmless: an *apply* entry in the journal
//! says what each sector will be; then the data goes in place and is flushed; then the
//! table, and is flushed; then the superblock's tail moves. Until the table is there the
//! journal still holds everything needed to do it again, and the apply entry tells whether
//! a sector already has its deltas or not.
//!
//! Before version 5 of the format there is no apply entry for content that was written without the journal, with nothing else in it. Then
//! the superblock is written along with the data: it must name a timestamp as late as any in the
//! table, or after a crash the disk would not know how late its own content is.
//!
//! A checkpoint is known by the sequence of the superblock that it writes. Pages of the table carry it, and when
//! they are safe the index does; and when that is safe the superblock has the sum of the index. Each of them may
//! be older than what it speaks of, after a crash, and never newer.
//!
//! The apply entry has checksums of the pages that the checkpoint writes: see [`torn`](super::torn).
//!
//! - [`choosing`]: what goes into a checkpoint, and when one is due
//! - [`sums`]: what each sector will be
//! - [`placing`]: the writes, in their order

mod choosing;
mod placing;
mod sums;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::format::Applied;
use super::overlay::{Over, spaces_before};
use super::table::TableEntry;
use super::{JournalStore, Purpose};
use crate::Buffer;
use crate::units::Timestamp;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stage {
    /// Waiting for table pages.
    Pages,
    /// Waiting for what deltas are added to.
    Bases,
    /// Waiting for the node to enter an epoch: a frame before that would hide that the disk had forgotten something.
    Epoch,
    /// Waiting for the apply entry to be safe.
    Log,
    Place,
    FlushData,
    Table,
    FlushTable,
    Owners,
    FlushOwners,
    Index,
    FlushIndex,
    Superblock,
}

#[derive(Clone, Hash)]
pub(in crate::store) struct Checkpoint {
    stage: Stage,
    sectors: BTreeMap<u64, Over>,
    pages: BTreeSet<u64>,
    /// Of sectors that have deltas alone: the sum of those and of what stands in their places, as far as that
    /// could be read and is sound.
    sums: BTreeMap<u64, Buffer>,
    /// Where that is that deltas are added to, and its checksum.
    bases: BTreeMap<u64, (u64, u32)>,
    /// Where the pointers of logical slots lead, of those that it moves.
    pointers: BTreeMap<u64, u64>,
    /// Logical slots that have no place any more when it is done.
    dropped: BTreeSet<u64>,
    /// Slots that get the places of others, which are among the dropped.
    adopted: BTreeMap<u64, u64>,
    /// Places that are free when it is done.
    freed: Vec<u64>,
    finals: Vec<Applied>,
    /// What it sets in the table, by place.
    entries: Vec<(u64, TableEntry)>,
    /// The committed writes that the journal names anew with this checkpoint.
    known: Vec<Timestamp>,
    waiting: usize,
    /// The sequence of the superblock that it writes, once it places anything.
    number: u64,
    /// The pages of the table that it has written, and whether a sector of each is marked.
    written: Vec<(u64, bool)>,
    /// Writes without journal that are in place, of which nothing is said before the superblock is safe.
    placed: Vec<Timestamp>,
    /// The journal said what it does before the disk was opened, namely this: it does it again.
    again: Option<Vec<Applied>>,
}

impl Checkpoint {
    /// One that is to put these sectors in place.
    fn new(sectors: BTreeMap<u64, Over>, pointers: BTreeMap<u64, u64>) -> Checkpoint {
        Checkpoint {
            stage: Stage::Pages,
            pages: BTreeSet::new(),
            bases: BTreeMap::new(),
            pointers,
            dropped: BTreeSet::new(),
            adopted: BTreeMap::new(),
            freed: Vec::new(),
            sectors,
            sums: BTreeMap::new(),
            finals: Vec::new(),
            entries: Vec::new(),
            known: Vec::new(),
            waiting: 0,
            number: 0,
            written: Vec::new(),
            placed: Vec::new(),
            again: None,
        }
    }

    /// What a sector in work consists of, above what is in place.
    pub fn over(&self, sector: u64) -> Option<&Over> {
        self.sectors.get(&sector)
    }

    /// The first of these sectors that it is to put in place.
    pub fn next(&self, sectors: Range<u64>) -> Option<u64> {
        self.sectors.range(sectors).next().map(|(sector, _)| *sector)
    }

    /// The address spaces before one in which it is to put sectors in place, from the last.
    pub fn spaces_before(&self, space: u64) -> impl Iterator<Item = u64> + '_ {
        spaces_before(&self.sectors, space)
    }

    /// How far it is, in words.
    pub fn stage(&self) -> String {
        format!("checkpoint of {} sectors at {:?}", self.finals.len(), self.stage)
    }

    pub fn uses(&self, page: u64) -> bool {
        self.pages.contains(&page)
    }

    /// What it sets in the table, by place.
    pub fn entries(&self) -> &[(u64, TableEntry)] {
        &self.entries
    }

    /// The pointers that it writes.
    pub fn pointers(&self) -> &BTreeMap<u64, u64> {
        &self.pointers
    }

    /// The logical slots that it drops.
    pub fn dropped(&self) -> &BTreeSet<u64> {
        &self.dropped
    }

    /// The sectors that it is to put in place.
    pub fn sectors(&self) -> impl Iterator<Item = (u64, &Over)> {
        self.sectors.iter().map(|(s, over)| (*s, over))
    }

    /// Checks what must hold of it while so many reads and writes of it are under way.
    pub fn check(&self, reads: usize, writes: usize) {
        let waits_for = match self.stage {
            Stage::Pages | Stage::Epoch | Stage::Log => (0, 0),
            Stage::Bases => (self.waiting, 0),
            _ => (0, self.waiting),
        };
        assert_eq!(
            (reads, writes),
            waits_for,
            "a checkpoint waits for its operations: {:?}",
            self.stage
        );
        let idle = matches!(self.stage, Stage::Pages | Stage::Epoch | Stage::Log);
        assert!(idle || self.waiting > 0, "a checkpoint waits for nothing: {:?}", self.stage);
    }

    /// The places that it gives to slots, and those that are free when it is done.
    pub fn places(&self) -> impl Iterator<Item = u64> + '_ {
        self.pointers.values().chain(&self.freed).copied()
    }

    /// A write without journal is in place.
    pub fn placed(&mut self, ts: Timestamp) {
        self.placed.push(ts);
    }
}

/// The maximal runs of consecutive numbers.
pub(in crate::store) fn consecutive(numbers: Vec<u64>) -> impl Iterator<Item = Range<u64>> {
    let mut rest = numbers.into_iter().peekable();
    std::iter::from_fn(move || {
        let first = rest.next()?;
        let mut end = first + 1;
        while rest.next_if_eq(&end).is_some() {
            end += 1;
        }
        Some(first..end)
    })
}
