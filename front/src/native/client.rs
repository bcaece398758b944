//! The host's side of one connection.

use super::wire::{Answer, Code, Hello, LONGEST_TEXT, NumberedRequest, VERSION, WELCOME, Welcome};
use crate::Machine;
use crate::intake::Intake;
use crate::outbox::Outbox;

/// How a server of NBD begins, whose address is easily taken for the native one.
const NBD: u64 = u64::from_be_bytes(*b"NBDMAGIC");

/// Something that the node has said.
#[derive(Clone, Debug)]
pub enum Event {
    /// Its answer to the hello. If its code is not [`Code::Done`] the connection is of no further
    /// use.
    Welcome(Welcome),
    /// How a request ended.
    Answer(Answer),
}

/// The node broke the protocol beyond repair; the connection must be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// Not a welcome where one was due.
    #[error("the connection begins with {0:#018x}, so the other end is not a node of Weft")]
    Welcome(u64),
    /// Another protocol of Weft is spoken there, or of another NBD server.
    #[error(
        "the other end uses NBD instead of Weft's native protocol; the native address is usually \
         the socket weft.sock beside \
         nbd.sock (`weft status` lists addresses, and native ones begin with weft)"
    )]
    Nbd,
    /// A version that was not offered.
    #[error("the node uses version {0}, which was not offered")]
    Version(u16),
    /// Not an answer where one was due.
    #[error("an answer begins with {0:#06x}")]
    Answer(u16),
    /// Longer than anything that was asked for.
    #[error("an answer announces {0} bytes")]
    Length(usize),
}

enum Phase {
    Greeted,
    Serving,
    /// The data of this answer are not all there.
    Receiving(Answer),
}

/// The machine; see the [module](self).
pub struct Client {
    intake: Intake,
    outbox: Outbox,
    phase: Phase,
    /// The longest answer that makes sense.
    longest: usize,
    closing: bool,
}

impl Client {
    /// A new connection, with the hello to be sent.
    pub fn new(hello: &Hello) -> Client {
        let mut outbox = Outbox::default();
        outbox.header(&hello.encode());
        let intake = Intake::default();
        Client { intake, outbox, phase: Phase::Greeted, longest: 0, closing: false }
    }

    /// Queues a request. It may be sent only after the welcome.
    pub fn request(&mut self, request: &NumberedRequest) {
        self.outbox.header(&request.encode_head());
        self.outbox.data(request.data.clone());
    }

    /// The next thing that the node has said.
    pub fn poll(&mut self) -> Result<Option<Event>, ProtocolError> {
        loop {
            match &mut self.phase {
                Phase::Greeted => return self.welcome(),
                Phase::Serving => match self.answer()? {
                    Some(event) => return Ok(Some(event)),
                    None if matches!(self.phase, Phase::Receiving(_)) => {}
                    None => return Ok(None),
                },
                Phase::Receiving(answer) => {
                    let Some(data) = self.intake.payload() else { return Ok(None) };
                    answer.data.push(data);
                    let phase = std::mem::replace(&mut self.phase, Phase::Serving);
                    let Phase::Receiving(answer) = phase else { continue };
                    return Ok(Some(Event::Answer(answer)));
                }
            }
        }
    }

    fn welcome(&mut self) -> Result<Option<Event>, ProtocolError> {
        // Looked at first: another protocol's greeting may be shorter, and nothing may come after it.
        let Some(magic) = self.intake.peek() else { return Ok(None) };
        match u64::from_be_bytes(*magic) {
            WELCOME => {}
            NBD => return Err(ProtocolError::Nbd),
            other => return Err(ProtocolError::Welcome(other)),
        }
        let Some(bytes) = self.intake.peek() else { return Ok(None) };
        let (welcome, text) = Welcome::decode(bytes).map_err(ProtocolError::Welcome)?;
        let Some(text) = self.text(Welcome::LEN, text)? else { return Ok(None) };
        if welcome.code == Code::Done && welcome.version != VERSION {
            return Err(ProtocolError::Version(welcome.version));
        }
        self.longest = welcome.limits.request_bytes as usize;
        self.phase = Phase::Serving;
        Ok(Some(Event::Welcome(Welcome { text, ..welcome })))
    }

    fn answer(&mut self) -> Result<Option<Event>, ProtocolError> {
        let Some(bytes) = self.intake.peek() else { return Ok(None) };
        let (answer, text, data) = Answer::decode(bytes).map_err(ProtocolError::Answer)?;
        if data > self.longest {
            return Err(ProtocolError::Length(data));
        }
        let Some(text) = self.text(Answer::LEN, text)? else { return Ok(None) };
        let answer = Answer { text, ..answer };
        if data == 0 {
            return Ok(Some(Event::Answer(answer)));
        }
        self.intake.expect(data);
        self.phase = Phase::Receiving(answer);
        Ok(None)
    }

    /// The text behind a header, once it is all there; both are taken.
    fn text(&mut self, header: usize, text: usize) -> Result<Option<String>, ProtocolError> {
        if text > LONGEST_TEXT {
            return Err(ProtocolError::Length(text));
        }
        let Some(bytes) = self.intake.peek_at(header, text) else { return Ok(None) };
        let words = String::from_utf8_lossy(bytes).into_owned();
        self.intake.consume(header + text);
        Ok(Some(words))
    }

    /// Says that nothing more is asked.
    pub fn close(&mut self) {
        self.closing = true;
    }
}

impl Machine for Client {
    fn space(&mut self) -> &mut [u8] {
        self.intake.space()
    }
    fn filled(&mut self, n: usize) {
        self.intake.filled(n);
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
        self.closing
    }
}
