//! What neighbours say to one another, and its bytes.
//!
//! ```text
//! word    number  fields (bytes)
//! here       3    hears 1, digest 8
//! link state 4  process 2, life 8, number 8, relays 1, good and mending links: count 4, each 2
//! open       5    circuit 4, life 8, place 1, path: count 4, each 2
//! carry      6    circuit 4, place in the stream 8, bytes
//! taken      7    circuit 4, bytes 4
//! close      8    circuit 4, why 1
//! ```

use std::collections::BTreeSet;

use bytes::Bytes;
use weft_bytes::{BytesError, Read, Reader, Writer, at_most, ensure};
use weft_core::units::NodeId;

use crate::link_state::{LinkState, MOST_HOPS, MOST_NUMBER};

/// The most processes that there are.
const MOST_PROCESSES: u64 = 4096;

/// A circuit, as a process on its way calls it: the neighbour, and the number that it has between the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Circuit {
    /// The neighbour.
    pub neighbour: NodeId,
    /// The number. The two neighbours choose from numbers of their own.
    pub number: u32,
}

/// Why a circuit ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// One of its ends has ended it.
    Ended,
    /// A connection on the way is not good any more.
    Broken,
    /// The connection to the other end was lost where that was the last on the way.
    Gone,
    /// There is no such circuit here, or it is not to be here.
    Refused,
    /// What came is not what comes next, or more than may come.
    Spoiled,
}

/// By number on the wire.
const WHYS: [Why; 5] = [Why::Ended, Why::Broken, Why::Gone, Why::Refused, Why::Spoiled];

/// That a circuit is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Open {
    /// Its number between these two neighbours.
    pub circuit: u32,
    /// The life of the process that it goes to.
    pub life: u64,
    /// The place of the receiver on the path.
    pub place: u8,
    /// All processes on it, from the one that opens it to the one that it goes to.
    pub path: Vec<NodeId>,
}

/// What one process says to a neighbour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Word {
    /// It is here; whether it has heard the neighbour lately; and a digest of all link states that it knows.
    Here {
        /// Whether it hears the neighbour.
        hears: bool,
        /// Of the link states that it knows.
        digest: u64,
    },
    /// Which connections a process has.
    LinkState(LinkState),
    /// Opens a circuit.
    Open(Open),
    /// Bytes of a circuit.
    Carry {
        /// Which.
        circuit: u32,
        /// How many came before them.
        at: u64,
        /// The bytes.
        bytes: Bytes,
    },
    /// So many bytes of a circuit have been taken at its end: as many more may come.
    Taken {
        /// Which.
        circuit: u32,
        /// How many.
        bytes: u32,
    },
    /// Ends a circuit.
    Close {
        /// Which.
        circuit: u32,
        /// Why.
        why: Why,
    },
}

impl Word {
    /// The number of the word's kind, and its bytes.
    pub fn encode(&self) -> (u8, Vec<Bytes>) {
        let mut w: Writer = Writer::with_room(32);
        let kind = match self {
            Word::Here { hears, digest } => {
                w.bool(*hears);
                w.u64(*digest);
                3
            }
            Word::LinkState(state) => {
                w.u16(state.of.0);
                w.u64(state.life);
                w.u64(state.number);
                w.bool(state.relays);
                for links in [&state.links, &state.mending] {
                    w.list(links.iter(), |w, n| w.u16(n.0));
                }
                4
            }
            Word::Open(open) => {
                w.u32(open.circuit);
                w.u64(open.life);
                w.u8(open.place);
                w.list(open.path.iter(), |w, n| w.u16(n.0));
                5
            }
            Word::Carry { circuit, at, bytes } => {
                w.u32(*circuit);
                w.u64(*at);
                return (6, vec![w.finish().into(), bytes.clone()]);
            }
            Word::Taken { circuit, bytes } => {
                w.u32(*circuit);
                w.u32(*bytes);
                7
            }
            Word::Close { circuit, why } => {
                w.u32(*circuit);
                w.u8(WHYS.iter().position(|w| w == why).unwrap_or(0) as u8);
                8
            }
        };
        (kind, vec![w.finish().into()])
    }

    /// The word of this kind with these bytes.
    ///
    /// # Errors
    ///
    /// If there is none.
    pub fn decode(kind: u8, bytes: &Bytes) -> Read<Word> {
        let mut r: Reader = Reader::new(bytes);
        let word = match kind {
            3 => Word::Here { hears: r.bool()?, digest: r.u64()? },
            4 => Word::LinkState(link_state(&mut r)?),
            5 => Word::Open(open(&mut r)?),
            6 => {
                let (circuit, at) = (r.u32()?, r.u64()?);
                ensure(at < MOST_NUMBER, "a place beyond all streams")?;
                let begin = bytes.len() - r.left();
                return Ok(Word::Carry { circuit, at, bytes: bytes.slice(begin..) });
            }
            7 => Word::Taken { circuit: r.u32()?, bytes: r.u32()? },
            8 => {
                let (circuit, why) = (r.u32()?, r.u8()?);
                let why = WHYS.get(usize::from(why)).ok_or(BytesError::Content("no reason"))?;
                Word::Close { circuit, why: *why }
            }
            _ => return Err(BytesError::Content("no word")),
        };
        r.end()?;
        Ok(word)
    }
}

fn process(r: &mut Reader) -> Read<NodeId> {
    let number = r.u16()?;
    at_most("a process", number.into(), MOST_PROCESSES - 1)?;
    Ok(NodeId(number))
}

fn link_state(r: &mut Reader) -> Read<LinkState> {
    let (of, life, number, relays) = (process(r)?, r.u64()?, r.u64()?, r.bool()?);
    ensure(number < MOST_NUMBER, "a number beyond all counts")?;
    at_most("bytes of connections", r.left() as u64, 8 + 4 * MOST_PROCESSES)?;
    let mut set = || Ok(r.list(2, process)?.into_iter().collect::<BTreeSet<NodeId>>());
    let (links, mending) = (set()?, set()?);
    Ok(LinkState { of, life, number, relays, links, mending })
}

fn open(r: &mut Reader) -> Read<Open> {
    let (circuit, life, place) = (r.u32()?, r.u64()?, r.u8()?);
    at_most("bytes of a path", r.left() as u64, 4 + 2 * (MOST_HOPS as u64 + 1))?;
    let path: Vec<NodeId> = r.list(2, process)?;
    Ok(Open { circuit, life, place, path })
}
