//! What stands on the nodes' disks, where there is room, and in which failure domains.

use std::ops::Range;
use std::sync::Arc;

use super::{APART, APART_BY_NODE, ClusterMap, NodeInfo, Volume};
use crate::cluster::placement::Place;
use crate::units::{NodeId, SECTOR};

impl ClusterMap {
    /// How many columns are on a node's disk.
    pub fn columns_on(&self, node: NodeId) -> usize {
        let extents = self.volumes.values().flat_map(|v| &v.extents);
        extents.filter(|e| e.place_on(node).is_some()).count()
    }

    /// Bytes of each node's disk that are reserved for volumes. Thin volumes reserve none.
    pub fn used(&self) -> Vec<u64> {
        let mut used = vec![0; self.nodes.len()];
        for volume in self.volumes.values().filter(|v| !v.is_thin()) {
            for (n, extent) in volume.extents.iter().enumerate() {
                let places = extent.columns.iter().chain(extent.leaving.values());
                for (node, _) in places {
                    used[usize::from(node.0)] += volume.extent_sectors(n) * SECTOR;
                }
            }
        }
        used
    }

    /// How many data sectors a node's disk must have for what the map has put on it.
    pub fn needed_on(&self, node: NodeId) -> u64 {
        let ends = |v: &Arc<Volume>| {
            let end = |n: usize| Some(v.extents[n].place_on(node)?.1 + v.extent_sectors(n));
            (0..v.extents.len()).filter_map(end).max()
        };
        self.volumes.values().filter(|v| !v.is_thin()).filter_map(ends).max().unwrap_or(0)
    }

    /// The sectors of a node's disk that volumes have, in order, with those that columns leave.
    pub fn sectors_on(&self, node: NodeId) -> Vec<Range<u64>> {
        let of = |v: &Arc<Volume>| {
            let here = |n: usize| {
                let (_, first) = v.extents[n].place_on(node)?;
                Some(first..first + v.extent_sectors(n))
            };
            (0..v.extents.len()).filter_map(here).collect::<Vec<_>>()
        };
        let mut sectors: Vec<Range<u64>> = self.volumes.values().flat_map(of).collect();
        sectors.sort_unstable_by_key(|s| s.start);
        sectors
    }

    /// Whether a node's disk, of this incarnation and with so many data sectors, is the one that the map knows, or has room
    /// for what the map has put on that one. While it was being exchanged for a smaller one more may have been put there.
    pub fn has_room_on(&self, node: NodeId, (disk, sectors): (u64, u64)) -> bool {
        let known = self.nodes.get(usize::from(node.0));
        known.is_none_or(|info| info.disk == disk) || sectors >= self.needed_on(node)
    }

    /// The failure domains of the nodes by a label: nodes with the same number are in the same
    /// one. Without the label the nodes of a process are one; but by [`APART_BY_NODE`] each node is
    /// one by itself.
    pub fn domains(&self, label: &str) -> Vec<usize> {
        let value = |n: usize| self.nodes[n].home.as_ref()?.labels.get(label);
        let process = |n: usize| usize::from(self.process_of(NodeId(n as u16)).0);
        let domain = |n: usize| match value(n) {
            Some(value_of_n) => (0..n).find(|m| value(*m) == Some(value_of_n)).unwrap_or(n),
            None if label == APART_BY_NODE => n,
            None => process(n),
        };
        (0..self.nodes.len()).map(domain).collect()
    }

    /// Where new extents can go: of each node the room on its disk, and its failure domain by a
    /// label. There is no room on nodes that have left or are not expected back.
    pub fn places(&self, label: &str) -> Vec<Place> {
        let room = |info: &NodeInfo| match info.given_up || info.draining || info.removed {
            true => 0,
            false => info.sectors,
        };
        let domains = self.domains(label).into_iter().zip(self.domains(APART));
        let place = |(info, (domain, in_box)): (&NodeInfo, (usize, usize))| Place {
            sectors: room(info),
            domain,
            in_box,
            at: info.position(),
        };
        self.nodes.iter().zip(domains).map(place).collect()
    }
}
