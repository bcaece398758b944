//! Who goes first: timestamps and locks (shared storage, section 4), and the sequencer's graph of
//! requests (TickerTAIP, section 3.4). Which of them, is a volume's [`Ordering`].
//!
//! Each originator stamps its transactions from a [`Clock`]; each disk's [`Admission`]
//! decides on its own whether a transaction comes too late. A [`LockTable`] serves a device's
//! locks, a lock server's, and those that an originator keeps. What a host says of a request's
//! [`Place`] among others goes into a [`sequencer`]'s graph.

mod admission;
mod by_time;
mod clock;
mod locks;
mod request;
pub mod sequencer;

pub use crate::policy::Ordering;
pub use admission::{Access, Accesses, Admission, Admittance};
pub use by_time::ByTime;
pub use clock::{Clock, FOLLOWED};
pub use locks::{Lock, LockTable, joined};
pub use request::{Again, Asker, HostId, Origin, Place, PlaceError, RequestId};
