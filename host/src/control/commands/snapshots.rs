//! Taking snapshots, making volumes out of them, and setting volumes back to them.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::json;
use weft_core::cluster::{Change, ClusterMap, MOST_SNAPSHOTS, ViewError, Volume};
use weft_core::units::VolumeId;

use super::deleting::time_of_day;
use super::thin::check_views_on;
use super::{Commands, DeletionKind, Outcome, Wait, overtaken};
use crate::control::status;
use crate::control_protocol::ok;
use crate::error::{Error, Result, fail};
use crate::volumes::{SNAPSHOT_MARK, check_name, check_spelling};

/// How many snapshots or clones a message names.
const NAMED: usize = 5;

/// Refuses a change of a snapshot.
pub(super) fn refuse_snapshot(volume: &Volume, done: &str) -> Result<()> {
    let name = &volume.name;
    match volume.is_snapshot() {
        true => fail(format!(
            "'{name}' is a snapshot, which cannot be {done}; a clone of it can (`weft volume clone {name} NEW`)"
        )),
        false => Ok(()),
    }
}

/// Refuses to give a snapshot another name.
pub(super) fn refuse_renaming(volume: &Volume) -> Result<()> {
    match volume.name.split_once(SNAPSHOT_MARK) {
        Some((origin, _)) => fail(format!(
            "'{}' is a snapshot, whose name begins with that of volume '{origin}' and changes with it",
            volume.name
        )),
        None => Ok(()),
    }
}

/// Some of these names, and how many more there are.
fn some(names: &[&str]) -> String {
    let more = names.len().saturating_sub(NAMED);
    let some = names[..names.len() - more].join(", ");
    match more {
        0 => some,
        more => format!("{some} and {more} more"),
    }
}

/// The volume that a snapshot is of, or the volume itself.
fn origin(volume: &Volume) -> VolumeId {
    volume.lineage.snapshot.map_or(volume.id, |snapshot| snapshot.of)
}

/// Refuses to delete a volume with snapshots, and a snapshot with clones or with its volume hidden.
pub(super) fn check_deletion(map: &ClusterMap, volume: &Volume) -> Result<()> {
    let name = &volume.name;
    let Some(snapshot) = volume.lineage.snapshot else {
        let snapshots = map.snapshots_of(volume.id);
        let names: Vec<&str> = snapshots.iter().map(|s| s.name.as_str()).collect();
        return match names.as_slice() {
            [] => Ok(()),
            [one] => fail(format!(
                "volume '{name}' has a snapshot; delete it first (`weft volume delete {one}`)"
            )),
            all => fail(format!(
                "volume '{name}' has {} snapshots: {}; delete them first (`weft volume delete {}`)",
                all.len(),
                some(all),
                all[0]
            )),
        };
    };
    let clones: BTreeSet<VolumeId> =
        map.above(volume.id).map(|volume| origin(volume)).filter(|id| *id != snapshot.of).collect();
    let clones = clones.iter().filter_map(|id| map.volumes.get(id));
    let (deleted, clones): (Vec<_>, Vec<_>) = clones.partition(|clone| clone.is_deleted());
    let names: Vec<&str> = clones.iter().map(|clone| clone.name.as_str()).collect();
    if !names.is_empty() {
        let (clones, them) = match names.len() {
            1 => ("clone", "it"),
            _ => ("clones", "them"),
        };
        return fail(format!(
            "snapshot '{name}' has the {clones} {}; delete {them} first (`weft volume delete {first}`), or flatten {them} \
             (`weft volume flatten {first}`)",
            some(&names),
            first = names[0]
        ));
    }
    // It can be undeleted, so it needs the snapshot.
    if let Some(clone) = deleted.first() {
        return fail(format!(
            "snapshot '{name}' has the deleted clone {clone}, which can still be undeleted; delete it permanently first \
             (`weft volume delete {clone} --now`)",
            clone = clone.name
        ));
    }
    let hidden = |v: &Arc<Volume>| v.visible == 0 && !v.is_deleted();
    match map.volumes.get(&snapshot.of).filter(|v| hidden(v)) {
        Some(volume) => {
            fail(format!("volume '{}' is being rolled back; wait until that is done", volume.name))
        }
        None => Ok(()),
    }
}

