//! Imports: snapshots of other volumes, of this cluster or another, whose content comes as a stream.
//!
//! The content is written to a hidden volume: a new one, or a clone of the snapshot that the stream is based on. When it
//! is complete, one change of the map puts it in place. A new volume gets its name. The content of a clone becomes that
//! of the volume: as in a rollback, the volume goes on in another address space. In both cases the same change takes the
//! snapshot. So nobody sees a part of an import, and if it is interrupted, nothing has changed.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::{ClusterMap, Snapshot, ViewError, Volume};
use crate::units::VolumeId;

/// The snapshot that was taken, and not imported. Numbers of volumes are not used twice in a cluster, unless its state is
/// restored from a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Source {
    /// The number of its cluster.
    pub cluster: u128,
    /// Its own there.
    pub snapshot: VolumeId,
}

/// The number of the cluster in hexadecimal, a dash, and that of the snapshot.
impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}-{}", self.cluster, self.snapshot.0)
    }
}

/// A text is no [`Source`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' identifies no snapshot: it is not 32 hexadecimal digits and numbers, with dashes between them"
)]
pub struct NoSource(String);

impl FromStr for Source {
    type Err = NoSource;

    fn from_str(text: &str) -> Result<Source, NoSource> {
        let parts = text.split_once('-').filter(|(cluster, _)| cluster.len() == 32);
        let source = parts.and_then(|(cluster, snapshot)| {
            let cluster = u128::from_str_radix(cluster, 16).ok()?;
            Some(Source { cluster, snapshot: VolumeId(snapshot.parse().ok()?) })
        });
        source.ok_or_else(|| NoSource(text.to_string()))
    }
}

/// What identifies the content of a snapshot everywhere: the snapshot that was taken, and when. A cluster that was restored from
/// a backup gives the same numbers again, but at other times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    /// The snapshot that was taken.
    pub source: Source,
    /// Seconds since 1970 when it was. Earlier versions of streams do not say it.
    pub taken: Option<u64>,
}

impl Identity {
    /// Of a snapshot that was taken at a time.
    pub fn new(source: Source, taken: u64) -> Identity {
        Identity { source, taken: Some(taken) }
    }

    /// Whether both name the same snapshot. A time counts if both have one.
    pub fn is(&self, other: &Identity) -> bool {
        let differs = |(one, other)| one != other;
        self.source == other.source && !self.taken.zip(other.taken).is_some_and(differs)
    }
}

/// That of the source; then a dash, and the time.
impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.taken {
            Some(taken) => write!(f, "{}-{taken}", self.source),
            None => self.source.fmt(f),
        }
    }
}

impl FromStr for Identity {
    type Err = NoSource;

    fn from_str(text: &str) -> Result<Identity, NoSource> {
        let is_source = |text: &str| text.matches('-').count() == 1;
        let parts = text.rsplit_once('-').filter(|(source, _)| is_source(source));
        let Some((source, taken)) = parts else {
            return Ok(Identity { source: text.parse()?, taken: None });
        };
        let taken = taken.parse().map_err(|_| NoSource(text.to_string()))?;
        Ok(Identity::new(source.parse()?, taken))
    }
}

/// What a hidden volume will be when its content is complete.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Import {
    /// The name of the volume.
    pub name: String,
    /// The volume, if it exists.
    pub into: Option<VolumeId>,
    /// The name of its new snapshot, without the volume's.
    pub snapshot: String,
    /// Seconds since 1970 when the source was taken.
    pub taken: u64,
    /// The source.
    pub source: Source,
    /// The offset up to which its content is written and durable: an interrupted import continues there.
    pub done: u64,
}

/// Stands behind the name of a volume in the names of its imports. No other name has it.
const SUFFIX: &str = "%import";

impl Import {
    /// What identifies its content.
    pub fn identity(&self) -> Identity {
        Identity::new(self.source, self.taken)
    }

    /// The name of the hidden volume.
    pub fn hidden_name(&self) -> String {
        Import::hidden_name_of(&self.name)
    }

    /// The name of the hidden volume of an import to the volume of this name.
    pub fn hidden_name_of(name: &str) -> String {
        format!("{name}{SUFFIX}")
    }
}

