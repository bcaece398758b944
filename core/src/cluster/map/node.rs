//! What the map knows of a node: where it lives, whether it takes part, and its disk.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::store::Reached;
use crate::units::NodeId;

/// Where a node lives, as its operator configured it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Home {
    /// Its name; no two nodes of a cluster have the same.
    pub name: String,
    /// Where other nodes reach it, as `address:port`; empty once another process has taken its place.
    pub address: String,
    /// The failure domains that it is in, such as `box` = `b1`.
    pub labels: BTreeMap<String, String>,
    /// A digest of the public key that it was admitted with: a certificate for another key is not its own. Nodes that
    /// were admitted before maps had keys have none.
    pub key: Option<u128>,
}

/// What a node is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum NodeKind {
    /// It drives a disk, and serves hosts.
    #[default]
    Disk,
    /// A host that is its own controller: it serves other hosts nothing, and has no disk.
    Host,
    /// It has no disk and serves no host. It is there to plan and to keep locks for all others.
    Controller,
}

/// What the cluster knows of a node and its disk.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NodeInfo {
    /// Whether it takes part.
    pub up: bool,
    /// Whether it is not expected back: what was on it is rebuilt on other disks.
    pub given_up: bool,
    /// The incarnation of its disk, 0 before it was first seen. One with another incarnation is
    /// empty.
    pub disk: u64,
    /// Data sectors of its disk.
    pub sectors: u64,
    /// How far its disk had got when the map was made, as far as anybody knew.
    pub reached: Reached,
    /// Whether what is on its disk is being moved to others.
    pub draining: bool,
    /// Whether its disk is expected to fail: no parity waits of what is on it (AFRAID 3.3).
    pub suspect: bool,
    /// What it is for.
    pub kind: NodeKind,
    /// Whether it has left the cluster for good. Its number is not given to another.
    pub removed: bool,
    /// Where it lives, if the nodes are in several processes.
    pub home: Option<Arc<Home>>,
    /// The number of the process that serves it, if that is not its own: that of the first node
    /// which the process had. A process keeps its number when that node has left.
    pub process: Option<NodeId>,
}

impl NodeInfo {
    /// A node that takes part, with this disk.
    pub fn new(disk: u64, sectors: u64) -> NodeInfo {
        NodeInfo {
            up: true,
            given_up: false,
            disk,
            sectors,
            reached: Reached::default(),
            draining: false,
            suspect: false,
            kind: NodeKind::Disk,
            removed: false,
            home: None,
            process: None,
        }
    }

    /// A node whose disk has not been seen.
    pub fn unseen() -> NodeInfo {
        NodeInfo::new(0, 0)
    }

    /// A node that has been admitted to the cluster and has not come yet.
    pub fn expected(home: Option<Arc<Home>>) -> NodeInfo {
        NodeInfo { up: false, home, ..NodeInfo::unseen() }
    }

    /// Whether it is a host that is its own controller.
    pub fn is_host(&self) -> bool {
        self.kind == NodeKind::Host
    }

    /// Whether another process has taken the place, and the name, of the one that served it. It is given up, cannot
    /// come back, and leaves as soon as nothing is on its disk any more.
    pub fn is_replaced(&self) -> bool {
        self.home.as_ref().is_some_and(|h| h.address.is_empty() && !h.name.is_empty())
    }

    /// Whether it has a disk, or is to have one.
    pub fn has_disk(&self) -> bool {
        self.kind == NodeKind::Disk
    }
}
