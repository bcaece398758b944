//! One run of the simulation check.

mod bounds;
mod choices;
mod damage;
mod draw;
mod erring;
mod faults;
mod full;
mod giving_up;
mod hosts;
mod lulls;
mod members;
mod operator;
mod ranges;
mod rare;
mod relapses;
mod repeats;
mod reserving;
mod slow_disks;
mod suspects;
mod verdict;

use std::collections::{BTreeMap, BTreeSet};

use fastrand::Rng;
use weft_core::cluster::Volume;
use weft_core::node::{HostData, HostError, HostOp, LostRange};
use weft_core::plan::Range;
use weft_core::units::{MILLIS, Nanos, NodeId, SECTOR, VolumeId};

use self::bounds::Bounds;
use self::faults::Fault;
use self::full::Full;
use self::giving_up::GivingUp;
use self::hosts::{Client, Heard};
use self::lulls::Lulls;
use self::members::Members;
use self::operator::Operator;
use self::rare::Rare;
use self::relapses::Relapses;
use self::repeats::Repeating;
use self::reserving::Reserving;
use self::slow_disks::SlowDisks;
use self::verdict::{LOSS, UNREMEMBERED, judge, verdict};
use super::history::{BLOCK, Did, Op};
use super::options::{Options, Summary};
use super::places::Places;
use crate::panics::caught;
use crate::world::{Conditions, World};

const VOLUME: VolumeId = VolumeId(1);
const CLIENT: u64 = 1 << 32;
const FAULT: u64 = 2 << 32;
/// The host of a request goes away.
const GONE: u64 = 4 << 32;
/// The host of a request has waited long enough.
const TIRED: u64 = 8 << 32;
/// The session of a request is lost.
const LOST: u64 = 16 << 32;
/// Simulated time in which a healed system must come to rest, and in which of one under load some request must end.
const PATIENCE: Nanos = 20_000 * MILLIS;
/// Events in which it must.
const MOST_EVENTS: u64 = 400_000;

/// This many nodes are few: of more, each talks with all others, and there are more events by the square of their
/// number.
const FEW_NODES: u64 = 8;
/// How often a timeout restarts because a request has ended. Hosts that contend where messages are lost
/// wait for many leases, one after the other; but not for ever.
const MOST_PATIENCE: u32 = 400;

struct Run {
    world: World,
    volume: Volume,
    options: Options,
    rng: Rng,
    /// For draws added later: older seeds stay what they were.
    later_rng: Rng,
    /// The draws for moving columns.
    move_rng: Rng,
    suspect_rng: Option<Rng>,
    /// For the sequencer's forms that take over from one another.
    form_rng: Rng,
    /// For the volume's changed choices, if they change in this run.
    choice_rng: Option<Rng>,
    /// What an operator has ranges of the volume choose is drawn from it, in runs in which he does.
    range_rng: Option<Rng>,
    /// When nodes are given up by themselves, if they are in this run.
    giving_up: Option<GivingUp>,
    /// For disks that refuse to write.
    refusal_rng: Rng,
    /// Which disks hang, and when.
    hang_rng: Rng,
    /// Which disks hang when their nodes start, and which of too many before their nodes are taken out.
    start_rng: Rng,
    full: Full,
    /// Which disks have errors by rate, and when, in runs in which some do.
    error_rng: Option<Rng>,
    /// Slow disks whose nodes are taken out, in runs in which they are.
    slow_disks: Option<SlowDisks>,
    /// Nodes that leave again just when they have what they missed, in runs in which some do.
    relapses: Option<Relapses>,
    /// For disks that lie.
    damage_rng: Rng,
    /// For draws of wide runs only, if this is one.
    wide_rng: Option<Rng>,
    /// What an operator does in this run, if there is one.
    operator: Option<Operator>,
    /// Parity may wait in this run; then content is on one disk alone at times, and requests for it fail while that is away.
    exposes: bool,
    bounds: Bounds,
    /// A request has failed since what it needs is not there.
    lacks: bool,
    /// The sectors where that held when everything was read at rest, and the query for lost ones.
    unreadable: BTreeSet<u64>,
    losses: Option<u32>,
    /// Disks have been permanently lost, or damaged, and with them perhaps content only they had.
    loses: bool,
    /// A node is being removed permanently.
    leaving: bool,
    /// In this phase more may be down than the layout bears.
    beyond: bool,
    /// Most bytes of an atomic piece.
    max_chunk: u64,
    clients: Vec<Client>,
    /// For hosts that ask again, if there are such in this run.
    repeating: Option<Repeating>,
    /// How often one asked again, and how often nobody could say what had become of it.
    again: (u64, u64),
    /// What requests say must come first, if they do in this run.
    places: Option<Places>,
    /// What hosts do with reservations, if they do in this run.
    reserving: Option<Reserving>,
    /// When all hosts are silent, if they are at times in this run.
    lulls: Option<Lulls>,
    /// The draws for processes, if the nodes are in some.
    members: Option<Members>,
    /// Special settings, if this is such a run.
    rare: Option<Rare>,
    /// The longest time that healing took.
    healing: Nanos,
    heard: Heard,
    ops: BTreeMap<u32, Op>,
    next_op: u32,
    to_issue: u32,
    faults: Vec<Fault>,
    pending_faults: usize,
    crashes: u64,
    error: Option<String>,
    /// The scrub at rest, until it is done.
    scrub: Option<u32>,
}

