//! The Network Block Device protocol, fixed newstyle.
//!
//! [`server::Server`] is the server's side of one connection as a byte
//! machine; [`client::Client`] is a blocking, pipelining client over any
//! stream, for tests, benchmarks and demonstrations; [`wire`] holds the
//! numbers both of them speak.

pub mod client;
mod errno;
mod export;
pub mod server;
pub mod wire;

pub use errno::Errno;
pub use export::{Change, Context, Export, Exposure, Extent, Snapshot};
