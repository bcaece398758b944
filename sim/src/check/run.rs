//! One run of the simulation check.

use std::collections::BTreeMap;

use fastrand::Rng;
use weft_core::cluster::{EXTENT_COLUMN_BYTES, Place, PolicyChange, Volume, place_volume};
use weft_core::layout::{Geometry, LayoutSpec};
use weft_core::node::{Bug, HostData, HostError, HostOp, NodeConfig};
use weft_core::order::Ordering;
use weft_core::order::sequencer::{Limits, SequencerForm};
use weft_core::plan::{Dispatch, ParityAt, Policy, Range, Strategy, chunks};
use weft_core::store::StoreConfig;
use weft_core::units::{MILLIS, Nanos, NodeId, SECTOR, VolumeId};

use super::history::{BLOCK, Did, Op, check, content, numbers};
use super::places::Places;
use crate::world::{Conditions, World};

/// Which kinds of faults happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Faults {
    /// Victims die and return.
    pub crashes: bool,
    /// All power is cut.
    pub power: bool,
    /// Victims' sectors rot or cannot be read.
    pub rot: bool,
    /// Messages are lost, repeated, and take long.
    pub messages: bool,
    /// A disk is slow.
    pub slow: bool,
    /// More nodes are down at once than the layout bears. Requests may then fail, but nothing
    /// that was acknowledged may be lost once all have returned.
    pub beyond: bool,
    /// What is on a node is moved to others.
    pub moves: bool,
}

impl Faults {
    /// All kinds.
    pub const ALL: Faults = Faults {
        crashes: true,
        power: true,
        rot: true,
        messages: true,
        slow: true,
        beyond: true,
        moves: true,
    };

    /// No faults.
    pub const NONE: Faults = Faults {
        crashes: false,
        power: false,
        rot: false,
        messages: false,
        slow: false,
        beyond: false,
        moves: false,
    };

    /// Each kind alone.
    pub(super) fn each_left_out(&self) -> [Faults; 7] {
        let none = Faults::NONE;
        [
            Faults { beyond: true, ..none },
            Faults { moves: true, ..none },
            Faults { slow: true, ..none },
            Faults { rot: true, ..none },
            Faults { messages: true, ..none },
            Faults { power: true, ..none },
            Faults { crashes: true, ..none },
        ]
    }

    pub(super) fn minus(&self, other: Faults) -> Faults {
        Faults {
            crashes: self.crashes && !other.crashes,
            power: self.power && !other.power,
            rot: self.rot && !other.rot,
            messages: self.messages && !other.messages,
            slow: self.slow && !other.slow,
            beyond: self.beyond && !other.beyond,
            moves: self.moves && !other.moves,
        }
    }
}

/// How a seed is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Operations of the hosts in each phase.
    pub operations: u32,
    /// Phases.
    pub phases: u32,
    /// The faults that may happen.
    pub faults: Faults,
    /// In half of the seeds there are more hosts, and they also flush, trim and ask for holes.
    pub wide: bool,
    /// How the volume's requests are ordered; drawn if open.
    pub ordering: Option<Ordering>,
    /// With a sequencer: who keeps the graph of requests; drawn if open.
    pub sequencer: Option<SequencerForm>,
    /// Whether requests may have places among others.
    pub places: bool,
    /// A deliberate bug.
    pub bug: Option<Bug>,
}

impl Options {
    /// All faults, and everything drawn.
    pub const DEFAULT: Options = Options {
        operations: 150,
        phases: 2,
        faults: Faults::ALL,
        wide: true,
        ordering: None,
        sequencer: None,
        places: true,
        bug: None,
    };
}

impl Default for Options {
    fn default() -> Self {
        Options::DEFAULT
    }
}

/// What a run that passed was like.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// The layout drawn.
    pub layout: String,
    /// Nodes.
    pub nodes: usize,
    /// Operations answered, and not.
    pub answered: u64,
    /// Operations whose host never heard.
    pub unanswered: u64,
    /// Node deaths and power cuts.
    pub crashes: u64,
    /// Events handled.
    pub events: u64,
    /// Simulated time.
    pub time: Nanos,
    /// Requests that had a place among others, and those of them that were refused.
    pub placed: (u64, u64),
    /// A hash of everything that the hosts saw: equal for equal runs.
    pub fingerprint: u64,
}

