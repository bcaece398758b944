//! Reads for originators, scans, and catching up.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use smallvec::SmallVec;
use weft_bytes::Writer;

use super::solving::Solving;
use super::{Before, Phase, Ticket, Worker, sectors};
use crate::Buffer;
use crate::cluster::Volume;
use crate::node::outbox::Outbox;
use crate::node::{Body, Holder, Output, Refusal, Wanted};
use crate::order::Ordering;
use crate::plan::{Calculators, Range as Bytes, ReadPlan, Span, Spans, runs};
use crate::store::{ReadDone, Scan};
use crate::units::{ColumnSet, Nanos, NodeId, SECTOR, Timestamp, VolumeId};

/// A read in progress.
#[derive(Clone, Hash)]
pub(super) struct ReadJob {
    from: NodeId,
    /// The destination of the content, if that is not the asking node, and the purpose.
    place: Option<(Holder, Bytes, ColumnSet, Calculators)>,
    pub volume: VolumeId,
    pub column: usize,
    wanted: Wanted,
    rows: Vec<RowPart>,
    runs: Vec<Run>,
    /// The sectors from which lost content is solved, or that are wanted beside it.
    solved_from: Vec<Range<u64>>,
    /// Its part in solving for lost content, if columns do that.
    pub solving: Option<Box<Solving>>,
    pub since: Nanos,
    /// How the volume's requests are ordered.
    pub ordering: Ordering,
    /// It has had to wait for another.
    delayed: bool,
    started: bool,
    hops: u8,
}

/// The read of a seat's unit.
#[derive(Clone, Hash)]
pub(super) struct RowPart {
    pub stripe: u64,
    pub seat: usize,
    base: u64,
    pub spans: Spans,
}

#[derive(Clone, Hash)]
struct Run {
    sectors: Range<u64>,
    data: Option<Buffer>,
    /// For whole stripes: the newest write in each sector.
    versions: Vec<Timestamp>,
    /// For a search for holes: the sectors with a write undecided at its begin.
    open: Vec<Range<u64>>,
}

/// The cells' reads: the cell, the part of its read, and the sectors.
pub(super) type CellReads = SmallVec<[(usize, usize, Range<u64>); 2]>;

impl Worker {
    /// An originator asks for this column's part of a range.
    #[allow(clippy::too_many_arguments)] // the fields of one message
    pub fn on_read(
        &mut self,
        (from, holder): (NodeId, Option<Holder>),
        ts: Timestamp,
        (volume, range): (VolumeId, Bytes),
        (avoid, calculators): (ColumnSet, Calculators),
        wanted: Wanted,
        outbox: &mut Outbox,
    ) {
        let Some(volume) = self.map.volumes.get(&volume).cloned() else { return };
        let g = &volume.geometry;
        if !volume.holds(range) {
            return;
        }
        let first = range.stripes(g).start;
        let Some(column) = volume.extent(first).column_of(self.node) else { return };
        if self.reads.contains_key(&ts) || self.fenced.has_read(&ts) {
            return;
        }
        if let Wanted::Used | Wanted::UsedBefore | Wanted::UsedOwn | Wanted::Placed = wanted {
            return self.on_used((from, ts), (&volume, range), wanted, outbox);
        }
        let (mut solving, mut solved_from) = (None, Vec::new());
        let whole = Spans::from(Span::new(0, g.unit));
        let mut rows = Vec::new();
        let mut add = |stripe, spans: &dyn Fn(usize) -> Spans| {
            for seat in g.layout.seats_of(stripe, column) {
                let spans = spans(seat);
                if !spans.is_empty() {
                    rows.push(RowPart { stripe, seat, base: volume.sector(stripe, seat), spans });
                }
            }
        };
        match wanted {
            Wanted::Stripes => range.stripes(g).for_each(|s| add(s, &|_| whole)),
            Wanted::Data | Wanted::Holes | Wanted::Own => {
                let plan = match wanted {
                    Wanted::Data => ReadPlan::by(g, range, avoid, volume.policy),
                    _ => ReadPlan::new(g, range, avoid),
                };
                let Ok(mut plan) = plan else { return };
                if plan.assign(g, calculators).is_err() {
                    return;
                }
                plan.rows.iter().for_each(|r| add(r.stripe, &|seat| r.sent(g, seat)));
                solved_from = sectors_of_solved(&plan, &rows);
                solving = Solving::new(g, plan, column);
            }
            Wanted::Used | Wanted::UsedBefore | Wanted::UsedOwn | Wanted::Placed => {
                unreachable!("answered by runs")
            }
        }
        let places = rows.iter().flat_map(|r| {
            r.spans
                .sectors_out()
                .iter()
                .map(|s| Span::new(r.base * SECTOR + s.lo, r.base * SECTOR + s.hi))
        });
        let whole = runs(places, g.unit).into_iter().map(|s| Run {
            sectors: s.lo / SECTOR..s.hi / SECTOR,
            data: None,
            versions: Vec::new(),
            open: Vec::new(),
        });
        let runs = whole.collect();
        let job = Box::new(ReadJob {
            from,
            place: holder.map(|holder| (holder, range, avoid, calculators)),
            volume: volume.id,
            column,
            wanted,
            rows,
            runs,
            solved_from,
            solving,
            since: outbox.now,
            ordering: volume.policy.ordering,
            delayed: false,
            started: false,
            hops: outbox.hops + 1,
        });
        if let Wanted::Holes | Wanted::Own = wanted {
            self.reads.insert(ts, job);
            self.start_holes(ts, wanted);
            return;
        }
        if let Err(refusal) = self.admit_read(ts, &job, outbox) {
            self.reply_read(&job, ts, Err(refusal), outbox);
            return;
        }
        if wanted == Wanted::Data {
            self.host_part(outbox.now);
        }
        self.reads.insert(ts, job);
        self.step_read(ts, outbox);
    }

