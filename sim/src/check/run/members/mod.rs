//! Runs in which the nodes are in processes that rule together: their draws, their faults, and how their checks differ.

mod draw;
mod judge;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use fastrand::Rng;
use weft_core::units::{MILLIS, Nanos, NodeId};
use weft_member::Config;

use super::super::history::{BLOCK, Op};
use super::super::options::{Latest, Options};
use super::damage;
use super::faults::Fault;
use super::rare::Rare;
use super::{CLIENT, Run};
use crate::world::Conditions;

/// What happens to processes.
#[derive(Clone, Copy, Debug)]
pub(super) enum MemberFault {
    /// The leading process dies, and returns after this time.
    KillLeader(bool, Nanos),
    /// A process is stopped for this time, with all its pending work.
    Pause(NodeId, Nanos),
    /// The leading process is stopped for this time.
    PauseLeader(Nanos),
    /// Nothing comes through from the first to the second, or everything again.
    Cut(NodeId, NodeId, bool),
    /// The links of a process lose this many packets of a million.
    Lossy(NodeId, u32),
    /// Much of what other members say to a process comes late: by up to this time.
    Late(NodeId, Nanos),
    /// A node dies and its process does not; it opens its disk again after this time.
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
    /// This process dies, or the leader's, and returns after this time.
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

/// The draws for processes.
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
    /// The draws for damage to members' logs while their processes are down, if there is any in this run.
    pub decay: Option<Rng>,
    /// The draws for breaking links, where processes find detours.
    pub ways: Option<Rng>,
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
        let mut ways = Rng::with_seed(seed ^ 0x0011_4b5d_0ad5);
        let drawn = options.faults.links && ways.bool();
        let opens = options.ways.unwrap_or(drawn);
        Some(Members {
            ways: opens.then_some(ways),
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

    /// How long a host waits for an answer, if it does not wait forever.
    pub fn host_patience(&mut self) -> Option<Nanos> {
        let dead_after = self.config.dead_after;
        let most = if self.hot { dead_after / 4 } else { 4 * dead_after };
        (self.hot || self.rng.bool()).then(|| self.rng.u64(MILLIS..most))
    }

    /// After this time without faults no process is considered failed for earlier silence, even with the largest clock
    /// error.
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
        if members.ways.is_some() {
            // The same proportion to a death as in a real cluster.
            let tick = members.config.dead_after / 11;
            self.world.open_ways(tick, self.options.route_bug);
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

    /// A process dies, the leader's if none is given, and returns after this time.
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
}
