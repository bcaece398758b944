//! Full file systems: which disks' are full, and when.

use std::collections::BTreeSet;

use fastrand::Rng;
use weft_core::units::{MILLIS, Nanos, NodeId};

use super::faults::Fault;

/// Full file systems: drawn from a stream of their own, and their state.
pub(super) struct Full {
    rng: Rng,
    /// The nodes that were told last that their disks' are.
    told: BTreeSet<NodeId>,
    /// Writes that were refused for that.
    pub refused: u64,
}

impl Full {
    pub fn draw(seed: u64) -> Full {
        Full { rng: Rng::with_seed(seed ^ 0x000f_0111), told: BTreeSet::new(), refused: 0 }
    }

    /// The file systems of some of the disks are full for a while, which loses nothing. Their nodes learn of it after a
    /// while, or never.
    pub fn plan(&mut self, disks: u16, span: Nanos) -> Vec<(Nanos, Fault)> {
        let mut plan = Vec::new();
        if self.rng.bool() {
            return plan;
        }
        for _ in 0..self.rng.u8(1..=3) {
            let node = NodeId(self.rng.u16(0..disks));
            let at = self.rng.u64(0..span);
            let told = at + self.rng.u64(0..20 * MILLIS);
            let ends = at + self.rng.u64(0..60 * MILLIS);
            let ends_told = ends + self.rng.u64(0..5 * MILLIS);
            plan.push((at, Fault::Fill(node)));
            plan.push((told, Fault::TellFull(node)));
            plan.push((ends, Fault::HasRoom(node)));
            plan.push((ends_told, Fault::TellFull(node)));
        }
        plan
    }

    /// A node is told whether the file system of its disk is full.
    pub fn is_told(&mut self, node: NodeId, is_full: bool) {
        match is_full {
            true => self.told.insert(node),
            false => self.told.remove(&node),
        };
    }

    /// Whether a node has been told that its disk's file system is full, and nothing else since.
    pub fn is_any_told(&self) -> bool {
        !self.told.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use weft_core::node::{HostError, HostOp};

    use super::super::super::history::Did;
    use super::super::Run;
    use super::*;
    use crate::check::Options;

    /// Whether it is a fault when a write is refused for lack of space.
    fn is_found(seed: u64, before: impl Fn(&mut Run), meanwhile: impl Fn(&mut Run)) -> bool {
        let mut run = Run::draw(seed, Options { thin: false, ..Options::DEFAULT }, 0);
        before(&mut run);
        let request = run.announce(0, &Did::Wrote { zeros: false }, 0..1, &HostOp::Flush);
        meanwhile(&mut run);
        run.answered(u64::from(request), Err(HostError::NoSpace));
        run.error.is_some()
    }

    #[test]
    fn a_write_is_refused_only_while_some_disk_is_full() {
        let node = NodeId(1);
        let fills = |run: &mut Run| {
            run.world.fill(node);
            run.fault(Fault::TellFull(node));
        };
        let empties = |run: &mut Run| {
            run.world.has_room(node);
            run.fault(Fault::TellFull(node));
        };
        assert!(is_found(1, |_| (), |_| ()));
        assert!(!is_found(1, fills, |_| ()));
        assert!(!is_found(1, |_| (), fills));
        assert!(!is_found(1, fills, empties), "it was when it was asked for");
        let filled = |run: &mut Run| {
            fills(run);
            empties(run);
        };
        assert!(is_found(1, filled, |_| ()));
    }
}
