//! How processes reach one another.

use serde::{Deserialize, Serialize};

/// How this process reaches another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LinkStatus {
    /// The other.
    pub to: u16,
    /// `unix`, `tls`, or `relayed` if through others.
    pub over: String,
}

/// How a process reaches another to which it has no good connection of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Detour {
    /// The process that says so.
    pub from: u16,
    /// The other.
    pub to: u16,
    /// The processes that what the first says goes through, the nearest first; none if it goes directly all the same.
    pub through: Vec<u16>,
    /// Whether there should be a good connection between the two.
    pub bad: bool,
}
