//! What simulated nodes count.

use fastrand::Rng;
use weft_core::cluster::{EXTENT_COLUMN_BYTES, Place, Volume, place_volume};
use weft_core::layout::{Geometry, LayoutSpec};
use weft_core::node::{HostOp, NodeConfig};
use weft_core::plan::{Range, Totals};
use weft_core::policy::{Dispatch, Policy, Redundancy, Timing};
use weft_core::units::{NodeId, SECTOR, VolumeId};
use weft_sim::world;

use super::real::difference;
use super::{DISK, MIB, Request, Setup, VOLUME, World, noise};

const ID: VolumeId = VolumeId(1);
/// The journal of a real disk, in sectors.
const JOURNAL: u64 = 16_384;

/// A simulated array.
pub struct Simulated {
    world: world::World,
    nodes: Vec<NodeId>,
    requests: u64,
}

/// Starts it.
pub fn start(setup: Setup) -> Simulated {
    let sectors = DISK / SECTOR;
    let config = NodeConfig::default();
    let world = world::World::new(1, setup.nodes, sectors, JOURNAL, config, |data| {
        vec![volume(setup, data)]
    });
    let nodes = (0..setup.nodes as u16).map(NodeId).collect();
    let mut simulated = Simulated { world, nodes, requests: 0 };
    simulated.rest();
    let mut rng = Rng::with_seed(1);
    for offset in (0..VOLUME).step_by(MIB as usize) {
        simulated.ask(HostOp::Write(offset, noise(&mut rng, MIB).into()));
    }
    simulated
}

fn volume(setup: Setup, disk: u64) -> Volume {
    let layout: LayoutSpec = setup.layout.parse().unwrap();
    let geometry = Geometry::new(layout.over(setup.nodes).unwrap(), setup.unit);
    let disks = Place::apart(&vec![disk; setup.nodes]);
    let extents = place_volume(&geometry, VOLUME, &disks, &[], EXTENT_COLUMN_BYTES).unwrap();
    let dispatch = if setup.commanded { Dispatch::Commanded } else { Dispatch::Collaborative };
    let (calculated_at, journal) = (setup.roles, setup.journal);
    let timing = if setup.waits { Timing::Never } else { Timing::Immediate };
    let redundancy = Redundancy { timing, ..Redundancy::default() };
    let policy = Policy { calculated_at, dispatch, journal, redundancy, ..Policy::default() };
    Volume { policy, ..Volume::new(ID, "v", VOLUME, &layout, geometry, extents) }
}

impl Simulated {
    /// Lets time pass until every node serves in the map in force and nothing is in work.
    fn rest(&mut self) {
        let mut steps = 0u64;
        loop {
            let epoch = self.world.map().epoch;
            let rests =
                |n: &NodeId| self.world.status(*n).is_some_and(|s| s.quiet && s.epoch == epoch);
            if epoch > 0 && steps > 0 && self.nodes.iter().all(rests) {
                return;
            }
            steps += 1;
            assert!(steps < 1_000_000, "no rest");
            self.world.step().expect("time goes on");
        }
    }

    fn ask(&mut self, op: HostOp) {
        self.requests += 1;
        self.world.host(self.nodes[0], self.requests, ID, op);
        self.rest();
        let replies = std::mem::take(&mut self.world.replies);
        assert_eq!(replies.len(), 1);
        assert!(replies[0].1.is_ok(), "{:?}", replies[0].1.as_ref().err());
    }

    fn counted(&self) -> Totals {
        let mut sum = Totals::default();
        for node in &self.nodes {
            let t = self.world.status(*node).unwrap().counters.totals;
            let trips = sum.round_trips + t.round_trips;
            sum += t;
            // Of several nodes, not of pieces side by side.
            sum.round_trips = trips;
        }
        sum
    }
}

impl World for Simulated {
    fn kill(&mut self, node: usize) {
        let node = NodeId(node as u16);
        self.nodes.retain(|n| *n != node);
        self.world.kill(node, false);
        while self.world.map().is_up(node) {
            self.world.step().expect("time goes on");
        }
        self.rest();
    }

    fn cost(&mut self, request: Request, data: Vec<u8>) -> Totals {
        let before = self.counted();
        let Request { write, offset, length } = request;
        self.ask(match write {
            true => HostOp::Write(offset, data.into()),
            false => HostOp::Read(Range { offset, len: length }),
        });
        difference(self.counted(), before)
    }
}
