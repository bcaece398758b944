//! Nodes that are given up without an operator.

use super::*;
use crate::cluster::{ClusterSetting, deleted_in_the_way, moves};
use crate::units::Nanos;

const LIMIT: Nanos = 1000;

/// Nodes are given up when they have been down for [`LIMIT`].
fn impatient(layout: &str, nodes: u16, stripes: u64) -> Authority {
    let mut a = started(layout, nodes, stripes);
    let after = ClusterSetting::GiveUpAfter(Some(LIMIT));
    assert_eq!(change(&mut a, Change::Set(after), 11).unwrap().settings.give_up_after, Some(LIMIT));
    a
}

fn down(a: &mut Authority, node: u16, time: u64) {
    change(a, AuthorityInput::NodeDown(NodeId(node)), time);
}

fn given_up(a: &Authority) -> Vec<u16> {
    let lost = |n: &u16| a.map().nodes[usize::from(*n)].given_up;
    (0..a.map().nodes.len() as u16).filter(lost).collect()
}

/// The nodes to which columns move report that they are whole, until nothing moves any more.
fn rebuilt(a: &mut Authority, time: u64) {
    for round in 0..40 {
        for n in 0..a.map().nodes.len() as u16 {
            caught_up(a, n, time + round);
        }
    }
    let filled = |e: &Extent| e.filling.is_empty();
    assert!(a.map().volumes.values().all(|v| v.extents.iter().all(filled)));
}

fn prospect(a: &Authority, node: u16) -> Prospect {
    let all = a.absences();
    all.iter().find(|absence| absence.node == NodeId(node)).expect("it is down").prospect
}

#[test]
fn a_node_that_is_down_for_long_is_given_up_and_one_that_returns_is_not() {
    let mut a = impatient("rs:2+1", 5, 10);
    down(&mut a, 0, 20);
    assert!(change(&mut a, AuthorityInput::Tick(5000), 21).is_none());
    assert_eq!(prospect(&a, 0), Prospect::GivenUpIn(LIMIT));
    assert!(change(&mut a, AuthorityInput::Tick(5000 + LIMIT - 1), 22).is_none());
    assert_eq!(prospect(&a, 0), Prospect::GivenUpIn(1));
    change(&mut a, AuthorityInput::NodeUp(arrival(0, 1)), 23);
    assert!(change(&mut a, AuthorityInput::Tick(5000 + LIMIT), 24).is_none(), "it is back");
    assert!(a.absences().is_empty());

    caught_up(&mut a, 0, 25);
    down(&mut a, 0, 26);
    assert!(change(&mut a, AuthorityInput::Tick(9000), 27).is_none(), "it counts from now");
    let map = change(&mut a, AuthorityInput::Tick(9000 + LIMIT), 28).unwrap();
    assert!(map.nodes[0].given_up && map.columns_on(NodeId(0)) < 10);
    rebuilt(&mut a, 30);
    assert_eq!(a.map().columns_on(NodeId(0)), 0);
    let lost = a.absences()[0];
    assert_eq!((lost.prospect, lost.down_for), (Prospect::GivenUp, LIMIT), "since it went down");
    let map = change(&mut a, AuthorityInput::NodeUp(arrival(0, 1)), 90).unwrap();
    assert!(!map.nodes[0].given_up && !map.is_stale(NodeId(0)), "it may come back");
}

#[test]
fn nobody_is_given_up_where_nobody_is_to_be() {
    let mut a = started("rs:2+1", 5, 10);
    down(&mut a, 0, 20);
    change(&mut a, AuthorityInput::DiskFailed(NodeId(0)), 21);
    for now in [5000, Nanos::MAX] {
        assert!(change(&mut a, AuthorityInput::Tick(now), 22).is_none());
    }
    assert_eq!(prospect(&a, 0), Prospect::Waits);
    assert!(a.absences()[0].disk_failed);
}

