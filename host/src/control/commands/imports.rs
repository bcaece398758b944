//! Importing snapshots: the hidden volume that their content is written to, and putting it in place.

use std::sync::Arc;

use serde_json::json;
use weft_core::cluster::{Change, Identity, Import, Volume};
use weft_core::units::VolumeId;

use super::snapshots::{refuse_snapshot, refused};
use super::{Commands, DeletionKind, Outcome, Wait, overtaken};
use crate::control::diff::Diff;
use crate::control::status;
use crate::control_protocol::{ImportOf, ok};
use crate::error::{Error, Result, fail};
use crate::size::exactly;
use crate::volumes::check_spelling;

/// Reads the identity of a snapshot in a request.
fn invalid(why: impl std::fmt::Display) -> Error {
    Error(why.to_string())
}

/// Refuses a change of the name of a hidden volume.
pub(super) fn refuse_import(volume: &Volume) -> Result<()> {
    match &volume.import {
        Some(import) => fail(format!(
            "'{}' is being imported to volume '{}', and gets that name when it is complete",
            volume.name, import.name
        )),
        None => Ok(()),
    }
}

/// Refuses changes up to a snapshot that is smaller than the one that they are based on. The hidden volume is no smaller than
/// that, and would keep what the base has beyond the end.
fn refuse_smaller(base: &Volume, size: Option<u64>) -> Result<()> {
    match size.filter(|size| *size < base.size) {
        Some(size) => fail(format!(
            "the stream has the changes to a volume of {}, and snapshot '{}', on which it is based, has {}: changes to a smaller \
             size cannot be imported; export the changes since a snapshot that is no larger, or the whole snapshot and \
             import it to another volume",
            exactly(size),
            base.name,
            exactly(base.size)
        )),
        None => Ok(()),
    }
}

