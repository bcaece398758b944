//! A byte-level array that carries plans out step by step, the plainest way there is: what tests hold
//! against naive RAID, and the interpreter against.
//!
//! Every value is a whole unit here, with zeros where it has nothing.

use std::collections::BTreeMap;

use super::*;
use crate::Buffer;
use crate::layout::Geometry;
use crate::policy::Policy;
use crate::units::ColumnSet;

pub(super) struct Array {
    pub g: Geometry,
    pub columns: Vec<Vec<u8>>,
    pub lost: ColumnSet,
}

/// A row's cells in work.
struct Run<'a> {
    array: &'a Array,
    stripe: u64,
    cells: Vec<Cell>,
    /// How many steps of each are done.
    done: Vec<usize>,
    /// What has come to whom.
    parts: BTreeMap<(Role, Part), Vec<u8>>,
    /// A write: seat, place, kind of change, content.
    written: Vec<(usize, Spans, How, Vec<u8>)>,
    /// The same cells by the interpreter.
    executions: Vec<Execution>,
}

fn masked(unit: &[u8], spans: Spans) -> Vec<u8> {
    let mut out = vec![0; unit.len()];
    for s in spans.iter() {
        out[s.lo as usize..s.hi as usize].copy_from_slice(&unit[s.lo as usize..s.hi as usize]);
    }
    out
}

/// The bytes of the spans, end to end.
fn picked(unit: &[u8], spans: Spans) -> Buffer {
    let parts = spans.iter().map(|s| &unit[s.lo as usize..s.hi as usize]);
    parts.flatten().copied().collect::<Vec<u8>>().into()
}

fn add(sum: &mut [u8], unit: &[u8], coefficient: u8) {
    Buffer::from(unit.to_vec()).add_to(sum, coefficient);
}

impl Array {
    pub fn new(g: Geometry, stripes: u64) -> Array {
        let bytes = (g.layout.most_units(stripes) * g.unit) as usize;
        let columns = vec![vec![0; bytes]; g.layout.width()];
        Array { g, columns, lost: ColumnSet::EMPTY }
    }

    /// Loses a column and what it held.
    pub fn lose(&mut self, column: usize) {
        self.lost.insert(column);
        self.columns[column].fill(0xee);
    }

    /// The column of a seat, and where in it the seat's unit begins.
    fn place(&self, stripe: u64, seat: usize) -> (usize, usize) {
        let before = self.g.layout.units_before_seat(stripe, seat);
        (self.g.layout.column_at(stripe, seat), (before * self.g.unit) as usize)
    }

    fn unit(&self, stripe: u64, seat: usize) -> &[u8] {
        let (column, base) = self.place(stripe, seat);
        &self.columns[column][base..][..self.g.unit as usize]
    }

    pub fn read(&self, range: Range, policy: Policy) -> Result<Vec<u8>, PlanError> {
        let mut plan = ReadPlan::by(&self.g, range, self.lost, policy)?;
        plan.choose_calculators(&self.g, |_| 0);
        short_cuts_of_reads_agree(&self.g, &plan);
        let mut out = Vec::new();
        for row in &plan.rows {
            let cells: Vec<Cell> = row.cells(&self.g).collect();
            let mut run = Run::new(self, row.stripe, cells);
            run.finish();
            for (part, cover) in row.wanted(&self.g) {
                let unit = &run.parts[&(Role::Endpoint, part)];
                out.extend_from_slice(&unit[cover.lo as usize..cover.hi as usize]);
                let endpoint = run.executions.last().expect("the endpoint's cell is last");
                assert_eq!(endpoint.bytes_of(part, cover.into()), picked(unit, cover.into()));
            }
        }
        Ok(out)
    }

    pub fn write(&mut self, offset: u64, data: &[u8], policy: Policy) -> Result<(), PlanError> {
        let range = Range { offset, len: data.len() as u64 };
        let plan = WritePlan::new(&self.g, range, self.lost, policy)?;
        let mut at = 0;
        for row in &plan.rows {
            let n = (row.hi - row.lo) as usize;
            self.write_row(row, &data[at..at + n]);
            at += n;
        }
        Ok(())
    }

