//! All connections of hosts: which may have something to say, or are to be told something; the room that they share
//! for requests that have not come whole; and which of them keep us waiting.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::{Duration, Instant};

use weft_core::cluster::{Access, ClusterMap, ReservationOutcome, Volume};
use weft_core::node::{HostData, HostError};
use weft_core::units::VolumeId;

use super::link::End;
use super::numbered::Failure;
use super::room::Room;
use super::{Parting, Refused, Said, Session, Turn};
use crate::doors::who::Who;
use crate::limits::Limits;
use crate::socket::Ready;
use crate::volumes::Exports;

/// How often one looks which hosts keep us waiting for too long, while any does.
const LOOKS: Duration = Duration::from_millis(500);

/// Hosts' connections, by number.
pub(crate) struct Connections {
    sessions: HashMap<usize, Box<dyn Session>>,
    /// Those that may have something to say.
    to_receive: BTreeSet<usize>,
    /// Those that have something to be told.
    to_send: BTreeSet<usize>,
    /// Room for requests that have not come whole.
    room: Room,
    /// Those that have a request that waits for memory, the first to come first.
    to_have_memory: VecDeque<usize>,
    /// The first of these that nothing else hinders.
    first: Option<usize>,
    /// Those that are not heard while many requests for their volume wait for overlapping ones: they have asked for such.
    held_back: BTreeSet<usize>,
    /// When to look at those that keep us waiting, if any does.
    waited_for: Option<Instant>,
    limits: Limits,
}

impl Connections {
    /// None yet; they may take so much.
    pub(crate) fn new(limits: Limits) -> Connections {
        Connections {
            sessions: HashMap::new(),
            to_receive: BTreeSet::new(),
            to_send: BTreeSet::new(),
            room: Room::new(limits.incomplete),
            to_have_memory: VecDeque::new(),
            first: None,
            held_back: BTreeSet::new(),
            waited_for: None,
            limits,
        }
    }

    /// A connection has come in.
    pub(crate) fn add(&mut self, id: usize, session: Box<dyn Session>) {
        self.sessions.insert(id, session);
        self.to_receive.insert(id);
    }

    /// It is over.
    pub(crate) fn remove(&mut self, id: usize) -> Option<Box<dyn Session>> {
        let mut session = self.sessions.remove(&id)?;
        session.leave_room(id, &mut self.room);
        self.to_have_memory.retain(|waits| *waits != id);
        self.held_back.remove(&id);
        Some(session)
    }

    /// One of them.
    pub(crate) fn get(&self, id: usize) -> Option<&dyn Session> {
        self.sessions.get(&id).map(|session| &**session)
    }

    /// Whether there is one of this number.
    pub(crate) fn has(&self, id: usize) -> bool {
        self.sessions.contains_key(&id)
    }

    /// Those that are such.
    pub(crate) fn such(&self, is: impl Fn(&dyn Session) -> bool) -> Vec<usize> {
        self.sessions.iter().filter(|(_, session)| is(&***session)).map(|(id, _)| *id).collect()
    }

    /// All of them, by number.
    pub(crate) fn all(&self) -> Vec<&dyn Session> {
        let mut all: Vec<_> = self.sessions.iter().collect();
        all.sort_by_key(|(id, _)| **id);
        all.into_iter().map(|(_, session)| &**session).collect()
    }

    /// How many use a volume.
    pub(crate) fn users_of(&self, volume: VolumeId) -> usize {
        self.sessions.values().filter(|session| session.volume() == Some(volume)).count()
    }

    /// Takes note of what the poll says. Says whether there is such a connection.
    pub(crate) fn ready(&mut self, id: usize, ready: Ready) -> bool {
        let Some(session) = self.sessions.get_mut(&id) else { return false };
        session.ready(ready);
        self.to_send.insert(id);
        if session.wants_to_receive() {
            self.to_receive.insert(id);
        }
        true
    }

    /// Whether any may have something to say.
    pub(crate) fn has_to_receive(&self) -> bool {
        !self.to_receive.is_empty()
    }

