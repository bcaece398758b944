//! Copies of small writes that are not folded yet, when nodes go.

use weft_core::Buffer;
use weft_core::cluster::{
    Change, EXTENT_COLUMN_BYTES, Place as Room, PolicyChange, Volume, place_thin,
};
use weft_core::layout::{Geometry, LayoutSpec};
use weft_core::node::{HostData, HostError, HostOp, NodeConfig};
use weft_core::plan::Range;
use weft_core::policy::{Policy, Redundancy, Setting, Timing};
use weft_core::units::{MILLIS, NodeId, SECTOR, VolumeId, thin_space};

use crate::world::World;

const VOLUME: VolumeId = VolumeId(1);
const NODES: usize = 3;
/// Longer than any of the tests takes.
const IDLE: u64 = 20_000 * MILLIS;

struct Array {
    world: World,
    asked: u64,
}

impl Array {
    /// Three disks with a thin volume of RAID 5, which is full of ones.
    fn new() -> Array {
        let layout: LayoutSpec = "raid5".parse().unwrap();
        let geometry = Geometry::new(layout.over(NODES).unwrap(), 4 * SECTOR);
        let size = 4 * geometry.stripe_bytes();
        let redundancy = Redundancy { timing: Timing::Copied, idle: IDLE, ..Redundancy::default() };
        let policy = Policy { redundancy, ..Policy::default() };
        let world = World::new(7, NODES, 1400, 256, NodeConfig::default(), |data| {
            let (space, rooms) = (thin_space(VOLUME), Room::apart(&[data; NODES]));
            let all = place_thin(space, &geometry, 0..4, &rooms, &[], EXTENT_COLUMN_BYTES);
            let thin = Volume::new(VOLUME, "v", size, &layout, geometry.clone(), all.unwrap());
            vec![Volume { policy, ..thin }]
        });
        let mut array = Array { world, asked: 0 };
        array.pass(2_000);
        // Only what has its place is copied.
        array.write(0, 1, size);
        array.pass(2_000);
        array
    }

    fn pass(&mut self, ms: u64) {
        let until = self.world.now() + ms * MILLIS;
        while self.world.now() < until && self.world.step().is_some() {}
    }

    fn ask(&mut self, op: HostOp) -> Result<HostData, HostError> {
        self.asked += 1;
        let up: Vec<NodeId> = self.world.map().up().collect();
        let node = up[self.asked as usize % up.len()];
        self.world.host(node, self.asked, VOLUME, op);
        while self.world.replies.is_empty() {
            self.world.step().expect("time goes on");
        }
        self.world.replies.pop().expect("just seen").1
    }

    fn write(&mut self, offset: u64, byte: u8, len: u64) {
        let data = Buffer::from(vec![byte; len as usize]);
        self.ask(HostOp::Write(offset, data)).expect("all disks are there");
    }

    /// A write that stays copied: it is not folded meanwhile.
    fn copy(&mut self, offset: u64, byte: u8) {
        let before = self.copied();
        self.write(offset, byte, SECTOR);
        self.pass(100);
        assert_eq!(self.copied(), (before.0 + 1, before.1));
    }

    /// Writes that were copied, and folds.
    fn copied(&self) -> (u64, u64) {
        (self.world.counted(|c| c.copied.0), self.world.counted(|c| c.copied.1))
    }

    /// The byte that fills a sector.
    fn read(&mut self, offset: u64) -> u8 {
        let read = self.ask(HostOp::Read(Range { offset, len: SECTOR })).expect("it is there");
        let HostData::Bytes(parts) = read else { panic!("a read gives bytes") };
        let seen = Buffer::join(&parts);
        assert!(seen.iter().all(|b| *b == seen[0]));
        seen[0]
    }

    /// The node with the data, or the parity, of the first stripe's first unit.
    fn node(&self, is_parity: bool) -> NodeId {
        use weft_core::layout::ColumnRole;
        let volume = &self.world.map().volumes[&VOLUME];
        let layout = &volume.geometry.layout;
        let is_it = |seat: &usize| match layout.role(0, *seat) {
            ColumnRole::Parity(_) => is_parity,
            ColumnRole::Data(i) => !is_parity && i == 0,
        };
        let seat = (0..layout.seats()).find(is_it).expect("its seat");
        volume.extent(0).columns[layout.column_at(0, seat)].0
    }

    fn volume(&self) -> &Volume {
        &self.world.map().volumes[&VOLUME]
    }
}

/// The fold that the read waits for was not asked for, since nothing is written to a volume that rests.
#[test]
fn what_is_copied_is_read_without_the_disk_of_its_data_while_nobody_writes() {
    let mut array = Array::new();
    array.copy(0, 2);
    let data = array.node(false);
    array.world.kill(data, false);
    array.pass(2_000);
    assert!(array.world.map().rests(array.volume()));
    let began = array.world.now();
    assert_eq!(array.read(0), 2);
    assert!(array.world.now() - began < 1_000 * MILLIS, "{}", array.world.now() - began);
}

/// The snapshot would have none of them, nor would the volume, which goes on in another space.
#[test]
fn no_snapshot_is_taken_while_the_disks_with_copies_are_away() {
    let mut array = Array::new();
    array.copy(0, 2);
    let holders = [array.node(false), array.node(true)];
    holders.iter().for_each(|node| array.world.kill(*node, false));
    array.pass(2_000);
    let immediate = PolicyChange::to([Setting::Redundancy(Timing::Immediate)]);
    array.world.change(Change::SetPolicy(VOLUME, immediate));
    array.pass(1_000);
    assert!(!array.volume().copies());
    array.world.change(Change::TakeSnapshots(vec![VOLUME], "a".to_string(), 0));
    array.pass(1_000);
    holders.iter().for_each(|node| array.world.start_node(*node));
    array.pass(4_000);
    assert_eq!(array.read(0), 2);
}

/// Nobody writes, so what the snapshot waits for did not happen.
#[test]
fn a_snapshot_of_a_volume_that_rests_is_taken_when_copies_are_folded() {
    let mut array = Array::new();
    array.copy(0, 2);
    let data = array.node(false);
    array.world.kill(data, false);
    array.pass(2_000);
    assert!(array.world.map().rests(array.volume()));
    let immediate = PolicyChange::to([Setting::Redundancy(Timing::Immediate)]);
    array.world.change(Change::SetPolicy(VOLUME, immediate));
    array.world.change(Change::TakeSnapshots(vec![VOLUME], "a".to_string(), 0));
    array.pass(4_000);
    assert_eq!(array.world.map().volumes.len(), 2, "it has been taken");
    assert_eq!(array.read(0), 2);
    array.world.start_node(data);
    array.pass(4_000);
    assert_eq!(array.read(0), 2);
}