    pub(super) fn reply_read(
        &mut self,
        job: &ReadJob,
        ts: Timestamp,
        result: Result<Vec<(u64, Buffer)>, Refusal>,
        outbox: &mut Outbox,
    ) {
        self.lend(ts, outbox.now);
        let mut result = result;
        let hops = job.solving.as_ref().map_or(job.hops, |s| s.answered_at().max(job.hops));
        if let (Some((holder, range, avoid, calculators)), Ok(pieces)) = (job.place, &mut result) {
            let (volume, column, pieces) = (job.volume, job.column, std::mem::take(pieces));
            let body =
                Body::Place { holder, ts, volume, range, avoid, calculators, column, pieces };
            outbox.send_after(holder.node, body, hops);
            // A repeated message must not begin it again. The content may be later by then, and the endpoint would take
            // it for a piece of the same attempt.
            self.fenced.insert_read(ts);
        }
        let body = Body::ReadReply { ts, column: job.column, result };
        outbox.send_after(job.from, body, hops);
    }

    /// Starts a read that waits for nothing.
    pub(super) fn step_read(&mut self, ts: Timestamp, outbox: &mut Outbox) {
        let Some(job) = self.reads.get(&ts) else { return };
        if job.started
            || matches!(job.wanted, Wanted::Holes | Wanted::Own)
            || self.waits_for_locks(ts)
        {
            return;
        }
        if self.awaits_safe_aborts() {
            return self.stalled.read(ts);
        }
        let job = &self.reads[&ts];
        let before = self.before_read(ts, job.ordering, job.ranges());
        if before == Before::Undecided {
            let ranges: Vec<Range<u64>> = job.ranges().collect();
            let ordering = job.ordering;
            self.hasten_before(ts, ordering, ranges, outbox);
            self.stalled.read(ts);
            let job = self.reads.get_mut(&ts).expect("just seen");
            if !std::mem::replace(&mut job.delayed, true) {
                outbox.push(Output::Delayed(ts.originator()));
            }
            return;
        }
        if let Before::Later(later) = before {
            let job = self.reads.remove(&ts).expect("just seen");
            self.reply_read(&job, ts, Err(Refusal::Late(later)), outbox);
            return;
        }
        if let Some((seat, stale)) = job.parts_where(|r| self.stale_in(r)) {
            let job = self.reads.remove(&ts).expect("just seen");
            let known = !job.ranges().any(|range| self.is_stale_beneath(range))
                && self.knows_missing(job.volume, stale[0].0, job.column);
            let refusal = not_there(seat, stale, NotThere::Behind { known });
            self.reply_read(&job, ts, Err(refusal), outbox);
            return;
        }
        if let Some(refusal) = self.refuses_to_solve(ts) {
            let job = self.reads.remove(&ts).expect("just seen");
            return self.reply_read(&job, ts, Err(refusal), outbox);
        }
        let job = self.reads.get_mut(&ts).expect("just seen");
        job.started = true;
        let (wanted, volume) = (job.wanted, job.volume);
        let ranges: Vec<Range<u64>> = job.runs.iter().map(|r| r.sectors.clone()).collect();
        if ranges.is_empty() {
            // It only solves for other columns.
            return self.solve(ts, outbox);
        }
        for (run, range) in ranges.into_iter().enumerate() {
            let ticket = self.tickets.issue(Ticket::Read { ts, run });
            let (first, count) = (range.start, range.end - range.start);
            match wanted {
                Wanted::Stripes => self.store.read_versions(ticket, first, count),
                Wanted::Data => self.store.read_newest(ticket, first, count, volume),
                _ => self.store.read(ticket, first, count),
            }
        }
    }

