//! The server's side of one connection.
//!
//! [`Server`] is told of received bytes, hands out [`Event`]s, is told the
//! answers and has bytes to send. The driver's loop is
//!
//! 1. [`Server::poll`] until it returns `None`, doing what the events ask;
//! 2. send what [`Server::output`] holds and say so with [`Server::sent`];
//! 3. end if [`Server::closing`] and nothing is in flight or unsent;
//! 4. receive into [`Server::space`] and say so with [`Server::filled`].
//!
//! Commands may be answered in any order and at any time. Malformed, out-of-bounds and forbidden requests are refused
//! here; a driver sees only commands that make sense on the export it gave. Holding back a client that sends
//! faster than it is served is the driver's part: it stops doing step 4.
//!
//! A driver that serves zeroes, one command at a time:
//!
//! ```
//! use std::io::{self, IoSlice, Read, Write};
//! use weft_front::nbd::server::{Errno, Event, Export, Op, Piece, Reply, Server};
//!
//! fn serve(mut stream: impl Read + Write) -> io::Result<()> {
//!     let export = Export {
//!         read_only: true,
//!         ..Export::new("zeroes", 1 << 30)
//!     };
//!     let mut server = Server::new();
//!     loop {
//!         while let Some(event) = server.poll().map_err(io::Error::other)? {
//!             match event {
//!                 Event::List => server.exports(std::slice::from_ref(&export)),
//!                 Event::Open { name, .. } => {
//!                     let known = name.is_empty() || name == export.name;
//!                     server.export(known.then(|| export.clone()));
//!                 }
//!                 Event::Command(command) => {
//!                     let result = match command.op {
//!                         Op::Read => Ok(Reply::Pieces(vec![Piece::Zeroes(command.length)])),
//!                         Op::Flush | Op::Cache => Ok(Reply::Done),
//!                         _ => Err(Errno::ENOTSUP.with("there is nothing but zeroes")),
//!                     };
//!                     server.reply(command.cookie, result);
//!                 }
//!             }
//!         }
//!         while server.output_len() > 0 {
//!             let segments: Vec<_> = server.output().take(64).map(IoSlice::new).collect();
//!             let n = stream.write_vectored(&segments)?;
//!             server.sent(n);
//!         }
//!         if server.closing() && server.in_flight() == 0 {
//!             return Ok(());
//!         }
//!         let n = stream.read(server.space())?;
//!         if n == 0 {
//!             return Ok(());
//!         }
//!         server.filled(n);
//!     }
//! }
//! ```

mod check;
mod handshake;
mod in_flight;
mod options;
mod replies;
mod transmission;

use bytes::Bytes;

pub use super::errno::Errno;
pub use super::export::{Change, Context, Export, Exposure, Extent, Snapshot};
use crate::intake::Intake;
use crate::outbox::Outbox;
use crate::{Awaits, Tls};
use handshake::Negotiation;
pub use in_flight::Cookie;
use in_flight::InFlight;
use options::Question;
use transmission::Session;

/// Something the driver is asked to do.
#[derive(Clone, Debug)]
pub enum Event {
    /// The client wants to know what there is: call [`Server::exports`].
    List,
    /// The client named an export: look it up and call [`Server::export`] or
    /// [`Server::forbid_without_tls`], [`Server::puts_off`] or [`Server::lacks`].
    ///
    /// A client may look at several before it settles on one, so this takes
    /// nothing into use; [`Server::opened`] gives the open one.
    Open {
        /// The name asked for; empty for the default export.
        name: String,
        /// If it gets the export it is this one that it uses from then on.
        settles: bool,
    },
    /// A command to carry out: call [`Server::reply`] when it is done.
    Command(Command),
}

/// A command on the opened export.
#[derive(Clone, Debug)]
pub struct Command {
    /// To be handed back with the reply.
    pub cookie: Cookie,
    /// What to do.
    pub op: Op,
    /// Where, in bytes; zero for a flush.
    pub offset: u64,
    /// How much, in bytes; zero for a flush, and never zero otherwise.
    pub length: u32,
    /// Reply only once the effect is durable.
    pub fua: bool,
}

