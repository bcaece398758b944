//! Clones become independent of the snapshots that they were made from.

use super::*;

impl Trial {
    /// A clone becomes independent, in the background.
    pub(super) fn flatten(&mut self) {
        let map = self.world.map();
        let is_clone = |id: &VolumeId| map.check_flatten(*id).is_ok() && !map.flattens(*id);
        let all: Vec<VolumeId> = self.models.keys().copied().filter(is_clone).collect();
        if all.is_empty() {
            return;
        }
        let id = all[self.rng.usize(0..all.len())];
        self.tell(|| format!("{id:?} is flattened"));
        self.change(&Change::Flatten(id), |w| {
            w.map().flattens(id) || w.map().check_flatten(id).is_err()
        });
    }

    /// All clones become independent of what they were made from.
    pub(super) fn flatten_all(&mut self) {
        if !self.draws.flattens || self.draws.tight {
            return;
        }
        for id in self.models.keys().copied().collect::<Vec<_>>() {
            if self.world.map().check_flatten(id).is_ok() {
                self.change(&Change::Flatten(id), |w| {
                    w.map().flattens(id) || w.map().check_flatten(id).is_err()
                });
            }
        }
        self.until("all clones are independent", |t| {
            t.models.keys().all(|id| t.world.map().check_flatten(*id).is_err()) && t.is_whole()
        });
    }
}