/// Why a view of a volume cannot be made, and what to do.
pub(super) fn refused(why: ViewError, volume: &Volume, to: &str) -> Error {
    let name = &volume.name;
    let origin = name.split(SNAPSHOT_MARK).next().unwrap_or_default();
    Error(match why {
        ViewError::Unknown => "the volume no longer exists".to_string(),
        ViewError::NameTaken => {
            format!("there is already a volume or snapshot '{to}'; choose another name")
        }
        ViewError::NotVisible => {
            format!("volume '{name}' is being created, resized or deleted; wait until that is done")
        }
        ViewError::IsSnapshot => format!(
            "'{name}' is a snapshot itself, which does not change; name the volume, '{origin}'"
        ),
        ViewError::NoSnapshot => format!(
            "'{name}' is not a snapshot; take one first (`weft volume snapshot {name} NAME`), and use that"
        ),
        ViewError::OfAnother => format!(
            "'{to}' is a snapshot of another volume than '{name}'; `weft volume list --snapshots` lists them"
        ),
        ViewError::NoClone => format!(
            "volume '{name}' is independent of other volumes already; only a clone can be flattened"
        ),
        ViewError::Policy if !volume.policy.journal => format!(
            "snapshots need a journal, and volume '{name}' has none; copy it to a volume with one \
             (`weft volume copy {name} NEW`)"
        ),
        ViewError::Policy => format!(
            "snapshots need votes, and volume '{name}' does not use them; `weft volume set {name} \
             commit=late` enables them"
        ),
        ViewError::Defers => format!(
            "snapshots need parity that is computed with each write, and parity of volume '{name}' is computed later; \
             `weft volume set {name} redundancy=immediate` ends that"
        ),
        ViewError::Sleeps => format!(
            "volume '{name}' lacks more disks than its layout can lose; bring their nodes back first (`weft status`)"
        ),
        ViewError::TooMany => format!(
            "volume '{name}' has as many snapshots as a volume can have, {MOST_SNAPSHOTS}; delete some first"
        ),
        ViewError::NoNumber => {
            "no more snapshots and clones can be created in this cluster".to_string()
        }
    })
}

/// A snapshot of a volume, by its name.
fn snapshot_named<'a>(map: &'a ClusterMap, of: VolumeId, name: &str) -> Option<&'a Arc<Volume>> {
    map.snapshots_of(of).into_iter().find(|snapshot| snapshot.name == name)
}