#[test]
fn a_disk_that_failed_is_given_up_at_once() {
    let mut a = impatient("rs:2+1", 5, 10);
    a.handle(AuthorityInput::DiskFailed(NodeId(1)), &mut Vec::new());
    assert!(change(&mut a, AuthorityInput::Tick(5000), 19).is_none(), "it is not down yet");
    down(&mut a, 1, 20);
    change(&mut a, AuthorityInput::Tick(5001), 21).unwrap();
    assert_eq!(given_up(&a), [1]);
}

#[test]
fn one_failure_domain_goes_at_a_time() {
    // As wide as the array the volume has no room elsewhere.
    let mut narrow = impatient("raid6", 7, 10);
    down(&mut narrow, 0, 20);
    change(&mut narrow, AuthorityInput::Tick(0), 22);
    assert!(change(&mut narrow, AuthorityInput::Tick(LIMIT), 23).is_none());
    assert_eq!(prospect(&narrow, 0), Prospect::Hindered(Hindrance::NoRoom));

    let mut a = impatient("rs:2+2", 7, 10);
    down(&mut a, 0, 20);
    down(&mut a, 1, 21);
    change(&mut a, AuthorityInput::Tick(0), 22);
    change(&mut a, AuthorityInput::Tick(LIMIT), 23).unwrap();
    assert_eq!(given_up(&a), [0], "the first of two");
    assert_eq!(prospect(&a, 1), Prospect::Hindered(Hindrance::Rebuilding));
    assert!(change(&mut a, AuthorityInput::Tick(9 * LIMIT), 24).is_none());
    rebuilt(&mut a, 30);
    assert_eq!(given_up(&a), [0, 1], "with the map that ended it");
}

/// All disks of a box are one failure domain: they go together.
#[test]
fn the_disks_of_a_box_go_together() {
    let mut a = impatient("rs:2+1", 8, 10);
    let mut map = a.map().clone();
    for n in [1, 3, 5, 7] {
        map.nodes[n].process = Some(NodeId(n as u16 - 1));
    }
    let (spec, unit) = ("rs:2+1".parse::<LayoutSpec>().unwrap(), UNIT);
    let geometry = Geometry::new(spec.over(3).unwrap(), unit);
    let size = 10 * geometry.stripe_bytes();
    let extents = place_volume(&geometry, size, &map.places("box"), &[], 2 * UNIT).unwrap();
    let volume = Volume::new(VolumeId(1), "v", size, &spec, geometry, extents);
    map.volumes.insert(volume.id, Arc::new(volume));
    a = Authority::new(map);
    change(&mut a, AuthorityInput::Start((0..8).map(|n| arrival(n, 1)).collect()), 12);
    down(&mut a, 2, 20);
    down(&mut a, 3, 21);
    change(&mut a, AuthorityInput::Tick(0), 22);
    change(&mut a, AuthorityInput::Tick(LIMIT), 23).unwrap();
    assert_eq!(given_up(&a), [2, 3]);
}

#[test]
fn nobody_is_given_up_whom_a_volume_needs() {
    let mut a = impatient("rs:2+1", 6, 10);
    down(&mut a, 0, 20);
    down(&mut a, 1, 21);
    assert!(a.map().lacks_nodes(volume(a.map())), "some extent has columns on both");
    change(&mut a, AuthorityInput::Tick(0), 22);
    assert!(change(&mut a, AuthorityInput::Tick(LIMIT), 23).is_none());
    for node in [0, 1] {
        assert_eq!(prospect(&a, node), Prospect::Hindered(Hindrance::Needed(VolumeId(1))));
    }
    // The one that left last has missed nothing.
    change(&mut a, AuthorityInput::NodeUp(arrival(1, 1)), 30);
    assert_eq!(given_up(&a), [0], "with the map in which it is back");
}

