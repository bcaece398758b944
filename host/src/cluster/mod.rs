//! A node in a process of its own, and the cluster that it is part of.
//!
//! | file | what |
//! |---|---|
//! | `config` | the node's configuration, as its operator writes it |
//! | `home` | the node's directory: identity, number, the member's log; its disk |
//! | `found` | founding a cluster, and making the directory of a new node |
//! | `admission` | how a new node comes in with a token |
//! | `certificate` | how one comes in by files that its operator carries |
//! | `memory` | the member's log as a file |
//! | `post` | frames between processes: nodes' messages, members' messages, questions |
//! | `together` | the member of this process and its connections, as the engine uses them |

mod admission;
mod certificate;
mod config;
mod found;
mod home;
mod memory;
mod post;
mod together;

pub use admission::join;
pub use certificate::{JoinRequest, certify, join_certified, join_request};
pub use config::Configuration;
pub use found::{Invitation, found};
pub use home::Home;

pub(crate) use admission::Admission;
pub(crate) use post::Mail;
pub(crate) use together::{Effect, Together};
