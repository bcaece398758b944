//! The node's side of one connection.
//!
//! [`Server`] is told of received bytes, hands out [`Event`]s, is told the
//! answers and has bytes to send, like NBD's. What cannot be a request is
//! refused here; where it stands in the graph, and whether the volume has room
//! for its range, is for the driver to say.

use bytes::Bytes;

use super::wire::{
    Answer, Code, Hello, LONGEST_NAME, Limits, Name, NumberedRequest, RequestHead, VERSION, Verb,
    Welcome, flag,
};
use crate::intake::Intake;
use crate::outbox::Outbox;
use crate::{Awaits, Machine, Service};

/// Data of a refused write up to this length are skipped; what announces more is no host.
const SKIPPED: u64 = 64 << 20;

/// Something the driver is asked to do.
#[derive(Clone, Debug)]
pub enum Event {
    /// A host greets: call [`Server::welcome`] or [`Server::turn_away`].
    Hello(Hello),
    /// A request: call [`Server::answer`] when it is done.
    Request(NumberedRequest),
    /// The host will not come back.
    Bye,
}

/// The host broke the protocol beyond repair; the connection must be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// Not a hello where one was due.
    #[error("the connection begins with {0:#018x}, which is not a greeting of weft-client")]
    Hello(u64),
    /// Not a request where one was due.
    #[error("a request begins with {0:#06x}")]
    Request(u16),
    /// More data than anyone would skip.
    #[error("a write announces {0} bytes")]
    Length(u64),
}

/// Where the connection stands.
enum Phase {
    /// The hello is not all there.
    Greeting,
    /// The driver owes an answer to it.
    Greeted,
    /// The next is a request.
    Serving,
    /// The data of this request are not all there.
    Receiving(NumberedRequest),
    /// Nothing the host sends matters any more.
    Closing,
    /// The host broke the protocol.
    Broken(ProtocolError),
}

/// The machine; see the [module](self).
pub struct Server {
    intake: Intake,
    outbox: Outbox,
    phase: Phase,
    limits: Limits,
    /// Requests whose heads have come.
    begun: u64,
}

impl Server {
    /// A new connection, to a node that takes so much.
    pub fn new(limits: Limits) -> Server {
        let (intake, outbox) = (Intake::default(), Outbox::default());
        Server { intake, outbox, phase: Phase::Greeting, limits, begun: 0 }
    }

    /// The next thing to do. `None` means that more bytes are needed, that the hello is not
    /// answered yet, or that the connection is closing.
    pub fn poll(&mut self) -> Result<Option<Event>, ProtocolError> {
        let step = self.step();
        if let Err(error) = &step {
            self.phase = Phase::Broken(*error);
            self.intake.discard();
        }
        step
    }

    fn step(&mut self) -> Result<Option<Event>, ProtocolError> {
        loop {
            match &self.phase {
                Phase::Greeting => return self.hello(),
                Phase::Serving => match self.request()? {
                    Step::More => return Ok(None),
                    Step::Again => {}
                    Step::Do(event) => return Ok(Some(event)),
                },
                Phase::Receiving(_) => {
                    let Some(data) = self.intake.payload() else { return Ok(None) };
                    let phase = std::mem::replace(&mut self.phase, Phase::Serving);
                    let Phase::Receiving(request) = phase else { continue };
                    return Ok(Some(Event::Request(NumberedRequest { data, ..request })));
                }
                Phase::Greeted | Phase::Closing => return Ok(None),
                Phase::Broken(error) => return Err(*error),
            }
        }
    }

    fn hello(&mut self) -> Result<Option<Event>, ProtocolError> {
        let Some(bytes) = self.intake.peek() else { return Ok(None) };
        let (hello, name) = Hello::decode(bytes).map_err(ProtocolError::Hello)?;
        let Some(text) = self.intake.peek_at(Hello::LEN, name) else { return Ok(None) };
        // No volume has such a name, nor one that is not text.
        let volume = match name <= LONGEST_NAME {
            true => String::from_utf8_lossy(text).into_owned(),
            false => "?".to_string(),
        };
        self.intake.consume(Hello::LEN + name);
        self.phase = Phase::Greeted;
        if hello.from > VERSION || hello.to < VERSION || hello.host == 0 {
            let text = match hello.host {
                0 => "a host's number is not 0".to_string(),
                _ => format!(
                    "this node supports version {VERSION}, and the host {} to {}; use a client of \
                     this release",
                    hello.from, hello.to
                ),
            };
            self.turn_away(if hello.host == 0 { Code::Malformed } else { Code::Version }, text);
            return Ok(None);
        }
        Ok(Some(Event::Hello(Hello { volume, ..hello })))
    }

