//! Who goes first: timestamps (shared storage, section 4.5).
//!
//! Each originator stamps its transactions from a [`Clock`]; each disk's [`Admission`]
//! decides on its own whether a transaction comes too late.

mod admission;
mod clock;
mod locks;
mod ordering;
mod request;

pub use admission::{Access, Admission, Verdict};
pub use clock::Clock;
pub use locks::{Lock, LockTable, joined};
pub use ordering::{Ordering, UnknownOrdering};
pub use request::{HostId, Place, PlaceError, RequestId};
