//! What a node is about to put out, with its counters.

use std::collections::BTreeSet;

use super::sequencing::OWN;
use super::spare::Spare;
use super::witness::Witness;
use super::{
    Body, Envelope, HostData, HostError, MemberReport, NodeCounters, Notice, Output, Timer,
};
use crate::store::Reached;
use crate::units::{Epoch, MILLIS, Nanos, NodeId, Timestamp};

/// In the numbers of requests that an originator carries out for endpoints. Hosts' do not have it.
pub(super) const FOR_ENDPOINTS: u64 = 1 << 62;

/// Of messages that are not heeded one is logged in this time.
const REFUSALS_LOGGED: Nanos = 1_000 * MILLIS;

/// What became of a request for an endpoint.
#[derive(Clone, Hash)]
pub(super) struct ForEndpoint {
    pub id: u64,
    pub result: Result<HostData, HostError>,
    /// The messages of its longest chain.
    pub hops: u8,
    /// The attempts whose pieces the endpoint has.
    pub counted: Vec<Timestamp>,
}

/// Notices that wait for a message to their nodes, by node. Few nodes have any at a time, and each comes and goes.
#[derive(Clone, Default, Hash)]
struct Queued(Vec<(NodeId, Vec<Notice>)>);

impl Queued {
    fn place(&self, to: NodeId) -> Result<usize, usize> {
        self.0.binary_search_by_key(&to, |(node, _)| *node)
    }

    /// What waits for a node.
    fn of(&self, to: NodeId) -> &[Notice] {
        self.place(to).map_or(&[], |n| &self.0[n].1)
    }

    /// Something is sent to a node, even if no notice is.
    fn want(&mut self, to: NodeId) {
        if let Err(free) = self.place(to) {
            self.0.insert(free, (to, Vec::new()));
        }
    }

    fn push(&mut self, to: NodeId, notice: Notice) {
        match self.place(to) {
            Ok(n) => self.0[n].1.push(notice),
            Err(free) => self.0.insert(free, (to, vec![notice])),
        }
    }

    fn take(&mut self, to: NodeId) -> Option<Vec<Notice>> {
        self.place(to).ok().map(|n| self.0.remove(n).1)
    }
}

/// Collects outputs while an input is handled.
#[derive(Clone, Hash)]
pub(crate) struct Outbox {
    node: NodeId,
    epoch: Epoch,
    pub now: Nanos,
    /// Hops of the message being handled.
    pub hops: u8,
    pub soon_is_set: bool,
    /// When it is to be looked whether parity is due.
    pub refresh_at: Option<Nanos>,
    pub tick_is_set: bool,
    pub counters: NodeCounters,
    /// When it was logged last that a message was not heeded.
    refusal_logged: Option<Nanos>,
    out: Vec<Output>,
    /// Requests answered since the sequencing was told.
    answered: Vec<(u64, Result<(), HostError>)>,
    /// Requests answered for endpoints since the controller was told.
    for_endpoints: Vec<ForEndpoint>,
    notices: Queued,
    /// Room for what is sent.
    pub spare: Spare,
    /// How far others' disks have got.
    pub witness: Witness,
    /// Nodes whose notices must not wait.
    at_once: BTreeSet<NodeId>,
    soon: bool,
    urgent: bool,
    soon_delay: Nanos,
}

impl Outbox {
    pub fn new(node: NodeId, soon_delay: Nanos) -> Outbox {
        Outbox {
            node,
            epoch: 0,
            now: 0,
            hops: 0,
            soon_is_set: false,
            refresh_at: None,
            tick_is_set: false,
            counters: NodeCounters::default(),
            refusal_logged: None,
            out: Vec::new(),
            answered: Vec::new(),
            for_endpoints: Vec::new(),
            notices: Queued::default(),
            spare: Spare::default(),
            witness: Witness::default(),
            at_once: BTreeSet::new(),
            soon: false,
            urgent: false,
            soon_delay,
        }
    }

    pub fn node(&self) -> NodeId {
        self.node
    }

    /// A new epoch: notices of the old one are void.
    pub fn enter(&mut self, epoch: Epoch) {
        self.epoch = epoch;
        self.notices.0.clear();
        self.witness.enter();
    }

    /// Tells nodes that take part in a write how far the others' disks have got, with the next message.
    pub fn tell_each_other(&mut self, nodes: &[NodeId]) {
        self.witness.tell_each_other(nodes, self.node);
    }

    /// Tells a node that takes no part in a write how far the disks of those have got that do, soon.
    pub fn tell_of(&mut self, to: NodeId, nodes: &[NodeId]) {
        if to != self.node {
            self.witness.tell_of(to, nodes, self.node);
            self.notices.want(to);
            self.soon = true;
        }
    }

    /// A message from here, without its body; how far the disk has got is filled in when all is known that is sent.
    fn envelope(&mut self, to: NodeId, hops: u8, notices: Vec<Notice>) -> Box<Envelope> {
        let mut envelope = self.spare.take();
        (envelope.from, envelope.to, envelope.epoch) = (self.node, to, self.epoch);
        (envelope.hops, envelope.reached) = (hops, Reached::default());
        (envelope.notices, envelope.heard) = (notices, self.witness.take(to));
        envelope
    }

    /// Sends a message one hop after the one being handled.
    pub fn send(&mut self, to: NodeId, body: Body) {
        let hops = self.hops + 1;
        self.send_after(to, body, hops);
    }

