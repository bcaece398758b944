//! A small world of members: virtual time, one seed, and everything that may go wrong. Each
//! process has a member, nodes that do as they are told, a disk that tears what was not flushed,
//! and a clock that is off.

pub mod check;
pub mod faults;
mod operator;
mod setup;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fastrand::Rng;
use weft_core::cluster::{Arrival, ClusterMap, Volume};
use weft_core::node::{MapMessage, MemberReport, Memory, Undescribed};
use weft_core::units::{Epoch, MILLIS, Nanos, NodeId, Timestamp, VolumeId};
use weft_member::{
    Bug, Config, Input, LogDisk, Member, MemberId, Output, Stored, member_anew, member_of, node_of,
};

use check::Checks;
use operator::Asked;
use setup::Table;
pub use setup::first_map;

/// A node as far as the authority can see it.
#[derive(Default)]
pub struct ModelNode {
    pub life: u64,
    pub ready: bool,
    pub serving: bool,
    pub epoch: Epoch,
    coming: Epoch,
    /// The term of the last word.
    pub term: u64,
}

pub struct Process {
    pub member: Option<Member>,
    pub nodes: BTreeMap<NodeId, ModelNode>,
    pub removed: bool,
    log: LogDisk,
    /// How often its member has lost its log.
    anew: u64,
    pub life: u64,
    drift_ppm: i64,
    offset: Nanos,
    pub paused_until: Nanos,
    wakes: u64,
}

#[derive(Clone, Debug)]
pub enum Event {
    Deliver(MemberId, MemberId, Vec<u8>),
    /// The first loses its connection to the second.
    Disconnect(MemberId, MemberId),
    Wake(MemberId, u64),
    Written(MemberId, u64),
    Ready(MemberId, u64, NodeId),
    Report(MemberId, u64, NodeId, u64, Box<MemberReport>),
    Crash(MemberId, u64),
    Restart(MemberId, u64),
    Operator,
    Fault,
}

pub struct World {
    pub rng: Rng,
    pub now: Nanos,
    queue: BTreeMap<(Nanos, u64), Event>,
    order: u64,
    pub config: Config,
    pub processes: BTreeMap<MemberId, Process>,
    codec: Arc<Table>,
    /// Links that carry nothing, by sender and receiver.
    pub cut: BTreeSet<(MemberId, MemberId)>,
    pub loss_ppm: u32,
    /// How long nodes take to open their disks, if it is not left to chance.
    pub open_for: Nanos,
    pub faults: bool,
    /// The operator has work: processes to add, and whether volumes come and go.
    pub to_add: Vec<MemberId>,
    pub volumes: bool,
    volume: Volume,
    next_volume: u32,
    asked: BTreeMap<u64, Asked>,
    requests: u64,
    pub checks: Checks,
    pub story: Vec<String>,
}

pub const STEP: Nanos = MILLIS / 10;

impl World {
    /// A cluster of so many processes with one node each; the first founds it, the operator
    /// adds the others.
    pub fn new(seed: u64, size: usize, bug: Option<Bug>) -> World {
        World::of(seed, first_map(size), bug)
    }

    /// The same, of the nodes of a map.
    pub fn of(seed: u64, map: ClusterMap, bug: Option<Bug>) -> World {
        World::set(map, Config { seed, bug, snapshot_every: 8, ..Config::default() })
    }

    /// The same, with these settings.
    pub fn set(map: ClusterMap, config: Config) -> World {
        let mut rng = Rng::with_seed(config.seed);
        let codec = Arc::new(Table::default());
        let size = map.nodes.len();
        let volume = (*map.volumes[&VolumeId(0)]).clone();
        let processes = (1..=size as u64).map(|n| {
            let nodes = BTreeMap::from([(NodeId(n as u16 - 1), ModelNode::default())]);
            let drift = i64::from(config.drift_ppm);
            let process = Process {
                member: None,
                nodes,
                removed: false,
                log: LogDisk::new(MemberId(n)).with_bug(config.bug),
                anew: 0,
                life: 0,
                drift_ppm: [-drift, 0, drift][rng.usize(0..3)],
                offset: rng.u64(0..1_000_000 * MILLIS),
                paused_until: 0,
                wakes: 0,
            };
            (MemberId(n), process)
        });
        let processes: BTreeMap<MemberId, Process> = processes.collect();
        let mut world = World {
            rng,
            now: 0,
            queue: BTreeMap::new(),
            order: 0,
            config,
            to_add: processes.keys().skip(1).copied().collect(),
            processes,
            codec,
            cut: BTreeSet::new(),
            loss_ppm: 0,
            open_for: 0,
            faults: false,
            volumes: false,
            volume,
            next_volume: 1,
            asked: BTreeMap::new(),
            requests: 0,
            checks: Checks::default(),
            story: Vec::new(),
        };
        let stored = Stored::founded(MemberId(1), &map, &*world.codec);
        world.start(MemberId(1), stored);
        for n in 2..=size as u64 {
            world.start(MemberId(n), Stored::empty());
        }
        world.push(10 * MILLIS, Event::Operator);
        world
    }

