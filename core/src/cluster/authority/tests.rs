use super::*;
use crate::cluster::{Place, place_volume};
use crate::layout::{Geometry, LayoutSpec};
use crate::policy::{Commit, Dispatch, Ordering, SequencerForm, Setting};

const UNIT: u64 = 4096;
const DISK: u64 = 1000;

/// An authority over nodes that all run, with one volume of extents of two stripes.
fn started(layout: &str, nodes: u16, stripes: u64) -> Authority {
    let spec: LayoutSpec = layout.parse().unwrap();
    let geometry = Geometry::new(spec.over(usize::from(nodes)).unwrap(), UNIT);
    let size = stripes * geometry.stripe_bytes();
    let disks = Place::apart(&vec![DISK; usize::from(nodes)]);
    let extents = place_volume(&geometry, size, &disks, &[], 2 * UNIT).unwrap();
    let volume = Volume::new(VolumeId(1), "v", size, &spec, geometry, extents);
    let map = ClusterMap {
        nodes: vec![NodeInfo::unseen(); usize::from(nodes)],
        volumes: [(volume.id, Arc::new(volume))].into(),
        ..ClusterMap::default()
    };
    let mut authority = Authority::new(map);
    let all = (0..nodes).map(|n| arrival(n, 1)).collect();
    change(&mut authority, AuthorityInput::Start(all), 10);
    authority
}

fn arrival(node: u16, disk: u64) -> Arrival {
    Arrival { node: NodeId(node), disk, sectors: DISK }
}

fn admit(n: u16, home: Arc<Home>) -> AuthorityInput {
    AuthorityInput::AddNodes(NewNodes { home: Some(home), ..NewNodes::one(NodeId(n)) })
}

fn at(time: u64) -> Timestamp {
    Timestamp::new(time, NodeId(0))
}

/// Every write until now is earlier, and every later one is later than whatever stands in the map.
fn assert_floor(map: &ClusterMap, floor: Timestamp, time: u64) {
    assert!(floor > at(time) && floor >= map.latest_timestamp(), "{floor}");
}

/// Has a change made, with every node saying that its oldest unsettled write is at `time - 1`
/// and its clock at `time`. Returns the map that the nodes enter, if there is a change.
fn change(a: &mut Authority, input: AuthorityInput, time: u64) -> Option<Arc<ClusterMap>> {
    change_while(true, &knows_nothing, a, input, time)
}

/// What a node says of its own disk, and of others'.
type Knows<'a> = &'a dyn Fn(NodeId) -> (Memory, Vec<(NodeId, Reached)>);

fn knows_nothing(_: NodeId) -> (Memory, Vec<(NodeId, Reached)>) {
    (Memory::default(), Vec::new())
}

/// The same while nobody has anything in work.
fn change_idle(a: &mut Authority, input: AuthorityInput, time: u64) -> Arc<ClusterMap> {
    change_while(false, &knows_nothing, a, input, time).unwrap()
}

fn change_while(
    busy: bool,
    knows: Knows<'_>,
    a: &mut Authority,
    input: AuthorityInput,
    time: u64,
) -> Option<Arc<ClusterMap>> {
    let mut inputs = vec![input];
    let mut entered = None;
    while let Some(input) = inputs.pop() {
        let mut out = Vec::new();
        a.handle(input, &mut out);
        for output in out {
            match output {
                AuthorityOutput::Store(map) => inputs.push(AuthorityInput::Stored(map.epoch)),
                AuthorityOutput::Tell(node, MapMessage::Freeze { epoch }) => {
                    let (oldest, clock, written) = (at(time - 1), at(time), at(time));
                    let (memory, heard) = knows(node);
                    let report =
                        MemberReport::Frozen { epoch, oldest, clock, written, busy, memory, heard };
                    inputs.push(AuthorityInput::Report(node, report));
                }
                AuthorityOutput::Tell(_, MapMessage::Enter { map, floor }) => {
                    assert_floor(&map, floor, time);
                    entered = Some(map);
                }
            }
        }
    }
    entered
}

fn caught_up(a: &mut Authority, node: u16, time: u64) -> Option<Arc<ClusterMap>> {
    let report = MemberReport::CaughtUp { epoch: a.map().epoch };
    change(a, AuthorityInput::Report(NodeId(node), report), time)
}

/// Disks that were found at frame 50 of life 3, of which others have heard that they had reached frame 60.
fn forgot(which: &[u16]) -> impl Fn(NodeId) -> (Memory, Vec<(NodeId, Reached)>) {
    let which = which.to_vec();
    move |node| {
        let reached = |frame| Reached { disk: 1, life: 3, frame, sequence: 1 };
        let memory = Memory { found: reached(50), ..Memory::default() };
        let heard = which.iter().filter(|n| **n != node.0).map(|n| (NodeId(*n), reached(60)));
        (memory, heard.collect())
    }
}