const VOLUME: VolumeId = VolumeId(1);
const CLIENT: u64 = 1 << 32;
const FAULT: u64 = 2 << 32;
/// The host of a request goes away.
const GONE: u64 = 4 << 32;
/// Simulated time in which a healed system must come to rest.
const PATIENCE: Nanos = 20_000 * MILLIS;
/// Events in which it must.
const MOST_EVENTS: u64 = 400_000;

#[derive(Clone, Copy, Debug)]
enum Fault {
    Kill(NodeId, bool),
    Return(NodeId),
    Power,
    Rot(NodeId),
    Spoil(NodeId),
    /// A page of the checksum table rots, or cannot be read.
    Page(NodeId, bool),
    /// An empty disk takes the place of a dead node's.
    Replace(NodeId),
    /// A dead node is not expected back.
    GiveUp(NodeId),
    /// What is on a node's disk is moved to others, or no more of it.
    Drain(NodeId, bool),
    /// Another form of the sequencer takes over.
    Form(SequencerForm),
}

struct Client {
    node: NodeId,
    /// The request in work: the number of its first operation. A request of several atomic
    /// pieces is as many operations.
    op: Option<u32>,
    /// How many they are.
    pieces: u32,
}

struct Run {
    world: World,
    volume: Volume,
    options: Options,
    rng: Rng,
    /// For what was not drawn from the first day: older seeds stay what they were.
    later_rng: Rng,
    /// What is drawn of columns that move.
    move_rng: Rng,
    /// For the sequencer's forms that take over from one another.
    form_rng: Rng,
    /// For what is drawn in wide runs only, if this is one.
    wide_rng: Option<Rng>,
    /// In this phase more may be down than the layout bears.
    beyond: bool,
    /// Most bytes of an atomic piece.
    max_chunk: u64,
    clients: Vec<Client>,
    /// What requests say must come first, if they do in this run.
    places: Option<Places>,
    ops: BTreeMap<u32, Op>,
    next_op: u32,
    to_issue: u32,
    faults: Vec<Fault>,
    pending_faults: usize,
    crashes: u64,
    error: Option<String>,
    scrub: Option<u32>,
    scrubbed: bool,
}

type Failed = (String, Vec<String>);

/// Runs a seed; a failure comes with the last `story` lines.
pub(super) fn run(seed: u64, options: Options, story: usize) -> Result<Summary, Failed> {
    let mut run = Run::draw(seed, options, story);
    let result = (0..options.phases).try_for_each(|phase| run.phase(phase)).and_then(|()| {
        let mut ops = run.ops.clone();
        run.places.as_ref().map_or(Ok(()), |places| places.check(&mut ops))?;
        check(&ops.into_values().collect::<Vec<_>>())
    });
    match result {
        Ok(()) => Ok(run.summary()),
        Err(reason) => {
            let keep = run.world.story.len().saturating_sub(story);
            Err((reason, run.world.story.split_off(keep)))
        }
    }
}

