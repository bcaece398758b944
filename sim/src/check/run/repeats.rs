//! Hosts that ask again for what they have not heard the end of, when their node has stopped: of that node when it
//! is back, as a host that is its own controller does, or of another, as one that names its requests does.

use weft_core::node::{HostData, HostError, HostOp};
use weft_core::order::{Again, Asker, HostId, Origin, RequestId};
use weft_core::units::{Epoch, MILLIS, NodeId, Timestamp};

use super::super::history::Did;
use super::hosts::Client;
use super::{CLIENT, Run, VOLUME};

/// What is asked for again if need be.
#[derive(Clone, Debug)]
pub(super) struct Repeats {
    op: HostOp,
    request: RequestId,
    /// No attempt was made before.
    since: Timestamp,
    /// All attempts were made in this epoch or before.
    epoch: Epoch,
    /// How often it was asked for again.
    times: u64,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Its node works on it.
    Asked,
    /// Its node has stopped: it is to be asked for again.
    Stopped,
    /// Its host has left the node; it is asked for again elsewhere when that one is out.
    Leaves,
}

impl Client {
    /// Whether the request in work was asked for more than once.
    pub fn has_repeated(&self) -> bool {
        self.repeats.as_ref().is_some_and(|r| r.times > 0)
    }
}

impl Run {
    /// Takes down what a host asks for, if it may ask again. Says what to tell the node.
    pub(super) fn takes_down(&mut self, n: usize, did: &Did, op: &HostOp) -> Option<Origin> {
        if !did.writes() {
            return None;
        }
        let origin = self.origin_permitted(n);
        if self.repeat_rng.is_none() {
            return origin;
        }
        let since = self.reading(self.clients[n].node);
        let number = self.clients[n].asked;
        let request = RequestId { host: HostId(n as u64 + 1), number };
        let op = op.clone();
        let repeats = Repeats { op, request, since, epoch: 0, times: 0, state: State::Asked };
        self.clients[n].repeats = Some(repeats);
        let asker = Asker { id: request, oldest: number };
        origin.or(Some(Origin { asker, again: None, permitted: 0 }))
    }

    /// No timestamp that a node issues from now on is earlier.
    fn reading(&mut self, node: NodeId) -> Timestamp {
        self.world.reading(node)
    }

    /// The node of a host has stopped. Whether the host will ask again for what it has in work: of the same node or of the
    /// next.
    pub(super) fn will_repeat(&mut self, n: usize) -> bool {
        let epoch = self.world.map().epoch;
        let (node, next) = (self.clients[n].node, self.next_node(self.clients[n].node));
        let client = &mut self.clients[n];
        let (Some(rng), Some(repeats)) = (&mut self.repeat_rng, &mut client.repeats) else {
            return false;
        };
        let open = client.op.is_some();
        let has_left = repeats.state == State::Leaves;
        if !open || (!has_left && rng.u8(0..4) == 0) {
            return false;
        }
        (repeats.state, repeats.epoch) = (State::Stopped, repeats.epoch.max(epoch));
        self.clients[n].node = if rng.bool() { node } else { next };
        self.world.tell(|| format!("host {n} is going to ask again"));
        self.world.call_after(MILLIS, CLIENT | n as u64);
        true
    }

    /// A host has waited for long. Whether it leaves a node that is stopped for now, and asks another for the same when the
    /// first is out.
    pub(super) fn will_leave(&mut self, n: usize) -> bool {
        let (node, epoch) = (self.clients[n].node, self.world.map().epoch);
        if !self.world.is_paused(node) {
            return self.clients[n].has_repeated();
        }
        let Some(repeats) = &mut self.clients[n].repeats else { return false };
        if repeats.state == State::Asked {
            (repeats.state, repeats.epoch) = (State::Leaves, repeats.epoch.max(epoch));
            self.world.call_after(MILLIS, CLIENT | n as u64);
        }
        true
    }

    /// A host that has something in work may be about to ask again.
    pub(super) fn ask_again(&mut self, n: usize) {
        let (node, next) = (self.clients[n].node, self.next_node(self.clients[n].node));
        let client = &mut self.clients[n];
        let Some(repeats) = &mut client.repeats else { return };
        match repeats.state {
            State::Asked => return,
            State::Leaves if self.world.map().is_up(node) => {
                return self.world.call_after(MILLIS, CLIENT | n as u64);
            }
            State::Leaves => (repeats.state, client.node) = (State::Stopped, next),
            State::Stopped => {}
        }
        let node = self.clients[n].node;
        if !self.world.is_open(node) {
            let waits = self.repeat_rng.as_mut().is_some_and(|r| r.u8(0..4) > 0);
            if !waits || !self.world.belongs(node) {
                self.clients[n].node = self.next_node(node);
            }
            return self.world.call_after(MILLIS, CLIENT | n as u64);
        }
        let Some(permitted) = self.permitted_again(n) else { return self.gives_up(n) };
        let now = self.reading(node);
        let client = &mut self.clients[n];
        let Some(repeats) = &mut client.repeats else { return };
        repeats.state = State::Asked;
        repeats.times += 1;
        repeats.since = repeats.since.min(now);
        let Repeats { request, since, epoch, .. } = *repeats;
        let op = repeats.op.clone();
        client.asked = client.op.map_or(0, u64::from) | repeats.times << 32;
        let asker = Asker { id: request, oldest: request.number };
        let origin = Origin { asker, again: Some(Again { since, epoch }), permitted };
        let asked = client.asked;
        self.again.0 += 1;
        self.world.tell(|| format!("host {n} asks {node} again: request {}", request.number));
        self.world.host_by_name(node, asked, VOLUME, origin, op);
    }

    /// The answer of a node that does not take part is none: the host asks another.
    pub(super) fn asks_elsewhere(
        &mut self,
        n: usize,
        result: &Result<HostData, HostError>,
    ) -> bool {
        if !matches!(result, Err(HostError::NotServing)) || !self.clients[n].has_repeated() {
            return false;
        }
        self.clients[n].node = self.next_node(self.clients[n].node);
        if let Some(repeats) = &mut self.clients[n].repeats {
            repeats.state = State::Stopped;
        }
        self.world.call_after(MILLIS, CLIENT | n as u64);
        true
    }
}
