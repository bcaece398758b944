//! Rows and cells of a read.
//!
//! A unit on a column that cannot be used is solved for from as few others as the code allows, over
//! the bytes wanted of it only: by the endpoint, or by columns ([`solving`](super::solving)). A column that is read in several stripes is read in one go, through
//! the parity units in between, which are then dropped (TickerTAIP 3.1).

use super::cell::{Cell, Destination, Part, Role, Send, Step, Term, Value, solution};
use super::{PlanError, Range, Span, Spans};
use crate::layout::{ColumnRole, Geometry};
use crate::policy::{CalculatedAt, Policy};
use crate::units::ColumnSet;

/// The plan of one chunk of a read.
#[derive(Clone, Debug, Hash)]
pub struct ReadPlan {
    /// The stripes' rows, in order.
    pub rows: Vec<ReadRow>,
}

/// One stripe of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReadRow {
    /// The stripe's number in the volume.
    pub stripe: u64,
    /// The bytes of the stripe's data that are wanted, `lo..hi` of k units end to end.
    pub lo: u64,
    /// See `lo`.
    pub hi: u64,
    /// The bytes of lost units that are wanted.
    pub solve: Spans,
    /// The seats to solve from; empty if nothing is lost.
    pub sources: ColumnSet,
    /// The seats that cannot be used.
    pub avoid: ColumnSet,
    /// Who solves for what is lost: the endpoint (`Originator`), one column, or a tree of them.
    pub solved_at: CalculatedAt,
    /// The column that solves, if one does.
    pub calculator: Option<usize>,
}

impl ReadPlan {
    /// Plans a read of `range` when the columns of `avoid` cannot be used, and the endpoint solves for what is lost.
    pub fn new(g: &Geometry, range: Range, avoid: ColumnSet) -> Result<ReadPlan, PlanError> {
        let rows = range.stripes(g).map(|s| ReadRow::new(g, range, s, avoid));
        Ok(ReadPlan { rows: rows.collect::<Result<_, _>>()? })
    }

    /// The same in a volume with this policy. Who solves, if one column does, has yet to be said.
    pub fn by(
        g: &Geometry,
        range: Range,
        avoid: ColumnSet,
        policy: Policy,
    ) -> Result<ReadPlan, PlanError> {
        let mut plan = ReadPlan::new(g, range, avoid)?;
        let solved_at = policy.reads_solved_at();
        for row in plan.rows.iter_mut().filter(|row| !row.solve.is_empty()) {
            row.solved_at = solved_at;
        }
        Ok(plan)
    }

    /// The columns that have a part in it.
    pub fn columns(&self, g: &Geometry) -> ColumnSet {
        let of = |row: &ReadRow| row.reading(g).union(row.calculator.into_iter().collect());
        self.rows.iter().map(of).fold(ColumnSet::EMPTY, ColumnSet::union)
    }

    /// The columns that send the endpoint something.
    pub fn answering(&self, g: &Geometry) -> ColumnSet {
        self.rows.iter().map(|row| row.answering(g)).fold(ColumnSet::EMPTY, ColumnSet::union)
    }
}

impl ReadRow {
    fn new(
        g: &Geometry,
        range: Range,
        stripe: u64,
        avoid: ColumnSet,
    ) -> Result<ReadRow, PlanError> {
        let (lo, hi) = range.within(g, stripe);
        let (columns, avoid) = (avoid, g.seats_of(stripe, avoid));
        let mut row = ReadRow {
            stripe,
            lo,
            hi,
            solve: Spans::EMPTY,
            sources: ColumnSet::EMPTY,
            avoid,
            solved_at: CalculatedAt::Originator,
            calculator: None,
        };
        let wanted: ColumnSet = row.units(g).collect();
        let gone = |i: &usize| avoid.contains(g.layout.data_column(stripe, *i));
        let lost: ColumnSet = wanted.iter().filter(gone).collect();
        if !lost.is_empty() {
            row.solve = Spans::union(lost.iter().map(|i| row.cover(g, i)));
            let helpers = g
                .helpers_of_all(stripe, avoid, lost, wanted.minus(lost))
                .ok_or(PlanError::NotRecoverable { lost: columns })?;
            row.sources = helpers.iter().map(|c| g.seat_of(stripe, c)).collect();
        }
        Ok(row)
    }

    /// The data units of which something is wanted.
    fn units(&self, g: &Geometry) -> std::ops::Range<usize> {
        match self.lo < self.hi {
            true => (self.lo / g.unit) as usize..self.hi.div_ceil(g.unit) as usize,
            false => 0..0,
        }
    }

    /// The seats that have something which is wanted.
    fn wanted_seats(&self, g: &Geometry) -> ColumnSet {
        let seats: ColumnSet =
            self.units(g).map(|i| g.layout.data_column(self.stripe, i)).collect();
        seats.minus(self.avoid)
    }

    /// The columns that read something.
    fn reading(&self, g: &Geometry) -> ColumnSet {
        let sources = if self.solve.is_empty() { ColumnSet::EMPTY } else { self.sources };
        g.columns_at(self.stripe, self.wanted_seats(g).union(sources.minus(self.avoid)))
    }

