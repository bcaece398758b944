//! What operators change of volumes and nodes.

use super::*;
use crate::policy::{Commit, Dispatch, Ordering, Roles, SequencerForm, Setting};
use crate::units::MAX_NODES;

/// Whoever asked for another size had looked before columns moved: where they are now counts.
#[test]
fn a_change_of_size_changes_nothing_else() {
    let mut a = started("rs:2+1", 5, 6);
    let before = a.map().volumes[&VolumeId(1)].clone();
    change(&mut a, Change::Drain(NodeId(0), true), 20);
    let moved = a.map().volumes[&VolumeId(1)].clone();
    assert_ne!(before.extents, moved.extents, "there is something to move");
    let to = |size, more| VolumeSize { size, visible: 0, more };
    let size = before.size - UNIT;
    change(&mut a, Change::SizeVolume(VolumeId(1), to(size, Vec::new())), 30);
    let sized = a.map().volumes[&VolumeId(1)].clone();
    assert_eq!((sized.size, sized.visible), (size, 0));
    assert_eq!(sized.extents, moved.extents, "also which columns are being copied, and from where");
    let places = |v: &Volume| v.extents.iter().map(|e| e.columns.clone()).collect::<Vec<_>>();
    // Neither extents that do not follow, nor a size without room for it.
    let odd = Extent::new(99, moved.extents[0].columns.clone());
    for wrong in [to(before.size, vec![odd]), to(10 * before.size, Vec::new())] {
        change(&mut a, Change::SizeVolume(VolumeId(1), wrong), 40);
        assert_eq!((a.map().volumes[&VolumeId(1)].size, places(&sized)), (size, places(&moved)));
    }
    change(&mut a, Change::AddVolume(before), 50);
    assert_eq!(a.map().volumes[&VolumeId(1)].size, size, "it is there already");
}

/// What is behind would count as whole, and its disk would vouch for what it has never had.
#[test]
fn a_change_of_size_forgets_no_column_that_is_being_filled() {
    let mut a = started("raid1", 5, 6);
    let gone = volume(a.map()).extents[0].columns[0].0;
    change(&mut a, AuthorityInput::NodeDown(gone), 20);
    change(&mut a, Change::GiveUp(gone), 30);
    let before = volume(a.map()).clone();
    assert!(before.extents.iter().any(|e| !e.filling.is_empty()), "it is rebuilt elsewhere");
    let stripe = before.geometry.stripe_bytes();
    let smaller = VolumeSize { size: 4 * stripe, visible: 4 * stripe, more: Vec::new() };
    let map = change(&mut a, Change::SizeVolume(VolumeId(1), smaller), 40).unwrap();
    assert_eq!(volume(&map).extents[..], before.extents[..2]);
    let columns = before.extents[1].columns.iter().map(|c| (c.0, c.1 + 500)).collect();
    let more = vec![Extent::new(4, columns)];
    let larger = VolumeSize { size: 6 * stripe, visible: 4 * stripe, more: more.clone() };
    let map = change(&mut a, Change::SizeVolume(VolumeId(1), larger), 50).unwrap();
    assert_eq!(volume(&map).extents[..2], before.extents[..2]);
    assert_eq!(volume(&map).extents[2..], more[..]);
}

/// What lies behind its end in its last stripe would be seen again when it grows.
#[test]
fn what_a_smaller_volume_leaves_in_its_last_stripe_must_be_cleared() {
    let mut a = started("rs:2+1", 5, 6);
    let before = volume(a.map()).clone();
    let to = |size| VolumeSize { size, visible: size, more: Vec::new() };
    change(&mut a, Change::SizeVolume(VolumeId(1), to(before.size)), 20);
    assert!(!a.map().room_used);
    let smaller = before.size - 512;
    let map = change(&mut a, Change::SizeVolume(VolumeId(1), to(smaller)), 30).unwrap();
    assert_eq!((volume(&map).size, volume(&map).extents.len()), (smaller, before.extents.len()));
    assert!(map.room_used);
}

