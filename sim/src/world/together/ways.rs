//! Ways round broken links, in worlds that have them: each process has a router, the one that the transport has
//! ([`weft_route::Router`]), and what it cannot send directly goes over circuits through others.
//!
//! A connection is there while both processes run, whatever it carries. What is said over it arrives in order. What a
//! circuit carries is the number of a piece of cargo.

use bytes::Bytes;
use weft_route::{Bug, Circuit, Output, Router, Way, Word};

use super::*;

/// Something that goes over a circuit.
enum Cargo {
    /// A letter, and which life of its node it is for.
    Letter(Box<Envelope>, u64),
    /// What a member says.
    Member(MemberId, Vec<u8>),
}

/// Bytes of the number of a piece of cargo.
const TAG: usize = 8;

/// The routers of all processes, and what is on its way.
pub(super) struct Ways {
    tick: Nanos,
    bug: Option<Bug>,
    routers: BTreeMap<NodeId, Router>,
    /// By sender and receiver.
    circuits: BTreeMap<(NodeId, NodeId), Circuit>,
    /// How many bytes came on the circuits that end at a process.
    came: BTreeMap<(NodeId, Circuit), u64>,
    cargo: Vec<Cargo>,
}

impl World {
    /// From now on processes talk round broken links. So often neighbours say that they are here.
    pub fn open_ways(&mut self, tick: Nanos, bug: Option<Bug>) {
        let (routers, circuits) = (BTreeMap::new(), BTreeMap::new());
        let ways = Ways { tick, bug, routers, circuits, came: BTreeMap::new(), cargo: Vec::new() };
        self.together_mut().ways = Some(Box::new(ways));
        for process in self.processes() {
            if self.has_process(process) {
                self.begin_way(process);
            }
        }
    }

    /// How much has gone over circuits.
    pub fn detours(&self) -> u64 {
        let ways = self.together.as_ref().and_then(|t| t.ways.as_ref());
        ways.map_or(0, |w| w.cargo.len() as u64)
    }

    /// A process has started: it is connected to all that run.
    pub(super) fn begin_way(&mut self, id: NodeId) {
        let (others, life) = (self.processes(), self.seat(id).life);
        let relays = !self.is_attached(id);
        let Some(ways) = self.together_mut().ways.as_mut() else { return };
        let mut router = Router::new(id, life, relays, ways.bug).paced(ways.tick);
        others.iter().filter(|o| **o != id).for_each(|o| router.list(*o));
        let (tick, up) = (ways.tick, ways.routers.keys().copied().collect::<Vec<_>>());
        ways.routers.insert(id, router);
        for other in up.into_iter().filter(|o| *o != id) {
            let lives = (self.seat(id).life, self.seat(other).life);
            self.steer(id, |r, now, out| r.connected(now, other, lives.1, out));
            self.steer(other, |r, now, out| r.connected(now, id, lives.0, out));
        }
        let delay = self.rng.u64(0..tick);
        self.happens(id, delay, Happens::Steer);
    }

    /// A process has died; where the power goes the others find out by its silence.
    pub(super) fn end_way(&mut self, id: NodeId) {
        let Some(ways) = self.together_mut().ways.as_mut() else { return };
        if ways.routers.remove(&id).is_none() {
            return;
        }
        ways.circuits.retain(|(from, _), _| *from != id);
        ways.came.retain(|(at, _), _| *at != id);
        for other in ways.routers.keys().copied().collect::<Vec<_>>() {
            self.steer(other, |r, _, out| r.disconnected(id, out));
        }
    }

    /// Does something to a router, and what it wants.
    fn steer(&mut self, at: NodeId, what: impl FnOnce(&mut Router, Nanos, &mut Vec<Output>)) {
        let (now, mut out) = (self.now(), Vec::new());
        let ways = self.together_mut().ways.as_mut();
        let Some(router) = ways.and_then(|w| w.routers.get_mut(&at)) else { return };
        what(router, now, &mut out);
        out.into_iter().for_each(|output| self.follow(at, output));
    }

    fn follow(&mut self, at: NodeId, output: Output) {
        match output {
            Output::Send(to, word) => self.say(at, to, word),
            Output::Opened { from, life, .. } if life != self.seat(at).life => {
                let text = format!("{from} has a circuit to an earlier life of {at}");
                self.together_mut().wrong = Some(text);
            }
            Output::Opened { .. } | Output::Room(_) => {}
            Output::Came { circuit, at: place, bytes } => self.unload(at, circuit, place, &bytes),
            Output::Closed { circuit, why } => {
                self.tell(|| format!("a circuit of {at} is over: {why:?}"));
                let Some(ways) = self.together_mut().ways.as_mut() else { return };
                ways.circuits.retain(|(from, _), c| *from != at || *c != circuit);
                ways.came.remove(&(at, circuit));
            }
        }
    }

