//! Nodes that go and come back, and volumes that wait for them.

use std::collections::BTreeSet;

use super::next_map::Findings;
use super::*;
use crate::cluster::{Attendance, TimeAway};

#[test]
fn a_node_that_was_away_is_stale_until_it_has_caught_up() {
    let mut a = started("raid5", 4, 2);
    let map = change(&mut a, AuthorityInput::NodeDown(NodeId(2)), 20).unwrap();
    assert!(!map.is_up(NodeId(2)) && map.lost(volume(&map), 0).contains(2));
    let map = change(&mut a, AuthorityInput::NodeUp(arrival(2, 1)), 30).unwrap();
    assert_eq!(map.behind_since(volume(&map), 0, NodeId(2)), Some(at(19)));
    assert!(!map.has_say(volume(&map), 0, NodeId(2), at(25)), "it was not there then");
    assert!(
        !map.has_say(volume(&map), 0, NodeId(2), at(30)),
        "nor when the latest write was begun"
    );
    assert!(map.has_say(volume(&map), 0, NodeId(2), at(31)));
    let map = caught_up(&mut a, 2, 40).unwrap();
    assert!(!map.is_stale(NodeId(2)));
    assert!(caught_up(&mut a, 2, 50).is_none(), "nothing to change");
}

/// Node 1 is away, with an unsettled write that the others decided. Node 2 was restarted, with one that the others keep
/// until node 2 has it durably. Neither report may make parity of node 2 count as stale.
#[test]
fn a_node_has_missed_what_others_with_a_say_have_unsettled() {
    let oldest =
        BTreeMap::from([(0, 40), (1, 10), (2, 20), (3, 30)].map(|(n, t)| (NodeId(n), at(t))));
    let none = BTreeSet::new();
    let findings = Findings {
        members: &[],
        oldest: &oldest,
        floor: at(50),
        idle: false,
        forgot: &none,
        looked_at: &none,
        written: &BTreeMap::new(),
        exposed: &BTreeSet::new(),
        copied: &BTreeSet::new(),
        pending: &BTreeSet::new(),
    };
    let away = Attendance { away: [NodeId(1)].into(), ..Attendance::default() };
    assert_eq!(findings.first_missed(&away, NodeId(2)), at(30));
    assert_eq!(findings.first_missed(&away, NodeId(3)), at(20));
    assert_eq!(findings.first_missed(&Attendance::default(), NodeId(2)), at(10));
    let alone = BTreeMap::from([(NodeId(2), at(20))]);
    assert_eq!(Findings { oldest: &alone, ..findings }.first_missed(&away, NodeId(2)), at(20));
}

/// All are started again with clocks that were set back: what is written then must not look like what
/// was written while the node was away.
#[test]
fn clocks_that_were_set_back_take_no_say_away() {
    let mut a = started("raid5", 4, 2);
    change(&mut a, AuthorityInput::NodeDown(NodeId(2)), 20);
    change(&mut a, AuthorityInput::NodeUp(arrival(2, 1)), 30);
    let mut a = Authority::new(caught_up(&mut a, 2, 40).unwrap().as_ref().clone());
    let all = (0..4).map(|n| arrival(n, 1)).collect();
    let map = change(&mut a, AuthorityInput::Start(all), 5).unwrap();
    assert_eq!(map.latest_timestamp(), at(31));
    let map = change(&mut a, AuthorityInput::NodeDown(NodeId(3)), 6).unwrap();
    assert_eq!(map.latest_timestamp(), at(32), "the others go on from there");
    let map = change(&mut a, AuthorityInput::NodeUp(arrival(3, 2)), 7).unwrap();
    assert!(!map.has_say(volume(&map), 0, NodeId(3), at(31)));
    assert!(map.has_say(volume(&map), 0, NodeId(3), at(33)));
}

#[test]
fn a_volume_that_lost_too_many_sleeps_and_wakes_where_it_stopped() {
    let mut a = started("raid5", 4, 2);
    change(&mut a, AuthorityInput::NodeDown(NodeId(1)), 20);
    let map = change(&mut a, AuthorityInput::NodeDown(NodeId(2)), 30).unwrap();
    assert!(map.is_asleep(volume(&map)));
    let map = change(&mut a, AuthorityInput::NodeUp(arrival(2, 1)), 40).unwrap();
    assert!(!map.is_asleep(volume(&map)));
    assert!(!map.is_stale(NodeId(2)), "nothing was written without it");
    assert!(map.lost(volume(&map), 0).contains(1));
}

