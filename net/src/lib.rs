//! How weft's processes talk to one another.
//!
//! ```text
//! messages     wire        what nodes and the authority say <-> chunks of bytes
//! rounds       letters     the letters of a round, in one frame
//! frames       frame       magic, version, kind, length, checksum
//! who is who   identity    cluster id, certificate authority, certificates, join tokens, TLS
//! connections  transport   listen, dial, handshake, bounded queues, back-pressure
//! ```
//!
//! The two types that matter are [`wire::Message`] and [`transport::Transport`]. A process that
//! runs a node starts a transport, gives it what the node sends
//! ([`wire::Message::encode`], [`transport::Transport::send`]) and gives the node what comes
//! ([`transport::Transport::next_event`], [`wire::Message::decode`]).
//!
//! docs/internals/transport.md has every field with its offset, the handshake, and the guarantees.

#![forbid(unsafe_code)]

pub mod frame;
pub mod identity;
pub mod letters;
pub mod transport;
pub mod wire;

/// The kind of the frames that carry [`letters`], each a [`wire::Message`].
pub const LETTERS: u8 = frame::FIRST_KIND;