impl Run {
    fn draw(seed: u64, options: Options, story: usize) -> Run {
        let mut wide_rng = Rng::with_seed(seed ^ 0x0071_de00);
        let mut wide_rng = (options.wide && wide_rng.bool()).then_some(wide_rng);
        let mut rng = Rng::with_seed(seed ^ 0x05ee_d0fc_1a55);
        let layouts = [
            "raid5",
            "raid5",
            "raid6",
            "raid1",
            "raid4",
            "rs:2+2",
            "rs:3+1",
            "raid0",
            "raid5:right-asymmetric",
            "rs:2+3",
        ];
        let spec: LayoutSpec = layouts[rng.usize(0..layouts.len())].parse().expect("a known name");
        let nodes = spec.least_nodes().max(2) + rng.usize(0..=2);
        let unit = SECTOR << rng.u64(0..=2);
        let geometry = Geometry::new(spec.over(nodes).expect("enough nodes"), unit);
        let mut other = Rng::with_seed(seed ^ 0x0004_d15b);
        let mut policy = draw_policy(&mut rng, &mut other);
        let form = SequencerForm::ALL[other.usize(0..SequencerForm::ALL.len())];
        policy.sequencer = options.sequencer.unwrap_or(form);
        policy.ordering = options.ordering.unwrap_or_else(|| draw_ordering(seed));
        let mut options = options;
        if wide_rng.as_mut().is_some_and(|r| r.u8(0..4) == 0) {
            // Without journal only the promises of single deaths stand.
            policy.journal = false;
            options.faults.power = false;
            options.faults.beyond = false;
        }
        let stripes = rng.u64(3..=20);
        let size = stripes * geometry.stripe_bytes();
        let mut config = NodeConfig {
            store: StoreConfig {
                table_pages: 4,
                overlay_sectors: rng.usize(8..200),
                ..StoreConfig::default()
            },
            max_chunk: 256 << 10,
            max_in_flight: 1 << 20,
            notice_delay: rng.u64(MILLIS / 10..2 * MILLIS),
            patience: 40 * MILLIS,
            timestamp_window: 2000 * MILLIS,
            lock_timeout: 30 * MILLIS,
            lease: 500 * MILLIS,
            place_after: rng.u64(MILLIS..20 * MILLIS),
            rebuilds: rng.usize(1..=4),
            rebuilds_busy: 1,
            sequencer: Limits { issue_within: 300 * MILLIS, ..Limits::default() },
            bug: options.bug,
        };
        let hosts = wide_rng.as_mut().map_or(5, |r| r.usize(5..=16));
        let journal = wide_rng.as_mut().map_or(512, |r| [64, 96, 160, 512][r.usize(0..4)]);
        if let Some(r) = wide_rng.as_mut()
            && r.u8(0..3) == 0
        {
            config.max_chunk = SECTOR << r.u64(1..=4);
        }
        let max_chunk = config.max_chunk.min(journal * SECTOR / 4);
        let column_bytes = match wide_rng.as_mut() {
            Some(r) => unit * r.u64(2..=8),
            None => EXTENT_COLUMN_BYTES,
        };
        let mut volume = None;
        let mut world = World::new(seed, nodes, 1200, journal, config, |data| {
            let disks = Place::apart(&vec![data; nodes]);
            let extents = place_volume(&geometry, size, &disks, &[], column_bytes)
                .expect("a volume that fits");
            let made =
                Volume { policy, ..Volume::new(VOLUME, "v", size, &spec, geometry, extents) };
            volume = Some(made.clone());
            vec![made]
        });
        world.story_length = story;
        let clients: Vec<Client> = (0..rng.usize(2..=hosts))
            .map(|n| Client { node: NodeId((n % nodes) as u16), op: None, pieces: 0 })
            .collect();
        let places = options.places.then(|| Places::draw(seed, policy.ordering, clients.len()));
        let places = places.flatten();
        Run {
            world,
            volume: volume.expect("made above"),
            options,
            rng,
            later_rng: Rng::with_seed(seed ^ 0x0001_a7e4),
            move_rng: Rng::with_seed(seed ^ 0x0003_0f3e),
            form_rng: Rng::with_seed(seed ^ 0x000f_0235),
            wide_rng,
            beyond: false,
            max_chunk,
            clients,
            places,
            ops: BTreeMap::new(),
            next_op: 1,
            to_issue: 0,
            faults: Vec::new(),
            pending_faults: 0,
            crashes: 0,
            error: None,
            scrub: None,
            scrubbed: false,
        }
    }

    /// Faults and load, then healing and judgement.
    fn phase(&mut self, phase: u32) -> Result<(), String> {
        self.world.tell(|| format!("phase {phase} begins"));
        self.to_issue = self.options.operations;
        self.draw_faults();
        for n in 0..self.clients.len() as u64 {
            self.world.call_after(MILLIS + n, CLIENT | n);
        }
        self.until("the load is done", |run| {
            run.pending_faults == 0
                && (run.to_issue == 0 && run.clients.iter().all(|c| c.op.is_none()))
        })?;
        self.heal()?;
        self.beyond = false;
        self.verify()
    }

