//! What the roles that order requests say to one another: see [`super::sequencing`].

use crate::order::sequencer::Reach;
use crate::order::{HostId, Place, PlaceError, RequestId};
use crate::units::NodeId;

/// A request, as far as the sequencer needs to know it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Claim {
    /// Its name, and what it is to come after.
    pub place: Place,
    /// What it touches, if it must be kept apart from others that touch it.
    pub reach: Option<Reach>,
}

/// What is known of a host's requests that are over.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Account {
    /// The host.
    pub host: HostId,
    /// All its requests before this one are over.
    pub oldest: u64,
    /// Runs of later ones, from first to last, that have happened.
    pub done: Vec<(u64, u64)>,
    /// Those that were aborted.
    pub aborted: Vec<u64>,
}

/// What a node knows of requests at the beginning of an epoch, or what the primary gives to a new
/// backup.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct SequenceReport {
    /// Incomplete requests of which the node is the originator, and whether they have begun.
    pub claims: Vec<(Claim, bool)>,
    /// Incomplete requests that it knows of as primary or backup, and the originator of each.
    pub open: Vec<(RequestId, NodeId)>,
    /// What is over.
    pub accounts: Vec<Account>,
}

/// The messages. O is an originator, P the primary, B the backup, M a node that agrees on places with
/// others where there is no primary.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SequenceMessage {
    /// O to P: a request has come; when may it begin? O to M: a request has come.
    Issue {
        /// The request.
        claim: Claim,
        /// O to M: its place, once all that it names have theirs; else 0.
        rank: u64,
    },
    /// P or M to O: what a request comes after, as far as the sender knows.
    Placed {
        /// The request.
        id: RequestId,
        /// From P: its place. From M: that of the message which this answers.
        rank: u64,
        /// Those that it names and that are not over.
        after: Vec<RequestId>,
        /// Those that it overlaps with and that go first.
        behind: Vec<RequestId>,
    },
    /// P to B: a request has come.
    Record {
        /// The request.
        id: RequestId,
        /// Its originator.
        owner: NodeId,
        /// The oldest of its host's requests that may not be over.
        oldest: u64,
    },
    /// B to P: it is recorded.
    Recorded {
        /// The request.
        id: RequestId,
    },
    /// P to O: it may begin.
    Begin {
        /// The request.
        id: RequestId,
    },
    /// P or M to O: it is aborted, before it has begun.
    Refuse {
        /// The request.
        id: RequestId,
        /// Why.
        why: PlaceError,
    },
    /// O to P, or to everyone: it is over. Repeated until it is `Noted`.
    Finished {
        /// The request.
        id: RequestId,
        /// The oldest of its host's requests that may not be over.
        oldest: u64,
        /// Whether it has happened; else it is aborted.
        done: bool,
    },
    /// P to B: it is over.
    Close {
        /// The request.
        id: RequestId,
        /// Whether it has happened.
        done: bool,
    },
    /// B to P: that is recorded.
    Closed {
        /// The request.
        id: RequestId,
    },
    /// To O: that it is over is known there, and does not depend on O any more.
    Noted {
        /// The request.
        id: RequestId,
    },
    /// Everyone to the primary of a new epoch, or to everyone. Repeated until it is `Told`.
    Tell {
        /// What the node knows.
        report: SequenceReport,
        /// Whether it is an originator.
        originates: bool,
    },
    /// P to everyone: it has taken over, and so has the backup. Else: that has been heard.
    Told,
    /// A node that becomes an originator to everyone: it is to be asked from now on. Repeated until
    /// it is `Joined`.
    Join,
    /// The answer.
    Joined {
        /// The sender's own incomplete requests, and their places.
        claims: Vec<(Claim, u64)>,
        /// No place before this is given any more.
        clock: u64,
    },
    /// The primary of a new epoch to B: what is known.
    Take {
        /// All of it, but the claims.
        report: SequenceReport,
    },
    /// B to P: it has it.
    Taken,
}

impl SequenceMessage {
    /// The message's name, as in docs/internals/messages.md.
    pub fn name(&self) -> &'static str {
        match self {
            SequenceMessage::Issue { .. } => "Issue",
            SequenceMessage::Placed { .. } => "Placed",
            SequenceMessage::Record { .. } => "Record",
            SequenceMessage::Recorded { .. } => "Recorded",
            SequenceMessage::Begin { .. } => "Begin",
            SequenceMessage::Refuse { .. } => "Refuse",
            SequenceMessage::Finished { .. } => "Finished",
            SequenceMessage::Close { .. } => "Close",
            SequenceMessage::Closed { .. } => "Closed",
            SequenceMessage::Noted { .. } => "Noted",
            SequenceMessage::Tell { .. } => "Tell",
            SequenceMessage::Told => "Told",
            SequenceMessage::Join => "Join",
            SequenceMessage::Joined { .. } => "Joined",
            SequenceMessage::Take { .. } => "Take",
            SequenceMessage::Taken => "Taken",
        }
    }

    /// Whether it counts among a request's messages: those that the request waits for do.
    pub fn counts(&self) -> bool {
        matches!(
            self,
            SequenceMessage::Issue { .. }
                | SequenceMessage::Placed { .. }
                | SequenceMessage::Record { .. }
                | SequenceMessage::Recorded { .. }
                | SequenceMessage::Begin { .. }
        )
    }
}
