//! Snapshots and clones: volumes that show the content of others where they were not written themselves.
//!
//! A snapshot is a volume that keeps the address space in which its origin was written until then. Its origin goes on in
//! a new space, and lies over it; so does a clone. The volumes that lie over one another are a *family*. Their columns
//! are on the same disks, at the same places of their spaces, and move together: each disk resolves by itself what a
//! view shows ([`Views`]).
//!
//! All writes of earlier epochs come before those of an epoch, and a snapshot is taken with a new epoch. So it has all
//! writes that began before, on all nodes and in all volumes that it names, also those that are decided later; and no
//! later one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{ClusterMap, Extent, Reservations, Source, Volume};
use crate::policy::{Every, Policy, Schedule};
use crate::store::{View, Views};
use crate::units::{NodeId, SPACE_SECTORS, Timestamp, VolumeId, thin_space};

/// Snapshots that a volume may have.
pub const MOST_SNAPSHOTS: usize = 1024;

/// How many volumes may lie over one another.
pub const MOST_VIEWS: usize = 2 * MOST_SNAPSHOTS;

/// What a volume lies over, and what it is a picture of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Lineage {
    /// The volume whose content it shows where it was not written.
    pub below: Option<VolumeId>,
    /// If it is a snapshot: what of.
    pub snapshot: Option<Snapshot>,
    /// Whether its disks copy what it shows of the volumes below, until it lies over none.
    pub flattens: bool,
}

/// A snapshot's origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Snapshot {
    /// The volume.
    pub of: VolumeId,
    /// Seconds since 1970 when it was taken, by the clock of who asked for it.
    pub taken: u64,
    /// The snapshot that it is a copy of, if it was imported.
    pub source: Option<Source>,
    /// If it was not an operator who took it: by which part of the volume's schedule it was.
    pub scheduled: Option<Every>,
}

/// Why a snapshot or a clone cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ViewError {
    /// There is no such volume.
    Unknown,
    /// Another volume has the name.
    NameTaken,
    /// It is deleted, or a part of it is not visible yet.
    NotVisible,
    /// It is a snapshot, which does not change.
    IsSnapshot,
    /// It is no snapshot.
    NoSnapshot,
    /// The snapshot is of another volume.
    OfAnother,
    /// It shows nothing of another volume.
    NoClone,
    /// Its writes are not journalled, or not decided by votes.
    Policy,
    /// Parity of some of it is deferred.
    Defers,
    /// It sleeps: disks that are away may have copies of writes to it.
    Sleeps,
    /// It has as many snapshots as a volume may have.
    TooMany,
    /// All numbers of volumes are used.
    NoNumber,
}

impl Volume {
    /// Whether it is a snapshot, which hosts only read.
    pub fn is_snapshot(&self) -> bool {
        self.lineage.snapshot.is_some()
    }

    /// Whether it is a snapshot of this volume.
    pub(super) fn is_snapshot_of(&self, id: VolumeId) -> bool {
        self.lineage.snapshot.is_some_and(|snapshot| snapshot.of == id)
    }

    /// The address space of its columns; 0 if its space on disks is reserved.
    pub fn space(&self) -> u64 {
        let first = self.extents.first().and_then(|extent| extent.columns.first());
        first.map_or(0, |(_, sector)| sector / SPACE_SECTORS)
    }

    /// Whether all its columns are in that one, also where they are copied from.
    pub(in crate::cluster) fn is_in_one_space(&self) -> bool {
        let space = self.space();
        let is_in_it = |place: &(NodeId, u64)| place.1 / SPACE_SECTORS == space;
        let are_in_it =
            |e: &Extent| e.columns.iter().all(is_in_it) && e.leaving.values().all(is_in_it);
        self.extents.iter().all(are_in_it)
    }

    /// Whether disks may have copies of writes to it. The map does not say whether it ever chose that. Over a snapshot it may not.
    pub(in crate::cluster) fn may_have_copies(&self) -> bool {
        self.lineage.below.is_none() && self.geometry.is_redundant() && self.policy.is_journaled()
    }

    /// The name of a snapshot of it.
    pub fn snapshot_name(&self, name: &str) -> String {
        format!("{}@{name}", self.name)
    }

