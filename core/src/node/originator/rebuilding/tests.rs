//! Tests of rebuilds on demand.

use super::*;
use crate::node::{NodeConfig, Rebuilding, test_bench};

/// The rebuilds that are ready to begin: units and their parts.
fn begun(originator: &mut Originator) -> Vec<(u64, usize, Span, Job)> {
    let next = || originator.jobs.next(u64::MAX);
    let described = |job: Job| match job.what {
        What::Rebuild { stripe, column, part, .. } => (stripe, column, part, job),
        _ => panic!("no rebuild"),
    };
    std::iter::from_fn(next).map(described).collect()
}

/// A rebuild in progress has read the other columns before the unit was found wrong once more.
#[test]
fn a_unit_found_wrong_during_its_rebuild_is_rebuilt_again() {
    let (mut originator, mut outbox) =
        (Originator::new(NodeId(0), NodeConfig::default()), Outbox::new(NodeId(0), 1));
    let find = |originator: &mut Originator, lo, hi| {
        originator.make_anew(VolumeId(1), 3, 2, Span::new(lo, hi), ColumnSet::EMPTY);
    };
    find(&mut originator, 0, 512);
    let first = begun(&mut originator).pop().expect("it begins");
    find(&mut originator, 1024, 1536);
    find(&mut originator, 512, 1024);
    assert!(begun(&mut originator).is_empty(), "one at a time");
    originator.rebuilt(&first.3, true, &mut outbox);
    let second = begun(&mut originator).pop().expect("it begins again");
    assert_eq!((second.0, second.1, second.2), (3, 2, Span::new(512, 1536)));
    originator.rebuilt(&second.3, true, &mut outbox);
    assert!(begun(&mut originator).is_empty(), "once");
}

/// The disk of a column lacks content that a job needs: whether that is rebuilt, and whether the job goes on.
#[test]
fn reads_go_round_what_is_not_rebuilt_on_demand() {
    let range = plan::Range { offset: 0, len: 4096 };
    let write = What::Write(range, crate::Buffer::Length(4096));
    for (on_demand, what, expected) in [
        (true, What::Read(range), (1, 1)),
        (false, What::Read(range), (0, 1)),
        (false, write, (1, 0)),
    ] {
        let rebuilding = Rebuilding { on_demand, ..Rebuilding::default() };
        let config = NodeConfig { rebuilding, ..NodeConfig::default() };
        let mut originator = Originator::new(NodeId(0), config);
        originator.map = test_bench::map(1, crate::cluster::Attendance::default());
        let parts = vec![(0, Span::new(0, 4096))];
        let refusal =
            Refusal::Erased { column: 2, parts, behind: true, marked: false, known: true };
        let job = Job::new(Purpose::Host(7), test_bench::VOLUME, what);
        originator.refused(job, refusal, &mut Outbox::new(NodeId(0), 1));
        let next = || originator.jobs.next(u64::MAX);
        let (rebuilds, others): (Vec<Job>, Vec<Job>) =
            std::iter::from_fn(next).partition(|job| job.purpose == Purpose::Rebuild);
        assert_eq!((rebuilds.len(), others.len()), expected, "{on_demand}");
    }
}

/// Both disks have lost a column that is being copied. The others may determine the content.
#[test]
fn a_read_does_without_a_column_that_could_not_be_copied() {
    let mut originator = Originator::new(NodeId(0), NodeConfig::default());
    originator.map = test_bench::map(1, crate::cluster::Attendance::default());
    let mut outbox = Outbox::new(NodeId(0), 1);
    let range = plan::Range { offset: 0, len: 512 };
    let read = Job::new(Purpose::Host(7), test_bench::VOLUME, What::Read(range));
    let unit = (test_bench::VOLUME, 0, 2);
    originator.rebuilds.waiting.push((BTreeSet::from([unit]), read));
    let what = What::Rebuild { stripe: 0, stripes: 1, column: 2, part: Span::new(0, 512) };
    originator.rebuilt(&Job::new(Purpose::Rebuild, unit.0, what), false, &mut outbox);
    let read = originator.jobs.next(u64::MAX).expect("it begins again");
    assert_eq!((read.purpose, read.avoid), (Purpose::Host(7), ColumnSet::of(2)));
}
