//! Volumes that rest.

use super::*;
use crate::policy::{Commit, Dispatch, Setting};

#[test]
fn a_volume_that_nobody_writes_to_rests_and_nobody_misses_anything() {
    let mut a = started("raid5", 4, 2);
    let map = change_idle(&mut a, AuthorityInput::NodeDown(NodeId(2)), 20);
    assert!(map.rests(volume(&map)) && map.lost(volume(&map), 0).contains(2));
    let map = change_idle(&mut a, AuthorityInput::NodeUp(arrival(2, 1)), 30);
    assert!(!map.is_asleep(volume(&map)) && !map.is_stale(NodeId(2)));
    assert!(map.has_say(volume(&map), 0, NodeId(2), at(15)), "what it was asked before");
    assert_eq!(map.attendance, BTreeMap::new());
}

/// They are stopped one after the other, and the one that took part last does not come back.
#[test]
fn a_volume_that_was_stopped_node_by_node_can_do_without_any() {
    let mut a = started("raid5", 4, 2);
    for n in [0, 1, 2] {
        change_idle(&mut a, AuthorityInput::NodeDown(NodeId(n)), 20 + u64::from(n));
    }
    assert!(a.map().is_asleep(volume(a.map())) && !a.map().rests(volume(a.map())));
    let mut a = Authority::new(a.map().clone());
    let map = change_idle(&mut a, AuthorityInput::Start(vec![arrival(0, 1)]), 30);
    assert!(map.is_asleep(volume(&map)) && !map.rests(volume(&map)));
    for n in [1, 2] {
        change_idle(&mut a, AuthorityInput::NodeUp(arrival(n, 1)), 40 + u64::from(n));
    }
    assert!(a.map().rests(volume(a.map())) && a.map().is_asleep(volume(a.map())));
    let wake = MemberReport::Wake { epoch: a.map().epoch };
    let map = change_idle(&mut a, AuthorityInput::Report(NodeId(1), wake), 50);
    assert!(!map.is_asleep(volume(&map)));
    assert_eq!(map.behind_since(volume(&map), 0, NodeId(3)), Some(at(49)));
    assert!((0..3).all(|n| !map.is_stale(NodeId(n))));
    assert_eq!(map.lost(volume(&map), 0), [3].into_iter().collect());
}

#[test]
fn who_has_something_to_write_ends_the_rest_for_good() {
    let mut a = started("raid6", 5, 2);
    let old = MemberReport::Wake { epoch: a.map().epoch };
    change_idle(&mut a, AuthorityInput::NodeDown(NodeId(2)), 20);
    let wake = MemberReport::Wake { epoch: a.map().epoch };
    assert!(change(&mut a, AuthorityInput::Report(NodeId(1), old), 25).is_none(), "it is over");
    let map = change_idle(&mut a, AuthorityInput::Report(NodeId(1), wake), 30);
    assert!(!map.is_asleep(volume(&map)));
    let wake = MemberReport::Wake { epoch: map.epoch };
    assert!(change(&mut a, AuthorityInput::Report(NodeId(0), wake), 35).is_none(), "none rests");
    let map = change_idle(&mut a, AuthorityInput::NodeDown(NodeId(3)), 40);
    assert!(!map.is_asleep(volume(&map)), "it has work to do as soon as one of them is back");
    let map = change_idle(&mut a, AuthorityInput::NodeUp(arrival(2, 1)), 50);
    assert_eq!(map.behind_since(volume(&map), 0, NodeId(2)), Some(at(29)));
}

#[test]
fn a_volume_with_anything_to_do_has_no_rest() {
    let goes_on = |a: &mut Authority, input| {
        let map = change_idle(a, input, 30);
        assert!(!map.is_asleep(volume(&map)));
    };
    let down = || AuthorityInput::NodeDown(NodeId(2));
    let mut busy = started("raid5", 5, 2);
    let map = change(&mut busy, down(), 20).unwrap();
    assert!(!map.is_asleep(volume(&map)));
    let mut drained = started("raid5", 5, 2);
    change_idle(&mut drained, Change::Drain(NodeId(0), true), 20);
    goes_on(&mut drained, down());
    let mut given_up = started("raid5", 5, 2);
    let map = change_idle(&mut given_up, down(), 20);
    assert!(map.rests(volume(&map)));
    goes_on(&mut given_up, Change::GiveUp(NodeId(2)).into());
    let mut restarted = started("raid5", 4, 2);
    let mut out = Vec::new();
    restarted.handle(AuthorityInput::NodeUp(arrival(1, 1)), &mut out);
    goes_on(&mut restarted, down());
    let mut unsafe_after_a_power_cut = started("raid5", 4, 2);
    let dispatch = Setting::Dispatch(Dispatch::Commanded);
    let change = PolicyChange::to([Setting::Commit(Commit::Limited), dispatch]);
    change_idle(&mut unsafe_after_a_power_cut, Change::SetPolicy(VolumeId(1), change), 20);
    goes_on(&mut unsafe_after_a_power_cut, down());
}
