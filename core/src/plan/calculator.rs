//! A column as the calculator (TPT-RAID's star): the columns with data hand it what changes, or their content, and it
//! sends each parity column the result.
//!
//! Which column that is for which stripe, whoever plans the write chooses, and says it with the write: the one whose
//! node has least to compute. Cells are the same whichever it is; what a node's own column sends it costs nothing.

use smallvec::SmallVec;

use super::cell::{Cell, Destination, Part, Role, Send, Term, Value};
use super::{PlanError, Spans, WritePlan, WriteRow};
use crate::layout::{ColumnRole, Geometry};
use crate::policy::CalculatedAt;
use crate::units::ColumnSet;

/// The columns that calculate for the stripes of a request. Of a long one they take turns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Calculators {
    /// So many of the columns count: none, or one for each stripe, or all that there is room for.
    count: u8,
    columns: [u8; Calculators::MOST],
}

impl Calculators {
    /// Stripes of a request whose calculators are chosen one by one.
    pub const MOST: usize = 16;

    /// These columns, in the order of stripe numbers that are divided by how many there are.
    ///
    /// `None` if there are too many.
    pub fn new(columns: &[u8]) -> Option<Calculators> {
        let mut out = Calculators { count: columns.len() as u8, ..Calculators::default() };
        out.columns.get_mut(..columns.len())?.copy_from_slice(columns);
        Some(out)
    }

    /// Those that count.
    pub fn columns(&self) -> &[u8] {
        &self.columns[..usize::from(self.count)]
    }

    /// Whether there are none: the originator calculates, or all do.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Chooses for rows: of each the stripe, the columns that can calculate, the bytes that are to be added up, and those
    /// that each column need not send, or get, if it does so.
    pub(super) fn choose(
        g: &Geometry,
        rows: impl ExactSizeIterator<Item = (u64, ColumnSet, u64, Vec<u64>)>,
        load: impl Fn(usize) -> u64,
    ) -> Calculators {
        let mut loads: Vec<u64> = (0..g.layout.width()).map(load).collect();
        let count = rows.len().min(Calculators::MOST);
        let mut chosen = Calculators { count: count as u8, ..Calculators::default() };
        for (stripe, live, computes, saved) in rows.take(count) {
            let parity_first = |column| {
                let data = g.data_columns();
                let code_column = g.code_column(stripe, column);
                if code_column < data {
                    g.code.parity_columns() + code_column
                } else {
                    code_column - data
                }
            };
            let key = |c: &usize| (loads[*c], u64::MAX - saved[*c], parity_first(*c));
            let column = live.iter().min_by_key(key).expect("a column that can be used");
            loads[column] += computes;
            chosen.columns[(stripe % count as u64) as usize] = column as u8;
        }
        chosen
    }

    /// The column that calculates for a stripe.
    pub fn of(&self, stripe: u64) -> Option<usize> {
        let place = stripe.checked_rem(self.count.into())?;
        Some(self.columns[place as usize].into())
    }
}

/// A row, of a write or a read, that may be left to a column to calculate.
pub(super) trait Row {
    /// Its stripe's number in the volume.
    fn stripe(&self) -> u64;
    /// The columns that cannot calculate for it.
    fn avoid(&self) -> ColumnSet;
    /// Whether one column, which is yet to be chosen, calculates for it.
    fn is_left_to_a_column(&self) -> bool;
    /// The bytes that whoever calculates adds up.
    fn computes(&self, g: &Geometry) -> u64;
    /// Bytes that each column need not send, or get, if it calculates itself.
    fn kept_by(&self, g: &Geometry) -> Vec<u64>;
    /// The column that calculates, if one does.
    fn calculator(&mut self) -> &mut Option<usize>;
}

/// Chooses who calculates for the rows that leave it to a column: of those that can be used the one whose node has
/// least to compute, `load` of columns, or is given least by the rows before. Where that ties it is the one that
/// would have most to send or to get.
pub(super) fn choose_calculators<R: Row>(
    rows: &mut [R],
    g: &Geometry,
    load: impl Fn(usize) -> u64,
) -> Calculators {
    if !rows.iter().any(R::is_left_to_a_column) {
        return Calculators::default();
    }
    let all = rows.iter().map(|row| {
        let live = (0..g.layout.width()).filter(|column| !row.avoid().contains(*column));
        (row.stripe(), live.collect(), row.computes(g), row.kept_by(g))
    });
    let chosen = Calculators::choose(g, all, load);
    assign(rows, g, chosen).expect("they can be used");
    chosen
}

