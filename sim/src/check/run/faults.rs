//! The faults of a phase: which are drawn, and what each does.

use weft_core::cluster::PolicyChange;
use weft_core::order::sequencer::SequencerForm;
use weft_core::policy::{Commit, Setting};
use weft_core::units::{ColumnSet, MILLIS, Nanos, NodeId};

use super::super::history::{Did, Op};
use super::super::options::Latest;
use super::damage::{self, Damage};
use super::hosts::Client;
use super::members::MemberFault;
use super::relapses::Step;
use super::{CLIENT, FAULT, Run, VOLUME};
use crate::disk::{ErrorRates, Harmed};
use crate::world::Conditions;

#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    Kill(NodeId, bool),
    Return(NodeId),
    /// All power is cut, and this node's disk is replaced by a copy of itself meanwhile.
    Power(Option<NodeId>),
    Rot(NodeId),
    Spoil(NodeId),
    /// A node's disk answers writes and flushes with errors, until the node is started again.
    Refuse(NodeId),
    /// A node's disk ends no operation, until it does again or the node is started again.
    Hang(NodeId),
    Answer(NodeId),
    /// The file system of a node's disk is full, and the node learns of it; then there is room again.
    Fill(NodeId),
    TellFull(NodeId),
    HasRoom(NodeId),
    /// Operations of a node's disk end with errors at these rates, or none does any more.
    Err(NodeId, Option<ErrorRates>),
    /// It is looked whether a node's disk is slow.
    Watch(NodeId),
    /// A page of the checksum table rots, or cannot be read.
    Page(NodeId, bool),
    /// A node's disk is not what was written to it.
    Damage(NodeId, Damage),
    /// An empty disk takes the place of a dead node's.
    Replace(NodeId),
    /// A dead node is not expected back.
    GiveUp(NodeId),
    /// Nodes are given up by themselves when they have been down for so long, or no more.
    GiveUpAfter(Option<Nanos>),
    /// What is on a node's disk is moved to others, or no more of it.
    Drain(NodeId, bool),
    /// A node's disk is expected to fail, or not any more.
    Suspect(NodeId, bool),
    /// Columns are moved until disks are equally full, or no more of them.
    Rebalance(bool),
    /// Another form of the sequencer takes over.
    Form(SequencerForm),
    /// The volume is to choose this, and that with it.
    Choose(Setting, Option<Setting>),
    /// An operator has some of the volume's stripes, counted in 64ths of them, choose this.
    ChooseIn(u64, u64, [Setting; 2]),
    /// A host asks for a change of reservations.
    Reserve(usize),
    /// A node is back, or leaves again.
    Relapse(Step),
    /// What happens to processes.
    Member(MemberFault),
}

impl Fault {
    /// Whether content that is on one disk alone may be lost by it. To lose a node for a time, or its process, or to move
    /// its columns, loses nothing.
    fn may_lose(self) -> bool {
        match self {
            Fault::Power(copied) => copied.is_some(),
            Fault::Rot(_)
            | Fault::Spoil(_)
            | Fault::Err(..)
            | Fault::Page(..)
            | Fault::Damage(..)
            | Fault::Replace(_)
            | Fault::GiveUp(_) => true,
            Fault::Kill(..)
            | Fault::Return(_)
            | Fault::Refuse(_)
            | Fault::Hang(_)
            | Fault::Answer(_)
            | Fault::Fill(_)
            | Fault::TellFull(_)
            | Fault::HasRoom(_)
            | Fault::Watch(_)
            | Fault::GiveUpAfter(_)
            | Fault::Drain(..)
            | Fault::Suspect(..)
            | Fault::Rebalance(_)
            | Fault::Form(_)
            | Fault::Choose(..)
            | Fault::ChooseIn(..)
            | Fault::Reserve(_)
            | Fault::Relapse(_)
            | Fault::Member(_) => false,
        }
    }
}

