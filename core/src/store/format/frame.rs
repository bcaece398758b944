//! Frames of the journal, and the entries in them.

use super::super::index::PAGES_PER_INDEX;
use super::super::reached::Reached;
use super::super::table::State;
use super::super::torn::{PageSum, PageSums};
use super::super::{Change, ChangeKind, Kept};
use super::carried::Carried;
use super::{MOST_COUNTED, put_heard, seal, sealed, take_heard};
use crate::units::{
    Epoch, LAST_THIN, NodeId, SECTOR, SECTOR_BYTES, SPACE_SECTORS, Timestamp, VolumeId,
};
use weft_bytes::checksum;
use weft_bytes::{BytesError, Read, Reader, Writer, at_most};

const FRAME_MAGIC: &[u8; 8] = b"WEFTJRNL";
const FRAME_FIXED: usize = 48;
/// In the place of a physical slot: the logical one has none any more.
pub(crate) const NOWHERE: u64 = u64::MAX;
/// The last address space.
const LAST_SPACE: u64 = LAST_THIN.0 as u64 + 1;

/// An entry of a journal frame.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Entry {
    /// A participant's part of a write: what to do if it commits, and who else takes part.
    Prepare { ts: Timestamp, meta: Vec<u8>, changes: Vec<ChangeHead>, redirects: Vec<Redirect> },
    /// The outcome of a write prepared earlier.
    Outcome { ts: Timestamp, commit: bool },
    /// All participants know the outcome.
    Released { ts: Timestamp },
    /// These sectors are about to be written in place, these logical slots will lie in these places or [`NOWHERE`], and these pages
    /// will have these checksums.
    Apply { sectors: Vec<Applied>, pointers: Vec<(u64, u64)>, sums: PageSums },
    /// A checkpoint begins: what has committed by now, and nothing later, goes into it.
    Begin,
    /// The number of the checkpoint whose sectors the next apply entry names.
    Checkpoint(u64),
    /// A write that commits has no effect in these sectors: later content is there.
    Overtaken { ts: Timestamp, sectors: Vec<u64> },
    /// A write known to have committed, whose content is in place or superseded.
    Known { ts: Timestamp, meta: Vec<u8> },
    /// How far other disks had got, as far as this one has heard.
    Heard(Vec<(NodeId, Reached)>),
    /// What follows is promised in this epoch, or a later one; or [`FORGOT`].
    Life(Epoch),
    /// Frames with lower numbers were safe when this was written, and so was the content of the writes in them.
    Safe(u64),
    /// A write whose first frame may go.
    Carried(Carried),
}

/// What a change is, apart from its bytes, which follow the frame's head.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ChangeHead {
    pub sector: u64,
    pub count: u32,
    pub kind: ChangeKind,
    /// `None` for a run of zeros, which has no bytes in the frame.
    pub crc: Option<u32>,
}

impl ChangeHead {
    /// The head of a change.
    pub fn of(change: &Change) -> ChangeHead {
        ChangeHead {
            sector: change.sector,
            count: change.count() as u32,
            kind: change.kind,
            crc: (!change.data.is_zero()).then(|| change.data.crc()),
        }
    }
}

/// Content of a whole slot, which stands in another place already, or will when the write is prepared.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Redirect {
    /// The logical slot.
    pub slot: u64,
    /// The place: a physical slot.
    pub place: u64,
    /// The checksum of each sector's content.
    pub crcs: Vec<u32>,
}

/// What numbers in entries mean on a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Bounds {
    /// Data sectors that volumes are offered: logical ones.
    pub offered: u64,
    /// Data sectors in all: physical ones.
    pub data: u64,
    /// Sectors of a slot, or 0.
    pub slot: u64,
    /// Whether there are address spaces of thin volumes.
    pub has_spaces: bool,
    /// Pages of the table and the owners, as the index counts them.
    pub pages: u64,
}

impl Bounds {
    /// How many logical sectors there are from the one on that has this number, in its address space.
    fn left_from(&self, sector: u64) -> u64 {
        let space = sector / SPACE_SECTORS;
        match space {
            0 => self.offered.saturating_sub(sector),
            _ if self.has_spaces && space <= LAST_SPACE => SPACE_SECTORS - sector % SPACE_SECTORS,
            _ => 0,
        }
    }

    /// Fails if there is no logical sector of this number.
    pub(super) fn sector(&self, sector: u64) -> Read<()> {
        match self.left_from(sector) {
            0 => Err(BytesError::Bounds { what: "a sector", value: sector }),
            _ => Ok(()),
        }
    }

