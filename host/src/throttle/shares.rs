//! How the processes that serve a volume divide a limit.
//!
//! Each tells the others twice a second what it used of the limit and what waits for it, and all compute the same from
//! what was told. A process where nothing waits needs no more than it uses, and some room to grow. The rest goes to the
//! processes where requests wait, in proportion to their number, as if all waited in one queue.
//!
//! The parts never add up to more than the limit: a process that has not been heard keeps an equal part, and nobody else
//! uses that part. A process without demand keeps a small part, so that its first requests need not wait for the others.

use serde::{Deserialize, Serialize};

/// The whole of a limit.
pub(crate) const WHOLE: u64 = 1_000_000;

/// The part that is kept for processes without demand, all together: 1 %.
const RESERVED: u64 = WHOLE / 100;

/// What a process needs of a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Demand {
    /// Tokens per second that it used.
    pub(crate) used: u64,
    /// Tokens that waited for the limit, at most at a time.
    pub(crate) waiting: u64,
}

/// The part of each process, in millionths of the limit, from what each told last, if it was heard. Nothing if none has
/// any demand: then each keeps what it has.
pub(crate) fn shares(limit: u64, told: &[Option<Demand>]) -> Option<Vec<u64>> {
    let heard: Vec<Demand> = told.iter().copied().flatten().collect();
    if heard.iter().all(|d| *d == Demand::default()) {
        return None;
    }
    let equal = equal(told.len());
    let count = heard.len() as u64;
    let floor = RESERVED * equal / WHOLE;
    let room = (equal - floor) * count;
    let anybody_waits = heard.iter().any(|d| d.waiting > 0);
    // Where others wait, nobody is promised more than an equal part.
    let most = if anybody_waits { equal - floor } else { room };
    let need = |d: &Demand| match d.waiting {
        0 => scaled(d.used.saturating_add(d.used / 4), WHOLE, limit.into()).min(most),
        _ => 0,
    };
    let needed: u64 = heard.iter().map(need).sum();
    let left = room.saturating_sub(needed);
    let weight = |d: &Demand| if anybody_waits { d.waiting } else { d.used };
    let weights: u128 = heard.iter().map(|d| u128::from(weight(d))).sum();
    let part = |d: &Demand| {
        // What they need may be more than there is, if they used their savings.
        let need = if needed > room { scaled(need(d), room, needed.into()) } else { need(d) };
        floor + need + scaled(weight(d), left, weights)
    };
    Some(told.iter().map(|d| d.as_ref().map_or(equal, part)).collect())
}

/// An equal part of a limit, if this many processes serve the volume.
pub(crate) fn equal(processes: usize) -> u64 {
    WHOLE / (processes.max(1) as u64).min(WHOLE)
}

/// `n` times `by` divided by `of`, rounded down; no more than fits.
fn scaled(n: u64, by: u64, of: u128) -> u64 {
    let product = u128::from(n) * u128::from(by);
    u64::try_from(product / of.max(1)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn demand(used: u64, waiting: u64) -> Option<Demand> {
        Some(Demand { used, waiting })
    }

    fn percent(limit: u64, told: &[Option<Demand>]) -> Vec<u64> {
        let shares = shares(limit, told).expect("there is demand");
        shares.iter().map(|part| part.div_ceil(WHOLE / 100)).collect()
    }

    #[test]
    fn shares_follow_demand() {
        let (idle, unheard) = (demand(0, 0), None);
        assert_eq!(shares(1000, &[idle, idle]), None);
        assert_eq!(shares(1000, &[unheard, idle]), None);
        for (told, expected) in [
            (vec![demand(1, 0)], vec![100]),
            (vec![demand(990, 32)], vec![100]),
            // One alone has the whole, but for a little.
            (vec![demand(990, 32), idle], vec![100, 1]),
            (vec![demand(100, 0), idle], vec![100, 1]),
            // A newcomer that waits has its part at once, by how many wait.
            (vec![demand(990, 32), demand(5, 32)], vec![50, 50]),
            (vec![demand(990, 96), demand(5, 32)], vec![75, 26]),
            // Where nothing waits, what is used and a quarter more are enough.
            (vec![demand(200, 0), demand(800, 10)], vec![26, 75]),
            // Nobody is promised more than an equal part while others wait.
            (vec![demand(900, 0), demand(100, 10)], vec![50, 50]),
            (vec![demand(300, 0), demand(100, 0)], vec![75, 26]),
            // What is not heard keeps an equal part.
            (vec![demand(500, 32), unheard], vec![50, 50]),
            (vec![demand(500, 32), idle, unheard, unheard], vec![50, 1, 25, 25]),
            // Savings are used: more than the limit.
            (vec![demand(3000, 0), demand(1000, 0)], vec![50, 50]),
        ] {
            assert_eq!(percent(1000, &told), expected, "{told:?}");
        }
    }

    proptest! {
        #[test]
        fn all_together_have_no_more_than_the_limit_and_nobody_has_nothing(
            limit in 1..=u64::MAX,
            told in proptest::collection::vec(
                proptest::option::of((any::<u64>(), any::<u64>()).prop_map(|(used, waiting)| {
                    Demand { used: used >> (waiting % 64), waiting: waiting >> (used % 64) }
                })),
                1..64,
            ),
        ) {
            if let Some(shares) = shares(limit, &told) {
                prop_assert!(shares.iter().sum::<u64>() <= WHOLE, "{shares:?}");
                prop_assert!(shares.iter().all(|part| *part > 0), "{shares:?}");
                // Where all were heard, next to nothing is left over.
                let heard = told.iter().all(Option::is_some);
                let few = told.len() as u64;
                prop_assert!(!heard || shares.iter().sum::<u64>() >= WHOLE * 98 / 100 - 4 * few * few);
            }
        }
    }
}
