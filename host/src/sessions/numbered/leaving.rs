//! Hosts that have gone to another process, which asks for the outcomes of their requests here.
//!
//! The outcomes are kept after they have been reported: the process that asked may fail before it lets the host in, or
//! refuse it, and then a third process asks.

use weft_core::order::HostId;

use super::names::Names;
use super::{NumberedHost, NumberedHosts, State};

/// The answer to a process that asks for a host's outcomes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Departure {
    /// It is connected, or requests of it are in progress.
    InProgress,
    /// It has left, and these changes were done.
    Left(Vec<u64>),
    /// It has been let in again since the question.
    Returned,
}

impl NumberedHosts {
    /// Which stay of a host at this process is the latest; 0 if the host is unknown.
    pub(crate) fn stay(&self, host: HostId) -> u64 {
        self.hosts.get(&host).map_or(0, |session| session.stay)
    }

    /// Whether a host is at this process, or was here last.
    pub(crate) fn is_here(&self, host: HostId) -> bool {
        self.hosts.get(&host).is_some_and(|session| !session.has_left)
    }

    /// A host is at another process now, and its stay here is to end.
    pub(crate) fn take_leave(&mut self, host: HostId, stay: u64) -> Departure {
        let Some(session) = self.hosts.get_mut(&host) else { return Departure::Left(Vec::new()) };
        if session.stay != stay {
            return Departure::Returned;
        }
        if session.conn.is_some() || !session.is_idle() {
            return Departure::InProgress;
        }
        Departure::Left(session.take_leave(host))
    }

    /// A host has come from another process, where these were done.
    pub(crate) fn adopt(&mut self, host: HostId, done: &[u64]) {
        if let Some(session) = self.hosts.get_mut(&host) {
            for number in done.iter().filter(|number| **number >= session.oldest) {
                session.requests.entry(*number).or_insert(State::Done);
            }
        }
    }
}

impl NumberedHost {
    /// Completed requests stay completed. Failed ones may be done elsewhere.
    fn take_leave(&mut self, host: HostId) -> Vec<u64> {
        self.has_left = true;
        self.names = Names::new(host);
        self.requests.retain(|_, state| matches!(state, State::Done));
        self.heard_failures.clear();
        self.requests.keys().copied().collect()
    }
}
