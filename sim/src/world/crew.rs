//! Who is in a world of processes, and who comes and goes.

use std::ops::AddAssign;

use weft_core::units::NodeId;

/// Who is in a world of processes.
#[derive(Clone, Copy, Debug)]
pub struct Crew {
    /// Nodes with disks.
    pub nodes: usize,
    /// How many of these are in a process.
    pub hosted: u16,
    /// Hosts that are their own controllers: nodes without disks, each in a process of its own.
    pub attached: usize,
    /// So many of the nodes, the last, are not in the map at first: they are admitted later
    /// ([`World::admit_next`](super::World::admit_next)). Then each of the others is in a process
    /// of its own, and no host is its own controller.
    pub later: usize,
    /// Whether those are disks that processes get while they run, from the first process on one each, and
    /// not processes of their own.
    pub added: bool,
}

/// How many nodes came and went in a world of processes, or in several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Comings {
    /// Were admitted.
    pub joined: u64,
    /// Of those: as disks that processes got while they ran.
    pub added: u64,
    /// Left for good.
    pub left: u64,
}

impl AddAssign for Comings {
    fn add_assign(&mut self, other: Comings) {
        self.joined += other.joined;
        self.added += other.added;
        self.left += other.left;
    }
}

impl Crew {
    /// The first node of the process of a node.
    pub(super) fn process_of(&self, node: NodeId) -> NodeId {
        let (n, first) = (usize::from(node.0), self.nodes - self.later);
        match self.added && (first..self.nodes).contains(&n) {
            true => NodeId((n - first) as u16),
            false if n < self.nodes => NodeId(node.0 / self.hosted * self.hosted),
            false => node,
        }
    }
}
