//! Ways round broken links.
//!
//! Processes tell one another which connections they have. One that has none to another opens a
//! *circuit*: a stream of bytes along the shortest path of those that there are, through processes that
//! relay it. What the bytes are is none of this crate's business; the two ends agree on that.
//!
//! ```text
//!   connections come and go  ┌──────────────────────────┐
//!   words of neighbours   -> │ Router                   │ -> words for neighbours
//!   the time                 │  links: which are good   │ -> circuits open, bytes come,
//!                            │  table: who has which    │    circuits end
//!                            │  circuits: ends, relays  │
//!                            └──────────────────────────┘
//! ```
//!
//! [`Router`] is a state machine without I/O: it is the same in the transport (`weft-net`) and in the
//! simulated world (`weft-sim`). What neighbours say is a [`Word`]. docs/internals/transport.md has the format and the
//! argument.

mod circuits;
mod fault;
mod link_state;
mod links;
mod output;
mod router;
#[cfg(test)]
mod tests;
mod word;

pub use circuits::{MOST_RELAYED, WINDOW};
pub use fault::Bug;
pub use link_state::{LinkState, MOST_HOPS};
pub use links::{SETTLE, SILENT_TICKS, TICK};
pub use output::Output;
pub use router::{Router, Way};
pub use word::{Circuit, Open, Why, Word};
