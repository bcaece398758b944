//! A logical unit: a volume, as hosts see it.

use super::{MOST_BYTES, Stretch};
use crate::iscsi::reservation::Held;

/// The usual length of a logical block, which tests go by.
#[cfg(test)]
pub(in crate::iscsi) const BLOCK: u64 = 512;

/// A volume offered as logical unit 0 of a target of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    /// The target's name.
    pub target: String,
    /// What the target is called, for people.
    pub alias: String,
    /// The portal group that the connection came in at, from 1 on. It is also the relative number of the port.
    pub group: u16,
    /// Size in bytes; those beyond the last whole block are not offered.
    pub size: u64,
    /// Bytes of a logical block: 512 or 4,096.
    pub block: u64,
    /// Whether what was written is safe from a power cut only after a flush.
    pub write_cache: bool,
    /// Whether the host may only read.
    pub read_only: bool,
    /// Whether it takes space only when it is written.
    pub thin: bool,
    /// Whether COMPARE AND WRITE and ORWRITE can be had.
    pub modifies: bool,
    /// The largest atomic write, in bytes: a power of two. Writes within an aligned stretch of that size are atomic. 0 if
    /// there are none.
    pub atomic: u64,
    /// Whether a session has it to itself.
    pub held: Held,
    /// A number that is the volume's alone, the same wherever it is served.
    pub id: u128,
    /// A number of 60 bits that is the volume's alone in a cluster.
    pub short_id: u64,
}

/// What identifies a unit, as a designator on the page of identification (SPC-4, 7.8.5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Designator {
    /// Its type.
    pub kind: u8,
    /// What it says.
    pub bytes: Vec<u8>,
    /// The length of the unit's blocks, as who names it has it.
    pub block: u64,
}

/// Types of designators: NAA's, and UUIDs.
pub(super) const NAA: u8 = 0x03;
pub(super) const UUID: u8 = 0x0a;

impl Unit {
    /// Whether a designator is one of its own, with blocks of its length.
    pub fn is(&self, of: &Designator) -> bool {
        match of.kind {
            _ if of.block != self.block => false,
            NAA => of.bytes == self.naa().to_be_bytes(),
            UUID => of.bytes == self.uuid_designator(),
            _ => false,
        }
    }

    /// The UUID as a designator: it is one, and its bytes.
    pub(super) fn uuid_designator(&self) -> Vec<u8> {
        [&[0x10, 0][..], &self.uuid()].concat()
    }

    /// The longest read or write, in blocks. Some initiators send this many, whatever length blocks have.
    pub(super) fn most_blocks(&self) -> u64 {
        (MOST_BYTES / self.block).max(2048)
    }

    /// The bytes of blocks from the first on.
    pub(super) fn stretch(&self, first: u64, count: u64) -> Stretch {
        Stretch { offset: first * self.block, length: count * self.block }
    }

    /// Its size in blocks.
    pub(super) fn blocks(&self) -> u64 {
        self.size / self.block
    }

    /// The number as UUID of a version that says nothing of how it came about.
    pub(super) fn uuid(&self) -> [u8; 16] {
        let mut bytes = self.id.to_be_bytes();
        bytes[6] = bytes[6] & 0x0f | 0x80;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        bytes
    }

    /// The name of the class "locally assigned".
    pub(super) fn naa(&self) -> u64 {
        0x3 << 60 | self.short_id & (u64::MAX >> 4)
    }

    /// The serial number.
    pub(super) fn serial(&self) -> String {
        format!("{:032x}", self.id)
    }
}

#[cfg(test)]
pub(in crate::iscsi) fn sample() -> Unit {
    Unit {
        target: "iqn.2026-11.weft.example:vol0".into(),
        alias: "vol0".into(),
        group: 1,
        size: 1 << 20,
        block: BLOCK,
        write_cache: true,
        read_only: false,
        thin: false,
        modifies: true,
        atomic: 64 << 10,
        held: Held::Nobody,
        id: 0x0123_4567_89ab_cdef_0123_4567_89ab_cdef,
        short_id: 0x0fff_ffff_ffff_fff7,
    }
}