/// Places for more extents were chosen before a snapshot was taken, after which the volume goes on in another address space.
#[test]
fn all_extents_of_a_volume_are_in_one_address_space() {
    let mut a = started("rs:2+1", 5, 6);
    let before = volume(a.map()).clone();
    let stripe = before.geometry.stripe_bytes();
    let columns = |first: u64| {
        let last = before.extents.last().expect("it has extents");
        last.columns.iter().map(|c| (c.0, first + 500)).collect::<Vec<_>>()
    };
    let larger = |first| VolumeSize {
        size: before.size + stripe,
        visible: before.visible,
        more: vec![Extent::new(before.stripes(), columns(first))],
    };
    let elsewhere = larger(crate::units::thin_space(VolumeId(9)));
    change(&mut a, Change::SizeVolume(VolumeId(1), elsewhere), 20);
    assert_eq!(*volume(a.map()), before);
    change(&mut a, Change::SizeVolume(VolumeId(1), larger(0)), 30);
    assert_eq!(volume(a.map()).size, before.size + stripe);
}

#[test]
fn volumes_with_a_sequencer_have_one_form_of_it() {
    let mut a = started("rs:2+1", 5, 6);
    let (one, two) = (VolumeId(1), VolumeId(2));
    let mut other = Volume::clone(&a.map().volumes[&one]);
    (other.id, other.extents) = (two, Vec::new());
    (other.size, other.visible) = (0, 0);
    let sequenced = Setting::Ordering(Ordering::Sequencer);
    let to = |form| PolicyChange::to([Setting::Sequencer(form)]);
    let set = Change::SetPolicy;
    let forms = |a: &Authority| -> Vec<_> {
        let all = a.map().volumes.values().filter(|v| v.is_sequenced());
        all.map(|v| v.policy.sequencer).collect()
    };
    use SequencerForm::*;
    change(&mut a, set(one, PolicyChange::to([sequenced, Setting::Sequencer(WorkerDriven)])), 20);
    change(&mut a, Change::AddVolume(Arc::new(other.clone())), 30);
    assert_eq!(forms(&a), [WorkerDriven]);
    change(&mut a, set(two, PolicyChange::to([sequenced])), 40);
    assert_eq!(forms(&a), [WorkerDriven; 2], "the second takes the form of the first");
    change(&mut a, set(two, to(OriginatorDriven)), 50);
    assert_eq!(forms(&a), [OriginatorDriven; 2], "one is set, and so are all");
    other.id = VolumeId(3);
    (other.policy.ordering, other.policy.sequencer) = (Ordering::Sequencer, Centralized);
    change(&mut a, Change::AddVolume(Arc::new(other)), 60);
    assert_eq!(forms(&a), [OriginatorDriven; 2], "a volume with another form is not added");
}

#[test]
fn a_change_of_policy_changes_what_it_names_and_nothing_else() {
    let mut a = started("rs:2+1", 5, 6);
    let id = VolumeId(1);
    let before = a.map().volumes[&id].clone();
    let set = |change: PolicyChange| Change::SetPolicy(id, change);
    let unordered = PolicyChange::to([Setting::Ordering(Ordering::None)]);
    let none = PolicyChange { unordered_sharing: true, ..unordered.clone() };
    let epoch = a.map().epoch;
    change(&mut a, set(none), 20);
    assert_eq!(a.map().epoch, epoch + 1);
    let mut expected = Volume::clone(&before);
    (expected.policy.ordering, expected.unordered_sharing) = (Ordering::None, true);
    assert_eq!(*a.map().volumes[&id], expected);
    assert!(!expected.takes_one_writer());
    let commanded = PolicyChange::to([
        Setting::Commit(Commit::Limited),
        Setting::Dispatch(Dispatch::Commanded),
    ]);
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
    (expected.policy.commit, expected.policy.dispatch) = (Commit::Limited, Dispatch::Commanded);
    assert_eq!(*a.map().volumes[&id], expected);
    change(&mut a, Change::SetPolicy(VolumeId(99), back), 60);
    assert!(!a.map().volumes.contains_key(&VolumeId(99)), "there is none to set");
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
    let map = change(&mut a, Change::SizeVolume(id, to), 20).unwrap();
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
        Change::AddNodes(NewNodes { count, home, process, ..NewNodes::one(first) })
    };
    let map = change(&mut a, new(3, 2, None), 20).unwrap();
    assert_eq!(map.nodes.len(), 5);
    assert!((3..5).all(|n| map.process_of(NodeId(n)) == NodeId(3)));
    assert_eq!(change(&mut a, new(3, 1, None), 21).unwrap().nodes.len(), 5, "they are there");
    assert_eq!(change(&mut a, new(5, 1, Some(9)), 21).unwrap().nodes.len(), 5, "no such process");
    for too_many in [MAX_NODES, usize::MAX, usize::MAX - 4] {
        assert_eq!(change(&mut a, new(5, too_many, None), 21).unwrap().nodes.len(), 5);
    }
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
    change(&mut a, Change::GiveUp(NodeId(3)), 31);
    let map = change(&mut a, Change::RemoveNode(NodeId(3)), 32).unwrap();
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

