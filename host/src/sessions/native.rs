//! The native protocol: its machine's events and answers, in the words of nodes.

use bytes::Bytes;
use weft_core::Buffer;
use weft_core::cluster::{Access, Volume};
use weft_core::node::{HostData, HostError, HostOp};
use weft_core::order::{HostId, PlaceError, RequestId};
use weft_core::plan::Range;
use weft_core::units::VolumeId;
use weft_front::native::server::{Event, Server};
use weft_front::native::wire::flag;
use weft_front::native::{Answer, Code, Limits, Name, NumberedRequest, Verb};

use super::connection::Protocol;
use super::link::Bounds;
use super::numbered::{AHEAD, Failure};
use super::{Asked, Attach, Order, Refused, Said};
use crate::volumes::Exports;

/// What a connection takes; the host is told.
const LIMITS: Limits = Limits {
    request_bytes: 8 << 20,
    bytes_in_work: 16 << 20,
    requests_in_work: 1024,
    ahead: AHEAD as u32,
    after: 64,
};

/// What a connection knows.
#[derive(Default)]
pub(super) struct Native {
    /// Who has greeted, and whether it has been let in.
    host: Option<HostId>,
    /// It has greeted, and waits to be let in.
    applies: bool,
    volume: Option<VolumeId>,
    /// It may only read the volume that it wants.
    read_only: bool,
}

impl Protocol for Native {
    type Machine = Server;

    const KEY: &'static str = "native";
    const PREFIX: &'static str = "native:";
    const SPOKEN_BY: &'static str = "weft-client";
    const SOCKET: Option<&'static str> = Some("weft.sock");
    const SCHEME: &'static str = "weft";
    const BOUNDS: Bounds =
        Bounds { bytes: LIMITS.bytes_in_work as u64, requests: LIMITS.requests_in_work as usize };
    const IS_NUMBERED: bool = true;

    fn machine() -> Server {
        Server::new(LIMITS)
    }

    fn next(&mut self, machine: &mut Server, exports: Exports<'_>) -> Result<Option<Said>, String> {
        let event = machine.poll().map_err(|e| e.to_string())?;
        Ok(event.map(|event| match event {
            Event::Hello(hello) => {
                let host = HostId(hello.host);
                (self.host, self.applies) = (Some(host), true);
                let access = exports.wanted(&hello.volume).and_then(|v| exports.access(v.id));
                self.read_only = access == Some(Access::ReadOnly);
                Said::Attach(Attach {
                    volume: hello.volume,
                    host: Some(host),
                    resumes: hello.resumes,
                })
            }
            Event::Request(request) => asked(request).map_or(Said::Bye, Said::Ask),
            Event::Bye => Said::Bye,
        }))
    }

    fn holds(&self) -> bool {
        self.applies
    }

    fn let_in(&mut self, machine: &mut Server, volume: &Volume, remembered: bool) {
        (self.applies, self.volume) = (false, Some(volume.id));
        let journaled = volume.policy.is_journaled();
        machine.welcome(volume.visible, remembered, journaled, self.read_only);
    }

    fn turn_away(&mut self, machine: &mut Server, why: Refused, text: String) -> bool {
        self.applies = false;
        let code = match why {
            Refused::NoVolume => Code::NoVolume,
            Refused::NotServing => Code::NotServing,
            Refused::SecondWriter => Code::SecondWriter,
            Refused::OtherVolume => Code::OtherVolume,
            Refused::NotAllowed => Code::NotAllowed,
        };
        machine.turn_away(code, text);
        matches!(why, Refused::SecondWriter | Refused::OtherVolume | Refused::NotAllowed)
    }

    fn answer(
        &mut self,
        machine: &mut Server,
        number: u64,
        result: Result<HostData, Failure>,
    ) -> Option<String> {
        let answer = answer(number, result);
        let failed = matches!(answer.code, Code::Lost | Code::NoProgress | Code::Failed);
        let failure = failed.then(|| answer.text.clone());
        machine.answer(answer);
        failure
    }

    fn volume(&self) -> Option<VolumeId> {
        self.volume
    }

    fn host(&self) -> Option<HostId> {
        self.host.filter(|_| self.volume.is_some())
    }
}

/// What is asked with a request; `None` if it is a good-bye.
fn asked(request: NumberedRequest) -> Option<Asked> {
    let op = host_op(&request)?;
    let after = after(&request);
    let bytes = match request.verb {
        Verb::Read | Verb::Write => request.length,
        _ => 0,
    };
    let order = Order {
        oldest: request.oldest,
        after_completed: request.has(flag::AFTER_COMPLETED),
        again: request.has(flag::AGAIN),
        after,
    };
    let durable = request.has(flag::DURABLE) && request.verb.changes();
    let (number, order) = (request.number, Some(order));
    Some(Asked { number, op, elsewhere: None, bytes, durable, came: None, order })
}

/// What a node is asked for a request.
fn host_op(request: &NumberedRequest) -> Option<HostOp> {
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
fn after(request: &NumberedRequest) -> Vec<RequestId> {
    let id = |n: &Name| RequestId { host: HostId(n.host), number: n.number };
    request.after.iter().map(id).collect()
}

/// What a host is told of an end.
fn answer(number: u64, result: Result<HostData, Failure>) -> Answer {
    let failure = match result {
        Ok(data) => {
            let data = match data {
                HostData::Bytes(pieces) => pieces.into_iter().flat_map(bytes).collect(),
                HostData::Done
                | HostData::Refreshed(_)
                | HostData::Lost(..)
                | HostData::Exposed(_)
                | HostData::Changed(_)
                | HostData::Extents(_)
                | HostData::Scrubbed(..) => Vec::new(),
            };
            let text = String::new();
            return Answer { number, code: Code::Done, because: None, text, data };
        }
        Err(failure) => failure,
    };
    let (code, because) = code(&failure);
    let because = because.map(|id| Name { host: id.host.0, number: id.number });
    let text = failure.to_string();
    Answer { number, code, because, text, data: Vec::new() }
}

fn code(failure: &Failure) -> (Code, Option<RequestId>) {
    let error = match failure {
        Failure::Host(error) => error,
        Failure::TooFarAhead { .. } => return (Code::TooFarAhead, None),
        Failure::NamesLater { .. } => return (Code::Cycle, None),
    };
    let place = match error {
        HostError::Place(place) => place,
        HostError::NoVolume => return (Code::NoVolume, None),
        HostError::TooManyLost => return (Code::Lost, None),
        HostError::NoProgress { .. } => return (Code::NoProgress, None),
        HostError::NoSpace => return (Code::NoSpace, None),
        HostError::OutOfRange { .. } => return (Code::OutOfRange, None),
        HostError::NotServing => return (Code::NotServing, None),
        HostError::OutcomeUnknown => return (Code::Unknown, None),
        HostError::Gone | HostError::Unrelated => return (Code::Failed, None),
        HostError::ReadOnly | HostError::Reserved => return (Code::NotAllowed, None),
        HostError::Outdated | HostError::Differs { .. } | HostError::NotOffered => {
            return (Code::Failed, None);
        }
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
        let told = answer(4, Err(Failure::TooFarAhead { number: 4, oldest: 1 }));
        assert_eq!((told.code, told.because), (Code::TooFarAhead, None));
    }
}
