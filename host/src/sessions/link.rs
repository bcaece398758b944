//! A host's socket, the protocol machine that speaks through it, and how much the host may have in
//! work, whatever the protocol; how much of a request that has not come whole, and for how long.

use std::collections::HashMap;
use std::io::{self, IoSlice, Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use weft_front::Service;

use crate::doors::who::Who;
use crate::sessions::budget::Use;
use crate::sessions::door::Door;
use crate::sessions::receive_timeout::ReceiveTimeout;
use crate::sessions::room::Room;
use crate::sessions::tls::Secured;
use crate::sessions::untaken::Untaken;
use crate::socket::{Ready, Stream};

/// Slices that one system call writes at most.
const SLICES: usize = 256;

/// Bytes that are received from one host before others have their turn: whoever sends faster than they are worked on would
/// keep all others waiting, and the lease with them.
pub(super) const MOST_AT_ONCE: usize = 4 << 20;

/// Bytes that may wait to be sent before the host is not read from any more.
const MAX_OUTPUT: usize = 16 << 20;

/// What a connection may have in work before it is not read from any more.
#[derive(Clone, Copy)]
pub(crate) struct Bounds {
    /// Bytes of requests' data.
    pub(crate) bytes: u64,
    pub(crate) requests: usize,
}

/// Why a connection ends.
pub(crate) enum End {
    /// The host went away, or said good-bye.
    Closed,
    /// Something went wrong.
    Failed(String),
    /// The host has not proved who it is.
    Unproved(String),
}

/// The requests that a host has in work.
#[derive(Default)]
struct InWork {
    /// Bytes of each, by its session's number for it.
    requests: HashMap<u64, u64>,
    /// Bytes of all.
    bytes: u64,
    /// It may have no more for now, however few these are.
    is_held_back: bool,
}

impl InWork {
    fn begin(&mut self, request: u64, bytes: u64) {
        self.requests.insert(request, bytes);
        self.bytes += bytes;
    }

    fn end(&mut self, request: u64) {
        self.bytes -= self.requests.remove(&request).unwrap_or(0);
    }
}

/// A socket with its machine.
pub(crate) struct Link<M> {
    pub(crate) stream: Stream,
    /// Through which it is read and written, once that has begun.
    tls: Option<Box<Secured>>,
    pub(crate) machine: M,
    pub(crate) peer: String,
    /// The host's identity, once it is known.
    pub(crate) who: Arc<Who>,
    door: Door,
    readable: bool,
    writable: bool,
    /// It is to be read to its end.
    ended: bool,
    /// Something may have been received that there was no room for.
    pub(crate) stalled: bool,
    bounds: Bounds,
    in_work: InWork,
    /// Room that it has for the request that is being received.
    room: u64,
    waits_for_room: bool,
    /// What it uses of the memory of all connections.
    memory: Use,
    /// Bytes of a request that has come whole and waits for memory; 0 if none does.
    waits_for_memory: u64,
    pub(crate) receive_timeout: ReceiveTimeout,
    untaken: Untaken,
}

impl<M: Service> Link<M> {
    /// One that has just come in.
    pub(crate) fn new(
        stream: Stream,
        peer: String,
        machine: M,
        (bounds, memory): (Bounds, Use),
        door: Door,
    ) -> Link<M> {
        Link {
            who: Arc::new(door.stranger()),
            door,
            stream,
            tls: None,
            machine,
            peer,
            readable: true,
            writable: true,
            ended: false,
            stalled: false,
            bounds,
            in_work: InWork::default(),
            room: 0,
            waits_for_room: false,
            memory,
            waits_for_memory: 0,
            receive_timeout: ReceiveTimeout::new(Instant::now()),
            untaken: Untaken::default(),
        }
    }

    /// A request of so many bytes is in work.
    pub(crate) fn begun(&mut self, request: u64, bytes: u64) {
        debug_assert!(!self.has_in_work(request), "an answer ends one request");
        self.in_work.end(request);
        self.in_work.begin(request, bytes);
        self.count_memory();
    }

    /// Whether a request of this number is in work.
    pub(crate) fn has_in_work(&self, request: u64) -> bool {
        self.in_work.requests.contains_key(&request)
    }

    /// Its requests in work, and answers that are not sent, count as used.
    pub(crate) fn count_memory(&mut self) {
        self.memory.is(self.in_work.bytes + self.machine.output_len() as u64);
    }

    /// Whether the budget has room for a request of `bytes`. If not, nothing more is received until it has.
    pub(crate) fn finds_memory(&mut self, bytes: u64) -> bool {
        let found = self.memory.has_room_for(bytes);
        self.waits_for_memory = if found { 0 } else { bytes };
        found
    }

    /// What it uses of the memory of all connections.
    pub(crate) fn memory(&self) -> &Use {
        &self.memory
    }

    /// Whether a request waits for memory, and if so, whether nothing else stands in its way.
    pub(crate) fn waits_for_memory(&self) -> Option<bool> {
        let is_free = || !self.has_too_much() && self.may_receive() && !self.waits_for_room;
        (self.waits_for_memory > 0).then(is_free)
    }

    /// It is about to be answered.
    pub(crate) fn ended(&mut self, request: u64) {
        self.in_work.end(request);
    }

    /// Whether nothing that the host asked for is still to be answered.
    pub(crate) fn is_idle(&self) -> bool {
        let is_told = self.machine.output_len() == 0 && !self.is_unsent();
        self.in_work.requests.is_empty() && is_told && !self.machine.has_more()
    }

    /// Whether so much is in work that the rest has to wait in the socket, and the host with it.
    pub(crate) fn is_full(&self) -> bool {
        self.has_too_much() || !self.memory.has_room_for(self.waits_for_memory)
    }

    fn has_too_much(&self) -> bool {
        self.has_enough_in_work()
            || self.machine.output_len() > MAX_OUTPUT
            || self.memory.is_used_up()
    }

    fn has_enough_in_work(&self) -> bool {
        self.in_work.is_held_back
            || self.in_work.bytes >= self.bounds.bytes
            || self.in_work.requests.len() >= self.bounds.requests
    }

    /// Finds room for the request that is being received, if it needs any, and gives back what it has
    /// no more use for. Says whether it can be received.
    pub(crate) fn finds_room(&mut self, conn: usize, room: &mut Room) -> bool {
        let needed = match self.waits_for_memory {
            0 => Room::needed(self.machine.incoming()),
            // It holds what it has received, and receives nothing more.
            _ => self.room,
        };
        if needed > self.room {
            room.give_back(std::mem::take(&mut self.room));
            if room.take(conn, needed) {
                self.room = needed;
            }
        } else {
            room.give_back(self.room - needed);
            self.room = needed;
            // What it waited for may have ended meanwhile.
            if self.waits_for_room {
                room.leave(conn, 0);
            }
        }
        self.waits_for_room = needed > self.room;
        !self.waits_for_room
    }

    /// It is over, and with it what it had of the room.
    pub(crate) fn leave_room(&mut self, conn: usize, room: &mut Room) {
        room.leave(conn, std::mem::take(&mut self.room));
    }

    /// The host is not heard for a while, or again. One that has room for a request may send the rest of it. Says whether it
    /// is so now.
    pub(crate) fn hold_back(&mut self, holds: bool) -> bool {
        self.in_work.is_held_back = holds && self.room == 0;
        self.in_work.is_held_back
    }

    /// Why it is at an end while others wait for memory, if it is: its host does not take what it is told.
    pub(crate) fn keeps_memory(&self, limit: Duration, now: Instant) -> Option<String> {
        let seconds = limit.as_secs();
        let what = || {
            format!("it has not taken its answers within {seconds} s, and others wait for memory")
        };
        let keeps = self.memory.is_beyond_share() && self.untaken.is_over(limit, now);
        keeps.then(what)
    }

    /// Takes note of what the host keeps us waiting for. One that does not take what it is told keeps
    /// us waiting as well.
    pub(crate) fn check_receive_timeout(&mut self, now: Instant) {
        let waits = self.waits_for_room || self.waits_for_memory > 0;
        let listens = !self.has_enough_in_work() && !waits;
        self.receive_timeout.look(&self.machine, listens, now);
    }

    /// Whether there may be something to receive and room for it.
    pub(crate) fn wants_to_receive(&self) -> bool {
        self.may_receive() && !self.is_full() && !self.waits_for_room
    }

    /// Takes note of what the poll says.
    pub(crate) fn ready(&mut self, ready: Ready) {
        self.readable |= ready.readable;
        self.writable |= ready.writable;
        self.ended |= ready.ended;
    }

    /// Whether the host has ended the connection: what it said before it asks for no more. If this process may have
    /// been `away`, the poll may not have said so.
    pub(crate) fn is_given_up(&self, away: bool) -> bool {
        self.ended || (away && self.stream.is_given_up())
    }

    /// Whether there may be something to receive.
    fn may_receive(&self) -> bool {
        (self.readable || self.stalled) && !self.machine.closing() && !self.machine.begins_tls()
    }

    /// Looks how a host begins that may begin with TLS. Says whether it has begun.
    fn looks_at_beginning(&mut self) -> Result<bool, End> {
        if self.door.sniffs() {
            match self.stream.begins_with_tls() {
                None => {
                    self.readable = false;
                    return Ok(false);
                }
                Some(true) => self.secure()?,
                Some(false) => drop(self.door.close()),
            }
        }
        Ok(true)
    }

    /// TLS begins.
    fn secure(&mut self) -> Result<(), End> {
        let Some(config) = self.door.close() else {
            return Err(self.failed("TLS was offered, and there is no certificate for it"));
        };
        self.tls = Some(Box::new(Secured::new(config).map_err(|e| self.failed(e))?));
        self.machine.secured();
        // What came meanwhile the poll has said already.
        (self.readable, self.writable) = (true, true);
        Ok(())
    }

    /// Whether something is encrypted that the socket has not taken.
    fn is_unsent(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.is_unsent())
    }

    /// Whether there is something to read that the poll does not say.
    fn is_pending(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.is_pending())
    }

    /// Whether the host speaks by TLS.
    pub(crate) fn is_secured(&self) -> bool {
        self.tls.is_some()
    }

    /// Takes note of who the host is, once it has proved that.
    fn look_who(&mut self) {
        if !matches!(*self.who, Who::Proved(_))
            && let Some(shown) = self.tls.as_ref().and_then(|tls| tls.shown())
        {
            self.who = Arc::new(Who::Proved(shown));
        }
    }

    /// Reads once. Returns how many bytes there are to look at.
    pub(crate) fn receive(&mut self) -> Result<usize, End> {
        if !self.looks_at_beginning()? {
            return Ok(0);
        }
        loop {
            let space = self.machine.space();
            let wanted = space.len();
            let read = match &mut self.tls {
                Some(tls) => tls.read(&mut self.stream, space),
                None => self.stream.read(space),
            };
            match read {
                Ok(0) => return Err(End::Closed),
                Ok(n) => {
                    self.machine.filled(n);
                    self.look_who();
                    // What comes after the socket was read empty the poll says anew.
                    self.readable = n == wanted || self.ended || self.is_pending();
                    return Ok(n);
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    self.readable = false;
                    return Ok(0);
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if self.tls.as_ref().is_some_and(|tls| tls.shown().is_none()) => {
                    return Err(End::Unproved(e.to_string()));
                }
                Err(e) => return Err(self.failed(e)),
            }
        }
    }

    /// An end because of an error.
    pub(crate) fn failed(&self, why: impl std::fmt::Display) -> End {
        End::Failed(format!("connection of {}: {why}", self.peer))
    }

    /// Writes what there is to say, as much as the socket takes, and ends when that was all.
    pub(crate) fn send(&mut self) -> Result<(), End> {
        if let Some(tls) = self.tls.as_mut().filter(|tls| self.writable && tls.is_unsent()) {
            let pushed = tls.push(&mut self.stream);
            self.writable = pushed.map_err(|e| self.failed(e))?;
        }
        while self.writable && self.machine.output_len() > 0 {
            let slices: Vec<IoSlice<'_>> =
                self.machine.output().take(SLICES).map(IoSlice::new).collect();
            let written = match &mut self.tls {
                Some(tls) => tls.write(&mut self.stream, &slices),
                None => self.stream.write_vectored(&slices),
            };
            match written {
                Ok(n) => {
                    self.machine.sent(n);
                    self.untaken.took(n);
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => self.writable = false,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(self.failed(e)),
            }
        }
        if self.machine.begins_tls() && self.machine.output_len() == 0 {
            self.secure()?;
        }
        self.count_memory();
        self.untaken.look(self.machine.output_len());
        match self.machine.closing() && self.is_idle() {
            true => Err(End::Closed),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use weft_front::nbd::server::Server;

    use super::*;
    use crate::sessions::budget::Budget;

    fn link() -> (Link<Server>, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let ours = mio::net::UnixStream::from_std(ours);
        let bounds = Bounds { bytes: 1 << 20, requests: 16 };
        let memory = Use::new(&Budget::new(1 << 20));
        let link = Link::new(
            Stream::Unix(ours),
            String::new(),
            Server::default(),
            (bounds, memory),
            Door::default(),
        );
        (link, theirs)
    }

    const COME: Ready = Ready { readable: true, writable: false, ended: false };

    #[test]
    fn what_was_read_empty_is_read_when_the_poll_says_so() {
        let (mut link, mut theirs) = link();
        theirs.write_all(b"abc").unwrap();
        assert!(link.receive().is_ok_and(|n| n > 0) && !link.wants_to_receive());
        theirs.write_all(b"d").unwrap();
        link.ready(COME);
        assert!(link.wants_to_receive() && link.receive().is_ok_and(|n| n > 0));
        assert!(!link.wants_to_receive());
    }

    #[test]
    fn who_waits_for_room_keeps_nobody_from_memory_nor_from_room_it_has_no_more_use_for() {
        let (mut link, _theirs) = link();
        link.waits_for_memory = 1 << 20;
        assert_eq!(link.waits_for_memory(), Some(true));
        link.waits_for_room = true;
        assert_eq!(link.waits_for_memory(), Some(false));
        let mut room = Room::new(10);
        assert!(room.take(1, 10) && !room.take(2, 1) && !room.take(3, 1));
        assert!(link.finds_room(2, &mut room));
        room.leave(1, 10);
        assert_eq!(room.next(), Some(3));
    }

    #[test]
    fn a_whole_request_keeps_its_room_until_there_is_memory_for_it() {
        let (mut link, _theirs) = link();
        let mut room = Room::new(1 << 20);
        assert!(room.take(1, 1 << 20));
        link.room = 1 << 20;
        link.waits_for_memory = 1 << 20;
        assert!(link.finds_room(1, &mut room) && !room.take(2, 1 << 20));
        link.waits_for_memory = 0;
        assert!(link.finds_room(1, &mut room));
        assert_eq!((link.room, room.next()), (0, Some(2)));
    }

    #[test]
    fn what_came_with_the_end_is_read_to_the_end() {
        let (mut link, mut theirs) = link();
        theirs.write_all(b"abc").unwrap();
        drop(theirs);
        link.ready(Ready { ended: true, ..COME });
        assert!(link.receive().is_ok_and(|n| n > 0) && link.wants_to_receive());
        assert!(matches!(link.receive(), Err(End::Closed)));
    }
}
