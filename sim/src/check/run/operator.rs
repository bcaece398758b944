//! What an operator does in a run while hosts work and things fail: has columns moved until disks are
//! equally full, makes the volume smaller and larger, bounds rates; where there are processes, admits nodes and
//! removes some permanently.
//!
//! All of it is drawn from a stream of its own, and only in some runs, so that older seeds stay what
//! they were. In these runs the volume is at first on some of the nodes only.

use std::collections::BTreeSet;

use fastrand::Rng;
use weft_core::cluster::{VolumeSize, place_stripes, place_thin, plan_balance, thin_start};
use weft_core::node::{FillRates, HostOp, Trust, UNBOUNDED};
use weft_core::plan::Range;
use weft_core::units::{MILLIS, Nanos, NodeId};

use super::super::history::{BLOCK, Did};
use super::faults::Fault;
use super::{Run, VOLUME};

/// What an operator has in mind in a run.
pub(super) struct Operator {
    pub rng: Rng,
    /// For what moves while the volume gets another size.
    sizing_rng: Rng,
    /// Bytes of an extent's column.
    pub column_bytes: u64,
    /// Whether the last command was to make disks equally full.
    pub evens: bool,
    /// Stripes that the volume had at first.
    pub stripes: u64,
}

impl Operator {
    /// Draws whether there is one in the run of a seed.
    pub fn draw(seed: u64, unit: u64) -> Option<Operator> {
        let mut rng = Rng::with_seed(seed ^ 0x000b_a1a4_ce00);
        let there = rng.u8(0..3) == 0;
        let column_bytes = unit * rng.u64(1..=6);
        let sizing_rng = Rng::with_seed(seed ^ 0x000b_a1a4_ce01);
        let operator = Operator { rng, sizing_rng, column_bytes, evens: false, stripes: 0 };
        there.then_some(operator)
    }

    /// How fast disks are filled.
    pub fn fill(&mut self) -> FillRates {
        if self.rng.bool() {
            return FillRates::UNBOUNDED;
        }
        let floor = (512 << 10) << self.rng.u64(0..6);
        let ceiling = if self.rng.bool() { UNBOUNDED } else { floor << self.rng.u64(0..4) };
        FillRates { floor, ceiling }
    }

    /// When balancing of disks starts, and when it stops.
    pub fn moves(&mut self, span: Nanos) -> Vec<(Nanos, Fault)> {
        let mut plan = Vec::new();
        if self.rng.u8(0..4) > 0 {
            let at = self.rng.u64(0..span);
            plan.push((at, Fault::Rebalance(true)));
            if self.rng.u8(0..4) == 0 {
                plan.push((at + self.rng.u64(0..20 * MILLIS), Fault::Rebalance(false)));
            }
        }
        plan
    }

    /// A scrub, at a rate.
    pub fn scrub(&mut self, unit: u64) -> HostOp {
        let rate = if self.rng.bool() { UNBOUNDED } else { unit * self.rng.u64(20..2000) };
        HostOp::Scrub { from: 0, rate, trust: Trust::Nobody }
    }
}

impl Run {
    /// At rest, between phases: perhaps another size for the volume, while nodes die.
    pub(super) fn resize(&mut self) -> Result<(), String> {
        let stripe = self.volume.geometry.stripe_bytes();
        let has = self.volume.stripes();
        let Some(op) = self.operator.as_mut() else { return Ok(()) };
        let whole = stripe <= self.max_chunk;
        match op.rng.u8(0..3) {
            0 => Ok(()),
            1 if has < op.stripes && whole => {
                let stripes = op.rng.u64(has + 1..=op.stripes);
                self.grow(stripes)
            }
            _ => {
                let size = op.rng.u64(1..=self.volume.size / BLOCK) * BLOCK;
                self.set_size(VolumeSize { size, visible: size, more: Vec::new() })
            }
        }
    }

    /// Makes it larger, by whole stripes, and clears the new range.
    fn grow(&mut self, stripes: u64) -> Result<(), String> {
        let before = self.volume.size;
        let size = stripes * self.volume.geometry.stripe_bytes();
        let column = self.operator.as_ref().map_or(0, |o| o.column_bytes);
        let map = self.world.map();
        let there = &map.volumes[&VOLUME];
        let more = there.stripes()..stripes;
        let (geometry, places) = (&there.geometry, map.places(&there.apart));
        let placed = match there.is_thin() {
            true => place_thin(thin_start(there), geometry, more, &places, &[there], column),
            false => place_stripes(geometry, more, &places, &[there], column),
        };
        let Ok(more) = placed else { return Ok(()) };
        self.set_size(VolumeSize { size, visible: size, more })?;
        if self.volume.size == before {
            // Its room had been taken meanwhile.
            return Ok(());
        }
        let range = Range { offset: before, len: size - before };
        let blocks = before / BLOCK..size / BLOCK;
        self.by_operator();
        self.ask(0, &Did::Wrote { zeros: true }, blocks, HostOp::WriteZeroes(range));
        self.until("the added range is cleared", |run| run.clients[0].op.is_none())
    }

    /// Has the map say so, while as many nodes die as the layout bears, or all power goes. In half of the cases columns move
    /// meanwhile.
    fn set_size(&mut self, to: VolumeSize) -> Result<(), String> {
        let drained = self.begin_to_move()?;
        self.disturb();
        // Whoever asked for it asks again if the authority died and did not do it.
        for _ in 0..4 {
            self.world.size_volume(VOLUME, to.clone());
            self.until("the size is changed", |run| {
                run.pending_faults == 0 && run.world.is_settled()
            })?;
            self.heal()?;
            self.volume = (*self.world.map().volumes[&VOLUME]).clone();
            if self.volume.size == to.size {
                break;
            }
        }
        if let Some(node) = drained {
            self.world.drain(node, false);
            self.heal()?;
            self.volume = (*self.world.map().volumes[&VOLUME]).clone();
        }
        Ok(())
    }

