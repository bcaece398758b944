//! Extents that get a column anew: on the empty disk that replaced another, or on other disks
//! when a node is given up or drained.
//!
//! A column that has come to a disk is *filling*: it takes part in every write at once, and what
//! was written before is rebuilt by catching up, as for a node that was away; or copied, if
//! the disk that it was on is still there (the *copy* of shared storage, Table 1). When the
//! disk has reported that it is whole, the column is like any other. Only a few extents move to
//! a disk at a time, so that the lists of what is missing stay short; the report of the one
//! makes room for the next.
//!
//! Draining copies with full redundancy throughout:
//!
//! - before it begins, all parity of the volume is computed that waits: if copying ends, parity alone determines the rest;
//! - the old disk keeps its say in writes from the time when it had the column;
//! - a change of parity that is not there yet waits until the parity is copied, and copied parity is journalled;
//! - the new disk takes from a copy only what it still misses, and nothing while an earlier write there is undecided;
//! - content that the new disk had and lost is computed, not copied, since the old disk has an older one;
//! - if either disk misses anything, copying ends, and the rest is rebuilt.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use super::map::{APART, ClusterMap, Extent, Volume};
use super::placement::{free_runs, other_thin_place};
use crate::units::{NodeId, SECTOR, SPACE_SECTORS, Timestamp, VolumeId};

/// Extents that are filled on one disk at a time.
pub(super) const FILLED_AT_ONCE: usize = 4;

/// A node's columns are whole.
pub(super) fn filled(volume: &mut Arc<Volume>, node: NodeId) {
    if volume.extents.iter().all(|e| e.filling_on(node).is_none()) {
        return;
    }
    for extent in &mut Arc::make_mut(volume).extents {
        if let Some(column) = extent.column_of(node) {
            extent.filling.remove(&column);
            extent.leaving.remove(&column);
        }
    }
}

/// A node's disk is empty: all its columns are filled, with what was written before `from`. Those that
/// were being copied to it, or from it, are not any more: what was written since they came to it was on
/// the disk that is gone, and not on the other.
pub(super) fn fill(volume: &mut Arc<Volume>, node: NodeId, from: Timestamp) {
    stop_copying(volume, |n| n != node);
    if volume.extents.iter().all(|e| e.column_of(node).is_none()) {
        return;
    }
    for extent in &mut Arc::make_mut(volume).extents {
        if let Some(column) = extent.column_of(node) {
            extent.filling.insert(column, from);
        }
    }
}

/// Gives columns of nodes that are given up to disks that have room, where the volume goes on
/// without those nodes; and columns of nodes that are being drained, from which they are copied. These
/// do not go to a disk that has missed something: until that has caught up its columns count for nothing,
/// and what the volume has now it would not have any more. Nor are columns copied of volumes with `pending` parity; returns
/// those that would be moved otherwise.
pub(super) fn move_columns(
    map: &mut ClusterMap,
    from: Timestamp,
    pending: &BTreeSet<VolumeId>,
) -> BTreeSet<VolumeId> {
    let mut delayed = BTreeSet::new();
    let mut targets = targets(map);
    let goes_on = |v: &&Arc<Volume>| !map.is_asleep(v);
    let mut ids: Vec<VolumeId> = map.volumes.values().filter(goes_on).map(|v| v.id).collect();
    // Those that may be wanted back have what room is left.
    ids.sort_by_key(|id| map.volumes[id].is_deleted());
    for id in ids {
        for n in 0..map.volumes[&id].extents.len() {
            if targets.values().all(|filling| *filling >= FILLED_AT_ONCE) {
                return delayed;
            }
            if !map.leads(id, n) {
                continue;
            }
            // All of them move together, and each may lack something that the others have.
            let family = map.family(id, n);
            if family.iter().any(|id| map.is_asleep(&map.volumes[id])) {
                continue;
            }
            let given_up = given_up_column(map, &family, n);
            let drained = || drained_column(map, &family, n);
            let Some(column) = given_up.or_else(drained) else { continue };
            if given_up.is_none() && family.iter().any(|id| pending.contains(id)) {
                delayed.extend(family.into_iter().filter(|id| pending.contains(id)));
                continue;
            }
            let missed = |node| family.iter().any(|id| map.has_missed(*id, node));
            let suits = |node| given_up.is_some() || !missed(node);
            let place = choose(map, &map.volumes[&id], n, column, &targets, suits);
            let Some(place) = place else { continue };
            *targets.get_mut(&place.0).expect("a target") += 1;
            map.room_used = true;
            map.move_family((id, n), column, place, from, given_up.is_none());
        }
    }
    delayed
}

/// Whether all that is on a node's disk has a place on others, beside what is still on nodes that are
/// being drained already. Deleted volumes are forgotten where that helps (`crowding.rs`).
///
/// # Errors
/// A volume of which a column has none.
pub fn can_drain(map: &ClusterMap, node: NodeId) -> Result<(), VolumeId> {
    let drained = |n: NodeId| {
        let info = &map.nodes[usize::from(n.0)];
        n == node || (info.draining && !info.removed)
    };
    have_room(map, drained).or_else(|_| {
        let is_below = |id: &VolumeId| map.volumes.values().any(|v| v.lineage.below == Some(*id));
        let mut without_deleted = map.clone();
        without_deleted.volumes.retain(|id, volume| !volume.is_deleted() || is_below(id));
        have_room(&without_deleted, drained)
    })
}

