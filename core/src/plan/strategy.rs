//! Choosing how the parity of a stripe comes about: fewest reads among what is possible, small where
//! it ties (TickerTAIP, Figure 7).
//!
//! Parities that cover the same data go one way together. Those that cover different data need not:
//! a group that is almost written anew is computed afresh, while parity over the whole stripe takes
//! in changes. What data columns read for one they need not read for another.

use smallvec::SmallVec;

use super::WriteRow;
use crate::layout::Geometry;
use crate::policy::Preference;
use crate::units::ColumnSet;

/// Parities that cover the same data, and change.
#[derive(Clone, Copy)]
struct Alike {
    support: ColumnSet,
    /// Counted from 0.
    parities: ColumnSet,
    /// Whether old data is there to be changed; whether the data that stays is there.
    may_be: (bool, bool),
    /// Whether all that it covers is new.
    is_full: bool,
}

impl WriteRow {
    /// Chooses, for each parity, whether changes are added to it or it is computed afresh; and whether
    /// lost data must be solved for. `None` if what is left does not determine it.
    pub(super) fn choose_strategy(
        &mut self,
        g: &Geometry,
        preferred: Option<Preference>,
    ) -> Option<()> {
        let alike = self.alike(g);
        if alike.iter().any(|a| a.may_be == (false, false)) {
            return self.choose_solution(g);
        }
        if let [only] = alike[..] {
            self.choose_for(g, &only, preferred);
            return Some(());
        }
        let improved = |row: WriteRow| {
            let row = if preferred.is_some() { row } else { row.improved(g, &alike) };
            (row.reads(g), row)
        };
        *self = least(self.starts(&alike, preferred).map(improved)).expect("where to begin");
        Some(())
    }

    /// Chooses where all parities go one way.
    fn choose_for(&mut self, g: &Geometry, a: &Alike, preferred: Option<Preference>) {
        let first = a.parities.iter().next().expect("a parity");
        let new = self.new_units(g).intersection(a.support);
        let small = new.len() + a.parities.len() * self.spans(g, first).count();
        let large = || {
            // All of what has nothing new stays: often that is enough to know.
            let least = a.support.minus(new).len();
            match least >= small {
                true => least,
                false => a.support.iter().map(|i| self.leftover(g, i, first).count()).sum(),
            }
        };
        let prefers_large = match (a.may_be, preferred) {
            ((true, true), Some(Preference::Small)) => false,
            ((true, true), Some(Preference::Large)) => true,
            ((true, true), _) => large() < small,
            ((small_is_possible, _), _) => !small_is_possible,
        };
        match a.is_full || prefers_large {
            true => self.afresh = a.parities,
            false => self.changed = a.parities,
        }
    }

    /// Parities that can be used and cover something that is new, those that cover the same together.
    fn alike(&self, g: &Geometry) -> SmallVec<[Alike; 2]> {
        let new = self.new_units(g);
        let mut out: SmallVec<[Alike; 2]> = SmallVec::new();
        for j in 0..g.code.parity_columns() {
            let support = g.code.support(j);
            let lost = self.avoid.contains(g.layout.parity_seat(self.stripe, j));
            if lost || self.waits().contains(j) || new.intersection(support).is_empty() {
                continue;
            }
            if let Some(same) = out.iter_mut().find(|a: &&mut Alike| a.support == support) {
                same.parities.insert(j);
                continue;
            }
            let there = |i: usize| !self.data_lost(g, i);
            let stays = |i: usize| !self.leftover(g, i, j).is_empty();
            let nothing_is_lost = self.avoid.is_empty();
            let small = nothing_is_lost || new.intersection(support).iter().all(there);
            let large = nothing_is_lost || support.iter().filter(|i| stays(*i)).all(there);
            let is_full = !support.iter().any(stays);
            let parities = ColumnSet::of(j);
            out.push(Alike { support, parities, may_be: (small, large), is_full });
        }
        out
    }

    /// Where to begin: as many small as can be, and as many afresh as can be; only one of these if that is
    /// preferred.
    fn starts(
        &self,
        alike: &[Alike],
        preferred: Option<Preference>,
    ) -> impl Iterator<Item = WriteRow> {
        let start = |prefers_small: bool| {
            let mut row = *self;
            for a in alike {
                let small = !a.is_full && a.may_be.0 && (prefers_small || !a.may_be.1);
                let set = if small { &mut row.changed } else { &mut row.afresh };
                *set = set.union(a.parities);
            }
            row
        };
        let starts = match preferred {
            Some(Preference::Small) => [Some(start(true)), None],
            Some(Preference::Large) => [Some(start(false)), None],
            _ => [Some(start(true)), Some(start(false))],
        };
        starts.into_iter().flatten()
    }

    /// The row with parities the other way, one kind after the other, as long as that saves reads.
    fn improved(mut self, g: &Geometry, alike: &[Alike]) -> WriteRow {
        if alike.len() < 2 {
            return self;
        }
        let either = || alike.iter().filter(|a| a.may_be == (true, true) && !a.is_full);
        loop {
            let reads = self.reads(g);
            let other = |a: &Alike| {
                let both = |set: ColumnSet| match set.covers(a.parities) {
                    true => set.minus(a.parities),
                    false => set.union(a.parities),
                };
                let row =
                    WriteRow { changed: both(self.changed), afresh: both(self.afresh), ..self };
                (row.reads(g), row)
            };
            match least_with_cost(either().map(other)) {
                Some((fewer, row)) if fewer < reads => self = row,
                _ => return self,
            }
        }
    }

    /// Transfers from disks that the row takes, those of old parity among them.
    fn reads(&self, g: &Geometry) -> usize {
        let data: usize = (0..g.data_columns()).map(|i| self.needs_old(g, i).count()).sum();
        let parity: usize = self.changed.iter().map(|j| self.spans(g, j).count()).sum();
        data + parity
    }

    /// Lost data has to be solved for: to compute parity afresh, or to have what changes it, whichever
    /// reads less.
    fn choose_solution(&mut self, g: &Geometry) -> Option<()> {
        let all = self.alike(g).iter().fold(ColumnSet::EMPTY, |all, a| all.union(a.parities));
        let afresh = WriteRow { afresh: all, ..*self };
        let changed = WriteRow { changed: all, ..*self };
        let solved = |row: WriteRow| {
            let needed = (0..g.data_columns()).filter(|&i| !row.needs_old(g, i).is_empty());
            let (lost, there): (Vec<usize>, Vec<usize>) =
                needed.partition(|&i| self.data_lost(g, i));
            let there: ColumnSet = there.into_iter().collect();
            let lost = lost.into_iter().collect();
            let from = g.helpers_of_all(self.stripe, self.avoid, lost, there)?.union(there);
            let parity: usize = row.changed.iter().map(|j| self.spans(g, j).count()).sum();
            let reads = from.len() * self.parity.count() + parity;
            Some((reads, WriteRow { solves_from: from, ..row }))
        };
        *self = least([afresh, changed].into_iter().filter_map(solved))?;
        Some(())
    }
}

/// The first that costs least.
fn least(rows: impl Iterator<Item = (usize, WriteRow)>) -> Option<WriteRow> {
    least_with_cost(rows).map(|(_, row)| row)
}

fn least_with_cost(rows: impl Iterator<Item = (usize, WriteRow)>) -> Option<(usize, WriteRow)> {
    rows.min_by_key(|(cost, _)| *cost)
}
