//! Marks that an originator knows, because it has had them made. A write to the data that they cover goes only to the
//! disk with the data (`worker/relying.rs`, which refuses it if the marks are gone).

use std::collections::BTreeMap;

use super::{Job, Originator, Purpose, RunningJob, What};
use crate::cluster::Volume;
use crate::plan::{Range, Waits};
use crate::policy::Timing;
use crate::units::{ColumnSet, Nanos, NodeId, SECTOR, Timestamp, VolumeId};

/// The most sectors of parity known to be marked; beyond that the older half is forgotten.
const MOST: usize = 1 << 17;

/// Sectors of parity, by the stripe and the sector in its units: the marked parities, and since when.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct KnownMarks {
    sectors: BTreeMap<(VolumeId, u64, u64), (ColumnSet, Timestamp)>,
    /// Where parity was last not deferred although it should be, and until when that is not tried again.
    pub unwilling: BTreeMap<(VolumeId, NodeId), Nanos>,
    /// When each volume was last written.
    written: BTreeMap<VolumeId, Nanos>,
}

impl KnownMarks {
    /// The node enters an epoch: all marks are forgotten.
    pub fn enter(&mut self) {
        *self = KnownMarks::default();
    }

    /// These parities have been marked where they cover a range.
    fn learn(&mut self, volume: &Volume, range: Range, parities: ColumnSet, ts: Timestamp) {
        let Some((stripe, sectors)) = in_one_unit(volume, range) else { return };
        for sector in sectors {
            let known = self.sectors.entry((volume.id, stripe, sector)).or_insert((parities, ts));
            *known = match parities.covers(known.0) {
                true => (parities, ts),
                false => (known.0.union(parities), ts.min(known.1)),
            };
        }
        if self.sectors.len() > MOST {
            self.forget_half();
        }
    }

    /// A time since which these parities have been marked wherever they cover a range.
    fn since(&self, volume: &Volume, range: Range, parities: ColumnSet) -> Option<Timestamp> {
        let (stripe, sectors) = in_one_unit(volume, range)?;
        let mut since = None;
        for sector in sectors {
            let (marked, ts) = self.sectors.get(&(volume.id, stripe, sector))?;
            if !marked.covers(parities) {
                return None;
            }
            since = Some(since.map_or(*ts, |s: Timestamp| s.min(*ts)));
        }
        since
    }

    /// Forgets the marks of these stripes of a volume.
    fn forget(&mut self, volume: VolumeId, stripes: std::ops::Range<u64>) {
        let from = (volume, stripes.start, 0);
        let its = self.sectors.range(from..(volume, stripes.end, 0));
        for key in its.map(|(key, _)| *key).collect::<Vec<_>>() {
            self.sectors.remove(&key);
        }
    }

    fn forget_half(&mut self) {
        let mut times: Vec<Timestamp> = self.sectors.values().map(|known| known.1).collect();
        let half = times.len() / 2;
        let (_, middle, _) = times.select_nth_unstable(half);
        let middle = *middle;
        self.sectors.retain(|_, known| known.1 > middle);
    }
}

/// The stripe of a range that lies in one data unit and is not all data of the stripe, and the sectors of the unit.
fn in_one_unit(volume: &Volume, range: Range) -> Option<(u64, std::ops::Range<u64>)> {
    let g = &volume.geometry;
    let unit = range.offset / g.unit;
    if range.len == 0 || (range.end() - 1) / g.unit != unit || range.len == g.stripe_bytes() {
        return None;
    }
    let first = range.offset % g.unit;
    let sectors = first / SECTOR..(first + range.len).div_ceil(SECTOR);
    Some((range.stripes(g).start, sectors))
}

/// The parities that cover a range that lies in one data unit.
fn covering(volume: &Volume, range: Range) -> ColumnSet {
    let g = &volume.geometry;
    g.code.parities_of((range.offset % g.stripe_bytes() / g.unit) as usize)
}

