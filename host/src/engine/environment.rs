//! What becomes of a node's outputs in the real world: messages and answers go through the gate, disk
//! operations and timers wait until it is their turn.

use weft_core::node::{Envelope, Environment, HostData, HostError, MemberReport, Timer};
use weft_core::store::{DiskRequest, FormatError};
use weft_core::units::{Nanos, NodeId};

use super::Engine;
use crate::disk::uring::Tag;

impl Environment for Engine {
    type End = ();

    fn send(&mut self, _: NodeId, envelope: Box<Envelope>) {
        self.send_envelope(envelope);
    }

    fn start_disk(&mut self, node: NodeId, request: DiskRequest) {
        let n = usize::from(node.0);
        let DiskRequest { id, urgency, .. } = request;
        let tag = Tag { node: n, life: self.instances[n].life, id, urgency };
        self.waiting.push(tag, request);
    }

    fn set_timer(&mut self, node: NodeId, timer: Timer, after: Nanos) {
        let deadline = self.clock.now() + after;
        self.instances[usize::from(node.0)].set_timer(timer, deadline);
    }

    fn reply(
        &mut self,
        _: NodeId,
        number: u64,
        result: Result<HostData, HostError>,
    ) -> Result<(), ()> {
        self.gate.answer((number, result));
        Ok(())
    }

    fn report(&mut self, node: NodeId, report: MemberReport) {
        self.report_of(usize::from(node.0), report);
    }

    fn ready(&mut self, node: NodeId) {
        self.node_ready(usize::from(node.0));
    }

    fn disk_refused(&mut self, node: NodeId, why: FormatError) {
        let _ = self.kill_node(usize::from(node.0), &format!("its disk was refused: {why}"));
    }

    fn disk_failed(&mut self, node: NodeId, why: String) {
        self.note_failure(node);
        let _ = self.kill_node(usize::from(node.0), &format!("its disk failed: {why}"));
    }

    fn log(&mut self, node: NodeId, line: String) {
        self.log.info(&format!("node {}: {line}", node.0));
    }

    /// Counted by the simulator only.
    fn delayed(&mut self, _: NodeId, _: NodeId) {}
}
