//! Real arrays put on trial: what the simulator cannot say, because it is not the real world.
//!
//! - [`scratch`]: a directory for one run, which is gone afterwards
//! - [`load`]: requests to a volume over NBD, several in flight
//! - [`faults`]: processes that are killed, paused, cut off, filled up and damaged under load

#![forbid(unsafe_code)]

pub mod faults;
pub mod load;
pub mod scratch;
