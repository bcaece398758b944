//! The router of a process: it is told of connections, words and the time, and says what is to be done.

use bytes::Bytes;
use weft_core::units::{Nanos, NodeId};

use crate::circuits::Circuits;
use crate::fault::Bug;
use crate::link_state::{LinkState, Over, Table, Worth};
use crate::links::{Links, TICK};
use crate::output::Output;
use crate::word::{Circuit, Why, Word};

/// How to reach a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Way {
    /// By the connection that there is.
    Direct,
    /// Along this path, which begins with us and ends with it.
    Through(Vec<NodeId>),
    /// Not at all, as far as is known.
    None,
}

/// The router of a process. See the crate's page.
pub struct Router {
    us: NodeId,
    life: u64,
    relays: bool,
    number: u64,
    links: Links,
    table: Table,
    circuits: Circuits,
    tick: Nanos,
    next_tick: Nanos,
}

impl Router {
    /// The router of a process in this life. `relays` says whether others' circuits may go through it.
    pub fn new(us: NodeId, life: u64, relays: bool, bug: Option<Bug>) -> Router {
        let mut router = Router {
            us,
            life,
            relays,
            number: 0,
            links: Links::new(),
            table: Table::new(us),
            circuits: Circuits::new(us, life, relays, bug),
            tick: TICK,
            next_tick: 0,
        };
        router.publish(&mut Vec::new());
        router
    }

    /// The same, with neighbours that say so often that they are here; all times are in proportion.
    pub fn paced(mut self, tick: Nanos) -> Router {
        self.tick = tick;
        self.links.pace(tick);
        self
    }

    /// A process belongs to the cluster. Others are not listened to, nor spoken of.
    pub fn list(&mut self, process: NodeId) {
        self.table.list(process);
    }

    /// A process does not belong to the cluster any more.
    pub fn unlist(&mut self, process: NodeId, out: &mut Vec<Output>) {
        self.table.unlist(process);
        self.links.forget(process);
        self.circuits.link_lost(process, true, out);
        self.publish_changes(out);
    }

    /// There is a connection to a neighbour in this life of it.
    pub fn connected(&mut self, now: Nanos, peer: NodeId, life: u64, out: &mut Vec<Output>) {
        self.circuits.link_lost(peer, true, out);
        self.links.connected(now, peer, life);
        // That it is there is said with the next tick: where many connect at about the same time, to say each at once
        // would flood everybody with as many link states as there are connections.
        self.tell_all(now, peer, out);
    }

    /// The connection to a neighbour is over.
    pub fn disconnected(&mut self, peer: NodeId, out: &mut Vec<Output>) {
        if self.links.disconnected(peer) {
            self.circuits.link_lost(peer, true, out);
            self.publish_changes(out);
        }
    }

    /// Anything has come over the connection to a neighbour.
    pub fn heard(&mut self, peer: NodeId) {
        self.links.heard(peer);
    }

    /// When [`Router::tick`] is due.
    pub fn due(&self) -> Nanos {
        self.next_tick
    }

    /// To be called when it is due: judges connections, and says that we are here. Returns whether it was.
    pub fn tick(&mut self, now: Nanos, out: &mut Vec<Output>) -> bool {
        if now < self.next_tick {
            return false;
        }
        self.next_tick = now + self.tick;
        for peer in self.links.tick(now) {
            self.circuits.link_lost(peer, false, out);
        }
        self.publish_changes(out);
        let digest = self.table.digest();
        let here = |p: NodeId| Output::Send(p, Word::Here { hears: self.links.hears(p), digest });
        out.extend(self.links.peers().map(here));
        true
    }

    /// A neighbour says something.
    pub fn said(&mut self, now: Nanos, from: NodeId, word: Word, out: &mut Vec<Output>) {
        if !self.links.has(from) {
            return;
        }
        let side = |number| Circuit { neighbour: from, number };
        match word {
            Word::Here { hears, digest } => {
                self.links.says(from, hears);
                if digest != self.table.digest() && self.links.may_tell_all(now, from) {
                    self.tell_all(now, from, out);
                }
            }
            Word::LinkState(state) => self.learn(from, state, out),
            Word::Open(open) => {
                let listed = open.path.iter().all(|p| *p == self.us || self.table.lists(*p));
                if !listed {
                    let close = Word::Close { circuit: open.circuit, why: Why::Refused };
                    return out.push(Output::Send(from, close));
                }
                let links = &self.links;
                let leads = |n| links.has(n) && !links.is_bad(n);
                self.circuits.opened(from, open, leads, out);
            }
            Word::Carry { circuit, at, bytes } => {
                self.circuits.carried(side(circuit), at, bytes, out);
            }
            Word::Taken { circuit, bytes } => self.circuits.taken(side(circuit), bytes, out),
            Word::Close { circuit, why } => self.circuits.closed(side(circuit), why, out),
        }
    }