impl Volume {
    /// What identifies its content, in the cluster of this number, if it is a snapshot.
    pub fn identity(&self, cluster: u128) -> Option<Identity> {
        let itself = Source { cluster, snapshot: self.id };
        let snapshot = self.lineage.snapshot?;
        // An imported snapshot has the time of its source.
        Some(Identity::new(snapshot.source.unwrap_or(itself), snapshot.taken))
    }
}

impl ClusterMap {
    /// The snapshot of a volume with this content, in the cluster of this number.
    pub fn snapshot_from(&self, id: VolumeId, source: Identity, cluster: u128) -> Option<&Volume> {
        let is_it = |v: &&&Arc<Volume>| v.identity(cluster).is_some_and(|its| its.is(&source));
        self.snapshots_of(id).iter().rev().find(is_it).map(|v| &***v)
    }

    /// What keeps a snapshot from being imported on top of another.
    ///
    /// # Errors
    /// The first obstacle.
    pub fn check_import(&self, base: VolumeId, import: &Import) -> Result<(), ViewError> {
        self.check_clone(base, &import.hidden_name())?;
        let into = import.into.and_then(|id| self.volumes.get(&id)).ok_or(ViewError::Unknown)?;
        let of = self.volumes[&base].lineage.snapshot.map(|s| s.of);
        match of == Some(into.id) {
            true => self.check_snapshot(into.id, &import.snapshot),
            false => Err(ViewError::OfAnother),
        }
    }

    /// Makes the hidden volume of an import on top of a snapshot.
    pub(in crate::cluster) fn begin_import(&mut self, base: VolumeId, import: &Import) {
        if self.check_import(base, import).is_err() {
            return;
        }
        let number = VolumeId(self.next_volume);
        self.clone_volume(base, &import.hidden_name());
        let hidden = self.volumes.get_mut(&number).expect("just made");
        Arc::make_mut(hidden).import = Some(import.clone());
    }

    /// Records that the content of an import is durable up to an offset.
    pub(in crate::cluster) fn advance_import(&mut self, id: VolumeId, done: u64) {
        let volume = self.volumes.get_mut(&id).filter(|volume| done <= volume.size);
        if let Some(import) = volume.and_then(|volume| Arc::make_mut(volume).import.as_mut()) {
            import.done = import.done.max(done);
        }
    }

    /// Puts an import in place, and takes its snapshot; or does nothing.
    pub(in crate::cluster) fn finish_import(&mut self, id: VolumeId) {
        if let Some(after) = self.with_import(id) {
            *self = after;
        }
    }

    /// The map with an import in place, if that can be.
    fn with_import(&self, id: VolumeId) -> Option<ClusterMap> {
        let hidden = self.volumes.get(&id).filter(|v| !v.is_deleted() && v.visible == v.size)?;
        let import = hidden.import.clone()?;
        let mut after = self.clone();
        let volume = match import.into {
            None if self.name_is_taken(&import.name, id) => return None,
            None => {
                let volume = Arc::make_mut(after.volumes.get_mut(&id)?);
                (volume.name, volume.import) = (import.name.clone(), None);
                id
            }
            Some(into) => {
                after.take_content(into, id)?;
                into
            }
        };
        after.check_snapshot(volume, &import.snapshot).ok()?;
        let (taken, source) = (import.taken, Some(import.source));
        let snapshot = Snapshot { of: volume, taken, source, scheduled: None };
        after.take_snapshot(&import.snapshot, snapshot);
        after.check().is_ok().then_some(after)
    }