/// What a command does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Read; answered by [`Reply::Data`] or [`Reply::Pieces`].
    Read,
    /// Write these bytes, as many as the command's length says.
    Write(Bytes),
    /// Make every write replied to so far durable.
    Flush,
    /// The range's contents are no longer needed.
    Trim,
    /// Zero the range.
    WriteZeroes {
        /// Keep storage allocated to it.
        no_hole: bool,
        /// Fail with [`Errno::ENOTSUP`] at once if that takes as long as
        /// writing zeroes would.
        fast: bool,
    },
    /// The range will be read soon.
    Cache,
    /// Report the state of the range, which may be shorter than the client's; answered by [`Reply::Extents`], [`Reply::Exposure`] or [`Reply::Changes`], as the
    /// context has it.
    /// A client that chose several contexts makes one command of each.
    BlockStatus {
        /// The first extent is enough.
        one: bool,
        /// The contexts to report.
        context: Context,
    },
}

/// How a command that succeeded is answered.
///
/// An answer that does not fit the command (no data for a read, or too few)
/// reaches the client as `EIO`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Done; nothing to return.
    Done,
    /// The content read, in order, adding up to the command's length.
    Data(Vec<Bytes>),
    /// The content read, where the driver knows of zeroes that need not be sent.
    Pieces(Vec<Piece>),
    /// Extents from the command's offset on. They may cover less than was
    /// asked for or more, but cover something.
    Extents(Vec<Extent>),
    /// The same in the context [`Context::Exposed`].
    Exposure(Vec<Exposure>),
    /// The same in the context [`Context::Since`].
    Changes(Vec<Change>),
}

/// Part of the content read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Bytes.
    Data(Bytes),
    /// This many zeroes.
    Zeroes(u32),
}

/// The client broke the protocol beyond repair; the connection must be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// Flags nobody offered.
    #[error("client set unknown handshake flags ({0:#x})")]
    HandshakeFlags(u32),
    /// A client of the oldest kind.
    #[error("client does not support fixed newstyle")]
    NotFixedNewstyle,
    /// Something in plain behind the wish for TLS, where somebody between may have put it.
    #[error("client sent bytes after STARTTLS before TLS began")]
    BehindStartTls,
    /// Not an option where one was due.
    #[error("option begins with {0:#018x}")]
    OptionMagic(u64),
    /// More option data than anyone would skip.
    #[error("option {option} announces {length} bytes")]
    OptionLength {
        /// The option's number.
        option: u32,
        /// The length announced.
        length: u32,
    },
    /// Negotiation without end.
    #[error("client sent too many options")]
    TooManyOptions,
    /// Not a command where one was due.
    #[error("command begins with {0:#010x}")]
    RequestMagic(u32),
    /// More payload than anyone would skip.
    #[error("write announces {0} bytes")]
    PayloadLength(u32),
}

/// Where the connection stands.
enum Phase {
    /// Options are being negotiated.
    Negotiating,
    /// The driver owes an answer.
    Asking(Question),
    /// TLS was promised, and has not begun.
    Securing,
    /// Commands are being handed out.
    Serving,
    /// Nothing the client sends matters any more.
    Closing,
    /// The client broke the protocol.
    Broken(ProtocolError),
}

/// The machine; see the [module](self).
pub struct Server {
    intake: Intake,
    outbox: Outbox,
    phase: Phase,
    negotiation: Negotiation,
    session: Option<Session>,
    commands: InFlight,
    /// Commands whose headers have come.
    begun: u64,
}

impl Default for Server {
    fn default() -> Server {
        Server::new()
    }
}

impl Server {
    /// A new connection, with the greeting to be sent.
    pub fn new() -> Server {
        let mut server = Server {
            intake: Intake::default(),
            outbox: Outbox::default(),
            phase: Phase::Negotiating,
            negotiation: Negotiation::default(),
            session: None,
            commands: InFlight::default(),
            begun: 0,
        };
        server.greet();
        server
    }

