//! Protocol data units: the basic header segment, field by field (RFC 7143, 11).

/// Length of a basic header segment.
pub(super) const LEN: usize = 48;

/// The tag that means none.
pub(super) const NO_TAG: u32 = u32::MAX;

/// What initiators send.
pub(super) mod opcode {
    pub(in crate::iscsi) const NOP_OUT: u8 = 0x00;
    pub(in crate::iscsi) const COMMAND: u8 = 0x01;
    pub(in crate::iscsi) const TASK_MANAGEMENT: u8 = 0x02;
    pub(in crate::iscsi) const LOGIN: u8 = 0x03;
    pub(in crate::iscsi) const TEXT: u8 = 0x04;
    pub(in crate::iscsi) const DATA_OUT: u8 = 0x05;
    pub(in crate::iscsi) const LOGOUT: u8 = 0x06;
    pub(in crate::iscsi) const SNACK: u8 = 0x10;
    /// What targets send.
    pub(in crate::iscsi) const NOP_IN: u8 = 0x20;
    pub(in crate::iscsi) const RESPONSE: u8 = 0x21;
    pub(in crate::iscsi) const TASK_MANAGEMENT_RESPONSE: u8 = 0x22;
    pub(in crate::iscsi) const LOGIN_RESPONSE: u8 = 0x23;
    pub(in crate::iscsi) const TEXT_RESPONSE: u8 = 0x24;
    pub(in crate::iscsi) const DATA_IN: u8 = 0x25;
    pub(in crate::iscsi) const LOGOUT_RESPONSE: u8 = 0x26;
    pub(in crate::iscsi) const R2T: u8 = 0x31;
    pub(in crate::iscsi) const ASYNCHRONOUS: u8 = 0x32;
    pub(in crate::iscsi) const REJECT: u8 = 0x3f;
}

/// Offsets of fields that several kinds have.
pub(super) mod at {
    pub(in crate::iscsi) const LUN: usize = 8;
    pub(in crate::iscsi) const TAG: usize = 16;
    /// The target's tag, in all kinds with one; in commands, the expected length.
    pub(in crate::iscsi) const TRANSFER_TAG: usize = 20;
    pub(in crate::iscsi) const CMD_SN: usize = 24;
    pub(in crate::iscsi) const STAT_SN: usize = 24;
    pub(in crate::iscsi) const EXP_CMD_SN: usize = 28;
    pub(in crate::iscsi) const MAX_CMD_SN: usize = 32;
    pub(in crate::iscsi) const CDB: usize = 32;
    /// `DataSN`, `R2TSN`, or `ExpDataSN`.
    pub(in crate::iscsi) const DATA_SN: usize = 36;
    pub(in crate::iscsi) const OFFSET: usize = 40;
    /// The event of an asynchronous message, and its parameters.
    pub(in crate::iscsi) const EVENT: usize = 36;
    pub(in crate::iscsi) const SECOND_PARAMETER: usize = 40;
    pub(in crate::iscsi) const THIRD_PARAMETER: usize = 42;
    /// A residual, or the desired length.
    pub(in crate::iscsi) const LENGTH: usize = 44;
}

/// The last of its sequence.
pub(super) const FINAL: u8 = 0x80;
/// The text continues in the next unit.
pub(super) const CONTINUE: u8 = 0x40;

/// Why a unit is rejected (RFC 7143, 11.17.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    DataDigest = 0x02,
    Snack = 0x03,
    Protocol = 0x04,
    Unsupported = 0x05,
    TooManyImmediate = 0x06,
    InProgress = 0x07,
    Field = 0x09,
}

/// A basic header segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head(pub(super) [u8; LEN]);

impl Head {
    /// A header of a kind, with the bit set that most kinds have.
    pub(super) fn new(opcode: u8) -> Head {
        let mut bytes = [0; LEN];
        (bytes[0], bytes[1]) = (opcode, FINAL);
        Head(bytes)
    }

    /// Its kind.
    pub(super) fn opcode(&self) -> u8 {
        self.0[0] & 0x3f
    }

    /// Whether it is immediate, outside the sequence.
    pub(super) fn is_immediate(&self) -> bool {
        self.0[0] & 0x40 != 0
    }

    /// Its flags.
    pub(super) fn flags(&self) -> u8 {
        self.0[1]
    }

