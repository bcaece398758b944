//! Login: who the initiator is, what it wants to use, and what both sides agree on (RFC 7143, 6.3).
//!
//! Authentication is a matter of the first stage: of the methods that an initiator offers, `None` is taken. A method
//! with steps of its own would hold the stage until they are through.

use super::keys::{self, Pair};
use super::parameters::{FIRST_SEGMENT, SEGMENT};
use super::pdu::{CONTINUE, Head, Pdu, at, opcode};
use super::server::Phase;
use super::{Event, Nexus, ProtocolError, Refusal, Server, Unit};

/// The bit that asks for the next stage.
const TRANSIT: u8 = 0x80;

/// Stages, as numbers.
const SECURITY: u8 = 0;
const OPERATIONAL: u8 = 1;
const FULL: u8 = 3;

/// Requests of one login.
const MOST_REQUESTS: u32 = 100;

/// Why a login fails: a class and a detail (RFC 7143, 11.13.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    Initiator = 0x0200,
    Authentication = 0x0201,
    Forbidden = 0x0202,
    NotFound = 0x0203,
    Version = 0x0205,
    MissingParameter = 0x0207,
    SessionType = 0x0209,
    NoSession = 0x020a,
    InvalidRequest = 0x020b,
    Unavailable = 0x0301,
}

/// State of a login in progress.
#[derive(Default)]
pub(super) struct Login {
    requests: u32,
    stage: u8,
    isid: [u8; 6],
    initiator: Option<String>,
    target: Option<String>,
    is_discovery: bool,
    /// The target is known to be there, or there need not be one.
    is_admitted: bool,
    /// Incomplete text of the initiator.
    text: Vec<u8>,
    /// Keys that have been answered.
    answered: Vec<String>,
    /// The part of the answer that is not sent yet.
    answer: Vec<u8>,
    /// The request that is answered next.
    head: Option<Head>,
    /// The number of the session, if it becomes one.
    session: u16,
    told_segment: bool,
}

impl Server {
    /// Takes a unit before the session has begun.
    pub(super) fn take_login(
        &mut self,
        mut login: Box<Login>,
        pdu: &Pdu,
    ) -> Result<(), ProtocolError> {
        let head = pdu.head;
        login.head = Some(head);
        match self.hear(&mut login, pdu) {
            Ok(None) => {}
            Ok(Some(nexus)) => {
                self.events.push_back(Event::Login(nexus));
                self.phase = Phase::Applying(login);
                return Ok(());
            }
            Err(status) => {
                self.fail_login(&head, status);
                return Ok(());
            }
        }
        self.respond(login);
        Ok(())
    }

    /// Handles a login request. Returns the nexus that the driver must admit, if there is one.
    fn hear(&mut self, login: &mut Login, pdu: &Pdu) -> Result<Option<Nexus>, Status> {
        let head = &pdu.head;
        login.requests += 1;
        if login.requests == 1 {
            login.isid.copy_from_slice(&head.0[8..14]);
            self.exp_cmd_sn = head.word(at::CMD_SN);
            if head.0[3] > 0 {
                return Err(Status::Version);
            }
            // There is one connection a session.
            if head.half(14) != 0 {
                return Err(Status::NoSession);
            }
            login.stage = stage(head).0;
        }
        let (now, next) = stage(head);
        let (transits, continues) = (head.flags() & TRANSIT != 0, head.flags() & CONTINUE != 0);
        let is_possible = now == login.stage
            && matches!(now, SECURITY | OPERATIONAL)
            && (!transits || (next > now && matches!(next, OPERATIONAL | FULL)))
            && !(transits && continues);
        if !is_possible || head.0[8..14] != login.isid || login.requests > MOST_REQUESTS {
            return Err(Status::InvalidRequest);
        }
        if login.text.len() + pdu.data.len() > keys::MOST_TEXT {
            return Err(Status::Initiator);
        }
        login.text.extend_from_slice(&pdu.data);
        if continues || !login.answer.is_empty() {
            return Ok(None);
        }
        let pairs = keys::parse(&std::mem::take(&mut login.text)).map_err(|_| Status::Initiator)?;
        for (key, value) in pairs {
            self.take_key(login, (key, value))?;
        }
        if login.is_admitted {
            return Ok(None);
        }
        let initiator = login.initiator.clone().ok_or(Status::MissingParameter)?;
        if login.is_discovery {
            login.is_admitted = true;
            return Ok(None);
        }
        let target = login.target.clone().ok_or(Status::MissingParameter)?;
        Ok(Some(Nexus { initiator, isid: login.isid, target }))
    }

