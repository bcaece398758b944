//! One NBD connection: its socket, its protocol machine, and how much it may have in work.

use weft_core::node::{HostData, HostError};
use weft_core::units::VolumeId;
use weft_front::nbd::Errno;
use weft_front::nbd::server::{Command, Cookie, Event, Reply, Server};

use crate::link::{Bounds, End, Link};
use crate::socket::Stream;
use crate::translate;
use crate::volumes::Exports;

/// What a connection may have in work before it is not read from any more.
const BOUNDS: Bounds = Bounds { bytes: 16 << 20, requests: 256 };

/// A host's connection.
pub(crate) struct Connection {
    pub(crate) link: Link<Server, Cookie>,
    pub(crate) volume: Option<VolumeId>,
    /// The node that serves it.
    pub(crate) node: usize,
    last_error: Option<HostError>,
}

impl Connection {
    /// A connection that has just come in.
    pub(crate) fn new(stream: Stream, peer: String, node: usize) -> Connection {
        Connection {
            link: Link::new(stream, peer, Server::new(), BOUNDS),
            volume: None,
            node,
            last_error: None,
        }
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
            if self.link.stalled || !self.link.wants_to_receive() {
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
        while !self.link.is_full() {
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
                    self.link.begun(command.cookie, u64::from(command.length));
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
        self.link.ended(&cookie);
        self.link.machine.reply(cookie, reply);
    }
}