fn volume(map: &ClusterMap) -> &Volume {
    &map.volumes[&VolumeId(1)]
}

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
    assert_eq!(map.latest_timestamp(), at(31), "the oldest that is unsettled may be older");
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

/// The only disk with what a column held is gone while another column is behind: nobody can do without it,
/// though it has no column any more.
#[test]
fn a_volume_waits_for_the_disk_that_a_column_is_copied_from() {
    let mut a = started("raid1", 3, 1);
    let of = |map: &ClusterMap| volume(map).extents[0].columns.iter().map(|c| c.0).collect();
    let before: Vec<NodeId> = of(a.map());
    let (from, other) = (before[0], before[1]);
    let map = change(&mut a, AuthorityInput::Drain(from, true), 20).unwrap();
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
    assert!(change(&mut a, AuthorityInput::GiveUp(NodeId(1)), 25).is_none(), "it runs");
    let map = change(&mut a, AuthorityInput::GiveUp(gone), 30).unwrap();
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

/// Whoever asked for another size had looked before columns moved: where they are now counts.
#[test]
fn a_change_of_size_changes_nothing_else() {
    let mut a = started("rs:2+1", 5, 6);
    let before = a.map().volumes[&VolumeId(1)].clone();
    change(&mut a, AuthorityInput::Drain(NodeId(0), true), 20);
    let moved = a.map().volumes[&VolumeId(1)].clone();
    assert_ne!(before.extents, moved.extents, "there is something to move");
    let to = |size, more| VolumeSize { size, visible: 0, more };
    let size = before.size - UNIT;
    change(&mut a, AuthorityInput::SizeVolume(VolumeId(1), to(size, Vec::new())), 30);
    let sized = a.map().volumes[&VolumeId(1)].clone();
    assert_eq!((sized.size, sized.visible), (size, 0));
    let places = |v: &Volume| v.extents.iter().map(|e| e.columns.clone()).collect::<Vec<_>>();
    assert_eq!(places(&sized), places(&moved));
    // Neither extents that do not follow, nor a size without room for it.
    let odd = Extent::new(99, moved.extents[0].columns.clone());
    for wrong in [to(before.size, vec![odd]), to(10 * before.size, Vec::new())] {
        change(&mut a, AuthorityInput::SizeVolume(VolumeId(1), wrong), 40);
        assert_eq!((a.map().volumes[&VolumeId(1)].size, places(&sized)), (size, places(&moved)));
    }
    change(&mut a, AuthorityInput::AddVolume(before), 50);
    assert_eq!(a.map().volumes[&VolumeId(1)].size, size, "it is there already");
}

#[test]
fn volumes_with_a_sequencer_have_one_form_of_it() {
    let mut a = started("rs:2+1", 5, 6);
    let (one, two) = (VolumeId(1), VolumeId(2));
    let mut other = Volume::clone(&a.map().volumes[&one]);
    (other.id, other.extents) = (two, Vec::new());
    other.size = 0;
    let sequenced = Setting::Ordering(Ordering::Sequencer);
    let to = |form| PolicyChange::to([Setting::Sequencer(form)]);
    let set = AuthorityInput::SetPolicy;
    let forms = |a: &Authority| -> Vec<_> {
        let all = a.map().volumes.values().filter(|v| v.is_sequenced());
        all.map(|v| v.policy.sequencer).collect()
    };
    use SequencerForm::*;
    change(&mut a, set(one, PolicyChange::to([sequenced, Setting::Sequencer(WorkerDriven)])), 20);
    change(&mut a, AuthorityInput::AddVolume(Arc::new(other.clone())), 30);
    assert_eq!(forms(&a), [WorkerDriven]);
    change(&mut a, set(two, PolicyChange::to([sequenced])), 40);
    assert_eq!(forms(&a), [WorkerDriven; 2], "the second takes the form of the first");
    change(&mut a, set(two, to(OriginatorDriven)), 50);
    assert_eq!(forms(&a), [OriginatorDriven; 2], "one is set, and so are all");
    other.id = VolumeId(3);
    (other.policy.ordering, other.policy.sequencer) = (Ordering::Sequencer, Centralized);
    change(&mut a, AuthorityInput::AddVolume(Arc::new(other)), 60);
    assert_eq!(forms(&a), [OriginatorDriven; 2], "a volume with another form is not added");
}

#[test]
fn a_change_of_policy_changes_what_it_names_and_nothing_else() {
    let mut a = started("rs:2+1", 5, 6);
    let id = VolumeId(1);
    let before = a.map().volumes[&id].clone();
    let set = |change: PolicyChange| AuthorityInput::SetPolicy(id, change);
    let unordered = PolicyChange::to([Setting::Ordering(Ordering::None)]);
    let none = PolicyChange { unordered_sharing: true, ..unordered.clone() };
    let epoch = a.map().epoch;
    change(&mut a, set(none), 20);
    assert_eq!(a.map().epoch, epoch + 1);
    let mut expected = Volume::clone(&before);
    (expected.policy.ordering, expected.unordered_sharing) = (Ordering::None, true);
    assert_eq!(*a.map().volumes[&id], expected);
    assert!(!expected.takes_one_writer());
    let commanded =
        PolicyChange::to([Setting::Commit(Commit::Early), Setting::Dispatch(Dispatch::Commanded)]);
    change(&mut a, set(commanded), 30);
    let there = a.map().volumes[&id].clone();
    assert!(there.unordered_sharing, "the ordering is as it was, and so is what was forced");
    change(&mut a, set(unordered), 40);
    assert!(a.map().volumes[&id].takes_one_writer());
    let back = PolicyChange {
        unordered_sharing: true,
        ..PolicyChange::to([Setting::Ordering(Ordering::Timestamps)])
    };
    change(&mut a, set(back.clone()), 50);
    expected = Volume::clone(&before);
    (expected.policy.commit, expected.policy.dispatch) = (Commit::Early, Dispatch::Commanded);
    assert_eq!(*a.map().volumes[&id], expected);
    change(&mut a, AuthorityInput::SetPolicy(VolumeId(99), back), 60);
    assert!(!a.map().volumes.contains_key(&VolumeId(99)), "there is none to set");
}

/// Its process has seen the map that admits it before the authority knows that it is stored, and that one
/// begins another change meanwhile.
#[test]
fn who_comes_before_its_admission_is_known_is_not_forgotten() {
    let mut a = started("raid1", 3, 2);
    let home = Home { name: "n3".into(), address: "h3:1".into(), ..Home::default() };
    let mut out = Vec::new();
    a.handle(admit(3, Arc::new(home)), &mut out);
    a.handle(AuthorityInput::NodeUp(arrival(3, 1)), &mut out);
    assert!(out.iter().all(|o| matches!(o, AuthorityOutput::Tell(_, MapMessage::Freeze { .. }))));
    let map = change(&mut a, AuthorityInput::NodeDown(NodeId(0)), 20).unwrap();
    assert!(map.is_up(NodeId(3)) && !map.is_up(NodeId(0)));
    assert!(a.is_settled());
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
    let mut map = change(&mut a, AuthorityInput::Rebalance(true), 30).unwrap();
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
    let map = change(&mut a, AuthorityInput::Rebalance(true), 30).unwrap();
    let moving =
        |m: &ClusterMap| volume(m).extents.iter().filter(|e| !e.filling.is_empty()).count();
    assert_eq!(moving(&map), 4, "of what is whole");
    let map = change(&mut a, AuthorityInput::Rebalance(false), 40).unwrap();
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
    let drain = AuthorityInput::Drain(NodeId(0), true);
    for (moves, elsewhere) in [(drain, true), (AuthorityInput::Rebalance(true), false)] {
        let mut a = started("raid1", 3, 30);
        for n in [3, 4] {
            let home =
                Home { name: format!("n{n}"), address: format!("h{n}:1"), ..Home::default() };
            change(&mut a, admit(n, Arc::new(home)), 20);
        }
        change(&mut a, AuthorityInput::NodeUp(arrival(3, 1)), 21);
        let map = change(&mut a, AuthorityInput::Rebalance(true), 22).unwrap();
        assert_eq!(filled(&map, 3), 4);
        change(&mut a, AuthorityInput::Rebalance(false), 23);
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
    let map = change(&mut a, AuthorityInput::Rebalance(true), 22).unwrap();
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
    assert!(can_drain(a.map(), NodeId(0)) && can_drain(a.map(), NodeId(1)));
    change(&mut a, AuthorityInput::Drain(NodeId(0), true), 20);
    assert!(can_drain(a.map(), NodeId(0)), "it may be asked again");
    assert!(can_drain(a.map(), NodeId(1)), "two hold it as well");
    change(&mut a, AuthorityInput::Drain(NodeId(1), true), 30);
    assert!(!can_drain(a.map(), NodeId(2)), "one column has no place");
    // With more on them two are not enough.
    let mut a = started("raid1", 4, 1200);
    change(&mut a, AuthorityInput::Drain(NodeId(0), true), 20);
    assert!(!can_drain(a.map(), NodeId(1)));
    change(&mut a, AuthorityInput::Drain(NodeId(0), false), 30);
    assert!(can_drain(a.map(), NodeId(1)));
}

/// A volume that becomes smaller gives back what lies behind it, and its last extent ends sooner.
#[test]
fn a_smaller_volume_gives_its_room_back() {
    let mut a = started("rs:2+1", 5, 6);
    let id = VolumeId(1);
    let before = a.map().volumes[&id].clone();
    let size = before.geometry.stripe_bytes() * 3 - UNIT;
    assert!(!a.map().room_used);
    let to = VolumeSize { size, visible: size, more: Vec::new() };
    let map = change(&mut a, AuthorityInput::SizeVolume(id, to), 20).unwrap();
    let cut = volume(&map);
    assert_eq!((cut.size, cut.stripes(), cut.extents.len()), (size, 3, 2));
    assert_eq!(cut.extents[..], before.extents[..2]);
    assert_eq!((cut.extent_sectors(1), before.extent_sectors(1)), (1, 2));
    assert!(map.room_used, "what it leaves must be cleared before others have it");
    // What is known of a write to what is cut off is that nobody has a say in it any more.
    assert!(!map.has_say(cut, 2, before.extents[2].columns[0].0, at(5)));
    assert!(map.voters(cut, 2, &[(0, before.extents[2].columns[0].0)], at(5)).is_empty());
}

/// Two nodes of one process come, it dies with both of them, and they come back; one of them has
/// left and is not taken back, though its process does not know yet.
#[test]
fn the_nodes_of_a_process_are_admitted_and_leave_together() {
    let mut a = started("raid1", 3, 90);
    let home = Arc::new(Home::default());
    let new = |first: u16, count, process: Option<u16>| {
        let (home, process) = (Some(home.clone()), process.map(NodeId));
        let first = NodeId(first);
        AuthorityInput::AddNodes(NewNodes { first, count, home, is_host: false, process })
    };
    let map = change(&mut a, new(3, 2, None), 20).unwrap();
    assert_eq!(map.nodes.len(), 5);
    assert!((3..5).all(|n| map.process_of(NodeId(n)) == NodeId(3)));
    assert_eq!(change(&mut a, new(3, 1, None), 21).unwrap().nodes.len(), 5, "they are there");
    assert_eq!(change(&mut a, new(5, 1, Some(9)), 21).unwrap().nodes.len(), 5, "no such process");
    let too_many = change(&mut a, new(5, MAX_NODES, None), 21).unwrap();
    assert_eq!(too_many.nodes.len(), 5);
    let map = change(&mut a, new(5, 1, Some(3)), 22).unwrap();
    assert_eq!(map.served_by(NodeId(3)).collect::<Vec<_>>(), [3, 4, 5].map(NodeId));
    assert_eq!(map.domains("box"), [0, 1, 2, 3, 3, 3], "a process is a box if nothing is said");
    assert_eq!(map.domains(crate::cluster::APART_BY_NODE), [0, 1, 2, 3, 4, 5]);
    for n in 3..6 {
        change(&mut a, AuthorityInput::NodeUp(arrival(n, 1)), 23);
    }
    // The second death is heard of before anybody has entered a map without the first.
    let mut out = Vec::new();
    let before = a.map().epoch;
    a.handle(AuthorityInput::NodeDown(NodeId(3)), &mut out);
    a.handle(AuthorityInput::NodeDown(NodeId(4)), &mut out);
    let map = change(&mut a, AuthorityInput::NodeDown(NodeId(5)), 30).unwrap();
    assert_eq!(map.up().collect::<Vec<_>>(), [0, 1, 2].map(NodeId));
    assert!(map.epoch > before && !out.iter().any(|o| matches!(o, AuthorityOutput::Store(_))));
    change(&mut a, AuthorityInput::GiveUp(NodeId(3)), 31);
    let map = change(&mut a, AuthorityInput::RemoveNode(NodeId(3)), 32).unwrap();
    assert_eq!(map.served_by(NodeId(3)).collect::<Vec<_>>(), [4, 5].map(NodeId));
    a.handle(AuthorityInput::NodeUp(arrival(3, 1)), &mut out);
    assert!(a.is_settled(), "one that has left stays away");
    let map = change(&mut a, AuthorityInput::NodeUp(arrival(4, 1)), 33).unwrap();
    assert!(map.is_up(NodeId(4)) && !map.is_up(NodeId(3)));
}

/// Of six columns over three boxes of two disks, one box may be lost, or any two disks.
#[test]
fn what_a_volume_bears_is_counted_by_failure_domain() {
    let spec: LayoutSpec = "rs:4+2".parse().unwrap();
    let geometry = Geometry::new(spec.over(6).unwrap(), 4096);
    let extents = vec![Extent::new(0, (0..6).map(|n| (NodeId(n), 0)).collect())];
    let volume = Volume::new(VolumeId(0), "v", 4096, &spec, geometry, extents);
    let process = |n: u16| NodeInfo { process: Some(NodeId(n / 2 * 2)), ..NodeInfo::new(1, 100) };
    let map = ClusterMap { nodes: (0..6).map(process).collect(), ..ClusterMap::default() };
    assert_eq!(map.survives(&volume, "node", |_, _| false), 2);
    let volumes = [(volume.id, Arc::new(volume.clone()))].into();
    let placed = ClusterMap { volumes, ..map.clone() };
    assert_eq!((placed.needed_on(NodeId(3)), placed.needed_on(NodeId(6))), (1, 0));
    assert_eq!(map.survives(&volume, "box", |_, _| false), 1);
    let one_lost = |_: usize, node: NodeId| node == NodeId(5);
    assert_eq!(map.survives(&volume, "node", one_lost), 1);
    assert_eq!(map.survives(&volume, "box", one_lost), 0);
    let all = NodeInfo { process: Some(NodeId(0)), ..NodeInfo::new(1, 100) };
    let map = ClusterMap { nodes: vec![all; 6], ..ClusterMap::default() };
    assert_eq!(map.survives(&volume, "box", |_, _| false), 0, "all are in one");
}

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
    change_idle(&mut drained, AuthorityInput::Drain(NodeId(0), true), 20);
    goes_on(&mut drained, down());
    let mut given_up = started("raid5", 5, 2);
    let map = change_idle(&mut given_up, down(), 20);
    assert!(map.rests(volume(&map)));
    goes_on(&mut given_up, AuthorityInput::GiveUp(NodeId(2)));
    let mut restarted = started("raid5", 4, 2);
    let mut out = Vec::new();
    restarted.handle(AuthorityInput::NodeUp(arrival(1, 1)), &mut out);
    goes_on(&mut restarted, down());
    let mut unsafe_after_a_power_cut = started("raid5", 4, 2);
    let dispatch = Setting::Dispatch(Dispatch::Commanded);
    let change = PolicyChange::to([Setting::Commit(Commit::Limited), dispatch]);
    change_idle(&mut unsafe_after_a_power_cut, AuthorityInput::SetPolicy(VolumeId(1), change), 20);
    goes_on(&mut unsafe_after_a_power_cut, down());
}

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
    let map = change_while(true, &knows_nothing_new, &mut a, AuthorityInput::Rebalance(false), 30);
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

/// It would take part and not belong: the next leader would forget it, and it would serve on.
#[test]
fn a_node_that_comes_back_while_it_is_taken_out_stays() {
    let mut a = started("raid5", 3, 2);
    for node in [3, 4] {
        change(&mut a, AuthorityInput::AddNodes(NewNodes::one(NodeId(node))), 20);
    }
    for input in [AuthorityInput::NodeUp(arrival(3, 1)), AuthorityInput::NodeDown(NodeId(3))] {
        change(&mut a, input, 30);
    }
    for node in [3, 4] {
        change(&mut a, AuthorityInput::Drain(NodeId(node), true), 40);
    }
    // The others have yet to stop for the change when it comes.
    a.handle(AuthorityInput::RemoveNode(NodeId(3)), &mut Vec::new());
    let map = change(&mut a, AuthorityInput::NodeUp(arrival(3, 1)), 50).unwrap();
    assert!(map.is_up(NodeId(3)) && !map.nodes[3].removed);
    let map = change(&mut a, AuthorityInput::RemoveNode(NodeId(4)), 60).unwrap();
    assert!(map.nodes[4].removed, "one that stays away is");
}

#[test]
fn a_clock_that_is_wrong_does_not_become_the_clusters_time() {
    let frozen = |clocks: &[(u64, u64)]| {
        let all = clocks.iter().enumerate().map(|(n, (clock, written))| {
            let (memory, heard) = knows_nothing(NodeId(n as u16));
            let (oldest, clock, written) = (at(0), at(*clock), at(*written));
            let frozen = Frozen { oldest, clock, written, busy: false, memory, heard };
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