    /// Takes those that may have something to say.
    pub(crate) fn take_to_receive(&mut self) -> BTreeSet<usize> {
        std::mem::take(&mut self.to_receive)
    }

    /// Asks all hosts to leave, if they have not been asked. Returns how many have yet to.
    pub(crate) fn ask_to_leave(&mut self, within: Duration) -> usize {
        let mut stay = 0;
        for (id, session) in &mut self.sessions {
            if session.part(Parting::Asked(within)) {
                self.to_send.insert(*id);
                stay += 1;
            }
        }
        stay
    }

    /// A connection is about to be closed: its host is told, if the socket takes that at once.
    pub(crate) fn part(&mut self, id: usize) {
        if let Some(session) = self.sessions.get_mut(&id) {
            session.part(Parting::Now);
            let _ = session.send();
        }
    }

    /// One that waited for room, and may have found some.
    pub(crate) fn next_with_room(&mut self) -> Option<usize> {
        self.room.next()
    }

    /// Appends what one says.
    pub(crate) fn receive(
        &mut self,
        id: usize,
        exports: Exports<'_>,
        said: &mut Vec<Said>,
        most: usize,
    ) -> Result<(), End> {
        self.to_send.insert(id);
        let Some(session) = self.sessions.get_mut(&id) else { return Ok(()) };
        let turn = Turn { conn: id, room: &mut self.room, most };
        let received = session.receive(exports, said, turn);
        if session.waits_for_memory().is_some() && !self.to_have_memory.contains(&id) {
            self.to_have_memory.push_back(id);
            self.waited_for.get_or_insert_with(|| Instant::now() + LOOKS);
        }
        received
    }

    /// One is not heard for a while.
    pub(crate) fn hold_back(&mut self, id: usize) {
        if self.sessions.get_mut(&id).is_some_and(|session| session.hold_back(true)) {
            self.held_back.insert(id);
        }
    }

    /// Those that were held back are heard again if their volume is free. Returns those that have ended meanwhile.
    pub(crate) fn follow_held_back(&mut self, is_free: impl Fn(VolumeId) -> bool) -> Vec<usize> {
        let mut ended = Vec::new();
        for id in std::mem::take(&mut self.held_back) {
            let Some(session) = self.sessions.get_mut(&id) else { continue };
            if session.is_given_up(false) {
                ended.push(id);
            } else if session.volume().is_none_or(&is_free) {
                session.hold_back(false);
                self.to_receive.insert(id);
            } else {
                self.held_back.insert(id);
            }
        }
        ended
    }

    /// A host may use a volume.
    pub(crate) fn let_in(&mut self, id: usize, volume: &Volume, remembered: bool, access: Access) {
        if let Some(session) = self.sessions.get_mut(&id) {
            session.let_in(volume, remembered, access);
        }
        self.is_told(id);
    }

    /// A host may not use the volume that it wants. Says whether that is for the log.
    pub(crate) fn turn_away(&mut self, id: usize, why: Refused, text: String) -> bool {
        self.is_told(id);
        self.sessions.get_mut(&id).is_some_and(|session| session.turn_away(why, text))
    }

    /// A host is who it claims to be.
    pub(crate) fn proved(&mut self, id: usize, who: Who, proof: Option<Vec<u8>>) {
        if let Some(session) = self.sessions.get_mut(&id) {
            session.proved(who, proof);
        }
        self.is_told(id);
    }

    /// A host is not believed, or not judged now.
    pub(crate) fn disproved(&mut self, id: usize, was_judged: bool) {
        if let Some(session) = self.sessions.get_mut(&id) {
            session.disproved(was_judged);
        }
        self.is_told(id);
    }

    /// What one has for the log, said once.
    pub(crate) fn take_complaint(&mut self, id: usize) -> Option<String> {
        self.sessions.get_mut(&id)?.take_complaint()
    }

    /// The volume that one has begun to use, said once.
    pub(crate) fn take_login(&mut self, id: usize) -> Option<VolumeId> {
        self.sessions.get_mut(&id)?.take_login()
    }

    /// There is something to say to a host, and it may say more.
    fn is_told(&mut self, id: usize) {
        self.to_receive.insert(id);
        self.to_send.insert(id);
    }

