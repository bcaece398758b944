//! All power goes while the content of one disk is rebuilt. That is written without the journal, over the disk's earlier
//! content, and writes under way may be torn. Only one disk was ever behind or damaged. So everything can be read when power
//! is back, and also without another disk as soon as no disk is behind.

use std::ops::Range;

use weft_core::Buffer;
use weft_core::cluster::{ONE_EXTENT, Place as Room, Volume, place_volume};
use weft_core::layout::{Geometry, LayoutSpec};
use weft_core::node::{Bug, HostData, HostError, HostOp, NodeConfig};
use weft_core::plan::Range as Bytes;
use weft_core::store::StoreBug;
use weft_core::units::{MILLIS, Nanos, NodeId, SECTOR, VolumeId};

use crate::world::World;

const VOLUME: VolumeId = VolumeId(1);
const NODES: usize = 3;
const STRIPES: u64 = 6;
/// The node whose disk is rebuilt, and the one that is lost afterwards.
const BEHIND: NodeId = NodeId(1);
const LOST: NodeId = NodeId(2);

/// What happens to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Harm {
    /// It misses writes to all that it has.
    Misses,
    /// It is replaced by an empty one.
    Replaced,
    /// Some of its sectors cannot be read, and a scrub repairs them.
    Spoiled,
}

struct Array {
    world: World,
    stripe: u64,
    asked: u64,
    /// The byte in all of each stripe.
    holds: Vec<u8>,
}

impl Array {
    /// With stripe units of this number of sectors. A slot has 16.
    fn new(bug: Option<StoreBug>, unit: u64, seed: u64) -> Array {
        let layout: LayoutSpec = "raid5".parse().unwrap();
        let geometry = Geometry::new(layout.over(NODES).unwrap(), unit * SECTOR);
        let stripe = geometry.stripe_bytes();
        let size = STRIPES * stripe;
        let config = NodeConfig { bug: bug.map(Bug::Store), ..NodeConfig::default() };
        let mut world = World::new(seed, NODES, 2400, 256, config, |data| {
            let rooms = Room::apart(&[data; NODES]);
            let extents = place_volume(&geometry, size, &rooms, &[], ONE_EXTENT).unwrap();
            vec![Volume::new(VOLUME, "v", size, &layout, geometry, extents)]
        });
        world.tear_in_power_cuts(seed);
        let mut array = Array { world, stripe, asked: 0, holds: vec![0; STRIPES as usize] };
        array.rest(2_000);
        (0..STRIPES).for_each(|n| array.write(n, 1));
        array.rest(2_000);
        array
    }

    /// Goes on for a time.
    fn rest(&mut self, millis: u64) {
        let until = self.world.now() + millis * MILLIS;
        while self.world.now() < until && self.world.step().is_some() {}
    }

    /// Asks until there is a good answer.
    fn ask(&mut self, op: &HostOp) -> HostData {
        let until = self.world.now() + 20_000 * MILLIS;
        loop {
            self.asked += 1;
            self.world.replies.clear();
            self.world.host(NodeId(0), self.asked, VOLUME, op.clone());
            let reply = loop {
                if let Some((_, reply)) = self.world.replies.iter().find(|r| r.0 == self.asked) {
                    break reply.clone();
                }
                assert!(self.world.now() < until, "no answer");
                self.world.step().expect("time goes on");
            };
            match reply {
                Ok(data) => return data,
                Err(why) => self.failed(&why, until),
            }
        }
    }

    fn failed(&mut self, why: &HostError, until: Nanos) {
        assert!(self.world.now() < until, "{why:?}");
        self.rest(10);
    }

    fn write(&mut self, stripe: u64, byte: u8) {
        let data = Buffer::from(vec![byte; self.stripe as usize]);
        self.ask(&HostOp::Write(stripe * self.stripe, data));
        self.holds[stripe as usize] = byte;
    }

