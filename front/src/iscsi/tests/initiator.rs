//! An initiator, and a disk in memory behind the machine.

use bytes::Bytes;

use crate::Machine;
use crate::iscsi::pdu::{FINAL, Head, NO_TAG, at, opcode, padded};
use crate::iscsi::reservation::{Action, Outcome, State};
use crate::iscsi::scsi::unit::sample;
use crate::iscsi::{
    Algorithm, Claim, Event, Failure, Op, Piece, Port, ProtocolError, Refusal, Reply, Request,
    Server, Target, Unproved, digest,
};

/// What the other side has sent.
#[derive(Clone, Debug)]
pub(super) struct Unit {
    pub(super) head: Head,
    pub(super) data: Vec<u8>,
}

impl Unit {
    pub(super) fn status(&self) -> u8 {
        self.head.0[3]
    }

    /// Key, code and qualifier of the sense data.
    pub(super) fn sense(&self) -> (u8, u8, u8) {
        assert_eq!(self.status(), 2, "{self:?}");
        (self.data[4], self.data[14], self.data[15])
    }

    /// How the length was, and by how much.
    pub(super) fn residual(&self) -> (u8, u32) {
        (self.head.flags() & 0x06, self.head.word(at::LENGTH))
    }
}

pub(super) const SECRET: &str = "a secret of the host";
pub(super) const MUTUAL: &str = "a secret of the target";

/// What stands for a digest here, as long as one: of an identifier, a secret and a challenge.
pub(super) fn response_of(
    algorithm: Algorithm,
    identifier: u8,
    secret: &str,
    challenge: &[u8],
) -> Vec<u8> {
    let mut digest = vec![algorithm as u8; algorithm.digest_len()];
    let all = [&[identifier], secret.as_bytes(), challenge].concat();
    for (n, byte) in all.into_iter().enumerate() {
        let at = n % digest.len();
        digest[at] = digest[at].rotate_left(3).wrapping_mul(31) ^ byte;
    }
    digest
}

pub(super) struct Initiator {
    pub(super) server: Server,
    pub(super) disk: Vec<u8>,
    /// Requests that are not carried out yet, if they are held.
    pub(super) held: Vec<Request>,
    pub(super) holds: bool,
    /// Why it was not believed, if that was said.
    pub(super) unproved: Option<Unproved>,
    /// What it has proved.
    pub(super) claims: Vec<Claim>,
    /// Logins that it was admitted for.
    pub(super) admitted: usize,
    /// How often all connections were to end.
    pub(super) ended: usize,
    /// Where logins are sent instead.
    pub(super) moves: Option<String>,
    pub(super) header_digest: bool,
    pub(super) data_digest: bool,
    pub(super) cmd_sn: u32,
    /// What was asked for about reservations, what becomes of it, and who has registered.
    pub(super) asked: Vec<Action>,
    pub(super) outcome: Outcome,
    pub(super) reservations: State,
    tag: u32,
    sent: Vec<u8>,
}

impl Initiator {
    pub(super) fn new() -> Initiator {
        Initiator {
            server: Server::new(),
            disk: vec![0; 1 << 20],
            held: Vec::new(),
            holds: false,
            unproved: None,
            claims: Vec::new(),
            admitted: 0,
            ended: 0,
            moves: None,
            header_digest: false,
            data_digest: false,
            cmd_sn: 7,
            asked: Vec::new(),
            outcome: Outcome::Done,
            reservations: State::default(),
            tag: 100,
            sent: Vec::new(),
        }
    }

    /// One that is logged in, with these keys agreed on.
    pub(super) fn logged_in(keys: &str) -> Initiator {
        let mut initiator = Initiator::new();
        let text = format!("InitiatorName=iqn.a\0TargetName={}\0{keys}", sample().target);
        let answer = initiator.login(0x87, text.as_bytes());
        assert_eq!((answer.head.flags(), answer.head.half(36)), (0x87, 0), "{answer:?}");
        initiator.header_digest = keys.contains("HeaderDigest=CRC32C");
        initiator.data_digest = keys.contains("DataDigest=CRC32C");
        initiator
    }

    /// One request of a login.
    pub(super) fn login(&mut self, flags: u8, text: &[u8]) -> Unit {
        let mut head = Head::new(opcode::LOGIN | 0x40).with_byte(1, flags);
        head.0[8..14].copy_from_slice(&[0x80, 1, 2, 3, 0, 1]);
        let head = head.answering(1).with_word(at::CMD_SN, self.cmd_sn);
        self.send(head, text);
        self.one()
    }

    pub(super) fn next_tag(&mut self) -> u32 {
        self.tag += 1;
        self.tag
    }

