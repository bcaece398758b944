//! A world of processes: each has a member of the group that keeps the map, and a node or several.
//! What a process decides (its member, its lease, what its nodes may be handed and may say) is the
//! code that runs in the real world, [`Process`] and [`Gate`]; here are the log, the clock and the
//! network, and what goes wrong with them. A process goes by the number of its first node; where
//! one is asked for, any node of it will do.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use weft_core::cluster::{Change, ClusterMap};
use weft_core::node::{Envelope, HostData, HostError, Input, MapMessage, Node};
use weft_core::units::{Epoch, MILLIS, Nanos, NodeId};
use weft_member::{
    Config, Effect, Gate, Input as Heard, LogDisk, MapCodec, MemberId, Process, Stored,
    epoch_parts, member_of, node_of,
};

use super::{Comings, Crew, Event, MICROS, World, brief};
use logs::first_log;
use ways::Ways;
use weft_route::Word;

mod effects;
mod links;
mod lives;
mod logs;
mod ways;
mod wishes;

/// A packet that was lost is sent again after this part of the time after which silence is a death:
/// TCP waits 200 ms at least (Linux, TCP_RTO_MIN), and a death is believed after 1.1 s.
const RETRANSMISSIONS: Nanos = 5;

/// How soon an operator looks what became of a wish.
const LOOK_AGAIN: Nanos = 5 * MILLIS;

/// What happens to a process.
#[derive(Clone, Debug)]
pub enum Happens {
    /// A message from another member arrives.
    Member(MemberId, Vec<u8>),
    /// There is a connection to another process, or not any more.
    Connection(MemberId, bool),
    /// Its member is to be woken; the number tells whether that still holds.
    Wake(u64),
    /// A step of what its member wanted written is durable: the log, or then its witness; the next takes so long.
    Written(Nanos),
    /// A host asks something of a node in this life of it: with that its connection ends.
    Host(u64, Box<Input>),
    /// It looks after the group, as it does now and then.
    Follow,
    /// It opens the disk of the node again.
    Open,
    /// A neighbour in this life of it says something of links and circuits.
    Word(NodeId, u64, Word),
    /// Its router looks which links are good.
    Steer,
}

/// Maps by number, in place of an encoding: that is tested where it is.
#[derive(Default)]
struct Maps(Mutex<Vec<ClusterMap>>);

impl MapCodec for Maps {
    fn encode(&self, map: &ClusterMap) -> Vec<u8> {
        let mut maps = self.0.lock().unwrap_or_else(|e| e.into_inner());
        let known = maps.iter().rposition(|m| m == map);
        let n = known.unwrap_or_else(|| {
            maps.push(map.clone());
            maps.len() - 1
        });
        (n as u32).to_le_bytes().to_vec()
    }

    fn decode(&self, bytes: &[u8]) -> Option<ClusterMap> {
        let n = u32::from_le_bytes(bytes.try_into().ok()?);
        self.0.lock().unwrap_or_else(|e| e.into_inner()).get(n as usize).cloned()
    }
}

/// A clock that the others know nothing of, and that runs too fast or too slow.
#[derive(Clone, Copy, Debug)]
struct Drifting {
    /// What it showed.
    base: Nanos,
    /// When.
    since: Nanos,
    /// Parts of a million that it is too fast.
    rate_ppm: i64,
}

impl Drifting {
    fn at(&self, now: Nanos) -> Nanos {
        let passed = i128::from(now - self.since) * i128::from(1_000_000 + self.rate_ppm);
        self.base + (passed / 1_000_000) as Nanos
    }

    /// How long until it shows `at`.
    fn until(&self, now: Nanos, at: Nanos) -> Nanos {
        let wait = u128::from(at.saturating_sub(self.at(now)));
        (wait * 1_000_000 / (1_000_000 + self.rate_ppm) as u128) as Nanos + 1
    }
}

/// An answer to a host: request, result.
type Answer = (u64, Result<HostData, HostError>);

/// Where a process is, and the process while it lives.
struct Seat {
    process: Option<Process>,
    gate: Gate<Answer>,
    /// Counts lives of the process.
    life: u64,
    /// The member's log.
    log: LogDisk,
    clock: Drifting,
    paused_until: Nanos,
    wakes: u64,
    /// For when the last of them is, by its clock.
    armed: Nanos,
    /// The last map that it knew to be agreed on in this life.
    agreed: Epoch,
    /// Hosts are let in.
    open: bool,
}

/// Something that an operator wants done, and whom it was asked of: node, its life, the ticket.
struct Wish {
    change: Change,
    asked: Option<(NodeId, u64, u64)>,
    done: bool,
}

