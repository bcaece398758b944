//! What lies beneath the volumes on this disk that have snapshots, or are clones ([`Views`](crate::store::Views)).
//!
//! A sector that was not written in a view shows that of the view below. So what keeps the one below from being used keeps
//! the one above from it: it is stale, or an earlier write of it is undecided. That goes for any sector of a view,
//! whether it has content of its own or not: only the store knows, and it does not last.

use std::ops::Range;
use std::sync::Arc;

use super::Worker;
use crate::cluster::Volume;
use crate::store::{Changed, Views};
use crate::units::{SPACE_SECTORS, Timestamp};

impl Worker {
    /// The map in force says what lies over what.
    pub(super) fn enter_views(&mut self) {
        self.views = self.map.views_on(self.node);
        self.store.set_views(&self.views);
        self.find_volumes_of_writes();
    }

    /// A write that is not settled is one of the volume that has its address space now: of a snapshot, if its own volume
    /// goes on in another.
    fn find_volumes_of_writes(&mut self) {
        let map = &self.map;
        for txn in self.txns.values_mut() {
            let Some(changed) = txn.ranges.first() else { continue };
            let space = changed.sectors.start / SPACE_SECTORS;
            let is_in = |volume: &Volume| volume.space() == space;
            if map.volumes.get(&txn.volume).is_some_and(|volume| is_in(volume)) {
                continue;
            }
            let here = |volume: &&Arc<Volume>| {
                is_in(volume) && volume.stripe_at(self.node, changed.sectors.start).is_some()
            };
            if let Some(volume) = map.volumes.values().find(here) {
                txn.volume = volume.id;
            }
        }
    }

    /// Whether this disk lacks what some of these sectors show.
    pub(super) fn is_stale(&self, sectors: Range<u64>) -> bool {
        self.is_stale_beneath(sectors.clone()) || self.catchup.is_stale(sectors)
    }

    fn is_stale_beneath(&self, sectors: Range<u64>) -> bool {
        self.views.all_below(sectors).into_iter().any(|below| self.catchup.is_stale(below))
    }

    /// The undecided writes to what these sectors show that are earlier than `ts`, but for those to themselves.
    pub(super) fn undecided_beneath(&self, ts: Timestamp, sectors: Range<u64>) -> Vec<Timestamp> {
        let below = self.views.all_below(sectors).into_iter();
        below.flat_map(|sectors| self.admission.earlier_unresolved(ts, sectors)).collect()
    }

    /// A write has happened. What it added to content that this disk lacks must be computed, also when that content is
    /// there: it may be in place by then, with what it was added to.
    pub(super) fn added_to_stale(&mut self, ranges: &[Changed]) {
        if self.views.is_empty() {
            return;
        }
        for Changed { sectors, .. } in ranges.iter().filter(|range| range.kind.is_delta()) {
            let stale: Vec<u64> =
                sectors.clone().filter(|s| self.is_stale_beneath(*s..*s + 1)).collect();
            self.catchup.add_stale(stale);
        }
    }

    /// Views that this map has first have the marks of what they lie over.
    pub(super) fn inherit_marks(&mut self, before: &Views) {
        if self.exposure.is_empty() {
            return;
        }
        for view in self.views.in_range(0..u64::MAX) {
            if before.below(view.sectors.start) == Some(view.below) {
                continue;
            }
            let count = view.sectors.end - view.sectors.start;
            self.exposure.inherit(view.below..view.below + count, view.sectors.start);
        }
    }
}