    /// A read of the store has ended.
    pub(super) fn read_done(&mut self, done: ReadDone, outbox: &mut Outbox) {
        match self.tickets.take(done.ticket) {
            Some(Ticket::Read { ts, run }) => self.run_done(ts, run, done, outbox),
            Some(Ticket::Cells { ts, cells }) => self.cells_read(ts, &cells, done, outbox),
            _ => {}
        }
    }

    fn run_done(&mut self, ts: Timestamp, run: usize, done: ReadDone, outbox: &mut Outbox) {
        self.find_damage(&done);
        let Some(job) = self.reads.get(&ts) else { return };
        // Damage comes first: marked content cannot be computed before it is repaired. It may lie between the wanted
        // sectors.
        let parts = |missing: &[u64]| {
            if missing.is_empty() {
                return None;
            }
            let missing: BTreeSet<u64> = missing.iter().copied().collect();
            job.parts_where(|r| hull(r, |s| missing.contains(&s)))
        };
        let damaged = parts(&done.damaged).map(|lost| (lost, NotThere::Lost));
        let lost = damaged.or_else(|| parts(&done.erased).map(|lost| (lost, NotThere::Marked)));
        let sectors = job.runs[run].sectors.clone();
        let refusal = if let Some(later) = self.raced(ts, job.ordering, &done, sectors) {
            Some(Refusal::Late(later))
        } else {
            lost.map(|((seat, parts), why)| not_there(seat, parts, why))
        };
        let job = self.reads.get_mut(&ts).expect("just seen");
        job.runs[run].data = Some(done.data);
        job.runs[run].versions = done.versions;
        let all = job.runs.iter().all(|r| r.data.is_some());
        if refusal.is_none() && !all {
            return;
        }
        if refusal.is_none() && job.solving.is_some() {
            job.has_read();
            return self.solve(ts, outbox);
        }
        let job = self.reads.remove(&ts).expect("just seen");
        let result = refusal.map_or_else(|| Ok(job.pieces()), Err);
        self.reply_read(&job, ts, result, outbox);
    }

    /// The part of some sectors that the disk still lacks.
    pub(super) fn stale_in(&self, sectors: Range<u64>) -> Option<Range<u64>> {
        let any = self.is_stale(sectors.clone());
        any.then(|| hull(sectors, |s| self.is_stale(s..s + 1))).flatten()
    }

    /// Unreadable content that is not marked is damaged.
    fn find_damage(&mut self, done: &ReadDone) {
        self.damaged.extend(&done.damaged);
    }

    /// If the content may be from a time after `ts`: a time for another attempt.
    fn raced(
        &self,
        ts: Timestamp,
        ordering: Ordering,
        done: &ReadDone,
        sectors: Range<u64>,
    ) -> Option<Timestamp> {
        if done.raced {
            return Some(ts);
        }
        let latest = done.deferred.then(|| self.admission.latest_committed(sectors))?;
        (latest >= self.horizon(ts, ordering)).then_some(latest)
    }

