//! How what a node wants done is done: one function for the real world and the simulated ones.
//!
//! A node says what it wants in a list of [`Output`]s. [`drive`] hands them in order to an
//! [`Environment`], which has a method for each. None has a default: an environment that has no use for
//! an output says so.

use super::{Envelope, HostData, HostError, MemberReport, Output, Spent, Timer};
use crate::store::{DiskRequest, FormatError};
use crate::units::{Nanos, NodeId};

/// What is around a node: network, disk, clock, hosts and authority. Each method is told which node wants it.
pub trait Environment {
    /// What is left to say when no later output may take effect any more.
    type End;

    /// Deliver a message.
    fn send(&mut self, node: NodeId, envelope: Box<Envelope>);
    /// Start a disk operation.
    fn start_disk(&mut self, node: NodeId, request: DiskRequest);
    /// Fire the timer after so long, unless it is set already.
    fn set_timer(&mut self, node: NodeId, timer: Timer, after: Nanos);
    /// A host's request that took long is about to be answered: where its time went.
    fn spent(&mut self, node: NodeId, request: u64, spent: Spent);
    /// Answer a host.
    fn reply(
        &mut self,
        node: NodeId,
        request: u64,
        result: Result<HostData, HostError>,
    ) -> Result<(), Self::End>;
    /// Report to the authority.
    fn report(&mut self, node: NodeId, report: MemberReport);
    /// The node's store is open.
    fn ready(&mut self, node: NodeId);
    /// Its disk was refused: this node ends here.
    fn disk_refused(&mut self, node: NodeId, why: FormatError) -> Self::End;
    /// Its disk failed: this node ends here.
    fn disk_failed(&mut self, node: NodeId, why: String) -> Self::End;
    /// Something an operator should know.
    fn log(&mut self, node: NodeId, line: String);
    /// Something on its disk is damaged, and what that means.
    fn damaged(&mut self, node: NodeId, what: String) {
        self.log(node, what);
    }
    /// A transaction of this originator had to wait at the node.
    fn delayed(&mut self, node: NodeId, originator: NodeId);
}

/// Does what a node wants done, in order, until one of it ends the node or the environment.
pub fn drive<E: Environment>(
    outside: &mut E,
    node: NodeId,
    outputs: impl IntoIterator<Item = Output>,
) -> Result<(), E::End> {
    for output in outputs {
        match output {
            Output::Send(envelope) => outside.send(node, envelope),
            Output::Disk(request) => outside.start_disk(node, request),
            Output::Timer(timer, after) => outside.set_timer(node, timer, after),
            Output::Spent(request, spent) => outside.spent(node, request, spent),
            Output::Reply(request, result) => outside.reply(node, request, result)?,
            Output::Report(report) => outside.report(node, report),
            Output::Ready => outside.ready(node),
            Output::Refused(why) => return Err(outside.disk_refused(node, why)),
            Output::DiskFailed(why) => return Err(outside.disk_failed(node, why)),
            Output::Log(line) => outside.log(node, line),
            Output::Damaged(what) => outside.damaged(node, what),
            Output::Delayed(originator) => outside.delayed(node, originator),
        }
    }
    Ok(())
}
