//! Thin volumes that promise more than there is: what hosts see when a disk is full, and what it takes to go on.

use fastrand::Rng;
use weft_core::Buffer;
use weft_core::cluster::{
    Change, EXTENT_COLUMN_BYTES, Place as Room, Volume, place_thin, place_volume,
};
use weft_core::layout::{Geometry, LayoutSpec};
use weft_core::node::{Bug, HostData, HostError, HostOp, NodeConfig};
use weft_core::plan::Range;
use weft_core::store::SlotCounts;
use weft_core::units::{MILLIS, NodeId, SECTOR, VolumeId, thin_space};

use crate::world::World;

const THIN: VolumeId = VolumeId(1);
/// A volume whose room is reserved.
const THICK: VolumeId = VolumeId(2);
const NODES: usize = 5;
/// What a write of the tests fills.
const CHUNK: u64 = 4 * SECTOR;
/// Bytes of the thin volume: more than twice what the disks have.
const SIZE: u64 = 32 << 20;

struct Array {
    world: World,
    rng: Rng,
    asked: u64,
    /// The byte that fills each chunk of the thin volume.
    chunks: Vec<u8>,
}

impl Array {
    /// Five disks with RAID 5, of whose slots a part is reserved.
    fn new(seed: u64, layout: &str, bug: Option<Bug>) -> Array {
        let spec: LayoutSpec = layout.parse().unwrap();
        let geometry = Geometry::new(spec.over(NODES).unwrap(), 16 * SECTOR);
        let config = NodeConfig { patience: 40 * MILLIS, bug, ..NodeConfig::default() };
        let world = World::new(seed, NODES, 1400, 256, config, |data| {
            let rooms = Room::apart(&[data; NODES]);
            let stripes = 0..SIZE.div_ceil(geometry.stripe_bytes());
            let extents =
                place_thin(thin_space(THIN), &geometry, stripes, &rooms, &[], EXTENT_COLUMN_BYTES)
                    .unwrap();
            let thin = Volume::new(THIN, "thin", SIZE, &spec, geometry.clone(), extents);
            let size = 4 * geometry.stripe_bytes();
            let extents =
                place_volume(&geometry, size, &rooms, &[&thin], EXTENT_COLUMN_BYTES).unwrap();
            let thick = Volume::new(THICK, "thick", size, &spec, geometry, extents);
            vec![thin, thick]
        });
        let chunks = vec![0; (SIZE / CHUNK) as usize];
        let mut array = Array { world, rng: Rng::with_seed(seed), asked: 0, chunks };
        array.rest();
        array
    }

    /// Everything comes to rest, and in place.
    fn rest(&mut self) {
        let until = self.world.now() + 3_000 * MILLIS;
        while self.world.now() < until && self.world.step().is_some() {}
    }

    fn ask(&mut self, volume: VolumeId, op: HostOp) -> Result<HostData, HostError> {
        self.asked += 1;
        let up: Vec<NodeId> = self.world.map().up().collect();
        let node = up[self.rng.usize(0..up.len())];
        self.world.host(node, self.asked, volume, op);
        while self.world.replies.is_empty() {
            self.world.step().expect("time goes on");
        }
        self.world.replies.pop().expect("just seen").1
    }

    /// Fills a chunk. Without space nothing of it happens.
    fn write(&mut self, chunk: usize, byte: u8) -> Result<(), HostError> {
        let data = Buffer::from(vec![byte; CHUNK as usize]);
        let done = self.ask(THIN, HostOp::Write(chunk as u64 * CHUNK, data)).map(|_| ());
        if done.is_ok() {
            self.chunks[chunk] = byte;
        }
        done
    }

    /// Writes here and there until disks are full; says how many chunks have content then.
    fn fill(&mut self) -> usize {
        let (count, mut refused) = (self.chunks.len(), 0);
        for _ in 0..20 * count {
            let (chunk, byte) = (self.rng.usize(0..count), self.rng.u8(1..));
            match self.write(chunk, byte) {
                Ok(()) => {}
                Err(HostError::NoSpace) if refused == 50 => return self.written(),
                Err(HostError::NoSpace) => refused += 1,
                Err(error) => panic!("{error}"),
            }
        }
        panic!("it is never full");
    }