    /// Fails if there is no logical slot of this number.
    fn slot(&self, slot: u64) -> Read<()> {
        let last = (slot.checked_add(1)).and_then(|n| n.checked_mul(self.slot));
        match last.and_then(|end| end.checked_sub(1)) {
            Some(last) if self.left_from(last) > 0 => Ok(()),
            _ => Err(BytesError::Bounds { what: "a logical slot", value: slot }),
        }
    }

    /// Fails if there is no logical slot of this number, or no such place.
    fn pointer(&self, slot: u64, place: u64) -> Read<()> {
        self.slot(slot)?;
        match self.data.checked_div(self.slot) {
            Some(places) if place < places => Ok(()),
            _ => Err(BytesError::Bounds { what: "a slot's place", value: place }),
        }
    }

    /// Fails if a write cannot have this part. A change lies in one stripe unit, and no disk is smaller than that: an address
    /// space may be far larger, and zeros in it take memory for each sector.
    pub(super) fn part(&self, changes: &[ChangeHead], redirects: &[Redirect]) -> Read<()> {
        redirects.iter().try_for_each(|r| self.redirect(r))?;
        changes.iter().try_for_each(|c| {
            let most = self.left_from(c.sector).min(self.data);
            at_most("the sectors of a change", c.count.into(), most)
        })
    }

    /// Fails if there is no such page.
    fn sums(&self, sums: &PageSums) -> Read<()> {
        let last = |pages: u64| pages.saturating_sub(1);
        let (most, index) = (last(self.pages), last(self.pages.div_ceil(PAGES_PER_INDEX as u64)));
        sums.pages.iter().try_for_each(|sum| at_most("a page", sum.page, most))?;
        sums.index.iter().try_for_each(|(page, _)| at_most("a page of the index", *page, index))
    }

    fn redirect(&self, redirect: &Redirect) -> Read<()> {
        self.pointer(redirect.slot, redirect.place)?;
        match redirect.crcs.len() as u64 {
            count if count == self.slot => Ok(()),
            value => Err(BytesError::Bounds { what: "the sectors of a slot", value }),
        }
    }
}

/// What a sector in place will be once an apply is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Applied {
    pub sector: u64,
    pub version: Timestamp,
    pub crc: u32,
    pub state: u8,
}

/// The fixed part of a frame's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FrameHead {
    pub number: u64,
    pub head_sectors: u64,
    pub payload_sectors: u64,
}

impl FrameHead {
    /// Sectors of the whole frame.
    pub fn sectors(&self) -> u64 {
        self.head_sectors + self.payload_sectors
    }
}

impl Entry {
    /// Whether its frame is kept for a write.
    pub fn keeps_its_frame(&self) -> bool {
        matches!(self, Entry::Prepare { .. } | Entry::Carried(_))
    }

    /// What must hold of every entry that is written on a disk of these bounds, and of every one that is read.
    pub fn check(&self, bounds: Bounds) -> Read<()> {
        match self {
            Entry::Prepare { changes, redirects, .. } => bounds.part(changes, redirects),
            Entry::Apply { sectors, pointers, sums } => {
                bounds.sums(sums)?;
                pointers.iter().try_for_each(|(slot, place)| match *place {
                    NOWHERE if bounds.has_spaces => bounds.slot(*slot),
                    place => bounds.pointer(*slot, place),
                })?;
                sectors.iter().try_for_each(|a| {
                    bounds.sector(a.sector)?;
                    at_most("the state of a sector", a.state.into(), State::Marked as u64)
                })
            }
            Entry::Overtaken { sectors, .. } => sectors.iter().try_for_each(|s| bounds.sector(*s)),
            Entry::Carried(carried) => carried.check(bounds),
            Entry::Outcome { .. }
            | Entry::Released { .. }
            | Entry::Begin
            | Entry::Checkpoint(_)
            | Entry::Known { .. }
            | Entry::Heard(_)
            | Entry::Life(_) => Ok(()),
            Entry::Safe(number) => at_most("the number of a frame", *number, MOST_COUNTED),
        }
    }
}

