//! Incoming units, and the state of the connection.

use std::collections::VecDeque;

use bytes::Bytes;

use super::attention::Attention;
use super::copies::Copies;
use super::login::{Gate, Login};
use super::parameters::Parameters;
use super::pdu::{self, Head, NO_TAG, Pdu, Reason, at, opcode};
use super::tasks::Tasks;
use super::text::Texts;
use super::{Event, Failure, ProtocolError, Reply, Request, Unit, digest};
use crate::intake::Intake;
use crate::outbox::Outbox;
use crate::{Awaits, Machine, Service};

/// The state of the connection.
pub(super) enum Phase {
    /// Login negotiation.
    Login(Box<Login>),
    /// The driver owes an answer to a login.
    Applying(Box<Login>),
    /// Commands are accepted; in a discovery session, queries.
    Full,
    /// Everything that the initiator sends is ignored.
    Closing,
    /// The initiator broke the protocol.
    Broken(ProtocolError),
}

/// A PDU whose data segment is incomplete.
struct Receiving {
    head: Head,
    /// Its data are followed by a digest.
    digest: bool,
}

/// The machine; see the [module](super).
pub struct Server {
    pub(super) intake: Intake,
    pub(super) outbox: Outbox,
    pub(super) phase: Phase,
    receiving: Option<Receiving>,
    pub(super) parameters: Parameters,
    /// The longest data segment that the initiator may send.
    pub(super) our_segment: u32,
    /// The logical unit after login; none in a discovery session.
    pub(super) unit: Option<Unit>,
    /// The settings of the address at which the initiator connects.
    pub(super) gate: Gate,
    /// Handed out next.
    pub(super) events: VecDeque<Event>,
    pub(super) tasks: Tasks,
    pub(super) texts: Texts,
    /// Unit attentions for the initiator's next commands.
    pub(super) attentions: VecDeque<Attention>,
    /// What became of copies.
    pub(super) copies: Copies,
    /// The number of the next command, and of the next status.
    pub(super) exp_cmd_sn: u32,
    pub(super) stat_sn: u32,
    /// A logout, answered when no command is in progress.
    pub(super) leaving: Option<Head>,
    /// The driver's count.
    pub(super) count: u64,
    begun: u64,
}

impl Default for Server {
    fn default() -> Server {
        Server::new()
    }
}

impl Server {
    /// A new connection.
    pub fn new() -> Server {
        Server {
            intake: Intake::default(),
            outbox: Outbox::default(),
            phase: Phase::Login(Box::default()),
            receiving: None,
            parameters: Parameters::default(),
            our_segment: super::parameters::FIRST_SEGMENT,
            unit: None,
            gate: Gate::default(),
            events: VecDeque::new(),
            tasks: Tasks::default(),
            texts: Texts::default(),
            attentions: VecDeque::new(),
            copies: Copies::default(),
            exp_cmd_sn: 0,
            stat_sn: 0,
            leaving: None,
            count: 0,
            begun: 0,
        }
    }

    /// Requests of commands that come from now on have this count, however late they are handed out. By it the driver
    /// knows which commands came before a reset of their unit.
    pub fn count(&mut self, count: u64) {
        self.count = count;
    }

