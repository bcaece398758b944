//! Hosts: what they ask, and what they are told.

use std::time::Instant;

use weft_core::node::HostData;
use weft_core::order::{HostId, Ordering, Place, RequestId};
use weft_front::native::NumberedRequest;
use weft_front::native::server::Event;
use weft_front::native::wire::flag;
use weft_front::nbd::server::{Command, Reply};

use super::Reactor;
use crate::hosts::arrivals::Applicant;
use crate::hosts::requests::{Finished, Job, Leave, Owner};
use crate::sessions::Host;
use crate::sessions::link::End;
use crate::sessions::numbered::{Ask, Failure, Step};
use crate::sessions::{native, nbd_words};

impl Reactor {
    /// Reads from the hosts that may have something to say.
    pub(super) fn receive(&mut self) {
        if self.stopping.is_some() {
            return;
        }
        if self.engine.is_leaving() {
            return self.see_hosts_off();
        }
        let now = Instant::now();
        for id in std::mem::take(&mut self.to_receive) {
            self.receive_from(id, now);
        }
        while let Some(id) = self.room.next() {
            self.receive_from(id, now);
        }
    }

    fn receive_from(&mut self, id: usize, now: Instant) {
        let end = match self.hosts.get(&id) {
            Some(Host::Nbd(_)) => self.receive_nbd(id),
            Some(Host::Native(_)) => self.receive_native(id),
            None => return,
        };
        self.to_send.insert(id);
        match end {
            Ok(()) => self.look_at_patience(id, now),
            Err(end) => self.hang_up(id, end),
        }
    }

    /// The nodes of this process are about to stop and another process can serve its hosts: no
    /// more is taken from them, and those that have their answers are let go.
    fn see_hosts_off(&mut self) {
        let idle = |(id, c): (&usize, &Host)| c.is_idle().then_some(*id);
        for id in self.hosts.iter().filter_map(idle).collect::<Vec<usize>>() {
            self.hang_up(id, End::Closed);
        }
    }

    fn receive_nbd(&mut self, id: usize) -> Result<(), End> {
        let Some(Host::Nbd(connection)) = self.hosts.get_mut(&id) else { return Ok(()) };
        if connection.applies.is_some() {
            return Ok(());
        }
        let mut commands = std::mem::take(&mut self.commands);
        let exports = self.engine.exports().only(self.serves.as_ref());
        let end = connection.receive(exports, &mut commands, (id, &mut self.room));
        let applies = connection.applies;
        for command in commands.drain(..) {
            self.begin(id, command);
        }
        self.commands = commands;
        if let Some(volume) = applies {
            self.apply(id, Applicant::Nbd, volume);
        }
        end
    }

    fn begin(&mut self, id: usize, command: Command) {
        let Some(Host::Nbd(connection)) = self.hosts.get_mut(&id) else { return };
        let (Some(op), Some(volume)) = (nbd_words::host_op(&command), connection.volume) else {
            connection.reply(command.cookie, Ok(Reply::Done));
            return;
        };
        let map = self.engine.map();
        let journaled = map.volumes.get(&volume).is_some_and(|v| v.policy.is_journaled());
        // With the journal whatever is answered is safe.
        let then_flush = command.fua && nbd_words::changes(&command.op) && !journaled;
        let (owner, node) = (Owner::Nbd { conn: id, cookie: command.cookie }, connection.node);
        let job = Job::new(volume, op, then_flush);
        self.requests.submit(&mut self.engine, owner, node, job);
    }

    fn receive_native(&mut self, id: usize) -> Result<(), End> {
        loop {
            let Some(Host::Native(connection)) = self.hosts.get_mut(&id) else { return Ok(()) };
            match connection.receive(id, &mut self.room)? {
                None => return Ok(()),
                Some(Event::Hello(hello)) => self.greet(id, hello),
                Some(Event::Request(request)) => self.take(id, request),
                Some(Event::Bye) => {
                    if let Some(host) = connection.host.take() {
                        self.sessions.bye(host, id, Instant::now());
                        self.leave(host, Leave::ForGood);
                    }
                    return Err(End::Closed);
                }
            }
        }
    }

    /// Takes a request of a host that speaks the native protocol.
    fn take(&mut self, id: usize, request: NumberedRequest) {
        let Some(Host::Native(connection)) = self.hosts.get_mut(&id) else { return };
        let (Some(host), Some(volume)) = (connection.host, connection.volume) else { return };
        let Some(op) = native::host_op(&request) else { return };
        let policy = self.engine.map().volumes.get(&volume).map(|v| v.policy);
        let journaled = policy.is_some_and(|p| p.is_journaled());
        let after = native::after(&request);
        let comes_after = !after.is_empty() || request.has(flag::AFTER_COMPLETED);
        let ask = Ask {
            number: request.number,
            oldest: request.oldest,
            op,
            again: request.has(flag::AGAIN),
            then_flush: request.has(flag::DURABLE) && request.verb.changes() && !journaled,
            first_flush: comes_after && !journaled,
            sequenced: policy.is_some_and(|p| p.ordering == Ordering::Sequencer),
            after,
        };
        let mut steps = Vec::new();
        self.sessions.take(host, ask, Instant::now(), &mut steps);
        self.carry_out(steps);
    }

