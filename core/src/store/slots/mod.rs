//! Slots: stretches of content that a pointer finds. The data area is divided into slots of some sectors each. Those of
//! the logical slots that have content lie in physical ones; which in which, a map in memory says, and on the disk the
//! [owners](owners): for each physical slot the logical one whose content it holds.
//!
//! So a whole slot of new content is written once, into a slot that is free, beside the frame that says so. Only when
//! the write commits does the pointer move. What is smaller goes through the journal, and into the slot that
//! the pointer names.
//!
//! What must hold:
//!
//! 1. At most one physical slot claims a logical one. There are more physical slots than logical ones, so that on a full
//!    disk, too, some are free.
//! 2. A slot is written only while no pointer names it that is durable or can be replayed; but for putting committed
//!    changes in place.
//! 3. A slot that was replaced is free again after the checkpoint that replaced it, and after all reads of it.
//! 4. A discard leaves the version of each sector: a slot whose content is discarded keeps its place.
//! 5. If a page of the owners is damaged, the slots that nobody claims are lost, not holes.
//! 6. Versions and checksums are those of the physical slot, and so go where the content goes. They say which logical slot
//!    they were written for, and count for no other.
//!
//! - [`places`]: which logical slot is where; [`beneath`]: which of those below one it shows
//! - [`owners`]: the pointers on the disk
//! - [`promised`]: how many slots are promised to whom
//! - [`room`]: which slots are free
//! - [`redirect`]: whole slots of new content: prepared, committed, aborted
//! - [`reopened`]: what of all this is found when a disk is opened

mod beneath;
mod owners;
mod places;
mod promised;
mod redirect;
mod reopened;
mod room;
mod shown;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::Superblock;
use super::page;
use super::sparse::Sparse;
use crate::units::{SECTOR, SPACE_SECTORS, Timestamp};

pub(in crate::store) use beneath::Run;
pub(in crate::store) use reopened::Claims;
pub(in crate::store) use room::kept_of;

/// Copies of each page of the owners. They are written in turn, so that a torn write harms the older one.
pub const OWNER_COPIES: u64 = 2;
/// Bytes of an owner's entry.
const OWNER_BYTES: usize = 16;
/// Owners in a page.
pub const OWNERS_PER_PAGE: u64 = (page::BODY_BYTES / OWNER_BYTES) as u64;
/// Most sectors of a slot.
pub const MOST_SLOT: u64 = 64;
/// Most slots of a disk.
pub const MOST_SLOTS: u64 = u32::MAX as u64 - 1;

/// As many bits of a logical slot's number does the table have room for.
const MARK: u32 = (1 << 24) - 1;
/// Multiplied with the number of an address space it makes numbers that are far apart: 2^24 divided by the golden ratio.
const SPREAD: u32 = 0x9e_3779;
/// In the place of a slot's number, which is kept plus 1, in memory as on the disk. So slots that were never written take
/// no memory.
const NONE: u64 = 0;

/// The number of a physical slot as it is kept.
fn kept(place: u64) -> u32 {
    place as u32 + 1
}

/// The inverse of [`kept`].
fn number(kept: impl Into<u64>) -> Option<u64> {
    kept.into().checked_sub(1)
}

/// Pointers that have moved: of each logical slot the write, and the place.
pub(in crate::store) type Moved = BTreeMap<u64, (Timestamp, u64)>;

/// How many slots of a disk are used for what. Each is free, or has the content of a logical slot, or is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotCounts {
    /// All physical slots.
    pub all: u64,
    /// Those that volumes can have: all but the spare ones.
    pub usable: u64,
    /// Those with nothing that is needed.
    pub free: u64,
    /// Those of them that are kept for what is put in place where nothing is yet.
    pub reserved: u64,
    /// Those to which a pointer leads: as many logical slots have been written.
    pub placed: u64,
    /// Those with the content of writes whose pointers have yet to move, or with what such content takes the place of,
    /// as long as a checkpoint or a reader needs it. At rest there are none.
    pub held: u64,
    /// Those of the placed ones that thin volumes have.
    pub thin: u64,
    /// Those that are reserved for other volumes, whether they have been written or not.
    pub promised: u64,
    /// Bytes of a slot.
    pub bytes: u64,
}

