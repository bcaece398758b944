//! Why a command ends in something else than success, as sense data (SPC-4, 4.5).

use crate::iscsi::Attention;

/// What a command ended with that was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::iscsi) struct Sense {
    pub(in crate::iscsi) key: u8,
    /// The additional sense code and its qualifier.
    code: (u8, u8),
    /// The field that is wrong.
    field: Option<Field>,
    /// Which block it is about, or how far into the data.
    information: Option<u32>,
}

/// A field that is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Field {
    in_command: bool,
    byte: u16,
    bit: Option<u8>,
}

pub(in crate::iscsi) mod key {
    pub(in crate::iscsi) const HARDWARE_ERROR: u8 = 0x04;
    pub(in crate::iscsi) const ILLEGAL_REQUEST: u8 = 0x05;
    pub(in crate::iscsi) const UNIT_ATTENTION: u8 = 0x06;
    pub(in crate::iscsi) const DATA_PROTECT: u8 = 0x07;
    pub(in crate::iscsi) const COPY_ABORTED: u8 = 0x0a;
    pub(in crate::iscsi) const ABORTED_COMMAND: u8 = 0x0b;
    pub(in crate::iscsi) const MISCOMPARE: u8 = 0x0e;
}

/// Length of sense data of a fixed format.
const LEN: usize = 18;

impl Sense {
    const fn new(key: u8, code: (u8, u8)) -> Sense {
        Sense { key, code, field: None, information: None }
    }

    /// INVALID COMMAND OPERATION CODE.
    pub(in crate::iscsi) const OPCODE: Sense = Sense {
        field: Some(Field { in_command: true, byte: 0, bit: None }),
        ..Sense::new(key::ILLEGAL_REQUEST, (0x20, 0x00))
    };
    /// LOGICAL UNIT NOT SUPPORTED.
    pub(in crate::iscsi) const NO_UNIT: Sense = Sense::new(key::ILLEGAL_REQUEST, (0x25, 0x00));
    /// PARAMETER LIST LENGTH ERROR.
    pub(super) const LIST_LENGTH: Sense = Sense::new(key::ILLEGAL_REQUEST, (0x1a, 0x00));
    /// LOGICAL BLOCK ADDRESS OUT OF RANGE.
    pub(in crate::iscsi) const OUT_OF_RANGE: Sense = Sense::new(key::ILLEGAL_REQUEST, (0x21, 0x00));
    /// SAVING PARAMETERS NOT SUPPORTED.
    pub(super) const NOT_SAVED: Sense = Sense::new(key::ILLEGAL_REQUEST, (0x39, 0x00));
    /// INVALID FIELD IN COMMAND INFORMATION UNIT: the lengths of the command and of its transfer do not agree.
    pub(in crate::iscsi) const TRANSFER_LENGTH: Sense =
        Sense::new(key::ILLEGAL_REQUEST, (0x0e, 0x03));
    /// PROTOCOL SERVICE CRC ERROR.
    pub(in crate::iscsi) const DIGEST: Sense = Sense::new(key::ABORTED_COMMAND, (0x47, 0x05));
    /// WRITE ERROR: the data are not those that are due (RFC 7143, 11.4.7.2).
    pub(in crate::iscsi) const DATA: Sense = Sense::new(key::ABORTED_COMMAND, (0x0c, 0x0d));
    /// WRITE PROTECTED.
    pub(in crate::iscsi) const WRITE_PROTECTED: Sense = Sense::new(key::DATA_PROTECT, (0x27, 0x00));
    /// SPACE ALLOCATION FAILED WRITE PROTECT.
    pub(in crate::iscsi) const NO_SPACE: Sense = Sense::new(key::DATA_PROTECT, (0x27, 0x07));
    /// INTERNAL TARGET FAILURE.
    pub(in crate::iscsi) const FAILED: Sense = Sense::new(key::HARDWARE_ERROR, (0x44, 0x00));
    /// NO ADDITIONAL SENSE INFORMATION, of a command that may or may not have been carried out.
    pub(in crate::iscsi) const UNKNOWN: Sense = Sense::new(key::ABORTED_COMMAND, (0x00, 0x00));

    /// TOO MANY TARGET DESCRIPTORS, and segment descriptors.
    pub(super) const MANY_DEVICES: Sense = Sense::new(key::ILLEGAL_REQUEST, (0x26, 0x06));
    pub(super) const MANY_SEGMENTS: Sense = Sense::new(key::ILLEGAL_REQUEST, (0x26, 0x08));
    /// UNSUPPORTED TARGET DESCRIPTOR TYPE CODE, and of a segment.
    pub(super) const DEVICE_KIND: Sense = Sense::new(key::ILLEGAL_REQUEST, (0x26, 0x07));
    pub(super) const SEGMENT_KIND: Sense = Sense::new(key::ILLEGAL_REQUEST, (0x26, 0x09));
    /// INLINE DATA LENGTH EXCEEDED.
    pub(super) const INLINE_DATA: Sense = Sense::new(key::ILLEGAL_REQUEST, (0x26, 0x0b));
    /// INVALID FIELD IN PARAMETER LIST: a segment that is too long.
    pub(super) const SEGMENT_LENGTH: Sense = Sense::new(key::ILLEGAL_REQUEST, (0x26, 0x00));
    /// INVALID FIELD IN CDB: no copy has that name.
    pub(in crate::iscsi) const NO_COPY: Sense = Sense {
        field: Some(Field { in_command: true, byte: 2, bit: None }),
        ..Sense::new(key::ILLEGAL_REQUEST, (0x24, 0x00))
    };
    /// COPY TARGET DEVICE NOT REACHABLE.
    pub(in crate::iscsi) const UNREACHABLE: Sense = Sense::new(key::COPY_ABORTED, (0x0d, 0x02));
    /// A copy has ended before all was copied.
    pub(in crate::iscsi) const COPY_ABORTED: Sense = Sense::new(key::COPY_ABORTED, (0x00, 0x00));

