//! The steps of each role in a row of a write (TickerTAIP, Table V, with prepare before the write).
//!
//! The endpoint hands out new data; data columns read old content and send it, or what has changed,
//! to whoever computes parity: the parity columns, or the calculator, which sends them the result.
//! Who computes is the row's to say; that is all that these functions look at. What columns do to compute for
//! others is in [`calculator`](super::calculator) and [`tree`](super::tree).

use smallvec::{SmallVec, smallvec};

use super::cell::{
    Awaited, Cell, Destination, How, Part, Role, Send, Step, Term, Value, Write, solution,
};
use super::{Spans, WriteRow};
use crate::layout::{ColumnRole, Geometry};
use crate::policy::CalculatedAt;
use crate::units::ColumnSet;

impl WriteRow {
    /// The part of a role.
    pub fn cell(&self, g: &Geometry, role: Role) -> Cell {
        match role {
            Role::Column(seat) => self.column_cell(g, seat),
            Role::Source(seat) if self.copies() && self.target == Some(seat) => {
                self.source_cell(seat)
            }
            Role::Calculator => self.calculator_cell(g),
            Role::Endpoint => self.endpoint_cell(g),
            Role::Source(_) | Role::Coordinator => Cell::idle(role),
        }
    }

    /// The roles that may have steps: the columns in order, and then the others.
    pub fn roles(&self, g: &Geometry) -> impl Iterator<Item = Role> + use<> {
        let source = self.target.map(Role::Source);
        let columns = self.busy_seats(g).iter().map(Role::Column);
        columns.chain(source).chain([Role::Calculator, Role::Endpoint])
    }

    /// All cells that have steps, in the order of [`roles`](WriteRow::roles).
    pub fn cells(&self, g: &Geometry) -> impl Iterator<Item = Cell> {
        self.roles(g).map(|role| self.cell(g, role)).filter(|cell| !cell.is_idle())
    }

    fn column_cell(&self, g: &Geometry, seat: usize) -> Cell {
        let role = g.layout.role(self.stripe, seat);
        let mut cell = Cell { holds: Some(role), ..Cell::idle(Role::Column(seat)) };
        if self.target == Some(seat) {
            let value = match (self.loses, self.calculated_at) {
                (true, _) => Value::Mark,
                (false, CalculatedAt::Balanced) => {
                    Value::Sum(self.solution(g, g.code_column(self.stripe, seat)))
                }
                (false, CalculatedAt::Tree) => {
                    Value::Sum(self.sum_of_tree(g, g.code_column(self.stripe, seat)))
                }
                _ => Value::Given(Part::Result),
            };
            cell.steps.push(Step::Write(Write { value, ..self.result(self.parity) }));
            return cell;
        }
        if self.avoid.contains(seat) {
            return cell;
        }
        match role {
            ColumnRole::Data(i) => self.add_data_steps(g, i, &mut cell),
            ColumnRole::Parity(j) if self.parities().contains(j) => {
                self.add_parity_steps(g, j, &mut cell);
            }
            ColumnRole::Parity(j) if self.marked.contains(j) => {
                let (value, spans) = (Value::Mark, self.spans(g, j));
                cell.steps.push(Step::Write(Write { value, spans, how: How::Content }));
            }
            ColumnRole::Parity(j) if self.copied.contains(j) => {
                let (unit, _) = self.units(g);
                let (value, spans) = (Value::Given(Part::NewOf(unit)), self.cover(g, unit).into());
                cell.steps.push(Step::Write(Write { value, spans, how: How::Copy(unit) }));
            }
            ColumnRole::Parity(_) => {}
        }
        let code_column = g.code_column(self.stripe, seat);
        if self.solves_from.contains(code_column) {
            // It shows all that it has where parity changes.
            cell.steps.retain(|step| !matches!(step, Step::Read(_)) && !shows_old(step));
            if self.calculated_at != CalculatedAt::Tree {
                cell.steps.insert(0, Step::Send(self.show(code_column, self.parity)));
            }
            if self.calculated_at == CalculatedAt::Balanced && !cell.new.is_empty() {
                // All goes to the calculator in one message.
                let new = (Part::New, cell.new.into());
                cell.steps.insert(0, Step::Await(smallvec![new]));
            }
            cell.steps.insert(0, Step::Read(self.parity));
        }
        if self.calculated_at == CalculatedAt::Tree {
            self.add_tree_steps(g, code_column, &mut cell);
        }
        if self.asks_first && cell.sends().next().is_none() && cell.write().is_some() {
            // It has nothing to show; that it answers says that it may write.
            let place = cell.steps.len() - 1;
            cell.steps.insert(place, Step::Send(self.show(code_column, Spans::EMPTY)));
        }
        cell
    }