    /// Sends a command in turn, with data.
    pub(super) fn command(&mut self, flags: u8, cdb: &[u8], expected: u32, data: &[u8]) -> u32 {
        let tag = self.next_tag();
        let mut head = Head::new(opcode::COMMAND)
            .with_byte(1, flags)
            .answering(tag)
            .with_word(at::TRANSFER_TAG, expected)
            .with_word(at::CMD_SN, self.cmd_sn);
        head.0[at::CDB..at::CDB + cdb.len()].copy_from_slice(cdb);
        self.cmd_sn += 1;
        self.send(head, data);
        tag
    }

    /// A command that reads, and its answer: the data, and the last unit.
    pub(super) fn read(&mut self, cdb: &[u8], expected: u32) -> (Vec<u8>, Unit) {
        self.command(FINAL | 0x40, cdb, expected, &[]);
        let all = self.take();
        let data = all.iter().filter(|u| u.head.opcode() == opcode::DATA_IN);
        (data.flat_map(|u| u.data.clone()).collect(), all.last().expect("an answer").clone())
    }

    /// A unit of data.
    pub(super) fn data(
        &mut self,
        tag: u32,
        transfer: u32,
        (number, offset): (u32, u32),
        last: bool,
        data: &[u8],
    ) {
        let head = Head::new(opcode::DATA_OUT)
            .with_byte(1, if last { FINAL } else { 0 })
            .answering(tag)
            .with_word(at::TRANSFER_TAG, transfer)
            .with_word(at::DATA_SN, number)
            .with_word(at::OFFSET, offset);
        self.send(head, data);
    }

    /// Sends a unit, and does what the machine asks for.
    pub(super) fn send(&mut self, head: Head, data: &[u8]) {
        self.try_send(head, data).expect("nothing is wrong");
    }

    pub(super) fn try_send(&mut self, head: Head, data: &[u8]) -> Result<(), ProtocolError> {
        let head = head.with_data(data.len());
        let mut bytes = head.0.to_vec();
        if self.header_digest {
            bytes.extend(digest::of(&head.0));
        }
        let mut padded_data = data.to_vec();
        padded_data.resize(padded(data.len()), 0);
        bytes.extend(&padded_data);
        if self.data_digest && !data.is_empty() {
            bytes.extend(digest::of(&padded_data));
        }
        self.send_bytes(&bytes)
    }

    pub(super) fn send_bytes(&mut self, mut bytes: &[u8]) -> Result<(), ProtocolError> {
        while !bytes.is_empty() {
            let space = self.server.space();
            let n = space.len().min(bytes.len());
            space[..n].copy_from_slice(&bytes[..n]);
            self.server.filled(n);
            bytes = &bytes[n..];
            self.work()?;
        }
        Ok(())
    }

    pub(super) fn work(&mut self) -> Result<(), ProtocolError> {
        while let Some(event) = self.server.poll()? {
            match event {
                Event::List => {
                    let target = |n: u32| Target {
                        name: format!("iqn.t:{n}"),
                        portals: vec![("10.0.0.1:3260".into(), 1), ("[::1]:3260".into(), 2)],
                    };
                    let all: Vec<Target> = (0..500).map(target).collect();
                    self.server.targets(&all);
                }
                Event::Prove(claim) => self.judge(claim),
                Event::Unproved(why) => self.unproved = Some(why),
                Event::Login(nexus) => match (nexus.target == sample().target, &self.moves) {
                    (true, None) => {
                        self.admitted += 1;
                        self.server.admit(sample(), 5);
                    }
                    (true, Some(to)) => self.server.turn_away(Refusal::Moved(to.clone())),
                    (false, _) => self.server.turn_away(Refusal::NotFound),
                },
                Event::ColdReset => self.ended += 1,
                Event::Request(request) if self.holds => self.held.push(request),
                Event::Request(request) => self.carry_out(&request),
            }
        }
        Ok(())
    }

    /// Judges a claim as a driver would that knows the host `web` and its two secrets.
    fn judge(&mut self, claim: Claim) {
        let Claim { name, algorithm, challenge, response, asks } = &claim;
        let expected = response_of(*algorithm, challenge.identifier, SECRET, &challenge.bytes);
        if name != "web" || *response != expected {
            return self.server.disproved(true);
        }
        let proof = asks.as_ref().map(|(id, bytes)| response_of(*algorithm, *id, MUTUAL, bytes));
        self.claims.push(claim);
        self.server.proved(proof.as_ref().map(|proof| ("weft", &proof[..])));
    }

    /// Carries out what was held.
    pub(super) fn release(&mut self) {
        self.holds = false;
        for request in std::mem::take(&mut self.held) {
            self.carry_out(&request);
        }
        self.work().expect("nothing is wrong");
    }

