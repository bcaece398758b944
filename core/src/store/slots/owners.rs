//! The owners on the disk: for each physical slot 16 bytes, the number of the logical slot that claims it, counted from
//! 1, and since when it does, which is zeros: "since ever" (a timestamp will stand there when there are snapshots). Each page has two
//! copies, which are written in turn: a torn write harms the older one, and the journal says what the newer was to be.
//!
//! The index of the table has entries for these pages, too, behind those of the table's. So an older copy is known to be one.

use std::ops::Range;

use super::{OWNER_COPIES, OWNERS_PER_PAGE, Slots};
use crate::Buffer;
use crate::store::index::{Index, Known};
use crate::store::page::{self, Kind};
use crate::store::table::Numbers;
use crate::units::SECTOR_BYTES;
use weft_bytes::{Read, Reader, Writer};

/// A page of the owners that is to be written.
pub(in crate::store) struct OwnerPage {
    pub number: u64,
    /// The page's sector, from the first of the owners.
    pub sector: u64,
    pub bytes: Buffer,
}

/// The claims of a page, and at which checkpoint it was written, 0 if never.
pub(super) type Page = (u64, Vec<u32>);

impl Slots {
    /// The pages that are to be written, at this checkpoint, each over its older copy.
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
        self.refused.range(pages).copied().collect()
    }

    /// Both copies of the pages of which one was refused, written at this checkpoint: they claim what is known. With one
    /// copy alone the other might pass for the newer one.
    pub fn take_refused(&mut self, disk: u64, checkpoint: u64) -> Vec<OwnerPage> {
        let pages = self.newer.len() as u64;
        let mut written = Vec::new();
        for number in std::mem::take(&mut self.refused) {
            self.dirty.remove(&number);
            let bytes: Buffer = self.encode(disk, number, checkpoint).into();
            let sectors = (0..OWNER_COPIES).map(|copy| copy * pages + number);
            written.extend(sectors.map(|sector| OwnerPage {
                number,
                sector,
                bytes: bytes.clone(),
            }));
        }
        written.sort_by_key(|page| page.sector);
        written
    }

    fn encode(&self, disk: u64, number: u64, checkpoint: u64) -> Vec<u8> {
        let mut w = Writer::with_room(SECTOR_BYTES);
        for owner in self.owners.iter().skip((number * OWNERS_PER_PAGE) as usize) {
            if w.written().len() == page::BODY_BYTES {
                break;
            }
            w.u64(u64::from(*owner));
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

    /// A page is to be written with the next checkpoint.
    pub fn mark_dirty(&mut self, number: u64) {
        self.dirty.insert(number);
    }

    /// What is wrong with a page as it stands on the disk, if it is not the one in memory.
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
                .then_some("it is not what was written last"),
        }
    }
}

/// What is found of a page.
pub(super) struct Chosen {
    /// The newer of its copies, if it is what the index says, and which copy that is; or what is wrong, if neither is.
    pub newest: Result<(u8, Page), &'static str>,
    /// A copy is from a checkpoint of which nothing is known. What that had put in place is still in the journal, so the other
    /// copy is right.
    pub has_refused: bool,
}

/// Looks at both copies of a page.
pub(super) fn choose(
    index: &Index,
    numbers: &Numbers,
    entry: u64,
    number: u64,
    slots: (u64, u64),
    copies: [&[u8]; OWNER_COPIES as usize],
) -> Chosen {
    let claims = |copy: &[u8]| {
        let written = page::decode(Kind::Owners, index.disk, number, copy)?;
        Ok::<_, &str>((written, decode(copy, number, slots).ok_or("its claims make no sense")?))
    };
    let whole = (0..OWNER_COPIES as u8)
        .filter_map(|n| claims(copies[usize::from(n)]).ok().map(|page| (n, page)));
    let (known, refused): (Vec<_>, Vec<_>) = whole.partition(|(_, page)| numbers.has(page.0));
    let has_refused = !refused.is_empty();
    let zeros = |copy: &&[u8]| copy.iter().all(|b| *b == 0);
    let newest = match (known.into_iter().max_by_key(|(_, page)| page.0), index.known(entry)) {
        // The index may name a refused copy.
        (Some((_, page)), Known::Written(last)) if page.0 < last && numbers.has(last) => {
            Err("it is an older copy")
        }
        (Some(found), _) => Ok(found),
        // A first write may be torn, and the journal has its claims.
        (None, Known::Never) if copies.iter().any(zeros) => Ok((1, (0, Vec::new()))),
        (None, _) if has_refused => Err(page::UNKNOWN_CHECKPOINT),
        (None, _) => claims(copies[0]).map(|page| (0, page)),
    };
    Chosen { newest, has_refused }
}

/// The claims of a page, if they are of slots that there are: so many `logical` ones, in so many `physical` ones.
fn decode(page: &[u8], number: u64, (logical, physical): (u64, u64)) -> Option<Vec<u32>> {
    let count = OWNERS_PER_PAGE.min(physical - number * OWNERS_PER_PAGE);
    let mut r: Reader = Reader::new(page);
    let owners = (0..count).map(|_| r.u64().and_then(|owner| r.u64().map(|_| owner)));
    let owners: Read<Vec<u64>> = owners.collect();
    let claim = |owner: u64| (owner <= logical).then_some(owner as u32);
    owners.ok()?.into_iter().map(claim).collect()
}
