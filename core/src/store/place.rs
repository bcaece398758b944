//! Where a sector lies. What is asked for of a sector consists of layers: what has been committed and is in memory,
//! above what is in place on the disk, of which the table says whether it means anything. Here a logical sector, as
//! volumes number it, becomes a physical one: that of the slot to which a pointer leads. The table is by physical
//! sector. Reads, scans, checkpoints and recovery ask here.

use std::ops::Range;

use super::overlay::{Content, Over};
use super::slots::Run;
use super::table::{State, TableEntry};
use super::{DiskOp, JournalStore, Purpose};
use crate::Buffer;
use crate::units::{SECTOR, SECTOR_BYTES, Timestamp};

/// Free slots whose content is discarded together: 1 MiB, of slots of 64 KiB.
const DISCARDED_TOGETHER: usize = 16;

/// Where the content of a sector lies, to which deltas may yet be added.
#[derive(Clone, Hash)]
pub(super) enum Base {
    /// In memory: it is committed, and not in place.
    Memory(Buffer),
    /// Nowhere: it is zeros.
    Hole,
    /// On the disk, if what stands there has this checksum.
    Disk {
        /// The physical sector.
        at: u64,
        /// CRC-32C of the content.
        crc: u32,
    },
    /// Nowhere: it is lost.
    Lost,
    /// Nowhere: it is marked as out of date.
    Marked,
}

impl Base {
    /// Where the content lies of a sector with these layers above its place: a physical sector, if it has one.
    pub fn of(layers: &Over, entry: TableEntry, place: Option<u64>) -> Base {
        match (&layers.content, entry.state) {
            (Some((_, Content::Bytes(content))), _) => Base::Memory(content.clone()),
            (Some((_, Content::Mark)), _) | (None, State::Marked) => Base::Marked,
            (Some((_, Content::Slot { at, crc })), _) => Base::Disk { at: *at, crc: *crc },
            (None, State::Hole) => Base::Hole,
            (None, State::Written) => {
                let at = place.expect("a written sector has a place");
                Base::Disk { at, crc: entry.crc }
            }
            (None, State::Bad) => Base::Lost,
        }
    }

    /// The physical sector that must be read to have it.
    pub fn on_disk(&self) -> Option<u64> {
        match self {
            Base::Disk { at, .. } => Some(*at),
            _ => None,
        }
    }

    /// Whether the disk must be read to have it.
    pub fn is_on_disk(&self) -> bool {
        self.on_disk().is_some()
    }

    /// Whether it is marked as out of date.
    pub fn is_marked(&self) -> bool {
        matches!(self, Base::Marked)
    }

    /// Whether it is zeros, as far as can be said without the disk.
    pub fn is_zero(&self) -> bool {
        match self {
            Base::Memory(content) => content.is_zero(),
            Base::Hole => true,
            Base::Disk { .. } | Base::Lost | Base::Marked => false,
        }
    }

    /// The content, given what was read in its place if that could be read; nothing if it is lost or marked.
    pub fn content(&self, read: impl FnOnce() -> Option<Buffer>) -> Option<Buffer> {
        match self {
            Base::Memory(content) => Some(content.clone()),
            Base::Hole => Some(Buffer::Zero(SECTOR_BYTES)),
            Base::Disk { crc, .. } => read().filter(|b| b.crc() == *crc),
            Base::Lost | Base::Marked => None,
        }
    }
}

impl JournalStore {
    /// What a sector is now, whose page of the table is in memory: the layers above its place, and what the
    /// table says of that.
    pub(super) fn layers(&mut self, sector: u64) -> (Over, TableEntry) {
        let mut layers = self.overlay.get(sector).cloned().unwrap_or_default();
        if let Some(over) = self.checkpoint.as_ref().and_then(|c| c.over(sector)) {
            layers.underlay(over.clone());
        }
        (layers, self.entry(sector))
    }

