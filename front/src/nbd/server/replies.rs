//! Replies to commands.

use bytes::Bytes;
use weft_bytes::{Big, Writer};

use super::{Change, Context, Cookie, Errno, Exposure, Extent, Piece, Reply, Server};
use crate::nbd::wire::{RequestHeader, change, chunk, command, exposure, flag, magic, state};

/// The longest message the protocol allows.
const MAX_MESSAGE: usize = 4096;

/// Extents told at a time; a client asks on from where they end.
const MAX_EXTENTS: usize = 16 << 10;

/// Zeroes to send where a client cannot be told of them.
static ZEROES: [u8; 64 << 10] = [0; 64 << 10];

impl Server {
    /// Answers a command.
    ///
    /// A cookie that names no command in flight is a mistake of the driver;
    /// nothing is sent for it.
    pub fn reply(&mut self, cookie: Cookie, result: Result<Reply, Errno>) {
        let Some((kept, is_last)) = self.commands.take(cookie) else {
            debug_assert!(false, "reply to a command that is not in flight");
            return;
        };
        let request = kept.request;
        let flags = if is_last { chunk::DONE } else { 0 };
        let done = result.and_then(|reply| match kept.context {
            Some(context) => self.status(&request, context, reply, flags),
            None => self.succeed(&request, reply),
        });
        if let Err(errno) = done {
            self.fail_with(&request, &errno, flags);
        }
    }

    /// Queues the reply, or nothing if it does not fit the request.
    fn succeed(&mut self, request: &RequestHeader, reply: Reply) -> Result<(), Errno> {
        match (request.kind, reply) {
            (command::READ, Reply::Data(segments)) => self.read(request, segments),
            (command::READ, Reply::Pieces(pieces)) => self.read_pieces(request, pieces),
            (command::READ, _) => Err(misfit()),
            (_, Reply::Done) => {
                self.simple(request, 0);
                Ok(())
            }
            _ => Err(misfit()),
        }
    }

    /// Queues an error.
    pub(super) fn fail(&mut self, request: &RequestHeader, errno: &Errno) {
        self.fail_with(request, errno, chunk::DONE);
    }

    fn fail_with(&mut self, request: &RequestHeader, errno: &Errno, flags: u16) {
        if !self.structured() {
            return self.simple(request, errno.code());
        }
        let message = clipped(errno.message()).as_bytes();
        self.chunk(request, chunk::ERROR, flags, 6 + message.len(), |w| {
            w.u32(errno.code());
            w.u16(message.len() as u16);
            w.raw(message);
        });
    }

    fn read(&mut self, request: &RequestHeader, segments: Vec<Bytes>) -> Result<(), Errno> {
        let length: usize = segments.iter().map(Bytes::len).sum();
        if length != request.length as usize {
            return Err(misfit());
        }
        if self.structured() {
            let offset = request.offset;
            let kind = chunk::OFFSET_DATA;
            self.chunk(request, kind, chunk::DONE, 8 + length, |w| w.u64(offset));
        } else {
            self.simple(request, 0);
        }
        for segment in segments {
            self.outbox.data(segment);
        }
        Ok(())
    }

    fn read_pieces(&mut self, request: &RequestHeader, pieces: Vec<Piece>) -> Result<(), Errno> {
        let whole = request.flags & flag::DF != 0;
        if whole || !self.structured() {
            return self.read(request, pieces.into_iter().flat_map(spell_out).collect());
        }
        let length: u64 = pieces.iter().map(Piece::len).sum();
        if length != u64::from(request.length) {
            return Err(misfit());
        }
        let mut offset = request.offset;
        for piece in pieces.into_iter().filter(|piece| piece.len() > 0) {
            let end = offset + piece.len();
            let last = end == request.offset + length;
            self.piece(request, offset, piece, if last { chunk::DONE } else { 0 });
            offset = end;
        }
        Ok(())
    }

    fn piece(&mut self, request: &RequestHeader, offset: u64, piece: Piece, flags: u16) {
        match piece {
            Piece::Data(bytes) => {
                let length = 8 + bytes.len();
                self.chunk(request, chunk::OFFSET_DATA, flags, length, |w| w.u64(offset));
                self.outbox.data(bytes);
            }
            Piece::Zeroes(length) => {
                self.chunk(request, chunk::OFFSET_HOLE, flags, 12, |w| {
                    w.u64(offset);
                    w.u32(length);
                });
            }
        }
    }