/// The processes and what lies between them.
pub(super) struct Together {
    config: Config,
    codec: Arc<Maps>,
    /// How many nodes are in which processes.
    crew: Crew,
    /// By process; those with the numbers of other nodes are empty.
    seats: Vec<Seat>,
    /// Links that carry nothing, by sender and receiver, and how often each has been cut.
    cut: BTreeMap<(NodeId, NodeId), u32>,
    /// When the last word arrives from one process at another.
    words: BTreeMap<(NodeId, NodeId), Nanos>,
    /// Ways round broken links, if there are any in this world.
    ways: Option<Box<Ways>>,
    /// Processes whose links lose packets: how many of a million.
    lossy: BTreeMap<NodeId, u32>,
    /// Processes that hear much of what other members say late: by up to so long.
    late: BTreeMap<NodeId, Nanos>,
    /// In which life each node was last told to stop for a new epoch.
    stopped: BTreeMap<NodeId, u64>,
    /// When the last of what went over such a link arrives.
    streams: BTreeMap<(NodeId, NodeId), Nanos>,
    /// Every map that was agreed on.
    agreed: BTreeMap<Epoch, Arc<ClusterMap>>,
    /// The newest of them.
    newest: Arc<ClusterMap>,
    /// The map that the next one is made from: the last that took effect; or if another leads now, that was agreed on. One
    /// may be agreed on and never take effect, because its leader has begun another meanwhile.
    base: Arc<ClusterMap>,
    /// Who led in each term.
    leaders: BTreeMap<u64, MemberId>,
    wishes: Vec<Wish>,
    /// How much slower members' logs are than disks.
    log_times: u64,
    /// Clocks keep to no bound: leases promise nothing.
    keeps_no_bound: bool,
    /// How often a process was told that the map changes, and that it has changed.
    changes: (u64, u64),
    /// Members whose logs were damaged.
    forgetful: BTreeSet<MemberId>,
    /// What must never be, and was.
    wrong: Option<String>,
}

impl Together {
    /// A message has arrived at the process of the node that it is for.
    pub(super) fn letter(&mut self, envelope: Envelope) {
        let process = self.crew.process_of(envelope.to);
        self.seats[usize::from(process.0)].gate.letter(Box::new(envelope));
    }
}

impl World {
    /// Puts the nodes of a world that has not started into processes; the first founds the cluster
    /// and the others join it.
    pub(super) fn gather(&mut self, config: Config, crew: Crew) {
        let mut together = Box::new(Together {
            config,
            codec: Arc::new(Maps::default()),
            crew,
            seats: Vec::new(),
            cut: BTreeMap::new(),
            words: BTreeMap::new(),
            ways: None,
            lossy: BTreeMap::new(),
            late: BTreeMap::new(),
            stopped: BTreeMap::new(),
            streams: BTreeMap::new(),
            agreed: BTreeMap::new(),
            newest: self.stored.clone(),
            base: self.stored.clone(),
            leaders: BTreeMap::new(),
            wishes: Vec::new(),
            log_times: 2,
            keeps_no_bound: false,
            changes: (0, 0),
            forgetful: BTreeSet::new(),
            wrong: None,
        });
        let codec = together.codec.clone();
        let mut map = (*self.stored).clone();
        assert!(crew.later == 0 || (crew.attached == 0 && crew.hosted == 1), "see Crew::later");
        map.nodes.truncate(map.nodes.len() - crew.later);
        for (node, info) in (0..).map(NodeId).zip(&mut map.nodes) {
            let first = together.crew.process_of(node);
            info.process = (first != node).then_some(first);
        }
        self.stored = Arc::new(map.clone());
        together.newest = self.stored.clone();
        together.base = self.stored.clone();
        let seats = (0..self.places.len()).map(|n| {
            let (node, founds) = (NodeId(n as u16), n == 0);
            let stored = match founds {
                true => Stored::founded(member_of(node), &map, &*codec),
                false => Stored::empty(),
            };
            let log = first_log(node, stored, config, codec.clone());
            let base = self.rng.u64(0..1_000_000 * MILLIS);
            Seat {
                process: None,
                gate: Gate::default(),
                life: 0,
                log,
                clock: Drifting { base, since: 0, rate_ppm: 0 },
                paused_until: 0,
                wakes: 0,
                armed: 0,
                agreed: 0,
                open: false,
            }
        });
        together.seats = seats.collect();
        self.together = Some(together);
    }

    fn together(&self) -> &Together {
        self.together.as_ref().expect("a world of processes")
    }

    fn together_mut(&mut self) -> &mut Together {
        self.together.as_mut().expect("a world of processes")
    }

