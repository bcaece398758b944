//! Garbage collection of a flash device: its numbers, how the simulated drive is scaled, and whether they fit.

use serde::Deserialize;

use super::{Flash, SpecError};

/// Garbage collection. What each field means is in [`super::parameters`].
#[expect(missing_docs, reason = "`parameters` says it of every field, to users too")]
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Collection {
    pub raw_bytes: u64,
    pub page_bytes: u64,
    pub block_bytes: u64,
    #[serde(default = "reserve_superblocks")]
    pub reserve_superblocks: u32,
    pub erase_ms: f64,
    pub suspend_ms: Option<f64>,
    #[serde(default)]
    pub command_ms: f64,
    pub write_buffer_bytes: u64,
    #[serde(default)]
    pub start: Start,
}

fn reserve_superblocks() -> u32 {
    2
}

/// What a drive holds when a run begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Start {
    /// All pages were written, and then overwritten at random until write amplification did not change.
    #[default]
    Preconditioned,
    /// Nothing: all blocks are erased.
    Fresh,
}

/// The most logical pages that a simulated drive keeps a mapping for.
const MOST_TRACKED_PAGES: u64 = 1 << 20;
/// The most superblocks that a simulated drive has.
const MOST_SUPERBLOCKS: u64 = 4096;
/// The most raw bytes for each byte of capacity. It bounds the memory of a simulated drive.
const MOST_RAW: u64 = 8;

/// The simulated drive in pages: those that are tracked, one in `scale`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sizes {
    /// Pages of the drive for each one that is tracked.
    pub scale: u64,
    /// Tracked logical pages.
    pub logical: u64,
    /// Tracked pages in a superblock.
    pub per_superblock: u64,
    /// Superblocks.
    pub superblocks: u64,
}

impl Sizes {
    pub fn of(flash: &Flash, collection: &Collection) -> Sizes {
        let page = collection.page_bytes;
        let pages = flash.capacity_bytes.div_ceil(page);
        let scale = pages.div_ceil(MOST_TRACKED_PAGES);
        let raw = collection.raw_bytes / page / scale;
        let natural = collection.block_bytes * u64::from(flash.channels) / page / scale;
        let per_superblock = natural.max(raw / MOST_SUPERBLOCKS).max(1);
        let superblocks = raw / per_superblock;
        Sizes { scale, logical: pages.div_ceil(scale), per_superblock, superblocks }
    }

    /// Superblocks that the drive needs: for all logical pages, the reserve, the two that are being written, and one
    /// to gain from.
    fn needed(&self, collection: &Collection) -> u64 {
        self.logical.div_ceil(self.per_superblock) + u64::from(collection.reserve_superblocks) + 3
    }
}

/// What one range cannot say of garbage collection.
pub(super) fn check(flash: &Flash) -> Result<(), SpecError> {
    let Some(collection) = &flash.collection else { return Ok(()) };
    let conflict = |name: &str, problem: String| {
        Err(SpecError::Conflict { key: format!("flash.collection.{name}"), problem })
    };
    let (sector, page) = (u64::from(flash.sector_bytes), collection.page_bytes);
    if !page.is_multiple_of(sector) {
        return conflict("page_bytes", "must be a whole number of sectors".into());
    }
    if !flash.unit_bytes.is_multiple_of(page) {
        let problem =
            format!("flash.unit_bytes, {}, must be a whole number of it", flash.unit_bytes);
        return conflict("page_bytes", problem);
    }
    if !collection.block_bytes.is_multiple_of(flash.unit_bytes) {
        let problem = format!("must be a whole number of flash.unit_bytes, {}", flash.unit_bytes);
        return conflict("block_bytes", problem);
    }
    if collection.write_buffer_bytes < flash.unit_bytes {
        let problem = format!("must be at least flash.unit_bytes, {}", flash.unit_bytes);
        return conflict("write_buffer_bytes", problem);
    }
    let (raw, capacity) = (collection.raw_bytes, flash.capacity_bytes);
    if raw / MOST_RAW > capacity {
        let problem = format!("must be at most {MOST_RAW} times flash.capacity_bytes, {capacity}");
        return conflict("raw_bytes", problem);
    }
    let sizes = Sizes::of(flash, collection);
    let needed = sizes.needed(collection);
    if sizes.superblocks < needed {
        let superblock = sizes.per_superblock * sizes.scale * page;
        let problem = format!(
            "must be at least {}, {needed} superblocks of {superblock} bytes: enough for \
             flash.capacity_bytes and {} more",
            u128::from(needed) * u128::from(superblock),
            collection.reserve_superblocks + 3,
        );
        return conflict("raw_bytes", problem);
    }
    Ok(())
}
