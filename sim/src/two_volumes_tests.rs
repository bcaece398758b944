//! Volumes of different layouts on the same disks: what becomes of one does not keep the other back.

use weft_core::Buffer;
use weft_core::cluster::{EXTENT_COLUMN_BYTES, Place as Room, Volume, place_thin, place_volume};
use weft_core::layout::{Geometry, LayoutSpec};
use weft_core::node::{HostData, HostError, HostOp, NodeConfig};
use weft_core::plan::Range;
use weft_core::policy::Policy;
use weft_core::units::{MILLIS, NodeId, SECTOR, VolumeId, thin_space};

use crate::disk::Harmed;
use crate::world::World;

pub(crate) const FIRST: VolumeId = VolumeId(1);
pub(crate) const SECOND: VolumeId = VolumeId(2);
pub(crate) const NODES: usize = 5;
pub(crate) const STRIPES: u64 = 4;
/// Of a thin mirror: more than a disk has slots.
const THIN_STRIPES: u64 = 100;

pub(crate) struct Array {
    pub(crate) world: World,
    asked: u64,
    /// Bytes of a volume's stripe.
    pub(crate) stripe: [u64; 2],
}

impl Array {
    pub(crate) fn new(layouts: [&str; 2]) -> Array {
        Array::with_policies(layouts, Default::default())
    }

    pub(crate) fn with_policies(layouts: [&str; 2], policies: [Policy; 2]) -> Array {
        let config = NodeConfig { patience: 40 * MILLIS, ..NodeConfig::default() };
        let mut stripe = [0; 2];
        let world = World::new(7, NODES, 1400, 256, config, |data| {
            let rooms = Room::apart(&[data; NODES]);
            let mut all: Vec<Volume> = Vec::new();
            for (n, layout) in layouts.into_iter().enumerate() {
                let spec: LayoutSpec = layout.parse().unwrap();
                let geometry = Geometry::new(spec.over(NODES).unwrap(), 4 * SECTOR);
                stripe[n] = geometry.stripe_bytes();
                let (size, id) = (STRIPES * stripe[n], VolumeId(n as u32 + 1));
                let others: Vec<&Volume> = all.iter().collect();
                let extents =
                    place_volume(&geometry, size, &rooms, &others, EXTENT_COLUMN_BYTES).unwrap();
                let volume = Volume::new(id, layout, size, &spec, geometry, extents);
                all.push(Volume { policy: policies[n], ..volume });
            }
            all
        });
        Array::started(world, stripe)
    }

    /// Thin mirrors: the first on nodes 0 and 1, the second on nodes 0 and 2.
    fn of_thin_mirrors() -> Array {
        let config = NodeConfig { patience: 40 * MILLIS, ..NodeConfig::default() };
        let spec: LayoutSpec = "raid1".parse().unwrap();
        let geometry = Geometry::new(spec.over(2).unwrap(), 16 * SECTOR);
        let stripe = geometry.stripe_bytes();
        let world = World::new(7, NODES, 1400, 256, config, |data| {
            let mirror = |id: VolumeId| {
                let rooms = Room::apart(&[data; NODES]);
                let (space, size) = (thin_space(id), THIN_STRIPES * stripe);
                let stripes = 0..THIN_STRIPES;
                let placed =
                    place_thin(space, &geometry, stripes, &rooms, &[], EXTENT_COLUMN_BYTES);
                let mut extents = placed.unwrap();
                for extent in &mut extents {
                    (extent.columns[0].0, extent.columns[1].0) = (NodeId(0), NodeId(id.0 as u16));
                }
                let name = format!("m{}", id.0);
                Volume::new(id, &name, size, &spec, geometry.clone(), extents)
            };
            [FIRST, SECOND].map(mirror).into()
        });
        Array::started(world, [stripe; 2])
    }

    fn started(world: World, stripe: [u64; 2]) -> Array {
        let mut array = Array { world, asked: 0, stripe };
        array.until("all is whole", |a| a.is_settled() && a.world.map().is_whole());
        array
    }

