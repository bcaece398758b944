//! Disks that are damaged under snapshots. A scrub of all views mends them.

use super::*;
use crate::damage::{HARMS, REGIONS, harm};
use crate::disk::Harmed;

/// Scrubs of everything until nothing is found any more.
const MOST_SCRUBS: usize = 20;

impl Trial {
    /// Something happens to a disk while its node is down. Then hosts go on, views come and go, and all is scrubbed.
    pub(super) fn damage(&mut self) {
        self.come_back();
        let node = match self.copied {
            Some(node) if self.rng.bool() => node,
            _ => self.any_node(),
        };
        self.kill(node, true);
        self.step(300);
        match self.copied.take() {
            Some(copied) if copied == node => self.put_copy_back(node),
            _ if self.rng.u8(0..4) == 0 => self.replace_late(node),
            _ => self.harm(node),
        }
        self.world.start_node(node);
        for _ in 0..self.rng.usize(0..6) {
            match self.rng.u8(0..6) {
                0 => self.snapshot(),
                1 => self.delete(),
                2 => self.clone_one(),
                3 => self.flatten(),
                _ => self.write(),
            }
            self.step(100);
        }
        self.until("all is whole after damage", Trial::is_whole);
        self.replace_disks_without_claims();
        self.scrub_until_clean();
        let copied = self.any_node();
        let incarnation = self.world.superblock(copied).expect("it has a disk").incarnation;
        self.world.disk(copied).copy(incarnation);
        self.copied = Some(copied);
    }

    /// An older copy of a disk comes in its place.
    fn put_copy_back(&mut self, node: NodeId) {
        self.tell(|| format!("the disk of {node} is an older copy"));
        let incarnation = self.world.superblock(node).expect("it has a disk").incarnation;
        self.world.disk(node).put_copy_back(incarnation);
        self.world.disk(node).harmed = Harmed::Since;
    }

    /// An empty disk comes in its place, after the others have merged deleted snapshots.
    fn replace_late(&mut self, node: NodeId) {
        for _ in 0..self.rng.usize(1..4) {
            self.snapshot();
            self.write();
            self.step(200);
            self.delete();
        }
        self.step(3000);
        self.tell(|| format!("{node} gets an empty disk"));
        self.world.replace_disk(node);
    }

    /// Parts of a disk are damaged.
    fn harm(&mut self, node: NodeId) {
        let divided = self.world.superblock(node).expect("it has a disk").clone();
        for _ in 0..self.rng.usize(1..=3) {
            // Never a superblock: the only whole one of two may be the older.
            let region = REGIONS[self.rng.usize(1..REGIONS.len())];
            let how = HARMS[self.rng.usize(0..HARMS.len())];
            self.tell(|| format!("the disk of {node}: {how:?} {region:?}"));
            let disk = self.world.disk(node);
            disk.harmed = Harmed::Since;
            harm(disk, &divided, how, region, &mut self.rng);
        }
    }

    /// All views are scrubbed until nothing is found any more.
    fn scrub_until_clean(&mut self) {
        for _ in 0..MOST_SCRUBS {
            let mut found = 0;
            for id in self.models.keys().copied().collect::<Vec<_>>() {
                let scrub = self.ask(id, HostOp::SCRUB);
                let (progress, findings) = match self.answer(scrub) {
                    Ok(HostData::Scrubbed(progress, findings)) => (progress, findings),
                    other => panic!("{id:?}: {other:?}"),
                };
                let wrong = (progress.unclear, progress.data_lost);
                for range in &findings.unclear {
                    self.tell_of((range.offset / SECTOR) as usize);
                }
                assert_eq!(wrong, (0, 0), "{id:?}: {progress:?}, {findings:?}");
                found += progress.mismatched + progress.rebuilt + progress.skipped;
            }
            self.tell(|| format!("scrubbed: {found} found"));
            if found == 0 {
                return;
            }
            self.step(400);
        }
        panic!("scrubs find something again and again");
    }

    /// As the status of such a disk advises.
    fn replace_disks_without_claims(&mut self) {
        let lacks = |t: &Trial, n| t.world.status(n).is_some_and(|status| status.has_lost_claims);
        for node in self.all_nodes().filter(|n| lacks(self, *n)).collect::<Vec<_>>() {
            self.tell(|| format!("{node} gets an empty disk, since it has lost claims"));
            self.kill(node, true);
            self.step(300);
            self.world.replace_disk(node);
            self.world.start_node(node);
            self.until("the empty disk is filled", Trial::is_whole);
        }
    }
}
