//! Deleted volumes that this process knows of, and since when by its own uptime.
//!
//! The map says at which time a volume was deleted, by the clock of whoever deleted it. A clock that is set wrong, here or
//! there, makes that look like long ago. So nothing is removed permanently because of that time alone.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use weft_core::cluster::{ClusterMap, Volume};
use weft_core::units::VolumeId;

/// When a volume was deleted, as the map says. A volume that comes back and is deleted again is another one.
type Deleted = (VolumeId, Option<u64>);

/// Since when this process has known of each deleted volume.
#[derive(Debug, Default)]
pub(crate) struct Witnessed(BTreeMap<Deleted, Instant>);

impl Witnessed {
    /// Takes note of the deleted volumes of a map.
    pub(crate) fn look(&mut self, map: &ClusterMap, now: Instant) {
        let key = |v: &Volume| (v.id, v.deletion.since);
        let there = |(id, since): &Deleted| {
            map.volumes.get(id).is_some_and(|v| v.is_deleted() && v.deletion.since == *since)
        };
        self.0.retain(|deleted, _| there(deleted));
        for volume in map.volumes.values().filter(|v| v.is_deleted()) {
            self.0.entry(key(volume)).or_insert(now);
        }
    }

    /// For how long this process has known that the volume is deleted.
    pub(crate) fn known_for(&self, volume: &Volume, now: Instant) -> Duration {
        let since = self.0.get(&(volume.id, volume.deletion.since));
        since.map_or(Duration::ZERO, |since| now.saturating_duration_since(*since))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use weft_core::cluster::Deletion;
    use weft_core::layout::{Geometry, LayoutSpec};

    use super::*;

    #[test]
    fn a_volume_is_known_as_deleted_since_it_was_seen() {
        let spec = LayoutSpec::default();
        let geometry = Geometry::new(spec.over(3).unwrap(), 4096);
        let volume = Volume::new(VolumeId(0), "v", 0, &spec, geometry, Vec::new());
        let deleted = |since| Volume { deletion: Deletion { since }, ..volume.clone() };
        let map = |volume: &Volume| ClusterMap {
            volumes: [(volume.id, Arc::new(volume.clone()))].into(),
            ..ClusterMap::default()
        };
        let begun = Instant::now();
        let after = |seconds| begun + Duration::from_secs(seconds);
        let mut witnessed = Witnessed::default();
        let first = deleted(Some(7));
        let known = |w: &Witnessed, v: &Volume, at| w.known_for(v, after(at)).as_secs();
        assert_eq!(known(&witnessed, &first, 9), 0, "it has not been seen");
        witnessed.look(&map(&first), after(10));
        witnessed.look(&map(&first), after(20));
        assert_eq!(known(&witnessed, &first, 30), 20);
        // It came back in between, unseen.
        let again = deleted(Some(8));
        witnessed.look(&map(&again), after(40));
        assert_eq!((known(&witnessed, &again, 41), known(&witnessed, &first, 41)), (1, 0));
        witnessed.look(&map(&volume), after(50));
        witnessed.look(&map(&again), after(60));
        assert_eq!(known(&witnessed, &again, 61), 1);
    }
}
