//! A state of the small world: nodes, disks, links, the authority, hosts; what can happen next in it,
//! and what it becomes then.
//!
//! Nothing here is drawn by chance. Links between two nodes, and between a node and the authority,
//! deliver in order, each packet once (docs/internals/transport.md); between different pairs any order is
//! possible. Time stands still while anything else can happen.
//!
//! - this file: a state; nodes that start, die and do what they do
//! - [`choices`]: what can happen next, and making it happen
//! - [`environment`]: what becomes of what nodes put out
//! - [`links`]: what travels between nodes and the authority

mod choices;
mod environment;
mod links;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use weft_core::cluster::{
    Arrival, Authority, AuthorityInput, AuthorityOutput, ClusterMap, NodeInfo, Volume,
};
use weft_core::node::{
    Envelope, FillRates, HostOp, Input, MapMessage, MemberReport, Node, NodeConfig, Output,
    Standing, Timer, drive,
};
use weft_core::store::{JournalStore, StoreConfig, Superblock};
use weft_core::units::{MILLIS, Nanos, NodeId, Timestamp};

use super::disk::{Disk, Left};
use super::hosts::Hosts;
use super::ledger::Ledger;
use super::print::print;
use super::setup::{Setup, VOLUME};
use super::story;
use super::{Bounds, Choice, End};

/// The cluster that the disks belong to.
const CLUSTER: u128 = 0x0057_6566_7401;
/// Sectors of a disk, and of its journal: so few that the table is one page.
const SECTORS: u64 = 700;
const JOURNAL: u64 = 64;
/// For so long time passes where parity waits. Who remembers something for a node that is away looks after it again and
/// again, so such a state never comes to rest by itself.
const LOOKED_AFTER: Nanos = 150 * MILLIS;
/// When the world begins: far enough from zero for windows that look back.
const BEGIN: Nanos = 1_000_000 * MILLIS;

/// What travels on links.
#[derive(Clone, Debug, Hash)]
pub(super) enum Packet {
    Message(Envelope),
    Tell(MapMessage),
    Report(MemberReport),
    /// A node's disk is open.
    Ready(Arrival),
    /// The sender is found dead.
    Missed,
}

/// A packet with its fingerprint.
type Printed = Arc<(Packet, u64)>;

/// A node's place.
#[derive(Clone, Default)]
struct Place {
    node: Option<Node>,
    disk: Disk,
    timers: BTreeMap<Timer, Nanos>,
    /// Follows from the node: the map that it goes by, and its writes.
    map: Option<Arc<ClusterMap>>,
    writes: BTreeMap<Timestamp, Standing>,
}

/// The authority, and the map that it has stored.
#[derive(Clone, Hash)]
struct Seat {
    authority: Authority,
    stored: Arc<ClusterMap>,
    /// Nodes that have yet to be ready at a start of everything.
    awaited: BTreeSet<NodeId>,
    arrivals: Vec<Arrival>,
}

/// Faults that may still happen.
#[derive(Clone, Copy, Debug, Hash)]
struct Budget {
    crashes: u8,
    power_cuts: u8,
    early_returns: u8,
    early_timers: u8,
    losses: u8,
}

/// A state.
#[derive(Clone)]
pub(super) struct State {
    now: Nanos,
    /// Time passes until then.
    until: Nanos,
    places: Vec<Arc<Place>>,
    prints: Vec<u64>,
    seat: Arc<Seat>,
    seat_print: u64,
    links: BTreeMap<(End, End), VecDeque<Printed>>,
    pub hosts: Arc<Hosts>,
    pub ledger: Arc<Ledger>,
    budget: Budget,
    /// What happened, if it is to be told.
    pub story: Option<Vec<String>>,
    config: NodeConfig,
    rule: bool,
    ahead: Option<NodeId>,
    pub volume: Arc<Volume>,
}