    /// A new connection, to a server that speaks TLS like this.
    pub fn with_tls(tls: Tls) -> Server {
        let mut server = Server::new();
        server.negotiation.tls = tls;
        server
    }

    /// Whether the client was promised TLS: send the output, begin TLS, and then call [`Server::secured`]. Bytes
    /// received before that are not part of it, and are never given to the machine.
    pub fn begins_tls(&self) -> bool {
        matches!(self.phase, Phase::Securing)
    }

    /// TLS has begun: bytes received from now on came by it. Without such a promise, nothing happens.
    pub fn secured(&mut self) {
        if self.begins_tls() {
            self.phase = Phase::Negotiating;
        }
    }

    /// Where received bytes go; never empty.
    ///
    /// Call it after `poll` returned `None` and every [`Event::List`] and
    /// [`Event::Open`] was answered; otherwise bytes pile up in memory.
    pub fn space(&mut self) -> &mut [u8] {
        self.intake.space()
    }

    /// The first `n` bytes of the latest [`Server::space`] were received.
    ///
    /// # Panics
    ///
    /// If the space was smaller than that.
    pub fn filled(&mut self, n: usize) {
        self.intake.filled(n);
        if matches!(self.phase, Phase::Closing | Phase::Broken(_)) {
            self.intake.discard();
        }
    }

    /// The next thing to do. `None` means that more bytes are needed, that a
    /// question is not answered yet, or that the connection is
    /// [closing](Server::closing). After an error the connection is of no
    /// further use.
    pub fn poll(&mut self) -> Result<Option<Event>, ProtocolError> {
        let step = self.step();
        if let Err(error) = &step {
            self.phase = Phase::Broken(*error);
            self.intake.discard();
        }
        step
    }

    fn step(&mut self) -> Result<Option<Event>, ProtocolError> {
        match &self.phase {
            Phase::Negotiating => self.negotiate(),
            Phase::Serving => Ok(self.next_command()?.map(Event::Command)),
            Phase::Asking(_) | Phase::Securing | Phase::Closing => Ok(None),
            Phase::Broken(error) => Err(*error),
        }
    }

    /// The bytes to send, as segments for a vectored write, front first.
    pub fn output(&self) -> impl Iterator<Item = &[u8]> {
        self.outbox.segments()
    }

    /// The first `n` bytes of the output were sent.
    ///
    /// # Panics
    ///
    /// If the output was shorter than that.
    pub fn sent(&mut self, n: usize) {
        self.outbox.sent(n);
    }

    /// Bytes to be sent.
    pub fn output_len(&self) -> usize {
        self.outbox.len()
    }

    /// Commands handed out and not replied to.
    pub fn in_flight(&self) -> usize {
        self.commands.len()
    }

    /// The client is done: close the connection once nothing is in flight and
    /// the output is empty. A client in a hurry may not wait for that, so it is
    /// no failure if the rest of the output cannot be sent.
    pub fn closing(&self) -> bool {
        matches!(self.phase, Phase::Closing)
    }

    /// The stream could end here without cutting anything in two. Asked when
    /// it did end, this tells a client that left from one that was lost.
    pub fn between_messages(&self) -> bool {
        self.closing() || self.intake.is_empty()
    }

    /// What the server cannot go on without.
    pub fn awaits(&self) -> Awaits {
        match self.phase {
            Phase::Negotiating | Phase::Securing => Awaits::Greeting,
            Phase::Serving if !self.intake.is_empty() => Awaits::Rest,
            _ => Awaits::Nothing,
        }
    }

    /// Length of the payload that is being received.
    pub fn incoming(&self) -> usize {
        self.intake.expected().unwrap_or(0)
    }

    /// Commands that have begun to come.
    pub fn begun(&self) -> u64 {
        self.begun
    }

    /// The export commands are for, once the client settled on one.
    pub fn opened(&self) -> Option<&Export> {
        self.session.as_ref().map(|session| &session.export)
    }

    fn close(&mut self) {
        self.phase = Phase::Closing;
        self.intake.discard();
    }
}