/// Whether all that is on the disks of nodes that go has a place on those of others; if not, a volume of which a column
/// has none.
pub(super) fn have_room(map: &ClusterMap, goes: impl Fn(NodeId) -> bool) -> Result<(), VolumeId> {
    let mut map = map.clone();
    let going: Vec<bool> = (0..map.nodes.len()).map(|n| goes(NodeId(n as u16))).collect();
    for (info, _) in map.nodes.iter_mut().zip(&going).filter(|(_, goes)| **goes) {
        info.draining = true;
    }
    let roomy: BTreeMap<NodeId, usize> = targets(&map).into_keys().map(|n| (n, 0)).collect();
    let ids: Vec<VolumeId> = map.volumes.keys().copied().collect();
    for id in ids {
        for n in 0..map.volumes[&id].extents.len() {
            for column in 0..map.volumes[&id].extents[n].columns.len() {
                let (node, _) = map.volumes[&id].extents[n].columns[column];
                if !going[usize::from(node.0)] || !map.leads(id, n) {
                    continue;
                }
                let place = choose(&map, &map.volumes[&id], n, column, &roomy, |_| true);
                let Some(place) = place else { return Err(id) };
                map.move_family((id, n), column, place, Timestamp::ZERO, false);
            }
        }
    }
    Ok(())
}

/// A column is copied from the disk that it leaves only as long as both disks' nodes have
/// missed nothing: what the one that it comes to missed, the other does not have.
pub(super) fn stop_copying(volume: &mut Arc<Volume>, stays: impl Fn(NodeId) -> bool) {
    let breaks = |e: &Extent| e.leaving.iter().any(|(c, l)| !stays(l.0) || !stays(e.columns[*c].0));
    if !volume.extents.iter().any(breaks) {
        return;
    }
    for extent in &mut Arc::make_mut(volume).extents {
        let columns = &extent.columns;
        extent.leaving.retain(|c, l| stays(l.0) && stays(columns[*c].0));
    }
}

/// Stops copying columns in volumes that lie over one in which the copying has stopped: at the source they could not show
/// the content below.
pub(super) fn agree_on_copies(map: &mut ClusterMap) {
    let mut ids: Vec<VolumeId> = map.volumes.keys().copied().collect();
    ids.sort_by_key(|id| map.volumes[id].space());
    for id in ids {
        let below = map.volumes[&id].lineage.below.and_then(|below| map.volumes.get(&below));
        let Some(below) = below.cloned() else { continue };
        let volume = map.volumes.get_mut(&id).expect("just seen");
        let stays =
            |(a, b): (&Extent, &Extent)| a.leaving.keys().all(|c| b.leaving.contains_key(c));
        if volume.extents.iter().zip(&below.extents).all(stays) {
            continue;
        }
        for (extent, below) in Arc::make_mut(volume).extents.iter_mut().zip(&below.extents) {
            extent.leaving.retain(|c, _| below.leaving.contains_key(c));
        }
    }
}

/// The column of an extent of a family that is on a node that is being drained, has all of it, and takes
/// part. One at a time. Where parity may wait on a node that is away, which cannot say so, none.
fn drained_column(map: &ClusterMap, family: &[VolumeId], n: usize) -> Option<usize> {
    let volumes = || family.iter().map(|id| &map.volumes[id]);
    let has_all = |node: NodeId| volumes().all(|v| map.behind_since(v, n, node).is_none());
    let drained = |node: NodeId| {
        let info = map.nodes.get(usize::from(node.0));
        info.is_some_and(|i| i.draining && i.up) && has_all(node)
    };
    let is_known = |v: &Volume| !v.defers() || map.lost(v, n).is_empty();
    if volumes().any(|v| !v.extents[n].filling.is_empty() || !is_known(v)) {
        return None;
    }
    map.volumes[family.first()?].extents[n].columns.iter().position(|c| drained(c.0))
}

/// The disks that can take something, and how many extents are being filled on each.
pub(super) fn targets(map: &ClusterMap) -> BTreeMap<NodeId, usize> {
    let filling = |node: NodeId| {
        // A family's columns are filled together.
        let led = map.volumes.values().flat_map(|v| {
            let leads = |(n, e): (usize, _)| map.leads(v.id, n).then_some(e);
            v.extents.iter().enumerate().filter_map(leads)
        });
        led.filter(|e: &&Extent| e.filling_on(node).is_some()).count()
    };
    let takes = |node: &NodeId| !map.nodes[usize::from(node.0)].draining;
    map.up().filter(takes).map(|node| (node, filling(node))).collect()
}