    fn carry_out(&mut self, request: &Request) {
        if request.unit.as_ref().is_some_and(|unit| !sample().is(unit)) {
            return self.server.reply(request.number, Err(Failure::Gone));
        }
        let range = request.offset as usize..(request.offset + request.length) as usize;
        let reply = match &request.op {
            Op::Read if range.len() > 4096 => {
                let (one, two) = self.disk[range].split_at(1000);
                let piece = |bytes: &[u8]| Piece::Data(Bytes::copy_from_slice(bytes));
                Reply::Pieces(vec![piece(one), piece(two)])
            }
            Op::Read if self.disk[range.clone()].iter().all(|b| *b == 0) => {
                Reply::Pieces(vec![Piece::Zeroes(request.length)])
            }
            Op::Read => Reply::Pieces(vec![Piece::Data(Bytes::copy_from_slice(&self.disk[range]))]),
            Op::Write(bytes) => {
                assert_eq!(bytes.len(), range.len());
                assert!(request.unit.is_none() || bytes.iter().any(|byte| *byte != 0));
                self.disk[range].copy_from_slice(bytes);
                Reply::Done
            }
            Op::CompareAndWrite { expected, data } => {
                let found = &mut self.disk[range];
                let differs = found.iter().zip(expected).position(|(a, b)| a != b);
                if let Some(at) = differs {
                    return self.server.reply(request.number, Err(Failure::Differs(at as u64)));
                }
                found.copy_from_slice(data);
                Reply::Done
            }
            Op::OrWrite(bytes) => {
                self.disk[range].iter_mut().zip(bytes).for_each(|(a, b)| *a |= b);
                Reply::Done
            }
            Op::WriteZeroes => {
                self.disk[range].fill(0);
                Reply::Done
            }
            Op::Flush => Reply::Done,
            Op::Holes => Reply::Extents(vec![(request.length, true)]),
            Op::Reserve(action) => {
                self.asked.push(action.clone());
                Reply::Reserved(self.outcome)
            }
            Op::Reservations => Reply::Reservations(self.reservations.clone()),
            Op::Ports => Reply::Ports(vec![
                Port { group: 1, is_available: true },
                Port { group: 4, is_available: false },
            ]),
        };
        self.server.reply(request.number, Ok(reply));
    }

    /// What is held fails.
    pub(super) fn fail(&mut self, failure: Failure) {
        for request in std::mem::take(&mut self.held) {
            self.server.reply(request.number, Err(failure));
        }
    }

    /// All that has come from the machine.
    pub(super) fn take(&mut self) -> Vec<Unit> {
        self.sent.extend(self.server.output().flatten());
        let n = self.server.output_len();
        self.server.sent(n);
        let (mut rest, mut units) = (&std::mem::take(&mut self.sent)[..], Vec::new());
        while let Some((head, after)) = rest.split_first_chunk::<48>() {
            let head = Head(*head);
            rest = after;
            let mut cut = |n: usize| {
                let (part, after) = rest.split_at(n);
                rest = after;
                part.to_vec()
            };
            if self.header_digest {
                assert_eq!(cut(4), digest::of(&head.0));
            }
            let len = head.data_len();
            let data = cut(padded(len));
            if self.data_digest && len > 0 {
                assert_eq!(cut(4), digest::of(&data));
            }
            units.push(Unit { head, data: data[..len].to_vec() });
        }
        assert!(rest.is_empty());
        units
    }

    /// The one unit that has come.
    pub(super) fn one(&mut self) -> Unit {
        let mut all = self.take();
        assert_eq!(all.len(), 1, "{all:?}");
        all.remove(0)
    }

    /// Aborts, and does other such things.
    pub(super) fn manage(&mut self, function: u8, referenced: u32) -> u32 {
        let tag = self.next_tag();
        let head = Head::new(opcode::TASK_MANAGEMENT | 0x40)
            .with_byte(1, FINAL | function)
            .answering(tag)
            .with_word(at::TRANSFER_TAG, referenced)
            .with_word(at::CMD_SN, self.cmd_sn);
        self.send(head, &[]);
        tag
    }

    /// A question in text.
    pub(super) fn text(&mut self, transfer: u32, text: &[u8]) -> Unit {
        let tag = self.next_tag();
        let head = Head::new(opcode::TEXT | 0x40)
            .answering(tag)
            .with_word(at::TRANSFER_TAG, transfer)
            .with_word(at::CMD_SN, self.cmd_sn);
        self.send(head, text);
        let unit = self.one();
        assert_eq!(unit.head.opcode(), opcode::TEXT_RESPONSE, "{unit:?}");
        unit
    }

    /// A list of the names of targets.
    pub(super) fn targets(&mut self, wanted: &str) -> String {
        let mut unit = self.text(NO_TAG, format!("SendTargets={wanted}\0").as_bytes());
        let mut all = unit.data.clone();
        while unit.head.flags() & FINAL == 0 {
            let tag = unit.head.word(at::TRANSFER_TAG);
            unit = self.text(tag, &[]);
            all.extend(&unit.data);
        }
        String::from_utf8(all).expect("a text")
    }
}
