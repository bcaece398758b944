//! One connection of a host that speaks the native protocol: how much it may have in work, and
//! the words of the protocol in place of a node's.

use bytes::Bytes;
use weft_core::Buffer;
use weft_core::node::{HostData, HostError, HostOp};
use weft_core::order::{HostId, PlaceError, RequestId};
use weft_core::plan::Range;
use weft_core::units::VolumeId;
use weft_front::native::server::{Event, Server};
use weft_front::native::{Answer, Code, Hello, Limits, Name, NumberedRequest, Verb};

use crate::sessions::link::{Bounds, End, Link};
use crate::sessions::numbered::{AHEAD, Failure};
use crate::sessions::room::Room;
use crate::socket::Stream;

/// What a connection takes; the host is told.
const LIMITS: Limits = Limits {
    request_bytes: 8 << 20,
    bytes_in_work: 16 << 20,
    requests_in_work: 1024,
    ahead: AHEAD as u32,
    after: 64,
};

const BOUNDS: Bounds =
    Bounds { bytes: LIMITS.bytes_in_work as u64, requests: LIMITS.requests_in_work as usize };

/// A host's connection.
pub(crate) struct Connection {
    pub(crate) link: Link<Server, u64>,
    pub(crate) host: Option<HostId>,
    pub(crate) volume: Option<VolumeId>,
    /// The node that serves it.
    pub(crate) node: usize,
    last_error: Option<Code>,
}

impl Connection {
    /// A connection that has just come in.
    pub(crate) fn new(stream: Stream, peer: String, node: usize) -> Connection {
        Connection {
            link: Link::new(stream, peer, Server::new(LIMITS), BOUNDS),
            host: None,
            volume: None,
            node,
            last_error: None,
        }
    }

    /// The next thing that the host says; `None` if there is no more, or if enough is in work:
    /// the rest waits in the socket, and the host with it. So it does when there is no room for a
    /// request that is coming.
    pub(crate) fn receive(&mut self, conn: usize, room: &mut Room) -> Result<Option<Event>, End> {
        loop {
            self.link.stalled = false;
            if self.link.is_full() {
                self.link.stalled = true;
                return Ok(None);
            }
            match self.link.machine.poll() {
                Ok(Some(Event::Request(request))) => {
                    let bytes = match request.verb {
                        Verb::Read | Verb::Write => request.length,
                        _ => 0,
                    };
                    self.link.begun(request.number, bytes);
                    // It is whole: what it had is for others.
                    self.link.finds_room(conn, room);
                    return Ok(Some(Event::Request(request)));
                }
                Ok(Some(event)) => return Ok(Some(event)),
                Ok(None) if !self.link.finds_room(conn, room) => return Ok(None),
                Ok(None) if !self.link.wants_to_receive() => return Ok(None),
                Ok(None) if !self.link.receive()? => return Ok(None),
                Ok(None) => {}
                Err(e) => return Err(self.link.failed(e)),
            }
        }
    }

    /// Answers a request. Says what to log, if the error is not the same as the last.
    pub(crate) fn answer(
        &mut self,
        number: u64,
        result: Result<HostData, Failure>,
    ) -> Option<String> {
        self.link.ended(&number);
        let answer = answer(number, result);
        let failed = matches!(answer.code, Code::Lost | Code::NoProgress | Code::Failed);
        let line = (failed && self.last_error != Some(answer.code))
            .then(|| format!("a request of {} failed: {}", self.link.peer, answer.text));
        self.last_error = failed.then_some(answer.code);
        self.link.machine.answer(answer);
        line
    }
}

/// A host's number.
pub(crate) fn host(hello: &Hello) -> HostId {
    HostId(hello.host)
}

/// What a node is asked for a request.
pub(crate) fn host_op(request: &NumberedRequest) -> Option<HostOp> {
    let range = Range { offset: request.offset, len: request.length };
    match request.verb {
        Verb::Read => Some(HostOp::Read(range)),
        Verb::Write => Some(HostOp::Write(request.offset, Buffer::Bytes(request.data.clone()))),
        Verb::Flush => Some(HostOp::Flush),
        Verb::Trim => Some(HostOp::Trim(range)),
        Verb::WriteZeroes => Some(HostOp::WriteZeroes(range)),
        Verb::Bye => None,
    }
}

