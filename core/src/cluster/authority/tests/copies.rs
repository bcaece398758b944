//! What waits until parity describes copies of small writes, and content whose parity waits.

use super::*;
use crate::policy::{Every, Timing};

const COPIED: [VolumeId; 1] = [VolumeId(1)];

/// A node has computed all parity.
fn folded(a: &mut Authority, node: u16, time: u64) -> Option<Arc<ClusterMap>> {
    let report = MemberReport::ParityDone { epoch: a.map().epoch, volumes: COPIED.to_vec() };
    change(a, AuthorityInput::Report(NodeId(node), report), time)
}

fn columns(map: &ClusterMap) -> Vec<NodeId> {
    volume(map).extents[0].columns.iter().map(|c| c.0).collect()
}

#[test]
fn a_column_is_drained_when_all_nodes_have_folded_their_copies() {
    let mut a = started("rs:2+1", 4, 1);
    let before = columns(a.map());
    let map = change_copied(&COPIED, &mut a, Change::Drain(before[0], true), 20).unwrap();
    assert_eq!(columns(&map), before, "the other disk would have no copies");
    assert!(map.moving().contains(&COPIED[0]), "no more are made");
    let late = MemberReport::ParityDone { epoch: map.epoch - 1, volumes: COPIED.to_vec() };
    for n in 0..4 {
        let of_before = AuthorityInput::Report(NodeId(n), late.clone());
        assert!(change(&mut a, of_before, 25).is_none(), "of an earlier epoch");
    }
    let nodes: Vec<u16> = (0..a.map().nodes.len() as u16).collect();
    let (last, others) = nodes.split_last().expect("there are some");
    for n in others {
        assert!(folded(&mut a, *n, 30).is_none(), "others have some");
    }
    let map = folded(&mut a, *last, 40).unwrap();
    assert!(!columns(&map).contains(&before[0]), "it moves");
}

/// Should the disk that it comes to miss anything, nothing else would determine the rest.
#[test]
fn a_column_moves_when_parity_that_waited_is_computed() {
    let refreshing = Undescribed { refreshing: COPIED.to_vec(), ..Undescribed::default() };
    let exposed = Undescribed { exposed: COPIED.to_vec(), ..Undescribed::default() };
    for (said, waits) in [(&refreshing, true), (&exposed, false)] {
        let mut a = started("rs:2+1", 4, 1);
        let before = columns(a.map());
        let drain = Change::Drain(before[0], true);
        let map = change_said(true, &knows_nothing, said, &mut a, drain, 20).unwrap();
        assert_eq!(columns(&map) == before, waits, "what cannot be computed is not waited for");
        assert!(map.moving().contains(&COPIED[0]), "no more parity waits");
        if waits {
            let maps: Vec<_> = (0..4).filter_map(|n| folded(&mut a, n, 30)).collect();
            assert_eq!(maps.len(), 1, "with the last of them");
            assert!(!columns(&maps[0]).contains(&before[0]), "it moves");
        }
    }
}

#[test]
fn a_column_moves_when_a_node_that_has_started_has_searched_its_disk() {
    let mut a = started("rs:2+1", 4, 1);
    let before = columns(a.map());
    let starts = |node: NodeId| {
        let began = u64::from(node != before[2]);
        (Memory { began, ..Memory::default() }, Vec::new())
    };
    let map = change_while(true, &starts, &mut a, Change::Drain(before[0], true), 20).unwrap();
    assert_eq!(columns(&map), before, "it may have parity to compute");
    let others = (0..4).filter(|n| NodeId(*n) != before[2]).filter_map(|n| folded(&mut a, n, 30));
    assert_eq!(others.count(), 0, "they are not waited for");
    let map = folded(&mut a, before[2].0, 30).unwrap();
    assert!(!columns(&map).contains(&before[0]), "it moves");
}

#[test]
fn disks_are_made_equally_full_when_parity_that_waited_is_computed() {
    let mut a = started("raid1", 3, 90);
    change(&mut a, admit(3, Arc::new(Home::default())), 20);
    change(&mut a, AuthorityInput::NodeUp(arrival(3, 1)), 21);
    let moving =
        |m: &ClusterMap| volume(m).extents.iter().filter(|e| !e.filling.is_empty()).count();
    let said = Undescribed { refreshing: COPIED.to_vec(), ..Undescribed::default() };
    let evens = Change::Rebalance(true);
    let map = change_said(true, &knows_nothing, &said, &mut a, evens, 30).unwrap();
    assert_eq!(moving(&map), 0);
    assert!(map.moving().contains(&COPIED[0]), "no more parity waits");
    let maps: Vec<_> = (0..4).filter_map(|n| folded(&mut a, n, 40)).collect();
    assert_eq!(maps.len(), 1, "with the last of them");
    assert!(moving(&maps[0]) > 0);
}

#[test]
fn a_snapshot_is_taken_when_copies_are_folded() {
    let mut a = started("raid5", 3, 1);
    let take = Change::TakeSnapshots(vec![VolumeId(1)], "s".to_string(), 9);
    let map = change_copied(&COPIED, &mut a, take, 20).unwrap();
    assert_eq!(map.volumes.len(), 1, "it would not show them");
    let nodes: Vec<u16> = (0..a.map().nodes.len() as u16).collect();
    let maps: Vec<_> = nodes.into_iter().filter_map(|n| folded(&mut a, n, 30)).collect();
    assert_eq!(maps.len(), 1, "with the last of them");
    assert_eq!(maps[0].volumes.len(), 2);
}