/// The slots of a disk.
#[derive(Clone, Hash)]
pub(in crate::store) struct Slots {
    /// Sectors of a slot; 0 if the disk has none, and every sector is in the place of its number.
    size: u64,
    /// Sectors that volumes are offered in address space 0.
    offered: u64,
    /// Of each logical slot the physical one that the last checkpoint gave it.
    places: places::Places,
    /// Of each physical slot the logical one that claims it so, kept plus 1.
    owners: Sparse<u64>,
    promised: promised::Promised,
    /// For each page of the owners, which copy is the newer one.
    newer: Vec<u8>,
    /// Pages of the owners that are to be written with the next checkpoint.
    dirty: BTreeSet<u64>,
    /// Pages of which a copy is from a checkpoint of which nothing is known, or that the index says to be from one. That is to be
    /// put right before its number is one that counts.
    refused: BTreeMap<u64, owners::Refused>,
    room: room::Room,
    /// Pointers that have moved since: of a logical slot the write that has committed, and where its content is.
    moved: Moved,
    /// Places that pointers have left, since a checkpoint has said so in the journal last.
    leaving: Vec<u64>,
    /// Places that would be free if nobody read them.
    being_read: BTreeSet<u64>,
    /// How many writes of content are under way for each write that is being prepared.
    landing: BTreeMap<Timestamp, u32>,
    /// What aborted writes had taken.
    dropped: BTreeMap<Timestamp, redirect::Dropped>,
}

impl Slots {
    /// The slots of a disk on which nothing is written.
    pub fn new(sb: &Superblock) -> Slots {
        let count = sb.slots();
        Slots {
            size: sb.slot(),
            offered: sb.offered(),
            places: places::Places::new(sb.logical_slots(), sb.slot(), sb.has_spaces()),
            owners: Sparse::new(count),
            promised: promised::Promised::new(sb.logical_slots()),
            newer: vec![1; sb.owner_pages() as usize],
            dirty: BTreeSet::new(),
            refused: BTreeMap::new(),
            room: room::Room::new(count),
            moved: BTreeMap::new(),
            leaving: Vec::new(),
            being_read: BTreeSet::new(),
            landing: BTreeMap::new(),
            dropped: BTreeMap::new(),
        }
    }

    /// The slots of a disk on which everything has been written, each in the place of its number.
    pub fn full(sb: &Superblock) -> Slots {
        let mut slots = Slots::new(sb);
        let count = sb.logical_slots();
        slots.places.fill(kept);
        slots.owners.fill(count, |slot| slot + 1);
        slots.room.use_first(count);
        slots
    }

    /// How many slots are kept for changes that are put in place where nothing is yet: no more than there are such
    /// places.
    pub fn reserved(&self) -> u64 {
        self.room.reserve().min(self.unplaced())
    }

    /// Whether pointers have moved, and slots that the next checkpoint frees are wanted.
    pub fn is_short(&self) -> bool {
        !self.moved.is_empty() && self.room.free() < self.reserved() + self.room.reserve() / 2
    }

    /// The logical slot of a sector. Sectors behind all slots have none.
    pub fn slot_of(&self, sector: u64) -> Option<u64> {
        let slot = sector.checked_div(self.size)?;
        self.places.is_slot(slot).then_some(slot)
    }

    /// What entries of the table have that speak of a sector in a slot: lower bits of the slot's number, in which address
    /// spaces differ.
    pub fn mark_of(&self, sector: u64) -> Option<u32> {
        let slot = self.slot_of(sector)?;
        let space = (sector / SPACE_SECTORS) as u32;
        Some((slot as u32).wrapping_add(space.wrapping_mul(SPREAD)) & MARK)
    }

