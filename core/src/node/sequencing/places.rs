//! Requests that have places among those of all nodes: how this node has them get their places, learns
//! when they may begin, and says that they are over. Who is asked and told differs by the form.

use std::collections::BTreeSet;

use super::peers::PeerNotice;
use super::{
    Answer, Ending, Ledger, Outbox, Pending, PlaceError, Progress, RequestId, SequenceMessage,
    SequencerForm, Sequencing, Step, primary_of,
};
use crate::units::NodeId;

impl Sequencing {
    /// Has a request get its place.
    pub(super) fn issue(&mut self, id: RequestId, outbox: &mut Outbox) {
        let (Some(form), Some(primary)) = (self.form, primary_of(&self.map)) else { return };
        if !self.serving {
            return;
        }
        let claim = self.pending[&id].claim.clone();
        if !form.has_primary() {
            self.peers.come(outbox.now, &claim);
            return self.follow_peers(outbox);
        }
        if form.tells_all() && !self.gate.knows(id) {
            self.gate.ask(id, 0, BTreeSet::from([primary]));
        }
        self.send(primary, SequenceMessage::Issue { claim, rank: 0 }, outbox);
    }

    /// Has a request that waits for an answer get it, if that was lost.
    pub(super) fn issue_again(&mut self, id: RequestId, outbox: &mut Outbox) {
        if self.peers.owns(id) {
            self.peers.ask_again(id, self.gate.unheard(id));
            self.follow_peers(outbox);
        } else {
            self.issue(id, outbox);
        }
    }

    /// Sends what those say who agree on places, and does what follows for this node's own requests.
    pub(super) fn follow_peers(&mut self, outbox: &mut Outbox) {
        for (to, message) in self.peers.take_out() {
            self.send(to, message, outbox);
        }
        for notice in self.peers.take_notices() {
            match notice {
                PeerNotice::Asked(id, rank, asked) => self.gate.ask(id, rank, asked),
                PeerNotice::Refused(id, why) => self.refuse(id, why, outbox),
                PeerNotice::Ready => self.issue_all(outbox),
                PeerNotice::Learned(report) => self.table.merge(&report, outbox.now),
            }
        }
    }

    pub(super) fn issue_all(&mut self, outbox: &mut Outbox) {
        let waits = |p: &Pending| p.central && p.progress == Progress::Waiting;
        let all = self.pending.iter().filter(|p| waits(p.1)).map(|p| *p.0);
        for id in all.collect::<Vec<_>>() {
            // One that was before it may have had it refused.
            if self.pending.contains_key(&id) {
                self.issue(id, outbox);
            }
        }
    }

    /// Does what follows from answers, and from the ends of others.
    pub(super) fn follow_gate(
        &mut self,
        steps: impl IntoIterator<Item = Step>,
        outbox: &mut Outbox,
    ) {
        for step in steps {
            match step {
                Step::Begin(id) => {
                    let trips = self.gate.remove(id).div_ceil(2);
                    outbox.counters.totals.round_trips += u64::from(trips);
                    self.begin(id);
                }
                Step::Refuse(id, why) => self.refuse(id, why, outbox),
                Step::Resolved(_) | Step::Arrived(_) => {}
            }
        }
    }

    /// Tells all who must know that a request is over, until they say that they do.
    pub(super) fn finish(&mut self, id: RequestId, oldest: u64, done: bool, outbox: &mut Outbox) {
        self.outcomes.close(id, done, outbox.now);
        self.gate.remove(id);
        let ending = Ending { done, oldest, left: self.audience(), told: outbox.now };
        self.unnoted.insert(id, ending);
        if self.serving {
            self.tell_end(id, outbox);
        }
    }

    /// Who must know of the ends of requests.
    pub(super) fn audience(&self) -> BTreeSet<NodeId> {
        match self.form {
            None => BTreeSet::new(),
            Some(form) if form.tells_all() => self.map.up().collect(),
            Some(_) => primary_of(&self.map).into_iter().collect(),
        }
    }

    pub(super) fn tell_end(&mut self, id: RequestId, outbox: &mut Outbox) {
        let Some(Ending { done, oldest, left, .. }) = self.unnoted.get(&id).cloned() else {
            return;
        };
        for node in left {
            self.send(node, SequenceMessage::Finished { id, oldest, done }, outbox);
        }
    }

