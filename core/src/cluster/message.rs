//! What the authority and nodes say to one another. docs/internals/messages.md shows it in sequence.

use std::sync::Arc;

use super::ClusterMap;
use crate::store::Reached;
use crate::units::{Epoch, NodeId, Timestamp, VolumeId};

/// The authority to a node.
#[derive(Clone, Debug, Hash)]
pub enum MapMessage {
    /// Stop serving; a new epoch is coming.
    Freeze {
        /// Its number.
        epoch: Epoch,
    },
    /// Go on with this map.
    Enter {
        /// The map.
        map: Arc<ClusterMap>,
        /// Every write from now on comes after this.
        floor: Timestamp,
    },
}

/// How a node's disk stands with what it promised before it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Memory {
    /// How far it had got when it was opened; nothing if that has been looked at, and what it had lost is
    /// known.
    pub found: Reached,
    /// How far it has got by now.
    pub reached: Reached,
    /// The first epoch that the node has entered since; 0 before.
    pub began: Epoch,
    /// Whether it knows by itself that it has forgotten what it promised.
    pub forgot: bool,
}

/// Volumes with content that parity on a node's disk does not describe.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Undescribed {
    /// Their parity there is out of date, or may be.
    pub exposed: Vec<VolumeId>,
    /// Some of that can be computed, or some may come to be out of date yet.
    pub refreshing: Vec<VolumeId>,
    /// They have copies there, or may get some.
    pub copied: Vec<VolumeId>,
}

/// A node to the authority.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum MemberReport {
    /// It has stopped.
    Frozen {
        /// For this epoch.
        epoch: Epoch,
        /// The oldest write that is not settled everywhere.
        oldest: Timestamp,
        /// What its clock shows, right or wrong.
        clock: Timestamp,
        /// The latest that it has issued, seen or written.
        written: Timestamp,
        /// Whether a request, or a write that is not settled everywhere, is in work here.
        busy: bool,
        /// How its disk stands with what it promised.
        memory: Memory,
        /// How far others' disks had got, as far as it has heard.
        heard: Vec<(NodeId, Reached)>,
        /// What parity on its disk does not describe.
        undescribed: Undescribed,
    },
    /// Its disk has caught up on some volumes.
    CaughtUp {
        /// In this epoch.
        epoch: Epoch,
        /// These, among them perhaps some that it was not behind on.
        volumes: Vec<VolumeId>,
    },
    /// Its disk has moved or copied what volumes show of others, where the map wants that. The last word of an epoch counts.
    Merged {
        /// In this epoch.
        epoch: Epoch,
        /// All of deleted snapshots.
        merged: bool,
        /// All that clones show which are flattened.
        flattened: bool,
    },
    /// All parity on its disk that can be computed is computed, for some volumes: their columns move, or they have stopped
    /// deferring and copying. The last report of an epoch counts.
    ParityDone {
        /// In this epoch.
        epoch: Epoch,
        /// All of them so far.
        volumes: Vec<VolumeId>,
    },
    /// There is something to be written to a volume that rests.
    Wake {
        /// In this epoch.
        epoch: Epoch,
    },
}
