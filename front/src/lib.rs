//! Front ends of Weft, as byte machines.
//!
//! A front end speaks a storage protocol to a client. Here it does so without
//! sockets, threads or a clock: bytes go in, commands come out, answers go in,
//! bytes come out. Whoever owns the sockets drives the machine; tests drive it
//! from memory.

#![forbid(unsafe_code)]

pub mod nbd;
