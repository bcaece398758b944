//! Ranges of a volume in which parity waits by other rules than in the rest of it.
//!
//! A range is a run of stripes with its own values for those of the redundancy's choices that are about stripes
//! ([`IN_RANGES`](crate::policy::IN_RANGES)). What is about the volume as a whole stays the volume's. Whoever wants to know when a stripe's parity is computed
//! asks for the policy at that stripe, and need not know of ranges.

use std::ops::Range as Run;

use super::Volume;
use crate::plan;
use crate::policy::{Policy, Redundancy, Setting};
use crate::units::Range;

/// Most ranges of a volume.
pub const MOST_RANGES: usize = 64;

/// A run of stripes that has its own redundancy.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PolicyRange {
    /// Its first stripe.
    pub first: u64,
    /// The stripe after its last.
    pub end: u64,
    /// When its parity is computed.
    pub redundancy: Redundancy,
}

/// What is counted together of a volume's stripes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Area {
    /// All of them.
    Whole,
    /// Those that lie in no range, where there are ranges.
    Rest,
    /// Those of the range that begins with this stripe.
    Range(u64),
}

/// Stripes of a volume with one redundancy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stripes {
    /// What they are.
    pub area: Area,
    /// In runs, in order.
    pub runs: Vec<Run<u64>>,
    /// When their parity is computed.
    pub redundancy: Redundancy,
}

impl Volume {
    /// When the parity of a stripe is computed.
    pub fn redundancy_at(&self, stripe: u64) -> &Redundancy {
        self.range_of(stripe).map_or(&self.policy.redundancy, |range| &range.redundancy)
    }

    /// The policy by which a stripe is written.
    pub fn policy_at(&self, stripe: u64) -> Policy {
        Policy { redundancy: *self.redundancy_at(stripe), ..self.policy }
    }

    /// The largest power of two such that writes within an aligned stretch of that size are never cut: they take effect
    /// whole or not at all, whatever fails, and no read sees a part. 0 if writes are not atomic.
    pub fn atomic_bytes(&self) -> u64 {
        /// What one disk journals of a write: a quarter of the smallest journal has room for more.
        const MOST_PER_DISK: u64 = 256 << 10;
        /// What all of them do, which is what a node cuts at.
        const MOST: u64 = 4 << 20;
        if !self.policy.can_modify() || !self.policy.is_journaled() {
            return 0;
        }
        let redundancies = self.ranges.iter().map(|range| range.redundancy);
        let is_cut = redundancies.chain([self.policy.redundancy]).any(|redundancy| {
            plan::cuts_at_units(&self.geometry, &Policy { redundancy, ..self.policy })
        });
        let (unit, stripe) = (self.geometry.unit, self.geometry.stripe_bytes());
        let stretch = 1 << if is_cut { unit } else { stripe }.trailing_zeros();
        match plan::most_atomic(&self.geometry, MOST, MOST_PER_DISK) >= stripe {
            true => stretch,
            false => stretch.min(MOST_PER_DISK),
        }
    }

    /// The stripe from which on a stripe's redundancy may be another.
    pub fn redundancy_end(&self, stripe: u64) -> u64 {
        match self.range_of(stripe) {
            Some(range) => range.end,
            None => {
                let next = self.ranges.iter().find(|r| r.first > stripe);
                next.map_or(self.stripes(), |r| r.first)
            }
        }
    }

    /// Whether parity may wait somewhere in it.
    pub fn defers(&self) -> bool {
        self.redundancies().any(|r| r.defers())
    }

    /// Whether small writes to some of it are copied to parity's disks.
    pub fn copies(&self) -> bool {
        self.redundancies().any(|r| r.copies())
    }

    /// Whether one node keeps the account of its deferred parity: its controller, which sees every request.
    pub fn has_one_account(&self) -> bool {
        self.policy.controller.is_some() && self.defers()
    }

    /// Whether writes to some of it may rely on marks that are there already.
    pub fn relies_on_marks(&self) -> bool {
        self.policies().any(|policy| policy.relies_on_marks())
    }