    /// Perhaps drains a node that has a column not being drained, and waits until its columns are moving, if there is
    /// space.
    fn begin_to_move(&mut self) -> Result<Option<NodeId>, String> {
        let f = self.options.faults;
        let map = self.world.map();
        let has = map.volumes[&VOLUME].nodes().into_iter();
        let stays = has.filter(|n| !map.nodes[usize::from(n.0)].draining).collect::<Vec<_>>();
        let Some(op) = self.operator.as_mut().filter(|_| self.options.moves_when_sized) else {
            return Ok(None);
        };
        let moves = op.sizing_rng.bool();
        let node = op.sizing_rng.choice(stays).filter(|_| moves && f.moves);
        if let Some(node) = node {
            self.world.drain(node, true);
            self.until("columns move", |run| run.world.is_settled())?;
        }
        Ok(node)
    }

    /// Plans faults while the map changes. No host asks for anything then.
    fn disturb(&mut self) {
        match self.members {
            Some(_) => self.disturb_members(),
            None => self.draw_victims().into_iter().for_each(|(at, fault)| self.plan(at, fault)),
        }
    }

    /// At rest, between phases, where there are processes: perhaps a node leaves permanently. Its content moves to the
    /// others, it is switched off, and removed from the map.
    pub(super) fn leave(&mut self) -> Result<(), String> {
        let Some(node) = self.draw_leaver() else { return Ok(()) };
        self.leaving = true;
        self.world.drain(node, true);
        self.disturb();
        self.until("nothing of the volume is on the node that leaves", |run| {
            let settled = run.pending_faults == 0 && run.world.is_settled();
            settled && !run.world.map().volumes[&VOLUME].nodes().contains(&node)
        })?;
        self.volume = (*self.world.map().volumes[&VOLUME]).clone();
        self.disturb();
        // It is not done while the node is still believed to run.
        for _ in 0..20 {
            let power = self.operator.as_mut().is_some_and(|op| op.rng.bool());
            self.fault(Fault::Kill(node, power));
            self.world.remove_node(node);
            let again = self.world.now() + self.noticed_within();
            self.until("the node is taken out, or is still believed to run", |run| {
                run.pending_faults == 0 && run.world.is_settled() && run.world.now() >= again
            })?;
            if !self.world.belongs(node) {
                break;
            }
        }
        if self.world.belongs(node) {
            return Err(format!("{node} is drained and down and cannot leave"));
        }
        let next = self.next_node(node);
        self.clients.iter_mut().filter(|c| c.node == node).for_each(|c| c.node = next);
        self.leaving = false;
        self.heal()
    }

    /// A node that the others can do without.
    fn draw_leaver(&mut self) -> Option<NodeId> {
        self.members.as_ref()?;
        let op = self.operator.as_mut().filter(|_| self.options.faults.operator)?;
        let leaves = op.rng.u8(0..3) == 0;
        let map = self.world.map();
        // This many can hold a column of an extent together.
        let places = map.places(&self.volume.apart);
        let domains: BTreeSet<usize> =
            places.iter().filter(|p| p.sectors > 0).map(|p| p.domain).collect();
        let room = domains.len();
        let with_disks = |n: &NodeId| {
            let stays = self.world.is_attached(*n) || self.world.is_to_get_a_disk(*n);
            !stays && self.world.belongs(*n)
        };
        let all: Vec<NodeId> =
            (0..self.world.size() as u16).map(NodeId).filter(with_disks).collect();
        let spare = room > self.volume.geometry.layout.width();
        op.rng.choice(all).filter(|_| leaves && spare)
    }

    fn draw_victims(&mut self) -> Vec<(Nanos, Fault)> {
        // How long one takes: a message to and fro, and a map to be stored.
        let (faults, bears) = (self.options.faults, self.bears());
        let nodes = self.world.size() as u16;
        let Some(op) = self.operator.as_mut() else { return Vec::new() };
        let mut plan = Vec::new();
        if faults.power && op.rng.u8(0..4) == 0 {
            plan.push((op.rng.u64(0..2 * MILLIS), Fault::Power(None)));
        } else if faults.crashes {
            let mut all: Vec<u16> = (0..nodes).collect();
            op.rng.shuffle(&mut all);
            for node in all.into_iter().take(bears) {
                if op.rng.bool() {
                    let node = NodeId(node);
                    plan.push((op.rng.u64(0..2 * MILLIS), Fault::Kill(node, op.rng.bool())));
                }
            }
        }
        plan
    }

    /// What must be so at rest: disks that were to be made equally full are. The word may have been
    /// lost with the authority, or a node was drained after it; then it is said again.
    pub(super) fn check_balance(&mut self) -> Result<(), String> {
        if !self.operator.as_ref().is_some_and(|o| o.evens) {
            return Ok(());
        }
        let left = |run: &Run| plan_balance(run.world.map(), usize::MAX).moves;
        if !left(self).is_empty() {
            self.world.rebalance(true);
            self.heal()?;
        }
        match left(self) {
            left if left.is_empty() => Ok(()),
            left => Err(format!("disks could be more equally full: {left:?}")),
        }
    }
}
