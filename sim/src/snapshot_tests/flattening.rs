//! Clones become independent of the snapshots that they were made from.

use weft_core::node::ALL;

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

/// How long it takes until a clone has all that it shows while this part of the work that no host waits for goes on.
fn flattens_within(part: u64) -> u64 {
    let mut trial = Trial::new(4, None);
    trial.put(FIRST, 0..40, 7);
    trial.picture("s");
    trial.clone_one();
    let clone = *trial.models.keys().last().expect("just made");
    trial.world.give_way(part);
    trial.change(&Change::Flatten(clone), |w| {
        w.map().flattens(clone) || w.map().check_flatten(clone).is_err()
    });
    let begun = trial.world.now();
    trial.until("it is independent", |t| t.world.map().check_flatten(clone).is_err());
    trial.world.now() - begun
}

#[test]
fn flattening_gives_way_to_what_a_volume_promises() {
    let (all, least) = (flattens_within(ALL), flattens_within(ALL / 64));
    assert!(least > 8 * all, "{all} ns with all, {least} ns with the least");
}