/// Has these columns calculate, as somebody else has chosen them.
pub(super) fn assign<R: Row>(
    rows: &mut [R],
    g: &Geometry,
    chosen: Calculators,
) -> Result<(), PlanError> {
    for row in rows.iter_mut().filter(|row| row.is_left_to_a_column()) {
        let (stripe, avoid) = (row.stripe(), row.avoid());
        let can = |column: &usize| *column < g.layout.width() && !avoid.contains(*column);
        let column = chosen.of(stripe).filter(can);
        *row.calculator() = Some(column.ok_or(PlanError::NoCalculator { stripe })?);
    }
    Ok(())
}

impl WritePlan {
    /// Chooses who calculates for the rows that leave it to a column; `load` is what each column has to compute already.
    pub fn choose_calculators(&mut self, g: &Geometry, load: impl Fn(usize) -> u64) -> Calculators {
        choose_calculators(&mut self.rows, g, load)
    }

    /// Of each row that a column calculates for that column, and the bytes that it adds up.
    pub fn computed_by<'a>(&'a self, g: &'a Geometry) -> impl Iterator<Item = (usize, u64)> + 'a {
        self.rows.iter().filter_map(move |row| Some((row.calculator?, row.computes(g))))
    }

    /// Has these columns calculate, as somebody else has chosen them.
    pub fn assign(&mut self, g: &Geometry, chosen: Calculators) -> Result<(), PlanError> {
        assign(&mut self.rows, g, chosen)
    }
}

impl Row for WriteRow {
    fn stripe(&self) -> u64 {
        self.stripe
    }

    fn avoid(&self) -> ColumnSet {
        self.avoid
    }

    fn is_left_to_a_column(&self) -> bool {
        self.calculated_at == CalculatedAt::Balanced && self.target.is_none()
    }

    fn computes(&self, g: &Geometry) -> u64 {
        self.cell(g, Role::Calculator).computes()
    }

    fn kept_by(&self, g: &Geometry) -> Vec<u64> {
        let mut kept = vec![0; g.layout.width()];
        let to_calculator = |send: &&Send| send.to == Destination::Role(Role::Calculator);
        for cell in self.cells(g) {
            match cell.at {
                Role::Column(seat) => {
                    let sends = cell.sends().filter(to_calculator).map(|s| s.spans.len());
                    kept[g.layout.column_at(self.stripe, seat)] += sends.sum::<u64>();
                }
                Role::Calculator => {
                    for send in cell.sends() {
                        let to = send.to.columns().iter();
                        to.for_each(|seat| {
                            kept[g.layout.column_at(self.stripe, seat)] += send.spans.len();
                        });
                    }
                }
                Role::Source(_) | Role::Endpoint | Role::Coordinator => {}
            }
        }
        kept
    }

    fn calculator(&mut self) -> &mut Option<usize> {
        &mut self.calculator
    }
}

impl WriteRow {
    /// Whether columns compute for one another, so that what a cell sends goes in one message to each who gets it.
    pub fn columns_compute(&self) -> bool {
        matches!(self.calculated_at, CalculatedAt::Balanced | CalculatedAt::Tree)
    }

    /// What the column of data unit `i` sends the calculator besides old content that is solved from: what changes, for
    /// parities that take in changes, and its content, for those that are computed afresh.
    pub(super) fn for_star(
        &self,
        g: &Geometry,
        i: usize,
        changed: ColumnSet,
        afresh: ColumnSet,
    ) -> impl Iterator<Item = Send> {
        let new = Spans::from(self.cover(g, i));
        let covered = !changed.union(afresh).is_empty();
        let send = move |value, spans: Spans, part| {
            let to = Destination::Role(Role::Calculator);
            (!spans.is_empty()).then_some(Send { value, spans, part, to })
        };
        let sends = match self.decodes() {
            true => [None, send(Value::Given(Part::New), new, Part::NewOf(i)).filter(|_| covered)],
            false => [
                send(Value::Change, new, Part::From(i)).filter(|_| !changed.is_empty()),
                send(Value::Content, self.content_shown(g, afresh), Part::NewOf(i)),
            ],
        };
        sends.into_iter().flatten()
    }

