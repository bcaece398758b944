//! Worlds of five nodes with one small volume, for tests of hosts that use it at several nodes.

use weft_core::cluster::{EXTENT_COLUMN_BYTES, Place as Room, Volume, place_volume};
use weft_core::layout::{Geometry, LayoutSpec};
use weft_core::node::{Bug, NodeConfig};
use weft_core::policy::{CHOICES, Policy};
use weft_core::store::Superblock;
use weft_core::units::{MILLIS, NodeId, SECTOR, VolumeId};

use crate::world::{Crew, Sizes, World};

pub(crate) const VOLUME: VolumeId = VolumeId(1);
pub(crate) const NODES: usize = 5;

/// A world that is still starting: rs:3+2, four stripes, units of four sectors.
pub(crate) fn world(seed: u64, policy: Policy, bug: Option<Bug>) -> World {
    let config = NodeConfig { patience: 40 * MILLIS, bug, ..NodeConfig::default() };
    World::new(seed, NODES, 1200, 256, config, |data| vec![volume(data, policy)])
}

/// The same, each node in a process of its own.
pub(crate) fn world_of_processes(seed: u64) -> World {
    let crew = Crew { nodes: NODES, hosted: 1, attached: 0, later: 0, added: false };
    let sizes = Sizes { sectors: 1200, journal: 256, slot: Superblock::SLOT };
    let (nodes, members) = (NodeConfig::default(), weft_member::Config::default());
    let volumes = |data| vec![volume(data, Policy::default())];
    World::of_processes(seed, crew, sizes, nodes, members, volumes)
}

/// Its volume, on disks that have this number of sectors for data.
fn volume(data: u64, policy: Policy) -> Volume {
    let layout: LayoutSpec = "rs:3+2".parse().unwrap();
    let geometry = Geometry::new(layout.over(NODES).unwrap(), 4 * SECTOR);
    let size = 4 * geometry.stripe_bytes();
    let rooms = Room::apart(&[data; NODES]);
    let extents = place_volume(&geometry, size, &rooms, &[], EXTENT_COLUMN_BYTES).unwrap();
    Volume { policy, ..Volume::new(VOLUME, "v", size, &layout, geometry, extents) }
}

/// Whether all nodes that are up have entered the map.
pub(crate) fn is_ready(world: &World) -> bool {
    let map = world.map();
    let has_entered = |n: NodeId| world.status(n).is_some_and(|s| s.epoch == map.epoch);
    world.is_settled() && map.epoch > 0 && map.up().all(has_entered)
}

/// The usual policy with other values of some choices.
pub(crate) fn policy(pairs: &[(&str, &str)]) -> Policy {
    let settings = pairs.iter().map(|(key, word)| {
        let choice = CHOICES.iter().find(|c| c.key == *key).expect("a choice");
        choice.parse(word).unwrap()
    });
    Policy::default().with(settings)
}