    pub fn push(&mut self, after: Nanos, event: Event) {
        self.order += 1;
        self.queue.insert((self.now + after, self.order), event);
    }

    pub fn tell(&mut self, line: String) {
        self.story.push(format!("{:>10.3} ms  {line}", self.now as f64 / MILLIS as f64));
    }

    /// The clock of a process, now.
    pub fn clock(&self, id: MemberId) -> Nanos {
        let p = &self.processes[&id];
        let drift = (self.now as i128 * i128::from(p.drift_ppm) / 1_000_000) as i64;
        (p.offset + self.now).saturating_add_signed(drift)
    }

    /// How long until a process's clock shows `at`.
    fn until(&self, id: MemberId, at: Nanos) -> Nanos {
        let wait = at.saturating_sub(self.clock(id));
        (u128::from(wait) * 1_000_000 / (1_000_000 + self.processes[&id].drift_ppm) as u128) as u64
            + 1
    }

    fn start(&mut self, id: MemberId, stored: Stored) {
        let p = self.processes.get_mut(&id).unwrap();
        let nodes: Vec<NodeId> = p.nodes.keys().copied().collect();
        let id_now = stored.member().unwrap_or(id);
        let member = Member::new(id_now, &nodes, stored, self.config, self.codec.clone()).unwrap();
        p.member = Some(member);
        p.life += 1;
        let life = p.life;
        self.tell(format!("{id} starts"));
        for node in nodes {
            let delay = self.rng.u64(MILLIS..800 * MILLIS).max(self.open_for);
            self.push(delay, Event::Ready(id, life, node));
        }
        self.input(id, Input::Tick);
    }

    /// The process dies; of what its disk had not finished, anything may remain.
    pub fn crash(&mut self, id: MemberId) {
        let p = self.processes.get_mut(&id).unwrap();
        if p.member.take().is_none() {
            return;
        }
        p.life += 1;
        p.paused_until = 0;
        p.nodes.values_mut().for_each(|n| {
            *n = ModelNode { life: n.life + 1, ..ModelNode::default() };
        });
        p.log.crash(&mut |n| self.rng.usize(0..n));
        self.checks.crashed(id);
        self.tell(format!("{id} crashes"));
        self.disconnect(id);
    }

    /// Those that are not cut off from a process notice that their connection to it is gone.
    pub fn disconnect(&mut self, id: MemberId) {
        let others: Vec<MemberId> = self.processes.keys().copied().collect();
        for other in others {
            if other != id && !self.cut.contains(&(id, other)) {
                let delay = self.rng.u64(STEP..3 * MILLIS);
                self.push(delay, Event::Disconnect(other, id));
            }
        }
    }

    pub fn restart(&mut self, id: MemberId) {
        let p = &self.processes[&id];
        if p.member.is_none() && !p.removed {
            let stored = self.open(id);
            // A founder that lost its first write founds again; nobody knew of it.
            self.start(id, stored);
        }
    }

    /// What a process finds that starts. One whose log is damaged does not start; an operator sees that, and has
    /// it come back anew.
    fn open(&mut self, id: MemberId) -> Stored {
        let p = self.processes.get_mut(&id).unwrap();
        let why = match p.log.open() {
            Ok(stored) => return stored,
            Err(why) => why,
        };
        assert!(self.checks.lost.contains(&p.log.member()), "not damaged, and refused: {why}");
        p.anew += 1;
        let member = member_anew(node_of(id), p.anew);
        p.log = LogDisk::new(member);
        self.tell(format!("{id} is refused: {why}; it rejoins"));
        Stored::anew(member)
    }

    /// The log of a process that does not run is damaged, if the others bear it: in each group that one of them
    /// knows, those that have lost their logs are a minority with it.
    pub fn damage_log(&mut self, id: MemberId) {
        let p = &self.processes[&id];
        let lost = |m: &MemberId| self.checks.lost.contains(m);
        let borne = |q: &Process| {
            let Some(voters) = q.member.as_ref().map(|m| m.status().voters) else { return true };
            voters.is_empty() || voters.iter().filter(|m| lost(m)).count() < (voters.len() - 1) / 2
        };
        let leads = self.leader().is_some_and(|l| l != id);
        if p.member.is_some() || p.removed || !leads || !self.processes.values().all(borne) {
            return;
        }
        let p = self.processes.get_mut(&id).unwrap();
        let what = p.log.damage(&mut |n| self.rng.usize(0..n));
        if p.log.is_lost() {
            self.checks.lost.insert(p.log.member());
            self.checks.damaged += 1;
        }
        self.tell(format!("damage to the log of {id}: {what}"));
    }

