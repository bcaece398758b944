//! What the lanes of a process have done.

use serde::{Deserialize, Serialize};

/// A lane: a thread that runs nodes. The first is also that of sockets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LaneStatus {
    /// Nodes whose lane it is.
    pub nodes: usize,
    /// Messages, requests, ends of disk operations and timers that they have handled since the process was started.
    pub inputs: u64,
    /// How many of those were followed by a check of the node's invariants.
    pub checks: u64,
    /// How many of those on the first lane's thread, which had borrowed it.
    pub borrowed: u64,
    /// How often its thread was woken.
    pub wakes: u64,
}