/// Of 4+2+1 three columns more than one group's parity gives back are too many, whatever the number of parities.
#[test]
fn the_code_is_asked_and_no_number_compared() {
    let lost_group = |a: &Authority| -> [u16; 3] {
        let v = volume(a.map());
        let columns = &v.extents[0].columns;
        let sets =
            (0..5).flat_map(|x| (x + 1..6).flat_map(move |y| (y + 1..7).map(move |z| [x, y, z])));
        let bad =
            |set: &[usize; 3]| !v.geometry.is_always_recoverable(set.iter().copied().collect());
        let set = sets.into_iter().find(bad).expect("three of a group");
        set.map(|c| columns[c].0.0)
    };
    for (bug, expected) in [(None, 0), (Some(AuthorityBug::ByNumber), 1)] {
        let mut a = impatient("lrc:4+2+1", 9, 2).with_bug(bug);
        let group = lost_group(&a);
        for (n, node) in group.into_iter().enumerate() {
            down(&mut a, node, 20 + n as u64);
        }
        change(&mut a, AuthorityInput::Tick(0), 30);
        change(&mut a, AuthorityInput::Tick(LIMIT), 31);
        assert_eq!(given_up(&a).len(), expected, "{bug:?}");
    }
}

/// What parity that waits would protect is on a disk alone: it is asked again after a while.
#[test]
fn content_that_is_on_one_disk_alone_is_waited_for() {
    let mut a = impatient("rs:2+1", 5, 10);
    down(&mut a, 0, 20);
    change(&mut a, AuthorityInput::Tick(0), 21);
    let exposed = [VolumeId(1)];
    let mut tick = |now, exposed: &[VolumeId], time| {
        change_exposed(true, &knows_nothing, exposed, &mut a, AuthorityInput::Tick(now), time)
            .map(|map| (map.nodes[0].given_up, a.absences()))
    };
    let (lost, absences) = tick(LIMIT, &exposed, 22).expect("all are asked");
    let hindered = Prospect::Hindered(Hindrance::Exposed(VolumeId(1)));
    assert_eq!((lost, absences[0].prospect), (false, hindered));
    assert!(tick(2 * LIMIT - 1, &[], 23).is_none(), "it was asked just now");
    let (lost, _) = tick(2 * LIMIT, &[], 24).expect("it is asked again");
    assert!(lost);
}

/// A node that has just started names no volume: it does not know yet which parity on its disk is marked. Content of a node
/// that is due may be there alone.
#[test]
fn nobody_is_given_up_before_the_marks_of_all_others_are_known() {
    let mut a = impatient("rs:2+1", 5, 10);
    down(&mut a, 0, 20);
    change(&mut a, AuthorityInput::Tick(0), 21);
    a.handle(AuthorityInput::NodeDown(NodeId(1)), &mut Vec::new());
    a.handle(AuthorityInput::Tick(LIMIT), &mut Vec::new());
    let starts = |node: NodeId| {
        let began = u64::from(node != NodeId(1));
        (Memory { began, ..Memory::default() }, Vec::new())
    };
    let up = AuthorityInput::NodeUp(arrival(1, 1));
    let map = change_while(true, &starts, &mut a, up, 22).unwrap();
    assert!(map.is_up(NodeId(1)) && !map.nodes[0].given_up);
    assert_eq!(prospect(&a, 0), Prospect::Hindered(Hindrance::Exposed(VolumeId(1))));
    caught_up(&mut a, 1, 23);
    let map = change(&mut a, AuthorityInput::Tick(2 * LIMIT), 24).unwrap();
    assert!(map.nodes[0].given_up);
}

/// A volume that rests could go on: it does when a node is given up.
#[test]
fn a_volume_that_rests_does_not_keep_a_node() {
    let mut a = impatient("rs:2+1", 5, 10);
    let map = change_idle(&mut a, AuthorityInput::NodeDown(NodeId(0)), 20);
    assert!(map.rests(volume(&map)));
    a.handle(AuthorityInput::Tick(0), &mut Vec::new());
    let map = change_idle(&mut a, AuthorityInput::Tick(LIMIT), 21);
    assert!(map.nodes[0].given_up && !map.is_asleep(volume(&map)));
    assert!(map.columns_on(NodeId(0)) < 10);
}

/// Another node dies while all stop to give one up: what is true when the map is made counts.
#[test]
fn what_has_changed_meanwhile_counts() {
    let mut a = impatient("rs:2+1", 5, 10);
    down(&mut a, 0, 20);
    change(&mut a, AuthorityInput::Tick(0), 21);
    let mut out = Vec::new();
    a.handle(AuthorityInput::Tick(LIMIT), &mut out);
    assert!(!a.is_settled() && !out.is_empty(), "all are to stop");
    down(&mut a, 1, 22);
    assert_eq!(given_up(&a), [] as [u16; 0]);
}

