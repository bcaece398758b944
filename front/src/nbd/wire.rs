//! The protocol's numbers and its fixed headers.
//!
//! Everything on the wire is big-endian.

use weft_bytes::{Big, Read, Reader, Writer};

/// Numbers that open a message.
pub mod magic {
    /// First word of the greeting: "NBDMAGIC".
    pub const GREETING: u64 = 0x4e42_444d_4147_4943;
    /// Second word of the greeting and first of every option: "IHAVEOPT".
    pub const OPTION: u64 = 0x4948_4156_454f_5054;
    /// Opens the answer to an option.
    pub const ANSWER: u64 = 0x0003_e889_0455_65a9;
    /// Opens a command.
    pub const REQUEST: u32 = 0x2560_9513;
    /// Opens a simple reply.
    pub const SIMPLE_REPLY: u32 = 0x6744_6698;
    /// Opens a chunk of a structured reply.
    pub const CHUNK: u32 = 0x668e_33ef;
}

/// Flags of the greeting, and of the client's word in return.
pub mod handshake {
    /// Options are answered, so that negotiation can go on after a refusal.
    pub const FIXED_NEWSTYLE: u16 = 1;
    /// The 124 zeroes after an export's size are left out.
    pub const NO_ZEROES: u16 = 2;
}

/// Options a client may send while negotiating.
pub mod option {
    /// Start on an export; no refusal can be told.
    pub const EXPORT_NAME: u32 = 1;
    /// End the connection.
    pub const ABORT: u32 = 2;
    /// Name the exports.
    pub const LIST: u32 = 3;
    /// Encrypt the connection.
    pub const STARTTLS: u32 = 5;
    /// Describe an export.
    pub const INFO: u32 = 6;
    /// Start on an export.
    pub const GO: u32 = 7;
    /// Use structured replies.
    pub const STRUCTURED_REPLY: u32 = 8;
    /// Name the metadata contexts of an export.
    pub const LIST_META_CONTEXT: u32 = 9;
    /// Choose metadata contexts.
    pub const SET_META_CONTEXT: u32 = 10;
    /// Use 64-bit lengths.
    pub const EXTENDED_HEADERS: u32 = 11;
}

/// Kinds of answer to an option.
pub mod answer {
    /// Done.
    pub const ACK: u32 = 1;
    /// An export's name.
    pub const SERVER: u32 = 2;
    /// A piece of information on an export.
    pub const INFO: u32 = 3;
    /// A metadata context.
    pub const META_CONTEXT: u32 = 4;
    /// Set in every refusal.
    pub const REFUSAL: u32 = 1 << 31;
    /// The option is not supported.
    pub const ERR_UNSUP: u32 = REFUSAL + 1;
    /// The server does not want to.
    pub const ERR_POLICY: u32 = REFUSAL + 2;
    /// The option's data make no sense.
    pub const ERR_INVALID: u32 = REFUSAL + 3;
    /// TLS comes first.
    pub const ERR_TLS_REQD: u32 = REFUSAL + 5;
    /// There is no such export.
    pub const ERR_UNKNOWN: u32 = REFUSAL + 6;
    /// Not now: the server stops, or cannot serve the export at present.
    pub const ERR_SHUTDOWN: u32 = REFUSAL + 7;
    /// The option's data are too long.
    pub const ERR_TOO_BIG: u32 = REFUSAL + 9;
}

/// Kinds of information on an export.
pub mod info {
    /// Size and transmission flags.
    pub const EXPORT: u16 = 0;
    /// The export's proper name.
    pub const NAME: u16 = 1;
    /// A sentence on the export.
    pub const DESCRIPTION: u16 = 2;
    /// Block sizes and the largest payload.
    pub const BLOCK_SIZE: u16 = 3;
}

/// Flags that tell what an export can do.
pub mod transmission {
    /// These flags mean something.
    pub const HAS_FLAGS: u16 = 1;
    /// Contents cannot be changed.
    pub const READ_ONLY: u16 = 1 << 1;
    /// Flush is understood.
    pub const SEND_FLUSH: u16 = 1 << 2;
    /// Force-unit-access is understood.
    pub const SEND_FUA: u16 = 1 << 3;
    /// The device seeks.
    pub const ROTATIONAL: u16 = 1 << 4;
    /// Trim is understood.
    pub const SEND_TRIM: u16 = 1 << 5;
    /// Zeroing is understood.
    pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
    /// Reads in one piece are understood.
    pub const SEND_DF: u16 = 1 << 7;
    /// Flushes cover every connection.
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
    /// Cache is understood.
    pub const SEND_CACHE: u16 = 1 << 10;
    /// Zeroing only if fast is understood.
    pub const SEND_FAST_ZERO: u16 = 1 << 11;
}

/// Kinds of command.
pub mod command {
    /// Read.
    pub const READ: u16 = 0;
    /// Write; the payload follows.
    pub const WRITE: u16 = 1;
    /// End the connection; no reply.
    pub const DISC: u16 = 2;
    /// Make finished writes durable.
    pub const FLUSH: u16 = 3;
    /// Forget a range.
    pub const TRIM: u16 = 4;
    /// Fetch a range into the server's cache.
    pub const CACHE: u16 = 5;
    /// Zero a range.
    pub const WRITE_ZEROES: u16 = 6;
    /// Tell what is known of a range.
    pub const BLOCK_STATUS: u16 = 7;
    /// Change the size (an extension this server refuses).
    pub const RESIZE: u16 = 8;
}

