//! What is judged otherwise where processes rule together.

use super::*;

impl Run {
    /// A host has waited long enough and goes to another node, or asks the same again. What became of its request it never
    /// hears; its node learns that it is gone, or does not.
    pub(in crate::check::run) fn host_leaves(&mut self, request: u32) {
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
    pub(in crate::check::run) fn hot_block(&mut self, node: NodeId) -> Option<(Range<u64>, bool)> {
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
    pub(in crate::check::run) fn read_at_rest(&mut self, ops: Range<u32>) {
        if let Some(members) = &mut self.members {
            members.at_rest.push(ops);
        }
    }

    /// Where clocks kept to no bound a process may have answered from its own disk after others
    /// had gone on without it. What was written counts, and what was read at rest.
    pub(in crate::check::run) fn leave_out_what_clocks_spoil(&self, ops: &mut BTreeMap<u32, Op>) {
        let Some(members) = self.members.as_ref().filter(|m| m.wild) else { return };
        let at_rest = |n: &u32| members.at_rest.iter().any(|r| r.contains(n));
        ops.retain(|n, op| op.did.writes() || at_rest(n));
    }

    /// Looks what has become of the processes; called after everything that happens.
    pub(in crate::check::run) fn look_at_members(&mut self) {
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
                Snap::Power => self.plan(trap.soon, Fault::Power(None)),
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
}
