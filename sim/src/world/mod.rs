//! The world: nodes and their disks, the authority, the network, and time.
//!
//! Who rules is either one authority, or the processes together, each with a member of the group
//! that keeps the map ([`together`]).
//!
//! - this file: what there is, and one event after another
//! - [`environment`]: what becomes of nodes' outputs
//! - [`lives`]: how nodes start and die
//! - [`hosts`], [`operators`]: what those want
//! - [`authority`]: who rules where there are no processes
//! - [`giving_up`]: whom the authority gives up by itself
//! - [`promises`]: what disks have promised

mod authority;
mod conditions;
mod crew;
mod environment;
mod forger;
mod giving_up;
mod hosts;
mod lives;
mod operators;
mod promises;
mod together;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fastrand::Rng;
use weft_core::cluster::{
    Arrival, Attendance, Authority, AuthorityInput, AuthorityOutput, Change, ClusterMap,
    ClusterSetting, Extent, NewNodes, NodeInfo, NodeKind, PolicyChange, ReservationChange, Volume,
    VolumeSize,
};
use weft_core::node::{
    Envelope, HostData, HostError, HostOp, Input, MapMessage, Node, NodeConfig, NodeCounters,
    NodeStatus, Output, Timer, drive,
};
use weft_core::order::{Origin, Place as Order};
use weft_core::store::{JournalStore, SUPERBLOCKS, Superblock};
use weft_core::units::{ColumnSet, Epoch, MILLIS, Nanos, NodeId, Timestamp, VolumeId};

use self::giving_up::GivenUp;
use self::promises::{Forgotten, Promises};
use self::together::Together;
use crate::disk::SimDisk;
use crate::engine::Queue;

pub use self::conditions::Conditions;
pub use self::crew::{Comings, Crew};
pub use self::together::Happens;

const MICROS: Nanos = 1000;
/// The cluster that all simulated disks belong to.
const CLUSTER: u128 = 0x0057_6566_7400;

/// What clocks show at the beginning, and how far they may be apart where they change.
const MANY_HOURS: Nanos = 1_000_000_000 * MILLIS;
const TWO_HOURS: Nanos = 7_200_000 * MILLIS;
const HUNDRED_YEARS: Nanos = 100 * 365 * 24 * 3_600_000 * MILLIS;

/// Something that happens.
#[derive(Clone, Debug)]
pub enum Event {
    /// A message arrives.
    Deliver(Envelope, u64),
    /// A disk operation ends.
    Disk(NodeId, u64, u64),
    /// A timer of a node fires.
    Timer(NodeId, u64, Timer),
    /// The authority is told something.
    Authority(AuthorityInput, u64),
    /// The authority of a world without processes is told the time.
    Tick,
    /// A node hears from the authority.
    Tell(NodeId, u64, MapMessage),
    /// A node that died in this life is found dead.
    Missed(NodeId, u64),
    /// Something happens to a process that lives so many lives long.
    Process(NodeId, u64, Happens),
    /// An operator looks what became of a wish.
    Wish(usize),
    /// A node that has been admitted starts for the first time.
    Joins(NodeId),
    /// Something of the caller's.
    Caller(u64),
}

struct Place {
    node: Option<Node>,
    /// Of no sectors if it has none.
    disk: SimDisk,
    superblock: Option<Superblock>,
    /// Counts starts; messages in transit to an earlier one are lost.
    life: u64,
    /// How fast its clock runs, in parts per million off, and by how much it is off.
    drift_ppm: i64,
    clock_offset: Nanos,
    promises: Promises,
    /// Operations that the disk does not end.
    held: lives::Held,
    /// It has said that it has caught up.
    caught_up: bool,
}

