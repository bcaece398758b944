//! What is remembered of each host.

use std::collections::BTreeMap;

use super::Limits;
use crate::order::{HostId, RequestId};
use crate::units::Nanos;

#[derive(Clone, Copy, Debug, Hash)]
struct Host {
    /// All its requests before this one are over.
    oldest: u64,
    /// Requests that it was the first to name, and that have not been issued.
    unissued: usize,
    heard: Nanos,
}

/// The hosts.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct Hosts {
    all: BTreeMap<HostId, Host>,
}

impl Hosts {
    fn host(&mut self, host: HostId, now: Nanos) -> &mut Host {
        self.all.entry(host).or_insert(Host { oldest: 1, unissued: 0, heard: now })
    }

    /// A host says that all before `oldest` are over. Returns whether that is new.
    pub fn advance(&mut self, host: HostId, oldest: u64, now: Nanos) -> bool {
        let host = self.host(host, now);
        host.heard = now;
        let newer = oldest > host.oldest;
        host.oldest = host.oldest.max(oldest);
        newer
    }

    /// The oldest of a host's requests that may not be over.
    pub fn oldest(&self, host: HostId) -> u64 {
        self.all.get(&host).map_or(1, |h| h.oldest)
    }

    /// Whether its host has said that a request is over.
    pub fn is_past(&self, id: RequestId) -> bool {
        id.number < self.oldest(id.host)
    }

    /// How many requests are awaited because of a host.
    pub fn unissued(&self, host: HostId) -> usize {
        self.all.get(&host).map_or(0, |h| h.unissued)
    }

    pub fn count_named(&mut self, host: HostId, now: Nanos) {
        self.host(host, now).unissued += 1;
    }

    pub fn count_named_no_more(&mut self, host: HostId) {
        if let Some(host) = self.all.get_mut(&host) {
            host.unissued = host.unissued.saturating_sub(1);
        }
    }

    /// Forgets hosts that were not heard of for long and have nothing in the graph.
    pub fn expire(&mut self, now: Nanos, limits: &Limits, known: impl Fn(HostId) -> bool) {
        self.all.retain(|id, host| now.saturating_sub(host.heard) < limits.host_kept || known(*id));
    }

    pub fn iter(&self) -> impl Iterator<Item = (HostId, u64)> + '_ {
        self.all.iter().map(|(id, host)| (*id, host.oldest))
    }
}
