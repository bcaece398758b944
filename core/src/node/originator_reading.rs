//! Reads at the originator: asking the workers, solving for lost units, putting the pieces
//! in order; maps of holes; verifying a stripe.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::locking::unlock;
use super::writing::solve;
use super::{Job, Originator, State, Txn, What};
use crate::Buffer;
use crate::cluster::Volume;
use crate::layout::Geometry;
use crate::node::outbox::Outbox;
use crate::node::{Body, HostData, HostError, Refusal, Wanted};
use crate::plan::{Range, ReadPlan, ReadRow, Span, Spans, compose};
use crate::units::{ColumnSet, SECTOR, Timestamp};

/// A read in work.
#[derive(Clone, Hash)]
pub(super) struct Reading {
    plan: ReadPlan,
    avoid: ColumnSet,
    /// The columns that were asked.
    pub asked: ColumnSet,
    missing: ColumnSet,
    /// By stripe and column.
    pieces: BTreeMap<(u64, usize), Buffer>,
}

impl Originator {
    pub(super) fn launch_read(
        &mut self,
        ts: Timestamp,
        job: Job,
        volume: Arc<Volume>,
        extent: usize,
        avoid: ColumnSet,
        outbox: &mut Outbox,
    ) {
        let g = &volume.geometry;
        let (range, wanted) = match job.what {
            What::Read(range) | What::Compare(range, _) => (range, Wanted::Data),
            What::Holes(range) => (range, Wanted::Holes),
            What::Verify { stripe } => {
                let offset = stripe * g.stripe_bytes();
                (Range { offset, len: g.stripe_bytes() }, Wanted::Stripes)
            }
            _ => unreachable!("not a read"),
        };
        if wanted == Wanted::Stripes && !avoid.is_empty() {
            self.finish(job, Err(HostError::TooManyLost), outbox);
            return;
        }
        let Ok(plan) = ReadPlan::new(g, range, avoid) else {
            return self.lacks_nodes(job, outbox);
        };
        let sends = |c: &usize| plan.rows.iter().any(|r| !r.cell(g, *c).send.is_empty());
        let columns: ColumnSet = match wanted {
            Wanted::Stripes => ColumnSet::first(g.layout.width()),
            _ => (0..g.layout.width()).filter(sends).collect(),
        };
        for column in columns.iter() {
            let node = volume.extents[extent].columns[column].0;
            let body = Body::Read { ts, volume: volume.id, range, avoid, wanted };
            outbox.send_after(node, body, 1);
        }
        let reading =
            Reading { plan, avoid, asked: columns, missing: columns, pieces: BTreeMap::new() };
        let state = State::Reading(reading);
        let started = outbox.now;
        self.txns.insert(ts, Txn::new(job, volume, extent, state, started));
    }

    pub fn on_read_reply(
        &mut self,
        ts: Timestamp,
        column: usize,
        result: Result<Vec<(u64, Buffer)>, Refusal>,
        outbox: &mut Outbox,
    ) {
        let Some(txn) = self.txns.get_mut(&ts) else { return };
        let State::Reading(reading) = &mut txn.state else { return };
        match result {
            Err(refusal) => {
                let txn = self.txns.remove(&ts).expect("just seen");
                unlock(ts, &txn, outbox);
                self.refused(txn.job, refusal, outbox);
                return;
            }
            Ok(pieces) => {
                reading.missing.remove(column);
                for (stripe, data) in pieces {
                    reading.pieces.insert((stripe, column), data);
                }
            }
        }
        if !reading.missing.is_empty() {
            return;
        }
        let txn = self.txns.remove(&ts).expect("just seen");
        unlock(ts, &txn, outbox);
        self.count_round_trips(txn.job.purpose, outbox.hops);
        let State::Reading(reading) = txn.state else { unreachable!("just seen") };
        let g = &txn.volume.geometry;
        let result = match txn.job.what {
            What::Read(_) => HostData::Bytes(reading.assemble(g)),
            What::Compare(..) => {
                let found = HostData::Bytes(reading.assemble(g));
                return self.compared(txn.job, &found, outbox);
            }
            What::Holes(_) => HostData::Extents(reading.extents(g)),
            _ => {
                self.verified(txn.job, g, &reading, outbox);
                return;
            }
        };
        self.finish(txn.job, Ok(result), outbox);
    }

