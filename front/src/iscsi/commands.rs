//! Commands, from their arrival to their answer.

use bytes::Bytes;

use super::pdu::{FINAL, Head, Pdu, Reason};
use super::replies::Status;
use super::reservation::{Action, Outcome};
use super::scsi::{self, Sense, Step, Stretch, Then, Work};
use super::tasks::{MOST_TASKS, Task};
use super::transfer::Gather;
use super::{Failure, Op, Piece, Reply, Request, Server, Unit};

/// Whether a LUN is that of the only unit, in peripheral or flat addressing.
pub(super) fn is_unit(lun: u64) -> bool {
    matches!(lun, 0 | 0x4000_0000_0000_0000)
}

impl Server {
    pub(super) fn take_command(&mut self, pdu: &Pdu) {
        let head = &pdu.head;
        let is_whole = head.flags() & FINAL != 0;
        if self.tasks.has(head.tag()) {
            return self.reject(head, Reason::InProgress);
        }
        if self.tasks.len() >= MOST_TASKS {
            return self.reject(head, Reason::TooManyImmediate);
        }
        let Some(unit) = &self.unit else { return };
        let is_of_many = self.tasks.len() >= scsi::MANY_IN_PROGRESS;
        let work = work(head, unit).map(|w| if is_of_many { w.among_many() } else { w });
        let mut task = Task::new(*head, work, self.count);
        let (data, expected) = (&pdu.data, task.expected());
        if !(data.is_empty() || (task.writes() && self.parameters.immediate_data)) {
            return self.reject(head, Reason::Protocol);
        }
        if !(is_whole || (task.writes() && !self.parameters.initial_r2t)) {
            return self.reject(head, Reason::Protocol);
        }
        let most = u64::from(self.parameters.first_burst).min(expected);
        if data.len() as u64 > most {
            return self.reject(head, Reason::Field);
        }
        if pdu.is_damaged {
            task.work = Err(Sense::DIGEST);
        } else if reports_attention(head)
            && let Some(attention) = self.attentions.pop_front()
        {
            task.work = Err(Sense::attention(attention));
        }
        let wanted = match (task.writes(), &task.work) {
            (true, Ok(_)) => task.data_out.min(expected) as usize,
            _ => 0,
        };
        let mut gather = Gather::new(wanted, most as usize, !is_whole);
        gather.add(data);
        let number = self.tasks.put(task);
        self.go_on(number, gather);
    }

    /// A command has received data: it begins if all data are there.
    pub(super) fn go_on(&mut self, number: u64, gather: Gather) {
        let Some(task) = self.tasks.get(number) else { return };
        if !gather.is_whole() {
            let asks = !gather.is_unsolicited && gather.burst.is_none();
            let kept = gather.kept();
            task.gather = Some(gather);
            self.tasks.wants_data(number, kept, asks);
            return self.ask_for_data();
        }
        task.gather = None;
        self.tasks.has_data(number);
        self.ask_for_data();
        self.begin(number, gather.into_bytes());
    }

    /// Begins a command whose data are there.
    fn begin(&mut self, number: u64, data: Bytes) {
        let (Some(task), Some(unit)) = (self.tasks.get(number), &self.unit) else { return };
        if let Ok(Work::CopyStatus { name, most }) = task.work {
            return match self.copies.state(name) {
                Some(state) => {
                    let data = scsi::copy_result(state, most);
                    self.end(number, Status::Good, vec![data.into()]);
                }
                None => self.end(number, Status::Check(Sense::NO_COPY), Vec::new()),
            };
        }
        if task.work == Ok(Work::Conflict) {
            return self.end(number, Status::Conflict, Vec::new());
        }
        let copies = match &task.work {
            Ok(Work::Copy { .. }) => {
                scsi::copy_name(&data).map(|name| (name, scsi::segments(&data)))
            }
            _ => None,
        };
        let steps = match &task.work {
            Err(sense) => Err(*sense),
            Ok(work) => fitted(work, unit.block, data.len() as u64, task.expected())
                .and_then(|is_any| if is_any { scsi::steps(work, data, unit) } else { Ok(vec![]) }),
        };
        match steps {
            Err(sense) => self.end(number, Status::Check(sense), Vec::new()),
            Ok(steps) => {
                task.copies = copies;
                if let Some((name, _)) = copies {
                    self.copies.begun(name);
                }
                task.steps = steps.into();
                self.next_step(number);
            }
        }
    }

