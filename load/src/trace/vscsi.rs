//! VMware's vSCSI traces, version 1: little-endian records of 32 bytes (libCacheSim's reader):
//!
//! | bytes | |
//! |---|---|
//! | 0..4 | serial number |
//! | 4..8 | bytes |
//! | 8..12 | pieces in memory |
//! | 12..14 | SCSI command |
//! | 14..16 | version, 1 in the upper byte |
//! | 16..24 | logical block |
//! | 24..32 | microseconds |
//!
//! Reads and writes of all lengths of command are requests, SYNCHRONIZE CACHE is a flush; other
//! commands are left out.

use super::{Devices, Found, Record, field};
use crate::Kind;

/// Bytes of a record.
pub(super) const LENGTH: usize = 32;

/// Whether bytes at the beginning of a file look like a record.
pub(super) fn is_record(head: &[u8]) -> bool {
    head.len() >= LENGTH && head[14..16] == [0, 1] && head[13] == 0
}

/// Reads a record.
pub(super) fn record(bytes: &[u8], sector: u64, devices: &mut Devices) -> Result<Found, String> {
    let number = |from: usize, to: usize| {
        bytes[from..to].iter().rev().fold(0u64, |n, byte| n << 8 | u64::from(*byte))
    };
    let (command, version) = (number(12, 14), number(14, 16));
    if version >> 8 != 1 {
        return Err(format!("expected version 1 of vSCSI, found {version:#06x}"));
    }
    let kind = match command {
        0x08 | 0x28 | 0x88 | 0xa8 => Kind::Read,
        0x0a | 0x2a | 0x8a | 0xaa => Kind::Write,
        0x35 | 0x91 => Kind::Flush,
        _ => return Ok(Found::LeftOut("SCSI commands other than reads, writes and flushes")),
    };
    let (offset, len) = match kind {
        Kind::Flush => (0, 0),
        _ => (field::bytes("block", number(16, 24), sector)?, number(4, 8)),
    };
    Ok(Found::Request(Record {
        at: field::bytes("the time", number(24, 32), 1000)?,
        device: devices.number("0"),
        kind,
        offset,
        len,
        response: None,
    }))
}

/// Writes a record.
pub(super) fn show(record: &Record, serial: u64, sector: u64) -> Result<Vec<u8>, String> {
    if !record.offset.is_multiple_of(sector) {
        let offset = record.offset;
        return Err(format!("offset {offset} is not a multiple of sectors of {sector} bytes"));
    }
    let len =
        u32::try_from(record.len).map_err(|_| format!("{} bytes are too long", record.len))?;
    let command: u16 = match record.kind {
        Kind::Read => 0x28,
        Kind::Write => 0x2a,
        Kind::Flush => 0x35,
    };
    let mut bytes = Vec::with_capacity(LENGTH);
    bytes.extend((serial as u32).to_le_bytes());
    bytes.extend(len.to_le_bytes());
    bytes.extend(1u32.to_le_bytes());
    bytes.extend(command.to_le_bytes());
    bytes.extend(0x0100u16.to_le_bytes());
    bytes.extend((record.offset / sector).to_le_bytes());
    bytes.extend((record.at / 1000).to_le_bytes());
    Ok(bytes)
}
