//! The cluster map: nodes, volumes, their stripe maps, and the epoch.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use super::placement::Place;
use crate::layout::{Geometry, LayoutSpec};
use crate::order::Ordering;
use crate::order::sequencer::SequencerForm;
use crate::plan::Policy;
use crate::store::Reached;
use crate::units::{ColumnSet, Epoch, NodeId, SECTOR, Timestamp, VolumeId};

/// The label of failure domains that volumes go by unless another is chosen.
pub const APART: &str = "box";

/// The label of failure domains by which each disk is one by itself.
pub const APART_BY_NODE: &str = "node";

/// Where a node lives, as its operator configured it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Home {
    /// Its name; no two nodes of a cluster have the same.
    pub name: String,
    /// Where other nodes reach it, as `address:port`.
    pub address: String,
    /// The failure domains that it is in, such as `box` = `b1`.
    pub labels: BTreeMap<String, String>,
}

/// What the cluster knows of a node and its disk.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
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
    /// How far its disk had got when the map was made, as far as anybody knew.
    pub reached: Reached,
    /// Whether what is on its disk is being moved to others.
    pub draining: bool,
    /// Whether it is a host that is its own controller: it serves other hosts nothing, and has no
    /// disk.
    pub is_host: bool,
    /// Whether it has left the cluster for good. Its number is not given to another.
    pub removed: bool,
    /// Where it lives, if the nodes are in several processes.
    pub home: Option<Arc<Home>>,
    /// The number of the process that serves it, if that is not its own: that of the first node
    /// which the process had. A process keeps its number when that node has left.
    pub process: Option<NodeId>,
}

impl NodeInfo {
    /// A node that takes part, with this disk.
    pub fn new(disk: u64, sectors: u64) -> NodeInfo {
        NodeInfo {
            up: true,
            given_up: false,
            disk,
            sectors,
            reached: Reached::default(),
            draining: false,
            is_host: false,
            removed: false,
            home: None,
            process: None,
        }
    }

    /// A node whose disk has not been seen.
    pub fn unseen() -> NodeInfo {
        NodeInfo::new(0, 0)
    }

    /// A node that has been admitted to the cluster and has not come yet.
    pub fn expected(home: Option<Arc<Home>>) -> NodeInfo {
        NodeInfo { up: false, home, ..NodeInfo::unseen() }
    }
}

/// Which nodes a volume goes on without, and what its nodes have missed of it.
///
/// A volume is *asleep* while more of its nodes are down or behind than its layout bears.
/// Then nothing is written to it and nothing is decided, so those that left last have missed
/// nothing: when they are back the volume goes on where it stopped, as after a power cut.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Attendance {
    /// The nodes that it goes on without. One that is down and not among these is what the
    /// volume waits for.
    pub away: BTreeSet<NodeId>,
    /// Of a disk that missed writes: the timestamp of the first that it may have missed.
    pub stale_since: BTreeMap<NodeId, Timestamp>,
    /// Writes before this one were decided without the node.
    pub counts_from: BTreeMap<NodeId, Timestamp>,
    /// Nodes whose disks have forgotten what they promised, while the volume cannot do without them: it waits.
    pub forgot: BTreeSet<NodeId>,
}

impl Attendance {
    fn is_missing_or_behind(&self, node: NodeId) -> bool {
        self.away.contains(&node)
            || self.stale_since.contains_key(&node)
            || self.forgot.contains(&node)
    }
}

/// A run of stripes kept on one set of disks.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Extent {
    /// Its first stripe; it ends where the next extent begins, or with the volume.
    pub first: u64,
    /// For each column the disk, and the data sector where its units begin.
    pub columns: Vec<(NodeId, u64)>,
    /// Columns that have come to a disk which does not have their content yet. They take part in
    /// writes from the given time on; what is older is being rebuilt, or copied.
    pub filling: BTreeMap<usize, Timestamp>,
    /// Of columns that are moved from a disk that works: that disk, and the data sector there.
    /// It holds what was written before the column came to the other disk, from which it is
    /// copied.
    pub leaving: BTreeMap<usize, (NodeId, u64)>,
}

impl Extent {
    /// An extent whose columns are all in place.
    pub fn new(first: u64, columns: Vec<(NodeId, u64)>) -> Extent {
        Extent { first, columns, filling: BTreeMap::new(), leaving: BTreeMap::new() }
    }

