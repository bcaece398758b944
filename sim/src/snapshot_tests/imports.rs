//! Imports on top of snapshots: the content of a hidden volume becomes that of the volume, with all writes to it that were
//! answered, also those that some node has yet to learn of.

use weft_core::cluster::{Import, Source};

use super::*;

impl Trial {
    /// The hidden volumes of imports.
    fn hidden(&self) -> Vec<VolumeId> {
        let all = self.world.map().volumes.values();
        all.filter(|v| v.import.is_some()).map(|v| v.id).collect()
    }

    /// Begins an import, or ends the one under way.
    pub(super) fn import(&mut self) {
        match self.hidden().first() {
            Some(id) => self.finish_import(*id),
            None => self.begin_import(),
        }
    }

    fn begin_import(&mut self) {
        let Some(base) = self.any_snapshot() else { return };
        let map = self.world.map();
        let of = map.volumes[&base].lineage.snapshot.expect("it is one").of;
        let Some(volume) = map.volumes.get(&of).filter(|_| map.volumes.len() <= 12) else { return };
        self.names += 1;
        let import = Import {
            name: volume.name.clone(),
            into: Some(of),
            snapshot: format!("i{}", self.names),
            taken: 0,
            source: Source { cluster: 9, snapshot: VolumeId(self.names) },
            done: 0,
        };
        self.tell(|| format!("an import to {of:?} on {base:?}"));
        self.change(&Change::BeginImport(base, import), |world| {
            world.map().volumes.values().any(|v| v.import.is_some())
        });
        let id = self.hidden()[0];
        self.settle(base);
        let model = self.models[&base].clone();
        self.models.insert(id, model);
    }

    fn finish_import(&mut self, id: VolumeId) {
        let import = self.world.map().volumes[&id].import.clone().expect("it is one");
        let into = import.into.expect("there is a base");
        self.until("no host uses them", |t| {
            !t.asked.values().any(|asked| asked.volume == into || asked.volume == id)
        });
        if self.rng.bool() {
            self.forget_last_writes(id);
        }
        self.tell(|| format!("{id:?} is put in place as {into:?}"));
        self.change(&Change::FinishImport(id), |w| !w.map().volumes.contains_key(&id));
        let model = self.models.remove(&id).expect("a model");
        let full = self.world.map().volumes[&into].snapshot_name(&import.snapshot);
        let taken = self.world.map().volumes.values().find(|v| v.name == full).map(|v| v.id);
        self.models.insert(taken.expect("the import's snapshot"), model.clone());
        self.models.insert(into, model);
    }

    /// Writes are answered, and then all power is cut before every node knows of it.
    fn forget_last_writes(&mut self, id: VolumeId) {
        for _ in 0..self.rng.u64(1..6) {
            self.write_to(id);
        }
        self.until("they are answered", |t| !t.asked.values().any(|asked| asked.volume == id));
        self.tell(|| "all power is cut".into());
        self.asked.clear();
        self.world.power_cut();
        self.world.start_everything();
        self.down.clear();
    }
}
