//! How a node is run: sizes, bounds and patience.

use super::{Bug, FillRates};
use crate::order::sequencer::Limits;
use crate::store::StoreConfig;
use crate::units::{MILLIS, Nanos, NodeId};

/// How a node is run.
#[derive(Clone, Copy, Debug, Hash)]
pub struct NodeConfig {
    /// The store's sizes.
    pub store: StoreConfig,
    /// Most bytes of a request that are atomic together; longer ones are cut.
    pub max_chunk: u64,
    /// Most bytes of requests in work at this originator; more wait.
    pub max_in_flight: u64,
    /// How long notices may wait for a message to ride on.
    pub notice_delay: Nanos,
    /// How long an answer may take before one asks after it.
    pub patience: Nanos,
    /// How long a timestamp is remembered (shared storage 4.5.2's T).
    pub timestamp_window: Nanos,
    /// Of how many units of 16 sectors timestamps are remembered at most, but for what comes until
    /// a quarter of the window is over.
    pub remembered_units: usize,
    /// Of how many writes it is remembered at most that they have happened, for hosts that ask again.
    pub remembered_writes: usize,
    /// How long a lock that a device serves is waited for before deadlock is presumed (shared
    /// storage 4.3).
    pub lock_timeout: Nanos,
    /// Among how many nodes locks are divided on volumes that have a lock server: the same number at all nodes. More than
    /// one is for simulations (4.3).
    pub lock_servers: usize,
    /// How long locks are good for that nobody gives back (4.2.2).
    pub lease: Nanos,
    /// How long committed changes wait before they are put in place.
    pub place_after: Nanos,
    /// Stripe units being rebuilt at once by a disk that catches up while no host uses it.
    pub rebuilds: usize,
    /// Those while hosts use it, and stripes being verified at once by a scrub.
    pub rebuilds_busy: usize,
    /// How a disk gets the content that it lacks.
    pub rebuilding: Rebuilding,
    /// How fast the disk is filled by catching up.
    pub fill: FillRates,
    /// The bounds of the graph of requests.
    pub sequencer: Limits,
    /// Whether hosts' reads go round slow nodes, and from how many answers it is judged which are slow.
    pub detours: Option<u64>,
    /// From which keys follow by which others act for this node's hosts. Real nodes draw it at random when they are
    /// started.
    pub secret: u128,
    /// A deliberate bug, for tests that prove that the checker bites.
    pub bug: Option<Bug>,
}

/// How a disk gets the content that it lacks.
#[derive(Clone, Copy, Debug, Hash)]
pub struct Rebuilding {
    /// Most bytes of adjacent units that are rebuilt together, if it is more than one unit.
    pub together: u64,
    /// Whether content that a read lacks is rebuilt first. Else reads go round it: for simulations (DR-net 4.2).
    pub on_demand: bool,
    /// Who leads the rebuilds of the node's disk, if it is another also where no controller computes parity: for
    /// simulations (DR-net 4.2). That node has itself here.
    pub led_by: Option<NodeId>,
}

impl Default for Rebuilding {
    fn default() -> Self {
        Rebuilding { together: 256 << 10, on_demand: true, led_by: None }
    }
}

impl Default for NodeConfig {
    fn default() -> Self {
        NodeConfig {
            store: StoreConfig::default(),
            max_chunk: 4 << 20,
            max_in_flight: 16 << 20,
            notice_delay: MILLIS,
            patience: 2000 * MILLIS,
            timestamp_window: 4_000 * MILLIS,
            remembered_units: 1 << 18,
            remembered_writes: 1 << 17,
            lock_timeout: 200 * MILLIS,
            lock_servers: 1,
            lease: 4_000 * MILLIS,
            place_after: 100 * MILLIS,
            rebuilds: 64,
            rebuilds_busy: 8,
            rebuilding: Rebuilding::default(),
            fill: FillRates::default(),
            sequencer: Limits::default(),
            detours: None,
            secret: 0,
            bug: None,
        }
    }
}