    /// The bytes of a data unit that count where these parities are computed afresh.
    pub(super) fn content_shown(&self, g: &Geometry, afresh: ColumnSet) -> Spans {
        Spans::union(afresh.iter().flat_map(|j| self.spans(g, j).iter()))
    }

    /// Of what a column as the calculator adds up parity `j`, where nothing is solved for.
    pub(super) fn terms_of_star(&self, g: &Geometry, j: usize) -> Vec<Term> {
        let is_change = self.changed.contains(j);
        let term = |i: usize| {
            let new = Spans::from(self.cover(g, i));
            let (part, spans) = match (self.data_lost(g, i), is_change) {
                (true, _) => (Part::NewOf(i), new),
                (false, true) => (Part::From(i), new),
                (false, false) => (Part::NewOf(i), self.spans(g, j)),
            };
            (!spans.is_empty()).then(|| Term::new(g.code.coefficient(j, i), part, spans))
        };
        g.code.support(j).iter().filter_map(term).collect()
    }

    /// The number in a chain of messages of what a role sends, where columns compute for one another: the first tells a
    /// column to begin, and with the `new_at`-th it has what is new.
    pub fn sent_at(&self, g: &Geometry, role: Role, new_at: u8) -> u8 {
        match (role, self.calculated_at) {
            (Role::Calculator, _) => {
                let to_it =
                    |cell: &Cell| cell.sends().any(|s| s.to == Destination::Role(Role::Calculator));
                let at = |cell: Cell| match cell.at {
                    Role::Endpoint => new_at,
                    // Its own column's takes no message.
                    from if self.stays(g, from, Role::Calculator) => cell.begun_at(new_at),
                    from => self.sent_at(g, from, new_at),
                };
                self.cells(g).filter(to_it).map(at).max().unwrap_or(1) + 1
            }
            (Role::Column(seat), CalculatedAt::Tree) => {
                self.tree_heights(g, new_at)[g.code_column(self.stripe, seat)]
            }
            (role, _) => self.cell(g, role).begun_at(new_at) + 1,
        }
    }

    /// Messages in the longest chain that ends with a vote; with the `new_at`-th a column has what is new.
    pub(super) fn serial_messages_of_columns(&self, g: &Geometry, new_at: u8) -> u32 {
        let calculated = self.sent_at(g, Role::Calculator, new_at);
        let heights = self.tree_heights(g, new_at);
        let sent_by = |from: usize| match self.calculated_at {
            CalculatedAt::Tree => heights[from],
            _ => self.sent_at(g, Role::Column(g.seat_of(self.stripe, from)), new_at),
        };
        let arrival = |seat: usize, part: Part| match part {
            Part::Result if Some(g.layout.column_at(self.stripe, seat)) == self.calculator => {
                calculated - 1
            }
            Part::Result => calculated,
            Part::Sum { from, .. } | Part::From(from) => sent_by(from),
            Part::New | Part::NewOf(_) | Part::Solved(_) => new_at,
        };
        let vote = |seat: usize| {
            let cell = self.cell(g, Role::Column(seat));
            let written: SmallVec<[Part; 4]> = match &cell.write()?.value {
                Value::Sum(terms) => terms.iter().map(|t| t.part).collect(),
                Value::Given(part) => SmallVec::from_elem(*part, 1),
                _ => SmallVec::from_elem(Part::New, 1),
            };
            let parts = cell.awaited().iter().map(|(part, _)| *part).chain(written);
            Some(u32::from(parts.map(|part| arrival(seat, part)).max().unwrap_or(1)) + 1)
        };
        (0..g.layout.seats()).filter_map(vote).max().unwrap_or(2)
    }

    /// Whether what a cell sends stays in the node that it is at: between the calculator and its own column.
    pub fn stays(&self, g: &Geometry, from: Role, to: Role) -> bool {
        let column = |role| match role {
            Role::Column(seat) => Some(g.layout.column_at(self.stripe, seat)),
            _ => None,
        };
        match (from, to) {
            (Role::Calculator, other) | (other, Role::Calculator) => {
                self.calculator.is_some() && column(other) == self.calculator
            }
            _ => false,
        }
    }

    /// Whether a seat holds data.
    pub(super) fn data_of(&self, g: &Geometry, seat: usize) -> Option<usize> {
        match g.layout.role(self.stripe, seat) {
            ColumnRole::Data(i) => Some(i),
            ColumnRole::Parity(_) => None,
        }
    }
}
