//! Columns that solve for the lost units of a read (TPT-RAID's degraded reads): what is solved goes straight to the
//! endpoint, which gets no bytes but those that its host wants.
//!
//! As with writes one column gathers what others have (a star), or what they have is added up on its way in a tree. Of
//! each lost unit there is a tree: in it are the columns that it is solved from, as a binary heap by their numbers in
//! the code. Its root has the unit.

use smallvec::SmallVec;

use super::calculator::{self, Row};
use super::cell::{Awaited, Cell, Destination, Part, Role, Send, Step, Term, Value};
use super::{Calculators, PlanError, ReadPlan, ReadRow, Spans};
use crate::layout::Geometry;
use crate::policy::{CalculatedAt, Dispatch, Policy};
use crate::units::ColumnSet;

impl Policy {
    /// Who solves for what is lost when it is read: who holds the bytes, unless columns compute for one another, or no data
    /// is to pass who plans.
    pub(super) fn reads_solved_at(self) -> CalculatedAt {
        match self.calculated_at {
            Some(there @ (CalculatedAt::Balanced | CalculatedAt::Tree))
                if self.dispatch == Dispatch::Collaborative =>
            {
                there
            }
            _ if self.sees_no_data() => CalculatedAt::Balanced,
            _ => CalculatedAt::Originator,
        }
    }
}

impl ReadPlan {
    /// Whether columns solve for any of it.
    pub fn columns_solve(&self) -> bool {
        self.rows.iter().any(ReadRow::columns_solve)
    }

    /// Chooses who solves for the rows that leave it to a column, as for writes: see
    /// [`WritePlan::choose_calculators`](super::WritePlan::choose_calculators).
    pub fn choose_calculators(&mut self, g: &Geometry, load: impl Fn(usize) -> u64) -> Calculators {
        calculator::choose_calculators(&mut self.rows, g, load)
    }

    /// Of each row that a column solves for that column, and the bytes that it adds up.
    pub fn computed_by<'a>(&'a self, g: &'a Geometry) -> impl Iterator<Item = (usize, u64)> + 'a {
        self.rows.iter().filter_map(move |row| Some((row.calculator?, row.computes(g))))
    }

    /// Has these columns solve, as somebody else has chosen them.
    pub fn assign(&mut self, g: &Geometry, chosen: Calculators) -> Result<(), PlanError> {
        calculator::assign(&mut self.rows, g, chosen)
    }
}

impl Row for ReadRow {
    fn stripe(&self) -> u64 {
        self.stripe
    }

    fn avoid(&self) -> ColumnSet {
        self.avoid
    }

    fn is_left_to_a_column(&self) -> bool {
        self.solved_at == CalculatedAt::Balanced
    }

    fn computes(&self, g: &Geometry) -> u64 {
        self.cell(g, Role::Calculator).computes()
    }

    fn kept_by(&self, g: &Geometry) -> Vec<u64> {
        let mut kept = vec![0; g.layout.width()];
        for seat in self.sources.iter() {
            kept[g.layout.column_at(self.stripe, seat)] += self.solve.len();
        }
        kept
    }

    fn calculator(&mut self) -> &mut Option<usize> {
        &mut self.calculator
    }
}

impl ReadRow {
    /// Whether columns solve for what is lost of it.
    pub fn columns_solve(&self) -> bool {
        self.solved_at != CalculatedAt::Originator
    }

    /// The lost units of which something is wanted, and what.
    fn lost(&self, g: &Geometry) -> impl Iterator<Item = (usize, Spans)> {
        self.wanted(g).filter_map(|(part, cover)| match part {
            Part::Solved(i) => Some((i, cover.into())),
            _ => None,
        })
    }

    /// What a column sends the endpoint, in order: what it has, by seats, and what it has solved.
    pub fn to_endpoint(&self, g: &Geometry, column: usize) -> SmallVec<[(Part, Spans); 2]> {
        let part = |seat| Part::From(g.code_column(self.stripe, seat));
        let shown = |seat| (part(seat), self.shown_to_endpoint(g, seat));
        let own = g.layout.seats_of(self.stripe, column).map(shown);
        let mut sent: SmallVec<_> = own.filter(|(_, spans)| !spans.is_empty()).collect();
        if self.columns_solve() {
            let solves = |i: usize| match self.solved_at {
                CalculatedAt::Tree => {
                    self.members(g, i).first().map(|s| g.column_of(self.stripe, *s))
                }
                _ => self.calculator,
            };
            let solved = self.lost(g).filter(|(i, _)| solves(*i) == Some(column));
            sent.extend(solved.map(|(i, spans)| (Part::Solved(i), spans)));
        }
        sent
    }

    /// What a column that something is solved from does for that.
    pub(super) fn add_solving_steps(&self, g: &Geometry, seat: usize, cell: &mut Cell) {
        let s = g.code_column(self.stripe, seat);
        match self.solved_at {
            CalculatedAt::Balanced => {
                let to = Destination::Role(Role::Calculator);
                let (value, spans, part) = (Value::Old, self.solve, Part::From(s));
                cell.steps.push(Step::Send(Send { value, spans, part, to }));
            }
            CalculatedAt::Tree => self.add_tree_steps(g, s, cell),
            _ => {}
        }
    }