    fn add_data_steps(&self, g: &Geometry, i: usize, cell: &mut Cell) {
        let new = self.cover(g, i);
        cell.new = new;
        let write = Spans::from(new.sectors_out());
        let covering = g.code.parities_of(i);
        let (changed, afresh) =
            (self.changed.intersection(covering), self.afresh.intersection(covering));
        let needed = match changed.union(afresh).is_empty() {
            // Part of a sector is written with the rest of it.
            true if write == Spans::from(new) => Spans::EMPTY,
            true => write,
            false => self.needs_old(g, i).sectors_out(),
        };
        if !needed.is_empty() {
            cell.steps.push(Step::Read(needed));
        }
        if self.calculated_at == CalculatedAt::Originator {
            let old = self.needs_old(g, i);
            cell.steps.extend((!old.is_empty()).then(|| Step::Send(self.show(i, old))));
        }
        if self.calculated_at == CalculatedAt::Balanced {
            cell.steps.extend(self.for_star(g, i, changed, afresh).map(Step::Send));
        }
        for (value, spans, parities) in self.shares(g, i, changed, afresh) {
            let to = Destination::Columns(self.seats_of(g, parities));
            cell.steps.push(Step::Send(Send { value, spans, part: Part::From(i), to }));
        }
        if !write.is_empty() {
            let how = if self.copied.is_empty() { How::Content } else { How::Copy(i) };
            cell.steps.push(Step::Write(Write { value: Value::Content, spans: write, how }));
        }
    }

    /// What the column of data unit `i` sends to which parities, where those compute.
    fn shares(
        &self,
        g: &Geometry,
        i: usize,
        changed: ColumnSet,
        afresh: ColumnSet,
    ) -> SmallVec<[(Value, Spans, ColumnSet); 2]> {
        let (of_change, of_content) = match self.calculated_at {
            CalculatedAt::Originator | CalculatedAt::Balanced | CalculatedAt::Tree => {
                return SmallVec::new();
            }
            CalculatedAt::Parity => (Value::Change, Value::Content),
            CalculatedAt::Solely => (Value::Old, Value::Old),
        };
        let mut out = SmallVec::new();
        let new = self.cover(g, i);
        if !changed.is_empty() && !new.is_empty() {
            out.push((of_change, new.into(), changed));
        }
        for (spans, parities) in self.by_bytes(g, afresh, |j| self.shared_with(g, i, j)) {
            out.push((of_content.clone(), spans, parities));
        }
        out
    }

    /// The bytes of data unit `i` that its column sends to the column of parity `j`, which is computed
    /// afresh there.
    fn shared_with(&self, g: &Geometry, i: usize, j: usize) -> Spans {
        match self.calculated_at {
            CalculatedAt::Parity => self.spans(g, j),
            CalculatedAt::Solely => self.leftover(g, i, j),
            CalculatedAt::Originator | CalculatedAt::Balanced | CalculatedAt::Tree => Spans::EMPTY,
        }
    }

