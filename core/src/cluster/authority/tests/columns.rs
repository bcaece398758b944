//! Columns that move: to an empty disk, from a node that is given up or drained, and to even out disks.

use super::*;
use crate::cluster::balance;

/// The only disk with what a column held is gone while another column is behind: nobody can do without it,
/// though it has no column any more.
#[test]
fn a_volume_waits_for_the_disk_that_a_column_is_copied_from() {
    let mut a = started("raid1", 3, 1);
    let of = |map: &ClusterMap| volume(map).extents[0].columns.iter().map(|c| c.0).collect();
    let before: Vec<NodeId> = of(a.map());
    let (from, other) = (before[0], before[1]);
    let map = change(&mut a, Change::Drain(from, true), 20).unwrap();
    let now: Vec<NodeId> = of(&map);
    assert!(
        !now.contains(&from) && volume(&map).nodes().contains(&from),
        "it is copied from there"
    );
    let map = change(&mut a, AuthorityInput::NodeDown(other), 30).unwrap();
    assert!(!map.is_asleep(volume(&map)), "the column can be had from where it was");
    let map = change(&mut a, AuthorityInput::NodeDown(from), 40).unwrap();
    assert!(map.lacks_nodes(volume(&map)));
    let map = change(&mut a, AuthorityInput::NodeUp(arrival(other.0, 1)), 50).unwrap();
    assert!(map.lacks_nodes(volume(&map)), "that one has missed writes");
    let map = change(&mut a, AuthorityInput::NodeUp(arrival(from.0, 1)), 60).unwrap();
    assert!(!map.is_asleep(volume(&map)) && !map.is_stale(from));
}

/// Who has the column when a write begins says whether it has happened. The disk that the column came to later has never heard
/// of it, and would say that it has not.
#[test]
fn a_disk_has_no_say_in_what_was_written_before_a_column_came_to_it() {
    let gone = |a: &mut Authority, node| {
        change(a, AuthorityInput::NodeDown(node), 15);
        change(a, Change::GiveUp(node), 20).unwrap()
    };
    let drained = |a: &mut Authority, node| change(a, Change::Drain(node, true), 20).unwrap();
    for (leaves, is_copied) in [(&drained as &dyn Fn(&mut _, _) -> _, true), (&gone, false)] {
        let mut a = started("raid1", 3, 1);
        let [from, other] = [0, 1].map(|c| volume(a.map()).extents[0].columns[c].0);
        let map: Arc<ClusterMap> = leaves(&mut a, from);
        let v = volume(&map);
        let to = v.extents[0].columns[0].0;
        assert!(![from, other].contains(&to), "{v:?}");
        let voters = |time| {
            let all = [(0, from), (0, to), (1, other)];
            map.voters(v, 0, &all, at(time))
        };
        let before = if is_copied { vec![from, other] } else { vec![other] };
        assert_eq!((voters(20), voters(21)), (before, vec![to, other]));
    }
}

/// What is in one box is lost together.
#[test]
fn a_column_does_not_move_into_a_box_that_has_another_of_its_extent() {
    let mut map = started("rs:2+1", 6, 10).map().clone();
    for n in [1, 3, 5] {
        map.nodes[n].process = Some(NodeId(n as u16 - 1));
    }
    let (id, spec) = (VolumeId(1), "rs:2+1".parse::<LayoutSpec>().unwrap());
    let geometry = Geometry::new(spec.over(3).unwrap(), UNIT);
    let size = 10 * geometry.stripe_bytes();
    let extents = place_volume(&geometry, size, &map.places("box"), &[], 2 * UNIT).unwrap();
    let count = extents.len();
    map.volumes.insert(id, Arc::new(Volume::new(id, "v", size, &spec, geometry, extents)));
    let mut a = Authority::new(map);
    change(&mut a, AuthorityInput::Start((0..6).map(|n| arrival(n, 1)).collect()), 12);
    change(&mut a, Change::Drain(NodeId(0), true), 20);
    for round in 0..20 {
        for n in 1..6 {
            caught_up(&mut a, n, 30 + 10 * round + u64::from(n));
        }
    }
    let of_box = |a: &Authority| [0, 1].map(|n| a.map().columns_on(NodeId(n)));
    assert_eq!(of_box(&a), [0, count], "to the other disk of its box");
    // Now the box is to be emptied, and each of the two others has a column of every extent.
    change(&mut a, Change::Drain(NodeId(1), true), 300);
    assert_eq!(of_box(&a), [0, count]);
    let moves = |e: &Extent| !e.filling.is_empty() || !e.leaving.is_empty();
    assert!(!volume(a.map()).extents.iter().any(moves), "there is no box for them");
}