/// A frame's head: fixed part and entries, in whole sectors.
pub(crate) fn encode_frame<'a>(
    incarnation: u64,
    number: u64,
    entries: impl IntoIterator<Item = &'a Entry>,
) -> (Vec<u8>, FrameHead) {
    let mut w: Writer = Writer::with_room(SECTOR_BYTES);
    w.pad(FRAME_FIXED);
    let (mut count, mut payload_sectors) = (0, 0);
    for entry in entries {
        count += 1;
        payload_sectors += encode_entry(&mut w, entry);
    }
    let body = &w.written()[FRAME_FIXED..];
    let head_sectors = head_sectors(body.len());
    let mut fixed: Writer = Writer::behind(FRAME_MAGIC);
    fixed.u64(incarnation);
    fixed.u64(number);
    fixed.u32(head_sectors as u32);
    fixed.u32(payload_sectors as u32);
    fixed.u32(body.len() as u32);
    fixed.u32(checksum::crc32c(body));
    fixed.u32(count);
    w.pad((head_sectors * SECTOR) as usize);
    let mut bytes = w.finish();
    bytes[..FRAME_FIXED].copy_from_slice(&seal(fixed));
    (bytes, FrameHead { number, head_sectors, payload_sectors })
}

/// Sectors of a head with so many bytes of entries.
fn head_sectors(body: usize) -> u64 {
    (FRAME_FIXED + body).div_ceil(SECTOR_BYTES) as u64
}

/// What the fixed part says besides the sizes.
#[derive(Clone, Copy)]
pub(crate) struct Fixed {
    pub head: FrameHead,
    body_len: u32,
    body_crc: u32,
    entries: u32,
}

/// The fixed part at `at`, if a frame of this disk begins there.
pub(crate) fn decode_head(incarnation: u64, sector: &[u8]) -> Option<Fixed> {
    let mut r: Reader = Reader::new(sealed(sector.get(..FRAME_FIXED)?)?);
    r.magic(FRAME_MAGIC, "a frame of a journal").ok()?;
    let (disk, number) = (r.u64().ok()?, r.u64().ok()?);
    at_most("the number of a frame", number, MOST_COUNTED).ok()?;
    let (head, payload) = (r.u32().ok()?, r.u32().ok()?);
    let (body_len, body_crc, entries) = (r.u32().ok()?, r.u32().ok()?, r.u32().ok()?);
    let head = FrameHead { number, head_sectors: head.into(), payload_sectors: payload.into() };
    (disk == incarnation).then_some(Fixed { head, body_len, body_crc, entries })
}

/// The frame that begins `journal`, with its entries, if it is whole; or why it makes no sense, though it has its
/// checksums.
pub(crate) fn decode_frame(
    incarnation: u64,
    journal: &[u8],
    bounds: Bounds,
) -> Option<Read<(FrameHead, Vec<Entry>)>> {
    let fixed = decode_head(incarnation, journal)?;
    let body = journal.get(FRAME_FIXED..FRAME_FIXED + fixed.body_len as usize)?;
    if checksum::crc32c(body) != fixed.body_crc {
        return None;
    }
    let entries = match decode_entries(&fixed, body, bounds) {
        Ok(entries) => entries,
        Err(why) => return Some(Err(why)),
    };
    let mut payload = journal.get((fixed.head.head_sectors * SECTOR) as usize..)?;
    for change in entries.iter().flat_map(changes_of) {
        if let Some(crc) = change.crc {
            let (bytes, rest) = payload.split_at_checked(change.count as usize * SECTOR_BYTES)?;
            if checksum::crc32c(bytes) != crc {
                return None;
            }
            payload = rest;
        }
    }
    Some(Ok((fixed.head, entries)))
}

/// The entries in a body that has its checksum.
fn decode_entries(fixed: &Fixed, body: &[u8], bounds: Bounds) -> Read<Vec<Entry>> {
    let mut r: Reader = Reader::new(body);
    let mut entries = Vec::new();
    for _ in 0..fixed.entries {
        let entry = decode_entry(&mut r)?;
        entry.check(bounds)?;
        entries.push(entry);
    }
    r.end()?;
    let payload: u64 = entries.iter().map(payload_sectors).sum();
    let same = |what, says: u64, is: u64| match says == is {
        true => Ok(()),
        false => Err(BytesError::Bounds { what, value: says }),
    };
    same("the sectors of its head", fixed.head.head_sectors, head_sectors(body.len()))?;
    same("the sectors of its changes", fixed.head.payload_sectors, payload).map(|()| entries)
}

/// The sectors of bytes that follow the head for an entry.
fn payload_sectors(entry: &Entry) -> u64 {
    let with_bytes = changes_of(entry).iter().filter(|c| c.crc.is_some());
    with_bytes.map(|c| u64::from(c.count)).sum()
}

