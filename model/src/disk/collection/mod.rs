//! A flash device with garbage collection: writes go to a buffer, are programmed wherever there is room, and make
//! copies and erases necessary.
//!
//! ```text
//!  write -> buffer (complete) -> unit by unit to the next channel
//!             |                                       |
//!           `pages`: which pages are valid       `dies`: when channels are free
//!             |                                       |
//!             +--- copies and erases, in proportion --+
//! ```
//!
//! One page in `scale` is tracked, drawn by a hash of its address, as caches are simulated by SHARDS (Waldspurger et
//! al., FAST 2015). A collection of the tracked pages stands for as much among all pages. Its copies and erases are
//! spread evenly over the writes that it makes room for, so that a collection does not stop hosts.

mod dies;
mod pages;
mod start;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use weft_core::units::Nanos;

use super::latency::Latencies;
use super::nanos;
use crate::spec::{Collection, Flash, Sizes, Start};
use dies::Dies;
use pages::{Collected, Pages};

/// What a flash device with garbage collection has written and erased.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wear {
    /// Units that were programmed with what hosts wrote.
    pub host_units: u64,
    /// Units that were copied.
    pub copied_units: u64,
    /// Blocks of a channel that were erased.
    pub erased_blocks: u64,
}

impl Wear {
    /// What was programmed, by what hosts wrote; 1 if nothing was.
    pub fn write_amplification(&self) -> f64 {
        match self.host_units {
            0 => 1.0,
            host => (host + self.copied_units) as f64 / host as f64,
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Collecting {
    dies: Dies,
    pages: Pages,
    scale: u64,
    /// Blocks of a channel that a superblock of tracked pages stands for.
    blocks_per_superblock: f64,
    page_bytes: u64,
    pages_per_unit: u64,
    /// In the controller, for each command.
    pub command: Nanos,
    erase: Nanos,
    /// Units that the buffer has room for.
    buffer_units: usize,
    /// When each unit that is being programmed leaves the buffer.
    leaving: BinaryHeap<Reverse<Nanos>>,
    /// Pages of the unit that is being filled.
    filled: u64,
    /// When the last page came into the buffer.
    admitted: Nanos,
    owed: Owed,
    wear: Wear,
}

/// Copies and erases that have not been done, and the writes over which they are spread.
#[derive(Clone, Copy, Debug, Default)]
struct Owed {
    /// Of tracked pages: copies, writes, and superblocks to erase.
    copies: f64,
    writes: f64,
    erases: f64,
    /// Of all: pages to copy and blocks of a channel to erase, less than one unit and one block.
    due_pages: f64,
    due_blocks: f64,
}

impl Collecting {
    pub fn new(spec: &Flash, collection: &Collection, chance: &mut fastrand::Rng) -> Collecting {
        let mut pages = Pages::new(spec, collection);
        if collection.start == Start::Preconditioned {
            pages.precondition(chance);
        }
        let sizes = Sizes::of(spec, collection);
        let superblock_bytes = sizes.per_superblock * sizes.scale * collection.page_bytes;
        let mut collecting = Collecting {
            dies: Dies::new(spec.channels, collection.suspend_ms.map(nanos)),
            pages,
            scale: sizes.scale,
            blocks_per_superblock: superblock_bytes as f64 / collection.block_bytes as f64,
            page_bytes: collection.page_bytes,
            pages_per_unit: spec.unit_bytes / collection.page_bytes,
            command: nanos(collection.command_ms),
            erase: nanos(collection.erase_ms),
            buffer_units: (collection.write_buffer_bytes / spec.unit_bytes) as usize,
            leaving: BinaryHeap::new(),
            filled: 0,
            admitted: 0,
            owed: Owed::default(),
            wear: Wear::default(),
        };
        // So that the first writes cost what all do.
        let collected = collecting.pages.make_room();
        collecting.owed.add(collected);
        collecting
    }

    pub fn wear(&self) -> Wear {
        self.wear
    }

    /// A channel's read that can begin at `ready`: when it begins and ends.
    pub fn read(&mut self, channel: usize, ready: Nanos, latency: Nanos) -> (Nanos, Nanos) {
        self.dies.read(channel, ready, latency)
    }

    /// Takes these bytes, which are across at `at`, into the buffer; answers when all are there.
    pub fn write(
        &mut self,
        now: Nanos,
        at: Nanos,
        bytes: Range<u64>,
        latencies: &mut Latencies<'_>,
    ) -> Nanos {
        self.admitted = self.admitted.max(at);
        for page in bytes.start / self.page_bytes..bytes.end.div_ceil(self.page_bytes) {
            if self.filled == 0 {
                self.wait_for_room();
            }
            self.map(page);
            self.filled += 1;
            if self.filled == self.pages_per_unit {
                self.filled = 0;
                self.program(now, latencies);
            }
        }
        self.admitted
    }

    /// The pages that are wholly within these bytes are not needed any more.
    pub fn discard(&mut self, bytes: Range<u64>) {
        let pages = bytes.start.div_ceil(self.page_bytes)..bytes.end / self.page_bytes;
        if pages.is_empty() {
            return;
        }
        for group in pages.start / self.scale..=(pages.end - 1) / self.scale {
            if pages.contains(&self.tracked_of(group)) {
                self.pages.discard(group as u32);
            }
        }
    }

    /// The page of a group of `scale` that is tracked. A pattern in addresses must not choose it.
    fn tracked_of(&self, group: u64) -> u64 {
        // The finalizer of MurmurHash3.
        let mut hash = (group + 1).wrapping_mul(0xff51_afd7_ed55_8ccd);
        hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        group * self.scale + (hash ^ (hash >> 33)) % self.scale
    }

    /// The buffer has room for another unit when one of those in it has been programmed.
    fn wait_for_room(&mut self) {
        while self.leaving.peek().is_some_and(|Reverse(at)| *at <= self.admitted) {
            self.leaving.pop();
        }
        if self.leaving.len() == self.buffer_units
            && let Some(Reverse(at)) = self.leaving.pop()
        {
            self.admitted = at;
        }
    }

    fn map(&mut self, page: u64) {
        let group = page / self.scale;
        if page == self.tracked_of(group) {
            let collected = self.pages.write(group as u32);
            self.owed.add(collected);
            self.owed.one_written();
        }
    }

    /// Programs the unit that is full, and does the copies and erases that are due.
    fn program(&mut self, now: Nanos, latencies: &mut Latencies<'_>) {
        let at = self.admitted;
        self.leaving.push(Reverse(self.dies.work(now, at, latencies.program())));
        self.wear.host_units += 1;
        let copies = self.owed.units_to_copy(self.pages_per_unit);
        let erases = self
            .owed
            .blocks_to_erase(self.pages_per_unit, self.blocks_per_superblock / self.scale as f64);
        for _ in 0..copies {
            let latency = latencies.read() + latencies.program();
            self.dies.work(now, at, latency);
        }
        for _ in 0..erases {
            self.dies.work(now, at, self.erase);
        }
        self.wear.copied_units += copies;
        self.wear.erased_blocks += erases;
    }
}

impl Owed {
    fn add(&mut self, collected: Collected) {
        self.copies += collected.copied as f64;
        self.erases += collected.erased as f64;
        self.writes += collected.gained as f64;
    }

    /// A tracked page was written, with its share of all that is owed.
    fn one_written(&mut self) {
        if self.writes <= 1.0 {
            (self.copies, self.erases, self.writes) = (0.0, 0.0, 0.0);
            return;
        }
        let left = 1.0 - 1.0 / self.writes;
        self.copies *= left;
        self.erases *= left;
        self.writes -= 1.0;
    }

    /// Units to copy after hosts have written one unit of `pages`.
    fn units_to_copy(&mut self, pages: u64) -> u64 {
        if self.writes > 0.0 {
            self.due_pages += pages as f64 * self.copies / self.writes;
        }
        let units = (self.due_pages / pages as f64).floor();
        self.due_pages -= units * pages as f64;
        units as u64
    }

    /// Blocks of a channel to erase then, with so many for each superblock of `scale` times the tracked pages.
    fn blocks_to_erase(&mut self, pages: u64, blocks: f64) -> u64 {
        if self.writes > 0.0 {
            self.due_blocks += pages as f64 * blocks * self.erases / self.writes;
        }
        let whole = self.due_blocks.floor();
        self.due_blocks -= whole;
        whole as u64
    }
}
