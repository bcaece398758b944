//! The order in which a disk's queue is served (TickerTAIP, section 3.6).
//!
//! A policy needs to know what serving a request would cost from where the disk is. It asks a
//! [`Positions`], of which there are two kinds: the model of a simulated disk, which knows, and
//! a guess from addresses alone ([`Addresses`]) for a real disk, whose arm nobody outside can
//! see. So one queue orders both.

mod addresses;
mod queue;

pub use addresses::Addresses;
pub use queue::Queue;

use serde::{Deserialize, Serialize};

/// How the next request is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// First come, first served.
    #[default]
    Fcfs,
    /// Shortest seek time first.
    Sstf,
    /// Shortest access time (seek and rotation) first; can starve a request (Seltzer et al.
    /// 1990; Jacobson and Wilkes 1991).
    Satf,
    /// Batched nearest neighbour: shortest access time first within a batch, which is all that
    /// waited when the batch began; later requests wait for the next.
    Bnn,
    /// Circular look: upwards by address, then back to the lowest.
    CLook,
}

impl Policy {
    /// All of them.
    pub const ALL: [Policy; 5] =
        [Policy::Fcfs, Policy::Sstf, Policy::Satf, Policy::Bnn, Policy::CLook];

    /// The name in parameter files.
    pub fn name(self) -> &'static str {
        match self {
            Policy::Fcfs => "fcfs",
            Policy::Sstf => "sstf",
            Policy::Satf => "satf",
            Policy::Bnn => "bnn",
            Policy::CLook => "c-look",
        }
    }
}

/// A name that no policy has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not an order of a queue; choose fcfs, sstf, satf, bnn or c-look")]
pub struct UnknownPolicy(pub String);

impl std::str::FromStr for Policy {
    type Err = UnknownPolicy;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let found = Policy::ALL.into_iter().find(|p| p.name() == name);
        found.ok_or_else(|| UnknownPolicy(name.to_string()))
    }
}

/// What is known, or guessed, of a disk's position. Costs are in any unit; only their order
/// counts.
pub trait Positions<R> {
    /// The address of the first sector of `request`.
    fn address(&self, request: &R) -> u64;

    /// The address at which the arm now is.
    fn here(&self) -> u64;

    /// What it costs to move the arm to `request`.
    fn seek(&self, request: &R) -> u64;

    /// What it costs until the first sector of `request` is under the head.
    fn access(&self, request: &R) -> u64;
}
