//! Hosts' requests while nodes work on them, and hosts that want to come in.
//!
//! Which protocol a host speaks is not known here: that is for [`sessions`](crate::sessions).

pub(crate) mod arrivals;
mod overlap;
pub(crate) mod requests;