    fn draw_faults(&mut self) {
        let f = self.options.faults;
        let bears = self.volume.geometry.layout.parity;
        let mut victims: Vec<NodeId> = (0..self.world.size() as u16).map(NodeId).collect();
        self.rng.shuffle(&mut victims);
        victims.truncate(bears);
        let span = MILLIS * u64::from(self.options.operations) / 2;
        let mut plan: Vec<(Nanos, Fault)> = Vec::new();
        self.beyond = f.beyond && self.later_rng.u8(0..4) == 0;
        if self.beyond {
            plan = self.draw_overload(span);
            victims.clear();
        }
        for victim in victims {
            // A victim either comes and goes, or its disk decays.
            if self.rng.bool() {
                for _ in 0..self.rng.usize(0..=3) {
                    let at = self.rng.u64(0..span);
                    let stays = self.rng.u64(0..40 * MILLIS);
                    let power = self.rng.bool();
                    if f.crashes {
                        plan.push((at, Fault::Kill(victim, power)));
                        plan.push((at + stays, Fault::Return(victim)));
                    }
                }
                if f.crashes
                    && let Some(rng) = self.wide_rng.as_mut()
                    && rng.bool()
                {
                    let (at, stays) = (rng.u64(0..span), rng.u64(20 * MILLIS..60 * MILLIS));
                    plan.push((at, Fault::Kill(victim, rng.bool())));
                    let found = at + rng.u64(MILLIS..20 * MILLIS);
                    if rng.bool() {
                        plan.push((found, Fault::Replace(victim)));
                    } else {
                        plan.push((found, Fault::GiveUp(victim)));
                    }
                    plan.push((at + stays, Fault::Return(victim)));
                }
            } else {
                for _ in 0..self.rng.usize(0..=6) {
                    let at = self.rng.u64(0..span);
                    let spoil = self.rng.bool();
                    let fault = if spoil { Fault::Spoil(victim) } else { Fault::Rot(victim) };
                    if f.rot {
                        plan.push((at, fault));
                    }
                }
                if f.rot
                    && f.crashes
                    && let Some(rng) = self.wide_rng.as_mut()
                    && rng.bool()
                {
                    // A bad page of the table shows when the node starts again.
                    let (at, stays) = (rng.u64(0..span), rng.u64(1..20 * MILLIS));
                    plan.push((at, Fault::Page(victim, rng.bool())));
                    plan.push((at, Fault::Kill(victim, rng.bool())));
                    plan.push((at + stays, Fault::Return(victim)));
                }
            }
        }
        if f.moves && self.move_rng.u8(0..3) == 0 {
            let rng = &mut self.move_rng;
            let node = NodeId(rng.u16(0..self.world.size() as u16));
            let at = rng.u64(0..span);
            plan.push((at, Fault::Drain(node, true)));
            if rng.u8(0..3) == 0 {
                plan.push((at + rng.u64(0..20 * MILLIS), Fault::Drain(node, false)));
            }
        }
        let open = self.volume.is_sequenced() && self.options.sequencer.is_none();
        if open && self.form_rng.bool() {
            let form = SequencerForm::ALL[self.form_rng.usize(0..SequencerForm::ALL.len())];
            plan.push((self.form_rng.u64(0..span), Fault::Form(form)));
        }
        for _ in 0..self.rng.usize(0..=2) {
            let at = self.rng.u64(0..span);
            if f.power {
                plan.push((at, Fault::Power));
            }
        }
        let lossy = self.rng.bool();
        let slow = self.rng.u8(0..4) == 0;
        let mut conditions = Conditions::default();
        if f.messages && lossy {
            conditions.drop_ppm = self.rng.u32(0..20_000);
            conditions.repeat_ppm = self.rng.u32(0..50_000);
            conditions.straggle_ppm = self.rng.u32(0..50_000);
        }
        let slow_node = NodeId(self.rng.u16(0..self.world.size() as u16));
        if f.slow && slow {
            conditions.slow = Some((slow_node, 40));
        }
        self.world.conditions = conditions;
        self.pending_faults = plan.len();
        let first = self.faults.len();
        for (n, (at, fault)) in plan.into_iter().enumerate() {
            self.faults.push(fault);
            self.world.call_after(at + 1, FAULT | (first + n) as u64);
        }
    }

    /// One node more dies than the layout bears, at about the same time.
    fn draw_overload(&mut self, span: Nanos) -> Vec<(Nanos, Fault)> {
        let rng = &mut self.later_rng;
        let mut nodes: Vec<NodeId> = (0..self.world.size() as u16).map(NodeId).collect();
        rng.shuffle(&mut nodes);
        nodes.truncate(self.volume.geometry.layout.parity + 1);
        let begin = rng.u64(0..span);
        let mut plan = Vec::new();
        for node in nodes {
            let at = begin + rng.u64(0..span / 4 + 1);
            let stays = rng.u64(0..span / 2 + 1);
            plan.push((at, Fault::Kill(node, rng.bool())));
            plan.push((at + stays, Fault::Return(node)));
        }
        plan
    }