    /// Writes to these stripes of a thin mirror.
    fn fill_stripes(&mut self, volume: VolumeId, stripes: std::ops::Range<u64>, byte: u8) {
        let stripe = self.stripe[0];
        for n in stripes {
            let data = Buffer::from(vec![byte; stripe as usize]);
            self.ask(volume, HostOp::Write(n * stripe, data)).unwrap();
        }
    }

    pub(crate) fn until(&mut self, what: &str, done: impl Fn(&Array) -> bool) {
        let limit = self.world.now() + 20_000 * MILLIS;
        while !done(self) {
            assert!(self.world.now() < limit && self.world.step().is_some(), "not yet: {what}");
        }
    }

    pub(crate) fn pass(&mut self, time: u64) {
        let until = self.world.now() + time;
        while self.world.now() < until && self.world.step().is_some() {}
    }

    pub(crate) fn is_settled(&self) -> bool {
        let map = self.world.map();
        let has_entered = |n| self.world.status(n).is_some_and(|s| s.epoch == map.epoch);
        self.world.is_settled() && map.epoch > 0 && map.up().all(has_entered)
    }

    pub(crate) fn ask(&mut self, volume: VolumeId, op: HostOp) -> Result<HostData, HostError> {
        self.until("some node serves", Array::is_settled);
        let node = self.world.map().up().next().expect("some node is up");
        let request = self.begin(node, volume, op);
        self.answer(request)
    }

    /// A host asks a node for something; returns the request's number.
    pub(crate) fn begin(&mut self, node: NodeId, volume: VolumeId, op: HostOp) -> u64 {
        self.asked += 1;
        self.world.host(node, self.asked, volume, op);
        self.asked
    }

    /// Waits for the answer to a request.
    pub(crate) fn answer(&mut self, request: u64) -> Result<HostData, HostError> {
        let of = |a: &Array| a.world.replies.iter().position(|reply| reply.0 == request);
        self.until("an answer", |a| of(a).is_some());
        let at = of(self).expect("just seen");
        self.world.replies.swap_remove(at).1
    }

    /// Fills a unit of each stripe.
    pub(crate) fn fill(&mut self, volume: VolumeId, unit: u64, byte: u8) {
        for stripe in 0..STRIPES {
            let offset = stripe * self.stripe[volume.0 as usize - 1] + unit * 4 * SECTOR;
            let data = Buffer::from(vec![byte; 4 * SECTOR as usize]);
            self.ask(volume, HostOp::Write(offset, data)).unwrap();
        }
    }

    pub(crate) fn expect(&mut self, volume: VolumeId, unit: u64, byte: u8) {
        for stripe in 0..STRIPES {
            let offset = stripe * self.stripe[volume.0 as usize - 1] + unit * 4 * SECTOR;
            match self.ask(volume, HostOp::Read(Range { offset, len: 4 * SECTOR })) {
                Ok(HostData::Bytes(pieces)) => {
                    assert!(Buffer::join(&pieces).iter().all(|b| *b == byte), "stripe {stripe}");
                }
                other => panic!("{other:?}"),
            }
        }
    }

    pub(crate) fn die(&mut self, node: NodeId) {
        self.world.kill(node, true);
        self.until("it is missed", |a| a.is_settled() && !a.world.map().is_up(node));
    }

    pub(crate) fn come(&mut self, node: NodeId) {
        self.world.start_node(node);
        self.until("it is back", |a| a.is_settled() && a.world.map().is_up(node));
    }

    pub(crate) fn is_behind(&self, volume: VolumeId, node: NodeId) -> bool {
        let map = self.world.map();
        map.behind_since(&map.volumes[&volume], 0, node).is_some()
    }

    pub(crate) fn scrub(&mut self, volume: VolumeId) {
        match self.ask(volume, HostOp::SCRUB) {
            Ok(HostData::Scrubbed(p, _)) => {
                assert_eq!((p.mismatched, p.skipped, p.rebuilt, p.unclear), (0, 0, 0, 0), "{p:?}");
            }
            other => panic!("{other:?}"),
        }
    }
}

