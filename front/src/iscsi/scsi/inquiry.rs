//! What a unit says of itself: INQUIRY, its pages of vital product data, and capacities.

use super::unit::{NAA, UUID, Unit};
use super::{MOST_COMPARED, MOST_DESCRIPTORS, MOST_SAME, MOST_UNMAPPED, Sense, copying};
use crate::iscsi::Port;

const VENDOR: &[u8; 8] = b"WEFT    ";
const PRODUCT: &[u8; 16] = b"volume          ";
const REVISION: &[u8; 4] = b"1   ";

/// Bytes of a physical block.
const SECTOR: u64 = 4096;
/// The length of transfers that works well, in bytes.
const OPTIMAL: u64 = 1 << 20;

/// Where there is no unit: neither a device nor a kind of one.
const ABSENT: u8 = 0x7f;

/// The answer to INQUIRY where there is no unit.
pub(in crate::iscsi) fn absent() -> Vec<u8> {
    let mut bytes = standard();
    bytes[0] = ABSENT;
    bytes
}

/// Standard data.
pub(super) fn standard() -> Vec<u8> {
    let mut bytes = vec![0; 96];
    // A disk; SPC-4; logical units by numbers, and this format.
    (bytes[2], bytes[3], bytes[4]) = (0x06, 0x12, (96 - 5) as u8);
    // Asymmetric access that hosts cannot change, and copies.
    bytes[5] = 0x18;
    // Commands are queued.
    bytes[7] = 0x02;
    bytes[8..16].copy_from_slice(VENDOR);
    bytes[16..32].copy_from_slice(PRODUCT);
    bytes[32..36].copy_from_slice(REVISION);
    // SAM-5, iSCSI, SPC-4, SBC-3.
    for (n, version) in [0x00a0_u16, 0x0960, 0x0460, 0x04c0].into_iter().enumerate() {
        bytes[58 + 2 * n..60 + 2 * n].copy_from_slice(&version.to_be_bytes());
    }
    bytes
}

/// A page of vital product data.
pub(super) fn vital(code: u8, unit: &Unit) -> Result<Vec<u8>, Sense> {
    let body = match code {
        0x00 => vec![0x00, 0x80, 0x83, 0x8f, 0xb0, 0xb1, 0xb2],
        0x80 => unit.serial().into_bytes(),
        0x83 => identification(unit),
        0x8f => copying::page(unit),
        0xb0 => limits(unit),
        // It does not turn.
        0xb1 => [&[0, 1][..], &[0; 58]].concat(),
        0xb2 => provisioning(unit),
        _ => return Err(Sense::field(2, None)),
    };
    let length = (body.len() as u16).to_be_bytes();
    Ok([&[0, code, length[0], length[1]], &body[..]].concat())
}

/// UNMAP and both WRITE SAME unmap, and unmapped blocks read zeros (SBC-3, 6.6.4).
fn provisioning(unit: &Unit) -> Vec<u8> {
    const RESOURCES: u8 = 1;
    const THIN: u8 = 2;
    vec![0, 0xe4, if unit.thin { THIN } else { RESOURCES }, 0]
}

/// Designators: of the unit a number of its own in two forms, a name, and those of the port.
fn identification(unit: &Unit) -> Vec<u8> {
    const BINARY: u8 = 1;
    const ASCII: u8 = 2;
    const UTF8: u8 = 3;
    // By iSCSI, and about the port.
    const PORT: u8 = 0x90;
    let uuid = unit.uuid_designator();
    let name = [&VENDOR[..], unit.serial().as_bytes()].concat();
    let relative = [0, 0, (unit.group >> 8) as u8, unit.group as u8];
    let mut port = format!("{},t,0x{:04x}", unit.target, unit.group).into_bytes();
    // Behind it at least one zero, up to a word.
    port.resize((port.len() + 1).next_multiple_of(4), 0);
    let designators = [
        (BINARY, NAA, &unit.naa().to_be_bytes()[..]),
        (BINARY, UUID, &uuid),
        (ASCII, 0x01, &name),
        (0x50 | BINARY, PORT | 0x04, &relative),
        (0x50 | BINARY, PORT | 0x05, &relative),
        (0x50 | UTF8, PORT | 0x08, &port),
    ];
    let designator =
        |(set, kind, bytes): (u8, u8, &[u8])| [&[set, kind, 0, bytes.len() as u8], bytes].concat();
    designators.into_iter().flat_map(designator).collect()
}