impl Run {
    pub(super) fn draw_faults(&mut self) {
        let f = self.options.faults;
        let mut victims: Vec<NodeId> = (0..self.world.size() as u16).map(NodeId).collect();
        self.rng.shuffle(&mut victims);
        self.harmed_first(&mut victims);
        let mut victims = self.borne(victims);
        let span = MILLIS * u64::from(self.options.operations) / 2;
        let mut plan: Vec<(Nanos, Fault)> = Vec::new();
        self.beyond = f.beyond && self.later_rng.u8(0..4) == 0 && !self.may_be_harmed_still();
        match self.beyond {
            true => plan.extend(self.draw_overload(span, &mut victims)),
            false => plan.extend(self.draw_relapse(span, &mut victims)),
        }
        self.draw_giving_up(span, &victims);
        let first = victims.first().copied();
        plan.extend(self.draw_blackout(span, first));
        for victim in victims {
            if f.damage && f.crashes {
                plan.extend(damage::draw(&mut self.damage_rng, self.options.slots, victim, span));
            }
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
        if let Some(op) = self.operator.as_mut() {
            plan.extend(op.moves(span));
        }
        for _ in 0..self.rng.usize(0..=2) {
            let at = self.rng.u64(0..span);
            if f.power {
                plan.push((at, Fault::Power(None)));
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
        conditions.slow = (f.slow && slow).then_some((slow_node, 40));
        self.world.conditions = conditions;
        self.draw_slow_disk(first, span);
        self.draw_form(span);
        self.draw_hangs(span);
        self.draw_fullness(span);
        self.draw_errors(first, span);
        plan.into_iter().for_each(|(at, fault)| self.plan(at, fault));
    }

    /// Puts those first whose disks were damaged in an earlier phase. What a scrub of the volume did not look at,
    /// because it was not in use, may be so still.
    pub(super) fn harmed_first(&mut self, victims: &mut [NodeId]) {
        victims.sort_by_cached_key(|victim| !self.may_be_harmed(*victim));
    }

    /// Whether a disk may be damaged where no scrub has looked.
    pub(super) fn may_be_harmed_still(&mut self) -> bool {
        (0..self.world.size() as u16).map(NodeId).any(|node| self.may_be_harmed(node))
    }

    /// Whether a node's disk may be: where a column may come to it, where its node has not started since, or where it has lost
    /// which slots are in use.
    fn may_be_harmed(&mut self, node: NodeId) -> bool {
        let spare = self.world.with_disks() > self.volume.geometry.layout.width();
        let harmed = self.world.disk(node).harmed;
        (spare && harmed.ever())
            || harmed == Harmed::Since
            || self.world.status(node).is_some_and(|status| status.has_lost_claims)
    }

    /// The first of these that may be victims together: as many as any that may be lost, and where columns
    /// stay on their nodes, more that the layout can recover with those.
    pub(super) fn borne(&self, mut nodes: Vec<NodeId>) -> Vec<NodeId> {
        let more = nodes.split_off(self.bears().min(nodes.len()));
        let geometry = &self.volume.geometry;
        let apart = self.members.as_ref().is_none_or(|m| m.hosted == 1);
        let stay = self.world.with_disks() == geometry.layout.width() && apart;
        if self.bears() == 0 || !stay {
            return nodes;
        }
        for node in more {
            let all = nodes.iter().copied().chain([node]);
            let column = |n| self.world.map().volumes.get(&VOLUME)?.extent(0).column_of(n);
            let lost: Option<ColumnSet> = all.map(column).collect();
            if lost.is_some_and(|lost| geometry.is_always_recoverable(lost)) {
                nodes.push(node);
            }
        }
        nodes
    }

    /// How many may be victims at a time, whichever they are. With limited atomicity none with a disk: where the writes of a
    /// host that died are in place only in part, what else was lost cannot be computed.
    pub(super) fn bears(&self) -> usize {
        match self.volume.policy.commit {
            Commit::Limited => 0,
            _ => self.volume.geometry.any_losses(),
        }
    }

    /// In half of the phases with a sequencer another form of it takes over; and other things that the volume chooses
    /// may change.
    pub(super) fn draw_form(&mut self, span: Nanos) {
        let open = self.volume.is_sequenced() && self.options.sequencer.is_none();
        if open && self.form_rng.bool() {
            let form = SequencerForm::ALL[self.form_rng.usize(0..SequencerForm::ALL.len())];
            let at = self.form_rng.u64(0..span);
            self.plan(at, Fault::Form(form));
        }
        self.draw_choices(span);
        self.draw_ranges(span);
        self.draw_reservations(span);
    }

    /// Disks hang for a while, which loses nothing.
    pub(super) fn draw_hangs(&mut self, span: Nanos) {
        if !self.options.faults.hangs {
            return;
        }
        for _ in 0..self.hang_rng.u8(0..=2) {
            let node = NodeId(self.hang_rng.u16(0..self.world.size() as u16));
            let at = self.hang_rng.u64(0..span);
            let lasts = self.hang_rng.u64(0..60 * MILLIS);
            self.plan(at, Fault::Hang(node));
            self.plan(at + lasts, Fault::Answer(node));
        }
    }

    /// The file systems of disks are full for a while.
    pub(super) fn draw_fullness(&mut self, span: Nanos) {
        if self.options.faults.full {
            let plan = self.full.plan(self.world.with_disks() as u16, span);
            plan.into_iter().for_each(|(at, fault)| self.plan(at, fault));
        }
    }

    /// Whether disks hang in all situations.
    pub(super) fn hangs_anywhere(&self) -> bool {
        self.options.faults.hangs && self.options.latest >= Latest::HangsAnywhere
    }

    /// The disk of a node that starts hangs at once, for a while, in some phases.
    fn hang_at_start(&mut self, after: Nanos, node: NodeId) {
        if self.hangs_anywhere() && self.start_rng.u8(0..4) == 0 {
            let begins = after + self.start_rng.u64(0..MILLIS / 2);
            let ends = begins + self.start_rng.u64(0..60 * MILLIS);
            self.plan(begins, Fault::Hang(node));
            self.plan(ends, Fault::Answer(node));
        }
    }

    /// A fault will happen. The disk of a node that is to die may have refused to write before, which
    /// ends the node sooner; or it may have hung: then the node dies of that.
    pub(super) fn plan(&mut self, after: Nanos, fault: Fault) {
        if let Fault::Kill(node, false) = fault
            && self.options.faults.hangs
            && self.hang_rng.u8(0..3) == 0
        {
            let before = self.hang_rng.u64(0..100 * MILLIS);
            self.plan(after.saturating_sub(before), Fault::Hang(node));
        }
        if let Fault::Kill(node, _) = fault
            && self.options.faults.refusals
            && !self.world.is_attached(node)
            && self.refusal_rng.u8(0..4) == 0
        {
            let before = self.refusal_rng.u64(0..10 * MILLIS);
            self.plan(after.saturating_sub(before), Fault::Refuse(node));
        }
        if let Fault::Return(node) = fault {
            self.hang_at_start(after, node);
        }
        self.pending_faults += 1;
        self.faults.push(fault);
        self.world.call_after(after + 1, FAULT | (self.faults.len() - 1) as u64);
    }

    /// One node more dies than the layout bears, at about the same time. Some hang first, until it is said that they do.
    fn draw_overload(&mut self, span: Nanos, victims: &mut Vec<NodeId>) -> Vec<(Nanos, Fault)> {
        victims.clear();
        let may_hang = self.hangs_anywhere();
        let rng = &mut self.later_rng;
        let mut nodes: Vec<NodeId> = (0..self.world.size() as u16).map(NodeId).collect();
        rng.shuffle(&mut nodes);
        nodes.truncate(self.volume.geometry.any_losses() + 1);
        let begin = rng.u64(0..span);
        let mut plan = Vec::new();
        for node in nodes {
            let at = begin + rng.u64(0..span / 4 + 1);
            let stays = rng.u64(0..span / 2 + 1);
            let power = rng.bool();
            let hangs = may_hang && self.start_rng.bool();
            if hangs {
                let for_long = self.start_rng.u64(20 * MILLIS..200 * MILLIS);
                plan.push((at.saturating_sub(for_long), Fault::Hang(node)));
            }
            plan.push((at, Fault::Kill(node, power && !hangs)));
            plan.push((at + stays, Fault::Return(node)));
        }
        plan
    }

    pub(super) fn fault(&mut self, fault: Fault) {
        self.loses |= fault.may_lose();
        match fault {
            Fault::Kill(node, power) if self.world.runs(node) => self.dies(node, power),
            Fault::Return(node) if !self.world.runs(node) => self.returns(node),
            Fault::Power(copied) => self.power_goes(copied),
            Fault::Relapse(step) => self.relapse(step),
            Fault::Member(fault) => self.member_fault(fault),
            Fault::Replace(node) if !self.world.runs(node) => self.world.replace_disk(node),
            Fault::GiveUp(node) if !self.world.runs(node) && self.world.belongs(node) => {
                self.world.give_up(node);
            }
            Fault::GiveUpAfter(after) => self.world.give_up_after(after),
            Fault::Drain(node, on) if self.world.belongs(node) => self.world.drain(node, on),
            Fault::Suspect(node, on) => self.world.suspect(node, on),
            Fault::Rebalance(on) => {
                if let Some(op) = self.operator.as_mut() {
                    op.evens = on;
                }
                self.world.rebalance(on);
            }
            Fault::Form(form) => {
                let change = PolicyChange::to([Setting::Sequencer(form)]);
                self.world.set_policy(VOLUME, change);
            }
            Fault::Choose(one, other) => {
                self.world.set_policy(VOLUME, PolicyChange::to([one].into_iter().chain(other)));
            }
            Fault::ChooseIn(from, to, settings) => self.choose_in(from, to, settings),
            Fault::Reserve(host) => self.reserve(host),
            Fault::Rot(node) | Fault::Spoil(node) => self.decay(node, fault),
            Fault::Damage(node, damage) => self.damage(node, damage),
            Fault::Refuse(node) => {
                self.world.tell(|| format!("the disk of {node} refuses to write"));
                self.world.disk(node).refuse_writes(true);
            }
            Fault::Hang(node) if self.world.runs(node) => self.world.hang(node),
            Fault::Answer(node) => self.world.answer(node),
            Fault::Fill(node) if self.world.runs(node) => self.world.fill(node),
            Fault::TellFull(node) => {
                self.world.tell_full(node);
                self.full.is_told(node, self.world.is_full(node));
                let is_full = self.full.is_any_told();
                self.clients.iter_mut().for_each(|c| c.meets_full |= is_full);
            }
            Fault::HasRoom(node) => self.world.has_room(node),
            Fault::Err(node, rates) => self.errs(node, rates),
            Fault::Watch(node) => self.watch(node),
            Fault::Page(node, unreadable) => {
                let Some(divided) = self.world.superblock(node) else { return };
                let (first, end) = (divided.table_start(), divided.data_start());
                let page = self.rng.u64(first..end);
                self.hurt(node, page, unreadable);
            }
            Fault::Kill(..)
            | Fault::Return(_)
            | Fault::Replace(_)
            | Fault::GiveUp(_)
            | Fault::Hang(_)
            | Fault::Fill(_)
            | Fault::Drain(..) => {}
        }
    }

    /// A node dies, with its process.
    pub(super) fn dies(&mut self, node: NodeId, power: bool) {
        self.crashes += 1;
        self.world.kill(node, power);
        let gone = self.world.hosted_with(node);
        self.abandon(|c| gone.contains(&c.node));
    }

    /// All power goes, and comes back.
    pub(super) fn power_goes(&mut self, copied: Option<NodeId>) {
        self.crashes += 1;
        self.world.power_cut();
        copied.into_iter().for_each(|node| self.damage(node, Damage::OldCopy));
        self.abandon(|_| true);
        match self.members {
            Some(_) => self.restart_processes(),
            None => self.world.start_everything(),
        }
    }

    /// A node returns. Something may have become of its member's log meanwhile.
    pub(super) fn returns(&mut self, node: NodeId) {
        // While one leaves for good a vote is lost by that alone.
        if let Some(decay) = self.members.as_mut().and_then(|m| m.decay.as_mut())
            && !self.leaving
            && decay.bool()
        {
            self.world.damage_log(node, &mut |n| decay.usize(0..n));
        }
        self.world.start_node(node);
    }

    /// A sector of a data area goes bad.
    pub(super) fn decay(&mut self, node: NodeId, fault: Fault) {
        let used = self.volume.extents.len() as u64 * self.volume.extent_sectors(0);
        let Some(divided) = self.world.superblock(node) else { return };
        let (first, count) = (divided.data_start(), divided.data);
        let sector = first + self.rng.u64(0..used.max(1)).min(count - 1);
        self.hurt(node, sector, matches!(fault, Fault::Spoil(_)));
    }

    pub(super) fn hurt(&mut self, node: NodeId, sector: u64, unreadable: bool) {
        let what = if unreadable { "becomes unreadable" } else { "rots" };
        self.world.tell(|| format!("sector {sector} of {node} {what}"));
        self.world.disk(node).decayed = true;
        if unreadable {
            self.world.disk(node).spoil(sector);
        } else {
            let mut rng = self.rng.fork();
            self.world.disk(node).rot(sector, &mut rng);
        }
    }

    /// Nobody hears what became of these operations.
    pub(super) fn never_hears(&mut self, pieces: std::ops::Range<u32>) {
        for op in pieces {
            if let Some(Op { did: Did::Read(_), .. }) = self.ops.get(&op) {
                self.ops.remove(&op);
            }
        }
    }

    /// The hosts of dead nodes never hear what became of their requests.
    pub(super) fn abandon(&mut self, which: impl Fn(&Client) -> bool) {
        for n in 0..self.clients.len() {
            if !which(&self.clients[n]) || self.will_repeat(n) {
                continue;
            }
            self.clients[n].node = self.next_node(self.clients[n].node);
            if let Some(first) = self.clients[n].op.take() {
                self.never_hears(first..first + self.clients[n].pieces);
                self.world.call_after(MILLIS, CLIENT | n as u64);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_happens_to_processes_loses_no_content() {
        let node = NodeId(1);
        let spares = [
            Fault::Member(MemberFault::Rate(node, 7)),
            Fault::Member(MemberFault::KillLeader(true, MILLIS)),
            Fault::Drain(node, true),
            Fault::Power(None),
        ];
        assert!(spares.into_iter().all(|fault| !fault.may_lose()));
        let harms = [Fault::Power(Some(node)), Fault::Replace(node), Fault::GiveUp(node)];
        assert!(harms.into_iter().all(Fault::may_lose));
    }
}
