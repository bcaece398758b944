//! The handshake, and what frames mean before and after it.
//!
//! The one that dialled says hello first. The other checks it, says hello in its turn, and is up;
//! the dialler checks that, and is up too. Whoever is not content sends the reason and closes.

use std::sync::Arc;
use std::time::Instant;

use mio::Token;
use weft_core::units::NodeId;
use weft_route::Word;

use super::driver::Driver;
use super::hello::{HELLO, Hello, HelloError, REFUSED};
use super::link::State;
use super::local::LOCAL;
use super::queues::Outbox;
use super::session::{Came, FROM, HAD, Session, count};
use super::{Event, Lost};
use crate::frame::{FIRST_KIND, Frame, HEADER};

/// The kinds of frames that are the router's words.
const WORD: std::ops::RangeInclusive<u8> = 3..=8;

impl Driver {
    /// The socket that we dialled is connected: we say hello.
    pub(super) fn greet(&mut self, token: Token) {
        let dialled = self.links.get(&token).and_then(|l| l.dialled);
        let known = dialled.and_then(|d| self.peers.get(&d));
        let session = known.and_then(|k| k.session.as_ref()).map_or(0, |s| s.number);
        let hello = Hello { session, ..self.us.clone() }.encode();
        if let Some(link) = self.links.get_mut(&token) {
            link.state = State::Greeting;
            link.queue((HELLO, vec![hello]));
        }
    }

    /// A frame has come.
    pub(super) fn handle(&mut self, token: Token, frame: Frame, now: Instant) -> Result<(), Lost> {
        let Some(link) = self.links.get(&token) else { return Ok(()) };
        match (&link.state, frame.kind) {
            (State::Up { peer, session, .. }, FIRST_KIND.. | HAD | FROM) => {
                let (peer, session) = (*peer, *session);
                self.take(token, peer, session, frame)
            }
            (State::Up { peer, .. }, kind) if WORD.contains(&kind) => {
                let peer = *peer;
                let word = Word::decode(kind, &frame.payload).map_err(|_| Lost::Kind(kind))?;
                self.hear(token, peer, word, now);
                Ok(())
            }
            (State::Up { peer, .. }, LOCAL) => {
                let peer = *peer;
                self.told_place(token, peer, &frame.payload, now)
            }
            (State::Greeting | State::Up { .. }, REFUSED) => {
                Err(Lost::Refused(String::from_utf8_lossy(&frame.payload).into_owned()))
            }
            (State::Greeting, HELLO) => {
                let hello = Hello::decode(&frame.payload)?;
                self.check(token, &hello)?;
                self.welcome(token, &hello, now);
                Ok(())
            }
            // What was refused is not listened to.
            (State::Leaving, _) => Ok(()),
            (_, kind) => Err(Lost::Kind(kind)),
        }
    }

    /// A frame of a session has come.
    fn take(&mut self, token: Token, peer: NodeId, number: u64, frame: Frame) -> Result<(), Lost> {
        let Some(link) = self.links.get_mut(&token) else { return Ok(()) };
        let session = self.peers.get_mut(&peer).and_then(|k| k.session.as_mut());
        let Some(session) = session.filter(|s| s.number == number) else { return Ok(()) };
        match frame.kind {
            HAD => {
                if session.has_had(count(&frame.payload)?)? {
                    self.shared.deliver(Event::Room { peer }, None);
                }
                self.work.insert(session.carrier);
            }
            FROM => link.cursor = Some(session.begins(count(&frame.payload)?)?),
            kind => {
                let cursor = link.cursor.as_mut().ok_or(Lost::Kind(kind))?;
                let came = session.came(*cursor, HEADER + frame.payload.len());
                *cursor += 1;
                link.spare = 0;
                if let Some(told) = session.tells(false) {
                    link.queue(told);
                }
                if came == Came::Next {
                    self.shared.deliver(Event::Received { peer, frame }, None);
                }
            }
        }
        Ok(())
    }

    fn check(&self, token: Token, hello: &Hello) -> Result<(), Lost> {
        let Some(link) = self.links.get(&token) else { return Ok(()) };
        let shown = link.stream.shown()?;
        if let Some(other) = shown.as_ref().filter(|s| s.cluster != self.us.cluster) {
            let (theirs, ours) = (other.cluster, self.us.cluster);
            return Err(HelloError::OtherCluster { theirs, ours }.into());
        }
        let listed = self.peers.get(&hello.node).filter(|k| !k.retired).map(|k| &k.peer);
        let shown_name = shown.as_ref().map(|s| &s.name);
        hello.check(&self.us, shown_name, link.dialled, listed.map(|p| &p.name))?;
        if let (Some(shown), Some(admitted)) = (&shown, listed.and_then(|p| p.key))
            && shown.key != admitted
        {
            let (number, name) = (hello.node.0, hello.name.clone());
            return Err(HelloError::OtherKey { number, name }.into());
        }
        let session = self.peers.get(&hello.node).and_then(|k| k.session.as_ref());
        match session.is_some_and(|s| s.is(hello.session, hello.life)) || !link.is_near() {
            true => Ok(()),
            false => Err(HelloError::NoSession.into()),
        }
    }

    /// The other side is who it should be: its session goes on, or another begins.
    fn welcome(&mut self, token: Token, hello: &Hello, now: Instant) {
        let peer: NodeId = hello.node;
        let Some(link) = self.links.get(&token) else { return };
        let (dialled, is_circuit) = (link.dialled.is_some(), link.is_circuit());
        let session = self.peers.get(&peer).and_then(|k| k.session.as_ref());
        let goes_on = session.is_some_and(|s| s.is(hello.session, hello.life));
        let is_near = link.is_near();
        if !goes_on {
            self.end_session(peer, Lost::Replaced, now);
        }
        // The one that was dialled names it.
        let number = if goes_on || dialled { hello.session } else { self.next_session() };
        let ours = Hello { session: number, ..self.us.clone() }.encode();
        let place = self.place().filter(|_| !dialled && !is_near && !is_circuit);
        let (Some(link), Some(known)) = (self.links.get_mut(&token), self.peers.get_mut(&peer))
        else {
            return;
        };
        let held = if is_circuit { &mut known.circuit } else { &mut known.direct };
        let mut earlier = held.replace(token).filter(|t| *t != token);
        if is_near {
            known.near.dialled = None;
            // The dialler ends it, when it has heard that this one is up.
            known.near.before = earlier.take_if(|_| !dialled);
        }
        if !dialled {
            link.queue((HELLO, vec![ours]));
        }
        place.into_iter().for_each(|place| link.queue(place));
        link.state = State::Up { peer, session: number, since: now };
        if !goes_on {
            let outbox = Arc::new(Outbox::new(peer, self.config.limits.queue_bytes));
            let session = Session::new(number, hello.life, outbox.clone(), token);
            known.session = Some(session);
            self.shared.deliver(Event::Up { peer, life: hello.life }, Some(outbox));
        } else if let Some(session) = known.session.as_mut().filter(|s| s.orphaned.is_some()) {
            session.move_to(token);
        }
        earlier.into_iter().for_each(|t| self.lose(t, Lost::Replaced, now));
        if !is_circuit {
            let (at, mut out) = (self.nanos(now), Vec::new());
            self.router.connected(at, peer, hello.life, &mut out);
            self.route(now, out);
        }
        self.choose(peer);
        self.work.insert(token);
    }

    /// A number that no session of ours has had, in this life or, by chance, in any.
    fn next_session(&mut self) -> u64 {
        self.sessions += 1;
        self.us.life.wrapping_add(self.sessions).max(1)
    }
}
