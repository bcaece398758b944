//! The nodes of a process, and the cluster that it is part of.
//!
//! | file | what |
//! |---|---|
//! | `config` | the process's configuration, as its operator writes it |
//! | `codec` | maps as bytes |
//! | `dialled` | which processes one dials, if not all, and how |
//! | `home` | the process's directory: identity, number, the member's log; its disks |
//! | `disks` | which node of it is on which disk |
//! | `found` | founding a cluster |
//! | `new_process` | the directory and the disks of a new process |
//! | `admission` | how a new process comes in with a token |
//! | `certificate` | how one comes in by files that its operator carries |
//! | `renewal` | certificates are renewed while their processes run |
//! | `log_writer` | the thread that writes the member's log |
//! | `memory` | the member's log as a file, and its witness |
//! | `readmit` | a process whose member has lost its log comes back with a new one |
//! | `refound` | founding a cluster anew when most members have lost their logs |
//! | `failure_timeouts` | how long a silent process is waited for |
//! | `peer_links` | frames between processes: nodes' messages, members' messages, questions |
//! | `together` | the member of this process and its connections, as the engine uses them |

mod admission;

mod certificate;
mod codec;
mod config;
mod dialled;
mod disks;
mod failure_timeouts;
mod found;
mod home;
mod log_writer;
mod memory;
mod new_process;
mod peer_links;
mod readmit;
mod refound;
mod renewal;
mod together;

pub use admission::{join, join_as_host, replace};
pub use certificate::{JoinRequest, certify, join_certified, join_request, renewed};
pub use config::Configuration;
pub use dialled::LocalLinks;
pub(crate) use dialled::refuse_strangers;
pub use failure_timeouts::FailureTimeouts;
pub use found::{Invitation, found};
pub use home::Home;
pub(crate) use home::Known;
pub use new_process::NewDirectory;
pub use readmit::readmit;
pub use refound::{Remains, refound};

pub(crate) use admission::Admission;
pub(crate) use peer_links::PeerEvent;
pub(crate) use together::{Effect, Together};