    /// Asks the store for the sectors that cells read: adjacent ones together.
    pub(super) fn read_cells(&mut self, ts: Timestamp, reads: &mut CellReads) {
        let mut reads = reads.drain(..).peekable();
        while let Some((cell, part, mut range)) = reads.next() {
            let mut cells = SmallVec::from_buf([(cell, part)]);
            while let Some((cell, part, next)) = reads.next_if(|next| next.2.start == range.end) {
                cells.push((cell, part));
                range.end = next.end;
            }
            let ticket = self.tickets.issue(Ticket::Cells { ts, cells });
            self.read_below_copies(ts, ticket, range);
        }
    }

    fn cells_read(
        &mut self,
        ts: Timestamp,
        cells: &[(usize, usize)],
        done: ReadDone,
        outbox: &mut Outbox,
    ) {
        self.find_damage(&done);
        let Some(txn) = self.txns.get(&ts).filter(|t| t.phase == Phase::Working) else { return };
        let sectors = |&(cell, part): &(usize, usize)| -> Range<u64> {
            txn.cells[cell].read_ranges().nth(part).expect("a part of the read")
        };
        let ranges: SmallVec<[Range<u64>; 1]> = cells.iter().map(sectors).collect();
        let read = ranges[0].start..ranges[ranges.len() - 1].end;
        if let Some(later) = self.raced(ts, txn.ordering, &done, read.clone()) {
            return self.refuse(ts, Refusal::Late(later), outbox);
        }
        if let (missing @ [first, ..], marked) = done.missing() {
            let its = ranges.iter().position(|r| r.contains(first)).expect("something read");
            let last = missing.iter().rfind(|s| ranges[its].contains(s)).expect("the first is");
            let work = &txn.cells[cells[its].0];
            let part = (work.row.stripe, work.span_of(*first..last + 1));
            let refusal = not_there(work.seat, vec![part], NotThere::of(marked));
            return self.refuse(ts, refusal, outbox);
        }
        let txn = self.txns.get_mut(&ts).expect("just seen");
        let at = |sector: u64| ((sector - read.start) * SECTOR) as usize;
        for (&(cell, part), sectors) in cells.iter().zip(ranges) {
            let data = done.data.slice(at(sectors.start), at(sectors.end));
            txn.cells[cell].execution.read_arrived(part, data);
        }
        // A joint rebuild continues when all of its parts have been read.
        match txn.is_joined() {
            true => self.step(ts, outbox),
            false => self.step_cells(ts, cells.iter().map(|c| c.0), outbox),
        }
    }

    fn start_holes(&mut self, ts: Timestamp, wanted: Wanted) {
        let job = self.reads.get_mut(&ts).expect("just begun");
        for run in &mut job.runs {
            let open = self.admission.busy(Timestamp(u64::MAX), run.sectors.clone());
            run.open = open.collect();
            if wanted == Wanted::Own {
                continue;
            }
            for view in self.views.in_range(run.sectors.clone()) {
                let below = self.views.all_below(view.sectors.clone());
                let is_open = |below| self.admission.must_wait(Timestamp(u64::MAX), below);
                run.open.extend(below.into_iter().any(is_open).then_some(view.sectors));
            }
        }
        let ranges: Vec<Range<u64>> = job.runs.iter().map(|r| r.sectors.clone()).collect();
        for (run, range) in ranges.into_iter().enumerate() {
            let ticket = self.tickets.issue(Ticket::Holes { ts, run });
            let what = match wanted {
                Wanted::Own if self.config.counts_zeros() => Scan::WRITTEN,
                _ => Scan::Content,
            };
            self.store.scan(ticket, range.start, range.end - range.start, what);
        }
    }

    /// A scan of the store has ended.
    pub(super) fn scan_done(
        &mut self,
        ticket: u64,
        found: Vec<(u64, Timestamp)>,
        outbox: &mut Outbox,
    ) {
        match self.tickets.take(ticket) {
            Some(Ticket::Holes { ts, run }) => self.holes_done(ts, run, &found, outbox),
            Some(Ticket::Used(asked)) => self.used_done(&asked, &found, outbox),
            Some(Ticket::Dirty) => self.dirty_done(found, outbox),
            Some(Ticket::Own) => self.own_done(found),
            Some(Ticket::Marks) => self.marks_found(found, outbox.now),
            Some(Ticket::Recall(asked)) => self.recall_done(asked, !found.is_empty(), outbox),
            _ => {}
        }
    }

