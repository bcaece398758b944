//! What the status says of a slow node.

use serde::{Deserialize, Serialize};

/// Reads or writes of a node that take much longer than other nodes'.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SlowStatus {
    /// Microseconds in which half of its reads are answered; only if it is slow at them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_microseconds: Option<u64>,
    /// Microseconds in which half of the others' are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub others_microseconds: Option<u64>,
    /// Microseconds in which half of its writes are made; only if it is slow at them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_microseconds: Option<u64>,
    /// Microseconds in which half of the others' are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub others_write_microseconds: Option<u64>,
}