    /// All nodes catch up. Writes in their absence may take more than their disks have: then catching up waits for a
    /// discard.
    fn catch_up(&mut self) {
        for quarter in 0..5 {
            self.rest();
            self.rest();
            if self.world.map().is_whole() {
                return;
            }
            let of = self.chunks.len() / 4;
            self.discard(quarter * of % self.chunks.len()..(quarter % 4 + 1) * of);
        }
        panic!("it does not catch up: {:?}", self.slots());
    }

    fn written(&self) -> usize {
        self.chunks.iter().filter(|byte| **byte != 0).count()
    }

    /// Discards whole stripes, and the same in between.
    fn discard(&mut self, chunks: std::ops::Range<usize>) {
        let (offset, len) = (chunks.start as u64 * CHUNK, chunks.len() as u64 * CHUNK);
        self.ask(THIN, HostOp::WriteZeroes(Range { offset, len }))
            .expect("a full disk can do that");
        self.chunks[chunks].fill(0);
    }

    /// All that was acknowledged is there.
    fn check(&mut self) {
        for start in (0..self.chunks.len()).step_by(64) {
            let range = Range { offset: start as u64 * CHUNK, len: 64 * CHUNK };
            let read = self.ask(THIN, HostOp::Read(range)).expect("a full disk can be read");
            let HostData::Bytes(parts) = read else { panic!("a read gives bytes") };
            let bytes = Buffer::join(&parts);
            for (n, seen) in bytes.chunks(CHUNK as usize).enumerate() {
                let expected = self.chunks[start + n];
                assert!(seen.iter().all(|byte| *byte == expected), "chunk {}", start + n);
            }
        }
    }

    /// Fills the volume whose space is reserved.
    fn fill_reserved(&mut self) {
        let size = self.world.map().volumes[&THICK].size;
        let data = Buffer::from(vec![9; size as usize]);
        self.ask(THICK, HostOp::Write(0, data)).expect("its space is reserved");
    }

    fn slots(&self) -> Vec<SlotCounts> {
        let of = |n: usize| self.world.status(NodeId(n as u16)).and_then(|status| status.slots);
        (0..NODES).filter_map(of).collect()
    }

    fn scrub(&mut self) {
        self.rest();
        let Ok(HostData::Scrubbed(found, _)) = self.ask(THIN, HostOp::SCRUB) else {
            panic!("a scrub")
        };
        assert!(found.is_true() && found.rebuilt == 0, "{found:?}");
    }
}

#[test]
fn a_full_disk_refuses_what_needs_space_and_nothing_else() {
    for (seed, layout) in [(1, "raid5"), (2, "raid1"), (3, "raid6"), (4, "rs:3+1")] {
        let mut array = Array::new(seed, layout, None);
        let filled = array.fill();
        assert!(filled > 100, "{layout}: {filled} chunks were written");
        array.check();
        let written: Vec<usize> =
            (0..array.chunks.len()).filter(|chunk| array.chunks[*chunk] != 0).collect();
        for chunk in written.iter().step_by(9) {
            array.write(*chunk, 7).expect("it has its space");
        }
        // Reserved space is there.
        array.fill_reserved();
        for slots in array.slots() {
            assert!(slots.promised + slots.thin <= slots.usable + slots.usable / 8, "{slots:?}");
        }
        array.scrub();
        // There is space again when something is discarded.
        let half = array.chunks.len() / 2;
        let before: u64 = array.slots().iter().map(|slots| slots.thin).sum();
        array.discard(0..half);
        array.rest();
        let after: u64 = array.slots().iter().map(|slots| slots.thin).sum();
        assert!(after < before * 2 / 3, "{layout}: {before} slots were in use, and are {after}");
        let more = array.fill();
        assert!(more > filled * 3 / 4, "{layout}: {more} of {filled}");
        array.discard(0..array.chunks.len());
        array.rest();
        array.rest();
        let left: u64 = array.slots().iter().map(|slots| slots.thin).sum();
        assert_eq!(left, 0, "{layout}: nothing of an empty volume has space");
        array.check();
        array.scrub();
    }
}

