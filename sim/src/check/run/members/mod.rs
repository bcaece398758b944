//! Runs in which the nodes are in processes that rule together: what is drawn of them, what goes
//! wrong with them, and what is judged otherwise.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use fastrand::Rng;
use weft_core::units::{MILLIS, Nanos, NodeId};
use weft_member::Config;

use super::super::history::{BLOCK, Did, Op};
use super::super::options::Options;
use super::damage;
use super::faults::Fault;
use super::rare::Rare;
use super::{CLIENT, Run};
use crate::world::Conditions;

/// What happens to processes.
#[derive(Clone, Copy, Debug)]
pub(super) enum MemberFault {
    /// The process of whoever leads dies, and returns after so long.
    KillLeader(bool, Nanos),
    /// A process is stopped for so long, with all that it was about to do.
    Pause(NodeId, Nanos),
    /// Whoever leads is stopped for so long.
    PauseLeader(Nanos),
    /// Nothing comes through from the first to the second, or everything again.
    Cut(NodeId, NodeId, bool),
    /// The links of a process lose so many packets of a million.
    Lossy(NodeId, u32),
    /// Much of what other members say to a process comes late: by up to so long.
    Late(NodeId, Nanos),
    /// A node dies and its process does not; it opens its disk again after so long.
    DieAlone(NodeId, Nanos),
    /// All connections of a process break, and nothing else.
    Disconnect(NodeId),
    /// A clock's rate changes.
    Rate(NodeId, i64),
    /// The next node is admitted.
    Admit,
    /// Something happens so soon after the map begins to change (`false`) or has changed (`true`) for
    /// the next time.
    Trap(bool, Snap, Nanos),
}

/// What a trap does.
#[derive(Clone, Copy, Debug)]
pub(super) enum Snap {
    /// This process dies, or the leader's, and returns after so long.
    Kill(Option<NodeId>, Nanos),
    /// All power is cut.
    Power,
}

/// A trap that is set, and how often the map had changed then.
struct Trap {
    changed: bool,
    count: u64,
    snap: Snap,
    soon: Nanos,
}

/// What is drawn of processes.
pub(super) struct Members {
    pub config: Config,
    /// How many nodes each process has.
    pub hosted: u16,
    /// How many hosts are their own controllers.
    pub attached: u16,
    rng: Rng,
    /// Clocks keep to no bound: what leases promise does not hold.
    pub wild: bool,
    /// Hosts soon lose patience, and most of what they ask is of a few blocks on different columns:
    /// so what a node answers from its own disk matters.
    pub hot: bool,
    /// How much slower members' logs are than disks.
    log_times: u64,
    /// The length of a phase's faults.
    pub span: Nanos,
    /// The longest that a host thinks.
    thinks: Nanos,
    traps: Vec<Trap>,
    /// What is drawn of damage to members' logs while their processes are down, if there is any in this run.
    pub decay: Option<Rng>,
    /// The processes that alone may suffer in this phase, if it is one of those.
    pub victims: BTreeSet<NodeId>,
    /// Operations that were asked when everything was at rest.
    at_rest: Vec<Range<u32>>,
}

impl Members {
    /// Draws whether the run of a seed has processes, and how they are set.
    pub fn draw(seed: u64, options: &mut Options, rare: Option<&Rare>) -> Option<Members> {
        let mut rng = Rng::with_seed(seed ^ 0x000a_3e3b_e255);
        let drawn = rng.u8(0..4) == 0;
        if !options.members.unwrap_or(drawn) {
            return None;
        }
        let slow = Config::default();
        // The same proportions as in a real cluster, at the pace of the rest of the check.
        let times = [10, 20, 40][rng.usize(0..3)];
        let config = Config {
            tick: slow.tick / times,
            probe_every: slow.probe_every / times,
            ping_every: slow.ping_every / times,
            lease: slow.lease / times,
            dead_after: slow.dead_after / times,
            open_patience: slow.open_patience / times,
            voters: [3, 5][rng.usize(0..2)],
            snapshot_every: {
                let drawn = [4, 16, 64][rng.usize(0..3)];
                rare.map_or(drawn, |r| r.snapshot_every)
            },
            seed,
            bug: options.member_bug,
            ..slow
        };
        let wild = rng.u8(0..8) == 0;
        if wild {
            options.places = false;
        }
        let (hot, log_times) = (rng.bool(), [2, 8][rng.usize(0..2)]);
        let span = config.dead_after * rng.u64(4..12);
        let (traps, at_rest) = (Vec::new(), Vec::new());
        let mut several = Rng::with_seed(seed ^ 0x0005_e4e2_a110);
        let hosted =
            options.hosted.unwrap_or(if several.u8(0..4) == 0 { several.u16(2..=3) } else { 1 });
        let mut guests = Rng::with_seed(seed ^ 0x000d_15c1_e550);
        let attached =
            options.attached.unwrap_or(if guests.u8(0..4) == 0 { guests.u16(1..=2) } else { 0 });
        let mut decay = Rng::with_seed(seed ^ 0x0010_9dec_a75f);
        let decays = options.faults.rot && decay.u8(0..4) == 0;
        Some(Members {
            decay: decays.then_some(decay),
            config,
            hosted,
            attached,
            rng,
            wild,
            hot,
            log_times,
            span,
            thinks: 0,
            traps,
            victims: BTreeSet::new(),
            at_rest,
        })
    }

