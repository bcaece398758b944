//! The beginning of an epoch: what is kept of the order, who tells whom, and what begins anew.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{
    Gate, Ledger, Outbox, Pending, Progress, RequestId, SequenceMessage, SequenceReport,
    Sequencing, Telling, backup_of, primary_of,
};
use crate::cluster::ClusterMap;
use crate::units::NodeId;

impl Sequencing {
    /// A new epoch: everyone tells the new primary, or everyone, what it knows. Nothing begins
    /// before all have.
    pub fn enter(&mut self, map: &Arc<ClusterMap>, outbox: &mut Outbox) {
        self.map = map.clone();
        self.serving = true;
        self.form = map.sequencer();
        self.has_table = false;
        self.undelivered.clear();
        self.gate = Gate::default();
        self.table.expire(outbox.now, &self.config.sequencer);
        self.outcomes.expire(outbox.now, &self.config.sequencer);
        if let Some(report) = self.primary.report() {
            self.table.merge(&report, outbox.now);
        }
        for (id, owner) in self.peers.open() {
            if !self.table.is_over(id) {
                self.table.open(id, owner);
            }
        }
        self.primary.retire();
        self.peers.retire();
        self.reroute(outbox);
        let Some(form) = self.form else {
            // Nobody waits for what others know.
            self.table = Ledger::default();
            self.unnoted.clear();
            self.telling = None;
            return;
        };
        let all: BTreeSet<NodeId> = map.up().collect();
        let left = match form.has_primary() {
            true => primary_of(map).into_iter().collect(),
            false => all.clone(),
        };
        if !form.has_primary() {
            self.peers.begin(form, all, map.serving());
        } else if primary_of(map) == Some(self.me) {
            self.primary.begin(form, all, backup_of(map));
        }
        let audience = self.audience();
        self.unnoted.values_mut().for_each(|e| e.left = audience.clone());
        self.telling = Some(Telling { left, originates: self.originates, told: outbox.now });
        self.originates = self.pending.values().any(|p| p.central);
        self.tell(outbox);
    }

    /// Requests whose volume has no sequencer any more and that have not begun take their place
    /// here.
    pub(super) fn reroute(&mut self, outbox: &mut Outbox) {
        let map = self.map.clone();
        let strays = |p: &(&RequestId, &Pending)| {
            p.1.central && !map.volumes.get(&p.1.volume).is_some_and(|v| v.is_sequenced())
        };
        let strays: Vec<RequestId> = self.pending.iter().filter(strays).map(|p| *p.0).collect();
        for id in strays {
            let pending = self.pending.get_mut(&id).expect("just seen");
            pending.central = false;
            if pending.progress == Progress::Waiting {
                self.issue_here(id, outbox);
            } else {
                self.local.adopt_begun(outbox.now, id, None);
            }
        }
    }

    /// Tells all that is known here to those who have yet to hear it.
    pub(super) fn tell(&mut self, outbox: &mut Outbox) {
        let Some(telling) = &mut self.telling else { return };
        telling.told = outbox.now;
        let Telling { left, originates, .. } = telling.clone();
        let mut known = self.table.clone();
        known.merge(&self.outcomes.report(), outbox.now);
        let claim = |p: &Pending| (p.claim.clone(), p.progress != Progress::Waiting);
        let claims = self.pending.values().filter(|p| p.central).map(claim).collect();
        let report = SequenceReport { claims, ..known.report() };
        for node in left {
            self.send(node, SequenceMessage::Tell { report: report.clone(), originates }, outbox);
        }
    }

    /// One knows all that this node knew; if it is the primary, so does the backup.
    pub(super) fn on_told(&mut self, from: NodeId, outbox: &mut Outbox) {
        let Some(telling) = &mut self.telling else { return };
        telling.left.remove(&from);
        if !telling.left.is_empty() {
            return;
        }
        self.telling = None;
        let Some(form) = self.form else { return };
        let is_backup = form.has_primary() && backup_of(&self.map) == Some(self.me);
        match form.tells_all() {
            _ if is_backup => {}
            true => self.table.forget_open(),
            false => self.table = Ledger::default(),
        }
        for id in self.unnoted.keys().copied().collect::<Vec<_>>() {
            self.tell_end(id, outbox);
        }
    }
}