#[test]
fn an_empty_disk_is_filled_from_the_start() {
    let mut a = started("raid5", 4, 2);
    change(&mut a, AuthorityInput::NodeDown(NodeId(3)), 20);
    let map = change(&mut a, AuthorityInput::NodeUp(arrival(3, 2)), 30).unwrap();
    let v = volume(&map);
    assert_eq!(map.behind_since(v, 0, NodeId(3)), Some(Timestamp::ZERO));
    assert_eq!(v.extents[0].filling_on(NodeId(3)), Some(at(31)));
    assert!(!map.has_say(v, 0, NodeId(3), at(30)) && map.has_say(v, 0, NodeId(3), at(31)));
    let map = change(&mut a, AuthorityInput::NodeDown(NodeId(0)), 40).unwrap();
    assert!(map.is_asleep(volume(&map)), "the column being filled is one lost");
    change(&mut a, AuthorityInput::NodeUp(arrival(0, 1)), 50);
    let map = caught_up(&mut a, 3, 60).unwrap();
    assert!(!map.is_stale(NodeId(3)));
}

#[test]
fn what_was_on_a_node_given_up_moves_a_few_extents_at_a_time() {
    let mut a = started("raid1", 6, 60);
    let gone = NodeId(0);
    let on_it =
        |m: &ClusterMap| volume(m).extents.iter().filter(|e| e.column_of(gone).is_some()).count();
    let before = on_it(a.map());
    assert!(before >= 10);
    change(&mut a, AuthorityInput::NodeDown(gone), 20);
    assert!(change(&mut a, Change::GiveUp(NodeId(1)), 25).is_none(), "it runs");
    let map = change(&mut a, Change::GiveUp(gone), 30).unwrap();
    let filling = |m: &ClusterMap, n: u16| {
        volume(m).extents.iter().filter(|e| e.filling_on(NodeId(n)).is_some()).count()
    };
    assert!((1..6).all(|n| filling(&map, n) <= 4) && on_it(&map) < before);
    for round in 0..20 {
        for n in 1..6 {
            caught_up(&mut a, n, 40 + round * 10 + u64::from(n));
        }
    }
    assert_eq!(on_it(a.map()), 0);
    assert!(a.map().attendance.is_empty(), "{:?}", a.map().attendance);
    let map = change(&mut a, AuthorityInput::NodeUp(arrival(0, 1)), 400).unwrap();
    assert!(!map.is_stale(gone) && !map.nodes[0].given_up, "it holds nothing that it missed");
}

/// Two disks come to three: columns move to them a few at a time, with the volume whole all the
/// while, until all are as full as planned; and it goes on where it was after a start of everything.
#[test]
fn rebalancing_moves_a_few_columns_at_a_time_until_disks_are_even() {
    let mut a = started("raid1", 3, 90);
    let home = |n: u16| {
        let (name, address) = (format!("n{n}"), format!("h{n}:1"));
        Arc::new(Home { name, address, ..Default::default() })
    };
    for n in [3, 4] {
        change(&mut a, admit(n, home(n)), 20);
        change(&mut a, AuthorityInput::NodeUp(arrival(n, 1)), 21);
    }
    let planned = balance::plan(a.map(), usize::MAX);
    assert!(planned.moves.len() > 20, "{}", planned.moves.len());
    let mut map = change(&mut a, Change::Rebalance(true), 30).unwrap();
    let filling = |m: &ClusterMap, n: u16| {
        volume(m).extents.iter().filter(|e| e.filling_on(NodeId(n)).is_some()).count()
    };
    let mut rounds = 0;
    while map.rebalancing {
        rounds += 1;
        assert!(rounds < 100, "it does not come to an end");
        assert!((0..5).all(|n| filling(&map, n) <= 4));
        assert!(!volume(&map).is_lost_with(|_| false), "redundancy is whole");
        let copied = |e: &Extent| e.filling.keys().eq(e.leaving.keys());
        assert!(volume(&map).extents.iter().all(copied));
        if rounds == 3 {
            // All power goes: a new authority takes up what was stored.
            a = Authority::new(Arc::unwrap_or_clone(map));
            let all = (0..5).map(|n| arrival(n, 1)).collect();
            map = change(&mut a, AuthorityInput::Start(all), 40).unwrap();
            continue;
        }
        for n in 0..5 {
            map = caught_up(&mut a, n, 50 + rounds * 10 + u64::from(n)).unwrap_or(map);
        }
    }
    assert_eq!(balance::plan(&map, 0).before, planned.after);
    assert!(volume(&map).extents.iter().all(|e| e.filling.is_empty() && e.leaving.is_empty()));
}

