//! Copies: committed content that no parity describes yet (`redundancy=copied`).
//!
//! A write of part of a stripe is kept on the disk of the data and on every disk with parity that covers it: in the journal
//! and in memory, beside the old content. So the old content fits parity at all times, and the disk of the data, or any
//! of parity's, has the newest content. Later a *fold* writes it in place and into parity, like any other write. Each write
//! that parity takes in says which earlier copies it replaces ([`ChangeKind::Fold`]).
//!
//! Only [`JournalStore::read_newest`] sees copies. All else, and so everything that computes parity or content from it,
//! sees the content in place.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, Range};

use super::reads::Wanted;
use super::{Change, ChangeKind, JournalStore, Kept, Timestamp};
use crate::Buffer;
use crate::units::{SECTOR_BYTES, VolumeId};

/// The least that a sector can keep.
const FIRST: Kept = Kept { unit: 0, volume: VolumeId(0) };
/// In a smaller journal there are no copies.
const LEAST_JOURNAL: u64 = 128;
/// Copies take at most this part of the journal.
const PART: u64 = 16;

/// A sector of a copy: the write, the sector of this disk, and the data unit of its stripe. The oldest come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Copy {
    /// The write.
    pub ts: Timestamp,
    /// The sector of this disk: of the data, or of the parity that covers it.
    pub sector: u64,
    /// The data unit of the stripe, and the volume.
    pub kept: Kept,
}

/// The copies on a disk.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct Copies {
    /// By sector, data unit and volume.
    kept: BTreeMap<(u64, Kept), (Timestamp, Buffer)>,
    by_age: BTreeSet<Copy>,
    /// Undecided writes that may become copies, and how many sectors each.
    coming: BTreeMap<Timestamp, u64>,
    /// The last frame of the journal that has had one.
    last_frame: Option<u64>,
}

impl Copies {
    /// A write is undecided.
    pub fn comes(&mut self, ts: Timestamp, changes: &[Change]) {
        if let Some(sectors) = sectors_to_copy(changes) {
            self.coming.insert(ts, sectors);
        }
    }

    /// A write is undecided no more.
    pub fn decided(&mut self, ts: Timestamp) {
        self.coming.remove(&ts);
    }

    fn put(
        &mut self,
        (copy, data): (Copy, Buffer),
        newest_counts: bool,
        superseded: &mut Vec<Timestamp>,
    ) -> bool {
        let key = (copy.sector, copy.kept);
        if newest_counts && self.kept.get(&key).is_some_and(|kept| kept.0 > copy.ts) {
            return false;
        }
        if let Some((ts, _)) = self.kept.insert(key, (copy.ts, data)) {
            self.by_age.remove(&Copy { ts, ..copy });
            superseded.push(ts);
        }
        self.by_age.insert(copy);
        true
    }

    /// Drops the copies of these sectors that `is_gone` says; returns their writes, one for each sector.
    fn drop_where(
        &mut self,
        sectors: Range<u64>,
        is_gone: impl Fn(&Copy) -> bool,
    ) -> Vec<Timestamp> {
        let gone: Vec<Copy> = self.among(sectors).filter(is_gone).collect();
        for copy in &gone {
            self.kept.remove(&(copy.sector, copy.kept));
            self.by_age.remove(copy);
        }
        gone.into_iter().map(|copy| copy.ts).collect()
    }