    /// How long a host thinks before it asks again: so that its requests last as long as the
    /// faults.
    pub fn think(&mut self) -> Nanos {
        self.rng.u64(1..2 + self.thinks)
    }

    /// How long a host waits for an answer, if it does not wait for good.
    pub fn host_patience(&mut self) -> Option<Nanos> {
        let dead_after = self.config.dead_after;
        let most = if self.hot { dead_after / 4 } else { 4 * dead_after };
        (self.hot || self.rng.bool()).then(|| self.rng.u64(MILLIS..most))
    }

    /// So long after the faults have stopped nobody is counted dead any more for having been silent
    /// before, even if the clocks are as far off as they may be.
    pub fn notices_within(&self) -> Nanos {
        2 * (self.config.dead_after + self.config.probe_every)
    }

    /// A clock's rate.
    fn rate(&mut self) -> i64 {
        let bound = i64::from(self.config.drift_ppm);
        match self.wild {
            true => self.rng.i64(-400_000..=400_000),
            false => [-bound, 0, bound, self.rng.i64(-bound..=bound)][self.rng.usize(0..4)],
        }
    }
}

impl Run {
    /// Where there are processes, they find together before anything is asked of them.
    pub(super) fn begin(&mut self) -> Result<(), String> {
        let Some(members) = &self.members else { return Ok(()) };
        self.world.set_log_times(members.log_times);
        if members.wild {
            self.world.let_clocks_run();
        }
        self.until("the cluster is founded and all have joined", |run| {
            let map = run.world.map();
            let mut nodes = run.nodes().filter(|n| run.world.belongs(*n));
            nodes.all(|n| map.is_up(n) && !map.is_stale(n)) && run.world.is_united()
        })
    }

    pub(super) fn cluster(&mut self) -> &mut Members {
        self.members.as_mut().expect("a run with processes")
    }

    pub(super) fn draw_member_faults(&mut self) {
        let f = self.options.faults;
        let clients = self.clients.len() as u64;
        let operations = u64::from(self.options.operations);
        let (mut victims, hosts): (Vec<NodeId>, Vec<NodeId>) =
            self.nodes().partition(|n| !self.world.is_attached(*n));
        let m = self.cluster();
        m.thinks = 2 * m.span * clients / operations.max(1);
        m.rng.shuffle(&mut victims);
        self.harmed_first(&mut victims);
        let may_be_harmed = self.may_be_harmed_still();
        let m = self.cluster();
        self.beyond = f.beyond && m.rng.bool() && !may_be_harmed;
        self.draw_member_conditions();
        if self.beyond {
            for _ in 0..self.cluster().rng.usize(2..=8) {
                let victim = victims[self.cluster().rng.usize(0..victims.len())];
                self.draw_member_fault(victim);
            }
        } else {
            // Those of one process may go together.
            let mut processes = BTreeSet::new();
            victims.retain(|v| processes.insert(self.world.process_of(*v)));
            let victims = self.borne(victims);
            let processes = victims.iter().map(|v| self.world.process_of(*v)).collect();
            self.cluster().victims = processes;
            victims.into_iter().for_each(|victim| self.draw_victim(victim));
        }
        // Nobody needs these: all of them may be lost beside the victims.
        for host in hosts {
            for _ in 0..self.cluster().rng.usize(0..=4) {
                self.draw_member_fault(host);
            }
        }
        let size = self.world.with_disks() as u16;
        let m = self.cluster();
        if f.power && m.rng.bool() {
            let at = m.rng.u64(0..m.span);
            match m.rng.u8(0..3) {
                0 => self.plan(at, Fault::Power),
                _ => {
                    let soon = self.cluster().rng.u64(0..4 * MILLIS);
                    self.plan_member(at, MemberFault::Trap(false, Snap::Power, soon));
                }
            }
        }
        let span = self.cluster().span;
        self.draw_form(span);
        let m = self.cluster();
        if f.moves && m.rng.u8(0..4) == 0 {
            let (node, at) = (NodeId(m.rng.u16(0..size)), m.rng.u64(0..m.span));
            let (ends, after) = (m.rng.u8(0..3) == 0, m.rng.u64(0..m.span / 4));
            self.plan(at, Fault::Drain(node, true));
            if ends {
                self.plan(at + after, Fault::Drain(node, false));
            }
        }
        let span = self.cluster().span;
        let moves = self.operator.as_mut().filter(|_| f.operator).map(|op| op.moves(span));
        moves.into_iter().flatten().for_each(|(at, fault)| self.plan(at, fault));
        for _ in self.world.map().nodes.len()..self.world.size() {
            let at = self.operator.as_mut().map_or(0, |op| op.rng.u64(0..span));
            self.plan_member(at, MemberFault::Admit);
        }
    }

