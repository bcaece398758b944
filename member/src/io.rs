//! What goes into a member and what comes out.

use std::fmt;
use std::sync::Arc;

use weft_core::cluster::{Arrival, Change, ClusterMap};
use weft_core::node::{MapMessage, MemberReport};
use weft_core::units::{Nanos, NodeId};

use crate::LogError;
use crate::note::Note;
use crate::process::{incarnation_of, node_of};
use crate::record::frame_number;

/// A member of the group: a process, and in the upper 48 bits which of its members this is. Never 0, and
/// never used again: a process whose member has lost its log comes back with a new one, of a higher number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberId(pub u64);

impl fmt::Display for MemberId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rejoined = if incarnation_of(*self) > 0 { " (rejoined)" } else { "" };
        write!(f, "process {}{rejoined}", node_of(*self).0)
    }
}

/// How a cluster map is written as bytes, in messages and in the log.
pub trait MapCodec: Send + Sync {
    /// The map as bytes.
    fn encode(&self, map: &ClusterMap) -> Vec<u8>;
    /// The map that the bytes stand for. They may come from outside: it must not panic.
    fn decode(&self, bytes: &[u8]) -> Option<ClusterMap>;
}

/// What a member is told.
#[derive(Clone, Debug)]
pub enum Input {
    /// Time has passed: at or after what [`Output::Wake`] said. More often does no harm.
    Tick,
    /// Bytes that another process's member sent. The transport vouches for which process it was; which of its
    /// members it is the bytes say.
    Message(MemberId, Vec<u8>),
    /// What [`Output::Persist`] asked for with this number is durable, and the witness says so.
    Persisted(u64),
    /// A node of this process has opened its disk and can take part. After its death: again.
    NodeReady(Arrival),
    /// A node of this process has died, or its disk was refused.
    NodeDied(NodeId),
    /// The disk of a node of this process has failed; the node dies of it.
    DiskFailed(NodeId),
    /// A node of this process reports to the authority.
    Report(NodeId, MemberReport),
    /// A change of the map is asked for, with a number of the caller's choice for the answer.
    Change(u64, Change),
    /// A process joins the group.
    AddMember(u64, MemberId),
    /// A process leaves the group for good.
    RemoveMember(u64, MemberId),
    /// There is a connection to this process. Only a hint.
    Connected(MemberId),
    /// The connection to this process is gone. Only a hint: an election comes sooner if it was the
    /// leader's, but nobody is counted dead for it; silence is what counts.
    Disconnected(MemberId),
}

/// What a member wants done, in order.
#[derive(Clone, Debug)]
pub enum Output {
    /// Send these bytes to another member. They may be lost, repeated or overtaken.
    Send(MemberId, Vec<u8>),
    /// Make this durable, then what [`crate::Witness::note`] says, then say [`Input::Persisted`] with the number.
    /// There is one at a time.
    Persist(u64, Persist),
    /// Hand a local node this word of the authority.
    Tell(NodeId, MapMessage),
    /// Start this local node anew, from its disk, as if it had died, and say [`Input::NodeReady`]
    /// when it is open: the others may have gone on without it, and what it remembers of
    /// requests in work is not true any more.
    Restart(NodeId),
    /// The lease has run out: local nodes must not answer hosts, nor read for anyone.
    Suspend,
    /// The lease holds (again): local nodes go on where they stopped.
    Resume,
    /// Say [`Input::Tick`] at this time by the clock given to `handle`. Replaces the last.
    Wake(Nanos),
    /// The answer to a request.
    Answer(u64, Result<(), Refusal>),
    /// Stop: the log was not what it seemed to be.
    Stop(LogError),
    /// This map is agreed on. Nodes enter it when they are told, not now.
    Agreed(Arc<ClusterMap>),
    /// Something an operator should know.
    Log(Note),
}

/// A write to the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Persist {
    /// At its end.
    Append(Vec<u8>),
    /// Instead of the whole log, at once or not at all (a new file, flushed and renamed).
    Replace(Vec<u8>),
}

impl Persist {
    /// The number of the frame that it writes.
    pub fn frame(&self) -> u64 {
        let (Persist::Append(bytes) | Persist::Replace(bytes)) = self;
        frame_number(bytes)
    }
}

/// Why a request was not done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Only the leader changes anything.
    #[error("this process does not lead the cluster; {}", match leader {
        Some(m) => format!("ask {m}"),
        None => "no process leads now: try again, and check that a majority of the processes run".into(),
    })]
    NotLeader {
        /// Who leads, if that is known.
        leader: Option<MemberId>,
    },
    /// The leader that had taken it up leads no more.
    #[error(
        "the leader changed in the meantime: the change may or may not have been done; check, and try again"
    )]
    LostLead,
    /// The process is the last one.
    #[error("{0} is the only voter; add another process first")]
    LastVoter(MemberId),
    /// The leader is new and does not know yet who lives.
    #[error("the leader has just been elected and is finding running processes; try again")]
    Gathering,
    /// The process still has nodes that take part.
    #[error("{0} still runs nodes that are up; drain them and stop it first")]
    HasNodes(MemberId),
    /// The process is the leader, which has now asked another to lead.
    #[error("{0} leads the cluster and is handing over; try again at the new leader")]
    HandsOver(MemberId),
}

/// A member at a glance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The term that it is in.
    pub term: u64,
    /// Who leads, if it knows.
    pub leader: Option<MemberId>,
    /// The group's voters.
    pub voters: Vec<MemberId>,
    /// Those that get everything and do not vote.
    pub learners: Vec<MemberId>,
    /// The map last agreed on, as far as it knows.
    pub map: Arc<ClusterMap>,
    /// The end of its lease, if it has one.
    pub lease_until: Option<Nanos>,
    /// It leads and knows which nodes run: changes that it is asked for are made at once.
    pub settled: bool,
    /// If it leads: the processes that it has declared dead.
    pub dead: Vec<MemberId>,
}
