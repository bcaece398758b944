//! What an operator has ranges of the volume choose while hosts use it and things fail: by `weft volume set --range`, when
//! parity is computed there.
//!
//! All of it is drawn from a stream of its own, and only in some runs, so that older seeds stay what they were.

use fastrand::Rng;
use weft_core::cluster::PolicyChange;
use weft_core::policy::{CHOICES, IN_RANGES, Setting, Timing};
use weft_core::units::{Nanos, Range};

use super::faults::Fault;
use super::{Run, VOLUME};

/// The volume is cut into so many parts, where it has as many stripes: ranges begin and end with them.
const PARTS: u64 = 64;

/// In half of the runs.
pub(super) fn rng(seed: u64) -> Option<Rng> {
    let mut rng = Rng::with_seed(seed ^ 0x00ad_0fa4_a1d0);
    rng.bool().then_some(rng)
}

impl Run {
    /// Some changes in a phase.
    pub(super) fn draw_ranges(&mut self, span: Nanos) {
        let Some(mut rng) = self.range_rng.take() else { return };
        let parities = self.volume.geometry.code.parity_columns();
        for _ in 0..rng.usize(1..=5) {
            let from = rng.u64(0..PARTS);
            let to = rng.u64(from + 1..=PARTS);
            let timings = [
                Timing::Immediate,
                Timing::Deferred,
                Timing::Never,
                Timing::Copied,
                Timing::Copied,
            ];
            let known = if self.options.copies == Some(false) { 3 } else { timings.len() };
            let timing = Setting::Redundancy(timings[rng.usize(0..known)]);
            let key = IN_RANGES[rng.usize(1..IN_RANGES.len())];
            let choice = CHOICES.iter().find(|c| c.key == key).expect("a choice");
            let words: Vec<&str> = choice.words().collect();
            let other =
                choice.parse(words[rng.usize(0..words.len())]).expect("a word of the table");
            let at = rng.u64(0..span);
            let fits =
                !matches!(other, Setting::ImmediateParities(n) if usize::from(n) >= parities);
            if fits {
                self.plan(at, Fault::ChooseIn(from, to, [timing, other]));
            }
        }
        self.range_rng = Some(rng);
    }

    /// Does one.
    pub(super) fn choose_in(&mut self, from: u64, to: u64, settings: [Setting; 2]) {
        let map = self.world.map();
        let Some(volume) = map.volumes.get(&VOLUME) else { return };
        let (stripes, stripe) = (volume.stripes(), volume.geometry.stripe_bytes());
        let (from, to) = (from * stripes / PARTS, (to * stripes).div_ceil(PARTS));
        let (offset, end) = (from * stripe, (to * stripe).min(volume.size));
        if offset < end {
            let range = Some(Range { offset, len: end - offset });
            let change = PolicyChange { range, ..PolicyChange::to(settings) };
            self.world.set_policy(VOLUME, change);
        }
    }
}
