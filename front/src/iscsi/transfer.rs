//! Data that commands bring along: with the command, unasked for behind it, and asked for (RFC 7143, 4.2.5.2).

use bytes::Bytes;
use weft_bytes::memory::{PageBuffer, Pool};

use super::Server;
use super::pdu::{FINAL, Head, NO_TAG, Pdu, Reason, at, opcode};
use super::scsi::Sense;

/// Data of a command that are not all there.
pub(super) struct Gather {
    /// Bytes that the command needs. What comes beyond is thrown away.
    pub(super) wanted: usize,
    /// More comes that was not asked for, up to `limit`.
    pub(super) is_unsolicited: bool,
    limit: usize,
    /// What was asked for: up to where, and the tag.
    pub(super) burst: Option<(usize, u32)>,
    received: usize,
    /// The number of the next unit of data, and of the next that asks for some.
    data_sn: u32,
    r2t_sn: u32,
    data: Data,
}

/// What has come.
enum Data {
    Nothing,
    /// All of it in one piece.
    Whole(Bytes),
    /// Beginning with this piece, in a buffer that has room for all.
    Pieces(PageBuffer),
}

impl Gather {
    /// An empty buffer for `wanted` bytes, of which up to `limit` come unsolicited.
    pub(super) fn new(wanted: usize, limit: usize, is_unsolicited: bool) -> Gather {
        let (received, data_sn, r2t_sn) = (0, 0, 0);
        let (burst, data) = (None, Data::Nothing);
        Gather { wanted, is_unsolicited, limit, burst, received, data_sn, r2t_sn, data }
    }

    /// The next bytes have come.
    pub(super) fn add(&mut self, bytes: &Bytes) {
        let kept = bytes.len().min(self.wanted.saturating_sub(self.received));
        let from = self.received.min(self.wanted);
        self.received += bytes.len();
        if kept == 0 {
            return;
        }
        match &mut self.data {
            Data::Nothing if kept == self.wanted => self.data = Data::Whole(bytes.slice(..kept)),
            Data::Pieces(buffer) => {
                buffer.as_mut()[from..from + kept].copy_from_slice(&bytes[..kept]);
            }
            // No data follows a complete transfer.
            Data::Nothing | Data::Whole(_) => {
                let mut buffer = Pool::of_process().get(self.wanted);
                buffer.as_mut()[..kept].copy_from_slice(&bytes[..kept]);
                self.data = Data::Pieces(buffer);
            }
        }
    }

    /// Whether nothing is missing and nothing more is to come.
    pub(super) fn is_whole(&self) -> bool {
        !self.is_unsolicited && self.burst.is_none() && self.received >= self.wanted
    }

    /// All that is wanted.
    pub(super) fn into_bytes(self) -> Bytes {
        match self.data {
            Data::Nothing => Bytes::new(),
            Data::Whole(bytes) => bytes,
            Data::Pieces(buffer) => Bytes::from_owner(buffer),
        }
    }

    /// Whether a unit of data is the one that is due; then it is taken.
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
            // What was asked for has to come whole.
            if self.burst.is_some_and(|(end, _)| self.received < end) {
                return false;
            }
            (self.is_unsolicited, self.burst, self.data_sn) = (false, None, 0);
        }
        true
    }
}

impl Server {
    /// Takes a unit of data. Those of a command that is not there any more are thrown away.
    pub(super) fn take_data(&mut self, pdu: &Pdu) {
        let head = &pdu.head;
        let Some((number, gather)) = self.tasks.gatherer(head.tag()) else { return };
        if pdu.is_damaged {
            self.reject(head, Reason::DataDigest);
            return self.fail_gathering(number, Sense::DIGEST);
        }
        if !gather.take(head, &pdu.data) {
            // Nothing of the command is done, and what else comes for it is thrown away.
            self.fail_gathering(number, Sense::DATA);
            return;
        }
        if let Some(gather) = self.tasks.get(number).and_then(|task| task.gather.take()) {
            if gather.burst.is_none() {
                self.tasks.has_data(number);
            }
            self.go_on(number, gather);
        }
    }

    /// Asks for the data of commands that wait for their turn.
    pub(super) fn ask_for_data(&mut self) {
        while let Some(number) = self.tasks.next_to_ask() {
            let max_burst = self.parameters.max_burst as usize;
            let Some(task) = self.tasks.get(number) else { continue };
            let (lun, tag) = (task.head.lun(), task.head.tag());
            let Some(gather) = &mut task.gather else { continue };
            let length = (gather.wanted - gather.received).min(max_burst);
            // A tag is any number but the one that stands for none.
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
