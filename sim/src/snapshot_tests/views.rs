//! What views show: what their history says, and what a scrub finds.

use super::*;

impl Trial {
    /// Reads all of a view. What it shows once it shows for ever.
    pub(super) fn settle(&mut self, id: VolumeId) {
        self.until("no host writes to it", |t| !t.asked.values().any(|a| a.volume == id));
        let len = self.models[&id].len() as u64 * SECTOR;
        let range = Range { offset: 0, len };
        let mut tries = 0;
        let pieces = loop {
            let read = self.ask(id, HostOp::Read(range));
            match self.answer(read) {
                Ok(HostData::Bytes(pieces)) => break pieces,
                Err(HostError::TooManyLost) if tries < 20 => {
                    tries += 1;
                    self.step(4000);
                }
                other => panic!(
                    "a read of {id:?}: {other:?}; down {:?}; {:#?}; {:#?}",
                    self.down,
                    self.world.map().attendance,
                    self.world.map().volumes[&id].extents
                ),
            }
        };
        let bytes = Buffer::join(&pieces);
        let wrong = bytes.chunks(SECTOR as usize).zip(&self.models[&id]);
        if let Some(n) = wrong.clone().position(|(sector, possible)| !possible.contains(&sector[0]))
        {
            self.tell_of(n);
        }
        let model = self.models.get_mut(&id).expect("a model");
        for (n, (sector, possible)) in bytes.chunks(SECTOR as usize).zip(model).enumerate() {
            let seen = sector[0];
            assert!(sector.iter().all(|b| *b == seen), "{id:?}: sector {n} is torn");
            assert!(
                possible.contains(&seen),
                "{id:?}: sector {n} is {seen}, and may be {possible:?}"
            );
            *possible = vec![seen];
        }
    }

    /// What each view shows of a sector, and where it is.
    pub(super) fn tell_of(&mut self, n: usize) {
        for id in self.models.keys().copied().collect::<Vec<_>>() {
            let volume = self.world.map().volumes[&id].clone();
            let offset = n as u64 * SECTOR;
            let g = &volume.geometry;
            let stripe = offset / g.stripe_bytes();
            let extent = volume.extent(stripe);
            let read = self.ask(id, HostOp::Read(Range { offset, len: SECTOR }));
            let seen = match self.answer(read) {
                Ok(HostData::Bytes(pieces)) => format!("{}", pieces[0].to_bytes()[0]),
                other => format!("{other:?}"),
            };
            let may = &self.models[&id].get(n);
            println!(
                "{id:?} over {:?}: sector {n} is {seen}, may be {may:?}; stripe {stripe}, unit {}, {extent:?}",
                volume.lineage.below,
                offset % g.stripe_bytes() / g.unit
            );
        }
    }

    pub(super) fn settle_all(&mut self) {
        for id in self.models.keys().copied().collect::<Vec<_>>() {
            self.settle(id);
        }
    }

    pub(super) fn scrub_all(&mut self) {
        for id in self.models.keys().copied().collect::<Vec<_>>() {
            let scrub = self.ask(id, HostOp::SCRUB);
            match self.answer(scrub) {
                Ok(HostData::Scrubbed(p, _)) => {
                    assert_eq!((p.mismatched, p.skipped, p.rebuilt), (0, 0, 0), "{id:?}: {p:?}");
                }
                other => panic!("{id:?}: {other:?}"),
            }
        }
    }
}
