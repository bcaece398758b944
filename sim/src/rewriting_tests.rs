//! A host that writes the same sector again and again, as the tail of a log. Between processes what became of
//! a write is told with the next message that goes that way, or some milliseconds later: no write may wait
//! for that.

use weft_core::Buffer;
use weft_core::cluster::{ONE_EXTENT, Place as Room, Volume, place_volume};
use weft_core::layout::{Geometry, LayoutSpec};
use weft_core::node::{HostOp, NodeConfig};
use weft_core::units::{MILLIS, Nanos, NodeId, SECTOR, VolumeId};

use crate::world::World;

const VOLUME: VolumeId = VolumeId(1);
const NODES: usize = 5;
const NOTICE_DELAY: Nanos = 10 * MILLIS;

fn world() -> (World, u64) {
    let layout: LayoutSpec = "raid5".parse().unwrap();
    let geometry = Geometry::new(layout.over(NODES).unwrap(), 4 * SECTOR);
    let (size, unit) = (8 * geometry.stripe_bytes(), geometry.unit);
    let config = NodeConfig { notice_delay: NOTICE_DELAY, ..NodeConfig::default() };
    let world = World::new(3, NODES, 1200, 256, config, |data| {
        let rooms = Room::apart(&[data; NODES]);
        let extents = place_volume(&geometry, size, &rooms, &[], ONE_EXTENT).unwrap();
        vec![Volume::new(VOLUME, "v", size, &layout, geometry, extents)]
    });
    (world, unit)
}

fn until_answered(world: &mut World) {
    while world.replies.is_empty() {
        world.step().expect("time goes on");
    }
    for (_, result) in std::mem::take(&mut world.replies) {
        result.expect("nothing is wrong");
    }
}

#[test]
fn a_sector_is_written_again_without_waiting_for_notices() {
    const TIMES: u64 = 20;
    let (mut world, unit_bytes) = world();
    let serves =
        |world: &World, n| world.status(NodeId(n)).is_some_and(|s| s.serving && s.epoch > 0);
    while !(0..NODES as u16).all(|n| serves(&world, n)) {
        world.step().expect("time goes on");
    }
    for unit in 0..2 * NODES as u64 {
        let begun = world.now();
        for n in 0..TIMES {
            let data = Buffer::from(vec![n as u8; SECTOR as usize]);
            let write = HostOp::Write(unit * unit_bytes, data);
            world.host(NodeId(0), unit * TIMES + n, VOLUME, write);
            until_answered(&mut world);
        }
        let each = (world.now() - begun) / TIMES;
        assert!(each < NOTICE_DELAY / 2, "unit {unit}: {each} ns for a write");
    }
}
