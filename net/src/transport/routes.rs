//! Ways round broken links: the router, and the circuits that it opens, as connections.
//!
//! A circuit is a connection like any other once it is there: TLS and hello go over it, and then what the
//! owner sends. The node with the higher number opens it, as it dials.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use mio::Token;
use rustls::Connection;
use weft_core::units::{Nanos, NodeId};
use weft_route::{Circuit, Output, SILENT_TICKS, Way, Why, Word};

use super::driver::Driver;
use super::link::{Link, State};
use super::pipe::{Pipe, Wire};
use super::stream::Stream;
use super::{Event, Lost};

/// How long a peer stays up that a circuit was lost to: that says nothing of the peer.
const GRACE: Duration = Duration::from_secs(1);

/// For how many ticks a connection is kept for which there is a better one.
const SPARE: u32 = 10;

/// Every so many ticks it is looked whether there is a shorter path than a circuit's.
const REROUTE: u32 = 50;

/// The most words of circuits that wait for a connection.
const MOST_WAITING: usize = 1 << 15;

/// Why a circuit has ended.
pub(super) fn words(why: Why) -> &'static str {
    match why {
        Why::Ended => "the other side ended it",
        Why::Broken => "a connection on the path carries nothing",
        Why::Gone => "its far end is disconnected",
        Why::Refused => "it was refused",
        Why::Spoiled => "a frame arrived out of order",
    }
}

impl Driver {
    pub(super) fn nanos(&self, now: Instant) -> Nanos {
        now.saturating_duration_since(self.started).as_nanos() as Nanos
    }

    /// Does what the router wants.
    pub(super) fn route(&mut self, now: Instant, out: Vec<Output>) {
        for output in out {
            match output {
                Output::Send(to, word) => self.say(now, to, &word),
                Output::Opened { circuit, path, .. } => self.admit_circuit(circuit, path, now),
                Output::Came { circuit, bytes, .. } => {
                    self.of_circuit(circuit, |link, pipe| {
                        pipe.incoming.push_back(bytes);
                        link.1 = true;
                    });
                }
                Output::Room(circuit) => {
                    let room = self.router.room(circuit);
                    self.of_circuit(circuit, |link, pipe| {
                        pipe.room = room;
                        link.0 = true;
                    });
                }
                Output::Closed { circuit, why } => {
                    if let Some(token) = self.circuits.remove(&circuit)
                        && let Some(link) = self.links.get_mut(&token)
                    {
                        (link.ended, link.readable) = (Some(why), true);
                        link.stream.pipe().into_iter().for_each(|p| p.closed = true);
                        self.work.insert(token);
                    }
                }
            }
        }
    }

    /// Changes the pipe of a circuit; what it is told may be written or read then.
    fn of_circuit(&mut self, circuit: Circuit, change: impl FnOnce(&mut (bool, bool), &mut Pipe)) {
        let Some(token) = self.circuits.get(&circuit) else { return };
        let Some(link) = self.links.get_mut(token) else { return };
        let mut ready = (link.writable, link.readable);
        if let Some(pipe) = link.stream.pipe() {
            change(&mut ready, pipe);
        }
        (link.writable, link.readable) = ready;
        self.work.insert(*token);
    }

    /// Says a word to a neighbour.
    fn say(&mut self, now: Instant, to: NodeId, word: &Word) {
        let Some(token) = self.peers.get(&to).and_then(|k| k.direct) else { return };
        let Some(link) = self.links.get_mut(&token).filter(|l| l.is_up()) else { return };
        let frame = word.encode();
        self.work.insert(token);
        let waiting = match word {
            Word::Here { .. } | Word::LinkState(_) => return link.queue(frame),
            _ => link.relay(frame),
        };
        match word {
            // An end that sends its window in crumbs.
            Word::Carry { circuit, .. } if waiting > MOST_WAITING => {
                let mut out = Vec::new();
                self.router.overflow(to, *circuit, &mut out);
                self.route(now, out);
            }
            _ if waiting > 2 * MOST_WAITING => self.lose(token, Lost::Mute, now),
            _ => {}
        }
    }

    /// A word has come over a connection to a neighbour, or over a circuit.
    pub(super) fn hear(&mut self, token: Token, peer: NodeId, word: Word, now: Instant) {
        let direct = self.peers.get(&peer).and_then(|k| k.direct) == Some(token);
        if direct {
            let (at, mut out) = (self.nanos(now), Vec::new());
            self.router.said(at, peer, word, &mut out);
            self.route(now, out);
        }
    }

    /// What a connection over a circuit has written goes its way, and what it has read is told.
    pub(super) fn pump(&mut self, token: Token, now: Instant) {
        let Some(link) = self.links.get_mut(&token) else { return };
        let Some(pipe) = link.stream.pipe() else { return };
        let (circuit, taken) = (pipe.circuit, std::mem::take(&mut pipe.taken));
        let outgoing = std::mem::take(&mut pipe.outgoing);
        let mut out = Vec::new();
        outgoing.into_iter().for_each(|bytes| self.router.carry(circuit, bytes, &mut out));
        if taken > 0 {
            self.router.take(circuit, taken, &mut out);
        }
        self.route(now, out);
    }