pub(crate) fn changes_of(entry: &Entry) -> &[ChangeHead] {
    match entry {
        Entry::Prepare { changes, .. } => changes,
        Entry::Carried(carried) => &carried.changes,
        _ => &[],
    }
}

/// Appends an entry; returns the sectors of bytes that follow the head for it.
fn encode_entry(w: &mut Writer, entry: &Entry) -> u64 {
    match entry {
        Entry::Prepare { ts, meta, changes, redirects } => {
            w.u8(if redirects.is_empty() { 1 } else { 11 });
            w.u64(ts.0);
            w.bytes(meta);
            w.list(changes.iter(), encode_change);
            if !redirects.is_empty() {
                w.list(redirects.iter(), encode_redirect);
            }
        }
        Entry::Outcome { ts, commit } => {
            w.u8(2);
            w.u64(ts.0);
            w.bool(*commit);
        }
        Entry::Released { ts } => {
            w.u8(3);
            w.u64(ts.0);
        }
        Entry::Apply { sectors, pointers, sums } => encode_apply(w, sectors, pointers, sums),
        Entry::Known { ts, meta } => {
            w.u8(5);
            w.u64(ts.0);
            w.bytes(meta);
        }
        Entry::Begin => w.u8(6),
        Entry::Heard(heard) => {
            w.u8(7);
            put_heard(w, heard.iter().copied());
        }
        Entry::Life(epoch) => {
            w.u8(8);
            w.u64(*epoch);
        }
        Entry::Checkpoint(number) => {
            w.u8(9);
            w.u64(*number);
        }
        Entry::Overtaken { ts, sectors } => {
            w.u8(10);
            w.u64(ts.0);
            w.list(sectors.iter(), |w, s| w.u64(*s));
        }
        Entry::Safe(number) => {
            w.u8(13);
            w.u64(*number);
        }
        Entry::Carried(carried) => {
            w.u8(15);
            carried.encode(w);
        }
    }
    payload_sectors(entry)
}

fn encode_apply(w: &mut Writer, sectors: &[Applied], pointers: &[(u64, u64)], sums: &PageSums) {
    let kind = match (sums.is_empty(), pointers.is_empty()) {
        (true, true) => 4,
        (true, false) => 12,
        (false, _) => 14,
    };
    w.u8(kind);
    w.list(sectors.iter(), encode_applied);
    if kind != 4 {
        w.list(pointers.iter(), |w, (slot, place)| {
            w.u64(*slot);
            w.u64(*place);
        });
    }
    if kind == 14 {
        w.list(sums.pages.iter(), encode_page_sum);
        w.list(sums.index.iter(), |w, (page, crc)| {
            w.u64(*page);
            w.u32(*crc);
        });
    }
}

fn decode_entry(r: &mut Reader) -> Read<Entry> {
    Ok(match r.u8()? {
        kind @ (1 | 11) => {
            let (ts, meta) = (Timestamp(r.u64()?), r.bytes()?.to_vec());
            let changes = r.list(CHANGE_BYTES, decode_change)?;
            let redirects = match kind {
                11 => r.list(REDIRECT_LEAST_BYTES, decode_redirect)?,
                _ => Vec::new(),
            };
            Entry::Prepare { ts, meta, changes, redirects }
        }
        2 => Entry::Outcome { ts: Timestamp(r.u64()?), commit: r.bool()? },
        3 => Entry::Released { ts: Timestamp(r.u64()?) },
        kind @ (4 | 12 | 14) => {
            let sectors = r.list(APPLIED_BYTES, decode_applied)?;
            let pointers = match kind {
                4 => Vec::new(),
                _ => r.list(16, |r| Ok((r.u64()?, r.u64()?)))?,
            };
            let sums = match kind {
                14 => PageSums {
                    pages: r.list(PAGE_SUM_BYTES, decode_page_sum)?,
                    index: r.list(12, |r| Ok((r.u64()?, r.u32()?)))?,
                },
                _ => PageSums::default(),
            };
            if kind == 14 && sums.is_empty() {
                return Err(BytesError::Bounds { what: "the number of pages", value: 0 });
            }
            Entry::Apply { sectors, pointers, sums }
        }
        5 => Entry::Known { ts: Timestamp(r.u64()?), meta: r.bytes()?.to_vec() },
        6 => Entry::Begin,
        7 => Entry::Heard(take_heard(r)?),
        8 => Entry::Life(r.u64()?),
        9 => Entry::Checkpoint(r.u64()?),
        10 => Entry::Overtaken { ts: Timestamp(r.u64()?), sectors: r.list(8, Reader::u64)? },
        13 => Entry::Safe(r.u64()?),
        15 => Entry::Carried(Carried::decode(r)?),
        value => return Err(BytesError::Unknown { what: "entry of a journal", value }),
    })
}

