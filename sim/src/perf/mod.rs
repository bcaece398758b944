//! The simulator of performance: the nodes that store real data, with a clock worth believing.
//!
//! A [`System`] describes an array, its volume, its hosts and what to measure. A [`Simulation`]
//! of it turns the nodes' crank: messages take their time on links, disk operations on models of
//! disks ([`weft_model`]), and whatever a node does costs its processor instructions
//! ([`PathLengths`]). No data is moved: buffers have only lengths. What comes out is an
//! [`Outcome`], and of several independent ones a [`Summary`].
//!
//! - [`system`]: the description; [`parameters`]: its keys, [`by_word`]: what a volume chooses, [`capacity`]: what it could carry
//! - [`costs`]: path lengths
//! - [`processor`], [`links`]: what nodes wait for besides disks
//! - [`delays`]: which requests others delay
//! - [`diskless`]: hosts that are their own controllers, and the lock server
//! - [`setup`]: what a run begins with
//! - [`warm_up`]: what of a run's beginning is left out
//! - [`simulation`]: the events; `beginning`: what is there before the first, `asking`: hosts'
//!   requests, `devices`: disk operations; `rounds`: processors that do what has come together;
//!   [`host_thread`]: hosts that do one thing after the other
//! - [`lines`]: links and buses at which messages queue: a torus, a hierarchy
//! - [`exposure`]: what parity that waits exposes; `driver`: hosts that hold requests back
//! - `failing`: nodes that die and come back; [`recovered`]: what is seen of that
//! - [`machines`]: what controller, targets and hosts around a switch were used
//! - [`outcome`]: what was measured; [`timeline`]: where one request's time went

mod by_word;
mod capacity;
mod costs;
mod delays;
mod diskless;
mod exposure;
mod host_thread;
mod lines;
mod links;
mod machines;
mod outcome;
mod pace;
pub mod parameters;
mod processor;
mod recovered;
mod setup;
mod simulation;
mod system;
mod timeline;
mod warm_up;

pub use costs::{PathLengths, Work};
pub use exposure::Exposure;
pub use machines::{Machine, Machines};
pub use outcome::{Estimate, ExposureSummary, Outcome, RecoverySummary, Resource, Summary, Used};
pub use recovered::Recovered;
pub use simulation::Simulation;
pub use system::{
    Arbitration, Commands, Disks, Fabric, Fault, FaultKind, Hierarchy, Hosts, JournalAt, Layout,
    Links, Measure, MessageTimes, Nodes, Problem, RangeSpec, Recovery, RedundancySpec, Roles,
    Store, Stripes, Switching, System, Torus, VolumeSpec,
};
pub use timeline::{Lane, Parts, Piece, Span, Timeline, Traced};
pub use warm_up::{PILOT, WarmUp};
pub use weft_core::policy::{CalculatedAt, Commit, Dispatch, Ordering};