    /// Answers a request. Says what to log, if anything.
    pub(crate) fn answer(
        &mut self,
        id: usize,
        number: u64,
        result: Result<HostData, Failure>,
    ) -> Option<String> {
        let session = self.sessions.get_mut(&id)?;
        self.to_send.insert(id);
        session.answer(number, result)
    }

    /// Says what became of a reservation.
    pub(crate) fn reserved(
        &mut self,
        id: usize,
        number: u64,
        result: Result<ReservationOutcome, HostError>,
    ) {
        if let Some(session) = self.sessions.get_mut(&id) {
            self.to_send.insert(id);
            session.reserved(number, result);
        }
    }

    /// Reports the registrants of the volume of one, or that they are not known now.
    pub(crate) fn registrants(
        &mut self,
        id: usize,
        number: u64,
        volume: Result<&Volume, HostError>,
    ) {
        if let Some(session) = self.sessions.get_mut(&id) {
            self.to_send.insert(id);
            session.registrants(number, volume);
        }
    }

    /// The map has changed: hosts may have to be told of it.
    pub(crate) fn look_at(&mut self, map: &ClusterMap) {
        for session in self.sessions.values_mut() {
            if let Some(volume) = session.volume().and_then(|v| map.volumes.get(&v)) {
                session.look_at(volume);
            }
        }
    }

    /// Writes to those that have something to be told; they may then say more. Returns those that end.
    pub(crate) fn send(&mut self) -> Vec<(usize, End)> {
        let mut over = Vec::new();
        for id in std::mem::take(&mut self.to_send) {
            let Some(session) = self.sessions.get_mut(&id) else { continue };
            match session.send() {
                Ok(()) if session.wants_to_receive() => drop(self.to_receive.insert(id)),
                Ok(()) => {}
                Err(end) => over.push((id, end)),
            }
        }
        over
    }

    /// The first that waits for memory, and for nothing else, goes on if there is enough by now.
    pub(crate) fn give_memory(&mut self) {
        let of = |id: &usize| self.sessions.get(id).and_then(|s| s.waits_for_memory());
        self.to_have_memory.retain(|id| of(id).is_some());
        let first = self.to_have_memory.iter().find(|id| of(id) == Some(true)).copied();
        if first != self.first
            && let Some(session) = self.first.and_then(|id| self.sessions.get(&id))
        {
            session.memory().is_not_first();
        }
        self.first = first;
        let Some(id) = first else { return };
        self.sessions[&id].memory().is_first();
        if self.sessions[&id].wants_to_receive() {
            self.to_receive.insert(id);
        }
    }

    /// Takes note of whether one keeps us waiting.
    pub(crate) fn check_receive_timeout(&mut self, id: usize, now: Instant) {
        if let Some(session) = self.sessions.get_mut(&id)
            && session.check_receive_timeout(now).is_tried()
        {
            self.waited_for.get_or_insert(now + LOOKS);
        }
    }

    /// How long until one looks which keep us waiting for too long.
    pub(crate) fn patience_due(&self) -> Option<Duration> {
        self.waited_for.map(|at| at.saturating_duration_since(Instant::now()))
    }

    /// Those that have kept us waiting for too long, if it is time to look.
    pub(crate) fn out_of_patience(&mut self, now: Instant) -> Vec<(usize, End)> {
        if self.waited_for.is_none_or(|at| now < at) {
            return Vec::new();
        }
        let lacks_memory = !self.to_have_memory.is_empty();
        let (mut over, mut tried) = (Vec::new(), lacks_memory);
        for (id, session) in &mut self.sessions {
            let receive_timeout = session.check_receive_timeout(now);
            tried |= receive_timeout.is_tried();
            let late = receive_timeout.is_over(&self.limits, now);
            let keeps = || session.keeps_memory(self.limits.request, now).filter(|_| lacks_memory);
            if let Some(why) = late.or_else(keeps) {
                let why = format!("connection of {}: {why}", session.peer());
                over.push((*id, End::Failed(why)));
            }
        }
        self.waited_for = tried.then_some(now + LOOKS);
        over
    }
}
