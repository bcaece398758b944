//! Login: the initiator's identity, its target, and the negotiation (RFC 7143, 6.3).
//!
//! Authentication belongs to the first stage, which does not end before it has succeeded. Until then no target is
//! looked up for the initiator, and no other session ends because of it.

use std::collections::BTreeSet;

use super::chap::{Authentication, Challenge, Chap, Claim, Unproved};
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

/// The most requests of one login.
const MOST_REQUESTS: u32 = 100;

/// The most keys of one login, those that are not known included.
const MOST_KEYS: usize = 512;

/// Why a login fails: a class and a detail (RFC 7143, 11.13.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    Moved = 0x0101,
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
    authentication: Authentication,
    /// Why authentication failed.
    unproved: Option<Unproved>,
    /// The target is known to exist, or none is needed.
    is_admitted: bool,
    /// Incomplete text of the initiator.
    text: Vec<u8>,
    /// Keys that have been answered.
    answered: BTreeSet<String>,
    /// The rest of the answer, still to be sent.
    answer: Vec<u8>,
    /// The request that is answered next.
    head: Option<Head>,
    /// The session's number, if the login succeeds.
    session: u16,
    told_segment: bool,
    told_group: bool,
}

/// The driver's settings for the address at which an initiator connects.
#[derive(Clone, Debug)]
pub struct Gate {
    /// Whether initiators authenticate.
    pub chap: Chap,
    /// The challenge for one that does.
    pub challenge: Challenge,
    /// The portal group of this process.
    pub group: u16,
}

impl Default for Gate {
    fn default() -> Gate {
        Gate { chap: Chap::Off, challenge: Challenge::default(), group: 1 }
    }
}

