//! The greeting, and options as they come in.

use weft_bytes::Reader;

use super::options::{Refusal, no_data};
use super::{Context, Event, Phase, ProtocolError, Server};
use crate::Tls;
use crate::nbd::wire::{OptionHeader, answer, handshake, magic, option, whole};

/// Option data up to this length are looked at. It holds the longest name the
/// protocol allows, with room for whatever goes with it.
const CONSIDERED: u32 = 8 << 10;

/// Option data up to this length are skipped and refused; what announces more
/// is no client.
const SKIPPED: u32 = 64 << 20;

/// A client that has not settled on an export after this many options never
/// will.
const MAX_OPTIONS: u32 = 1000;

/// What negotiation has led to so far.
#[derive(Default)]
pub(super) struct Negotiation {
    /// The client's flags arrived.
    greeted: bool,
    /// Options seen.
    options: u32,
    /// Whether TLS can be had, or must.
    pub(super) tls: Tls,
    /// TLS has been promised or has begun.
    pub(super) is_secured: bool,
    pub(super) no_zeroes: bool,
    pub(super) structured: bool,
    /// The contexts that were chosen, and for which export.
    pub(super) contexts_of: Option<(String, Vec<Context>)>,
}

impl Server {
    pub(super) fn greet(&mut self) {
        let flags = handshake::FIXED_NEWSTYLE | handshake::NO_ZEROES;
        self.outbox.fields(|w| {
            w.u64(magic::GREETING);
            w.u64(magic::OPTION);
            w.u16(flags);
        });
    }

    pub(super) fn negotiate(&mut self) -> Result<Option<Event>, ProtocolError> {
        if !self.negotiation.greeted && !self.client_flags()? {
            return Ok(None);
        }
        while matches!(self.phase, Phase::Negotiating) {
            let Some((header, data)) = self.next_option()? else {
                return Ok(None);
            };
            match self.take_option(header.option, &data) {
                Ok(None) => {}
                Ok(Some(question)) => {
                    let event = question.event();
                    self.phase = Phase::Asking(question);
                    return Ok(Some(event));
                }
                Err(refusal) => self.refuse(header.option, refusal),
            }
            if self.begins_tls() && !self.intake.is_empty() {
                return Err(ProtocolError::BehindStartTls);
            }
        }
        Ok(None)
    }

    /// Why an option is refused before TLS has begun, if it is.
    pub(super) fn lacks_tls(&self, option: u32) -> Option<Refusal> {
        let required = self.negotiation.tls == Tls::Required && !self.negotiation.is_secured;
        let allowed = matches!(option, option::STARTTLS | option::ABORT);
        let why = "this server serves clients by TLS only";
        (required && !allowed).then(|| Refusal::new(answer::ERR_TLS_REQD, why))
    }

    /// The client wants TLS. All that was agreed on before is forgotten: somebody between may have said it.
    pub(super) fn start_tls(&mut self, data: &[u8]) -> Result<(), Refusal> {
        let negotiation = &mut self.negotiation;
        if negotiation.is_secured {
            return Err(Refusal::new(answer::ERR_INVALID, "TLS has begun already"));
        }
        if negotiation.tls == Tls::Off {
            return Err(Refusal::new(answer::ERR_UNSUP, "this server does not support TLS"));
        }
        no_data(data)?;
        *negotiation = Negotiation {
            greeted: true,
            options: negotiation.options,
            tls: negotiation.tls,
            is_secured: true,
            no_zeroes: negotiation.no_zeroes,
            ..Negotiation::default()
        };
        self.answer(option::STARTTLS, answer::ACK, &[]);
        self.phase = Phase::Securing;
        Ok(())
    }

    /// Whether the client's flags are there.
    fn client_flags(&mut self) -> Result<bool, ProtocolError> {
        let Some(bytes) = self.intake.peek::<4>() else {
            return Ok(false);
        };
        let flags = whole(bytes, Reader::u32);
        let fixed = u32::from(handshake::FIXED_NEWSTYLE);
        let no_zeroes = u32::from(handshake::NO_ZEROES);
        if flags & !(fixed | no_zeroes) != 0 {
            return Err(ProtocolError::HandshakeFlags(flags));
        }
        if flags & fixed == 0 {
            return Err(ProtocolError::NotFixedNewstyle);
        }
        self.intake.consume(bytes.len());
        self.negotiation.no_zeroes = flags & no_zeroes != 0;
        self.negotiation.greeted = true;
        Ok(true)
    }

    /// The next option, once all of it is there. Those too long to look at
    /// are dealt with on the way.
    fn next_option(&mut self) -> Result<Option<(OptionHeader, Vec<u8>)>, ProtocolError> {
        while matches!(self.phase, Phase::Negotiating) {
            let Some(bytes) = self.intake.peek() else {
                return Ok(None);
            };
            let header = OptionHeader::decode(bytes).map_err(ProtocolError::OptionMagic)?;
            let OptionHeader { option, length } = header;
            if length > SKIPPED {
                return Err(ProtocolError::OptionLength { option, length });
            }
            if length > CONSIDERED {
                self.count_option()?;
                self.intake.consume(OptionHeader::LEN);
                self.intake.skip(u64::from(length));
                let refusal = Refusal::new(answer::ERR_TOO_BIG, "option data too long");
                self.refuse(option, self.lacks_tls(option).unwrap_or(refusal));
                continue;
            }
            let length = length as usize;
            let Some(data) = self.intake.peek_at(OptionHeader::LEN, length) else {
                return Ok(None);
            };
            let data = data.to_vec();
            self.count_option()?;
            self.intake.consume(OptionHeader::LEN + length);
            return Ok(Some((header, data)));
        }
        Ok(None)
    }

    fn count_option(&mut self) -> Result<(), ProtocolError> {
        self.negotiation.options += 1;
        if self.negotiation.options > MAX_OPTIONS {
            return Err(ProtocolError::TooManyOptions);
        }
        Ok(())
    }

    /// Tells the client no. There is no way to do so for an export name, so
    /// that ends the connection.
    pub(super) fn refuse(&mut self, option: u32, refusal: Refusal) {
        if option == option::EXPORT_NAME {
            self.close();
        } else {
            self.answer(option, refusal.kind, refusal.message.as_bytes());
        }
    }

    /// Queues one answer to an option.
    pub(super) fn answer(&mut self, option: u32, kind: u32, data: &[u8]) {
        self.outbox.fields(|w| {
            w.u64(magic::ANSWER);
            w.u32(option);
            w.u32(kind);
            w.bytes(data);
        });
    }
}
