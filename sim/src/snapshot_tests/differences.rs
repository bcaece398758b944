//! What has changed between views: nothing that differs is left out, and where all is well nothing is added.

use super::*;

impl Trial {
    /// The sectors of a view that may have changed since another; nothing if the two have nothing in common any more.
    fn changed(&mut self, id: VolumeId, since: VolumeId) -> Option<Vec<bool>> {
        let sectors = self.models[&id].len();
        let range = Range { offset: 0, len: sectors as u64 * SECTOR };
        let mut tries = 0;
        loop {
            let asked = self.ask(id, HostOp::Changed(range, since));
            match self.answer(asked) {
                Ok(HostData::Changed(parts)) => {
                    let each = parts.iter().flat_map(|(len, changed)| {
                        assert_eq!(len % SECTOR, 0);
                        std::iter::repeat_n(*changed, (len / SECTOR) as usize)
                    });
                    let each: Vec<bool> = each.collect();
                    assert_eq!(each.len(), sectors);
                    return Some(each);
                }
                Err(HostError::TooManyLost) if tries < 20 => {
                    tries += 1;
                    self.step(4000);
                }
                // A clone that is flattened becomes independent at some time.
                Err(HostError::Unrelated) if self.world.map().between(since, id).is_none() => {
                    return None;
                }
                other => panic!("{id:?} since {since:?}: {other:?}"),
            }
        }
    }

    /// Compares two views of a family, one of them a snapshot.
    pub(super) fn compare_some(&mut self) {
        if !self.draws.compares {
            return;
        }
        let Some(since) = self.any_snapshot() else { return };
        let map = self.world.map();
        let related = |id: &VolumeId| map.between(since, *id).is_some();
        let all: Vec<VolumeId> = self.models.keys().copied().filter(related).collect();
        let id = all[self.rng.usize(0..all.len())];
        // What hosts write from now on may be in the answer, and need not be.
        let (before, then) = (self.models[&since].clone(), self.models[&id].clone());
        let Some(changed) = self.changed(id, since) else { return };
        let after = self.models[&id].clone();
        for (n, changed) in changed.into_iter().enumerate() {
            let all = [&before[n], &then[n], &after[n]];
            let same = all.iter().all(|possible| **possible == before[n] && possible.len() == 1);
            // Of several that it may show, one is what the other shows.
            let certain = all.iter().all(|possible| possible.len() == 1);
            assert!(
                changed || same || !certain,
                "{id:?} since {since:?}: sector {n} is {all:?}, and is said to be the same"
            );
        }
    }

    pub(super) fn put(&mut self, volume: VolumeId, sectors: std::ops::Range<u64>, byte: u8) {
        let (offset, len) = (sectors.start * SECTOR, (sectors.end - sectors.start) * SECTOR);
        let op = match byte {
            0 => HostOp::WriteZeroes(Range { offset, len }),
            _ => HostOp::Write(offset, Buffer::from(vec![byte; len as usize])),
        };
        let request = self.ask(volume, op);
        let answer = self.answer(request);
        assert!(matches!(answer, Ok(HostData::Done)), "{answer:?}");
        let its = &mut self.models.get_mut(&volume).expect("a model");
        its[sectors.start as usize..sectors.end as usize].fill(vec![byte]);
    }

    pub(super) fn picture(&mut self, name: &str) -> VolumeId {
        let change = Change::TakeSnapshots(vec![FIRST], name.to_string(), 0);
        let named = format!("v{}@{name}", FIRST.0);
        let find = |w: &World| w.map().volumes.values().find(|v| v.name == named).map(|v| v.id);
        self.change(&change, |world| find(world).is_some());
        let id = find(&self.world).expect("just seen");
        self.models.insert(id, self.models[&FIRST].clone());
        id
    }

    fn is_changed(&mut self, id: VolumeId, since: VolumeId) -> Vec<usize> {
        let changed = self.changed(id, since).expect("one is a snapshot of the other");
        (0..changed.len()).filter(|n| changed[*n]).collect()
    }
}

/// Writes, zeros over content and zeros over nothing; also over a snapshot that is deleted and merged, after a rollback,
/// and seen from both sides.
#[test]
fn what_was_written_is_the_difference() {
    for seed in 0..6 {
        let mut trial = Trial::new(seed, None);
        trial.put(FIRST, 3..9, 7);
        trial.put(FIRST, 20..21, 1);
        let [a, before] = ["a", "same"].map(|name| trial.picture(name));
        assert_eq!(trial.is_changed(before, a), [0; 0]);
        trial.put(FIRST, 4..5, 8);
        trial.put(FIRST, 20..21, 0);
        let middle = trial.picture("middle");
        trial.put(FIRST, 7..8, 8);
        let b = trial.picture("b");
        trial.put(FIRST, 30..32, 2);
        let (until_middle, until_b, now) = ([4, 20], [4, 7, 20], [4, 7, 20, 30, 31]);
        let check = |trial: &mut Trial| {
            assert_eq!(trial.is_changed(b, a), until_b, "seed {seed}");
            assert_eq!(trial.is_changed(a, b), until_b, "seed {seed}");
            assert_eq!(trial.is_changed(FIRST, a), now, "seed {seed}");
            assert_eq!(trial.is_changed(FIRST, b), [30, 31], "seed {seed}");
        };
        check(&mut trial);
        assert_eq!(trial.is_changed(middle, before), until_middle);
        for id in [middle, before] {
            trial.models.remove(&id);
            trial.change(&Change::DeleteVolume(id, 0), |w| {
                w.map().volumes.get(&id).is_none_or(|v| v.is_deleted())
            });
            check(&mut trial);
        }
        trial.until("they are merged", |t| {
            !t.world.map().volumes.values().any(|v| v.is_deleted()) && t.is_whole()
        });
        check(&mut trial);
        trial.change(&Change::RollBack(FIRST, a), |w| {
            w.map().volumes[&FIRST].lineage.below == Some(a)
        });
        trial.put(FIRST, 40..41, 5);
        // Of an undecided write more is said than was written.
        trial.until("all disks know that it is committed", Trial::is_whole);
        assert_eq!(trial.is_changed(FIRST, a), [40]);
        assert_eq!(trial.is_changed(FIRST, b), [4, 7, 20, 40], "seed {seed}");
    }
}

/// While a disk is away, the others know which stripes were written.
#[test]
fn without_a_disk_the_difference_is_of_the_stripes_written() {
    let mut trial = Trial::new(1, None);
    trial.put(FIRST, 0..40, 7);
    let a = trial.picture("a");
    trial.put(FIRST, 5..6, 8);
    let stripe = trial.world.map().volumes[&FIRST].geometry.stripe_bytes() / SECTOR;
    for node in trial.all_nodes() {
        trial.world.kill(node, true);
        trial.until("it is missed", |t| !t.world.map().is_up(node));
        let changed = trial.is_changed(FIRST, a);
        assert!(changed.contains(&5), "without {node:?}: {changed:?}");
        let within = (5 / stripe * stripe) as usize..((5 / stripe + 1) * stripe) as usize;
        assert!(changed.iter().all(|n| within.contains(n)), "without {node:?}: {changed:?}");
        trial.world.start_node(node);
        trial.until("all is whole", Trial::is_whole);
    }
}

#[test]
fn volumes_of_two_families_have_no_difference() {
    let mut trial = Trial::new(2, None);
    let a = trial.picture("a");
    let range = Range { offset: 0, len: SECTOR };
    let asked = trial.ask(OTHER, HostOp::Changed(range, a));
    assert!(matches!(trial.answer(asked), Err(HostError::Unrelated)));
}