/// A stop leaves what is under way, and begins nothing.
#[test]
fn rebalancing_can_be_stopped_and_waits_for_nodes_that_are_away() {
    let mut a = started("raid1", 3, 90);
    let home = Arc::new(Home::default());
    change(&mut a, admit(3, home), 20);
    change(&mut a, AuthorityInput::NodeUp(arrival(3, 1)), 21);
    change(&mut a, AuthorityInput::NodeDown(NodeId(2)), 25);
    let map = change(&mut a, Change::Rebalance(true), 30).unwrap();
    let moving =
        |m: &ClusterMap| volume(m).extents.iter().filter(|e| !e.filling.is_empty()).count();
    assert_eq!(moving(&map), 4, "of what is whole");
    let map = change(&mut a, Change::Rebalance(false), 40).unwrap();
    assert!(!map.rebalancing && moving(&map) == 4);
    let map = caught_up(&mut a, 3, 50).unwrap();
    assert_eq!(moving(&map), 0, "nothing new is begun");
}

/// What has come to a disk that is behind counts for nothing until that has caught up: with one more disk
/// lost the volume would wait for it, though all that it needs is there.
#[test]
fn columns_are_not_copied_to_a_disk_that_is_behind() {
    let filled = |m: &ClusterMap, n: u16| {
        volume(m).extents.iter().filter(|e| e.filling_on(NodeId(n)).is_some()).count()
    };
    let drain = Change::Drain(NodeId(0), true);
    for (moves, elsewhere) in [(drain, true), (Change::Rebalance(true), false)] {
        let mut a = started("raid1", 3, 30);
        for n in [3, 4] {
            let home =
                Home { name: format!("n{n}"), address: format!("h{n}:1"), ..Home::default() };
            change(&mut a, admit(n, Arc::new(home)), 20);
        }
        change(&mut a, AuthorityInput::NodeUp(arrival(3, 1)), 21);
        let map = change(&mut a, Change::Rebalance(true), 22).unwrap();
        assert_eq!(filled(&map, 3), 4);
        change(&mut a, Change::Rebalance(false), 23);
        caught_up(&mut a, 3, 25);
        change(&mut a, AuthorityInput::NodeDown(NodeId(3)), 30);
        let map = change(&mut a, AuthorityInput::NodeUp(arrival(3, 1)), 40).unwrap();
        assert!(map.is_stale(NodeId(3)));
        let map = change(&mut a, moves, 50).unwrap();
        assert_eq!(filled(&map, 3), 0, "it is behind");
        assert_eq!((0..3).any(|n| filled(&map, n) > 0), elsewhere);
        let map = caught_up(&mut a, 3, 60).unwrap();
        assert!(filled(&map, 3) > 0, "not any more");
        assert!(volume(&map).extents.iter().all(|e| e.filling.keys().eq(e.leaving.keys())));
    }
}