#[test]
fn who_comes_back_takes_part_though_too_many_are_behind() {
    let mut a = started("raid6", 5, 2);
    change(&mut a, AuthorityInput::NodeDown(NodeId(1)), 20);
    change(&mut a, AuthorityInput::NodeDown(NodeId(2)), 30);
    change(&mut a, AuthorityInput::NodeUp(arrival(1, 1)), 40);
    let map = change(&mut a, AuthorityInput::NodeDown(NodeId(3)), 50).unwrap();
    assert!(map.is_asleep(volume(&map)), "one is behind, one away and one missing");
    change(&mut a, AuthorityInput::NodeUp(arrival(2, 1)), 60);
    let map = change(&mut a, AuthorityInput::NodeUp(arrival(3, 2)), 70).unwrap();
    let v = volume(&map);
    assert_eq!(map.behind_since(v, 0, NodeId(3)), Some(Timestamp::ZERO), "its disk is empty");
    assert_eq!(map.behind_since(v, 0, NodeId(2)), Some(at(29)));
    assert!(map.lost(v, 0).is_empty(), "all run, and each may be asked for what it has");
    assert!(!map.has_say(v, 0, NodeId(2), at(45)), "it was not there then");
}

/// Its process has seen the map that admits it before the authority knows that it is stored, and that one
/// begins another change meanwhile.
#[test]
fn who_comes_before_its_admission_is_known_is_not_forgotten() {
    let mut a = started("raid1", 3, 2);
    let home = Home { name: "n3".into(), address: "h3:1".into(), ..Home::default() };
    let mut out = Vec::new();
    a.handle(admit(3, Arc::new(home)).into(), &mut out);
    a.handle(AuthorityInput::NodeUp(arrival(3, 1)), &mut out);
    assert!(out.iter().all(|o| matches!(o, AuthorityOutput::Tell(_, MapMessage::Freeze { .. }))));
    let map = change(&mut a, AuthorityInput::NodeDown(NodeId(0)), 20).unwrap();
    assert!(map.is_up(NodeId(3)) && !map.is_up(NodeId(0)));
    assert!(a.is_settled());
}

/// It would take part and not belong: the next leader would forget it, and it would serve on.
#[test]
fn a_node_that_comes_back_while_it_is_taken_out_stays() {
    let mut a = started("raid5", 3, 2);
    for node in [3, 4] {
        change(&mut a, Change::AddNodes(NewNodes::one(NodeId(node))), 20);
    }
    for input in [AuthorityInput::NodeUp(arrival(3, 1)), AuthorityInput::NodeDown(NodeId(3))] {
        change(&mut a, input, 30);
    }
    for node in [3, 4] {
        change(&mut a, Change::Drain(NodeId(node), true), 40);
    }
    // The others have yet to stop for the change when it comes.
    a.handle(Change::RemoveNode(NodeId(3)).into(), &mut Vec::new());
    let map = change(&mut a, AuthorityInput::NodeUp(arrival(3, 1)), 50).unwrap();
    assert!(map.is_up(NodeId(3)) && !map.nodes[3].removed);
    let map = change(&mut a, Change::RemoveNode(NodeId(4)), 60).unwrap();
    assert!(map.nodes[4].removed, "one that stays away is");
}

/// It came back before a map was made without it, so it is expected the next time too.
#[test]
fn who_comes_back_is_not_given_up() {
    let mut a = started("raid5", 4, 2);
    let gone = NodeId(3);
    change(&mut a, AuthorityInput::NodeDown(gone), 20);
    for input in [Change::GiveUp(gone).into(), AuthorityInput::NodeUp(arrival(3, 1))] {
        a.handle(input, &mut Vec::new());
    }
    let map = change(&mut a, AuthorityInput::NodeDown(gone), 30).unwrap();
    assert!(!map.nodes[3].given_up && !map.is_up(gone));
    let map = change(&mut a, Change::GiveUp(gone), 40).unwrap();
    assert!(map.nodes[3].given_up);
}

/// What was put back on a disk alone may have a timestamp that nobody who stays knows of.
#[test]
fn a_disk_that_shows_more_than_others_knew_is_taken_down_as_away() {
    let mut a = started("raid5", 4, 2);
    let map = change(&mut a, AuthorityInput::NodeDown(NodeId(2)), 20).unwrap();
    let away = |map: &ClusterMap| map.times_away(volume(map).id, NodeId(2)).to_vec();
    let open = TimeAway { from: at(21), until: None };
    assert_eq!(away(&map), [open]);
    let map = change(&mut a, AuthorityInput::NodeUp(arrival(2, 1)), 30).unwrap();
    let first = TimeAway { until: Some(at(31)), ..open };
    assert_eq!(away(&map), [first], "it shows a write at 30");
    let map = change(&mut a, AuthorityInput::NodeDown(NodeId(2)), 40).unwrap();
    let open = TimeAway { from: at(41), until: None };
    assert_eq!(away(&map), [first, open]);
    change(&mut a, AuthorityInput::NodeUp(arrival(2, 2)), 50);
    let map = caught_up(&mut a, 2, 60).unwrap();
    assert_eq!(away(&map), [], "from now on its versions are what they say");
}