    /// What waits too long for what is not sent is aborted.
    pub(super) fn do_due(&mut self) {
        let mut steps = Vec::new();
        self.sessions.do_due(Instant::now(), &mut steps);
        self.carry_out(steps);
    }

    fn carry_out(&mut self, steps: Vec<Step>) {
        for step in steps {
            match step {
                Step::Begin(host, name, ask) => self.begin_native(host, name, ask),
                Step::Answer(host, number, result) => self.tell(host, number, result),
                Step::HangUp(host) => {
                    if let Some(conn) = self.sessions.conn(host) {
                        self.hang_up(conn, End::Closed);
                    }
                }
            }
        }
    }

    fn begin_native(&mut self, host: HostId, id: RequestId, ask: Ask) {
        let conn = self.sessions.conn(host).and_then(|conn| self.hosts.get(&conn));
        let Some(Host::Native(connection)) = conn else { return };
        let Some(volume) = connection.volume else { return };
        let number = ask.number;
        // What comes first is complete already, unless the nodes see to it.
        let Ask { op, first_flush, then_flush, after, sequenced, oldest, again, .. } = ask;
        let oldest = oldest.max(1);
        let place = sequenced.then_some(Place { id, after, oldest });
        let job = Job { volume, op, place, first_flush, then_flush, again, oldest: Some(oldest) };
        let (owner, node) = (Owner::Native { host, number }, connection.node);
        self.requests.submit(&mut self.engine, owner, node, job);
    }

    fn tell(&mut self, host: HostId, number: u64, result: Result<HostData, Failure>) {
        let Some(conn) = self.sessions.conn(host) else { return };
        let Some(Host::Native(connection)) = self.hosts.get_mut(&conn) else { return };
        if let Some(line) = connection.answer(number, result) {
            (self.log)(&line);
        }
        self.to_send.insert(conn);
    }

    /// A host that names its requests is not connected any more.
    fn leave(&mut self, host: HostId, leave: Leave) {
        let mut steps = Vec::new();
        for number in self.requests.leave(&mut self.engine, host, leave) {
            let gone = Err(weft_core::node::HostError::Gone);
            self.sessions.finished(host, number, gone, Instant::now(), &mut steps);
        }
        self.carry_out(steps);
    }

    /// Hands out an answer.
    pub(super) fn hand_out(&mut self, finished: Finished) {
        match finished.owner {
            Owner::Nbd { conn, cookie } => {
                let Some(Host::Nbd(connection)) = self.hosts.get_mut(&conn) else { return };
                if let Some(line) = connection.answer(cookie, finished.result) {
                    (self.log)(&line);
                }
                self.to_send.insert(conn);
            }
            Owner::Native { host, number } => {
                let (mut steps, now) = (Vec::new(), Instant::now());
                self.sessions.finished(host, number, finished.result, now, &mut steps);
                self.carry_out(steps);
            }
            Owner::Control { conn } => {
                let wait = self.controls.get_mut(&conn).and_then(|c| c.wait.take());
                let Some(wait) = wait else { return };
                let outcome =
                    self.with_commands(|commands| commands.answered(wait, finished.result));
                if let Some(control) = self.controls.get_mut(&conn) {
                    control.settle(outcome);
                }
            }
        }
    }

    /// Writes to the hosts that have something to be told; they may then say more.
    pub(super) fn send(&mut self) {
        for id in std::mem::take(&mut self.to_send) {
            let Some(connection) = self.hosts.get_mut(&id) else { continue };
            match connection.send() {
                Ok(()) if connection.wants_to_receive() => drop(self.to_receive.insert(id)),
                Ok(()) => {}
                Err(end) => self.hang_up(id, end),
            }
        }
    }

    pub(super) fn hang_up(&mut self, id: usize, end: End) {
        if let End::Failed(why) = end {
            self.complaints.say(Instant::now(), &why);
        }
        let mut connection = self.hosts.remove(&id);
        if let Some(connection) = &mut connection {
            connection.leave_room(id, &mut self.room);
        }
        self.callers.leave(id);
        self.requests.forget(&mut self.engine, id);
        if let Some(Host::Native(connection)) = connection
            && let Some(host) = connection.host
            && self.sessions.lose(host, id, Instant::now())
        {
            self.leave(host, Leave::Unsaid);
        }
    }
}
