//! A connection's bytes: a socket or a circuit, with or without TLS.
//!
//! Without TLS, chunks go out in vectored writes and large payloads are read in place, into memory that is not zeroed before. With
//! TLS, rustls encrypts from the chunks and decrypts into its own buffer, of which the frame is
//! copied.

use std::collections::VecDeque;
use std::io::{self, BufRead, ErrorKind, IoSlice, Read, Write};

use bytes::{Buf, Bytes};
use rustix::buffer::spare_capacity;
use rustls::Connection;

use super::Lost;
use super::pipe::{Pipe, Wire};
use crate::frame::{Frame, FrameReader, Way};
use crate::identity::{ClusterId, NodeName, PublicKey, describe, peer_of};

/// What rustls may hold of encrypted bytes.
const TLS_BUFFER: usize = 256 << 10;

/// Chunks in one write.
const SLICES: usize = 64;

/// Whom a certificate is of.
pub(super) struct ShownIdentity {
    pub cluster: ClusterId,
    pub name: NodeName,
    /// The digest of the public key.
    pub key: u128,
}

pub(super) struct Stream {
    pub wire: Wire,
    tls: Option<Box<Connection>>,
}

/// How far a read or write came.
#[derive(Clone, Copy, Debug)]
pub(super) struct Progress {
    pub bytes: usize,
    /// The socket has no more, or takes no more.
    pub blocked: bool,
}

fn lost(error: &io::Error) -> Lost {
    match error.kind() {
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::ConnectionAborted => {
            Lost::Reset
        }
        _ => Lost::Io(error.to_string()),
    }
}

/// Does one system call; `None` if it would block.
fn try_io(mut call: impl FnMut() -> io::Result<usize>) -> Result<Option<usize>, Lost> {
    loop {
        match call() {
            Ok(n) => return Ok(Some(n)),
            Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(None),
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(lost(&e)),
        }
    }
}

impl Stream {
    pub fn new(wire: Wire, tls: Option<Connection>) -> Stream {
        let tls = tls.map(|mut tls| {
            tls.set_buffer_limit(Some(TLS_BUFFER));
            Box::new(tls)
        });
        Stream { wire, tls }
    }

    /// The circuit that it goes over, if it does.
    pub fn pipe(&mut self) -> Option<&mut Pipe> {
        match &mut self.wire {
            Wire::Circuit(pipe) => Some(pipe),
            Wire::Socket(_) | Wire::Near(_) => None,
        }
    }

    /// Whether what goes over it may be spoiled.
    pub fn way(&self) -> Way {
        match (&self.tls, &self.wire) {
            (None, Wire::Socket(_) | Wire::Circuit(_)) => Way::Bare,
            _ => Way::Guarded,
        }
    }

    /// Whom the other side's certificate names; `None` without TLS.
    pub fn shown(&self) -> Result<Option<ShownIdentity>, Lost> {
        let Some(tls) = &self.tls else { return Ok(None) };
        let certificate = tls.peer_certificates().and_then(<[_]>::first);
        let certificate = certificate.ok_or_else(|| Lost::Tls("it sent no certificate".into()))?;
        let (cluster, name) = peer_of(certificate).map_err(|e| Lost::Tls(e.to_string()))?;
        let key = PublicKey::of(certificate).map_err(|e| Lost::Tls(e.to_string()))?.digest();
        Ok(Some(ShownIdentity { cluster, name, key }))
    }

    /// Reads once. Frames that are whole come out even if an error follows them.
    pub fn read(
        &mut self,
        reader: &mut FrameReader,
        scratch: &mut [u8],
        frames: &mut Vec<Frame>,
    ) -> Result<Progress, Lost> {
        if self.tls.is_none()
            && let Some(payload) = reader.large()
            && let Some(socket) = self.wire.socket()
        {
            let wanted = payload.capacity() - payload.len();
            let read = || Ok(rustix::io::read(socket, spare_capacity(payload))?);
            let Some(bytes) = try_io(read)? else {
                return Ok(Progress { bytes: 0, blocked: true });
            };
            frames.extend(reader.whole()?);
            return if bytes == 0 {
                Err(Lost::Closed)
            } else {
                Ok(Progress { bytes, blocked: bytes < wanted })
            };
        }
        let Some(bytes) = try_io(|| self.wire.read(scratch))? else {
            return Ok(Progress { bytes: 0, blocked: true });
        };
        if bytes == 0 {
            return Err(Lost::Closed);
        }
        let mut rest = &scratch[..bytes];
        match &mut self.tls {
            Some(tls) => decrypt(tls, &mut rest, reader, frames)?,
            None => {
                while !rest.is_empty() {
                    frames.extend(reader.push(&mut rest)?);
                }
            }
        }
        Ok(Progress { bytes, blocked: bytes < scratch.len() })
    }

