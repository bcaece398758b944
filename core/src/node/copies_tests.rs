//! Copies of small writes at one disk with parity.

use super::test_bench::{Bench, PEER, UNIT, at, header_of};
use super::*;
use crate::Buffer;
use crate::plan::{Part, Range, Waits};

/// Its data's disk would refuse it, but may be dead. Clocks of nodes differ.
#[test]
fn a_copy_that_comes_after_a_later_fold_of_its_data_is_refused() {
    let mut bench = Bench::new();
    // Of the third stripe the parity is on this node's disk.
    let range = Range { offset: 4 * UNIT, len: UNIT };
    // Only a small write adds to parity, as folds do.
    let fold = Header { task: Task::Fold { range, of: at(5) }, ..header_of(at(20), range) };
    bench.hear(PEER, Body::Write { header: fold, items: vec![] });
    let header = Header { waits: Waits::COPIED, ..header_of(at(10), range) };
    let data = Buffer::Length(UNIT as usize);
    let items = vec![Item { stripe: 2, part: Part::New, data }];
    bench.hear(PEER, Body::Write { header, items });
    let late = Err(Refusal::Late(at(20)));
    let is_refused =
        |b: &Body| matches!(b, Body::Vote { ts, vote, .. } if *ts == at(10) && *vote == late);
    assert!(bench.has_sent(is_refused), "{:?}", bench.sent);
}
