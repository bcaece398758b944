//! The NBD server and client against each other, through memory.

mod commands;
mod disk;
mod fuzz;
mod loopback;
mod negotiation;
mod raw;
mod refusals;
mod streaming;
mod tls;