    /// By what policies its stripes are written: the volume's, and those of its ranges.
    pub fn policies(&self) -> impl Iterator<Item = Policy> {
        self.redundancies().map(|redundancy| Policy { redundancy: *redundancy, ..self.policy })
    }

    /// The volume's redundancy, and those of its ranges.
    pub fn redundancies(&self) -> impl Iterator<Item = &Redundancy> {
        [&self.policy.redundancy].into_iter().chain(self.ranges.iter().map(|r| &r.redundancy))
    }

    /// Where a stripe is counted besides in all of the volume, if that has ranges.
    pub fn area_of(&self, stripe: u64) -> Option<Area> {
        let in_range = || self.range_of(stripe).map_or(Area::Rest, |r| Area::Range(r.first));
        (!self.ranges.is_empty()).then(in_range)
    }

    /// All its stripes, by what they have chosen.
    pub fn areas(&self) -> Vec<Stripes> {
        let redundancy = self.policy.redundancy;
        if self.ranges.is_empty() {
            let all = std::iter::once(0..self.stripes()).collect();
            return vec![Stripes { area: Area::Whole, runs: all, redundancy }];
        }
        let mut rest = Stripes { area: Area::Rest, runs: Vec::new(), redundancy };
        let mut areas = Vec::with_capacity(self.ranges.len() + 1);
        let mut from = 0;
        for range in &self.ranges {
            rest.runs.extend((from < range.first).then_some(from..range.first));
            let runs = std::iter::once(range.first..range.end).collect();
            let redundancy = range.redundancy;
            areas.push(Stripes { area: Area::Range(range.first), runs, redundancy });
            from = range.end;
        }
        rest.runs.extend((from < self.stripes()).then_some(from..self.stripes()));
        areas.push(rest);
        areas
    }

    /// The range that a stripe lies in.
    fn range_of(&self, stripe: u64) -> Option<&PolicyRange> {
        let after = self.ranges.partition_point(|r| r.first <= stripe);
        self.ranges[..after].last().filter(|r| stripe < r.end)
    }

    /// The stripes of a range of bytes. None if it does not begin and end where stripes do, or at the volume's end.
    pub fn whole_stripes_of(&self, range: Range) -> Option<Run<u64>> {
        let stripe = self.geometry.stripe_bytes();
        let end = range.offset.checked_add(range.len).filter(|end| *end <= self.size)?;
        let fits = range.offset.is_multiple_of(stripe)
            && (end.is_multiple_of(stripe) || end == self.size)
            && range.len > 0;
        fits.then(|| range.offset / stripe..end.div_ceil(stripe))
    }

    /// Has some stripes choose this. What they have chosen otherwise stays.
    pub(in crate::cluster) fn set_range(&mut self, stripes: Run<u64>, settings: &[Setting]) {
        let mut ranges = Vec::with_capacity(self.ranges.len() + 2);
        let mut push = |first: u64, end: u64, redundancy: Redundancy| {
            ranges.extend((first < end).then_some(PolicyRange { first, end, redundancy }));
        };
        for area in self.areas() {
            let chosen = Policy { redundancy: area.redundancy, ..self.policy };
            let chosen = chosen.with(settings.iter().copied()).redundancy;
            for run in area.runs {
                let (from, to) = (run.start.max(stripes.start), run.end.min(stripes.end));
                let (from, to) = if from < to { (from, to) } else { (run.end, run.end) };
                push(run.start, from, area.redundancy);
                push(from, to, chosen);
                push(to, run.end, area.redundancy);
            }
        }
        ranges.sort_by_key(|r| r.first);
        self.ranges = ranges;
        self.tidy_ranges();
    }

