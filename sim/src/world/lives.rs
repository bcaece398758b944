//! How nodes start, die and lose their disks.

use weft_core::Buffer;
use weft_core::node::{Bug, SlowNode};

use super::*;
use crate::disk::Harmed;

/// With a deliberate bug: an operation is said to have ended before it has.
pub(super) const EARLY: u64 = 1 << 63;

/// Operations that would have ended by now: if the disk hangs, and those of them that write if its file system is full.
#[derive(Default)]
pub(super) struct Held {
    hangs: Option<Vec<u64>>,
    full: Option<Vec<u64>>,
}

impl World {
    /// Every node starts, and the authority with the map that was last stored.
    pub fn start_everything(&mut self) {
        if self.together.is_some() {
            let all: Vec<NodeId> = (0..self.places.len() as u16).map(NodeId).collect();
            for node in all {
                if !self.runs(node) {
                    self.start_node(node);
                }
            }
            return;
        }
        self.authority = self.new_authority((*self.stored).clone());
        self.authority_life += 1;
        let all: Vec<NodeId> = (0..self.places.len() as u16).map(NodeId).collect();
        self.awaited = Some(all.iter().map(|n| (*n, false)).collect());
        all.into_iter().for_each(|n| self.start_node(n));
    }

    /// Starts a node on its disk; if it has a process that does not run, that and all nodes of it. One that
    /// was not admitted, or has left, does not start.
    pub fn start_node(&mut self, id: NodeId) {
        if !self.belongs(id) {
            return;
        }
        if self.together.is_some() {
            let starts = !self.has_process(id);
            self.start_process(id);
            if starts {
                let others = self.hosted_with(id).into_iter().filter(|n| *n != id);
                others.for_each(|n| self.open_node(n));
            }
        }
        self.open_node(id);
    }

    pub(super) fn open_node(&mut self, id: NodeId) {
        let config = self.config;
        let place = &mut self.places[id.0 as usize];
        assert!(place.node.is_none());
        // Whoever starts it has seen to its disk.
        place.disk.refuse_writes(false);
        if config.bug == Some(Bug::LateCompletion) {
            place.disk.tell_late();
        }
        place.held = Held::default();
        place.life += 1;
        if self.clocks_change {
            place.clock_offset = any_clock(&mut self.rng);
        }
        let mut node = Node::new(id, CLUSTER, place.disk.sectors(), config);
        let mut out = Vec::new();
        node.start(&mut out);
        place.node = Some(node);
        self.tell(|| format!("{id} starts"));
        let harmed = &mut self.disk(id).harmed;
        if *harmed == Harmed::Since {
            *harmed = Harmed::Before;
        }
        self.outputs(id, out);
        if self.together.is_some() {
            self.turn(id);
        }
    }

    /// The disk of a node that runs ends no operation, until it [answers](World::answer) or the node is started again.
    pub fn hang(&mut self, id: NodeId) {
        self.tell(|| format!("the disk of {id} hangs"));
        self.places[usize::from(id.0)].held.hangs.get_or_insert_default();
    }

    /// The file system of a node's disk is full: no write ends until it has [room](World::has_room) or the node is started again.
    pub fn fill(&mut self, id: NodeId) {
        self.tell(|| format!("the file system of {id}'s disk is full"));
        self.places[usize::from(id.0)].held.full.get_or_insert_default();
    }

    /// Whether the file system of a node's disk is full.
    pub fn is_full(&self, id: NodeId) -> bool {
        self.places[usize::from(id.0)].held.full.is_some()
    }

    /// A node learns whether the file system of its disk is full.
    pub fn tell_full(&mut self, id: NodeId) {
        let is_full = self.is_full(id);
        self.ask_node(id, Input::Full(is_full));
    }

    /// The file system of a node's disk has room again, if it was full.
    pub fn has_room(&mut self, id: NodeId) {
        let place = &mut self.places[usize::from(id.0)];
        let Some(waiting) = place.held.full.take() else { return };
        let life = place.life;
        self.tell(|| format!("there is room on {id}'s disk"));
        for operation in waiting {
            let delay = self.rng.u64(0..100 * MICROS);
            self.queue.push(delay, Event::Disk(id, life, operation));
        }
    }

    /// This part of the work that no host waits for may go on at the nodes that run, in thousandths.
    pub fn give_way(&mut self, part: u64) {
        let nodes = self.places.iter_mut().filter_map(|place| place.node.as_mut());
        nodes.for_each(|node| node.gives_way(part));
    }

    /// The nodes that originators find slow.
    pub fn slow_nodes(&self) -> Vec<SlowNode> {
        let nodes = self.places.iter().filter_map(|place| place.node.as_ref());
        nodes.flat_map(Node::slow_nodes).collect()
    }

    /// A disk would end an operation of a life of its node by now.
    pub(super) fn disk_ends(&mut self, id: NodeId, life: u64, operation: u64) {
        let place = &mut self.places[usize::from(id.0)];
        if place.life != life {
            return;
        }
        if operation & EARLY != 0 {
            return self.input(id, Input::Disk(operation & !EARLY, Ok(Buffer::Zero(0))));
        }
        if let Some(hanging) = &mut place.held.hangs {
            return hanging.push(operation);
        }
        if let Some(waiting) = &mut place.held.full
            && place.disk.writes(operation)
        {
            return waiting.push(operation);
        }
        let result = place.disk.finish(operation);
        if place.disk.is_early(operation) {
            return;
        }
        self.input(id, Input::Disk(operation, result));
    }