    fn seat(&self, id: NodeId) -> &Seat {
        let process = self.process_of(id);
        &self.together().seats[usize::from(process.0)]
    }

    fn seat_mut(&mut self, id: NodeId) -> &mut Seat {
        let process = self.process_of(id);
        &mut self.together_mut().seats[usize::from(process.0)]
    }

    fn all_nodes(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.places.len() as u16).map(NodeId)
    }

    /// The process of a node; in a world without processes, its own number.
    pub fn process_of(&self, node: NodeId) -> NodeId {
        self.together.as_ref().map_or(node, |t| t.crew.process_of(node))
    }

    /// The processes; in a world without, the nodes.
    pub fn processes(&self) -> Vec<NodeId> {
        self.all_nodes().filter(|n| self.process_of(*n) == *n).collect()
    }

    /// The nodes of the process of a node: that one, and those that belong to the cluster.
    pub fn hosted_with(&self, node: NodeId) -> Vec<NodeId> {
        let process = self.process_of(node);
        let there = |n: &NodeId| *n == node || self.belongs(*n);
        self.all_nodes().filter(|n| self.process_of(*n) == process).filter(there).collect()
    }

    /// Whether a node that was admitted can start now: by itself, or in a process that runs.
    pub(super) fn can_join(&self, id: NodeId) -> bool {
        self.process_of(id) == id || self.has_process(id)
    }

    pub(super) fn happens(&mut self, id: NodeId, after: Nanos, what: Happens) {
        let life = self.seat(id).life;
        self.queue.push(after, Event::Process(id, life, what));
    }

    /// The newest map that was agreed on.
    pub(super) fn newest_map(&self) -> &ClusterMap {
        &self.together().newest
    }

    /// Members' logs are so many times slower than disks.
    pub fn set_log_times(&mut self, times: u64) {
        self.together_mut().log_times = times;
    }

    /// What must never be and was, if anything: two maps at an epoch, two leaders in a term, a
    /// process that hears the map go back.
    pub fn take_wrong(&mut self) -> Option<String> {
        self.together.as_mut()?.wrong.take()
    }

    /// How often a process was told that the map changes, and that it has changed.
    pub fn changes(&self) -> (u64, u64) {
        self.together.as_ref().map_or((0, 0), |t| t.changes)
    }

    /// How many terms had a leader, and how many maps were agreed on.
    pub fn terms_and_maps(&self) -> (u64, u64) {
        self.together.as_ref().map_or((0, 0), |t| (t.leaders.len() as u64, t.agreed.len() as u64))
    }

    /// Who has come since the beginning, and who has left.
    pub fn comings(&self) -> Comings {
        let Some(together) = &self.together else { return Comings::default() };
        let (nodes, crew) = (&together.newest.nodes, &together.crew);
        let joined = (nodes.len() + crew.later - self.places.len()) as u64;
        Comings {
            joined,
            added: if crew.added { joined } else { 0 },
            left: nodes.iter().filter(|info| info.removed).count() as u64,
        }
    }

    /// Whether a process is stopped.
    pub fn is_paused(&self, id: NodeId) -> bool {
        self.together.is_some() && self.seat(id).paused_until > self.now()
    }

    /// Whether a node lets hosts in: in a cluster it does so when it serves and no volume waits
    /// for other nodes; then until its process ends.
    pub fn is_open(&self, id: NodeId) -> bool {
        self.runs(id) && (self.together.is_none() || self.seat(id).open)
    }

    /// Who leads, as far as the one with the highest term knows.
    pub fn leader(&self) -> Option<NodeId> {
        let statuses = self.together.as_ref()?.seats.iter().filter_map(|s| s.process.as_ref());
        let leads = statuses.map(Process::status).filter_map(|s| Some((s.term, s.leader?)));
        leads.max().map(|(_, leader)| node_of(leader))
    }

    /// Whether everybody has the newest map, serves in it and may, and somebody leads.
    pub fn is_united(&self) -> bool {
        let Some(together) = &self.together else { return true };
        let epoch = together.newest.epoch;
        let united = |id: NodeId| {
            let node = self.places[usize::from(id.0)].node.as_ref();
            let process = self.seat(id).process.as_ref();
            let agrees =
                process.is_some_and(|p| p.map().epoch == epoch && p.status().leader.is_some());
            agrees && self.may_serve(id) && node.is_some_and(|n| n.serves_in(epoch))
        };
        self.leader().is_some() && self.all_nodes().filter(|n| self.belongs(*n)).all(united)
    }

    fn member_clock(&self, id: NodeId) -> Nanos {
        self.seat(id).clock.at(self.now())
    }

    fn may_serve(&self, id: NodeId) -> bool {
        self.seat(id).process.as_ref().is_some_and(|p| p.may_serve(self.member_clock(id)))
    }

    pub(super) fn happened(&mut self, id: NodeId, life: u64, what: Happens) {
        if self.seat(id).life != life || self.seat(id).process.is_none() {
            return;
        }
        match what {
            Happens::Member(from, bytes) => self.hear(id, Heard::Message(from, bytes)),
            Happens::Connection(other, true) => self.hear(id, Heard::Connected(other)),
            Happens::Connection(other, false) => self.hear(id, Heard::Disconnected(other)),
            Happens::Wake(number) if self.seat(id).wakes != number => return,
            Happens::Wake(_) => {
                self.seat_mut(id).armed = 0;
                self.hear(id, Heard::Tick);
            }
            Happens::Written(then) => match self.seat_mut(id).log.step() {
                Some(number) => self.hear(id, Heard::Persisted(number)),
                None => self.happens(id, then, Happens::Written(0)),
            },
            Happens::Host(life, _) if self.places[usize::from(id.0)].life != life => {}
            Happens::Host(_, input) => {
                let input = match *input {
                    // Two may overtake each other: the last one to arrive must tell the present state.
                    Input::Full(_) => Input::Full(self.is_full(id)),
                    input => input,
                };
                self.input(id, input);
            }
            Happens::Follow => {
                let clock = self.member_clock(id);
                if let Some(process) = &mut self.seat_mut(id).process {
                    process.follow_group(clock);
                }
                let every = self.together().config.probe_every;
                self.happens(id, every, Happens::Follow);
            }
            Happens::Word(from, life, word) => self.take_word(id, from, life, word),
            Happens::Steer => self.tick_way(id),
            Happens::Open => {
                if !self.runs(id) {
                    self.start_node(id);
                }
            }
        }
        self.turn(id);
    }

    /// Tells a process's member something.
    pub(super) fn hear(&mut self, id: NodeId, heard: Heard) {
        let clock = self.member_clock(id);
        if let Some(process) = &mut self.seat_mut(id).process {
            process.handle(clock, heard);
            process.check();
        }
    }

    /// A letter of a node to another, in its process or elsewhere.
    pub(super) fn through_gate(&mut self, id: NodeId, envelope: Box<Envelope>) {
        let near = self.process_of(envelope.to) == self.process_of(id);
        let gate = &mut self.seat_mut(id).gate;
        match near {
            true => gate.letter(envelope),
            false => gate.letter_out(envelope),
        }
    }

    pub(super) fn answer_through_gate(&mut self, id: NodeId, answer: Answer) {
        self.seat_mut(id).gate.answer(answer);
    }

    /// Does what there is to do in a process until nothing is left.
    pub(super) fn turn(&mut self, id: NodeId) {
        let id = self.process_of(id);
        loop {
            while let Some(effect) =
                self.seat_mut(id).process.as_mut().and_then(Process::next_effect)
            {
                self.take_effect(id, effect);
            }
            let may = self.may_serve(id);
            let seat = self.seat_mut(id);
            let next = seat.gate.next(|| may);
            let outgoing = seat.gate.take_outgoing(|| may);
            let answers = seat.gate.take_answers(|| may);
            outgoing.into_iter().for_each(|letter| self.send_letter(*letter));
            self.replies.extend(answers);
            match next {
                Some((node, input)) => self.input(node, input),
                None if self.seat(id).process.as_ref().is_some_and(Process::has_effects) => {}
                None => break,
            }
        }
        self.arm(id);
        self.let_hosts_in(id);
        self.watch(id);
    }

    /// Sets the time at which the member wants to be woken.
    fn arm(&mut self, id: NodeId) {
        let now = self.now();
        let seat = self.seat_mut(id);
        let Some(process) = seat.process.as_ref().filter(|p| p.wake() != seat.armed) else {
            return;
        };
        seat.armed = process.wake();
        let delay = seat.clock.until(now, seat.armed);
        seat.wakes += 1;
        let number = seat.wakes;
        self.happens(id, delay, Happens::Wake(number));
    }

    fn let_hosts_in(&mut self, id: NodeId) {
        if self.seat(id).open {
            return;
        }
        let Some(process) = &self.seat(id).process else { return };
        let map = process.map().clone();
        let nodes = self.hosted_with(id);
        let nodes = nodes.iter().filter_map(|n| self.places[usize::from(n.0)].node.as_ref());
        let mut nodes = nodes.peekable();
        let serves = nodes.peek().is_some() && nodes.all(|n| n.serves_in(map.epoch));
        let awake = map.volumes.values().all(|v| !map.lacks_nodes(v));
        self.seat_mut(id).open = serves && awake;
    }
}