    /// A word goes to a neighbour, behind all that went before.
    fn say(&mut self, from: NodeId, to: NodeId, word: Word) {
        if self.is_cut(from, to) {
            return;
        }
        let (low, high) = self.conditions.latency;
        let delay = self.rng.u64(low..=high);
        let delay = self.over_lossy_link(from, to, delay);
        let now = self.now();
        let arrives = self.together_mut().words.entry((from, to)).or_default();
        *arrives = (now + delay).max(*arrives);
        let delay = *arrives - now;
        let life = self.seat(from).life;
        self.happens(to, delay, Happens::Word(from, life, word));
    }

    /// A word has come.
    pub(super) fn take_word(&mut self, at: NodeId, from: NodeId, life: u64, word: Word) {
        if self.seat(from).life == life {
            self.steer(at, |r, now, out| {
                r.heard(from);
                r.said(now, from, word, out);
            });
        }
    }

    /// A tick has passed.
    pub(super) fn tick_way(&mut self, id: NodeId) {
        let Some(tick) = self.together().ways.as_ref().map(|w| w.tick) else { return };
        self.steer(id, |r, now, out| {
            r.tick(now, out);
        });
        self.happens(id, tick, Happens::Steer);
    }

    /// Sends a letter by a circuit, if that is the way. Gives it back if it goes directly.
    pub(in crate::world) fn by_circuit(&mut self, letter: Envelope, life: u64) -> Option<Envelope> {
        let (from, to) = (self.process_of(letter.from), self.process_of(letter.to));
        match self.circuit_to(from, to) {
            None => Some(letter),
            Some(circuit) => {
                self.load(from, circuit, Cargo::Letter(Box::new(letter), life));
                None
            }
        }
    }

    /// The same with what a member says; returns whether it went.
    pub(super) fn member_by_circuit(&mut self, from: NodeId, to: MemberId, bytes: &[u8]) -> bool {
        let circuit = self.circuit_to(from, node_of(to));
        if let Some(circuit) = circuit {
            self.load(from, circuit, Cargo::Member(member_of(from), bytes.to_vec()));
        }
        circuit.is_some()
    }

    /// The circuit from a process to another, which is opened if it is the way and not there.
    fn circuit_to(&mut self, from: NodeId, to: NodeId) -> Option<Circuit> {
        let ways = self.together.as_mut()?.ways.as_mut()?;
        let router = ways.routers.get(&from)?;
        if from == to || !matches!(router.way(to), Way::Through(_)) {
            return None;
        }
        let known = ways.circuits.get(&(from, to)).copied();
        known.filter(|c| router.room(*c) >= TAG).or_else(|| {
            let mut opened = None;
            self.steer(from, |r, _, out| opened = r.open(to, out));
            let (circuit, _) = opened?;
            let ways = self.together_mut().ways.as_mut()?;
            ways.circuits.insert((from, to), circuit);
            Some(circuit)
        })
    }

    fn load(&mut self, from: NodeId, circuit: Circuit, cargo: Cargo) {
        let Some(ways) = self.together_mut().ways.as_mut() else { return };
        ways.cargo.push(cargo);
        let tag = (ways.cargo.len() as u64 - 1).to_le_bytes();
        self.steer(from, |r, _, out| r.carry(circuit, Bytes::copy_from_slice(&tag), out));
    }

    /// Something has come over a circuit: each once, and in order.
    fn unload(&mut self, at: NodeId, circuit: Circuit, place: u64, bytes: &Bytes) {
        let Some(ways) = self.together_mut().ways.as_mut() else { return };
        let came = ways.came.entry((at, circuit)).or_default();
        let expected = *came;
        *came += TAG as u64;
        if place != expected {
            let text = format!("{at} gets {place} from a circuit, and not {expected}");
            self.together_mut().wrong = Some(text);
            return;
        }
        let Ok(tag) = bytes[..].try_into() else { return };
        let what = match &ways.cargo[u64::from_le_bytes(tag) as usize] {
            Cargo::Letter(letter, life) => Ok((letter.clone(), *life)),
            Cargo::Member(from, said) => Err((*from, said.clone())),
        };
        self.steer(at, |r, _, out| r.take(circuit, TAG, out));
        match what {
            Ok((letter, life)) => self.queue.push(0, Event::Deliver(*letter, life)),
            Err((from, said)) => self.happens(at, 0, Happens::Member(from, said)),
        }
    }
}
