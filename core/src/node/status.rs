//! What a node has done, and how it stands.

use super::ScrubProgress;
use crate::plan::Totals;
use crate::store::StoreCounters;
use crate::units::{Epoch, Nanos, VolumeId};

/// What a node has done; the first part as [`Totals`] counts it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeCounters {
    /// Messages, bytes and round trips; disk transfers are in `store`.
    pub totals: Totals,
    /// Messages sent to and from the roles that order requests: lock server and sequencer.
    pub order_messages: u64,
    /// Notices sent.
    pub notices: u64,
    /// Bytes that were added up (xor, or multiplied in the code's field), the store's apart.
    pub xor_bytes: u64,
    /// Host requests answered.
    pub requests: u64,
    /// Transactions begun again with a later timestamp.
    pub retries: u64,
    /// Sectors rebuilt.
    pub rebuilt_sectors: u64,
    /// The store's own.
    pub store: StoreCounters,
}

impl std::hash::Hash for NodeCounters {
    /// Counters decide nothing: states that differ only in them are one.
    fn hash<H: std::hash::Hasher>(&self, _: &mut H) {}
}

/// A node's state at a glance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeStatus {
    /// The epoch it serves in.
    pub epoch: Epoch,
    /// Whether it serves.
    pub serving: bool,
    /// Sectors of its disk that it has yet to catch up on; `None` until it knows.
    pub stale_sectors: Option<u64>,
    /// Host requests in work.
    pub in_flight: usize,
    /// The scrubs in work: of which volumes, and how far they are.
    pub scrubs: Vec<(VolumeId, ScrubProgress)>,
    /// Nothing is in work, nothing unsettled, everything in place.
    pub quiet: bool,
    /// What keeps it from being quiet, in words.
    pub waiting: String,
    /// By how much its machine's clock is ahead of the cluster's time, if it is wrong; 0 else.
    pub clock_is_ahead: Nanos,
    /// What it has done.
    pub counters: NodeCounters,
}