    fn request(&mut self) -> Result<Step, ProtocolError> {
        let Some(bytes) = self.intake.peek() else { return Ok(Step::More) };
        let head = RequestHead::decode(bytes).map_err(ProtocolError::Request)?;
        let verb = Verb::of(head.verb);
        let data = if verb == Some(Verb::Write) { head.length } else { 0 };
        if data > SKIPPED {
            return Err(ProtocolError::Length(data));
        }
        if let Err((code, text)) = self.check(&head, verb) {
            self.intake.consume(NumberedRequest::LEN);
            self.intake.skip(Name::LEN as u64 * u64::from(head.after) + data);
            self.begun += 1;
            self.refuse(head.number, code, text);
            return Ok(Step::Again);
        }
        let names = Name::LEN * usize::from(head.after);
        let Some(after) = self.intake.peek_at(NumberedRequest::LEN, names) else {
            return Ok(Step::More);
        };
        let after = Name::decode_all(after);
        self.intake.consume(NumberedRequest::LEN + names);
        self.begun += 1;
        let RequestHead { flags, number, oldest, offset, length, .. } = head;
        let verb = verb.expect("what has none was refused");
        let data = Bytes::new();
        let request = NumberedRequest { verb, flags, number, oldest, offset, length, after, data };
        match verb {
            Verb::Bye => {
                self.close();
                Ok(Step::Do(Event::Bye))
            }
            Verb::Write => {
                self.intake.expect(length as usize);
                self.phase = Phase::Receiving(request);
                Ok(Step::Again)
            }
            _ => Ok(Step::Do(Event::Request(request))),
        }
    }

    fn check(&self, head: &RequestHead, verb: Option<Verb>) -> Result<(), (Code, String)> {
        let malformed = |text: &str| Err((Code::Malformed, text.to_string()));
        let Some(verb) = verb else { return malformed("there is no such request") };
        if head.flags & !flag::ALL != 0 {
            return malformed("it has flags that mean nothing");
        }
        if head.number == 0 && verb != Verb::Bye {
            return malformed("requests are numbered from 1 on");
        }
        if head.oldest > head.number && verb != Verb::Bye {
            return malformed("the oldest unacknowledged request is at most the request itself");
        }
        let ranged = !matches!(verb, Verb::Flush | Verb::Bye);
        if ranged == (head.length == 0) || (!ranged && head.offset != 0) {
            return malformed(match ranged {
                true => "its length is zero",
                false => "it takes no range",
            });
        }
        let most = u64::from(self.limits.request_bytes);
        if matches!(verb, Verb::Read | Verb::Write) && head.length > most {
            let text = format!("{} bytes exceed the maximum of a request, {most}", head.length);
            return Err((Code::TooLong, text));
        }
        if head.after > self.limits.after {
            let text = format!("it names {}, and {} at most", head.after, self.limits.after);
            return Err((Code::TooManyAfter, text));
        }
        Ok(())
    }

    /// Lets the host in.
    pub fn welcome(&mut self, size: u64, remembered: bool, journaled: bool, read_only: bool) {
        let (limits, text) = (self.limits, String::new());
        let welcome = Welcome {
            version: VERSION,
            code: Code::Done,
            remembered,
            journaled,
            read_only,
            size,
            limits,
            text,
        };
        self.outbox.header(&welcome.encode());
        self.phase = Phase::Serving;
    }

    /// Does not let it in.
    pub fn turn_away(&mut self, code: Code, text: String) {
        let (limits, size) = (self.limits, 0);
        let (remembered, journaled, read_only) = (false, false, false);
        let welcome = Welcome {
            version: VERSION,
            code,
            remembered,
            journaled,
            read_only,
            size,
            limits,
            text,
        };
        self.outbox.header(&welcome.encode());
        self.close();
    }

    /// Answers a request.
    pub fn answer(&mut self, answer: Answer) {
        self.outbox.header(&answer.encode_head());
        for piece in answer.data {
            self.outbox.data(piece);
        }
    }

    /// Answers a request that is not done.
    pub fn refuse(&mut self, number: u64, code: Code, text: String) {
        self.answer(Answer { number, code, because: None, text, data: Vec::new() });
    }

    /// Takes nothing more from the host.
    pub fn close(&mut self) {
        self.phase = Phase::Closing;
        self.intake.discard();
    }
}

enum Step {
    /// More bytes are needed.
    More,
    /// Look again.
    Again,
    /// Here is something to do.
    Do(Event),
}

impl Service for Server {
    fn awaits(&self) -> Awaits {
        match self.phase {
            Phase::Greeting => Awaits::Greeting,
            Phase::Serving | Phase::Receiving(_) if !self.intake.is_empty() => Awaits::Rest,
            _ => Awaits::Nothing,
        }
    }
    fn incoming(&self) -> usize {
        self.intake.expected().unwrap_or(0)
    }
    fn begun(&self) -> u64 {
        self.begun
    }
}

impl Machine for Server {
    fn space(&mut self) -> &mut [u8] {
        self.intake.space()
    }
    fn filled(&mut self, n: usize) {
        self.intake.filled(n);
        if matches!(self.phase, Phase::Closing | Phase::Broken(_)) {
            self.intake.discard();
        }
    }
    fn output(&self) -> impl Iterator<Item = &[u8]> {
        self.outbox.segments()
    }
    fn output_len(&self) -> usize {
        self.outbox.len()
    }
    fn sent(&mut self, n: usize) {
        self.outbox.sent(n);
    }
    fn closing(&self) -> bool {
        matches!(self.phase, Phase::Closing)
    }
}
