//! A session made of a protocol's machine and a socket: what all protocols have in common.

use std::sync::Arc;
use std::time::{Duration, Instant};

use weft_core::cluster::{Access, Registrant, ReservationOutcome, Volume};
use weft_core::node::{HostData, HostError};
use weft_core::order::{HostId, PlaceError, RequestId};
use weft_core::units::{NodeId, VolumeId};
use weft_front::{Awaits, Machine, Service, Tls};

use super::budget::Use;
use super::door::Door;
use super::link::{Bounds, End, Link, MOST_AT_ONCE};
use super::numbered::Failure;
use super::receive_timeout::ReceiveTimeout;
use super::room::Room;
use super::{Arrival, Asked, Parting, Refused, Said, Session, Turn};
use crate::doors::who::Who;
use crate::socket::Ready;
use crate::volumes::Exports;

/// A protocol: what its machine and nodes say to each other, in the words of both.
pub(super) trait Protocol: Default + Send {
    /// The machine, which speaks through a socket.
    type Machine: Service + Send;

    /// What a process's configuration has its addresses under.
    const KEY: &'static str;

    /// What stands before an address where it is spoken; nothing, for one protocol.
    const PREFIX: &'static str;

    /// What its hosts are called, for people.
    const SPOKEN_BY: &'static str;

    /// The name of the socket in a directory where nothing else is said, if it is spoken there then.
    const SOCKET: Option<&'static str>;

    /// What URIs begin with.
    const SCHEME: &'static str;

    /// What a connection may have in work before it is not read from any more.
    const BOUNDS: Bounds;

    /// Whether hosts number their requests, and repeat them where they come back.
    const IS_NUMBERED: bool;

    /// Whether its machine has a word for TLS; if not, a host that wants it begins with it.
    const SPEAKS_OF_TLS: bool = false;

    /// Whether hosts prove by CHAP who they are, where nothing else is asked of them.
    const HAS_CHAP: bool = false;

    /// What a process's configuration has the addresses under that hosts are told, if they are told any.
    const ANNOUNCED: Option<&'static str> = None;

    /// The machine of a new connection.
    fn machine() -> Self::Machine;

    /// The same, of one that can be secured.
    fn machine_with(_tls: Tls) -> Self::Machine {
        Self::machine()
    }

    /// Where hosts of this protocol can connect to this process, beginning with where this one has, and to others.
    fn comes_in(&mut self, _portals: Vec<String>, _elsewhere: Vec<(NodeId, String)>) {}

    /// What the host says next. What needs no node is answered at once. After a long answer it says nothing: the
    /// length of the output is checked before it is asked again.
    fn next(
        &mut self,
        machine: &mut Self::Machine,
        exports: Exports<'_>,
    ) -> Result<Option<Said>, String>;

    /// Whether nothing is to be received until the host has been let in or turned away.
    fn holds(&self) -> bool;

    /// The host may use a volume. It is known from before, or not.
    fn let_in(&mut self, machine: &mut Self::Machine, volume: &Volume, remembered: bool);

    /// The host may not. Says whether that is to be logged.
    fn turn_away(&mut self, machine: &mut Self::Machine, why: Refused, text: String) -> bool;

    /// The host is who it claims to be. By this digest the target proves itself, if it was asked.
    fn proved(&mut self, _machine: &mut Self::Machine, _proof: Option<Vec<u8>>) {}

    /// The host is not believed, or not judged now.
    fn disproved(&mut self, _machine: &mut Self::Machine, _was_judged: bool) {}

    /// Answers a request. Says what failed, if an operator should know.
    fn answer(
        &mut self,
        machine: &mut Self::Machine,
        number: u64,
        result: Result<HostData, Failure>,
    ) -> Option<String>;

    /// The volume that the host uses.
    fn volume(&self) -> Option<VolumeId>;

    /// Who it is, if it numbers its requests and has been let in.
    fn host(&self) -> Option<HostId>;

    /// By what name the host can register with its volume.
    fn registrant(&self) -> Option<Arc<Registrant>> {
        None
    }

