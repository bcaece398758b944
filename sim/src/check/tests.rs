mod copies;
mod draws;
mod layouts;
mod leases;
mod reserving;
mod roles;
mod seeds;
mod waiting;

use draws::*;

use super::*;
use weft_core::cluster::AuthorityBug;
use weft_core::node::Bug;
use weft_core::order::Ordering;
use weft_core::order::sequencer::SequencerForm;
use weft_core::policy::{Commit, Roles};
use weft_core::store::StoreBug;

fn fails(seed: u64, bug: Bug, options: Options) -> bool {
    // A panic of an assertion counts: the node noticed by itself.
    let options = Options { bug: Some(bug), ..options };
    run::run(seed, options, 0).is_err()
}

/// How many seeds it takes until a deliberate bug is found.
fn seeds_to_find(bug: Bug, most: u64) -> u64 {
    (0..most)
        .find(|seed| fails(*seed, bug, ALONE))
        .unwrap_or_else(|| panic!("{bug:?} not found in {most} seeds"))
}

#[test]
fn volumes_rest_and_go_on() {
    for members in [false, true] {
        let mut sum = (0, 0);
        for seed in 500..580 {
            let rests = passed(seed, Options { members: Some(members), ..USUAL }).rests;
            sum = (sum.0 + rests.0, sum.1 + rests.1);
        }
        assert!(sum.0 > 6 && sum.1 > 3, "maps with rest, wakes: {sum:?}");
    }
}

/// A host that was stopped, or whose node was, repeats a write that the others have settled and written over.
#[test]
fn repeating_a_write_that_has_happened_is_found() {
    let options = Options { members: Some(false), bug: Some(Bug::RepeatsBlindly), ..PATIENT };
    let found = (5_000_000..5_000_300).find(|seed| run::run(*seed, options, 0).is_err());
    assert!(found.is_some(), "not found");
}

/// A helper refuses a write and fails before anyone hears of it; meanwhile a column is put back without the write.
#[test]
fn putting_back_over_an_undecided_write_is_found() {
    let seed = 575;
    passed(824, FIXED);
    passed(1181, FIXED);
    passed(seed, FIXED);
    assert!(fails(seed, Bug::OverUndecidedWrite, FIXED));
}

/// Sectors are put back on a disk at timestamps that nobody else keeps, and power is cut. The others go on from earlier
/// ones while its node is away.
#[test]
fn what_a_disk_shows_from_while_it_was_away_is_not_believed() {
    let seed = 41346;
    let controller = Some(Some(Roles::Controller));
    let options = Options { controller, deferral: Some(false), ..UNDIVIDED };
    passed(seed, options);
    passed(288, UNCOPIED);
    assert!(fails(288, Bug::ShownWhileAway, UNCOPIED));
}

/// Parity waits, so a write is cut into pieces, each with an attempt of its own: the endpoint gives away the bytes of all.
#[test]
fn an_endpoint_knows_the_attempts_at_all_pieces_of_a_write() {
    passed(62406, Options { deferral: Some(true), ..UNSLOTTED });
}

/// The word to read comes twice, and the first answer to the endpoint is lost: the second is of a later time.
#[test]
fn what_is_read_for_an_endpoint_is_of_one_time() {
    passed(
        910557,
        Options { controller: Some(Some(Roles::Controller)), deferral: Some(false), ..UNSLOTTED },
    );
}

/// Of a write in two parts one has happened, and has been written over, when the volume has no controller any more.
#[test]
fn a_request_that_comes_back_from_an_endpoint_happens_once() {
    let controller = Some(Some(Roles::Controller));
    passed(43_108_297, Options { controller, deferral: Some(false), ..UNSLOTTED });
}

/// Of two who took part one commits alone, and its column leaves it before its originator hears of that; the other has
/// forgotten. The attempt may have been seen and written over: it is not begun again.
#[test]
fn an_attempt_in_which_nobody_has_a_say_is_not_begun_again() {
    passed(5004606, Options { deferral: Some(false), ..UNSLOTTED });
}

/// An operator changes what the volume chooses while hosts use it, most of all how writes are decided.
#[test]
fn choices_change_in_use() {
    for (seeds, commit) in [(900..940, Commit::Late), (960..1000, Commit::Limited)] {
        let options = Options { choices: true, commit: Some(commit), ..ALONE };
        seeds.for_each(|seed| drop(passed(seed, options)));
    }
}