    /// The copies of these sectors.
    fn among(&self, sectors: Range<u64>) -> impl Iterator<Item = Copy> + '_ {
        let kept = self.kept.range((sectors.start, FIRST)..(sectors.end, FIRST));
        kept.map(|((sector, kept), (ts, _))| Copy { ts: *ts, sector: *sector, kept: *kept })
    }

    /// Checks that each copy is known by its place and by its age, and which of these writes may become copies.
    pub fn check<'a>(&self, undecided: impl Iterator<Item = (Timestamp, &'a [Change])>) {
        let copies = |(ts, changes)| Some((ts, sectors_to_copy(changes)?));
        let coming: BTreeMap<Timestamp, u64> = undecided.filter_map(copies).collect();
        assert_eq!(self.coming, coming, "undecided writes that may become copies");
        let kept = self.among(0..u64::MAX).collect::<BTreeSet<Copy>>();
        assert_eq!(kept, self.by_age, "copies by place are those by age");
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = Copy> + '_ {
        self.by_age.iter().copied()
    }

    /// Those of a write.
    pub fn of(&self, ts: Timestamp) -> impl Iterator<Item = Copy> + '_ {
        let first = Copy { ts, sector: 0, kept: FIRST };
        self.by_age.range(first..).take_while(move |copy| copy.ts == ts).copied()
    }

    /// All of them, by sector, and their content.
    pub fn with_content(&self) -> impl Iterator<Item = (Copy, &Buffer)> {
        self.kept.iter().map(|((sector, kept), (ts, data))| {
            (Copy { ts: *ts, sector: *sector, kept: *kept }, data)
        })
    }

    /// A frame of the journal has some.
    pub fn are_in_frame(&mut self, frame: u64) {
        self.last_frame = self.last_frame.max(Some(frame));
    }

    /// How many sectors they are.
    pub fn len(&self) -> usize {
        self.kept.len()
    }

    /// The newest content of a volume's sector, if there is a copy of it.
    pub fn newest(&self, sector: u64, volume: VolumeId) -> Option<&(Timestamp, Buffer)> {
        let kept = self.kept.range((sector, FIRST)..(sector + 1, FIRST));
        let its = kept.filter(|((_, kept), _)| kept.volume == volume);
        its.map(|(_, kept)| kept).max_by_key(|kept| kept.0)
    }

    /// The newest write that has a copy in a sector.
    pub fn latest(&self, sector: u64) -> Option<Timestamp> {
        self.among(sector..sector + 1).map(|copy| copy.ts).max()
    }

    /// The first of these sectors with a copy.
    pub fn next(&self, sectors: Range<u64>) -> Option<u64> {
        self.among(sectors).next().map(|copy| copy.sector)
    }
}

/// How many sectors a write keeps as copies, if it does.
fn sectors_to_copy(changes: &[Change]) -> Option<u64> {
    let copies = changes.iter().filter(|change| change.kind.is_copy()).map(Change::count);
    Some(copies.sum()).filter(|sectors| *sectors > 0)
}

impl JournalStore {
    /// Reads `count` sectors from `first` with a volume's copies of their own content; says
    /// [`Event::Read`](super::Event::Read).
    pub fn read_newest(&mut self, ticket: u64, first: u64, count: u64, volume: VolumeId) {
        self.begin_read(ticket, first, count, Wanted::Newest(volume));
    }

    /// A write commits that is kept as a copy. Returns in how many sectors it counts; what it supersedes is appended. In
    /// `overtaken` it has no effect.
    pub(super) fn add_copies(
        &mut self,
        ts: Timestamp,
        change: &Change,
        kept: Kept,
        superseded: &mut Vec<Timestamp>,
        overtaken: &mut Vec<u64>,
    ) -> u64 {
        let mut taken = 0;
        let frame = self.writes.get(&ts).and_then(|write| write.frame);
        self.copies.last_frame = self.copies.last_frame.max(frame);
        for (n, sector) in change.sectors().enumerate() {
            if overtaken.contains(&sector) {
                continue;
            }
            let data = change.data.slice(n * SECTOR_BYTES, (n + 1) * SECTOR_BYTES);
            let copy = (Copy { ts, sector, kept }, data);
            match self.copies.put(copy, self.config.newest_copy_counts(), superseded) {
                true => taken += 1,
                false => overtaken.push(sector),
            }
        }
        taken
    }

    /// A write is prepared that replaces earlier copies: only with a deliberate bug it drops them now.
    pub(super) fn drop_copies_early(&mut self, ts: Timestamp, changes: &[Change]) {
        for change in changes {
            if let ChangeKind::Fold(unit) = change.kind {
                let gone = self.fold(ts, change.sectors(), unit);
                self.unpin_all(gone);
            }
        }
    }

