//! The cluster map: nodes, volumes, their stripe maps, and the epoch.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::layout::Geometry;
use crate::plan::Policy;
use crate::units::{ColumnSet, Epoch, NodeId, SECTOR, Timestamp, VolumeId};

/// What the cluster knows of a node and its disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeInfo {
    /// Whether it takes part.
    pub up: bool,
    /// Whether it is not expected back: what was on it is rebuilt on other disks.
    pub given_up: bool,
    /// The incarnation of its disk, 0 before it was first seen. One with another incarnation is
    /// empty.
    pub disk: u64,
    /// Data sectors of its disk.
    pub sectors: u64,
}

impl NodeInfo {
    /// A node that takes part, with this disk.
    pub fn new(disk: u64, sectors: u64) -> NodeInfo {
        NodeInfo { up: true, given_up: false, disk, sectors }
    }

    /// A node whose disk has not been seen.
    pub fn unseen() -> NodeInfo {
        NodeInfo::new(0, 0)
    }
}

/// Which nodes a volume goes on without, and what its nodes have missed of it.
///
/// A volume is *asleep* while more of its nodes are down or behind than its layout bears.
/// Then nothing is written to it and nothing is decided, so those that left last have missed
/// nothing: when they are back the volume goes on where it stopped, as after a power cut.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attendance {
    /// The nodes that it goes on without. One that is down and not among these is what the
    /// volume waits for.
    pub away: BTreeSet<NodeId>,
    /// Of a disk that missed writes: the timestamp of the first that it may have missed.
    pub stale_since: BTreeMap<NodeId, Timestamp>,
    /// Writes before this one were decided without the node.
    pub counts_from: BTreeMap<NodeId, Timestamp>,
}

/// A run of stripes kept on one set of disks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extent {
    /// For each column the disk, and the data sector where its units begin.
    pub columns: Vec<(NodeId, u64)>,
    /// Columns that have come to a disk which does not have their content yet. They take part in
    /// writes from the given time on; what is older is being rebuilt.
    pub filling: BTreeMap<usize, Timestamp>,
}

impl Extent {
    /// An extent whose columns are all in place.
    pub fn new(columns: Vec<(NodeId, u64)>) -> Extent {
        Extent { columns, filling: BTreeMap::new() }
    }

    /// Since when a node's disk is being filled with its column, if it is.
    pub fn filling_on(&self, node: NodeId) -> Option<Timestamp> {
        self.filling.get(&self.column_of(node)?).copied()
    }

    /// The column that a node's disk holds, if any.
    pub fn column_of(&self, node: NodeId) -> Option<usize> {
        self.columns.iter().position(|c| c.0 == node)
    }
}

/// A volume and its stripe map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volume {
    /// Its number.
    pub id: VolumeId,
    /// Its name.
    pub name: String,
    /// Its size in bytes.
    pub size: u64,
    /// The layout's name.
    pub layout: String,
    /// Where in a stripe everything is.
    pub geometry: Geometry,
    /// How its writes are planned and decided.
    pub policy: Policy,
    /// Stripes in each extent (the last may have fewer).
    pub extent_stripes: u64,
    /// The stripe map.
    pub extents: Vec<Extent>,
}

impl Volume {
    /// The nodes that hold parts of it.
    pub fn nodes(&self) -> BTreeSet<NodeId> {
        self.extents.iter().flat_map(|e| e.columns.iter().map(|c| c.0)).collect()
    }

    /// Whether in some extent more columns are being filled or on such nodes than the layout
    /// bears.
    pub fn too_many(&self, which: impl Fn(NodeId) -> bool) -> bool {
        let bad = |e: &Extent, c: usize| e.filling.contains_key(&c) || which(e.columns[c].0);
        let many = |e: &Extent| (0..e.columns.len()).filter(|c| bad(e, *c)).count();
        self.extents.iter().any(|e| many(e) > self.geometry.layout.parity)
    }

    /// Stripes in all.
    pub fn stripes(&self) -> u64 {
        self.size.div_ceil(self.geometry.stripe_bytes())
    }

    /// The number of the extent that holds `stripe`.
    pub fn extent_of(&self, stripe: u64) -> usize {
        (stripe / self.extent_stripes) as usize
    }

    /// The extent that holds `stripe`.
    pub fn extent(&self, stripe: u64) -> &Extent {
        &self.extents[self.extent_of(stripe)]
    }

