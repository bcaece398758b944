//! The plan: TickerTAIP's RAIDmap (section 3.5) as data.
//!
//! A request is cut into [chunks] that are atomic one by one. Of a chunk, every
//! stripe is a row ([`WriteRow`], [`ReadRow`]), and what each [`Role`] does in it is a [`Cell`]:
//! what it reads, sends, awaits, combines and writes, as [steps](Step). Rows and cells are pure
//! functions of the request, the geometry, the columns that cannot be used and the policy, so
//! each node derives its own cells and relies on the others to derive theirs.
//!
//! An [`Execution`] carries a cell out. [`Totals`] counts what a plan's steps cost, as a running node
//! counts them, and [`explain()`] prints them.

mod cell;
mod execution;
mod explain;
mod read;
#[cfg(test)]
mod reference;
mod span;
mod steps;
mod strategy;
#[cfg(test)]
mod tests;
mod totals;
mod write;

pub use crate::units::Range;
pub use cell::{Awaited, Cell, Destination, Part, Role, Send, Step, Term, Value, Write};
pub use execution::{Execution, Sending};
pub use explain::{Explanation, explain};
pub use read::{ReadPlan, ReadRow, runs};
pub use span::{Span, Spans, accumulate, compose};
pub use totals::Totals;
pub use write::{WritePlan, WriteRow};

use crate::layout::Geometry;
use crate::order::Ordering;
use crate::order::sequencer::SequencerForm;
use crate::units::{ColumnSet, MILLIS, Nanos};

impl Range {
    /// The stripes that it touches.
    pub fn stripes(self, g: &Geometry) -> std::ops::Range<u64> {
        self.offset / g.stripe_bytes()..self.end().div_ceil(g.stripe_bytes())
    }

    /// The bytes `lo..hi` of a stripe's data that it touches.
    pub(crate) fn within(self, g: &Geometry, stripe: u64) -> (u64, u64) {
        let start = stripe * g.stripe_bytes();
        let end = start + g.stripe_bytes();
        (self.offset.clamp(start, end) - start, self.end().clamp(start, end) - start)
    }
}

/// How the new parity of a stripe comes about (TickerTAIP 3.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Strategy {
    /// Everything that parity covers is new: nothing is read.
    Full,
    /// Old data is read; parity takes in old xor new.
    Small,
    /// The data that is not written is read; parity is computed afresh.
    Large,
    /// A column's content is computed from the others' and put back.
    Rebuild,
}

/// Where parity is computed (TickerTAIP 3.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ParityAt {
    /// At the originator.
    Originator,
    /// At the parity columns alone.
    Solely,
    /// At the parity columns, from partial results of the data columns.
    Parity,
}

/// Who works out what each worker does (DESIGN, section 4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Dispatch {
    /// Each worker, for itself, from the request.
    #[default]
    Collaborative,
    /// The originator: it asks for old content, computes, and says what to write, so that
    /// workers do nothing but read and write. So works a central controller.
    Commanded,
}

/// When a write is decided (DESIGN, section 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Commit {
    /// When every participant holds its final content. (With the journal on, a parity column
    /// that holds the change has that: it is added to what is there when it is put in place.)
    Late,
    /// When the write can be finished without any one node: a parity column votes when it holds
    /// the change, before it has read the old parity. With the journal on this is no other than
    /// late commit.
    Early,
    /// Each participant writes as soon as it can: for measuring only.
    None,
    /// When the originator has heard from every device that will write that nothing stands against
    /// it: nothing is written before, and no votes follow. If the originator dies in between, the
    /// stripe is made consistent, but the write may have happened in part: the limited atomicity
    /// of shared storage 3.2.3, for commanded dispatch.
    Limited,
}

impl Commit {
    /// Whether a write is decided by votes, so that it happens or does not.
    pub fn is_voted(self) -> bool {
        matches!(self, Commit::Late | Commit::Early)
    }
}

/// What a volume leaves open, settled; `None` lets cost decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Policy {
    /// A strategy to prefer where it is possible.
    pub strategy: Option<Strategy>,
    /// Where parity is computed.
    pub parity_at: Option<ParityAt>,
    /// Who works out what each worker does.
    pub dispatch: Dispatch,
    /// When a write is decided.
    pub commit: Commit,
    /// Who goes first among requests that overlap.
    pub ordering: Ordering,
    /// With an ordering of [`Ordering::Sequencer`]: who keeps the graph. One for all volumes of a
    /// cluster that have it.
    pub sequencer: SequencerForm,
    /// Whether a participant journals its part before it votes.
    pub journal: bool,
    /// For how long hosts' requests wait when the volume has lost nodes that it cannot do without; from then
    /// on, until they are back, they fail. [`Policy::FOREVER`] is no bound.
    pub lost_wait: Nanos,
}

impl Policy {
    /// Requests wait until the nodes are back.
    pub const FOREVER: Nanos = Nanos::MAX;

    /// What requests wait usually: longer than a process takes to be started again, and less than
    /// the half minute after which the disk drivers of most systems lose patience.
    pub const USUAL_LOST_WAIT: Nanos = 20_000 * MILLIS;

    /// Whether the originator asks every device that will write, before any does, whether it may:
    /// the first phase of shared storage's Figures 7 and 8. Where a server keeps the order, or
    /// nobody does, there is nothing to ask.
    pub fn asks_first(&self) -> bool {
        self.commit == Commit::Limited
            && self.dispatch == Dispatch::Commanded
            && matches!(self.ordering, Ordering::DeviceLocks | Ordering::Timestamps)
    }

    /// Whether a write is durable when it is answered.
    pub fn is_journaled(&self) -> bool {
        self.journal && self.commit.is_voted()
    }
}

impl Default for Policy {
    fn default() -> Self {
        Policy {
            strategy: None,
            parity_at: None,
            dispatch: Dispatch::Collaborative,
            commit: Commit::Late,
            ordering: Ordering::Timestamps,
            sequencer: SequencerForm::Centralized,
            journal: true,
            lost_wait: Policy::USUAL_LOST_WAIT,
        }
    }
}

/// A request that no plan serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// What is left does not determine what is lost.
    #[error(
        "the layout does not bear the loss of columns {lost}: what is left does not determine them"
    )]
    NotRecoverable {
        /// Columns that cannot be used.
        lost: ColumnSet,
    },
}

/// Cuts `range` into pieces of at most `max` bytes that are atomic one by one; inner cuts
/// fall between stripes where a stripe fits, and always at a multiple of `boundary` stripes
/// (an extent's end).
pub fn chunks(
    g: &Geometry,
    range: Range,
    max: u64,
    extent_end: impl Fn(u64) -> u64,
) -> impl Iterator<Item = Range> {
    let stripe = g.stripe_bytes();
    let step = if stripe <= max { max / stripe * stripe } else { max };
    let mut at = range.offset;
    std::iter::from_fn(move || {
        (at < range.end()).then(|| {
            let cut = if stripe <= max { (at / stripe * stripe) + step } else { at + step };
            let extent = extent_end(at / stripe).saturating_mul(stripe);
            let end = cut.min(extent).min(range.end());
            let chunk = Range { offset: at, len: end - at };
            at = end;
            chunk
        })
    })
}
