//! A host that writes the same sector again and again, as the tail of a log. Between processes what became of
//! a write is told with the next message that goes that way, or some milliseconds later: no write may wait
//! for that.

use weft_core::Buffer;
use weft_core::cluster::{ONE_EXTENT, Place as Room, Volume, place_volume};
use weft_core::layout::{Geometry, LayoutSpec};
use weft_core::node::{HostOp, NodeConfig};
use weft_core::order::Ordering;
use weft_core::plan::Range;
use weft_core::units::{MILLIS, Nanos, NodeId, SECTOR, VolumeId};

use crate::world::World;

const VOLUME: VolumeId = VolumeId(1);
const NODES: usize = 5;
const NOTICE_DELAY: Nanos = 10 * MILLIS;

/// An array that serves, and how many bytes a stripe unit has.
fn world(ordering: Ordering) -> (World, u64) {
    let layout: LayoutSpec = "raid5".parse().unwrap();
    let geometry = Geometry::new(layout.over(NODES).unwrap(), 4 * SECTOR);
    let (size, unit) = (8 * geometry.stripe_bytes(), geometry.unit);
    let config = NodeConfig { notice_delay: NOTICE_DELAY, ..NodeConfig::default() };
    let mut world = World::new(3, NODES, 1200, 256, config, |data| {
        let rooms = Room::apart(&[data; NODES]);
        let extents = place_volume(&geometry, size, &rooms, &[], ONE_EXTENT).unwrap();
        let mut volume = Volume::new(VOLUME, "v", size, &layout, geometry, extents);
        volume.policy.ordering = ordering;
        vec![volume]
    });
    let serves =
        |world: &World, n| world.status(NodeId(n)).is_some_and(|s| s.serving && s.epoch > 0);
    while !(0..NODES as u16).all(|n| serves(&world, n)) {
        world.step().expect("time goes on");
    }
    (world, unit)
}

/// What a host asks, and of which node.
type Asks = (NodeId, HostOp);

fn write(node: usize, offset: u64, len: u64) -> Asks {
    let data = Buffer::from(vec![offset as u8; len as usize]);
    (NodeId((node % NODES) as u16), HostOp::Write(offset, data))
}

fn read(node: usize, offset: u64, len: u64) -> Asks {
    (NodeId((node % NODES) as u16), HostOp::Read(Range { offset, len }))
}

/// Asks one thing after the other, and looks that on average none waited for a notice.
fn are_quick(world: &mut World, asked: impl IntoIterator<Item = Asks>, what: &str) {
    let (begun, mut count) = (world.now(), 0);
    for (n, (node, op)) in asked.into_iter().enumerate() {
        world.host(node, n as u64, VOLUME, op);
        while world.replies.is_empty() {
            world.step().expect("time goes on");
        }
        for (_, result) in std::mem::take(&mut world.replies) {
            result.expect("nothing is wrong");
        }
        count += 1;
    }
    let each = (world.now() - begun) / count;
    assert!(each < NOTICE_DELAY / 4, "{what}: {each} ns for each");
}

const TIMES: usize = 20;

#[test]
fn a_sector_is_written_again_without_waiting_for_notices() {
    let (mut world, unit) = world(Ordering::Timestamps);
    for n in 0..2 * NODES as u64 {
        let again = (0..TIMES).map(|_| write(0, n * unit, SECTOR));
        are_quick(&mut world, again, &format!("unit {n}"));
    }
}

/// The parity's worker hears of the first from nobody who says anything to it in the second.
#[test]
fn the_parity_of_a_whole_stripe_is_changed_without_waiting_for_notices() {
    let (mut world, unit) = world(Ordering::Timestamps);
    let stripe = (NODES as u64 - 1) * unit;
    let both =
        (0..TIMES).map(|n| if n % 2 == 0 { write(0, 0, stripe) } else { write(0, 0, SECTOR) });
    are_quick(&mut world, both, "a stripe and a sector of it");
    let runs = (0..TIMES as u64).map(|n| write(0, n * unit, 2 * unit));
    are_quick(&mut world, runs, "runs that overlap");
}

/// Another node was not asked for the first write, so that nobody tells it when that is decided.
#[test]
fn nobody_waits_for_notices_of_what_another_node_was_asked_for() {
    for ordering in [Ordering::Timestamps, Ordering::DeviceLocks] {
        let (mut world, unit) = world(ordering);
        let stripe = (NODES as u64 - 1) * unit;
        let turns = |n: usize| write(n, 0, SECTOR);
        are_quick(&mut world, (0..TIMES).map(turns), &format!("{ordering:?}, writes in turn"));
        let same = |n: usize| write(n, n as u64 % 4 * unit, SECTOR);
        are_quick(&mut world, (0..TIMES).map(same), &format!("{ordering:?}, of one stripe"));
        let mixed = |n: usize| if n % 2 == 0 { write(n, 0, stripe) } else { read(n, 0, stripe) };
        are_quick(&mut world, (0..TIMES).map(mixed), &format!("{ordering:?}, written and read"));
    }
}