pub(super) const CHANGE_BYTES: usize = 17;
/// It is added to what is there.
const ADDED: u8 = 1;
/// It is zeros, and has no bytes in the frame.
const ZEROS: u8 = 2;
const ADDED_ZEROS: u8 = ADDED | ZEROS;
/// It is a mark, which has no bytes either.
const MARKED: u8 = 4 | ZEROS;
/// It is a copy of a data unit, whose number is in the upper bits of the count; its volume follows.
const COPIED: u8 = 8;
const COPIED_ZEROS: u8 = COPIED | ZEROS;
/// It drops copies of a data unit, the same way.
const FOLDED: u8 = 16 | ZEROS;
/// Where the number of a data unit begins. No frame has as many sectors.
const UNIT_SHIFT: u32 = 24;

pub(super) fn encode_change(w: &mut Writer, c: &ChangeHead) {
    let (kind, unit) = match c.kind {
        ChangeKind::Content => (0, 0),
        ChangeKind::Delta => (ADDED, 0),
        ChangeKind::Mark => (MARKED, 0),
        ChangeKind::Copy(kept) => (COPIED, kept.unit),
        ChangeKind::Fold(unit) => (FOLDED, unit),
    };
    w.u64(c.sector);
    w.u32(c.count | u32::from(unit) << UNIT_SHIFT);
    w.u8(kind | if c.crc.is_none() { ZEROS } else { 0 });
    w.u32(c.crc.unwrap_or(0));
    if let ChangeKind::Copy(kept) = c.kind {
        w.u32(kept.volume.0);
    }
}

pub(super) fn decode_change(r: &mut Reader) -> Read<ChangeHead> {
    let (sector, counted, flags, crc) = (r.u64()?, r.u32()?, r.u8()?, r.u32()?);
    let (unit, of_unit) = ((counted >> UNIT_SHIFT) as u8, counted & ((1 << UNIT_SHIFT) - 1));
    let (count, kind) = match flags {
        0 | ZEROS => (counted, ChangeKind::Content),
        ADDED | ADDED_ZEROS => (counted, ChangeKind::Delta),
        MARKED => (counted, ChangeKind::Mark),
        COPIED | COPIED_ZEROS => {
            (of_unit, ChangeKind::Copy(Kept { unit, volume: VolumeId(r.u32()?) }))
        }
        FOLDED => (of_unit, ChangeKind::Fold(unit)),
        _ => return Err(BytesError::Bounds { what: "the flags of a change", value: flags.into() }),
    };
    Ok(ChangeHead { sector, count, kind, crc: (flags & ZEROS == 0).then_some(crc) })
}

/// Of a slot of no sectors.
pub(super) const REDIRECT_LEAST_BYTES: usize = 20;

pub(super) fn encode_redirect(w: &mut Writer, redirect: &Redirect) {
    w.u64(redirect.slot);
    w.u64(redirect.place);
    w.list(redirect.crcs.iter(), |w, crc| w.u32(*crc));
}

pub(super) fn decode_redirect(r: &mut Reader) -> Read<Redirect> {
    let (slot, place) = (r.u64()?, r.u64()?);
    Ok(Redirect { slot, place, crcs: r.list(4, Reader::u32)? })
}

const APPLIED_BYTES: usize = 21;

fn encode_applied(w: &mut Writer, a: &Applied) {
    w.u64(a.sector);
    w.u64(a.version.0);
    w.u32(a.crc);
    w.u8(a.state);
}

fn decode_applied(r: &mut Reader) -> Read<Applied> {
    let (sector, version) = (r.u64()?, Timestamp(r.u64()?));
    Ok(Applied { sector, version, crc: r.u32()?, state: r.u8()? })
}

const PAGE_SUM_BYTES: usize = 13;

fn encode_page_sum(w: &mut Writer, sum: &PageSum) {
    w.u64(sum.page);
    w.bool(sum.is_marked);
    w.u32(sum.crc);
}

fn decode_page_sum(r: &mut Reader) -> Read<PageSum> {
    Ok(PageSum { page: r.u64()?, is_marked: r.bool()?, crc: r.u32()? })
}

#[cfg(test)]
mod tests;