#[test]
fn a_volume_that_copies_writes_takes_no_snapshot() {
    let mut map = ClusterMap::clone(started("raid5", 3, 1).map());
    Arc::make_mut(map.volumes.get_mut(&VolumeId(1)).unwrap()).policy.redundancy.timing =
        Timing::Copied;
    assert!(map.check_snapshot(VolumeId(1), "s").is_err());
}

/// They may have copies of it. The snapshot would not show these, and the volume goes on in another space.
#[test]
fn no_snapshot_is_taken_of_a_volume_that_sleeps() {
    let take = || Change::TakeSnapshots(vec![VolumeId(1)], "s".to_string(), 9);
    let scheduled = Change::TakeScheduled(vec![(VolumeId(1), Every::Hour)], 9);
    for change_of in [take(), scheduled] {
        let mut a = started("raid5", 3, 1);
        change(&mut a, AuthorityInput::NodeDown(NodeId(1)), 20);
        change(&mut a, AuthorityInput::NodeDown(NodeId(2)), 21);
        assert!(a.map().lacks_nodes(volume(a.map())));
        let map = change(&mut a, change_of.clone(), 30).unwrap();
        assert_eq!(map.volumes.len(), 1);
        change(&mut a, AuthorityInput::NodeUp(arrival(2, 1)), 40);
        let map = change(&mut a, change_of.clone(), 50).unwrap();
        assert_eq!(map.volumes.len(), 2, "no more is away than the layout bears");
        // They go while it is being taken.
        let mut a = started("raid5", 3, 1);
        let mut out = Vec::new();
        a.handle(change_of.into(), &mut out);
        a.handle(AuthorityInput::NodeDown(NodeId(1)), &mut out);
        let map = change(&mut a, AuthorityInput::NodeDown(NodeId(2)), 20).unwrap();
        assert_eq!(map.volumes.len(), 1);
    }
    // Over a snapshot it does not copy.
    let mut a = started("raid5", 3, 1);
    a.map.next_volume = 2;
    change(&mut a, take(), 20);
    change(&mut a, AuthorityInput::NodeDown(NodeId(1)), 30);
    change(&mut a, AuthorityInput::NodeDown(NodeId(2)), 40);
    let again = Change::TakeSnapshots(vec![VolumeId(1)], "t".to_string(), 9);
    assert_eq!(change(&mut a, again, 50).unwrap().volumes.len(), 3);
    let mut a = started("raid0", 3, 1);
    change(&mut a, AuthorityInput::NodeDown(NodeId(1)), 20);
    let map = change(&mut a, take(), 30).unwrap();
    assert_eq!(map.volumes.len(), 2, "nothing of it was ever copied");
}

/// Nothing is folded while it rests, and nobody may ever write to it.
#[test]
fn a_volume_that_rests_wakes_for_a_snapshot_that_waits_for_folds() {
    let mut a = started("raid5", 3, 1);
    let idle = |a: &mut Authority, input: AuthorityInput| {
        let said = Undescribed { copied: COPIED.to_vec(), ..Undescribed::default() };
        change_said(false, &knows_nothing, &said, a, input, 20).unwrap()
    };
    let map = idle(&mut a, AuthorityInput::NodeDown(NodeId(2)));
    assert!(map.rests(volume(&map)));
    let take = Change::TakeSnapshots(vec![VolumeId(1)], "s".to_string(), 9);
    let map = idle(&mut a, take.into());
    assert!(map.volumes.len() == 1 && !map.is_asleep(volume(&map)));
    assert!(folded(&mut a, 0, 30).is_none());
    assert_eq!(folded(&mut a, 1, 30).unwrap().volumes.len(), 2);
}

/// Those of a volume that sleeps are not folded before its nodes are back. Others did not wait for their own alone.
#[test]
fn what_waits_for_folds_does_not_wait_for_volumes_that_sleep() {
    let mut a = started("rs:2+1", 6, 1);
    let first = columns(a.map());
    let others: Vec<NodeId> = (0..6).map(NodeId).filter(|n| !first.contains(n)).collect();
    let places = others.iter().map(|n| (*n, 0)).collect();
    let extents = vec![Extent::new(0, places)];
    let second =
        Volume { id: VolumeId(2), name: "w".to_string(), extents, ..volume(a.map()).clone() };
    change(&mut a, Change::AddVolume(Arc::new(second)), 15);
    for node in &others[1..] {
        change(&mut a, AuthorityInput::NodeDown(*node), 20);
    }
    assert!(a.map().is_asleep(&a.map().volumes[&VolumeId(2)]));
    let mut out = Vec::new();
    let take = Change::TakeSnapshots(vec![VolumeId(1)], "s".to_string(), 9);
    a.handle(take.into(), &mut out);
    let epoch = a.map().epoch + 1;
    for node in first.iter().chain(&others[..1]) {
        let copied = vec![if first.contains(node) { VolumeId(1) } else { VolumeId(2) }];
        let said = stopped(epoch, 30, copied);
        a.handle(AuthorityInput::Report(*node, said), &mut out);
    }
    a.handle(AuthorityInput::Stored(epoch), &mut out);
    assert_eq!(a.map().volumes.len(), 2, "the first volume has copies");
    for node in &first {
        assert!(a.is_settled());
        let folded = MemberReport::ParityDone { epoch, volumes: COPIED.to_vec() };
        a.handle(AuthorityInput::Report(*node, folded), &mut out);
    }
    assert!(!a.is_settled(), "it is tried again");
}