    /// Moves a column to another place, which is filled with what was written before `from`; it is
    /// copied from where it was if that can be had, and computed if not.
    pub(super) fn move_column(
        &mut self,
        column: usize,
        place: (NodeId, u64),
        from: Timestamp,
        copies: bool,
    ) {
        let before = std::mem::replace(&mut self.columns[column], place);
        self.filling.insert(column, from);
        if copies {
            self.leaving.insert(column, before);
        }
    }

    /// Since when a node's disk is being filled with its column, if it is.
    pub fn filling_on(&self, node: NodeId) -> Option<Timestamp> {
        self.filling.get(&self.column_of(node)?).copied()
    }

    /// The column that a node's disk held and that is being copied from it, if any.
    pub fn column_leaving(&self, node: NodeId) -> Option<usize> {
        self.leaving.iter().find(|(_, l)| l.0 == node).map(|(column, _)| *column)
    }

    /// The column that a node's disk holds, or that is being copied from it, and where on the
    /// disk it begins.
    pub fn place_on(&self, node: NodeId) -> Option<(usize, u64)> {
        match self.column_of(node) {
            Some(column) => Some((column, self.columns[column].1)),
            None => self.column_leaving(node).map(|column| (column, self.leaving[&column].1)),
        }
    }

    /// The column that a node's disk holds, if any.
    pub fn column_of(&self, node: NodeId) -> Option<usize> {
        self.columns.iter().position(|c| c.0 == node)
    }
}

/// A volume and its stripe map.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
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
    /// The stripe map, in the order of stripes; the first extent begins at stripe 0.
    pub extents: Vec<Extent>,
    /// The label of failure domains, such as `box`: no two columns of an extent are on nodes
    /// that have the same value for it.
    pub apart: String,
    /// Bytes that hosts see: all, or less while room of it still holds what another volume left
    /// there. With 0 they do not see it.
    pub visible: u64,
    /// Whether several hosts may write to it though nothing orders their requests: an operator
    /// wants it so. It means something only with [`Ordering::None`].
    pub unordered_sharing: bool,
}

impl Volume {
    /// Whether its requests have places in the graph that all such volumes share.
    pub fn is_sequenced(&self) -> bool {
        self.policy.ordering == Ordering::Sequencer
    }

    /// Whether only one host may use it, because nothing orders the requests of several.
    pub fn takes_one_writer(&self) -> bool {
        self.policy.ordering == Ordering::None && !self.unordered_sharing
    }

    /// A volume with the usual policy, whose room is clear.
    pub fn new(
        id: VolumeId,
        name: &str,
        size: u64,
        layout: &LayoutSpec,
        geometry: Geometry,
        extents: Vec<Extent>,
    ) -> Volume {
        Volume {
            id,
            name: name.to_string(),
            size,
            layout: layout.to_string(),
            geometry,
            policy: Policy::default(),
            extents,
            apart: APART.to_string(),
            visible: size,
            unordered_sharing: false,
        }
    }

    /// Cuts it to what hosts see.
    pub fn cut_to_visible(&mut self) {
        self.size = self.visible;
        let stripes = self.stripes();
        self.extents.retain(|e| e.first < stripes);
    }

    /// The nodes that hold parts of it, or from which parts are being copied.
    pub fn nodes(&self) -> BTreeSet<NodeId> {
        let places = |e: &Extent| {
            let leaving: Vec<NodeId> = e.leaving.values().map(|l| l.0).collect();
            e.columns.iter().map(|c| c.0).chain(leaving).collect::<Vec<_>>()
        };
        self.extents.iter().flat_map(places).collect()
    }

    /// Whether in some extent the columns on such nodes, and those that are being filled and cannot be
    /// copied from another, cannot be recovered from the rest.
    pub fn is_lost_with(&self, which: impl Fn(NodeId) -> bool) -> bool {
        let copied = |e: &Extent, c: &usize| e.leaving.get(c).is_some_and(|l| !which(l.0));
        let bad = |e: &Extent, c: usize| {
            which(e.columns[c].0) || (e.filling.contains_key(&c) && !copied(e, &c))
        };
        let lost = |e: &Extent| (0..e.columns.len()).filter(|c| bad(e, *c)).collect();
        // Extents after one another have mostly lost the same.
        let mut borne = ColumnSet::EMPTY;
        self.extents.iter().map(lost).any(|lost: ColumnSet| {
            let is_borne = borne.covers(lost) || self.geometry.is_always_recoverable(lost);
            if is_borne {
                borne = lost;
            }
            !is_borne
        })
    }

    /// Whether a range that another names lies in it, and is not empty. A verified stripe may end
    /// past the last byte that hosts have.
    pub fn holds(&self, range: crate::plan::Range) -> bool {
        let end = self.stripes() * self.geometry.stripe_bytes();
        range.len > 0 && range.offset.checked_add(range.len).is_some_and(|e| e <= end)
    }

