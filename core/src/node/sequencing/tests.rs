use super::*;
use crate::cluster::{Extent, NodeInfo};
use crate::layout::{Geometry, LayoutSpec};
use crate::order::Ordering;

/// Two nodes and a volume with a sequencer, of which the first is the primary and the second the
/// backup.
fn map(epoch: u64) -> Arc<ClusterMap> {
    let spec: LayoutSpec = "raid1".parse().unwrap();
    let geometry = Geometry::new(spec.over(2).unwrap(), 4096);
    let extents = vec![Extent::new(0, vec![(NodeId(0), 0), (NodeId(1), 0)])];
    let mut volume = Volume::new(VolumeId(1), "v", 8192, &spec, geometry, extents);
    volume.policy.ordering = Ordering::Sequencer;
    let volumes = BTreeMap::from([(volume.id, Arc::new(volume))]);
    let nodes = vec![NodeInfo::new(1, 100); 2];
    Arc::new(ClusterMap { epoch, nodes, volumes, ..ClusterMap::default() })
}

#[test]
fn a_table_that_comes_again_does_not_undo_what_was_recorded_since() {
    let (primary, config) = (NodeId(0), NodeConfig::default());
    let mut outbox = Outbox::new(NodeId(1), config.notice_delay);
    let mut backup = Sequencing::new(NodeId(1), config);
    let id = RequestId { host: HostId(1), number: 1 };
    let take = || {
        let mut ledger = Ledger::default();
        ledger.open(id, primary);
        SequenceMessage::Take { report: ledger.report() }
    };
    backup.enter(&map(1), &mut outbox);
    backup.message(primary, take(), &mut outbox);
    assert!(backup.table.has_open());
    backup.message(primary, SequenceMessage::Close { id, done: true }, &mut outbox);
    backup.message(primary, take(), &mut outbox);
    assert!(!backup.table.has_open() && backup.table.is_over(id));
    // That of the next epoch counts.
    backup.enter(&map(2), &mut outbox);
    backup.message(primary, take(), &mut outbox);
    assert!(backup.table.has_open());
}

#[test]
fn requests_without_a_place_go_on_though_one_of_them_waits_for_long() {
    let mut config = NodeConfig::default();
    config.sequencer.ahead = 8;
    let mut node = Sequencing::new(NodeId(0), config);
    let first = node.own_place(1_000_000);
    let claim = Claim { reach: reach_of(VolumeId(1), &HostOp::Flush), place: first.clone() };
    let (progress, asked) = (Progress::Waiting, 0);
    let (volume, op) = (VolumeId(1), Some(HostOp::Flush));
    node.pending
        .insert(first.id, Pending { number: 1, volume, op, claim, central: true, progress, asked });
    let mut seen = BTreeSet::from([first.id]);
    for _ in 0..100 {
        let place = node.own_place(1_000_000);
        assert!(seen.insert(place.id), "{:?} comes twice", place.id);
        assert!(place.id.number - place.oldest < 8);
        let alone = place.id.host != first.id.host && place.oldest == place.id.number;
        assert!(alone || place.oldest == first.id.number);
    }
}