/// Nodes, disks, network and time.
pub struct World {
    /// The source of all chance.
    pub rng: Rng,
    /// Where the data sectors of every disk began when the world did, and how many there were.
    pub data: (u64, u64),
    /// How things behave now.
    pub conditions: Conditions,
    /// Answers to hosts: request, result.
    pub replies: Vec<(u64, Result<HostData, HostError>)>,
    /// Nodes that have died because of their disks or that processes have restarted, for the caller to take.
    pub dead_alone: Vec<NodeId>,
    /// Lines from nodes, and what happened, newest last, as many as are kept.
    pub story: Vec<String>,
    /// How many lines of the story to keep; 0 for none.
    pub story_length: usize,
    queue: Queue<Event>,
    places: Vec<Place>,
    /// The processes, if there are several.
    together: Option<Box<Together>>,
    authority: Authority,
    /// Counts starts of the authority.
    authority_life: u64,
    stored: Arc<ClusterMap>,
    config: NodeConfig,
    /// Nodes that the authority has yet to hear of at a start of everything.
    awaited: Option<BTreeMap<NodeId, bool>>,
    /// Events handled.
    pub events: u64,
    /// Messages sent from one node to another.
    pub sent: u64,
    /// See [`World::let_clocks_change`].
    clocks_change: bool,
    /// A disk has lost what it promised just before all who had heard of it lost their power: see [`promises`].
    pub unremembered: bool,
    /// Since when the same holds of acknowledgements that no other node knew when the disk's node died. Perhaps none was
    /// sent.
    pub unheard: Option<Nanos>,
    /// See [`World::settled_in_part`]: of nodes that run no more.
    settled_in_part: u64,
    /// See [`World::let_new_disks_have_slots`].
    slot_of_new: u64,
    upgraded: u64,
    /// See [`World::tear_superblocks`].
    tears_superblocks: bool,
    /// See [`World::tear_in_power_cuts`].
    tears: Option<u64>,
    /// Writes of superblocks that have begun.
    pub superblock_writes: u64,
    /// Maps in which a volume rests, and how often a node said that one is to go on.
    pub rests: (u64, u64),
    /// Who was given up.
    given_up: GivenUp,
    /// A node that forges messages, if there is one.
    forger: Option<forger::Forger>,
}

/// How a world's disks are divided, in sectors.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// All of them.
    pub sectors: u64,
    /// Those of the journal.
    pub journal: u64,
    /// Those of a slot; 0 for disks without slots.
    pub slot: u64,
}

impl World {
    /// A world of `nodes` nodes with volumes and empty disks of `sectors` sectors, `journal` of them the journal (which
    /// may be smaller than on real disks). It runs from the first event on.
    pub fn new(
        seed: u64,
        nodes: usize,
        sectors: u64,
        journal: u64,
        config: NodeConfig,
        volumes: impl FnOnce(u64) -> Vec<Volume>,
    ) -> World {
        let sizes = Sizes { sectors, journal, slot: Superblock::SLOT };
        World::of_sizes(seed, nodes, sizes, config, volumes)
    }

    /// The same with slots of any size.
    pub fn of_sizes(
        seed: u64,
        nodes: usize,
        sizes: Sizes,
        config: NodeConfig,
        volumes: impl FnOnce(u64) -> Vec<Volume>,
    ) -> World {
        let mut world = World::at_rest(seed, (nodes, 0), sizes, config, volumes);
        world.start_everything();
        world
    }

    /// The same, where the nodes are in processes that rule together.
    pub fn of_processes(
        seed: u64,
        crew: Crew,
        sizes: Sizes,
        config: NodeConfig,
        members: weft_member::Config,
        volumes: impl FnOnce(u64) -> Vec<Volume>,
    ) -> World {
        let nodes = (crew.nodes, crew.attached);
        let mut world = World::at_rest(seed, nodes, sizes, config, volumes);
        world.gather(members, crew);
        world.start_everything();
        world
    }

