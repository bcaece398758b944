//! The core of Weft: everything that decides, and nothing that does.
//!
//! A [node] is a deterministic state machine. It is handed an input and the time, and
//! answers with outputs; it opens no file or socket, starts no thread, reads no clock and
//! draws no random number. Two worlds turn the crank: `weft-host` with real disks and
//! sockets, `weft-sim` with a simulated clock and injected faults.
//!
//! Where to begin: [`plan`] is the heart (what each column does for a request), [`node`]
//! executes plans between originators and workers, [`store`] keeps what a worker prepares
//! and commits, [`order`] decides who goes first, [`cluster`] who is there; [`policy`] is the table of what a
//! volume can choose.

#![forbid(unsafe_code)]

pub mod buffer;
pub mod cluster;
pub mod exposure;
pub mod layout;
pub mod node;
pub mod order;
pub mod plan;
pub mod policy;
pub mod store;
pub mod units;

pub use buffer::Buffer;
pub use units::{SECTOR, SECTOR_BYTES};
