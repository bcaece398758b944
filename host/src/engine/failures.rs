//! Nodes whose disks have failed: each stops, and starts again by itself while its disk fails seldom.
//!
//! One error does not make a broken disk. An operation that failed is tried a second time first (`disk::space`). A write that
//! fails again, or a flush, stops the node. A read does not: its sectors are decoded from other disks and written again. Only
//! where many reads fail within a minute the node stops, if volumes have redundancy to spare.
//!
//! What the node may have missed it catches up with, like any node that was away.
//! A disk that fails more often stays out until an operator starts its node. So does a disk without direct I/O, since the
//! page cache may show content that was lost.

use weft_core::units::{MILLIS, Nanos, NodeId};

use super::Engine;
use crate::log::About;

/// How long a node waits before it starts again, by how often its disk has failed within [`Failures::WITHIN`]. One whose
/// disk fails more often stays down.
const PAUSES: [Nanos; 3] = [3_000 * MILLIS, 15_000 * MILLIS, 60_000 * MILLIS];

/// A disk fails as a whole if it fails this many reads within [`FailingReads::WITHIN`], and this part of all of them.
const MANY: u64 = 100;
const PART: u64 = 10;

/// Reads of a disk, in all and failed ones: how many there were when the count was last begun.
#[derive(Debug, Default)]
pub(super) struct FailingReads {
    since: Nanos,
    before: (u64, u64),
    /// All at the last look.
    seen: u64,
}

impl FailingReads {
    const WITHIN: Nanos = 60_000 * MILLIS;

    /// The reads of this life, and the failed ones among them. Returns those since the count was begun, if
    /// too many of them failed.
    fn look(&mut self, now: Nanos, (all, failed): (u64, u64)) -> Option<(u64, u64)> {
        if std::mem::replace(&mut self.seen, all) > all {
            // A new life: they have begun at 0.
            (self.since, self.before) = (now, (0, 0));
        } else if now.saturating_sub(self.since) >= FailingReads::WITHIN {
            (self.since, self.before) = (now, (all, failed));
        }
        let (all, failed) = (all - self.before.0, failed.saturating_sub(self.before.1));
        (failed >= MANY && failed * PART >= all).then_some((all, failed))
    }
}

/// Failures of a disk.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    /// When those happened that count.
    at: Vec<Nanos>,
    /// The node is to start again, or has not finished starting.
    restarts: bool,
}

impl Failures {
    /// Older failures do not count.
    const WITHIN: Nanos = 3_600_000 * MILLIS;

    /// One more. Returns how long the node waits before it starts again, if it does.
    fn add(&mut self, now: Nanos) -> Option<Nanos> {
        self.at.retain(|at| now.saturating_sub(*at) < Failures::WITHIN);
        self.at.push(now);
        let pause = PAUSES.get(self.at.len() - 1).copied();
        self.restarts = pause.is_some();
        pause
    }

    /// Whether the node waits before it starts again.
    pub(super) fn pauses(&self, now: Nanos) -> bool {
        let pause = PAUSES.get(self.at.len().saturating_sub(1));
        let waits = |at: &Nanos| pause.is_some_and(|pause| now.saturating_sub(*at) < *pause);
        self.restarts && self.at.last().is_some_and(waits)
    }

    /// Whether the node is down because of one, and is to start again.
    pub(crate) fn are_waited_out(&self) -> bool {
        self.restarts
    }

    /// The node is down for another reason, and is to start again. If it cannot, that is the first failure.
    pub(super) fn expect_start(&mut self) {
        self.restarts = true;
    }

    /// The node runs again.
    pub(super) fn is_over(&mut self) {
        self.restarts = false;
    }
}

impl Engine {
    /// The disk of a node has failed an operation that the node cannot do without.
    pub(super) fn disk_failed(&mut self, n: usize, why: &str) {
        let hides_nothing =
            self.seat(n).and_then(|seat| seat.disk.as_ref()).is_some_and(|disk| disk.is_direct());
        self.stop_failing(n, why, hides_nothing);
    }