    /// A disk ends what it had in work while it hung, if it did.
    pub fn answer(&mut self, id: NodeId) {
        let place = &mut self.places[usize::from(id.0)];
        let (hanging, life) = (place.held.hangs.take().unwrap_or_default(), place.life);
        for operation in hanging {
            let delay = self.rng.u64(0..100 * MICROS);
            self.queue.push(delay, Event::Disk(id, life, operation));
        }
    }

    /// How often nodes have started or died.
    pub fn lives(&self) -> u64 {
        self.places.iter().map(|place| place.life).sum()
    }

    /// A node dies, with its process and all nodes of that if it has one. `power` says whether the
    /// disks lose power too. The others find out after a while.
    pub fn kill(&mut self, id: NodeId, power: bool) {
        self.fell(id, power);
        if self.together.is_some() {
            return;
        }
        let delay = self.rng.u64(MILLIS..20 * MILLIS);
        let life = self.places[id.0 as usize].life;
        self.queue.push(delay, Event::Missed(id, life));
    }

    /// From now on an empty disk that takes the place of one without slots has some, of so many sectors: it is of a later
    /// version of the format.
    pub fn let_new_disks_have_slots(&mut self, slot: u64) {
        self.slot_of_new = slot;
    }

    /// How many disks have taken the place of one of an earlier version.
    pub fn upgraded(&self) -> u64 {
        self.upgraded
    }

    /// An empty disk takes the place of a dead node's.
    pub fn replace_disk(&mut self, id: NodeId) {
        self.tell(|| format!("{id} gets an empty disk"));
        let place = &mut self.places[usize::from(id.0)];
        let superblock = place.superblock.as_mut().expect("a node with a disk");
        superblock.incarnation += 1;
        let mut sectors = place.disk.sectors();
        if superblock.slot() == 0 && self.slot_of_new > 0 {
            (*superblock, sectors) = slotted(superblock, self.slot_of_new, sectors);
            self.upgraded += 1;
        }
        // The map may speak of the one before for a while.
        let harmed = place.disk.harmed;
        place.disk = SimDisk::new(sectors);
        place.disk.harmed = harmed;
        if let Some(seed) = self.tears {
            place.disk.tear_in_power_cuts(seed + superblock.incarnation);
        }
        let format = JournalStore::format(superblock);
        format.for_each(|op| place.disk.apply_now(op));
    }

    /// How a node's disk is divided, if it has one.
    pub fn superblock(&self, id: NodeId) -> Option<&Superblock> {
        self.places[usize::from(id.0)].superblock.as_ref()
    }

    /// The life of a node ends, with those of `gone`. What it leaves is taken down: what those who go on have heard of its
    /// disk, and what it has counted.
    pub(super) fn ends(&mut self, node: NodeId, gone: &[NodeId]) {
        let others = (0..).map(NodeId).zip(&self.places).filter(|(n, _)| !gone.contains(n));
        let others = others.filter_map(|(_, place)| place.node.as_ref());
        let heard: Vec<_> = others.filter_map(|other| other.heard_of(node)).collect();
        let place = &mut self.places[usize::from(node.0)];
        place.promises.died(heard.into_iter());
        let counters = place.node.take().map(|node| node.status().counters);
        self.settled_in_part += counters.map_or(0, |c| c.settled_in_part);
        place.life += 1;
        place.held = Held::default();
    }

    pub(super) fn fell(&mut self, id: NodeId, power: bool) {
        self.tell(|| format!("{id} dies{}", if power { ", its disk loses power" } else { "" }));
        let gone = self.hosted_with(id);
        for node in gone.iter().copied() {
            self.ends(node, &gone);
            let place = &mut self.places[usize::from(node.0)];
            if power && self.tears_superblocks {
                place.disk.tear_started(0..SUPERBLOCKS, &mut self.rng);
            }
            match power {
                true => place.disk.power_cut(&mut self.rng),
                false => place.disk.process_dies(&mut self.rng),
            }
        }
        if self.together.is_some() {
            return self.end_process(id, power);
        }
        if let Some(awaited) = &mut self.awaited {
            awaited.remove(&id);
            self.start_authority();
        }
    }

    /// All power goes at once.
    pub fn power_cut(&mut self) {
        self.tell(|| "all power is cut".to_string());
        let now = self.now();
        self.places.iter_mut().for_each(|p| p.promises.power_cut(now));
        self.awaited = None;
        self.processes().into_iter().for_each(|n| self.fell(n, true));
        self.authority_life += 1;
    }

    /// Whether the process of a node is to get another disk, which has not been admitted yet.
    pub fn is_to_get_a_disk(&self, id: NodeId) -> bool {
        let come = |n: &NodeId| self.map().nodes.get(usize::from(n.0)).is_none();
        let mut all = (0..self.places.len() as u16).map(NodeId);
        all.any(|n| n != id && come(&n) && self.process_of(n) == self.process_of(id))
    }

    /// Whether a node has been admitted and has not left.
    pub fn belongs(&self, id: NodeId) -> bool {
        self.map().nodes.get(usize::from(id.0)).is_some_and(|info| !info.removed)
    }
}

/// A disk with slots that offers as much as one without, and how many sectors it has.
fn slotted(before: &Superblock, slot: u64, sectors: u64) -> (Superblock, u64) {
    let Superblock { cluster, disk, incarnation, journal, .. } = *before;
    let of = |sectors| {
        let divided = Superblock::divide_in(slot, cluster, disk, incarnation, sectors, journal);
        let divided = divided.expect("larger than one that was fair");
        // It may be smaller than real disks have it.
        (Superblock { journal, ..divided }, sectors)
    };
    let enough = |(sb, _): &(Superblock, u64)| sb.slot() > 0 && sb.offered() >= before.offered();
    (sectors..).map(of).find(enough).expect("there are larger disks")
}
