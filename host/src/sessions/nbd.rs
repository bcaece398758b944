//! One NBD connection: its socket, its protocol machine, and how much it may have in work.

use weft_core::cluster::Volume;
use weft_core::node::{HostData, HostError};
use weft_core::units::VolumeId;
use weft_front::nbd::Errno;
use weft_front::nbd::server::{Command, Cookie, Event, Reply, Server};

use crate::sessions::link::{Bounds, End, Link};
use crate::sessions::nbd_words;
use crate::sessions::room::Room;
use crate::socket::Stream;
use crate::volumes::Exports;

/// What a connection may have in work before it is not read from any more.
const BOUNDS: Bounds = Bounds { bytes: 16 << 20, requests: 256 };

/// A host's connection.
pub(crate) struct Connection {
    pub(crate) link: Link<Server, Cookie>,
    pub(crate) volume: Option<VolumeId>,
    /// A volume for one host at a time that it wants to use. The machine waits for
    /// [`Connection::decide`].
    pub(crate) applies: Option<VolumeId>,
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
            applies: None,
            node,
            last_error: None,
        }
    }

    /// Reads what has come and appends the commands in it. Stops when there is no more or
    /// when enough is in work; the rest waits in the socket, and the host with it. It also stops
    /// when the host [applies](Connection::applies) for a volume, or when there is no room for a
    /// request that is coming.
    pub(crate) fn receive(
        &mut self,
        exports: Exports<'_>,
        commands: &mut Vec<Command>,
        (conn, room): (usize, &mut Room),
    ) -> Result<(), End> {
        loop {
            self.take_events(exports, commands)?;
            let has_room = self.link.finds_room(conn, room);
            if self.link.stalled || !has_room || !self.wants_to_receive() {
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
        commands: &mut Vec<Command>,
    ) -> Result<(), End> {
        self.link.stalled = false;
        while !self.link.is_full() {
            match self.link.machine.poll() {
                Ok(None) => return Ok(()),
                Ok(Some(Event::List)) => {
                    let list: Vec<_> = exports.all().map(|v| nbd_words::export(v)).collect();
                    self.link.machine.exports(&list);
                }
                Ok(Some(Event::Open { name, settles })) => match exports.named(&name) {
                    Some(volume) if settles && volume.takes_one_writer() => {
                        self.applies = Some(volume.id);
                        return Ok(());
                    }
                    volume => {
                        self.link.machine.export(volume.map(|v| nbd_words::export(v)));
                        self.volume = volume.filter(|_| settles).map(|v| v.id);
                    }
                },
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

    /// Whether there may be something to receive and room for it.
    pub(crate) fn wants_to_receive(&self) -> bool {
        self.link.wants_to_receive() && self.applies.is_none()
    }

    /// Whether the host gets the volume that it applies for, or why not.
    pub(crate) fn decide(&mut self, volume: Result<&Volume, String>) {
        self.applies = None;
        match volume {
            Ok(volume) => {
                self.link.machine.export(Some(nbd_words::export(volume)));
                self.volume = Some(volume.id);
            }
            Err(why) => self.link.machine.forbid(why),
        }
    }

    /// Answers a command. Says what to log, if the error is not the same as the last.
    pub(crate) fn answer(
        &mut self,
        cookie: Cookie,
        result: Result<HostData, HostError>,
    ) -> Option<String> {
        let line = match &result {
            Err(e) if self.last_error.as_ref() != Some(e) => {
                Some(format!("a request of {} failed: {e}", self.link.peer))
            }
            _ => None,
        };
        self.last_error = result.as_ref().err().cloned();
        self.reply(cookie, nbd_words::reply(result));
        line
    }

    /// Answers a command.
    pub(crate) fn reply(&mut self, cookie: Cookie, reply: Result<Reply, Errno>) {
        self.link.ended(&cookie);
        self.link.machine.reply(cookie, reply);
    }
}
