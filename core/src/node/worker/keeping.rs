//! The sectors that a disk must keep: those of volumes, and discarded ones of thin volumes while a disk may have missed
//! the discard.

use std::collections::BTreeSet;
use std::ops::Range;

use super::{EVERYWHERE, Worker};
use crate::cluster::{ClusterMap, Extent, Volume};
use crate::node::{Outbox, Refusal};
use crate::store::Change;
use crate::units::{NodeId, SPACE_SECTORS, Timestamp, VolumeId, thin_space};

impl Worker {
    /// The map in force says which sectors of the disk belong to volumes.
    pub(super) fn keep_only(&mut self) {
        self.unforgettable = vec![EVERYWHERE];
        if !self.map.is_up(self.node) {
            return;
        }
        self.unforgettable = self.unforgettable_sectors();
        let mut sectors = self.map.sectors_on(self.node);
        if !self.config.keeps_deleted() {
            let deleted = self.map.volumes.values().filter(|v| v.is_snapshot() && v.is_deleted());
            let spaces: Vec<u64> = deleted.map(|v| v.space()).collect();
            sectors.retain(|s| !spaces.contains(&(s.start / SPACE_SECTORS)));
        }
        let slot = self.store.slot().max(1);
        let own = sectors.iter().filter(|s| s.start < SPACE_SECTORS);
        let reserved = slots_of(own, slot);
        // Volumes that this map does not know yet: it may have been recovered from an older copy.
        sectors.push(thin_space(VolumeId(self.map.next_volume))..u64::MAX);
        sectors.sort_unstable_by_key(|s| s.start);
        self.store.keep_only(&sectors, reserved);
        self.keep_copies_of_volumes();
    }

    /// Leaves out of a write to a thin volume the zeros that need no record: none stands for anything else there, and no
    /// earlier write can come yet. A column that is being copied here records all: versions alone tell what the copy lacks.
    pub(super) fn without_needless_zeros(
        &self,
        ts: Timestamp,
        changes: Vec<Change>,
    ) -> Vec<Change> {
        let txn = &self.txns[&ts];
        let volume = self.map.volumes.get(&txn.volume).filter(|volume| volume.is_thin());
        let extent = volume.and_then(|volume| volume.extents.get(txn.extent));
        if extent.is_none_or(|extent| !extent.leaving.is_empty()) {
            return changes;
        }
        let mut zeros = changes.iter().filter(|change| change.data.is_zero());
        let is_awaited = |change: &Change| {
            let sectors = change.sectors();
            self.admission.earlier_unresolved(ts, sectors.clone()).next().is_some()
                || !self.undecided_beneath(ts, sectors.clone()).is_empty()
                || (!self.views.is_empty() && self.is_stale(sectors))
        };
        match zeros.any(is_awaited) {
            true => changes,
            false => self.store.without_needless_zeros(changes),
        }
    }

    /// Whether the file system of the disk is full, as whoever works the disk says.
    pub fn disk_is_full(&mut self, is_full: bool) {
        self.is_full = is_full;
    }

    /// Whether the disk has space for a write. While its file system is full, writes of hosts are refused if they are
    /// voted on: only the file system knows which sectors need no more space. All others, and repairs, wait at the disk.
    /// Else hosts' writes to volumes whose space is reserved always have space; but a column that comes to a disk may find that
    /// thin volumes use it.
    pub(super) fn has_space(&self, ts: Timestamp, changes: &[Change]) -> bool {
        let txn = &self.txns[&ts];
        let volume = self.map.volumes.get(&txn.volume);
        // Without the journal and votes, other nodes may have written their parts already.
        let is_voted = txn.journal && volume.is_some_and(|v| v.policy.commit.is_voted());
        if self.is_full && is_voted && !txn.puts_back() {
            return false;
        }
        let is_thin = volume.is_some_and(|volume| volume.is_thin());
        (!is_thin && !txn.puts_back()) || self.store.can_place(changes)
    }

    /// Refuses a write for which the disk has no space. A volume that cannot be rebuilt for that reason keeps no other behind.
    pub(super) fn refuse_for_space(&mut self, ts: Timestamp, outbox: &mut Outbox) {
        let txn = &self.txns[&ts];
        if txn.puts_back() {
            self.filling.lacks_space(txn.volume);
        }
        self.refuse(ts, Refusal::Full, outbox);
    }

