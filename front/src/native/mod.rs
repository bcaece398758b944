//! Weft's native protocol: requests that say which others must come first.
//!
//! NBD cannot say that a write must come after another and go on; this protocol
//! can. A host greets a node with its number and a volume's name, then sends
//! requests that it numbers one after the other. Each may name others that must
//! come first, also such as are still to be sent. Answers come in any order. A
//! host whose connection broke greets again, here or at another node, and
//! repeats what it has not heard the end of under the same numbers.
//!
//! [`wire`] is the format, [`server::Server`] and [`client::Client`] are the two
//! sides as byte machines. `docs/internals/client-protocol.md` says the same in prose.

pub mod client;
#[cfg(test)]
mod images;
pub mod server;
#[cfg(test)]
mod tests;
pub mod wire;

pub use wire::{Answer, Code, Hello, Limits, Name, NumberedRequest, Verb, Welcome};
