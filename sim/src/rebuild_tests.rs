//! What it takes to rebuild a disk, counted at the disks: how much the helpers read, and how evenly.
//!
//! DR-net's two parity groups stand beside a wide Reed-Solomon code (`docs/papers/drnet.md`).

use weft_core::Buffer;
use weft_core::cluster::{ONE_EXTENT, Place as Room, Volume, place_volume};
use weft_core::layout::{Geometry, LayoutSpec};
use weft_core::node::{HostOp, NodeConfig};
use weft_core::units::{MILLIS, NodeId, SECTOR, VolumeId};

use crate::world::World;

const VOLUME: VolumeId = VolumeId(1);

/// Sectors of a stripe unit, and stripes of the volume: as many as let all columns take all turns.
const UNIT: u64 = 4;
const STRIPES: u64 = 60;

/// A disk of a full volume is lost, and an empty one filled in its place.
struct Rebuild {
    world: World,
    nodes: usize,
    /// Bytes of the volume on the disk that is lost.
    lost_bytes: u64,
}

impl Rebuild {
    fn new(layout: &str, victim: NodeId) -> Rebuild {
        let layout: LayoutSpec = layout.parse().unwrap();
        let nodes = layout.least_nodes();
        let geometry = Geometry::new(layout.over(nodes).unwrap(), UNIT * SECTOR);
        let (size, stripe) = (STRIPES * geometry.stripe_bytes(), geometry.stripe_bytes());
        let world = World::new(7, nodes, 4800, 1024, NodeConfig::default(), |data| {
            let rooms = Room::apart(&vec![data; nodes]);
            let extents = place_volume(&geometry, size, &rooms, &[], ONE_EXTENT).unwrap();
            vec![Volume::new(VOLUME, "v", size, &layout, geometry, extents)]
        });
        let volume = world.map().volumes[&VOLUME].clone();
        let column =
            volume.extents[0].columns.iter().position(|c| c.0 == victim).expect("it has one");
        let geometry = &volume.geometry;
        let lost_bytes = geometry.layout.units_before(STRIPES, column) * geometry.unit;
        let mut rebuild = Rebuild { world, nodes, lost_bytes };
        rebuild.rest();
        for n in 0..STRIPES {
            rebuild.write(n * stripe, stripe);
        }
        rebuild.rest();
        rebuild
    }

    fn write(&mut self, offset: u64, len: u64) {
        let data = Buffer::from(vec![1 + (offset / len) as u8; len as usize]);
        self.world.host(NodeId(0), offset, VOLUME, HostOp::Write(offset, data));
        while self.world.replies.is_empty() {
            self.world.step().expect("time goes on");
        }
        self.world.replies.pop().expect("just seen").1.expect("all disks are there");
    }

    /// Everything comes to rest, and in place.
    fn rest(&mut self) {
        let until = self.world.now() + 3_000 * MILLIS;
        while self.world.now() < until && self.world.step().is_some() {}
    }

    fn read_bytes(&mut self) -> Vec<u64> {
        (0..self.nodes as u16).map(|n| self.world.disk(NodeId(n)).asked.read_bytes).collect()
    }

    /// Fills an empty disk in the place of the victim's, and says how many bytes each other disk has read for that.
    fn run(mut self, victim: NodeId) -> Vec<u64> {
        self.world.kill(victim, false);
        self.rest();
        let before = self.read_bytes();
        self.world.replace_disk(victim);
        self.world.start_node(victim);
        self.rest();
        let map = self.world.map();
        assert!(map.is_up(victim) && !map.is_stale(victim), "it is filled");
        let after = self.read_bytes();
        let others = (0..self.nodes).filter(|n| *n != usize::from(victim.0));
        others.map(|n| after[n] - before[n]).collect()
    }
}

/// Bytes that were lost, and those that each helper has read for them.
fn helpers(layout: &str, victim: NodeId) -> (u64, Vec<u64>) {
    let rebuild = Rebuild::new(layout, victim);
    let lost = rebuild.lost_bytes;
    (lost, rebuild.run(victim).into_iter().filter(|read| *read > 0).collect())
}

#[test]
fn a_rebuild_of_drnet_reads_a_third_of_what_a_wide_code_does_and_loads_its_helpers_alike() {
    for victim in [NodeId(3), NodeId(12)] {
        let (lost, read) = helpers("drnet", victim);
        assert_eq!(read.len(), 8, "{read:?}");
        assert_eq!(read.iter().sum::<u64>(), 4 * lost);
        let (least, most) = (read.iter().min().unwrap(), read.iter().max().unwrap());
        assert!(10 * most <= 11 * least, "within 10 % of one another: {read:?}");
        let (lost, read) = helpers("rs:12+4", victim);
        assert_eq!(read.iter().sum::<u64>(), 12 * lost);
    }
}
