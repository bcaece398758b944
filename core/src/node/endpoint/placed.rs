//! What workers place of a read at the endpoint, until it is known which of it counts.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use crate::Buffer;
use crate::cluster::Volume;
use crate::layout::Geometry;
use crate::node::assembly::{self, Pieces};
use crate::plan::{Calculators, Range, ReadPlan};
use crate::units::{ColumnSet, Timestamp};

/// Attempts of which pieces are kept: an earlier one of the same range is over when a later one is here.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct Placed(BTreeMap<Timestamp, Attempt>);

/// An attempt at a part of a read.
#[derive(Clone, Debug, Hash)]
struct Attempt {
    range: Range,
    calculators: Calculators,
    plan: ReadPlan,
    /// The columns that have not placed anything.
    missing: ColumnSet,
    pieces: Pieces,
}

impl Placed {
    /// A column places its pieces.
    pub fn take(
        &mut self,
        volume: &Volume,
        (ts, range, avoid, calculators): (Timestamp, Range, ColumnSet, Calculators),
        column: usize,
        sent: Vec<(u64, Buffer)>,
    ) {
        let g = &volume.geometry;
        let meets = |a: &Attempt| a.range.offset < range.end() && range.offset < a.range.end();
        if self.0.range(ts..).any(|(t, a)| *t > ts && meets(a)) {
            return;
        }
        self.0.retain(|t, a| *t >= ts || !meets(a));
        let attempt = match self.0.entry(ts) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let Ok(mut plan) = ReadPlan::by(g, range, avoid, volume.policy) else { return };
                if plan.assign(g, calculators).is_err() {
                    return;
                }
                let missing = plan.answering(g);
                new.insert(Attempt { range, calculators, plan, missing, pieces: Pieces::new() })
            }
        };
        let is_it = (attempt.range, attempt.calculators) == (range, calculators);
        if is_it && attempt.missing.contains(column) {
            attempt.missing.remove(column);
            assembly::take(&attempt.plan, g, column, sent, &mut attempt.pieces);
        }
    }

    /// Whether all pieces of these attempts are here.
    pub fn has_all(&self, counted: &[Timestamp]) -> bool {
        let is_whole = |ts| self.0.get(ts).is_some_and(|a: &Attempt| a.missing.is_empty());
        counted.iter().all(is_whole)
    }

    /// The bytes of these attempts, by place, and how many were added up for them.
    pub fn assemble(
        &self,
        g: &Geometry,
        counted: &[Timestamp],
    ) -> (Vec<(Range, Vec<Buffer>)>, u64) {
        let mut added = 0;
        let mut all: Vec<(Range, Vec<Buffer>)> = Vec::with_capacity(counted.len());
        for attempt in counted.iter().filter_map(|ts| self.0.get(ts)) {
            let (bytes, sums) = assembly::assemble(&attempt.plan, g, &attempt.pieces);
            added += sums;
            all.push((attempt.range, bytes));
        }
        all.sort_by_key(|(range, _)| range.offset);
        (all, added)
    }
}