    /// `attached` hosts that are their own controllers have the numbers after the nodes with disks.
    fn at_rest(
        seed: u64,
        (nodes, attached): (usize, usize),
        Sizes { sectors, journal, slot }: Sizes,
        config: NodeConfig,
        volumes: impl FnOnce(u64) -> Vec<Volume>,
    ) -> World {
        let mut rng = Rng::with_seed(seed);
        let (mut offered, mut data) = (0, (0, 0));
        let places = (0..nodes + attached)
            .map(|n| {
                let (mut disk, mut superblock) = (SimDisk::new(0), None);
                if n < nodes {
                    let mut sb =
                        Superblock::divide_in(slot, CLUSTER, n as u16, 1, sectors, journal)
                            .expect("a fair size");
                    sb.journal = sb.journal.min(journal);
                    data = (sb.data_start(), sb.data);
                    offered = sb.offered();
                    disk = SimDisk::new(sectors);
                    JournalStore::format(&sb).for_each(|op| disk.apply_now(op));
                    superblock = Some(sb);
                }
                let drift_ppm = rng.i64(-200..=200);
                let clock_offset = MANY_HOURS + rng.u64(0..5 * MILLIS);
                Place {
                    node: None,
                    disk,
                    superblock,
                    life: 0,
                    drift_ppm,
                    clock_offset,
                    promises: Promises::default(),
                    held: lives::Held::default(),
                    caught_up: false,
                }
            })
            .collect();
        let volumes = volumes(offered).into_iter().map(|v| (v.id, Arc::new(v)));
        let volumes: BTreeMap<_, _> = volumes.collect();
        let host = NodeInfo { kind: NodeKind::Host, ..NodeInfo::unseen() };
        let mut nodes = vec![NodeInfo::unseen(); nodes];
        nodes.resize(nodes.len() + attached, host);
        let mut map = ClusterMap { nodes, volumes, ..ClusterMap::default() };
        map.next_volume = map.volumes.keys().last().map_or(0, |last: &VolumeId| last.0 + 1);
        let mut world = World {
            rng,
            data,
            conditions: Conditions::default(),
            replies: Vec::new(),
            dead_alone: Vec::new(),
            story: Vec::new(),
            story_length: 0,
            queue: Queue::default(),
            places,
            together: None,
            authority: Authority::new(map.clone()),
            authority_life: 0,
            stored: Arc::new(map),
            config,
            awaited: None,
            events: 0,
            sent: 0,
            clocks_change: false,
            unremembered: false,
            unheard: None,
            settled_in_part: 0,
            slot_of_new: 0,
            upgraded: 0,
            tears_superblocks: false,
            tears: None,
            superblock_writes: 0,
            rests: (0, 0),
            given_up: GivenUp::default(),
            forger: None,
        };
        world.authority = world.new_authority((*world.stored).clone());
        world
    }

    /// The time.
    pub fn now(&self) -> Nanos {
        self.queue.now()
    }

    /// How many nodes there are, up or down.
    pub fn size(&self) -> usize {
        self.places.len()
    }

    /// Whether a node is a host that is its own controller.
    pub fn is_attached(&self, id: NodeId) -> bool {
        self.places[usize::from(id.0)].superblock.is_none()
    }

    /// How many nodes have disks; their numbers are the first.
    pub fn with_disks(&self) -> usize {
        self.places.iter().filter(|p| p.superblock.is_some()).count()
    }

    /// The map in force.
    pub fn map(&self) -> &ClusterMap {
        if self.together.is_some() {
            return self.newest_map();
        }
        self.authority.map()
    }

    /// Sets a node's clock forward by this amount, or back.
    pub fn shift_clock(&mut self, node: NodeId, by: i64) {
        let place = &mut self.places[usize::from(node.0)];
        place.clock_offset = place.clock_offset.saturating_add_signed(by);
    }

    /// From now on nodes' clocks are up to two hours apart, and set again whenever a node starts.
    pub fn let_clocks_change(&mut self) {
        self.clocks_change = true;
        self.places.iter_mut().for_each(|p| p.clock_offset = any_clock(&mut self.rng));
    }

    /// From now on a superblock that is being written when the power goes may be torn.
    pub fn tear_superblocks(&mut self) {
        self.tears_superblocks = true;
    }

    /// From now on any sector that is being written when the power goes may be torn, on all disks at once.
    pub fn tear_in_power_cuts(&mut self, seed: u64) {
        self.tears = Some(seed);
        for (place, number) in self.places.iter_mut().zip(0..) {
            place.disk.tear_in_power_cuts(seed + number);
        }
    }

    /// The disk of a node.
    pub fn disk(&mut self, node: NodeId) -> &mut SimDisk {
        &mut self.places[node.0 as usize].disk
    }

    /// A node's state, if it runs.
    pub fn status(&self, node: NodeId) -> Option<NodeStatus> {
        self.places[node.0 as usize].node.as_ref().map(Node::status)
    }

    /// How many sectors are stale on a node's disk, if it runs and knows that.
    pub fn stale_sectors(&self, node: NodeId) -> Option<u64> {
        self.places[usize::from(node.0)].node.as_ref()?.stale_sectors()
    }

    /// Whether a node has said that it has caught up since this was last asked.
    pub fn has_caught_up(&mut self, node: NodeId) -> bool {
        std::mem::take(&mut self.places[usize::from(node.0)].caught_up)
    }