    /// Lets the world go on until something is so.
    fn until(&mut self, what: &str, done: impl Fn(&Run) -> bool) -> Result<(), String> {
        let deadline = self.world.now() + PATIENCE;
        let most = self.world.events + MOST_EVENTS;
        while !done(self) {
            let Some(event) = self.world.step() else {
                return Err(format!("nothing happens any more, and not yet: {what}"));
            };
            if let Some(call) = event {
                self.call(call);
            }
            for (request, result) in std::mem::take(&mut self.world.replies) {
                self.answered(request as u32, result);
            }
            if let Some(error) = self.error.take() {
                return Err(error);
            }
            if self.world.now() > deadline || self.world.events > most {
                let status: Vec<_> = (0..self.world.size() as u16)
                    .map(|n| {
                        self.world.status(NodeId(n)).map(|s| (s.quiet, s.stale_sectors, s.waiting))
                    })
                    .collect();
                return Err(format!(
                    "no progress: after {} s of simulated time (or a storm of events) not yet: {what} {status:?}",
                    PATIENCE / 1000 / MILLIS
                ));
            }
        }
        Ok(())
    }

    fn call(&mut self, call: u64) {
        let number = (call & 0xffff_ffff) as usize;
        if call & GONE != 0 {
            self.host_goes(number as u32);
        } else if call & FAULT != 0 {
            self.pending_faults -= 1;
            self.fault(self.faults[number]);
        } else {
            self.issue(number);
        }
    }

    /// The host of a request goes away, if it still waits.
    fn host_goes(&mut self, request: u32) {
        let waits = |c: &&Client| c.op == Some(request);
        let Some(node) = self.clients.iter().find(waits).map(|c| c.node) else { return };
        self.world.tell(|| format!("the host of request {request} goes away"));
        self.world.host_gone(node, u64::from(request));
    }

    fn fault(&mut self, fault: Fault) {
        match fault {
            Fault::Kill(node, power) if self.world.runs(node) => {
                self.crashes += 1;
                self.world.kill(node, power);
                self.abandon(|c| c.node == node);
            }
            Fault::Return(node) if !self.world.runs(node) => self.world.start_node(node),
            Fault::Power => {
                self.crashes += 1;
                self.world.power_cut();
                self.abandon(|_| true);
                self.world.start_everything();
            }
            Fault::Replace(node) if !self.world.runs(node) => self.world.replace_disk(node),
            Fault::GiveUp(node) if !self.world.runs(node) => self.world.give_up(node),
            Fault::Drain(node, on) => self.world.drain(node, on),
            Fault::Form(form) => {
                let change = PolicyChange { sequencer: Some(form), ..PolicyChange::default() };
                self.world.set_policy(VOLUME, change);
            }
            Fault::Rot(node) | Fault::Spoil(node) => self.decay(node, fault),
            Fault::Page(node, unreadable) => {
                let (first, end) = (self.world.table.0, self.world.data.0);
                let page = self.rng.u64(first..end);
                self.hurt(node, page, unreadable);
            }
            Fault::Kill(..) | Fault::Return(_) | Fault::Replace(_) | Fault::GiveUp(_) => {}
        }
    }

    /// A sector of a data area goes bad.
    fn decay(&mut self, node: NodeId, fault: Fault) {
        let used = self.volume.extents.len() as u64 * self.volume.extent_sectors(0);
        let (first, count) = self.world.data;
        let sector = first + self.rng.u64(0..used.max(1)).min(count - 1);
        self.hurt(node, sector, matches!(fault, Fault::Spoil(_)));
    }

    fn hurt(&mut self, node: NodeId, sector: u64, unreadable: bool) {
        let what = if unreadable { "becomes unreadable" } else { "rots" };
        self.world.tell(|| format!("sector {sector} of {node} {what}"));
        if unreadable {
            self.world.disk(node).spoil(sector);
        } else {
            let mut rng = self.rng.fork();
            self.world.disk(node).rot(sector, &mut rng);
        }
    }

    /// The hosts of dead nodes never hear what became of their requests.
    fn abandon(&mut self, which: impl Fn(&Client) -> bool) {
        let nodes = self.world.size() as u16;
        for n in 0..self.clients.len() {
            if !which(&self.clients[n]) {
                continue;
            }
            let next = (self.clients[n].node.0 + 1) % nodes;
            self.clients[n].node = NodeId(next);
            if let Some(first) = self.clients[n].op.take() {
                for op in first..first + self.clients[n].pieces {
                    if let Some(Op { did: Did::Read(_), .. }) = self.ops.get(&op) {
                        self.ops.remove(&op);
                    }
                }
                self.world.call_after(MILLIS, CLIENT | n as u64);
            }
        }
    }

