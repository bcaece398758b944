//! The encoding of everything that processes say to one another.
//!
//! A [`Message`] becomes the payload of a frame ([`crate::frame`]): a head with everything but
//! bulk data, then the bulk data of its buffers, one after the other.
//!
//! ```text
//! offset  width
//!      0      1  version of the encoding
//!      1      1  zero
//!      2      4  length of the head, H, counted from offset 6
//!      6      H  the head: what kind of message, then its fields
//!    6+H         bulk data
//! ```
//!
//! Numbers are little-endian. A list is a count of four bytes and its elements; an `Option` is
//! a byte, 0 or 1, and the value; an enum is a byte for the variant and the variant's fields;
//! a text is its length in two bytes and UTF-8. A run of zeros ([`weft_core::Buffer::Zero`])
//! travels as its length alone.
//!
//! Encoding copies no bulk data: the buffers become chunks of the result. Decoding copies none
//! either: buffers are slices of the frame. It believes nothing: every length and every number
//! that the core would use as an index is bounded, and bytes left over are refused.
//!
//! Of the files here, `code` has the machinery, `words` the small types, `body` the messages of
//! nodes, `map` the cluster map and what the authority says, `policy` the policies in it.

mod body;
mod code;
mod map;
mod policy;
#[cfg(test)]
mod tests;
mod words;

use bytes::Bytes;
use weft_bytes::{BytesError, Read, at_most};
use weft_core::node::{Envelope, MapMessage, MemberReport};

use code::{Reader, Wire, Writer, wire_enum};

/// The version of the encoding.
pub const VERSION: u8 = 26;

/// The oldest version whose maps are read: they have the encoding that maps have now, but for what came later.
const OLDEST_KEPT: u8 = 17;

/// The most bulk data, real bytes and runs of zeros together, in one message.
pub const MAX_BULK: usize = 16 << 20;

const PREFIX: usize = 6;

/// Anything that one process says to another.
#[derive(Clone, Debug)]
pub enum Message {
    /// Node to node.
    Envelope(Envelope),
    /// The authority to a node.
    Map(MapMessage),
    /// A node to the authority.
    Report(MemberReport),
}

wire_enum!(Message, "message" {
    1 = Envelope(envelope),
    2 = Map(message),
    3 = Report(report),
});

/// Bytes that are no message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// Another version of the encoding.
    #[error(
        "the message has version {theirs}, and this program supports version {VERSION}; run the \
         same version of weft on all nodes"
    )]
    Version {
        /// The version that it has.
        theirs: u8,
    },
    /// Not the bytes of any message.
    #[error("the message cannot be read: {0}")]
    Malformed(#[from] BytesError),
}

impl Message {
    /// Encodes: a chunk for the head, then the bulk data, not copied.
    pub fn encode(&self) -> Vec<Bytes> {
        let mut w = Writer::new(vec![VERSION, 0, 0, 0, 0, 0]);
        self.put(&mut w);
        let (mut head, bulk) = w.finish();
        let len = (head.len() - PREFIX) as u32;
        head[2..PREFIX].copy_from_slice(&len.to_le_bytes());
        let mut chunks = vec![Bytes::from(head)];
        chunks.extend(bulk);
        chunks
    }

    /// Decodes a frame's payload; the message's buffers are slices of it.
    ///
    /// # Errors
    ///
    /// If it is not exactly one good message.
    pub fn decode(payload: &Bytes) -> Result<Message, WireError> {
        Message::decode_of(payload, VERSION)
    }

    /// Decodes a map that was kept, perhaps by an earlier Weft.
    ///
    /// # Errors
    ///
    /// If it is not exactly one good message.
    pub fn decode_kept(payload: &Bytes) -> Result<Message, WireError> {
        Message::decode_of(payload, OLDEST_KEPT)
    }

    /// Decodes a message of this version, or of an earlier one from `oldest` on.
    fn decode_of(payload: &Bytes, oldest: u8) -> Result<Message, WireError> {
        let mut prefix: weft_bytes::Reader = weft_bytes::Reader::new(payload);
        let theirs = prefix.u8()?;
        if !(oldest..=VERSION).contains(&theirs) {
            return Err(WireError::Version { theirs });
        }
        at_most("a reserved byte", prefix.u8()?.into(), 0)?;
        let head = prefix.bytes()?;
        let mut r = Reader::new(theirs, head, payload.slice(PREFIX + head.len()..));
        let message = Message::take(&mut r)?;
        r.finish()?;
        Ok(message)
    }
}