    /// Moves its columns to another address space. Nothing is written there yet, so there is nothing to fill or copy.
    fn put_in_space(&mut self, first: u64) {
        for extent in &mut self.extents {
            extent.columns.iter_mut().for_each(|(_, at)| *at = first + *at % SPACE_SECTORS);
            extent.filling.clear();
            extent.leaving.clear();
        }
    }
}

impl ClusterMap {
    /// The volume that has an address space now, if it is no longer the one of this number: a snapshot, if the volume that
    /// was `named` goes on in another space, or is gone.
    pub fn volume_in_space(
        &self,
        id: VolumeId,
        named: VolumeId,
        space: u64,
    ) -> Option<&Arc<Volume>> {
        if let Some(volume) = self.volumes.get(&id).filter(|volume| volume.space() == space) {
            return Some(volume);
        }
        // Several volumes share the first space.
        let is_its = |volume: &&Arc<Volume>| {
            let of = volume.lineage.snapshot.map(|snapshot| snapshot.of);
            volume.space() == space && (space > 0 || of == Some(named))
        };
        self.volumes.values().find(is_its)
    }

    /// The volumes that lie directly over another.
    pub fn above(&self, id: VolumeId) -> impl Iterator<Item = &Arc<Volume>> {
        self.volumes.values().filter(move |volume| volume.lineage.below == Some(id))
    }

    /// The snapshots of a volume that are not deleted, in the order in which they were taken.
    pub fn snapshots_of(&self, id: VolumeId) -> Vec<&Arc<Volume>> {
        let of = |volume: &&Arc<Volume>| volume.is_snapshot_of(id);
        self.volumes.values().filter(of).filter(|volume| !volume.is_deleted()).collect()
    }

    /// Whether snapshots of a volume are left, also deleted ones.
    pub fn has_any_snapshot(&self, id: VolumeId) -> bool {
        self.volumes.values().any(|v| v.is_snapshot_of(id))
    }

    /// Whether a volume that lies over a snapshot was cloned from it: it is neither its origin nor another snapshot of that.
    pub fn is_clone_of(&self, volume: &Volume, snapshot: VolumeId) -> bool {
        let Some(of) = self.volumes.get(&snapshot).and_then(|s| s.lineage.snapshot) else {
            return false;
        };
        let its = volume.lineage.snapshot.map_or(volume.id, |snapshot| snapshot.of);
        volume.lineage.below == Some(snapshot) && its != of.of
    }

    /// Whether a volume lies over another, or another over it.
    pub fn has_family(&self, id: VolumeId) -> bool {
        let lies = self.volumes.get(&id).is_some_and(|volume| volume.lineage.below.is_some());
        lies || self.above(id).next().is_some()
    }

    /// Whether a volume decides where the columns of its extent number `n` are: no volume below it has that extent.
    pub fn leads(&self, id: VolumeId, n: usize) -> bool {
        let below = self.volumes[&id].lineage.below.and_then(|below| self.volumes.get(&below));
        below.is_none_or(|below| n >= below.extents.len())
    }

    /// A volume that leads extent number `n`, and the volumes over it, directly or not. The extent is on the same disks in all.
    pub(in crate::cluster) fn family(&self, id: VolumeId, n: usize) -> Vec<VolumeId> {
        let (mut found, mut next) = (vec![id], 0);
        while next < found.len() {
            let above = self.above(found[next]).filter(|volume| n < volume.extents.len());
            found.extend(above.map(|volume| volume.id).collect::<Vec<_>>());
            next += 1;
        }
        found
    }

    /// Moves a column of an extent that a volume leads, and those of its followers with it.
    pub(in crate::cluster) fn move_family(
        &mut self,
        (id, n): (VolumeId, usize),
        column: usize,
        place: (NodeId, u64),
        from: Timestamp,
        copies: bool,
    ) {
        for id in self.family(id, n) {
            let volume = Arc::make_mut(self.volumes.get_mut(&id).expect("just found"));
            let first = volume.space() * SPACE_SECTORS;
            let its = (place.0, first + place.1 % SPACE_SECTORS);
            volume.extents[n].move_column(column, its, from, copies);
        }
    }