#[test]
fn hosts_ask_again_and_mostly_hear_what_became_of_it() {
    let mut sum = (0, 0);
    for members in [false, true] {
        for seed in 5_030_000..5_030_040 {
            let again = passed(seed, Options { members: Some(members), ..UNSLOTTED }).again;
            sum = (sum.0 + again.0, sum.1 + again.1);
        }
    }
    assert!(sum.0 > 100 && sum.1 * 3 < sum.0, "asked again, not known: {sum:?}");
}

#[test]
fn writing_to_a_volume_that_rests_is_found() {
    let options = Options { lulls: true, ..ALONE };
    assert!((0..200).any(|seed| fails(seed, Bug::DisturbsRest, options)));
}

/// Seeds that failed once where hosts are silent at times; the comment says why.
#[test]
fn seeds_that_failed_once_with_lulls() {
    let seeds = [
        810_834, // who had caught up forgot a write that others had decided without it
    ];
    for seed in seeds {
        assert!(run_seed(seed, USUAL).is_ok(), "seed {seed}");
    }
}

#[test]
fn seeds_pass() {
    (0..40).for_each(|seed| drop(passed(seed, Options::default())));
}

/// What a run was like, which must pass.
fn passed(seed: u64, options: Options) -> Summary {
    run_seed(seed, options).unwrap_or_else(|failure| {
        let story = failure.story.join("\n");
        panic!("seed {seed}: {}\n{:?}\n{story}", failure.reason, failure.shrunk);
    })
}

/// Messages are lost, and hosts that are their own controllers die.
#[test]
fn seeds_with_limited_atomicity_pass() {
    let commit = Some(Commit::Limited);
    (100..160).for_each(|seed| drop(passed(seed, Options { commit, ..ALONE })));
    (0..40).for_each(|seed| drop(passed(seed, Options { commit, ..ATTACHED })));
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in [3, 17] {
        let one = run_seed(seed, Options::default()).unwrap();
        let two = run_seed(seed, Options::default()).unwrap();
        assert_eq!(one, two);
    }
}

#[test]
fn an_answer_before_the_last_vote_is_found() {
    seeds_to_find(Bug::AnswerBeforeLastVote, 200);
}

#[test]
fn a_lost_delta_is_found() {
    seeds_to_find(Bug::LostDelta, 100);
}

/// Only where parity waits content is lost: what cannot be read at rest is compared with the list.
#[test]
fn a_loss_that_is_not_listed_is_found() {
    let options = Options { deferral: Some(true), ..Options::DEFAULT };
    assert!((370..440).any(|seed| fails(seed, Bug::ForgetsALoss, options)), "not found");
}

#[test]
fn a_child_added_twice_is_found() {
    let options = Options { columns: true, ..ALONE };
    assert!((0..200).any(|seed| fails(seed, Bug::ChildTwice, options)), "not found");
}

#[test]
fn a_missing_flush_is_found() {
    seeds_to_find(Bug::Store(StoreBug::MissingFlush), 200);
}

#[test]
fn a_stale_read_is_found() {
    seeds_to_find(Bug::StaleRead, 200);
}

#[test]
fn guessing_that_a_write_happened_is_found() {
    seeds_to_find(Bug::GuessedCommit, 200);
}

#[test]
fn a_sector_missed_in_catching_up_is_found() {
    seeds_to_find(Bug::MissedSector, 200);
}

/// A bug that only shows on rare paths is found where these are forced.
fn rare_bug_is_found(bug: Bug, most: u64) {
    assert!((0..most).any(|seed| fails(seed, bug, RARE)), "{bug:?} not found in {most} seeds");
}

#[test]
fn a_miscounted_wrap_is_found() {
    rare_bug_is_found(Bug::Store(StoreBug::MiscountedWrap), 250);
}

/// A sector of the last page of the table is marked.
#[test]
fn marks_are_looked_for_to_the_end_of_the_disk() {
    let controller = Some(Some(Roles::Controller));
    passed(53_000_091, Options { controller, deferral: None, ..UNMOVED });
}

/// A write was refused because a disk had yet to get something, and by the next epoch it had. To put that back was tried all the
/// same, which could not be done with another node away, and the write failed.
#[test]
fn what_was_missing_in_an_earlier_epoch_is_not_put_back() {
    passed(3493, UNMOVED);
}

