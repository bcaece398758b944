//! A volume is removed in the middle of what hosts write to it, and its room is another's at once. While
//! that happens a node dies and comes back, or all power goes. Of the old volume nothing may ever come
//! to lie in the new one: neither what was on its way, nor what was undecided, nor what a journal
//! still holds.

use fastrand::Rng;
use weft_core::Buffer;
use weft_core::cluster::{Place as Room, Volume, place_volume};
use weft_core::layout::{Geometry, LayoutSpec};
use weft_core::node::{HostData, HostError, HostOp, NodeConfig};
use weft_core::plan::Range;
use weft_core::policy::Policy;
use weft_core::units::{MILLIS, NodeId, SECTOR, VolumeId};

use crate::world::World;

const OLD: VolumeId = VolumeId(1);
const NEW: VolumeId = VolumeId(2);
const NODES: usize = 4;
const STRIPES: u64 = 12;
/// What hosts write to the old volume, and to the new one.
const STALE: u8 = 0xaa;
const FRESH: u8 = 0x55;

type Result = std::result::Result<HostData, HostError>;

fn volume(id: VolumeId, layout: &str, data: u64) -> Volume {
    let layout: LayoutSpec = layout.parse().unwrap();
    let geometry = Geometry::new(layout.over(NODES).unwrap(), 2 * SECTOR);
    let size = STRIPES * geometry.stripe_bytes();
    let rooms = Room::apart(&[data; NODES]);
    // Several extents, so that they are on different nodes.
    let extents = place_volume(&geometry, size, &rooms, &[], 3 * geometry.unit).unwrap();
    let policy = Policy { lost_wait: 0, ..Policy::default() };
    Volume { policy, ..Volume::new(id, "v", size, &layout, geometry, extents) }
}

struct Trial {
    world: World,
    rng: Rng,
    layout: &'static str,
    next: u64,
    /// The node that is down, if one is.
    down: Option<NodeId>,
}

impl Trial {
    fn new(seed: u64) -> Trial {
        let mut rng = Rng::with_seed(seed);
        let layout = ["rs:2+1", "raid5", "raid1"][rng.usize(0..3)];
        let config = NodeConfig { place_after: rng.u64(1..20) * MILLIS, ..NodeConfig::default() };
        let volumes = |data| vec![volume(OLD, layout, data)];
        let world = World::new(seed, NODES, 2400, 512, config, volumes);
        let mut trial = Trial { world, rng, layout, next: 0, down: None };
        trial.until("all nodes serve", Trial::is_whole);
        trial
    }

    fn is_whole(&self) -> bool {
        let map = self.world.map();
        let whole = |n: NodeId| map.is_up(n) && !map.is_stale(n);
        let quiet = |n: NodeId| self.world.status(n).is_some_and(|s| s.quiet);
        self.world.is_settled() && (0..NODES as u16).map(NodeId).all(|n| whole(n) && quiet(n))
    }

    fn until(&mut self, what: &str, done: impl Fn(&Trial) -> bool) {
        let limit = self.world.events + 400_000;
        while !done(self) {
            let goes_on = self.world.step().is_some() && self.world.events < limit;
            let at = |n| self.world.status(NodeId(n)).map(|s| s.waiting);
            assert!(
                goes_on,
                "not yet: {what}; {:?}",
                (0..NODES as u16).map(at).collect::<Vec<_>>()
            );
        }
    }

    fn serving(&self) -> Vec<NodeId> {
        let epoch = self.world.map().epoch;
        let serves =
            |n: &NodeId| self.world.status(*n).is_some_and(|s| s.serving && s.epoch == epoch);
        (0..NODES as u16).map(NodeId).filter(serves).collect()
    }

    /// Asks a node that serves.
    fn ask(&mut self, volume: VolumeId, op: HostOp) -> u64 {
        self.until("some node serves", |t| !t.serving().is_empty());
        self.next += 1;
        let serving = self.serving();
        let node = serving[self.rng.usize(0..serving.len())];
        self.world.host(node, self.next, volume, op);
        self.next
    }

    fn answer(&mut self, request: u64) -> Result {
        self.until("an answer", |t| t.world.replies.iter().any(|r| r.0 == request));
        let at = self.world.replies.iter().position(|r| r.0 == request).unwrap();
        self.world.replies.swap_remove(at).1
    }

