//! When volumes were reset, as this process has seen it.
//!
//! A reset concerns the requests that came before it, however long they have waited in this process since. So each has
//! the epoch of the map that was in force here when it came, and for each volume the epoch is kept in which its latest
//! reset was seen. Before requests are received the map is looked at, so that no reset is missed in between.

use std::collections::HashMap;

use weft_core::cluster::ClusterMap;
use weft_core::units::{Epoch, VolumeId};

/// The latest resets of volumes.
#[derive(Default)]
pub(super) struct Resets {
    /// The epoch of the map that was looked at last.
    epoch: Epoch,
    /// How often each volume had been reset in it.
    counts: HashMap<VolumeId, u64>,
    /// In which epoch the latest reset was seen, of volumes that have been reset since this process has started.
    seen: HashMap<VolumeId, Epoch>,
}

impl Resets {
    /// Takes note of the resets in a map.
    pub(super) fn look(&mut self, map: &ClusterMap) {
        if map.epoch == self.epoch {
            return;
        }
        self.epoch = map.epoch;
        self.seen.retain(|volume, _| map.volumes.contains_key(volume));
        let now = |id: &VolumeId| map.volumes.get(id).map(|v| v.reservations.resets);
        let reset = self.counts.iter().filter(|(id, count)| now(id).is_some_and(|n| n != **count));
        self.seen.extend(reset.map(|(id, _)| (*id, map.epoch)));
        self.counts = map.volumes.iter().map(|(id, v)| (*id, v.reservations.resets)).collect();
    }

    /// Whether a volume has been reset after this epoch.
    pub(super) fn is_after(&self, volume: VolumeId, epoch: Epoch) -> bool {
        self.seen.get(&volume).is_some_and(|seen| *seen > epoch)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use weft_core::cluster::Volume;
    use weft_core::layout::{Geometry, LayoutSpec};

    use super::*;

    const ONE: VolumeId = VolumeId(1);
    const OTHER: VolumeId = VolumeId(2);

    fn map(epoch: Epoch, resets: &[(VolumeId, u64)]) -> ClusterMap {
        let spec = LayoutSpec::default();
        let geometry = Geometry::new(spec.over(3).unwrap(), 4096);
        let volume = |(id, resets): &(VolumeId, u64)| {
            let mut volume = Volume::new(*id, "v", 0, &spec, geometry.clone(), Vec::new());
            volume.reservations.resets = *resets;
            (*id, Arc::new(volume))
        };
        let volumes = resets.iter().map(volume).collect();
        ClusterMap { epoch, volumes, ..ClusterMap::default() }
    }

    #[test]
    fn a_reset_is_after_what_came_before_it_was_seen() {
        let mut resets = Resets::default();
        resets.look(&map(3, &[(ONE, 7)]));
        assert!(!resets.is_after(ONE, 0), "nothing of before its start has come");
        resets.look(&map(5, &[(ONE, 7), (OTHER, 2)]));
        assert!(!resets.is_after(OTHER, 3), "it is new here");
        // Maps may be skipped.
        resets.look(&map(9, &[(ONE, 9), (OTHER, 2)]));
        assert!(resets.is_after(ONE, 8) && !resets.is_after(ONE, 9) && !resets.is_after(OTHER, 0));
        resets.look(&map(10, &[(ONE, 9), (OTHER, 3)]));
        assert!(resets.is_after(ONE, 8) && !resets.is_after(ONE, 9) && resets.is_after(OTHER, 9));
        resets.look(&map(11, &[(ONE, 9)]));
        assert!(!resets.is_after(OTHER, 0), "it is gone");
    }
}
