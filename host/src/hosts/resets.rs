//! When volumes were reset and registrants preempted, as this process has seen it.
//!
//! A reset concerns the requests that came before it, however long they have waited in this process since. So each has
//! the epoch of the map that was in force here when it came, and for each volume the epoch is kept in which its latest
//! reset was seen. Before requests are received the map is looked at, so that no reset is missed in between.
//!
//! A preemption concerns the requests of the registrants that it removed, in the same way: also if they have registered
//! again since, and if the reservation is gone.

use std::collections::HashMap;

use weft_core::cluster::{ClusterMap, MOST_REMOVED, Registrant, Removal, Reservations};
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
    /// The registrants that were removed from each volume.
    removals: HashMap<VolumeId, Removals>,
}

/// The registrants that were removed from a volume, and the epoch in which each removal was seen.
#[derive(Default)]
struct Removals {
    /// The version of the reservations that was looked at last.
    version: u64,
    listed: Vec<(Removal, Epoch)>,
    /// Until then others may have been removed that the map has stopped listing.
    all_until: Epoch,
}

impl Removals {
    fn look(&mut self, now: &Reservations, epoch: Epoch) {
        if self.version == now.version {
            return;
        }
        let is_listed = |r: &Removal| now.removed.iter().any(|removal| removal.who == r.who);
        let dropped = self.listed.iter().filter(|(r, _)| !is_listed(r)).map(|(_, seen)| *seen);
        self.all_until = dropped.fold(self.all_until, Epoch::max);
        // One that was listed and dropped between two looks was never seen.
        let oldest = now.removed.first().filter(|_| now.removed.len() >= MOST_REMOVED);
        if oldest.is_some_and(|oldest| oldest.version > self.version) {
            self.all_until = epoch;
        }
        let seen = |removal: &Removal| {
            let known = self.listed.iter().find(|(r, _)| r == removal);
            (removal.clone(), known.map_or(epoch, |(_, seen)| *seen))
        };
        self.listed = now.removed.iter().map(seen).collect();
        self.version = now.version;
    }

    fn is_after(&self, who: &Registrant, epoch: Epoch) -> bool {
        let its = self.listed.iter().find(|(removal, _)| removal.who == *who);
        its.map_or(0, |(_, seen)| *seen).max(self.all_until) > epoch
    }
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
        self.removals.retain(|volume, _| map.volumes.contains_key(volume));
        let reserved = map.volumes.iter().filter(|(_, v)| v.reservations.version > 0);
        for (id, volume) in reserved {
            self.removals.entry(*id).or_default().look(&volume.reservations, map.epoch);
        }
        self.counts = map.volumes.iter().map(|(id, v)| (*id, v.reservations.resets)).collect();
    }

    /// Whether a volume has been reset after this epoch.
    pub(super) fn is_after(&self, volume: VolumeId, epoch: Epoch) -> bool {
        self.seen.get(&volume).is_some_and(|seen| *seen > epoch)
    }

    /// Whether a registrant of a volume has been preempted after this epoch.
    pub(super) fn is_preempted(&self, volume: VolumeId, who: &Registrant, epoch: Epoch) -> bool {
        self.removals.get(&volume).is_some_and(|removals| removals.is_after(who, epoch))
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

    fn name(n: usize) -> Registrant {
        Registrant { host: format!("host {n}"), port: 1 }
    }

    /// A map in which these registrants were removed, each by a version of its own.
    fn removing(epoch: Epoch, removed: std::ops::Range<usize>) -> ClusterMap {
        let mut map = map(epoch, &[(ONE, 0)]);
        let volume = Arc::make_mut(map.volumes.get_mut(&ONE).unwrap());
        volume.reservations.version = 1 + removed.end as u64;
        let removal = |n: usize| Removal { who: name(n), version: 1 + n as u64 };
        volume.reservations.removed = removed.map(removal).collect();
        map
    }

    #[test]
    fn a_preemption_is_after_what_came_before_it_was_seen() {
        let mut resets = Resets::default();
        resets.look(&removing(3, 0..1));
        assert!(!resets.is_preempted(ONE, &name(0), 3), "what came since its start came later");
        resets.look(&removing(5, 0..3));
        let is = |resets: &Resets, n: usize, epoch| resets.is_preempted(ONE, &name(n), epoch);
        assert!(is(&resets, 1, 4) && is(&resets, 2, 4) && !is(&resets, 2, 5));
        assert!(!is(&resets, 0, 4) && !is(&resets, 9, 0) && !is(&resets, 9, 4));
        // Of a list that is full the oldest are dropped: whoever they were, what came before is over.
        resets.look(&removing(6, 2..MOST_REMOVED + 2));
        assert!(is(&resets, 1, 4) && is(&resets, 900, 4) && !is(&resets, 900, 5));
        assert!(is(&resets, 3, 5), "it was seen in 6");
        let far = 2 * MOST_REMOVED + 9;
        resets.look(&removing(8, far - MOST_REMOVED..far));
        assert!(is(&resets, 900, 7) && !is(&resets, 900, 8), "some were never seen");
        resets.look(&map(9, &[]));
        assert!(!is(&resets, 3, 5), "the volume is gone");
    }
}
