//! Rebalancing: columns move from the disks that are fullest, for their size, to those that are
//! emptiest, so that disks which were added get their share.
//!
//! The plan is a pure function of the map. It is a greedy one: each move goes from the fullest disk
//! that has something to give to the emptiest that can take it, and leaves the one that gives at
//! least as full, for its size, as the one that takes. So every move makes the sum over all disks of
//! *used squared, by size* smaller, which cannot go on for ever, and no column moves back. Between two
//! disks that could exchange a column there is less than a column's difference in the end.
//!
//! No move brings two columns of an extent into one failure domain, or more of them into one box. On a torus
//! columns of a layout that is made for it stay where they are: others are far from their group.
//! Of the columns that a disk could give, it gives one of the volume of which it has most compared
//! with the other, so that volumes stay spread; which extent of it, follows from a hash of the
//! extent's number, so that not only neighbours move.
//!
//! While the map says [`ClusterMap::rebalancing`], the authority makes a few of the planned moves at a
//! time, by copying, and plans anew when they are done. What has been done is in the map, and
//! nothing else need be remembered.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::map::{APART, ClusterMap, Volume};
use super::moves::{self, FILLED_AT_ONCE};
use crate::units::{NodeId, SECTOR, Timestamp, VolumeId};

/// A column that is to go to another disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// Of which volume.
    pub volume: VolumeId,
    /// Of which of its extents.
    pub extent: usize,
    /// Which.
    pub column: usize,
    /// How many sectors it has.
    pub sectors: u64,
    /// The node on whose disk it is.
    pub from: NodeId,
    /// The node to whose disk it goes.
    pub to: NodeId,
}

/// How full a disk is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fullness {
    /// The node that has the disk.
    pub node: NodeId,
    /// Bytes of volumes that are on it, or are on the way to it.
    pub used: u64,
    /// Bytes that it has for volumes.
    pub size: u64,
}

/// What is to be moved, and how full the disks are before and after.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The moves, one after the other.
    pub moves: Vec<Move>,
    /// The disks that take part, as they are now.
    pub before: Vec<Fullness>,
    /// The same disks when all has been moved.
    pub after: Vec<Fullness>,
}

/// So many times what may be under way is planned ahead by the authority.
const AHEAD: usize = 4;

/// Plans at most `most` moves. Disks that are drained, given up or not there take no part, and
/// neither do extents of which a column is lost or has just moved.
pub fn plan(map: &ClusterMap, most: usize) -> Plan {
    let mut ledger = Ledger::new(map);
    let before = ledger.fullness();
    let mut moves = Vec::new();
    while moves.len() < most
        && let Some(next) = ledger.next()
    {
        ledger.make(&next);
        moves.push(next);
    }
    Plan { moves, before, after: ledger.fullness() }
}

/// Makes as many of the planned moves as may be under way at a time; to a disk that has missed something,
/// when it has caught up (see [`moves::move_columns`]). When nothing is left to be
/// moved, and everything is in place, the map says so. No column moves of a volume with `pending` parity; returns those with
/// moves that wait.
pub(super) fn rebalance(
    map: &mut ClusterMap,
    from: Timestamp,
    pending: &BTreeSet<VolumeId>,
) -> BTreeSet<VolumeId> {
    if !map.rebalancing {
        return BTreeSet::new();
    }
    let mut targets = moves::targets(map);
    let mut planned = plan(map, AHEAD * FILLED_AT_ONCE * targets.len()).moves;
    let fills = |v: &Arc<Volume>| v.extents.iter().any(|e| !e.filling.is_empty());
    let waits = map.volumes.values().any(|v| fills(v) || !is_whole(map, v));
    if planned.is_empty() && !waits {
        map.rebalancing = false;
        return BTreeSet::new();
    }
    // Those of a family do not move.
    let all = planned.iter().map(|step| step.volume);
    let delayed: BTreeSet<VolumeId> = all.filter(|id| pending.contains(id)).collect();
    planned.retain(|step| !delayed.contains(&step.volume));
    loop {
        let ledger = Ledger::new(map);
        // What is planned after a move that has to wait may not be of use before it.
        let free = |step: &Move| {
            let has_time = targets.get(&step.to).is_some_and(|n| *n < FILLED_AT_ONCE);
            has_time && !map.has_missed(step.volume, step.to)
        };
        let can = |step: &Move| {
            let room = ledger.room(step)?;
            (free(step) && ledger.allows(step)).then_some((step.to, room))
        };
        let next = planned.iter().enumerate().find_map(|(n, step)| Some((n, can(step)?)));
        let Some((n, place)) = next else { return delayed };
        let step = planned[n];
        planned.drain(..=n);
        *targets.entry(step.to).or_default() += 1;
        map.room_used = true;
        let volume = Arc::make_mut(map.volumes.get_mut(&step.volume).expect("it was planned"));
        volume.extents[step.extent].move_column(step.column, place, from, true);
    }
}

