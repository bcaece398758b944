//! Putting together what columns send of a read.

use std::collections::BTreeMap;

use crate::Buffer;
use crate::layout::Geometry;
use crate::plan::{Execution, Part, ReadPlan, Role};

/// What columns have sent, by stripe and seat.
pub(super) type Pieces = BTreeMap<(u64, usize), Buffer>;

/// Takes what a column sends of a read of data. It comes by stripes, and in a stripe by seats.
pub(super) fn take(
    plan: &ReadPlan,
    g: &Geometry,
    column: usize,
    sent: Vec<(u64, Buffer)>,
    pieces: &mut Pieces,
) {
    for (stripe, data) in sent {
        let Some(row) = plan.rows.iter().find(|r| r.stripe == stripe) else { continue };
        let mut seats = g.layout.seats_of(stripe, column);
        let lacks = |seat: &usize| {
            let len = row.sent(g, *seat).len();
            len > 0 && len == data.len() as u64 && !pieces.contains_key(&(stripe, *seat))
        };
        if let Some(seat) = seats.find(lacks) {
            pieces.insert((stripe, seat), data);
        }
    }
}

/// The wanted bytes in order, and how many were added up for them.
pub(super) fn assemble(plan: &ReadPlan, g: &Geometry, pieces: &Pieces) -> (Vec<Buffer>, u64) {
    let mut out = Vec::with_capacity(plan.rows.len() * g.data_columns());
    let mut added = 0;
    for row in &plan.rows {
        let mut endpoint = Execution::new(row.cell(g, Role::Endpoint));
        for seat in 0..g.layout.seats() {
            let part = Part::From(g.code_column(row.stripe, seat));
            if let Some(piece) = pieces.get(&(row.stripe, seat)) {
                endpoint.take(part, piece.clone());
            }
        }
        endpoint.advance();
        added += endpoint.take_added();
        out.extend(row.wanted(g).map(|(part, cover)| endpoint.bytes_of(part, cover.into())));
    }
    (out, added)
}
