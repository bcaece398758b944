//! What a volume is a snapshot of, and what it lies over, in words.

use std::time::{Duration, UNIX_EPOCH};

use weft_core::cluster::{ClusterMap, Identity, Import, Volume};

use crate::log::stamp;
use crate::status::TransferStatus;
use crate::volumes::SNAPSHOT_MARK;

/// The name of the volume that a snapshot is of. Without that volume it is the first part of its own.
pub(super) fn origin(map: &ClusterMap, volume: &Volume) -> Option<String> {
    let of = map.volumes.get(&volume.lineage.snapshot?.of);
    let first_part = || volume.name.split(SNAPSHOT_MARK).next().unwrap_or_default();
    Some(of.map_or_else(first_part, |of| &of.name).to_string())
}

/// When a snapshot was taken.
pub(super) fn taken(volume: &Volume) -> Option<String> {
    let since = Duration::from_secs(volume.lineage.snapshot?.taken);
    Some(stamp(UNIX_EPOCH.checked_add(since)?))
}

/// What exports and imports of a volume go by, in the cluster of this number.
pub(super) fn transfer(map: &ClusterMap, volume: &Volume, cluster: u128) -> Option<TransferStatus> {
    let snapshots = map.snapshots_of(volume.id).into_iter().filter_map(|v| v.lineage.snapshot);
    let imported = snapshots.filter(|snapshot| snapshot.source.is_some());
    let import = volume.import.as_ref();
    let below = volume.lineage.below.filter(|_| import.is_some());
    let base = below.and_then(|id| map.volumes.get(&id)?.identity(cluster));
    let text = |identity: Identity| identity.to_string();
    let transfer = TransferStatus {
        identity: import.map(Import::identity).or(volume.identity(cluster)).map(text),
        base: base.map(text),
        done: import.map(|import| import.done),
        imported_until: imported.map(|snapshot| snapshot.taken).max(),
        imports_to: import.map(|import| import.name.clone()),
    };
    (transfer != TransferStatus::default()).then_some(transfer)
}

/// The nearest snapshot below a volume that is not deleted: it shows that where it was not written itself.
pub(super) fn below(map: &ClusterMap, volume: &Volume) -> Option<String> {
    let next = |volume: &&Volume| volume.lineage.below.and_then(|id| map.volumes.get(&id));
    let mut all = std::iter::successors(next(&volume), |volume| next(&&***volume));
    all.find(|below| !below.is_deleted()).map(|below| below.name.clone())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use weft_core::cluster::{Deletion, Lineage, Snapshot};
    use weft_core::layout::{Geometry, LayoutSpec};
    use weft_core::units::VolumeId;

    use super::*;

    fn volume(id: u32, name: &str, below: Option<u32>, of: Option<u32>) -> Volume {
        let spec = LayoutSpec::default();
        let geometry = Geometry::new(spec.over(3).unwrap(), 4096);
        let snapshot = of.map(|of| Snapshot {
            of: VolumeId(of),
            taken: 1_735_689_599,
            source: None,
            scheduled: None,
        });
        let lineage = Lineage { below: below.map(VolumeId), snapshot, ..Lineage::default() };
        Volume { lineage, ..Volume::new(VolumeId(id), name, 0, &spec, geometry, Vec::new()) }
    }

    #[test]
    fn a_deleted_snapshot_is_passed_over() {
        let first = volume(1, "a@s", None, Some(0));
        let mut second = volume(2, "a@t", Some(1), Some(0));
        let a = volume(0, "a", Some(2), None);
        let map = |second: &Volume| ClusterMap {
            volumes: [&a, &first, second].map(|v| (v.id, Arc::new(v.clone()))).into(),
            ..ClusterMap::default()
        };
        assert_eq!(below(&map(&second), &a).as_deref(), Some("a@t"));
        assert_eq!(below(&map(&second), &first), None);
        second.deletion = Deletion { since: Some(1) };
        assert_eq!(below(&map(&second), &a).as_deref(), Some("a@s"));
        assert_eq!(origin(&map(&second), &first).as_deref(), Some("a"));
        assert_eq!(origin(&ClusterMap::default(), &first).as_deref(), Some("a"));
        assert_eq!(origin(&map(&second), &a), None);
        let identity = transfer(&map(&second), &first, 7).unwrap().identity.unwrap();
        assert_eq!(identity, "00000000000000000000000000000007-1-1735689599");
        assert_eq!(transfer(&map(&second), &a, 7), None);
        assert_eq!(taken(&first).as_deref(), Some("2024-12-31T23:59:59.000Z"));
    }
}