    /// Sends a message that is the `hops`-th in its chain.
    pub fn send_after(&mut self, to: NodeId, body: Body, hops: u8) {
        if body.counts() {
            self.counters.totals.messages += 1;
            self.counters.totals.wire_bytes += body.payload();
        }
        self.counters.order_messages += u64::from(body.keeps_order());
        let notices = self.notices.take(to).unwrap_or_default();
        let mut envelope = self.envelope(to, hops, notices);
        envelope.body = Some(body);
        self.out.push(Output::Send(envelope));
    }

    /// Queues a notice to ride on the next message to `to`.
    pub fn notice(&mut self, to: NodeId, notice: Notice) {
        self.counters.notices += 1;
        self.notices.push(to, notice);
        self.soon = true;
    }

    /// Sends a notice now, alone if no message goes to `to`. Notices to other nodes may wait.
    pub fn notice_at_once(&mut self, to: NodeId, notice: Notice) {
        self.counters.notices += 1;
        self.notices.push(to, notice);
        self.hurry_to(to);
    }

    /// What is queued for a node must not wait.
    pub fn hurry_to(&mut self, to: NodeId) {
        self.at_once.insert(to);
    }

    /// The notices that are queued for a node.
    pub fn queued(&self, to: NodeId) -> &[Notice] {
        self.notices.of(to)
    }

    /// Queued notices must not wait.
    pub fn hurry(&mut self) {
        self.urgent = true;
    }

    /// Outcomes wait to be written.
    pub fn want_soon(&mut self) {
        self.soon = true;
    }

    pub fn want_tick(&mut self, after: Nanos) {
        if !self.tick_is_set {
            self.tick_is_set = true;
            self.out.push(Output::Timer(Timer::Tick, after));
        }
    }

    /// It is to be looked at this time whether parity is due, if not before.
    pub fn want_refresh(&mut self, at: Nanos) {
        if self.refresh_at.is_none_or(|set| at < set) {
            self.refresh_at = Some(at);
            self.out.push(Output::Timer(Timer::Refresh, at.saturating_sub(self.now)));
        }
    }

    /// Whether a request is carried out for an endpoint.
    pub fn is_for_endpoint(&self, id: u64) -> bool {
        id & (OWN | FOR_ENDPOINTS) == FOR_ENDPOINTS
    }

    /// A request for an endpoint is over.
    pub fn reply_to_endpoint(&mut self, over: ForEndpoint) {
        self.for_endpoints.push(over);
    }

    /// Whether any are over since they were asked for last.
    pub fn has_answered_for_endpoints(&self) -> bool {
        !self.for_endpoints.is_empty()
    }

    /// Those that are over since this was asked last.
    pub fn take_answered_for_endpoints(&mut self) -> Vec<ForEndpoint> {
        std::mem::take(&mut self.for_endpoints)
    }

    pub fn reply(&mut self, id: u64, result: Result<HostData, HostError>) {
        if self.is_for_endpoint(id) {
            let over = ForEndpoint { id, result, hops: 0, counted: Vec::new() };
            return self.reply_to_endpoint(over);
        }
        self.answered.push((id, result.as_ref().map(|_| ()).map_err(Clone::clone)));
        // What the node asked of itself concerns no host.
        if id & OWN == 0 {
            self.counters.requests += 1;
            self.out.push(Output::Reply(id, result));
        }
    }

    /// The requests answered since this was asked last, and how.
    pub fn take_answered(&mut self) -> Vec<(u64, Result<(), HostError>)> {
        std::mem::take(&mut self.answered)
    }

    /// Whether any were.
    pub fn has_answered(&self) -> bool {
        !self.answered.is_empty()
    }

    pub fn report(&mut self, report: MemberReport) {
        self.out.push(Output::Report(report));
    }

    pub fn push(&mut self, output: Output) {
        self.out.push(output);
    }

    pub fn log(&mut self, line: String) {
        self.out.push(Output::Log(line));
    }

    /// A message is not heeded, since who sent it showed no right to it. All are counted. Of many one is logged in a
    /// while, so that nobody can fill the log.
    pub fn refuse(&mut self, from: NodeId, why: impl FnOnce() -> String) {
        self.counters.refused_strangers += 1;
        if self.refusal_logged.is_none_or(|at| self.now >= at + REFUSALS_LOGGED) {
            self.refusal_logged = Some(self.now);
            let count = self.counters.refused_strangers;
            self.log(format!(
                "{from} {}; the message is ignored; {count} such messages have reached {} since its start",
                why(),
                self.node
            ));
        }
    }

    /// Sends the notices that wait.
    pub fn flush_notices(&mut self) {
        let mut queued = std::mem::take(&mut self.notices.0);
        queued.drain(..).for_each(|(to, notices)| self.send_notices(to, notices));
        // Its room is kept.
        self.notices.0 = queued;
        self.urgent = false;
        self.at_once.clear();
    }

    fn send_notices(&mut self, to: NodeId, notices: Vec<Notice>) {
        let envelope = self.envelope(to, 0, notices);
        self.out.push(Output::Send(envelope));
    }

    /// Hands over the outputs; the node's disk has got as far as `reached`.
    pub fn finish(&mut self, reached: Reached, out: &mut Vec<Output>) {
        if self.urgent {
            self.flush_notices();
        }
        while let Some(to) = self.at_once.pop_first() {
            if let Some(notices) = self.notices.take(to) {
                self.send_notices(to, notices);
            }
        }
        if self.soon && !self.soon_is_set {
            self.soon_is_set = true;
            self.out.push(Output::Timer(Timer::Soon, self.soon_delay));
        }
        self.soon = false;
        for output in &mut self.out {
            if let Output::Send(envelope) = output {
                envelope.reached = reached;
            }
        }
        match out.is_empty() {
            true => std::mem::swap(out, &mut self.out),
            false => out.append(&mut self.out),
        }
    }
}