    fn take_key(&mut self, login: &mut Login, (key, value): Pair) -> Result<(), Status> {
        if login.answered.contains(&key) {
            return Err(Status::Initiator);
        }
        let is_declared = match key.as_str() {
            "InitiatorName" => {
                login.initiator = Some(name(&value)?);
                true
            }
            "TargetName" => {
                login.target = Some(name(&value)?);
                true
            }
            "InitiatorAlias" => true,
            "SessionType" => {
                login.is_discovery = match value.as_str() {
                    "Discovery" => true,
                    "Normal" => false,
                    _ => return Err(Status::SessionType),
                };
                true
            }
            _ => false,
        };
        if !is_declared {
            let answer = match key.as_str() {
                "AuthMethod" => Some(method(login, &value)?.to_string()),
                _ => self.parameters.answer(&key, &value).value().map(str::to_string),
            };
            if let Some(answer) = answer {
                keys::append(&mut login.answer, &key, &answer);
            }
        }
        login.answered.push(key);
        Ok(())
    }

    /// Answers [`Event::Login`]: the target is there, and the session may begin under a number that is not zero.
    pub fn admit(&mut self, unit: Unit, session: u16) {
        let Phase::Applying(mut login) = std::mem::replace(&mut self.phase, Phase::Closing) else {
            return;
        };
        login.is_admitted = true;
        login.session = session;
        if !unit.alias.is_empty() {
            keys::append(&mut login.answer, "TargetAlias", &unit.alias);
        }
        keys::append(&mut login.answer, "TargetPortalGroupTag", &unit.group.to_string());
        self.unit = Some(unit);
        self.respond(login);
    }

    /// Answers [`Event::Login`]: the initiator may not use the target.
    pub fn turn_away(&mut self, why: Refusal) {
        let Phase::Applying(login) = std::mem::replace(&mut self.phase, Phase::Closing) else {
            return;
        };
        let status = match why {
            Refusal::NotFound => Status::NotFound,
            Refusal::Unavailable => Status::Unavailable,
            Refusal::Forbidden => Status::Forbidden,
        };
        if let Some(head) = login.head {
            self.fail_login(&head, status);
        }
    }

    /// Answers the last request with as much as fits into one PDU.
    fn respond(&mut self, mut login: Box<Login>) {
        let Some(head) = login.head.take() else { return };
        let continues = head.flags() & CONTINUE != 0;
        let (now, next) = stage(&head);
        if now == OPERATIONAL && !continues && !login.told_segment {
            login.told_segment = true;
            keys::append(&mut login.answer, "MaxRecvDataSegmentLength", &SEGMENT.to_string());
        }
        let all = std::mem::take(&mut login.answer);
        let (part, rest) = match continues {
            true => (&[][..], &all[..]),
            false => all.split_at(all.len().min(FIRST_SEGMENT as usize)),
        };
        login.answer = rest.to_vec();
        let more = !continues && !rest.is_empty();
        let transits = head.flags() & TRANSIT != 0 && rest.is_empty();
        let flags =
            now << 2 | if transits { TRANSIT | next } else { 0 } | if more { CONTINUE } else { 0 };
        let is_full = transits && next == FULL;
        let session = if is_full && !login.is_discovery { login.session } else { 0 };
        let session = if is_full { session.max(1) } else { session };
        let answer = Head::new(opcode::LOGIN_RESPONSE)
            .answering(head.tag())
            .with_byte(1, flags)
            .with_half(14, session);
        let answer = with_isid(answer, &head);
        self.send_status(answer, &[part.to_vec().into()]);
        if transits {
            login.stage = next;
        }
        if is_full {
            self.parameters.settle();
            if login.told_segment {
                self.our_segment = SEGMENT;
            }
            self.phase = Phase::Full;
        } else {
            self.phase = Phase::Login(login);
        }
    }

    fn fail_login(&mut self, head: &Head, status: Status) {
        let answer = Head::new(opcode::LOGIN_RESPONSE)
            .answering(head.tag())
            .with_byte(1, 0)
            .with_half(36, status as u16);
        self.send_status(with_isid(answer, head), &[]);
        self.close();
    }
}

/// The current stage and the next.
fn stage(head: &Head) -> (u8, u8) {
    (head.flags() >> 2 & 3, head.flags() & 3)
}

fn with_isid(mut answer: Head, asked: &Head) -> Head {
    answer.0[8..14].copy_from_slice(&asked.0[8..14]);
    answer
}

/// A name of an initiator or a target.
fn name(value: &str) -> Result<String, Status> {
    const LONGEST: usize = 223;
    match value.is_empty() || value.len() > LONGEST {
        true => Err(Status::Initiator),
        false => Ok(value.to_string()),
    }
}

/// The method of authentication, of those that are offered. Only the first stage has one.
fn method(login: &Login, offered: &str) -> Result<&'static str, Status> {
    if login.stage != SECURITY {
        return Ok("Reject");
    }
    match offered.split(',').any(|one| one == "None") {
        true => Ok("None"),
        false => Err(Status::Authentication),
    }
}