    /// Sectors in a stripe unit.
    pub fn unit_sectors(&self) -> u64 {
        self.geometry.unit / SECTOR
    }

    /// The data sector, on the disk of `column`, where its unit of `stripe` begins.
    pub fn sector(&self, stripe: u64, column: usize) -> u64 {
        let base = self.extent(stripe).columns[column].1;
        base + stripe % self.extent_stripes * self.unit_sectors()
    }

    /// Sectors that one column of extent number `n` takes.
    pub fn extent_sectors(&self, n: usize) -> u64 {
        let first = n as u64 * self.extent_stripes;
        self.extent_stripes.min(self.stripes() - first) * self.unit_sectors()
    }

    /// The stripe, and the sector in its unit, that stand at `sector` of a node's disk.
    pub fn stripe_at(&self, node: NodeId, sector: u64) -> Option<(u64, usize, u64)> {
        self.extents.iter().enumerate().find_map(|(n, extent)| {
            let column = extent.column_of(node)?;
            let within = sector.checked_sub(extent.columns[column].1)?;
            (within < self.extent_sectors(n)).then(|| {
                let stripe = n as u64 * self.extent_stripes + within / self.unit_sectors();
                (stripe, column, within % self.unit_sectors())
            })
        })
    }
}

/// The nodes, the volumes, and the number of this state of affairs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterMap {
    /// Grows with every change.
    pub epoch: Epoch,
    /// By node number.
    pub nodes: Vec<NodeInfo>,
    /// By volume number.
    pub volumes: BTreeMap<VolumeId, Arc<Volume>>,
    /// By volume number, if any of its nodes has been away.
    pub attendance: BTreeMap<VolumeId, Attendance>,
}

impl ClusterMap {
    fn is_away(&self, volume: VolumeId, node: NodeId) -> bool {
        self.attendance.get(&volume).is_some_and(|a| a.away.contains(&node))
    }

    /// The columns of an extent of `volume` that cannot be used.
    pub fn lost(&self, volume: &Volume, extent: usize) -> ColumnSet {
        let columns = &volume.extents[extent].columns;
        let gone = |c: &usize| {
            let node = columns[*c].0;
            !self.is_up(node) || self.is_away(volume.id, node)
        };
        (0..columns.len()).filter(gone).collect()
    }

    /// Whether nothing can be written to a volume or decided of it, because it waits for nodes.
    pub fn is_asleep(&self, volume: &Volume) -> bool {
        let awaited = |n: NodeId| !self.is_up(n) && !self.is_away(volume.id, n);
        volume.extents.iter().any(|e| e.columns.iter().any(|c| awaited(c.0)))
    }

    /// Whether `node` has a say in whether the write `ts` to an extent happens.
    pub fn has_say(&self, volume: &Volume, extent: usize, node: NodeId, ts: Timestamp) -> bool {
        let extent = &volume.extents[extent];
        if extent.column_of(node).is_none() || extent.filling_on(node).is_some_and(|f| f > ts) {
            return false;
        }
        let Some(a) = self.attendance.get(&volume.id) else { return true };
        !a.away.contains(&node) && a.counts_from.get(&node).is_none_or(|from| *from <= ts)
    }

    /// Those of a write's participants that have a say in whether it happens.
    pub fn voters(
        &self,
        volume: &Volume,
        extent: usize,
        participants: &[(usize, NodeId)],
        ts: Timestamp,
    ) -> Vec<NodeId> {
        let holds = |p: &&(usize, NodeId)| volume.extents[extent].columns[p.0].0 == p.1;
        let says = |p: &&(usize, NodeId)| self.has_say(volume, extent, p.1, ts);
        participants.iter().filter(holds).filter(says).map(|p| p.1).collect()
    }

    /// If a disk may have missed writes to an extent: since when.
    pub fn behind_since(&self, volume: &Volume, extent: usize, node: NodeId) -> Option<Timestamp> {
        if volume.extents[extent].filling_on(node).is_some() {
            return Some(Timestamp::ZERO);
        }
        volume.extents[extent].column_of(node)?;
        self.attendance.get(&volume.id)?.stale_since.get(&node).copied()
    }