#[test]
fn a_superblock_with_one_copy_is_found() {
    rare_bug_is_found(Bug::Store(StoreBug::OneSuperblock), 100);
}

#[test]
fn parity_on_top_of_undecided_parity_is_found() {
    rare_bug_is_found(Bug::OnUndecidedContent, 250);
}

#[test]
fn seeds_with_rare_paths_pass() {
    (1000..1060).for_each(|seed| drop(passed(seed, RARE)));
}

fn rare_member_bug_is_found(bug: weft_member::Bug, most: u64) {
    let options = Options { members: Some(true), ..RARE };
    found_together(bug, 0..most, options);
}

#[test]
fn a_lease_from_the_last_stamp_is_found() {
    rare_member_bug_is_found(weft_member::Bug::LeaseFromLastStamp, 250);
}

#[test]
fn a_word_for_an_earlier_life_is_found() {
    rare_member_bug_is_found(weft_member::Bug::ObeysForEarlierLife, 250);
}

/// What is drawn with a sequencer.
const SEQUENCED: Options = Options { ordering: Some(Ordering::Sequencer), ..ALONE };

#[test]
fn seeds_with_a_sequencer_pass_and_less_is_refused_than_placed() {
    for form in SequencerForm::ALL {
        let mut sum = (0, 0);
        for seed in 0..40 {
            let summary = passed(seed, Options { sequencer: Some(form), ..SEQUENCED });
            sum = (sum.0 + summary.placed.0, sum.1 + summary.placed.1);
        }
        let expected = sum.0 > 3_500 && sum.1 > 0 && sum.1 < sum.0 * 2 / 3;
        assert!(expected, "{form}, placed and refused: {sum:?}");
    }
}

#[test]
fn beginning_early_is_found() {
    seeds_to_find(Bug::BeginsEarly, 100);
    for form in SequencerForm::ALL {
        let options = Options { sequencer: Some(form), ..SEQUENCED };
        assert!((0..60).any(|seed| fails(seed, Bug::BeginsEarly, options)), "{form}");
    }
}

/// Seeds that failed once while a node was drained; the comment says why.
#[test]
fn seeds_that_failed_once_with_columns_that_move() {
    let seeds = [
        820,  // a write without journal was begun anew though a disk that its column left knew of it
        529,  // what was lost after the column had come was copied from where it was too old
        1025, // what had been copied meanwhile was refused as lost
        1110, // what was lost before the column came was taken to be lost after
        1764, // a rebuild went around a column that was only being copied
        2031, // a change of parity came on top of a copy that a power cut took away
        4685, // a copy that came too early was refused
        5404, // parity with changes could neither be copied nor computed
    ];
    for seed in seeds {
        assert!(run_seed(seed, BY_TIMESTAMPS).is_ok(), "seed {seed}");
    }
}

/// Seeds that failed once, each for a reason of its own; the comment says which.
#[test]
fn seeds_that_failed_once() {
    let seeds = [
        2,   // a part for a worker was taken by the originator on the same node
        11,  // a message that came twice began a forgotten write again
        14,  // a checkpoint in the journal counted writes that came after it
        20,  // the fact that a write had committed went out of the journal too early
        21,  // a read that had waited saw a write that came after it
        54,  // frames replayed after a process death were not yet safe from a power cut
        64,  // an answer that came at once was not followed up
        124, // parity counted as current though an earlier change was missing
        137, // settling an old write made a stale sector count as fresh
        168, // a node that died again right after catching up counted as caught up
        201, // a lost question about dirty sectors was never repeated
        251, // one unreadable sector cost its neighbours
        298, // participants forgot a write before its originator had heard of it
    ];
    // What is drawn since then would make other runs of them.
    let faults = Faults { beyond: false, moves: false, operator: false, ..ROOMY.faults };
    for seed in seeds {
        let options = Options { faults, wide: false, ..BY_TIMESTAMPS };
        assert!(run_seed(seed, options).is_ok(), "seed {seed}");
    }
}