/// Nodes die and return, all power goes, while disks are full.
#[test]
fn full_disks_come_back_with_all_that_they_had() {
    for seed in 10..16 {
        let mut array = Array::new(seed, "raid6", None);
        array.fill();
        let victims = [NodeId(seed as u16 % 5), NodeId((seed as u16 + 2) % 5)];
        victims.into_iter().for_each(|node| array.world.kill(node, true));
        array.rest();
        for _ in 0..40 {
            let (chunk, byte) = (array.rng.usize(0..array.chunks.len()), array.rng.u8(1..));
            let done = array.write(chunk, byte);
            assert!(matches!(done, Ok(()) | Err(HostError::NoSpace)), "{done:?}");
        }
        array.check();
        array.discard(0..array.chunks.len() / 4);
        victims.into_iter().for_each(|node| array.world.start_node(node));
        array.catch_up();
        array.check();
        array.scrub();
        array.world.power_cut();
        array.world.start_everything();
        array.catch_up();
        array.check();
        array.scrub();
        array.fill();
        array.check();
    }
}

/// A disk that missed a discard has the old content, and no other disk can tell when it was discarded.
#[test]
fn slots_that_are_given_back_while_a_disk_is_away_are_found() {
    let is_found = |bug| {
        let mut array = Array::new(30, "raid5", bug);
        array.fill();
        array.rest();
        array.world.kill(NodeId(1), true);
        array.rest();
        array.discard(0..array.chunks.len());
        array.rest();
        array.rest();
        array.world.start_node(NodeId(1));
        array.rest();
        array.rest();
        array.check();
        array.scrub();
    };
    is_found(None);
    let bug = Some(Bug::GivesBackTooSoon);
    assert!(std::panic::catch_unwind(|| is_found(bug)).is_err(), "not found");
}

/// A change that is prepared without space is never placed.
#[test]
fn a_disk_that_promises_more_than_it_has_is_found() {
    let runs = |bug| {
        let mut array = Array::new(40, "raid5", bug);
        array.fill();
    };
    runs(None);
    let bug = Some(Bug::PromisesTooMuch);
    assert!(std::panic::catch_unwind(|| runs(bug)).is_err(), "not found");
}

/// An array whose volume is gone has all its slots.
#[test]
fn what_a_deleted_volume_had_is_free() {
    let mut array = Array::new(50, "raid5", None);
    array.fill();
    array.fill_reserved();
    array.rest();
    assert!(array.slots().iter().all(|slots| slots.thin > 0 && slots.placed > slots.thin));
    array.world.remove_volume(THIN);
    array.world.remove_volume(THICK);
    array.rest();
    for slots in array.slots() {
        assert_eq!((slots.thin, slots.placed, slots.promised), (0, 0, 0), "{slots:?}");
        assert_eq!(slots.free, slots.all);
    }
}

/// A discard under snapshots takes slots, since it hides what those have there. They are given back with the last snapshot.
#[test]
fn what_was_discarded_under_snapshots_is_free_when_they_are_deleted() {
    let mut array = Array::new(60, "raid5", None);
    for chunk in 0..40 {
        array.write(3 * chunk, 7).expect("there is space");
    }
    let mut snapshots = Vec::new();
    for name in ["a", "b"] {
        array.rest();
        array.world.change(Change::TakeSnapshots(vec![THIN], name.to_string(), 0));
        array.rest();
        let map = array.world.map();
        let newest = map.snapshots_of(THIN).iter().map(|snapshot| snapshot.id).max();
        snapshots.push(newest.expect("it was taken"));
        array.write(1, 9).expect("there is space");
    }
    array.discard(0..array.chunks.len());
    array.rest();
    array.check();
    for snapshot in snapshots {
        assert!(array.slots().iter().any(|slots| slots.thin > 0), "they show content");
        array.world.change(Change::DeleteVolume(snapshot, 0));
        array.rest();
        array.rest();
    }
    // Nothing is read before: reading finds empty slots, too.
    assert!(array.slots().iter().all(|slots| slots.thin == 0), "{:?}", array.slots());
    array.check();
}

