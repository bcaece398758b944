//! What nothing determines where parity is immediate: two disks have lost the same sector of a stripe. It is listed, reads
//! of it fail, and it is mended by writes of whole sectors, or by accepting it.

use fastrand::Rng;
use weft_core::Buffer;
use weft_core::cluster::{ONE_EXTENT, Place as Room, Volume, place_volume};
use weft_core::layout::{ColumnRole, Geometry, LayoutSpec};
use weft_core::node::{HostData, HostError, HostOp, NodeConfig};
use weft_core::plan::Range;
use weft_core::units::{MILLIS, NodeId, SECTOR, VolumeId};

use crate::world::World;

const VOLUME: VolumeId = VolumeId(1);
const NODES: usize = 4;

struct Array {
    world: World,
    volume: Volume,
    asked: u64,
}

impl Array {
    /// An array that serves, whose volume is full of ones.
    fn new() -> Array {
        let layout: LayoutSpec = "raid5".parse().unwrap();
        let geometry = Geometry::new(layout.over(NODES).unwrap(), 4 * SECTOR);
        let size = 4 * geometry.stripe_bytes();
        let world = World::new(3, NODES, 1200, 256, NodeConfig::default(), |data| {
            let rooms = Room::apart(&[data; NODES]);
            let extents = place_volume(&geometry, size, &rooms, &[], ONE_EXTENT).unwrap();
            vec![Volume::new(VOLUME, "v", size, &layout, geometry, extents)]
        });
        let volume = (*world.map().volumes[&VOLUME]).clone();
        let mut array = Array { world, volume, asked: 0 };
        array.rest();
        array.ask(write(0, 1, size)).expect("it is whole");
        array.rest();
        array
    }

    /// Everything comes to rest, and in place.
    fn rest(&mut self) {
        let until = self.world.now() + 2_000 * MILLIS;
        while self.world.now() < until && self.world.step().is_some() {}
    }

    fn ask(&mut self, op: HostOp) -> Result<HostData, HostError> {
        self.asked += 1;
        self.world.host(NodeId((self.asked % NODES as u64) as u16), self.asked, VOLUME, op);
        while self.world.replies.is_empty() {
            self.world.step().expect("time goes on");
        }
        self.world.replies.pop().expect("just seen").1
    }

    /// The first sectors of two data units of a stripe rot.
    fn two_rot(&mut self, stripe: u64) {
        let mut rng = Rng::with_seed(stripe);
        let layout = self.volume.geometry.layout;
        let is_data = |seat: &usize| matches!(layout.role(stripe, *seat), ColumnRole::Data(0 | 1));
        for seat in (0..layout.seats()).filter(is_data) {
            let node = self.volume.extent(stripe).columns[seat].0;
            let sector = self.volume.sector(stripe, seat);
            let at = self.world.data.0 + sector;
            self.world.disk(node).rot(at, &mut rng);
        }
    }

    /// The offsets of what is lost.
    fn lost(&mut self) -> Vec<u64> {
        let range = Range { offset: 0, len: self.volume.size };
        let Ok(HostData::Lost(bytes, found)) = self.ask(HostOp::Lost(range)) else {
            panic!("a list is asked for")
        };
        assert_eq!(bytes, found.iter().map(|l| l.range.len).sum::<u64>());
        found.iter().map(|l| l.range.offset).collect()
    }

    /// The byte of which a sector is full.
    fn read(&mut self, offset: u64) -> Result<u8, HostError> {
        let HostData::Bytes(parts) = self.ask(HostOp::Read(Range { offset, len: SECTOR }))? else {
            panic!("a read gives bytes")
        };
        let seen = Buffer::join(&parts);
        assert!(seen.iter().all(|b| *b == seen[0]));
        Ok(seen[0])
    }
}

fn write(offset: u64, byte: u8, len: u64) -> HostOp {
    HostOp::Write(offset, Buffer::from(vec![byte; len as usize]))
}

#[test]
fn what_two_disks_have_lost_is_listed_and_mended_where_parity_is_immediate() {
    let mut array = Array::new();
    assert!(array.lost().is_empty());
    let (unit, stripe) = (array.volume.geometry.unit, array.volume.geometry.stripe_bytes());
    array.two_rot(1);
    let (first, second) = (stripe, stripe + unit);
    for at in [first, second] {
        assert_eq!(array.read(at), Err(HostError::TooManyLost));
    }
    array.rest();
    assert_eq!(array.lost(), [first, second]);
    assert_eq!(array.read(first + SECTOR), Ok(1), "its neighbour is there");
    // Part of a sector cannot be written: the rest of it is lost.
    assert_eq!(array.ask(write(first, 2, 512)).err(), Some(HostError::TooManyLost));
    array.ask(write(first, 2, SECTOR)).expect("a whole sector");
    assert_eq!((array.read(first), array.lost()), (Ok(2), vec![second]));
    // What a host has written meanwhile stays.
    let both = Range { offset: first, len: unit + SECTOR };
    array.ask(HostOp::Accept(both)).expect("all disks are there");
    assert_eq!((array.read(first), array.read(second)), (Ok(2), Ok(0)));
    assert!(array.lost().is_empty());
    array.rest();
    let Ok(HostData::Scrubbed(found, _)) = array.ask(HostOp::SCRUB) else { panic!("a scrub") };
    assert!(found.is_true() && found.rebuilt == 0, "{found:?}");
}

/// A disk that has just been opened has not been searched for marks yet. What is lost on it is not known before.
#[test]
fn what_is_lost_is_listed_whole_by_nodes_that_have_just_started() {
    let mut array = Array::new();
    let (unit, stripe) = (array.volume.geometry.unit, array.volume.geometry.stripe_bytes());
    array.two_rot(1);
    assert_eq!(array.read(stripe), Err(HostError::TooManyLost));
    assert_eq!(array.read(stripe + unit), Err(HostError::TooManyLost));
    array.rest();
    let (all, whole) = (Range { offset: 0, len: array.volume.size }, [stripe, stripe + unit]);
    assert_eq!(array.lost(), whole);
    for _ in 0..3 {
        array.world.power_cut();
        array.world.start_everything();
        // From the first moment at which a node can answer.
        let mut answers = 0;
        while answers < 40 {
            let Ok(HostData::Lost(_, found)) = array.ask(HostOp::Lost(all)) else {
                array.world.step().expect("time goes on");
                continue;
            };
            answers += 1;
            let found: Vec<u64> = found.iter().map(|lost| lost.range.offset).collect();
            assert_eq!(found, whole, "in answer {answers}");
        }
        array.rest();
    }
}