    /// The columns that send the endpoint something.
    pub(super) fn answering(&self, g: &Geometry) -> ColumnSet {
        if self.solve.is_empty() {
            return g.columns_at(self.stripe, self.wanted_seats(g));
        }
        let sends = |column: &usize| !self.to_endpoint(g, *column).is_empty();
        (0..g.layout.width()).filter(sends).collect()
    }

    /// The wanted bytes of data unit `i`.
    pub fn cover(&self, g: &Geometry, i: usize) -> Span {
        let start = i as u64 * g.unit;
        let end = start + g.unit;
        Span::new(self.lo.clamp(start, end) - start, self.hi.clamp(start, end) - start)
    }

    /// The part of a role: columns read and send, and the endpoint, or columns, solve for what is lost.
    pub fn cell(&self, g: &Geometry, role: Role) -> Cell {
        match role {
            Role::Column(seat) => self.column_cell(g, seat),
            Role::Calculator => self.calculator_cell(g),
            Role::Endpoint => self.endpoint_cell(g),
            Role::Source(_) | Role::Coordinator => Cell::idle(role),
        }
    }

    /// All cells that have steps: those of the columns in order, and then those of the other roles.
    pub fn cells(&self, g: &Geometry) -> impl Iterator<Item = Cell> {
        let columns = (0..g.layout.seats()).map(Role::Column);
        let roles = columns.chain([Role::Calculator, Role::Endpoint]);
        roles.map(|role| self.cell(g, role)).filter(|cell| !cell.is_idle())
    }

    /// The wanted data units: what each is to the endpoint, and which bytes of it are wanted.
    pub fn wanted(&self, g: &Geometry) -> impl Iterator<Item = (Part, Span)> {
        self.units(g).map(|i| (i, self.cover(g, i))).map(|(i, cover)| {
            let lost = self.avoid.contains(g.layout.data_column(self.stripe, i));
            (if lost { Part::Solved(i) } else { Part::From(i) }, cover)
        })
    }

    /// The bytes that the column of a seat sends of it, to whomever.
    pub fn sent(&self, g: &Geometry, seat: usize) -> Spans {
        if self.avoid.contains(seat) {
            return Spans::EMPTY;
        }
        let solve = if self.sources.contains(seat) { self.solve } else { Spans::EMPTY };
        Spans::union(solve.iter().chain([self.wanted_of(g, seat)]))
    }

    /// The wanted bytes that a seat has.
    fn wanted_of(&self, g: &Geometry, seat: usize) -> Span {
        match g.layout.role(self.stripe, seat) {
            ColumnRole::Data(i) if !self.avoid.contains(seat) => self.cover(g, i),
            _ => Span::EMPTY,
        }
    }

    /// The bytes that the column of a seat sends the endpoint as they are.
    pub(super) fn shown_to_endpoint(&self, g: &Geometry, seat: usize) -> Spans {
        match self.solved_at {
            CalculatedAt::Originator => self.sent(g, seat),
            _ => self.wanted_of(g, seat).into(),
        }
    }

    fn column_cell(&self, g: &Geometry, seat: usize) -> Cell {
        let holds = Some(g.layout.role(self.stripe, seat));
        let mut cell = Cell { holds, ..Cell::idle(Role::Column(seat)) };
        let read = self.sent(g, seat);
        if read.is_empty() {
            return cell;
        }
        cell.steps.push(Step::Read(read.sectors_out()));
        let spans = self.shown_to_endpoint(g, seat);
        if !spans.is_empty() {
            let part = Part::From(g.code_column(self.stripe, seat));
            let to = Destination::Role(Role::Endpoint);
            cell.steps.push(Step::Send(Send { value: Value::Old, spans, part, to }));
        }
        if self.sources.contains(seat) {
            self.add_solving_steps(g, seat, &mut cell);
        }
        cell
    }

    fn endpoint_cell(&self, g: &Geometry) -> Cell {
        let mut cell = Cell::idle(Role::Endpoint);
        let sent = |column| self.to_endpoint(g, column);
        cell.steps.push(Step::Await(self.answering(g).iter().flat_map(sent).collect()));
        for part in self.wanted(g).map(|(part, _)| part) {
            if let (Part::Solved(i), CalculatedAt::Originator) = (part, self.solved_at) {
                let solved = Value::Sum(self.solution(g, i, self.solve));
                cell.steps.push(Step::Combine(part, self.solve, solved));
            }
        }
        cell
    }

    /// The terms whose sum are these bytes of a lost data unit.
    pub(super) fn solution(&self, g: &Geometry, unit: usize, spans: Spans) -> Vec<Term> {
        let sources = g.code_columns(self.stripe, self.sources);
        solution(g, sources, unit, spans)
    }
}

/// Merges a column's ranges of its disk, given in order as bytes, into as few transfers as
/// possible: ranges that touch, or that only whole units of parity (`gap` bytes each) keep
/// apart.
pub fn runs(ranges: impl IntoIterator<Item = Span>, gap: u64) -> Vec<Span> {
    let mut out: Vec<Span> = Vec::new();
    for range in ranges.into_iter().filter(|r| !r.is_empty()) {
        match out.last_mut() {
            Some(last) if range.lo >= last.hi && range.lo - last.hi <= gap => last.hi = range.hi,
            _ => out.push(range),
        }
    }
    out
}
