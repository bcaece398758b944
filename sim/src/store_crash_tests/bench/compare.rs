//! The content of a disk, held against a model.

use super::*;

impl Bench {
    /// A write is decided.
    pub(super) fn outcome(&mut self, ts: Timestamp, commit: bool) {
        let write = self.writes.get_mut(&ts).expect("just seen");
        if !commit {
            self.aborted = Some((ts, write.changes, false));
        }
        if write.outcome.replace(commit).is_none() && commit {
            let (sector, count, kind, byte) = write.changes;
            for sector in sector..sector + count {
                if kind.replaces() || kind == FOLD {
                    self.dropped.remove(&sector);
                }
                if self.decide_copy((sector, kind, byte), ts) {
                    continue;
                }
                let replaced = self.replaced.entry(sector).or_insert(Timestamp::ZERO);
                if *replaced > ts {
                    continue;
                }
                let held = self.content.entry(sector).or_insert((Some(0), ts));
                let before = held.0;
                let is = match kind {
                    Delta => held.0.map(|before| before ^ byte),
                    Mark => None,
                    Content | ChangeKind::Fold(_) | ChangeKind::Copy(_) => Some(byte),
                };
                if kind != Delta {
                    *replaced = ts;
                }
                *held = (is, ts.max(held.1));
                if held.0 == Some(0) && before != Some(0) {
                    self.emptied.insert(sector, ts);
                }
            }
        }
        self.store.outcome(ts, commit);
    }

    pub(in crate::store_crash_tests) fn compare(&mut self) {
        let all = SLOTS * SLOT;
        self.compare_copies(all);
        self.store.read(7, self.base, all);
        self.store.scan(7, self.base, all, Scan::Since(Timestamp(1)));
        self.rest();
        let at = self.reads.iter().rposition(|r| r.0 == 7).expect("it is read");
        let (_, data, erased) = self.reads.swap_remove(at);
        let scanned = std::mem::take(&mut self.scanned).into_iter();
        let versions: BTreeMap<u64, Timestamp> =
            scanned.map(|(sector, version)| (sector - self.base, version)).collect();
        for (sector, bytes) in (0..all).zip(data.chunks(SECTOR as usize)) {
            let (expected, ts) =
                self.content.get(&sector).copied().unwrap_or((Some(0), Timestamp::ZERO));
            if self.dropped.contains(&sector) {
                continue;
            }
            let found = (!erased.contains(&(self.base + sector))).then_some(bytes[0]);
            if found.is_none() && self.may_lose {
                continue;
            }
            assert!(bytes[1..] == bytes[..bytes.len() - 1], "sector {sector} is mixed");
            assert_eq!(found, expected, "sector {sector}");
            let version = versions.get(&sector).copied().unwrap_or_default();
            // Copies count, too.
            let ts = self.copies.get(&sector).map_or(ts, |copy| copy.1.max(ts));
            let lost_below = self.may_lose && version == Timestamp(u64::MAX);
            // Zeros of a thin volume leave no version where there is no slot, or none any more.
            let forgotten = self.base > 0 && expected == Some(0) && version == Timestamp::ZERO;
            // Content from before a snapshot has its version in the snapshot's space.
            let forgotten = forgotten || (!self.below.is_empty() && version == Timestamp::ZERO);
            // It is known up to when there may have been some. Discards before a snapshot are not looked at.
            if forgotten
                && self.below.is_empty()
                && let Some(at) = self.emptied.get(&sector)
            {
                assert!(Store::dropped(&self.store) >= *at, "sector {sector} was emptied at {at}");
            }
            if expected.is_some() && !lost_below && !forgotten {
                assert_eq!(version, ts, "the version of sector {sector}");
            }
        }
    }
}