/// All power is cut while columns are copied to a disk, and an empty one comes back in its place: what
/// was written meanwhile is not where they were copied from.
#[test]
fn columns_are_not_copied_any_more_where_an_empty_disk_came_back() {
    let mut a = started("raid1", 3, 30);
    let home = Home { name: "n3".into(), address: "h3:1".into(), ..Home::default() };
    change(&mut a, admit(3, Arc::new(home)), 20);
    change(&mut a, AuthorityInput::NodeUp(arrival(3, 1)), 21);
    let map = change(&mut a, Change::Rebalance(true), 22).unwrap();
    let copied = |map: &ClusterMap| -> Vec<(NodeId, NodeId)> {
        let of = |e: &Extent| -> Vec<(NodeId, NodeId)> {
            e.leaving.iter().map(|(c, from)| (from.0, e.columns[*c].0)).collect()
        };
        volume(map).extents.iter().flat_map(of).collect()
    };
    assert_eq!(copied(&map).len(), 4);
    let source = copied(&map)[0].0;
    for lost in [NodeId(3), source] {
        let mut b = Authority::new(ClusterMap::clone(&map));
        let disk = |n: u16| if NodeId(n) == lost { 2 } else { 1 };
        let all = (0..4).map(|n| arrival(n, disk(n))).collect();
        let map = change(&mut b, AuthorityInput::Start(all), 30).unwrap();
        assert!(copied(&map).iter().all(|(from, to)| *from != lost && *to != lost));
        assert!(volume(&map).extents.iter().any(|e| e.filling_on(NodeId(3)).is_some()));
    }
}

#[test]
fn what_is_drained_must_fit_beside_what_is_being_drained() {
    use crate::cluster::can_drain;
    // 4 disks of 1,000 sectors, of which 1,800 are taken.
    let mut a = started("raid1", 4, 900);
    assert!(can_drain(a.map(), NodeId(0)).is_ok() && can_drain(a.map(), NodeId(1)).is_ok());
    change(&mut a, Change::Drain(NodeId(0), true), 20);
    assert!(can_drain(a.map(), NodeId(0)).is_ok(), "it may be asked again");
    assert!(can_drain(a.map(), NodeId(1)).is_ok(), "two hold it as well");
    change(&mut a, Change::Drain(NodeId(1), true), 30);
    assert_eq!(can_drain(a.map(), NodeId(2)), Err(VolumeId(1)), "one column has no place");
    // With more on them two are not enough.
    let mut a = started("raid1", 4, 1200);
    change(&mut a, Change::Drain(NodeId(0), true), 20);
    assert!(can_drain(a.map(), NodeId(1)).is_err());
    change(&mut a, Change::Drain(NodeId(0), false), 30);
    assert!(can_drain(a.map(), NodeId(1)).is_ok());
    change(&mut a, Change::Drain(NodeId(0), true), 40);
    change(&mut a, Change::DeleteVolume(VolumeId(1), 7), 50);
    assert!(can_drain(a.map(), NodeId(1)).is_ok(), "a deleted volume does not hinder it");
}

/// A disk has all of a snapshot, and has missed writes of the volume over it. Their columns move together.
#[test]
fn no_column_is_copied_from_a_disk_that_is_behind_in_a_volume_over_it() {
    let mut a = started("rs:2+1", 4, 1);
    let take = Change::TakeSnapshots(vec![VolumeId(1)], "s".to_string(), 9);
    let map = change(&mut a, take, 20).unwrap();
    let snapshot = map.volumes[&VolumeId(1)].lineage.below.expect("it lies over one");
    let column = |map: &ClusterMap| map.volumes[&VolumeId(1)].extents[0].columns[0].0;
    let drained = column(&map);
    change(&mut a, AuthorityInput::NodeDown(drained), 30);
    change(&mut a, AuthorityInput::NodeUp(arrival(drained.0, 1)), 40);
    let of_volume = |a: &mut Authority, id: VolumeId, time| {
        let report = MemberReport::CaughtUp { epoch: a.map().epoch, volumes: vec![id] };
        change(a, AuthorityInput::Report(drained, report), time).unwrap()
    };
    let map = of_volume(&mut a, snapshot, 50);
    let behind = |map: &ClusterMap, id| map.behind_since(&map.volumes[&id], 0, drained).is_some();
    assert!(!behind(&map, snapshot) && behind(&map, VolumeId(1)));
    let map = change(&mut a, Change::Drain(drained, true), 60).unwrap();
    assert_eq!(column(&map), drained, "it lacks writes of the volume");
    let map = of_volume(&mut a, VolumeId(1), 70);
    assert_ne!(column(&map), drained);
}
