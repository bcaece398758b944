//! Seeds in which parity waits, and deliberate bugs of it.

use super::*;

/// Drawn as before there were ranges.
const UNRANGED: Options = Options { ranges: false, ..UNSLOTTED };

/// The disk that has the data of a write goes away just after its host was answered; who marked the parity remembers it.
#[test]
fn forgetting_a_write_whose_data_is_away_is_found() {
    let (gives_up, controller) = (Some(false), Some(None));
    let drawn = Options { deferral: Some(true), members: Some(false), ..UNRANGED };
    let options = without_hangs(Options { gives_up, controller, ..drawn });
    [23, 192].into_iter().for_each(|seed| drop(passed(seed, options)));
    passed(60, options);
    assert!(fails(60, Bug::LoneSurvivor, options));
}

/// Parity is computed, and a write that comes later does not mark it. In one of twenty runs that shows.
#[test]
fn relying_on_marks_that_are_gone_is_found() {
    let options = Options { deferral: Some(true), members: Some(false), ..UNRANGED };
    let relied: u64 = [43, 64, 84, 107].into_iter().map(|seed| passed(seed, options).relied).sum();
    assert!(relied > 10, "{relied} writes relied on marks");
    assert!((30..130).any(|seed| fails(seed, Bug::ReliesOnGoneMarks, options)));
}

/// Nothing computes parity of a volume that does so never, but for the sake of a disk that is expected to fail.
#[test]
fn parity_that_waits_beside_a_suspect_disk_is_found() {
    let options = Options { deferral: Some(true), members: Some(false), ..UNRANGED };
    let options = without_hangs(options);
    passed(586, options);
    assert!(fails(586, Bug::SuspectWaits, options));
}

/// Writes in work count as well: what they mark is exposed once they have happened.
#[test]
fn parity_that_waits_beyond_its_bounds_is_found() {
    let options = Options { deferral: Some(true), members: Some(false), ..UNRANGED };
    passed(43_300_034, options);
    assert!((43_300_030..43_300_130).any(|seed| fails(seed, Bug::BeyondBounds, options)));
}

/// A request is asked for again while who has its data is away. Who has the parity has started anew, and marked it since:
/// then it cannot say that nothing has been written.
#[test]
fn what_is_marked_does_not_vouch_for_data() {
    passed(6004311, Options { members: Some(true), ..UNSLOTTED });
}

/// Parity waits in all of these.
#[test]
fn seeds_that_failed_with_parity_that_waits() {
    let seeds = [
        170,  // parity that was away did not see that a write was marked whose data was away too
        500,  // a disk gave up what it had for a write that only parity had prepared
        1345, // of two damaged sectors side by side the first was marked as lost, and the second never named
        2397, // participants settled a write among themselves that its originator gave up later
        2682, // the same, and an old value was read after a new one
        3867, // a write that had to leave its parity behind was refused because a bound was reached
        4117, // what a disk has counted as lost before the disk knew what it had missed
        4279, // marked parity was taken for proof that data was not written, while other parity was away
        9120, // of what was refused only a part could be put back, and the rest was never named alone
    ];
    let by_drnet = [
        33, // what nothing determines counted towards a bound, and a write that could do without it waited for ever
        1012, // both units of a column were copied where one was
        1050, // a helper refused a message that came twice, and the attempt was given up after it had happened
        1091, // of two parities on a column one was written and one marked
        1112, // damaged data whose parity is marked was never said to be lost
    ];
    let drnet = Some("drnet".parse().expect("a layout"));
    let seeds = seeds.into_iter().map(|seed| (seed, None));
    for (seed, layout) in seeds.chain(by_drnet.into_iter().map(|seed| (seed, drnet))) {
        let options = Options { deferral: Some(true), layout, ..UNRANGED };
        assert!(run_seed(seed, options).is_ok(), "seed {seed}");
    }
}

/// Data is lost for good. Of the parities of its stripe one covers it and cannot be computed, and another does not and can: there a bound
/// would not have it wait.
#[test]
fn a_write_whose_parity_must_wait_goes_on() {
    let deferred = Options { deferral: Some(true), ..UNRANGED };
    let controller = Options { controller: Some(Some(Roles::Controller)), ..deferred };
    assert!(run_seed(3100090, controller).is_ok());
    assert!(run_seed(1710037, Options { divides_locks: false, ..deferred }).is_ok());
}

/// Ranges of the volume choose for themselves when their parity is computed, and change that in use.
#[test]
fn ranges_choose_for_themselves() {
    for seed in 0..12 {
        passed(seed, Options { deferral: Some(true), ..UNSLOTTED });
    }
}

/// A node dies, and the power goes before the writes that it was to take part in are settled. Then those who are left take one
/// for done while a second is away, and of a data sector of it there is nothing. That is lost, and no more than that.
#[test]
fn a_write_settled_without_a_disk_that_was_to_have_it_may_lose_content() {
    passed(1310, UNDISCARDED);
    assert!(passed(53, UNDISCARDED).settled_in_part > 0);
}