    /// What a sector shows: its own layers and entry, with those of the sectors below it unless it has content of its
    /// own. Also its place, or that of the sector whose entry it is. All their pages are in memory.
    pub(super) fn seen(&mut self, sector: u64) -> (Over, TableEntry, Option<u64>) {
        self.seen_by(sector, self.runs_beneath(sector).as_deref())
    }

    /// The same by the runs of its slot, if they are known.
    pub(super) fn seen_by(
        &mut self,
        sector: u64,
        runs: Option<&[Run]>,
    ) -> (Over, TableEntry, Option<u64>) {
        let (mut layers, entry) = self.layers(sector);
        if layers.content.is_some() || entry != TableEntry::FRESH {
            return (layers, entry, self.slots.place_of(sector));
        }
        let (under, entry, place) = self.shown_beneath(sector, runs);
        layers.underlay(under);
        (layers, entry, place)
    }

    /// What the sectors below one show: by the runs of its slot, if they are known.
    fn shown_beneath(
        &mut self,
        sector: u64,
        runs: Option<&[Run]>,
    ) -> (Over, TableEntry, Option<u64>) {
        let (mut layers, mut entry) = (Over::default(), TableEntry::FRESH);
        if let Some(runs) = runs {
            let shown = self.shown_by(sector, runs);
            let entry = shown.map_or(entry, |shown| self.entry(shown));
            return (layers, entry, shown.and_then(|shown| self.slots.place_of(shown)));
        }
        let mut at = sector;
        while layers.content.is_none() && entry == TableEntry::FRESH {
            let Some(below) = self.below(at) else { break };
            let (under, of_below) = self.layers(below);
            layers.underlay(under);
            (at, entry) = (below, of_below);
        }
        (layers, entry, self.slots.place_of(at))
    }

    /// What the table says of a sector whose page is in memory. A slot that has no place is a hole, if no claim to one has
    /// been lost. An entry that was written for another slot says nothing of this one: its page, or that of the owners, is
    /// an older copy, and what would tell that is damaged, too.
    pub(super) fn entry(&mut self, sector: u64) -> TableEntry {
        let Some(place) = self.slots.place_of(sector) else {
            return if self.slots.slot_of(sector).is_some() {
                self.unclaimed()
            } else {
                TableEntry::LOST
            };
        };
        let entry = self.table.get(place);
        self.entry_of(sector, entry)
    }

    /// The same of a sector that has a place, if its page is in memory.
    pub(super) fn entry_in_memory(&self, sector: u64) -> Option<TableEntry> {
        let entry = self.table.peek(self.slots.place_of(sector)?)?;
        Some(self.entry_of(sector, entry))
    }

    /// What an entry says of the sector at whose place it stands.
    fn entry_of(&self, sector: u64, entry: TableEntry) -> TableEntry {
        match self.speaks_of_another(sector, entry) {
            true => TableEntry::LOST,
            false => TableEntry { slot: 0, ..entry },
        }
    }

    /// Whether an entry that stands where that of this sector is was written for another slot.
    fn speaks_of_another(&self, sector: u64, entry: TableEntry) -> bool {
        let slot = self.slots.mark_of(sector);
        entry.version != Timestamp::ZERO && slot.is_some_and(|slot| slot != entry.slot)
    }

    /// Whether what the table says of a sector's place was written for another slot.
    pub(super) fn is_anothers(&mut self, sector: u64) -> bool {
        let entry = self.slots.place_of(sector).map(|place| self.table.get(place));
        entry.is_some_and(|entry| self.speaks_of_another(sector, entry))
    }

    /// Sets what the table says of a sector that has a place.
    pub(super) fn set_entry(&mut self, sector: u64, entry: TableEntry) {
        let place = self.slots.place_of(sector).expect("a sector in place has one");
        let slot = self.slots.mark_of(sector).unwrap_or(0);
        self.table.set(place, TableEntry { slot, ..entry });
        self.slots.slot_of(sector).into_iter().for_each(|slot| self.slots.changed(slot));
    }

    /// Whether pages of the owners were damaged.
    pub fn has_lost_claims(&self) -> bool {
        self.superblock.unplaced.are_lost
    }

