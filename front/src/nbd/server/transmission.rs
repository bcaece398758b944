//! Commands, once an export is opened.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use super::check::check;
use super::{Command, Context, Cookie, Errno, Export, Op, Phase, ProtocolError, Server};
use crate::nbd::wire::{self, RequestHeader, flag};

/// A refused write's payload is skipped up to this length. A client that
/// announces more than this and more than it was told to has lost its way.
const SKIPPED: u32 = 64 << 20;

/// How far questions for the state of a range look at least and at most: less far where there are many extents, whose
/// answers take memory. A client asks on from where an answer ends.
const LOOKS: RangeInclusive<u64> = (4 << 20)..=(16 << 30);

/// How much further a look goes than one before it that found few extents.
const FACTOR: u64 = 16;

/// More extents than this are many.
const FEW: usize = 1 << 10;

/// What was agreed on before the first command.
pub(super) struct Session {
    pub(super) export: Export,
    /// Structured replies.
    pub(super) structured: bool,
    /// The contexts that the client chose.
    pub(super) contexts: Vec<Context>,
    /// A write whose payload is on its way.
    writing: Option<RequestHeader>,
    /// What has yet to be handed out of a question for a range's state, which is asked in each context.
    asking: VecDeque<Command>,
    /// How far the next such question looks.
    look: u64,
}

impl Session {
    /// A look has found this number of extents, in all of its range or not.
    pub(super) fn looked(&mut self, extents: usize, is_all: bool) {
        let look = match is_all && extents <= FEW {
            true => self.look * FACTOR,
            false => self.look / FACTOR,
        };
        self.look = look.clamp(*LOOKS.start(), *LOOKS.end());
    }
}

impl Server {
    /// Ends negotiation.
    pub(super) fn serve(&mut self, export: Export) {
        let negotiation = &mut self.negotiation;
        let chosen = negotiation.contexts_of.take().filter(|of| of.0 == export.name);
        let chosen = chosen.filter(|_| negotiation.structured);
        self.session = Some(Session {
            structured: negotiation.structured,
            contexts: chosen.map_or_else(Vec::new, |of| of.1),
            export,
            writing: None,
            asking: VecDeque::new(),
            look: *LOOKS.start(),
        });
        self.phase = Phase::Serving;
    }

    pub(super) fn next_command(&mut self) -> Result<Option<Command>, ProtocolError> {
        while let Some(session) = &mut self.session {
            if let Some(request) = session.writing {
                let Some(payload) = self.intake.payload() else {
                    return Ok(None);
                };
                session.writing = None;
                return Ok(Some(self.hand_out(request, Op::Write(payload))));
            }
            if let Some(command) = session.asking.pop_front() {
                return Ok(Some(command));
            }
            let Some(header) = self.intake.peek() else {
                return Ok(None);
            };
            let request = RequestHeader::decode(header).map_err(ProtocolError::RequestMagic)?;
            if request.kind == wire::command::DISC {
                self.close();
                return Ok(None);
            }
            self.intake.consume(RequestHeader::LEN);
            self.begun += 1;
            match check(&request, session) {
                Ok(Op::Write(_)) => {
                    session.writing = Some(request);
                    self.intake.expect(request.length as usize);
                }
                Ok(Op::BlockStatus { one, .. }) => {
                    let length = u64::from(request.length).min(session.look) as u32;
                    let request = RequestHeader { length, ..request };
                    let cookies = self.commands.put_questions(request, &session.contexts);
                    let op = |context| Op::BlockStatus { one, context };
                    let each = session.contexts.iter().zip(cookies);
                    session.asking = each.map(|(c, k)| command(k, &request, op(*c))).collect();
                }
                Ok(op) => return Ok(Some(self.hand_out(request, op))),
                Err(errno) => self.turn_down(&request, &errno)?,
            }
        }
        Ok(None)
    }

    fn hand_out(&mut self, request: RequestHeader, op: Op) -> Command {
        command(self.commands.put(request), &request, op)
    }

    fn turn_down(&mut self, request: &RequestHeader, errno: &Errno) -> Result<(), ProtocolError> {
        if request.kind == wire::command::WRITE {
            let told = self.opened().map_or(0, |export| export.max_payload);
            if request.length > SKIPPED.max(told) {
                return Err(ProtocolError::PayloadLength(request.length));
            }
            self.intake.skip(u64::from(request.length));
        }
        self.fail(request, errno);
        Ok(())
    }
}

/// A request as the driver sees it.
fn command(cookie: Cookie, request: &RequestHeader, op: Op) -> Command {
    let fua = request.flags & flag::FUA != 0;
    Command { cookie, op, offset: request.offset, length: request.length, fua }
}
