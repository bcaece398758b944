//! Runs that are led where the others seldom come: rings that are nearly full and wrap all the time,
//! checkpoints one after the other, power that goes while a superblock is being written, members' logs that begin
//! anew with every other entry, processes that are stopped when they have just said that they live.
//!
//! All of it is drawn from a stream of its own, and only in some runs, so that older seeds stay what
//! they were.

use fastrand::Rng;
use weft_core::node::NodeConfig;
use weft_core::units::{MILLIS, Nanos, NodeId};

use super::super::options::Options;
use super::Run;
use super::faults::Fault;
use super::members::MemberFault;
use super::relapses::{PATIENT, Relapse, Stage, Step};

/// What is out of the ordinary in a run.
pub(super) struct Rare {
    rng: Rng,
    /// Sectors of the journal.
    pub journal: u64,
    /// Committed sectors held in memory before a checkpoint is due.
    overlay: usize,
    /// Pages of the table kept in memory.
    pages: usize,
    /// How long committed changes may wait to be put in place.
    place_after: Nanos,
    /// Hosts write more than they read, much at a time, and hardly think.
    pub restless: bool,
    /// Entries of a member's log after which it begins anew.
    pub snapshot_every: u64,
    /// The traps that are set for writes of superblocks: after how many of them, and how soon then.
    traps: Vec<(u64, Nanos)>,
}

impl Rare {
    /// Draws whether the run of a seed is one, and how: one of four is.
    pub fn draw(seed: u64, options: &Options) -> Option<Rare> {
        let mut rng = Rng::with_seed(seed ^ 0x0007_a2e0_9a75);
        let drawn = rng.u8(0..4) == 0;
        options.rare.unwrap_or(drawn).then(|| Rare {
            journal: [32, 40, 48, 64][rng.usize(0..4)],
            overlay: if rng.bool() { 10_000 } else { rng.usize(1..20) },
            pages: rng.usize(1..=3),
            place_after: rng.u64(1..=60) * MILLIS,
            restless: rng.u8(0..4) > 0,
            snapshot_every: rng.u64(1..=3),
            traps: Vec::new(),
            rng,
        })
    }

    /// How long a host thinks.
    pub fn think(&self, otherwise: Nanos) -> Nanos {
        if self.restless { otherwise / 20 + 1 } else { otherwise }
    }

    pub fn set(&mut self, config: &mut NodeConfig) {
        config.store.overlay_sectors = self.overlay;
        config.store.table_pages = self.pages;
        config.place_after = self.place_after;
    }
}

impl Run {
    /// Sets the traps of a phase: the power goes when superblocks are being written.
    pub(super) fn draw_rare(&mut self) {
        self.draw_late_members();
        let now = self.world.superblock_writes;
        let power = self.options.faults.power;
        let Some(rare) = self.rare.as_mut().filter(|_| power) else { return };
        let mut count = now;
        for _ in 0..rare.rng.usize(0..=6) {
            count += rare.rng.u64(1..30);
            rare.traps.push((count, rare.rng.u64(0..MILLIS * 2 / 5)));
        }
    }

    /// Some that may be lost hear late, are heard no more for a while, or lose a node meanwhile: what reaches them
    /// then is of a time that is over.
    fn draw_late_members(&mut self) {
        let (f, beyond) = (self.options.faults, self.beyond);
        let processes = self.world.processes();
        let Some(members) = self.members.as_ref() else { return };
        let (span, dead_after) = (members.span, members.config.dead_after);
        let with_disks = processes.iter().filter(|p| !self.world.is_attached(**p)).count();
        if !f.cuts || with_disks <= 2 || members.wild && !beyond {
            return;
        }
        let mut victims: Vec<NodeId> = members.victims.iter().copied().collect();
        if beyond {
            victims = processes.clone();
        }
        for _ in 0..3 {
            let Some(rare) = self.rare.as_mut() else { return };
            let Some(victim) = rare.rng.choice(&victims).copied() else { return };
            let at = rare.rng.u64(0..span);
            let (deaf, again) = (rare.rng.u64(0..dead_after), rare.rng.u64(0..MILLIS));
            let (cut, dies) = (rare.rng.bool(), rare.rng.bool() && f.crashes);
            let ends = at + deaf + 2 * dead_after;
            self.plan_member(at, MemberFault::Late(victim, dead_after));
            if dies {
                self.plan_member(at + deaf, MemberFault::DieAlone(victim, again));
            }
            for other in processes.iter().filter(|p| cut && **p != victim) {
                self.plan_member(at + deaf, MemberFault::Cut(victim, *other, true));
                self.plan_member(ends, MemberFault::Cut(victim, *other, false));
            }
            self.plan_member(ends, MemberFault::Late(victim, 0));
        }
    }

