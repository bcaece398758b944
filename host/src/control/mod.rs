//! What operators ask, over control sockets and from other processes, and what is done about it.
//!
//! | module | what is in it |
//! |---|---|
//! | `absences` | who is down, and what is to become of them |
//! | `balance` | how equally full the disks are |
//! | `connection` | who asks |
//! | `connections` | all who do |
//! | `commands` | what is done, at once or step by step |
//! | `copying` | copying a volume to another, piece by piece |
//! | `diff` | what has changed since a snapshot |
//! | `losses` | what is lost for good, and having it be zeros |
//! | `offers` | what other processes hand on |
//! | `refresh` | having parity computed that waits |
//! | `scrub` | a scrub, as it is asked for and answered |
//! | `status` | how everything is, as JSON |
//! | `usage` | how much of a volume has content |
//! | `what_if` | what the loss of nodes would mean |
//! | `ways` | how this process reaches the others |
//! | `peer_status` | how things are in other processes, as they said last |

pub(crate) mod absences;
pub(crate) mod balance;
pub(crate) mod commands;
pub(crate) mod connection;
pub(crate) mod connections;
pub(crate) mod copying;
pub(crate) mod diff;
mod doors;
pub(crate) mod exposed;
mod lineage;
pub(crate) mod losses;
pub(crate) mod offers;
pub(crate) mod peer_status;
pub(crate) mod refresh;
pub(crate) mod scrub;
mod space;
pub(crate) mod status;
pub(crate) mod usage;
mod ways;
mod what_if;
