//! Copies in the scripts: what the bench expects of them.

use std::collections::BTreeMap;

use weft_core::store::{ChangeKind, Kept};
use weft_core::units::{Timestamp, VolumeId};

use super::bench::Bench;
use super::script::Act::{Commit, Release, Write};

/// The volume and data unit of all copies here.
pub(super) const KEPT: Kept = Kept { unit: 2, volume: VolumeId(9) };
/// A copy.
pub(super) const COPY: ChangeKind = ChangeKind::Copy(KEPT);
/// Content that replaces earlier copies.
pub(super) const FOLD: ChangeKind = ChangeKind::Fold(KEPT.unit);

impl Bench {
    /// A write of a sector commits: it may be a copy, or replace one. Returns whether it is
    /// a copy.
    pub(super) fn decide_copy(
        &mut self,
        (sector, kind, byte): (u64, ChangeKind, u8),
        ts: Timestamp,
    ) -> bool {
        let is_replaced = self.folded.get(&sector).is_some_and(|folded| *folded > ts);
        if kind == COPY && !is_replaced {
            let held = self.copies.entry(sector).or_insert((byte, ts));
            *held = if held.1 > ts { *held } else { (byte, ts) };
        }
        if kind == FOLD {
            self.folded.insert(sector, ts);
        }
        if kind == FOLD && self.copies.get(&sector).is_some_and(|copy| copy.1 < ts) {
            self.copies.remove(&sector);
        }
        kind == COPY
    }

    /// Folds the copies that are left.
    pub(super) fn fold_all(&mut self) {
        for (sector, (byte, _)) in self.copies.clone() {
            let fold = [Write(sector, 1, FOLD, byte), Commit, Release];
            assert!(self.run(&fold), "nothing is cut off now");
        }
    }

    /// Compares the copies of the first sectors with those that are expected.
    pub(super) fn compare_copies(&self, sectors: u64) {
        let copied = |sector: u64| {
            let (ts, data) = self.store.copied(self.base + sector, KEPT)?;
            Some((sector, (data.to_bytes()[0], ts)))
        };
        let copies: BTreeMap<u64, (u8, Timestamp)> = (0..sectors).filter_map(copied).collect();
        assert!(self.may_lose || copies == self.copies, "{copies:?}, and not {:?}", self.copies);
    }
}