    /// Whether the disk has these sectors.
    pub fn has(&self, sectors: Range<u64>) -> bool {
        match sectors.start < SPACE_SECTORS {
            true => sectors.end <= self.offered,
            false => {
                self.slot_of(sectors.start).is_some() && self.slot_of(sectors.end - 1).is_some()
            }
        }
    }

    /// The sectors of a slot.
    pub fn sectors_of(&self, slot: u64) -> Range<u64> {
        slot * self.size..(slot + 1) * self.size
    }

    /// The first of these sectors, with those that follow it in its slot; all if they are in none.
    pub fn run_of(&self, sectors: Range<u64>) -> Range<u64> {
        let slot = self.slot_of(sectors.start);
        let end = slot.map_or(sectors.end, |slot| self.sectors_of(slot).end.min(sectors.end));
        sectors.start..end
    }

    /// The sector of a slot that is where another sector is in its own.
    pub fn in_slot(&self, sector: u64, slot: u64) -> u64 {
        slot * self.size + sector % self.size
    }

    /// Where the checkpoint before has put a sector; nowhere if nothing has been written to its slot.
    pub fn place_of(&self, sector: u64) -> Option<u64> {
        let Some(slot) = self.slot_of(sector) else {
            // A disk without address spaces has nothing of a thin volume.
            return (sector < SPACE_SECTORS).then_some(sector);
        };
        self.place(slot).map(|place| place * self.size + sector % self.size)
    }

    /// The sectors whose places are among these physical sectors, but for those of the pointers that are to move: for each
    /// slot of which one is all of the slot.
    pub fn sectors_in(&self, places: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let slots = self.owners.len();
        let within = places.start / self.size..places.end.div_ceil(self.size).min(slots);
        let owned = self.owners.within(within).filter_map(|(_, owner)| number(owner));
        let behind = places.start.max(slots * self.size)..places.end;
        owned.map(|slot| self.sectors_of(slot)).chain((!behind.is_empty()).then_some(behind))
    }

    /// The physical slot of a logical one.
    pub fn place(&self, slot: u64) -> Option<u64> {
        number(self.places.get(slot))
    }

    /// Where a pointer has moved that the next checkpoint is to write.
    pub fn moved(&self, slot: u64) -> Option<u64> {
        self.moved.get(&slot).map(|(_, place)| *place)
    }

    /// The first of these slots that has a place.
    pub fn next_placed(&self, slots: Range<u64>) -> Option<u64> {
        self.places.within(slots).next().map(|(slot, _)| slot)
    }

