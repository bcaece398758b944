//! Whose a host's request is: an endpoint's with a controller, or the node's own originator's.

use super::controlling::Answer;
use super::endpoint::Returned;
use super::{Ask, HostError, HostOp, Node};
use crate::layout::Geometry;
use crate::units::{Epoch, NodeId, VolumeId};

impl Node {
    /// Gives a request that has its turn to the endpoint, if there is a controller for it, or to the originator.
    pub(super) fn begin(&mut self, id: u64, volume: VolumeId, op: HostOp) {
        let origin = self.origins.get(&id).copied();
        let originator = &self.originator;
        let most = |g: &Geometry| originator.most_atomic(g);
        if let Some(op) = self.endpoint.host(id, volume, op, origin, most, &mut self.outbox) {
            self.originator.host(id, volume, op, origin, &self.map, &mut self.outbox);
        }
    }

    /// The host of a request is gone.
    pub(super) fn abandon(&mut self, id: u64) {
        let clock = self.originator.clock();
        if !self.endpoint.abandon(id, clock, &mut self.outbox) {
            self.originator.abandon(id);
        }
    }

    /// An endpoint asks this node, as the controller, for something.
    pub(super) fn on_request(&mut self, from: NodeId, ask: Ask) {
        let after = ask.after;
        match self.controlling.on_request(from, ask, &self.map, &mut self.outbox) {
            Answer::Begin(taken) => {
                self.originator.clock().see(after);
                let (id, op, origin) = (taken.id, taken.op, Some(taken.origin));
                self.originator.host(id, taken.volume, op, origin, &self.map, &mut self.outbox);
                self.originator.is_held(id, taken.holder, taken.is_inline);
            }
            Answer::Abandon(id) => self.originator.abandon(id),
            Answer::Nothing => {}
        }
    }

    /// Asks the controller for what waits, and tells endpoints what is over. Says whether there was anything.
    pub(super) fn run_roles(&mut self) -> bool {
        let mut worked = self.endpoint.run(self.originator.clock(), &mut self.outbox);
        if self.outbox.has_answered_for_endpoints() {
            worked = true;
            for over in self.outbox.take_answered_for_endpoints() {
                self.controlling.answered(over, &mut self.outbox);
            }
        }
        worked
    }

    /// What endpoints asked of this node they ask anew, of whom the map says.
    pub(super) fn enter_roles(&mut self, before: Epoch) {
        for id in self.controlling.enter() {
            self.originator.abandon(id);
        }
        self.originator.enter(&self.map, &mut self.outbox);
        let clock = self.originator.clock();
        let returned = self.endpoint.enter(&self.map, before, clock, &mut self.outbox);
        for Returned { id, volume, op, origin, is_gone } in returned {
            match is_gone {
                true => self.outbox.reply(id, Err(HostError::Gone)),
                false => {
                    self.originator.host(id, volume, op, Some(origin), &self.map, &mut self.outbox);
                }
            }
        }
    }
}
