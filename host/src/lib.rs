//! The real world that turns the crank of Weft's nodes.
//!
//! `weft-core` decides and does nothing; this crate does: it reads and writes disks, serves
//! NBD connections, keeps the state directory, answers the control socket and tells the
//! time. One thread does all of it (module `reactor` says why).
//!
//! Where to begin: [`Array`] opens or makes a state directory and runs it; [`Spec`] says
//! what a new one is to be; [`Control`] talks to one that runs.

mod aligned;
mod array;
mod arrivals;
mod callers;
mod claim;
mod client;
mod clock;
mod cluster;
mod commands;
mod control;
mod control_connection;
mod disk;
mod disk_emulated;
mod disk_queue;
mod disk_sync;
mod disk_uring;
mod durable;
mod engine;
mod error;
mod format;
mod hosts;
mod instance;
mod length_of_time;
mod limits;
mod link;
mod listen;
mod log;
mod map_copies;
mod native;
mod nbd;
mod offers;
mod overlap;
mod patience;
mod peer_status;
mod policy;
mod reactor;
mod requests;
mod room;
mod scrub;
mod sessions;
mod size;
mod socket;
mod spec;
mod state;
mod state_file;
mod status;
mod translate;
mod volumes;

pub use array::{Array, Handle};
pub use client::Control;
pub use cluster::{
    Configuration, Home, Invitation, JoinRequest, NewDirectory, Remains, certify, found, join,
    join_as_host, join_certified, join_request, readmit, refound, renewed,
};
pub use control::{Believed, ControlRequest, DiskAction, NewHome, NodeAction, RebalanceAction};
pub use disk::{Backend, Disk, is_in_memory};
pub use disk_emulated::Emulation;
pub use disk_queue::DiskQueue;
pub use durable::{lock, make_private_directory, private_file, write_private};
pub use error::{Error, Result};
pub use length_of_time::parse_seconds;
pub use limits::{Limits, LimitsInWords};
pub use listen::Listen;
pub use log::{Log, to_stderr};
pub use reactor::Stopped;
pub use scrub::SCRUB_RATE;
pub use size::{Size, parse_size};
pub use spec::Spec;
pub use state::{Findings, State, recover};
pub use weft_net::identity::{JoinToken, TokenError};