type Failed = (String, Vec<String>);

/// Runs a seed; a failure comes with the last `story` lines.
pub(super) fn run(seed: u64, options: Options, story: usize) -> Result<Summary, Failed> {
    let mut run = Run::draw(seed, options, story);
    let Err(reason) = caught(|| run.pass()) else { return Ok(run.summary()) };
    match verdict(&run, reason) {
        Ok(()) => Ok(Summary { unremembered: true, ..run.summary() }),
        Err(reason) => {
            let keep = run.world.story.len().saturating_sub(story);
            Err((reason, run.world.story.split_off(keep)))
        }
    }
}

impl Run {
    /// All phases, then the judgement of all that hosts saw.
    fn pass(&mut self) -> Result<(), String> {
        self.begin()?;
        (0..self.options.phases).try_for_each(|p| self.phase(p))?;
        self.write_everywhere()?;
        judge(self, self.ops.clone())
    }

    /// Faults and load, then healing and judgement.
    fn phase(&mut self, phase: u32) -> Result<(), String> {
        self.world.tell(|| format!("phase {phase} begins"));
        self.to_issue = self.options.operations;
        match self.members {
            Some(_) => self.draw_member_faults(),
            None => self.draw_faults(),
        }
        self.draw_rare();
        self.draw_suspects();
        for n in 0..self.clients.len() as u64 {
            self.world.call_after(MILLIS + n, CLIENT | n);
        }
        self.until("the load is done", |run| {
            run.pending_faults == 0
                && (run.to_issue == 0 && run.clients.iter().all(|c| c.op.is_none()))
        })?;
        self.world.give_up_wishes();
        self.heal()?;
        self.beyond = false;
        self.check_balance()?;
        self.check_suspects()?;
        self.verify()?;
        if phase + 1 < self.options.phases {
            self.resize()?;
            self.leave()?;
        }
        Ok(())
    }