    /// Stripes in all.
    pub fn stripes(&self) -> u64 {
        self.size.div_ceil(self.geometry.stripe_bytes())
    }

    /// The number of the extent that holds `stripe`.
    pub fn extent_of(&self, stripe: u64) -> usize {
        self.extents.partition_point(|e| e.first <= stripe) - 1
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
        let extent = self.extent(stripe);
        extent.columns[column].1 + (stripe - extent.first) * self.unit_sectors()
    }

    /// Where the extent that holds `stripe` ends: the first stripe that is not in it.
    pub fn extent_end(&self, stripe: u64) -> u64 {
        self.extent_stripes(self.extent_of(stripe)).end
    }

    /// The stripes of extent number `n`.
    pub fn extent_stripes(&self, n: usize) -> Range<u64> {
        let end = self.extents.get(n + 1).map_or_else(|| self.stripes(), |e| e.first);
        self.extents[n].first..end
    }

    /// Sectors that one column of extent number `n` takes.
    pub fn extent_sectors(&self, n: usize) -> u64 {
        let stripes = self.extent_stripes(n);
        (stripes.end - stripes.start) * self.unit_sectors()
    }

    /// The stripe, the column, and the sector in its unit, that stand at `sector` of a node's
    /// disk.
    pub fn stripe_at(&self, node: NodeId, sector: u64) -> Option<(u64, usize, u64)> {
        self.extents.iter().enumerate().find_map(|(n, extent)| {
            let (column, first) = extent.place_on(node)?;
            let within = sector.checked_sub(first)?;
            (within < self.extent_sectors(n)).then(|| {
                let stripe = extent.first + within / self.unit_sectors();
                (stripe, column, within % self.unit_sectors())
            })
        })
    }
}

/// The nodes, the volumes, and the number of this state of affairs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ClusterMap {
    /// Grows with every change.
    pub epoch: Epoch,
    /// By node number.
    pub nodes: Vec<NodeInfo>,
    /// By volume number.
    pub volumes: BTreeMap<VolumeId, Arc<Volume>>,
    /// The number of the next volume. Numbers are not given twice, so that what a disk remembers
    /// of a deleted volume is never taken for a new one's.
    pub next_volume: u32,
    /// Whether room that no volume has may hold what one had: then it is cleared before hosts see
    /// it.
    pub room_used: bool,
    /// Whether columns are moved so that all disks are equally full (see [`super::plan_balance`]).
    pub rebalancing: bool,
    /// By volume number, if any of its nodes has been away.
    pub attendance: BTreeMap<VolumeId, Attendance>,
}

impl ClusterMap {
    fn is_away(&self, volume: VolumeId, node: NodeId) -> bool {
        self.attendance.get(&volume).is_some_and(|a| a.away.contains(&node))
    }