    /// Asks a node for the next step of a command, or ends it.
    fn next_step(&mut self, number: u64) {
        let Some(task) = self.tasks.get(number) else { return };
        if let Some(step) = task.steps.pop_front() {
            let (op, durable, came) = (step.op.clone(), step.durable, task.came);
            let Stretch { offset, length } = step.at;
            let unit = step.unit.clone();
            let request = Request { number, op, offset, length, durable, unit, came };
            task.step = Some(step);
            return self.ask(request);
        }
        if task.is_cut {
            return self.end(number, Status::Check(Sense::UNKNOWN), Vec::new());
        }
        let data = match &mut task.work {
            Ok(Work::Data(data)) => vec![std::mem::take(data).into()],
            _ => Vec::new(),
        };
        self.end(number, Status::Good, data);
    }

    /// A node has answered.
    pub(super) fn finish_step(&mut self, number: u64, result: Result<Reply, Failure>) {
        let is_aborted = self.tasks.is_aborted(number);
        let Some(step) = self.tasks.get(number).and_then(|task| task.step.take()) else { return };
        if is_aborted {
            if result.is_err() && step.op == Op::Reserve(Action::Reset) {
                self.tasks.reset_failed(number);
            }
            self.copy_is_over(number, false);
            self.tasks.end(number);
            return self.answer_aborts();
        }
        let reply = match result {
            Ok(reply) => reply,
            Err(failure) if step.unit.is_some() => {
                return self.end(number, failed_copy(failure), Vec::new());
            }
            Err(failure) => return self.end(number, failed(failure), Vec::new()),
        };
        if let (Then::Status(_), Reply::Extents(found), Some(unit)) =
            (&step.then, &reply, &self.unit)
            && let Some(further) = scsi::further(&step, found, unit)
            && let Some(task) = self.tasks.get(number)
        {
            task.steps.push_front(further);
            return self.next_step(number);
        }
        if let Then::Repeat(left) = step.then {
            let next = scsi::repeated(&step, left);
            if let Some(task) = self.tasks.get(number).filter(|task| !task.is_cut) {
                task.steps.extend(next);
            }
            return self.next_step(number);
        }
        match (step.then, reply) {
            (Then::Drop, _) => self.next_step(number),
            (Then::Send, Reply::Pieces(pieces)) if length(&pieces) == step.at.length => {
                let pieces = pieces.into_iter().flat_map(spelled_out).collect();
                self.end(number, Status::Good, pieces);
            }
            (Then::WriteTo(unit, offset), Reply::Pieces(pieces))
                if length(&pieces) == step.at.length =>
            {
                let length = step.at.length;
                let write = Step {
                    op: writing(pieces, length),
                    at: Stretch { offset, length },
                    durable: false,
                    then: Then::Drop,
                    unit: Some(unit),
                };
                if let Some(task) = self.tasks.get(number).filter(|task| !task.is_cut) {
                    task.steps.push_front(write);
                }
                self.next_step(number);
            }
            (Then::Compare(ours), Reply::Pieces(pieces)) if length(&pieces) == step.at.length => {
                match first_difference(&ours, &pieces) {
                    None => self.next_step(number),
                    Some(at) => {
                        self.end(number, Status::Check(Sense::miscompare(at)), Vec::new());
                    }
                }
            }
            (Then::Status(most), Reply::Extents(found)) => {
                let block = self.unit.as_ref().map_or(step.at.length, |unit| unit.block);
                let data = scsi::allocation(step.at, block, &found, most);
                self.end(number, Status::Good, vec![data.into()]);
            }
            (Then::Outcome { moves }, Reply::Reserved(outcome)) => match refused(outcome, moves) {
                None => self.next_step(number),
                Some(status) => self.end(number, status, Vec::new()),
            },
            (Then::Ports { extended, most }, Reply::Ports(ports)) => {
                let data = scsi::port_groups(&ports, extended, most);
                self.end(number, Status::Good, vec![data.into()]);
            }
            (Then::Reservations(query, most), Reply::Reservations(state)) => {
                let data = scsi::reservations(query, &state, most);
                self.end(number, Status::Good, vec![data.into()]);
            }
            _ => self.end(number, Status::Check(Sense::FAILED), Vec::new()),
        }
    }

