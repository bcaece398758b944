//! Hosts that are connected, and those that came in or were refused.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A connection of a host to this process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostStatus {
    /// Its address, or that it is on this machine.
    pub address: String,
    /// What it speaks: `nbd` or `native`.
    pub protocol: String,
    /// The volume that it uses; `null` until it has chosen one.
    pub volume: Option<String>,
    /// The node that takes its requests.
    pub node: u16,
    /// The name of the host, if it has proved who it is.
    pub host: Option<String>,
    /// Whether it goes by TLS.
    pub tls: bool,
    /// Whether it may only read the volume.
    pub read_only: bool,
}

/// Logins of hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LoginStatus {
    /// Hosts that began to use a volume.
    pub accepted: u64,
    /// Logins that were put off after wrong answers to CHAP.
    pub delayed: u64,
    /// Hosts that were refused, by cause.
    pub refused: BTreeMap<String, u64>,
}
