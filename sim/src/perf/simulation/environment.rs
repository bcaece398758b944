//! What becomes of a node's outputs: messages go over modelled links, operations to modelled disks. What fails ends
//! the simulation: nothing is to fail here.

use weft_core::cluster::AuthorityInput;
use weft_core::node::{Envelope, Environment, HostData, HostError, MemberReport, Spent, Timer};
use weft_core::store::{DiskRequest, FormatError};
use weft_core::units::{Nanos, NodeId};

use super::super::lines::Cargo;
use super::{Event, Simulation};
use crate::engine::Queue;

impl Environment for Simulation {
    type End = String;

    fn send(&mut self, _: NodeId, envelope: Box<Envelope>) {
        if self.is_lost(&envelope) {
            return;
        }
        let now = self.queue.now();
        let (from, to) = (usize::from(envelope.from.0), usize::from(envelope.to.0));
        let bytes = envelope.body.as_ref().map_or(0, |b| b.payload());
        if from != to && self.has_lines() {
            self.messages += 1;
            let ends = (u32::from(envelope.from.0), u32::from(envelope.to.0));
            return self.travels(ends, bytes, Cargo::Message(envelope));
        }
        let there = match from == to {
            true => now,
            false => {
                self.messages += 1;
                self.network.send(now, from, to, bytes)
            }
        };
        if let Some(timeline) = self.timeline.as_mut().filter(|_| from != to) {
            timeline.sent(&envelope, now, there);
        }
        self.queue.push(there - now, Event::Message(envelope));
    }

    fn start_disk(&mut self, node: NodeId, request: DiskRequest) {
        self.disk_begins(node.0.into(), request);
    }

    fn set_timer(&mut self, node: NodeId, timer: Timer, after: Nanos) {
        let life = self.places[usize::from(node.0)].life;
        self.queue.push(after, Event::Timer { node: node.0.into(), life, timer });
    }

    /// Only said to operators.
    fn spent(&mut self, _: NodeId, _: u64, _: Spent) {}

    fn reply(
        &mut self,
        node: NodeId,
        request: u64,
        result: Result<HostData, HostError>,
    ) -> Result<(), String> {
        if self.is_answered(node, request as u32, result.err())? {
            self.returns(request as u32);
        }
        Ok(())
    }

    /// Without faults there is no authority: the map stays as it is.
    fn report(&mut self, node: NodeId, report: MemberReport) {
        if self.has_faults() && !self.is_dead(node.0.into()) {
            let input = AuthorityInput::Report(node, report);
            self.queue.push(0, Event::Authority(Box::new(input)));
        }
    }

    /// Only one that begins anew says so here.
    fn ready(&mut self, node: NodeId) {
        self.is_open(node.0.into());
    }

    fn disk_refused(&mut self, _: NodeId, why: FormatError) -> String {
        why.to_string()
    }

    fn disk_failed(&mut self, _: NodeId, why: String) -> String {
        why
    }

    /// Nobody reads along.
    fn log(&mut self, _: NodeId, _: String) {}

    /// Counted before it takes effect, by request (`delays`).
    fn delayed(&mut self, _: NodeId, _: NodeId) {}
}

/// Around nodes that enter their first map, before any host has asked.
pub(super) struct AtFirst<'a>(pub(super) &'a mut Queue<Event>);

impl Environment for AtFirst<'_> {
    type End = String;

    /// The lock server hears from everyone what he holds.
    fn send(&mut self, _: NodeId, envelope: Box<Envelope>) {
        self.0.push(0, Event::Message(envelope));
    }

    fn start_disk(&mut self, node: NodeId, request: DiskRequest) {
        panic!("{node} begins with {request:?}");
    }

    /// Nothing is in work yet that others could wait for.
    fn set_timer(&mut self, node: NodeId, timer: Timer, after: Nanos) {
        if timer == Timer::LockServer {
            self.0.push(after, Event::Timer { node: node.0.into(), life: 0, timer });
        }
    }

    /// Only said to operators.
    fn spent(&mut self, _: NodeId, _: u64, _: Spent) {}

    fn reply(
        &mut self,
        node: NodeId,
        request: u64,
        _: Result<HostData, HostError>,
    ) -> Result<(), String> {
        Err(format!("{node} answers request {request}, which nobody has made"))
    }

    /// There is no authority: the map stays as it is.
    fn report(&mut self, _: NodeId, _: MemberReport) {}

    /// All nodes are there from the beginning.
    fn ready(&mut self, _: NodeId) {}

    fn disk_refused(&mut self, _: NodeId, why: FormatError) -> String {
        why.to_string()
    }

    fn disk_failed(&mut self, _: NodeId, why: String) -> String {
        why
    }

    fn log(&mut self, node: NodeId, line: String) {
        panic!("{node} begins by saying: {line}");
    }

    fn delayed(&mut self, node: NodeId, _: NodeId) {
        panic!("{node} begins by waiting");
    }
}
