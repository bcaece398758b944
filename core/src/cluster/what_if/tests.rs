use std::collections::BTreeMap;

use super::*;
use crate::cluster::{Place, place_volume};
use crate::layout::{Geometry, LayoutSpec};
use crate::units::SECTOR;

/// Nodes with disks of 1,000 sectors, and a volume that uses `used` sectors of the data on them.
fn map(nodes: usize, layout: &str, used: u64) -> ClusterMap {
    let info = |n| NodeInfo::new(n as u64 + 1, 1000);
    let mut map = ClusterMap { nodes: (0..nodes).map(info).collect(), ..Default::default() };
    let spec: LayoutSpec = layout.parse().unwrap();
    let geometry = Geometry::new(spec.over(spec.least_nodes()).unwrap(), SECTOR);
    let places: Vec<Place> = map.places("box");
    let extents = place_volume(&geometry, used * SECTOR, &places, &[], 20 * SECTOR).unwrap();
    let volume = Volume::new(VolumeId(1), "v", used * SECTOR, &spec, geometry, extents);
    map.volumes.insert(volume.id, Arc::new(volume));
    map
}

fn nothing_lacks(_: &Volume, _: usize, _: NodeId) -> bool {
    false
}

fn lose(map: &ClusterMap, nodes: &[u16]) -> Loss {
    loss(map, &nodes.iter().map(|n| NodeId(*n)).collect(), nothing_lacks)
}

/// Sectors that would be rebuilt on each disk.
fn sectors_on(rebuilt: &[Rebuilt]) -> BTreeMap<NodeId, u64> {
    let mut sectors = BTreeMap::new();
    rebuilt.iter().for_each(|r| *sectors.entry(r.to).or_default() += r.sectors);
    sectors
}

fn sectors_of(map: &ClusterMap, node: u16) -> u64 {
    map.used()[usize::from(node)] / SECTOR
}

#[test]
fn a_lost_node_is_rebuilt_on_the_others() {
    let map = map(5, "rs:2+1", 1000);
    let loss = lose(&map, &[1]);
    let fate = loss.fates[0];
    assert!(fate.is_affected && !fate.fails);
    assert_eq!((fate.survives, fate.survives_rebuilt), (0, 1));
    assert!(loss.homeless.is_empty());
    let on = sectors_on(&loss.rebuilt);
    assert_eq!(on.values().sum::<u64>(), sectors_of(&map, 1), "all that was on it");
    assert!(!on.contains_key(&NodeId(1)) && on.len() == 4, "{on:?}");
    // The others have it then.
    assert_eq!(loss.after.len(), 4);
    let used = |n: NodeId| loss.after.iter().find(|f| f.node == n).unwrap().used / SECTOR;
    assert!(on.iter().all(|(n, more)| used(*n) == sectors_of(&map, n.0) + more));
}

#[test]
fn what_a_layout_does_not_bear_is_said_and_not_rebuilt() {
    let map = map(5, "rs:2+1", 1000);
    let loss = lose(&map, &[1, 3]);
    assert!(loss.fates[0].fails && loss.rebuilt.is_empty() && loss.homeless.is_empty());
    // A node that is down already counts.
    let down = |_: &Volume, _: usize, node: NodeId| node == NodeId(3);
    let loss = super::loss(&map, &[NodeId(1)].into(), down);
    assert!(loss.fates[0].fails);
    let loss = super::loss(&map, &[NodeId(3)].into(), down);
    assert!(!loss.fates[0].fails, "it is the same loss");
}

#[test]
fn columns_without_a_place_are_said() {
    // Every extent has a column on each of the nodes.
    let narrow = map(3, "rs:2+1", 100);
    let loss = lose(&narrow, &[0]);
    assert_eq!(loss.homeless, [VolumeId(1)].into());
    assert_eq!((loss.fates[0].survives, loss.fates[0].survives_rebuilt), (0, 0));
    // With one more disk there is a place.
    let wider = with_disks(&narrow, &[AddedDisk { process: None, sectors: 1000 }]);
    let loss = lose(&wider, &[0]);
    assert!(loss.homeless.is_empty());
    assert_eq!(loss.fates[0].survives_rebuilt, 1);
    assert_eq!(sectors_on(&loss.rebuilt).into_keys().collect::<Vec<_>>(), [NodeId(3)]);
}

/// A disk gets a few extents at a time, so lost columns are spread over all disks that can take them.
#[test]
fn the_rebuild_is_spread() {
    let map = map(6, "rs:2+1", 1500);
    let loss = lose(&map, &[2]);
    let on = sectors_on(&loss.rebuilt);
    assert_eq!(on.values().sum::<u64>(), sectors_of(&map, 2));
    let (least, most) = (on.values().min().unwrap(), on.values().max().unwrap());
    assert!(on.len() >= 3 && most - least <= 40, "{on:?}");
}
