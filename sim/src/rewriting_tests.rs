//! A host that writes the same sector again and again, as the tail of a log. Between processes what became of
//! a write is told with the next message that goes that way, or some milliseconds later: no write may wait
//! for that.

use weft_core::Buffer;
use weft_core::cluster::{ONE_EXTENT, Place as Room, Volume, place_volume};
use weft_core::layout::{Geometry, LayoutSpec};
use weft_core::node::{HostData, HostOp, NodeConfig};
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
    let data = Buffer::from(vec![node as u8; len as usize]);
    (NodeId((node % NODES) as u16), HostOp::Write(offset, data))
}

fn read(node: usize, offset: u64, len: u64) -> Asks {
    (NodeId((node % NODES) as u16), HostOp::Read(Range { offset, len }))
}

fn ask(world: &mut World, number: usize, (node, op): Asks) -> HostData {
    world.host(node, number as u64, VOLUME, op);
    while world.replies.is_empty() {
        world.step().expect("time goes on");
    }
    let (_, result) = world.replies.pop().expect("just seen");
    result.expect("nothing is wrong")
}

/// Asks one thing after the other, and looks that none waited for a notice. The first of all may wait for disks
/// that are just being opened.
fn are_quick(world: &mut World, asked: impl IntoIterator<Item = Asks>, what: &str) {
    for (n, asks) in asked.into_iter().enumerate() {
        let begun = world.now();
        ask(world, n, asks);
        let took = world.now() - begun;
        assert!(n == 0 || took < NOTICE_DELAY / 2, "{what}: number {n} took {took} ns");
    }
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
    let both = (0..TIMES)
        .map(|n| if n.is_multiple_of(2) { write(0, 0, stripe) } else { write(0, 0, SECTOR) });
    are_quick(&mut world, both, "a stripe and a sector of it");
    let runs = (0..TIMES as u64).map(|n| write(0, n * unit, 2 * unit));
    are_quick(&mut world, runs, "runs that overlap");
}

/// Another node was not asked for the first write, so that nobody tells it when that is decided.
#[test]
fn nobody_waits_for_notices_of_what_another_node_was_asked_for() {
    for ordering in [Ordering::Timestamps, Ordering::DeviceLocks, Ordering::None] {
        let (mut world, unit) = world(ordering);
        let stripe = (NODES as u64 - 1) * unit;
        let turns = |n: usize| write(n, 0, SECTOR);
        are_quick(&mut world, (0..TIMES).map(turns), &format!("{ordering:?}, writes in turn"));
        let same = |n: usize| write(n, n as u64 % 4 * unit, SECTOR);
        are_quick(&mut world, (0..TIMES).map(same), &format!("{ordering:?}, of one stripe"));
        let mixed =
            |n: usize| if n.is_multiple_of(2) { write(n, 0, stripe) } else { read(n, 0, stripe) };
        are_quick(&mut world, (0..TIMES).map(mixed), &format!("{ordering:?}, written and read"));
    }
}

#[test]
fn what_was_answered_is_seen_by_way_of_every_node() {
    for ordering in [Ordering::Timestamps, Ordering::DeviceLocks] {
        let (mut world, unit) = world(ordering);
        let stripe = (NODES as u64 - 1) * unit;
        for n in 0..TIMES {
            let len = if n.is_multiple_of(3) { stripe } else { SECTOR };
            ask(&mut world, 2 * n, write(n, 0, len));
            let HostData::Bytes(parts) = ask(&mut world, 2 * n + 1, read(n + 1, 0, SECTOR)) else {
                panic!("a read gives bytes")
            };
            let seen = Buffer::join(&parts);
            assert!(seen.iter().all(|b| *b == n as u8), "{ordering:?}: {} after {n}", seen[0]);
        }
    }
}
