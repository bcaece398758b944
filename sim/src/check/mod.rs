//! The simulation check: random clusters, volumes, workloads and faults, all drawn from one
//! seed, and a judgement of what the hosts saw.
//!
//! A run is a few phases. In each, hosts read and write while faults happen; then the
//! faults stop, everything that is down returns, and the system must come to rest with all
//! redundancy true and everything acknowledged there. Faults have a budget: at most as many
//! nodes as the layout bears are *victims* in a phase (they die, return, rot, fail to read),
//! while power cuts and message faults may hit all.
//!
//! In some runs requests say which others must come first ([`places`]); then whatever is there, also
//! after a crash, must be there with all that it comes after.

mod history;
mod options;
mod places;
mod run;

pub use crate::world::Comings;
pub use history::{BLOCK, Did, Op, check as check_history, check_limited};
pub(crate) use history::{content, numbers};
pub use options::{Faults, Latest, Options, Reserved, Summary};

use crate::panics::PANICKED;

/// A seed that failed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// What was wrong.
    pub reason: String,
    /// The smallest run found that still fails.
    pub shrunk: Box<Options>,
    /// Its last events.
    pub story: Vec<String>,
}

impl Failure {
    /// Whether it ended with a panic: a node noticed by itself. A panic hook knows where.
    pub fn is_panic(&self) -> bool {
        self.reason.starts_with(PANICKED)
    }
}

/// Most lines of a failure's story.
const STORY: usize = 500_000;

/// Runs one seed; if it fails, looks for a smaller run that fails too.
pub fn run_seed(seed: u64, options: Options) -> Result<Summary, Failure> {
    match run::run(seed, options, 0) {
        Ok(summary) => Ok(summary),
        Err(_) => {
            let shrunk = shrink(seed, options);
            let (reason, story) = match run::run(seed, shrunk, STORY) {
                Err(failed) => failed,
                Ok(_) => unreachable!("the same run fails again"),
            };
            Err(Failure { seed, reason, shrunk: Box::new(shrunk), story })
        }
    }
}

/// Runs one seed as it is; if it fails, says why and what happened last, at most `story` lines.
pub fn run_once(
    seed: u64,
    options: Options,
    story: usize,
) -> Result<Summary, (String, Vec<String>)> {
    run::run(seed, options, story)
}

/// Leaves out kinds of faults, then operations, as long as the run still fails.
fn shrink(seed: u64, options: Options) -> Options {
    let mut best = options;
    let fails = |o: Options| run::run(seed, o, 0).is_err();
    for faults in best.faults.each_left_out() {
        let fewer = Options { faults: best.faults.minus(faults), ..best };
        if fewer.faults != best.faults && fails(fewer) {
            best = fewer;
        }
    }
    let mut step = best.operations / 2;
    while step > 0 {
        let fewer = Options { operations: best.operations.saturating_sub(step), ..best };
        if fewer.operations > 0 && fails(fewer) {
            best = fewer;
        } else {
            step /= 2;
        }
    }
    best
}

#[cfg(test)]
mod tests;
