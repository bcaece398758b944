//! One NBD connection: its socket, its protocol machine, and how much it may have in work.

use std::collections::HashMap;

use weft_core::node::{HostData, HostError};
use weft_core::units::VolumeId;
use weft_front::nbd::Errno;
use weft_front::nbd::server::{Command, Cookie, Event, Reply, Server};

use crate::link::{End, Link};
use crate::socket::Stream;
use crate::translate;
use crate::volumes::Exports;

/// What a connection may have in work before it is not read from any more.
const MAX_BYTES: u64 = 16 << 20;
const MAX_REQUESTS: usize = 256;
const MAX_OUTPUT: usize = 16 << 20;

/// A host's connection.
pub(crate) struct Connection {
    pub(crate) link: Link<Server>,
    pub(crate) volume: Option<VolumeId>,
    /// The node that serves it.
    pub(crate) node: usize,
    bytes: u64,
    /// Bytes of each command in work.
    in_work: HashMap<Cookie, u64>,
    last_error: Option<HostError>,
}

impl Connection {
    /// A connection that has just come in.
    pub(crate) fn new(stream: Stream, peer: String, node: usize) -> Connection {
        Connection {
            link: Link::new(stream, peer, Server::new()),
            volume: None,
            node,
            bytes: 0,
            in_work: HashMap::new(),
            last_error: None,
        }
    }

    /// Whether nothing that it asked for is still to be answered.
    pub(crate) fn is_idle(&self) -> bool {
        self.in_work.is_empty() && self.link.machine.output_len() == 0
    }

    fn is_full(&self) -> bool {
        self.bytes >= MAX_BYTES
            || self.in_work.len() >= MAX_REQUESTS
            || self.link.machine.output_len() > MAX_OUTPUT
    }

    /// Whether there may be something to receive and room for it.
    pub(crate) fn wants_to_receive(&self) -> bool {
        self.link.may_receive() && !self.is_full()
    }

    /// Reads what has come and appends the commands in it. Stops when there is no more or
    /// when enough is in work; the rest waits in the socket, and the host with it. The volumes
    /// in `taken` are not opened: they bear one host, and have one.
    pub(crate) fn receive(
        &mut self,
        exports: Exports<'_>,
        taken: &[VolumeId],
        commands: &mut Vec<Command>,
    ) -> Result<(), End> {
        loop {
            self.take_events(exports, taken, commands)?;
            if self.link.stalled || !self.wants_to_receive() {
                return Ok(());
            }
            if !self.link.receive()? {
                return Ok(());
            }
        }
    }

    fn take_events(
        &mut self,
        exports: Exports<'_>,
        taken: &[VolumeId],
        commands: &mut Vec<Command>,
    ) -> Result<(), End> {
        self.link.stalled = false;
        while !self.is_full() {
            match self.link.machine.poll() {
                Ok(None) => return Ok(()),
                Ok(Some(Event::List)) => {
                    let list: Vec<_> = exports.all().map(|v| translate::export(v)).collect();
                    self.link.machine.exports(&list);
                }
                Ok(Some(Event::Open { name })) => {
                    let volume = exports.named(&name).filter(|v| !taken.contains(&v.id));
                    self.link.machine.export(volume.map(|v| translate::export(v)));
                    self.note_opened(exports);
                }
                Ok(Some(Event::Command(command))) => {
                    let bytes = u64::from(command.length);
                    self.bytes += bytes;
                    self.in_work.insert(command.cookie, bytes);
                    commands.push(command);
                }
                Err(e) => return Err(self.link.failed(e)),
            }
        }
        self.link.stalled = true;
        Ok(())
    }

    /// Takes note of the volume that the host has settled on.
    fn note_opened(&mut self, exports: Exports<'_>) {
        if self.volume.is_none()
            && let Some(export) = self.link.machine.opened()
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
                Some(format!("a request of {} failed: {e}", self.link.peer))
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
        self.link.machine.reply(cookie, reply);
    }

    /// Writes what there is to say, as much as the socket takes.
    pub(crate) fn send(&mut self) -> Result<(), End> {
        self.link.send()?;
        let closing = self.link.machine.closing() && self.link.machine.output_len() == 0;
        match closing && self.in_work.is_empty() {
            true => Err(End::Closed),
            false => Ok(()),
        }
    }
}
