//! The owners on the disk: for each physical slot 16 bytes, the number of the logical slot that claims it, counted from
//! 1, and 8 reserved bytes, which are zeros. Each page has two copies, which are written in turn: a torn write harms the
//! older one, and the journal says what the newer was to be.
//!
//! The index of the table has entries for these pages, too, behind those of the table's. So an older copy is known to be one.

use std::ops::Range;

use super::{NONE, OWNER_COPIES, OWNERS_PER_PAGE, Slots};
use crate::Buffer;
use crate::buffer::are_zeros;
use crate::store::index::{Index, Known};
use crate::store::page::{self, Kind};
use crate::store::table::Numbers;
use crate::units::SECTOR_BYTES;
use weft_bytes::{Reader, Writer};

/// A page of the owners to write.
pub(in crate::store) struct OwnerPage {
    pub number: u64,
    /// The page's sector, from the first of the owners.
    pub sector: u64,
    pub bytes: Buffer,
}

/// A page as it was found.
#[derive(Clone, Debug, Default)]
pub(super) struct Page {
    /// The checkpoint at which it was written, 0 if never.
    pub written: u64,
    /// Its claims.
    pub owners: Vec<u64>,
    /// How many of them were ignored, since they name slots that cannot exist.
    pub stray: u64,
}

impl Slots {
    /// The pages to write at this checkpoint, each over its older copy.
    pub fn take_dirty(&mut self, disk: u64, checkpoint: u64) -> Vec<OwnerPage> {
        let pages = self.newer.len() as u64;
        let mut written = Vec::new();
        for number in std::mem::take(&mut self.dirty) {
            let newer = &mut self.newer[number as usize];
            *newer = 1 - *newer;
            let sector = u64::from(*newer) * pages + number;
            let bytes = self.encode(disk, number, checkpoint).into();
            written.push(OwnerPage { number, sector, bytes });
        }
        written.sort_by_key(|page| page.sector);
        written
    }

    /// Which of these pages have a copy that was refused.
    pub fn refused(&self, pages: Range<u64>) -> Vec<u64> {
        self.refused.range(pages).map(|(number, _)| *number).collect()
    }

    /// Copies that take the place of those that were refused, and for each of these pages its checkpoint, for the index. Such a
    /// copy is what the other is: that counts until it is safe, and the journal says what else has been. If neither
    /// counts, both are written at `checkpoint`, with the known claims.
    pub fn take_refused(
        &mut self,
        disk: u64,
        checkpoint: u64,
    ) -> (Vec<OwnerPage>, Vec<(u64, u64)>) {
        let pages = self.newer.len() as u64;
        let (mut written, mut numbers) = (Vec::new(), Vec::new());
        for (number, refused) in std::mem::take(&mut self.refused) {
            let (at, bytes, copies) = match refused.other {
                Some((at, bytes)) => (at, bytes, refused.copies),
                None => {
                    self.dirty.remove(&number);
                    let bytes = self.encode(disk, number, checkpoint).into();
                    (checkpoint, bytes, (0..OWNER_COPIES).collect())
                }
            };
            numbers.push((number, at));
            let sectors = copies.into_iter().map(|copy| copy * pages + number);
            written.extend(sectors.map(|sector| OwnerPage {
                number,
                sector,
                bytes: bytes.clone(),
            }));
        }
        written.sort_by_key(|page| page.sector);
        (written, numbers)
    }

    fn encode(&self, disk: u64, number: u64, checkpoint: u64) -> Vec<u8> {
        let mut w = Writer::with_room(SECTOR_BYTES);
        let first = number * OWNERS_PER_PAGE;
        for place in first..(first + OWNERS_PER_PAGE).min(self.owners.len()) {
            w.u64(self.owners.get(place));
            w.u64(0);
        }
        page::seal(Kind::Owners, disk, number, checkpoint, w)
    }

    /// The sector of the newer copy of a page, from the first of the owners.
    pub fn newer_copy(&self, number: u64) -> u64 {
        u64::from(self.newer[number as usize]) * self.newer.len() as u64 + number
    }

    /// The page of the owners that has a slot's claim, if it has a place.
    pub fn page_of(&self, slot: u64) -> Option<u64> {
        self.place(slot).map(|place| place / OWNERS_PER_PAGE)
    }

    /// Marks a page for writing with the next checkpoint.
    pub fn mark_dirty(&mut self, number: u64) {
        self.dirty.insert(number);
    }