    /// Answers a command.
    fn end(&mut self, number: u64, status: Status, data: Vec<Bytes>) {
        self.copy_is_over(number, matches!(status, Status::Good));
        if let Some(task) = self.tasks.end(number) {
            self.answer(&task, status, data);
        }
        self.answer_aborts();
    }

    /// Keeps the result of a command that copies.
    fn copy_is_over(&mut self, number: u64, good: bool) {
        if let Some((name, segments)) = self.tasks.get(number).and_then(|task| task.copies) {
            self.copies.over(name, good, segments);
        }
    }
}

/// What a command does.
fn work(head: &Head, unit: &Unit) -> Result<Work, Sense> {
    const INQUIRY: u8 = 0x12;
    const REQUEST_SENSE: u8 = 0x03;
    const REPORT_LUNS: u8 = 0xa0;
    let mut cdb = [0; 16];
    cdb.copy_from_slice(&head.0[super::pdu::at::CDB..]);
    let planned = scsi::plan(&cdb, unit);
    if is_unit(head.lun()) {
        // A node would refuse it too. Here that comes before faults of the data, and none are asked for.
        let is_protected = |work: &Work| unit.read_only && work.changes_content();
        return match planned {
            Ok(work) if is_protected(&work) => Err(Sense::WRITE_PROTECTED),
            Ok(work) if scsi::is_excluded(cdb[0], &work, unit.held) => Ok(Work::Conflict),
            planned => planned,
        };
    }
    // Commands for a LUN without unit report that; all others are refused.
    match (cdb[0], planned) {
        (REPORT_LUNS, planned) => planned,
        (INQUIRY, Ok(Work::Data(asked))) if cdb[1] & 1 == 0 => {
            let mut data = scsi::absent();
            data.truncate(asked.len());
            Ok(Work::Data(data))
        }
        (REQUEST_SENSE, Ok(Work::Data(asked))) => {
            let mut data = Sense::NO_UNIT.fixed().to_vec();
            data.truncate(asked.len());
            Ok(Work::Data(data))
        }
        _ => Err(Sense::NO_UNIT),
    }
}

/// Whether this number of bytes is acceptable. The initiator may send fewer than the command's length, but whole
/// blocks.
fn fitted(work: &Work, block: u64, came: u64, expected: u64) -> Result<bool, Sense> {
    match (work, work.data_out()) {
        // The number of blocks has one byte, so a larger number may have become zero.
        (Work::CompareAndWrite { .. }, 0) if expected > 0 => Err(Sense::NO_BLOCKS),
        // For these commands a longer transfer is also an error.
        (Work::Same { zeros: false, .. } | Work::CompareAndWrite { .. }, wanted)
            if expected > wanted =>
        {
            Err(Sense::TRANSFER_LENGTH)
        }
        (_, wanted) if came == wanted => Ok(true),
        (Work::Write { .. } | Work::OrWrite { .. }, _) if came.is_multiple_of(block) => {
            Ok(came > 0)
        }
        _ => Err(Sense::TRANSFER_LENGTH),
    }
}

/// Whether a command reports a pending unit attention (SAM-5, 5.14).
fn reports_attention(head: &Head) -> bool {
    const INQUIRY: u8 = 0x12;
    const REQUEST_SENSE: u8 = 0x03;
    const REPORT_LUNS: u8 = 0xa0;
    let opcode = head.0[super::pdu::at::CDB];
    is_unit(head.lun()) && !matches!(opcode, INQUIRY | REQUEST_SENSE | REPORT_LUNS)
}