    /// Puts back what a lost column holds of stripes: first units together, second units by themselves.
    pub fn rebuild(
        &mut self,
        stripes: std::ops::Range<u64>,
        column: usize,
        policy: Policy,
    ) -> Result<(), PlanError> {
        let layout = self.g.layout;
        let second = |stripe| layout.seats_of(stripe, column).skip(1).map(move |s| (stripe, s));
        let second = stripes.clone().flat_map(second);
        let runs = second.map(|(stripe, seat)| (stripe..stripe + 1, seat));
        for (stripes, seat) in std::iter::once((stripes, column)).chain(runs) {
            let whole = Span::new(0, self.g.unit);
            let plan = WritePlan::rebuild(&self.g, stripes, seat, whole, self.lost, policy)?;
            plan.rows.iter().for_each(|row| self.write_row(row, &[]));
        }
        Ok(())
    }

    fn write_row(&mut self, row: &WriteRow, data: &[u8]) {
        let g = self.g.clone();
        let cells: Vec<Cell> = row.cells(&g).collect();
        short_cuts_agree(&g, row, &cells);
        self.carry_out(row.stripe, cells, |i| {
            let mut unit = vec![0; g.unit as usize];
            let cover = row.cover(&g, i);
            if cover.is_empty() {
                return (cover, unit);
            }
            let start = (i as u64 * g.unit + cover.lo).saturating_sub(row.lo) as usize;
            let len = cover.len() as usize;
            unit[cover.lo as usize..][..len].copy_from_slice(&data[start..][..len]);
            (cover, unit)
        });
    }

    /// Carries out cells; `new` gives the new bytes of a data unit.
    pub fn carry_out(
        &mut self,
        stripe: u64,
        cells: Vec<Cell>,
        new: impl Fn(usize) -> (Span, Vec<u8>),
    ) {
        let mut run = Run::new(self, stripe, cells);
        for i in 0..self.g.data_columns() {
            let (cover, unit) = new(i);
            if !cover.is_empty() {
                run.deliver(Role::Endpoint, Part::NewOf(i), cover.into(), unit);
            }
        }
        run.finish();
        for (seat, spans, how, unit) in run.written {
            let (column, base) = self.place(stripe, seat);
            for s in spans.iter() {
                let (lo, hi) = (s.lo as usize, s.hi as usize);
                let place = &mut self.columns[column][base + lo..base + hi];
                match how {
                    How::Change => add(place, &unit[lo..hi], 1),
                    How::Content => place.copy_from_slice(&unit[lo..hi]),
                    How::Copy(_) => {}
                }
            }
        }
    }
}

