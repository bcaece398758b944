//! Ranges of a volume in which parity waits by other rules.

use super::*;
use crate::cluster::{Area, MOST_RANGES, PolicyChange, PolicyRange};
use crate::policy::{Flush, Redundancy, Setting, Timing};
use crate::units::Range;

const ONE: VolumeId = VolumeId(1);

fn to(timing: Timing) -> Setting {
    Setting::Redundancy(timing)
}

/// Some stripes are to choose this.
fn in_range(volume: &Volume, stripes: std::ops::Range<u64>, settings: &[Setting]) -> PolicyChange {
    let stripe = volume.geometry.stripe_bytes();
    let end = (stripes.end * stripe).min(volume.size);
    let range = Some(Range { offset: stripes.start * stripe, len: end - stripes.start * stripe });
    PolicyChange { range, ..PolicyChange::to(settings.iter().copied()) }
}

fn ranges(volume: &Volume) -> Vec<(u64, u64, Timing)> {
    volume.ranges.iter().map(|r| (r.first, r.end, r.redundancy.timing)).collect()
}

#[test]
fn a_range_has_what_it_is_given_and_the_rest_what_the_volume_has() {
    use Timing::*;
    let mut a = started("rs:2+1", 5, 10);
    let volume = |a: &Authority| a.map().volumes[&ONE].clone();
    let before = volume(&a);
    let set = |a: &mut Authority, stripes, settings: &[Setting]| {
        let made = in_range(&before, stripes, settings);
        change(a, Change::SetPolicy(ONE, made), 20);
        ranges(&volume(a))
    };
    assert_eq!(set(&mut a, 2..5, &[to(Deferred)]), [(2, 5, Deferred)]);
    let there = volume(&a);
    let timings: Vec<_> = (0..10).map(|s| there.policy_at(s).redundancy.timing).collect();
    assert_eq!(timings[..6], [Immediate, Immediate, Deferred, Deferred, Deferred, Immediate]);
    let ends: Vec<u64> = [0, 1, 2, 4, 5, 9].map(|s| there.redundancy_end(s)).into();
    assert_eq!(ends, [2, 2, 5, 5, 10, 10]);
    assert_eq!([there.area_of(1), there.area_of(2)], [Some(Area::Rest), Some(Area::Range(2))]);
    let runs: Vec<_> = there.areas().into_iter().map(|a| (a.area, a.runs)).collect();
    assert_eq!(runs[0], (Area::Range(2), std::iter::once(2..5).collect()));
    assert_eq!(runs[1], (Area::Rest, vec![0..2, 5..10]));

    // A part of it is changed, and what it had chosen otherwise stays.
    let idle = Setting::Idle(7);
    assert_eq!(set(&mut a, 3..4, &[idle]).len(), 3);
    assert_eq!(
        volume(&a).redundancy_at(3),
        &Redundancy { timing: Deferred, idle: 7, ..Redundancy::default() }
    );
    // Those beside one another with the same values are one.
    assert_eq!(set(&mut a, 0..10, &[to(Never), idle]), [(0, 10, Never)]);
    // With the volume's values it is none.
    assert_eq!(
        set(&mut a, 1..9, &[to(Immediate), Setting::Idle(Redundancy::default().idle)]),
        [(0, 1, Never), (9, 10, Never)]
    );
    // The volume's are for the rest, but for what concerns all of it.
    let all = [to(Deferred), Setting::Flush(Flush::Redundant)];
    change(&mut a, Change::SetPolicy(ONE, PolicyChange::to(all)), 30);
    assert_eq!(ranges(&volume(&a)), [(0, 1, Never), (9, 10, Never)]);
    assert!(volume(&a).redundancies().all(|r| r.flush == Flush::Redundant));
    // What is cut off has none.
    let smaller = before.size - before.geometry.stripe_bytes();
    let size = VolumeSize { size: smaller, visible: 0, more: Vec::new() };
    change(&mut a, Change::SizeVolume(ONE, size), 40);
    assert_eq!(ranges(&volume(&a)), [(0, 1, Never)]);
    assert_eq!(before.areas().len(), 1);
}

#[test]
fn what_is_no_range_is_refused_with_what_would_do() {
    let a = started("rs:2+1", 5, 200);
    let volume = a.map().volumes[&ONE].clone();
    let stripe = volume.geometry.stripe_bytes();
    assert_eq!((stripe, volume.size), (8 << 10, 1600 << 10));
    let refused =
        |change: PolicyChange| a.map().check_policy(ONE, &change).unwrap_err().to_string();
    let deferred = PolicyChange::to([to(Timing::Deferred)]);
    let odd = |offset, len| PolicyChange { range: Some(Range { offset, len }), ..deferred.clone() };
    let said = refused(odd(stripe + 1, 3));
    assert!(said.contains("give 8K..16K"), "{said}");
    let said = refused(odd(0, volume.size + 1));
    assert!(said.contains("give 0..1600K"), "{said}");
    let said = refused(odd(u64::MAX, 5));
    assert!(said.contains("give 1592K..1600K"), "{said}");
    let said = refused(in_range(&volume, 0..1, &[Setting::Flush(Flush::Redundant)]));
    assert!(said.contains("the whole volume") && said.contains("exposed-bytes"), "{said}");
    let said = refused(in_range(&volume, 0..1, &[Setting::ImmediateParities(1)]));
    assert!(said.contains("leaves no parity"), "{said}");

    let range = |n: u64| PolicyRange {
        first: 2 * n,
        end: 2 * n + 1,
        redundancy: Redundancy { timing: Timing::Deferred, ..Redundancy::default() },
    };
    let mut full = ClusterMap::clone(a.map());
    let mut with = Volume::clone(&volume);
    with.ranges = (0..MOST_RANGES as u64).map(range).collect();
    full.volumes.insert(ONE, Arc::new(with.clone()));
    let one_more = in_range(&with, 150..151, &[to(Timing::Never)]);
    let said = full.check_policy(ONE, &one_more).unwrap_err().to_string();
    assert!(said.contains("65 ranges") && said.contains("64"), "{said}");
    assert!(full.check_policy(ONE, &in_range(&with, 0..1, &[to(Timing::Never)])).is_ok());
}

/// Marks and data must be durable before anyone sees them, in all of the volume.
#[test]
fn no_range_waits_where_nothing_is_journaled_and_the_journal_stays_where_one_waits() {
    let mut a = started("rs:2+1", 5, 10);
    let volume = a.map().volumes[&ONE].clone();
    let waits = in_range(&volume, 0..1, &[to(Timing::Deferred)]);
    let unjournaled = PolicyChange::to([Setting::Journal(false)]);
    for (first, second) in [(&waits, &unjournaled), (&unjournaled, &waits)] {
        let mut one = ClusterMap::clone(a.map());
        first.apply(Arc::make_mut(one.volumes.get_mut(&ONE).unwrap()));
        let said = one.check_policy(ONE, second).unwrap_err().to_string();
        assert!(said.contains("journal=off"), "{said}");
        second.apply(Arc::make_mut(one.volumes.get_mut(&ONE).unwrap()));
        assert!(one.check_new_policy(&one.volumes[&ONE], &[]).is_err(), "nor a new one with both");
    }
    change(&mut a, Change::SetPolicy(ONE, unjournaled), 20);
    change(&mut a, Change::SetPolicy(ONE, waits), 30);
    assert_eq!(ranges(&a.map().volumes[&ONE]), []);
}