    /// A byte for each sector: 1 where there is content.
    fn holes_done(
        &mut self,
        ts: Timestamp,
        run: usize,
        found: &[(u64, Timestamp)],
        outbox: &mut Outbox,
    ) {
        let Some(job) = self.reads.get_mut(&ts) else { return };
        let sectors = job.runs[run].sectors.clone();
        let was_open = std::mem::take(&mut job.runs[run].open);
        let mut bytes = vec![0u8; (sectors.end - sectors.start) as usize];
        found.iter().for_each(|(s, _)| bytes[(s - sectors.start) as usize] = 1);
        // Uncertain sectors count as content.
        for (sector, byte) in sectors.clone().zip(&mut bytes).filter(|(_, byte)| **byte == 0) {
            let here = sector..sector + 1;
            // It may have been committed behind the scan, and its host answered before it.
            let was_open = was_open.iter().any(|open| open.contains(&sector));
            let open = was_open || self.admission.must_wait(Timestamp(u64::MAX), here.clone());
            *byte = u8::from(open || self.is_stale(here));
        }
        let job = self.reads.get_mut(&ts).expect("just seen");
        job.runs[run].data = Some(bytes.into());
        if job.runs.iter().all(|r| r.data.is_some()) {
            let job = self.reads.remove(&ts).expect("just seen");
            let pieces = job.hole_pieces();
            self.reply_read(&job, ts, Ok(pieces), outbox);
        }
    }
}

/// Why a column lacks the wanted content.
#[derive(Clone, Copy)]
pub(super) enum NotThere {
    /// The disk still lacks it; or, if that is not `known`, may have it.
    Behind { known: bool },
    /// The disk has lost it.
    Lost,
    /// It is marked as out of date.
    Marked,
}

impl NotThere {
    /// From the store's unreadable sectors.
    fn of(marked: bool) -> NotThere {
        match marked {
            true => NotThere::Marked,
            false => NotThere::Lost,
        }
    }
}

/// The range from the first to the last of some sectors. The whole named range of a refusal is rebuilt, and perhaps in
/// parts one by one: so no more is named than is missing.
pub(super) fn hull(mut sectors: Range<u64>, is_so: impl Fn(u64) -> bool) -> Option<Range<u64>> {
    let first = sectors.find(|s| is_so(*s))?;
    Some(first..sectors.rfind(|s| is_so(*s)).unwrap_or(first) + 1)
}

/// A column lacks the wanted content of its seat.
pub(super) fn not_there(seat: usize, parts: Vec<(u64, Span)>, why: NotThere) -> Refusal {
    let (behind, marked, known) = match why {
        NotThere::Behind { known } => (true, false, known),
        NotThere::Lost => (false, false, true),
        NotThere::Marked => (false, true, true),
    };
    Refusal::Erased { column: seat, parts, behind, marked, known }
}

impl Worker {
    /// Whether this disk knows what it has missed of its column, and must have it computed.
    pub(super) fn knows_missing(&self, volume: VolumeId, stripe: u64, column: usize) -> bool {
        let is_copied = |v: &Arc<Volume>| v.extent(stripe).leaving.contains_key(&column);
        let asks = self.catchup.is_asking_about(volume);
        let volume = self.map.volumes.get(&volume);
        !asks && !volume.is_some_and(is_copied)
    }
}

/// The sectors read in stripes with lost content.
fn sectors_of_solved(plan: &ReadPlan, rows: &[RowPart]) -> Vec<Range<u64>> {
    let is_solved = |part: &&RowPart| {
        plan.rows.iter().any(|row| row.stripe == part.stripe && !row.solve.is_empty())
    };
    let parts = rows.iter().filter(is_solved);
    parts.flat_map(|p| p.spans.iter().map(|s| sectors(p.base, s))).collect()
}

impl ReadJob {
    /// The sectors from which lost content is solved, or that are wanted beside it.
    pub fn solved_from(&self) -> &[Range<u64>] {
        &self.solved_from
    }