    /// The difference between a page on the disk and the one in memory, if any.
    pub fn differs(
        &self,
        disk: u64,
        number: u64,
        written: u64,
        bytes: &[u8],
    ) -> Option<&'static str> {
        if self.dirty.contains(&number) {
            return None;
        }
        match page::decode(Kind::Owners, disk, number, bytes) {
            Err(wrong) => Some(wrong),
            Ok(found) if found != written => Some("it is an older copy"),
            Ok(_) => (bytes != self.encode(disk, number, written))
                .then_some("it differs from the last write"),
        }
    }
}

/// The state found of a page.
pub(super) struct Chosen {
    /// The newer of its copies, if it is what the index says, and which copy that is; or the problem, if neither is.
    pub newest: Result<(u8, Page), &'static str>,
    /// The repair, if one is needed.
    pub refused: Option<Refused>,
}

/// Claims from an unknown checkpoint. What that had put in place is still in the journal, so the other copy is
/// right.
#[derive(Clone, Debug, Hash)]
pub(super) struct Refused {
    /// These copies; none, if it is only the index that names it.
    copies: Vec<u64>,
    /// The other copy, and at which checkpoint it was written, 0 if never; if it counts.
    other: Option<(u64, Buffer)>,
}

/// Looks at both copies of a page.
pub(super) fn choose(
    index: &Index,
    numbers: &Numbers,
    entry: u64,
    number: u64,
    (is_slot, places): (&dyn Fn(u64) -> bool, u64),
    copies: [&[u8]; OWNER_COPIES as usize],
) -> Chosen {
    let claims = |copy: &[u8]| {
        let written = page::decode(Kind::Owners, index.disk, number, copy)?;
        Ok::<_, &str>(decode(copy, written, number, is_slot, places))
    };
    let whole = (0..OWNER_COPIES as u8)
        .filter_map(|n| claims(copies[usize::from(n)]).ok().map(|page| (n, page)));
    let (known, refused): (Vec<_>, Vec<_>) = whole.partition(|(_, page)| numbers.has(page.written));
    let names_unknown = matches!(index.known(entry), Known::Written(last) if !numbers.has(last));
    let zeros = |copy: &&[u8]| are_zeros(copy);
    let newest = match (known.into_iter().max_by_key(|(_, page)| page.written), index.known(entry))
    {
        // The index may name a refused copy.
        (Some((_, page)), Known::Written(last)) if page.written < last && numbers.has(last) => {
            Err("it is an older copy")
        }
        (Some(found), _) => Ok(found),
        // It claims nothing, whatever has become of its sectors: the journal has what a first write said that was cut off.
        (None, Known::Never) => Ok((1, Page::default())),
        // The same where the index has taken over a first write that does not count.
        (None, _) if names_unknown && copies.iter().any(zeros) => Ok((1, Page::default())),
        (None, _) if !refused.is_empty() => Err(page::UNKNOWN_CHECKPOINT),
        (None, _) => claims(copies[0]).map(|page| (0, page)),
    };
    let other = newest.as_ref().ok().map(|(copy, page)| match page.written {
        0 => (0, Buffer::Zero(SECTOR_BYTES)),
        at => (at, Buffer::from(copies[usize::from(*copy)].to_vec())),
    });
    let copies = refused.iter().map(|(copy, _)| u64::from(*copy)).collect();
    let is_wrong = !refused.is_empty() || names_unknown;
    Chosen { newest, refused: is_wrong.then_some(Refused { copies, other }) }
}

/// The claims of a page, but for those that name no existing slot. The disk has `places` physical slots.
fn decode(
    page: &[u8],
    written: u64,
    number: u64,
    is_slot: &dyn Fn(u64) -> bool,
    places: u64,
) -> Page {
    let count = OWNERS_PER_PAGE.min(places - number * OWNERS_PER_PAGE);
    let mut r: Reader = Reader::new(page);
    let mut found = Page { written, ..Page::default() };
    for _ in 0..count {
        let claim = r.u64().and_then(|owner| r.u64().map(|_| owner));
        let owner = claim.expect("a page has room for all its claims");
        let is_stray = super::number(owner).is_some_and(|slot| !is_slot(slot));
        found.stray += u64::from(is_stray);
        found.owners.push(if is_stray { NONE } else { owner });
    }
    found
}