    fn issue(&mut self, n: usize) {
        if self.clients[n].op.is_some() || self.to_issue == 0 {
            return;
        }
        let node = self.clients[n].node;
        if !self.world.runs(node) {
            self.clients[n].node = NodeId((node.0 + 1) % self.world.size() as u16);
            self.world.call_after(MILLIS, CLIENT | n as u64);
            return;
        }
        self.to_issue -= 1;
        let blocks = self.draw_blocks();
        let range =
            Range { offset: blocks.start * BLOCK, len: (blocks.end - blocks.start) * BLOCK };
        let what = self.rng.u8(0..20);
        if self.issue_rare(n, range) {
            return;
        }
        let (did, op) = match what {
            0..8 => (Did::Read(Vec::new()), HostOp::Read(range)),
            8 => (Did::Wrote { zeros: true }, HostOp::WriteZeroes(range)),
            _ => {
                let pieces = self.pieces(&blocks).into_iter().zip(self.next_op..);
                let data: Vec<u8> = pieces.flat_map(|(piece, id)| content(id, piece)).collect();
                (Did::Wrote { zeros: false }, HostOp::Write(range.offset, data.into()))
            }
        };
        self.ask_in_order(n, &did, blocks, op);
    }

    /// The atomic pieces of a request.
    fn pieces(&self, blocks: &std::ops::Range<u64>) -> Vec<std::ops::Range<u64>> {
        let range =
            Range { offset: blocks.start * BLOCK, len: (blocks.end - blocks.start) * BLOCK };
        let v = &self.volume;
        let cut = chunks(&v.geometry, range, self.max_chunk, |s| v.extent_end(s));
        cut.map(|r| r.offset / BLOCK..r.end() / BLOCK).collect()
    }

    /// A host asks its node for something that reads or writes these blocks.
    fn ask(&mut self, n: usize, did: &Did, blocks: std::ops::Range<u64>, op: HostOp) {
        let (node, first) = (self.clients[n].node, self.announce(n, did, blocks, &op));
        self.world.host(node, u64::from(first), VOLUME, op);
    }

    /// The same, and says what must come first, if hosts do so in this run.
    fn ask_in_order(&mut self, n: usize, did: &Did, blocks: std::ops::Range<u64>, op: HostOp) {
        let node = self.clients[n].node;
        let Some(places) = self.places.as_mut() else { return self.ask(n, did, blocks, op) };
        let (place, goes) = (places.next(n, node), places.goes_after());
        let first = self.announce(n, did, blocks, &op);
        if let Some(places) = self.places.as_mut() {
            places.asked(&place, node, first..self.next_op);
        }
        self.world.tell(|| format!("request {first} is {}, after {:?}", place.id, place.after));
        if let Some(after) = goes {
            self.world.call_after(after, GONE | u64::from(first));
        }
        self.world.host_in_order(node, u64::from(first), VOLUME, place, op);
    }

    /// Takes down that a host asks; returns the request's number.
    fn announce(&mut self, n: usize, did: &Did, blocks: std::ops::Range<u64>, op: &HostOp) -> u32 {
        let (node, start, first) = (self.clients[n].node, self.world.now(), self.next_op);
        let what = match op {
            HostOp::Write(..) => "write".into(),
            other => format!("{other:?}"),
        };
        self.world
            .tell(|| format!("host {n} asks {node}: request {first}, {what}, blocks {blocks:?}"));
        let mut pieces = self.pieces(&blocks);
        if pieces.is_empty() {
            pieces.push(blocks);
        }
        for blocks in pieces {
            let id = self.next_op;
            self.next_op += 1;
            self.ops.insert(id, Op { id, did: did.clone(), blocks, start, end: None });
        }
        self.clients[n].op = Some(first);
        self.clients[n].pieces = self.next_op - first;
        first
    }

    /// In a wide run, now and then something other than to read or write. Says whether.
    fn issue_rare(&mut self, n: usize, range: Range) -> bool {
        let Some(rng) = self.wide_rng.as_mut() else { return false };
        let stripe = self.volume.geometry.stripe_bytes();
        let nothing = range.offset / BLOCK..range.offset / BLOCK;
        let (did, op, blocks) = match rng.u8(0..30) {
            0 => (Did::Read(Vec::new()), HostOp::Flush, nothing),
            1 => (Did::Read(Vec::new()), HostOp::Holes(range), nothing),
            2 => {
                // What lies in whole stripes reads as zeros, the rest is left as it is.
                let (from, to) =
                    (range.offset.next_multiple_of(stripe), range.end() / stripe * stripe);
                let inner = from / BLOCK..to.max(from) / BLOCK;
                (Did::Wrote { zeros: true }, HostOp::Trim(range), inner)
            }
            _ => return false,
        };
        self.ask_in_order(n, &did, blocks, op);
        true
    }

