//! The time of a host's request by cause, as its originator measures it, to explain slow ones.

use std::hash::{Hash, Hasher};

use crate::units::{Nanos, NodeId};

/// The time of a request by cause, in nanoseconds. Its jobs run in parallel: these are the times of the one that ended
/// last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Before attempts at it began: waiting for locks and other requests, for lost nodes, or for space.
    pub held: Nanos,
    /// At the originator's own node: mostly for its disk.
    pub own: Nanos,
    /// At other nodes: for their disks, and the network.
    pub others: Nanos,
    /// The longest wait for an answer of another node: for which, and how long.
    pub longest: Option<(NodeId, Nanos)>,
}

impl Spent {
    /// The total.
    pub fn total(&self) -> Nanos {
        self.held + self.own + self.others
    }
}

/// A job's time by cause so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Course {
    spent: Spent,
    /// The time up to which that is known; 0 if its creation time is unknown.
    until: Nanos,
}

/// Statistics do not distinguish states of a node.
impl Hash for Spent {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

/// As of [`Spent`].
impl Hash for Course {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

impl Course {
    /// For a job that is created now.
    pub fn new(now: Nanos) -> Course {
        Course { until: now, ..Course::default() }
    }

    /// An attempt at the job begins, or the job is over.
    pub fn held(&mut self, now: Nanos) {
        self.spent.held += self.pass(now);
    }

    /// An answer has arrived. The time since the last one was spent waiting for it.
    pub fn heard(&mut self, from: NodeId, here: NodeId, now: Nanos) {
        let waited = self.pass(now);
        if from == here {
            self.spent.own += waited;
            return;
        }
        self.spent.others += waited;
        if self.spent.longest.is_none_or(|(_, longest)| longest < waited) {
            self.spent.longest = Some((from, waited));
        }
    }

    /// An attempt ends, or is asked about, without an answer: until now others were waited for.
    pub fn silent(&mut self, now: Nanos) {
        self.spent.others += self.pass(now);
    }

    /// The times by cause.
    pub fn spent(&self) -> Spent {
        self.spent
    }

    fn pass(&mut self, now: Nanos) -> Nanos {
        let since = std::mem::replace(&mut self.until, now);
        if since == 0 { 0 } else { now.saturating_sub(since) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_wait_counts_for_who_was_waited_for() {
        let (here, far, near) = (NodeId(0), NodeId(3), NodeId(2));
        let mut course = Course::new(100);
        course.held(150);
        for (from, now) in [(here, 160), (near, 170), (far, 700), (here, 710)] {
            course.heard(from, here, now);
        }
        course.silent(715);
        course.held(720);
        let spent = course.spent();
        let expected = Spent { held: 55, own: 20, others: 545, longest: Some((far, 530)) };
        assert_eq!((spent, spent.total()), (expected, 620));
    }
}