    /// Takes up a link state and passes it on (flooding).
    fn learn(&mut self, from: NodeId, state: LinkState, out: &mut Vec<Output>) {
        if state.of == self.us {
            return self.outdo(&state, out);
        }
        let of = state.of;
        match self.table.take(state.clone()) {
            Worth::New => {
                let others = self.links.peers().filter(|p| *p != from && *p != of);
                out.extend(others.map(|p| Output::Send(p, Word::LinkState(state.clone()))));
            }
            Worth::Old => {
                let later = self.table.of(of).cloned();
                out.extend(later.map(|n| Output::Send(from, Word::LinkState(n))));
            }
            Worth::Known | Worth::Strange => {}
        }
    }

    /// Others know of an earlier life of ours: ours must count as later.
    fn outdo(&mut self, state: &LinkState, out: &mut Vec<Output>) {
        let known = self.table.of(self.us);
        let is_earlier = known.is_some_and(|k| *state != *k && state.number >= k.number);
        if is_earlier {
            self.number = self.number.max(state.number);
            self.publish(out);
        }
    }

    /// Says all link states that are known to a neighbour.
    fn tell_all(&mut self, now: Nanos, peer: NodeId, out: &mut Vec<Output>) {
        self.links.may_tell_all(now, peer);
        out.extend(self.table.all().map(|n| Output::Send(peer, Word::LinkState(n.clone()))));
    }

    fn publish_changes(&mut self, out: &mut Vec<Output>) {
        let (links, mending) = (self.links.good(), self.links.mending());
        let same = |n: &LinkState| (&n.links, &n.mending) == (&links, &mending);
        if !self.table.of(self.us).is_some_and(same) {
            self.publish(out);
        }
    }

    /// Says which connections we have.
    fn publish(&mut self, out: &mut Vec<Output>) {
        self.number += 1;
        let (of, life, number, relays) = (self.us, self.life, self.number, self.relays);
        let (links, mending) = (self.links.good(), self.links.mending());
        let state = LinkState { of, life, number, relays, links, mending };
        self.table.take(state.clone());
        out.extend(self.links.peers().map(|p| Output::Send(p, Word::LinkState(state.clone()))));
    }

    /// How to reach a process: by a good connection, or along a path of such; if there is none, over what carries
    /// though it was bad a while ago.
    pub fn way(&self, to: NodeId) -> Way {
        if self.links.is_good(to) {
            return Way::Direct;
        }
        if let Some(path) = self.table.path(to, Over::Good) {
            return Way::Through(path);
        }
        // After a pause of either all its connections are such: it must not be out of reach for that.
        let carries = self.links.has(to) && !self.links.is_bad(to);
        match self.table.path(to, Over::All).filter(|_| !carries) {
            Some(path) => Way::Through(path),
            None if self.links.has(to) => Way::Direct,
            None => Way::None,
        }
    }

    /// Whether the connection to a neighbour is good.
    pub fn is_good(&self, peer: NodeId) -> bool {
        self.links.is_good(peer)
    }

    /// Whether there is a connection to a neighbour that carries nothing.
    pub fn is_bad(&self, peer: NodeId) -> bool {
        self.links.is_bad(peer)
    }

    /// Opens a circuit to a process that there is a path to.
    pub fn open(&mut self, to: NodeId, out: &mut Vec<Output>) -> Option<(Circuit, Vec<NodeId>)> {
        let Way::Through(path) = self.way(to) else { return None };
        let life = self.table.of(to)?.life;
        Some((self.circuits.open(path.clone(), life, out)?, path))
    }

    /// How much may be sent on a circuit that ends here.
    pub fn room(&self, circuit: Circuit) -> usize {
        self.circuits.room(circuit)
    }

    /// Sends bytes on a circuit that ends here, no more than there is room for.
    pub fn carry(&mut self, circuit: Circuit, bytes: Bytes, out: &mut Vec<Output>) {
        self.circuits.send(circuit, bytes, out);
    }

    /// The owner has taken bytes that came on a circuit: as many more may come.
    pub fn take(&mut self, circuit: Circuit, bytes: usize, out: &mut Vec<Output>) {
        self.circuits.take(circuit, bytes, out);
    }

    /// Ends a circuit. Nothing more is said of it.
    pub fn close(&mut self, circuit: Circuit, out: &mut Vec<Output>) {
        let before = out.len();
        self.circuits.close(circuit, Why::Ended, true, out);
        let ours = |o: &Output| matches!(o, Output::Closed { circuit: c, .. } if *c == circuit);
        if let Some(at) = out[before..].iter().position(ours) {
            out.remove(before + at);
        }
    }

    /// Too much waits to be said to a neighbour: the circuit of this word of ours is ended.
    pub fn overflow(&mut self, neighbour: NodeId, number: u32, out: &mut Vec<Output>) {
        self.circuits.close(Circuit { neighbour, number }, Why::Spoiled, true, out);
    }

    /// The process at the other end of a circuit that ends here.
    pub fn other_end(&self, circuit: Circuit) -> Option<NodeId> {
        self.circuits.other_end(circuit)
    }

    /// How many circuits go through here, and how many end here.
    pub fn circuits(&self) -> (usize, usize) {
        self.circuits.count()
    }

    /// The latest that is known of which connections a process has.
    pub fn link_state_of(&self, process: NodeId) -> Option<&LinkState> {
        self.table.of(process)
    }
}
