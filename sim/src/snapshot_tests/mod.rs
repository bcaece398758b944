//! Snapshots, clones and rollbacks under load, while nodes die, disks are replaced and columns move. Every view must
//! show what its history says, on whatever disks the layout needs.

use std::collections::BTreeMap;

use fastrand::Rng;
use weft_core::Buffer;
use weft_core::cluster::{Change, Place as Room, PolicyChange, Volume, place_thin, place_volume};
use weft_core::layout::{Geometry, LayoutSpec};
use weft_core::node::{Bug, HostData, HostError, HostOp, NodeConfig};
use weft_core::order::Ordering;
use weft_core::plan::Range;
use weft_core::policy::{Setting, Timing};
use weft_core::units::{MILLIS, NodeId, SECTOR, VolumeId, thin_space};

use crate::world::World;

use draws::{Draws, LAYOUTS, volumes};

mod beyond;
mod bugs;
mod damaged;
mod differences;
mod draws;
mod faults;
mod flattening;
mod imports;
mod merged;
mod views;

const FIRST: VolumeId = VolumeId(1);
const OTHER: VolumeId = VolumeId(2);
const NODES: usize = 6;
const STRIPES: u64 = 24;
/// The orderings that keep overlapping requests apart.
const ORDERINGS: [Ordering; 5] = [
    Ordering::Sequencer,
    Ordering::LockServer,
    Ordering::CallbackLocks,
    Ordering::DeviceLocks,
    Ordering::Timestamps,
];
/// Sectors of disks that are full at times.
const TIGHT: u64 = 1250;

/// The bytes that a sector may be filled with: several while a write of it is under way.
type Possible = Vec<u8>;

/// A write, or zeros, that a host has asked for.
#[derive(Clone, Debug)]
struct Asked {
    node: NodeId,
    volume: VolumeId,
    sectors: std::ops::Range<usize>,
    byte: u8,
}

/// A snapshot that is being taken: what each volume may have shown since it was asked for.
struct Taking {
    name: String,
    of: Vec<VolumeId>,
    seen: BTreeMap<VolumeId, Vec<Possible>>,
}

struct Trial {
    world: World,
    nodes: usize,
    rng: Rng,
    /// What happens beyond what the layouts bear.
    beyond: Rng,
    next: u64,
    names: u32,
    models: BTreeMap<VolumeId, Vec<Possible>>,
    asked: BTreeMap<u64, Asked>,
    taking: Option<Taking>,
    down: Vec<NodeId>,
    most_down: usize,
    /// Writes refused for want of space.
    refused: u64,
    draws: Draws,
    /// The node whose disk was copied.
    copied: Option<NodeId>,
    story: bool,
}

impl Trial {
    fn new(seed: u64, bug: Option<Bug>) -> Trial {
        Trial::of(seed, Draws::of(seed), bug)
    }

    fn of(seed: u64, draws: Draws, bug: Option<Bug>) -> Trial {
        let mut rng = Rng::with_seed(seed);
        let config = NodeConfig {
            place_after: rng.u64(1..20) * MILLIS,
            patience: 40 * MILLIS,
            bug,
            ..NodeConfig::default()
        };
        let (mut bears, mut beyond) = (1, Rng::with_seed(seed ^ 0xbe_1017));
        let (sectors, journal) = if draws.tight { (TIGHT, 256) } else { (6000, 512) };
        let (layout, width, nodes) = draws.layout(&mut rng, seed);
        let second = if draws.differ { LAYOUTS[seed as usize / 6 % 5] } else { (layout, width) };
        let world = World::new(seed, nodes, sectors, journal, config, |data| {
            let layouts = [(layout, width), second];
            let mut all = volumes(&mut rng, layouts, nodes, data, draws.tight);
            for volume in all.iter_mut().filter(|_| draws.orders) {
                volume.policy.ordering = ORDERINGS[rng.usize(0..ORDERINGS.len())];
            }
            for volume in all.iter_mut().filter(|_| draws.copies) {
                let redundancy = &mut volume.policy.redundancy;
                (redundancy.timing, redundancy.idle) =
                    (Timing::Copied, (10 * MILLIS) << beyond.u64(0..9));
            }
            let borne = |v: &Volume| v.geometry.any_losses();
            bears = all.iter().map(borne).min().unwrap_or(1).max(1);
            all
        });
        let models = world.map().volumes.values();
        let fresh = |v: &Volume| vec![vec![0]; (v.size / SECTOR) as usize];
        let models = models.map(|v| (v.id, fresh(v))).collect();
        let mut trial = Trial {
            world,
            nodes,
            rng,
            beyond,
            next: 0,
            names: 0,
            models,
            asked: BTreeMap::new(),
            taking: None,
            down: Vec::new(),
            most_down: bears,
            refused: 0,
            draws,
            copied: None,
            story: std::env::var("WEFT_STORY").is_ok(),
        };
        trial.until("all nodes serve", Trial::is_whole);
        trial
    }

