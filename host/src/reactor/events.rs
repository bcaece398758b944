//! Waiting for something to happen: the poll, and whose numbers stand for what in it.

use std::io;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::Duration;

use mio::event::{Event, Source};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Registry, Token, Waker};

use crate::socket::{Ready, Watch};

const WAKER: Token = Token(0);
pub(super) const DISKS: Token = Token(1);
pub(super) const SIGNALS: Token = Token(2);
pub(super) const EMULATED: Token = Token(3);

/// The first of the tokens of listeners.
pub(super) const LISTENERS: usize = 4;

/// The first number of a connection that comes in.
const CONNECTIONS: usize = 1 << 16;

/// The first of the tokens of connections to other processes; there are never so many hosts.
pub(crate) const PEERS: Token = Token(1 << 48);

/// The poll, and what it has said.
pub(super) struct Poller {
    poll: Poll,
    /// The poll's own list, for connections that have more watched than a socket; once one may.
    shared: Option<Arc<Registry>>,
    events: Events,
    next_number: usize,
}

/// Something that has happened.
pub(super) enum Happened<'a> {
    /// At a connection to another process.
    Peer(&'a Event),
    /// At a connection that came in.
    Connection { id: usize, ready: Ready },
    /// Somebody waits at a listener.
    Caller(usize),
}

impl Poller {
    /// One that waits for what is in `poll`, and for what is still to come.
    pub(super) fn new(poll: Poll) -> Poller {
        Poller { poll, shared: None, events: Events::with_capacity(256), next_number: CONNECTIONS }
    }

    /// Where what is waited for is listed.
    pub(super) fn registry(&self) -> &Registry {
        self.poll.registry()
    }

    /// What makes it look up, from another thread.
    pub(super) fn waker(&self) -> io::Result<Waker> {
        Waker::new(self.registry(), WAKER)
    }

    /// Waits for a descriptor to become readable from now on.
    pub(super) fn watch(&self, fd: RawFd, token: Token) -> io::Result<()> {
        self.registry().register(&mut SourceFd(&fd), token, Interest::READABLE)
    }

    /// Waits for something at a connection from now on.
    pub(super) fn watch_connection(&self, id: usize, source: &mut dyn Source) -> io::Result<()> {
        self.registry().register(source, Token(id), Interest::READABLE | Interest::WRITABLE)
    }

    /// How a connection has more watched.
    pub(super) fn watch_more(&mut self, id: usize) -> io::Result<Watch> {
        let registry = match &self.shared {
            Some(registry) => registry.clone(),
            None => self.shared.insert(Arc::new(self.registry().try_clone()?)).clone(),
        };
        Ok(Watch::new(registry, Token(id)))
    }

    /// A number that no connection and no question has had.
    pub(super) fn number(&mut self) -> usize {
        self.next_number += 1;
        self.next_number - 1
    }

    /// Waits until something happens. Says whether anything has.
    pub(super) fn wait(&mut self, timeout: Option<Duration>) -> io::Result<bool> {
        if let Err(e) = self.poll.poll(&mut self.events, timeout)
            && e.kind() != io::ErrorKind::Interrupted
        {
            return Err(e);
        }
        Ok(!self.events.is_empty())
    }

    /// What has happened. Other events only had to wake us: the ring and the flag are looked at always.
    pub(super) fn happened(&self) -> impl Iterator<Item = Happened<'_>> {
        self.events.iter().filter_map(|event| match event.token().0 {
            token if token >= PEERS.0 => Some(Happened::Peer(event)),
            id if id >= CONNECTIONS => Some(Happened::Connection {
                id,
                ready: Ready {
                    readable: event.is_readable() || event.is_read_closed(),
                    writable: event.is_writable(),
                    ended: event.is_read_closed() || event.is_error(),
                },
            }),
            token if token >= LISTENERS => Some(Happened::Caller(token - LISTENERS)),
            _ => None,
        })
    }
}
