//! What hosts ask, and what they are told.

use std::time::{Duration, Instant};

use weft_core::cluster::Access;
use weft_core::node::{HostData, HostError};
use weft_core::order::{HostId, Ordering, Place, RequestId};
use weft_core::policy::Policy;
use weft_core::units::VolumeId;

use super::course::{Course, Verb, seconds};
use super::requests::{Finished, Job, Leave, Owner};
use super::{Commanded, Hosts};
use crate::doors::who::Cause;
use crate::engine::{Answer, Engine};
use crate::log::About;
use crate::sessions::link::End;
use crate::sessions::numbered::{Ask, Failure, Step};
use crate::sessions::{Asked, Said, Session};

/// After so long what the poll said of connections is not believed any more.
const AWAY: Duration = Duration::from_millis(100);

/// While more requests than this wait for overlapping ones, hosts that ask for more of the same are not heard: each that comes
/// or ends costs a step for each that overlaps it.
const MANY_WAITING: usize = 512;

/// What a host may say at once meanwhile.
const FEW: usize = 4;

impl Hosts {
    /// Reads from the hosts that may have something to say.
    pub(crate) fn receive(&mut self, engine: &mut Engine) {
        if engine.is_leaving() && self.stops.is_none() {
            return self.see_hosts_off(engine);
        }
        let now = Instant::now();
        for id in self.connections.take_to_receive() {
            self.receive_from(engine, id, now);
        }
        while let Some(id) = self.connections.next_with_room() {
            self.receive_from(engine, id, now);
        }
    }

    fn receive_from(&mut self, engine: &mut Engine, id: usize, now: Instant) {
        let is_heard = |session: &dyn Session| self.stops.is_none() || session.is_heard_out();
        if !self.connections.get(id).is_some_and(is_heard) {
            return;
        }
        let mut said = std::mem::take(&mut self.said);
        self.requests.look_at(engine.map());
        let exports = engine.exports().only(self.serves.as_ref());
        let waiting = self.waiting_beside(id);
        let most = if waiting < MANY_WAITING { usize::MAX } else { FEW };
        let mut end = self.connections.receive(id, exports, &mut said, most);
        let given_up = !said.is_empty() && self.is_given_up(id);
        for said in said.drain(..) {
            match said {
                // Its host may have asked elsewhere since, and been answered: this would undo what was done there.
                Said::Ask(_)
                | Said::Attach(_)
                | Said::Supersede(_)
                | Said::Prove(_)
                | Said::Reserve(..)
                | Said::Registrants(_)
                    if given_up =>
                {
                    end = Err(End::Closed);
                }
                Said::Ask(asked) => self.take(engine, id, asked),
                Said::Reserve(number, action) => self.reserve(id, number, action),
                Said::Registrants(number) => self.ask_for_registrants(id, number),
                Said::Prove(claim) => self.prove(engine, id, *claim),
                Said::Unproved(why) => self.note_unproved(id, Cause::Chap, &why),
                Said::Attach(attach) => self.greet(engine, id, attach),
                Said::Supersede(name) => self.supersede(engine, id, &name),
                Said::ColdReset => self.end_all_like(engine, id),
                Said::Bye => {
                    self.bye(engine, id, now);
                    end = Err(End::Closed);
                }
            }
        }
        self.said = said;
        if self.waiting_beside(id) > waiting.max(MANY_WAITING) {
            self.connections.hold_back(id);
        }
        self.note_login(engine, id);
        if let Some(why) = self.connections.take_complaint(id) {
            self.complaints.say(now, &why);
        }
        match end {
            Ok(()) => self.connections.check_receive_timeout(id, now),
            Err(end) => self.hang_up(engine, id, end),
        }
    }

    /// A session takes the place of another of the same host, which ends. What that one changes that nodes have in work goes on: whatever
    /// the new one asks for of the same bytes comes after it.
    fn supersede(&mut self, engine: &mut Engine, id: usize, name: &str) {
        let Some(host) = self.connections.get(id).map(|s| s.who().name().map(str::to_string))
        else {
            return;
        };
        let is_old = |session: &dyn Session| {
            session.name() == Some(name) && session.who().name() == host.as_deref()
        };
        for old in self.connections.such(is_old) {
            if old != id {
                self.hang_up(engine, old, End::Closed);
            }
        }
    }

