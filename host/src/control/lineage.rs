//! What a volume is a snapshot of, and what it lies over, in words.

use std::time::{Duration, UNIX_EPOCH};

use weft_core::cluster::{ClusterMap, Volume};

use crate::log::stamp;

/// The name of the volume that a snapshot is of. Without that volume it is the first part of its own.
pub(super) fn origin(map: &ClusterMap, volume: &Volume) -> Option<String> {
    let of = map.volumes.get(&volume.lineage.snapshot?.of);
    Some(of.map_or_else(|| volume.name.clone(), |of| of.name.clone()))
}

/// When a snapshot was taken.
pub(super) fn taken(volume: &Volume) -> Option<String> {
    Some(stamp(UNIX_EPOCH + Duration::from_secs(volume.lineage.snapshot?.taken)))
}

/// The nearest snapshot below a volume that is not deleted: it shows that where it was not written itself.
pub(super) fn below(map: &ClusterMap, volume: &Volume) -> Option<String> {
    let next = |volume: &&Volume| volume.lineage.below.and_then(|id| map.volumes.get(&id));
    let mut all = std::iter::successors(next(&volume), |volume| next(&&***volume));
    all.find(|below| !below.is_deleted()).map(|below| below.name.clone())
}