/// Flags of a command.
pub mod flag {
    /// Reply only once the effect is durable.
    pub const FUA: u16 = 1;
    /// Keep storage allocated when zeroing.
    pub const NO_HOLE: u16 = 1 << 1;
    /// Reply to a read in one piece.
    pub const DF: u16 = 1 << 2;
    /// One extent is enough.
    pub const REQ_ONE: u16 = 1 << 3;
    /// Zero only if that is faster than writing.
    pub const FAST_ZERO: u16 = 1 << 4;
}

/// Chunks of a structured reply.
pub mod chunk {
    /// Flag: the last chunk of its reply.
    pub const DONE: u16 = 1;
    /// Nothing but the header.
    pub const NONE: u16 = 0;
    /// Data at an offset.
    pub const OFFSET_DATA: u16 = 1;
    /// Zeroes at an offset.
    pub const OFFSET_HOLE: u16 = 2;
    /// Extents.
    pub const BLOCK_STATUS: u16 = 5;
    /// Set in every kind that tells of an error.
    pub const IS_ERROR: u16 = 1 << 15;
    /// An error.
    pub const ERROR: u16 = IS_ERROR + 1;
}

/// States of an extent in the context `base:allocation`.
pub mod state {
    /// No storage allocated.
    pub const HOLE: u32 = 1;
    /// Reads as zeroes.
    pub const ZERO: u32 = 2;
}

/// States of an extent in the context `weft:exposed`.
pub mod exposure {
    /// Parity that covers it is out of date: with the disk of this data, it is lost.
    pub const EXPOSED: u32 = 1;
}

/// States of an extent in the contexts `weft:since=` and `qemu:dirty-bitmap:`.
pub mod change {
    /// It may have changed.
    pub const CHANGED: u32 = 1;
}

/// Numbers of errors.
pub mod error {
    /// Operation not permitted.
    pub const EPERM: u32 = 1;
    /// Input or output error.
    pub const EIO: u32 = 5;
    /// Out of memory.
    pub const ENOMEM: u32 = 12;
    /// Invalid argument.
    pub const EINVAL: u32 = 22;
    /// No space left.
    pub const ENOSPC: u32 = 28;
    /// Value too large.
    pub const EOVERFLOW: u32 = 75;
    /// Not supported.
    pub const ENOTSUP: u32 = 95;
    /// The server is shutting down.
    pub const ESHUTDOWN: u32 = 108;
}

/// The metadata context of what is allocated.
pub const ALLOCATION: &str = "base:allocation";

/// The metadata context of what parity that waits exposes.
pub const EXPOSED: &str = "weft:exposed";

/// How the metadata contexts begin that say what has changed since a snapshot, whose name follows. Backup tools ask for
/// the second, which is QEMU's (its `docs/interop/nbd.rst`).
pub const SINCE: &str = "weft:since=";
/// The same.
pub const DIRTY_BITMAP: &str = "qemu:dirty-bitmap:";

/// Bytes of padding after an export's size unless `NO_ZEROES` was agreed.
pub const PADDING: usize = 124;

/// The header of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestHeader {
    /// Bits of [`flag`].
    pub flags: u16,
    /// One of [`command`].
    pub kind: u16,
    /// The client's name for the command.
    pub cookie: u64,
    /// Where, in bytes.
    pub offset: u64,
    /// How much, in bytes.
    pub length: u32,
}

impl RequestHeader {
    /// Bytes of a header on the wire.
    pub const LEN: usize = 28;

    /// The header with its magic number in front.
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer::<Big>::with_room(RequestHeader::LEN);
        w.u32(magic::REQUEST);
        w.u16(self.flags);
        w.u16(self.kind);
        w.u64(self.cookie);
        w.u64(self.offset);
        w.u32(self.length);
        w.finish()
    }

    /// Reads a header; the magic number found there if it is the wrong one.
    pub fn decode(bytes: &[u8; RequestHeader::LEN]) -> Result<RequestHeader, u32> {
        let (found, header) = whole(bytes, |r| {
            let found = r.u32()?;
            let (flags, kind, cookie) = (r.u16()?, r.u16()?, r.u64()?);
            let (offset, length) = (r.u64()?, r.u32()?);
            Ok((found, RequestHeader { flags, kind, cookie, offset, length }))
        });
        if found == magic::REQUEST { Ok(header) } else { Err(found) }
    }
}

/// The header of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionHeader {
    /// One of [`option`].
    pub option: u32,
    /// Bytes of data that follow.
    pub length: u32,
}

impl OptionHeader {
    /// Bytes of a header on the wire.
    pub const LEN: usize = 16;

    /// The header with its magic number in front.
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer::<Big>::with_room(OptionHeader::LEN);
        w.u64(magic::OPTION);
        w.u32(self.option);
        w.u32(self.length);
        w.finish()
    }

    /// Reads a header; the magic number found there if it is the wrong one.
    pub fn decode(bytes: &[u8; OptionHeader::LEN]) -> Result<OptionHeader, u64> {
        let (found, header) =
            whole(bytes, |r| Ok((r.u64()?, OptionHeader { option: r.u32()?, length: r.u32()? })));
        if found == magic::OPTION { Ok(header) } else { Err(found) }
    }
}

/// What `read` makes of fixed fields that are all there.
pub(super) fn whole<'a, const N: usize, T>(
    bytes: &'a [u8; N],
    read: impl FnOnce(&mut Reader<'a, Big>) -> Read<T>,
) -> T {
    read(&mut Reader::new(bytes)).expect("the fields are as long as they are")
}
