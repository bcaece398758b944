//! Reads at the originator: it asks the workers, solves for lost units, and puts the pieces in order. Also maps of
//! holes, and the verification of a stripe (see [`crate::node::judge`]).

use std::collections::BTreeSet;

use smallvec::SmallVec;
use weft_bytes::Reader;

use super::locking::{unlock, unlock_given_up};
use super::used::runs_of;
use super::{Attempt, Job, Originator, Purpose, State, Unplanned, What};
use crate::Buffer;
use crate::cluster::Volume;
use crate::layout::Geometry;
use crate::node::assembly::{Pieces, assemble, take};
use crate::node::judge::{Unit, judge, parity_is_wrong};
use crate::node::outbox::Outbox;
use crate::node::{Body, HostData, MOST_UNCLEAR, Refusal, Trust, Wanted};
use crate::order::Ordering;
use crate::plan::{Part, Range, ReadPlan, Span};
use crate::units::{ColumnSet, NodeId, SECTOR, Timestamp};

/// A read in progress.
#[derive(Clone, Hash)]
pub(super) struct Reading {
    plan: ReadPlan,
    avoid: ColumnSet,
    /// The columns that were asked.
    pub asked: ColumnSet,
    /// The columns with content for the endpoint that have not answered.
    missing: ColumnSet,
    /// The computation that it has assigned to columns' nodes.
    pub given: Vec<(NodeId, u64)>,
    /// Messages of the longest chain that ended here.
    hops: u8,
    /// An endpoint gets the content.
    is_placed: bool,
    pieces: Pieces,
    /// The versions of their sectors, if whole stripes are read: 8 bytes each.
    versions: Pieces,
    /// The stripes in use by columns, if that is asked.
    used: Vec<std::ops::Range<u64>>,
}

impl Originator {
    /// Sends the requests of a read.
    pub(super) fn begin_read(
        &mut self,
        attempt: &Attempt,
        outbox: &mut Outbox,
    ) -> Result<Reading, Unplanned> {
        let Attempt { ts, volume, extent, avoid, .. } = attempt;
        let g = &volume.geometry;
        if let What::Used(range, then) = attempt.job.what {
            let asked = self.ask_for_used(attempt, (range, then), outbox);
            return Ok(Reading::new(ReadPlan { rows: Vec::new() }, *avoid, (asked, asked)));
        }
        let (range, wanted) = match attempt.job.what {
            What::Read(range) | What::Compare(range, _) | What::Write(range, _) => {
                (range, Wanted::Data)
            }
            What::Holes(range) => (range, Wanted::Holes),
            What::Own(range) => (range, Wanted::Own),
            What::Verify { stripe, .. } => {
                let offset = stripe * g.stripe_bytes();
                (Range { offset, len: g.stripe_bytes() }, Wanted::Stripes)
            }
            _ => unreachable!("not a read"),
        };
        if wanted == Wanted::Stripes && !avoid.is_empty() {
            return Err(Unplanned::Verify);
        }
        let plan = match wanted {
            Wanted::Data => ReadPlan::by(g, range, *avoid, volume.policy),
            _ => ReadPlan::new(g, range, *avoid),
        };
        let mut plan = plan.map_err(|_| Unplanned::Undetermined)?;
        let nodes = &volume.extents[*extent].columns;
        let calculators = plan.choose_calculators(g, |column| self.given_to(nodes[column].0));
        let given = plan.computed_by(g).map(|(column, bytes)| (nodes[column].0, bytes)).collect();
        let (asked, missing) = match wanted {
            Wanted::Stripes => {
                (ColumnSet::first(g.layout.width()), ColumnSet::first(g.layout.width()))
            }
            _ => (plan.columns(g), plan.answering(g)),
        };
        let holder = self.holder(&attempt.job).map(|(holder, _)| holder);
        let holder = holder.filter(|_| wanted == Wanted::Data);
        for column in asked.iter() {
            let (ts, volume, avoid) = (*ts, volume.id, *avoid);
            let body = Body::Read { ts, volume, range, avoid, calculators, wanted, holder };
            outbox.send_after(nodes[column].0, body, 1);
        }
        let reading = Reading::new(plan, *avoid, (asked, missing));
        Ok(Reading { given, is_placed: holder.is_some(), ..reading })
    }

