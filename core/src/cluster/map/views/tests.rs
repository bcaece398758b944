//! How many snapshots a volume may have.

use super::*;
use crate::cluster::{Change, NodeInfo};
use crate::layout::{Geometry, LayoutSpec};

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
