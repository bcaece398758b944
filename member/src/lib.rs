//! The replicated authority: who takes part in the cluster, agreed on by several processes.
//!
//! [`weft_core::cluster::Authority`] decides how the cluster map changes, but it lives in one
//! process. Here each process has a [`Member`]; the members replicate the map with Raft; the one
//! that leads runs the authority, asks every process whether it is alive (TickerTAIP 3.3.2), and
//! carries the authority's words to the nodes. A process that is cut off stops serving by itself:
//! its lease runs out before anyone can declare it dead.
//!
//! ```text
//!    local nodes        Member (one a process)                      other members
//!   ready, died,   ->  ┌─────────────────────────────┐  <- bytes ->
//!   reports            │ leader::Leader (if it leads)│
//!                  <-  │   Authority, probes, words  │  -> persist, then written
//!   words, suspend,    │ consensus::Consensus (Raft) │
//!   resume             │ holder::Holder (its lease)  │  -> wake at, then tick
//!                      └─────────────────────────────┘
//! ```
//!
//! [`Process`] is what a process of the cluster decides around its member, and [`Gate`] what its
//! nodes may be handed and may say at a moment: both are the same in the real and the simulated
//! world.
//!
//! Like everything that decides, it is a state machine: [`Member::handle`] takes the time and an
//! [`Input`] and answers with [`Output`]s. The types that matter are these and
//! [`Stored`], what its log says when it starts. The sequences and the format of the log are in
//! docs/internals/membership.md, and the argument for the lease is in `liveness`.

mod config;
mod consensus;
mod decision;
mod fault;
mod frame;
mod gate;
mod group;
mod hearing;
mod holder;
mod io;
mod leader;
mod liveness;
#[cfg(test)]
mod liveness_tests;
mod log_disk;
mod member;
mod message;
mod note;
mod process;
mod reach;
mod record;
mod wire;
mod witness;

pub use config::{Config, ConfigError};
pub use decision::epoch_parts;
pub use fault::Bug;
pub use gate::Gate;
pub use io::{Input, MapCodec, MemberId, Output, Persist, Refusal, Status};
pub use log_disk::{Draw, LogDisk};
pub use member::{Member, StartError};
pub use note::{Note, listed};
pub use process::{Effect, Process, incarnation_of, member_anew, member_of, node_of};
pub use record::{LogError, Stored};
pub use witness::Witness;
