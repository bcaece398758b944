//! Connections coming in: which are taken, and by which node hosts are served.

use std::io;
use std::time::{Duration, Instant};

use super::Reactor;
use super::acceptor::CONTROL_SOCKET;
use crate::doors::book::Entry;
use crate::doors::who::{Cause, Who};
use crate::error::{Error, Result};
use crate::sessions::Session;
use crate::sessions::callers::Place;
use crate::sessions::listen::Caller;
use crate::socket::Stream;

/// As many are let in at a listener before everything else has its turn.
const AT_ONCE: usize = 64;

impl Reactor {
    /// Lets in who waits at the listeners.
    pub(super) fn accept_all(&mut self) {
        self.hosts.take_ended().into_iter().for_each(|id| self.acceptor.leave(id));
        if !self.acceptor.has_waiting() {
            return;
        }
        let now = Instant::now();
        for listener in self.acceptor.to_look_at(now) {
            if let Err(e) = self.accept(listener, now) {
                let why = format!("cannot accept a connection: {e}");
                self.complaints.say(now, &why);
                self.acceptor.try_again(listener, now);
            }
        }
    }

    /// Lets in some of those who wait at a listener.
    fn accept(&mut self, listener: usize, now: Instant) -> io::Result<()> {
        for _ in 0..AT_ONCE {
            match self.acceptor.place(listener, &self.hosts.new_ones(), now) {
                Place::Free => {}
                Place::Of(id) => {
                    self.hosts.give_way(&mut self.engine, id);
                    self.hosts.take_ended().into_iter().for_each(|id| self.acceptor.leave(id));
                }
                Place::Later => {
                    self.acceptor.try_again(listener, now);
                    break;
                }
            }
            let Some(caller) = self.acceptor.next(listener)? else { break };
            self.let_come(listener, caller, now)?;
        }
        Ok(())
    }

    /// Takes a connection, unless there is no place for it: then it is closed.
    fn let_come(&mut self, listener: usize, mut caller: Caller, now: Instant) -> io::Result<()> {
        let id = self.poller.number();
        if let Err(why) = self.acceptor.enter(id, listener, &caller, self.controls.sockets()) {
            match self.acceptor.protocol(listener) {
                Some(protocol) => {
                    let (who, user) = (Who::Stranger, caller.stream.user());
                    let entry =
                        Entry { who: &who, from: &caller.peer, protocol, volume: None, user };
                    self.book.refusal(&entry, Cause::Places, &why);
                }
                None => {
                    let why = format!("{} is refused: {why}", caller.peer);
                    self.complaints.say(now, &why);
                }
            }
            return Ok(());
        }
        if let Err(e) = self.poller.watch_connection(id, caller.stream.source()) {
            self.acceptor.leave(id);
            return Err(e);
        }
        match caller.stream {
            Stream::Unix(stream) if listener == CONTROL_SOCKET => {
                self.controls.accept(id, stream);
            }
            stream => self.welcome(id, listener, stream, caller.peer),
        }
        Ok(())
    }

    /// A host's connection is served by the next node that takes requests.
    fn welcome(&mut self, id: usize, listener: usize, stream: Stream, peer: String) {
        match self.hosts.next_node(&self.engine) {
            Some(node) => match self.begin(id, (listener, stream), peer, node) {
                Ok(session) => self.hosts.add(id, session),
                Err(e) => {
                    self.complaints.say(Instant::now(), &format!("cannot serve a host: {e}"));
                    self.acceptor.leave(id);
                }
            },
            // Another process can serve the host; this one closes the connection.
            None => self.acceptor.leave(id),
        }
    }

    fn begin(
        &mut self,
        id: usize,
        (listener, stream): (usize, Stream),
        peer: String,
        node: usize,
    ) -> Result<Box<dyn Session>> {
        let watch = self.poller.watch_more(id);
        let watch = watch.map_err(|e| Error(format!("cannot wait for events: {e}")))?;
        let elsewhere = self.peer_status.addresses();
        self.acceptor.begin((listener, stream, watch), peer, node, elsewhere)
    }

    /// How long until it is said how many lines about connections were left out.
    pub(super) fn complaints_due(&self) -> Option<Duration> {
        self.complaints.due().map(|at| at.saturating_duration_since(Instant::now()))
    }
}