    /// INVALID RELEASE OF PERSISTENT RESERVATION.
    pub(in crate::iscsi) const WRONG_RELEASE: Sense =
        Sense::new(key::ILLEGAL_REQUEST, (0x26, 0x04));
    /// INVALID FIELD IN CDB: the number of blocks of COMPARE AND WRITE.
    pub(in crate::iscsi) const NO_BLOCKS: Sense = Sense {
        field: Some(Field { in_command: true, byte: 13, bit: None }),
        ..Sense::new(key::ILLEGAL_REQUEST, (0x24, 0x00))
    };
    /// INSUFFICIENT REGISTRATION RESOURCES.
    pub(in crate::iscsi) const REGISTRANTS: Sense = Sense::new(key::ILLEGAL_REQUEST, (0x55, 0x04));
    /// INVALID FIELD IN PARAMETER LIST: the service action reservation key.
    pub(in crate::iscsi) const NO_KEY: Sense = Sense {
        field: Some(Field { in_command: false, byte: 8, bit: None }),
        ..Sense::new(key::ILLEGAL_REQUEST, (0x26, 0x00))
    };

    /// INVALID FIELD IN CDB: there is no reservation to move.
    pub(in crate::iscsi) const NOT_RESERVED: Sense = Sense {
        field: Some(Field { in_command: true, byte: 1, bit: Some(4) }),
        ..Sense::new(key::ILLEGAL_REQUEST, (0x24, 0x00))
    };
    /// INVALID FIELD IN PARAMETER LIST: the relative target port identifier of REGISTER AND MOVE.
    pub(in crate::iscsi) const NO_PORT: Sense = Sense {
        field: Some(Field { in_command: false, byte: 18, bit: None }),
        ..Sense::new(key::ILLEGAL_REQUEST, (0x26, 0x00))
    };
    /// INVALID FIELD IN PARAMETER LIST: the TransportID of REGISTER AND MOVE.
    pub(in crate::iscsi) const NO_INITIATOR: Sense = Sense {
        field: Some(Field { in_command: false, byte: 24, bit: None }),
        ..Sense::new(key::ILLEGAL_REQUEST, (0x26, 0x00))
    };

    /// What an initiator's attention is called to.
    pub(in crate::iscsi) fn attention(to: Attention) -> Sense {
        let code = match to {
            Attention::Reset => (0x29, 0x03),
            Attention::Modes => (0x2a, 0x01),
            Attention::ReservationsPreempted => (0x2a, 0x03),
            Attention::ReservationsReleased => (0x2a, 0x04),
            Attention::RegistrationsPreempted => (0x2a, 0x05),
            Attention::Capacity => (0x2a, 0x09),
            Attention::Commands => (0x3f, 0x03),
        };
        Sense::new(key::UNIT_ATTENTION, code)
    }

    /// MISCOMPARE DURING VERIFY OPERATION, at this byte of the data.
    pub(in crate::iscsi) fn miscompare(at: usize) -> Sense {
        let information = u32::try_from(at).ok();
        Sense { information, ..Sense::new(key::MISCOMPARE, (0x1d, 0x00)) }
    }

    /// INVALID FIELD IN CDB, in this byte, and from this bit on.
    pub(super) fn field(byte: u16, bit: Option<u8>) -> Sense {
        let field = Some(Field { in_command: true, byte, bit });
        Sense { field, ..Sense::new(key::ILLEGAL_REQUEST, (0x24, 0x00)) }
    }

    /// INVALID FIELD IN PARAMETER LIST, in this byte.
    pub(super) fn parameter(byte: usize) -> Sense {
        let field = Some(Field { in_command: false, byte: byte as u16, bit: None });
        Sense { field, ..Sense::new(key::ILLEGAL_REQUEST, (0x26, 0x00)) }
    }

    /// As bytes, in the fixed format.
    pub(in crate::iscsi) fn fixed(&self) -> [u8; LEN] {
        let mut bytes = [0; LEN];
        (bytes[0], bytes[2], bytes[7]) = (0x70, self.key, (LEN - 8) as u8);
        if let Some(information) = self.information {
            bytes[0] |= 0x80;
            bytes[3..7].copy_from_slice(&information.to_be_bytes());
        }
        (bytes[12], bytes[13]) = self.code;
        if let Some(field) = self.field {
            let command = if field.in_command { 0x40 } else { 0 };
            bytes[15] = 0x80 | command | field.bit.map_or(0, |bit| 0x08 | bit);
            bytes[16..].copy_from_slice(&field.byte.to_be_bytes());
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_field_that_is_wrong_is_pointed_at() {
        let bytes = Sense::field(7, Some(3)).fixed();
        assert_eq!((bytes[0], bytes[2], bytes[7]), (0x70, 5, 10));
        assert_eq!((bytes[12], bytes[13], &bytes[15..]), (0x24, 0, &[0xcb, 0, 7][..]));
        let bytes = Sense::parameter(300).fixed();
        assert_eq!((bytes[12], &bytes[15..]), (0x26, &[0x80, 1, 44][..]));
        let bytes = Sense::miscompare(513).fixed();
        assert_eq!((bytes[0], &bytes[3..7], bytes[12]), (0xf0, &[0, 0, 2, 1][..], 0x1d));
        assert_eq!(Sense::NO_UNIT.fixed()[15..], [0, 0, 0]);
    }
}