    /// Writes from the front of `chunks` until they are gone or the socket takes no more.
    pub fn write(&mut self, chunks: &mut VecDeque<Bytes>) -> Result<Progress, Lost> {
        let mut written = 0;
        loop {
            if let Some(tls) = &mut self.tls {
                while tls.wants_write() {
                    if try_io(|| tls.write_tls(&mut self.wire))?.is_none() {
                        return Ok(Progress { bytes: written, blocked: true });
                    }
                }
            }
            if chunks.is_empty() {
                return Ok(Progress { bytes: written, blocked: false });
            }
            let mut slices = [IoSlice::new(&[]); SLICES];
            let count = chunks.iter().zip(&mut slices).map(|(c, s)| *s = IoSlice::new(c)).count();
            let slices = &slices[..count];
            let accepted = match &mut self.tls {
                Some(tls) => tls.writer().write_vectored(slices).map_err(|e| lost(&e))?,
                None => match try_io(|| self.wire.write_vectored(slices))? {
                    Some(n) => n,
                    None => return Ok(Progress { bytes: written, blocked: true }),
                },
            };
            written += accepted;
            advance(chunks, accepted);
            if accepted == 0 && self.tls.as_ref().is_none_or(|tls| !tls.wants_write()) {
                // Before the handshake is done, TLS takes only so much.
                return Ok(Progress { bytes: written, blocked: true });
            }
        }
    }

    /// Sends what can be sent of the reason for a refusal, and nothing after it.
    pub fn finish(&mut self, chunks: &mut VecDeque<Bytes>) {
        // The other side is refused: whether it hears why is up to it.
        let _ = self.write(chunks);
        let _ = match &self.wire {
            Wire::Socket(socket) => socket.shutdown(std::net::Shutdown::Write),
            Wire::Near(socket) => socket.shutdown(std::net::Shutdown::Write),
            Wire::Circuit(_) => Ok(()),
        };
    }

    /// Reads and forgets. Returns whether more may come.
    pub fn drain(&mut self, scratch: &mut [u8]) -> bool {
        loop {
            match try_io(|| self.wire.read(scratch)) {
                Ok(Some(0)) | Err(_) => return false,
                Ok(Some(_)) => {}
                Ok(None) => return true,
            }
        }
    }
}

fn advance(chunks: &mut VecDeque<Bytes>, mut written: usize) {
    while let Some(chunk) = chunks.front_mut() {
        if chunk.len() > written {
            chunk.advance(written);
            return;
        }
        written -= chunk.len();
        chunks.pop_front();
    }
}

fn decrypt(
    tls: &mut Connection,
    bytes: &mut &[u8],
    reader: &mut FrameReader,
    frames: &mut Vec<Frame>,
) -> Result<(), Lost> {
    while !bytes.is_empty() {
        let before = bytes.len();
        tls.read_tls(bytes).map_err(|e| Lost::Tls(e.to_string()))?;
        let state = tls.process_new_packets().map_err(|e| Lost::Tls(describe(&e)))?;
        if before == bytes.len() {
            return Err(Lost::Tls("a record has a length out of bounds".into()));
        }
        if state.plaintext_bytes_to_read() == 0 {
            if state.peer_has_closed() {
                return Err(Lost::Closed);
            }
            continue;
        }
        let mut plain = tls.reader();
        loop {
            let mut chunk = match plain.fill_buf() {
                Ok(chunk) if !chunk.is_empty() => chunk,
                Err(e) if e.kind() != ErrorKind::WouldBlock => return Err(lost(&e)),
                _ => break,
            };
            let len = chunk.len();
            while !chunk.is_empty() {
                frames.extend(reader.push(&mut chunk)?);
            }
            plain.consume(len);
        }
    }
    Ok(())
}