    /// The volume into which a deleted snapshot is merged: the only one that lies over it, while no disk of either is
    /// away, lacks anything or is being filled. So no rebuild is under way that could see one disk before the merge and another after it.
    pub fn merges_into(&self, id: VolumeId) -> Option<VolumeId> {
        let snapshot = self.volumes.get(&id).filter(|v| v.is_snapshot() && v.is_deleted())?;
        // What lies lowest comes first: a slot changes hands once at a time.
        if self.all_below(id).any(|volume| self.is_to_be_merged(volume)) {
            return None;
        }
        let mut above = self.above(id);
        let into = above.next().filter(|_| above.next().is_none())?;
        (self.has_all_disks(snapshot) && self.has_all_disks(into)).then_some(into.id)
    }

    /// Whether no disk of a volume is away, lacks anything or is being filled.
    pub(super) fn has_all_disks(&self, volume: &Volume) -> bool {
        let still = |e: &Extent| e.filling.is_empty() && e.leaving.is_empty();
        let lacks = self.attendance.get(&volume.id).is_some_and(|a| {
            !(a.away.is_empty() && a.stale_since.is_empty() && a.forgot.is_empty())
        });
        !lacks && volume.extents.iter().all(still) && volume.nodes().iter().all(|n| self.is_up(*n))
    }

    /// Whether a deleted snapshot has one volume above it.
    fn is_to_be_merged(&self, volume: &Volume) -> bool {
        volume.is_snapshot() && volume.is_deleted() && self.above(volume.id).count() == 1
    }

    /// The deleted snapshots that are merged into a volume, or will be, from the upper to the lower. Once that has begun, each disk
    /// has some of their content in its own place, and some in the volume's. So only the volume shows the same on all disks.
    pub fn merged_below(&self, id: VolumeId) -> impl Iterator<Item = &Arc<Volume>> {
        self.all_below(id).take_while(|below| self.is_to_be_merged(below))
    }

    /// The volume that shows what a volume has: the one into which it is merged, if it is deleted.
    pub fn shown_in(&self, id: VolumeId) -> VolumeId {
        let is_merged =
            |id: &VolumeId| self.volumes.get(id).is_some_and(|volume| self.is_to_be_merged(volume));
        let above = |id: VolumeId| self.above(id).next().map(|volume| volume.id);
        let mut shown = id;
        while let Some(above) = Some(shown).filter(is_merged).and_then(above) {
            shown = above;
        }
        shown
    }

    /// If a disk may have missed writes to an extent of a volume, or of a snapshot that is merged into it: since when.
    pub fn lacks_since(&self, volume: &Volume, n: usize, node: NodeId) -> Option<Timestamp> {
        let below = self.merged_below(volume.id).filter(|below| n < below.extents.len());
        let all = below.map(|below| &**below).chain([volume]);
        all.filter_map(|volume| self.behind_since(volume, n, node)).min()
    }

    /// Where a node's disk has an extent of the deleted snapshots that are merged into a volume, from the upper to the lower:
    /// the snapshot, the first sector, and how many.
    pub fn merged_on(&self, volume: &Volume, n: usize, node: NodeId) -> Vec<(&Volume, u64, u64)> {
        let mut all = Vec::new();
        for below in self.merged_below(volume.id) {
            if let Some((_, first)) = below.extents.get(n).and_then(|e| e.place_on(node)) {
                let count = below.extent_sectors(n).min(volume.extent_sectors(n));
                all.push((&**below, first, count));
            }
        }
        all
    }

    /// The deleted snapshots that all their disks have merged, as these nodes have said, each with the volume into which
    /// they have.
    pub(in crate::cluster) fn merged_by(
        &self,
        nodes: &BTreeSet<NodeId>,
    ) -> Vec<(VolumeId, VolumeId)> {
        let by_all = self.volumes.values().filter(|v| v.nodes().iter().all(|n| nodes.contains(n)));
        by_all.filter_map(|volume| Some((volume.id, self.merges_into(volume.id)?))).collect()
    }

