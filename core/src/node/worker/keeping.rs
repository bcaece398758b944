//! The sectors that a disk must keep: those of volumes, and discarded ones of thin volumes while a disk may have missed
//! the discard.

use std::ops::Range;

use super::Worker;
use crate::cluster::{ClusterMap, Volume};
use crate::units::{NodeId, SPACE_SECTORS, thin_volume};

impl Worker {
    /// The map in force says which sectors of the disk belong to volumes.
    pub(super) fn keep_only(&mut self) {
        if !self.map.is_up(self.node) {
            return;
        }
        let sectors = self.map.sectors_on(self.node);
        let slot = self.store.slot().max(1);
        let own = sectors.iter().filter(|s| s.start < SPACE_SECTORS);
        let reserved = slots_of(own, slot);
        self.store.keep_only(&sectors, reserved);
    }

    /// Gives back slots of thin volumes in which everything has been discarded, where no disk needs to be told of that.
    pub(super) fn forget_empty(&mut self) {
        if !self.store.has_empty() || self.catchup.is_asking() || self.telling.is_busy() {
            return;
        }
        let (map, node) = (self.map.clone(), self.node);
        let all = !self.config.keeps_what_was_missed();
        self.store.forget_empty(&|sector| {
            let volume = thin_volume(sector).and_then(|id| map.volumes.get(&id));
            let stripe =
                volume.and_then(|volume| Some((volume, volume.stripe_at(node, sector)?.0)));
            stripe.is_some_and(|(volume, stripe)| {
                all || may_forget(&map, volume, volume.extent_of(stripe), node)
            })
        });
    }
}

/// Whether a disk may forget when something of an extent was discarded: if none is away or behind. One that is behind itself
/// may, too. What another misses that is away or behind as well, those tell it that are whole: a row with content has some
/// on one of them, since they determine the rest. So a full disk can catch up.
fn may_forget(map: &ClusterMap, volume: &Volume, extent: usize, node: NodeId) -> bool {
    let is_behind = map.behind_since(volume, extent, node).is_some();
    !map.is_asleep(volume) && (is_behind || has_all(map, volume, extent))
}

/// Whether no disk of an extent is away, behind, or being filled.
fn has_all(map: &ClusterMap, volume: &Volume, extent: usize) -> bool {
    let of = &volume.extents[extent];
    let is_behind = |node| map.behind_since(volume, extent, node).is_some() || !map.is_up(node);
    map.lost(volume, extent).is_empty()
        && of.filling.is_empty()
        && of.leaving.is_empty()
        && !of.columns.iter().any(|(node, _)| is_behind(*node))
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
