//! The handshake, and what frames mean before and after it.
//!
//! The one that dialled says hello first. The other checks it, says hello in its turn, and is up;
//! the dialler checks that, and is up too. Whoever is not content sends the reason and closes.

use std::sync::Arc;
use std::time::Instant;

use mio::Token;
use weft_core::units::NodeId;

use super::driver::Driver;
use super::hello::{HELLO, Hello, HelloError, REFUSED};
use super::link::State;
use super::queues::Outbox;
use super::{Event, Lost};
use crate::frame::{FIRST_KIND, Frame};

impl Driver {
    /// The socket that we dialled is connected: we say hello.
    pub(super) fn greet(&mut self, token: Token) {
        let hello = self.us.encode();
        if let Some(link) = self.links.get_mut(&token) {
            link.state = State::Greeting;
            link.queue(HELLO, vec![hello]);
        }
    }

    /// A frame has come.
    pub(super) fn handle(&mut self, token: Token, frame: Frame, now: Instant) -> Result<(), Lost> {
        let Some(link) = self.links.get(&token) else { return Ok(()) };
        match (&link.state, frame.kind) {
            (State::Up { peer, .. }, FIRST_KIND..) => {
                self.shared.deliver(Event::Received { peer: *peer, frame }, None);
                Ok(())
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

    fn check(&self, token: Token, hello: &Hello) -> Result<(), Lost> {
        let Some(link) = self.links.get(&token) else { return Ok(()) };
        let shown = link.stream.shown()?;
        if let Some((theirs, _)) = shown.as_ref().filter(|s| s.0 != self.us.cluster) {
            let ours = self.us.cluster;
            return Err(HelloError::OtherCluster { theirs: *theirs, ours }.into());
        }
        let shown = shown.map(|s| s.1);
        let listed = self.peers.get(&hello.node).map(|k| &k.peer.name);
        Ok(hello.check(&self.us, shown.as_ref(), link.dialled, listed)?)
    }

    /// The other side is who it should be.
    fn welcome(&mut self, token: Token, hello: &Hello, now: Instant) {
        let peer: NodeId = hello.node;
        let earlier = self.peers.get(&peer).and_then(|k| k.link).filter(|t| *t != token);
        if let Some(earlier) = earlier {
            self.lose(earlier, Lost::Replaced, now);
        }
        let ours = self.us.encode();
        let (Some(link), Some(known)) = (self.links.get_mut(&token), self.peers.get_mut(&peer))
        else {
            return;
        };
        known.link = Some(token);
        if link.dialled.is_none() {
            link.queue(HELLO, vec![ours]);
        }
        let outbox = Arc::new(Outbox::new(token, self.config.limits.queue_bytes));
        link.state = State::Up { peer, outbox: outbox.clone(), since: now };
        self.shared.deliver(Event::Up { peer, life: hello.life }, Some(outbox));
    }
}
