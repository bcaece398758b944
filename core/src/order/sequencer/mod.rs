//! The sequencer's graph: which request may begin when (TickerTAIP 3.4.2 and 3.4.3).
//!
//! A request is a node of the graph, and an edge says that one comes after another. *Explicit*
//! edges are what hosts ask for; *implicit* ones keep requests that overlap apart. [`Graph`] is
//! told of requests that come ([`Graph::issue`]) and of what becomes of them, and says which may
//! begin and which are refused ([`Graph::take_steps`]). Where it lives and who asks it is the
//! business of `node::sequencing`.
//!
//! - [`form`](SequencerForm): who knows which part of the graph (3.4.4)
//! - [`states`](State): the six states and the table of transitions
//! - `graph`: edges, and what follows when a request comes or is over
//! - `hosts`: what is remembered of each host: its oldest incomplete request, and how many of the
//!   requests that it names are awaited

mod form;
mod graph;
mod hosts;
mod states;
#[cfg(test)]
mod tests;

pub use crate::policy::SequencerForm;
pub use form::{OrderCost, Standpoint};
pub use graph::{Graph, Reach, Step};
pub use states::{Event, State, TRANSITIONS, Transition, step};

use crate::units::{MILLIS, Nanos};

/// The sequencer's bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limits {
    /// How long an aborted request is remembered, at least, so that one that depends on it and
    /// comes later is aborted too: 10 s, as in TickerTAIP 3.4.3.
    pub abort_kept: Nanos,
    /// How long a request may be awaited before those that wait for it are aborted.
    pub issue_within: Nanos,
    /// How many requests that have not been issued a host may name at a time.
    pub unissued: usize,
    /// How far a host's numbers may be ahead of its oldest incomplete request. This bounds what
    /// is remembered of a host.
    pub ahead: u64,
    /// How long a host is remembered of which nothing is heard.
    pub host_kept: Nanos,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            abort_kept: 10_000 * MILLIS,
            issue_within: 30_000 * MILLIS,
            unissued: 1024,
            ahead: 65_536,
            host_kept: 600_000 * MILLIS,
        }
    }
}