impl Commands<'_> {
    /// Takes a snapshot of volumes, all with one change of the map.
    pub(super) fn snapshot(&mut self, names: &[String], snapshot: String) -> Result<Wait> {
        if names.is_empty() {
            return fail("give the names of the volumes, such as a,b");
        }
        check_spelling(&snapshot, "snapshot")?;
        self.require_ready()?;
        let nodes = status::nodes(self);
        let mut ids = Vec::new();
        for name in names {
            let volume = self.volume(name)?;
            if ids.contains(&volume.id) {
                return fail(format!("volume '{name}' is given twice; give it once"));
            }
            self.refuse_while_sized(&volume)?;
            let checked = self.engine.map().check_snapshot(volume.id, &snapshot);
            checked.map_err(|why| refused(why, &volume, &volume.snapshot_name(&snapshot)))?;
            check_views_on(&volume, &nodes)?;
            ids.push(volume.id);
        }
        for id in &ids {
            self.check_first_snapshot(&self.engine.map().volumes[id], &nodes)?;
        }
        let change = Change::TakeSnapshots(ids.clone(), snapshot.clone(), time_of_day());
        // All of them together may be more than there are numbers for.
        let after = change.made_on(self.engine.map());
        let first = &after.volumes[&ids[0]];
        if snapshot_named(&after, ids[0], &first.snapshot_name(&snapshot)).is_none() {
            return Err(refused(ViewError::NoNumber, first, &snapshot));
        }
        Ok(Wait::Snapped(ids, snapshot, self.engine.change(change)))
    }

    /// Makes a volume out of a snapshot.
    pub(super) fn clone_snapshot(&mut self, snapshot: &str, to: String) -> Result<Wait> {
        self.require_ready()?;
        let volume = self.volume(snapshot)?;
        if volume.is_snapshot() {
            check_name(&to, &self.engine.map().volumes)?;
        }
        let checked = self.engine.map().check_clone(volume.id, &to);
        checked.map_err(|why| refused(why, &volume, &to))?;
        self.check_views(&volume)?;
        let ticket = self.engine.change(Change::CloneVolume(volume.id, to.clone()));
        Ok(Wait::Cloned(volume.id, to, ticket))
    }

    /// Has a clone become independent of the snapshot below it.
    pub(super) fn flatten(&mut self, name: &str) -> Result<Wait> {
        self.require_ready()?;
        let volume = self.volume(name)?;
        self.refuse_while_sized(&volume)?;
        let checked = self.engine.map().check_flatten(volume.id);
        let snapshots = self.engine.map().snapshots_of(volume.id);
        if let (Err(ViewError::NoClone), Some(first)) = (&checked, snapshots.first()) {
            return fail(format!(
                "volume '{name}' is no clone: it shares content with its own snapshots alone, until they are deleted \
                 (`weft volume delete {}`)",
                first.name
            ));
        }
        checked.map_err(|why| refused(why, &volume, name))?;
        Ok(Wait::Flattens(volume.id, self.engine.change(Change::Flatten(volume.id))))
    }

    /// Sets a volume back to a snapshot of it. Hosts do not see it until then, as when it is deleted: so none begins to use
    /// it meanwhile.
    ///
    /// If whoever does this dies between, the process that leads has hosts see the volume again as it was
    /// ([`Commands::finish_orphan`]), and the same command does it.
    pub(super) fn roll_back(&mut self, name: &str, snapshot: &str) -> Result<Wait> {
        self.require_ready()?;
        let volume = match self.hidden(name) {
            Some(volume) => volume,
            None => self.volume(name)?,
        };
        if volume.is_snapshot() {
            return Err(refused(ViewError::IsSnapshot, &volume, snapshot));
        }
        self.refuse_while_sized(&volume)?;
        let snapshot = self.snapshot_for(&volume, snapshot)?;
        let checked = self.engine.map().check_rollback(volume.id, snapshot.id);
        checked.map_err(|why| refused(why, &volume, &snapshot.name))?;
        self.refuse_while_used(&volume, "and hosts would not notice that its content changes")?;
        Ok(self.hide(&volume, DeletionKind::RollBack(snapshot.id)))
    }

    /// A snapshot as it is named where a volume is: a full name, or one among those of the volume.
    pub(super) fn snapshot_for(&self, volume: &Volume, name: &str) -> Result<Volume> {
        match name.contains(SNAPSHOT_MARK) {
            true => self.volume(name),
            false => self.own_snapshot(volume, name),
        }
    }

    /// A snapshot of a volume, by the name that it has among those.
    pub(super) fn own_snapshot(&self, volume: &Volume, name: &str) -> Result<Volume> {
        let map = self.engine.map();
        let name = name.split_once(SNAPSHOT_MARK).map_or(name, |(_, snapshot)| snapshot);
        if let Some(found) = snapshot_named(map, volume.id, &volume.snapshot_name(name)) {
            return Ok(Volume::clone(found));
        }
        let all = map.snapshots_of(volume.id);
        let names: Vec<&str> = all.iter().map(|s| s.name.as_str()).collect();
        let of = &volume.name;
        match names.is_empty() {
            true => fail(format!(
                "volume '{of}' has no snapshots; `weft volume snapshot {of} NAME` takes one"
            )),
            false => {
                fail(format!("volume '{of}' has no snapshot '{name}'; it has: {}", some(&names)))
            }
        }
    }

    fn refuse_while_sized(&self, volume: &Volume) -> Result<()> {
        match self.sizing.contains(&volume.id) {
            true => fail(format!(
                "volume '{}' is being created or resized; wait until that is done",
                volume.name
            )),
            false => Ok(()),
        }
    }

    /// Looks whether the map has the snapshots, the clone or the rollback.
    pub(super) fn check_snapshots(&mut self, mut wait: Wait) -> Result<Outcome> {
        let (Wait::Snapped(_, _, ticket)
        | Wait::Cloned(_, _, ticket)
        | Wait::Flattens(_, ticket)
        | Wait::RolledBack(_, _, ticket)) = &mut wait
        else {
            return Ok(Outcome::Wait(wait));
        };
        if !self.is_made(ticket)? {
            return Ok(Outcome::Wait(wait));
        }
        let map = self.engine.map();
        let nodes = status::nodes(self);
        let answer = match &wait {
            Wait::Snapped(of, name, _) => {
                let snapshot = |id: &VolumeId| {
                    let full = map.volumes.get(id)?.snapshot_name(name);
                    snapshot_named(map, *id, &full)
                };
                let all: Option<Vec<_>> = of.iter().map(snapshot).collect();
                let all = all.ok_or_else(overtaken)?;
                let all: Vec<_> = all.into_iter().map(|v| status::of(self, v, &nodes)).collect();
                let answer = json!({ "epoch": map.epoch, "snapshots": all });
                // It is the volumes that need room from now on.
                let volumes = of.iter().filter_map(|id| map.volumes.get(id));
                let volumes: Vec<_> = volumes.map(|v| status::of(self, v, &nodes)).collect();
                Self::with_room_warning(answer, &volumes, &nodes)
            }
            Wait::Cloned(snapshot, name, _) => {
                let is_it = |v: &&Arc<Volume>| v.name == *name && !v.is_deleted();
                let clone = map.above(*snapshot).find(is_it).ok_or_else(overtaken)?;
                json!({ "volume": status::of(self, clone, &nodes) })
            }
            Wait::Flattens(id, _) => {
                let volume = map.volumes.get(id).ok_or_else(overtaken)?;
                json!({ "volume": status::of(self, volume, &nodes) })
            }
            Wait::RolledBack(id, snapshot, _) => match map.volumes.get(id) {
                Some(volume) if volume.visible > 0 && volume.lineage.below == Some(*snapshot) => {
                    json!({ "volume": status::of(self, volume, &nodes) })
                }
                Some(volume) if volume.visible == 0 => {
                    let volume = Volume::clone(volume);
                    return Ok(Outcome::Wait(self.keep(volume, None)));
                }
                _ => return Err(overtaken()),
            },
            _ => return Ok(Outcome::Wait(wait)),
        };
        Ok(Outcome::Answer(ok(answer)))
    }
}