impl Commands<'_> {
    /// Hides a new volume until its content has been imported.
    pub(super) fn hide_until_imported(&self, volume: &mut Volume, import: ImportOf) -> Result<()> {
        check_spelling(&import.snapshot, "snapshot")?;
        let import = import.into_volume(volume.name.clone(), None)?;
        self.refuse_second_import(&import.name)?;
        // A snapshot of it is taken in the end.
        let (journal, votes) = (volume.policy.is_journaled(), volume.policy.commit.is_voted());
        if !journal || !votes || volume.defers() || volume.copies() {
            return fail(format!(
                "an import ends with a snapshot, so volume '{}' needs the journal, votes and immediate parity; leave out \
                 journal=off, commit and redundancy",
                volume.name
            ));
        }
        volume.name = import.hidden_name();
        volume.import = Some(import);
        Ok(())
    }

    fn refuse_second_import(&self, name: &str) -> Result<()> {
        match self.imports(name) {
            Some(hidden) => fail(format!(
                "an import to volume '{name}' is in progress, or was interrupted; wait for it, or \
                 delete the imported content \
                 (`weft volume delete {}`)",
                hidden.name
            )),
            None => Ok(()),
        }
    }

    /// The hidden volume of an import to the volume of this name.
    fn imports(&self, name: &str) -> Option<&Arc<Volume>> {
        let is_it = |v: &&Arc<Volume>| v.import.as_ref().is_some_and(|i| i.name == name);
        self.engine.map().volumes.values().find(|v| is_it(v) && !v.is_deleted())
    }

    /// Makes a hidden copy of a snapshot, to which the changes up to a later one are written.
    pub(super) fn import(&mut self, name: &str, base: &str, import: ImportOf) -> Result<Wait> {
        check_spelling(&import.snapshot, "snapshot")?;
        self.require_ready()?;
        let volume = self.volume(name)?;
        refuse_snapshot(&volume, "changed")?;
        self.refuse_second_import(&volume.name)?;
        let base: Identity = base.parse().map_err(invalid)?;
        let cluster = self.engine.exports().at().cluster;
        let Some(base) = self.engine.map().snapshot_from(volume.id, base, cluster) else {
            return fail(format!(
                "volume '{name}' has no snapshot with the content that the stream is based on; import the earlier snapshot first, \
                 or one without a base to another volume"
            ));
        };
        refuse_smaller(base, import.size)?;
        let base = base.id;
        let import = import.into_volume(volume.name.clone(), Some(volume.id))?;
        let checked = self.engine.map().check_import(base, &import);
        checked.map_err(|why| refused(why, &volume, &volume.snapshot_name(&import.snapshot)))?;
        self.check_views(&volume)?;
        let hidden = import.hidden_name();
        Ok(Wait::Importing(hidden, self.engine.change(Change::BeginImport(base, import))))
    }

    /// Records how far an import is.
    pub(super) fn imported_up_to(&mut self, name: &str, source: &str, done: u64) -> Result<Wait> {
        let hidden = self.needed_import(name, source)?;
        let ticket = self.engine.change(Change::AdvanceImport(hidden.id, done));
        Ok(Wait::Importing(hidden.name, ticket))
    }

    /// The hidden volume of an import of a certain snapshot: somebody may have begun another since.
    fn needed_import(&self, name: &str, source: &str) -> Result<Volume> {
        let source: Identity = source.parse().map_err(invalid)?;
        match self.imports(name) {
            Some(hidden) if hidden.import.as_ref().is_some_and(|i| i.identity().is(&source)) => {
                Ok(Volume::clone(hidden))
            }
            Some(_) => fail(format!(
                "another snapshot is being imported to volume '{name}' now; import this one again when that is done"
            )),
            None => fail(format!("nothing is being imported to volume '{name}'")),
        }
    }

    /// Puts the imported content of a volume in place. Hosts do not see an existing volume until then, as during a rollback.
    pub(super) fn imported(&mut self, name: &str, source: &str) -> Result<Wait> {
        self.require_ready()?;
        let hidden = self.needed_import(name, source)?;
        let (import, base) = (hidden.import.ok_or_else(overtaken)?, hidden.lineage.below);
        let hidden = hidden.id;
        let Some((into, base)) = import.into.zip(base) else {
            return Ok(self.put_in_place(hidden, hidden, import));
        };
        let volume = match self.engine.map().volumes.get(&into) {
            Some(volume) if volume.visible > 0 => Volume::clone(volume),
            _ => {
                return fail(format!(
                    "volume '{name}' has been deleted, or is being deleted or rolled back"
                ));
            }
        };
        self.refuse_while_used(&volume, "and hosts would not notice that its content changes")?;
        Ok(self.hide(&volume, DeletionKind::Import(hidden, base)))
    }

    /// Looks whether a volume that hosts do not see has been written since a snapshot: an import would drop that.
    pub(super) fn compare(
        &mut self,
        conn: usize,
        volume: Volume,
        (hidden, base): (VolumeId, VolumeId),
    ) -> Result<Outcome> {
        let Some(base) = self.engine.map().volumes.get(&base).map(|v| Volume::clone(v)) else {
            return Ok(Outcome::Wait(
                self.keep(volume, Some("its snapshot has been deleted".into())),
            ));
        };
        let volume = Volume { visible: volume.size, ..volume };
        Ok(self.compare_on(conn, Box::new(Diff::of(volume, Some(base), 0)), hidden))
    }

    /// Asks for the next piece, or puts the import in place.
    pub(super) fn compare_on(&mut self, conn: usize, diff: Box<Diff>, hidden: VolumeId) -> Outcome {
        let (name, base) = (&diff.volume.name, diff.since.as_ref().map(|base| &base.name));
        if !diff.is_empty() {
            let base = base.map_or("", String::as_str);
            let why = format!(
                "volume '{name}' has been written since snapshot '{base}', on which the import is \
                 based, and would lose these writes; discard them with `weft volume rollback \
                 {name} {base}`, and import again"
            );
            return Outcome::Wait(self.keep(diff.volume, Some(why)));
        }
        if let Some(op) = diff.request() {
            self.ask_nodes(conn, diff.volume.id, op);
            return Outcome::Wait(Wait::Comparing(diff, hidden));
        }
        let import = self.engine.map().volumes.get(&hidden).and_then(|v| v.import.clone());
        Outcome::Wait(match import {
            Some(import) => self.put_in_place(diff.volume.id, hidden, import),
            None => self.keep(diff.volume, Some("the imported content has been deleted".into())),
        })
    }

    fn put_in_place(&mut self, id: VolumeId, hidden: VolumeId, import: Import) -> Wait {
        let ticket = self.engine.change(Change::FinishImport(hidden));
        Wait::Imported(id, import.snapshot, ticket)
    }

    /// Looks whether the map has the hidden volume, or the imported content is in place.
    pub(super) fn check_imports(&mut self, mut wait: Wait) -> Result<Outcome> {
        let (Wait::Importing(_, ticket) | Wait::Imported(_, _, ticket)) = &mut wait else {
            return Ok(Outcome::Wait(wait));
        };
        if !self.is_made(ticket)? {
            return Ok(Outcome::Wait(wait));
        }
        let map = self.engine.map();
        match wait {
            Wait::Importing(name, _) => {
                let hidden = map.volumes.values().find(|v| v.name == name && !v.is_deleted());
                let hidden = hidden.ok_or_else(overtaken)?;
                Ok(Outcome::Answer(ok(json!({ "volume": status::volume(self, hidden) }))))
            }
            Wait::Imported(id, snapshot, _) => {
                let volume = map.volumes.get(&id).ok_or_else(overtaken)?;
                let full = volume.snapshot_name(&snapshot);
                let is_it = |v: &&&Arc<Volume>| v.name == full && v.visible > 0;
                let taken = map.snapshots_of(id).iter().find(is_it).map(|v| Volume::clone(v));
                match taken {
                    Some(snapshot) => {
                        let snapshots = [status::volume(self, &snapshot)];
                        Ok(Outcome::Answer(ok(json!({ "snapshots": snapshots }))))
                    }
                    // A name was taken meanwhile, say.
                    None if volume.visible == 0 => {
                        let volume = Volume::clone(volume);
                        Ok(Outcome::Wait(self.keep(volume, Some(overtaken().to_string()))))
                    }
                    None => Err(overtaken()),
                }
            }
            wait => Ok(Outcome::Wait(wait)),
        }
    }
}

#[cfg(test)]
mod tests {
    use weft_core::layout::{Geometry, LayoutSpec};

    use super::*;

    #[test]
    fn changes_to_a_smaller_size_are_refused() {
        let spec = LayoutSpec::default();
        let geometry = Geometry::new(spec.over(4).unwrap(), 64 << 10);
        let base = Volume::new(VolumeId(3), "a@b", 20 << 30, &spec, geometry, Vec::new());
        for fits in [None, Some(20 << 30), Some(30 << 30)] {
            assert!(refuse_smaller(&base, fits).is_ok(), "{fits:?}");
        }
        let said = refuse_smaller(&base, Some(10 << 30)).unwrap_err().0;
        assert!(said.contains("a@b") && said.contains("whole snapshot"), "{said}");
    }
}
