//! Circuits: streams of bytes through other processes.
//!
//! A circuit has a number of its own between each two neighbours on its way. A relay knows which number on the one
//! side belongs to which on the other, and no more. All that is on the way on a circuit is bounded by a
//! [`WINDOW`] for each direction: an end that has taken bytes says so, and as many more may be sent. A relay
//! that sees more ends the circuit.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use weft_core::units::NodeId;

use crate::fault::{self, Bug};
use crate::link_state::MOST_HOPS;
use crate::output::Output;
use crate::word::{Circuit, Open, Why, Word};

/// What may be on its way on a circuit in one direction.
pub const WINDOW: u64 = 512 << 10;

/// The most circuits that a process relays: with [`WINDOW`] that bounds the memory that others can use here.
pub const MOST_RELAYED: usize = 256;

/// The most circuits that one neighbour may have come to us as their end.
const MOST_ENDS: usize = 8192;

/// What an end has taken before it says so.
const TELL_TAKEN: u64 = WINDOW / 4;

/// What this process is to a circuit.
#[derive(Debug)]
enum Seat {
    End(End),
    Relay(Relay),
}

/// One of its ends.
#[derive(Debug)]
struct End {
    /// The process at the other end.
    other: NodeId,
    /// Bytes sent, and of these the other end's owner has taken.
    sent: u64,
    sent_taken: u64,
    /// Bytes that came; of these the owner has taken; of these the other end has been told.
    came: u64,
    taken: u64,
    told: u64,
}

/// Between two neighbours; this is what is known of one side.
#[derive(Debug)]
struct Relay {
    /// The other side.
    beyond: Circuit,
    /// The neighbour on this side is an end.
    neighbour_is_end: bool,
    /// Bytes that came from this side, and of these the end beyond has taken.
    carried: u64,
    taken: u64,
}

/// All circuits of a process.
pub(crate) struct Circuits {
    us: NodeId,
    life: u64,
    relays: bool,
    bug: Option<Bug>,
    next: u32,
    seats: BTreeMap<Circuit, Seat>,
    /// Sides of circuits that are relayed: two for each.
    sides: usize,
}

/// The numbers that the neighbour with the higher number chooses have this bit.
const OF_HIGHER: u32 = 1 << 31;

impl Circuits {
    pub fn new(us: NodeId, life: u64, relays: bool, bug: Option<Bug>) -> Circuits {
        Circuits { us, life, relays, bug, next: 0, seats: BTreeMap::new(), sides: 0 }
    }

    /// A number for a circuit that we begin towards a neighbour.
    fn name(&mut self, neighbour: NodeId) -> Circuit {
        let ours = if self.us > neighbour { OF_HIGHER } else { 0 };
        loop {
            self.next = self.next.wrapping_add(1) & !OF_HIGHER;
            let circuit = Circuit { neighbour, number: self.next | ours };
            if !self.seats.contains_key(&circuit) {
                return circuit;
            }
        }
    }

    /// Begins a circuit along a path from us.
    pub fn open(&mut self, path: Vec<NodeId>, life: u64, out: &mut Vec<Output>) -> Option<Circuit> {
        let (next, other) = (*path.get(1)?, *path.last()?);
        let circuit = self.name(next);
        self.seats.insert(circuit, Seat::End(End::new(other)));
        let open = Open { circuit: circuit.number, life, place: 1, path };
        out.push(Output::Send(next, Word::Open(open)));
        Some(circuit)
    }

    /// A neighbour wants a circuit. `leads` says whether we have a connection to a process that carries.
    pub fn opened(
        &mut self,
        from: NodeId,
        mut open: Open,
        leads: impl Fn(NodeId) -> bool,
        out: &mut Vec<Output>,
    ) {
        let side = Circuit { neighbour: from, number: open.circuit };
        if self.seats.contains_key(&side) {
            return self.close(side, Why::Spoiled, true, out);
        }
        let refuse = |out: &mut Vec<Output>| out.push(close(side, Why::Refused));
        let theirs = if from > self.us { OF_HIGHER } else { 0 };
        let place = usize::from(open.place);
        if open.circuit & OF_HIGHER != theirs || !self.is_path(from, place, &open.path) {
            return refuse(out);
        }
        let Some(next) = open.path.get(place + 1).copied() else {
            let is_ours = open.life == self.life || fault::answers_for_earlier_lives(self.bug);
            let ends = self.seats.len() - self.sides;
            if !is_ours || ends >= MOST_ENDS {
                return refuse(out);
            }
            let other = open.path[0];
            self.seats.insert(side, Seat::End(End::new(other)));
            let (life, path) = (open.life, open.path);
            return out.push(Output::Opened { circuit: side, from: other, life, path });
        };
        if !self.relays || !leads(next) || self.sides / 2 >= MOST_RELAYED {
            return refuse(out);
        }
        let beyond = self.name(next);
        let relay = |beyond, neighbour_is_end| {
            Seat::Relay(Relay { beyond, neighbour_is_end, carried: 0, taken: 0 })
        };
        self.seats.insert(side, relay(beyond, place == 1));
        self.seats.insert(beyond, relay(side, place + 2 == open.path.len()));
        self.sides += 2;
        (open.circuit, open.place) = (beyond.number, open.place + 1);
        out.push(Output::Send(next, Word::Open(open)));
    }

    /// Whether this is a path on which we are at this place, and `from` before us.
    fn is_path(&self, from: NodeId, place: usize, path: &[NodeId]) -> bool {
        let each_once = path.iter().collect::<BTreeSet<_>>().len() == path.len();
        let before = place.checked_sub(1).and_then(|p| path.get(p));
        let here = path.get(place) == Some(&self.us) && before == Some(&from);
        here && each_once && path.len() <= MOST_HOPS + 1
    }

