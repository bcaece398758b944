//! A cell: what one role does for one stripe, as steps in order (docs/internals/architecture.md, the plan).
//!
//! Everything that is sent or written is linear in the columns' content and in the new content, so a cell needs no
//! more than five kinds of steps. Who builds cells decides who computes what and where; who
//! carries them out ([`Execution`](super::Execution)), counts them ([`Totals`](super::Totals)) or prints
//! them ([`explain`](super::explain())) only follows the steps.

use smallvec::SmallVec;

use super::{Span, Spans};
use crate::layout::{ColumnRole, Geometry};
use crate::units::ColumnSet;

/// Where a cell stands, and to whom parts of a write are addressed. Which node has a role follows
/// from the request and the stripe map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// The worker of a column of the layout, with what it has on this seat.
    Column(usize),
    /// The worker of the disk that a column leaves, with what it has on this seat.
    Source(usize),
    /// Who gathers, sums and solves for the columns.
    Calculator,
    /// Who holds the host's bytes.
    Endpoint,
    /// Who plans, hears the votes and says what became of the request.
    Coordinator,
}

/// What a part is to the cell that gets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// New bytes of the cell's own unit.
    New,
    /// New bytes of this data unit, or its new content.
    NewOf(usize),
    /// What the cell of this column of the code sends.
    From(usize),
    /// What the cell of column `from` of the code has added up of column `of`: its own share, and what its children
    /// in the tree have.
    Sum {
        /// Who sends it.
        from: usize,
        /// Of what it is a part.
        of: usize,
    },
    /// Lost content of this data unit, solved for.
    Solved(usize),
    /// Content that is written unchanged: finished parity, or a unit that is put back.
    Result,
}

/// Part of a sum: these bytes of a part, multiplied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Term {
    /// The factor, in the code's field; not 0.
    pub coefficient: u8,
    /// Of what.
    pub part: Part,
    /// Which bytes of it: of the unit.
    pub spans: Spans,
}

/// What a step sends or writes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Value {
    /// The own unit's old content.
    Old,
    /// Its old content xor its new content.
    Change,
    /// Its new content, with the old where nothing is new.
    Content,
    /// A part, as it came.
    Given(Part),
    /// A sum of parts; unless it is the written content, an earlier step awaits or combines them.
    Sum(Vec<Term>),
    /// Nothing: the content there is marked as stale.
    Mark,
}

/// To whom a cell sends something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Destination {
    /// To the columns of these seats.
    Columns(ColumnSet),
    /// To another role.
    Role(Role),
}

/// Something that a cell sends.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Send {
    /// What.
    pub value: Value,
    /// Which bytes of the unit.
    pub spans: Spans,
    /// What it is to those who get it.
    pub part: Part,
    /// Where to.
    pub to: Destination,
}

/// What a cell prepares, and writes when the write has happened.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Write {
    /// What.
    pub value: Value,
    /// Which bytes of the unit: whole sectors.
    pub spans: Spans,
    /// What it does to the content there.
    pub how: How,
}

/// What a write does to the content there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum How {
    /// It takes its place.
    Content,
    /// It is added.
    Change,
    /// It is kept beside it, as a copy of this data unit.
    Copy(usize),
}

impl How {
    /// A change, or content.
    pub(super) fn of_change(is_change: bool) -> How {
        if is_change { How::Change } else { How::Content }
    }
}

/// Parts that are waited for, and which bytes of the unit each of them has.
pub type Awaited = SmallVec<[(Part, Spans); 1]>;

/// A step; each begins when those before it are done.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Begin to read old content of the own unit: whole sectors.
    Read(Spans),
    /// Wait until all of these are here.
    Await(Awaited),
    /// Compute what the later steps know as this part, over these bytes, once what it is made of is here.
    Combine(Part, Spans, Value),
    /// Send something, once what it is made of is here.
    Send(Send),
    /// Prepare and write something, once what it is made of is here.
    Write(Write),
}

/// One role's part in one stripe of a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Cell {
    /// Whose part it is.
    pub at: Role,
    /// What the unit holds, if it is a column's cell.
    pub holds: Option<ColumnRole>,
    /// The bytes of the own unit that are new.
    pub new: Span,
    /// The steps, in order. Nothing for a role that has no part.
    pub steps: SmallVec<[Step; 3]>,
}

impl Cell {
    /// A cell with nothing to do yet.
    pub(super) fn idle(at: Role) -> Cell {
        Cell { at, holds: None, new: Span::EMPTY, steps: SmallVec::new() }
    }

    /// Whether there is nothing to do.
    pub fn is_idle(&self) -> bool {
        self.steps.is_empty()
    }

    /// Whether the unit holds parity.
    pub fn is_parity(&self) -> bool {
        matches!(self.holds, Some(ColumnRole::Parity(_)))
    }

    /// The sectors that it reads.
    pub fn reads(&self) -> Spans {
        let read = |step: &Step| if let Step::Read(spans) = step { Some(*spans) } else { None };
        self.steps.iter().find_map(read).unwrap_or(Spans::EMPTY)
    }

