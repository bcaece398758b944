//! Snapshots that are taken while writes are not settled.

use super::super::test_bench::*;
use super::super::*;
use crate::Buffer;
use crate::cluster::{Attendance, Snapshot, Volume};
use crate::order::RequestId;
use crate::plan::{Part, Range};
use crate::policy::Ordering;
use crate::units::{SPACE_SECTORS, VolumeId};

const SNAPSHOT: VolumeId = VolumeId(2);

/// A map in which the volume has gone on in another address space, over a snapshot that has its content.
fn with_snapshot(epoch: Epoch, of_volume: Attendance, of_snapshot: Attendance) -> ClusterMap {
    let mut map = ClusterMap::clone(&map(epoch, of_volume));
    let mut snapshot = Volume::clone(&map.volumes[&VOLUME]);
    snapshot.id = SNAPSHOT;
    snapshot.name = "v@s".into();
    let taken = Snapshot { of: VOLUME, taken: 1, source: None, scheduled: None };
    snapshot.lineage.snapshot = Some(taken);
    let volume = Arc::make_mut(map.volumes.get_mut(&VOLUME).expect("its own"));
    volume.lineage.below = Some(SNAPSHOT);
    for (_, at) in volume.extents.iter_mut().flat_map(|e| &mut e.columns) {
        *at += 3 * SPACE_SECTORS;
    }
    map.volumes.insert(SNAPSHOT, Arc::new(snapshot));
    map.attendance.insert(SNAPSHOT, of_snapshot);
    map.next_volume = 3;
    map
}

/// A node was catching up when another went. The volume goes on in its new address space, where nobody has missed anything;
/// the write was one of the snapshot, which lacks both nodes. The workers wait, and so does the originator.
#[test]
fn a_write_is_decided_by_the_volume_that_has_its_address_space() {
    assert!(!is_decided(NodeConfig::default()));
    let bug = Some(Bug::SettlesInNewest);
    assert!(is_decided(NodeConfig { bug, ..NodeConfig::default() }), "it could be otherwise");
}

/// Whether the originator decides it.
fn is_decided(config: NodeConfig) -> bool {
    let mut bench = Bench::with(config);
    let behind = || Attendance { stale_since: [(US, at(1))].into(), ..Attendance::default() };
    bench.handle(Input::Host(1, VOLUME, HostOp::Write(UNIT, Buffer::Length(UNIT as usize))));
    // A write of the second unit, with parity on the third node.
    let ts = bench.has_begun();
    let without_peer = Attendance { away: [PEER].into(), ..Attendance::default() };
    let mut map = with_snapshot(2, without_peer, behind());
    map.nodes[usize::from(PEER.0)].up = false;
    bench.enter(Arc::new(map), at(1));
    bench.hear(THIRD, Body::Answer { ts, standing: Standing::Prepared });
    let commits = |n: &(NodeId, Notice)| matches!(n.1, Notice::Commit(of) if of == ts);
    !bench.replies.is_empty() || bench.notices.iter().any(commits)
}

/// A repeated write happened, and another host wrote over it; then a snapshot was taken, which has both.
#[test]
fn a_disk_looks_for_writes_below_the_volume_too() {
    let mut bench = Bench::new();
    bench.enter(map(2, Attendance::default()), at(1));
    let range = Range { offset: 0, len: UNIT };
    bench.begin_write_of(at(1000), 0, range);
    while bench.disk_works().is_some() {}
    bench.hear_with(PEER, vec![Notice::Commit(at(1000))], None);
    while bench.disk_works().is_some() {}
    bench.hear_with(PEER, vec![Notice::Release(at(1000))], None);
    let mut recollects = |map: ClusterMap| {
        // After that the disk remembers no request.
        bench.enter(Arc::new(map), at(2000));
        bench.sent.clear();
        let request = RequestId::of_attempt(at(900));
        bench.hear(PEER, Body::Recall { id: 9, request, since: at(900), volume: VOLUME, range });
        while bench.disk_works().is_some() {}
        bench.sent.iter().find_map(|b| match b {
            Body::Recalled { recollection, .. } => Some(*recollection),
            _ => None,
        })
    };
    let whole = Attendance::default;
    assert_eq!(recollects(ClusterMap::clone(&map(3, whole()))), Some(Recollection::Touched));
    let later = with_snapshot(4, whole(), whole());
    assert_eq!(recollects(later), Some(Recollection::Touched));
}

/// Parity of the volume would go on top of what the snapshot shows, which is not decided yet. Without an order its timestamp
/// says nothing.
#[test]
fn nothing_goes_on_top_of_an_undecided_write_below_a_snapshot() {
    for (ordering, before) in
        [(Ordering::None, 100), (Ordering::None, 300), (Ordering::Timestamps, 100)]
    {
        let mut bench = Bench::new();
        let ordered = |mut map: ClusterMap| {
            for volume in map.volumes.values_mut() {
                Arc::make_mut(volume).policy.ordering = ordering;
            }
            Arc::new(map)
        };
        bench.enter(ordered(ClusterMap::clone(&map(2, Attendance::default()))), at(50));
        // This node has the parity of the third stripe.
        let range = Range { offset: 4 * UNIT, len: 2 * UNIT };
        let begin = |bench: &mut Bench, ts| {
            let data = Buffer::Length(UNIT as usize);
            let items = vec![Item { stripe: 2, part: Part::Result, data }];
            bench.hear(PEER, Body::Write { header: header_of(ts, range), items });
            while bench.disk_works().is_some() {}
        };
        let voted = |bench: &Bench, ts| {
            bench.has_sent(|b| matches!(b, Body::Vote { ts: t, .. } if *t == ts))
        };
        let (before, after) = (at(before), at(200));
        begin(&mut bench, before);
        assert!(voted(&bench, before));
        let whole = Attendance::default;
        bench.enter(ordered(with_snapshot(3, whole(), whole())), at(50));
        begin(&mut bench, after);
        assert!(!voted(&bench, after), "{ordering:?}: it may happen yet");
        bench.hear_with(PEER, vec![Notice::Abort(before)], None);
        while bench.disk_works().is_some() {}
        assert!(voted(&bench, after), "{ordering:?}: now it is decided");
    }
}