    /// Parities by the bytes that they have to do with: those that have to do with any.
    fn by_bytes(
        &self,
        g: &Geometry,
        parities: ColumnSet,
        spans: impl Fn(usize) -> Spans,
    ) -> SmallVec<[(Spans, ColumnSet); 1]> {
        let mut out: SmallVec<[(Spans, ColumnSet); 1]> = SmallVec::new();
        if g.code.covers_all() {
            // What holds for one holds for all.
            out.extend(parities.iter().next().map(|j| (spans(j), parities)));
        } else {
            for (j, spans) in parities.iter().map(|j| (j, spans(j))) {
                match out.iter_mut().find(|(same, _)| *same == spans) {
                    Some((_, alike)) => alike.insert(j),
                    None => out.push((spans, ColumnSet::of(j))),
                }
            }
        }
        out.retain(|(spans, _)| !spans.is_empty());
        out
    }

    fn add_parity_steps(&self, g: &Geometry, j: usize, cell: &mut Cell) {
        let (spans, is_change) = (self.spans(g, j), self.changed.contains(j));
        if self.is_calculated() {
            let old_is_shown = is_change && self.commanded;
            if old_is_shown {
                cell.steps.push(Step::Read(spans));
                cell.steps.push(Step::Send(self.show(g.data_columns() + j, spans)));
            }
            let how = How::of_change(is_change && !old_is_shown);
            cell.steps.push(Step::Write(Write { how, ..self.result(spans) }));
            return;
        }
        let terms = match self.calculated_at {
            CalculatedAt::Tree => self.sum_of_tree(g, g.data_columns() + j),
            _ => self.terms_at_parity(g, j),
        };
        let how = How::of_change(is_change);
        cell.steps.push(Step::Write(Write { value: Value::Sum(terms), spans, how }));
    }

    /// What the column of parity `j` adds up, where it does so itself: what the data columns send, and
    /// what the endpoint does on behalf of others.
    fn terms_at_parity(&self, g: &Geometry, j: usize) -> Vec<Term> {
        let (support, small) = (g.code.support(j), self.changed.contains(j));
        // To a change nothing is added by what stays as it is.
        let units = if small { support.intersection(self.new_units(g)) } else { support };
        let mut terms = Vec::with_capacity(units.len());
        for i in units.iter() {
            let (new, c) = (self.cover(g, i), g.code.coefficient(j, i));
            let lost = self.data_lost(g, i);
            let sent = match small {
                true => new.into(),
                false => self.shared_with(g, i, j),
            };
            if !sent.is_empty() && !lost {
                terms.push(Term::new(c, Part::From(i), sent));
            }
            if !new.is_empty() && (lost || self.calculated_at == CalculatedAt::Solely) {
                terms.push(Term::new(c, Part::NewOf(i), new));
            }
        }
        terms
    }

    fn source_cell(&self, seat: usize) -> Cell {
        let to = Destination::Columns(ColumnSet::of(seat));
        let (value, part) = (Value::Old, Part::Result);
        let send = Step::Send(Send { value, spans: self.parity, part, to });
        Cell { steps: smallvec![Step::Read(self.parity), send], ..Cell::idle(Role::Source(seat)) }
    }

    fn calculator_cell(&self, g: &Geometry) -> Cell {
        let mut cell = Cell::idle(Role::Calculator);
        let mut awaited = self.shown(g);
        let keeps_new = self.commanded && !awaited.is_empty();
        let new = self.new_for_calculator(g, keeps_new);
        awaited.extend(new.iter().map(|i| (Part::NewOf(i), self.cover(g, i).into())));
        if awaited.is_empty() {
            return cell;
        }
        cell.steps.push(Step::Await(awaited));
        if keeps_new {
            cell.steps.extend(self.new_for_columns(g));
        }
        match self.target {
            Some(target) => self.add_put_back(g, target, &mut cell),
            None => self.add_parity(g, &mut cell),
        }
        cell
    }

