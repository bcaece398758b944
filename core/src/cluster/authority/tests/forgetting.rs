//! Disks that have forgotten, and clocks that are wrong.

use super::*;
use crate::order::FOLLOWED;

#[test]
fn a_disk_that_opens_behind_what_others_have_heard_counts_as_having_been_away() {
    let mut a = started("raid5", 4, 2);
    change(&mut a, AuthorityInput::NodeDown(NodeId(2)), 20).unwrap();
    let up = AuthorityInput::NodeUp(arrival(2, 1));
    let map = change_while(true, &forgot(&[2]), &mut a, up, 30).unwrap();
    assert_eq!(map.behind_since(volume(&map), 0, NodeId(2)), Some(Timestamp::ZERO));
    assert!(!map.has_say(volume(&map), 0, NodeId(2), at(25)));
    assert!(!map.is_asleep(volume(&map)), "the others remember");
}

#[test]
fn a_disk_that_knows_that_it_forgot_is_believed() {
    let mut a = started("raid5", 4, 2);
    change(&mut a, AuthorityInput::NodeDown(NodeId(2)), 20).unwrap();
    let knows = |node: NodeId| (Memory { forgot: node.0 == 2, ..Memory::default() }, Vec::new());
    let map =
        change_while(true, &knows, &mut a, AuthorityInput::NodeUp(arrival(2, 1)), 30).unwrap();
    assert_eq!(map.behind_since(volume(&map), 0, NodeId(2)), Some(Timestamp::ZERO));
}

#[test]
fn a_volume_of_which_too_many_have_forgotten_waits_until_one_has_its_disk_back() {
    let mut a = started("raid5", 4, 2);
    let all = || AuthorityInput::Start((0..4).map(|n| arrival(n, 1)).collect());
    let map = change_while(true, &forgot(&[1, 2]), &mut a, all(), 20).unwrap();
    assert!(map.is_asleep(volume(&map)) && map.lacks_nodes(volume(&map)));
    assert_eq!(map.forgetful(VolumeId(1)).collect::<Vec<_>>(), [NodeId(1), NodeId(2)]);
    assert!(map.lost(volume(&map), 0).contains(1), "what it has may be old");
    // Nothing is concluded from what they say later of themselves.
    let map = change_while(true, &knows_nothing_new, &mut a, Change::Rebalance(false), 30);
    assert!(map.is_some_and(|m| m.is_asleep(volume(&m))));
    let down = AuthorityInput::NodeDown(NodeId(2));
    change_while(true, &knows_nothing_new, &mut a, down, 40).unwrap();
    // It was found on the bench that the disk had been in the wrong place; with the right one it is sound.
    let up = AuthorityInput::NodeUp(arrival(2, 1));
    let back = |node: NodeId| {
        let began = if node.0 == 2 { 0 } else { 9 };
        (Memory { began, ..Memory::default() }, Vec::new())
    };
    let map = change_while(true, &back, &mut a, up, 50).unwrap();
    assert!(!map.is_asleep(volume(&map)));
    assert_eq!(map.behind_since(volume(&map), 0, NodeId(1)), Some(Timestamp::ZERO));
    assert_eq!(map.behind_since(volume(&map), 0, NodeId(2)), None);
}

/// Nodes that have entered an epoch since their disks were opened.
fn knows_nothing_new(_: NodeId) -> (Memory, Vec<(NodeId, Reached)>) {
    (Memory { began: 9, ..Memory::default() }, Vec::new())
}

#[test]
fn a_clock_that_is_wrong_does_not_become_the_clusters_time() {
    let frozen = |clocks: &[(u64, u64)]| {
        let all = clocks.iter().enumerate().map(|(n, (clock, written))| {
            let (memory, heard) = knows_nothing(NodeId(n as u16));
            let (oldest, clock, written) = (at(0), at(*clock), at(*written));
            let (busy, undescribed) = (false, Undescribed::default());
            let frozen = Frozen { oldest, clock, written, busy, memory, heard, undescribed };
            (NodeId(n as u16), frozen)
        });
        latest_right(&all.collect()).micros()
    };
    let (now, wrong) = (1_000_000_000, 9_000_000_000_000);
    assert_eq!(frozen(&[(now, 5), (now + FOLLOWED, 5), (now - 7, 5)]), now + FOLLOWED);
    assert_eq!(frozen(&[(now, 5), (wrong, 5), (now - 7, 5)]), now);
    assert_eq!(frozen(&[(wrong, 5), (now, 5)]), now, "of two that disagree the earlier");
    assert_eq!(frozen(&[(wrong, 5)]), wrong, "nobody knows better");
    assert_eq!(frozen(&[(now, 5), (now, wrong), (now, 5)]), wrong, "what is written is written");
}