impl<'a> Run<'a> {
    fn new(array: &'a Array, stripe: u64, cells: Vec<Cell>) -> Run<'a> {
        let done = vec![0; cells.len()];
        let mut executions: Vec<Execution> = cells.iter().cloned().map(Execution::new).collect();
        for (cell, execution) in cells.iter().zip(&mut executions) {
            let Role::Column(seat) = cell.at else { continue };
            let parts: Vec<Span> = cell.reads().iter().collect();
            if !parts.is_empty() {
                execution.reading(parts.len());
            }
            for (n, part) in parts.into_iter().enumerate() {
                let unit = array.unit(stripe, seat);
                execution.read_arrived(n, picked(unit, part.into()));
            }
        }
        let (parts, written) = (BTreeMap::new(), Vec::new());
        Run { array, stripe, cells, done, parts, written, executions }
    }

    fn deliver(&mut self, to: Role, part: Part, spans: Spans, unit: Vec<u8>) {
        if let Some(n) = self.cells.iter().position(|c| c.at == to) {
            self.executions[n].take(part, picked(&unit, spans));
        }
        let twice = self.parts.insert((to, part), unit);
        assert!(twice.is_none(), "{part:?} came to {to:?} twice");
    }

    fn finish(&mut self) {
        while (0..self.cells.len()).any(|n| self.step(n)) {}
        for (cell, done) in self.cells.iter().zip(&self.done) {
            assert_eq!(*done, cell.steps.len(), "{cell:?} waits for ever");
        }
        assert!(self.executions.iter().all(Execution::is_done), "{:?}", self.executions);
    }

    /// Does the next step of a cell and says whether it could.
    fn step(&mut self, n: usize) -> bool {
        let cell = self.cells[n].clone();
        let Some(step) = cell.steps.get(self.done[n]) else { return false };
        match step {
            Step::Read(_) => {}
            Step::Await(parts) => {
                if !parts.iter().all(|(i, _)| self.parts.contains_key(&(cell.at, *i))) {
                    return false;
                }
            }
            Step::Combine(part, spans, value) => {
                let Some(unit) = self.value(&cell, value, *spans) else { return false };
                self.parts.insert((cell.at, *part), unit);
            }
            Step::Send(send) => {
                let Some(unit) = self.value(&cell, &send.value, send.spans) else { return false };
                for to in send.to.roles() {
                    self.deliver(to, send.part, send.spans, unit.clone());
                }
            }
            Step::Write(write) => {
                let Some(unit) = self.value(&cell, &write.value, write.spans) else { return false };
                let Role::Column(seat) = cell.at else { panic!("only columns write") };
                self.written.push((seat, write.spans, write.how, unit));
            }
        }
        self.done[n] += 1;
        if self.done[n] == cell.steps.len() {
            self.compare(n, &cell);
        }
        true
    }

    fn sum(&self, cell: &Cell, terms: &[Term]) -> Option<Vec<u8>> {
        let mut sum = vec![0; self.array.g.unit as usize];
        for term in terms {
            let unit = self.parts.get(&(cell.at, term.part))?;
            add(&mut sum, &masked(unit, term.spans), term.coefficient);
        }
        Some(sum)
    }

    fn value(&self, cell: &Cell, value: &Value, spans: Spans) -> Option<Vec<u8>> {
        let old = || match cell.at {
            Role::Column(seat) => masked(self.array.unit(self.stripe, seat), cell.reads()),
            _ => panic!("only columns have old content"),
        };
        let new = || match cell.new.is_empty() {
            true => Some(vec![0; self.array.g.unit as usize]),
            false => self.parts.get(&(cell.at, Part::New)).cloned(),
        };
        let unit = match value {
            Value::Old => old(),
            Value::Change => {
                let mut change = masked(&old(), cell.new.into());
                add(&mut change, &new()?, 1);
                change
            }
            Value::Content => {
                let (mut content, new) = (old(), new()?);
                let (lo, hi) = (cell.new.lo as usize, cell.new.hi as usize);
                content[lo..hi].copy_from_slice(&new[lo..hi]);
                content
            }
            Value::Given(part) => self.parts.get(&(cell.at, *part))?.clone(),
            Value::Sum(terms) => self.sum(cell, terms)?,
            Value::Mark => old(),
        };
        Some(masked(&unit, spans))
    }

    /// The interpreter sends and writes the same.
    fn compare(&mut self, n: usize, cell: &Cell) {
        let sent = self.executions[n].advance();
        let plain = |send: &Send| {
            let unit = self.value(cell, &send.value, send.spans).expect("was sent");
            (send.to, send.part, picked(&unit, send.spans))
        };
        let mine: Vec<_> = cell.sends().map(plain).collect();
        let its: Vec<_> = sent.into_iter().map(|s| (s.to, s.part, s.data)).collect();
        assert_eq!(mine, its);
        if let Some(write) = cell.write() {
            let unit = self.value(cell, &write.value, write.spans).expect("was written");
            assert_eq!(self.executions[n].take_content(), Some(picked(&unit, write.spans)));
        }
    }
}

/// What others ask of a row without looking at its cells is what the cells say.
fn short_cuts_agree(g: &Geometry, row: &WriteRow, cells: &[Cell]) {
    let writes = |c: &&Cell| c.write().is_some();
    let written = cells.iter().filter(writes).map(|c| c.at);
    assert!(row.changed_seats(g).iter().map(Role::Column).eq(written));
    for role in (0..g.layout.seats()).map(Role::Column) {
        let is_among_them = cells.iter().any(|c| c.at == role);
        assert_eq!(is_among_them, !row.cell(g, role).is_idle(), "{role:?} of {row:?}");
    }
}

/// The same of a read.
fn short_cuts_of_reads_agree(g: &Geometry, plan: &ReadPlan) {
    let any = |of: &dyn Fn(&ReadRow, usize) -> bool| -> ColumnSet {
        (0..g.layout.width()).filter(|c| plan.rows.iter().any(|row| of(row, *c))).collect()
    };
    let reads = |row: &ReadRow, column: usize| {
        let mut seats = g.layout.seats_of(row.stripe, column);
        row.calculator == Some(column) || seats.any(|seat| !row.sent(g, seat).is_empty())
    };
    assert_eq!(plan.columns(g), any(&reads));
    assert_eq!(plan.answering(g), any(&|row, column| !row.to_endpoint(g, column).is_empty()));
}