impl State {
    /// The state in which exploring begins: all nodes run, every block has been written once,
    /// and everything is at rest.
    pub fn new(setup: &Setup, bounds: &Bounds) -> Result<State, String> {
        let config = NodeConfig {
            store: StoreConfig { table_pages: 4, ..StoreConfig::default() },
            notice_delay: MILLIS,
            patience: 40 * MILLIS,
            place_after: 10 * MILLIS,
            bug: bounds.bug,
            fill: FillRates::UNBOUNDED,
            ..NodeConfig::default()
        };
        let volume = Arc::new(setup.volume());
        let map = ClusterMap {
            nodes: vec![NodeInfo::unseen(); setup.nodes],
            volumes: [(VOLUME, volume.clone())].into(),
            ..ClusterMap::default()
        };
        let mut state = State {
            now: BEGIN,
            until: Nanos::MAX,
            places: Vec::new(),
            prints: vec![0; setup.nodes],
            seat: Arc::new(Seat {
                authority: Authority::new(map.clone()),
                stored: Arc::new(map),
                awaited: BTreeSet::new(),
                arrivals: Vec::new(),
            }),
            seat_print: 0,
            links: BTreeMap::new(),
            hosts: Arc::default(),
            ledger: Arc::default(),
            budget: Budget {
                crashes: 0,
                power_cuts: 0,
                early_returns: 0,
                early_timers: 0,
                losses: 0,
            },
            story: None,
            config,
            rule: bounds.rule,
            ahead: setup.ahead,
            volume,
        };
        for n in 0..setup.nodes as u16 {
            let superblock =
                Superblock::divide(CLUSTER, n, 1, SECTORS, JOURNAL).expect("a fair size");
            let superblock = Superblock { journal: JOURNAL, ..superblock };
            let mut place = Place::default();
            JournalStore::format(&superblock).for_each(|op| place.disk.apply_now(op));
            state.places.push(Arc::new(place));
        }
        state.start_everything()?;
        state.rest()?;
        let (id, op) = Arc::make_mut(&mut state.hosts).fill(&state.volume);
        state.input(NodeId(0), Input::Host(id, VOLUME, op))?;
        state.rest()?;
        Arc::make_mut(&mut state.hosts).let_in(setup);
        state.let_time_pass();
        state.ledger = Arc::default();
        state.budget = Budget {
            crashes: bounds.crashes,
            power_cuts: bounds.power_cuts,
            early_returns: bounds.early_returns,
            early_timers: bounds.early_timers,
            losses: bounds.losses,
        };
        Ok(state)
    }

    /// Its fingerprint: states with the same one go on in the same way.
    pub fn print(&self) -> u64 {
        let links: Vec<_> = self
            .links
            .iter()
            .map(|(ends, queue)| (*ends, queue.iter().map(|p| p.1).collect::<Vec<u64>>()))
            .collect();
        print(&(
            (self.now, self.until, &self.prints, self.seat_print),
            (links, &self.hosts, &self.ledger),
            self.budget,
        ))
    }

    fn node(&self, n: NodeId) -> &Place {
        &self.places[usize::from(n.0)]
    }