    /// Whether a disk may have missed writes to any volume, or is being filled.
    pub fn is_stale(&self, node: NodeId) -> bool {
        let filling = |v: &Arc<Volume>| v.extents.iter().any(|e| e.filling_on(node).is_some());
        self.attendance.values().any(|a| a.stale_since.contains_key(&node))
            || self.volumes.values().any(filling)
    }

    /// Whether a node takes part.
    pub fn is_up(&self, node: NodeId) -> bool {
        self.nodes.get(node.0 as usize).is_some_and(|n| n.up)
    }

    /// The nodes that take part.
    pub fn up(&self) -> impl Iterator<Item = NodeId> + '_ {
        (0..self.nodes.len() as u16).map(NodeId).filter(|n| self.is_up(*n))
    }

    /// Checks what every map must hold: the columns of an extent are on different nodes that
    /// exist, no two places on a disk overlap, and what is being filled is a column.
    ///
    /// # Panics
    ///
    /// If it does not.
    pub fn assert_sound(&self) {
        let mut taken: Vec<(NodeId, u64, u64)> = Vec::new();
        for volume in self.volumes.values() {
            for (n, extent) in volume.extents.iter().enumerate() {
                let nodes: BTreeSet<NodeId> = extent.columns.iter().map(|c| c.0).collect();
                let (id, width) = (volume.id, extent.columns.len());
                assert_eq!(nodes.len(), width, "{id:?}, extent {n}: two columns on a node");
                let known = nodes.iter().all(|node| usize::from(node.0) < self.nodes.len());
                assert!(known, "{id:?}, extent {n}: a column on a node that does not exist");
                let filled = extent.filling.keys().all(|c| *c < width);
                assert!(filled, "{id:?}, extent {n}: no such column to be filled");
                let len = volume.extent_sectors(n);
                taken.extend(extent.columns.iter().map(|c| (c.0, c.1, len)));
            }
        }
        taken.sort_unstable();
        for pair in taken.windows(2) {
            let apart = pair[0].0 != pair[1].0 || pair[0].1 + pair[0].2 <= pair[1].1;
            assert!(apart, "two extents overlap on a disk: {pair:?}");
        }
    }

    /// A volume by name; the empty name means the first.
    pub fn volume_named(&self, name: &str) -> Option<&Arc<Volume>> {
        self.volumes.values().find(|v| name.is_empty() || v.name == name)
    }
}

/// A volume that cannot be placed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlacementError {
    /// Not enough room.
    #[error(
        "a volume of {asked} bytes does not fit; with this layout at most {free} bytes are free"
    )]
    NoRoom {
        /// The size asked for.
        asked: u64,
        /// The largest size that would fit.
        free: u64,
    },
}

/// Bytes of an extent's column, for a volume that has fewer columns than there are disks.
pub const EXTENT_COLUMN_BYTES: u64 = 16 << 20;

/// Chooses disks and places for a new volume's extents, given each disk's data sectors and
/// the volumes already there. Extents go to the disks with the most room, so that a layout
/// with fewer columns than disks spreads over all of them; each has `column_bytes` on a disk
/// (see [`EXTENT_COLUMN_BYTES`]). Returns the stripes in an extent and the extents.
pub fn place_volume(
    geometry: &Geometry,
    size: u64,
    disks: &[u64],
    others: &[&Volume],
    column_bytes: u64,
) -> Result<(u64, Vec<Extent>), PlacementError> {
    let stripe = geometry.stripe_bytes();
    let gaps: Vec<Vec<(u64, u64)>> =
        (0..disks.len()).map(|d| free_runs(NodeId(d as u16), disks[d], others)).collect();
    place(geometry, size.div_ceil(stripe), &gaps, column_bytes).ok_or_else(|| {
        // The most stripes that fit, by bisection.
        let (mut fit, mut too_many) = (0, size.div_ceil(stripe));
        while fit + 1 < too_many {
            let middle = fit.midpoint(too_many);
            match place(geometry, middle, &gaps, column_bytes) {
                Some(_) => fit = middle,
                None => too_many = middle,
            }
        }
        PlacementError::NoRoom { asked: size, free: fit * stripe }
    })
}