    /// Brings the ranges into the form that they have in the map: those in which nothing is otherwise are none, those beside
    /// one another with the same values are one, none goes past the end, and what is chosen for the volume as a whole is so in each.
    pub(in crate::cluster) fn tidy_ranges(&mut self) {
        let (stripes, of_volume) = (self.stripes(), self.policy.redundancy);
        let mut tidy: Vec<PolicyRange> = Vec::with_capacity(self.ranges.len());
        for mut range in std::mem::take(&mut self.ranges) {
            let Redundancy { flush, mttdl, start, disk_mttf, .. } = of_volume;
            range.redundancy = Redundancy { flush, mttdl, start, disk_mttf, ..range.redundancy };
            range.end = range.end.min(stripes);
            if range.first >= range.end || range.redundancy == of_volume {
                continue;
            }
            match tidy.last_mut() {
                Some(last) if last.end == range.first && last.redundancy == range.redundancy => {
                    last.end = range.end;
                }
                _ => tidy.push(range),
            }
        }
        self.ranges = tidy;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Extent;
    use crate::layout::{Geometry, LayoutSpec};
    use crate::policy::Timing;
    use crate::units::{NodeId, VolumeId};

    fn volume(layout: &str, nodes: usize, unit: u64) -> Volume {
        let spec: LayoutSpec = layout.parse().unwrap();
        let geometry = Geometry::new(spec.over(nodes).unwrap(), unit);
        let columns: Vec<_> = (0..geometry.layout.width() as u16).map(|n| (NodeId(n), 0)).collect();
        let size = 12 * geometry.stripe_bytes();
        let extents = (0..4).map(|n| Extent::new(3 * n, columns.clone())).collect();
        Volume::new(VolumeId(1), "v", size, &spec, geometry, extents)
    }

    /// Into how many transactions a write is cut.
    fn transactions(volume: &Volume, range: Range) -> usize {
        // A quarter of the smallest journal, and the bound of a node.
        const PER_DISK: u64 = 512 << 10;
        const TOTAL: u64 = 4 << 20;
        let (g, end) = (&volume.geometry, |s| volume.extent_end(s).min(volume.redundancy_end(s)));
        let chunks = plan::chunks(g, range, plan::most_atomic(g, TOTAL, PER_DISK), end);
        chunks
            .map(|chunk| {
                let policy = volume.policy_at(chunk.offset / g.stripe_bytes());
                plan::cut(g, &policy, chunk).len()
            })
            .sum()
    }

    #[test]
    fn no_write_within_an_atomic_stretch_is_cut() {
        let layouts = [
            ("raid0", 3),
            ("raid1", 2),
            ("raid5", 4),
            ("rs:4+2", 6),
            ("rs:5+1", 6),
            ("grid:2x2", 9),
            ("rs:24+1", 25),
        ];
        let (mut checked, mut found) = (0, Vec::new());
        for (layout, nodes) in layouts {
            let large = [(1 << 18, 0), (1 << 20, 0)];
            for (unit, deferred) in
                [(4096, 0), (65536, 0), (65536, 1), (65536, 2)].into_iter().chain(large)
            {
                let mut v = volume(layout, nodes, unit);
                let waits = Redundancy { timing: Timing::Deferred, ..v.policy.redundancy };
                match deferred {
                    1 => v.policy.redundancy = waits,
                    2 => v.ranges = vec![PolicyRange { first: 2, end: 4, redundancy: waits }],
                    _ => {}
                }
                let atomic = v.atomic_bytes();
                found.push(atomic >> 10);
                for at in (0..v.size / atomic).map(|n| n * atomic).take(400) {
                    for (offset, len) in [(0, atomic), (512, atomic / 2), (atomic - 512, 512)] {
                        let range = Range { offset: at + offset, len };
                        assert_eq!(transactions(&v, range), 1, "{layout} {unit} {range:?}");
                        checked += 1;
                    }
                }
            }
        }
        assert!(checked > 5000);
        // Of RAID 5 with three data columns, and of four of 64 KiB.
        assert_eq!(found[12..18], [4, 64, 64, 64, 256, 256]);
        assert_eq!(found[18..24], [16, 256, 64, 64, 1024, 256]);
    }

    #[test]
    fn writes_that_may_be_cut_have_no_atomic_stretch() {
        let v = volume("raid5", 4, 65536);
        let with = |change: fn(&mut Policy)| {
            let mut other = v.clone();
            change(&mut other.policy);
            other.atomic_bytes()
        };
        assert_eq!(with(|_| {}), 65536);
        assert_eq!(with(|p| p.journal = false), 0);
        assert_eq!(with(|p| p.commit = crate::policy::Commit::Limited), 0);
        assert_eq!(with(|p| p.ordering = crate::order::Ordering::None), 0);
    }
}
