//! Nodes whose disks have failed a write or a flush: each stops, and starts again by itself while its disk fails seldom.
//!
//! One error does not make a broken disk. What the node may have missed it catches up with, like any node that was away.
//! A disk that fails more often stays out until an operator starts its node. So does a disk without direct I/O, since the
//! page cache may show content that was lost.

use weft_core::units::{MILLIS, Nanos, NodeId};

use super::Engine;
use crate::log::About;

/// How long a node waits before it starts again, by how often its disk has failed within [`Failures::WITHIN`]. One whose
/// disk fails more often stays down.
const PAUSES: [Nanos; 3] = [3_000 * MILLIS, 15_000 * MILLIS, 60_000 * MILLIS];

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

    /// The node runs again.
    pub(super) fn is_over(&mut self) {
        self.restarts = false;
    }
}

impl Engine {
    /// The disk of a node has failed an operation that the node cannot do without.
    pub(super) fn disk_failed(&mut self, n: usize, why: &str) {
        let now = self.clock.now();
        let hides_nothing = self
            .seat(n)
            .and_then(|seat| seat.disk.as_ref())
            .is_some_and(|disk| disk.may_retry(true));
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
