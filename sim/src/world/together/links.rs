//! The network between processes: links that carry nothing, lose packets or are late.

use super::*;

impl World {
    /// Nothing comes through from one process to another, or everything again once it has been
    /// mended as often as it was cut.
    pub fn cut(&mut self, from: NodeId, to: NodeId, on: bool) {
        self.tell(|| format!("from {from} to {to} {} comes", if on { "nothing" } else { "all" }));
        let link = (self.process_of(from), self.process_of(to));
        let times = self.together_mut().cut.entry(link).or_default();
        *times = if on { *times + 1 } else { times.saturating_sub(1) };
    }

    /// All links carry again.
    pub fn mend_links(&mut self) {
        self.together_mut().cut.clear();
        self.together_mut().lossy.clear();
        self.together_mut().late.clear();
    }

    /// The others that hear from a process notice that their connections to it have broken, or
    /// that there are some.
    pub fn connections(&mut self, id: NodeId, there: bool) {
        let id = self.process_of(id);
        for other in self.processes().into_iter().filter(|o| *o != id) {
            if !self.is_cut(id, other) {
                let delay = self.rng.u64(MICROS..MILLIS);
                self.happens(other, delay, Happens::Connection(member_of(id), there));
            }
        }
    }

    /// Whether nothing comes through from one to another.
    pub(in crate::world) fn is_cut(&self, from: NodeId, to: NodeId) -> bool {
        let link = (self.process_of(from), self.process_of(to));
        self.together.as_ref().is_some_and(|t| t.cut.get(&link).is_some_and(|n| *n > 0))
    }

    /// From now on the links of a process lose so many packets of a million, or none. What goes over
    /// them are streams: what is lost comes again later.
    pub fn lose_packets(&mut self, id: NodeId, ppm: u32) {
        self.tell(|| format!("the links of {id} lose {ppm} packets of a million"));
        let process = self.process_of(id);
        self.together_mut().lossy.insert(process, ppm);
    }

    /// From now on a third of what other members say to a process comes late, by up to so long, and may be
    /// overtaken.
    pub fn make_late(&mut self, id: NodeId, by: Nanos) {
        self.tell(|| format!("{id} hears other members up to {} us late", by / MICROS));
        let process = self.process_of(id);
        self.together_mut().late.insert(process, by);
    }

    /// How late what a member says to a process comes.
    pub(super) fn lateness(&mut self, to: NodeId) -> Nanos {
        let by = self.together().late.get(&self.process_of(to)).copied().unwrap_or(0);
        if by > 0 && self.rng.u8(0..3) == 0 { self.rng.u64(0..by) } else { 0 }
    }

    /// What a link that loses packets makes of a delay: each is sent again after a time that doubles, and
    /// all that follow wait for it.
    pub(in crate::world) fn over_lossy_link(
        &mut self,
        from: NodeId,
        to: NodeId,
        delay: Nanos,
    ) -> Nanos {
        let (from, to) = (self.process_of(from), self.process_of(to));
        let Some(together) = &self.together else { return delay };
        let of = |id| together.lossy.get(&id).copied().unwrap_or(0);
        let ppm = of(from).max(of(to));
        if ppm == 0 {
            return delay;
        }
        let (mut delay, mut again) = (delay, together.config.dead_after / RETRANSMISSIONS);
        while self.chance(ppm) {
            delay += again;
            again *= 2;
        }
        let now = self.now();
        let arrives = self.together_mut().streams.entry((from, to)).or_default();
        *arrives = (now + delay).max(*arrives);
        *arrives - now
    }

    pub(super) fn send_member(&mut self, from: NodeId, to: MemberId, bytes: Vec<u8>) {
        let node = node_of(to);
        if self.member_by_circuit(from, to, &bytes) {
            return;
        }
        let c = self.conditions;
        if self.is_cut(from, node) || self.chance(c.drop_ppm) {
            return;
        }
        let copies = if self.chance(c.repeat_ppm) { 2 } else { 1 };
        for _ in 0..copies {
            let mut delay = self.rng.u64(c.latency.0..=c.latency.1);
            if self.chance(c.straggle_ppm) {
                delay *= 100;
            }
            let delay = self.over_lossy_link(from, node, delay) + self.lateness(node);
            self.happens(node, delay, Happens::Member(member_of(from), bytes.clone()));
        }
    }
}