    /// A run of blocks inside one atomic piece; half of them in a small hot region.
    fn draw_blocks(&mut self) -> std::ops::Range<u64> {
        let all = self.volume.size / BLOCK;
        let region = if self.rng.bool() { all.min(64) } else { all };
        let start = self.rng.u64(0..region);
        let most = match self.rng.u8(0..4) {
            0 => 128,
            1 => 24,
            _ => 8,
        };
        let mut start = start;
        let mut len = self.rng.u64(1..=most);
        if self.rng.bool() {
            start = start / 8 * 8;
            len = len.next_multiple_of(8);
        }
        start..(start + len).min(all)
    }

    fn answered(&mut self, request: u32, result: Result<HostData, HostError>) {
        if self.scrub == Some(request) {
            self.scrub = None;
            self.scrub_done(result);
            return;
        }
        let Some(n) = self.clients.iter().position(|c| c.op == Some(request)) else { return };
        self.clients[n].op = None;
        let pieces = request..request + self.clients[n].pieces;
        let think = self.rng.u64(1..2 * MILLIS);
        self.world.call_after(think, CLIENT | n as u64);
        match result {
            Ok(HostData::Bytes(parts)) => {
                let bytes: Vec<u8> = parts.iter().flat_map(|p| p.to_bytes().to_vec()).collect();
                self.saw(pieces.clone(), &bytes);
            }
            Ok(_) => self.ended(pieces.clone()),
            Err(HostError::NotServing) => self.did_nothing(pieces.clone()),
            Err(HostError::Place(why)) if self.places.is_some() => {
                self.world.tell(|| format!("request {request} is refused: {why}"));
                self.did_nothing(pieces.clone());
            }
            // It may have begun.
            Err(HostError::Gone) if self.places.is_some() => self.left_open(pieces.clone()),
            // What a failed write did is not known.
            Err(HostError::TooManyLost) if self.beyond => self.left_open(pieces.clone()),
            Err(error) => {
                let text =
                    format!("request {request} failed though the layout bears the faults: {error}");
                self.error = Some(text);
            }
        }
        self.tell_answer(n, pieces);
    }

    /// A request was refused before anything of it was done.
    fn did_nothing(&mut self, pieces: std::ops::Range<u32>) {
        if let Some(places) = self.places.as_mut() {
            places.refused(pieces.start);
        }
        pieces.for_each(|p| drop(self.ops.remove(&p)));
    }

    /// A request failed, and what it did is not known.
    fn left_open(&mut self, pieces: std::ops::Range<u32>) {
        if let Some(places) = self.places.as_mut() {
            places.failed(pieces.start);
        }
        for piece in pieces {
            if matches!(self.ops[&piece].did, Did::Read(_)) {
                self.ops.remove(&piece);
            }
        }
    }

    /// What a read returned.
    fn saw(&mut self, pieces: std::ops::Range<u32>, bytes: &[u8]) {
        let mut at = 0;
        for piece in pieces.clone() {
            let op = self.ops.get_mut(&piece).expect("issued");
            let len = ((op.blocks.end - op.blocks.start) * BLOCK) as usize;
            match numbers(op.blocks.start, &bytes[at..at + len]) {
                Ok(values) => op.did = Did::Read(values),
                Err(block) => {
                    let text =
                        format!("read {piece} saw content in block {block} that nobody wrote");
                    self.error = Some(text);
                }
            }
            at += len;
        }
        self.ended(pieces);
    }

    fn ended(&mut self, pieces: std::ops::Range<u32>) {
        let now = self.world.now();
        if let Some(places) = self.places.as_mut() {
            places.done(pieces.start);
        }
        for piece in pieces {
            self.ops.get_mut(&piece).expect("issued").end = Some(now);
        }
    }

    fn tell_answer(&mut self, n: usize, pieces: std::ops::Range<u32>) {
        let mut saw = String::new();
        for op in pieces.clone().filter_map(|p| self.ops.get(&p)) {
            if let Did::Read(values) = &op.did {
                let runs = values.chunk_by(|a, b| a == b).map(|r| (r[0], r.len()));
                let runs: Vec<_> = runs.collect();
                saw += &format!(", sees (write, blocks) {runs:?} from {}", op.blocks.start);
            }
        }
        self.world.tell(|| format!("host {n} is answered: request {}{saw}", pieces.start));
    }