    /// Springs the traps that are due; called after everything that happens.
    pub(super) fn look_at_rare(&mut self) {
        let count = self.world.superblock_writes;
        let Some(rare) = self.rare.as_mut() else { return };
        let Some((_, soon)) = rare.traps.first().copied().filter(|t| t.0 <= count) else { return };
        rare.traps.remove(0);
        self.plan(soon, Fault::Power(None));
    }

    /// The faults stop.
    pub(super) fn mend_rare(&mut self) {
        if let Some(rare) = &mut self.rare {
            rare.traps.clear();
        }
    }

    /// In most phases of such runs the victims are nodes that leave again, or leave with one.
    pub(super) fn draw_relapse(
        &mut self,
        span: Nanos,
        victims: &mut Vec<NodeId>,
    ) -> Vec<(Nanos, Fault)> {
        let f = self.options.faults;
        let apart = f.crashes && self.volume.policy.is_journaled();
        let Some(relapses) = self.relapses.as_mut().filter(|_| apart && !victims.is_empty()) else {
            return Vec::new();
        };
        let rng = &mut relapses.rng;
        if rng.u8(0..4) == 0 {
            return Vec::new();
        }
        let node = victims.remove(0);
        let others = std::mem::take(victims);
        let power = f.power && (others.is_empty() || rng.bool());
        let ahead = if rng.u8(0..4) == 0 { 0 } else { rng.u64(20 * MILLIS..400 * MILLIS) };
        relapses.phase = Some(Relapse { node, others, power, ahead, stage: Stage::Away });
        let at = rng.u64(0..span / 3 + 1);
        let back = at + rng.u64(MILLIS..30 * MILLIS);
        let leaves = back + rng.u64(PATIENT / 2..2 * PATIENT);
        vec![
            (at, Fault::Kill(node, rng.bool())),
            (back, Fault::Relapse(Step::Returns)),
            (leaves, Fault::Relapse(Step::Leaves)),
        ]
    }

    pub(super) fn relapse(&mut self, step: Step) {
        let Some(relapses) = self.relapses.as_mut() else { return };
        let Some(relapse) = relapses.phase.as_mut() else { return };
        let (rng, now) = (&mut relapses.rng, self.world.now());
        let node = relapse.node;
        match step {
            Step::Returns => {
                relapse.stage = Stage::Back;
                self.world.has_caught_up(node);
                if relapse.power {
                    relapses.silent_until = now + PATIENT;
                } else {
                    let victims = relapse.others.iter().chain([&node]);
                    let bits = victims.fold(0, |bits, n| bits | 1 << n.0);
                    self.world.conditions.late_writes = Some((bits, PATIENT));
                }
                self.world.shift_clock(node, relapse.ahead as i64);
                if !self.world.runs(node) {
                    self.returns(node);
                }
            }
            Step::Leaves => {
                let away = |rng: &mut Rng| rng.u64(5 * MILLIS..80 * MILLIS);
                let (mut victims, power) = (vec![(node, away(rng), rng.bool())], relapse.power);
                if !power {
                    let others = std::mem::take(&mut relapse.others).into_iter();
                    victims.extend(others.map(|n| (n, away(rng), rng.bool())));
                }
                relapses.phase = None;
                relapses.silent_until = 0;
                self.world.conditions.late_writes = None;
                if power {
                    self.power_goes(None);
                }
                for (victim, away, loses_power) in victims {
                    if self.world.runs(victim) {
                        self.dies(victim, loses_power);
                    }
                    self.plan(away, Fault::Return(victim));
                }
            }
        }
    }

    /// A node that is back leaves again when it has caught up, before anybody hears of that. If writes reach
    /// it late, they do so from its return on.
    pub(super) fn look_at_relapse(&mut self) {
        let Some(relapses) = self.relapses.as_mut() else { return };
        let back = Stage::Back..Stage::Leaves;
        let Some(relapse) = relapses.phase.as_mut().filter(|r| back.contains(&r.stage)) else {
            return;
        };
        let node = relapse.node;
        if self.world.stale_sectors(node).is_some_and(|stale| stale > 0) {
            relapse.stage = Stage::Knows;
        }
        if self.world.has_caught_up(node) {
            relapse.stage = Stage::Leaves;
            let soon = relapses.rng.u64(0..MILLIS / 10);
            self.plan(soon, Fault::Relapse(Step::Leaves));
        }
    }
}
