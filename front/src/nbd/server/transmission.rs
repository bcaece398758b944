//! Commands, once an export is opened.

use super::check::check;
use super::{Command, Errno, Export, Op, Phase, ProtocolError, Server};
use crate::nbd::wire::{RequestHeader, command, flag};

/// A refused write's payload is skipped up to this length. A client that
/// announces more than this and more than it was told to has lost its way.
const SKIPPED: u32 = 64 << 20;

/// What was agreed on before the first command.
pub(super) struct Session {
    pub(super) export: Export,
    /// Structured replies.
    pub(super) structured: bool,
    /// The context `base:allocation`.
    pub(super) allocation: bool,
    /// A write whose payload is on its way.
    writing: Option<RequestHeader>,
}

impl Server {
    /// Ends negotiation.
    pub(super) fn serve(&mut self, export: Export) {
        let negotiation = &self.negotiation;
        let chosen = negotiation.allocation_of.as_ref() == Some(&export.name);
        self.session = Some(Session {
            structured: negotiation.structured,
            allocation: chosen && negotiation.structured,
            export,
            writing: None,
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
            let Some(header) = self.intake.peek() else {
                return Ok(None);
            };
            let request = RequestHeader::decode(header).map_err(ProtocolError::RequestMagic)?;
            if request.kind == command::DISC {
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
                Ok(op) => return Ok(Some(self.hand_out(request, op))),
                Err(errno) => self.turn_down(&request, &errno)?,
            }
        }
        Ok(None)
    }

    fn hand_out(&mut self, request: RequestHeader, op: Op) -> Command {
        Command {
            cookie: self.commands.put(request),
            op,
            offset: request.offset,
            length: request.length,
            fua: request.flags & flag::FUA != 0,
        }
    }

    fn turn_down(&mut self, request: &RequestHeader, errno: &Errno) -> Result<(), ProtocolError> {
        if request.kind == command::WRITE {
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
