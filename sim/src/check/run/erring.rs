//! Disks some of whose operations end with errors that pass, by rate, as real ones do once a second try has failed
//! too (`host/src/disk/space.rs`).
//!
//! A read that fails is decoded from the others. A write that fails ends the node, which is started again while its disk
//! still errs: then reads at the start may fail as well.

use fastrand::Rng;
use weft_core::units::{MILLIS, Nanos, NodeId};

use super::Run;
use super::faults::Fault;
use crate::disk::{ErrorRates, Harmed};

/// For which runs have such disks, and when: drawn from a stream of its own.
pub(super) fn rng(seed: u64, drawn: bool) -> Option<Rng> {
    let mut rng = Rng::with_seed(seed ^ 0x00e4_4046_5a7e);
    (drawn && rng.u8(0..4) == 0).then_some(rng)
}

impl Run {
    /// In half of the phases the disk of a node that may die has errors for some time.
    pub(super) fn draw_errors(&mut self, victim: Option<NodeId>, span: Nanos) {
        let crashes = self.options.faults.crashes;
        let Some(rng) = self.error_rng.as_mut() else { return };
        let drawn = rng.bool();
        let Some(victim) = victim.filter(|_| drawn) else { return };
        let writes_ppm = if crashes && rng.bool() { rng.u32(500..20_000) } else { 0 };
        let rates = ErrorRates { reads_ppm: rng.u32(1_000..200_000), writes_ppm };
        let begin = rng.u64(0..span);
        let mut plan = vec![(begin, Fault::Err(victim, Some(rates)))];
        let end = begin + rng.u64(MILLIS..span.max(2 * MILLIS));
        // It is tried again a few times, as hosts do.
        let pause = rng.u64(MILLIS..10 * MILLIS);
        plan.extend((1..=3).map(|n| (begin + n * pause, Fault::Return(victim))));
        plan.push((end, Fault::Err(victim, None)));
        plan.push((end.max(begin + 3 * pause) + MILLIS, Fault::Return(victim)));
        plan.into_iter().for_each(|(at, fault)| self.plan(at, fault));
    }

    pub(super) fn errs(&mut self, node: NodeId, rates: Option<ErrorRates>) {
        self.world.tell(|| format!("the disk of {node} has errors at these rates: {rates:?}"));
        let seed = self.error_rng.as_mut().map_or(0, |rng| rng.u64(..));
        let disk = self.world.disk(node);
        disk.err(rates, seed);
        // What cannot be read when its node starts counts as damaged, and may have been a promise.
        if rates.is_some() && !disk.harmed.ever() {
            disk.harmed = Harmed::Before;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::options::{Faults, Options};

    #[test]
    fn errors_by_rate_cost_nothing_but_the_node_whose_disk_has_them() {
        for members in [false, true] {
            let faults = Faults { errors: true, crashes: true, ..Faults::NONE };
            let options = Options { members: Some(members), faults, ..Options::DEFAULT };
            let runs = (0..120).map(|seed| super::super::run(seed, options, 0).unwrap().erred);
            let erred: Vec<u64> = runs.filter(|erred| *erred > 0).collect();
            assert!(erred.len() >= 5, "members: {members}: {erred:?}");
        }
    }
}