    /// While the map changes at rest: processes die and return, and whoever leads, perhaps at the very moment.
    pub(super) fn disturb_members(&mut self) {
        let f = self.options.faults;
        let nodes: Vec<NodeId> = self.nodes().filter(|n| self.world.belongs(*n)).collect();
        let dead_after = self.cluster().config.dead_after;
        let Some(op) = self.operator.as_mut() else { return };
        let mut plan = Vec::new();
        let (stays, at) = (op.rng.u64(0..2 * dead_after), op.rng.u64(0..2 * MILLIS));
        let changed = op.rng.bool();
        match op.rng.u8(0..4) {
            0 if f.power => plan.push((0, MemberFault::Trap(changed, Snap::Power, at))),
            1 if f.crashes => {
                plan.push((0, MemberFault::Trap(changed, Snap::Kill(None, stays), at)));
            }
            2 if f.crashes => {
                let whom = op.rng.choice(nodes);
                plan.push((0, MemberFault::Trap(changed, Snap::Kill(whom, stays), at)));
            }
            3 if f.pauses => plan.push((at, MemberFault::PauseLeader(stays))),
            _ => {}
        }
        plan.into_iter().for_each(|(at, fault)| self.plan_member(at, fault));
    }

    /// Whoever was to be admitted and was not yet is.
    pub(super) fn all_join(&mut self) -> Result<(), String> {
        for _ in 0..20 {
            if self.members.is_none() || self.world.map().nodes.len() == self.world.size() {
                return Ok(());
            }
            self.world.admit_next();
            self.until("a node is admitted", |run| run.world.is_settled())?;
        }
        Err("a node that asks to be admitted is not".into())
    }