    pub fn on_read_reply(
        &mut self,
        ts: Timestamp,
        column: usize,
        result: Result<Vec<(u64, Buffer)>, Refusal>,
        outbox: &mut Outbox,
    ) {
        let Some(txn) = self.txns.get_mut(&ts) else {
            if result.is_ok() {
                self.has_answered_late(ts, column, outbox.now);
            }
            return;
        };
        let State::Reading(reading) = &mut txn.state else { return };
        let mut answered = None;
        match result {
            Err(refusal) => {
                let txn = self.txns.remove(&ts).expect("just seen");
                unlock_given_up(ts, &txn, outbox);
                self.refused(txn.job, refusal, outbox);
                return;
            }
            Ok(pieces) => {
                let is_hosts = matches!(txn.job.purpose, Purpose::Host(_));
                if is_hosts && matches!(txn.job.what, What::Read(_)) && !reading.columns_wait() {
                    answered =
                        Some((txn.volume.extents[txn.extent].columns[column].0, txn.started));
                }
                reading.missing.remove(column);
                reading.hops = reading.hops.max(outbox.hops);
                reading.take(&txn.volume.geometry, column, &txn.job.what, pieces);
                reading.mix_in(&txn.job.kept);
            }
        }
        let is_awaited = !reading.missing.is_empty();
        if let Some((node, since)) = answered {
            self.has_answered(node, since, outbox.now);
        }
        if is_awaited {
            return;
        }
        let txn = self.txns.remove(&ts).expect("just seen");
        unlock(ts, &txn, outbox);
        let State::Reading(reading) = txn.state else { unreachable!("just seen") };
        self.count_round_trips(txn.job.purpose, reading.hops);
        let g = &txn.volume.geometry;
        if reading.is_placed {
            outbox.counters.controlled_bytes +=
                reading.pieces.values().map(|p| p.len() as u64).sum::<u64>();
            self.counts(&txn.job, ts);
            return self.finish(txn.job, Ok(HostData::Done), outbox);
        }
        let result = match txn.job.what {
            What::Read(_) => HostData::Bytes(reading.assemble(g, outbox)),
            What::Compare(..) => {
                let found = HostData::Bytes(reading.assemble(g, outbox));
                return self.compared(txn.job, &found, outbox);
            }
            What::Write(..) => {
                let found = reading.assemble(g, outbox);
                let its = (txn.job, txn.volume, txn.extent);
                return self.has_read_first(ts, its, (found, reading.avoid), outbox);
            }
            What::Holes(_) | What::Own(_) => HostData::Extents(reading.extents(g)),
            What::Used(..) => return self.found_used(txn.job, &txn.volume, reading.used, outbox),
            _ => {
                self.verified(txn.job, &txn.volume, &reading, outbox);
                return;
            }
        };
        self.finish(txn.job, Ok(result), outbox);
    }

    /// All units of a stripe are here: does the parity match, and if not, which unit is wrong?
    fn verified(&mut self, job: Job, volume: &Volume, reading: &Reading, outbox: &mut Outbox) {
        let What::Verify { stripe, trust } = job.what else { return };
        let g = &volume.geometry;
        let units: Vec<Unit> =
            (0..g.code.columns()).map(|c| reading.whole_unit(stripe, c)).collect();
        // Without an order, or where a host left a write unfinished, the data counts as right.
        let unordered = volume.policy.ordering == Ordering::None && trust == Trust::Nobody;
        let found = match unordered || job.purpose == Purpose::Repair {
            true => parity_is_wrong(g, &units),
            false => judge(g, &units, &suspects(volume, stripe, trust)),
        };
        self.count_rebuilt(&job, volume, stripe);
        let unclear = found.unclear_ranges(g, stripe);
        let node = |code_column: &usize| {
            volume.extent(stripe).columns[g.column_of(stripe, *code_column)].0
        };
        if let Some((progress, findings)) = self.scrub(&job) {
            progress.verified += 1;
            progress.mismatched += found.wrong.len() as u64;
            progress.unclear += u64::from(!found.unclear.is_empty());
            progress.data_lost += u64::from(found.data_is_lost);
            let room = MOST_UNCLEAR.saturating_sub(findings.unclear.len());
            findings.unclear.extend(unclear.iter().take(room));
            for wrong in found.wrong.keys() {
                *findings.mended.entry(node(wrong)).or_default() += 1;
            }
        }
        for range in &unclear {
            outbox.log(format!(
                "bytes {}+{} of volume '{}': parity does not match the data, and it cannot be \
                 determined which is wrong; neither is changed",
                range.offset, range.len, volume.name
            ));
        }
        let wrong = found.wrong.keys().map(|c| g.column_of(stripe, *c)).collect();
        for (code_column, part) in &found.wrong {
            let (seat, column) =
                (g.seat_of(stripe, *code_column), g.column_of(stripe, *code_column));
            let what = if *code_column < g.data_columns() { "data" } else { "parity" };
            outbox.log(format!(
                "{what} of stripe {stripe}, column {column} of volume '{}', on the disk of node \
                 {}, did not match the rest; rewriting it",
                volume.name,
                node(code_column).0
            ));
            self.make_anew(job.volume, stripe, seat, *part, wrong);
        }
        self.finish(job, Ok(HostData::Done), outbox);
    }
}

