//! Three copies. A node that was away is given what it missed, and its clock is fast. Writes come to one of the others in the
//! meantime, and are late at the node and at the one from which it is given content: that has a later timestamp than these
//! writes, and lacks them. Both leave before they hear of them. The third decides that the writes have happened, and when
//! the node is back, it must not take what it was given for newer.

use weft_core::Buffer;
use weft_core::cluster::{ONE_EXTENT, Place as Room, Volume, place_volume};
use weft_core::layout::{Geometry, LayoutSpec};
use weft_core::node::{Bug, HostData, HostOp, NodeConfig, Rebuilding};
use weft_core::plan::Range;
use weft_core::units::{MILLIS, Nanos, NodeId, SECTOR, VolumeId};

use crate::small_worlds::is_ready;
use crate::world::World;

const VOLUME: VolumeId = VolumeId(1);
const STRIPES: u64 = 12;
/// Sectors of a stripe, which is one unit in three copies.
const UNIT: u64 = 4;
const SECTORS: u64 = STRIPES * UNIT;

/// How late the writes are.
const LATE: Nanos = 60 * MILLIS;
/// How long it takes until what the node was given is in place.
const IN_PLACE: Nanos = 40 * MILLIS;
/// How fast the clock is: so little that others do not follow it.
const AHEAD: Nanos = 80 * MILLIS;

/// The node that was away.
const AWAY: NodeId = NodeId(0);

struct Array {
    world: World,
    asked: u64,
}

impl Array {
    fn new(seed: u64, bug: Option<Bug>) -> Array {
        let layout: LayoutSpec = "rs:1+2".parse().unwrap();
        let geometry = Geometry::new(layout.over(3).unwrap(), UNIT * SECTOR);
        let size = STRIPES * geometry.stripe_bytes();
        let rebuilding = Rebuilding { together: 0, ..Rebuilding::default() };
        let patience = 40 * MILLIS;
        let config = NodeConfig {
            patience,
            place_after: 2 * MILLIS,
            rebuilding,
            rebuilds: 1,
            bug,
            ..NodeConfig::default()
        };
        let world = World::new(seed, 3, 1200, 256, config, |data| {
            let rooms = Room::apart(&[data; 3]);
            let extents = place_volume(&geometry, size, &rooms, &[], ONE_EXTENT).unwrap();
            vec![Volume::new(VOLUME, "v", size, &layout, geometry, extents)]
        });
        let mut array = Array { world, asked: 0 };
        array.run_until(is_ready);
        array
    }

    fn run_until(&mut self, is_so: impl Fn(&World) -> bool) {
        let most = self.world.now() + 20_000 * MILLIS;
        while !is_so(&self.world) {
            self.world.step().expect("time goes on");
            assert!(self.world.now() < most, "it comes to that");
        }
    }

    fn run_for(&mut self, time: Nanos) {
        let until = self.world.now() + time;
        self.run_until(|world| world.now() >= until);
    }

    /// Writes a byte into every sector, all at once, by way of a node.
    fn write(&mut self, by: NodeId, byte: u8) {
        for sector in 0..SECTORS {
            let data = Buffer::from(vec![byte; SECTOR as usize]);
            self.asked += 1;
            self.world.host(by, self.asked, VOLUME, HostOp::Write(sector * SECTOR, data));
        }
    }

    /// Waits for all answers.
    fn hear(&mut self) -> Vec<HostData> {
        self.run_until(|world| world.replies.len() as u64 == SECTORS);
        let mut replies = std::mem::take(&mut self.world.replies);
        replies.sort_by_key(|(number, _)| *number);
        replies.into_iter().map(|(_, result)| result.expect("two are down at most")).collect()
    }

    /// The first bytes of the sectors.
    fn read(&mut self) -> Vec<u8> {
        for sector in 0..SECTORS {
            let range = Range { offset: sector * SECTOR, len: SECTOR };
            self.asked += 1;
            self.world.host(AWAY, self.asked, VOLUME, HostOp::Read(range));
        }
        let first = |data: HostData| match data {
            HostData::Bytes(parts) => Buffer::join(&parts)[0],
            other => panic!("a read gives bytes, and not {other:?}"),
        };
        self.hear().into_iter().map(first).collect()
    }

    fn is_whole(world: &World) -> bool {
        let map = world.map();
        is_ready(world) && (0..3).map(NodeId).all(|n| map.is_up(n) && !map.is_stale(n))
    }
}

/// Whether all that was answered is read. `leaves` is the node that leaves with the one that was away, the other writes.
fn reads_what_was_written(seed: u64, [leaves, writes]: [NodeId; 2], bug: Option<Bug>) -> bool {
    let mut array = Array::new(seed, bug);
    array.world.kill(AWAY, false);
    array.run_until(|world| !world.map().is_up(AWAY) && is_ready(world));
    array.write(writes, 1);
    array.hear();
    let victims = 1 << AWAY.0 | 1 << leaves.0;
    array.world.conditions.late_writes = Some((victims, LATE));
    array.world.shift_clock(AWAY, AHEAD as i64);
    array.world.start_node(AWAY);
    array.run_until(|world| world.stale_sectors(AWAY).is_some_and(|s| 0 < s && s <= SECTORS / 2));
    array.write(writes, 2);
    array.run_for(IN_PLACE);
    array.world.kill(AWAY, false);
    array.world.kill(leaves, false);
    array.world.conditions.late_writes = None;
    array.hear();
    array.world.start_node(AWAY);
    array.world.start_node(leaves);
    array.run_until(Array::is_whole);
    array.read().into_iter().all(|byte| byte == 2)
}

/// The node that leaves with the one that was away, and the one that stays.
const OTHERS: [[NodeId; 2]; 2] = [[NodeId(1), NodeId(2)], [NodeId(2), NodeId(1)]];

#[test]
fn what_was_put_back_is_not_believed_over_earlier_writes() {
    let reads = |bug| {
        let runs = OTHERS.iter().flat_map(|o| (0..10).map(move |seed| (seed, *o)));
        runs.filter(|(seed, others)| reads_what_was_written(*seed, *others, bug)).count()
    };
    assert_eq!(reads(None), 20);
    assert!(reads(Some(Bug::PutBackWithAll)) < 20, "not found");
}