    /// A circuit is no connection's any more.
    pub(super) fn end_circuit(&mut self, circuit: Circuit, now: Instant) {
        if self.circuits.remove(&circuit).is_some() {
            let mut out = Vec::new();
            self.router.close(circuit, &mut out);
            self.route(now, out);
        }
    }

    /// Does what is to be done at each tick: says that we are here, and looks which way is best.
    pub(super) fn steer(&mut self, now: Instant) {
        let at = self.nanos(now);
        if at < self.router.due() {
            return;
        }
        if self.shared.is_paused() {
            // What is not read cannot be heard.
            let direct: Vec<NodeId> = self.peers.keys().copied().collect();
            direct.into_iter().for_each(|p| self.router.heard(p));
            self.links.values_mut().for_each(|l| l.missed = 0);
        }
        let mut out = Vec::new();
        self.router.tick(at, &mut out);
        self.route(now, out);
        for peer in self.peers.keys().copied().collect::<Vec<_>>() {
            self.look_after_circuit(peer, now);
            self.look_after_near(peer, now);
            self.choose(peer);
            self.drop_spare(peer, now);
            self.tell_what_came(peer);
            self.look_after_orphan(peer, now);
            self.open_circuit(peer, now);
            self.dial_near(peer, now);
        }
    }

    /// Says over a circuit that we are here, and gives it up if nothing comes.
    fn look_after_circuit(&mut self, peer: NodeId, now: Instant) {
        let Some(token) = self.peers.get(&peer).and_then(|k| k.circuit) else { return };
        let Some(link) = self.links.get_mut(&token).filter(|l| l.is_up()) else { return };
        link.missed += 1;
        if link.missed > SILENT_TICKS + 1 {
            return self.lose(token, Lost::Mute, now);
        }
        link.queue(Word::Here { hears: true, digest: 0 }.encode());
        self.work.insert(token);
        link.age += 1;
        let (looks, long) = (link.age % REROUTE == 0 && self.us.node > peer, link.path.len());
        if looks && matches!(self.router.way(peer), Way::Through(path) if path.len() < long) {
            self.lose(token, Lost::Spare, now);
        }
    }

    /// Has the frames for a peer go over the best connection that there is.
    pub(super) fn choose(&mut self, peer: NodeId) {
        let is_up = |t: &Token| self.links.get(t).is_some_and(Link::is_up);
        let Some(known) = self.peers.get_mut(&peer) else { return };
        let (direct, circuit) = (known.direct.filter(is_up), known.circuit.filter(is_up));
        let best = match (direct, circuit) {
            (Some(direct), _) if self.router.is_good(peer) => direct,
            (_, Some(circuit)) => circuit,
            (Some(direct), None) => direct,
            (None, None) => return,
        };
        if let Some(session) = known.session.as_mut().filter(|s| s.carrier != best) {
            session.move_to(best);
            self.work.insert(best);
        }
    }

    /// Ends the connection of two that is not used, if it has not been for a while: the circuit when the direct one
    /// is good, and the direct one when nothing comes over it, to be dialled anew.
    fn drop_spare(&mut self, peer: NodeId, now: Instant) {
        let is_up = |t: &Token| self.links.get(t).is_some_and(Link::is_up);
        let Some(known) = self.peers.get(&peer) else { return };
        let (Some(direct), Some(circuit)) = (known.direct, known.circuit) else { return };
        if !is_up(&direct) || !is_up(&circuit) {
            return;
        }
        let (spare, why) = match (self.router.is_good(peer), self.router.is_bad(peer)) {
            (true, _) if self.us.node > peer => (circuit, Lost::Spare),
            (_, true) => (direct, Lost::Mute),
            _ => return,
        };
        let Some(link) = self.links.get_mut(&spare) else { return };
        link.spare += 1;
        if link.spare > SPARE {
            self.lose(spare, why, now);
        }
    }

    fn tell_what_came(&mut self, peer: NodeId) {
        let Some(session) = self.peers.get_mut(&peer).and_then(|k| k.session.as_mut()) else {
            return;
        };
        let carrier = session.carrier;
        let Some(link) = self.links.get_mut(&carrier).filter(|l| l.is_up()) else { return };
        if let Some(told) = session.tells(true) {
            link.queue(told);
            self.work.insert(carrier);
        }
    }

    fn look_after_orphan(&mut self, peer: NodeId, now: Instant) {
        let orphaned = self.peers.get(&peer).and_then(|k| k.session.as_ref()?.orphaned);
        if orphaned.is_some_and(|at| now.saturating_duration_since(at) >= GRACE) {
            self.end_session(peer, Lost::Mute, now);
        }
    }