    fn nodes(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.world.size() as u16).map(NodeId)
    }

    /// How messages, disks and clocks are in a phase.
    fn draw_member_conditions(&mut self) {
        let (f, beyond, size) = (self.options.faults, self.beyond, self.world.with_disks() as u16);
        let m = self.cluster();
        let mut conditions = Conditions::default();
        if f.messages && m.rng.bool() {
            // Where nobody but the victims may be lost, not so many that others are taken for dead.
            let most = if beyond { 20_000 } else { 5_000 };
            conditions.drop_ppm = m.rng.u32(0..most);
            conditions.repeat_ppm = m.rng.u32(0..50_000);
            conditions.straggle_ppm = m.rng.u32(0..50_000);
        }
        let slow = NodeId(m.rng.u16(0..size));
        if f.slow && m.rng.u8(0..4) == 0 {
            conditions.slow = Some((slow, 10));
        }
        self.world.conditions = conditions;
        for node in self.world.processes() {
            let m = self.cluster();
            let (at, now, later, broken) =
                (m.rng.u64(0..m.span), m.rate(), m.rate(), m.rng.u8(0..4) == 0);
            self.world.set_rate(node, now);
            self.plan_member(at, MemberFault::Rate(node, later));
            if self.cluster().wild {
                // Hosts get no answer while leases mostly end before they are renewed.
                let bound = i64::from(self.cluster().config.drift_ppm);
                let span = self.cluster().span;
                self.plan_member(span, MemberFault::Rate(node, later.clamp(-bound, bound)));
            }
            if f.messages && broken {
                let at = self.cluster().rng.u64(0..2 * at + 1);
                self.plan_member(at, MemberFault::Disconnect(node));
            }
        }
    }

    pub(super) fn plan_member(&mut self, after: Nanos, fault: MemberFault) {
        self.plan(after, Fault::Member(fault));
    }

    /// What happens to one that may be lost while all others must not: it comes and goes, or its
    /// disk decays.
    fn draw_victim(&mut self, victim: NodeId) {
        let f = self.options.faults;
        if f.damage && f.crashes {
            let span = self.cluster().span;
            let plan = damage::draw(&mut self.damage_rng, victim, span);
            plan.into_iter().for_each(|(at, fault)| self.plan(at, fault));
        }
        let decays = self.cluster().rng.u8(0..4) == 0;
        let (span, dead_after) = (self.cluster().span, self.cluster().config.dead_after);
        for _ in 0..self.cluster().rng.usize(1..=4) {
            if !decays {
                self.draw_member_fault(victim);
            } else if f.rot {
                let rng = &mut self.cluster().rng;
                let (at, spoil) = (rng.u64(0..span), rng.bool());
                self.plan(at, if spoil { Fault::Spoil(victim) } else { Fault::Rot(victim) });
            }
        }
        let rng = &mut self.cluster().rng;
        if !decays && f.crashes && rng.u8(0..4) == 0 {
            // Its disk is lost.
            let (at, power) = (rng.u64(0..span), rng.bool());
            let found = at + rng.u64(0..2 * dead_after);
            let (replaced, back) = (rng.bool(), found + rng.u64(0..2 * dead_after));
            self.plan(at, Fault::Kill(victim, power));
            self.plan(found, if replaced { Fault::Replace(victim) } else { Fault::GiveUp(victim) });
            self.plan(back, Fault::Return(victim));
        }
    }

    /// Something happens to a process; in a phase in which more may happen than the layout bears,
    /// perhaps to the leader instead.
    fn draw_member_fault(&mut self, victim: NodeId) {
        let (f, beyond) = (self.options.faults, self.beyond);
        // Of two processes one votes, and takes the other for dead if it does not hear it. A host has
        // to go where it is not heard.
        let with_disks = |p: &NodeId| !self.world.is_attached(*p);
        let processes = self.world.processes().into_iter().filter(with_disks).count();
        let is_known_to_go = processes > 2 || self.world.is_attached(victim);
        let m = self.cluster();
        let (lease, dead_after) = (m.config.lease, m.config.dead_after);
        let at = m.rng.u64(0..m.span);
        let stays = m.rng.u64(0..3 * dead_after);
        let (power, leader) = (m.rng.bool(), beyond && m.rng.u8(0..3) == 0);
        match m.rng.u8(0..14) {
            0 | 1 if f.crashes && leader => {
                self.plan_member(at, MemberFault::KillLeader(power, stays));
            }
            0 | 1 if f.crashes => {
                self.plan(at, Fault::Kill(victim, power));
                self.plan(at + stays, Fault::Return(victim));
            }
            2..=4 if f.pauses => {
                let time = m.rng.u64(0..3 * lease);
                self.plan_member(
                    at,
                    match leader {
                        true => MemberFault::PauseLeader(time),
                        false => MemberFault::Pause(victim, time),
                    },
                );
            }
            5..=8 if f.cuts && (beyond || is_known_to_go) => {
                // What one answers that is out matters where hosts go on asking it.
                let longer = if m.hot { dead_after } else { 0 };
                self.draw_cut(victim, at, stays + longer);
            }
            9 if f.crashes => {
                let again = m.rng.u64(0..dead_after);
                self.plan_member(at, MemberFault::DieAlone(victim, again));
            }
            10 | 11 if f.crashes => {
                let changed = m.rng.bool();
                let soon = m.rng.u64(0..if changed { 20 } else { 2 } * MILLIS);
                let whom = (!leader).then_some(victim);
                let snap = Snap::Kill(whom, stays);
                self.plan_member(at, MemberFault::Trap(changed, snap, soon));
            }
            // With clocks that keep no bound too, who only hears badly may be taken for dead.
            12 | 13 if f.cuts && is_known_to_go && (beyond || !m.wild) => {
                // Of one packet in six that is lost a stream may well stand still for `dead_after`.
                let ppm = m.rng.u32(20_000..if beyond { 200_000 } else { 100_000 });
                self.plan_member(at, MemberFault::Lossy(victim, ppm));
                self.plan_member(at + stays, MemberFault::Lossy(victim, 0));
            }
            _ => {}
        }
    }

    /// A process, or in a phase beyond what the layout bears a few of them, is cut off from all
    /// others or from some, in one direction or in both.
    fn draw_cut(&mut self, victim: NodeId, at: Nanos, stays: Nanos) {
        let (beyond, home) = (self.beyond, self.world.process_of(victim));
        let attached = self.world.is_attached(victim);
        let m = self.cluster();
        let side: u64 = if beyond && m.rng.bool() { m.rng.u64(..) } else { 1 << home.0 };
        let direction = m.rng.u8(0..4);
        let only_some = m.rng.u8(0..3) == 0;
        // Of two that do not hear each other either may be lost; of one and several others, that one. Nobody
        // misses those that have left, nor other victims, which may be gone. Those with disks are the first.
        let mut whole: u8 = if beyond || attached { 0 } else { 2 };
        let mut hale = whole;
        let mut links = Vec::new();
        let processes = self.world.processes();
        let there: BTreeSet<NodeId> = self.world.map().up().collect();
        let m = self.cluster();
        let side_of =
            |one: u64| processes.iter().map(|p| p.0).filter(move |n| side >> n & 1 == one);
        for a in side_of(1) {
            for b in side_of(0) {
                let spared = only_some && whole == 0 && m.rng.bool();
                let is_hale = !m.victims.contains(&NodeId(b)) && there.contains(&NodeId(b));
                if spared && (hale == 0 || !is_hale) {
                    continue;
                }
                whole = whole.saturating_sub(1);
                hale = hale.saturating_sub(u8::from(is_hale));
                if direction != 0 {
                    links.push((NodeId(a), NodeId(b)));
                }
                if direction != 1 {
                    links.push((NodeId(b), NodeId(a)));
                }
            }
        }
        for (from, to) in links {
            self.plan_member(at, MemberFault::Cut(from, to, true));
            self.plan_member(at + stays, MemberFault::Cut(from, to, false));
        }
    }

    pub(super) fn member_fault(&mut self, fault: MemberFault) {
        match fault {
            MemberFault::KillLeader(power, stays) => self.kill_for(None, power, stays),
            MemberFault::Pause(node, time) => {
                if self.world.runs(node) {
                    self.world.pause(node, time);
                }
            }
            MemberFault::PauseLeader(time) => {
                if let Some(leader) = self.world.leader().filter(|l| self.world.runs(*l)) {
                    self.world.pause(leader, time);
                }
            }
            MemberFault::Cut(from, to, on) => self.world.cut(from, to, on),
            MemberFault::Late(node, by) => self.world.make_late(node, by),
            MemberFault::Lossy(node, ppm) => self.world.lose_packets(node, ppm),
            MemberFault::DieAlone(node, again) => {
                if self.world.runs(node) && !self.world.is_paused(node) {
                    self.crashes += 1;
                    self.world.kill_node_alone(node, again);
                    self.abandon(|c| c.node == node);
                }
            }
            MemberFault::Disconnect(node) => {
                self.world.connections(node, false);
                self.world.connections(node, true);
            }
            MemberFault::Rate(node, rate) => self.world.set_rate(node, rate),
            MemberFault::Admit if self.world.map().nodes.len() < self.world.size() => {
                self.world.admit_next();
            }
            MemberFault::Admit => {}
            MemberFault::Trap(changed, snap, soon) => {
                let count = self.count(changed);
                self.cluster().traps.push(Trap { changed, count, snap, soon });
            }
        }
    }

    fn count(&self, changed: bool) -> u64 {
        let (begun, done) = self.world.changes();
        if changed { done } else { begun }
    }

    /// A process dies, the leader's if none is given, and returns after so long.
    fn kill_for(&mut self, node: Option<NodeId>, power: bool, stays: Nanos) {
        let node = node.or(self.world.leader()).filter(|n| self.world.runs(*n));
        if let Some(node) = node {
            self.fault(Fault::Kill(node, power));
            self.plan(stays, Fault::Return(node));
        }
    }

    /// After all power was cut the processes start one after the other: soon, unless more may be
    /// missing than the layout bears.
    pub(super) fn restart_processes(&mut self) {
        let beyond = self.beyond;
        for node in self.nodes() {
            let m = self.cluster();
            let dead_after = m.config.dead_after;
            let most = if beyond { 2 * dead_after } else { dead_after / 3 };
            let stays = m.rng.u64(0..most);
            self.plan(stays, Fault::Return(node));
        }
    }

    /// Looks what has become of the processes; called after everything that happens.
    pub(super) fn look_at_members(&mut self) {
        if self.members.is_none() {
            return;
        }
        if let Some(wrong) = self.world.take_wrong() {
            self.error = Some(wrong);
        }
        if self.cluster().traps.is_empty() {
            return;
        }
        let counts = [self.count(false), self.count(true)];
        let traps = std::mem::take(&mut self.cluster().traps);
        let (sprung, kept): (Vec<Trap>, Vec<Trap>) =
            traps.into_iter().partition(|t| counts[usize::from(t.changed)] > t.count);
        self.cluster().traps = kept;
        for trap in sprung {
            // Whoever leads is found when it happens.
            match trap.snap {
                Snap::Power => self.plan(trap.soon, Fault::Power),
                Snap::Kill(None, stays) => {
                    self.plan_member(trap.soon, MemberFault::KillLeader(false, stays));
                }
                Snap::Kill(Some(node), stays) => {
                    self.plan(trap.soon, Fault::Kill(node, false));
                    self.plan(trap.soon + stays, Fault::Return(node));
                }
            }
        }
    }

    /// The faults of the processes stop.
    pub(super) fn mend_members(&mut self) {
        if self.members.is_none() {
            return;
        }
        self.cluster().traps.clear();
        self.world.mend_links();
        let bound = i64::from(self.cluster().config.drift_ppm);
        for node in self.world.processes() {
            let rate = self.cluster().rate().clamp(-bound, bound);
            self.world.set_rate(node, rate);
            self.world.go_on(node);
        }
    }

    /// A host has waited long enough and goes to another node, or asks the same again. What became of its request it never
    /// hears; its node learns that it is gone, or does not.
    pub(super) fn host_leaves(&mut self, request: u32) {
        let Some(n) = self.clients.iter().position(|c| c.op == Some(request)) else { return };
        self.world.tell(|| format!("host {n} waits no longer for request {request}"));
        if self.will_leave(n) {
            return;
        }
        let (node, pieces) = (self.clients[n].node, self.clients[n].pieces);
        self.clients[n].op = None;
        self.never_hears(request..request + pieces);
        if self.cluster().rng.bool() {
            self.world.host_gone(node, u64::from(request));
        }
        let m = self.cluster();
        if m.rng.u8(0..4) < if m.hot { 1 } else { 2 } {
            self.clients[n].node = self.next_node(node);
        }
        self.world.call_after(MILLIS, CLIENT | n as u64);
    }

    /// In runs with hot blocks, for three in four requests: one of those, and whether it is only to be
    /// read. For half of them it is one on the disk of the host's own node. These are only read: a node
    /// that is cut off can answer that alone, as long as nothing that it cannot decide stands before it.
    pub(super) fn hot_block(&mut self, node: NodeId) -> Option<(Range<u64>, bool)> {
        let volume = &self.volume;
        let unit = volume.geometry.unit;
        let is_near = |n: &u64| {
            let (stripe, column, _) = volume.geometry.locate(n * unit);
            let extent = volume.extents.iter().rfind(|e| e.first <= stripe);
            extent.is_some_and(|e| e.columns[column].0 == node)
        };
        let units = (volume.size / unit).min(5);
        let (near, far): (Vec<u64>, Vec<u64>) = (0..units).partition(is_near);
        let members = self.members.as_mut().filter(|m| m.hot)?;
        let (hot, own) = (members.rng.u8(0..4) > 0, members.rng.bool());
        let n = members.rng.choice(if own { &near } else { &far }).filter(|_| hot)?;
        Some((n * unit / BLOCK..n * unit / BLOCK + 1, own))
    }

    /// These operations were asked when everything was at rest.
    pub(super) fn read_at_rest(&mut self, ops: Range<u32>) {
        if let Some(members) = &mut self.members {
            members.at_rest.push(ops);
        }
    }

    /// Where clocks kept to no bound a process may have answered from its own disk after others
    /// had gone on without it. What was written counts, and what was read at rest.
    pub(super) fn leave_out_what_clocks_spoil(&self, ops: &mut BTreeMap<u32, Op>) {
        let Some(members) = self.members.as_ref().filter(|m| m.wild) else { return };
        let at_rest = |n: &u32| members.at_rest.iter().any(|r| r.contains(n));
        ops.retain(|n, op| !matches!(op.did, Did::Read(_)) || at_rest(n));
    }
}
