//! What it takes to rebuild a disk, counted at the disks: how much the helpers read, and how evenly.
//!
//! DR-net's two parity groups stand beside a wide Reed-Solomon code (`docs/lab/papers/drnet.md`).

use weft_core::Buffer;
use weft_core::cluster::{ONE_EXTENT, Place as Room, Volume, place_volume};
use weft_core::layout::{Geometry, LayoutSpec};
use weft_core::node::{HostOp, NodeConfig, Rebuilding};
use weft_core::policy::{Policy, Roles, Setting};
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
    fn new(layout: &str, victim: NodeId, config: NodeConfig) -> Rebuild {
        Rebuild::with(layout, Policy::default(), victim, config)
    }

    fn with(layout: &str, policy: Policy, victim: NodeId, config: NodeConfig) -> Rebuild {
        let layout: LayoutSpec = layout.parse().unwrap();
        let nodes = layout.least_nodes();
        let geometry = Geometry::new(layout.over(nodes).unwrap(), UNIT * SECTOR);
        let (size, stripe) = (STRIPES * geometry.stripe_bytes(), geometry.stripe_bytes());
        let world = World::new(7, nodes, 4800, 1024, config, |data| {
            let rooms = Room::apart(&vec![data; nodes]);
            let extents = place_volume(&geometry, size, &rooms, &[], ONE_EXTENT).unwrap();
            let made = Volume::new(VOLUME, "v", size, &layout, geometry, extents);
            vec![Volume { policy, ..made }]
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

    /// A sector of a node's disk cannot be read: the first that it has of a stripe.
    fn spoil(&mut self, node: NodeId, stripe: u64) {
        let volume = self.world.map().volumes[&VOLUME].clone();
        let column =
            volume.extents[0].columns.iter().position(|c| c.0 == node).expect("it has one");
        let sector = self.world.data.0 + volume.sector(stripe, column);
        self.world.disk(node).spoil(sector);
    }

    /// Everything comes to rest, and in place.
    fn rest(&mut self) {
        let until = self.world.now() + 3_000 * MILLIS;
        while self.world.now() < until && self.world.step().is_some() {}
    }

    /// What has been read of each disk: how often, and how many bytes.
    fn read(&mut self) -> Vec<(u64, u64)> {
        let asked = (0..self.nodes as u16).map(|n| self.world.disk(NodeId(n)).asked);
        asked.map(|asked| (asked.reads, asked.read_bytes)).collect()
    }

    fn fill(&mut self, victim: NodeId) {
        self.world.replace_disk(victim);
        self.world.start_node(victim);
        self.rest();
        let map = self.world.map();
        assert!(map.is_up(victim) && !map.is_stale(victim), "it is filled");
    }

    /// Bytes that a node has added up since it started.
    fn added(&self, node: NodeId) -> u64 {
        self.world.status(node).expect("it is up").counters.xor_bytes
    }

    /// Fills an empty disk in the place of the victim's, and says what that took.
    fn run(mut self, victim: NodeId) -> Cost {
        self.world.kill(victim, false);
        self.rest();
        let (before, sent) = (self.read(), self.world.sent);
        self.fill(victim);
        let messages = self.world.sent - sent;
        let after = self.read();
        let others = (0..self.nodes).filter(|n| *n != usize::from(victim.0));
        let read = others.map(|n| (after[n].0 - before[n].0, after[n].1 - before[n].1));
        let (reads, bytes): (Vec<u64>, Vec<u64>) = read.filter(|read| read.1 > 0).unzip();
        Cost { lost: self.lost_bytes, bytes, reads: reads.iter().sum(), messages }
    }
}

/// What it took to fill a disk.
#[derive(Debug)]
struct Cost {
    /// Bytes that were lost.
    lost: u64,
    /// Those that each helper has read for them, and in how many accesses all of them have.
    bytes: Vec<u64>,
    reads: u64,
    /// Messages between all nodes meanwhile.
    messages: u64,
}

fn cost(layout: &str, victim: NodeId, config: NodeConfig) -> Cost {
    Rebuild::new(layout, victim, config).run(victim)
}

#[test]
fn a_rebuild_of_drnet_reads_a_third_of_what_a_wide_code_does_and_loads_its_helpers_alike() {
    for victim in [NodeId(3), NodeId(12)] {
        let Cost { lost, bytes: read, .. } = cost("drnet", victim, NodeConfig::default());
        assert_eq!(read.len(), 8, "{read:?}");
        assert_eq!(read.iter().sum::<u64>(), 4 * lost);
        let (least, most) = (read.iter().min().unwrap(), read.iter().max().unwrap());
        assert!(10 * most <= 11 * least, "within 10 % of one another: {read:?}");
        let Cost { lost, bytes: read, .. } = cost("rs:12+4", victim, NodeConfig::default());
        assert_eq!(read.iter().sum::<u64>(), 12 * lost);
    }
}

/// A disk's own node leads its rebuild and adds up; where all data passes a controller that does.
#[test]
fn a_central_controller_leads_the_rebuild_of_a_disk_and_adds_up() {
    let (controller, victim) = (NodeId(0), NodeId(2));
    for (roles, its, controllers) in [(Roles::Node, 1, 0), (Roles::Central, 0, 1)] {
        let policy = Policy::default().with([Setting::Roles(roles)]);
        let mut rebuild = Rebuild::with("raid5", policy, victim, NodeConfig::default());
        rebuild.world.kill(victim, false);
        rebuild.rest();
        let before = rebuild.added(controller);
        rebuild.fill(victim);
        // Of as many helpers as there are all but the first are added to it.
        let all = rebuild.lost_bytes * (rebuild.nodes as u64 - 2);
        let added = (rebuild.added(victim), rebuild.added(controller) - before);
        assert_eq!(added, (its * all, controllers * all), "{roles:?}");
    }
}

#[test]
fn adjacent_units_that_are_rebuilt_together_take_fewer_messages_and_reads() {
    // As many units at once as without hosts, and as few as while they use the disk.
    for rebuilds in [64, 8] {
        for layout in ["raid5", "rs:4+2", "rs:12+4", "lrc:12+2+2", "grid:3x3", "drnet"] {
            let together = NodeConfig { rebuilds, ..NodeConfig::default() };
            let alone = NodeConfig {
                rebuilding: Rebuilding { together: 0, ..Rebuilding::default() },
                ..together
            };
            let of = |config| cost(layout, NodeId(1), config);
            let (alone, together) = (of(alone), of(together));
            assert_eq!(alone.bytes, together.bytes, "{layout}: the same of the same helpers");
            // What the rest of the cluster says meanwhile is in both. Of two units that a disk of drnet has in a stripe one is
            // always put back by itself: of few at once that is more.
            let most = if rebuilds == 8 { alone.messages * 3 / 5 } else { alone.messages / 2 };
            assert!(together.messages < most, "{layout}: {alone:?} {together:?}");
            assert!(together.reads < alone.reads, "{layout}: {alone:?} {together:?}");
        }
    }
}

/// A helper cannot read what it has of one stripe: only that one goes around it.
#[test]
fn what_cannot_be_rebuilt_together_is_rebuilt_stripe_by_stripe() {
    let (victim, helper) = (NodeId(1), NodeId(2));
    let together = NodeConfig::default();
    let alone = cost(
        "rs:4+2",
        victim,
        NodeConfig { rebuilding: Rebuilding { together: 0, ..Rebuilding::default() }, ..together },
    );
    let whole = cost("rs:4+2", victim, together);
    let mut rebuild = Rebuild::new("rs:4+2", victim, together);
    (0..6).for_each(|stripe| rebuild.spoil(helper, 8 + stripe));
    let spoilt = rebuild.run(victim);
    assert!(spoilt.messages > whole.messages, "{spoilt:?} {whole:?}");
    assert!(2 * spoilt.messages < alone.messages, "others stay together: {spoilt:?} {alone:?}");
}
