//! A plan for people, drawn as TickerTAIP's Figure 7: stripes down, columns across.

use super::{
    Cell, Destination, How, Part, PlanError, Range, ReadPlan, Role, Send, Span, Step, Strategy,
    Totals, Value, Waits, WritePlan, WriteRow, chunks, controlled::AROUND, cut, refreshes,
    together, waiting,
};
use crate::layout::{ColumnRole, Geometry};
use crate::order::Ordering;
use crate::order::sequencer::{OrderCost, Standpoint};
use crate::policy::{CalculatedAt, Policy};
use crate::units::{ColumnSet, Timestamp};

/// A request's plan in words and numbers.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// A line for each stripe, runs of like stripes as one.
    pub rows: Vec<ExplainedRow>,
    /// What it costs.
    pub totals: Totals,
    /// What of this its order costs, and what that costs afterwards; `None` if the order costs no
    /// messages.
    pub order: Option<OrderCost>,
    /// How many pieces, each atomic, the request is cut into.
    pub chunks: usize,
}

/// A line of an [`Explanation`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExplainedRow {
    /// The first stripe.
    pub stripe: u64,
    /// How many stripes in a row look like it, up to rotation.
    pub count: u64,
    /// The strategy, and where parity is computed.
    pub strategy: String,
    /// For each column what it holds and its steps.
    pub cells: Vec<String>,
}

/// What is to be explained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// A read.
    Read,
    /// A write; where parity waits, to stripes of which none is marked.
    Write,
    /// A write where all parity that waits is marked already.
    WriteToMarked,
    /// That parity which waits is computed, where a range is written.
    Refresh,
}

/// Explains a read or a write of `range`, cut into chunks of `max` bytes, and where extents
/// of so many stripes end. A sequencer sees the request from `standpoint`; a lock server is on another
/// node than the originator, nothing is in the way, and no lock is kept.
#[expect(clippy::too_many_arguments, reason = "all that a request's cost depends on")]
pub fn explain(
    g: &Geometry,
    asked_for: Asked,
    range: Range,
    avoid: ColumnSet,
    policy: Policy,
    max: u64,
    extent_stripes: Option<u64>,
    standpoint: Standpoint,
) -> Result<Explanation, PlanError> {
    let (rows, totals) = (Vec::new(), Totals::default());
    let mut out = Explanation { rows, totals, order: None, chunks: 0 };
    let mut only_read = 0;
    // The pieces go side by side, so who calculates for one has less to do for the next.
    let mut given = vec![0; g.layout.width()];
    let extent_end = |stripe| extent_stripes.map_or(u64::MAX, |n| (stripe / n + 1) * n);
    let together = together(g, policy.commands(), max);
    let mut asked = None;
    let waits = waits_of(g, asked_for, avoid, &policy);
    let pieces = |chunk| match asked_for {
        Asked::Read | Asked::Refresh => vec![chunk],
        Asked::Write | Asked::WriteToMarked => cut(g, &policy, chunk),
    };
    for (part, chunk) in chunks(g, range, max, extent_end)
        .flat_map(|part| chunks(g, part, together, extent_end).map(move |chunk| (part, chunk)))
        .flat_map(|(part, chunk)| pieces(chunk).into_iter().map(move |piece| (part, piece)))
    {
        out.chunks += 1;
        if asked.replace(part) == Some(part) {
            // A controller is asked once for all of a part, and answers once.
            out.totals.messages -= policy.controller.map_or(0, |_| AROUND);
        }
        if asked_for == Asked::Refresh {
            for plan in
                chunk.stripes(g).flat_map(|s| refreshes(g, &policy, s, rows_of(g, chunk, s)))
            {
                // It is not journalled: it is done when it is in place.
                out.totals += plan.totals(g, Policy { journal: false, ..policy });
                plan.rows.iter().for_each(|r| push(&mut out.rows, write_row(g, r, policy)));
            }
        } else if asked_for != Asked::Read {
            let mut plan = WritePlan::deferring(g, chunk, avoid, policy, waits)?;
            plan.choose_calculators(g, |column| given[column]);
            plan.computed_by(g).for_each(|(column, bytes)| given[column] += bytes);
            out.totals += plan.totals(g, policy);
            let any = |c, does: fn(&Cell) -> bool| {
                plan.rows.iter().any(|r| {
                    let mut seats = g.layout.seats_of(r.stripe, c);
                    seats.any(|seat| does(&r.cell(g, Role::Column(seat))))
                })
            };
            only_read += columns(g, |c| {
                any(c, |cell| !cell.reads().is_empty()) && !any(c, |cell| cell.write().is_some())
            });
            plan.rows.iter().for_each(|r| push(&mut out.rows, write_row(g, r, policy)));
        } else {
            let mut plan = ReadPlan::by(g, chunk, avoid, policy)?;
            plan.choose_calculators(g, |column| given[column]);
            plan.computed_by(g).for_each(|(column, bytes)| given[column] += bytes);
            out.totals += plan.totals_with(g, policy);
            only_read += plan.columns(g).len() as u64;
            plan.rows.iter().for_each(|r| push(&mut out.rows, read_row(g, r)));
        }
    }
    let pieces = out.chunks as u64;
    out.order = match policy.ordering {
        Ordering::Sequencer => Some(policy.sequencer.cost(standpoint)),
        // Each piece asks, is granted its locks and gives them back; the pieces go side by side.
        Ordering::LockServer => {
            Some(OrderCost { before: 2 * pieces, round_trips: 1, after: pieces })
        }
        Ordering::CallbackLocks => Some(OrderCost { before: 2 * pieces, round_trips: 1, after: 0 }),
        // A disk that writes hears that it is over with the outcome.
        Ordering::DeviceLocks => Some(OrderCost { before: 0, round_trips: 0, after: only_read }),
        Ordering::None | Ordering::Timestamps => None,
    };
    if let Some(cost) = out.order {
        out.totals.messages += cost.before;
        out.totals.round_trips += cost.round_trips;
    }
    Ok(out)
}