    /// A host has reset its target: all connections to its volume by its protocol end, its own too. Its answer is sent
    /// before. One that may only read resets its session alone.
    fn end_all_like(&mut self, engine: &mut Engine, id: usize) {
        let Some(session) = self.connections.get(id) else { return };
        let (protocol, volume) = (session.protocol(), session.volume());
        let peer = session.peer().to_string();
        let is_like = |s: &dyn Session| s.protocol() == protocol && s.volume() == volume;
        let all = match session.access() {
            Some(Access::ReadOnly) => vec![id],
            _ => self.connections.such(is_like),
        };
        all.iter().for_each(|like| self.let_go(engine, *like));
        let count = all.len();
        let many =
            if count == 1 { "1 connection ends" } else { &format!("{count} connections end") };
        engine.log.info(&format!("{peer} has reset its target, and {many}"));
    }

    /// Whether a host has given up its connection. Where this process did not run for a while, the poll said so too
    /// early.
    pub(super) fn is_given_up(&self, id: usize) -> bool {
        let away = self.looked.elapsed() >= AWAY;
        self.connections.get(id).is_some_and(|session| session.is_given_up(away))
    }

    /// A host has said that it will not come back.
    fn bye(&mut self, engine: &mut Engine, id: usize, now: Instant) {
        if let Some(host) = self.connections.get(id).and_then(|session| session.host()) {
            self.numbered.bye(host, id, now);
            self.leave(engine, host, Leave::ForGood);
        }
    }

    /// The nodes of this process are about to stop and another process can serve its hosts: no
    /// more is taken from them, and those that have their answers are let go.
    fn see_hosts_off(&mut self, engine: &mut Engine) {
        for id in self.connections.such(|session| session.is_idle()) {
            self.let_go(engine, id);
        }
    }