/// Places so many stripes into the free runs of the disks, if they fit.
fn place(
    geometry: &Geometry,
    stripes: u64,
    free: &[Vec<(u64, u64)>],
    column_bytes: u64,
) -> Option<(u64, Vec<Extent>)> {
    let width = geometry.layout.width();
    let unit = geometry.unit / SECTOR;
    let spread = width < free.len();
    let extent_stripes =
        if spread { (column_bytes / geometry.unit).max(1) } else { stripes.max(1) };
    let mut gaps = free.to_vec();
    let mut extents = Vec::new();
    let mut placed = 0;
    while placed < stripes {
        let want = extent_stripes.min(stripes - placed) * unit;
        let room = |runs: &Vec<(u64, u64)>| runs.iter().map(|r| r.1).sum::<u64>();
        let fits = |d: &usize| gaps[*d].iter().any(|r| r.1 >= want);
        let mut order: Vec<usize> = (0..free.len()).filter(fits).collect();
        if order.len() < width {
            return None;
        }
        if spread {
            order.sort_by_key(|&d| (std::cmp::Reverse(room(&gaps[d])), d));
            order.truncate(width);
        }
        let columns = order.into_iter().map(|d| (NodeId(d as u16), take(&mut gaps[d], want)));
        extents.push(Extent::new(columns.collect()));
        placed += extent_stripes;
    }
    Some((extent_stripes, extents))
}

fn take(runs: &mut [(u64, u64)], want: u64) -> u64 {
    let run = runs.iter_mut().find(|r| r.1 >= want).expect("checked that it fits");
    let at = run.0;
    run.0 += want;
    run.1 -= want;
    at
}

/// The free runs of a disk, first sector and length.
pub(super) fn free_runs(node: NodeId, sectors: u64, volumes: &[&Volume]) -> Vec<(u64, u64)> {
    let mut taken: Vec<(u64, u64)> = Vec::new();
    for volume in volumes {
        for (n, extent) in volume.extents.iter().enumerate() {
            if let Some(column) = extent.column_of(node) {
                taken.push((extent.columns[column].1, volume.extent_sectors(n)));
            }
        }
    }
    taken.sort_unstable();
    let mut at = 0;
    let mut free = Vec::new();
    for (start, len) in taken {
        if start > at {
            free.push((at, start - at));
        }
        at = start + len;
    }
    if at < sectors {
        free.push((at, sectors - at));
    }
    free
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::LayoutSpec;

    fn volume(
        layout: &str,
        size: u64,
        disks: &[u64],
        others: &[&Volume],
    ) -> Result<Volume, PlacementError> {
        let spec: LayoutSpec = layout.parse().unwrap();
        let geometry = Geometry::new(spec.over(disks.len()).unwrap(), 65536);
        let (extent_stripes, extents) =
            place_volume(&geometry, size, disks, others, EXTENT_COLUMN_BYTES)?;
        Ok(Volume {
            id: VolumeId(0),
            name: "v".into(),
            size,
            layout: layout.into(),
            geometry,
            policy: Policy::default(),
            extent_stripes,
            extents,
        })
    }

    #[test]
    fn volumes_share_disks_without_overlap_and_too_much_is_refused() {
        let disks = [20_000; 5];
        let a = volume("raid5", 64 << 20, &disks, &[]).unwrap();
        let b = volume("raid1", 100 << 20, &disks, &[&a]).unwrap();
        assert_eq!(b.extents.len(), 7);
        assert_ne!(b.extents[0].columns[0].0, b.extents[1].columns[0].0, "spread over the disks");
        for node in (0..5).map(NodeId) {
            let mut owners = 0;
            for sector in 0..20_000 {
                let both = [&a, &b].iter().filter(|v| v.stripe_at(node, sector).is_some()).count();
                assert!(both <= 1);
                owners += both;
            }
            assert!(owners > 0);
        }
        let err = volume("raid5", 1 << 30, &disks, &[&a, &b]).unwrap_err();
        let PlacementError::NoRoom { free, .. } = err;
        assert!(volume("raid5", free, &disks, &[&a, &b]).is_ok(), "{free} bytes were said to fit");
    }

    #[test]
    fn sectors_map_back_to_stripes() {
        let v = volume("raid5", 10 << 20, &[20_000; 5], &[]).unwrap();
        let sector = v.sector(7, 3) + 5;
        assert_eq!(v.stripe_at(NodeId(3), sector), Some((7, 3, 5)));
        assert_eq!(v.stripe_at(NodeId(3), 19_999), None);
    }
}