impl Originator {
    /// The deferred parities of an attempt, with the time since when they have been marked, if known. It relies on
    /// marks only if all parity that covers its change is deferred: the nodes of immediate parities are told anyway.
    pub(super) fn relying(
        &mut self,
        job: &Job,
        volume: &Volume,
        parities: ColumnSet,
        now: Nanos,
    ) -> Waits {
        let What::Write(range, _) = job.what else { return parities.into() };
        if job.must_wait {
            return Waits { must: true, ..parities.into() };
        }
        let is_host = matches!(job.purpose, Purpose::Host(_));
        let policy = volume.policy_at(job.what.first_stripe(volume));
        if parities.is_empty() || !is_host || !policy.relies_on_marks() {
            return parities.into();
        }
        let redundancy = policy.redundancy;
        let before = self.known_marks.written.insert(volume.id, now).unwrap_or(now);
        // It has been computed by now, or is about to be. A controller knows.
        let is_told = volume.has_one_account();
        if redundancy.timing == Timing::Deferred
            && now.saturating_sub(before) >= redundancy.idle
            && !is_told
        {
            self.known_marks.forget(volume.id, 0..u64::MAX);
        }
        let covering = covering(volume, range);
        let marked_since = match parities.covers(covering) {
            true => self.known_marks.since(volume, range, covering),
            false => None,
        };
        Waits { parities, marked_since, ..Waits::NONE }
    }

    /// A write has happened that has marked parity.
    pub(super) fn learn_marks(&mut self, ts: Timestamp, txn: &RunningJob) {
        let What::Write(range, _) = txn.job.what else { return };
        let Waits { parities, marked_since: None, .. } = txn.waits else { return };
        if !parities.is_empty() && !txn.job.must_wait && txn.policy.relies_on_marks() {
            let marked = parities.intersection(covering(&txn.volume, range));
            self.known_marks.learn(&txn.volume, range, marked, ts);
        }
    }

    /// The parity of a stripe is about to be computed.
    pub(super) fn forget_marks(&mut self, volume: VolumeId, stripe: u64) {
        self.known_marks.forget(volume, stripe..stripe + 1);
    }

    /// A write relied on marks that may be gone.
    pub(super) fn marks_are_gone(&mut self, job: Job) {
        if let Some(volume) = self.map.volumes.get(&job.volume) {
            self.known_marks.forget(volume.id, job.what.stripes(volume));
        }
        self.retry(job);
    }

    /// Whether only an absent disk, which may come back, knows the outcome of a write: one that relied on marks has no
    /// participant but the node with its data.
    pub(super) fn awaits_holder(&self, txn: &RunningJob, participants: &[(usize, NodeId)]) -> bool {
        let extent = txn.volume.extents.get(txn.extent);
        let may_return = |(column, node): &(usize, NodeId)| {
            let its = extent.and_then(|e| e.columns.get(*column)).is_some_and(|c| c.0 == *node);
            its && !self.map.is_up(*node)
        };
        txn.waits.marked_since.is_some() && participants.iter().any(may_return)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Extent;
    use crate::layout::{Geometry, LayoutSpec};

    const UNIT: u64 = 8 * SECTOR;

    fn at(micros: u64) -> Timestamp {
        Timestamp::new(micros, NodeId(0))
    }

    /// Four data units. The first two have a parity of their own, so have the others, and one parity covers all.
    fn volume() -> Volume {
        let spec: LayoutSpec = "lrc:4+2+1".parse().unwrap();
        let geometry = Geometry::new(spec.over(7).unwrap(), UNIT);
        let extents = vec![Extent::new(0, (0..7).map(|n| (NodeId(n), 0)).collect())];
        Volume::new(VolumeId(1), "v", geometry.stripe_bytes(), &spec, geometry, extents)
    }

    /// Parity of the first unit alone may have been computed between two writes that marked some of it each: the second did
    /// not mark that anew.
    #[test]
    fn parities_that_were_marked_one_by_one_stand_since_the_first() {
        let volume = volume();
        let (first, last) = (Range { offset: 0, len: UNIT }, Range { offset: 3 * UNIT, len: UNIT });
        let (of_first, of_last) = (covering(&volume, first), covering(&volume, last));
        assert_eq!((of_first.len(), of_last.len(), of_first.union(of_last).len()), (2, 2, 3));
        for times in [[5, 9], [9, 5]] {
            let mut known = KnownMarks::default();
            known.learn(&volume, first, of_first, at(times[0]));
            assert_eq!(known.since(&volume, first, of_first), Some(at(times[0])));
            assert_eq!(known.since(&volume, last, of_last), None, "its own is not marked");
            known.learn(&volume, last, of_last, at(times[1]));
            assert_eq!(known.since(&volume, first, of_first), Some(at(5)), "{times:?}");
            assert_eq!(known.since(&volume, last, of_last), Some(at(5)), "{times:?}");
        }
        // One that marks all anew makes them as late as it is.
        let mut known = KnownMarks::default();
        known.learn(&volume, first, of_first, at(5));
        known.learn(&volume, first, of_first, at(9));
        assert_eq!(known.since(&volume, first, of_first), Some(at(9)));
    }
}
