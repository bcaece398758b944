//! Putting together what columns send the endpoint of a read.

use std::collections::BTreeMap;

use crate::Buffer;
use crate::layout::Geometry;
use crate::plan::{Execution, Part, ReadPlan, Role, Spans};

/// What columns have sent, by stripe.
pub(super) type Pieces = BTreeMap<(u64, Part), Buffer>;

/// Takes what a column sends of a read of data. It comes by stripes, and in a stripe in the plan's order.
pub(super) fn take(
    plan: &ReadPlan,
    g: &Geometry,
    column: usize,
    sent: Vec<(u64, Buffer)>,
    pieces: &mut Pieces,
) {
    for (stripe, data) in sent {
        let Some(row) = plan.rows.iter().find(|r| r.stripe == stripe) else { continue };
        let lacks = |(part, spans): &(Part, Spans)| {
            spans.len() == data.len() as u64 && !pieces.contains_key(&(stripe, *part))
        };
        if let Some((part, _)) = row.to_endpoint(g, column).into_iter().find(lacks) {
            pieces.insert((stripe, part), data);
        }
    }
}

/// The wanted bytes in order, and how many were added up for them.
pub(super) fn assemble(plan: &ReadPlan, g: &Geometry, pieces: &Pieces) -> (Vec<Buffer>, u64) {
    let mut out = Vec::with_capacity(plan.rows.len() * g.data_columns());
    let mut added = 0;
    for row in &plan.rows {
        if row.solve.is_empty() {
            // Nothing is added up: each piece is what is wanted of its unit.
            out.extend(row.wanted(g).map(|(part, _)| pieces[&(row.stripe, part)].clone()));
            continue;
        }
        let mut endpoint = Execution::new(row.cell(g, Role::Endpoint));
        for (part, piece) in of_stripe(pieces, row.stripe) {
            endpoint.take(part, piece.clone());
        }
        endpoint.advance();
        added += endpoint.take_added();
        out.extend(row.wanted(g).map(|(part, cover)| endpoint.bytes_of(part, cover.into())));
    }
    (out, added)
}

fn of_stripe(pieces: &Pieces, stripe: u64) -> impl Iterator<Item = (Part, &Buffer)> {
    // No part comes before this one.
    let its = pieces.range((stripe, Part::New)..).take_while(move |(key, _)| key.0 == stripe);
    its.map(|((_, part), piece)| (*part, piece))
}
