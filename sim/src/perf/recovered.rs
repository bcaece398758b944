//! What an array is in while it runs, whole, degraded or rebuilding, and what hosts see of each.

use std::collections::{BTreeMap, BTreeSet};

use weft_core::units::{Nanos, NodeId};
use weft_load::stats::{Latency, millis};

/// What an array is in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Phase {
    /// Nothing is lost.
    #[default]
    Whole,
    /// A node is dead, and nothing is filled.
    Degraded,
    /// A disk is filled.
    Rebuilding,
}

/// One run's phases.
#[derive(Clone, Debug, Default)]
pub(super) struct Phases {
    now: Phase,
    since: Nanos,
    /// Since when each disk is filled.
    filled: BTreeMap<NodeId, Nanos>,
    /// How long it took to fill each that is whole.
    took: Vec<Nanos>,
    /// For how long disks were filled since measuring began.
    rebuilding: Nanos,
    /// Response times, by phase.
    seen: [Latency; 3],
}

/// What was seen of faults in one run, after its warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Recovered {
    /// 10^6 bytes a second put back, while any disk was filled.
    pub rebuild_mb_s: Option<f64>,
    /// Seconds that it took to fill a disk, on average over those that are whole.
    pub rebuild_s: Option<f64>,
    /// Mean milliseconds of requests answered while nothing was lost.
    pub whole_ms: Option<f64>,
    /// The same while a node was dead.
    pub degraded_ms: Option<f64>,
    /// The same while a disk was filled.
    pub rebuilding_ms: Option<f64>,
}

impl Phases {
    /// The array is in a phase from now on, and these disks are filled.
    pub fn enter(&mut self, now: Nanos, phase: Phase, filled: BTreeSet<NodeId>) {
        let done = self.filled.extract_if(.., |node, _| !filled.contains(node));
        self.took.extend(done.map(|(_, since)| now - since));
        for node in filled {
            self.filled.entry(node).or_insert(now);
        }
        self.rebuilding += self.rebuilt_since(now);
        (self.now, self.since) = (phase, now);
    }

    fn rebuilt_since(&self, now: Nanos) -> Nanos {
        if self.now == Phase::Rebuilding { now - self.since } else { 0 }
    }

    /// A request has its reply.
    pub fn answered(&mut self, time: Nanos) {
        self.seen[self.now as usize].add(time);
    }

    /// Measuring begins.
    pub fn restart(&mut self, now: Nanos) {
        (self.since, self.rebuilding) = (now, 0);
        self.seen = Default::default();
    }

    /// What was seen until now, when so many bytes were put back.
    pub fn outcome(&self, now: Nanos, bytes: u64) -> Recovered {
        let time = self.rebuilding + self.rebuilt_since(now);
        let mean = |phase: Phase| {
            let seen = &self.seen[phase as usize];
            (seen.count() > 0).then(|| millis(seen.mean()))
        };
        let took: Nanos = self.took.iter().sum();
        Recovered {
            rebuild_mb_s: (time > 0).then(|| bytes as f64 * 1e3 / time as f64),
            rebuild_s: (took > 0).then(|| took as f64 / self.took.len() as f64 / 1e9),
            whole_ms: mean(Phase::Whole),
            degraded_ms: mean(Phase::Degraded),
            rebuilding_ms: mean(Phase::Rebuilding),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Nanos = 1_000_000_000;

    #[test]
    fn each_phase_has_its_response_times_and_each_disk_its_time() {
        let mut phases = Phases::default();
        phases.answered(10_000_000);
        phases.enter(S, Phase::Degraded, BTreeSet::new());
        phases.answered(20_000_000);
        phases.enter(2 * S, Phase::Rebuilding, [NodeId(1), NodeId(2)].into());
        phases.answered(30_000_000);
        phases.enter(4 * S, Phase::Rebuilding, [NodeId(2)].into());
        phases.enter(6 * S, Phase::Whole, BTreeSet::new());
        let seen = phases.outcome(9 * S, 8_000_000);
        assert_eq!((seen.rebuild_mb_s, seen.rebuild_s), (Some(2.0), Some(3.0)));
        let times = (seen.whole_ms, seen.degraded_ms, seen.rebuilding_ms);
        assert_eq!(times, (Some(10.0), Some(20.0), Some(30.0)));
    }

    #[test]
    fn what_was_before_measuring_does_not_count_but_for_a_disks_time() {
        let mut phases = Phases::default();
        phases.enter(S, Phase::Rebuilding, [NodeId(1)].into());
        phases.answered(1);
        phases.restart(3 * S);
        assert_eq!(phases.outcome(5 * S, 4_000_000).rebuild_mb_s, Some(2.0));
        phases.enter(5 * S, Phase::Whole, BTreeSet::new());
        let seen = phases.outcome(7 * S, 4_000_000);
        assert_eq!((seen.rebuild_mb_s, seen.rebuild_s), (Some(2.0), Some(4.0)));
        assert_eq!(seen.rebuilding_ms, None, "all were before");
    }
}