/// The wrong columns of the code where nothing else tells, if the operator says which.
fn suspects(volume: &Volume, stripe: u64, trust: Trust) -> BTreeSet<usize> {
    let g = &volume.geometry;
    let k = g.data_columns();
    match trust {
        Trust::Nobody => BTreeSet::new(),
        Trust::Data => (k..g.code.columns()).collect(),
        Trust::Parity(None) if k == 1 => BTreeSet::from([0]),
        Trust::Parity(None) => BTreeSet::new(),
        Trust::Parity(Some(node)) => {
            let seats = volume.seats_on(node, stripe);
            seats.map(|seat| g.code_column(stripe, seat)).filter(|c| *c < k).collect()
        }
    }
}

impl Reading {
    /// One of which these columns have been `asked`, and those that are `missing` answer.
    fn new(plan: ReadPlan, avoid: ColumnSet, (asked, missing): (ColumnSet, ColumnSet)) -> Reading {
        Reading {
            plan,
            avoid,
            asked,
            missing,
            given: Vec::new(),
            hops: 0,
            is_placed: false,
            pieces: Pieces::new(),
            versions: Pieces::new(),
            used: Vec::new(),
        }
    }

    /// What it has read so far.
    pub fn into_pieces(self) -> Pieces {
        self.pieces
    }

    /// Takes what an earlier attempt has read for its own: a deliberate bug. Otherwise there is nothing.
    fn mix_in(&mut self, earlier: &Pieces) {
        for (key, data) in earlier {
            if let Some(own) = self.pieces.get_mut(key).filter(|own| own.len() == data.len()) {
                *own = data.clone();
            }
        }
    }

    /// The columns that have not answered.
    pub fn awaited(&self) -> ColumnSet {
        self.missing
    }

    /// Whether columns wait for one another, to solve for lost content.
    pub fn columns_wait(&self) -> bool {
        self.plan.columns_solve()
    }

    /// A column's content of each stripe comes by seats; for whole stripes the versions come after the bytes.
    fn take(&mut self, g: &Geometry, column: usize, what: &What, pieces: Vec<(u64, Buffer)>) {
        if let What::Read(_) | What::Compare(..) | What::Write(..) = what {
            return take(&self.plan, g, column, pieces, &mut self.pieces);
        }
        if let What::Used(..) = what {
            return self.used.extend(runs_of(&pieces));
        }
        let whole = matches!(what, What::Verify { .. });
        for (stripe, data) in pieces {
            let seats: SmallVec<[usize; 2]> = g.layout.seats_of(stripe, column).collect();
            let row = || self.plan.rows.iter().find(|r| r.stripe == stripe);
            let is_sent = |seat: usize| {
                seats.len() == 1 || whole || row().is_some_and(|r| !r.sent(g, seat).is_empty())
            };
            let part = |seat: usize| (stripe, Part::From(g.code_column(stripe, seat)));
            let lacks = |have: &Pieces, seat: usize| !have.contains_key(&part(seat));
            let mut sent = seats.iter().copied().filter(|seat| is_sent(*seat));
            if let Some(seat) = sent.find(|seat| lacks(&self.pieces, *seat)) {
                self.pieces.insert(part(seat), data);
            } else if let Some(seat) = seats.into_iter().find(|s| lacks(&self.versions, *s)) {
                self.versions.insert(part(seat), data);
            }
        }
    }

    /// A unit that was read as a whole, by column of the code.
    fn whole_unit(&self, stripe: u64, code_column: usize) -> Unit {
        let key = (stripe, Part::From(code_column));
        let versions = self.versions.get(&key).map(Buffer::to_bytes).unwrap_or_default();
        let mut r: Reader = Reader::new(&versions);
        let versions = std::iter::from_fn(|| r.u64().ok()).map(Timestamp).collect();
        Unit { data: self.pieces[&key].clone(), versions }
    }

    /// The wanted bytes in order.
    fn assemble(&self, g: &Geometry, outbox: &mut Outbox) -> Vec<Buffer> {
        let (bytes, added) = assemble(&self.plan, g, &self.pieces);
        outbox.counters.xor_bytes += added;
        bytes
    }

    /// Lengths, and whether each is a hole. Unavailable content counts as content.
    fn extents(&self, g: &Geometry) -> Vec<(u64, bool)> {
        let mut out = Vec::new();
        for row in &self.plan.rows {
            for i in 0..g.data_columns() {
                let cover = row.cover(g, i);
                let column = g.layout.data_column(row.stripe, i);
                if cover.is_empty() {
                    continue;
                }
                if self.avoid.contains(column) {
                    out.push((cover.len(), false));
                    continue;
                }
                let spans = row.sent(g, column).sectors_out();
                let bytes = self.pieces[&(row.stripe, Part::From(i))].to_bytes();
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