    /// Queues the chunk of a context.
    fn status(
        &mut self,
        request: &RequestHeader,
        context: Context,
        reply: Reply,
        flags: u16,
    ) -> Result<(), Errno> {
        let states = states(context, reply).ok_or_else(misfit)?;
        let most = match request.flags & flag::REQ_ONE {
            0 => MAX_EXTENTS,
            _ => 1,
        };
        let told = tidy(&states, request.length, most);
        if told.is_empty() {
            return Err(misfit());
        }
        let covered: u32 = told.iter().map(|(length, _)| length).sum();
        if let Some(session) = &mut self.session {
            session.looked(told.len(), covered == request.length);
        }
        let kind = chunk::BLOCK_STATUS;
        self.chunk(request, kind, flags, 4 + 8 * told.len(), |w| {
            w.u32(context.id());
            for (length, state) in told {
                w.u32(length);
                w.u32(state);
            }
        });
        Ok(())
    }

    fn simple(&mut self, request: &RequestHeader, code: u32) {
        self.outbox.fields(|w| {
            w.u32(magic::SIMPLE_REPLY);
            w.u32(code);
            w.u64(request.cookie);
        });
    }

    /// Queues the header of a chunk, and the fields that it begins with.
    fn chunk(
        &mut self,
        request: &RequestHeader,
        kind: u16,
        flags: u16,
        length: usize,
        fields: impl FnOnce(&mut Writer<Big>),
    ) {
        self.outbox.fields(|w| {
            w.u32(magic::CHUNK);
            w.u16(flags);
            w.u16(kind);
            w.u64(request.cookie);
            w.u32(length as u32);
            fields(w);
        });
    }

    fn structured(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.structured)
    }
}

impl Piece {
    fn len(&self) -> u64 {
        match self {
            Piece::Data(bytes) => bytes.len() as u64,
            Piece::Zeroes(length) => u64::from(*length),
        }
    }
}

fn misfit() -> Errno {
    Errno::EIO.with("the server's answer did not match the command")
}

/// A piece as bytes.
fn spell_out(piece: Piece) -> Vec<Bytes> {
    let length = match piece {
        Piece::Data(bytes) => return vec![bytes],
        Piece::Zeroes(length) => length as usize,
    };
    let zeroes = Bytes::from_static(&ZEROES);
    (0..length)
        .step_by(ZEROES.len())
        .map(|done| zeroes.slice(..ZEROES.len().min(length - done)))
        .collect()
}

/// Lengths and states, if the answer is one in this context.
fn states(context: Context, reply: Reply) -> Option<Vec<(u32, u32)>> {
    let allocation = |extent: &Extent| {
        (extent.length, bit(extent.hole, state::HOLE) | bit(extent.zero, state::ZERO))
    };
    let exposure = |at: &Exposure| (at.length, bit(at.exposed, exposure::EXPOSED));
    let changed = |at: &Change| (at.length, bit(at.changed, change::CHANGED));
    match (context, reply) {
        (Context::Allocation, Reply::Extents(all)) => Some(all.iter().map(allocation).collect()),
        (Context::Exposed, Reply::Exposure(all)) => Some(all.iter().map(exposure).collect()),
        (Context::Since { .. }, Reply::Changes(all)) => Some(all.iter().map(changed).collect()),
        _ => None,
    }
}

/// Lengths and states as the protocol wants them: neighbours differ, none is empty, and
/// together they do not go past the request.
fn tidy(extents: &[(u32, u32)], length: u32, most: usize) -> Vec<(u32, u32)> {
    let mut told: Vec<(u32, u32)> = Vec::new();
    let mut left = length;
    for &(length, state) in extents {
        let length = length.min(left);
        left -= length;
        let full = told.len() == most;
        match told.last_mut() {
            _ if length == 0 => {}
            Some(last) if last.1 == state => last.0 += length,
            _ if full => break,
            _ => told.push((length, state)),
        }
    }
    told
}

fn bit(holds: bool, bit: u32) -> u32 {
    if holds { bit } else { 0 }
}

/// The message, cut to the length allowed.
fn clipped(message: &str) -> &str {
    let mut end = message.len().min(MAX_MESSAGE);
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    &message[..end]
}
