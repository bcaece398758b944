//! One NBD connection: its socket, its protocol machine, and how much it may have in work.

use std::collections::HashMap;
use std::io::{self, IoSlice, Read, Write};

use weft_core::node::{HostData, HostError};
use weft_core::units::VolumeId;
use weft_front::nbd::Errno;
use weft_front::nbd::server::{Command, Cookie, Event, Reply, Server};

use crate::socket::Stream;
use crate::translate;
use crate::volumes::Exports;

/// What a connection may have in work before it is not read from any more.
const MAX_BYTES: u64 = 16 << 20;
const MAX_REQUESTS: usize = 256;
const MAX_OUTPUT: usize = 16 << 20;

/// Slices that one system call writes at most.
const SLICES: usize = 256;

/// A host's connection.
pub(crate) struct Connection {
    pub(crate) stream: Stream,
    pub(crate) volume: Option<VolumeId>,
    /// The node that serves it.
    pub(crate) node: usize,
    peer: String,
    server: Server,
    readable: bool,
    writable: bool,
    /// Commands may have been received that there was no room for.
    stalled: bool,
    bytes: u64,
    /// Bytes of each command in work.
    in_work: HashMap<Cookie, u64>,
    last_error: Option<HostError>,
}

/// Why a connection ends.
pub(crate) enum End {
    /// The host went away, or said good-bye.
    Closed,
    /// Something went wrong.
    Failed(String),
}

impl Connection {
    /// A connection that has just come in.
    pub(crate) fn new(stream: Stream, peer: String, node: usize) -> Connection {
        Connection {
            stream,
            volume: None,
            node,
            peer,
            server: Server::new(),
            readable: true,
            writable: true,
            stalled: false,
            bytes: 0,
            in_work: HashMap::new(),
            last_error: None,
        }
    }

    /// Takes note of what the poll says.
    pub(crate) fn ready(&mut self, readable: bool, writable: bool) {
        self.readable |= readable;
        self.writable |= writable;
    }

    /// Whether nothing that it asked for is still to be answered.
    pub(crate) fn is_idle(&self) -> bool {
        self.in_work.is_empty() && self.server.output_len() == 0
    }

    fn is_full(&self) -> bool {
        self.bytes >= MAX_BYTES
            || self.in_work.len() >= MAX_REQUESTS
            || self.server.output_len() > MAX_OUTPUT
    }

    /// Whether there may be something to receive and room for it.
    pub(crate) fn wants_to_receive(&self) -> bool {
        (self.readable || self.stalled) && !self.is_full() && !self.server.closing()
    }

    /// Reads what has come and appends the commands in it. Stops when there is no more or
    /// when enough is in work; the rest waits in the socket, and the host with it.
    pub(crate) fn receive(
        &mut self,
        exports: Exports<'_>,
        commands: &mut Vec<Command>,
    ) -> Result<(), End> {
        loop {
            self.take_events(exports, commands)?;
            if self.stalled || !self.wants_to_receive() {
                return Ok(());
            }
            match self.stream.read(self.server.space()) {
                Ok(0) => return Err(End::Closed),
                Ok(n) => self.server.filled(n),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => self.readable = false,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(self.failed(e)),
            }
        }
    }

    fn failed(&self, why: impl std::fmt::Display) -> End {
        End::Failed(format!("connection of {}: {why}", self.peer))
    }

    fn take_events(
        &mut self,
        exports: Exports<'_>,
        commands: &mut Vec<Command>,
    ) -> Result<(), End> {
        self.stalled = false;
        while !self.is_full() {
            match self.server.poll() {
                Ok(None) => return Ok(()),
                Ok(Some(Event::List)) => {
                    let list: Vec<_> = exports.all().map(|v| translate::export(v)).collect();
                    self.server.exports(&list);
                }
                Ok(Some(Event::Open { name })) => {
                    let volume = exports.named(&name);
                    self.server.export(volume.map(|v| translate::export(v)));
                    self.note_opened(exports);
                }
                Ok(Some(Event::Command(command))) => {
                    let bytes = u64::from(command.length);
                    self.bytes += bytes;
                    self.in_work.insert(command.cookie, bytes);
                    commands.push(command);
                }
                Err(e) => return Err(self.failed(e)),
            }
        }
        self.stalled = true;
        Ok(())
    }

    /// Takes note of the volume that the host has settled on.
    fn note_opened(&mut self, exports: Exports<'_>) {
        if self.volume.is_none()
            && let Some(export) = self.server.opened()
        {
            self.volume = exports.named(&export.name).map(|v| v.id);
        }
    }

    /// Answers a command. Says what to log, if the error is not the same as the last.
    pub(crate) fn answer(
        &mut self,
        cookie: Cookie,
        result: Result<HostData, HostError>,
    ) -> Option<String> {
        let news = match &result {
            Err(e) if self.last_error.as_ref() != Some(e) => {
                Some(format!("a request of {} failed: {e}", self.peer))
            }
            _ => None,
        };
        self.last_error = result.as_ref().err().cloned();
        self.reply(cookie, translate::reply(result));
        news
    }

    /// Answers a command.
    pub(crate) fn reply(&mut self, cookie: Cookie, reply: Result<Reply, Errno>) {
        self.bytes -= self.in_work.remove(&cookie).unwrap_or(0);
        self.server.reply(cookie, reply);
    }

    /// Writes what there is to say, as much as the socket takes.
    pub(crate) fn send(&mut self) -> Result<(), End> {
        while self.writable && self.server.output_len() > 0 {
            let slices: Vec<IoSlice<'_>> =
                self.server.output().take(SLICES).map(IoSlice::new).collect();
            match self.stream.write_vectored(&slices) {
                Ok(n) => self.server.sent(n),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => self.writable = false,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(self.failed(e)),
            }
        }
        match self.server.closing() && self.server.output_len() == 0 && self.in_work.is_empty() {
            true => Err(End::Closed),
            false => Ok(()),
        }
    }
}