    /// Forgets deleted snapshots that are merged, unless they are not to be merged any more.
    pub(in crate::cluster) fn forget_merged(&mut self, merged: &[(VolumeId, VolumeId)]) {
        let still = |(id, into): &&(VolumeId, VolumeId)| self.merges_into(*id) == Some(*into);
        let merged: Vec<(VolumeId, VolumeId)> = merged.iter().filter(still).copied().collect();
        for (id, into) in merged {
            let Lineage { below, flattens, .. } = self.volumes[&id].lineage;
            let volume = self.volumes.get_mut(&into).expect("it is based on it");
            let lineage = &mut Arc::make_mut(volume).lineage;
            lineage.below = below;
            lineage.flattens = (lineage.flattens || flattens) && below.is_some();
            self.volumes.remove(&id);
            self.attendance.remove(&id);
            self.room_used = true;
        }
    }

    /// Deleted snapshots over which nothing lies are forgotten.
    pub(in crate::cluster) fn forget_unseen(&mut self) {
        loop {
            let is_unseen = |volume: &&Arc<Volume>| {
                volume.is_snapshot() && volume.is_deleted() && self.can_forget(volume.id)
            };
            let Some(id) = self.volumes.values().find(is_unseen).map(|volume| volume.id) else {
                return;
            };
            self.volumes.remove(&id);
            self.attendance.remove(&id);
            self.room_used = true;
        }
    }

    /// What lies over what on a node's disk.
    pub fn views_on(&self, node: NodeId) -> Views {
        let mut all = Vec::new();
        for volume in self.volumes.values() {
            let Some(below) = volume.lineage.below.and_then(|id| self.volumes.get(&id)) else {
                continue;
            };
            let merges = self.merges_into(below.id) == Some(volume.id);
            let flattens = self.can_flatten(volume);
            for (n, extent) in volume.extents.iter().enumerate().take(below.extents.len()) {
                let place = |extent: &Extent| extent.place_on(node).map(|(_, sector)| sector);
                let (Some(first), Some(of_below)) = (place(extent), place(&below.extents[n]))
                else {
                    continue;
                };
                let count = volume.extent_sectors(n).min(below.extent_sectors(n));
                let sectors = first..first + count;
                all.push(View { sectors, below: of_below, merges, flattens });
            }
        }
        Views::new(all)
    }

    /// What keeps a snapshot of a volume from being taken.
    ///
    /// # Errors
    /// The first obstacle.
    pub fn check_snapshot(&self, id: VolumeId, name: &str) -> Result<(), ViewError> {
        let volume = self.volumes.get(&id).ok_or(ViewError::Unknown)?;
        if volume.is_snapshot() {
            return Err(ViewError::IsSnapshot);
        }
        self.check_origin(volume)?;
        if self.name_is_taken(&volume.snapshot_name(name), id) {
            return Err(ViewError::NameTaken);
        }
        if volume.may_have_copies() && self.lacks_nodes(volume) {
            return Err(ViewError::Sleeps);
        }
        if self.snapshots_of(id).len() >= MOST_SNAPSHOTS || self.depth(id) >= MOST_VIEWS {
            return Err(ViewError::TooMany);
        }
        Ok(())
    }

    /// What keeps a volume from being made out of a snapshot.
    ///
    /// # Errors
    /// The first obstacle.
    pub fn check_clone(&self, snapshot: VolumeId, name: &str) -> Result<(), ViewError> {
        let volume = self.volumes.get(&snapshot).ok_or(ViewError::Unknown)?;
        if !volume.is_snapshot() {
            return Err(ViewError::NoSnapshot);
        }
        self.check_origin(volume)?;
        match self.name_is_taken(name, VolumeId(self.next_volume)) {
            true => Err(ViewError::NameTaken),
            false => Ok(()),
        }
    }

    /// What keeps a volume from being set back to a snapshot.
    ///
    /// # Errors
    /// The first obstacle.
    pub fn check_rollback(&self, id: VolumeId, snapshot: VolumeId) -> Result<(), ViewError> {
        let volume = self.volumes.get(&id).ok_or(ViewError::Unknown)?;
        let picture = self.volumes.get(&snapshot).ok_or(ViewError::Unknown)?;
        let of = picture.lineage.snapshot.ok_or(ViewError::NoSnapshot)?.of;
        if of != id {
            return Err(ViewError::OfAnother);
        }
        if volume.is_deleted() || picture.is_deleted() {
            return Err(ViewError::NotVisible);
        }
        self.has_number(1)
    }

