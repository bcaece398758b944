//! A processor, a node's own or shared by several: so many instructions a second, one piece of work
//! after the other.

use std::collections::VecDeque;

use weft_core::node::Input;
use weft_core::units::Nanos;
use weft_load::stats::Level;

use super::diskless::Steps;

pub(super) struct Processor {
    /// Nanoseconds that one instruction takes.
    instruction: f64,
    /// What waits for it, and at which node.
    pub waiting: VecDeque<(u32, Input)>,
    /// The node whose work is in hand, and what each of its steps will have brought about when it
    /// is done.
    pub in_hand: Option<(u32, Steps)>,
    /// Work that waits or is in hand.
    pub load: Level,
    /// Bytes yet to be added up that only a disk's write waits for: with early commit the vote goes first.
    pub owed_sums: u64,
    /// Time spent working since measuring began.
    pub busy: Nanos,
    /// Of one that works in rounds: whether it is in one, or about to be.
    pub awake: bool,
    /// Of such a one: whether it is about to go to sleep.
    pub drowsy: bool,
}

impl Processor {
    pub fn new(mips: f64) -> Processor {
        Processor {
            instruction: 1e3 / mips,
            waiting: VecDeque::new(),
            in_hand: None,
            load: Level::new(0),
            owed_sums: 0,
            busy: 0,
            awake: false,
            drowsy: false,
        }
    }

    /// How long so many instructions take.
    pub fn time(&self, instructions: f64) -> Nanos {
        rounded(instructions * self.instruction)
    }
}

/// A time as `round` gives it, which is a call on a processor that may have no instruction for it.
fn rounded(time: f64) -> Nanos {
    let whole = time as Nanos;
    whole.saturating_add(Nanos::from(time - whole as f64 >= 0.5))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rounded_to_the_nearest() {
        let mut chance = fastrand::Rng::with_seed(11);
        let odd = [0.0, 0.5, 0.499_999_999_999_999_94, 1.5, 2.5, 1e15 + 0.5, 1e300, f64::INFINITY];
        let drawn = (0..10_000).map(|_| chance.f64() * 10f64.powi(chance.i32(-3..22)));
        for time in drawn.collect::<Vec<_>>().into_iter().chain(odd) {
            assert_eq!(rounded(time), time.round() as Nanos, "{time}");
        }
    }
}
