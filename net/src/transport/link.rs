//! One connection and what it is in the middle of.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use weft_core::units::NodeId;

use super::hello::MAX_GREETING;
use super::queues::Outbox;
use super::stream::Stream;
use super::{Lost, hello};
use crate::frame::{self, Frame, FrameReader};

/// As much is taken from the outbox before it is written.
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
    Up { peer: NodeId, outbox: Arc<Outbox>, since: Instant },
    /// Refused; it is read until its end, so that the reason arrives and is not overtaken by
    /// a reset.
    Leaving,
}

/// How a turn of writing ended.
pub(super) struct Wrote {
    /// The owner was told that the queue is full, and there is room now.
    pub room: bool,
    /// The turn was over before everything was written.
    pub more: bool,
}

pub(super) struct Link {
    pub stream: Stream,
    pub address: SocketAddr,
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
    pub fn new(
        stream: Stream,
        address: SocketAddr,
        dialled: Option<NodeId>,
        deadline: Instant,
    ) -> Link {
        Link {
            stream,
            address,
            dialled,
            state: if dialled.is_some() { State::Connecting } else { State::Greeting },
            deadline,
            readable: false,
            writable: dialled.is_none(),
            ending: false,
            reader: FrameReader::new(MAX_GREETING),
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

    /// Puts a frame behind what is being sent.
    pub fn queue(&mut self, kind: u8, payload: Vec<Bytes>) {
        let header = Bytes::from(frame::header(kind, &payload));
        for chunk in std::iter::once(header).chain(payload).filter(|c| !c.is_empty()) {
            self.sending_bytes += chunk.len();
            self.sending.push_back(chunk);
        }
    }

    /// Reads for a turn.
    pub fn read(&mut self, scratch: &mut [u8], frames: &mut Vec<Frame>) -> Result<(), Lost> {
        let mut read = 0;
        while self.readable && read < TURN {
            let progress = self.stream.read(&mut self.reader, scratch, frames)?;
            read += progress.bytes;
            self.readable = !progress.blocked || (self.ending && progress.bytes > 0);
        }
        Ok(())
    }

    /// Writes what the socket takes, for a turn.
    pub fn write(&mut self) -> Result<Wrote, Lost> {
        let (mut room, mut written) = (false, 0);
        while self.writable {
            if let State::Up { outbox, .. } = &self.state {
                let outbox = outbox.clone();
                while self.sending_bytes < AHEAD
                    && let Some((kind, payload)) = outbox.take()
                {
                    self.queue(kind, payload);
                }
            }
            let progress = self.stream.write(&mut self.sending)?;
            self.sending_bytes -= progress.bytes;
            self.writable = !progress.blocked;
            if let State::Up { outbox, .. } = &self.state {
                room |= outbox.written(progress.bytes);
            }
            written += progress.bytes;
            if progress.bytes == 0 || written >= TURN {
                return Ok(Wrote { room, more: progress.bytes > 0 });
            }
        }
        Ok(Wrote { room, more: false })
    }

    /// Tells the other side why it is refused, and waits for it to go.
    pub fn refuse(&mut self, why: &Lost, deadline: Instant) {
        self.state = State::Leaving;
        self.deadline = deadline;
        self.sending.clear();
        let mut reason = why.to_string();
        reason.truncate(reason.floor_char_boundary(MAX_GREETING));
        self.queue(hello::REFUSED, vec![reason.into()]);
        self.stream.finish(&mut self.sending);
    }
}