    fn check_origin(&self, volume: &Volume) -> Result<(), ViewError> {
        let is_whole = volume.visible == volume.size && volume.import.is_none();
        if volume.is_deleted() || !is_whole || volume.extents.is_empty() {
            return Err(ViewError::NotVisible);
        }
        if !volume.policy.is_journaled() || !volume.policy.commit.is_voted() {
            return Err(ViewError::Policy);
        }
        if volume.defers() || volume.copies() {
            return Err(ViewError::Defers);
        }
        self.has_number(1)
    }

    /// How many volumes a volume lies over.
    fn depth(&self, id: VolumeId) -> usize {
        self.all_below(id).take(MOST_VIEWS + 1).count()
    }

    /// Takes a snapshot of each volume under a name, or of none.
    pub(in crate::cluster) fn take_snapshots(&mut self, of: &[VolumeId], name: &str, taken: u64) {
        let once: BTreeSet<&VolumeId> = of.iter().collect();
        let fits = self.has_number(of.len() as u32).is_ok() && once.len() == of.len();
        if !fits || of.iter().any(|id| self.check_snapshot(*id, name).is_err()) {
            return;
        }
        for id in of {
            self.take_snapshot(name, Snapshot { of: *id, taken, source: None, scheduled: None });
        }
    }

    /// Takes the snapshots that are due by schedules; those that cannot be taken are left out. A volume may be there for
    /// several kinds.
    pub(in crate::cluster) fn take_scheduled(&mut self, due: &[(VolumeId, Every)], taken: u64) {
        for (of, every) in due {
            let name = every.name(taken);
            if self.check_snapshot(*of, &name).is_ok() {
                let scheduled = Some(*every);
                self.take_snapshot(&name, Snapshot { of: *of, taken, source: None, scheduled });
            }
        }
    }

    /// Takes a snapshot that can be taken.
    pub(super) fn take_snapshot(&mut self, name: &str, snapshot: Snapshot) {
        let (id, number) = (snapshot.of, self.next_number());
        let origin = self.volumes.get_mut(&id).expect("just seen");
        let picture = Volume {
            id: number,
            name: origin.snapshot_name(name),
            lineage: Lineage { snapshot: Some(snapshot), ..origin.lineage },
            reservations: Reservations::default(),
            // Neither snapshots nor clones have the schedule of their volume.
            policy: Policy { snapshots: Schedule::NONE, ..origin.policy },
            ..Volume::clone(origin)
        };
        let origin = Arc::make_mut(origin);
        origin.put_in_space(thin_space(number));
        origin.lineage = Lineage { below: Some(number), ..Lineage::default() };
        self.volumes.insert(number, Arc::new(picture));
        if let Some(attendance) = self.attendance.get(&id).cloned() {
            self.attendance.insert(number, attendance);
        }
        self.attend_new_space(id, number);
    }

    /// Makes a volume out of a snapshot.
    pub(in crate::cluster) fn clone_volume(&mut self, snapshot: VolumeId, name: &str) {
        if self.check_clone(snapshot, name).is_err() {
            return;
        }
        let number = self.next_number();
        let mut clone = Volume {
            id: number,
            name: name.to_string(),
            lineage: Lineage { below: Some(snapshot), ..Lineage::default() },
            ..Volume::clone(&self.volumes[&snapshot])
        };
        // A right to the snapshot gives no right to its clone.
        clone.hosts.iter_mut().for_each(BTreeMap::clear);
        clone.put_in_space(thin_space(number));
        self.volumes.insert(number, Arc::new(clone));
        self.attend_new_space(number, snapshot);
    }

