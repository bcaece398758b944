//! Flattening a clone: its disks copy what it shows of the volumes below, until it lies over none.
//!
//! The columns of a family are on the same disks, so each disk copies by itself. No view changes by it. When all disks have
//! reported, the map says that the clone lies over nothing.
//!
//! Only the lowest of the volumes that belong to a clone is flattened: the clone itself, or the first of its snapshots. What
//! the others show of foreign content they show through that one.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::views::Lineage;
use super::{ClusterMap, ViewError, Volume};
use crate::units::{NodeId, VolumeId};

impl ClusterMap {
    /// The volume that is flattened if this one is: the lowest that belongs to it, over another's snapshot.
    ///
    /// # Errors
    /// Why it cannot be flattened.
    pub fn check_flatten(&self, id: VolumeId) -> Result<VolumeId, ViewError> {
        let volume = self.volumes.get(&id).ok_or(ViewError::Unknown)?;
        if volume.is_snapshot() {
            return Err(ViewError::IsSnapshot);
        }
        if volume.is_deleted() || volume.visible < volume.size || volume.import.is_some() {
            return Err(ViewError::NotVisible);
        }
        self.lowest_of(volume).map(|lowest| lowest.id).ok_or(ViewError::NoClone)
    }

    /// Whether the disks of a volume copy what it shows of others.
    pub fn flattens(&self, id: VolumeId) -> bool {
        self.flattening(id).is_some()
    }

    /// The volume whose disks copy while this one is flattened.
    pub fn flattening(&self, id: VolumeId) -> Option<&Arc<Volume>> {
        let volume = self.volumes.get(&id).filter(|volume| !volume.is_snapshot())?;
        self.lowest_of(volume).filter(|lowest| lowest.lineage.flattens)
    }

    /// The lowest of a volume and its snapshots, if that lies over another volume's.
    fn lowest_of<'a>(&'a self, volume: &'a Arc<Volume>) -> Option<&'a Arc<Volume>> {
        let mut lowest = volume;
        loop {
            let below = self.volumes.get(&lowest.lineage.below?)?;
            match below.lineage.snapshot.is_some_and(|snapshot| snapshot.of == volume.id) {
                true => lowest = below,
                false => return Some(lowest),
            }
        }
    }

    /// Whether disks may copy for a volume: no disk of it, or of what it lies over, is away, lacks anything or is being filled.
    /// It has content of its own only where what it shows is settled. A snapshot that is being merged is not flattened.
    pub(super) fn can_flatten(&self, volume: &Volume) -> bool {
        volume.lineage.flattens
            && self.merges_into(volume.id).is_none()
            && self.has_all_disks(volume)
            && self.all_below(volume.id).all(|below| self.has_all_disks(below))
    }

    /// The disks of a volume are to copy what it shows of others.
    pub(in crate::cluster) fn flatten(&mut self, id: VolumeId) {
        let Ok(lowest) = self.check_flatten(id) else { return };
        let volume = self.volumes.get_mut(&lowest).expect("just found");
        Arc::make_mut(volume).lineage.flattens = true;
    }

    /// The volumes whose disks have all copied what they show of others, as these nodes have said.
    pub(in crate::cluster) fn flattened_by(&self, nodes: &BTreeSet<NodeId>) -> Vec<VolumeId> {
        let by_all = |volume: &&Arc<Volume>| {
            let below = volume.lineage.below.and_then(|below| self.volumes.get(&below));
            below.is_some_and(|below| below.nodes().iter().all(|n| nodes.contains(n)))
        };
        let all = self.volumes.values().filter(|volume| self.can_flatten(volume)).filter(by_all);
        all.map(|volume| volume.id).collect()
    }

    /// These volumes lie over nothing any more, unless they are not to be flattened any more.
    pub(in crate::cluster) fn detach_flattened(&mut self, flattened: &[VolumeId]) {
        for id in flattened {
            if self.volumes.get(id).is_some_and(|volume| self.can_flatten(volume)) {
                let volume = self.volumes.get_mut(id).expect("just seen");
                let lineage = &mut Arc::make_mut(volume).lineage;
                *lineage = Lineage { snapshot: lineage.snapshot, ..Lineage::default() };
            }
        }
    }
}