/// Slots in which a clone hides what it was made from are given back when it is flattened.
#[test]
fn what_was_discarded_in_a_clone_is_free_when_it_is_flattened() {
    let mut array = Array::new(61, "raid5", None);
    for chunk in 0..40 {
        array.write(3 * chunk, 7).expect("there is space");
    }
    array.rest();
    array.world.change(Change::TakeSnapshots(vec![THIN], "a".to_string(), 0));
    array.rest();
    let snapshot = array.world.map().snapshots_of(THIN)[0].id;
    array.world.change(Change::CloneVolume(snapshot, "clone".to_string()));
    array.rest();
    let volumes = array.world.map().volumes.values();
    let clone = volumes.map(|volume| volume.id).max().expect("there are volumes");
    let discard = HostOp::WriteZeroes(Range { offset: 0, len: SIZE });
    array.ask(clone, discard).expect("there is space");
    let has = |array: &Array| {
        let all = (0..NODES).filter_map(|n| array.world.status(NodeId(n as u16)));
        let of = |(id, slots): &(VolumeId, u64)| if *id == clone { *slots } else { 0 };
        all.flat_map(|status| status.thin).map(|of_volume| of(&of_volume)).sum::<u64>()
    };
    array.rest();
    assert!(has(&array) > 0, "the clone hides content");
    array.world.change(Change::Flatten(clone));
    array.rest();
    array.rest();
    assert!(array.world.map().check_flatten(clone).is_err(), "it is independent");
    assert_eq!(has(&array), 0);
}

/// An array with two snapshots. These chunks were written before, between and after them.
fn with_views(layout: &str, chunks: [Vec<usize>; 3]) -> Array {
    let mut array = Array::new(63, layout, None);
    let [before, between, after] = chunks;
    for (name, written) in [("a", before), ("b", between), ("", after)] {
        for (n, chunk) in written.into_iter().enumerate() {
            array.write(chunk, (1 + n * 7 % 251) as u8).expect("there is space");
        }
        array.rest();
        if !name.is_empty() {
            array.world.change(Change::TakeSnapshots(vec![THIN], name.to_string(), 0));
            array.rest();
        }
    }
    array
}

/// The slots of each view on each disk.
fn of_views(array: &Array) -> Vec<Vec<(VolumeId, u64)>> {
    let all = (0..NODES).filter_map(|n| array.world.status(NodeId(n as u16)));
    all.map(|status| status.thin).collect()
}

fn replace(array: &mut Array, node: NodeId) {
    array.world.kill(node, true);
    array.rest();
    array.world.replace_disk(node);
    array.world.start_node(node);
    array.rest();
    array.rest();
    assert!(array.world.map().is_whole(), "it has been rebuilt");
}

/// A disk is rebuilt with the slots that it had: of a stripe in which a view shows what lies below it nothing is stored
/// again.
#[test]
fn a_rebuilt_disk_stores_once_what_views_share() {
    for layout in ["raid5", "raid6"] {
        let stripe = if layout == "raid5" { 16 } else { 12 };
        let chunks = [0..12 * stripe, 0..2 * stripe, stripe..4 * stripe];
        let mut array = with_views(layout, chunks.map(Iterator::collect));
        let before = of_views(&array);
        let shares = |thin: &Vec<(VolumeId, u64)>| thin.iter().filter(|(_, n)| *n > 0).count() == 3;
        assert!(before.iter().all(shares), "{before:?}");
        for node in (0..NODES as u16).map(NodeId) {
            replace(&mut array, node);
            assert_eq!(of_views(&array), before, "{layout}, the disk of {node}");
        }
        array.check();
        array.scrub();
    }
}
