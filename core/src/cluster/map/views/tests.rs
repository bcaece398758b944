//! How many snapshots a volume may have, and how many numbers there are.

use super::*;
use crate::cluster::{Change, NodeInfo};
use crate::layout::{Geometry, LayoutSpec};
use crate::units::LAST_THIN;

const V: VolumeId = VolumeId(0);

#[test]
fn a_volume_has_so_many_snapshots_and_no_more() {
    let nodes = (1..4).map(|disk| NodeInfo::new(disk, 1000)).collect();
    let mut map = ClusterMap { next_volume: 1, nodes, ..ClusterMap::default() };
    let spec = LayoutSpec::default();
    let geometry = Geometry::new(spec.over(3).unwrap(), 4096);
    let extents = vec![Extent::new(0, (0..3).map(|node| (NodeId(node), 0)).collect())];
    map.volumes.insert(V, Arc::new(Volume::new(V, "v", 8192, &spec, geometry, extents)));
    let take = |map: &mut ClusterMap, name: &str| {
        *map = Change::TakeSnapshots(vec![V], name.to_string(), 7).made_on(map);
        map.snapshots_of(V).len()
    };
    for n in 1..=MOST_SNAPSHOTS {
        assert_eq!(map.check_snapshot(V, &n.to_string()), Ok(()));
        assert_eq!(take(&mut map, &n.to_string()), n);
    }
    assert_eq!(map.check_snapshot(V, "more"), Err(ViewError::TooMany));
    assert_eq!(take(&mut map, "more"), MOST_SNAPSHOTS, "nothing changes");
    // A clone has its own.
    let first = map.snapshots_of(V)[0].id;
    map = Change::CloneVolume(first, "clone".to_string()).made_on(&map);
    let clone = map.volumes.values().find(|volume| volume.name == "clone").unwrap().id;
    assert_eq!(map.check_snapshot(clone, "more"), Ok(()));
    // The place of one that is deleted is free, also before it is merged.
    map = Change::DeleteVolume(map.snapshots_of(V)[9].id, 8).made_on(&map);
    assert_eq!(take(&mut map, "more"), MOST_SNAPSHOTS);
    assert_eq!(map.check_snapshot(V, "yet one"), Err(ViewError::TooMany));
}

fn after(given: u32) -> ClusterMap {
    ClusterMap { next_volume: given, ..ClusterMap::default() }
}

#[test]
fn numbers_given_since_an_older_map_are_passed_over() {
    for (given, next) in [
        (0, 100_000),
        (7, 100_007),
        (LAST_THIN.0 - 10, LAST_THIN.0 - 5),
        (LAST_THIN.0, LAST_THIN.0),
        (u32::MAX, u32::MAX),
    ] {
        let mut map = after(given);
        map.pass_over_forgotten_numbers();
        assert_eq!(map.next_volume, next);
    }
}

#[test]
fn numbers_run_out() {
    let all = LAST_THIN.0;
    assert_eq!((after(7).numbers(), after(u32::MAX).numbers()), ((7, all), (all, all)));
    assert_eq!(after(all - 1).has_number(1), Ok(()));
    assert_eq!(after(all).has_number(1), Err(ViewError::NoNumber));
}