    /// Says what became of a reservation.
    fn reserved(
        &mut self,
        _: &mut Self::Machine,
        _: u64,
        _: Result<ReservationOutcome, HostError>,
    ) {
    }

    /// Reports the registrants of its volume.
    fn registrants(&mut self, _: &mut Self::Machine, _: u64, _: Result<&Volume, HostError>) {}

    /// The map has changed: the host may have to be told of it.
    fn look_at(&mut self, _: &mut Self::Machine, _: &Volume) {}

    /// The process wants to end the session. Returns whether the host has been asked to leave and has not left.
    fn part(&mut self, _: &mut Self::Machine, _: Parting) -> bool {
        false
    }

    /// Whether the host is still heard while the process stops.
    fn is_heard_out(&self) -> bool {
        false
    }

    /// Whether the host has been sent to another process.
    fn has_moved(&self) -> bool {
        false
    }

    /// What it calls its session, if a new one by that name takes the place of the old.
    fn name(&self) -> Option<&str> {
        None
    }
}

/// A host's connection.
pub(super) struct Connection<P: Protocol> {
    link: Link<P::Machine>,
    protocol: P,
    node: usize,
    last_failure: Option<String>,
    /// A request that waits for memory.
    waiting: Option<Asked>,
    /// The host's access to its volume, and a login that the log does not have yet.
    access: Option<Access>,
    login: Option<VolumeId>,
}

impl<P: Protocol> Connection<P> {
    /// One that has just come in, served by a node.
    pub(super) fn new(arrival: Arrival) -> Connection<P> {
        let Arrival { stream, peer, node, memory, portals, elsewhere, door, .. } = arrival;
        let door = Door { in_front: !P::SPEAKS_OF_TLS, ..door };
        let machine = P::machine_with(door.spoken());
        let link = Link::new(stream, peer, machine, (P::BOUNDS, memory), door);
        let mut protocol = P::default();
        let spoken = |(process, uri): (NodeId, String)| {
            let at = uri.strip_prefix(P::SCHEME)?.strip_prefix("://")?;
            Some((process, at.to_string()))
        };
        protocol.comes_in(portals, elsewhere.into_iter().filter_map(spoken).collect());
        let (waiting, access, login) = (None, None, None);
        Connection { link, protocol, node, last_failure: None, waiting, access, login }
    }

    /// Appends what the host has said, until there is no more, enough is in work, or this much has been said.
    fn hear(&mut self, exports: Exports<'_>, said: &mut Vec<Said>, most: usize) -> Result<(), End> {
        self.link.stalled = false;
        while !self.link.is_full() && said.len() < most {
            let exports = exports.to(&self.link.who);
            let to_send = self.link.machine.output_len();
            let next = match self.waiting.take() {
                Some(asked) => Ok(Some(Said::Ask(asked))),
                None => self.protocol.next(&mut self.link.machine, exports),
            };
            if let Some(volume) = self.protocol.volume().filter(|_| self.access.is_none()) {
                self.access = exports.access(volume);
                self.login = Some(volume);
            }
            match next {
                Ok(None) if self.link.machine.output_len() > to_send => self.link.count_memory(),
                Ok(None) => return Ok(()),
                Ok(Some(Said::Ask(asked))) if self.link.has_in_work(asked.number) => {
                    self.refuse_reused(asked.number)?;
                }
                Ok(Some(Said::Ask(asked))) if !self.link.finds_memory(asked.bytes) => {
                    self.waiting = Some(asked);
                }
                Ok(Some(next)) => {
                    if let Said::Ask(asked) = &next {
                        self.link.begun(asked.number, asked.bytes);
                    }
                    if let Said::Reserve(number, _) | Said::Registrants(number) = &next {
                        self.link.begun(*number, 0);
                    }
                    said.push(next);
                }
                Err(e) => return Err(self.link.failed(e)),
            }
        }
        self.link.stalled = true;
        Ok(())
    }