    fn read_all(&mut self, when: &str) {
        for n in 0..STRIPES {
            let range = Bytes { offset: n * self.stripe, len: self.stripe };
            let HostData::Bytes(parts) = self.ask(&HostOp::Read(range)) else {
                panic!("a read gives bytes")
            };
            let (seen, byte) = (Buffer::join(&parts), self.holds[n as usize]);
            assert!(seen.iter().all(|b| *b == byte), "stripe {n} {when}");
        }
    }

    /// The rebuild begins, and a host writes meanwhile.
    fn harm(&mut self, harm: Harm) {
        match harm {
            Harm::Misses | Harm::Replaced => {
                self.world.kill(BEHIND, false);
                (0..STRIPES).for_each(|n| self.write(n, 2));
                self.rest(1_000);
                if harm == Harm::Replaced {
                    self.world.replace_disk(BEHIND);
                }
                self.world.start_node(BEHIND);
                while !self.world.map().is_up(BEHIND) {
                    self.world.step().expect("time goes on");
                }
                self.write(1, 3);
            }
            Harm::Spoiled => {
                let disk = self.world.superblock(BEHIND).expect("it has a disk");
                let data = disk.data_start()..disk.data_start() + disk.data;
                data.step_by(3).for_each(|sector| self.world.disk(BEHIND).spoil(sector));
                self.asked += 1;
                self.world.replies.clear();
                self.world.host(NodeId(0), self.asked, VOLUME, HostOp::SCRUB);
            }
        }
    }

    /// Whether the rebuild goes on.
    fn rebuilds(&self, harm: Harm) -> bool {
        match harm {
            Harm::Misses | Harm::Replaced => self.world.map().is_stale(BEHIND),
            Harm::Spoiled => self.world.replies.is_empty(),
        }
    }

    fn power_cut(&mut self) {
        self.world.power_cut();
        self.world.start_everything();
    }
}

/// All power goes after this number of events. Says whether the rebuild had come to its end.
fn cut(bug: Option<StoreBug>, harm: Harm, unit: u64, events: usize) -> bool {
    let mut array = Array::new(bug, unit, events as u64 + 1);
    array.harm(harm);
    for _ in 0..events {
        array.world.step();
    }
    let ended = !array.rebuilds(harm);
    array.power_cut();
    array.read_all("after the power cut");
    array.rest(3_000);
    if harm == Harm::Spoiled {
        array.ask(&HostOp::SCRUB);
        array.rest(3_000);
    }
    assert!(!array.world.map().is_stale(BEHIND), "it is rebuilt");
    array.world.kill(LOST, false);
    array.read_all("without another disk");
    ended
}

/// All power goes after each number of events, until the rebuild ends before. Says how often it went.
fn cut_everywhere(harm: Harm, unit: u64) -> usize {
    let ended = |events: &usize| cut(None, harm, unit, *events);
    1 + (0..).find(ended).expect("a rebuild ends")
}

#[test]
fn nothing_is_lost_where_all_power_goes_while_one_disk_is_rebuilt() {
    for (harm, least) in [(Harm::Misses, 20), (Harm::Replaced, 20), (Harm::Spoiled, 200)] {
        for unit in [4, 16] {
            let cuts = cut_everywhere(harm, unit);
            assert!(cuts >= least, "{harm:?}, unit {unit}: {cuts}");
        }
    }
}

/// Whether a fault of the store is found where power goes after one of these numbers of events.
fn is_found(bug: StoreBug, harm: Harm, mut events: Range<usize>) -> bool {
    let fails = |n| std::panic::catch_unwind(|| cut(Some(bug), harm, 16, n)).is_err();
    events.any(fails)
}

#[test]
fn faults_of_the_store_are_found_where_power_goes_during_a_rebuild() {
    assert!(is_found(StoreBug::MissingFlush, Harm::Misses, 0..5));
    assert!(is_found(StoreBug::PreparedEarly, Harm::Replaced, 0..5));
    assert!(is_found(StoreBug::OneSuperblock, Harm::Spoiled, 240..270));
}