/// The answer of REPORT TARGET PORT GROUPS (SPC-4, 6.37): each group has one port, with the same number.
pub(in crate::iscsi) fn port_groups(ports: &[Port], extended: bool, most: usize) -> Vec<u8> {
    const OPTIMIZED: u8 = 0x00;
    const UNAVAILABLE: u8 = 0x03;
    /// A port can be in these two states.
    const STATES: u8 = 0x09;
    /// The target has changed the state by itself.
    const BY_ITSELF: u8 = 0x02;
    let one = |port: &Port| {
        let state = if port.is_available { OPTIMIZED } else { UNAVAILABLE };
        let number = port.group.to_be_bytes();
        [&[state, STATES][..], &number, &[0, BY_ITSELF, 0, 1, 0, 0], &number].concat()
    };
    let groups: Vec<u8> = ports.iter().flat_map(one).collect();
    let head: &[u8] = if extended { &[0x10, 0, 0, 0] } else { &[] };
    let length = (head.len() + groups.len()) as u32;
    let mut bytes = [&length.to_be_bytes(), head, &groups].concat();
    bytes.truncate(most);
    bytes
}

/// Limits of blocks; each is kept.
fn limits(unit: &Unit) -> Vec<u8> {
    let blocks = |bytes: u64| (bytes / unit.block) as u32;
    let mut body = vec![0; 60];
    let mut set =
        |at: usize, bytes: &[u8]| body[at - 4..at - 4 + bytes.len()].copy_from_slice(bytes);
    // WSNZ is 0: WRITE SAME of zero blocks means all to the end.
    set(5, &[if unit.modifies { MOST_COMPARED as u8 } else { 0 }]);
    set(6, &(blocks(SECTOR) as u16).to_be_bytes());
    set(8, &(unit.most_blocks() as u32).to_be_bytes());
    set(12, &blocks(OPTIMAL).to_be_bytes());
    set(20, &blocks(MOST_UNMAPPED).to_be_bytes());
    set(24, &(MOST_DESCRIPTORS as u32).to_be_bytes());
    set(28, &blocks(SECTOR).to_be_bytes());
    // That granularity begins at the first block.
    set(32, &0x8000_0000_u32.to_be_bytes());
    set(36, &MOST_SAME.to_be_bytes());
    set(44, &blocks(unit.atomic).to_be_bytes());
    body
}

/// The answer to READ CAPACITY(10).
pub(super) fn capacity_10(unit: &Unit) -> Vec<u8> {
    let last = u32::try_from(unit.blocks().saturating_sub(1)).unwrap_or(u32::MAX);
    [last.to_be_bytes(), (unit.block as u32).to_be_bytes()].concat()
}

/// The answer to READ CAPACITY(16).
pub(super) fn capacity_16(unit: &Unit) -> Vec<u8> {
    let mut bytes = vec![0; 32];
    bytes[..8].copy_from_slice(&unit.blocks().saturating_sub(1).to_be_bytes());
    bytes[8..12].copy_from_slice(&(unit.block as u32).to_be_bytes());
    // Logical blocks of a physical block, as a power of two.
    bytes[13] = (SECTOR / unit.block).ilog2() as u8;
    // Blocks can be unmapped, and read zeros then.
    bytes[14] = 0xc0;
    bytes
}

#[cfg(test)]
mod tests {
    use super::super::unit::sample;
    use super::*;

    #[test]
    fn provisioning_says_whether_a_unit_is_thin() {
        for (thin, kind) in [(false, 1), (true, 2)] {
            let page = vital(0xb2, &Unit { thin, ..sample() }).unwrap();
            assert_eq!(page, [0, 0xb2, 0, 4, 0, 0xe4, kind, 0]);
        }
    }
}
