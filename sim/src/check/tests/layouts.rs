//! Layouts whose parity covers a part of the data.

use weft_core::layout::{Grid, LayoutSpec};

use super::*;

/// Groups of data with parity of their own, beside parity over all.
const LOCAL: Options =
    Options { layout: Some(LayoutSpec::Local { data: 4, groups: 2, globals: 1 }), ..UNSLOTTED };

#[test]
fn seeds_with_local_parity_pass() {
    (0..60).for_each(|seed| drop(passed(seed, LOCAL)));
    (0..20).for_each(|seed| drop(passed(seed, Options { members: Some(true), ..LOCAL })));
}

/// Every data column in two groups and under a parity over all.
const GRID: Options =
    Options { layout: Some(LayoutSpec::Grid(Grid { rows: 2, across: 2 })), ..UNSLOTTED };

#[test]
fn seeds_with_a_grid_pass() {
    (0..40).for_each(|seed| drop(passed(seed, GRID)));
    (0..20).for_each(|seed| drop(passed(seed, Options { members: Some(true), ..GRID })));
}

#[test]
fn a_witness_that_does_not_cover_is_found() {
    assert!((0..200).any(|seed| fails(seed, Bug::AnyWitness, LOCAL)));
}
