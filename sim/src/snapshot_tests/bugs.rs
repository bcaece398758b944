//! Deliberate bugs, which the trial finds.

use weft_core::store::StoreBug;

use super::*;

/// Each bug, and a seed that finds it.
const BUGS: [(Bug, u64); 11] = [
    (Bug::ForgetsZeros, 1),
    (Bug::ForgetsSnapshots, 0),
    (Bug::WritesToSnapshot, 0),
    (Bug::DropsDeleted, 0),
    (Bug::PromisesTooMuch, 11),
    (Bug::NoFencing, 5),
    (Bug::Store(StoreBug::DropsShown), 0),
    (Bug::Store(StoreBug::ForgetsBase), 0),
    (Bug::Store(StoreBug::CopiesSome), 1),
    (Bug::SettlesInNewest, 20),
    (Bug::DecidesInNewest, 68),
];

fn is_found(bug: Bug, seed: u64) -> bool {
    std::panic::catch_unwind(|| Trial::new(seed, Some(bug)).run()).is_err()
}

/// With `WEFT_BUG=NAME` it says which of 1,000 seeds is the first that finds that bug.
#[test]
fn deliberate_bugs_are_found() {
    let Ok(name) = std::env::var("WEFT_BUG") else {
        for (bug, seed) in BUGS {
            assert!(is_found(bug, seed), "{bug:?} is not found by seed {seed}");
        }
        return;
    };
    let bug = BUGS.into_iter().map(|(bug, _)| bug).find(|bug| format!("{bug:?}").contains(&name));
    let bug = bug.expect("a bug of that name");
    let seed = (0..1000).find(|seed| is_found(bug, *seed));
    println!("{bug:?}: seed {seed:?}");
    assert!(seed.is_some(), "{bug:?} is not found");
}
