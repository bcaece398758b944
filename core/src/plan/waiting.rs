//! Which parities wait by a volume's policy, and how a write is cut where none takes it at once (AFRAID 2).

use super::{Range, Span, WritePlan};
use crate::layout::Geometry;
use crate::policy::Policy;
use crate::units::ColumnSet;

/// The parities that wait, counted from 0, if nothing speaks against it.
pub fn waiting(g: &Geometry, policy: &Policy) -> ColumnSet {
    let redundancy = &policy.redundancy;
    match redundancy.defers() {
        true => {
            let immediate = ColumnSet::first(redundancy.immediate_parities.into());
            ColumnSet::first(g.code.parity_columns()).minus(immediate)
        }
        false => ColumnSet::EMPTY,
    }
}

/// The parities that wait and are computed together, in one go over the data: then that is read once for all of them. Who has
/// the first of them leads. None if each is computed by itself, because there is one, or they cover different data.
pub fn refreshed_together(g: &Geometry, policy: &Policy) -> ColumnSet {
    let waits = waiting(g, policy);
    match g.code.covers_all() && waits.len() > 1 {
        true => waits,
        false => ColumnSet::EMPTY,
    }
}

/// The plans by which parity of a stripe that waits is computed over the bytes `part` (whole sectors) of its units, with all
/// disks there.
pub fn refreshes(g: &Geometry, policy: &Policy, stripe: u64, part: Span) -> Vec<WritePlan> {
    let together = refreshed_together(g, policy);
    if !together.is_empty() {
        return vec![WritePlan::refresh(g, stripe, part, together)];
    }
    let seat = |j| g.layout.parity_seat(stripe, j);
    let alone = |j| match g.code.covers_all() {
        true => WritePlan::refresh(g, stripe, part, ColumnSet::of(j)),
        false => {
            WritePlan::rebuild(g, stripe..stripe + 1, seat(j), part, ColumnSet::EMPTY, *policy)
                .expect("all disks are there")
        }
    };
    waiting(g, policy).iter().map(alone).collect()
}

/// Whether no parity takes a write at once: then it is cut between units.
pub fn cuts_at_units(g: &Geometry, policy: &Policy) -> bool {
    let all = ColumnSet::first(g.code.parity_columns());
    !all.is_empty() && waiting(g, policy) == all
}

/// Cuts a piece of a write further where no parity takes it at once. What fails together then is one stripe unit: of
/// several, survivors could not tell which were written.
pub fn cut(g: &Geometry, policy: &Policy, chunk: Range) -> Vec<Range> {
    if !cuts_at_units(g, policy) {
        return vec![chunk];
    }
    let (stripe, unit) = (g.stripe_bytes(), g.unit);
    let mut out = Vec::new();
    let mut at = chunk.offset;
    while at < chunk.end() {
        let whole = at.is_multiple_of(stripe) && chunk.end() - at >= stripe;
        let end = match whole {
            true => chunk.end() / stripe * stripe,
            false => chunk.end().min((at / unit + 1) * unit),
        };
        out.push(Range { offset: at, len: end - at });
        at = end;
    }
    out
}