    fn nodes(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.places.len() as u16).map(NodeId)
    }

    /// Whether a node runs.
    pub fn runs(&self, n: NodeId) -> bool {
        self.node(n).node.is_some()
    }

    /// The nodes that run.
    pub fn running(&self) -> Vec<NodeId> {
        self.nodes().filter(|n| self.runs(*n)).collect()
    }

    /// The nodes that are down.
    pub fn down(&self) -> Vec<NodeId> {
        self.nodes().filter(|n| !self.runs(*n)).collect()
    }

    /// Whether something may not be there now: parity waits, and a node is away or has yet to catch up.
    pub fn may_be_lost(&self) -> bool {
        let map = self.seat.authority.map();
        let away = |n| !self.runs(n) || !map.is_up(n) || map.is_stale(n);
        self.volume.policy.redundancy.defers() && self.nodes().any(away)
    }

    /// What is not as it should be once all nodes are back and everything is at rest.
    pub fn not_whole(&self) -> Option<String> {
        let map = self.seat.authority.map();
        self.nodes().find_map(|n| {
            if !map.is_up(n) || map.is_stale(n) {
                return Some(format!("{n} is not up and current in the map"));
            }
            let status = self.node(n).node.as_ref().map(Node::status)?;
            (!status.quiet).then(|| format!("{n} is not at rest: {}", status.waiting))
        })
    }

    /// The content of a column's unit of a stripe on its disk.
    pub fn on_disk(&self, stripe: u64, column: usize) -> Vec<u8> {
        let superblock = Superblock::divide(CLUSTER, 0, 1, SECTORS, JOURNAL).expect("a fair size");
        let data = Superblock { journal: JOURNAL, ..superblock }.data_start();
        let node = self.volume.extent(stripe).columns[column].0;
        let place = self.node(node);
        place.disk.read(data + self.volume.sector(stripe, column), 1).to_bytes().to_vec()
    }

    /// Adds a line to the story.
    pub fn tell(&mut self, line: impl FnOnce() -> String) {
        if let Some(story) = &mut self.story {
            story.push(line());
        }
    }

    /// Goes on without faults or delays until nothing more happens.
    pub fn rest(&mut self) -> Result<(), String> {
        const MOST: usize = 20_000;
        self.let_time_pass();
        for _ in 0..MOST {
            let Some(step) = self.steps().into_iter().next() else { return Ok(()) };
            self.apply(&step)?;
        }
        Err(format!("does not come to rest in {MOST} steps"))
    }

    fn let_time_pass(&mut self) {
        if self.volume.policy.redundancy.defers() {
            self.until = self.now + LOOKED_AFTER;
        }
    }

    /// Starts a node that is down. It comes up at once: what it does until its disk is open has to
    /// do with nobody else.
    pub fn start(&mut self, n: NodeId) -> Result<(), String> {
        self.tell(|| format!("{n} STARTS"));
        // If nobody has missed it yet, nobody will.
        let to = (End::Node(n), End::Authority);
        if let Some(queue) = self.links.get_mut(&to) {
            queue.retain(|p| !matches!(p.0, Packet::Missed));
            if queue.is_empty() {
                self.links.remove(&to);
            }
        }
        let mut node = Node::new(n, CLUSTER, SECTORS, self.config);
        let mut out = Vec::new();
        node.start(&mut out);
        self.place(n).node = Some(node);
        self.absorb(n, out)?;
        let next = |state: &State| state.node(n).disk.under_way().next();
        while let Some(id) = next(self) {
            let result = self.place(n).disk.finish(id);
            self.input(n, Input::Disk(id, result))?;
        }
        let found = self.node(n).writes.clone();
        Arc::make_mut(&mut self.ledger).recovered(n, &found);
        Ok(())
    }

    fn start_everything(&mut self) -> Result<(), String> {
        let seat = Arc::make_mut(&mut self.seat);
        seat.authority = Authority::new((*seat.stored).clone());
        seat.awaited = (0..self.places.len() as u16).map(NodeId).collect();
        seat.arrivals.clear();
        self.nodes().try_for_each(|n| self.start(n))
    }

    fn crash(&mut self, n: NodeId, left: Left) {
        self.tell(|| format!("{n} DIES; its disk keeps {left:?}"));
        Arc::make_mut(&mut self.ledger).died(n);
        Arc::make_mut(&mut self.hosts).died(n);
        let place = self.place(n);
        let mut disk = std::mem::take(&mut place.disk);
        disk.crash(left);
        *place = Place { disk, ..Place::default() };
        self.reprint(n);
        self.links.retain(|(_, to), _| *to != End::Node(n));
    }

    fn place(&mut self, n: NodeId) -> &mut Place {
        Arc::make_mut(&mut self.places[usize::from(n.0)])
    }

    fn reprint(&mut self, n: NodeId) {
        let place = self.node(n);
        self.prints[usize::from(n.0)] = print(&(&place.node, &place.disk, &place.timers));
    }

    /// Hands a node an input.
    pub fn input(&mut self, n: NodeId, input: Input) -> Result<(), String> {
        let now = self.now + if self.ahead == Some(n) { MILLIS } else { 0 };
        let Some(node) = &mut self.place(n).node else { return Ok(()) };
        let mut out = Vec::new();
        crate::checked::handle_small(node, now, input, &mut out);
        self.absorb(n, out)
    }

    /// Does what a node wants done.
    fn absorb(&mut self, n: NodeId, out: Vec<Output>) -> Result<(), String> {
        drive(self, n, out)?;
        self.keep_ledger(n)?;
        self.reprint(n);
        Ok(())
    }

    fn keep_ledger(&mut self, n: NodeId) -> Result<(), String> {
        let place = &self.places[usize::from(n.0)];
        let Some(node) = &place.node else { return Ok(()) };
        let before = &place.writes;
        if node.writes().eq(before.iter().map(|(ts, s)| (*ts, *s))) {
            return Ok(());
        }
        let after: BTreeMap<_, _> = node.writes().collect();
        let judged = match &place.map {
            None => Ok(()),
            Some(map) => {
                let (volume, map) = (self.volume.clone(), map.clone());
                Arc::make_mut(&mut self.ledger).changed(n, &volume, &map, before, &after)
            }
        };
        self.place(n).writes = after;
        if self.rule { judged } else { Ok(()) }
    }
}
