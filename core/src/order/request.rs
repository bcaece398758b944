//! What a host says of a request's place in the graph of requests (TickerTAIP, section 3.4).

use std::fmt;

use crate::units::{Epoch, Timestamp};

/// A host, by a number other than 0 that it drew at random when it began, and keeps when it connects again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(pub u64);

/// A request's name. A host numbers its requests one after the other, from 1 (3.4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId {
    /// Whose it is.
    pub host: HostId,
    /// Which of that host's.
    pub number: u64,
}

/// The host of requests that no host named.
const NOBODY: HostId = HostId(0);

impl RequestId {
    /// A name for one attempt at a request that its host did not name.
    pub fn of_attempt(ts: Timestamp) -> RequestId {
        RequestId { host: NOBODY, number: ts.0 }
    }

    /// The attempt that it names, unless it is a host's name for a request.
    pub fn attempt(self) -> Option<Timestamp> {
        (self.host == NOBODY).then_some(Timestamp(self.number))
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "request {} of host {:016x}", self.number, self.host.0)
    }
}

/// Whose request a write is part of. Who takes part in the write remembers that it has happened, until the
/// host says that it has heard so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Asker {
    /// The request's name.
    pub id: RequestId,
    /// The oldest of the host's requests that it has not heard the end of.
    pub oldest: u64,
}

/// What is known of where a request comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Origin {
    /// Who asks.
    pub asker: Asker,
    /// If it has been asked for before: then nothing of it is done before it is known what became of that.
    pub again: Option<Again>,
    /// The version of the volume's reservations under which it is permitted
    /// ([`Reservations`](crate::cluster::Reservations)).
    pub permitted: u64,
}

/// A request that was asked for before, of a node that has stopped or that its host has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Again {
    /// No attempt at it has an earlier timestamp.
    pub since: Timestamp,
    /// All attempts at it were made in this epoch, or before.
    pub epoch: Epoch,
}

/// A request's place in the graph.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// Its name.
    pub id: RequestId,
    /// The requests that must come first. They may be issued later.
    pub after: Vec<RequestId>,
    /// The oldest of the host's requests that it has not heard the end of: all before it are
    /// complete, so nobody need wait for them (3.4.3). At most the request's own number.
    pub oldest: u64,
}

/// Why a request cannot have the place that its host gave it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum PlaceError {
    /// It names itself.
    #[error("{0} cannot follow itself")]
    AfterItself(RequestId),
    /// It would have to come before itself.
    #[error("{0} would create a cycle: a request that it must follow waits for it")]
    Cycle(RequestId),
    /// The number has been used.
    #[error("{0} has been issued before; number requests one after the other")]
    Reused(RequestId),
    /// It was awaited, and did not come in time.
    #[error(
        "{0} arrived too late: requests that waited for it were aborted; issue it with a new number"
    )]
    TooLate(RequestId),
    /// Its number is far beyond those that its host has not heard the end of.
    #[error(
        "{id} is {bound} or more past its host's oldest incomplete request, {oldest}; wait for \
         that one, or acknowledge it"
    )]
    TooFarAhead {
        /// The request.
        id: RequestId,
        /// The oldest of its host's requests that may not be over.
        oldest: u64,
        /// How far a number may be ahead.
        bound: u64,
    },
    /// Too many requests are awaited that have not been issued.
    #[error(
        "host {host:016x} waits for {bound} requests that were not issued, and no more are accepted; \
         issue them first"
    )]
    TooManyUnissued {
        /// The host.
        host: u64,
        /// How many a host may name.
        bound: usize,
    },
    /// One that it depends on was aborted, or failed.
    #[error("{0}, which must come first, was not done")]
    Aborted(RequestId),
    /// One that it depends on did not come in time.
    #[error("{0}, which must come first, was not issued in time")]
    NeverIssued(RequestId),
    /// It names a request of another host, which only a sequencer knows.
    #[error(
        "{0}, which must come first, belongs to another host; this needs a volume with \
         ordering=sequencer"
    )]
    NotOrdered(RequestId),
}
