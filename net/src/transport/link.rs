//! One connection and what it is in the middle of.

use std::collections::VecDeque;
use std::time::Instant;

use bytes::Bytes;
use weft_core::units::NodeId;
use weft_route::Why;

use super::hello::MAX_GREETING;
use super::notes::Place;
use super::pipe::Wire;
use super::queues::Outgoing;
use super::session::Session;
use super::stream::Stream;
use super::{Lost, hello};
use crate::frame::{self, Frame, FrameReader};

/// As much is taken from the session, and of what is relayed, before it is written.
const AHEAD: usize = 256 << 10;

/// As much is read from one connection, or written to it, before the others have their turn.
const TURN: usize = 1 << 20;

/// Where a connection stands.
pub(super) enum State {
    /// The socket is not connected yet.
    Connecting,
    /// TLS, and then both hellos.
    Greeting,
    /// The owner may use it.
    Up { peer: NodeId, session: u64, since: Instant },
    /// Refused; it is read until its end, so that the reason arrives and is not overtaken by
    /// a reset.
    Leaving,
}

/// How a turn of writing ended.
pub(super) struct Wrote {
    /// The turn was over before everything was written.
    pub more: bool,
}

pub(super) struct Link {
    pub stream: Stream,
    /// The processes that a circuit goes through, from one end to the other; none if it is no circuit.
    pub path: Vec<NodeId>,
    /// Why the circuit under it has ended, if it has.
    pub ended: Option<Why>,
    /// Something has come since that was looked at.
    pub heard: bool,
    /// Ticks in which nothing came, one after the other.
    pub missed: u32,
    /// Ticks for which there has been a better one.
    pub spare: u32,
    /// Ticks since it was up.
    pub age: u32,
    /// The number of the owner's frame that comes next, when the other side has said it.
    pub cursor: Option<u64>,
    /// What is said for others' circuits, and waits.
    relayed: VecDeque<Outgoing>,
    pub place: Place,
    pub dialled: Option<NodeId>,
    pub state: State,
    /// When it is given up if it has not come further. Not used while it is up.
    pub deadline: Instant,
    /// There may be something to read.
    pub readable: bool,
    /// The socket may take something.
    pub writable: bool,
    /// The other side will send no more: it is read to the end.
    pub ending: bool,
    reader: FrameReader,
    sending: VecDeque<Bytes>,
    sending_bytes: usize,
}

impl Link {
    pub fn new(stream: Stream, place: Place, dialled: Option<NodeId>, deadline: Instant) -> Link {
        let way = stream.way();
        Link {
            stream,
            path: Vec::new(),
            ended: None,
            heard: false,
            missed: 0,
            spare: 0,
            age: 0,
            cursor: None,
            relayed: VecDeque::new(),
            place,
            dialled,
            state: if dialled.is_some() { State::Connecting } else { State::Greeting },
            deadline,
            readable: false,
            writable: dialled.is_none(),
            ending: false,
            reader: FrameReader::new(MAX_GREETING, way),
            sending: VecDeque::new(),
            sending_bytes: 0,
        }
    }

    pub fn is_up(&self) -> bool {
        matches!(self.state, State::Up { .. })
    }

    /// Whether it has come in and not yet said who it is, or was refused.
    pub fn is_strange(&self) -> bool {
        self.dialled.is_none() && !self.is_up()
    }

    /// Whether it goes over others.
    pub fn is_circuit(&self) -> bool {
        matches!(self.stream.wire, Wire::Circuit(_))
    }

    /// Whether it is a Unix socket.
    pub fn is_near(&self) -> bool {
        matches!(self.stream.wire, Wire::Near(_))
    }

    /// Whether something waits that the socket does not take.
    pub fn is_stuck(&self) -> bool {
        !self.writable && !self.sending.is_empty()
    }

    /// Puts a frame behind what is being sent.
    pub fn queue(&mut self, (kind, payload): Outgoing) {
        let header = Bytes::from(frame::header(kind, &payload, self.stream.way()));
        for chunk in std::iter::once(header).chain(payload).filter(|c| !c.is_empty()) {
            self.sending_bytes += chunk.len();
            self.sending.push_back(chunk);
        }
    }

    /// Says something of a circuit, in its turn with what the owner sends. Returns how many wait.
    pub fn relay(&mut self, frame: Outgoing) -> usize {
        self.relayed.push_back(frame);
        self.relayed.len()
    }

    /// Takes what is to be sent next: of circuits and of the session in turn.
    fn fill(&mut self, session: &mut Option<&mut Session>) {
        while self.sending_bytes < AHEAD {
            let relayed = self.relayed.pop_front();
            let own = session.as_mut().and_then(|s| s.next());
            if relayed.is_none() && own.is_none() {
                return;
            }
            relayed.into_iter().chain(own).for_each(|frame| self.queue(frame));
        }
    }

    /// Reads for a turn.
    pub fn read(&mut self, scratch: &mut [u8], frames: &mut Vec<Frame>) -> Result<(), Lost> {
        let mut read = 0;
        while self.readable && read < TURN {
            let progress = self.stream.read(&mut self.reader, scratch, frames)?;
            read += progress.bytes;
            self.heard |= progress.bytes > 0;
            self.readable = !progress.blocked || (self.ending && progress.bytes > 0);
        }
        Ok(())
    }

    /// Writes what the socket or circuit takes, for a turn; with the session whose frames go over it.
    pub fn write(&mut self, mut session: Option<&mut Session>) -> Result<Wrote, Lost> {
        let mut written = 0;
        while self.writable {
            self.fill(&mut session);
            let progress = self.stream.write(&mut self.sending)?;
            self.sending_bytes -= progress.bytes;
            self.writable = !progress.blocked;
            written += progress.bytes;
            if progress.bytes == 0 || written >= TURN {
                return Ok(Wrote { more: progress.bytes > 0 });
            }
        }
        Ok(Wrote { more: false })
    }

    /// Tells the other side why it is refused, and waits for it to go.
    pub fn refuse(&mut self, why: &Lost, deadline: Instant) {
        self.state = State::Leaving;
        self.deadline = deadline;
        self.sending.clear();
        let mut reason = why.to_string();
        reason.truncate(reason.floor_char_boundary(MAX_GREETING));
        self.queue((hello::REFUSED, vec![reason.into()]));
        self.stream.finish(&mut self.sending);
    }
}
