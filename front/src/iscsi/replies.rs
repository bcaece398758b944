//! Outgoing data and status.

use std::collections::VecDeque;

use bytes::Bytes;

use super::pdu::{FINAL, Head, NO_TAG, Reason, at, opcode};
use super::scsi::{Sense, Work};
use super::tasks::Task;
use super::{Server, digest};

/// The final status of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    Good,
    Busy,
    /// RESERVATION CONFLICT.
    Conflict,
    Check(Sense),
}

impl Status {
    fn code(self) -> u8 {
        match self {
            Status::Good => 0x00,
            Status::Check(_) => 0x02,
            Status::Busy => 0x08,
            Status::Conflict => 0x18,
        }
    }
}

/// The initiator expects fewer bytes than the command has, or more.
const OVERFLOW: u8 = 0x04;
const UNDERFLOW: u8 = 0x02;
/// The status comes with the data.
const STATUS: u8 = 0x01;

/// How a command's length differs from the initiator's expected length.
fn residual(task: &Task, data_in: u64) -> (u8, u32) {
    let length = match (task.writes(), task.reads()) {
        (true, false) => task.data_out,
        (false, true) => data_in,
        _ => task.data_out.max(data_in),
    };
    let (flag, by) = match (length, task.expected()) {
        (length, expected) if length > expected => (OVERFLOW, length - expected),
        (length, expected) if length < expected => (UNDERFLOW, expected - length),
        _ => (0, 0),
    };
    (flag, u32::try_from(by).unwrap_or(u32::MAX))
}

impl Server {
    /// Answers a command: data, if there are any, and the status.
    pub(super) fn answer(&mut self, task: &Task, status: Status, data: Vec<Bytes>) {
        let length: u64 = data.iter().map(|piece| piece.len() as u64).sum();
        let (flag, by) = residual(task, length);
        let sent = if task.reads() { length.min(task.expected()) } else { 0 };
        if sent > 0 && status == Status::Good {
            return self.send_data(task, data, sent as usize, (flag, by));
        }
        let head = Head::new(opcode::RESPONSE)
            .answering(task.head.tag())
            .with_byte(1, FINAL | flag)
            .with_byte(3, status.code())
            .with_word(at::LENGTH, by);
        let sense = match status {
            Status::Check(sense) => {
                let bytes = sense.fixed();
                vec![[&(bytes.len() as u16).to_be_bytes()[..], &bytes].concat().into()]
            }
            Status::Good | Status::Busy | Status::Conflict => Vec::new(),
        };
        self.send_status(head, &sense);
    }

    /// Sends data in segments of a size that the initiator accepts, with the status in the last.
    fn send_data(&mut self, task: &Task, data: Vec<Bytes>, length: usize, (flag, by): (u8, u32)) {
        let segment = self.parameters.segment as usize;
        let burst = self.parameters.max_burst as usize;
        let (mut pieces, mut at_byte, mut number) = (VecDeque::from(data), 0, 0);
        while at_byte < length {
            let until = (at_byte / burst + 1) * burst;
            let n = segment.min(length - at_byte).min(until - at_byte);
            let end = at_byte + n;
            let head = Head::new(opcode::DATA_IN)
                .answering(task.head.tag())
                .with_word(at::TRANSFER_TAG, NO_TAG)
                .with_word(at::DATA_SN, number)
                .with_word(at::OFFSET, at_byte as u32);
            let part = take(&mut pieces, n);
            if end == length {
                let head = head.with_byte(1, FINAL | STATUS | flag).with_word(at::LENGTH, by);
                self.send_status(head, &part);
            } else {
                let flags = if end == until { FINAL } else { 0 };
                let head = self.numbered(head.with_byte(1, flags), 0);
                self.put(head, &part);
            }
            (at_byte, number) = (end, number + 1);
        }
    }

    /// Rejects a unit, and says which.
    pub(super) fn reject(&mut self, rejected: &Head, reason: Reason) {
        let head = Head::new(opcode::REJECT).answering(NO_TAG).with_byte(2, reason as u8);
        self.send_status(head, &[Bytes::copy_from_slice(&rejected.0)]);
    }

    /// Fails a command whose data are incomplete.
    pub(super) fn fail_gathering(&mut self, number: u64, sense: Sense) {
        if let Some(mut task) = self.tasks.end(number) {
            task.work = Ok(Work::Nothing);
            self.answer(&task, Status::Check(sense), Vec::new());
        }
        self.answer_aborts();
    }

    /// Sends a unit that has a status, which gets the next number.
    pub(super) fn send_status(&mut self, head: Head, data: &[Bytes]) {
        let head = self.numbered(head, self.stat_sn);
        self.stat_sn = self.stat_sn.wrapping_add(1);
        self.put(head, data);
    }

    /// Sends a unit that has the number of the next status without using it up.
    pub(super) fn send_beside(&mut self, head: Head) {
        let head = self.numbered(head, self.stat_sn);
        self.put(head, &[]);
    }

    /// Sets the number of the status, and the window of commands.
    fn numbered(&self, head: Head, status: u32) -> Head {
        let last = self.exp_cmd_sn.wrapping_add(self.tasks.window()).wrapping_sub(1);
        head.with_word(at::STAT_SN, status)
            .with_word(at::EXP_CMD_SN, self.exp_cmd_sn)
            .with_word(at::MAX_CMD_SN, last)
    }

    /// Queues a unit with its data, and the negotiated digests.
    fn put(&mut self, head: Head, data: &[Bytes]) {
        let len = data.iter().map(Bytes::len).sum();
        let head = head.with_data(len);
        let is_full = matches!(self.phase, super::server::Phase::Full);
        let (of_head, of_data) = (self.parameters.header_digest, self.parameters.data_digest);
        self.outbox.header(&head.0);
        if is_full && of_head {
            self.outbox.header(&digest::of(&head.0));
        }
        data.iter().for_each(|piece| self.outbox.data(piece.clone()));
        self.outbox.header(digest::padding(len));
        if is_full && of_data && len > 0 {
            self.outbox.header(&digest::of_pieces(data));
        }
    }
}

/// The next `n` bytes of pieces.
fn take(pieces: &mut VecDeque<Bytes>, mut n: usize) -> Vec<Bytes> {
    let mut taken = Vec::new();
    while n > 0
        && let Some(first) = pieces.front_mut()
    {
        let part = first.split_to(n.min(first.len()));
        n -= part.len();
        if first.is_empty() {
            pieces.pop_front();
        }
        taken.push(part);
    }
    taken
}