    /// Lets the world go on until something is so.
    fn until(&mut self, what: &str, done: impl Fn(&Run) -> bool) -> Result<(), String> {
        let limits = |run: &Run| (run.world.now() + PATIENCE, run.world.events + run.most_events());
        let (mut deadline, mut most) = limits(self);
        let mut renewals = MOST_PATIENCE;
        while !done(self) {
            let Some(event) = self.world.step() else {
                return Err(format!("nothing happens any more, and not yet: {what}"));
            };
            if let Some(call) = event {
                self.call(call);
            }
            self.note_missing();
            self.look_at_reservations();
            self.check_bounds()?;
            for (request, result) in std::mem::take(&mut self.world.replies) {
                if self.answered(request, result) && renewals > 0 {
                    renewals -= 1;
                    (deadline, most) = limits(self);
                }
            }
            for node in std::mem::take(&mut self.world.dead_alone) {
                self.abandon(|c| c.node == node);
            }
            self.look_at_members();
            self.look_at_rare();
            self.look_at_relapse();
            if self.world.unremembered {
                return Err(UNREMEMBERED.to_string());
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

    fn most_events(&self) -> u64 {
        MOST_EVENTS * (self.world.size() as u64).div_ceil(FEW_NODES).pow(2)
    }

    fn call(&mut self, call: u64) {
        let number = (call & 0xffff_ffff) as usize;
        if call & LOST != 0 {
            self.session_is_lost(number as u32);
        } else if call & TIRED != 0 {
            self.host_leaves(number as u32);
        } else if call & GONE != 0 {
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

    /// How long after a death all know of it, at the latest.
    fn noticed_within(&self) -> Nanos {
        self.members.as_ref().map_or(0, Members::notices_within)
    }

    /// The node after this one, of those that belong to the cluster.
    fn next_node(&self, node: NodeId) -> NodeId {
        let nodes = self.world.size() as u16;
        let others = (1..=nodes).map(|n| NodeId((node.0 + n) % nodes));
        others.into_iter().find(|n| self.world.belongs(*n)).unwrap_or(node)
    }

    /// The faults stop; everything must come to rest and be whole.
    fn heal(&mut self) -> Result<(), String> {
        self.world.tell(|| "the faults stop".to_string());
        self.world.conditions = Conditions::default();
        self.mend_members();
        self.mend_rare();
        self.mend_slow_disks();
        let begun = self.world.now();
        for n in (0..self.world.size() as u16).map(NodeId) {
            if !self.world.runs(n) {
                self.world.start_node(n);
            }
        }
        self.all_join()?;
        self.until_whole()?;
        self.healing = self.healing.max(self.world.now() - begun);
        // Silence from before may yet be taken for a death.
        let noticed = begun + self.noticed_within();
        self.until("silence is noticed", |run| run.world.now() >= noticed)?;
        self.until_whole()
    }

    fn until_whole(&mut self) -> Result<(), String> {
        self.until("everything at rest and whole", |run| {
            let nodes = (0..run.world.size() as u16).map(NodeId);
            let nodes = nodes.filter(|n| run.world.belongs(*n));
            let map = run.world.map();
            let whole = nodes.clone().into_iter().all(|n| map.is_up(n) && !map.is_stale(n));
            let even = run.world.is_settled() && !map.rebalancing;
            whole
                && even
                && nodes.into_iter().all(|n| run.world.status(n).is_some_and(|s| s.quiet))
                && run.world.is_united()
        })
    }

    /// Scrubs, then reads everything.
    fn verify(&mut self) -> Result<(), String> {
        let first_read = self.next_op;
        if self.volume.geometry.is_redundant() {
            let id = self.next_op;
            self.next_op += 1;
            self.scrub = Some(id);
            let unit = self.volume.geometry.unit;
            let scrub = self.operator.as_mut().map_or(HostOp::SCRUB, |o| o.scrub(unit));
            let first = self.next_node(NodeId(self.world.size() as u16 - 1));
            self.world.host(first, u64::from(id), VOLUME, scrub);
            self.until("the scrub is done", |run| run.scrub.is_none())?;
        }
        let all = self.volume.size / BLOCK;
        let mut first = 0;
        while first < all {
            let blocks = first..(first + 256).min(all);
            first = blocks.end;
            let len = (blocks.end - blocks.start) * BLOCK;
            let op = HostOp::Read(Range { offset: blocks.start * BLOCK, len });
            let nodes = self.world.size() as u16;
            self.clients[0].node = self.next_node(NodeId(self.next_op as u16 % nodes));
            self.ask(0, &Did::Read(Vec::new()), blocks.clone(), op);
            self.until("the last reads are answered", |run| run.clients[0].op.is_none())?;
            if std::mem::take(&mut self.lacks) {
                self.read_sectors(blocks)?;
            }
        }
        self.read_at_rest(first_read..self.next_op);
        if !self.exposes {
            return Ok(());
        }
        let lost = self.unreadable.clone();
        self.compare_losses()?;
        match lost.is_empty() || !self.next_op.is_multiple_of(2) {
            true => Ok(()),
            false => self.accept_losses(lost),
        }
    }

    /// When all faults are over, every node takes a write.
    pub(super) fn write_everywhere(&mut self) -> Result<(), String> {
        let all = self.volume.size / BLOCK;
        let nodes = (0..self.world.size() as u16).map(NodeId);
        for node in nodes.filter(|n| self.world.belongs(*n)).collect::<Vec<_>>() {
            let start = 8 * u64::from(node.0) % all;
            let blocks = start..(start + 8).min(all);
            let op = HostOp::Write(blocks.start * BLOCK, self.content_of(&blocks).into());
            self.clients[0].node = node;
            self.by_operator();
            self.ask(0, &Did::Wrote { zeros: false }, blocks, op);
            self.until("the last writes are answered", |run| run.clients[0].op.is_none())?;
        }
        Ok(())
    }

    /// Losses are accepted: it is zeros then, and nothing is lost any more.
    fn accept_losses(&mut self, sectors: BTreeSet<u64>) -> Result<(), String> {
        let all = self.volume.size / BLOCK;
        for sector in &sectors {
            let first = sector * (SECTOR / BLOCK);
            let blocks = first..(first + SECTOR / BLOCK).min(all);
            let len = (blocks.end - blocks.start) * BLOCK;
            let range = Range { offset: first * BLOCK, len };
            self.by_operator();
            self.ask(0, &Did::Accepted, blocks.clone(), HostOp::Accept(range));
            self.until("the loss is accepted", |run| run.clients[0].op.is_none())?;
            self.ask(0, &Did::Read(Vec::new()), blocks, HostOp::Read(range));
            self.until("the lost range is read", |run| run.clients[0].op.is_none())?;
            if self.lacks {
                return Err(format!("sector {sector} is lost though that was accepted"));
            }
        }
        self.compare_losses()
    }

    /// Sectors reported as lost are the unreadable ones. Reading it has it put back where that can be, and what cannot
    /// is lost only then; with locks that may take some leases.
    fn compare_losses(&mut self) -> Result<(), String> {
        self.until_whole()?;
        let id = self.next_op;
        self.next_op += 1;
        self.losses = Some(id);
        let range = Range { offset: 0, len: self.volume.size };
        let node = self.next_node(NodeId(0));
        self.world.host(node, u64::from(id), VOLUME, HostOp::Lost(range));
        self.until("losses are listed", |run| run.losses.is_none())
    }

    pub(super) fn losses_are(&mut self, result: Result<HostData, HostError>) {
        self.losses = None;
        let unreadable = std::mem::take(&mut self.unreadable);
        let sectors = |l: &LostRange| l.range.offset / SECTOR..l.range.end().div_ceil(SECTOR);
        let listed = match &result {
            Ok(HostData::Lost(_, found)) => found.iter().flat_map(sectors).collect(),
            _ => BTreeSet::new(),
        };
        if result.is_err() || listed != unreadable {
            self.error = Some(format!(
                "lost, it is said, are {result:?}; sectors {unreadable:?} could not be read"
            ));
        }
    }

    /// Reads what could not be read together, sector by sector.
    fn read_sectors(&mut self, blocks: std::ops::Range<u64>) -> Result<(), String> {
        let sector = SECTOR / BLOCK;
        for first in blocks.clone().step_by(sector as usize) {
            let some = first..(first + sector).min(blocks.end);
            let len = (some.end - some.start) * BLOCK;
            let op = HostOp::Read(Range { offset: first * BLOCK, len });
            self.ask(0, &Did::Read(Vec::new()), some, op);
            self.until("a sector is read", |run| run.clients[0].op.is_none())?;
            if std::mem::take(&mut self.lacks) {
                self.unreadable.insert(first / sector);
            }
        }
        self.lacks = false;
        Ok(())
    }

    /// Whether content of a volume with deferred parity may be permanently lost: a disk was, or those who were left
    /// had to settle a write without one that was to hold data of it.
    fn may_lose(&self) -> bool {
        self.exposes && (self.loses || self.world.settled_in_part() > 0)
    }

    fn scrub_done(&mut self, result: Result<HostData, HostError>) {
        match result {
            Ok(HostData::Scrubbed(p, _)) if p.is_true() => {}
            // Permanently lost content cannot be checked.
            Ok(HostData::Scrubbed(p, _))
                if self.may_lose() && p.mismatched == 0 && p.unclear == 0 => {}
            other => {
                self.error = Some(format!("{LOSS}parity is not true at rest: {other:?}"));
            }
        }
    }

    fn summary(&mut self) -> Summary {
        let mut fingerprint = self.world.events ^ self.world.now();
        for op in self.ops.values() {
            let line = format!("{op:?}");
            fingerprint = line
                .bytes()
                .fold(fingerprint, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
        }
        let nodes = 0..self.world.size() as u16;
        let erred = nodes.map(|n| self.world.disk(NodeId(n)).erred).sum();
        Summary {
            erred,
            layout: self.volume.layout.clone(),
            nodes: self.world.with_disks(),
            attached: self.world.size() - self.world.with_disks(),
            answered: self.ops.values().filter(|o| o.end.is_some()).count() as u64,
            unanswered: self.ops.values().filter(|o| o.end.is_none()).count() as u64,
            crashes: self.crashes,
            events: self.world.events,
            time: self.world.now(),
            members: self.members.as_ref().map(|_| self.world.terms_and_maps()),
            comings: self.world.comings(),
            healing: self.healing,
            placed: self.places.as_ref().map_or((0, 0), Places::counts),
            again: self.again,
            reserved: self.reserving.as_ref().map_or_else(Default::default, Reserving::counts),
            relied: self.world.counted(|c| c.relied_on_marks),
            copied: (self.world.counted(|c| c.copied.0), self.world.counted(|c| c.copied.1)),
            upgraded: self.world.upgraded(),
            settled_in_part: self.world.settled_in_part(),
            rests: self.world.rests,
            detours: self.world.detours(),
            forged: self.world.forged(),
            given_up: self.world.given_up(),
            no_space: self.full.refused,
            taken_out: self.slow_disks.as_ref().map_or((0, 0), |s| s.counts),
            unremembered: self.world.unremembered,
            fingerprint,
        }
    }
}