    /// The columns of the code in the tree of a lost unit; the first is the root.
    fn members(&self, g: &Geometry, unit: usize) -> SmallVec<[usize; 8]> {
        let of = |term: &Term| match term.part {
            Part::From(s) => s,
            other => unreachable!("{other:?} is nothing that a column has"),
        };
        let mut members: SmallVec<[usize; 8]> =
            self.solution(g, unit, self.solve).iter().map(of).collect();
        members.sort_unstable();
        members
    }

    /// A column adds up its share and its children's, and sends that on.
    fn add_tree_steps(&self, g: &Geometry, s: usize, cell: &mut Cell) {
        let own = Step::Combine(Part::From(s), self.solve, Value::Old);
        let (mut awaited, mut sends) = (Awaited::new(), SmallVec::<[Step; 2]>::new());
        for (of, spans) in self.lost(g) {
            let members = self.members(g, of);
            let Some(at) = members.iter().position(|member| *member == s) else { continue };
            let children = [2 * at + 1, 2 * at + 2];
            let children = children.into_iter().filter_map(|n| members.get(n).copied());
            let sums = children.map(|from| (Part::Sum { from, of }, spans));
            let sums: Awaited = sums.collect();
            let its = self.solution(g, of, spans).into_iter().filter(|t| t.part == Part::From(s));
            let terms = its.chain(sums.iter().map(|(sum, spans)| Term::new(1, *sum, *spans)));
            let value = Value::Sum(terms.collect());
            awaited.extend(sums);
            let (part, to) = match at.checked_sub(1) {
                None => (Part::Solved(of), Destination::Role(Role::Endpoint)),
                Some(before) => {
                    let parent = g.seat_of(self.stripe, members[before / 2]);
                    let to = Destination::Columns(ColumnSet::of(parent));
                    (Part::Sum { from: s, of }, to)
                }
            };
            sends.push(Step::Send(Send { value, spans, part, to }));
        }
        if sends.is_empty() {
            return;
        }
        cell.steps.push(own);
        cell.steps.extend((!awaited.is_empty()).then_some(Step::Await(awaited)));
        cell.steps.extend(sends);
    }

    /// A column solves for all that is lost.
    pub(super) fn calculator_cell(&self, g: &Geometry) -> Cell {
        let mut cell = Cell::idle(Role::Calculator);
        if self.solved_at != CalculatedAt::Balanced {
            return cell;
        }
        let shown = |seat| (Part::From(g.code_column(self.stripe, seat)), self.solve);
        cell.steps.push(Step::Await(self.sources.iter().map(shown).collect()));
        for (i, spans) in self.lost(g) {
            let value = Value::Sum(self.solution(g, i, spans));
            let (part, to) = (Part::Solved(i), Destination::Role(Role::Endpoint));
            cell.steps.push(Step::Send(Send { value, spans, part, to }));
        }
        cell
    }

    /// Whether what the column of a seat sends another role stays in its node.
    pub fn stays(&self, g: &Geometry, seat: usize, to: Role) -> bool {
        to == Role::Calculator && Some(g.layout.column_at(self.stripe, seat)) == self.calculator
    }

    /// The number in a chain of messages of what a role sends: the first tells a column to begin.
    pub fn sent_at(&self, g: &Geometry, role: Role) -> u8 {
        let from = |part: &Part| match part {
            Part::Sum { from, .. } => Some(Role::Column(g.seat_of(self.stripe, *from))),
            Part::From(s) => Some(Role::Column(g.seat_of(self.stripe, *s))),
            _ => None,
        };
        let at = |sender: Role| match sender {
            Role::Column(seat) if self.stays(g, seat, role) => 1,
            sender => self.sent_at(g, sender),
        };
        let cell = self.cell(g, role);
        cell.awaited().iter().filter_map(|(part, _)| from(part)).map(at).max().unwrap_or(1) + 1
    }

    /// Messages in the longest chain that ends at the endpoint.
    pub(super) fn serial_messages(&self, g: &Geometry) -> u32 {
        if !self.columns_solve() {
            return 2;
        }
        let to_endpoint =
            |cell: &Cell| cell.sends().any(|send| send.to == Destination::Role(Role::Endpoint));
        let cells = self.cells(g).filter(to_endpoint);
        cells.map(|cell| u32::from(self.sent_at(g, cell.at))).max().unwrap_or(2)
    }

    /// Messages among the columns, and the bytes of them.
    pub(super) fn between_columns(&self, g: &Geometry) -> (u64, u64) {
        let (mut messages, mut bytes) = (0, 0);
        if !self.columns_solve() {
            return (messages, bytes);
        }
        for seat in self.sources.iter() {
            let cell = self.cell(g, Role::Column(seat));
            let mut to: SmallVec<[Role; 4]> = SmallVec::new();
            for send in cell.sends() {
                let apart = |role: &Role| *role != Role::Endpoint && !self.stays(g, seat, *role);
                for role in send.to.roles().filter(apart) {
                    bytes += send.spans.len();
                    if !to.contains(&role) {
                        to.push(role);
                    }
                }
            }
            messages += to.len() as u64;
        }
        (messages, bytes)
    }
}
