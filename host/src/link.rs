//! A host's socket and the protocol machine that speaks through it, whatever the protocol.

use std::io::{self, IoSlice, Read, Write};

use weft_front::Machine;

use crate::socket::Stream;

/// Slices that one system call writes at most.
const SLICES: usize = 256;

/// Why a connection ends.
pub(crate) enum End {
    /// The host went away, or said good-bye.
    Closed,
    /// Something went wrong.
    Failed(String),
}

/// A socket with its machine.
pub(crate) struct Link<M> {
    pub(crate) stream: Stream,
    pub(crate) machine: M,
    pub(crate) peer: String,
    readable: bool,
    writable: bool,
    /// Something may have been received that there was no room for.
    pub(crate) stalled: bool,
}

impl<M: Machine> Link<M> {
    /// One that has just come in.
    pub(crate) fn new(stream: Stream, peer: String, machine: M) -> Link<M> {
        Link { stream, machine, peer, readable: true, writable: true, stalled: false }
    }

    /// Takes note of what the poll says.
    pub(crate) fn ready(&mut self, readable: bool, writable: bool) {
        self.readable |= readable;
        self.writable |= writable;
    }

    /// Whether there may be something to receive.
    pub(crate) fn may_receive(&self) -> bool {
        (self.readable || self.stalled) && !self.machine.closing()
    }

    /// Reads once. Says whether there are new bytes to look at.
    pub(crate) fn receive(&mut self) -> Result<bool, End> {
        loop {
            match self.stream.read(self.machine.space()) {
                Ok(0) => return Err(End::Closed),
                Ok(n) => {
                    self.machine.filled(n);
                    return Ok(true);
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    self.readable = false;
                    return Ok(false);
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(self.failed(e)),
            }
        }
    }

    /// An end because of an error.
    pub(crate) fn failed(&self, why: impl std::fmt::Display) -> End {
        End::Failed(format!("connection of {}: {why}", self.peer))
    }

    /// Writes what there is to say, as much as the socket takes.
    pub(crate) fn send(&mut self) -> Result<(), End> {
        while self.writable && self.machine.output_len() > 0 {
            let slices: Vec<IoSlice<'_>> =
                self.machine.output().take(SLICES).map(IoSlice::new).collect();
            match self.stream.write_vectored(&slices) {
                Ok(n) => self.machine.sent(n),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => self.writable = false,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(self.failed(e)),
            }
        }
        Ok(())
    }
}