    /// A message to one of the roles.
    pub fn message(&mut self, from: NodeId, message: SequenceMessage, outbox: &mut Outbox) {
        let now = outbox.now;
        match message {
            SequenceMessage::Begin { id } => self.on_begin(id, outbox),
            SequenceMessage::Placed { id, rank, after, behind } => {
                let answer = Answer { id, rank, after, behind, hops: outbox.hops };
                let step = self.gate.answer(from, answer, &self.table);
                self.follow_gate(step, outbox);
            }
            SequenceMessage::Refuse { id, why } => self.on_refuse(id, why, outbox),
            SequenceMessage::Noted { id } => self.on_noted(from, id),
            SequenceMessage::Told => self.on_told(from, outbox),
            SequenceMessage::Record { id, owner, oldest } => {
                self.table.advance(id.host, oldest, now);
                if !self.table.is_over(id) {
                    self.table.open(id, owner);
                }
                self.send(from, SequenceMessage::Recorded { id }, outbox);
            }
            SequenceMessage::Close { id, done } => {
                self.table.close(id, done, now);
                self.send(from, SequenceMessage::Closed { id }, outbox);
            }
            SequenceMessage::Take { report } => {
                // One that comes again is older than what has been recorded since. What has been
                // heard of ends may be news to the primary.
                if !std::mem::replace(&mut self.has_table, true) {
                    match self.form.is_some_and(SequencerForm::tells_all) {
                        true => self.table.forget_open(),
                        false => self.table = Ledger::default(),
                    }
                    self.table.merge(&report, now);
                }
                self.send(from, SequenceMessage::Taken, outbox);
            }
            SequenceMessage::Finished { id, oldest, done } => {
                self.on_finished(from, id, oldest, done, outbox);
            }
            other if self.form.is_some_and(SequencerForm::has_primary) => {
                self.primary.message(now, from, other);
                self.send_of_primary(outbox);
            }
            other => {
                self.peers.message(now, from, other);
                self.follow_peers(outbox);
            }
        }
    }

    /// Someone's request is over.
    pub(super) fn on_finished(
        &mut self,
        from: NodeId,
        id: RequestId,
        oldest: u64,
        done: bool,
        outbox: &mut Outbox,
    ) {
        let (now, Some(form)) = (outbox.now, self.form) else { return };
        let message = SequenceMessage::Finished { id, oldest, done };
        if form.tells_all() {
            self.table.advance(id.host, oldest.min(id.number), now);
            self.table.close(id, done, now);
            let steps = self.gate.over(id, done);
            self.follow_gate(steps, outbox);
        }
        if !form.has_primary() {
            self.peers.message(now, from, message);
            self.follow_peers(outbox);
        } else if primary_of(&self.map) == Some(self.me) {
            self.primary.message(now, from, message);
            self.send_of_primary(outbox);
        } else {
            self.send(from, SequenceMessage::Noted { id }, outbox);
        }
    }

    pub(super) fn on_noted(&mut self, from: NodeId, id: RequestId) {
        let Some(ending) = self.unnoted.get_mut(&id) else { return };
        ending.left.remove(&from);
        if ending.left.is_empty() {
            self.unnoted.remove(&id);
        }
    }

    /// A request cannot have its place.
    pub(super) fn on_refuse(&mut self, id: RequestId, why: PlaceError, outbox: &mut Outbox) {
        match self.pending.contains_key(&id) {
            true => self.refuse(id, why, outbox),
            // It was over before, and whoever refuses it has yet to hear of that.
            false => self.tell_end(id, outbox),
        }
    }

    pub(super) fn send_of_primary(&mut self, outbox: &mut Outbox) {
        for (to, message) in self.primary.take_out() {
            self.send(to, message, outbox);
        }
    }

    pub(super) fn on_begin(&mut self, id: RequestId, outbox: &mut Outbox) {
        match self.pending.get(&id) {
            Some(pending) if pending.progress == Progress::Waiting => {
                outbox.counters.totals.round_trips += u64::from(outbox.hops.div_ceil(2));
                self.begin(id);
            }
            Some(_) => {}
            // It was over before it had its turn, and the primary has yet to hear of that.
            None => self.tell_end(id, outbox),
        }
    }
}