    /// A host has given a request the number of one that is in work. It is refused here, where the first one stays
    /// counted: its own answer ends it.
    fn refuse_reused(&mut self, number: u64) -> Result<(), End> {
        let Some(host) = self.protocol.host() else {
            return Err(self.link.failed("a request has the number of another"));
        };
        let reused = PlaceError::Reused(RequestId { host, number });
        self.protocol.answer(&mut self.link.machine, number, Err(reused.into()));
        self.link.count_memory();
        Ok(())
    }
}

impl<P: Protocol> Session for Connection<P> {
    fn ready(&mut self, ready: Ready) {
        self.link.ready(ready);
    }

    fn wants_to_receive(&self) -> bool {
        self.link.wants_to_receive() && !self.protocol.holds()
    }

    fn receive(
        &mut self,
        exports: Exports<'_>,
        said: &mut Vec<Said>,
        Turn { conn, room, most }: Turn<'_>,
    ) -> Result<(), End> {
        if self.protocol.holds() {
            return Ok(());
        }
        let mut received = 0;
        loop {
            self.hear(exports, said, most)?;
            // What is whole gives its room to others.
            let has_room = self.link.finds_room(conn, room);
            if self.link.stalled || !has_room || !self.wants_to_receive() {
                return Ok(());
            }
            if received >= MOST_AT_ONCE {
                self.link.stalled = true;
                return Ok(());
            }
            match self.link.receive()? {
                0 => return Ok(()),
                new => received += new,
            }
        }
    }

    fn waits_for_memory(&self) -> Option<bool> {
        self.link.waits_for_memory()
    }

    fn memory(&self) -> &Use {
        self.link.memory()
    }

    fn is_given_up(&self, away: bool) -> bool {
        self.link.is_given_up(away)
    }

    fn let_in(&mut self, volume: &Volume, remembered: bool, access: Access) {
        self.protocol.let_in(&mut self.link.machine, volume, remembered);
        self.access = Some(access);
        self.login = Some(volume.id);
    }

    fn turn_away(&mut self, why: Refused, text: String) -> bool {
        self.protocol.turn_away(&mut self.link.machine, why, text)
    }

    fn proved(&mut self, who: Who, proof: Option<Vec<u8>>) {
        self.link.who = Arc::new(who);
        self.protocol.proved(&mut self.link.machine, proof);
    }

    fn disproved(&mut self, was_judged: bool) {
        self.protocol.disproved(&mut self.link.machine, was_judged);
    }

    fn answer(&mut self, number: u64, result: Result<HostData, Failure>) -> Option<String> {
        self.link.ended(number);
        let failure = self.protocol.answer(&mut self.link.machine, number, result);
        // What else it has to ask for is heard without anything being received.
        self.link.stalled |= self.link.machine.has_more();
        self.link.count_memory();
        if failure == self.last_failure {
            return None;
        }
        self.last_failure = failure;
        let text = self.last_failure.as_ref()?;
        Some(format!("a request of {} failed: {text}", self.link.peer))
    }

    fn reserved(&mut self, number: u64, result: Result<ReservationOutcome, HostError>) {
        self.link.ended(number);
        self.protocol.reserved(&mut self.link.machine, number, result);
        self.link.stalled |= self.link.machine.has_more();
    }

    fn registrants(&mut self, number: u64, volume: Result<&Volume, HostError>) {
        self.link.ended(number);
        self.protocol.registrants(&mut self.link.machine, number, volume);
        self.link.stalled |= self.link.machine.has_more();
    }

    fn look_at(&mut self, volume: &Volume) {
        self.protocol.look_at(&mut self.link.machine, volume);
    }

    fn registrant(&self) -> Option<Arc<Registrant>> {
        self.protocol.registrant()
    }

    fn send(&mut self) -> Result<(), End> {
        self.link.send()
    }

    fn part(&mut self, how: Parting) -> bool {
        self.protocol.part(&mut self.link.machine, how)
    }

    fn is_heard_out(&self) -> bool {
        self.protocol.is_heard_out()
    }

    fn has_moved(&self) -> bool {
        self.protocol.has_moved()
    }

    fn is_idle(&self) -> bool {
        self.link.is_idle()
    }

    fn volume(&self) -> Option<VolumeId> {
        self.protocol.volume()
    }