    fn tell(&self, what: impl FnOnce() -> String) {
        if self.story {
            println!("{} ms: {}", self.world.now() / MILLIS, what());
        }
    }

    fn all_nodes(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.nodes as u16).map(NodeId)
    }

    fn any_node(&mut self) -> NodeId {
        NodeId(self.rng.u16(0..self.nodes as u16))
    }

    fn is_whole(&self) -> bool {
        let map = self.world.map();
        let whole = |n: NodeId| map.is_up(n) && !map.is_stale(n);
        let quiet = |n: NodeId| self.world.status(n).is_some_and(|s| s.quiet);
        let all = || self.all_nodes();
        let moves = map.volumes.values().flat_map(|v| &v.extents).any(|e| !e.filling.is_empty());
        self.world.is_settled() && !moves && all().all(|n| whole(n) && quiet(n))
    }

    fn until(&mut self, what: &str, done: impl Fn(&Trial) -> bool) {
        let limit = self.world.events + 1_500_000;
        while !done(self) {
            let goes_on = self.world.step().is_some() && self.world.events < limit;
            if !goes_on {
                let at = |n| self.world.status(NodeId(n)).map(|s| (s.stale_sectors, s.waiting));
                let all: Vec<_> = (0..self.nodes as u16).map(at).collect();
                panic!("not yet: {what}; {all:#?}; {:?}", self.world.map().attendance);
            }
            self.hear();
        }
    }

    fn serving(&self) -> Vec<NodeId> {
        let epoch = self.world.map().epoch;
        let serves =
            |n: &NodeId| self.world.status(*n).is_some_and(|s| s.serving && s.epoch == epoch);
        self.all_nodes().filter(serves).collect()
    }

    fn ask(&mut self, volume: VolumeId, op: HostOp) -> u64 {
        self.ask_one(volume, op).0
    }

    /// The request, and the node that was asked.
    fn ask_one(&mut self, volume: VolumeId, op: HostOp) -> (u64, NodeId) {
        self.until("some node serves", |t| !t.serving().is_empty());
        self.next += 1;
        let serving = self.serving();
        let node = serving[self.rng.usize(0..serving.len())];
        self.world.host(node, self.next, volume, op);
        (self.next, node)
    }

    /// A node that dies answers none of its requests; each may have happened.
    fn kill(&mut self, node: NodeId, power: bool) {
        self.asked.retain(|_, asked| asked.node != node);
        self.world.kill(node, power);
    }

    /// Answers of writes that were asked for.
    fn hear(&mut self) {
        let asked = &self.asked;
        let (its, others): (Vec<_>, Vec<_>) =
            self.world.replies.drain(..).partition(|r| asked.contains_key(&r.0));
        self.world.replies = others;
        for (request, result) in its {
            let Asked { volume, sectors, byte, .. } =
                self.asked.remove(&request).expect("just seen");
            let Some(model) = self.models.get_mut(&volume) else { continue };
            match result {
                Ok(_) => model[sectors].iter_mut().for_each(|possible| *possible = vec![byte]),
                Err(HostError::TooManyLost) => {}
                // Other parts of it may have happened.
                Err(HostError::NoSpace) if self.draws.tight => self.refused += 1,
                Err(error) => panic!("{volume:?} {sectors:?}: {error}"),
            }
        }
    }

    fn answer(&mut self, request: u64) -> Result<HostData, HostError> {
        self.until("an answer", |t| t.world.replies.iter().any(|r| r.0 == request));
        let at = self.world.replies.iter().position(|r| r.0 == request).unwrap();
        self.world.replies.swap_remove(at).1
    }

    fn writable(&mut self) -> VolumeId {
        let volumes = self.world.map().volumes.values();
        let all: Vec<VolumeId> = volumes.filter(|v| !v.is_snapshot()).map(|v| v.id).collect();
        all[self.rng.usize(0..all.len())]
    }

    /// A host writes somewhere where nothing is being written.
    fn write(&mut self) {
        let volume = self.writable();
        self.write_to(volume);
    }

    fn write_to(&mut self, volume: VolumeId) {
        let sectors = self.models[&volume].len();
        let first = self.rng.usize(0..sectors);
        let count = match self.rng.u8(0..4) {
            0 => self.rng.usize(1..60),
            _ => self.rng.usize(1..4),
        };
        let range = first..(first + count).min(sectors);
        let meets = |asked: &&Asked| {
            asked.volume == volume
                && asked.sectors.start < range.end
                && range.start < asked.sectors.end
        };
        if self.asked.values().any(|asked| meets(&asked)) {
            return;
        }
        let byte = if self.rng.u8(0..5) == 0 { 0 } else { self.rng.u8(1..) };
        let (offset, len) = (first as u64 * SECTOR, range.len() as u64 * SECTOR);
        let op = match byte {
            0 => HostOp::WriteZeroes(Range { offset, len }),
            _ => HostOp::Write(offset, Buffer::from(vec![byte; len as usize])),
        };
        let (request, node) = self.ask_one(volume, op);
        self.tell(|| format!("{request}: {volume:?} {range:?} is {byte}"));
        let asked = Asked { node, volume, sectors: range.clone(), byte };
        self.models.get_mut(&volume).expect("a model")[range.clone()]
            .iter_mut()
            .for_each(|possible| possible.push(byte));
        if let Some(seen) = self.taking.as_mut().and_then(|taking| taking.seen.get_mut(&volume)) {
            seen[range].iter_mut().for_each(|possible| possible.push(byte));
        }
        self.asked.insert(request, asked);
    }

    fn step(&mut self, most: u64) {
        for _ in 0..self.rng.u64(0..most) {
            self.world.step();
            self.hear();
        }
    }

    /// Has the map changed; with no answer of the cluster it is asked for again.
    fn change(&mut self, change: &Change, done: impl Fn(&World) -> bool) {
        for _ in 0..40 {
            self.world.change(change.clone());
            self.until("the map is in force", |t| {
                let serving = t.serving();
                t.world.is_settled() && t.world.map().up().all(|n| serving.contains(&n))
            });
            if done(&self.world) {
                return;
            }
            self.step(400);
        }
        panic!("the map never changed: {change:?}");
    }

    fn snapshot(&mut self) {
        let of = match self.rng.u8(0..3) {
            0 => match self.writable() {
                hidden if self.world.map().volumes[&hidden].import.is_some() => return,
                id => vec![id],
            },
            _ => vec![FIRST, OTHER],
        };
        if self.world.map().volumes.len() > 12 {
            return;
        }
        self.names += 1;
        let name = format!("s{}", self.names);
        let seen = of.iter().map(|id| (*id, self.models[id].clone())).collect();
        self.tell(|| format!("{name} of {of:?}"));
        self.taking = Some(Taking { name: name.clone(), of: of.clone(), seen });
        let change = Change::TakeSnapshots(of.clone(), name.clone(), 0);
        if of.iter().any(|id| self.world.map().volumes[id].copies()) {
            self.end_copies(&of, &change);
        }
        if self.draws.flattens && !self.down.is_empty() && self.rng.bool() {
            self.come_back_under_writes();
        }
        if self.draws.beyond && self.beyond.bool() {
            self.go_beyond(Some(&change));
        }
        if self.rng.bool() {
            // Meanwhile hosts go on.
            self.world.change(change.clone());
            for _ in 0..self.rng.u64(0..6) {
                self.write();
                self.step(20);
            }
        }
        let wanted = format!("v{}@{name}", of[0].0);
        let named = move |world: &World, name: &str| {
            world.map().volumes.values().find(|v| v.name == name).map(|v| v.id)
        };
        let origin = self.world.map().volumes[&of[0]].name.clone();
        let first = if of[0].0 <= 2 { wanted } else { format!("{origin}@{name}") };
        self.change(&change, |world| named(world, &first).is_some());
        let Taking { name, of, seen } = self.taking.take().expect("just set");
        for id in of {
            let origin = self.world.map().volumes[&id].name.clone();
            let snapshot = named(&self.world, &format!("{origin}@{name}")).expect("all or none");
            self.models.insert(snapshot, seen[&id].clone());
        }
    }

    fn snapshots(&self) -> Vec<VolumeId> {
        let all = self.world.map().volumes.values();
        all.filter(|v| v.is_snapshot() && !v.is_deleted()).map(|v| v.id).collect()
    }

    fn any_snapshot(&mut self) -> Option<VolumeId> {
        let all = self.snapshots();
        (!all.is_empty()).then(|| all[self.rng.usize(0..all.len())])
    }

    fn clone_one(&mut self) {
        let Some(snapshot) = self.any_snapshot() else { return };
        if self.world.map().volumes.len() > 12 {
            return;
        }
        self.names += 1;
        let name = format!("c{}", self.names);
        self.tell(|| format!("{name} of {snapshot:?}"));
        let change = Change::CloneVolume(snapshot, name.clone());
        let find = |w: &World| w.map().volumes.values().find(|v| v.name == name).map(|v| v.id);
        self.change(&change, |world| find(world).is_some());
        let id = find(&self.world).expect("just seen");
        // What the snapshot shows is not known in sectors that were being written. The clone shows the same.
        self.settle(snapshot);
        let model = self.models[&snapshot].clone();
        self.models.insert(id, model);
    }

    fn roll_back(&mut self) {
        let Some(snapshot) = self.any_snapshot() else { return };
        let of = self.world.map().volumes[&snapshot].lineage.snapshot.expect("it is one").of;
        if !self.world.map().volumes.contains_key(&of) {
            return;
        }
        self.until("no host uses it", |t| !t.asked.values().any(|a| a.volume == of));
        self.tell(|| format!("{of:?} back to {snapshot:?}"));
        let before = self.world.map().volumes[&of].space();
        self.change(&Change::RollBack(of, snapshot), |w| w.map().volumes[&of].space() != before);
        self.settle(snapshot);
        let model = self.models[&snapshot].clone();
        self.models.insert(of, model);
    }

    /// A volume is deleted that nothing was cloned from.
    fn delete(&mut self) {
        let map = self.world.map();
        let is_cloned = |id: VolumeId| map.above(id).any(|volume| map.is_clone_of(volume, id));
        let is_free = |v: &VolumeId| {
            let plain = !map.volumes[v].is_snapshot();
            let in_use = *v == FIRST || *v == OTHER || (plain && !map.snapshots_of(*v).is_empty());
            !in_use && !is_cloned(*v) && self.models.contains_key(v)
        };
        let all: Vec<VolumeId> = map.volumes.keys().copied().filter(is_free).collect();
        if all.is_empty() {
            return;
        }
        let id = all[self.rng.usize(0..all.len())];
        self.until("no host uses it", |t| !t.asked.values().any(|a| a.volume == id));
        self.tell(|| format!("{id:?} is deleted"));
        self.models.remove(&id);
        let change = match self.world.map().volumes[&id].is_snapshot() {
            true => Change::DeleteVolume(id, 0),
            false => Change::RemoveVolume(id),
        };
        self.change(&change, |w| w.map().volumes.get(&id).is_none_or(|v| v.is_deleted()));
    }

    fn run(mut self) {
        for _ in 0..self.rng.usize(20..60) {
            let most = if self.draws.flattens { 18 } else { 16 };
            match self.rng.u8(0..most) {
                0 | 1 => self.snapshot(),
                2 => self.clone_one(),
                3 => self.roll_back(),
                4 => self.delete(),
                5 | 6 => self.fail(),
                8 if self.draws.imports => self.import(),
                7 => {
                    let all: Vec<VolumeId> = self.models.keys().copied().collect();
                    let id = all[self.rng.usize(0..all.len())];
                    self.settle(id);
                }
                9 | 10 if self.draws.damages => self.damage(),
                16 | 17 => self.flatten(),
                _ => {
                    for _ in 0..self.rng.u64(1..12) {
                        self.write();
                        self.step(30);
                    }
                }
            }
            self.step(200);
            if self.draws.beyond && self.beyond.u8(0..12) == 0 {
                self.go_beyond(None);
            }
            if self.draws.compares && self.rng.u8(0..8) == 0 {
                self.compare_some();
            }
        }
        self.come_back();
        self.until("all is answered", |t| t.asked.is_empty());
        self.settle_all();
        (0..6).for_each(|_| self.compare_some());
        self.scrub_all();
        for node in self.all_nodes() {
            self.look_without(&[node]);
        }
        if self.draws.pairs && self.most_down > 1 {
            let apart = self.rng.u16(1..self.nodes as u16);
            for node in self.all_nodes().step_by(self.nodes.div_ceil(6)) {
                self.look_without(&[node, NodeId((node.0 + apart) % self.nodes as u16)]);
            }
        }
        self.settle_all();
        if self.rng.bool() {
            self.flatten_all();
        }
        self.delete_all_snapshots();
    }

    /// Every view shows its history while these nodes are down.
    fn look_without(&mut self, nodes: &[NodeId]) {
        nodes.iter().for_each(|node| self.world.kill(*node, true));
        self.until("they are missed", |t| !nodes.iter().any(|node| t.world.map().is_up(*node)));
        self.settle_all();
        self.compare_some();
        nodes.iter().for_each(|node| self.world.start_node(*node));
        self.until("all is whole", Trial::is_whole);
    }

    /// Deleted snapshots are merged and forgotten, but for those with clones; views show what they did.
    fn delete_all_snapshots(&mut self) {
        for id in self.snapshots() {
            let map = self.world.map();
            if map.above(id).any(|volume| map.is_clone_of(volume, id)) {
                continue;
            }
            self.models.remove(&id);
            self.change(&Change::DeleteVolume(id, 0), |w| {
                w.map().volumes.get(&id).is_none_or(|v| v.is_deleted())
            });
            if self.rng.bool() {
                self.settle_all();
                self.compare_some();
            }
            if self.rng.u8(0..4) == 0 {
                self.world.power_cut();
                self.world.start_everything();
            }
        }
        self.until("deleted snapshots are forgotten", |t| {
            let map = t.world.map();
            let is_left =
                |v: &std::sync::Arc<Volume>| v.is_deleted() && map.above(v.id).count() < 2;
            !map.volumes.values().any(is_left) && t.is_whole()
        });
        self.settle_all();
        self.scrub_all();
    }
}

/// Those that the environment names.
fn chosen_seeds() -> Option<std::ops::Range<u64>> {
    let chosen = std::env::var("WEFT_SEEDS").ok()?;
    let (from, to) = chosen.split_once("..")?;
    Some(from.parse().ok()?..to.parse().ok()?)
}

#[test]
fn every_view_shows_its_history() {
    for seed in chosen_seeds().unwrap_or(0..40) {
        println!("seed {seed}");
        Trial::new(seed, None).run();
    }
}

/// Copies that are not folded when a snapshot is taken belong to it, wherever they are.
#[test]
fn every_view_shows_copied_writes() {
    for seed in chosen_seeds().unwrap_or(0..12) {
        println!("seed {seed}");
        Trial::of(seed, Draws::with_copies(seed), None).run();
    }
}

/// Faults that were found before views were compared, each in one of these: columns that move while a snapshot is taken, zeros that hide nothing,
/// writes that are settled when their volume is gone, snapshots that are forgotten before they are merged, slots of two
/// extents.
#[test]
fn seeds_that_failed_pass() {
    for seed in [53, 82, 145, 392, 100_012, 100_043, 130_141, 360_049] {
        println!("seed {seed}");
        Trial::of(seed, Draws::FIRST, None).run();
    }
}