    /// All units of a stripe are here: does the parity fit?
    fn verified(&mut self, job: Job, g: &Geometry, reading: &Reading, outbox: &mut Outbox) {
        let What::Verify { stripe } = job.what else { return };
        let whole = Spans::from(Span::new(0, g.unit));
        let unit = |code_column| &reading.pieces[&(stripe, g.column_of(stripe, code_column))];
        let data: BTreeMap<usize, Buffer> =
            (0..g.layout.data).map(|i| (i, unit(i).clone())).collect();
        let wrong: Vec<usize> = (0..g.layout.parity)
            .map(|j| g.layout.data + j)
            .filter(|&c| solve(g, &data, c, whole) != *unit(c))
            .collect();
        if let Some(progress) = self.scrub(&job) {
            progress.verified += 1;
            progress.mismatched += wrong.len() as u64;
        }
        for code_column in wrong {
            let column = g.column_of(stripe, code_column);
            outbox.log(format!(
                "parity of stripe {stripe}, column {column} did not fit its data; making it anew"
            ));
            self.put_back(job.volume, stripe, column, Span::new(0, g.unit), true);
        }
        self.finish(job, Ok(HostData::Done), outbox);
    }
}

impl Reading {
    /// The wanted bytes in order.
    fn assemble(&self, g: &Geometry) -> Vec<Buffer> {
        let mut out = Vec::with_capacity(self.plan.rows.len() * g.layout.data);
        for row in &self.plan.rows {
            for i in 0..g.layout.data {
                let cover = row.cover(g, i);
                if !cover.is_empty() {
                    out.push(self.unit(g, row, i, cover));
                }
            }
        }
        out
    }

    fn unit(&self, g: &Geometry, row: &ReadRow, i: usize, cover: Span) -> Buffer {
        let column = g.layout.data_column(row.stripe, i);
        if !self.avoid.contains(column) {
            let piece = &self.pieces[&(row.stripe, column)];
            return compose(cover.into(), &[(row.cell(g, column).send, piece)]);
        }
        let source = |c: usize| {
            let sent = row.cell(g, c).send;
            let bytes = compose(row.solve, &[(sent, &self.pieces[&(row.stripe, c)])]);
            (g.code_column(row.stripe, c), bytes)
        };
        let have = row.sources.iter().map(source).collect();
        let solved = solve(g, &have, i, row.solve);
        compose(cover.into(), &[(row.solve, &solved)])
    }

    /// Lengths, and whether each is a hole. What cannot be seen counts as content.
    fn extents(&self, g: &Geometry) -> Vec<(u64, bool)> {
        let mut out = Vec::new();
        for row in &self.plan.rows {
            for i in 0..g.layout.data {
                let cover = row.cover(g, i);
                let column = g.layout.data_column(row.stripe, i);
                if cover.is_empty() {
                    continue;
                }
                if self.avoid.contains(column) {
                    out.push((cover.len(), false));
                    continue;
                }
                let spans = row.cell(g, column).send.sectors_out();
                let bytes = self.pieces[&(row.stripe, column)].to_bytes();
                let mut at = cover.lo;
                while at < cover.hi {
                    let sector = Span::new(at, at + 1).sectors_out();
                    let end = sector.hi.min(cover.hi);
                    let n = spans.position(sector).expect("was sent") as u64 / SECTOR;
                    out.push((end - at, bytes[n as usize] == 0));
                    at = end;
                }
            }
        }
        super::requests::joined(out.into_iter())
    }
}
