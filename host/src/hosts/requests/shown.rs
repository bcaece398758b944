//! Up to where hosts see each volume. What lies behind may be another volume's, or may have been.
//!
//! A volume that grows shows its new part when that is clear. One that is cut off, deleted or rolled back is hidden before
//! that, and shown again if a host has come meanwhile: such a host is served until it is known.

use std::collections::HashMap;

use weft_core::cluster::ClusterMap;
use weft_core::units::{Epoch, VolumeId};

/// The sizes.
#[derive(Default)]
pub(super) struct Shown {
    /// The epoch of the map that was looked at last.
    epoch: Epoch,
    sizes: HashMap<VolumeId, u64>,
}

impl Shown {
    /// Looks at a map. If one was missed, earlier sizes say nothing.
    pub(super) fn look(&mut self, map: &ClusterMap) {
        if self.epoch == map.epoch {
            return;
        }
        let mut before = std::mem::take(&mut self.sizes);
        if map.epoch != self.epoch + 1 {
            before.clear();
        }
        self.epoch = map.epoch;
        self.sizes = map
            .volumes
            .values()
            .map(|volume| {
                let before = before.get(&volume.id).copied().unwrap_or(0);
                let is_changing = volume.visible < volume.size;
                let shown = if is_changing { before.max(volume.visible) } else { volume.visible };
                (volume.id, shown.min(volume.size))
            })
            .collect();
    }

    /// The bytes of a volume that hosts see, or saw before it began to change.
    pub(super) fn size(&self, volume: VolumeId) -> u64 {
        self.sizes.get(&volume).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use weft_core::cluster::Volume;
    use weft_core::layout::{Geometry, LayoutSpec};

    use super::*;

    #[test]
    fn a_growing_volume_shows_what_it_did_and_so_does_a_hidden_one() {
        let spec = LayoutSpec::default();
        let geometry = Geometry::new(spec.over(3).unwrap(), 4096);
        let volume = Volume::new(VolumeId(1), "v", 100, &spec, geometry, Vec::new());
        let mut shown = Shown::default();
        let mut epoch = 0;
        let mut after = |size, visible| {
            epoch += 1;
            let volume = Volume { size, visible, ..volume.clone() };
            let volumes = [(volume.id, volume.into())].into();
            shown.look(&ClusterMap { epoch, volumes, ..ClusterMap::default() });
            shown.size(VolumeId(1))
        };
        assert_eq!(after(200, 100), 100, "it was growing before this process came");
        assert_eq!(after(200, 200), 200);
        assert_eq!([after(300, 200), after(300, 300)], [200, 300]);
        assert_eq!([after(300, 50), after(50, 50)], [300, 50], "it becomes smaller");
        assert_eq!([after(50, 0), after(50, 50)], [50, 50], "it was hidden, and stays");
        assert_eq!([after(80, 50), after(80, 80)], [50, 80]);
        assert_eq!(shown.size(VolumeId(2)), 0);
        // It became smaller and grows again.
        let volume = Volume { size: 70, visible: 40, ..volume };
        let volumes = [(volume.id, volume.into())].into();
        shown.look(&ClusterMap { epoch: epoch + 2, volumes, ..ClusterMap::default() });
        assert_eq!(shown.size(VolumeId(1)), 40);
    }
}