    /// Of a volume in a node's map, if it runs: in which epoch, and stripes and bytes that its disk's parity exposes.
    pub fn exposed(&self, node: NodeId, volume: VolumeId) -> Option<(Epoch, &Volume, (u64, u64))> {
        let node = self.places[usize::from(node.0)].node.as_ref()?;
        let map = node.cluster_map();
        Some((map.epoch, map.volumes.get(&volume)?, node.exposed_now(volume)))
    }

    /// Whether writes of earlier epochs are undecided on a node's disk, if it runs.
    pub fn settles_earlier_writes(&self, node: NodeId) -> bool {
        let node = self.places[usize::from(node.0)].node.as_ref();
        node.is_some_and(Node::settles_earlier_writes)
    }

    /// The sum of a counter over the nodes that run.
    pub fn counted(&self, of: impl Fn(&NodeCounters) -> u64) -> u64 {
        let nodes = self.places.iter().filter_map(|place| place.node.as_ref());
        nodes.map(|node| of(&node.status().counters)).sum()
    }

    /// Writes with deferred parity that counted as done though a disk that should hold their data was not asked, by
    /// all nodes in all their lives.
    pub fn settled_in_part(&self) -> u64 {
        let nodes = self.places.iter().filter_map(|place| place.node.as_ref());
        self.settled_in_part + nodes.map(|node| node.status().counters.settled_in_part).sum::<u64>()
    }

    /// Whether a node runs.
    pub fn runs(&self, node: NodeId) -> bool {
        self.places[node.0 as usize].node.is_some()
    }

    /// Adds a line to the story.
    pub fn tell(&mut self, line: impl FnOnce() -> String) {
        if self.story_length > 0 {
            if self.story.len() >= 2 * self.story_length {
                self.story.drain(..self.story_length);
            }
            let line = format!("{:>12.6} ms  {}", self.now() as f64 / MILLIS as f64, line());
            self.story.push(line);
        }
    }

    /// Schedules an event of the caller after this time.
    pub fn call_after(&mut self, after: Nanos, what: u64) {
        self.queue.push(after, Event::Caller(what));
    }

    /// Handles the next event. Returns it if it is the caller's; `None` when none is left.
    pub fn step(&mut self) -> Option<Option<u64>> {
        let event = self.queue.pop()?;
        if let Some(wait) = self.waits_for(&event) {
            self.queue.push(wait, event);
            return Some(None);
        }
        self.events += 1;
        let whose = match &event {
            Event::Deliver(envelope, _) => Some(envelope.to),
            Event::Disk(node, ..) | Event::Timer(node, ..) => Some(*node),
            _ => None,
        };
        match event {
            Event::Process(node, life, what) => self.happened(node, life, what),
            Event::Wish(n) => self.look_after_wish(n),
            // A process that runs has got a disk; one that does not begins with it when it starts.
            Event::Joins(node) if self.runs(node) || !self.can_join(node) => {}
            Event::Joins(node) => self.start_node(node),
            Event::Caller(what) => return Some(Some(what)),
            Event::Deliver(envelope, life) => {
                if self.places[envelope.to.0 as usize].life == life {
                    self.tell(|| describe(&envelope));
                    self.letter(envelope);
                }
            }
            Event::Disk(node, life, id) => {
                self.disk_ends(node, life, id);
            }
            Event::Timer(node, life, timer) => {
                if self.places[node.0 as usize].life == life {
                    self.input(node, Input::Timer(timer));
                }
            }
            Event::Tell(node, life, message) => {
                if self.places[node.0 as usize].life == life {
                    self.input(node, Input::Map(message));
                }
            }
            Event::Tick => self.tick(),
            Event::Missed(node, life) => {
                if self.places[node.0 as usize].life == life {
                    self.authority_input(AuthorityInput::NodeDown(node));
                }
            }
            Event::Authority(input, life) => {
                if self.authority_life == life {
                    self.authority_input(input);
                }
            }
        }
        if let Some(node) = whose.filter(|_| self.together.is_some()) {
            self.turn(node);
        }
        Some(None)
    }

    /// A message has arrived.
    fn letter(&mut self, envelope: Envelope) {
        match &mut self.together {
            Some(together) => together.letter(envelope),
            None => self.input(envelope.to, Input::Message(Box::new(envelope))),
        }
    }

