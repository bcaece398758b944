//! What becomes of a node's outputs in the real world. Messages within the lane go through its gate, disk
//! operations and timers wait until it is their turn, and the rest is said to the engine.

use weft_core::node::{Envelope, Environment, HostData, HostError, MemberReport, Spent, Timer};
use weft_core::store::{DiskRequest, FormatError};
use weft_core::units::{Nanos, NodeId};

use super::{Lane, Said};
use crate::disk::uring::Tag;

impl Environment for Lane {
    type End = ();

    fn send(&mut self, _: NodeId, envelope: Box<Envelope>) {
        match self.has(usize::from(envelope.to.0)) {
            true => self.gate.letter(envelope),
            false => self.said.push_back(Said::Letter(envelope)),
        }
    }

    fn start_disk(&mut self, node: NodeId, request: DiskRequest) {
        let node = usize::from(node.0);
        let DiskRequest { id, urgency, .. } = request;
        let tag = Tag { node, life: self.life(node), id, urgency };
        self.waiting.push(tag, request);
    }

    fn set_timer(&mut self, node: NodeId, timer: Timer, after: Nanos) {
        let deadline = self.clock.now() + after;
        if let Some(seat) = self.seat_mut(usize::from(node.0)) {
            seat.set_timer(timer, deadline);
        }
    }

    fn spent(&mut self, _: NodeId, number: u64, spent: Spent) {
        self.said.push_back(Said::Spent(number, spent));
    }

    fn reply(
        &mut self,
        _: NodeId,
        number: u64,
        result: Result<HostData, HostError>,
    ) -> Result<(), ()> {
        self.said.push_back(Said::Answer((number, result)));
        Ok(())
    }

    fn report(&mut self, node: NodeId, report: MemberReport) {
        let n = usize::from(node.0);
        self.said.push_back(Said::Report(n, self.life(n), report));
    }

    fn ready(&mut self, node: NodeId) {
        let n = usize::from(node.0);
        self.said.push_back(Said::Ready(n, self.life(n)));
    }

    fn disk_refused(&mut self, node: NodeId, why: FormatError) {
        let n = usize::from(node.0);
        self.end(n);
        self.said.push_back(Said::Refused(n, self.life(n), why));
    }

    fn disk_failed(&mut self, node: NodeId, why: String) {
        let n = usize::from(node.0);
        self.end(n);
        self.said.push_back(Said::Failed(n, self.life(n), why));
    }

    fn log(&mut self, node: NodeId, line: String) {
        self.said.push_back(Said::Log(node, line));
    }

    fn damaged(&mut self, node: NodeId, what: String) {
        self.said.push_back(Said::Damaged(node, what));
    }

    /// Counted by the simulator only.
    fn delayed(&mut self, _: NodeId, _: NodeId) {}
}