    /// What is known of the sectors of a slot that has no place.
    pub(super) fn unclaimed(&self) -> TableEntry {
        match self.superblock.unplaced.are_lost && self.config.loses_unclaimed() {
            true => TableEntry::LOST,
            false => TableEntry::FRESH,
        }
    }

    /// Where the content lies of a sector, whose page is in memory, with these layers above its place.
    pub(super) fn base(&mut self, layers: &Over, sector: u64) -> Base {
        let entry = self.entry(sector);
        match self.below(sector).filter(|_| self.config.adds_to_shown()) {
            Some(_) if layers.content.is_none() && entry == TableEntry::FRESH => {
                let runs = self.runs_beneath(sector);
                let (layers, entry, place) = self.shown_beneath(sector, runs.as_deref());
                assert!(layers.deltas.is_empty(), "content below a view is applied first");
                Base::of(&layers, entry, place)
            }
            _ => Base::of(layers, entry, self.slots.place_of(sector)),
        }
    }

    /// The newest committed write of a sector whose page is in memory, copies counted; the content in place counts
    /// as `lost` if it is lost.
    pub(super) fn version(&mut self, sector: u64, lost: Timestamp) -> Timestamp {
        let entry = self.entry(sector);
        let placed = if entry.state == State::Bad { lost } else { entry.version };
        let over = self.overlay.get(sector).map(Over::newest);
        let placing = self.checkpoint.as_ref().and_then(|c| c.over(sector)).map(Over::newest);
        let copied = self.copies.latest(sector);
        let layers = [over, placing, copied].into_iter().flatten();
        layers.fold(placed, Timestamp::max)
    }

    /// The bytes of the disk where physical sectors lie: the first, and how many.
    fn bytes_of(&self, sectors: &Range<u64>) -> (u64, u64) {
        let first = self.superblock.data_start() + sectors.start;
        (first * SECTOR, (sectors.end - sectors.start) * SECTOR)
    }

    /// Reads physical sectors.
    pub(super) fn read_place(&mut self, purpose: Purpose, sectors: Range<u64>) {
        let (offset, len) = self.bytes_of(&sectors);
        self.start(purpose, DiskOp::Read { offset, len });
    }

    /// Writes physical sectors, safe with the next flush.
    pub(super) fn write_place(&mut self, purpose: Purpose, sectors: Range<u64>, data: Vec<Buffer>) {
        let (offset, _) = self.bytes_of(&sectors);
        self.start(purpose, DiskOp::Write { offset, data, durable: false });
    }

    /// Whether free slots hold something that is to be discarded when it has been idle for long.
    pub fn has_free_to_discard(&self) -> bool {
        let opened = self.recovery.is_none() && !self.failed;
        self.config.discards_free.is_some() && opened && self.slots.has_to_discard()
    }

    /// Discards what free slots had, if it has been `idle` for long: of those that were freed longest ago first, and a few at a
    /// time.
    pub(super) fn look_at_free(&mut self, idle: bool) {
        let Some(looks) = self.config.discards_free else { return };
        self.idle_looks = if idle { (self.idle_looks + 1).min(looks) } else { 0 };
        let discards = |p: &Purpose| matches!(p, Purpose::DiscardFree { .. });
        if !idle || self.idle_looks < looks || self.ios.values().any(discards) {
            return;
        }
        for _ in 0..DISCARDED_TOGETHER {
            let holds = self.config.holds_what_it_discards();
            let Some(slot) = self.slots.take_to_discard(holds) else { return };
            let sectors = self.slots.sectors_of(slot);
            self.discard_place(Purpose::DiscardFree { slot }, sectors);
        }
    }

    /// What stands in physical sectors is not needed any more.
    pub(super) fn discard_place(&mut self, purpose: Purpose, sectors: Range<u64>) {
        let (offset, len) = self.bytes_of(&sectors);
        self.start(purpose, DiskOp::Discard { offset, len });
    }
}