#[test]
fn seeds_that_failed_later() {
    let seeds = [
        0,    // two columns that were both behind waited for each other for good
        1242, // an old value buried a write that was decided only after a disk had died
        1778, // a change went on top of new parity that was still undecided
        2358, // the same as 1242, and then it was read
        4612, // a sector was put back although a later checkpoint had placed it
        2999, // a read that waited for a page of the table saw what came after it
    ];
    for seed in seeds {
        let options = Options { wide: false, ..BY_TIMESTAMPS };
        assert!(run_seed(seed, options).is_ok(), "seed {seed}");
    }
}

#[test]
fn seeds_that_failed_wide() {
    let seeds = [
        751, // a scrub called a sector put back that a power cut could still take away
    ];
    for seed in seeds {
        assert!(run_seed(seed, BY_TIMESTAMPS).is_ok(), "seed {seed}");
    }
}

/// Nodes join while hosts work and things fail, with processes of their own or as disks of others' that run, and
/// some leave.
#[test]
fn nodes_join_and_leave() {
    let mut sum = Comings::default();
    for seed in 500..560 {
        sum += passed(seed, TOGETHER).comings;
    }
    assert!(sum.added > 1 && sum.joined - sum.added > 1 && sum.left > 1, "{sum:?}");
}

/// The nodes in processes.
const TOGETHER: Options = Options { members: Some(true), ways: Some(false), ..WITHOUT_LULLS };

/// And hosts that are their own controllers.
const ATTACHED: Options = Options { attached: Some(2), ..TOGETHER };

#[test]
fn seeds_with_processes_pass() {
    pass_together(0..40, TOGETHER);
}

/// Two or three in each.
#[test]
fn seeds_with_several_nodes_in_a_process_pass() {
    pass_together(100..130, Options { hosted: Some(2), ..TOGETHER });
    pass_together(130..150, Options { hosted: Some(3), ..TOGETHER });
}

/// Two hosts are their own controllers.
#[test]
fn seeds_with_hosts_that_are_their_own_controllers_pass() {
    pass_together(200..240, ATTACHED);
    let hosted = Options { hosted: Some(2), ..ATTACHED };
    pass_together(240..260, hosted);
}

fn pass_together(seeds: std::ops::Range<u64>, options: Options) {
    let (mut terms, mut maps) = (0, 0);
    let count = seeds.end - seeds.start;
    for seed in seeds {
        let members = passed(seed, options).members.expect("it has processes");
        (terms, maps) = (terms + members.0, maps + members.1);
    }
    assert!(terms >= 2 * count && maps > 10 * count, "{terms} terms, {maps} maps");
}

#[test]
fn the_same_seed_gives_the_same_run_of_processes() {
    for seed in [2, 11] {
        assert_eq!(run_seed(seed, TOGETHER).unwrap(), run_seed(seed, TOGETHER).unwrap());
    }
}

/// Links break, and processes talk round them: nothing else happens.
const BROKEN_LINKS: Options = Options {
    faults: Faults { links: true, ..Faults::NONE },
    ways: Some(true),
    commit: Some(Commit::Late),
    ..TOGETHER
};

#[test]
fn seeds_with_broken_links_and_ways_round_them_pass() {
    let detours: u64 = (300..320).map(|seed| passed(seed, BROKEN_LINKS).detours).sum();
    assert!(detours > 1000, "{detours} went through others");
    pass_together(320..340, Options { ways: Some(true), ..TOGETHER });
}

/// Whether a deliberate bug of the routers is found in these seeds.
fn route_bug_is_found(bug: weft_route::Bug, seeds: std::ops::Range<u64>, sound: Options) {
    let faulty = Options { route_bug: Some(bug), ..sound };
    let fails = |seed: &u64| run::run(*seed, faulty, 0).is_err();
    let found = seeds.clone().find(fails);
    let found = found.unwrap_or_else(|| panic!("{bug:?} not found in seeds {seeds:?}"));
    passed(found, sound);
}

#[test]
fn a_relay_that_repeats_is_found() {
    route_bug_is_found(weft_route::Bug::RelayRepeats, 300..310, BROKEN_LINKS);
}

#[test]
fn a_circuit_to_an_earlier_life_is_found() {
    let sound = Options { ways: Some(true), commit: Some(Commit::Late), ..TOGETHER };
    route_bug_is_found(weft_route::Bug::CircuitToEarlierLife, 300..700, sound);
}

/// Whether a deliberate bug of the members is found in these seeds.
fn member_bug_is_found(bug: weft_member::Bug, seeds: std::ops::Range<u64>) {
    found_together(bug, seeds, Options { attached: Some(0), ..TOGETHER });
}

