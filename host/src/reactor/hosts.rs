//! Hosts: what they ask, and what they are told.

use std::time::Instant;

use weft_core::node::HostData;
use weft_core::order::{HostId, Ordering, Place, RequestId};

use super::Reactor;
use crate::hosts::requests::{Finished, Job, Leave, Owner};
use crate::sessions::link::End;
use crate::sessions::numbered::{Ask, Failure, Step};
use crate::sessions::{Asked, Said};

impl Reactor {
    /// Reads from the hosts that may have something to say.
    pub(super) fn receive(&mut self) {
        if self.ending.is_on() {
            return;
        }
        if self.engine.is_leaving() {
            return self.see_hosts_off();
        }
        let now = Instant::now();
        for id in self.hosts.take_to_receive() {
            self.receive_from(id, now);
        }
        while let Some(id) = self.hosts.next_with_room() {
            self.receive_from(id, now);
        }
    }

    fn receive_from(&mut self, id: usize, now: Instant) {
        if !self.hosts.has(id) {
            return;
        }
        let mut said = std::mem::take(&mut self.said);
        let exports = self.engine.exports().only(self.serves.as_ref());
        let mut end = self.hosts.receive(id, exports, &mut said);
        for said in said.drain(..) {
            match said {
                Said::Ask(asked) => self.take(id, asked),
                Said::Attach(attach) => self.greet(id, attach),
                Said::Bye => {
                    self.bye(id, now);
                    end = Err(End::Closed);
                }
            }
        }
        self.said = said;
        match end {
            Ok(()) => self.hosts.look_at_patience(id, now),
            Err(end) => self.hang_up(id, end),
        }
    }

    /// A host has said that it will not come back.
    fn bye(&mut self, id: usize, now: Instant) {
        if let Some(host) = self.hosts.get(id).and_then(|session| session.host()) {
            self.numbered.bye(host, id, now);
            self.leave(host, Leave::ForGood);
        }
    }

    /// The nodes of this process are about to stop and another process can serve its hosts: no
    /// more is taken from them, and those that have their answers are let go.
    fn see_hosts_off(&mut self) {
        for id in self.hosts.such(|session| session.is_idle()) {
            self.hang_up(id, End::Closed);
        }
    }

    /// Takes a request. One that has a number goes to what is known of its host.
    fn take(&mut self, id: usize, asked: Asked) {
        let Some(session) = self.hosts.get(id) else { return };
        let Some(volume) = session.volume() else { return };
        let policy = self.engine.map().volumes.get(&volume).map(|v| v.policy);
        let journaled = policy.is_some_and(|p| p.is_journaled());
        // With the journal whatever is answered is safe.
        let (number, then_flush) = (asked.number, asked.durable && !journaled);
        let Some(order) = asked.order else {
            let (owner, node) = (Owner::Session { conn: id, number }, session.node());
            let job = Job::new(volume, asked.op, then_flush);
            return self.requests.submit(&mut self.engine, owner, node, job);
        };
        let Some(host) = session.host() else { return };
        let comes_after = !order.after.is_empty() || order.after_completed;
        let ask = Ask {
            number,
            oldest: order.oldest,
            op: asked.op,
            again: order.again,
            then_flush,
            first_flush: comes_after && !journaled,
            sequenced: policy.is_some_and(|p| p.ordering == Ordering::Sequencer),
            after: order.after,
        };
        let mut steps = Vec::new();
        self.numbered.take(host, ask, Instant::now(), &mut steps);
        self.carry_out(steps);
    }

    /// What waits too long for what is not sent is aborted.
    pub(super) fn do_due(&mut self) {
        let mut steps = Vec::new();
        self.numbered.do_due(Instant::now(), &mut steps);
        self.carry_out(steps);
    }

    fn carry_out(&mut self, steps: Vec<Step>) {
        for step in steps {
            match step {
                Step::Begin(host, name, ask) => self.begin(host, name, ask),
                Step::Answer(host, number, result) => self.tell(host, number, result),
                Step::HangUp(host) => {
                    if let Some(conn) = self.numbered.conn(host) {
                        self.hang_up(conn, End::Closed);
                    }
                }
            }
        }
    }

    fn begin(&mut self, host: HostId, id: RequestId, ask: Ask) {
        let conn = self.numbered.conn(host).and_then(|conn| self.hosts.get(conn));
        let Some(session) = conn else { return };
        let Some(volume) = session.volume() else { return };
        let number = ask.number;
        // What comes first is complete already, unless the nodes see to it.
        let Ask { op, first_flush, then_flush, after, sequenced, oldest, again, .. } = ask;
        let oldest = oldest.max(1);
        let place = sequenced.then_some(Place { id, after, oldest });
        let job = Job { volume, op, place, first_flush, then_flush, again, oldest: Some(oldest) };
        let (owner, node) = (Owner::Host { host, number }, session.node());
        self.requests.submit(&mut self.engine, owner, node, job);
    }

    fn tell(&mut self, host: HostId, number: u64, result: Result<HostData, Failure>) {
        if let Some(conn) = self.numbered.conn(host) {
            self.answer(conn, number, result);
        }
    }

    fn answer(&mut self, conn: usize, number: u64, result: Result<HostData, Failure>) {
        if let Some(line) = self.hosts.answer(conn, number, result) {
            (self.log)(&line);
        }
    }

    /// A host that names its requests is not connected any more.
    fn leave(&mut self, host: HostId, leave: Leave) {
        let mut steps = Vec::new();
        for number in self.requests.leave(&mut self.engine, host, leave) {
            let gone = Err(weft_core::node::HostError::Gone);
            self.numbered.finished(host, number, gone, Instant::now(), &mut steps);
        }
        self.carry_out(steps);
    }

    /// Hands out an answer.
    pub(super) fn hand_out(&mut self, finished: Finished) {
        match finished.owner {
            Owner::Session { conn, number } => {
                self.answer(conn, number, finished.result.map_err(Failure::from));
            }
            Owner::Host { host, number } => {
                let (mut steps, now) = (Vec::new(), Instant::now());
                self.numbered.finished(host, number, finished.result, now, &mut steps);
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

    /// Writes to the hosts that have something to be told.
    pub(super) fn send(&mut self) {
        for (id, end) in self.hosts.send() {
            self.hang_up(id, end);
        }
    }

    /// Ends the connections of hosts that have kept us waiting for too long.
    pub(super) fn end_patience(&mut self, now: Instant) {
        for (id, end) in self.hosts.out_of_patience(now) {
            self.hang_up(id, end);
        }
    }

    pub(super) fn hang_up(&mut self, id: usize, end: End) {
        if let End::Failed(why) = end {
            self.complaints.say(Instant::now(), &why);
        }
        let session = self.hosts.remove(id);
        self.acceptor.leave(id);
        self.requests.forget(&mut self.engine, id);
        if let Some(host) = session.and_then(|session| session.host())
            && self.numbered.lose(host, id, Instant::now())
        {
            self.leave(host, Leave::Unsaid);
        }
    }
}
