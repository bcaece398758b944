//! What can be done to nodes and their disks, in a word.

use serde::{Deserialize, Serialize};

/// Which part of a stripe to believe where either may be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Believed {
    /// The data: parity is made to fit it.
    Data,
    /// The parity: data is made to fit it.
    Parity,
}

/// What can be done to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeAction {
    /// Stop it when it has finished its work.
    Stop,
    /// Stop it at once, as if its process had died.
    Kill,
    /// Start it on the disk that it had.
    Start,
}

/// What can be done to a node's disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DiskAction {
    /// Declare it lost: its content is rebuilt on others.
    Fail,
    /// Move its content to others.
    Drain,
    /// Leave the rest on it, and use it again.
    Undrain,
    /// It is expected to fail: parity of its content does not wait.
    Suspect,
    /// It is not expected to fail any more.
    Trust,
    /// Its errors count from 0 again.
    Clear,
}

/// What can be done about disks that are not equally full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RebalanceAction {
    /// Say what would be moved.
    Plan,
    /// Begin to move it.
    Start,
    /// Begin nothing more.
    Stop,
}

/// A disk that could be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewDiskOf {
    /// A node of the process that would have it. Without one it would be in a box of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<u16>,
    /// Bytes for volumes.
    pub bytes: u64,
}