/// RAID 5 sleeps, since two nodes are away or behind. RAID 6 on the same disks goes on, and a disk that is back catches up
/// on it.
#[test]
fn a_disk_catches_up_on_a_volume_while_another_sleeps() {
    let mut array = Array::new(["raid6", "raid5"]);
    let (first, second) = (NodeId(1), NodeId(2));
    array.die(first);
    [FIRST, SECOND].into_iter().for_each(|v| array.fill(v, 0, 1));
    array.die(second);
    array.fill(FIRST, 1, 2);
    array.come(first);
    array.until("it has caught up", |a| a.is_settled() && !a.is_behind(FIRST, first));
    assert!(array.is_behind(SECOND, first), "its writes are not known while it sleeps");
    array.die(NodeId(3));
    array.expect(FIRST, 0, 1);
    array.expect(FIRST, 1, 2);
    [NodeId(3), second].into_iter().for_each(|n| array.come(n));
    array.until("all is whole", |a| a.is_settled() && a.world.map().is_whole());
    array.expect(SECOND, 0, 1);
    [FIRST, SECOND].into_iter().for_each(|v| array.scrub(v));
}

/// A disk comes as an older copy. RAID 0 waits for the right one, RAID 5 goes on; what the copy is told meanwhile the right
/// disk will lack.
#[test]
fn the_right_disk_comes_after_an_older_copy_of_it() {
    let mut array = Array::new(["raid5", "raid0"]);
    let node = NodeId(1);
    [FIRST, SECOND].into_iter().for_each(|v| array.fill(v, 0, 1));
    array.pass(500 * MILLIS);
    let incarnation = array.world.superblock(node).expect("it has a disk").incarnation;
    array.world.disk(node).copy(incarnation);
    [FIRST, SECOND].into_iter().for_each(|v| array.fill(v, 1, 2));
    array.pass(500 * MILLIS);
    array.die(node);
    array.world.disk(node).exchange_copy(incarnation);
    array.world.disk(node).harmed = Harmed::Since;
    array.come(node);
    array.pass(2_000 * MILLIS);
    array.fill(FIRST, 2, 3);
    array.fill(FIRST, 0, 4);
    array.pass(2_000 * MILLIS);
    array.die(node);
    array.world.disk(node).exchange_copy(incarnation);
    array.come(node);
    array.until("all is whole", |a| a.is_settled() && a.world.map().is_whole());
    for (unit, byte) in [(0, 4), (1, 2), (2, 3)] {
        array.expect(FIRST, unit, byte);
    }
    array.expect(SECOND, 1, 2);
    array.scrub(FIRST);
    array.die(NodeId(3));
    for (unit, byte) in [(0, 4), (1, 2), (2, 3)] {
        array.expect(FIRST, unit, byte);
    }
}

/// A disk has no slots for all that was written in its absence to one of two volumes. It catches up on the other, and a scrub
/// ends and says what it skipped.
#[test]
fn a_disk_without_space_for_a_volume_catches_up_on_another() {
    let mut array = Array::of_thin_mirrors();
    let shared = NodeId(0);
    let slots = array.world.status(shared).and_then(|s| s.slots).expect("a disk has slots");
    array.fill_stripes(FIRST, 0..slots.usable / 2, 1);
    array.die(shared);
    array.fill_stripes(FIRST, 0..slots.usable / 2, 2);
    array.fill_stripes(SECOND, 0..slots.usable * 3 / 4, 3);
    array.come(shared);
    array.until("it has caught up on one", |a| a.is_settled() && !a.is_behind(FIRST, shared));
    assert!(array.is_behind(SECOND, shared));
    match array.ask(SECOND, HostOp::SCRUB) {
        Ok(HostData::Scrubbed(p, _)) => assert!(p.skipped > 0 && p.mismatched == 0, "{p:?}"),
        other => panic!("{other:?}"),
    }
    // There is space again.
    let len = THIN_STRIPES * array.stripe[0];
    array.ask(SECOND, HostOp::WriteZeroes(Range { offset: 0, len })).unwrap();
    array.until("all is whole", |a| a.is_settled() && a.world.map().is_whole());
    [FIRST, SECOND].into_iter().for_each(|v| array.scrub(v));
}