    /// What it sends.
    pub fn sends(&self) -> impl Iterator<Item = &Send> {
        self.steps.iter().filter_map(|s| if let Step::Send(send) = s { Some(send) } else { None })
    }

    /// What it prepares and writes.
    pub fn write(&self) -> Option<&Write> {
        // If it writes anything, it does so last.
        match self.steps.last() {
            Some(Step::Write(write)) => Some(write),
            _ => None,
        }
    }

    /// The sectors that it writes.
    pub fn writes(&self) -> Spans {
        self.write().map_or(Spans::EMPTY, |w| w.spans)
    }

    /// Whether its write is added to the content there.
    pub fn adds(&self) -> bool {
        self.write().is_some_and(|w| w.how == How::Change)
    }

    /// The data unit that it keeps a copy of, if it does.
    pub fn copies(&self) -> Option<usize> {
        match self.write()?.how {
            How::Copy(unit) => Some(unit),
            How::Content | How::Change => None,
        }
    }

    /// Whether it marks the content there as stale, and writes nothing else.
    pub fn marks(&self) -> bool {
        self.write().is_some_and(|w| w.value == Value::Mark)
    }

    /// What it explicitly waits for before it continues: not what its sums are made of.
    pub fn awaited(&self) -> &[(Part, Spans)] {
        let find = |s: &'_ Step| matches!(s, Step::Await(_));
        match self.steps.iter().position(find).map(|n| &self.steps[n]) {
            Some(Step::Await(parts)) => parts,
            _ => &[],
        }
    }

    /// Messages in the chain that ends with its vote, if it writes: given how many lead to each part.
    pub(super) fn messages_to_vote(&self, arrival: impl Fn(&Part) -> u32) -> Option<u32> {
        let last = match &self.write()?.value {
            Value::Sum(terms) => terms.iter().map(|t| arrival(&t.part)).max(),
            Value::Given(part) => Some(arrival(part)),
            Value::Old | Value::Change | Value::Content | Value::Mark => Some(arrival(&Part::New)),
        };
        Some(last.unwrap_or(1) + 1)
    }

    /// With which message in a chain it has what it sends is made of, besides what other columns send: with the
    /// message that tells it to begin, or with the one that brings new content.
    pub(super) fn begun_at(&self, new_at: u8) -> u8 {
        let needs_new = !self.new.is_empty() && self.sends().next().is_some();
        if needs_new { new_at.max(1) } else { 1 }
    }

    /// Whether it waits for what columns send.
    pub fn gathers(&self) -> bool {
        self.awaited().iter().any(|(part, _)| matches!(part, Part::From(_) | Part::Sum { .. }))
    }

    /// Bytes that are added up for what it sends and for what it writes.
    pub fn computes(&self) -> u64 {
        let value = |step: &Step| match step {
            Step::Combine(_, _, Value::Sum(terms)) => terms.iter().map(|t| t.spans.len()).sum(),
            Step::Send(Send { value: Value::Sum(terms), .. }) => {
                terms.iter().map(|t| t.spans.len()).sum()
            }
            _ => 0,
        };
        self.steps.iter().map(value).sum::<u64>()
    }

    /// Whether its role must be told to begin: nothing that it waits for would do that.
    pub fn begins(&self) -> bool {
        match self.steps.first() {
            Some(Step::Read(_) | Step::Send(_)) => true,
            Some(Step::Write(write)) => write.value == Value::Mark,
            _ => false,
        }
    }
}

impl Destination {
    /// All who get it, columns in order.
    pub fn roles(self) -> impl Iterator<Item = Role> {
        let other = match self {
            Destination::Columns(_) => None,
            Destination::Role(role) => Some(role),
        };
        let columns = match self {
            Destination::Columns(columns) => columns,
            Destination::Role(_) => ColumnSet::EMPTY,
        };
        columns.iter().map(Role::Column).chain(other)
    }

    /// The seats among those who get it.
    pub fn columns(self) -> ColumnSet {
        match self {
            Destination::Columns(columns) => columns,
            Destination::Role(Role::Column(column)) => ColumnSet::of(column),
            Destination::Role(_) => ColumnSet::EMPTY,
        }
    }
}

impl Term {
    /// These bytes of an part.
    pub(super) fn new(coefficient: u8, part: Part, spans: impl Into<Spans>) -> Term {
        Term { coefficient, part, spans: spans.into() }
    }
}

/// The terms whose sum are these bytes of a column of the code: of what the cells of others send, which
/// determine it.
pub(super) fn solution(g: &Geometry, from: ColumnSet, wanted: usize, spans: Spans) -> Vec<Term> {
    let decoder = g.code.decoder(from, wanted).expect("they determine it");
    let pairs = from.iter().zip(decoder.coefficients().iter().copied());
    let needed = pairs.filter(|(_, c)| *c != 0);
    needed.map(|(column, c)| Term::new(c, Part::From(column), spans)).collect()
}