/// Whether all nodes that have parts of a volume are there and have missed nothing.
fn is_whole(map: &ClusterMap, volume: &Volume) -> bool {
    let missed = |n: &NodeId| !map.is_up(*n) || map.has_missed(volume.id, *n);
    !map.is_asleep(volume) && !volume.nodes().iter().any(missed)
}

/// A disk in the ledger.
#[derive(Clone, Debug)]
struct Disk {
    node: NodeId,
    sectors: u64,
    used: u64,
    /// Sectors of each volume.
    of: BTreeMap<VolumeId, u64>,
    /// The columns that could leave it, by volume: in the order in which they would, the extent.
    movable: BTreeMap<VolumeId, BTreeSet<(u64, usize)>>,
}

/// Where everything would be after the moves planned so far.
struct Ledger<'a> {
    map: &'a ClusterMap,
    disks: BTreeMap<NodeId, Disk>,
    /// Of extents with columns that can move: the nodes of their columns.
    columns: BTreeMap<(VolumeId, usize), Vec<NodeId>>,
    domains: BTreeMap<&'a str, Vec<usize>>,
    boxes: Vec<usize>,
    /// What is taken on each disk: first sector and length.
    taken: BTreeMap<NodeId, BTreeMap<u64, u64>>,
}

impl<'a> Ledger<'a> {
    fn new(map: &'a ClusterMap) -> Ledger<'a> {
        let takes = |node: &NodeId| {
            let info = &map.nodes[usize::from(node.0)];
            info.sectors > 0 && !info.draining && !info.given_up && !info.removed
        };
        let disk = |node: NodeId| {
            let sectors = map.nodes[usize::from(node.0)].sectors;
            let (of, movable) = (BTreeMap::new(), BTreeMap::new());
            (node, Disk { node, sectors, used: 0, of, movable })
        };
        let disks = map.up().filter(takes).map(disk).collect();
        let labels = map.volumes.values().map(|v| v.apart.as_str());
        let domains = labels.map(|l| (l, map.domains(l))).collect();
        let (columns, taken) = (BTreeMap::new(), BTreeMap::new());
        let boxes = map.domains(APART);
        let mut ledger = Ledger { map, disks, columns, domains, boxes, taken };
        map.volumes.values().for_each(|v| ledger.enter(v));
        ledger
    }

    fn enter(&mut self, volume: &Volume) {
        let lacks_nodes = self.map.lacks_nodes(volume);
        for (n, extent) in volume.extents.iter().enumerate() {
            let sectors = volume.extent_sectors(n);
            let places = extent.columns.iter().chain(extent.leaving.values());
            for (node, first) in places.filter(|_| !volume.is_thin()) {
                self.taken.entry(*node).or_default().insert(*first, sectors);
            }
            let still = !self.map.has_family(volume.id)
                && !lacks_nodes
                && extent.filling.is_empty()
                && self.map.lost(volume, n).is_empty();
            let rank = rank(n);
            for (node, _) in &extent.columns {
                let has_it_all = self.map.behind_since(volume, n, *node).is_none();
                let Some(disk) = self.disks.get_mut(node) else { continue };
                disk.used += sectors;
                *disk.of.entry(volume.id).or_default() += sectors;
                if still && has_it_all {
                    disk.movable.entry(volume.id).or_default().insert((rank, n));
                }
            }
            if still {
                let nodes = extent.columns.iter().map(|c| c.0).collect();
                self.columns.insert((volume.id, n), nodes);
            }
        }
    }

    fn fullness(&self) -> Vec<Fullness> {
        let of =
            |d: &Disk| Fullness { node: d.node, used: d.used * SECTOR, size: d.sectors * SECTOR };
        self.disks.values().map(of).collect()
    }

    /// The next move that makes the disks more equal.
    fn next(&self) -> Option<Move> {
        let mut order: Vec<&Disk> = self.disks.values().collect();
        order.sort_by(|a, b| by_fullness(a, b).then(a.node.cmp(&b.node)));
        for from in order.iter().rev() {
            for to in &order {
                if by_fullness(to, from) != Ordering::Less {
                    break;
                }
                if let Some(found) = self.between(from, to) {
                    return Some(found);
                }
            }
        }
        None
    }

    /// What one disk could best give to another.
    fn between(&self, from: &Disk, to: &Disk) -> Option<Move> {
        let share = |d: &Disk, v: &VolumeId| u128::from(d.of.get(v).copied().unwrap_or(0));
        let excess = |v: &VolumeId| {
            let (given, had) = (share(from, v), share(to, v));
            (given * u128::from(to.sectors)) as i128 - (had * u128::from(from.sectors)) as i128
        };
        let mut volumes: Vec<VolumeId> = from.movable.keys().copied().collect();
        volumes.sort_by_key(|v| (Reverse(excess(v)), *v));
        let step = |volume: VolumeId, extent: usize| {
            let columns = &self.columns[&(volume, extent)];
            let column = columns.iter().position(|c| *c == from.node)?;
            let sectors = self.map.volumes[&volume].extent_sectors(extent);
            let step = Move { volume, extent, column, sectors, from: from.node, to: to.node };
            (self.allows(&step) && self.room(&step).is_some()).then_some(step)
        };
        volumes
            .into_iter()
            .find_map(|v| from.movable[&v].iter().find_map(|(_, extent)| step(v, *extent)))
    }

    /// Whether a move keeps failure domains apart, and does not make more unequal what it is to
    /// make equal.
    fn allows(&self, step: &Move) -> bool {
        let (Some(from), Some(to)) = (self.disks.get(&step.from), self.disks.get(&step.to)) else {
            return false;
        };
        let Some(columns) = self.columns.get(&(step.volume, step.extent)) else { return false };
        let domains = &self.domains[self.map.volumes[&step.volume].apart.as_str()];
        let domain = |node: NodeId| domains[usize::from(node.0)];
        let others = (0..columns.len()).filter(|c| *c != step.column).map(|c| columns[c]);
        let apart = others.clone().all(|n| n != step.to && domain(n) != domain(step.to));
        let box_of = |node: NodeId| self.boxes[usize::from(node.0)];
        let crowd = |node: NodeId| others.clone().filter(|n| box_of(*n) == box_of(node)).count();
        let layout = &self.map.volumes[&step.volume].geometry.layout;
        let close = self.map.keeps_position(layout, step.from, step.to);
        let spread = close && crowd(step.to) <= crowd(step.from);
        let left = u128::from(from.used - step.sectors.min(from.used)) * u128::from(to.sectors);
        let has = u128::from(to.used + step.sectors) * u128::from(from.sectors);
        apart && spread && columns[step.column] == step.from && left >= has
    }

    /// Where on the disk that it goes to there is room for a column. That of a thin volume stays in its address space.
    fn room(&self, step: &Move) -> Option<u64> {
        let (node, sectors) = (step.to, step.sectors);
        let volume = &self.map.volumes[&step.volume];
        if volume.is_thin() {
            return Some(volume.extents[step.extent].columns[step.column].1);
        }
        let end = self.disks.get(&node)?.sectors;
        let mut at = 0;
        for (first, len) in self.taken.get(&node).into_iter().flatten() {
            if at + sectors <= *first {
                return Some(at);
            }
            at = first + len;
        }
        (at + sectors <= end).then_some(at)
    }

    fn make(&mut self, step: &Move) {
        let to = self.room(step).expect("it was planned");
        let volume = &self.map.volumes[&step.volume];
        let (_, left) = volume.extents[step.extent].columns[step.column];
        if !volume.is_thin() {
            self.taken.entry(step.from).or_default().remove(&left);
            self.taken.entry(step.to).or_default().insert(to, step.sectors);
        }
        let from = self.disks.get_mut(&step.from).expect("it was planned");
        from.used -= step.sectors;
        *from.of.entry(step.volume).or_default() -= step.sectors;
        let key = (rank(step.extent), step.extent);
        from.movable.entry(step.volume).or_default().remove(&key);
        let to = self.disks.get_mut(&step.to).expect("it was planned");
        to.used += step.sectors;
        *to.of.entry(step.volume).or_default() += step.sectors;
        // It is not movable there: a column that has come to a disk stays on it.
        if let Some(columns) = self.columns.get_mut(&(step.volume, step.extent)) {
            columns[step.column] = step.to;
        }
    }
}

/// Which of two disks is fuller for its size.
fn by_fullness(a: &Disk, b: &Disk) -> Ordering {
    let full = |d: &Disk, other: &Disk| u128::from(d.used) * u128::from(other.sectors);
    full(a, b).cmp(&full(b, a))
}

/// The order in which extents move: the multiplier is 2^64 divided by the golden ratio, which
/// spreads consecutive numbers evenly (Knuth, The Art of Computer Programming, 6.4).
fn rank(extent: usize) -> u64 {
    (extent as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[cfg(test)]
mod tests;