    /// The next event. `None` means that more bytes are needed, that an answer is missing, or that the connection is
    /// closing. After an error the connection is of no further use.
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
            if let Some(event) = self.events.pop_front() {
                return Ok(Some(event));
            }
            match &self.phase {
                Phase::Broken(error) => return Err(*error),
                Phase::Applying(_) | Phase::Closing => return Ok(None),
                Phase::Full if self.texts.is_asking() => return Ok(None),
                Phase::Login(_) | Phase::Full => {}
            }
            let Some(pdu) = self.next_pdu()? else { return Ok(None) };
            match std::mem::replace(&mut self.phase, Phase::Closing) {
                Phase::Login(login) => self.take_login(login, &pdu)?,
                phase => {
                    self.phase = phase;
                    self.take(&pdu)?;
                }
            }
        }
    }

    /// The next unit, if it is complete.
    fn next_pdu(&mut self) -> Result<Option<Pdu>, ProtocolError> {
        if self.receiving.is_none() {
            let Some(receiving) = self.next_head()? else { return Ok(None) };
            self.receiving = Some(receiving);
        }
        let awaited = self.receiving.as_ref().is_some_and(|r| r.head.data_len() > 0);
        let payload = match awaited {
            true => match self.intake.payload() {
                Some(payload) => payload,
                None => return Ok(None),
            },
            false => Bytes::new(),
        };
        let Some(Receiving { head, digest }) = self.receiving.take() else { return Ok(None) };
        let is_damaged = digest && awaited && !digest::is_right(&payload);
        Ok(Some(Pdu { head, data: payload.slice(..head.data_len()), is_damaged }))
    }

    fn next_head(&mut self) -> Result<Option<Receiving>, ProtocolError> {
        let Some(bytes) = self.intake.peek::<{ pdu::LEN }>() else { return Ok(None) };
        let head = Head(*bytes);
        let is_full = matches!(self.phase, Phase::Full);
        if !is_full && head.opcode() != opcode::LOGIN {
            return Err(ProtocolError::NoLogin(head.opcode()));
        }
        let whole = pdu::LEN + head.additional();
        let digested = is_full && self.parameters.header_digest;
        let all = whole + if digested { digest::LEN } else { 0 };
        let Some(bytes) = self.intake.peek_at(0, all) else { return Ok(None) };
        if digested && !digest::is_right(bytes) {
            return Err(ProtocolError::HeaderDigest);
        }
        if !pdu::are_whole(&bytes[pdu::LEN..whole]) {
            return Err(ProtocolError::AdditionalHeaders);
        }
        let len = head.data_len();
        if len > self.our_segment as usize {
            return Err(ProtocolError::DataLength(len));
        }
        // How often a login asks does not matter: there is a time for all of it.
        self.begun += u64::from(is_full);
        self.intake.consume(all);
        let digest = is_full && self.parameters.data_digest;
        if len > 0 {
            self.intake.expect(pdu::padded(len) + if digest { digest::LEN } else { 0 });
        }
        Ok(Some(Receiving { head, digest }))
    }

    /// Takes a unit of a session.
    fn take(&mut self, pdu: &Pdu) -> Result<(), ProtocolError> {
        let head = &pdu.head;
        let kind = head.opcode();
        if kind == opcode::DATA_OUT {
            self.take_data(pdu);
            return Ok(());
        }
        if !self.takes_number(head)? {
            return Ok(());
        }
        if self.leaving.is_some() {
            return Ok(());
        }
        if pdu.is_damaged && kind != opcode::COMMAND {
            self.reject(head, Reason::DataDigest);
            return Ok(());
        }
        match (kind, self.unit.is_some()) {
            (opcode::TEXT, _) => self.take_text(pdu),
            (opcode::LOGOUT, _) => self.take_logout(head),
            (opcode::NOP_OUT, true) => self.take_ping(pdu),
            (opcode::COMMAND, true) => self.take_command(pdu),
            (opcode::TASK_MANAGEMENT, true) => self.manage(head),
            (opcode::LOGIN, _) => self.reject(head, Reason::Protocol),
            (opcode::SNACK, true) => self.reject(head, Reason::Snack),
            // A discovery session is for queries alone (RFC 7143, 4.3).
            _ => self.reject(head, Reason::Unsupported),
        }
        Ok(())
    }

    /// Whether a unit has the next number, or is immediate. One beyond the window is ignored.
    fn takes_number(&mut self, head: &Head) -> Result<bool, ProtocolError> {
        // These have no number.
        if head.opcode() == opcode::SNACK || head.is_immediate() {
            return Ok(true);
        }
        let came = head.word(at::CMD_SN);
        let ahead = came.wrapping_sub(self.exp_cmd_sn);
        if ahead >= self.tasks.window() {
            return Ok(false);
        }
        if ahead > 0 {
            return Err(ProtocolError::OutOfOrder { due: self.exp_cmd_sn, came });
        }
        self.exp_cmd_sn = self.exp_cmd_sn.wrapping_add(1);
        Ok(true)
    }

    /// A ping is answered with its own data.
    fn take_ping(&mut self, pdu: &Pdu) {
        if pdu.head.tag() == NO_TAG {
            return;
        }
        let head = Head::new(opcode::NOP_IN).with_word(at::TRANSFER_TAG, NO_TAG);
        let len = pdu.data.len().min(self.parameters.segment as usize);
        let head = head.answering(pdu.head.tag());
        self.send_status(head, &[pdu.data.slice(..len)]);
    }

    fn take_logout(&mut self, head: &Head) {
        /// Connection recovery, which level 0 does not have.
        const RECOVERY: u8 = 2;
        if head.flags() & 0x7f == RECOVERY {
            let answer = Head::new(opcode::LOGOUT_RESPONSE).answering(head.tag());
            return self.send_status(answer.with_byte(2, 2), &[]);
        }
        self.tasks.drop_gathering();
        self.leaving = Some(*head);
        self.leave();
    }

    /// Answers a logout, once no command is in progress.
    pub(super) fn leave(&mut self) {
        if self.tasks.is_empty()
            && let Some(head) = self.leaving.take()
        {
            self.send_status(Head::new(opcode::LOGOUT_RESPONSE).answering(head.tag()), &[]);
            self.close();
        }
    }

    pub(super) fn close(&mut self) {
        self.phase = Phase::Closing;
        self.events.clear();
        self.intake.discard();
    }

    /// Answers a request.
    pub fn reply(&mut self, number: u64, result: Result<Reply, Failure>) {
        self.finish_step(number, result);
        self.leave();
    }

    /// Hands the driver a request.
    pub(super) fn ask(&mut self, request: Request) {
        self.events.push_back(Event::Request(request));
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

impl Service for Server {
    fn awaits(&self) -> Awaits {
        let is_between = self.receiving.is_none() && self.intake.is_empty();
        match self.phase {
            Phase::Login(_) => Awaits::Greeting,
            Phase::Full if !is_between || self.tasks.awaits_data().is_some() => Awaits::Rest,
            _ => Awaits::Nothing,
        }
    }

    fn incoming(&self) -> usize {
        self.intake.expected().unwrap_or(0).max(self.tasks.gathering())
    }

    /// As long as the initiator owes data, units beside them are no progress.
    fn begun(&self) -> u64 {
        self.tasks.awaits_data().map_or(self.begun, |command| u64::MAX - command)
    }

    fn has_more(&self) -> bool {
        !self.events.is_empty()
    }
}