    /// Bytes have come.
    pub fn carried(&mut self, side: Circuit, at: u64, bytes: Bytes, out: &mut Vec<Output>) {
        let len = bytes.len() as u64;
        let takes_up = fault::takes_up_repeated(self.bug);
        match self.seats.get_mut(&side) {
            None => out.push(close(side, Why::Refused)),
            Some(Seat::End(end)) => {
                let spoiled = at != end.came || end.came + len > end.taken + WINDOW;
                if spoiled && !takes_up {
                    return self.close(side, Why::Spoiled, true, out);
                }
                end.came += len;
                out.push(Output::Came { circuit: side, at, bytes });
            }
            Some(Seat::Relay(relay)) => {
                relay.carried += len;
                if relay.carried > relay.taken + WINDOW {
                    return self.close(side, Why::Spoiled, true, out);
                }
                let beyond = relay.beyond;
                let carry = Word::Carry { circuit: beyond.number, at, bytes };
                if fault::relay_repeats(self.bug, at) {
                    out.push(Output::Send(beyond.neighbour, carry.clone()));
                }
                out.push(Output::Send(beyond.neighbour, carry));
            }
        }
    }

    /// The end beyond says that it has taken bytes.
    pub fn taken(&mut self, side: Circuit, bytes: u32, out: &mut Vec<Output>) {
        let count = u64::from(bytes);
        let beyond = match self.seats.get_mut(&side) {
            None => return,
            Some(Seat::End(end)) => {
                if end.sent_taken + count > end.sent {
                    return self.close(side, Why::Spoiled, true, out);
                }
                end.sent_taken += count;
                return out.push(Output::Room(side));
            }
            Some(Seat::Relay(relay)) => relay.beyond,
        };
        let Some(Seat::Relay(other)) = self.seats.get_mut(&beyond) else { return };
        if other.taken + count > other.carried {
            return self.close(side, Why::Spoiled, true, out);
        }
        other.taken += count;
        let taken = Word::Taken { circuit: beyond.number, bytes };
        out.push(Output::Send(beyond.neighbour, taken));
    }

    /// A neighbour ends a circuit.
    pub fn closed(&mut self, side: Circuit, why: Why, out: &mut Vec<Output>) {
        self.close(side, why, false, out);
    }

    /// Ends a circuit, and tells the neighbour on this side of it if `tell`.
    pub fn close(&mut self, side: Circuit, why: Why, tell: bool, out: &mut Vec<Output>) {
        let Some(seat) = self.seats.remove(&side) else { return };
        if tell {
            out.push(close(side, why));
        }
        match seat {
            Seat::End(_) => out.push(Output::Closed { circuit: side, why }),
            Seat::Relay(relay) => {
                self.seats.remove(&relay.beyond);
                self.sides -= 2;
                out.push(close(relay.beyond, why));
            }
        }
    }

    /// The connection to a neighbour carries nothing any more; `gone` if it is over.
    pub fn link_lost(&mut self, neighbour: NodeId, gone: bool, out: &mut Vec<Output>) {
        let of_it = |c: &&Circuit| c.neighbour == neighbour;
        let sides: Vec<Circuit> = self.seats.keys().filter(of_it).copied().collect();
        for side in sides {
            let last = matches!(&self.seats.get(&side), Some(Seat::Relay(r)) if r.neighbour_is_end);
            let why = if gone && last { Why::Gone } else { Why::Broken };
            self.close(side, why, !gone, out);
        }
    }

    /// How much may be sent on a circuit of which we are an end.
    pub fn room(&self, circuit: Circuit) -> usize {
        match self.seats.get(&circuit) {
            Some(Seat::End(end)) => (end.sent_taken + WINDOW - end.sent) as usize,
            _ => 0,
        }
    }

    /// Sends bytes on a circuit of which we are an end. There must be room for them.
    pub fn send(&mut self, circuit: Circuit, bytes: Bytes, out: &mut Vec<Output>) {
        let room = self.room(circuit);
        if let Some(Seat::End(end)) = self.seats.get_mut(&circuit) {
            debug_assert!(bytes.len() <= room, "more than the buffers hold");
            let at = end.sent;
            end.sent += bytes.len() as u64;
            let carry = Word::Carry { circuit: circuit.number, at, bytes };
            out.push(Output::Send(circuit.neighbour, carry));
        }
    }

    /// The owner has taken bytes that came.
    pub fn take(&mut self, circuit: Circuit, bytes: usize, out: &mut Vec<Output>) {
        let Some(Seat::End(end)) = self.seats.get_mut(&circuit) else { return };
        end.taken = (end.taken + bytes as u64).min(end.came);
        let untold = end.taken - end.told;
        if untold >= TELL_TAKEN {
            end.told = end.taken;
            let taken = Word::Taken { circuit: circuit.number, bytes: untold as u32 };
            out.push(Output::Send(circuit.neighbour, taken));
        }
    }

    /// The process at the other end of a circuit that ends here.
    pub fn other_end(&self, circuit: Circuit) -> Option<NodeId> {
        match self.seats.get(&circuit)? {
            Seat::End(end) => Some(end.other),
            Seat::Relay(_) => None,
        }
    }

    /// How many circuits go through here, and how many end here.
    pub fn count(&self) -> (usize, usize) {
        (self.sides / 2, self.seats.len() - self.sides)
    }
}

impl End {
    fn new(other: NodeId) -> End {
        End { other, sent: 0, sent_taken: 0, came: 0, taken: 0, told: 0 }
    }
}

fn close(side: Circuit, why: Why) -> Output {
    Output::Send(side.neighbour, Word::Close { circuit: side.number, why })
}