fn found_together(bug: weft_member::Bug, seeds: std::ops::Range<u64>, options: Options) {
    let sound = Options { commit: Some(Commit::Late), ways: Some(false), ..options };
    let faulty = Options { member_bug: Some(bug), ..sound };
    let fails = |seed: u64| run::run(seed, faulty, 0).is_err();
    let found = seeds.clone().find(|seed| fails(*seed));
    let found = found.unwrap_or_else(|| panic!("{bug:?} not found in seeds {seeds:?}"));
    passed(found, sound);
}

/// Nodes are given up without an operator in these runs, and nothing is lost: every one of them is judged by the world.
#[test]
fn nodes_are_given_up_by_themselves() {
    for (members, seeds) in [(false, 0..40), (true, 1000..1030)] {
        let options = Options { gives_up: Some(true), members: Some(members), ..UNSLOTTED };
        let given_up: u64 = seeds.map(|seed| passed(seed, options).given_up).sum();
        assert!(given_up > 5, "members: {members}: {given_up}");
    }
}

/// What was drawn when disks did not hang.
fn without_hangs(options: Options) -> Options {
    Options { faults: Faults { hangs: false, ..options.faults }, ..options }
}

/// Disks hang and are slow: reads are hedged, and nodes go while their disks have work.
#[test]
fn bugs_with_disks_that_hang_are_found() {
    let alone = Options { members: Some(false), ..UNRESERVED };
    for (bug, seed, options) in [
        (Bug::HedgeMixesTimes, 1, alone),
        (Bug::HedgeMixesTimes, 82, alone),
        (Bug::LateCompletion, 404, UNRESERVED),
    ] {
        passed(seed, options);
        assert!(fails(seed, bug, options), "{bug:?} in seed {seed}");
    }
}

/// A deliberate bug of the authority is found in this seed, by a word of what must hold.
fn authority_bug_is_found(bug: AuthorityBug, seed: u64, options: Options) {
    passed(seed, options);
    assert!(fails(seed, Bug::Authority(bug), options), "seed {seed}");
}

#[test]
fn giving_up_two_failure_domains_at_once_is_found() {
    let options = Options { gives_up: Some(true), members: Some(false), ..UNSLOTTED };
    authority_bug_is_found(AuthorityBug::TwoAtOnce, 53, options);
}

/// Columns are on their way to other disks while the volume gets another size.
#[test]
fn forgetting_what_is_being_filled_is_found() {
    let options = Options { members: Some(false), rare: Some(false), ..UNRESERVED };
    authority_bug_is_found(AuthorityBug::SizeForgetsFilling, 2023, options);
}

/// With parities that cover different data some losses are too many though others as large are not.
#[test]
fn judging_losses_by_number_is_found() {
    let layout = Some("lrc:4+2+1".parse().unwrap());
    let options = Options { gives_up: Some(true), members: Some(false), layout, ..BY_THEMSELVES };
    authority_bug_is_found(AuthorityBug::ByNumber, 310, without_hangs(options));
}

#[test]
fn answers_without_a_lease_are_found() {
    member_bug_is_found(weft_member::Bug::ServesWithoutLease, 0..10);
}

#[test]
fn entering_what_is_not_agreed_on_is_found() {
    member_bug_is_found(weft_member::Bug::EntersUncommitted, 545..546);
}

#[test]
fn forgotten_promises_are_found() {
    member_bug_is_found(weft_member::Bug::ForgetsPromises, 0..10);
}

#[test]
fn a_damaged_log_that_is_believed_is_found() {
    member_bug_is_found(weft_member::Bug::BelievesAnyLog, 0..400);
}

#[test]
fn a_node_that_comes_back_as_it_was_is_found() {
    member_bug_is_found(weft_member::Bug::ComesBackAsItWas, 192..193);
}

#[test]
fn harm_by_hosts_that_are_their_own_controllers_is_found() {
    let by_themselves = Options { columns: false, ..ATTACHED };
    found_together(weft_member::Bug::NeedsHosts, 627..628, by_themselves);
    found_together(weft_member::Bug::ServesWithoutLease, 3..4, by_themselves);
    found_together(weft_member::Bug::ComesBackAsItWas, 152..153, by_themselves);
}
