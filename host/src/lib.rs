//! The real world that turns the crank of Weft's nodes.
//!
//! `weft-core` decides and does nothing; this crate does: it reads and writes disks, serves
//! NBD connections, keeps the state directory, answers the control socket and tells the
//! time. One thread does that, and others help it to run nodes (module `engine`).
//!
//! Where to begin: [`Array`] opens or makes a state directory and runs it; [`Spec`] says
//! what a new one is to be; [`Control`] talks to one that runs.
//!
//! | module | what is in it |
//! |---|---|
//! | `reactor` | the loop of sockets, and what it waits for |
//! | `control` | commands of operators: who asks, what is done, what is answered |
//! | `hosts` | requests of hosts while nodes work on them; who is let in |
//! | `engine` | the nodes, their disks, who rules them |
//! | `cluster` | this process as one of several: its member, its links to the others, who joins |
//! | `sessions` | what serves a host: one module for each protocol |
//! | `state` | the directory of an array in one process |
//! | `throttle` | limits of volumes: token buckets, and how processes divide them |
//! | `disk` | disks, and the ways to work them |
//!
//! A module uses those below it in this table, and none above (`tests/imports.rs` has the whole order).

mod array;
mod clock;
mod cluster;
mod control;
mod control_client;
mod control_protocol;
mod disk;
mod disk_timeout;
mod doors;
mod durable;
mod engine;
mod error;
mod hex;
mod holder;
mod hosts;
mod lanes;
mod length_of_time;
mod limits;
mod log;
mod metrics;
mod policy;
mod polling;
mod reactor;
mod reserving;
mod sessions;
mod size;
mod slow_disk_timeout;
mod socket;
mod spec;
mod state;
pub mod status;
mod throttle;
pub mod unauthenticated;
mod volumes;

pub use array::{Array, Handle};
pub use cluster::{
    Configuration, FailureTimeouts, Home, Invitation, JoinRequest, LocalLinks, NewDirectory,
    Remains, certify, found, join, join_as_host, join_certified, join_request, readmit, refound,
    renewed, replace,
};
pub use control::scrub::SCRUB_RATE;
pub use control_client::{Control, HangUp};
pub use control_protocol::{
    Believed, ControlRequest, DiskAction, HostAction, ImportOf, NewDiskOf, NewHome, NodeAction,
    RebalanceAction, Sealed, VolumeCreation,
};
pub use disk::emulated::Emulation;
pub use disk::options::DiskOptions;
pub use disk::queue::DiskQueue;
pub use disk::{Backend, Disk, is_in_memory};
pub use disk_timeout::DiskTimeout;
pub use doors::{Doors, How, PageDoor, Tls};
pub use durable::{LOCK, is_there, lock, make_private_directory, private_file, replace_private};
pub use error::{Error, Result};
pub use lanes::Lanes;
pub use length_of_time::parse_seconds;
pub use limits::{Limits, LimitsInWords};
pub use log::{About, Level, Log, Sparing, stamp};
pub use metrics::Metrics;
pub use polling::Polling;
pub use reactor::Stopped;
pub use sessions::listen::Listen;
pub use sessions::protocols::HostProtocol;
pub use size::{Size, parse_size};
pub use slow_disk_timeout::SlowDiskTimeout;
pub use spec::Spec;
pub use state::{Findings, State, recover};
pub use weft_core::policy::Setting;
pub use weft_member::epoch_parts;
pub use weft_net::frame::VERSION as PROTOCOL_VERSION;
pub use weft_net::identity::{JoinToken, NodeKey, TokenError, date};
pub use weft_net::wire::VERSION as MESSAGES_VERSION;