    /// The log of a process that does not run is emptied.
    pub fn empty_log(&mut self, id: MemberId) {
        let p = self.processes.get_mut(&id).unwrap();
        assert_eq!(p.log.damage(&mut |n| n.min(5) - 1), "emptied");
        self.checks.lost.insert(p.log.member());
    }

    /// A process that does not run founds the cluster anew with the newest map.
    pub fn refound(&mut self, id: MemberId) {
        let term = self.checks.terms + 1000;
        let map = self.checks.agreed.last_key_value().unwrap().1.clone();
        let p = self.processes.get_mut(&id).unwrap();
        p.anew += 1;
        let member = member_anew(node_of(id), p.anew);
        p.log = LogDisk::new(member);
        let stored = Stored::founded_after(member, &map, &*self.codec, term);
        assert_eq!(stored.map(&*self.codec).as_ref(), Some(&*map));
        self.start(id, stored);
    }

    pub fn pause(&mut self, id: MemberId, time: Nanos) {
        self.tell(format!("{id} is stopped for {} ms", time / MILLIS));
        self.processes.get_mut(&id).unwrap().paused_until = self.now + time;
    }

    /// A node dies, and opens its disk again.
    pub fn kill_node(&mut self, id: MemberId, node: NodeId) {
        if self.end_node(id, node) {
            let (life, delay) = (self.processes[&id].life, self.rng.u64(MILLIS..3000 * MILLIS));
            self.push(delay, Event::Ready(id, life, node));
        }
    }

    /// A node dies for good, if it runs; says whether.
    pub fn end_node(&mut self, id: MemberId, node: NodeId) -> bool {
        let p = self.processes.get_mut(&id).unwrap();
        let n = p.nodes.get_mut(&node).unwrap();
        if p.member.is_none() || !n.ready || p.paused_until > self.now {
            return false;
        }
        *n = ModelNode { life: n.life + 1, ..ModelNode::default() };
        self.tell(format!("{node} dies"));
        self.input(id, Input::NodeDied(node));
        true
    }

    pub fn run_until(&mut self, time: Nanos) {
        while let Some(entry) = self.queue.first_entry() {
            if entry.key().0 > time {
                break;
            }
            self.now = entry.key().0;
            let event = entry.remove();
            self.step(event);
        }
        self.now = time;
    }

    fn step(&mut self, event: Event) {
        let target = match &event {
            Event::Deliver(_, to, _) => Some(*to),
            Event::Disconnect(id, _) => Some(*id),
            Event::Wake(id, _) | Event::Written(id, _) => Some(*id),
            Event::Ready(id, ..) | Event::Report(id, ..) => Some(*id),
            Event::Crash(..) | Event::Restart(..) | Event::Operator | Event::Fault => None,
        };
        if let Some(paused_until) = target.map(|t| self.processes[&t].paused_until)
            && paused_until > self.now
        {
            self.push(paused_until - self.now, event);
            return;
        }
        match event {
            Event::Deliver(from, to, bytes) => self.input(to, Input::Message(from, bytes)),
            Event::Disconnect(id, from) => self.input(id, Input::Disconnected(from)),
            Event::Wake(id, wakes) => {
                if self.processes[&id].wakes == wakes {
                    self.input(id, Input::Tick);
                }
            }
            Event::Written(id, life) => {
                let p = self.processes.get_mut(&id).unwrap();
                if p.life != life {
                    return;
                }
                match p.log.step() {
                    Some(number) => self.input(id, Input::Persisted(number)),
                    None => self.write(id, life),
                }
            }
            Event::Ready(id, life, node) => {
                let p = self.processes.get_mut(&id).unwrap();
                if p.life == life && !p.removed {
                    p.nodes.get_mut(&node).unwrap().ready = true;
                    let arrival = Arrival { node, disk: 1, sectors: 1 << 20 };
                    self.input(id, Input::NodeReady(arrival));
                }
            }
            Event::Report(id, life, node, node_life, report) => {
                let p = &self.processes[&id];
                if p.life == life && p.nodes[&node].life == node_life {
                    self.input(id, Input::Report(node, *report));
                }
            }
            Event::Crash(id, life) => {
                if self.processes[&id].life == life {
                    self.crash(id);
                    let down = self.rng.u64(1..500) * MILLIS;
                    self.push(down, Event::Restart(id, life + 1));
                }
            }
            Event::Restart(id, life) => {
                if self.processes[&id].life == life {
                    self.restart(id);
                }
            }
            Event::Operator => self.operate(),
            Event::Fault => faults::fault(self),
        }
    }

