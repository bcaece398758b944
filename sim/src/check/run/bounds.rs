//! Bounds of what parity that waits may expose: a disk whose share of twice a bound is exposed lets no more be exposed,
//! whatever hosts write.
//!
//! Looked at after every event, of volumes without ranges, as long as nothing is lost for good: what nothing determines
//! any more is marked whatever the bound. A disk may be beyond its share because the map, or the policy, is another
//! now; then it may not go further beyond. Nor is a disk judged while writes of earlier epochs are undecided on it. They were
//! let in when less was exposed: after a power cut parity waits again that had been computed and was not safe yet.

use std::collections::BTreeMap;

use weft_core::cluster::Volume;
use weft_core::policy::{Redundancy, Timing};
use weft_core::units::{Epoch, NodeId};

use super::{Run, VOLUME};

/// What a disk exposed when it was last looked at, and under which rules.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Exposed {
    epoch: Epoch,
    redundancy: Redundancy,
    stripes: u64,
    bytes: u64,
    /// Writes of earlier epochs were undecided.
    settles: bool,
}

/// What all disks exposed when they were last looked at.
#[derive(Default)]
pub(super) struct Bounds {
    seen: BTreeMap<NodeId, Exposed>,
}

/// What a disk may expose by bounds: stripes and bytes. What begins below twice its share may end above, by one write.
fn most(volume: &Volume, bounds: &Redundancy, max_chunk: u64) -> (u64, u64) {
    let g = &volume.geometry;
    let (parities, width) = (g.code.parity_columns().max(1) as u64, g.layout.width() as u64);
    let share = |bound: u64| match bound {
        Redundancy::UNBOUNDED => bound,
        // Its controller decides for all disks together.
        _ if volume.has_one_account() => bound.saturating_mul(2),
        _ => (bound.saturating_mul(2 * parities) / width).max(1),
    };
    // A write of which no parity is computed at once is cut where units end.
    let stripes = match bounds.immediate_parities {
        0 => 1,
        _ => max_chunk.div_ceil(g.stripe_bytes()) + 1,
    };
    // A disk may have several parities of a stripe.
    let bytes = stripes * parities * g.stripe_bytes();
    (
        share(bounds.exposed_stripes).saturating_add(stripes),
        share(bounds.exposed_bytes).saturating_add(bytes),
    )
}

impl Run {
    /// No disk has let more be exposed than it may since this was last asked.
    pub(super) fn check_bounds(&mut self) -> Result<(), String> {
        if !self.exposes || self.may_lose() || self.range_rng.is_some() {
            return Ok(());
        }
        for node in (0..self.world.size() as u16).map(NodeId) {
            let Some((epoch, volume, (stripes, bytes))) = self.world.exposed(node, VOLUME) else {
                self.bounds.seen.remove(&node);
                continue;
            };
            let redundancy = volume.policy.redundancy;
            let settles = self.world.settles_earlier_writes(node);
            let now = Exposed { epoch, redundancy, stripes, bytes, settles };
            let (most_stripes, most_bytes) = most(volume, &redundancy, self.max_chunk);
            let before = self.bounds.seen.insert(node, now);
            let same = |b: &Exposed| (b.epoch, b.redundancy) == (epoch, redundancy);
            let Some(before) = before.filter(|b| same(b) && !b.settles) else { continue };
            let beyond = (stripes > most_stripes && stripes > before.stripes)
                || (bytes > most_bytes && bytes > before.bytes);
            if redundancy.timing == Timing::Deferred && beyond {
                return Err(format!(
                    "{node} exposes {stripes} stripes and {bytes} bytes, more than before, and may {most_stripes} and {most_bytes}"
                ));
            }
        }
        Ok(())
    }
}
