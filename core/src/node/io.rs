//! What goes into a node and what comes out: all that joins it to a world, real or simulated.

use super::{Envelope, HostData, HostError, HostOp, MapMessage, MemberReport, Spent};
use crate::order::{Origin, Place};
use crate::store::{DiskRequest, DiskResult, FormatError};
use crate::units::{Nanos, NodeId, VolumeId};

/// Timers; each runs once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Timer {
    /// Send notices and outcomes that nothing carried along.
    Soon,
    /// Look for what has waited too long.
    Tick,
    /// Try again what others came before.
    Retry,
    /// Look who has waited too long for a device's lock.
    Locks,
    /// The same, for the lock server's.
    LockServer,
    /// Look whether parity that waits is due.
    Refresh,
    /// Look for reads that have waited for long.
    Hedge,
}

impl Timer {
    /// All of them.
    pub const ALL: [Timer; 7] = [
        Timer::Soon,
        Timer::Tick,
        Timer::Retry,
        Timer::Locks,
        Timer::LockServer,
        Timer::Refresh,
        Timer::Hedge,
    ];
}

/// What a node is handed.
#[derive(Clone, Debug)]
pub enum Input {
    /// A message from a node (perhaps itself).
    Message(Box<Envelope>),
    /// A disk operation ended.
    Disk(u64, DiskResult),
    /// A timer fired.
    Timer(Timer),
    /// A host's request, with a number of the caller's choice for the answer.
    Host(u64, VolumeId, HostOp),
    /// A host's request that has a place in the graph of requests, with a number of the caller's
    /// choice for the answer.
    Ordered(u64, VolumeId, Place, HostOp),
    /// A host's request of which it is known where it comes from, perhaps with a place in the graph
    /// of requests; with a number of the caller's choice for the answer.
    Named(u64, VolumeId, Origin, Option<Place>, HostOp),
    /// The host that asked under this number is gone.
    HostGone(u64),
    /// A word of the authority.
    Map(MapMessage),
    /// Whether writes to its disk wait for free space and the node stays in the map: then what hosts write is refused.
    Full(bool),
}

/// What a node wants done, in order.
#[derive(Clone, Debug, Hash)]
pub enum Output {
    /// Deliver a message.
    Send(Box<Envelope>),
    /// Start a disk operation; its end is an [`Input::Disk`].
    Disk(DiskRequest),
    /// Fire the timer after so long, unless it is set already.
    Timer(Timer, Nanos),
    /// A host's request that took long is about to be answered: where its time went.
    Spent(u64, Spent),
    /// Answer the host.
    Reply(u64, Result<HostData, HostError>),
    /// Report to the authority.
    Report(MemberReport),
    /// The store is open: the node can take part.
    Ready,
    /// The disk was refused: the node cannot start.
    Refused(FormatError),
    /// The disk failed: the node must be stopped.
    DiskFailed(String),
    /// Something an operator should know.
    Log(String),
    /// Something on its disk is damaged, and what that means.
    Damaged(String),
    /// A transaction of this originator had to wait here for another: for who counts that.
    Delayed(NodeId),
}