    /// What columns show the calculator.
    fn shown(&self, g: &Geometry) -> Awaited {
        if self.copies() || (!self.is_calculated() && !self.asks_first) {
            return Awaited::new();
        }
        if self.calculated_at == CalculatedAt::Originator
            && !self.commanded
            && self.solves_from.is_empty()
        {
            // Data that somebody needs the old content of, and nobody else.
            let shown = |i: usize| (Part::From(i), self.needs_old(g, i));
            let there = (0..g.data_columns()).filter(|&i| !self.data_lost(g, i));
            return there.map(shown).filter(|(_, spans)| !spans.is_empty()).collect();
        }
        let mut shown = Awaited::new();
        for seat in 0..g.layout.seats() {
            let cell = self.column_cell(g, seat);
            let to_calculator = |s: &&Send| s.to == Destination::Role(Role::Calculator);
            shown.extend(cell.sends().filter(to_calculator).map(|send| (send.part, send.spans)));
        }
        shown
    }

    /// The units whose new bytes the endpoint gives the calculator: those that it computes parity from, or all if it
    /// hands them on. A column has them from their own columns, where these can be used.
    fn new_for_calculator(&self, g: &Geometry, keeps_new: bool) -> ColumnSet {
        if self.target.is_some() || (!self.is_calculated() && !keeps_new) {
            return ColumnSet::EMPTY;
        }
        let support = |j: usize| g.code.support(j);
        let covered = self.parities().iter().fold(ColumnSet::EMPTY, |all, j| all.union(support(j)));
        let new = match self.calculated_at {
            CalculatedAt::Balanced => {
                self.new_units(g).iter().filter(|&i| self.data_lost(g, i)).collect()
            }
            _ => self.new_units(g),
        };
        if keeps_new { new } else { new.intersection(covered) }
    }

    /// New data for the columns that can be used.
    fn new_for_columns(&self, g: &Geometry) -> impl Iterator<Item = Step> {
        let live = self.new_units(g).iter().filter(|&i| !self.data_lost(g, i));
        live.map(|i| {
            let to = ColumnSet::of(g.layout.data_column(self.stripe, i));
            Step::Send(self.hand_on(g, i, Part::New, Destination::Columns(to)))
        })
    }

    /// The calculator computes the content of a column that is put back.
    fn add_put_back(&self, g: &Geometry, target: usize, cell: &mut Cell) {
        let wanted = g.code_column(self.stripe, target);
        let terms = self.solution(g, wanted);
        cell.steps.push(self.result_for(target, terms, self.parity));
    }

    /// The calculator computes the row's parity: the new one, or its change.
    fn add_parity(&self, g: &Geometry, cell: &mut Cell) {
        if !self.is_calculated() {
            return;
        }
        for i in (0..g.data_columns()).filter(|&i| self.decodes() && self.data_lost(g, i)) {
            if !self.needs_old(g, i).is_empty() {
                let solved = Value::Sum(self.solution(g, i));
                cell.steps.push(Step::Combine(Part::Solved(i), self.parity, solved));
            }
        }
        for j in self.parities().iter() {
            let seat = g.layout.parity_seat(self.stripe, j);
            let terms = match self.calculated_at {
                CalculatedAt::Balanced if !self.decodes() => self.terms_of_star(g, j),
                _ => self.terms_at_calculator(g, j),
            };
            cell.steps.push(self.result_for(seat, terms, self.spans(g, j)));
        }
    }

    /// Of what the calculator adds up parity `j`.
    fn terms_at_calculator(&self, g: &Geometry, j: usize) -> Vec<Term> {
        let support = g.code.support(j);
        let small = self.changed.contains(j);
        let mut terms = Vec::with_capacity(support.len() + 1);
        for i in support.iter() {
            let (new, c) = (self.cover(g, i), g.code.coefficient(j, i));
            let old = if self.data_lost(g, i) { Part::Solved(i) } else { Part::From(i) };
            let stays = if small { new.into() } else { self.leftover(g, i, j) };
            let both = [(old, stays), (Part::NewOf(i), new.into())];
            let some = both.into_iter().filter(|(_, spans)| !spans.is_empty());
            terms.extend(some.map(|(part, spans)| Term::new(c, part, spans)));
        }
        if self.commanded && small {
            terms.push(Term::new(1, Part::From(g.data_columns() + j), self.spans(g, j)));
        }
        terms
    }

    /// The terms whose sum is a lost column of the code, where parity changes.
    pub(super) fn solution(&self, g: &Geometry, wanted: usize) -> Vec<Term> {
        solution(g, self.solves_from, wanted, self.parity)
    }

