//! Carrying: what cannot go to its place for now is written again at the head of the journal, so that the oldest frames can go.
//!
//! A write is decided only when all its participants can be asked, and a copy is folded only while its volume goes on. A
//! volume that sleeps may keep both for long, and other volumes share the ring. So a checkpoint of a ring that is more than
//! half in use *carries* the writes that keep the oldest frames: an entry in the next frame says all that the first one said.
//! The apply entry of the checkpoint is in the same frame or a later one. So the entry is safe before the checkpoint's
//! superblock lets the old frame go.
//!
//! A write that will replace a copy must not be in an earlier frame than the copy: when both are over, its frame may go first,
//! and a crash would bring the copy back. So undecided writes that replace a carried copy are carried with it.
//!
//! Carried are undecided writes, copies, and committed content that waits for an earlier undecided write of its sectors. If
//! all of it takes more than three eighths of the ring, nothing is carried: there would be too little between two turns.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::copies::Copies;
use super::format::{Carried, ChangeHead, Standing};
use super::overlay::{Content, Over, Overlay};
use super::writes::{Life, Write};
use super::{Change, ChangeKind};
use crate::Buffer;
use crate::units::{SECTOR_BYTES, Timestamp};

/// The fixed part of an entry, rounded up.
const ENTRY_BYTES: u64 = 64;
/// A change in an entry, apart from its bytes.
const CHANGE_BYTES: u64 = 24;

/// Writes that may be carried, and the bytes of the journal that each takes.
#[derive(Debug, Default)]
pub(super) struct Carriable(BTreeMap<Timestamp, u64>);

impl Carriable {
    /// Those among these writes, unless they are more than `most` bytes. `held_back` says of a sector with changes whether it
    /// cannot go to its place; the outcomes of the writes in `unsaid` are not in the journal yet.
    pub fn among(
        writes: &BTreeMap<Timestamp, Write>,
        (overlay, copies): (&Overlay, &Copies),
        unsaid: &BTreeSet<Timestamp>,
        most: u64,
        held_back: impl Fn(u64, &Over) -> bool,
    ) -> Carriable {
        let mut waiting = BTreeMap::<Timestamp, u64>::new();
        copies.all().for_each(|copy| *waiting.entry(copy.ts).or_default() += 1);
        let held = overlay
            .iter()
            .filter(|(sector, over)| !over.is_summed_up() && held_back(*sector, over));
        for (_, over) in held {
            over.writes().for_each(|ts| *waiting.entry(ts).or_default() += 1);
        }
        let bytes = |ts: &Timestamp, write: &Write| match &write.life {
            Life::Prepared { .. } => Some(prepared_bytes(write)),
            Life::Committed { unplaced } | Life::Released { unplaced } => {
                let is_all = waiting.get(ts) == Some(unplaced) && !unsaid.contains(ts);
                let each = CHANGE_BYTES + SECTOR_BYTES as u64;
                is_all.then(|| ENTRY_BYTES + write.meta.len() as u64 + unplaced * each)
            }
            Life::Preparing { .. } => None,
        };
        let journaled = writes.iter().filter(|(_, write)| write.frame.is_some());
        let all: BTreeMap<Timestamp, u64> =
            journaled.filter_map(|(ts, write)| Some((*ts, bytes(ts, write)?))).collect();
        match all.values().sum::<u64>() <= most {
            true => Carriable(all),
            false => Carriable::default(),
        }
    }

    /// The bytes that a write takes, if it may be carried.
    pub fn bytes(&self, ts: Timestamp) -> Option<u64> {
        self.0.get(&ts).copied()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a write may be carried.
    pub fn has(&self, ts: Timestamp) -> bool {
        self.0.contains_key(&ts)
    }
}

/// Undecided writes in the journal that will replace copies: the sectors, the data unit, and the write.
#[derive(Debug, Default)]
pub(super) struct Replacing(Vec<(Range<u64>, u8, Timestamp)>);

impl Replacing {
    /// Those among these writes.
    pub fn among(writes: &BTreeMap<Timestamp, Write>) -> Replacing {
        let journaled = writes.iter().filter(|(_, write)| write.frame.is_some());
        let of = |(ts, write): (&Timestamp, &Write)| {
            let folds = write.changes().iter().filter_map(|change| match change.kind {
                ChangeKind::Fold(unit) => Some((change.sectors(), unit)),
                _ => None,
            });
            folds.map(|(sectors, unit)| (sectors, unit, *ts)).collect::<Vec<_>>()
        };
        Replacing(journaled.flat_map(of).collect())
    }

