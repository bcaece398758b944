//! What parity that waits exposes of volumes and of their ranges: what each node says, and what that means in all.

use weft_core::cluster::{Area, ClusterMap, Volume};
use weft_core::node::{Exposed, NodeStatus as Life};
use weft_core::units::VolumeId;

use crate::policy;
use crate::status::{ExposedStatus, NodeStatus, RangeStatus};

/// What parity that waits on a disk exposes, of each volume and range of which it does or did.
pub(crate) fn on_disk(map: &ClusterMap, life: &Life) -> Vec<ExposedStatus> {
    let whole = life.exposed.iter().filter_map(|(id, e)| exposed(*id, None, e));
    let in_ranges = life.exposed_areas.iter().filter_map(|((id, area), e)| {
        let Area::Range(first) = area else { return None };
        let stripe = map.volumes.get(id)?.geometry.stripe_bytes();
        exposed(*id, Some(first * stripe), e)
    });
    whole.chain(in_ranges).collect()
}

fn exposed(volume: VolumeId, offset: Option<u64>, exposed: &Exposed) -> Option<ExposedStatus> {
    let any = exposed.most_bytes > 0 || exposed.lost_bytes > 0;
    let share = exposed.unprotected as f64 / exposed.watched.max(1) as f64;
    any.then(|| ExposedStatus {
        volume: volume.0,
        offset,
        stripes: exposed.stripes,
        bytes: exposed.bytes,
        mean_bytes: exposed.mean_bytes(),
        most_bytes: exposed.most_bytes,
        lost_bytes: exposed.lost_bytes,
        oldest_seconds: exposed.age as f64 / 1e9,
        unprotected_share: share,
        unprotected_share_most: share,
        ..ExposedStatus::default()
    })
}

/// What all nodes say of a volume, and what it means by AFRAID's equations. What the disks do not know of one another counts
/// against them: that no two were exposed at a time.
pub(crate) fn of(volume: &Volume, nodes: &[NodeStatus]) -> Option<ExposedStatus> {
    let sum = sum(volume, None, nodes);
    let any = volume.defers() || sum.stripes > 0 || sum.lost_bytes > 0;
    any.then(|| ExposedStatus {
        mttdl_hours: Some(volume.rates().mttdl(sum.unprotected_share_most)),
        mdlr_bytes_per_hour: Some(volume.mdlr(sum.mean_bytes as f64)),
        ..sum
    })
}

/// The ranges of a volume, with what all nodes say of each.
pub(crate) fn ranges(volume: &Volume, nodes: &[NodeStatus]) -> Vec<RangeStatus> {
    let stripe = volume.geometry.stripe_bytes();
    let range = |range: &weft_core::cluster::PolicyRange| {
        let offset = range.first * stripe;
        let sum = sum(volume, Some(offset), nodes);
        let any = range.redundancy.defers() || sum.stripes > 0 || sum.lost_bytes > 0;
        let words = policy::words_of_range(&volume.policy_at(range.first));
        RangeStatus {
            offset,
            length: (range.end * stripe).min(volume.size) - offset,
            exposed: any.then(|| ExposedStatus {
                mttdl_hours: Some(volume.rates_of(range).mttdl(sum.unprotected_share_most)),
                mdlr_bytes_per_hour: Some(volume.mdlr_of(range, sum.mean_bytes as f64)),
                ..sum
            }),
            policy: words,
        }
    };
    volume.ranges.iter().map(range).collect()
}

fn sum(volume: &Volume, offset: Option<u64>, nodes: &[NodeStatus]) -> ExposedStatus {
    let none = ExposedStatus { volume: volume.id.0, offset, ..ExposedStatus::default() };
    let its = |e: &&ExposedStatus| (e.volume, e.offset) == (volume.id.0, offset);
    nodes.iter().flat_map(|n| &n.exposed).filter(its).cloned().fold(none, ExposedStatus::with)
}