/// A deleted volume keeps nobody; what of it cannot be moved then is seen, and it goes.
#[test]
fn a_deleted_volume_needs_nobody() {
    let mut a = impatient("rs:2+1", 6, 10);
    let (one, size) = (VolumeId(1), volume(a.map()).size);
    let hidden = VolumeSize { size, visible: 0, more: Vec::new() };
    change(&mut a, Change::SizeVolume(one, hidden), 12);
    change(&mut a, Change::DeleteVolume(one, 7), 13);
    let in_the_way = |a: &Authority| deleted_in_the_way(a.map(), &[], &[one]);
    assert_eq!(in_the_way(&a), None);
    down(&mut a, 0, 20);
    down(&mut a, 1, 21);
    change(&mut a, AuthorityInput::Tick(0), 22);
    change(&mut a, AuthorityInput::Tick(LIMIT), 23).unwrap();
    assert_eq!(given_up(&a), [0]);
    assert_eq!(in_the_way(&a), Some(one), "some extent had columns on both");
}

/// A map with a volume, and deleted ones of these numbers of stripes.
fn with_deleted(layout: &str, nodes: u16, stripes: &[u64]) -> ClusterMap {
    let a = started(layout, nodes, 4);
    let mut map = ClusterMap::clone(a.map());
    let geometry = volume(&map).geometry.clone();
    for (n, stripes) in stripes.iter().enumerate() {
        let size = stripes * geometry.stripe_bytes();
        let volumes: Vec<&Volume> = map.volumes.values().map(|v| &**v).collect();
        let extents = place_volume(&geometry, size, &map.places(""), &volumes, 2 * UNIT).unwrap();
        let spec: LayoutSpec = layout.parse().unwrap();
        let id = VolumeId(n as u32 + 2);
        let mut deleted = Volume::new(id, "old", size, &spec, geometry.clone(), extents);
        (deleted.visible, deleted.deletion.since) = (0, Some(n as u64));
        map.volumes.insert(id, Arc::new(deleted));
    }
    map
}

/// Volumes are forgotten for room only where that makes room.
#[test]
fn a_deleted_volume_stays_if_it_would_not_help() {
    let old = [VolumeId(2), VolumeId(3)];
    let absent = [NodeId(0)];
    // There is room.
    let roomy = with_deleted("rs:2+1", 5, &[1, 1]);
    assert_eq!(deleted_in_the_way(&roomy, &absent, &old), None);
    // No failure domain is left.
    let narrow = with_deleted("raid5", 3, &[1, 1]);
    assert!(moves::have_room(&narrow, |n| n == NodeId(0)).is_err());
    assert_eq!(deleted_in_the_way(&narrow, &absent, &old), None);
    let mut drained = narrow;
    drained.nodes[0].draining = true;
    assert_eq!(deleted_in_the_way(&drained, &[], &old), None);
}

#[test]
fn as_few_deleted_volumes_as_make_room_are_in_the_way() {
    let all = [VolumeId(2), VolumeId(3), VolumeId(4)];
    let mut map = with_deleted("rs:2+1", 4, &[1, 1, 1]);
    // The disks have no more space than the volumes take.
    let ends: Vec<u64> = (0..4).map(|n| map.needed_on(NodeId(n))).collect();
    for (info, end) in map.nodes.iter_mut().zip(ends) {
        info.sectors = end;
    }
    let absent = [NodeId(0)];
    let mut forgotten = Vec::new();
    while let Some(id) = deleted_in_the_way(&map, &absent, &all) {
        assert!(map.volumes.remove(&id).is_some());
        forgotten.push(id);
    }
    assert!(moves::have_room(&map, |n| n == absent[0]).is_ok(), "{forgotten:?}");
    assert!(!forgotten.is_empty() && forgotten.len() < 3, "{forgotten:?}");
}