    /// Opens a circuit to a peer, if that is ours to do, there is none, and it is the best way.
    fn open_circuit(&mut self, peer: NodeId, now: Instant) {
        let Some(known) = self.peers.get(&peer) else { return };
        let due = known.circuit_at.is_none_or(|at| at <= now);
        if self.us.node < peer || known.circuit.is_some() || !due || known.retired {
            return;
        }
        let (name, mut out) = (known.peer.name.clone(), Vec::new());
        let Some((circuit, path)) = self.router.open(peer, &mut out) else { return };
        if let Some(known) = self.peers.get_mut(&peer) {
            known.circuit_at = Some(now + self.config.limits.longest_pause);
        }
        match self.dialling_tls(&name) {
            Ok(tls) => {
                let token = self.add_circuit(circuit, tls, Some(peer), path, now);
                if let Some(known) = self.peers.get_mut(&peer) {
                    known.circuit = Some(token);
                }
                self.greet(token);
                self.work.insert(token);
            }
            Err(_) => self.router.close(circuit, &mut out),
        }
        self.route(now, out);
    }

    /// Somebody has opened a circuit to us.
    fn admit_circuit(&mut self, circuit: Circuit, path: Vec<NodeId>, now: Instant) {
        self.expect_stranger(now);
        match self.answering_tls() {
            Ok(tls) => drop(self.add_circuit(circuit, tls, None, path, now)),
            Err(_) => {
                let mut out = Vec::new();
                self.router.close(circuit, &mut out);
                self.route(now, out);
            }
        }
    }

    fn add_circuit(
        &mut self,
        circuit: Circuit,
        tls: Option<Connection>,
        dialled: Option<NodeId>,
        path: Vec<NodeId>,
        now: Instant,
    ) -> Token {
        let token = self.next_token();
        let relay = self.peers.get(&circuit.neighbour).and_then(|k| k.direct);
        let place = relay.and_then(|t| self.links.get(&t)).map(|l| l.place.clone());
        let place = place.unwrap_or(SocketAddr::from(([0, 0, 0, 0], 0)).into());
        let pipe = Pipe::new(circuit, self.router.room(circuit));
        let deadline = now + self.config.limits.handshake;
        let stream = Stream::new(Wire::Circuit(pipe), tls);
        let mut link = Link::new(stream, place, dialled, deadline);
        (link.state, link.writable, link.path) = (State::Greeting, true, path);
        self.links.insert(token, link);
        self.circuits.insert(circuit, token);
        token
    }

    /// A connection that was up is over: the session goes on over another, or waits for one, or ends.
    pub(super) fn part(
        &mut self,
        token: Token,
        peer: NodeId,
        number: u64,
        why: Lost,
        now: Instant,
    ) {
        let was_circuit = self.links.get(&token).is_some_and(Link::is_circuit);
        let gone = self.links.get(&token).is_some_and(|l| l.ended == Some(Why::Gone));
        // It is not among those that the end of a session ends.
        self.links.get_mut(&token).into_iter().for_each(|l| l.state = State::Leaving);
        let Some(known) = self.peers.get_mut(&peer) else { return };
        known.circuit.take_if(|t| *t == token);
        if known.direct.take_if(|t| *t == token).is_some() {
            let mut out = Vec::new();
            self.router.disconnected(peer, &mut out);
            if let Some(before) = known.near.before.take() {
                // Its other end never used the connection that took its place.
                known.direct = Some(before);
                let life = known.session.as_ref().map_or(0, |s| s.life);
                self.router.connected(self.nanos(now), peer, life, &mut out);
            }
            self.route(now, out);
        }
        let Some(known) = self.peers.get_mut(&peer) else { return };
        let others = [known.direct, known.circuit];
        let mut others = others.into_iter().flatten().filter(|t| *t != token);
        let other = others.find(|t| self.links.get(t).is_some_and(Link::is_up));
        let Some(session) = known.session.as_mut().filter(|s| s.number == number) else { return };
        match other {
            Some(other) if session.carrier == token => {
                session.move_to(other);
                self.work.insert(other);
            }
            Some(_) => {}
            None if was_circuit && !gone && why != Lost::Removed => {
                session.orphaned = Some(now);
            }
            None => self.end_session(peer, why, now),
        }
    }

    /// A session is over: the owner hears of it, and its connections end.
    pub(super) fn end_session(&mut self, peer: NodeId, why: Lost, now: Instant) {
        let Some(known) = self.peers.get_mut(&peer) else { return };
        let Some(session) = known.session.take() else { return };
        session.outbox.close();
        self.shared.deliver(Event::Down { peer, why: why.clone() }, None);
        let of_it = |l: &Link| matches!(l.state, State::Up { session: s, peer: p, .. } if s == session.number && p == peer);
        let links: Vec<Token> =
            self.links.iter().filter(|(_, l)| of_it(l)).map(|(t, _)| *t).collect();
        links.into_iter().for_each(|t| self.lose(t, why.clone(), now));
    }
}
