//! How long requests to a volume took.

use serde::{Deserialize, Serialize};

/// How long requests to a volume took, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct VolumeLatency {
    /// Reads; `null` if there were none.
    pub reads: Option<LatencyStatus>,
    /// Writes of bytes and zeros, and trims; `null` if there were none.
    pub writes: Option<LatencyStatus>,
    /// Flushes; `null` if there were none.
    pub flushes: Option<LatencyStatus>,
}

/// How long requests took, from when they had come whole until they were answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LatencyStatus {
    /// Requests.
    pub requests: u64,
    /// Microseconds that half of them took at most.
    pub p50_us: u64,
    /// The same of 95 %.
    pub p95_us: u64,
    /// The same of 99 %.
    pub p99_us: u64,
    /// Microseconds that the slowest took.
    pub most_us: u64,
}
