//! What is drawn of processes: conditions, and which faults happen when.

use super::*;

impl Run {
    pub(in crate::check::run) fn draw_member_faults(&mut self) {
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
            let span = self.cluster().span;
            self.draw_giving_up(span, &[]);
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
            let span = self.cluster().span;
            self.draw_giving_up(span, &victims);
            self.draw_errors(victims.first().copied(), span);
            if self.options.latest >= Latest::SlowProcesses {
                self.draw_slow_disk(victims.first().copied(), span);
            }
            victims.into_iter().for_each(|victim| self.draw_victim(victim));
        }
        // Nobody needs these: all of them may be lost beside the victims.
        for host in hosts {
            for _ in 0..self.cluster().rng.usize(0..=4) {
                self.draw_member_fault(host);
            }
        }
        self.draw_links();
        self.draw_power();
        let size = self.world.with_disks() as u16;
        let span = self.cluster().span;
        self.draw_form(span);
        self.draw_fullness(span);
        if self.hangs_anywhere() {
            self.draw_hangs(span);
        }
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

    /// All power may be cut, at any time or just when the map begins to change.
    fn draw_power(&mut self) {
        let drawn = self.options.faults.power && self.cluster().rng.bool();
        if !drawn {
            return;
        }
        let m = self.cluster();
        let at = m.rng.u64(0..m.span);
        match m.rng.u8(0..3) {
            0 => self.plan(at, Fault::Power(None)),
            _ => {
                let soon = self.cluster().rng.u64(0..4 * MILLIS);
                self.plan_member(at, MemberFault::Trap(false, Snap::Power, soon));
            }
        }
    }

    /// How messages, disks and clocks are in a phase.
    pub(super) fn draw_member_conditions(&mut self) {
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

    /// Links break, both ways or one. A process that is no victim is reached by all, unless more may be lost
    /// than the layout bears: so there is a way between any two.
    fn draw_links(&mut self) {
        let (f, beyond, processes) = (self.options.faults, self.beyond, self.world.processes());
        let there: BTreeSet<NodeId> = self.world.map().up().collect();
        let attached: Vec<NodeId> =
            processes.iter().copied().filter(|p| self.world.is_attached(*p)).collect();
        let m = self.cluster();
        let (span, dead_after) = (m.span, m.config.dead_after);
        let is_hale =
            |p: &&NodeId| !m.victims.contains(p) && !attached.contains(p) && there.contains(p);
        let hale: Vec<NodeId> = processes.iter().filter(is_hale).copied().collect();
        let Some(rng) = m.ways.as_mut().filter(|_| f.links) else { return };
        let hub = if beyond { None } else { rng.choice(hale) };
        if hub.is_none() && !beyond {
            return;
        }
        let mut plan = Vec::new();
        for _ in 0..rng.usize(1..=4) {
            let (Some(a), Some(b)) = (rng.choice(&processes), rng.choice(&processes)) else {
                return;
            };
            let (at, stays, ways) = (rng.u64(0..span), rng.u64(0..4 * dead_after), rng.u8(0..3));
            if a == b || hub == Some(*a) || hub == Some(*b) {
                continue;
            }
            let directions = [(*a, *b), (*b, *a)];
            let broken = if ways == 0 { &directions[..1] } else { &directions[..] };
            for (from, to) in broken {
                plan.push((at, MemberFault::Cut(*from, *to, true)));
                plan.push((at + stays, MemberFault::Cut(*from, *to, false)));
            }
        }
        plan.into_iter().for_each(|(at, fault)| self.plan_member(at, fault));
    }

    pub(in crate::check::run) fn plan_member(&mut self, after: Nanos, fault: MemberFault) {
        self.plan(after, Fault::Member(fault));
    }

    /// What happens to one that may be lost while all others must not: it comes and goes, or its
    /// disk decays.
    pub(super) fn draw_victim(&mut self, victim: NodeId) {
        let f = self.options.faults;
        if f.damage && f.crashes {
            let span = self.cluster().span;
            let plan = damage::draw(&mut self.damage_rng, self.options.slots, victim, span);
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
    pub(super) fn draw_member_fault(&mut self, victim: NodeId) {
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
    pub(super) fn draw_cut(&mut self, victim: NodeId, at: Nanos, stays: Nanos) {
        let (beyond, home) = (self.beyond, self.world.process_of(victim));
        let attached = self.world.is_attached(victim);
        let m = self.cluster();
        let some: Option<u64> = (beyond && m.rng.bool()).then(|| m.rng.u64(..));
        let is_cut_off = |n: u16| some.map_or(n == home.0, |set| set >> (n % 64) & 1 == 1);
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
            |cut_off| processes.iter().map(|p| p.0).filter(move |n| is_cut_off(*n) == cut_off);
        for a in side_of(true) {
            for b in side_of(false) {
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
}