    /// The nodes whose disks have forgotten what they promised of a volume that cannot do without them.
    pub fn forgetful(&self, volume: VolumeId) -> impl Iterator<Item = NodeId> + '_ {
        self.attendance.get(&volume).into_iter().flat_map(|a| a.forgot.iter().copied())
    }

    /// The columns of an extent of `volume` that cannot be used.
    pub fn lost(&self, volume: &Volume, extent: usize) -> ColumnSet {
        let columns = &volume.extents[extent].columns;
        let gone = |c: &usize| {
            let node = columns[*c].0;
            let forgot = self.forgetful(volume.id).any(|n| n == node);
            !self.is_up(node) || self.is_away(volume.id, node) || forgot
        };
        (0..columns.len()).filter(gone).collect()
    }

    /// Whether nothing can be written to a volume or decided of it, because it waits for nodes: for
    /// those that hold columns, those from which columns are being copied, and those that have forgotten what
    /// they promised.
    pub fn is_asleep(&self, volume: &Volume) -> bool {
        if self.forgetful(volume.id).next().is_some() {
            return true;
        }
        // Asked for every write: extents are many, and nodes that are awaited few, or none.
        let nodes = (0..self.nodes.len() as u16).map(NodeId);
        let mut awaited = nodes.filter(|n| !self.is_up(*n) && !self.is_away(volume.id, *n));
        awaited.any(|n| volume.extents.iter().any(|e| e.place_on(n).is_some()))
    }

    /// Whether a volume that [is asleep](ClusterMap::is_asleep) could go on: no more of it is missing than
    /// its layout bears. Nobody had anything to write to it when the nodes left that it waits for, and
    /// as soon as somebody has it goes on without them.
    pub fn rests(&self, volume: &Volume) -> bool {
        let a = self.attendance.get(&volume.id);
        let behind = |n: NodeId| a.is_some_and(|a| a.is_missing_or_behind(n));
        self.is_asleep(volume) && !volume.is_lost_with(|n| !self.is_up(n) || behind(n))
    }

    /// Whether a volume cannot go on before nodes are back: it is asleep, and does not only rest.
    pub fn lacks_nodes(&self, volume: &Volume) -> bool {
        self.is_asleep(volume) && !self.rests(volume)
    }

    /// Whether `node` has a say in whether the write `ts` to an extent happens. Nobody has in one to
    /// an extent that has been cut off.
    pub fn has_say(&self, volume: &Volume, extent: usize, node: NodeId, ts: Timestamp) -> bool {
        let Some(extent) = volume.extents.get(extent) else { return false };
        let came_later = extent.filling_on(node).is_some_and(|f| f > ts);
        // One that the column is leaving decides what was written while it had it.
        let left_earlier = || {
            let column = extent.column_leaving(node);
            column.is_none_or(|c| extent.filling.get(&c).is_none_or(|f| *f <= ts))
        };
        if came_later || (extent.column_of(node).is_none() && left_earlier()) {
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
        let Some(extent_of) = volume.extents.get(extent) else { return Vec::new() };
        let holds = |p: &&(usize, NodeId)| {
            extent_of.columns[p.0].0 == p.1
                || extent_of.leaving.get(&p.0).is_some_and(|l| l.0 == p.1)
        };
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

    /// The latest timestamp that stands in the map. Every write after it must have a later one.
    pub(super) fn latest_timestamp(&self) -> Timestamp {
        let attended = |a: &Attendance| {
            let times = a.stale_since.values().chain(a.counts_from.values());
            times.copied().max()
        };
        let filled = self.volumes.values().flat_map(|v| &v.extents);
        let filled = filled.flat_map(|e| e.filling.values().copied());
        let latest = self.attendance.values().filter_map(attended).chain(filled).max();
        latest.unwrap_or(Timestamp::ZERO)
    }

    /// Whether a disk may have missed writes to a volume.
    pub(super) fn has_missed(&self, volume: VolumeId, node: NodeId) -> bool {
        self.attendance.get(&volume).is_some_and(|a| a.stale_since.contains_key(&node))
    }

    /// Whether a disk may have missed writes to any volume, or is being filled.
    pub fn is_stale(&self, node: NodeId) -> bool {
        let filling = |v: &Arc<Volume>| v.extents.iter().any(|e| e.filling_on(node).is_some());
        self.attendance.values().any(|a| a.stale_since.contains_key(&node))
            || self.volumes.values().any(filling)
    }

    /// The node that serves locks: the first that takes part, one without a disk if there is one.
    pub fn server(&self) -> Option<NodeId> {
        let idle = |n: &NodeId| self.nodes[usize::from(n.0)].sectors == 0;
        self.serving().find(idle).or_else(|| self.serving().next())
    }

    /// The nodes that take part and are not hosts that are their own controllers: those on which
    /// roles can be that serve everybody.
    pub fn serving(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.up().filter(|n| !self.nodes[usize::from(n.0)].is_host)
    }

    /// Whether any volume needs a lock server.
    pub fn locks_are_served(&self) -> bool {
        self.volumes.values().any(|v| v.policy.ordering.keeps_locks().is_some())
    }

    /// Who keeps the graph of requests, if any volume has a sequencer.
    pub fn sequencer(&self) -> Option<SequencerForm> {
        self.volumes.values().find(|v| v.is_sequenced()).map(|v| v.policy.sequencer)
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

    /// The number of the process that serves a node.
    pub fn process_of(&self, node: NodeId) -> NodeId {
        self.nodes.get(usize::from(node.0)).and_then(|i| i.process).unwrap_or(node)
    }

    /// The nodes that a process serves, and that have not left.
    pub fn served_by(&self, process: NodeId) -> impl Iterator<Item = NodeId> + Clone + '_ {
        let serves = move |n: &NodeId| {
            self.process_of(*n) == process && !self.nodes[usize::from(n.0)].removed
        };
        (0..self.nodes.len() as u16).map(NodeId).filter(serves)
    }

    /// How many columns are on a node's disk.
    pub fn columns_on(&self, node: NodeId) -> usize {
        let extents = self.volumes.values().flat_map(|v| &v.extents);
        extents.filter(|e| e.place_on(node).is_some()).count()
    }

    /// How many data sectors a node's disk must have for what the map has put on it.
    pub fn needed_on(&self, node: NodeId) -> u64 {
        let ends = |v: &Arc<Volume>| {
            let end = |n: usize| Some(v.extents[n].place_on(node)?.1 + v.extent_sectors(n));
            (0..v.extents.len()).filter_map(end).max()
        };
        self.volumes.values().filter_map(ends).max().unwrap_or(0)
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
        };
        self.nodes.iter().zip(domains).map(place).collect()
    }

    /// How many failure domains by a label may be lost together, whichever they are, without a
    /// loss of what is in a volume. Of an extent by its number, the columns on nodes that `lacks`
    /// are lost or behind already.
    pub fn survives(
        &self,
        volume: &Volume,
        label: &str,
        lacks: impl Fn(usize, NodeId) -> bool,
    ) -> usize {
        let domains = self.domains(label);
        let mut seen: BTreeMap<(ColumnSet, Vec<ColumnSet>), usize> = BTreeMap::new();
        let of = |(n, extent): (usize, &Extent)| {
            let mut lost = ColumnSet::EMPTY;
            let mut groups = BTreeMap::<usize, ColumnSet>::new();
            for (column, (node, _)) in extent.columns.iter().enumerate() {
                match lacks(n, *node) {
                    true => lost.insert(column),
                    false => groups.entry(domains[usize::from(node.0)]).or_default().insert(column),
                }
            }
            let mut groups: Vec<ColumnSet> = groups.into_values().collect();
            groups.sort_unstable();
            *seen.entry((lost, groups)).or_insert_with_key(|(lost, groups)| {
                volume.geometry.survives(*lost, groups).unwrap_or(0)
            })
        };
        volume.extents.iter().enumerate().map(of).min().unwrap_or(0)
    }

    /// Of the sets of `size` more nodes that hold parts of a volume, the share that may be lost without a
    /// loss of what is in it; `None` if there are too many to look at. Columns on nodes that `lacks` are
    /// lost already, as in [`ClusterMap::survives`].
    pub fn survived_share(
        &self,
        volume: &Volume,
        size: usize,
        lacks: impl Fn(usize, NodeId) -> bool,
    ) -> Option<f64> {
        /// Beyond this a figure for people is not worth the time.
        const MOST_LOOKS: usize = 200_000;
        let mut kinds: BTreeSet<(ColumnSet, Vec<NodeId>)> = BTreeSet::new();
        for (n, extent) in volume.extents.iter().enumerate() {
            let nodes: Vec<NodeId> = extent.columns.iter().map(|c| c.0).collect();
            let lost = (0..nodes.len()).filter(|c| lacks(n, nodes[*c])).collect();
            kinds.insert((lost, nodes));
        }
        let here = |(lost, nodes): &(ColumnSet, Vec<NodeId>)| -> Vec<NodeId> {
            (0..nodes.len()).filter(|c| !lost.contains(*c)).map(|c| nodes[c]).collect()
        };
        let nodes: Vec<NodeId> =
            kinds.iter().flat_map(here).collect::<BTreeSet<_>>().into_iter().collect();
        let sets = subsets(&nodes, size, MOST_LOOKS / kinds.len().max(1))?;
        let survives = |set: &&Vec<NodeId>| {
            kinds.iter().all(|(lost, nodes)| {
                let more = (0..nodes.len()).filter(|c| set.contains(&nodes[*c])).collect();
                volume.geometry.is_always_recoverable(lost.union(more))
            })
        };
        let survived = sets.iter().filter(survives).count();
        (!sets.is_empty()).then(|| survived as f64 / sets.len() as f64)
    }

    /// A volume by name; the empty name means the first.
    pub fn volume_named(&self, name: &str) -> Option<&Arc<Volume>> {
        self.volumes.values().find(|v| name.is_empty() || v.name == name)
    }
}

/// All sets of so many of these nodes, if they are not more than `most`.
fn subsets(nodes: &[NodeId], size: usize, most: usize) -> Option<Vec<Vec<NodeId>>> {
    let mut sets: Vec<Vec<NodeId>> = vec![Vec::new()];
    let mut firsts = vec![0];
    for _ in 0..size {
        let (before, starts) = (std::mem::take(&mut sets), std::mem::take(&mut firsts));
        for (set, first) in before.iter().zip(starts) {
            for (n, node) in nodes.iter().enumerate().skip(first) {
                sets.push(set.iter().copied().chain([*node]).collect());
                firsts.push(n + 1);
            }
            if sets.len() > most {
                return None;
            }
        }
    }
    Some(sets)
}
