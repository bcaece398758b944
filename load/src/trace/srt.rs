//! HP's SRT traces, as DiskSim's source reads them (format "HPL"): big-endian words of 32 bits.
//!
//! A header of text may come first; it ends with a form feed. A record is
//!
//! | word | |
//! |---|---|
//! | 0 | bytes of the record |
//! | 1 | version (1 to 4) in the upper half, type in the lower: 1 a request, 4 a suspect one |
//! | 2, 3 | seconds and microseconds since the beginning |
//! | 4, 5 | when the disk began and ended, in microseconds from then |
//! | 6, 7 | bytes, and first sector |
//! | 8 | device, in bits 8 to 15 |
//! | 9 to 12 | driver, cylinder, flags (bit 0: a read), information |
//! | 13 | from version 4 on: length of the queue |
//! | last | of a suspect request: what is suspect |
//!
//! Suspect requests and records of other types are left out, as DiskSim does with the former.

use super::{Devices, Found, Record, field};
use crate::Kind;

const FORM_FEED: u8 = 0x0c;
/// The longest record that is believed, in bytes.
const LONGEST: u32 = 65_536;
const REQUEST: u32 = 1;
const SUSPECT: u32 = 4;

/// Whether a byte may stand in the header.
pub(super) fn is_header(first: u8) -> bool {
    first.is_ascii_graphic() || first.is_ascii_whitespace()
}

/// Whether a byte ends the header.
pub(super) fn ends_header(byte: u8) -> bool {
    byte == FORM_FEED
}

/// The length of the record that begins with these four bytes.
pub(super) fn length(size: [u8; 4]) -> Result<usize, String> {
    match u32::from_be_bytes(size) {
        n if (8..=LONGEST).contains(&n) && n.is_multiple_of(4) => Ok(n as usize),
        n => Err(format!("expected the length of a record, 8 to {LONGEST} bytes, found {n}")),
    }
}

/// Reads a record, with its length in front.
pub(super) fn record(bytes: &[u8], sector: u64, devices: &mut Devices) -> Result<Found, String> {
    let words: Vec<u32> =
        bytes.chunks_exact(4).map(|w| u32::from_be_bytes([w[0], w[1], w[2], w[3]])).collect();
    let (version, kind) = (words[1] >> 16, words[1] & 0xffff);
    if !(1..=4).contains(&version) {
        return Err(format!("expected version 1 to 4, found {version}"));
    }
    match kind {
        SUSPECT => return Ok(Found::LeftOut("requests marked as suspect")),
        REQUEST => {}
        _ => return Ok(Found::LeftOut("records other than requests")),
    }
    let expected = if version == 4 { 14 } else { 13 };
    if words.len() != expected {
        let (expected, found) = (expected * 4, bytes.len());
        return Err(format!("expected {expected} bytes in version {version}, found {found}"));
    }
    let micros = u64::from(words[2]) * 1_000_000 + u64::from(words[3]);
    let flags = words[11];
    Ok(Found::Request(Record {
        at: micros * 1000,
        device: devices.number(&(words[8] >> 8 & 0xff).to_string()),
        kind: if flags & 1 == 1 { Kind::Read } else { Kind::Write },
        offset: field::bytes("sector", u64::from(words[7]), sector)?,
        len: u64::from(words[6]),
        response: Some(u64::from(words[5]) * 1000),
    }))
}

/// Writes a record, of version 3.
pub(super) fn show(record: &Record, device: u32, sector: u64) -> Result<Vec<u8>, String> {
    if !record.offset.is_multiple_of(sector) {
        let offset = record.offset;
        return Err(format!("offset {offset} is not a multiple of sectors of {sector} bytes"));
    }
    let response = record.response.ok_or("the trace has no response times")?;
    let word = |name: &str, n: u64| {
        u32::try_from(n).map_err(|_| format!("{name} {n} does not fit into 32 bits"))
    };
    let micros = record.at / 1000;
    let words = [
        52,
        3 << 16 | REQUEST,
        word("the time in seconds", micros / 1_000_000)?,
        (micros % 1_000_000) as u32,
        0,
        word("the response in microseconds", response / 1000)?,
        word("the length", record.len)?,
        word("sector", record.offset / sector)?,
        u32::from(u8::try_from(device).map_err(|_| format!("device {device} is above 255"))?) << 8,
        0,
        0,
        u32::from(record.kind == Kind::Read),
        0,
    ];
    Ok(words.iter().flat_map(|w: &u32| w.to_be_bytes()).collect())
}