/// The bytes of a stripe's units in which there is something of a range: whole sectors, from the first to the last.
fn rows_of(g: &Geometry, range: Range, stripe: u64) -> Span {
    let (lo, hi) = range.within(g, stripe);
    match lo / g.unit == (hi - 1) / g.unit {
        true => Span::new(lo % g.unit, (hi - 1) % g.unit + 1).sectors_out(),
        false => Span::new(0, g.unit),
    }
}

/// The parities of a write that wait. None does while a disk is lost, or without a journal.
fn waits_of(g: &Geometry, asked_for: Asked, avoid: ColumnSet, policy: &Policy) -> Waits {
    let marked_since = match asked_for {
        Asked::WriteToMarked if policy.relies_on_marks() => Some(Timestamp::ZERO),
        _ => None,
    };
    let writes = matches!(asked_for, Asked::Write | Asked::WriteToMarked);
    match writes && avoid.is_empty() && policy.is_journaled() {
        true if policy.redundancy.copies() => Waits::COPIED,
        true => Waits { marked_since, ..waiting(g, policy).into() },
        false => Waits::NONE,
    }
}

/// How many columns are such.
fn columns(g: &Geometry, is: impl Fn(usize) -> bool) -> u64 {
    (0..g.layout.width()).filter(|c| is(*c)).count() as u64
}

/// Folds full stripes after one another into one line.
fn push(rows: &mut Vec<ExplainedRow>, row: ExplainedRow) {
    if let Some(last) = rows.last_mut() {
        let alike = last.strategy == row.strategy && row.strategy.starts_with("full");
        if alike && last.stripe + last.count == row.stripe {
            last.count += 1;
            return;
        }
    }
    rows.push(row);
}

fn held(g: &Geometry, stripe: u64, seat: usize) -> String {
    match g.layout.role(stripe, seat) {
        ColumnRole::Data(i) => format!("{}", stripe * g.data_columns() as u64 + i as u64),
        ColumnRole::Parity(j) if g.code.parity_columns() > 1 => format!("P{j}"),
        ColumnRole::Parity(_) => "P".to_string(),
    }
}

fn read_row(g: &Geometry, row: &super::ReadRow) -> ExplainedRow {
    let unit = |seat: usize| {
        let name = held(g, row.stripe, seat);
        if row.avoid.contains(seat) {
            return format!("{name}: lost");
        }
        let solves =
            if row.calculator == Some(seat) { "; calculator: solve, send to O" } else { "" };
        match row.sent(g, seat) {
            s if s.is_empty() => format!("{name}: -{solves}"),
            s => {
                let to = row.cell(g, Role::Column(seat)).read_goes_to();
                format!("{name}: read {}, send to {to}{solves}", s.sectors_out().len())
            }
        }
    };
    let strategy = match (row.solve.is_empty(), row.solved_at) {
        (true, _) => "read",
        (false, CalculatedAt::Balanced) => "degraded read, solved at a column",
        (false, CalculatedAt::Tree) => "degraded read, solved by a tree",
        (false, _) => "degraded read",
    };
    ExplainedRow {
        stripe: row.stripe,
        count: 1,
        strategy: strategy.to_string(),
        cells: cells(g, row.stripe, unit),
    }
}