    /// The faults stop; everything must come to rest and be whole.
    fn heal(&mut self) -> Result<(), String> {
        self.world.tell(|| "the faults stop".to_string());
        self.world.conditions = Conditions::default();
        for n in (0..self.world.size() as u16).map(NodeId) {
            if !self.world.runs(n) {
                self.world.start_node(n);
            }
        }
        self.until("everything at rest and whole", |run| {
            let nodes = (0..run.world.size() as u16).map(NodeId);
            let map = run.world.map();
            let whole = nodes.clone().into_iter().all(|n| map.is_up(n) && !map.is_stale(n));
            whole && nodes.into_iter().all(|n| run.world.status(n).is_some_and(|s| s.quiet))
        })
    }

    /// Scrubs, then reads everything.
    fn verify(&mut self) -> Result<(), String> {
        if self.volume.geometry.layout.parity > 0 {
            self.scrubbed = false;
            let id = self.next_op;
            self.next_op += 1;
            self.scrub = Some(id);
            self.world.host(NodeId(0), u64::from(id), VOLUME, HostOp::Scrub);
            self.until("the scrub is done", |run| run.scrubbed)?;
        }
        let nodes = self.world.size() as u16;
        let all = self.volume.size / BLOCK;
        let mut first = 0;
        while first < all {
            let blocks = first..(first + 256).min(all);
            first = blocks.end;
            let len = (blocks.end - blocks.start) * BLOCK;
            let op = HostOp::Read(Range { offset: blocks.start * BLOCK, len });
            self.clients[0].node = NodeId(self.next_op as u16 % nodes);
            self.ask(0, &Did::Read(Vec::new()), blocks, op);
            self.until("the last reads are answered", |run| run.clients[0].op.is_none())?;
        }
        Ok(())
    }

    fn scrub_done(&mut self, result: Result<HostData, HostError>) {
        self.scrubbed = true;
        match result {
            Ok(HostData::Scrubbed(p)) if p.mismatched == 0 && p.skipped == 0 => {}
            other => self.error = Some(format!("parity is not true at rest: {other:?}")),
        }
    }

    fn summary(&self) -> Summary {
        let mut fingerprint = self.world.events ^ self.world.now();
        for op in self.ops.values() {
            let line = format!("{op:?}");
            fingerprint = line
                .bytes()
                .fold(fingerprint, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
        }
        Summary {
            layout: self.volume.layout.clone(),
            nodes: self.world.size(),
            answered: self.ops.values().filter(|o| o.end.is_some()).count() as u64,
            unanswered: self.ops.values().filter(|o| o.end.is_none()).count() as u64,
            crashes: self.crashes,
            events: self.world.events,
            time: self.world.now(),
            placed: self.places.as_ref().map_or((0, 0), Places::counts),
            fingerprint,
        }
    }
}

/// With a sequencer in one of six seeds. Of the others by timestamps in half, which makes the same
/// runs of them as when there was no other ordering.
fn draw_ordering(seed: u64) -> Ordering {
    if Rng::with_seed(seed ^ 0x0005_e90e_4ce5).u8(0..6) == 0 {
        return Ordering::Sequencer;
    }
    let mut rng = Rng::with_seed(seed ^ 0x0000_06de_5000);
    let others = [Ordering::DeviceLocks, Ordering::LockServer, Ordering::CallbackLocks];
    match rng.bool() {
        true => Ordering::Timestamps,
        false => others[rng.usize(0..others.len())],
    }
}

/// `other` is for what was not always drawn.
fn draw_policy(rng: &mut Rng, other: &mut Rng) -> Policy {
    let strategies = [None, None, None, Some(Strategy::Small), Some(Strategy::Large)];
    let places = [
        None,
        None,
        None,
        Some(ParityAt::Originator),
        Some(ParityAt::Solely),
        Some(ParityAt::Parity),
    ];
    Policy {
        strategy: strategies[rng.usize(0..strategies.len())],
        parity_at: places[rng.usize(0..places.len())],
        dispatch: match other.u8(0..6) {
            0 => Dispatch::Commanded,
            _ => Dispatch::Collaborative,
        },
        ..Policy::default()
    }
}
