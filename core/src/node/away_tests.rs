//! Marks of parity, and nodes that have been away: what a node that catches up believes.

use std::collections::BTreeMap;

use super::test_bench::{Bench, PEER, THIRD, UNIT, US, VOLUME, at, header_of, map};
use super::*;
use crate::cluster::{Attendance, Extent, Volume};
use crate::layout::{ColumnRole, Geometry, LayoutSpec};
use crate::plan::{Part, Range};
use crate::units::MILLIS;

const FOURTH: NodeId = NodeId(3);
const DOUBLE: VolumeId = VolumeId(2);

/// Four nodes and a volume with two parities. The first stripe has its data at this node and the peer.
fn double(epoch: Epoch, attendance: Attendance) -> Arc<ClusterMap> {
    let spec: LayoutSpec = "raid6".parse().unwrap();
    let geometry = Geometry::new(spec.over(4).unwrap(), UNIT);
    let columns = [THIRD, US, PEER, FOURTH];
    let is_data = |seat| matches!(geometry.layout.role(0, seat), ColumnRole::Data(_));
    assert_eq!([0, 1, 2, 3].map(is_data), [false, true, true, false]);
    let columns = columns.map(|node| (node, 0)).to_vec();
    let extents = vec![Extent::new(0, columns)];
    let volume = Volume::new(DOUBLE, "double", 4 * UNIT, &spec, geometry, extents);
    let mut map = ClusterMap::clone(&map(epoch, Attendance::default()));
    map.nodes.push(map.nodes[0].clone());
    map.volumes = BTreeMap::from([(DOUBLE, Arc::new(volume))]);
    map.attendance = BTreeMap::from([(DOUBLE, attendance)]);
    map.assert_sound();
    Arc::new(map)
}

/// A write at 100 changed what this node has. Both it and the third were away, so the fourth alone has it, in parity.
/// The third marked its parity at 30. To the node that catches up that mark would say that nobody changed its data without
/// it, if the third had been there all the time.
#[test]
fn a_mark_proves_nothing_if_its_disk_was_away_too() {
    for is_away in [false, true] {
        let mut bench = Bench::new();
        let since: BTreeMap<NodeId, Timestamp> = match is_away {
            false => BTreeMap::from([(US, at(50))]),
            true => BTreeMap::from([(US, at(50)), (THIRD, at(40))]),
        };
        let counts_from = since.keys().map(|node| (*node, at(150))).collect();
        let attendance = Attendance { stale_since: since, counts_from, ..Attendance::default() };
        bench.enter(double(2, attendance), at(150));
        let sector = |seat, time| {
            vec![(DOUBLE, vec![DirtySector { stripe: 0, seat, within: 0, version: at(time) }])]
        };
        let answers = [
            (PEER, vec![], vec![]),
            (THIRD, vec![], sector(0, 30)),
            (FOURTH, sector(3, 100), vec![]),
        ];
        for (node, found, marked) in answers {
            bench.hear(node, Body::DirtyReply { found, marked, owed: vec![] });
        }
        for _ in 0..20 {
            if bench.node.stale_sectors().is_none() && bench.disk_works().is_none() {
                bench.now += 100 * MILLIS;
                bench.handle(Input::Timer(Timer::Tick));
            }
        }
        let stale = bench.node.stale_sectors();
        assert_eq!(stale, Some(u64::from(is_away)), "the third was away: {is_away}");
    }
}

/// A write at 100 was the oldest that was unsettled when this node left, and changed its parity. Other parity was only
/// marked, and the data is on a disk that missed it: then this disk alone has it, and must be believed.
#[test]
fn parity_that_shows_the_only_write_it_may_have_missed_is_believed() {
    let (stripe, ts) = (2, at(100));
    for (marked, stale) in [(ts, 0), (at(101), 1)] {
        let mut bench = Bench::new();
        let range = Range { offset: 4 * UNIT, len: 2 * UNIT };
        let data = crate::Buffer::Length(UNIT as usize);
        let items = vec![Item { stripe, part: Part::Result, data }];
        let header = header_of(ts, range);
        bench.hear(PEER, Body::Write { header, items });
        while bench.disk_works().is_some() {}
        bench.hear_with(PEER, vec![Notice::Commit(ts)], None);
        while bench.disk_works().is_some() {}
        let attendance = Attendance {
            stale_since: BTreeMap::from([(US, ts)]),
            counts_from: BTreeMap::from([(US, at(150))]),
            ..Attendance::default()
        };
        bench.enter(map(2, attendance), at(150));
        let mark = DirtySector { stripe, seat: 1, within: 0, version: marked };
        let marked = vec![(VOLUME, vec![mark])];
        bench.hear(PEER, Body::DirtyReply { found: vec![], marked, owed: vec![] });
        bench.hear(THIRD, Body::DirtyReply { found: vec![], marked: vec![], owed: vec![] });
        for _ in 0..20 {
            if bench.node.stale_sectors().is_none() && bench.disk_works().is_none() {
                bench.now += 100 * MILLIS;
                bench.handle(Input::Timer(Timer::Tick));
            }
        }
        assert_eq!(bench.node.stale_sectors(), Some(stale), "{mark:?}");
    }
}