/// The column of an extent of a family that is on a node that is given up, and that all its volumes go on
/// without.
fn given_up_column(map: &ClusterMap, family: &[VolumeId], n: usize) -> Option<usize> {
    let away = |id: &VolumeId, node| map.attendance.get(id).is_some_and(|a| a.away.contains(&node));
    let gone = |node: NodeId| {
        map.nodes.get(usize::from(node.0)).is_some_and(|i| i.given_up)
            && family.iter().all(|id| away(id, node))
    };
    map.volumes[family.first()?].extents[n].columns.iter().position(|c| gone(c.0))
}

/// The disk, and the place on it, for `column` of extent `n`: of the disks that suit, in failure domains
/// that hold no other column of it, and that are not being filled with much else, the one in the
/// box with the fewest others of its columns, and then with the most room. On a torus the position that the column
/// leaves comes before all others.
fn choose(
    map: &ClusterMap,
    volume: &Volume,
    n: usize,
    column: usize,
    targets: &BTreeMap<NodeId, usize>,
    suits: impl Fn(NodeId) -> bool,
) -> Option<(NodeId, u64)> {
    let need = volume.extent_sectors(n);
    let domains = map.domains(&volume.apart);
    let domain = |node: NodeId| domains[usize::from(node.0)];
    let others = (0..volume.extents[n].columns.len()).filter(|c| *c != column);
    let others: Vec<NodeId> = others.map(|c| volume.extents[n].columns[c].0).collect();
    let taken: Vec<usize> = others.iter().map(|node| domain(*node)).collect();
    let boxes = map.domains(APART);
    let box_of = |node: NodeId| boxes[usize::from(node.0)];
    let crowd = |node: NodeId| others.iter().filter(|o| box_of(**o) == box_of(node)).count();
    let from = volume.extents[n].columns[column].0;
    let stays = |node: NodeId| map.keeps_position(&volume.geometry.layout, from, node);
    let volumes: Vec<&Volume> = map.volumes.values().map(|v| &**v).collect();
    let free = |node: NodeId| {
        let sectors = map.nodes[usize::from(node.0)].sectors;
        let holds_a_unit = sectors >= volume.geometry.unit / SECTOR;
        let runs = free_runs(node, sectors, &volumes);
        let taken = taken_in_family(map, (volume.id, n), node);
        let place = match volume.is_thin() {
            true => {
                let places = [volume.extents[n].columns[column].1, other_thin_place(volume, n)];
                let is_free = |place: &u64| {
                    let at = place % SPACE_SECTORS;
                    first_free(at..at + need, need, &taken).is_some()
                };
                places.into_iter().filter(|_| holds_a_unit).find(is_free)?
            }
            false => runs.iter().find_map(|r| first_free(r.0..r.0 + r.1, need, &taken))?,
        };
        Some((runs.iter().map(|r| r.1).sum::<u64>(), node, place))
    };
    targets
        .iter()
        .filter(|(_, filling)| **filling < FILLED_AT_ONCE)
        .map(|(node, _)| *node)
        .filter(|node| suits(*node))
        .filter(|node| volume.extents[n].place_on(*node).is_none())
        .filter(|node| !taken.contains(&domain(*node)))
        .filter_map(free)
        .max_by_key(|(room, node, _)| (stays(*node), Reverse(crowd(*node)), *room, Reverse(*node)))
        .map(|(_, node, place)| (node, place))
}

/// Where no column of an extent can come on a disk: other extents of its volume lie there in the volume's address space, or of
/// those that follow it in theirs. In the order of the places.
fn taken_in_family(map: &ClusterMap, (id, n): (VolumeId, usize), node: NodeId) -> Vec<Range<u64>> {
    let mut taken = Vec::new();
    for volume in map.family(id, n).into_iter().map(|id| &map.volumes[&id]) {
        let others = (0..volume.extents.len()).filter(|other| *other != n);
        taken.extend(others.filter_map(|other| {
            let (_, sector) = volume.extents[other].place_on(node)?;
            let first = sector % SPACE_SECTORS;
            Some(first..first + volume.extent_sectors(other))
        }));
    }
    taken.sort_unstable_by_key(|taken: &Range<u64>| taken.start);
    taken
}

/// The first place for some sectors in a range that is not taken.
fn first_free(range: Range<u64>, need: u64, taken: &[Range<u64>]) -> Option<u64> {
    let mut at = range.start;
    for taken in taken.iter().filter(|taken| taken.start < range.end) {
        if at + need <= taken.start {
            break;
        }
        at = at.max(taken.end);
    }
    (at + need <= range.end).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_place_is_found_that_is_not_taken() {
        let taken = [0..10, 14..20, 15..18, 40..50];
        let free = |range, need| first_free(range, need, &taken);
        assert_eq!([free(0..60, 4), free(0..60, 5), free(0..60, 21)], [Some(10), Some(20), None]);
        assert_eq!(
            [free(16..60, 10), free(30..60, 10), free(31..60, 10)],
            [Some(20), Some(30), Some(50)]
        );
        assert_eq!([free(31..59, 10), free(0..4, 1), free(60..70, 10)], [None, None, Some(60)]);
    }
}