/// The status of a change of reservations that was not made.
fn refused(outcome: Outcome, moves: bool) -> Option<Status> {
    Some(match outcome {
        Outcome::Done => return None,
        Outcome::Conflict => Status::Conflict,
        Outcome::WrongRelease if moves => Status::Check(Sense::NOT_RESERVED),
        Outcome::WrongRelease => Status::Check(Sense::WRONG_RELEASE),
        Outcome::NoKey => Status::Check(Sense::NO_KEY),
        Outcome::Full => Status::Check(Sense::REGISTRANTS),
        Outcome::NoPort => Status::Check(Sense::NO_PORT),
        Outcome::NoInitiator => Status::Check(Sense::NO_INITIATOR),
    })
}

/// The write of these pieces. Holes stay holes.
fn writing(pieces: Vec<Piece>, length: u64) -> Op {
    if pieces.iter().all(|piece| matches!(piece, Piece::Zeroes(_))) {
        return Op::WriteZeroes;
    }
    let mut data = Vec::with_capacity(length as usize);
    pieces.into_iter().flat_map(spelled_out).for_each(|piece| data.extend(piece));
    Op::Write(data.into())
}

/// The status of a copy whose read or write failed.
fn failed_copy(failure: Failure) -> Status {
    match failure {
        Failure::Gone => Status::Check(Sense::UNREACHABLE),
        Failure::OutOfRange | Failure::NotOffered | Failure::Failed | Failure::Unknown => {
            Status::Check(Sense::COPY_ABORTED)
        }
        failure => failed(failure),
    }
}

fn failed(failure: Failure) -> Status {
    match failure {
        Failure::Busy => Status::Busy,
        Failure::OutOfRange => Status::Check(Sense::OUT_OF_RANGE),
        Failure::Gone => Status::Check(Sense::NO_UNIT),
        Failure::NotOffered => Status::Check(Sense::OPCODE),
        Failure::Protected => Status::Check(Sense::WRITE_PROTECTED),
        Failure::Reserved => Status::Conflict,
        Failure::NoSpace => Status::Check(Sense::NO_SPACE),
        Failure::Differs(at) => Status::Check(Sense::miscompare(at as usize)),
        Failure::Failed => Status::Check(Sense::FAILED),
        Failure::Unknown => Status::Check(Sense::UNKNOWN),
    }
}

impl Piece {
    fn len(&self) -> u64 {
        match self {
            Piece::Data(bytes) => bytes.len() as u64,
            Piece::Zeroes(len) => *len,
        }
    }
}

fn length(pieces: &[Piece]) -> u64 {
    pieces.iter().map(Piece::len).sum()
}

/// Bytes that stand for zeros.
static ZEROES: [u8; 64 << 10] = [0; 64 << 10];

/// A piece as bytes.
fn spelled_out(piece: Piece) -> Vec<Bytes> {
    let len = match piece {
        Piece::Data(bytes) => return vec![bytes],
        Piece::Zeroes(len) => len as usize,
    };
    let zeroes = Bytes::from_static(&ZEROES);
    let pieces = (0..len).step_by(ZEROES.len());
    pieces.map(|at| zeroes.slice(..ZEROES.len().min(len - at))).collect()
}

/// The first byte at which content and data differ.
fn first_difference(ours: &[u8], pieces: &[Piece]) -> Option<usize> {
    let mut at = 0;
    for piece in pieces {
        let part = &ours[at..at + piece.len() as usize];
        let found = match piece {
            Piece::Data(bytes) if *part == bytes[..] => None,
            Piece::Data(bytes) => part.iter().zip(bytes).position(|(a, b)| a != b),
            Piece::Zeroes(_) => part.iter().position(|byte| *byte != 0),
        };
        if let Some(n) = found {
            return Some(at + n);
        }
        at += part.len();
    }
    None
}