/// The names of those that must come first.
pub(crate) fn after(request: &NumberedRequest) -> Vec<RequestId> {
    let id = |n: &Name| RequestId { host: HostId(n.host), number: n.number };
    request.after.iter().map(id).collect()
}

/// What a host is told of an end.
fn answer(number: u64, result: Result<HostData, Failure>) -> Answer {
    let failure = match result {
        Ok(data) => {
            let data = match data {
                HostData::Bytes(pieces) => pieces.into_iter().flat_map(bytes).collect(),
                HostData::Done | HostData::Extents(_) | HostData::Scrubbed(..) => Vec::new(),
            };
            let text = String::new();
            return Answer { number, code: Code::Done, because: None, text, data };
        }
        Err(failure) => failure,
    };
    let (code, because) = code(&failure);
    let because = because.map(|id| Name { host: id.host.0, number: id.number });
    let text = match failure {
        Failure::Host(e) => e.to_string(),
        Failure::TooFarAhead { oldest } => format!(
            "request {number} is {AHEAD} or more ahead of {oldest}, the oldest that the host has \
             not heard of"
        ),
    };
    Answer { number, code, because, text, data: Vec::new() }
}

fn code(failure: &Failure) -> (Code, Option<RequestId>) {
    let Failure::Host(error) = failure else { return (Code::TooFarAhead, None) };
    let place = match error {
        HostError::Place(place) => place,
        HostError::NoVolume => return (Code::NoVolume, None),
        HostError::TooManyLost => return (Code::Lost, None),
        HostError::NoProgress { .. } => return (Code::NoProgress, None),
        HostError::OutOfRange { .. } => return (Code::OutOfRange, None),
        HostError::NotServing => return (Code::NotServing, None),
        HostError::OutcomeUnknown => return (Code::Unknown, None),
        HostError::Gone => return (Code::Failed, None),
    };
    match place {
        PlaceError::AfterItself(_) => (Code::AfterItself, None),
        PlaceError::Cycle(_) => (Code::Cycle, None),
        // Either way the number is of no more use.
        PlaceError::Reused(_) | PlaceError::TooLate(_) => (Code::Reused, None),
        PlaceError::TooFarAhead { .. } => (Code::TooFarAhead, None),
        PlaceError::TooManyUnissued { .. } => (Code::TooManyUnissued, None),
        PlaceError::Aborted(id) => (Code::Aborted, Some(*id)),
        PlaceError::NeverIssued(id) => (Code::NeverIssued, Some(*id)),
        PlaceError::NotOrdered(id) => (Code::NotOrdered, Some(*id)),
    }
}

/// What stands for a hole.
static ZEROES: [u8; 64 << 10] = [0; 64 << 10];

fn bytes(buffer: Buffer) -> Vec<Bytes> {
    match buffer {
        Buffer::Bytes(bytes) => vec![bytes],
        Buffer::Length(_) => unreachable!("only simulations have lengths"),
        Buffer::Zero(len) => {
            let piece = ZEROES.len() as u64;
            (0..len as u64)
                .step_by(ZEROES.len())
                .map(|at| Bytes::from_static(&ZEROES[..(len as u64 - at).min(piece) as usize]))
                .collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_are_sent_as_zeroes_of_their_length() {
        for len in [1, 4096, 64 << 10, (64 << 10) + 1, 1 << 20] {
            let sent = bytes(Buffer::Zero(len)).concat();
            assert_eq!(sent.len() as u64, len as u64);
            assert!(sent.iter().all(|b| *b == 0));
        }
    }

    #[test]
    fn an_abort_says_because_of_which() {
        let because = RequestId { host: HostId(5), number: 3 };
        let told = answer(4, Err(PlaceError::Aborted(because).into()));
        assert_eq!((told.number, told.code), (4, Code::Aborted));
        assert_eq!(told.because, Some(Name { host: 5, number: 3 }));
        assert!(told.text.contains("request 3"), "{}", told.text);
        let told = answer(4, Err(Failure::TooFarAhead { oldest: 1 }));
        assert_eq!((told.code, told.because), (Code::TooFarAhead, None));
    }
}
