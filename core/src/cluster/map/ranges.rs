//! Ranges of a volume in which parity waits by other rules than in the rest of it.
//!
//! A range is a run of stripes with its own values for those of the redundancy's choices that are about stripes
//! ([`IN_RANGES`](crate::policy::IN_RANGES)). What is about the volume as a whole stays the volume's. Whoever wants to know when a stripe's parity is computed
//! asks for the policy at that stripe, and need not know of ranges.

use std::ops::Range as Run;

use super::Volume;
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
