//! Small writes that are copied to parity's disks, in every run.

use super::*;

const COPIED: Options = Options { copies: Some(true), members: Some(false), ..LASTING };

/// Each rule of copies is broken in a seed that finds it soon.
#[test]
fn broken_rules_of_copies_are_found() {
    let found = [
        (Bug::CellsSeeCopies, 1),
        (Bug::FoldsWhatIsGone, 3),
        (Bug::FoldsTooEarly, 654),
        (Bug::KeepsMissedCopies, 172),
        (Bug::ShowsBesideCopies, 672),
        (Bug::LeavesCopies, 1),
        (Bug::Store(StoreBug::DropsCopiesEarly), 11),
    ];
    let missed: Vec<_> = found.iter().filter(|(bug, seed)| !fails(*seed, *bug, COPIED)).collect();
    assert!(missed.is_empty(), "not found: {missed:?}");
    for (_, seed) in found {
        passed(seed, COPIED);
    }
}

/// Without these, runs with copies would show nothing.
#[test]
fn writes_are_copied_and_folded() {
    let summaries = (0..40).map(|seed| passed(seed, COPIED).copied);
    let (copied, folds) = summaries.fold((0, 0), |sum, n| (sum.0 + n.0, sum.1 + n.1));
    assert!(copied > 100 && folds > 100, "{copied} copied, {folds} folds");
}

/// A write that replaces a copy without reading did not wait for it (84, 155, 174). A fold went
/// without a disk that lacked a part of it, and had the rest (3179). A slot was dropped while a
/// copy came to it (784), and one that was promised to a copy was counted twice (9595). Folds for a
/// full disk, tried again and again, filled the journals that copies kept from being freed (106).
#[test]
fn copies_once_went_wrong() {
    for seed in [84, 106, 155, 174, 784, 953, 3179, 9595] {
        passed(seed, COPIED);
    }
}

/// Folds were asked for again although they went on, and rebuilds that waited for them were admitted before they were refused.
/// Where disks were slow, all of these kept one another from happening.
#[test]
fn folds_do_not_keep_one_another_from_happening() {
    passed(1529, Options { copies: Some(true), ..FAST });
}

/// Columns waited for ever for folds that were over.
#[test]
fn columns_move_when_all_is_folded() {
    for seed in [234, 625, 633] {
        passed(seed, Options { members: Some(true), ..COPIED });
    }
}