/// The result of a login request.
enum Heard {
    /// It can be answered.
    Done,
    /// The driver must admit the nexus.
    Login(Nexus),
    /// The driver must judge the claim.
    Prove(Claim),
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
            Ok(heard) => self.ask_or_respond(login, heard),
            Err(status) => {
                self.fail_login(&head, status, Vec::new());
                self.events.extend(login.unproved.map(Event::Unproved));
            }
        }
        Ok(())
    }

    fn ask_or_respond(&mut self, login: Box<Login>, heard: Heard) {
        let event = match heard {
            Heard::Done => return self.respond(login),
            Heard::Login(nexus) => Event::Login(nexus),
            Heard::Prove(claim) => Event::Prove(claim),
        };
        self.events.push_back(event);
        self.phase = Phase::Applying(login);
    }

    /// Handles a login request.
    fn hear(&mut self, login: &mut Login, pdu: &Pdu) -> Result<Heard, Status> {
        let head = &pdu.head;
        login.requests += 1;
        if login.requests == 1 {
            login.isid.copy_from_slice(&head.0[8..14]);
            self.exp_cmd_sn = head.word(at::CMD_SN);
            if head.0[3] > 0 {
                return Err(Status::Version);
            }
            // A session has one connection.
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
            return Ok(Heard::Done);
        }
        let pairs = keys::parse(&std::mem::take(&mut login.text)).map_err(|_| Status::Initiator)?;
        for (key, value) in pairs {
            self.take_key(login, (key, value))?;
        }
        if login.initiator.is_none() || (login.target.is_none() && !login.is_discovery) {
            return Err(Status::MissingParameter);
        }
        let step = login.authentication.step(&self.gate.challenge, &mut login.answer);
        if let Some(claim) = step.map_err(|why| login.disbelieve(why))? {
            return Ok(Heard::Prove(claim));
        }
        let leaves = now == OPERATIONAL || transits;
        if leaves && login.authentication.is_open() && self.gate.chap == Chap::Required {
            return Err(login.disbelieve(Unproved::NotOffered));
        }
        Ok(self.applies(login, leaves))
    }

    /// The next step of a login. An initiator that has been authenticated, or that `leaves` the stage without
    /// authentication, must be admitted.
    fn applies(&mut self, login: &mut Login, leaves: bool) -> Heard {
        let (Some(initiator), false) = (login.initiator.clone(), login.is_admitted) else {
            return Heard::Done;
        };
        let authentication = &login.authentication;
        let is_through = authentication.is_settled() || (authentication.is_open() && leaves);
        if !is_through {
            // The first answer names the portal group (RFC 7143, 13.9).
            if login.target.is_some() && !login.told_group {
                login.told_group = true;
                let group = self.gate.group.to_string();
                keys::append(&mut login.answer, "TargetPortalGroupTag", &group);
            }
            return Heard::Done;
        }
        match login.target.clone() {
            Some(target) if !login.is_discovery => {
                Heard::Login(Nexus { initiator, isid: login.isid, target })
            }
            _ => {
                login.is_admitted = true;
                Heard::Done
            }
        }
    }

    /// Sets the address's settings, before the first login request is handled. Later calls have no effect.
    pub fn guard(&mut self, gate: Gate) {
        if matches!(&self.phase, Phase::Login(login) if login.requests == 0) {
            self.gate = gate;
        }
    }

    /// Whether a login request has been handled.
    pub fn is_begun(&self) -> bool {
        !matches!(&self.phase, Phase::Login(login) if login.requests == 0)
    }

    /// Answers [`Event::Prove`]: the initiator is authenticated. With `proof`, a name and a digest, the target
    /// authenticates itself, if it was asked.
    pub fn proved(&mut self, proof: Option<(&str, &[u8])>) {
        let Phase::Applying(mut login) = std::mem::replace(&mut self.phase, Phase::Closing) else {
            return;
        };
        login.authentication.proved(proof, &mut login.answer);
        let heard = self.applies(&mut login, false);
        self.ask_or_respond(login, heard);
    }

    /// Answers [`Event::Prove`]: authentication failed. An initiator that was not judged may try again later.
    pub fn disproved(&mut self, was_judged: bool) {
        let status = if was_judged { Status::Authentication } else { Status::Unavailable };
        self.end_applying(status, Vec::new());
    }

    fn take_key(&mut self, login: &mut Login, (key, value): Pair) -> Result<(), Status> {
        if login.answered.contains(&key) || login.answered.len() >= MOST_KEYS {
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
        let taken = login.authentication.take(&key, &value);
        let is_declared = taken.map_err(|why| login.disbelieve(why))? || is_declared;
        if !is_declared {
            let answer = match key.as_str() {
                "AuthMethod" => Some(login.method(&value, self.gate.chap)?.to_string()),
                _ => self.parameters.answer(&key, &value).value().map(str::to_string),
            };
            if let Some(answer) = answer {
                keys::append(&mut login.answer, &key, &answer);
            }
        }
        login.answered.insert(key);
        Ok(())
    }

    /// Answers [`Event::Login`]: the target exists, and the session may begin under a number other than zero.
    pub fn admit(&mut self, unit: Unit, session: u16) {
        let Phase::Applying(mut login) = std::mem::replace(&mut self.phase, Phase::Closing) else {
            return;
        };
        login.is_admitted = true;
        login.session = session;
        if !unit.alias.is_empty() {
            keys::append(&mut login.answer, "TargetAlias", &unit.alias);
        }
        if !login.told_group {
            keys::append(&mut login.answer, "TargetPortalGroupTag", &unit.group.to_string());
        }
        self.unit = Some(unit);
        self.respond(login);
    }

    /// Answers [`Event::Login`]: the initiator may not use the target.
    pub fn turn_away(&mut self, why: Refusal) {
        let status = match &why {
            Refusal::NotFound => Status::NotFound,
            Refusal::Unavailable => Status::Unavailable,
            Refusal::Moved(_) => Status::Moved,
            Refusal::Forbidden => Status::Forbidden,
        };
        let mut text = Vec::new();
        if let Refusal::Moved(address) = why {
            // Here without the portal group (RFC 7143, 13.8).
            keys::append(&mut text, "TargetAddress", &address);
        }
        self.end_applying(status, text);
    }

    fn end_applying(&mut self, status: Status, text: Vec<u8>) {
        let Phase::Applying(login) = std::mem::replace(&mut self.phase, Phase::Closing) else {
            return;
        };
        if let Some(head) = login.head {
            self.fail_login(&head, status, text);
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
        // The stage does not end before authentication has succeeded, even if the initiator asks for that.
        let held = login.authentication.is_under_way();
        // A stage ends with a request that was judged, not with one that only fetches the rest of an answer.
        let is_proved = login.authentication.is_settled()
            || (login.authentication.is_open() && self.gate.chap != Chap::Required);
        let may_leave = (now != SECURITY || is_proved) && (next != FULL || login.is_admitted);
        let transits = head.flags() & TRANSIT != 0 && rest.is_empty() && !held && may_leave;
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

    fn fail_login(&mut self, head: &Head, status: Status, text: Vec<u8>) {
        let answer = Head::new(opcode::LOGIN_RESPONSE)
            .answering(head.tag())
            .with_byte(1, 0)
            .with_half(36, status as u16);
        self.send_status(with_isid(answer, head), &[text.into()]);
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

impl Login {
    /// The authentication method, one of those offered. Only the first stage has one.
    fn method(&mut self, offered: &str, chap: Chap) -> Result<&'static str, Status> {
        if self.stage != SECURITY {
            return Ok("Reject");
        }
        self.authentication.choose(offered, chap).map_err(|why| self.disbelieve(why))
    }

    /// The login status after failed authentication.
    fn disbelieve(&mut self, why: Unproved) -> Status {
        self.unproved = Some(why);
        match why {
            Unproved::Order | Unproved::Malformed => Status::Initiator,
            _ => Status::Authentication,
        }
    }
}
