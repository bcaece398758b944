//! Writes refused because a disk's file system is full: which of them may be seen all the same.
//!
//! A refused write has not happened. But its abort is not durable yet: after a power cut in the same moment the nodes that
//! prepared it may be the only ones that know of it, and commit it. So may any write that failed.

use std::ops::Range;

use weft_core::policy::Commit;
use weft_core::units::{MILLIS, Nanos};

use super::Run;

/// The refused writes.
#[derive(Default)]
pub struct NoSpace {
    /// How many there were.
    pub count: u64,
    /// Those whose aborts may not be durable: when they were refused, after how many deaths and starts of nodes.
    unsure: Vec<(Nanos, u64, Range<u32>)>,
}

impl Run {
    /// Whether a request may be refused since a disk's file system is full: no read is.
    pub(super) fn may_find_no_space(&self, request: u32) -> bool {
        self.options.faults.full && self.ops[&request].did.writes()
    }

    /// A request was refused since a disk's file system is full. One of a single piece has not happened, but
    /// zeros are written in pieces that nobody counts.
    pub(super) fn found_no_space(&mut self, n: usize, pieces: Range<u32>) {
        self.no_space.count += 1;
        let may_have_begun = !self.ops[&pieces.start].did.is_known_by_number()
            || self.places.is_some()
            || self.volume.policy.commit == Commit::Limited
            || self.may_be_unknown(n);
        match pieces.len() == 1 && !may_have_begun {
            true => self.no_space.unsure.push((self.world.now(), self.world.lives(), pieces)),
            false => self.left_open(pieces),
        }
    }

    /// Removes refused writes from the history once their aborts are durable. Those after which a node died or started
    /// stay there, without an end.
    pub(super) fn judge_refused(&mut self) {
        let lives = self.world.lives();
        // An abort is durable after an operation of the disk, and these may hang.
        let durable_after = if self.options.faults.hangs { 60_000 * MILLIS } else { 200 * MILLIS };
        let sure_before = self.world.now().saturating_sub(durable_after);
        for (at, then, pieces) in std::mem::take(&mut self.no_space.unsure) {
            match (then == lives, at < sure_before) {
                (true, true) => self.did_nothing(pieces),
                (true, false) => self.no_space.unsure.push((at, then, pieces)),
                (false, _) => {}
            }
        }
    }

    /// At the end of a run the refused writes after which nothing died are removed from the history.
    pub(super) fn judge_last_refused(&mut self) {
        let lives = self.world.lives();
        for (_, then, pieces) in std::mem::take(&mut self.no_space.unsure) {
            if then == lives {
                self.did_nothing(pieces);
            }
        }
    }
}