    fn endpoint_cell(&self, g: &Geometry) -> Cell {
        let mut cell = Cell::idle(Role::Endpoint);
        if self.target.is_some() {
            return cell;
        }
        let keeps_new = self.commanded && !self.shown(g).is_empty();
        if !keeps_new {
            cell.steps.extend(self.new_for_columns(g));
        }
        let to_calculator = self.new_for_calculator(g, keeps_new);
        for i in self.new_units(g).iter() {
            if to_calculator.contains(i) {
                let to = Destination::Role(Role::Calculator);
                cell.steps.push(Step::Send(self.hand_on(g, i, Part::NewOf(i), to)));
            }
            let adding = self.parities().intersection(g.code.parities_of(i));
            let for_parities = self.calculated_at == CalculatedAt::Solely || self.data_lost(g, i);
            if !self.is_calculated() && for_parities && !adding.is_empty() {
                let to = Destination::Columns(self.seats_of(g, adding));
                cell.steps.push(Step::Send(self.hand_on(g, i, Part::NewOf(i), to)));
            }
            if !self.copied.is_empty() {
                let to = Destination::Columns(self.seats_of(g, self.copied));
                cell.steps.push(Step::Send(self.hand_on(g, i, Part::NewOf(i), to)));
            }
        }
        cell
    }

    /// New bytes of unit `i` on their way.
    pub(super) fn hand_on(&self, g: &Geometry, i: usize, part: Part, to: Destination) -> Send {
        let value = Value::Given(Part::NewOf(i));
        Send { value, spans: self.cover(g, i).into(), part, to }
    }

    /// Whether the calculator adds up parity: the originator, or a column.
    pub(super) fn is_calculated(&self) -> bool {
        matches!(self.calculated_at, CalculatedAt::Originator | CalculatedAt::Balanced)
    }

    /// What a column shows the calculator; of what a column puts back that column.
    pub(super) fn show(&self, code_column: usize, spans: Spans) -> Send {
        let (value, part) = (Value::Old, Part::From(code_column));
        let to = match (self.calculated_at, self.target) {
            (CalculatedAt::Balanced, Some(target)) => Destination::Columns(ColumnSet::of(target)),
            _ => Destination::Role(Role::Calculator),
        };
        Send { value, spans, part, to }
    }

    /// What a column writes as it gets it.
    fn result(&self, spans: Spans) -> Write {
        Write { value: Value::Given(Part::Result), spans, how: How::Content }
    }

    /// What the calculator sends a column to be written.
    fn result_for(&self, seat: usize, terms: Vec<Term>, spans: Spans) -> Step {
        let to = Destination::Columns(ColumnSet::of(seat));
        Step::Send(Send { value: Value::Sum(terms), spans, part: Part::Result, to })
    }

    /// Messages in the longest chain that ends with a vote.
    pub fn serial_messages(&self, g: &Geometry) -> u32 {
        if let CalculatedAt::Balanced | CalculatedAt::Tree = self.calculated_at {
            return self.serial_messages_of_columns(g, 1);
        }
        let gathers = self.calculator_cell(g).gathers();
        // How many messages, one after the other, lead to an part: the first tells a column to begin.
        let calculated = if gathers { 3 } else { 1 };
        let keeps_new = self.commanded && gathers;
        let arrival = |part: &Part| match part {
            Part::From(_) | Part::Sum { .. } => 2,
            Part::Result if self.copies() => 2,
            Part::Result => calculated,
            Part::New if keeps_new => calculated,
            Part::New | Part::NewOf(_) | Part::Solved(_) => 1,
        };
        let votes = (0..g.layout.seats())
            .filter_map(|seat| self.column_cell(g, seat).messages_to_vote(arrival));
        votes.max().unwrap_or(2)
    }
}

/// Whether old content is sent as it is.
fn shows_old(step: &Step) -> bool {
    matches!(step, Step::Send(Send { value: Value::Old, .. }))
}