    /// Those that will replace what a write copies.
    pub fn of(&self, ts: Timestamp, write: &Write, copies: &Copies) -> BTreeSet<Timestamp> {
        let mut copied: Vec<(Range<u64>, u8)> = Vec::new();
        copied.extend(copies.of(ts).map(|c| (c.sector..c.sector + 1, c.kept.unit)));
        copied.extend(write.changes().iter().filter_map(|change| match change.kind {
            ChangeKind::Copy(kept) => Some((change.sectors(), kept.unit)),
            _ => None,
        }));
        let replaces = |(sectors, unit, by): &&(Range<u64>, u8, Timestamp)| {
            let is_of = |other: u8| *unit == ChangeKind::EVERY_UNIT || *unit == other;
            let meets = |(at, of): &(Range<u64>, u8)| {
                is_of(*of) && at.start < sectors.end && sectors.start < at.end
            };
            *by > ts && copied.iter().any(meets)
        };
        self.0.iter().filter(replaces).map(|(_, _, by)| *by).collect()
    }
}

fn prepared_bytes(write: &Write) -> u64 {
    let change = |c: &Change| CHANGE_BYTES + if c.data.is_zero() { 0 } else { c.data.len() as u64 };
    let redirects = write.redirects().iter().map(|r| CHANGE_BYTES + 4 * r.crcs.len() as u64);
    let overtaken = 8 * write.overtaken().len() as u64;
    let changes: u64 = write.changes().iter().map(change).sum();
    ENTRY_BYTES + write.meta.len() as u64 + changes + redirects.sum::<u64>() + overtaken
}

/// The entries that carry these writes, and the bytes of their changes. A write is left out if it cannot be carried any more.
pub(super) fn entries(
    due: &BTreeSet<Timestamp>,
    writes: &BTreeMap<Timestamp, Write>,
    (overlay, copies): (&Overlay, &Copies),
    unsaid: &BTreeSet<Timestamp>,
) -> Vec<(Carried, Vec<Buffer>)> {
    let mut left = left_of(due, overlay, copies);
    let replacing = Replacing::among(writes);
    let comes_along =
        |by: &Timestamp| due.contains(by) && matches!(writes[by].life, Life::Prepared { .. });
    let entry = |ts: &Timestamp| {
        let write = writes.get(ts).filter(|write| write.frame.is_some())?;
        if !replacing.of(*ts, write, copies).iter().all(comes_along) {
            return None;
        }
        let (standing, changes) = match &write.life {
            Life::Preparing { .. } => return None,
            Life::Prepared { changes, .. } => (Standing::Undecided, changes.clone()),
            Life::Committed { unplaced } | Life::Released { unplaced } => {
                let changes = left.remove(ts).unwrap_or_default();
                if changes.len() as u64 != *unplaced || *unplaced == 0 || unsaid.contains(ts) {
                    return None;
                }
                let is_released = matches!(write.life, Life::Released { .. });
                (if is_released { Standing::Released } else { Standing::Committed }, changes)
            }
        };
        let carried = Carried {
            ts: *ts,
            meta: write.meta.clone(),
            standing,
            changes: changes.iter().map(ChangeHead::of).collect(),
            redirects: write.redirects().to_vec(),
            overtaken: write.overtaken().to_vec(),
        };
        let bytes = changes.into_iter().map(|change| change.data);
        Some((carried, bytes.filter(|data| !data.is_zero()).collect()))
    };
    due.iter().filter_map(entry).collect()
}

/// Changes of committed writes that are neither in place nor on their way there, each of a sector.
fn left_of(
    writes: &BTreeSet<Timestamp>,
    overlay: &Overlay,
    copies: &Copies,
) -> BTreeMap<Timestamp, Vec<Change>> {
    let mut left = BTreeMap::<Timestamp, Vec<Change>>::new();
    let mut add = |ts: Timestamp, sector: u64, kind: ChangeKind, data: Buffer| {
        if writes.contains(&ts) {
            left.entry(ts).or_default().push(Change { sector, kind, data });
        }
    };
    for (copy, data) in copies.with_content() {
        add(copy.ts, copy.sector, ChangeKind::Copy(copy.kept), data.clone());
    }
    for (sector, over) in overlay.iter().filter(|(_, over)| !over.is_summed_up()) {
        match &over.content {
            Some((ts, Content::Bytes(data))) => add(*ts, sector, ChangeKind::Content, data.clone()),
            Some((ts, Content::Mark)) => {
                add(*ts, sector, ChangeKind::Mark, Buffer::Zero(SECTOR_BYTES));
            }
            // Slots are not carried.
            Some((_, Content::Slot { .. })) | None => {}
        }
        for (ts, delta) in &over.deltas {
            add(*ts, sector, ChangeKind::Delta, delta.clone());
        }
    }
    left
}
