//! The bytes of a circuit, as a connection reads and writes them.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};

use bytes::{Buf, Bytes};
use mio::net::{TcpStream, UnixStream};
use weft_route::Circuit;

/// What goes in one word at most: other connections' bytes need not wait for more.
const PIECE: usize = 64 << 10;

/// The end of a circuit.
pub(super) struct Pipe {
    pub circuit: Circuit,
    /// What has come and has not been read.
    pub incoming: VecDeque<Bytes>,
    /// Nothing more will come.
    pub closed: bool,
    /// What is to be sent.
    pub outgoing: Vec<Bytes>,
    /// How much more may be written.
    pub room: usize,
    /// How much has been read and not been told.
    pub taken: usize,
}

impl Pipe {
    pub fn new(circuit: Circuit, room: usize) -> Pipe {
        let (incoming, outgoing) = (VecDeque::new(), Vec::new());
        Pipe { circuit, incoming, closed: false, outgoing, room, taken: 0 }
    }
}

impl Read for Pipe {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut read = 0;
        while let Some(first) = self.incoming.front_mut().filter(|_| read < buffer.len()) {
            let n = first.len().min(buffer.len() - read);
            buffer[read..read + n].copy_from_slice(&first[..n]);
            first.advance(n);
            read += n;
            if first.is_empty() {
                self.incoming.pop_front();
            }
        }
        self.taken += read;
        match read {
            0 if !self.closed && !buffer.is_empty() => Err(ErrorKind::WouldBlock.into()),
            read => Ok(read),
        }
    }
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let most = self.room.min(PIECE);
        if most == 0 {
            return Err(ErrorKind::WouldBlock.into());
        }
        let mut piece = Vec::new();
        for slice in slices {
            let n = slice.len().min(most - piece.len());
            piece.extend_from_slice(&slice[..n]);
        }
        let written = piece.len();
        self.room -= written;
        if written > 0 {
            self.outgoing.push(piece.into());
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What carries a connection.
pub(super) enum Wire {
    /// A socket over TCP.
    Socket(TcpStream),
    /// One within the machine.
    Near(UnixStream),
    /// Through others.
    Circuit(Pipe),
}

impl Wire {
    /// The socket, if it is one.
    pub fn socket(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Wire::Socket(socket) => Some(socket.as_fd()),
            Wire::Near(socket) => Some(socket.as_fd()),
            Wire::Circuit(_) => None,
        }
    }
}

impl Read for Wire {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Wire::Socket(socket) => socket.read(buffer),
            Wire::Near(socket) => socket.read(buffer),
            Wire::Circuit(pipe) => pipe.read(buffer),
        }
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Wire::Socket(socket) => socket.write(bytes),
            Wire::Near(socket) => socket.write(bytes),
            Wire::Circuit(pipe) => pipe.write(bytes),
        }
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Wire::Socket(socket) => socket.write_vectored(slices),
            Wire::Near(socket) => socket.write_vectored(slices),
            Wire::Circuit(pipe) => pipe.write_vectored(slices),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Wire::Socket(socket) => socket.flush(),
            Wire::Near(socket) => socket.flush(),
            Wire::Circuit(pipe) => pipe.flush(),
        }
    }
}