    /// Attendance of a volume in a new space, taken from `below`: a node that is not away has missed nothing there.
    fn attend_new_space(&mut self, id: VolumeId, below: VolumeId) {
        let Some(mut attendance) = self.attendance.get(&below).cloned() else {
            self.attendance.remove(&id);
            return;
        };
        let away = attendance.away.clone();
        attendance.stale_since.retain(|node, _| away.contains(node));
        self.attendance.insert(id, attendance);
    }

    /// The volumes that a volume lies over, from the nearest on.
    pub fn all_below(&self, id: VolumeId) -> impl Iterator<Item = &Arc<Volume>> {
        let below = |volume: &&Arc<Volume>| self.volumes.get(&volume.lineage.below?);
        let first = self.volumes.get(&id).and_then(|volume| below(&volume));
        std::iter::successors(first, below)
    }

    /// The volumes in which something was written since two volumes were the same: those above the nearest volume that
    /// both lie over, or are, up to both. The lowest comes first. None if they have no such volume.
    pub fn between(&self, one: VolumeId, other: VolumeId) -> Option<Vec<VolumeId>> {
        let upwards = |id: VolumeId| {
            let mut line: Vec<VolumeId> = self.all_below(id).map(|volume| volume.id).collect();
            line.reverse();
            line.push(id);
            line
        };
        let (one, other) = (upwards(one), upwards(other));
        let common = one.iter().zip(&other).take_while(|(a, b)| a == b).count();
        if common == 0 {
            return None;
        }
        let mut between = [&one[common..], &other[common..]].concat();
        between.sort_by_key(|id| self.volumes.get(id).map(|volume| volume.space()));
        Some(between)
    }

    /// Sets a volume back to a snapshot: later writes are dropped.
    pub(in crate::cluster) fn roll_back(&mut self, id: VolumeId, snapshot: VolumeId) {
        if self.check_rollback(id, snapshot).is_err() {
            return;
        }
        // Numbers are not given twice, and so neither are spaces.
        let space = thin_space(self.next_number());
        let picture = Volume::clone(&self.volumes[&snapshot]);
        let volume = Arc::make_mut(self.volumes.get_mut(&id).expect("just seen"));
        (volume.size, volume.visible) = (picture.size, picture.size);
        volume.extents = picture.extents;
        volume.put_in_space(space);
        volume.lineage = Lineage { below: Some(snapshot), ..Lineage::default() };
        volume.tidy_ranges();
        self.attend_new_space(id, snapshot);
    }

    /// An error in the lineage of a volume, if there is any.
    pub(super) fn wrong_with_lineage(&self, volume: &Volume) -> Option<&'static str> {
        let below = match volume.lineage.below {
            None if volume.lineage.flattens => {
                return Some("it is flattened, and based on nothing");
            }
            None => return None,
            Some(below) => self.volumes.get(&below),
        };
        let Some(below) = below else { return Some("it is based on a volume that does not exist") };
        let common = volume.extents.iter().zip(&below.extents);
        let place = |(node, sector): &(NodeId, u64)| (*node, sector % SPACE_SECTORS);
        let places = |extent: &Extent| extent.columns.iter().map(place).collect::<Vec<_>>();
        let copies = |a: &Extent, b: &Extent| {
            let in_b =
                |(c, l): (&usize, &(NodeId, u64))| b.leaving.get(c).map(place) == Some(place(l));
            a.leaving.iter().all(in_b)
        };
        let fills = |a: &Extent, b: &Extent| a.filling.keys().all(|c| b.filling.contains_key(c));
        let same = |a: &Extent, b: &Extent| {
            a.first == b.first && places(a) == places(b) && copies(a, b) && fills(a, b)
        };
        if volume.space() <= below.space() {
            Some("it is based on a later volume")
        } else if volume.geometry != below.geometry {
            Some("it is based on a volume of another layout")
        } else if volume.size < below.size {
            Some("it is based on a larger volume")
        } else if !common.into_iter().all(|(a, b)| same(a, b)) {
            Some("it is not on the disks of the volume that it is based on")
        } else {
            None
        }
    }

    /// Whether hosts may not see it and nothing shows its content.
    pub(in crate::cluster) fn can_forget(&self, id: VolumeId) -> bool {
        self.above(id).next().is_none()
    }
}

#[cfg(test)]
mod tests;