    /// Takes a request. One that has a number goes to what is known of its host.
    fn take(&mut self, engine: &mut Engine, id: usize, asked: Asked) {
        let Some(session) = self.connections.get(id) else { return };
        let Some(volume) = asked.elsewhere.or(session.volume()) else { return };
        let forbidden = match asked.elsewhere {
            Some(_) => Hosts::forbidden_elsewhere(session, engine.map(), volume, &asked.op),
            None if asked.order.is_none() && Hosts::is_forbidden(session, &asked.op) => {
                Some(HostError::ReadOnly)
            }
            None => None,
        };
        if let Some(error) = forbidden {
            return self.answer(engine, id, asked.number, Err(Failure::Host(error)));
        }
        let policy = engine.map().volumes.get(&volume).map(|v| v.policy);
        let journaled = policy.is_some_and(|p| p.is_journaled());
        // With the journal whatever is answered is safe.
        let (number, then_flush) = (asked.number, asked.durable && !journaled);
        let Some(order) = asked.order else {
            let (owner, node) = (Owner::Session { conn: id, number }, session.node());
            let (registrant, came) = (session.registrant(), asked.came);
            let who = Some(session.who().clone());
            let job = Job { registrant, who, came, ..Job::new(volume, asked.op, then_flush) };
            return self.submit(engine, owner, node, job);
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
        self.carry_out(engine, steps);
    }

    /// What waits too long for what is not sent is aborted.
    pub(crate) fn do_due(&mut self, engine: &mut Engine) {
        let mut steps = Vec::new();
        self.numbered.do_due(Instant::now(), &mut steps);
        self.carry_out(engine, steps);
    }

    fn carry_out(&mut self, engine: &mut Engine, steps: Vec<Step>) {
        for step in steps {
            match step {
                Step::Begin(host, name, ask) => self.begin(engine, host, name, ask),
                Step::Answer(host, number, result) => self.tell(engine, host, number, result),
                Step::HangUp(host) => self.send_away(engine, host),
            }
        }
    }

    fn begin(&mut self, engine: &mut Engine, host: HostId, id: RequestId, ask: Ask) {
        let conn = self.numbered.conn(host).and_then(|conn| self.connections.get(conn));
        let Some(session) = conn else { return };
        let Some(volume) = session.volume() else { return };
        let number = ask.number;
        if Hosts::is_forbidden(session, &ask.op) {
            // When it was sent first, the host may have had the right.
            let why = if ask.again { HostError::OutcomeUnknown } else { HostError::ReadOnly };
            let mut steps = Vec::new();
            self.numbered.finished(host, number, Err(why), Instant::now(), &mut steps);
            return self.carry_out(engine, steps);
        }
        // What comes first is complete already, unless the nodes see to it.
        let Ask { op, first_flush, then_flush, after, sequenced, oldest, again, .. } = ask;
        let oldest = oldest.max(1);
        let place = sequenced.then_some(Place { id, after, oldest });
        let (oldest, registrant) = (Some(oldest), session.registrant());
        let who = Some(session.who().clone());
        let job = Job {
            place,
            first_flush,
            again,
            oldest,
            registrant,
            who,
            ..Job::new(volume, op, then_flush)
        };
        let (owner, node) = (Owner::Host { host, number }, session.node());
        self.submit(engine, owner, node, job);
    }

    fn tell(
        &mut self,
        engine: &mut Engine,
        host: HostId,
        number: u64,
        result: Result<HostData, Failure>,
    ) {
        if let Some(conn) = self.numbered.conn(host) {
            self.answer(engine, conn, number, result);
        }
    }

    fn answer(
        &mut self,
        engine: &mut Engine,
        conn: usize,
        number: u64,
        result: Result<HostData, Failure>,
    ) {
        let volume = self.connections.get(conn).and_then(|session| session.volume());
        if let Some(line) = self.connections.answer(conn, number, result) {
            let volume = volume.and_then(|id| engine.map().volumes.get(&id));
            let (about, line) = of_volume(volume.map(|v| v.name.as_str()), line);
            self.complaints.say_of(Instant::now(), about, &line);
        }
    }

    /// A host that names its requests is not connected any more.
    fn leave(&mut self, engine: &mut Engine, host: HostId, leave: Leave) {
        let mut steps = Vec::new();
        let held = self.held.leave(host);
        for number in self.requests.leave(engine, host, leave).into_iter().chain(held) {
            let gone = Err(HostError::Gone);
            self.numbered.finished(host, number, gone, Instant::now(), &mut steps);
        }
        self.carry_out(engine, steps);
    }

    /// Hands out a node's answer. What a control connection waits for is given back.
    pub(crate) fn finish(&mut self, engine: &mut Engine, answer: Answer) -> Option<Commanded> {
        let Finished { owner, result, volume, node, course } =
            self.requests.finish(engine, answer)?;
        self.look_back(engine, owner, (volume, node), course);
        match owner {
            Owner::Session { conn, number } => {
                self.answer(engine, conn, number, result.map_err(Failure::from));
            }
            Owner::Host { host, number } => {
                let mut steps = Vec::new();
                self.numbered.finished(host, number, result, Instant::now(), &mut steps);
                self.carry_out(engine, steps);
            }
            Owner::Control { conn } => return Some(Commanded { conn, result }),
        }
        None
    }

    /// A request of a host is over: takes note of how long it took, and says where its time went if that was long.
    fn look_back(
        &mut self,
        engine: &Engine,
        owner: Owner,
        (volume, node): (VolumeId, usize),
        mut course: Course,
    ) {
        let conn = match owner {
            Owner::Session { conn, .. } => Some(conn),
            Owner::Host { host, .. } => self.numbered.conn(host),
            Owner::Control { .. } => return,
        };
        let now = Instant::now();
        let Some((verb, took)) = course.over(now) else { return };
        self.latencies.record((volume, verb), took, now);
        if verb != Verb::Flush {
            let p99 = engine.map().volumes.get(&volume).map(|v| v.policy.p99);
            let took = took.saturating_sub(course.waited_for_limits());
            self.promises.record(volume, p99.unwrap_or(Policy::UNPROMISED), took, now);
        }
        if self.slow.is_some_and(|slow| took >= slow + course.waited_for_limits()) {
            let map = engine.map();
            let name = map.volumes.get(&volume).map_or("?", |v| v.name.as_str());
            let host = conn.and_then(|conn| self.connections.get(conn)).map(|s| s.peer());
            let host = host.unwrap_or("a disconnected host");
            let about = About {
                node: u16::try_from(node).ok(),
                volume: Some(name.to_string()),
                milliseconds: Some(took.as_secs_f64() * 1000.0),
                ..About::default()
            };
            self.slow_ones.say_of(now, about, &course.explained(name, host, node));
        }
    }

    /// What is known of volumes that are gone is forgotten, and slow requests that were not said are counted.
    pub(crate) fn look_around(&mut self, engine: &Engine, now: Instant) {
        self.latencies.keep(|volume| engine.map().volumes.contains_key(&volume));
        self.slow_ones.sum_up(now);
        self.slow_disks.sum_up(now);
        self.proofs.complain(&engine.log);
    }

    /// Says which disks took longer for an operation than a request is to take.
    pub(crate) fn look_at_disks(&mut self, engine: &mut Engine) {
        for (node, took) in engine.take_slow_disks() {
            let took = Duration::from_nanos(took);
            if self.slow.is_some_and(|slow| took >= slow) {
                let milliseconds = Some(took.as_secs_f64() * 1000.0);
                let about = About { milliseconds, ..About::node(node) };
                let line = format!(
                    "slow: the disk of node {node} took {} for an operation",
                    seconds(took)
                );
                self.slow_disks.say_of(Instant::now(), about, &line);
            }
        }
    }

    /// Writes to the hosts that have something to be told.
    pub(crate) fn send(&mut self, engine: &mut Engine) {
        for (id, end) in self.connections.send() {
            self.hang_up(engine, id, end);
        }
        self.connections.give_memory();
        let requests = &self.requests;
        let given_up = self.connections.follow_held_back(|v| requests.waiting_of(v) < MANY_WAITING);
        for id in given_up {
            self.hang_up(engine, id, End::Closed);
        }
    }

    /// How many requests for the volume of a connection wait for overlapping ones.
    fn waiting_beside(&self, id: usize) -> usize {
        let volume = self.connections.get(id).and_then(|session| session.volume());
        volume.map_or(0, |volume| self.requests.waiting_of(volume))
    }

    /// Ends the connections of hosts that have kept us waiting for too long.
    pub(crate) fn end_patience(&mut self, engine: &mut Engine, now: Instant) {
        for (id, end) in self.connections.out_of_patience(now) {
            self.hang_up(engine, id, end);
        }
    }

    pub(super) fn hang_up(&mut self, engine: &mut Engine, id: usize, end: End) {
        match end {
            End::Failed(why) => self.complaints.say(Instant::now(), &why),
            End::Unproved(why) => self.note_unproved(id, Cause::Tls, &why),
            End::Closed => {}
        }
        let session = self.connections.remove(id);
        self.moved += usize::from(session.as_ref().is_some_and(|session| session.has_moved()));
        self.ended.push(id);
        self.held.forget(id);
        self.forget_reservings(id);
        self.proofs.forget(id);
        self.requests.forget(engine, id);
        if let Some(host) = session.and_then(|session| session.host())
            && self.numbered.lose(host, id, Instant::now())
        {
            self.leave(engine, host, Leave::Unsaid);
        }
    }
}

/// What the log says of a request of a volume that failed.
fn of_volume(name: Option<&str>, line: String) -> (About, String) {
    match name {
        Some(name) => (About::volume(name), format!("volume '{name}': {line}")),
        None => (About::default(), line),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_failed_is_logged_with_its_volume() {
        let line = || "a request of 10.0.0.9:4711 failed: it is full".to_string();
        let (about, said) = of_volume(Some("data"), line());
        assert_eq!(about, About::volume("data"));
        assert_eq!(said, format!("volume 'data': {}", line()));
        assert_eq!(of_volume(None, line()), (About::default(), line()));
    }
}
