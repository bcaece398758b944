//! A controller coordinates.

use weft_core::policy::Roles;

use super::*;

/// A controller that no data passes, in all runs.
const CONTROLLED: Options =
    Options { controller: Some(Some(Roles::Controller)), commit: Some(Commit::Late), ..UNSLOTTED };

/// Controllers, backups and endpoints die, and a node forges what workers and endpoints say to each other.
#[test]
fn controllers_are_taken_over() {
    for roles in [Roles::Controller, Roles::Central] {
        let options = Options { controller: Some(Some(roles)), ..CONTROLLED };
        let summaries = (6_000_000..6_000_040).map(|seed| passed(seed, options));
        let (crashes, forged) = summaries
            .fold((0, 0), |sum, summary| (sum.0 + summary.crashes, sum.1 + summary.forged));
        assert!(crashes > 40, "{roles}: {crashes} crashes");
        assert!(roles == Roles::Central || forged > 100, "{forged} forgeries");
    }
}

#[test]
fn a_new_controller_that_does_not_ask_is_found() {
    // Hosts do not ask again: only endpoints do.
    let options = Options { repeats: false, ..CONTROLLED };
    assert!((6_000_000..6_000_300).any(|seed| fails(seed, Bug::RepeatsBlindly, options)));
}

#[test]
fn a_key_that_is_not_checked_is_found() {
    assert!((6_000_000..6_000_100).any(|seed| fails(seed, Bug::KeyUnchecked, CONTROLLED)));
}

#[test]
fn an_answer_before_all_pieces_are_here_is_found() {
    assert!((6_000_000..6_000_100).any(|seed| fails(seed, Bug::MissingPiece, CONTROLLED)));
}

/// A request was asked for just after an epoch had begun whose time was ahead of its node's clock. It counted as older than
/// all that the workers remembered.
#[test]
fn the_outcome_of_what_is_asked_for_when_an_epoch_begins_is_known() {
    let options = Options { layout: "raid5".parse().ok(), ..Options::DEFAULT };
    passed(683, options);
}