    fn input(&mut self, id: NodeId, input: Input) {
        let clock = self.clock(id);
        let place = &mut self.places[id.0 as usize];
        let Some(node) = &mut place.node else { return };
        let mut out = Vec::new();
        let began = node.serves().is_none();
        crate::checked::handle(node, clock, input, &mut out);
        self.note_promises(id, began);
        self.outputs(id, out);
    }

    /// The promises of a serving node; when it serves for the first time, also whether its disk has lost one unnoticed.
    fn note_promises(&mut self, id: NodeId, began: bool) {
        let now = self.now();
        let place = &mut self.places[usize::from(id.0)];
        let Some(node) = place.node.as_ref().filter(|n| n.serves().is_some()) else { return };
        let (found, reached, first) = node.found_and_reached();
        if began && first {
            // Content of a whole slot is looked at when the disk is opened. It may have gone bad just after it was promised.
            let harmed = place.disk.harmed.ever() || place.disk.decayed;
            let lost = place.promises.taken_up(found).filter(|_| harmed);
            let map = node.cluster_map();
            let known = |a: &Attendance| {
                a.forgot.contains(&id) || a.stale_since.get(&id) == Some(&Timestamp::ZERO)
            };
            let known = map.attendance.values().any(known);
            self.unremembered |= lost == Some(Forgotten::ByAll) && !known;
            if lost == Some(Forgotten::Unheard) && !known {
                self.unheard.get_or_insert(now);
            }
        }
        place.promises.note(now, reached);
    }

    /// How many writes of hosts a worker remembers.
    pub fn remembered_writes(&self) -> usize {
        self.config.remembered_writes
    }

    /// A time before all that a node issues from now on.
    pub fn reading(&mut self, id: NodeId) -> Timestamp {
        let clock = self.clock(id);
        let node = self.places[usize::from(id.0)].node.as_mut();
        let reading = node.map_or(Timestamp::reading(clock, id), |n| n.reading(clock));
        Timestamp::new(reading.micros(), NodeId(0))
    }

    /// What a node's clock shows.
    pub fn clock(&self, id: NodeId) -> Nanos {
        let (now, place) = (self.now(), &self.places[usize::from(id.0)]);
        let drift = now as i64 / 1_000_000 * place.drift_ppm;
        (now + place.clock_offset).saturating_add_signed(drift)
    }

    fn outputs(&mut self, id: NodeId, out: Vec<Output>) {
        // A node that has ended has nothing more to say.
        let _ = drive(self, id, out);
    }

    fn chance(&mut self, ppm: u32) -> bool {
        ppm > 0 && self.rng.u32(0..1_000_000) < ppm
    }
}

/// Some are years ahead: a machine may have been set up so, or have lost its battery.
fn any_clock(rng: &mut Rng) -> Nanos {
    let wrong = if rng.u8(0..8) == 0 { rng.u64(0..HUNDRED_YEARS) } else { 0 };
    MANY_HOURS + wrong + rng.u64(0..TWO_HOURS)
}

fn describe(e: &Envelope) -> String {
    let notices = if e.notices.is_empty() { String::new() } else { format!(" {:?}", e.notices) };
    let body = e.body.as_ref().map_or(String::new(), |b| {
        let mut text = format!("{b:?}");
        // Bulk data is not worth reading.
        while let Some(at) = text.find("Bytes(b\"") {
            let end = text[at..].find("\")").map_or(text.len(), |n| at + n + 2);
            text.replace_range(at..end, "..");
        }
        text
    });
    format!("{} -> {} @{}: {body}{notices}", e.from.0, e.to.0, e.epoch)
}

fn brief(message: &MapMessage) -> String {
    match message {
        MapMessage::Freeze { epoch } => format!("freeze for epoch {epoch}"),
        MapMessage::Enter { map, .. } => {
            let up: Vec<u16> = map.up().map(|n| n.0).collect();
            let stale = |n: &&u16| map.is_stale(NodeId(**n));
            let stale: Vec<u16> = up.iter().filter(stale).copied().collect();
            let asleep = map.volumes.values().filter(|v| map.is_asleep(v)).count();
            let rest = map.volumes.values().filter(|v| map.rests(v)).count();
            format!(
                "enter epoch {}, up {up:?}, stale {stale:?}, {asleep} asleep, {rest} of them at rest",
                map.epoch
            )
        }
    }
}

impl Drop for World {
    /// What a node notices by itself is a panic: whoever wants the story is told it then too.
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.story.iter().for_each(|line| eprintln!("{line}"));
        }
    }
}
