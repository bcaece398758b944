//! What holds of every map. Whoever makes a map asks before it is used, whoever reads one before it is believed.

use std::collections::{BTreeMap, BTreeSet};

use super::{Attendance, ClusterMap, Extent, NodeInfo, TimeAway, Volume};
use crate::units::{NodeId, VolumeId};

impl ClusterMap {
    /// Checks what every map must hold.
    ///
    /// # Panics
    ///
    /// If it does not.
    pub fn assert_sound(&self) {
        if let Err(what) = self.check() {
            panic!("{what}");
        }
    }

    /// What is wrong with the map, if anything: nodes, volumes and extents name one another, the columns of an extent
    /// are on different nodes, no two places on a disk overlap, what is being filled is a column, and one graph of
    /// requests is kept in one way.
    pub fn check(&self) -> Result<(), String> {
        for (n, node) in self.nodes.iter().enumerate() {
            if let Some(wrong) = self.wrong_with_node(node) {
                return Err(format!("node {n}: {wrong}"));
            }
        }
        for (id, volume) in &self.volumes {
            let wrong = self.wrong_with_volume(*id, volume);
            if let Some(wrong) = wrong.or_else(|| self.wrong_with_lineage(volume)) {
                return Err(format!("{id:?}: {wrong}"));
            }
            for (n, extent) in volume.extents.iter().enumerate() {
                if let Some(wrong) = self.wrong_with_extent(extent) {
                    return Err(format!("{id:?}, extent {n}: {wrong}"));
                }
            }
        }
        for (id, attendance) in &self.attendance {
            if let Some(wrong) = self.wrong_with_attendance(*id, attendance) {
                return Err(format!("{id:?}: {wrong}"));
            }
        }
        let forms = self.volumes.values().filter(|v| v.is_sequenced()).map(|v| v.policy.sequencer);
        if forms.collect::<BTreeSet<_>>().len() > 1 {
            return Err("the sequencers of two volumes are of different forms".to_string());
        }
        self.wrong_with_hosts().map_or(Ok(()), Err)?;
        if let Some(wrong) = self.volumes.values().find_map(|v| v.reservations.wrong()) {
            return Err(wrong);
        }
        self.check_places()
    }

    fn exists(&self, node: NodeId) -> bool {
        usize::from(node.0) < self.nodes.len()
    }

    fn wrong_with_node(&self, node: &NodeInfo) -> Option<&'static str> {
        if node.removed && node.up {
            Some("it is up, and has left permanently")
        } else if node.process.is_some_and(|process| !self.exists(process)) {
            Some("its process has no number of a node")
        } else {
            None
        }
    }

    fn wrong_with_volume(&self, id: VolumeId, volume: &Volume) -> Option<&'static str> {
        let firsts = || volume.extents.iter().map(|e| e.first);
        let ascend = firsts().zip(firsts().skip(1)).all(|(a, b)| a < b);
        if volume.id != id {
            Some("it is stored under another number")
        } else if volume.visible > volume.size {
            Some("hosts see more of it than its size")
        } else if volume.is_deleted() && volume.visible > 0 {
            Some("hosts see it, and it is deleted")
        } else if volume.extents.is_empty() && volume.size > 0 {
            Some("it has no extents")
        } else if firsts().next().is_some_and(|first| first != 0) || !ascend {
            Some("its extents do not follow one another from the first stripe on")
        } else if firsts().skip(1).last().is_some_and(|first| first >= volume.stripes()) {
            Some("an extent begins past its end")
        } else if volume.extents.iter().any(|e| e.columns.len() != volume.geometry.layout.width()) {
            Some("an extent has not as many columns as its layout")
        } else {
            None
        }
    }

    fn wrong_with_extent(&self, extent: &Extent) -> Option<&'static str> {
        // Maps have many extents, which have few columns: no set of them is made.
        let nodes = || extent.columns.iter().map(|c| c.0);
        let width = extent.columns.len();
        let stands_twice = |(n, node)| nodes().take(n).any(|other| other == node);
        let leaves = |node: &NodeId| extent.leaving.values().any(|place| place.0 == *node);
        if extent.leaving.keys().any(|c| !extent.filling.contains_key(c)) {
            Some("a column is copied to where it is not filled")
        } else if nodes().enumerate().any(stands_twice) {
            Some("two columns on a node")
        } else if nodes().any(|node| leaves(&node)) {
            Some("a column is copied from a node that has another")
        } else if !nodes().chain(extent.leaving.values().map(|p| p.0)).all(|n| self.exists(n)) {
            Some("a column on a node that does not exist")
        } else if extent.filling.keys().any(|c| *c >= width) {
            Some("no such column to be filled")
        } else {
            None
        }
    }

    fn wrong_with_attendance(&self, id: VolumeId, of: &Attendance) -> Option<&'static str> {
        let times = of.stale_since.keys().chain(of.counts_from.keys());
        let mut nodes = of.away.iter().chain(&of.forgot).chain(times).chain(of.times_away.keys());
        if !self.volumes.contains_key(&id) {
            Some("nodes attend a volume that does not exist")
        } else if !nodes.all(|n| self.exists(*n)) {
            Some("a node attends that does not exist")
        } else if !of.times_away.iter().all(|(node, times)| follow(times, of.away.contains(node))) {
            Some("the times that a node was away do not follow one another")
        } else {
            None
        }
    }

    /// No two places on a disk overlap.
    fn check_places(&self) -> Result<(), String> {
        let mut taken: BTreeMap<NodeId, Vec<(u64, u64)>> = BTreeMap::new();
        for volume in self.volumes.values() {
            for (n, extent) in volume.extents.iter().enumerate() {
                let len = volume.extent_sectors(n);
                for (node, first) in extent.columns.iter().chain(extent.leaving.values()) {
                    taken.entry(*node).or_default().push((*first, len));
                }
            }
        }
        for (node, mut places) in taken {
            // They are mostly in order already.
            places.sort();
            let overlap = |pair: &&[(u64, u64)]| pair[0].0 + pair[0].1 > pair[1].0;
            if let Some(pair) = places.windows(2).find(overlap) {
                return Err(format!("two extents overlap on the disk of {node:?}: {pair:?}"));
            }
        }
        Ok(())
    }
}

/// Whether each begins after the one before has ended, and only the last of a node that is away goes on.
fn follow(times: &[TimeAway], is_away: bool) -> bool {
    let ends = |a: &TimeAway| a.until.is_some_and(|until| a.from < until);
    let ascend = |pair: &[TimeAway]| pair[0].until.is_some_and(|until| until <= pair[1].from);
    let Some((last, earlier)) = times.split_last() else { return false };
    earlier.iter().all(ends)
        && times.windows(2).all(ascend)
        && (ends(last) || (is_away && last.until.is_none()))
}
