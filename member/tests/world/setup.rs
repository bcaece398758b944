//! The first map, and an encoding of maps that is good enough here.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use weft_core::cluster::{ClusterMap, NodeInfo, Place, Volume, place_volume};
use weft_core::layout::{Geometry, LayoutSpec};
use weft_core::units::VolumeId;
use weft_member::MapCodec;

/// Maps by number, in place of an encoding.
#[derive(Default)]
pub struct Table(Mutex<Vec<ClusterMap>>);

impl MapCodec for Table {
    fn encode(&self, map: &ClusterMap) -> Vec<u8> {
        let mut maps = self.0.lock().unwrap();
        let n = maps.iter().position(|m| m == map).unwrap_or(maps.len());
        if n == maps.len() {
            maps.push(map.clone());
        }
        (n as u32).to_le_bytes().to_vec()
    }

    fn decode(&self, bytes: &[u8]) -> Option<ClusterMap> {
        let n = u32::from_le_bytes(bytes.try_into().ok()?);
        self.0.lock().unwrap().get(n as usize).cloned()
    }
}

/// Nodes that take part and one volume over all of them.
pub fn first_map(nodes: usize) -> ClusterMap {
    let spec: LayoutSpec = "raid5".parse().unwrap();
    let geometry = Geometry::new(spec.over(nodes).unwrap(), 65536);
    let disks = Place::apart(&vec![20_000; nodes]);
    let extents = place_volume(&geometry, 1 << 20, &disks, &[], 16 << 20).unwrap();
    let volume = Volume::new(VolumeId(0), "v", 1 << 20, &spec, geometry, extents);
    let volumes = BTreeMap::from([(VolumeId(0), Arc::new(volume))]);
    ClusterMap { nodes: vec![NodeInfo::unseen(); nodes], volumes, ..ClusterMap::default() }
}