    /// Those of a range of slots, of any address spaces, that have a place.
    pub fn placed_in(&self, slots: Range<u64>) -> impl Iterator<Item = u64> + '_ {
        self.places.across(slots)
    }

    /// Whether a slot of this number can have content.
    pub fn is_slot(&self, slot: u64) -> bool {
        self.places.is_slot(slot)
    }

    /// Whether a slot is a thin volume's.
    pub fn is_thin(&self, slot: u64) -> bool {
        self.places.is_thin(slot)
    }

    /// For how many numbers memory is taken.
    #[cfg(test)]
    pub fn held(&self) -> u64 {
        self.places.held() + self.owners.held() + self.room.held()
    }

    /// Those of these sectors that are behind all slots.
    pub fn behind(&self, sectors: &Range<u64>) -> Option<Range<u64>> {
        let end = self.places.own() * self.size;
        let behind = end.max(sectors.start)..sectors.end.min(self.offered);
        (behind.start < behind.end).then_some(behind)
    }

    /// The pointers that have moved since the last checkpoint.
    pub fn all_moved(&self) -> Moved {
        self.moved.clone()
    }

    /// A checkpoint has put sectors of a slot in place. Where the pointer had moved when it began (`begun`) has been seen to:
    /// it leads there, or what had come later leads elsewhere.
    pub fn put_in_place(&mut self, slot: u64, begun: &Moved) {
        if self.moved.get(&slot) == begun.get(&slot) {
            self.moved.remove(&slot);
        }
    }

    /// Whether a pointer has moved to this place that the next checkpoint is to write.
    pub fn has_moved_to(&self, place: u64) -> bool {
        self.moved.values().any(|(_, other)| *other == place)
    }

    /// Whether a slot will have a place when what has committed is in place.
    pub fn is_placed(&self, slot: u64) -> bool {
        self.moved.contains_key(&slot) || self.place(slot).is_some()
    }

    /// A checkpoint is to write a pointer: where to. A slot that has no place gets one, if any is free.
    pub fn point_at_checkpoint(&mut self, slot: u64) -> Option<u64> {
        match self.moved.remove(&slot) {
            Some((_, place)) => Some(place),
            None => self.room.take(self.beside(slot)),
        }
    }

    /// The place beside that of the slot before, if that has one.
    fn beside(&self, slot: u64) -> Option<u64> {
        // The one before the first of an address space is none of another.
        let before = slot.checked_sub(1).filter(|before| self.places.is_slot(*before))?;
        self.moved(before).or_else(|| self.place(before)).map(|place| place + 1)
    }

    /// A pointer is part of what the checkpoint in work has put in place. Returns the place where it pointed before.
    pub fn point(&mut self, slot: u64, place: u64) -> Option<u64> {
        let before = self.place(slot);
        if before == Some(place) {
            return None;
        }
        match before {
            Some(before) => {
                self.owners.set(before, NONE);
                self.dirty.insert(before / OWNERS_PER_PAGE);
            }
            None => self.promised.placed(slot),
        }
        self.places.set(slot, kept(place));
        self.owners.set(place, slot + 1);
        self.dirty.insert(place / OWNERS_PER_PAGE);
        before
    }

    /// A slot is dropped by the checkpoint in work. Returns the place where its pointer led, if that is free then.
    pub fn drop_pointer(&mut self, slot: u64) -> Option<u64> {
        let before = self.place(slot)?;
        self.places.set(slot, 0);
        self.promised.dropped(self.places.is_thin(slot));
        // Unless another slot has its place now.
        let is_its = self.owners.get(before) == slot + 1;
        if is_its {
            self.owners.set(before, NONE);
            self.dirty.insert(before / OWNERS_PER_PAGE);
        }
        is_its.then_some(before)
    }

    /// The pages of the owners that a checkpoint writes which is to write these pointers, and to drop these slots.
    pub fn pages_to_write(
        &self,
        pointers: &BTreeMap<u64, u64>,
        dropped: &BTreeSet<u64>,
    ) -> BTreeSet<u64> {
        let mut pages = self.dirty.clone();
        let places = dropped.iter().filter_map(|slot| self.place(*slot));
        pages.extend(places.map(|place| place / OWNERS_PER_PAGE));
        for (slot, place) in pointers {
            let before = self.place(*slot);
            if before != Some(*place) {
                let changed = before.into_iter().chain([*place]);
                pages.extend(changed.map(|place| place / OWNERS_PER_PAGE));
            }
        }
        pages
    }

    /// Whether pointers have left places since the last apply entry.
    pub fn has_leaving(&self) -> bool {
        !self.leaving.is_empty()
    }

    /// The places that pointers have left, whose pointers the next apply entry replaces.
    pub fn take_leaving(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.leaving)
    }

    /// A place is not needed any more, but by who `reads` it.
    pub fn left(&mut self, place: u64, reads: bool) {
        match reads {
            true => drop(self.being_read.insert(place)),
            false => self.room.give_back(place),
        }
    }

    /// Places that are free when nobody reads them.
    pub fn being_read(&self) -> impl Iterator<Item = u64> + '_ {
        self.being_read.iter().copied()
    }

    /// Nobody reads a place any more.
    pub fn read(&mut self, place: u64) {
        if self.being_read.remove(&place) {
            self.room.give_back(place);
        }
    }

    /// A free place whose content is to be discarded. Nobody gets it before it [is](Slots::discarded), if the place is held.
    pub fn take_to_discard(&mut self, holds: bool) -> Option<u64> {
        self.room.take_to_discard(holds)
    }

    /// Whether there are such places.
    pub fn has_to_discard(&self) -> bool {
        self.room.has_to_discard()
    }

    /// What a free place had is discarded.
    pub fn discarded(&mut self, place: u64) {
        self.room.discarded(place);
    }

    /// The logical slots whose pointers have moved since the last checkpoint.
    pub fn moving(&self) -> impl Iterator<Item = u64> + '_ {
        self.moved.keys().copied()
    }

    /// Checks what must hold of them. `held` are the places of undecided writes, and those of which the checkpoint in work
    /// disposes.
    pub fn check(&self, held: impl Iterator<Item = u64>) {
        let mut used = BTreeSet::new();
        for (slot, place) in self.places.all() {
            let place = number(place).expect("a kept place is none of these");
            assert_eq!(number(self.owners.get(place)), Some(slot), "slot {slot} has its place");
            used.insert(place);
        }
        let owned = self.owners.all().count();
        assert_eq!(owned, used.len(), "at most one place claims a slot");
        let placed = self.places.placed() + self.places.placed_thin();
        assert_eq!(placed, used.len() as u64, "slots with a place are counted");
        self.places.check_shown();
        let mut once = BTreeSet::new();
        let moved = self.moved.values().map(|(_, place)| *place);
        let leaving = self.leaving.iter().copied().chain(self.being_read());
        for place in held.chain(moved).chain(leaving).chain(self.dropped()) {
            assert!(once.insert(place), "place {place} is used for two things");
        }
        used.extend(once);
        self.room.check(&used);
    }

    /// How many slots a checkpoint may give to those that have none.
    pub fn free(&self) -> u64 {
        self.room.free()
    }

    /// How many there are of each kind; none if the disk has no slots.
    pub fn counts(&self) -> Option<SlotCounts> {
        let all = self.owners.len();
        let (free, reserved) = (self.free(), self.reserved());
        let (thin, placed) =
            (self.places.placed_thin(), self.places.placed() + self.places.placed_thin());
        let held = all - free - placed;
        let promised = self.promised();
        let (usable, bytes) = (self.places.own(), self.size * SECTOR);
        let counts =
            SlotCounts { all, usable, free, reserved, placed, held, thin, promised, bytes };
        (self.size > 0).then_some(counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn on_a_full_disk_spare_slots_are_free() {
        let sb = Superblock::divide(7, 3, 9, 100_000, 4096).expect("it is large enough");
        let mut slots = Slots::full(&sb);
        assert_eq!((slots.free(), slots.reserved()), (sb.spare, 0));
        let full = |free, held| {
            let (all, placed) = (sb.slots(), sb.logical_slots());
            let (thin, bytes) = (0, Superblock::SLOT * SECTOR);
            let (usable, promised) = (placed, placed);
            let reserved = 0;
            Some(SlotCounts { all, usable, free, reserved, placed, held, thin, promised, bytes })
        };
        assert_eq!(slots.counts(), full(sb.spare, 0));
        let taken: Vec<u64> = (0..).map_while(|slot| slots.take_for(slot, 0)).collect();
        assert_eq!(taken, (sb.logical_slots()..sb.slots()).collect::<Vec<_>>());
        assert_eq!(slots.counts(), full(0, sb.spare));
        slots.check(taken.into_iter());
        let none = Superblock::divide_in(0, 7, 3, 9, 100_000, 4096).expect("it is large enough");
        assert_eq!(Slots::new(&none).counts(), None);
    }
}