    /// Gives back slots of thin volumes in which everything has been discarded, where no disk needs to be told of that.
    pub(super) fn forget_empty(&mut self) {
        if !self.store.has_empty() || self.catchup.is_asking() || self.telling.is_busy() {
            return;
        }
        let oldest = self.txns.keys().next().copied().unwrap_or(Timestamp(u64::MAX));
        let (unforgettable, slot) = (&self.unforgettable, self.store.slot());
        // A discard hides what this disk has yet to catch up on below.
        let (views, catchup) = (&self.views, &self.catchup);
        let is_stale_beneath = |sectors: Range<u64>| {
            catchup.lacks_any()
                && views.all_below(sectors).into_iter().any(|below| catchup.is_stale(below))
        };
        // Extents side by side may share a slot.
        self.store.forget_empty(oldest, &|first| {
            let after = unforgettable.partition_point(|sectors| sectors.end <= first);
            let has_all =
                unforgettable.get(after).is_none_or(|sectors| first + slot <= sectors.start);
            has_all && !is_stale_beneath(first..first + slot)
        });
    }

    /// The sectors of thin volumes, in order, whose discards this disk may not forget by the map in force.
    fn unforgettable_sectors(&self) -> Vec<Range<u64>> {
        let (map, node) = (&self.map, self.node);
        let all = !self.config.keeps_what_was_missed();
        let mut sectors = Vec::new();
        for volume in map.volumes.values().filter(|volume| volume.is_thin()) {
            let forgets = Forgets::of(map, volume, node);
            for (n, extent) in volume.extents.iter().enumerate() {
                let Some((_, first)) = extent.place_on(node) else { continue };
                if !all && !forgets.may_in(extent) {
                    sectors.push(first..first + volume.extent_sectors(n));
                }
            }
        }
        sectors.sort_unstable_by_key(|s| s.start);
        sectors
    }
}

/// Whether a disk may forget when something of a volume's extents was discarded: if no disk is away or behind. One that is behind
/// itself may, too, so that a full disk can catch up. Other disks that miss the discard hear of it from those that are whole: a
/// row with content has some on one of them, since they determine the rest. But its own parity shows no longer that a row was
/// not written, and disks that catch up do not conclude that from it. Not while a column is copied: its version alone
/// tells the disk that it comes to which content is newer than the copy.
struct Forgets {
    node: NodeId,
    is_asleep: bool,
    /// Whether the disk itself is behind, whatever the extent.
    is_behind: bool,
    /// The nodes that are away or behind.
    missing: BTreeSet<NodeId>,
}

impl Forgets {
    fn of(map: &ClusterMap, volume: &Volume, node: NodeId) -> Forgets {
        let is_missing = |n: &NodeId| !map.is_up(*n) || map.is_missing_or_behind(volume.id, *n);
        let nodes = (0..map.nodes.len() as u16).map(NodeId);
        let stale = map.attendance.get(&volume.id).map(|a| &a.stale_since);
        Forgets {
            node,
            is_asleep: map.is_asleep(volume),
            is_behind: stale.is_some_and(|stale| stale.contains_key(&node)),
            missing: nodes.filter(is_missing).collect(),
        }
    }

    fn may_in(&self, extent: &Extent) -> bool {
        let has_column = || extent.column_of(self.node).is_some();
        let is_behind = extent.filling_on(self.node).is_some() || (self.is_behind && has_column());
        let has_all = || {
            let is_missing = |(node, _): &(NodeId, u64)| self.missing.contains(node);
            extent.filling.is_empty()
                && (self.missing.is_empty() || !extent.columns.iter().any(is_missing))
        };
        !self.is_asleep && extent.leaving.is_empty() && (is_behind || has_all())
    }
}

/// In how many slots these sectors are, which are in order.
fn slots_of<'a>(sectors: impl Iterator<Item = &'a Range<u64>>, slot: u64) -> u64 {
    let (mut count, mut end) = (0, 0);
    for slots in sectors.map(|s| s.start / slot..s.end.div_ceil(slot)) {
        count += slots.end.saturating_sub(slots.start.max(end));
        end = end.max(slots.end);
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_that_two_extents_share_counts_once() {
        let sectors = [0..5, 5..16, 16..17, 40..48, 64..80];
        assert_eq!(slots_of(sectors.iter(), 16), 2 + 1 + 1);
        assert_eq!(slots_of([].iter(), 16), 0);
    }
}