    pub fn input(&mut self, id: MemberId, input: Input) {
        let clock = self.clock(id);
        let Some(member) = &mut self.processes.get_mut(&id).unwrap().member else { return };
        let mut out = Vec::new();
        member.handle(clock, input, &mut out);
        member.check();
        for output in out {
            self.checks.count(&output);
            self.output(id, output);
        }
        check::after(self, id);
    }

    fn output(&mut self, id: MemberId, output: Output) {
        let life = self.processes[&id].life;
        match output {
            Output::Send(to, bytes) => self.send(id, to, bytes),
            Output::Persist(number, write) => {
                self.processes.get_mut(&id).unwrap().log.write(number, write);
                self.write(id, life);
            }
            Output::Tell(node, message) => self.word(id, node, message),
            Output::Restart(node) => {
                check::restarts(self, id, node);
                self.kill_node(id, node);
            }
            Output::Wake(at) => {
                let delay = self.until(id, at);
                let p = self.processes.get_mut(&id).unwrap();
                p.wakes += 1;
                let wakes = p.wakes;
                self.push(delay, Event::Wake(id, wakes));
            }
            Output::Answer(request, result) => self.answered(request, result),
            Output::Agreed(map) => {
                let line = check::agreed(self, id, &map);
                self.tell(line);
            }
            Output::Stop(why) => panic!("{id} stops: {why}"),
            Output::Suspend => self.tell(format!("{id} suspends")),
            Output::Resume => self.tell(format!("{id} resumes")),
            Output::Log(note) => {
                let level = if note.is_warning { "warning" } else { "info" };
                self.tell(format!("{id}: {level}: {note}"));
            }
        }
    }

    /// A step of a write takes its time.
    fn write(&mut self, id: MemberId, life: u64) {
        let slow = if self.faults && self.rng.u32(0..50) == 0 { 20 } else { 1 };
        let delay = self.rng.u64(STEP..3 * MILLIS) * slow;
        self.push(delay, Event::Written(id, life));
        if self.faults && self.rng.u32(0..150) == 0 {
            self.push(delay - STEP / 2, Event::Crash(id, life));
        }
    }

    fn send(&mut self, from: MemberId, to: MemberId, bytes: Vec<u8>) {
        let to = member_of(node_of(to));
        let lost = self.rng.u32(0..1_000_000) < self.loss_ppm;
        if self.cut.contains(&(from, to)) || lost || !self.processes.contains_key(&to) {
            return;
        }
        let copies = if self.loss_ppm > 0 && self.rng.u32(0..50) == 0 { 2 } else { 1 };
        for _ in 0..copies {
            let straggles = self.loss_ppm > 0 && self.rng.u32(0..40) == 0;
            let delay = self.rng.u64(STEP..3 * MILLIS) * if straggles { 300 } else { 1 };
            self.push(delay, Event::Deliver(from, to, bytes.clone()));
        }
    }

    /// A node obeys as a real one does.
    fn word(&mut self, id: MemberId, node: NodeId, message: MapMessage) {
        check::word(self, id, node, &message);
        let (clock, p) = (self.clock(id), self.processes.get_mut(&id).unwrap());
        let (life, n) = (p.life, p.nodes.get_mut(&node).unwrap());
        let report = match message {
            MapMessage::Freeze { epoch } if epoch > n.epoch && epoch >= n.coming => {
                (n.serving, n.coming) = (false, epoch);
                let clock = Timestamp::new(clock / 1000, node);
                let (memory, heard) = (Memory::default(), Vec::new());
                let busy = self.rng.bool();
                Some(MemberReport::Frozen {
                    epoch,
                    oldest: clock,
                    clock,
                    written: clock,
                    busy,
                    memory,
                    heard,
                    undescribed: Undescribed::default(),
                })
            }
            MapMessage::Enter { map, .. } if map.epoch > n.epoch && map.epoch >= n.coming => {
                (n.serving, n.epoch) = (true, map.epoch);
                map.is_stale(node).then(|| MemberReport::CaughtUp {
                    epoch: map.epoch,
                    volumes: map.volumes.keys().copied().collect(),
                })
            }
            _ => None,
        };
        let node_life = n.life;
        if let Some(report) = report {
            let long = matches!(report, MemberReport::CaughtUp { .. });
            let delay = self.rng.u64(STEP..if long { 300 * MILLIS } else { MILLIS });
            self.push(delay, Event::Report(id, life, node, node_life, Box::new(report)));
        }
    }

    /// Who leads, as far as the one with the highest term knows.
    pub fn leader(&self) -> Option<MemberId> {
        let mut best = (0, None);
        for (id, p) in &self.processes {
            let Some(status) = p.member.as_ref().map(Member::status) else { continue };
            if status.leader.map(node_of) == Some(node_of(*id)) && status.term > best.0 {
                best = (status.term, Some(*id));
            }
        }
        best.1
    }
}