    /// A volume drops writes since the snapshots that it shares with a hidden volume, and has that one's content.
    /// Unsettled writes follow the address space.
    fn take_content(&mut self, into: VolumeId, hidden: VolumeId) -> Option<()> {
        let hidden = self.volumes.remove(&hidden)?;
        let attendance = self.attendance.remove(&hidden.id);
        let volume = self.volumes.get_mut(&into).filter(|v| !v.is_deleted() && !v.is_snapshot())?;
        let volume = Arc::make_mut(volume);
        (volume.size, volume.visible) = (hidden.size, hidden.size);
        volume.extents = hidden.extents.clone();
        volume.lineage = hidden.lineage;
        volume.tidy_ranges();
        self.attendance.remove(&into);
        self.attendance.extend(attendance.map(|attendance| (into, attendance)));
        self.room_used = true;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{Access, Change, Extent, NodeInfo};
    use crate::layout::{Geometry, LayoutSpec};
    use crate::units::{NodeId, SPACE_SECTORS, thin_space};

    const FAR: Source = Source { cluster: 7, snapshot: VolumeId(40) };

    /// Three disks, and a thin volume `a`.
    fn map() -> ClusterMap {
        let spec: LayoutSpec = "raid5".parse().unwrap();
        let geometry = Geometry::new(spec.over(3).unwrap(), 8192);
        let columns = (0..3).map(|n| (NodeId(n), thin_space(VolumeId(0)))).collect();
        let size = 100 * geometry.stripe_bytes();
        let volume =
            Volume::new(VolumeId(0), "a", size, &spec, geometry, vec![Extent::new(0, columns)]);
        let disk = |n| NodeInfo { up: true, sectors: 1 << 20, disk: n, ..NodeInfo::expected(None) };
        ClusterMap {
            nodes: (1..=3).map(disk).collect(),
            volumes: [(volume.id, Arc::new(volume))].into(),
            next_volume: 1,
            ..ClusterMap::default()
        }
    }

    fn import(into: Option<u32>) -> Import {
        let (name, snapshot) = (["b", "a"][usize::from(into.is_some())].into(), "new".into());
        Import { name, into: into.map(VolumeId), snapshot, taken: 9, source: FAR, done: 0 }
    }

    fn named<'a>(map: &'a ClusterMap, name: &str) -> Option<&'a Arc<Volume>> {
        map.volumes.values().find(|volume| volume.name == name)
    }

    #[test]
    fn a_source_is_read_as_it_is_written() {
        let text = "00000000000000000000000000000007-40";
        assert_eq!((FAR.to_string().as_str(), text.parse()), (text, Ok(FAR)));
        for wrong in ["", "7-40", &text[..33], "0000000000000000000000000000000g-40"] {
            assert!(wrong.parse::<Source>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_identity_says_when_the_snapshot_was_taken() {
        let text = "00000000000000000000000000000007-40-9";
        let identity = Identity::new(FAR, 9);
        assert_eq!((identity.to_string().as_str(), text.parse()), (text, Ok(identity)));
        let earlier = Identity { source: FAR, taken: None };
        assert_eq!(FAR.to_string().parse(), Ok(earlier));
        assert!(identity.is(&earlier) && earlier.is(&identity) && identity.is(&identity));
        assert!(!identity.is(&Identity::new(FAR, 8)));
        let other = Source { snapshot: VolumeId(41), ..FAR };
        assert!(!identity.is(&Identity::new(other, 9)));
        for wrong in ["", "-", "7-40-9", &format!("{text}-1"), &format!("{FAR}-x"), "--"] {
            assert!(wrong.parse::<Identity>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_import_on_a_snapshot_replaces_what_was_written_since() {
        let mut map = map();
        let first = VolumeId(map.next_volume);
        map = Change::TakeSnapshots(vec![VolumeId(0)], "old".into(), 5).made_on(&map);
        let begun = Change::BeginImport(first, import(Some(0))).made_on(&map);
        let hidden = named(&begun, "a%import").unwrap();
        assert_eq!((hidden.lineage.below, hidden.import.is_some()), (Some(first), true));
        let advanced = |to| {
            let map = Change::AdvanceImport(hidden.id, to).made_on(&begun);
            map.volumes[&hidden.id].import.as_ref().unwrap().done
        };
        assert_eq!((advanced(8192), advanced(hidden.size + 1)), (8192, 0));
        let space = hidden.space();
        let done = Change::FinishImport(hidden.id).made_on(&begun);
        done.assert_sound();
        let (a, new) = (named(&done, "a").unwrap(), named(&done, "a@new").unwrap());
        assert_eq!((a.id, a.lineage.below), (VolumeId(0), Some(new.id)));
        // Its writes, also those that are not settled, are those of the address space.
        assert_eq!((new.space(), new.lineage.below), (space, Some(first)));
        assert!(a.space() > space && a.visible == a.size && a.size == new.size);
        assert!(named(&done, "a%import").is_none() && a.import.is_none() && new.import.is_none());
        let found = |source, taken, cluster| {
            done.snapshot_from(a.id, Identity { source, taken }, cluster).map(|v| v.id)
        };
        let own = Source { cluster: 1, snapshot: first };
        assert_eq!((found(FAR, Some(9), 1), found(FAR, None, 1)), (Some(new.id), Some(new.id)));
        assert_eq!((found(own, Some(5), 1), found(own, Some(5), 2)), (Some(first), None));
        // The number was given before, and then again after the cluster was restored from a backup.
        assert_eq!((found(FAR, Some(8), 1), found(own, Some(6), 1)), (None, None));
        // A name that was taken meanwhile.
        let taken = Change::TakeSnapshots(vec![VolumeId(0)], "new".into(), 6).made_on(&begun);
        assert_eq!(Change::FinishImport(hidden.id).made_on(&taken), taken);
        let again = Change::BeginImport(first, import(Some(0))).made_on(&begun);
        assert_eq!(again, begun, "one at a time");
    }

    #[test]
    fn an_import_of_a_new_volume_gets_its_name_when_it_is_whole() {
        let mut map = map();
        let mut hidden = Volume::clone(&map.volumes[&VolumeId(0)]);
        hidden.id = VolumeId(1);
        hidden.name = import(None).hidden_name();
        hidden.import = Some(import(None));
        let first = thin_space(hidden.id);
        hidden.extents[0].columns.iter_mut().for_each(|c| c.1 = first + c.1 % SPACE_SECTORS);
        map = Change::AddVolume(Arc::new(hidden)).made_on(&map);
        let done = Change::FinishImport(VolumeId(1)).made_on(&map);
        done.assert_sound();
        let (b, new) = (named(&done, "b").unwrap(), named(&done, "b@new").unwrap());
        assert_eq!((b.id, b.lineage.below, &b.import), (VolumeId(1), Some(new.id), &None));
        let picture = new.lineage.snapshot.unwrap();
        assert_eq!((picture.of, picture.taken, picture.source), (b.id, 9, Some(FAR)));
        let named_b = Change::RenameVolume(VolumeId(0), "b".into()).made_on(&map);
        assert_eq!(Change::FinishImport(VolumeId(1)).made_on(&named_b), named_b);
    }

    #[test]
    fn a_clone_serves_nobody_if_its_snapshot_has_a_list() {
        let mut map = map();
        for hosts in [None, Some([("web".to_string(), Access::Full)].into())] {
            let has_list = hosts.is_some();
            Arc::make_mut(map.volumes.get_mut(&VolumeId(0)).unwrap()).hosts = hosts;
            let picture = VolumeId(map.next_volume);
            let (snapshot, clone) = (format!("s{has_list}"), format!("b{has_list}"));
            map = Change::TakeSnapshots(vec![VolumeId(0)], snapshot, 5).made_on(&map);
            map = Change::CloneVolume(picture, clone.clone()).made_on(&map);
            let expected = has_list.then(Default::default);
            assert_eq!(named(&map, &clone).unwrap().hosts, expected);
        }
    }

    #[test]
    fn an_import_needs_its_base() {
        let mut map = map();
        let picture = VolumeId(map.next_volume);
        map = Change::TakeSnapshots(vec![VolumeId(0)], "old".into(), 5).made_on(&map);
        let check = |map: &ClusterMap, base, import| map.check_import(base, &import);
        assert_eq!(check(&map, picture, import(Some(0))), Ok(()));
        assert_eq!(check(&map, VolumeId(0), import(Some(0))), Err(ViewError::NoSnapshot));
        assert_eq!(check(&map, VolumeId(77), import(Some(0))), Err(ViewError::Unknown));
        assert_eq!(check(&map, picture, import(Some(77))), Err(ViewError::Unknown));
        let old = Import { snapshot: "old".into(), ..import(Some(0)) };
        assert_eq!(check(&map, picture, old), Err(ViewError::NameTaken));
        map = Change::CloneVolume(picture, "b".into()).made_on(&map);
        let clone = named(&map, "b").unwrap().id.0;
        assert_eq!(check(&map, picture, import(Some(clone))), Err(ViewError::OfAnother));
    }
}