    /// Whether the store has been asked.
    pub fn has_started(&self) -> bool {
        self.started
    }

    pub(super) fn ranges(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.rows.iter().flat_map(|r| r.spans.iter().map(|s| sectors(r.base, s)))
    }

    /// The selected parts of its sectors: stripe and bytes of the unit. Only those of one seat; others are found when
    /// the read is tried again.
    pub(super) fn parts_where(
        &self,
        which: impl Fn(Range<u64>) -> Option<Range<u64>>,
    ) -> Option<(usize, Vec<(u64, Span)>)> {
        let parts = self.rows.iter().flat_map(|r| r.spans.iter().map(move |s| (r, s)));
        let mut parts = parts.filter_map(|(r, s)| Some((r, which(sectors(r.base, s))?))).peekable();
        let seat = parts.peek()?.0.seat;
        let of_seat = parts.filter(|(r, _)| r.seat == seat);
        let bytes = |r: &RowPart, part: Range<u64>| {
            Span::new((part.start - r.base) * SECTOR, (part.end - r.base) * SECTOR)
        };
        Some((seat, of_seat.map(|(r, part)| (r.stripe, bytes(r, part))).collect()))
    }

    /// What each stripe's cells send, by seats; for whole stripes the bytes, and then the versions of the sectors.
    fn pieces(&self) -> Vec<(u64, Buffer)> {
        let mut pieces = Vec::with_capacity(self.rows.len());
        pieces.extend(self.rows.iter().map(|row| (row.stripe, self.gather(row, SECTOR))));
        if self.wanted == Wanted::Stripes {
            let versions = |row: &RowPart| Some((row.stripe, self.versions(row)?));
            pieces.extend(self.rows.iter().filter_map(versions));
        }
        pieces
    }

    /// The versions of a row's sectors, 8 bytes each, if the store has returned them.
    fn versions(&self, row: &RowPart) -> Option<Buffer> {
        let mut out: Writer = Writer::default();
        for span in row.spans.iter() {
            let at = sectors(row.base, span);
            let run = self
                .runs
                .iter()
                .find(|r| r.sectors.start <= at.start && at.end <= r.sectors.end)?;
            let from = (at.start - run.sectors.start) as usize;
            let versions = run.versions.get(from..from + (at.end - at.start) as usize)?;
            versions.iter().for_each(|v| out.u64(v.0));
        }
        let out = out.finish();
        (!out.is_empty()).then(|| out.into())
    }

    fn hole_pieces(&self) -> Vec<(u64, Buffer)> {
        let coarse = |row: &RowPart| RowPart { spans: row.spans.sectors_out(), ..row.clone() };
        self.rows.iter().map(|row| (row.stripe, self.gather(&coarse(row), 1))).collect()
    }

    /// All content has been read: cells get the parts that they wait for.
    fn has_read(&mut self) {
        let Some(mut solving) = self.solving.take() else { return };
        for row in &self.rows {
            let whole = |spans: Spans| self.gather(&RowPart { spans, ..row.clone() }, SECTOR);
            solving.has_read(row, whole);
        }
        self.solving = Some(solving);
    }

    /// The bytes of a row's spans out of the runs, at `scale` bytes a sector.
    fn gather(&self, row: &RowPart, scale: u64) -> Buffer {
        let slice = |span: Span| {
            let at = sectors(row.base, span);
            let run =
                self.runs.iter().find(|r| r.sectors.start <= at.start && at.end <= r.sectors.end);
            let run = run.expect("runs cover the rows");
            let into = (at.start - run.sectors.start) * scale + span.lo % SECTOR * scale / SECTOR;
            let len = span.len() * scale / SECTOR;
            let data = run.data.as_ref().expect("all runs are here");
            data.slice(into as usize, (into + len) as usize)
        };
        if row.spans.count() == 1 {
            return row.spans.iter().map(slice).next().expect("just counted");
        }
        let parts: Vec<Buffer> = row.spans.iter().map(slice).collect();
        if parts.iter().any(Buffer::is_length) {
            return Buffer::Length(parts.iter().map(Buffer::len).sum());
        }
        Buffer::join(&parts).into()
    }
}
