//! Frames: how messages are told apart on a stream of bytes.
//!
//! ```text
//! offset  width
//!      0      4  magic, "WEFT"
//!      4      2  version of the protocol
//!      6      1  kind: below 16 the transport's own, from 16 on the owner's
//!      7      1  zero
//!      8      4  length of the payload, at most 16 MiB
//!     12      4  CRC-32C of bytes 0..12 and, by a bare connection, the payload
//!     16         the payload
//! ```
//!
//! Numbers are little-endian. The checksum covers the header too, so that a frame whose kind
//! was spoiled is not taken for another. What goes over TLS or does not leave the machine is not
//! spoiled on the way: there the checksum covers the header alone ([`Way`]). [`FrameReader`] is fed bytes as they come and yields
//! frames; it does no I/O.

use bytes::Bytes;
use weft_bytes::checksum;
use weft_bytes::{Read, Reader, Writer};

/// The version of the protocol between processes: frames, handshake and messages.
pub const VERSION: u16 = 3;

/// Bytes of a frame's header.
pub const HEADER: usize = 16;

/// The longest payload: a chunk of 4 MiB with its parity and headers fits many times.
pub const MAX_PAYLOAD: usize = 16 << 20;

/// The first kind that is the owner's.
pub const FIRST_KIND: u8 = 16;

const MAGIC: [u8; 4] = *b"WEFT";

/// A payload of at least so many bytes that have not come yet is worth reading in place.
const LARGE: usize = 16 << 10;

/// What frames go over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// What may spoil them: the checksum covers the payload too.
    Bare,
    /// What delivers them as they were sent: TLS, or the kernel of one machine.
    Guarded,
}

/// A frame as it arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// What the payload is.
    pub kind: u8,
    /// The payload.
    pub payload: Bytes,
}

/// Bytes that are no frame.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Not our protocol at all.
    #[error("the received data are not weft's protocol (they begin with {}){}", hex(.0), hint(.0))]
    Magic([u8; 4]),
    /// Another version.
    #[error(
        "the other side uses version {theirs} of the protocol and this one version {VERSION}; run \
         the same version of weft on all nodes"
    )]
    Version {
        /// The version that it speaks.
        theirs: u16,
    },
    /// The reserved byte is used.
    #[error("the frame's reserved byte is {0} and not zero")]
    Reserved(u8),
    /// Too long.
    #[error("the frame has {len} bytes and at most {max} are allowed here")]
    TooLong {
        /// The length.
        len: u32,
        /// The longest allowed.
        max: usize,
    },
    /// Spoiled on the way.
    #[error("the frame's checksum is wrong: it was corrupted in transit")]
    Checksum,
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn hint(bytes: &[u8; 4]) -> &'static str {
    match bytes {
        [20..=23, 3, ..] => "; it looks like TLS, which is off on this side",
        _ => "",
    }
}

/// The header of a frame with this payload.
pub fn header(kind: u8, payload: &[Bytes], way: Way) -> Vec<u8> {
    let len: usize = payload.iter().map(Bytes::len).sum();
    debug_assert!(len <= MAX_PAYLOAD);
    let mut w: Writer = Writer::with_room(HEADER);
    w.raw(&MAGIC);
    w.u16(VERSION);
    w.u8(kind);
    w.u8(0);
    w.u32(len as u32);
    let begin = checksum::crc32c(w.written());
    let covered = if way == Way::Bare { payload } else { &[] };
    w.u32(covered.iter().fold(begin, |crc, bytes| checksum::crc32c_append(crc, bytes)));
    w.finish()
}

/// What a header says behind magic and version.
#[derive(Debug)]
struct Fields {
    kind: u8,
    reserved: u8,
    len: u32,
    crc: u32,
}

impl Fields {
    fn read(header: &[u8; HEADER]) -> Read<Fields> {
        let mut r: Reader = Reader::new(header);
        r.raw(MAGIC.len() + 2)?;
        Ok(Fields { kind: r.u8()?, reserved: r.u8()?, len: r.u32()?, crc: r.u32()? })
    }
}

#[derive(Debug)]
struct Arriving {
    kind: u8,
    /// The checksum that the frame is to have, and that of the header, which it begins with; if it covers the payload.
    sums: Option<(u32, u32)>,
    /// As long as the frame says.
    len: usize,
    /// What has come; it has room for the rest, and for no more.
    payload: Vec<u8>,
}

