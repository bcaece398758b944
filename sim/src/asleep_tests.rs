//! A volume sleeps and its undecided writes and copies stay in the journals. The other volumes on the same disks go on.

use weft_core::Buffer;
use weft_core::node::{HostData, HostOp};
use weft_core::plan::Range;
use weft_core::policy::{Policy, Redundancy, Timing};
use weft_core::units::{MILLIS, NodeId, SECTOR, VolumeId};

use crate::two_volumes_tests::{Array, FIRST, SECOND, STRIPES};

/// Sectors of a unit.
const UNIT: u64 = 4 * SECTOR;
/// Writes of a unit that fill each journal several times.
const MANY: u64 = 900;

impl Array {
    /// Writes units of a volume, one after the other; each must be answered. Returns what fills each unit.
    fn write_much(&mut self, volume: VolumeId, first: u64) -> Vec<u8> {
        let units = STRIPES * self.stripe[volume.0 as usize - 1] / UNIT;
        let mut filled = vec![0; units as usize];
        for n in first..first + MANY {
            let (unit, byte) = (n % units, (n % 251) as u8 + 1);
            let data = Buffer::from(vec![byte; UNIT as usize]);
            self.ask(volume, HostOp::Write(unit * UNIT, data)).expect("the volume goes on");
            filled[unit as usize] = byte;
        }
        filled
    }

    fn expect_units(&mut self, volume: VolumeId, filled: &[u8]) {
        for (unit, byte) in (0..).zip(filled) {
            assert_eq!(self.bytes(volume, unit * UNIT, UNIT), [*byte], "unit {unit}");
        }
    }

    /// The different bytes in a range.
    fn bytes(&mut self, volume: VolumeId, offset: u64, len: u64) -> Vec<u8> {
        match self.ask(volume, HostOp::Read(Range { offset, len })) {
            Ok(HostData::Bytes(pieces)) => {
                let mut bytes = Buffer::join(&pieces).to_vec();
                bytes.sort_unstable();
                bytes.dedup();
                bytes
            }
            other => panic!("{other:?}"),
        }
    }

    /// Records that disks have carried to the heads of their journals.
    fn carried(&self) -> u64 {
        self.world.counted(|c| c.store.carried)
    }

    fn asleep(&self, volume: VolumeId) -> bool {
        let map = self.world.map();
        map.is_asleep(&map.volumes[&volume])
    }

    fn come_together(&mut self, nodes: &[NodeId]) {
        nodes.iter().for_each(|n| self.world.start_node(*n));
        self.until("all is whole", |a| a.is_settled() && a.world.map().is_whole());
    }
}

/// RAID 0 has undecided writes when a node dies. RAID 6 fills its disks' journals several times, also after a crash. The
/// writes of RAID 0 are then as they were.
#[test]
fn undecided_writes_of_a_volume_that_sleeps_do_not_keep_others_back() {
    let mut array = Array::new(["raid0", "raid6"]);
    (0..5).for_each(|unit| array.fill(FIRST, unit, 1));
    let (dead, other) = (NodeId(4), NodeId(2));
    let stripe = array.stripe[0];
    let write = |array: &mut Array, n: u64| {
        let data = Buffer::from(vec![2; stripe as usize]);
        array.begin(NodeId(0), FIRST, HostOp::Write(n * stripe, data))
    };
    let requests: Vec<u64> = (0..STRIPES).map(|n| write(&mut array, n)).collect();
    array.die(dead);
    assert!(array.asleep(FIRST) && !array.asleep(SECOND));
    array.write_much(SECOND, 0);
    assert!(array.carried() > 0, "nothing was carried");
    array.die(other);
    array.write_much(SECOND, MANY);
    array.come(other);
    array.until("it has caught up", |a| a.is_settled() && !a.is_behind(SECOND, other));
    let filled = array.write_much(SECOND, 2 * MANY);
    array.come_together(&[dead]);
    for (n, request) in (0..).zip(requests) {
        let seen = array.bytes(FIRST, n * stripe, stripe);
        match array.answer(request) {
            Ok(_) => assert_eq!(seen, [2], "stripe {n} was acknowledged"),
            Err(_) => assert_eq!(seen.len(), 1, "stripe {n} is {seen:?}"),
        }
    }
    array.expect_units(SECOND, &filled);
    [FIRST, SECOND].into_iter().for_each(|v| array.scrub(v));
}

/// RAID 5 has copies that are not folded when two nodes die.
#[test]
fn copies_of_a_volume_that_sleeps_do_not_keep_others_back() {
    let idle = 1_000_000 * MILLIS;
    let redundancy = Redundancy { timing: Timing::Copied, idle, ..Redundancy::default() };
    let policies = [Policy { redundancy, ..Policy::default() }, Policy::default()];
    let mut array = Array::with_policies(["raid5", "raid6"], policies);
    (0..4).for_each(|unit| array.fill(FIRST, unit, 1));
    (0..3).for_each(|unit| array.fill(SECOND, unit, 1));
    // Only what has its place is copied.
    array.pass(3_000 * MILLIS);
    let stripe = array.stripe[0];
    let before = array.world.counted(|c| c.copied.0);
    for n in 0..STRIPES {
        let data = Buffer::from(vec![7; SECTOR as usize]);
        array.ask(FIRST, HostOp::Write(n * stripe, data)).expect("all disks are there");
    }
    array.pass(100 * MILLIS);
    assert_eq!(array.world.counted(|c| c.copied.0), before + STRIPES, "they are copied");
    let dead = [NodeId(3), NodeId(4)];
    dead.into_iter().for_each(|node| array.die(node));
    // A volume that nobody writes to rests; its copies are not folded either.
    assert!(array.asleep(FIRST));
    array.write_much(SECOND, 0);
    assert!(array.carried() > 0, "nothing was carried");
    let filled = array.write_much(SECOND, MANY);
    array.come_together(&dead);
    for n in 0..STRIPES {
        assert_eq!(array.bytes(FIRST, n * stripe, SECTOR), [7], "stripe {n}");
        assert_eq!(array.bytes(FIRST, n * stripe + SECTOR, 3 * SECTOR), [1], "stripe {n}");
    }
    array.expect_units(SECOND, &filled);
    [FIRST, SECOND].into_iter().for_each(|v| array.scrub(v));
}
