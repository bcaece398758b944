//! Replies as they come in.

use std::io::{Read, Write};

use bytes::Bytes;
use weft_bytes::{Big, BytesError, Reader};

use super::{Client, ClientError, Completion, Data, Errno, Exposure, Extent, Opened, Result};
use crate::nbd::wire::{self, chunk, command, exposure, magic, state};

/// Chunks without data of a read are no longer than this.
const MAX_CHUNK: u32 = 16 << 20;

/// A request sent, and what is known of its reply so far.
pub(super) struct Pending {
    request: wire::RequestHeader,
    /// What was read, from when the first of it comes.
    read: Vec<u8>,
    /// Bytes of the read that the server told.
    told: u64,
    extents: Vec<Extent>,
    exposed: Vec<Exposure>,
    error: Option<Errno>,
}

impl Pending {
    pub(super) fn new(request: wire::RequestHeader) -> Pending {
        let (read, extents, exposed) = (Vec::new(), Vec::new(), Vec::new());
        Pending { request, read, told: 0, extents, exposed, error: None }
    }

    /// Where the bytes of a read from `offset` on belong.
    fn place(&mut self, offset: u64, length: u64) -> Result<&mut [u8]> {
        let whole = u64::from(self.request.length);
        let start = offset.checked_sub(self.request.offset);
        let start = start.filter(|start| *start <= whole && length <= whole - start);
        let (command::READ, Some(start)) = (self.request.kind, start) else {
            return Err(ClientError::Protocol("data that were not requested"));
        };
        self.told += length;
        if self.read.is_empty() {
            self.read = vec![0; whole as usize];
        }
        Ok(&mut self.read[start as usize..(start + length) as usize])
    }

    fn finish(self, opened: &Opened) -> Result<Completion> {
        let cookie = self.request.cookie;
        if let Some(error) = self.error {
            let result = Err(error);
            return Ok(Completion { cookie, result });
        }
        let data = match self.request.kind {
            command::READ if self.told == u64::from(self.request.length) => {
                Data::Read(Bytes::from(self.read))
            }
            command::READ => return Err(ClientError::Protocol("data are missing")),
            command::BLOCK_STATUS
                if opened.allocation.is_some() && self.extents.is_empty()
                    || opened.exposed.is_some() && self.exposed.is_empty() =>
            {
                return Err(ClientError::Protocol("extents are missing"));
            }
            command::BLOCK_STATUS => Data::Extents(self.extents, self.exposed),
            _ => Data::Done,
        };
        let result = Ok(data);
        Ok(Completion { cookie, result })
    }
}

impl<S: Read + Write> Client<S> {
    /// The next completion, waiting for one if need be.
    pub fn receive(&mut self) -> Result<Completion> {
        match self.finished.pop_front() {
            Some(completion) => Ok(completion),
            None => self.next_completion(),
        }
    }

    /// The next completion off the stream.
    pub(super) fn next_completion(&mut self) -> Result<Completion> {
        if self.pending.is_empty() {
            return Err(ClientError::Idle);
        }
        loop {
            let done = match self.link.u32()? {
                magic::SIMPLE_REPLY => self.simple_reply()?,
                magic::CHUNK if self.opened.structured => self.chunk()?,
                _ => return Err(ClientError::Protocol("not a reply")),
            };
            if let Some(pending) = done {
                return pending.finish(&self.opened);
            }
        }
    }

    fn take_pending(&mut self, cookie: u64) -> Result<Pending> {
        self.pending.remove(&cookie).ok_or(ClientError::Protocol("reply to nothing"))
    }

    fn simple_reply(&mut self) -> Result<Option<Pending>> {
        let code = self.link.u32()?;
        let cookie = self.link.u64()?;
        let mut pending = self.take_pending(cookie)?;
        if code != 0 {
            pending.error = Some(Errno::from_code(code));
        } else if pending.request.kind == command::READ {
            if self.opened.structured {
                return Err(ClientError::Protocol("simple reply to a read"));
            }
            let (offset, length) = (pending.request.offset, pending.request.length);
            let place = pending.place(offset, u64::from(length))?;
            self.link.read(place)?;
        }
        Ok(Some(pending))
    }

    /// Takes in a chunk; the request it belongs to if that was its last.
    fn chunk(&mut self) -> Result<Option<Pending>> {
        let flags = self.link.u16()?;
        let kind = self.link.u16()?;
        let cookie = self.link.u64()?;
        let length = self.link.u32()?;
        let mut pending = self.take_pending(cookie)?;
        if kind == chunk::OFFSET_DATA {
            self.data(&mut pending, length)?;
        } else if length > MAX_CHUNK {
            return Err(ClientError::Protocol("chunk too long"));
        } else {
            let payload = self.link.bytes(length as usize)?;
            take_in(&mut pending, kind, &payload, &self.opened)?;
        }
        if flags & chunk::DONE != 0 {
            return Ok(Some(pending));
        }
        self.pending.insert(cookie, pending);
        Ok(None)
    }

    fn data(&mut self, pending: &mut Pending, length: u32) -> Result<()> {
        let length = length.checked_sub(8).ok_or(CUT_SHORT)?;
        let offset = self.link.u64()?;
        let place = pending.place(offset, u64::from(length))?;
        self.link.read(place)
    }
}

/// Takes in a chunk other than data.
fn take_in(pending: &mut Pending, kind: u16, payload: &[u8], opened: &Opened) -> Result<()> {
    let mut r = Reader::<Big>::new(payload);
    match kind {
        chunk::NONE => {}
        chunk::OFFSET_HOLE => {
            let (offset, length) = (r.u64().map_err(short)?, r.u32().map_err(short)?);
            pending.place(offset, u64::from(length))?;
        }
        chunk::BLOCK_STATUS => {
            let context = Some(r.u32().map_err(short)?);
            if context == opened.allocation {
                pending.extents.extend(std::iter::from_fn(|| extent(&mut r).ok()));
            } else if context == opened.exposed {
                pending.exposed.extend(std::iter::from_fn(|| exposure(&mut r).ok()));
            }
        }
        _ if kind & chunk::IS_ERROR != 0 => {
            let (code, length) = (r.u32().map_err(short)?, r.u16().map_err(short)?);
            let message = r.raw(length.into()).map_err(short)?;
            let message = String::from_utf8_lossy(message).into_owned();
            // The first error is the one that matters.
            pending.error.get_or_insert(Errno::from_code(code).with(message));
        }
        _ => return Err(ClientError::Protocol("chunk of an unknown kind")),
    }
    Ok(())
}

fn extent(r: &mut Reader<'_, Big>) -> weft_bytes::Read<Extent> {
    let (length, flags) = (r.u32()?, r.u32()?);
    Ok(Extent { length, hole: flags & state::HOLE != 0, zero: flags & state::ZERO != 0 })
}

fn exposure(r: &mut Reader<'_, Big>) -> weft_bytes::Read<Exposure> {
    let (length, flags) = (r.u32()?, r.u32()?);
    Ok(Exposure { length, exposed: flags & exposure::EXPOSED != 0 })
}

const CUT_SHORT: ClientError = ClientError::Protocol("chunk cut short");

fn short(_: BytesError) -> ClientError {
    CUT_SHORT
}
