//! Connections coming in, and those that keep us waiting.
//!
//! The poll says once that somebody waits at a listener. It is remembered until nobody does, so that
//! those who cannot be let in now, for want of descriptors say, are let in later. Hosts are refused
//! while descriptors are still to be had, for the sake of control connections and of other processes.

use std::io;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use mio::{Interest, Token};

use super::Reactor;
use crate::control::connection::{ControlConnection, Line};
use crate::sessions::link::End;
use crate::sessions::listen::Caller;
use crate::socket::Stream;

/// As many are let in at a listener before everything else has its turn.
const AT_ONCE: usize = 64;

/// How long after somebody could not be let in it is tried again.
const AGAIN: Duration = Duration::from_millis(100);

/// How often one looks which hosts keep us waiting for too long, while any does.
const LOOKS: Duration = Duration::from_millis(500);

impl Reactor {
    /// Somebody waits at a listener.
    pub(super) fn knock(&mut self, listener: usize) {
        self.knocks.insert(listener, Instant::now());
    }

    /// How long until listeners are to be looked at again.
    pub(super) fn knocks_due(&self) -> Option<Duration> {
        let now = Instant::now();
        self.knocks.values().map(|at| at.saturating_duration_since(now)).min()
    }

    /// Lets in who waits at the listeners.
    pub(super) fn answer_knocks(&mut self) {
        if self.knocks.is_empty() {
            return;
        }
        let now = Instant::now();
        let due = |(n, at): (&usize, &Instant)| (*at <= now).then_some(*n);
        for listener in self.knocks.iter().filter_map(due).collect::<Vec<usize>>() {
            match self.accept(listener, now) {
                Ok(true) => {}
                Ok(false) => drop(self.knocks.remove(&listener)),
                Err(e) => {
                    let why = format!("a connection could not be accepted: {e}");
                    self.complaints.say(now, &why);
                    self.knocks.insert(listener, now + AGAIN);
                }
            }
        }
    }

    /// Lets in some of those who wait at a listener. Says whether there may be more.
    fn accept(&mut self, listener: usize, now: Instant) -> io::Result<bool> {
        for _ in 0..AT_ONCE {
            match self.listeners[listener].accept() {
                Ok(caller) => self.let_come(listener, caller, now)?,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                // It is the caller who has gone, or a signal that came.
                Err(e) if e.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(true)
    }

    /// Takes a connection, unless there is no place for it: then it is closed.
    fn let_come(&mut self, listener: usize, mut caller: Caller, now: Instant) -> io::Result<()> {
        let id = self.next_connection;
        self.next_connection += 1;
        if let Err(why) = self.has_place(id, listener, &caller) {
            let why = format!("{} is not let in: {why}", caller.peer);
            self.complaints.say(now, &why);
            return Ok(());
        }
        let interest = Interest::READABLE | Interest::WRITABLE;
        let registered = self.poll.registry().register(caller.stream.source(), Token(id), interest);
        if let Err(e) = registered {
            self.callers.leave(id);
            return Err(e);
        }
        match caller.stream {
            Stream::Unix(stream) if listener == 0 => {
                self.controls.insert(id, ControlConnection::new(stream));
            }
            stream => self.welcome(id, listener, stream, caller.peer),
        }
        Ok(())
    }

    fn has_place(&mut self, id: usize, listener: usize, caller: &Caller) -> Result<(), String> {
        if listener == 0 {
            let ours = |c: &&ControlConnection| matches!(c.line, Line::Socket(_));
            return match self.controls.values().filter(ours).count() < self.descriptors.share() {
                true => Ok(()),
                false => Err("there are too many control connections".to_string()),
            };
        }
        if self.descriptors.are_scarce(caller.stream.as_raw_fd()) {
            return Err(format!(
                "descriptors are running out, and the rest are for disks, other processes and \
                 commands; let the process have more than {} (`ulimit -n`)",
                self.descriptors.limit()
            ));
        }
        self.callers.enter(id, listener, caller.address, &self.limits)
    }

    /// A host's connection is served by the next node that takes requests.
    fn welcome(&mut self, id: usize, listener: usize, stream: Stream, peer: String) {
        let originator = self.engine.originator(self.next_node);
        if originator.is_none() && self.engine.rule.together().is_some() {
            // Another process can serve the host; this one closes the connection.
            self.callers.leave(id);
            return;
        }
        let node = originator.unwrap_or(0);
        self.next_node = (node + 1) % self.engine.instances.len();
        let session = self.listeners[listener].at.begin(stream, peer, node);
        self.hosts.insert(id, session);
        self.to_receive.insert(id);
    }

    /// Takes note of whether a host keeps us waiting.
    pub(super) fn look_at_patience(&mut self, id: usize, now: Instant) {
        if let Some(host) = self.hosts.get_mut(&id)
            && host.look_at_patience(now).is_tried()
        {
            self.waited_for.get_or_insert(now + LOOKS);
        }
    }

    /// How long until one looks which hosts keep us waiting for too long.
    pub(super) fn patience_due(&self) -> Option<Duration> {
        self.waited_for.map(|at| at.saturating_duration_since(Instant::now()))
    }

    /// Ends the connections of hosts that have kept us waiting for too long.
    pub(super) fn end_patience(&mut self, now: Instant) {
        if self.waited_for.is_none_or(|at| now < at) {
            return;
        }
        let mut over = Vec::new();
        let mut tried = false;
        for (id, host) in &mut self.hosts {
            let patience = host.look_at_patience(now);
            tried |= patience.is_tried();
            if let Some(why) = patience.is_over(&self.limits, now) {
                over.push((*id, format!("connection of {}: {why}", host.peer())));
            }
        }
        self.waited_for = tried.then_some(now + LOOKS);
        for (id, why) in over {
            self.hang_up(id, End::Failed(why));
        }
    }

    /// How long until it is said how many lines about connections were left out.
    pub(super) fn complaints_due(&self) -> Option<Duration> {
        self.complaints.due().map(|at| at.saturating_duration_since(Instant::now()))
    }
}