    /// For some events hosts write sectors here and there; returns the requests and their sectors.
    fn load(&mut self, volume: VolumeId, byte: u8) -> Vec<(u64, u64, u64)> {
        let sectors = STRIPES * self.sectors_of_a_stripe();
        let mut asked = Vec::new();
        for _ in 0..self.rng.u64(20..150) {
            if self.rng.u8(0..4) == 0 {
                let first = self.rng.u64(0..sectors);
                let count = self.rng.u64(1..=6).min(sectors - first);
                let data = vec![byte; (count * SECTOR) as usize];
                asked.push((
                    self.ask(volume, HostOp::Write(first * SECTOR, data.into())),
                    first,
                    count,
                ));
            }
            self.world.step();
        }
        asked
    }

    fn sectors_of_a_stripe(&self) -> u64 {
        let layout: LayoutSpec = self.layout.parse().unwrap();
        Geometry::new(layout.over(NODES).unwrap(), 2 * SECTOR).stripe_bytes() / SECTOR
    }

    /// Perhaps a node dies, or all power goes.
    fn fail(&mut self) {
        match self.rng.u8(0..4) {
            0 => {}
            1 => {
                self.world.power_cut();
                self.world.start_everything();
                self.down = None;
            }
            _ if self.down.is_none() => {
                let node = NodeId(self.rng.u16(0..NODES as u16));
                self.world.kill(node, self.rng.bool());
                self.down = Some(node);
            }
            _ => {}
        }
    }

    fn come_back(&mut self) {
        if let Some(node) = self.down.take() {
            self.world.start_node(node);
        }
    }

    /// Has the map changed until it is as wanted: the authority may have died before it was.
    fn change(&mut self, ask: impl Fn(&mut World), done: impl Fn(&World) -> bool) {
        for _ in 0..20 {
            ask(&mut self.world);
            if self.rng.bool() {
                for _ in 0..self.rng.u64(0..40) {
                    self.world.step();
                }
                self.fail();
            }
            let serves = |t: &Trial| {
                let serving = t.serving();
                let settled =
                    t.world.is_settled() && t.down.is_none_or(|n| !t.world.map().is_up(n));
                settled && t.world.map().up().all(|n| serving.contains(&n))
            };
            self.until("the map is in force", serves);
            if done(&self.world) {
                return;
            }
        }
        panic!("the map never changed");
    }

    fn run(mut self) {
        self.load(OLD, STALE);
        if self.rng.bool() {
            self.fail();
        }
        self.change(|w| w.remove_volume(OLD), |w| !w.map().volumes.contains_key(&OLD));
        if self.rng.bool() {
            self.come_back();
        }
        // The same sectors, as other columns of other stripes.
        let mut new = volume(NEW, self.layout, self.world.data.1);
        let by = self.rng.usize(0..new.geometry.layout.width());
        new.extents.iter_mut().for_each(|e| e.columns.rotate_left(by));
        let there = |w: &World| w.map().volumes.contains_key(&NEW);
        self.change(|w| w.add_volume(new.clone()), there);
        // As with every volume in room that was used, nobody sees it before it has been cleared.
        let all = Range { offset: 0, len: new.size };
        let mut clears = self.ask(NEW, HostOp::WriteZeroes(all));
        while let Err(e) = self.answer(clears) {
            // One had just come back, and another died.
            assert_eq!(e, HostError::TooManyLost);
            self.come_back();
            self.until("all is whole", Trial::is_whole);
            clears = self.ask(NEW, HostOp::WriteZeroes(all));
        }
        let asked = self.load(NEW, FRESH);
        self.fail();
        self.load(NEW, FRESH);
        self.come_back();
        self.until("all is whole", Trial::is_whole);
        let scrub = self.ask(NEW, HostOp::SCRUB);
        match self.answer(scrub).unwrap() {
            HostData::Scrubbed(p, _) => assert_eq!((p.mismatched, p.skipped), (0, 0), "{p:?}"),
            other => panic!("{other:?}"),
        }
        let read = self.ask(NEW, HostOp::Read(all));
        let HostData::Bytes(pieces) = self.answer(read).unwrap() else { panic!() };
        let bytes = Buffer::join(&pieces);
        assert!(bytes.iter().all(|b| [0, FRESH].contains(b)), "the old volume shows");
        for (_, first, count) in asked.iter().filter(|a| self.was_done(a.0)) {
            let written = &bytes[(first * SECTOR) as usize..((first + count) * SECTOR) as usize];
            assert!(written.iter().all(|b| *b == FRESH), "what was answered is not there");
        }
    }

    fn was_done(&self, request: u64) -> bool {
        self.world.replies.iter().any(|(r, result)| *r == request && result.is_ok())
    }
}

#[test]
fn nothing_of_a_removed_volume_comes_to_lie_in_the_next() {
    for seed in 0..150 {
        println!("seed {seed}");
        Trial::new(seed).run();
    }
}
