//! Runs in which nodes that have been down for long are given up by themselves, and what they need for that: victims
//! that stay away for longer.
//!
//! All of it is drawn from a stream of its own, and only in some runs, so that older seeds stay what they were.

use fastrand::Rng;
use weft_core::units::{MILLIS, Nanos, NodeId};

use super::super::options::Options;
use super::Run;
use super::faults::Fault;

/// What is drawn of it.
pub(super) struct GivingUp {
    rng: Rng,
    /// After how long at first, in thousandths of what a node that dies is away for.
    after: u64,
}

impl GivingUp {
    /// One run of four is such a one.
    pub fn draw(seed: u64, options: &Options) -> Option<GivingUp> {
        let mut rng = Rng::with_seed(seed ^ 0x0061_7e50_0b00);
        let drawn = rng.u8(0..4) == 0;
        let fits = options.faults.moves && options.faults.crashes;
        let after = rng.u64(100..1000);
        (options.gives_up.unwrap_or(drawn) && fits).then_some(GivingUp { rng, after })
    }
}

impl Run {
    /// For how long a node that dies is away, at most, in most runs.
    fn usual_absence(&self) -> Nanos {
        self.members.as_ref().map_or(40 * MILLIS, |m| 2 * m.config.dead_after)
    }

    /// From some time in a phase on nodes are given up after so long; in some phases another time is chosen, or never.
    /// These victims stay away for longer.
    pub(super) fn draw_giving_up(&mut self, span: Nanos, victims: &[NodeId]) {
        let usual = self.usual_absence();
        let noticed = self.noticed_within();
        let Some(GivingUp { rng, after }) = &mut self.giving_up else { return };
        let mut plan =
            vec![(rng.u64(0..span / 8 + 1), Fault::GiveUpAfter(Some(usual * *after / 1000)))];
        if rng.u8(0..4) == 0 {
            let other = rng.bool().then(|| rng.u64(usual / 10..usual));
            plan.push((rng.u64(0..span), Fault::GiveUpAfter(other)));
        }
        let longest = usual * *after / 1000 + noticed;
        for victim in victims.iter().filter(|_| rng.bool()).collect::<Vec<_>>() {
            let (at, stays) = (rng.u64(0..span), longest + rng.u64(0..2 * usual));
            plan.push((at, Fault::Kill(*victim, rng.bool())));
            plan.push((at + stays, Fault::Return(*victim)));
        }
        plan.into_iter().for_each(|(at, fault)| self.plan(at, fault));
    }
}