    fn host(&self) -> Option<HostId> {
        self.protocol.host()
    }

    fn name(&self) -> Option<&str> {
        self.protocol.name()
    }

    fn is_numbered(&self) -> bool {
        P::IS_NUMBERED
    }

    fn node(&self) -> usize {
        self.node
    }

    fn protocol(&self) -> &'static str {
        P::KEY
    }

    fn peer(&self) -> &str {
        &self.link.peer
    }

    fn who(&self) -> &Arc<Who> {
        &self.link.who
    }

    fn is_secured(&self) -> bool {
        self.link.is_secured()
    }

    fn user(&self) -> Option<u32> {
        self.link.stream.user()
    }

    fn access(&self) -> Option<Access> {
        self.access
    }

    fn take_login(&mut self) -> Option<VolumeId> {
        self.login.take()
    }

    fn is_new(&self) -> bool {
        self.link.machine.awaits() == Awaits::Greeting
    }

    fn hold_back(&mut self, holds: bool) -> bool {
        self.link.hold_back(holds)
    }

    fn keeps_memory(&self, limit: Duration, now: Instant) -> Option<String> {
        self.link.keeps_memory(limit, now)
    }

    fn check_receive_timeout(&mut self, now: Instant) -> &ReceiveTimeout {
        self.link.check_receive_timeout(now);
        &self.link.receive_timeout
    }

    fn leave_room(&mut self, conn: usize, room: &mut Room) {
        self.link.leave_room(conn, room);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use weft_core::cluster::ClusterMap;
    use weft_core::layout::{Geometry, LayoutSpec};
    use weft_front::native::client::{Client, Event};
    use weft_front::native::{Code, Hello, NumberedRequest, Verb};

    use super::*;
    use crate::sessions::budget::Budget;
    use crate::sessions::native::Native;
    use crate::socket::Stream;

    const COME: Ready = Ready { readable: true, writable: true, ended: false };

    /// A host, and its connection to a process with one volume.
    struct World {
        map: ClusterMap,
        connection: Connection<Native>,
        host: Client,
        socket: UnixStream,
    }

    fn world_before() -> World {
        let spec = LayoutSpec::default();
        let geometry = Geometry::new(spec.over(3).unwrap(), 1 << 20);
        let volume = Arc::new(Volume::new(VolumeId(1), "v", 0, &spec, geometry, Vec::new()));
        let volumes = [(VolumeId(1), volume.clone())].into();
        let map = ClusterMap { volumes, ..ClusterMap::default() };
        let (ours, socket) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let arrival = Arrival {
            stream: Stream::Unix(mio::net::UnixStream::from_std(ours)),
            peer: String::new(),
            node: 0,
            memory: Use::new(&Budget::new(1 << 30)),
            portals: Vec::new(),
            elsewhere: Vec::new(),
            door: Door::default(),
            volume: None,
            watch: None,
        };
        let hello =
            Hello { from: 1, to: 1, host: 7, oldest: 1, resumes: false, volume: "v".to_string() };
        let host = Client::new(&hello);
        World { map, connection: Connection::new(arrival), host, socket }
    }

    /// The same when the host has been let in.
    fn world() -> World {
        let mut world = world_before();
        assert!(matches!(&world.say()[..], [Said::Attach(_)]));
        let volume = world.map.volumes[&VolumeId(1)].clone();
        world.connection.let_in(&volume, false, Access::Full);
        world
    }

    impl World {
        /// What the process takes of what the host says.
        fn say(&mut self) -> Vec<Said> {
            self.say_at_most(usize::MAX)
        }

        fn say_at_most(&mut self, most: usize) -> Vec<Said> {
            while self.host.output_len() > 0 {
                let bytes: Vec<u8> = self.host.output().flatten().copied().collect();
                self.socket.write_all(&bytes).unwrap();
                self.host.sent(bytes.len());
            }
            let (mut said, mut room) = (Vec::new(), Room::new(1 << 30));
            self.connection.ready(COME);
            let exports = Exports::of(&self.map);
            let turn = Turn { conn: 0, room: &mut room, most };
            assert!(self.connection.receive(exports, &mut said, turn).is_ok());
            said
        }

        fn ask(&mut self, number: u64, verb: Verb, length: u64) {
            self.host.request(&NumberedRequest {
                verb,
                flags: 0,
                number,
                oldest: 1,
                offset: 0,
                length,
                after: Vec::new(),
                data: Vec::new().into(),
            });
        }

        /// The answers that have reached the host.
        fn hear(&mut self) -> Vec<(u64, Code)> {
            use std::io::Read;
            assert!(self.connection.send().is_ok());
            self.socket.set_nonblocking(true).unwrap();
            while let Ok(n) = self.socket.read(self.host.space()) {
                self.host.filled(n);
            }
            self.socket.set_nonblocking(false).unwrap();
            let mut answers = Vec::new();
            while let Some(event) = self.host.poll().unwrap() {
                if let Event::Answer(answer) = event {
                    answers.push((answer.number, answer.code));
                }
            }
            answers
        }
    }

    /// What a host sends before it is let in stays in the socket, and is heard then.
    #[test]
    fn nothing_is_received_from_a_host_that_waits_to_be_let_in() {
        let mut w = world_before();
        assert!(matches!(&w.say()[..], [Said::Attach(_)]));
        w.ask(1, Verb::Flush, 0);
        assert!(w.say().is_empty() && !w.connection.wants_to_receive());
        assert_eq!(w.connection.link.machine.incoming(), 0);
        let volume = w.map.volumes[&VolumeId(1)].clone();
        w.connection.let_in(&volume, false, Access::Full);
        assert!(w.connection.wants_to_receive());
        assert!(matches!(&w.say()[..], [Said::Ask(asked)] if asked.number == 1));
    }

    #[test]
    fn a_host_says_no_more_at_once_than_it_may_and_the_rest_later() {
        let mut w = world();
        (1..=5).for_each(|number| w.ask(number, Verb::Flush, 0));
        let mut taken = Vec::new();
        for expected in [2, 2, 1, 0] {
            let said = w.say_at_most(2);
            assert_eq!(said.len(), expected);
            assert_eq!(w.connection.wants_to_receive(), expected == 2, "after {expected}");
            for said in said {
                let Said::Ask(asked) = said else { panic!("it only asks") };
                taken.push(asked.number);
            }
        }
        assert_eq!(taken, [1, 2, 3, 4, 5]);
    }

    #[test]
    fn a_host_that_is_held_back_is_heard_later() {
        let mut w = world();
        w.ask(1, Verb::Flush, 0);
        assert_eq!(w.say().len(), 1);
        assert!(w.connection.hold_back(true));
        w.ask(2, Verb::Flush, 0);
        assert!(w.say().is_empty() && !w.connection.wants_to_receive());
        assert!(!w.connection.hold_back(false));
        assert!(w.connection.wants_to_receive());
        assert!(matches!(&w.say()[..], [Said::Ask(asked)] if asked.number == 2));
    }

    /// Otherwise a host could have any number of reads in work, and their answers in memory.
    #[test]
    fn a_request_with_the_number_of_another_ends_nothing() {
        let mut w = world();
        w.ask(1, Verb::Read, 8 << 20);
        w.ask(1, Verb::Flush, 0);
        w.ask(2, Verb::Read, 8 << 20);
        w.ask(3, Verb::Read, 8 << 20);
        let mut taken = Vec::new();
        for said in w.say() {
            let Said::Ask(asked) = said else { panic!("it only asks") };
            if taken.contains(&asked.number) {
                // So does what knows of all requests of the host.
                let reused = PlaceError::Reused(RequestId { host: HostId(7), number: 1 });
                w.connection.answer(asked.number, Err(reused.into()));
            }
            taken.push(asked.number);
        }
        assert!(w.connection.link.is_full(), "16 MiB are in work");
        assert_eq!(taken, [1, 2]);
        assert_eq!(w.hear(), [(1, Code::Reused)]);
        w.connection.answer(1, Ok(HostData::Done));
        assert!(!w.connection.link.is_full() && w.connection.link.has_in_work(2));
    }
}