fn write_row(g: &Geometry, row: &WriteRow, policy: Policy) -> ExplainedRow {
    // As the row has it: that is not always what was chosen.
    let policy = Policy { calculated_at: Some(row.calculated_at), ..policy };
    let unit = |seat: usize| {
        let name = held(g, row.stripe, seat);
        if row.avoid.contains(seat) {
            return format!("{name}: lost");
        }
        let steps = row.cell(g, Role::Column(seat)).steps_in_words(policy);
        let is_marked = matches!(g.layout.role(row.stripe, seat), ColumnRole::Parity(j) if row.relied_on.contains(j));
        let steps = match steps.is_empty() {
            true if is_marked => "marked already".to_string(),
            true => "-".to_string(),
            false => steps.join(", "),
        };
        if row.calculator != Some(seat) {
            return format!("{name}: {steps}");
        }
        let calculator = row.cell(g, Role::Calculator).steps_in_words(policy);
        format!("{name}: {steps}; calculator: {}", calculator.join(", "))
    };
    ExplainedRow {
        stripe: row.stripe,
        count: 1,
        strategy: describe(g, row),
        cells: cells(g, row.stripe, unit),
    }
}

/// What is said of each column: of each of its units, if it holds two.
fn cells(g: &Geometry, stripe: u64, unit: impl Fn(usize) -> String) -> Vec<String> {
    let cell = |c| g.layout.seats_of(stripe, c).map(&unit).collect::<Vec<String>>().join("; ");
    (0..g.layout.width()).map(cell).collect()
}

fn describe(g: &Geometry, row: &WriteRow) -> String {
    let strategy = match row.strategy(g) {
        Some(Strategy::Full) => "full",
        Some(Strategy::Small) if row.decodes() => "small, solving for lost data",
        Some(Strategy::Small) => "small",
        Some(Strategy::Large) if row.decodes() => "large, solving for lost data",
        Some(Strategy::Large) => "large",
        Some(Strategy::Rebuild) => "rebuild",
        None => "small and large",
    };
    if !row.waits().is_empty() && row.parities().is_empty() {
        return "only data, parity waits".to_string();
    }
    if !row.copied.is_empty() {
        return "small, copied, parity later".to_string();
    }
    if row.parities().is_empty() {
        return format!("{strategy}, no parity");
    }
    let place = match row.calculated_at {
        CalculatedAt::Originator => "at originator",
        CalculatedAt::Solely => "solely at parity",
        CalculatedAt::Parity => "at parity",
        CalculatedAt::Balanced => "at a column",
        CalculatedAt::Tree => "by a tree",
    };
    format!("{strategy}, parity {place}")
}

impl Cell {
    /// To whom what a column reads of a read goes.
    fn read_goes_to(&self) -> String {
        let mut to: Vec<&str> = Vec::new();
        for send in self.sends() {
            let name = match send.to {
                Destination::Columns(_) => "parent",
                Destination::Role(Role::Calculator) => "C",
                Destination::Role(_) => "O",
            };
            if !to.contains(&name) {
                to.push(name);
            }
        }
        to.join(" and ")
    }

    /// The cell's steps in words, in the order of TickerTAIP's Table V, with prepare before the write.
    pub fn steps_in_words(&self, policy: Policy) -> Vec<String> {
        let mut words = Vec::new();
        let calculator =
            if policy.calculated_at == Some(CalculatedAt::Balanced) { "C" } else { "O" };
        for step in &self.steps {
            match step {
                Step::Read(spans) => words.push(format!("read {}", spans.len())),
                Step::Send(send) => words.push(send_in_words(send, calculator)),
                Step::Await(parts) => words.push(format!("await {}", parts.len())),
                Step::Combine(..) => words.push("combine".to_string()),
                Step::Write(write) => {
                    match &write.value {
                        Value::Sum(terms) => {
                            words.push(format!("await {}, combine", terms.len()));
                        }
                        Value::Given(Part::Result) => {
                            words.push(format!("await 1 from {calculator}"));
                        }
                        Value::Given(_) => words.push("await 1 from O".to_string()),
                        Value::Old | Value::Change | Value::Content | Value::Mark => {}
                    }
                    if policy.commit.is_voted() {
                        words.push("prepare".to_string());
                    }
                    let what = match (&write.value, write.how) {
                        (Value::Mark, _) => "mark",
                        (_, How::Change) => "fold",
                        (_, How::Content) => "write",
                        (_, How::Copy(_)) => "keep",
                    };
                    words.push(format!("{what} {}", write.spans.len()));
                }
            }
        }
        words
    }
}

fn send_in_words(Send { value, spans, to, part }: &Send, calculator: &str) -> String {
    let what = match value {
        Value::Old => "old",
        Value::Change => "xor",
        Value::Content => "content",
        Value::Given(_) => "new",
        Value::Sum(_) => "sum",
        Value::Mark => "nothing",
    };
    let to = match (to, part) {
        (Destination::Role(_), _) => calculator,
        // In a tree: its root's is parity's column.
        (Destination::Columns(_), Part::Sum { .. }) => "parent",
        (Destination::Columns(_), _) => "P",
    };
    match spans.is_empty() {
        true => format!("say yes to {to}"),
        false => format!("send {what} {} to {to}", spans.len()),
    }
}