/// What was put on a node after its new disk was divided is not on its disk.
#[test]
fn a_disk_without_room_for_what_was_put_on_the_one_before_stays_away() {
    let mut a = started("rs:2+1", 3, 6);
    let needed = a.map().needed_on(NodeId(2));
    change(&mut a, AuthorityInput::NodeDown(NodeId(2)), 20).unwrap();
    let smaller = Arrival { sectors: needed - 1, ..arrival(2, 7) };
    let map = change(&mut a, AuthorityInput::NodeUp(smaller), 30).unwrap();
    assert!(a.is_settled() && !map.is_up(NodeId(2)) && map.nodes[2].sectors > needed);
    let fits = Arrival { sectors: needed, ..smaller };
    let map = change(&mut a, AuthorityInput::NodeUp(fits), 40).unwrap();
    assert!(map.is_up(NodeId(2)) && map.nodes[2].sectors == needed);
}

fn hidden(size: u64) -> VolumeSize {
    VolumeSize { size, visible: 0, more: Vec::new() }
}

#[test]
fn a_deleted_volume_comes_back_unless_it_was_forgotten() {
    let mut a = started("rs:2+1", 5, 6);
    let one = VolumeId(1);
    let before = a.map().volumes[&one].clone();
    // One change hides it and says that it can be brought back: whoever asks for that may die in between.
    change(&mut a, Change::DeleteVolume(one, 7), 40);
    assert_eq!((a.map().volumes[&one].visible, a.map().volumes[&one].deletion.since), (0, Some(7)));
    assert_eq!(a.map().deleted().len(), 1);
    change(&mut a, Change::DeleteVolume(one, 8), 50);
    assert_eq!(a.map().volumes[&one].deletion.since, Some(7), "it was deleted then");
    change(&mut a, Change::UndeleteVolume(one), 60);
    assert_eq!(a.map().volumes[&one], before);
    change(&mut a, Change::ForgetVolume(one), 70);
    assert!(a.map().volumes.contains_key(&one), "it is back");
    change(&mut a, Change::SizeVolume(one, hidden(before.size)), 80);
    change(&mut a, Change::DeleteVolume(one, 9), 90);
    change(&mut a, Change::ForgetVolume(one), 100);
    assert!(!a.map().volumes.contains_key(&one) && a.map().room_used);
    change(&mut a, Change::UndeleteVolume(one), 110);
    assert!(a.map().volumes.is_empty());
}

/// What a growth has not cleared yet is of other volumes.
#[test]
fn a_volume_that_was_growing_comes_back_with_what_hosts_saw() {
    let mut a = started("rs:2+1", 5, 6);
    let one = VolumeId(1);
    let before = a.map().volumes[&one].clone();
    let seen = before.size - before.geometry.stripe_bytes();
    let to = VolumeSize { size: before.size, visible: seen, more: Vec::new() };
    change(&mut a, Change::SizeVolume(one, to), 20);
    change(&mut a, Change::DeleteVolume(one, 7), 30);
    assert_eq!((a.map().volumes[&one].size, a.map().room_used), (seen, true));
    change(&mut a, Change::UndeleteVolume(one), 40);
    assert_eq!((a.map().volumes[&one].size, a.map().volumes[&one].visible), (seen, seen));
}