    /// Bytes of additional header segments.
    pub(super) fn additional(&self) -> usize {
        4 * usize::from(self.0[4])
    }

    /// Bytes of data, without padding.
    pub(super) fn data_len(&self) -> usize {
        usize::from(self.0[5]) << 16 | usize::from(self.0[6]) << 8 | usize::from(self.0[7])
    }

    /// The logical unit that it addresses.
    pub(super) fn lun(&self) -> u64 {
        u64::from(self.word(at::LUN)) << 32 | u64::from(self.word(at::LUN + 4))
    }

    /// The initiator's tag.
    pub(super) fn tag(&self) -> u32 {
        self.word(at::TAG)
    }

    /// The field of four bytes at an offset.
    pub(super) fn word(&self, at: usize) -> u32 {
        u32::from_be_bytes([self.0[at], self.0[at + 1], self.0[at + 2], self.0[at + 3]])
    }

    /// The field of two bytes at an offset.
    pub(super) fn half(&self, at: usize) -> u16 {
        u16::from_be_bytes([self.0[at], self.0[at + 1]])
    }

    /// The same with a byte set.
    pub(super) fn with_byte(mut self, at: usize, value: u8) -> Head {
        self.0[at] = value;
        self
    }

    /// The same with a field of two bytes set.
    pub(super) fn with_half(mut self, at: usize, value: u16) -> Head {
        self.0[at..at + 2].copy_from_slice(&value.to_be_bytes());
        self
    }

    /// The same with a field of four bytes set.
    pub(super) fn with_word(mut self, at: usize, value: u32) -> Head {
        self.0[at..at + 4].copy_from_slice(&value.to_be_bytes());
        self
    }

    /// The same with the tag of what it answers.
    pub(super) fn answering(self, tag: u32) -> Head {
        self.with_word(at::TAG, tag)
    }

    /// The same with the length of the data segment set.
    pub(super) fn with_data(mut self, len: usize) -> Head {
        self.0[5..8].copy_from_slice(&(len as u32).to_be_bytes()[1..]);
        self
    }
}

/// A length rounded up to whole words of four bytes.
pub(super) fn padded(len: usize) -> usize {
    len.next_multiple_of(4)
}

/// A complete unit.
#[derive(Clone, Debug)]
pub(super) struct Pdu {
    pub(super) head: Head,
    /// Its data, without padding.
    pub(super) data: bytes::Bytes,
    /// Whether the data do not match their digest.
    pub(super) is_damaged: bool,
}

/// Whether additional header segments have their stated lengths: each has a length, which counts the bytes after its
/// type, and padding.
pub(super) fn are_whole(mut additional: &[u8]) -> bool {
    while let [high, low, _kind, ..] = *additional {
        let len = usize::from(u16::from_be_bytes([high, low]));
        match additional.get(padded(3 + len)..) {
            Some(rest) if len > 0 => additional = rest,
            _ => return false,
        }
    }
    additional.is_empty()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn additional_segments_fill_their_room() {
        // An extended command of 20 bytes: 4 beyond those of the header, and a reserved one.
        assert!(are_whole(&[]) && are_whole(&[0, 5, 1, 0, 1, 2, 3, 4]));
        assert!(are_whole(&[0, 5, 2, 0, 0, 0, 2, 0, 0, 5, 1, 0, 1, 2, 3, 4]));
        for bad in [&[0, 9, 1, 0, 1, 2, 3, 4][..], &[0, 0, 1, 0], &[0, 1, 1, 0, 7, 7, 7, 7]] {
            assert!(!are_whole(bad), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn fields_are_read_as_they_are_written(
            word: u32,
            half: u16,
            len in 0_usize..(1 << 24),
            tag: u32,
        ) {
            let head = Head::new(opcode::DATA_IN)
                .answering(tag)
                .with_word(at::OFFSET, word)
                .with_half(10, half)
                .with_data(len);
            prop_assert_eq!((head.opcode(), head.flags(), head.tag()), (0x25, FINAL, tag));
            prop_assert_eq!((head.word(at::OFFSET), head.half(10)), (word, half));
            prop_assert_eq!((head.data_len(), head.additional()), (len, 0));
        }

        #[test]
        fn no_bytes_upset_what_looks_at_segments(bytes: Vec<u8>) {
            are_whole(&bytes);
        }
    }
}
