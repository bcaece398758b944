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

mod calculator;
#[cfg(test)]
mod calculator_tests;
mod cell;
mod controlled;
mod execution;
mod explain;
mod given;
mod read;
#[cfg(test)]
mod reference;
mod solving;
mod span;
mod steps;
mod strategy;
#[cfg(test)]
mod tests;
mod totals;
mod tree;
mod waiting;
mod write;

pub use crate::units::Range;
pub use calculator::Calculators;
pub use cell::{Awaited, Cell, Destination, How, Part, Role, Send, Step, Term, Value, Write};
pub use execution::{Execution, Sending};
pub use explain::{Asked, Explanation, explain};
pub use read::{ReadPlan, ReadRow, runs};
pub use span::{Span, Spans, accumulate, compose};
pub use totals::Totals;
pub use waiting::{cut, cuts_at_units, refreshed_together, refreshes, waiting};
pub use write::{MOST_COPIED, Waits, WritePlan, WriteRow};

use crate::layout::Geometry;
use crate::policy::Commands;
use crate::units::ColumnSet;

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

/// A request that no plan serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// What is left does not determine what is lost.
    #[error(
        "the layout does not tolerate the loss of columns {lost}: the remaining columns do not determine them"
    )]
    NotRecoverable {
        /// Columns that cannot be used.
        lost: ColumnSet,
    },
    /// Who told of it says nothing of use of who calculates.
    #[error("no available column is named to calculate for stripe {stripe}")]
    NoCalculator {
        /// The stripe.
        stripe: u64,
    },
}

/// Most bytes of a request that are carried out together, if there can be `most`: where commands are for blocks, a stripe.
pub fn together(g: &Geometry, commands: Commands, most: u64) -> u64 {
    match commands {
        Commands::Column => most,
        Commands::Block => most.min(g.stripe_bytes()),
    }
}

/// Most bytes of an atomic piece: of all of it `total`, and of what one disk journals of it `per_disk`. Of whole stripes a
/// disk has one unit each.
pub fn most_atomic(g: &Geometry, total: u64, per_disk: u64) -> u64 {
    match (total / g.stripe_bytes()).min(per_disk / g.unit) {
        0 => total.min(per_disk),
        stripes => stripes * g.stripe_bytes(),
    }
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