    /// Stops nodes whose disks fail many reads. Where volumes need such a disk it stays: most of it may be readable.
    pub(super) fn stop_where_reads_fail(&mut self) {
        let now = self.clock.now();
        for n in 0..self.instances.len() {
            let Some(life) = self.status_of(n).filter(|_| self.instances[n].runs()) else {
                continue;
            };
            let store = &life.counters.store;
            let reads = (store.disk_reads, store.read_errors);
            let found = self.instances[n].failing_reads.look(now, reads);
            if let Some((all, failed)) = found.filter(|_| self.can_spare(NodeId(n as u16))) {
                let why = format!("{failed} of {all} reads have failed within a minute");
                self.stop_failing(n, &why, true);
            }
        }
    }

    /// Stops a node whose disk fails. If nothing is hidden by trying again, it starts again by itself.
    fn stop_failing(&mut self, n: usize, why: &str, hides_nothing: bool) {
        let now = self.clock.now();
        let pause = if hides_nothing { self.instances[n].failures.add(now) } else { None };
        if pause.is_none() {
            self.note_failure(NodeId(n as u16));
        }
        // That it runs has been seen.
        let _ = self.kill_node(n, &format!("its disk failed: {why}{}", then(pause)));
        self.instances[n].wanted = pause.is_some();
    }

    /// A node that was to start by itself could not.
    pub(super) fn start_failed(&mut self, n: usize, why: &str) {
        let pause = self.restart_failed(n);
        self.log.on(About::node(n)).error(&format!("node {n} stays down: {why}{}", then(pause)));
    }

    /// A node stays down. If it was to start again after its disk had failed, the disk has failed once more. Returns how
    /// long the node waits before it starts again, if it does.
    pub(super) fn restart_failed(&mut self, n: usize) -> Option<Nanos> {
        let (now, instance) = (self.clock.now(), &mut self.instances[n]);
        if !instance.failures.restarts {
            return None;
        }
        let pause = instance.failures.add(now);
        instance.wanted = pause.is_some();
        if pause.is_none() {
            self.note_failure(NodeId(n as u16));
        }
        pause
    }
}

/// What follows, in words.
fn then(pause: Option<Nanos>) -> String {
    let seconds = |pause| format!("; it starts again in {} s", pause / (1_000 * MILLIS));
    pause.map_or(String::new(), seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_fails_with_many_of_its_reads_but_not_with_few() {
        let mut reads = FailingReads::default();
        assert_eq!(reads.look(1, (2_000, MANY)), None, "one in twenty");
        assert_eq!(reads.look(2, (2_000, 2 * MANY)), Some((2_000, 2 * MANY)));
        assert_eq!(reads.look(3, (200, MANY - 1)), None, "those of an earlier life do not count");
        assert_eq!(reads.look(4, (300, MANY)), Some((300, MANY)));
        let later = 3 + FailingReads::WITHIN;
        assert_eq!(reads.look(later, (301, MANY)), None, "nor do those of an earlier minute");
        assert_eq!(reads.look(later, (301 + MANY, 2 * MANY)), Some((MANY, MANY)));
    }

    #[test]
    fn a_disk_that_fails_seldom_is_tried_again() {
        let (mut failures, hour) = (Failures::default(), Failures::WITHIN);
        assert!(!failures.pauses(0));
        assert_eq!(failures.add(10), Some(PAUSES[0]));
        assert!(failures.pauses(10) && !failures.pauses(10 + PAUSES[0]));
        failures.is_over();
        assert!(!failures.pauses(11));
        assert_eq!([failures.add(20), failures.add(30)], [Some(PAUSES[1]), Some(PAUSES[2])]);
        assert!(failures.pauses(29 + PAUSES[2]));
        assert_eq!(failures.add(40), None);
        assert!(!failures.pauses(40));
        assert_eq!(failures.add(9 + hour), None);
        assert_eq!(failures.add(41 + hour), Some(PAUSES[1]), "two count: this and the one before");
        assert_eq!(then(Some(PAUSES[1])), "; it starts again in 15 s");
    }
}
