//! What holds of every map.

use std::collections::BTreeSet;

use super::ClusterMap;
use crate::units::NodeId;

impl ClusterMap {
    /// Checks what every map must hold: the columns of an extent are on different nodes that
    /// exist, no two places on a disk overlap, what is being filled is a column, and one graph of
    /// requests is kept in one way.
    ///
    /// # Panics
    ///
    /// If it does not.
    pub fn assert_sound(&self) {
        if let Err(what) = self.check() {
            panic!("{what}");
        }
    }

    /// What is wrong with the map, if anything: see [`ClusterMap::assert_sound`].
    pub fn check(&self) -> Result<(), String> {
        let mut taken: Vec<(NodeId, u64, u64)> = Vec::new();
        for volume in self.volumes.values() {
            for (n, extent) in volume.extents.iter().enumerate() {
                let nodes: BTreeSet<NodeId> = extent.columns.iter().map(|c| c.0).collect();
                let (id, width) = (volume.id, extent.columns.len());
                let exists = |node: &NodeId| self.nodes.get(usize::from(node.0)).is_some();
                let odd = |c: &usize| !extent.filling.contains_key(c);
                let wrong = if extent.leaving.keys().any(odd) {
                    "a column is copied to where it is not filled"
                } else if nodes.len() < width {
                    "two columns on a node"
                } else if !nodes.iter().all(exists) {
                    "a column on a node that does not exist"
                } else if extent.filling.keys().any(|c| *c >= width) {
                    "no such column to be filled"
                } else {
                    ""
                };
                if !wrong.is_empty() {
                    return Err(format!("{id:?}, extent {n}: {wrong}"));
                }
                let len = volume.extent_sectors(n);
                let places = extent.columns.iter().chain(extent.leaving.values());
                taken.extend(places.map(|c| (c.0, c.1, len)));
            }
        }
        let forms = self.volumes.values().filter(|v| v.is_sequenced()).map(|v| v.policy.sequencer);
        if forms.collect::<BTreeSet<_>>().len() > 1 {
            return Err("the sequencers of two volumes are of different forms".to_string());
        }
        taken.sort_unstable();
        let overlap = |p: &&[(NodeId, u64, u64)]| p[0].0 == p[1].0 && p[0].1 + p[0].2 > p[1].1;
        match taken.windows(2).find(overlap) {
            Some(pair) => Err(format!("two extents overlap on a disk: {pair:?}")),
            None => Ok(()),
        }
    }
}