    /// A write commits that replaces earlier copies; returns the writes of those that were there, one for each sector. Earlier
    /// copies that are undecided have no effect: after a crash a disk may hear of them later.
    pub(super) fn fold(&mut self, ts: Timestamp, sectors: Range<u64>, unit: u8) -> Vec<Timestamp> {
        let is_of = |other: u8| unit == ChangeKind::EVERY_UNIT || unit == other;
        for earlier in self.copies.coming.range(..ts).map(|(earlier, _)| earlier) {
            let earlier = self.writes.get_mut(earlier).expect("an undecided write");
            let copied = earlier
                .changes()
                .iter()
                .filter(|change| matches!(change.kind, ChangeKind::Copy(kept) if is_of(kept.unit)));
            let replaced: Vec<u64> =
                copied.flat_map(Change::sectors).filter(|s| sectors.contains(s)).collect();
            earlier.overtaken_also_in(replaced);
        }
        self.copies.drop_where(sectors, |copy| copy.ts < ts && is_of(copy.kept.unit))
    }

    /// The oldest copies that come after this one.
    pub fn copies_after(&self, after: Option<Copy>, most: usize) -> Vec<Copy> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.copies.by_age.range((from, Bound::Unbounded)).take(most).copied().collect()
    }

    /// The copy of a volume's data unit in a sector, and its write.
    pub fn copied(&self, sector: u64, kept: Kept) -> Option<(Timestamp, Buffer)> {
        self.copies.kept.get(&(sector, kept)).cloned()
    }

    /// The copies in these sectors.
    pub fn copies_in(&self, sectors: Range<u64>) -> Vec<Copy> {
        self.copies.among(sectors).collect()
    }

    /// Forgets a copy that others have replaced, though this disk has no part in that. If it dies first, it finds the copy
    /// again, and is told again. Until then [it may have copies](Self::may_have_copies), so later writes replace that one.
    pub fn drop_copy(&mut self, copy: Copy) {
        let gone = self.copies.drop_where(copy.sector..copy.sector + 1, |kept| *kept == copy);
        self.unpin_all(gone);
    }

    /// These sectors belong to no volume any more.
    pub(super) fn drop_all_copies(&mut self, sectors: Range<u64>) {
        let gone = self.copies.drop_where(sectors, |_| true);
        self.unpin_all(gone);
    }

    /// Whether these sectors may be copied: they have their places already, so that the fold needs no space, and copies take
    /// little of the journal.
    pub fn may_copy(&self, sectors: Range<u64>) -> bool {
        let size = self.journal.size();
        let coming = self.copies.coming.values().sum::<u64>();
        let held = self.copies.len() as u64 + coming + (sectors.end - sectors.start);
        size >= LEAST_JOURNAL
            && self.superblock.slot() > 0
            && held <= size / PART
            && self.journal.used() <= size / 4
            && sectors.clone().all(|sector| self.stays_placed(sector))
    }

    fn stays_placed(&self, sector: u64) -> bool {
        let drops = |slot| self.is_being_dropped(slot);
        self.slots.place_of(sector).is_some() && !self.slots.slot_of(sector).is_some_and(drops)
    }

    /// Whether copies keep room in the journal that is needed soon: they must be folded at once.
    pub fn copies_are_due(&self) -> bool {
        !self.copies.is_empty()
            && (self.journal.used() > self.journal.size() / 4
                || self.copies.len() as u64 > self.journal.size() / (2 * PART))
    }

    /// Whether copies keep room in the journal that their folds need.
    pub fn waits_for_folds(&self) -> bool {
        !self.copies.is_empty() && self.journal.used() > self.journal.size() * 5 / 8
    }

    /// Whether there are copies, or undecided writes may become some, or the journal still has some that are forgotten:
    /// after a crash they are found again.
    pub fn may_have_copies(&self) -> bool {
        let is_kept = |frame| self.journal.may_have(frame);
        !self.copies.is_empty()
            || !self.copies.coming.is_empty()
            || self.copies.last_frame.is_some_and(is_kept)
    }

    /// Bytes of the copies.
    pub fn copied_bytes(&self) -> u64 {
        (self.copies.len() * SECTOR_BYTES) as u64
    }
}
