//! Hosts that reserve the volume, compare before they write, and lose sessions.

use super::*;

/// Runs of one authority, or of processes.
fn options(members: bool) -> Options {
    Options { members: Some(members), places: false, reserves: Some(true), ..ROOMY }
}

#[test]
fn hosts_reserve_and_compare_and_lose_sessions() {
    for members in [false, true] {
        let mut sum = Reserved::default();
        for seed in 0..30 {
            let r = passed(seed, options(members)).reserved;
            sum.changes += r.changes;
            sum.forbidden += r.forbidden;
            sum.outdated += r.outdated;
            sum.replaced = (sum.replaced.0 + r.replaced.0, sum.replaced.1 + r.replaced.1);
            sum.lost_sessions += r.lost_sessions;
        }
        let all = [sum.changes, sum.forbidden, sum.outdated, sum.replaced.0, sum.replaced.1];
        assert!(all.iter().all(|n| *n > 20) && sum.lost_sessions > 20, "{members}: {sum:?}");
    }
}

/// A write that was permitted before the reservations changed happens after a node has entered the change.
#[test]
fn writes_that_do_not_heed_reservations_are_found() {
    for (seed, members) in [(2, false), (8, true), (9, true)] {
        let options = options(members);
        passed(seed, options);
        assert!(fails(seed, Bug::IgnoresReservations, options), "seed {seed}");
    }
}

/// Another write comes between what a request compares and what it writes.
#[test]
fn what_comes_between_comparing_and_writing_is_found() {
    let seed = 12;
    passed(seed, options(false));
    assert!(fails(seed, Bug::WritesLater, options(false)), "seed {seed}");
}
