//! What lies beneath the volumes on this disk that have snapshots, or are clones ([`Views`](crate::store::Views)).
//!
//! A sector that was not written in a view shows that of the view below. So what keeps the one below from being used keeps
//! the one above from it: it is stale, or an earlier write of it is undecided. That goes for any sector of a view,
//! whether it has content of its own or not: only the store knows, and it does not last.

use std::ops::Range;
use std::sync::Arc;

use super::Worker;
use crate::cluster::Volume;
use crate::node::MemberReport;
use crate::node::message::{Header, Task};
use crate::node::outbox::Outbox;
use crate::store::Views;
use crate::units::{MILLIS, Timestamp};

impl Worker {
    /// The map in force says what lies over what.
    pub(super) fn enter_views(&mut self) {
        self.views = self.map.views_on(self.node);
        self.store.set_views(&self.views);
        self.said_merged = (false, false);
        self.find_volumes_of_writes();
    }

    /// The volume in whose address space a write is: the one that it names.
    pub(super) fn view_written(&self, header: &Header) -> Option<Arc<Volume>> {
        let volume = self.map.volumes.get(&header.volume)?;
        match self.config.begins_after_snapshots() {
            true => Some(volume.clone()),
            false => Some(self.snapshot_before(volume, header).unwrap_or(volume).clone()),
        }
    }

    /// The snapshot below a volume, if a write of a host came soon after the map.
    fn snapshot_before(&self, volume: &Volume, header: &Header) -> Option<&Arc<Volume>> {
        let soon = header.ts.micros() < self.entered.floor().micros() + 5 * MILLIS / 1000;
        let below = self.map.volumes.get(&volume.lineage.below?)?;
        let is_its = below.lineage.snapshot.is_some_and(|snapshot| snapshot.of == volume.id);
        let is_as_large = below.extents.len() == volume.extents.len();
        (soon && is_its && is_as_large && matches!(header.task, Task::Write(_))).then_some(below)
    }

    /// A write that is not settled is one of the volume that has its address space now: of a snapshot, if its own volume
    /// goes on in another, or is gone.
    fn find_volumes_of_writes(&mut self) {
        if !self.config.follows_spaces() {
            return;
        }
        let map = &self.map;
        for txn in self.txns.values_mut() {
            let Some(space) = txn.space else { continue };
            if let Some(volume) = map.volume_in_space(txn.volume, txn.named, space) {
                txn.volume = volume.id;
            }
        }
    }

    /// Reports when nothing is left to merge, and when clones have all that they show.
    pub(super) fn report_merged(&mut self, outbox: &mut Outbox) {
        if self.views.is_empty() {
            return;
        }
        let before = self.said_merged;
        let merged = before.0 || self.store.has_merged();
        let flattened = before.1 || self.store.has_flattened();
        if before != (merged, flattened) {
            self.said_merged = (merged, flattened);
            outbox.report(MemberReport::Merged { epoch: self.map.epoch, merged, flattened });
        }
    }

    /// Whether this disk lacks what some of these sectors show.
    pub(super) fn is_stale(&self, sectors: Range<u64>) -> bool {
        self.is_stale_beneath(sectors.clone()) || self.catchup.is_stale(sectors)
    }

    /// Whether this disk lacks what they show of views below.
    pub(super) fn is_stale_beneath(&self, sectors: Range<u64>) -> bool {
        self.catchup.lacks_any()
            && self.views.all_below(sectors).into_iter().any(|below| self.catchup.is_stale(below))
    }

    /// The undecided writes to what these sectors show that are earlier than `ts`, but for those to themselves.
    pub(super) fn undecided_beneath(&self, ts: Timestamp, sectors: Range<u64>) -> Vec<Timestamp> {
        let spaces = self.admission.unresolved_spaces();
        let waits = |below: Range<u64>| self.admission.must_wait(ts, below);
        if !self.views.any_below(sectors.clone(), spaces, waits) {
            return Vec::new();
        }
        let below = self.views.all_below(sectors).into_iter();
        below.flat_map(|sectors| self.admission.earlier_unresolved(ts, sectors)).collect()
    }

    /// Views that the map before had not have the marks of what they lie over.
    pub(super) fn inherit_marks(&mut self, before: &Views) {
        if self.exposure.is_empty() {
            return;
        }
        for view in self.views.in_range(0..u64::MAX) {
            if before.below(view.sectors.start).is_some() {
                continue;
            }
            let count = view.sectors.end - view.sectors.start;
            let marks = self.exposure.marks.range(view.below..view.below + count);
            let above = |sector: u64| view.sectors.start + (sector - view.below);
            let shown: Vec<_> = marks.map(|(sector, mark)| (above(*sector), *mark)).collect();
            for (sector, mark) in shown {
                self.exposure.marks.entry(sector).or_insert(mark);
            }
        }
    }
}
