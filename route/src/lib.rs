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
//! simulated world (`weft-sim`). What neighbours say is a [`Word`]. docs/transport.md has the format and the
//! argument.

mod circuits;
mod fault;
mod links;
mod news;
mod router;
#[cfg(test)]
mod tests;
mod word;

pub use circuits::{Circuit, MOST_RELAYED, WINDOW};
pub use fault::Bug;
pub use links::{SETTLE, SILENT_TICKS, TICK};
pub use news::News;
pub use router::{Output, Router, Way};
pub use word::{MOST_HOPS, Open, Why, Word};
