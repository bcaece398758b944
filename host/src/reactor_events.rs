//! Waiting for something to happen, and connections coming in.

use std::io;
use std::time::{Duration, Instant};

use mio::{Events, Interest, Token};

use super::{CONNECTIONS, CONTROL, PEERS, Reactor};
use crate::control_connection::ControlConnection;
use crate::hosts::Host;
use crate::socket::Stream;
use crate::{native, nbd};

impl Reactor {
    /// Waits until something happens. What nodes have put off comes before idling.
    pub(super) fn wait(&mut self) -> io::Result<()> {
        let busy = self.engine.has_work()
            || self.engine.has_answers()
            || !(self.to_receive.is_empty() || self.stopping.is_some());
        let soon = !busy && self.engine.has_soon();
        let timeout = if busy || soon { Some(Duration::ZERO) } else { self.idle_time() };
        if let Err(e) = self.poll.poll(&mut self.events, timeout)
            && e.kind() != io::ErrorKind::Interrupted
        {
            return Err(e);
        }
        if soon && self.events.is_empty() {
            self.engine.fire_soon();
        }
        self.take_events()
    }

    fn idle_time(&mut self) -> Option<Duration> {
        let due = self.engine.next_due().map(Duration::from_nanos);
        // While stopping there is a time limit to look at.
        let look = self.stopping.map(|_| Duration::from_millis(20));
        let held = self.sessions.next_due().map(|at| at.saturating_duration_since(Instant::now()));
        let arrivals = self.arrivals.look_again();
        due.into_iter().chain(look).chain(held).chain(arrivals).chain(self.controls_due()).min()
    }

    fn take_events(&mut self) -> io::Result<()> {
        let events = std::mem::replace(&mut self.events, Events::with_capacity(0));
        let mut result = Ok(());
        for event in &events {
            let token = event.token().0;
            if token >= PEERS.0 {
                self.engine.peer_is_ready(event);
            } else if token >= CONNECTIONS {
                let readable = event.is_readable() || event.is_read_closed();
                self.connection_is_ready(token, readable, event.is_writable());
            } else if token >= CONTROL {
                result = result.and(self.accept(token - CONTROL));
            }
            // The others only had to wake us: the ring and the flag are looked at always.
        }
        self.events = events;
        result
    }

    fn connection_is_ready(&mut self, id: usize, readable: bool, writable: bool) {
        if let Some(connection) = self.hosts.get_mut(&id) {
            connection.ready(readable, writable);
            self.to_send.insert(id);
            if connection.wants_to_receive() {
                self.to_receive.insert(id);
            }
        } else if let Some(control) = self.controls.get_mut(&id)
            && readable
        {
            control.receive();
        }
    }

    /// Lets in whoever waits at a listener.
    fn accept(&mut self, n: usize) -> io::Result<()> {
        loop {
            let (mut stream, peer) = match self.listeners[n].accept() {
                Ok(accepted) => accepted,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(e) => {
                    (self.log)(&format!("a connection could not be accepted: {e}"));
                    return Ok(());
                }
            };
            let id = self.next_connection;
            self.next_connection += 1;
            let interest = Interest::READABLE | Interest::WRITABLE;
            self.poll.registry().register(stream.source(), Token(id), interest)?;
            match stream {
                Stream::Unix(stream) if n == 0 => {
                    self.controls.insert(id, ControlConnection::new(stream));
                }
                stream => self.welcome(id, n, stream, peer),
            }
        }
    }

    /// A host's connection is served by the next node that takes requests.
    fn welcome(&mut self, id: usize, listener: usize, stream: Stream, peer: String) {
        let originator = self.engine.originator(self.next_node);
        if originator.is_none() && self.engine.rule.together().is_some() {
            // Another process can serve the host; this one closes the connection.
            return;
        }
        let node = originator.unwrap_or(0);
        self.next_node = (node + 1) % self.engine.slots.len();
        let host = match self.listeners[listener].at.is_native() {
            true => Host::Native(Box::new(native::Connection::new(stream, peer, node))),
            false => Host::Nbd(Box::new(nbd::Connection::new(stream, peer, node))),
        };
        self.hosts.insert(id, host);
        self.to_receive.insert(id);
    }
}
