//! Data of commands: immediate, unsolicited and solicited (RFC 7143, 4.2.5.2).

use bytes::Bytes;
use weft_bytes::memory::{PageBuffer, Pool};

use super::Server;
use super::pdu::{FINAL, Head, NO_TAG, Pdu, Reason, at, opcode};
use super::scsi::Sense;

/// Incomplete data of a command.
pub(super) struct Gather {
    /// Bytes that the command needs. Further bytes are discarded.
    pub(super) wanted: usize,
    /// Unsolicited data follow, up to `limit`.
    pub(super) is_unsolicited: bool,
    limit: usize,
    /// The requested burst: its end, and its tag.
    pub(super) burst: Option<(usize, u32)>,
    received: usize,
    /// The number of the next data unit, and of the next request for data.
    data_sn: u32,
    r2t_sn: u32,
    data: Data,
}

/// The data received.
enum Data {
    Nothing,
    /// One piece, as it came.
    One(Bytes),
    /// Several pieces, in a buffer with space for those that are due.
    Pieces(PageBuffer),
}

impl Gather {
    /// An empty buffer for `wanted` bytes, of which up to `limit` come unsolicited.
    pub(super) fn new(wanted: usize, limit: usize, is_unsolicited: bool) -> Gather {
        let (received, data_sn, r2t_sn) = (0, 0, 0);
        let (burst, data) = (None, Data::Nothing);
        Gather { wanted, is_unsolicited, limit, burst, received, data_sn, r2t_sn, data }
    }

    /// Adds the next bytes.
    pub(super) fn add(&mut self, bytes: &Bytes) {
        let kept = bytes.len().min(self.wanted.saturating_sub(self.received));
        let from = self.received.min(self.wanted);
        self.received += bytes.len();
        if kept == 0 {
            return;
        }
        if from == 0 {
            self.data = Data::One(bytes.slice(..kept));
            return;
        }
        self.buffer(from)[from..from + kept].copy_from_slice(&bytes[..kept]);
    }

    /// The buffer with the first `filled` bytes. There is space for all data only once they have been requested:
    /// initiators send the first ones of many commands.
    fn buffer(&mut self, filled: usize) -> &mut [u8] {
        let is_asked = self.r2t_sn > 0;
        let space = if is_asked { self.wanted } else { self.wanted.min(self.limit) };
        if self.kept() < space || !matches!(self.data, Data::Pieces(_)) {
            let mut buffer = Pool::of_process().get(space);
            buffer.as_mut()[..filled].copy_from_slice(&self.bytes()[..filled]);
            self.data = Data::Pieces(buffer);
        }
        match &mut self.data {
            Data::Pieces(buffer) => buffer.as_mut(),
            Data::Nothing | Data::One(_) => unreachable!("it has just got one"),
        }
    }

    fn bytes(&self) -> &[u8] {
        match &self.data {
            Data::Nothing => &[],
            Data::One(bytes) => bytes,
            Data::Pieces(buffer) => buffer.as_ref(),
        }
    }

    /// Bytes of memory that its data have.
    pub(super) fn kept(&self) -> usize {
        self.bytes().len()
    }

    /// Whether the data are complete and no unit follows.
    pub(super) fn is_whole(&self) -> bool {
        !self.is_unsolicited && self.burst.is_none() && self.received >= self.wanted
    }

    /// All that is wanted.
    pub(super) fn into_bytes(self) -> Bytes {
        match self.data {
            Data::Nothing => Bytes::new(),
            Data::One(bytes) => bytes,
            Data::Pieces(buffer) => Bytes::from_owner(buffer),
        }
    }

    /// Takes a data unit if it is the expected one, and returns whether it is.
    fn take(&mut self, head: &Head, bytes: &Bytes) -> bool {
        let tag = head.word(at::TRANSFER_TAG);
        let (end, due) = match (self.burst, self.is_unsolicited) {
            (Some(burst), _) => burst,
            (None, true) => (self.limit, NO_TAG),
            (None, false) => return false,
        };
        let fits = self.received + bytes.len() <= end;
        let is_next = head.word(at::OFFSET) as usize == self.received
            && head.word(at::DATA_SN) == self.data_sn;
        if tag != due || !fits || !is_next {
            return false;
        }
        self.add(bytes);
        self.data_sn = self.data_sn.wrapping_add(1);
        if head.flags() & FINAL != 0 {
            // A burst must be complete.
            if self.burst.is_some_and(|(end, _)| self.received < end) {
                return false;
            }
            (self.is_unsolicited, self.burst, self.data_sn) = (false, None, 0);
        }
        true
    }
}

impl Server {
    /// Takes a data unit. Data of a command that has ended are discarded.
    pub(super) fn take_data(&mut self, pdu: &Pdu) {
        let head = &pdu.head;
        let Some((number, gather)) = self.tasks.gatherer(head.tag()) else { return };
        if pdu.is_damaged {
            self.reject(head, Reason::DataDigest);
            return self.fail_gathering(number, Sense::DIGEST);
        }
        if !gather.take(head, &pdu.data) {
            // The command is not executed, and its further data are discarded.
            self.fail_gathering(number, Sense::DATA);
            return;
        }
        if let Some(gather) = self.tasks.get(number).and_then(|task| task.gather.take()) {
            self.go_on(number, gather);
        }
    }

    /// Requests the data of waiting commands.
    pub(super) fn ask_for_data(&mut self) {
        while let Some(number) = self.tasks.next_to_ask() {
            let max_burst = self.parameters.max_burst as usize;
            let Some(task) = self.tasks.get(number) else { continue };
            let (lun, tag) = (task.head.lun(), task.head.tag());
            let Some(gather) = &mut task.gather else { continue };
            let length = (gather.wanted - gather.received).min(max_burst);
            // Any tag but the one that means none.
            let ours = (number % u64::from(NO_TAG)) as u32;
            gather.burst = Some((gather.received + length, ours));
            let head = Head::new(opcode::R2T)
                .answering(tag)
                .with_word(at::LUN, (lun >> 32) as u32)
                .with_word(at::LUN + 4, lun as u32)
                .with_word(at::TRANSFER_TAG, ours)
                .with_word(at::DATA_SN, gather.r2t_sn)
                .with_word(at::OFFSET, gather.received as u32)
                .with_word(at::LENGTH, length as u32);
            gather.r2t_sn += 1;
            self.send_beside(head);
        }
    }
}