#[test]
fn two_volumes_never_have_one_name() {
    let mut a = started("rs:2+1", 5, 6);
    let (one, two) = (VolumeId(1), VolumeId(2));
    let (size, name) = (a.map().volumes[&one].size, a.map().volumes[&one].name.clone());
    let mut other = Volume::clone(&a.map().volumes[&one]);
    (other.id, other.name, other.extents) = (two, "other".to_string(), Vec::new());
    (other.size, other.visible) = (0, 0);
    change(&mut a, Change::AddVolume(Arc::new(other)), 20);
    change(&mut a, Change::RenameVolume(two, name.clone()), 30);
    assert_eq!(a.map().volumes[&two].name, "other");
    // That of a deleted one may be had, and then that one does not come back.
    change(&mut a, Change::SizeVolume(one, hidden(size)), 40);
    change(&mut a, Change::DeleteVolume(one, 7), 50);
    change(&mut a, Change::RenameVolume(two, name.clone()), 60);
    assert_eq!(a.map().volumes[&two].name, name);
    change(&mut a, Change::UndeleteVolume(one), 70);
    assert!(a.map().volumes[&one].is_deleted());
    change(&mut a, Change::RenameVolume(two, "other".to_string()), 80);
    change(&mut a, Change::UndeleteVolume(one), 90);
    assert_eq!(a.map().volumes[&one].visible, size);
}

/// Who joins to be the controller is it before any node with a disk, and the next by the same rule is its backup.
#[test]
fn a_node_that_is_there_to_be_the_controller_is_preferred() {
    let map = |kinds: &[(NodeKind, bool)]| {
        let node = |(kind, up): &(NodeKind, bool)| NodeInfo {
            kind: *kind,
            up: *up,
            ..NodeInfo::new(1, if *kind == NodeKind::Disk { DISK } else { 0 })
        };
        ClusterMap { nodes: kinds.iter().map(node).collect(), ..ClusterMap::default() }
    };
    let both = |map: &ClusterMap| (map.server().map(|n| n.0), map.next_server().map(|n| n.0));
    let (disk, host, controller) = (NodeKind::Disk, NodeKind::Host, NodeKind::Controller);
    assert_eq!(both(&map(&[(disk, true), (disk, true)])), (Some(0), Some(1)));
    let mut kinds = [(disk, true), (host, true), (controller, true), (controller, true)];
    assert_eq!(both(&map(&kinds)), (Some(2), Some(3)));
    kinds[2].1 = false;
    assert_eq!(both(&map(&kinds)), (Some(3), Some(0)), "a disk's node can be it, too");
    kinds[3].1 = false;
    assert_eq!(both(&map(&kinds)), (Some(0), None), "a host never is");
    assert_eq!(map(&kinds).with_disks().collect::<Vec<_>>(), [NodeId(0)]);
}

#[test]
fn a_controller_is_refused_where_no_process_may_be_it() {
    let mut map = started("rs:2+1", 3, 6).map().clone();
    let controlled =
        [Roles::Controller, Roles::Central].map(|r| PolicyChange::to([Setting::Roles(r)]));
    let refused =
        |map: &ClusterMap, change| map.check_policy(VolumeId(1), change).unwrap_err().to_string();
    assert!(controlled.iter().all(|change| map.check_policy(VolumeId(1), change).is_ok()));
    map.nodes.iter_mut().for_each(|n| n.given_up = true);
    map.nodes.push(NodeInfo { kind: NodeKind::Host, ..NodeInfo::new(1, 0) });
    for change in &controlled {
        assert!(refused(&map, change).contains("join one with `controller = true`"));
    }
    let mut new = Volume::clone(&map.volumes[&VolumeId(1)]);
    controlled[0].apply(&mut new);
    assert!(map.check_new_policy(&new, &[]).is_err());
    map.nodes.push(NodeInfo { kind: NodeKind::Controller, ..NodeInfo::new(1, 0) });
    assert!(map.check_policy(VolumeId(1), &controlled[0]).is_ok());
    assert!(map.check_new_policy(&new, &[]).is_ok());
}

/// It holds nothing, so it may leave for good as soon as it is down.
#[test]
fn a_controller_is_admitted_and_leaves() {
    let mut a = started("raid1", 3, 90);
    let new = NewNodes { kind: NodeKind::Controller, ..NewNodes::one(NodeId(3)) };
    let map = change(&mut a, Change::AddNodes(new), 20).unwrap();
    assert_eq!(map.nodes[3].kind, NodeKind::Controller);
    let map = change(&mut a, Change::RemoveNode(NodeId(3)), 21).unwrap();
    assert!(map.nodes[3].removed);
}
