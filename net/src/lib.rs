//! How weft's processes talk to one another: messages over TCP with mutual TLS.
#![forbid(unsafe_code)]

pub mod frame;
pub mod identity;
pub mod transport;
pub mod wire;