/// Turns a stream of bytes into frames.
#[derive(Debug)]
pub struct FrameReader {
    way: Way,
    max: usize,
    header: [u8; HEADER],
    /// How much of the header has come, while no payload is arriving.
    filled: usize,
    arriving: Option<Arriving>,
}

impl FrameReader {
    /// A reader that refuses a first frame with a payload of more than `first` bytes (a
    /// stranger's), and later ones of more than [`MAX_PAYLOAD`].
    pub fn new(first: usize, way: Way) -> FrameReader {
        let max = first.min(MAX_PAYLOAD);
        FrameReader { way, max, header: [0; HEADER], filled: 0, arriving: None }
    }

    /// Takes bytes from the front of `bytes` until there is a frame or nothing is left.
    ///
    /// # Errors
    ///
    /// If they are no frame. Nothing that follows can be understood then.
    pub fn push(&mut self, bytes: &mut &[u8]) -> Result<Option<Frame>, FrameError> {
        loop {
            if let Some(arriving) = &mut self.arriving {
                let n = (arriving.len - arriving.payload.len()).min(bytes.len());
                arriving.payload.extend_from_slice(&bytes[..n]);
                *bytes = &bytes[n..];
                return self.whole();
            }
            let n = (HEADER - self.filled).min(bytes.len());
            self.header[self.filled..self.filled + n].copy_from_slice(&bytes[..n]);
            self.filled += n;
            *bytes = &bytes[n..];
            self.check_begin()?;
            if self.filled < HEADER {
                return Ok(None);
            }
            self.begin()?;
        }
    }

    /// What the rest of a large payload is to be appended to, if one is arriving: to be read in place, without
    /// a copy. It has room for that and no more. [`FrameReader::whole`] is to be asked then.
    pub fn large(&mut self) -> Option<&mut Vec<u8>> {
        let Arriving { payload, len, .. } = self.arriving.as_mut()?;
        (*len - payload.len() >= LARGE && payload.capacity() == *len).then_some(payload)
    }

    /// The frame, if all of its payload has come.
    ///
    /// # Errors
    ///
    /// If its checksum is wrong.
    pub fn whole(&mut self) -> Result<Option<Frame>, FrameError> {
        let Some(arriving) = &mut self.arriving else { return Ok(None) };
        if arriving.payload.len() < arriving.len {
            return Ok(None);
        }
        let is_spoiled = |(crc, begin)| checksum::crc32c_append(begin, &arriving.payload) != crc;
        if arriving.sums.is_some_and(is_spoiled) {
            return Err(FrameError::Checksum);
        }
        let kind = arriving.kind;
        let payload = std::mem::take(&mut arriving.payload).into();
        self.arriving = None;
        Ok(Some(Frame { kind, payload }))
    }

    /// Looks at magic and version as soon as they have come: one that speaks something else may
    /// never send a whole header.
    fn check_begin(&self) -> Result<(), FrameError> {
        let mut r: Reader = Reader::new(&self.header[..self.filled]);
        match r.array() {
            Err(_) => return Ok(()),
            Ok(MAGIC) => {}
            Ok(magic) => return Err(FrameError::Magic(magic)),
        }
        match r.u16() {
            Ok(theirs) if theirs != VERSION => Err(FrameError::Version { theirs }),
            _ => Ok(()),
        }
    }

    /// The header is whole.
    fn begin(&mut self) -> Result<(), FrameError> {
        let Fields { kind, reserved, len, crc } =
            Fields::read(&self.header).expect("a header has these fields");
        if reserved != 0 {
            return Err(FrameError::Reserved(reserved));
        }
        if len as usize > self.max {
            return Err(FrameError::TooLong { len, max: self.max });
        }
        let begin = checksum::crc32c(&self.header[..HEADER - 4]);
        if self.way == Way::Guarded && begin != crc {
            return Err(FrameError::Checksum);
        }
        self.filled = 0;
        self.max = MAX_PAYLOAD;
        let len = len as usize;
        let payload = Vec::with_capacity(len);
        let sums = (self.way == Way::Bare).then_some((crc, begin));
        self.arriving = Some(Arriving { kind, sums, len, payload });
        Ok(())
    }
}

#[cfg(test)]
mod tests;
