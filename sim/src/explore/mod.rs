//! Exploring the rule of commit and settlement: one or two writes on two or three nodes, and
//! *everything* that can happen to them within bounds.
//!
//! Where the simulation check ([`crate::check`]) draws long runs by chance, this goes through all
//! short ones: the same nodes, and at every moment every choice - which packet arrives next, which
//! disk operation ends, which node dies and what its disk keeps. Nodes can be copied and have a
//! fingerprint, so states that were reached before are not gone into again: two states with the same
//! fingerprint go on in the same way, since a state holds all that decides what happens next, the
//! history that will be judged included.
//!
//! - [`setup`]: what is explored
//! - [`state`]: a state, what can happen in it, and what it becomes
//! - [`disk`], [`hosts`]: parts of it; [`print`]: fingerprints
//! - [`ledger`]: the rule of settlement, kept beside the nodes at every step
//! - [`judge`]: what must hold when nothing more happens
//! - [`search`]: going through all states
//! - [`story`]: telling what happened
//!
//! docs/internals/testing.md says what the bounds are and what has been covered.

mod disk;
mod hosts;
mod judge;
mod ledger;
mod print;
mod search;
mod setup;
mod state;
mod story;
#[cfg(test)]
mod tests;

use std::fmt;

use weft_core::node::{Bug, Timer};
use weft_core::units::NodeId;

pub use disk::Left;
pub use ledger::{Case, Role};
pub use search::{Failure, Report, explore, simplest};
pub use setup::{Ask, Host, Setup};

/// How far is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Nodes that die, each at any instant.
    pub crashes: u8,
    /// Times that all power is cut, at any instant; everything starts again then.
    pub power_cuts: u8,
    /// Dead nodes that return at any instant. The others return when nothing more happens.
    pub early_returns: u8,
    /// Timers that fire at any instant. The others fire when nothing else can happen.
    pub early_timers: u8,
    /// Messages that are lost though nobody died.
    pub losses: u8,
    /// How often something else may happen than what is next in a fixed order (faults apart);
    /// `None` for any number, which is every order.
    pub delays: Option<u16>,
    /// Most states to visit.
    pub states: u64,
    /// Whether the rule of settlement is judged at every step ([`ledger`]), or only what hosts see and
    /// what disks hold in the end.
    pub rule: bool,
    /// A deliberate bug, for tests that prove that the search finds it.
    pub bug: Option<Bug>,
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds {
            crashes: 1,
            power_cuts: 0,
            early_returns: 0,
            early_timers: 0,
            losses: 0,
            delays: None,
            states: u64::MAX,
            rule: true,
            bug: None,
        }
    }
}

/// One end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum End {
    /// A node.
    Node(NodeId),
    /// The authority.
    Authority,
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            End::Node(n) => n.fmt(f),
            End::Authority => f.write_str("authority"),
        }
    }
}

/// Something that can happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// A disk operation of a node ends.
    Disk(NodeId, u64),
    /// The first packet on a link arrives.
    Deliver(End, End),
    /// A host asks what it has to ask next.
    Ask(usize),
    /// Nothing else can happen: time passes until the first timer is due.
    Pass,
    /// A timer fires though other things could happen.
    Early(NodeId, Timer),
    /// A node dies, and its disk keeps so much.
    Crash(NodeId, Left),
    /// A dead node starts.
    Start(NodeId),
    /// All power is cut, each disk keeps so much, and everything starts.
    PowerCut(Vec<Left>),
    /// The first message on the link between two nodes is lost.
    Lose(NodeId, NodeId),
}
