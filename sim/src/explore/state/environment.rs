//! What becomes of nodes' outputs in the small world: all that travels waits on links, and what fails ends
//! the path: no fault here is to make a disk fail.

use std::sync::Arc;

use weft_core::cluster::Arrival;
use weft_core::node::{Envelope, Environment, HostData, HostError, MemberReport, Spent, Timer};
use weft_core::store::{DiskRequest, FormatError};
use weft_core::units::{Nanos, NodeId};

use super::{End, Packet, State};
use crate::explore::story;

impl Environment for State {
    type End = String;

    fn send(&mut self, n: NodeId, envelope: Box<Envelope>) {
        Arc::make_mut(&mut self.ledger).sent(&envelope, &self.volume);
        let to = End::Node(envelope.to);
        self.send_packet(End::Node(n), to, Packet::Message(*envelope));
    }

    fn start_disk(&mut self, n: NodeId, request: DiskRequest) {
        self.place(n).disk.start(request.id, request.op);
    }

    fn set_timer(&mut self, n: NodeId, timer: Timer, after: Nanos) {
        let at = self.now + after;
        self.place(n).timers.entry(timer).or_insert(at);
    }

    /// Only said to operators.
    fn spent(&mut self, _: NodeId, _: u64, _: Spent) {}

    fn reply(
        &mut self,
        n: NodeId,
        id: u64,
        result: Result<HostData, HostError>,
    ) -> Result<(), String> {
        self.tell(|| format!("{n} ANSWERS request {id}: {}", story::answer(&result)));
        let may_be_lost = self.may_be_lost();
        Arc::make_mut(&mut self.hosts).answered(id, result, may_be_lost)
    }

    fn report(&mut self, n: NodeId, report: MemberReport) {
        self.send_packet(End::Node(n), End::Authority, Packet::Report(report));
    }

    fn ready(&mut self, n: NodeId) {
        let node = self.node(n).node.as_ref().expect("it is ready");
        let arrival = Arrival { node: n, disk: node.disk(), sectors: node.data_sectors() };
        self.send_packet(End::Node(n), End::Authority, Packet::Ready(arrival));
    }

    fn disk_refused(&mut self, n: NodeId, why: FormatError) -> String {
        format!("{n}: its disk was refused: {why}")
    }

    fn disk_failed(&mut self, n: NodeId, why: String) -> String {
        format!("{n}: its disk failed: {why}")
    }

    fn log(&mut self, n: NodeId, line: String) {
        self.tell(|| format!("{n} says: {line}"));
    }

    /// Nobody counts it.
    fn delayed(&mut self, _: NodeId, _: NodeId) {}
}
