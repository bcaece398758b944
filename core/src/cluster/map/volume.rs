//! A volume and its stripe map: which disks hold which columns of which stripes, and where.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::{APART, HostList, Import, Lineage, PolicyRange, Reservations};
use crate::layout::{Geometry, LayoutSpec};
use crate::order::Ordering;
use crate::policy::Policy;
use crate::units::{ColumnSet, NodeId, SECTOR, SPACE_SECTORS, Timestamp, VolumeId};

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
    pub(in crate::cluster) fn move_column(
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
    /// Runs of stripes with a redundancy of their own, in order: at most [`MOST_RANGES`](super::MOST_RANGES).
    pub ranges: Vec<PolicyRange>,
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
    /// Whether it has been deleted, and can be brought back as long as nobody needs its room.
    pub deletion: Deletion,
    /// The hosts that may use it; all, if there is no list.
    pub hosts: Option<HostList>,
    /// Which hosts have registered, and what one of them has reserved.
    pub reservations: Reservations,
    /// What it lies over, and what it is a snapshot of.
    pub lineage: Lineage,
    /// If its content is being imported, what it will be then. No host sees it until then.
    pub import: Option<Import>,
}

/// Whether a volume has been deleted. It keeps its room and its redundancy until that is over
/// ([`Change::ForgetVolume`](crate::cluster::Change::ForgetVolume)), and hosts do not see it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Deletion {
    /// Seconds since 1970 when it was deleted, by the clock of who did that; none if it is not deleted.
    pub since: Option<u64>,
}

impl Volume {
    /// Whether it has been deleted, and can be brought back.
    pub fn is_deleted(&self) -> bool {
        self.deletion.since.is_some()
    }

    /// Whether it is thin: its columns lie in an address space of its own, and take slots of disks when they are written.
    pub fn is_thin(&self) -> bool {
        let first = self.extents.first().and_then(|extent| extent.columns.first());
        first.is_some_and(|(_, sector)| *sector >= SPACE_SECTORS)
    }

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
            ranges: Vec::new(),
            extents,
            apart: APART.to_string(),
            visible: size,
            unordered_sharing: false,
            deletion: Deletion::default(),
            hosts: None,
            reservations: Reservations::default(),
            lineage: Lineage::default(),
            import: None,
        }
    }

    /// Cuts it to what hosts see.
    pub fn cut_to_visible(&mut self) {
        self.size = self.visible;
        let stripes = self.stripes();
        self.extents.retain(|e| e.first < stripes);
        self.tidy_ranges();
    }

    /// The nodes that hold parts of it, or from which parts are being copied.
    pub fn nodes(&self) -> BTreeSet<NodeId> {
        // There are many columns on few nodes, and neighbours are often on the same ones.
        let mut nodes = BTreeSet::new();
        let mut before: Option<&Extent> = None;
        for extent in &self.extents {
            let on = |extent: &'_ Extent, n: usize| extent.columns.get(n).map(|place| place.0);
            let is_new = |n: &usize| before.is_none_or(|before| on(before, *n) != on(extent, *n));
            let new = (0..extent.columns.len()).filter(is_new).map(|n| extent.columns[n].0);
            nodes.extend(new.chain(extent.leaving.values().map(|place| place.0)));
            before = Some(extent);
        }
        nodes
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
    pub fn holds(&self, range: crate::units::Range) -> bool {
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

    /// The data sector, on its column's disk, where the unit of `seat` of `stripe` begins.
    pub fn sector(&self, stripe: u64, seat: usize) -> u64 {
        let column = self.geometry.layout.column_at(stripe, seat);
        self.extent(stripe).columns[column].1 + self.sectors_before(stripe, seat)
    }

    /// The same on the disk that the column leaves.
    pub fn sector_leaving(&self, stripe: u64, seat: usize) -> Option<u64> {
        let column = self.geometry.layout.column_at(stripe, seat);
        let (_, first) = self.extent(stripe).leaving.get(&column)?;
        Some(first + self.sectors_before(stripe, seat))
    }

    /// Sectors of the extent that stand before a unit on its disk.
    fn sectors_before(&self, stripe: u64, seat: usize) -> u64 {
        let (layout, first) = (&self.geometry.layout, self.extent(stripe).first);
        let before = layout.units_before(first, layout.column_at(stripe, seat));
        (layout.units_before_seat(stripe, seat) - before) * self.unit_sectors()
    }

    /// The seats of a node's column of `stripe`; none if it has no column there.
    pub fn seats_on(&self, node: NodeId, stripe: u64) -> impl Iterator<Item = usize> + use<> {
        let column = self.extent(stripe).column_of(node);
        let layout = self.geometry.layout;
        column.into_iter().flat_map(move |c| layout.seats_of(stripe, c))
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

    /// Sectors that one column of extent number `n` takes: some more than it needs, where others hold more units.
    pub fn extent_sectors(&self, n: usize) -> u64 {
        let stripes = self.extent_stripes(n);
        self.geometry.layout.most_units(stripes.end - stripes.start) * self.unit_sectors()
    }

    /// The stripe, the seat, and the sector in its unit, that stand at `sector` of a node's
    /// disk.
    pub fn stripe_at(&self, node: NodeId, sector: u64) -> Option<(u64, usize, u64)> {
        self.extents.iter().enumerate().find_map(|(n, extent)| {
            let (column, first) = extent.place_on(node)?;
            let within = sector.checked_sub(first)?;
            if within >= self.extent_sectors(n) {
                return None;
            }
            let layout = &self.geometry.layout;
            let unit = layout.units_before(extent.first, column) + within / self.unit_sectors();
            let (stripe, seat) = layout.unit_at(column, unit);
            let is_its = self.extent_stripes(n).contains(&stripe);
            is_its.then_some((stripe, seat, within % self.unit_sectors()))
        })
    }
}
