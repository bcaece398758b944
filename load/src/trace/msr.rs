//! The block traces of MSR Cambridge (SNIA's repository; Narayanan, Donnelly and Rowstron, "Write
//! off-loading", FAST 2008):
//!
//! `128166372003061629,usr,0,Read,7014609920,24576,41286`
//!
//! that is the time in units of 100 ns since 1601, host, disk, type, offset and size in bytes, and
//! response time in units of 100 ns. The device is host and disk, with a dot between. Some copies have the names of
//! these columns above, `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`, or `read` for `Read`.

use super::{Devices, Found, Record, field};
use crate::Kind;

/// Nanoseconds in a unit of time.
const UNIT: u64 = 100;

/// Whether a line looks like one of these.
pub(super) fn is_line(line: &str) -> bool {
    let fields: Vec<&str> = line.split(',').map(str::trim).collect();
    fields.len() == 7 && kind(fields[3]).is_some()
}

fn kind(word: &str) -> Option<Kind> {
    let kinds = [("Read", Kind::Read), ("Write", Kind::Write)];
    kinds.into_iter().find(|(name, _)| name.eq_ignore_ascii_case(word)).map(|(_, kind)| kind)
}

/// Reads a line.
pub(super) fn line(line: &str, devices: &mut Devices) -> Result<Found, String> {
    if line.is_empty() {
        return Ok(Found::Nothing);
    }
    let fields: Vec<&str> = line.split(',').map(str::trim).collect();
    let [at, host, disk, word, offset, len, response] = fields[..] else {
        let form = "time,host,disk,Read|Write,offset,size,response";
        return Err(format!("expected '{form}', found '{line}'"));
    };
    let kind = kind(word).ok_or_else(|| format!("expected Read or Write, found '{word}'"))?;
    let ticks = |name, text| field::whole(name, text).and_then(|n| field::bytes(name, n, UNIT));
    Ok(Found::Request(Record {
        at: ticks("the time", at)?,
        device: devices.number(&format!("{host}.{disk}")),
        kind,
        offset: field::whole("the offset", offset)?,
        len: field::whole("the size", len)?,
        response: Some(ticks("the response time", response)?),
    }))
}

/// Writes a record as a line.
pub(super) fn show(record: &Record, device: &str) -> Result<String, String> {
    let response = record.response.ok_or("the trace has no response times")?;
    let (host, disk) = device.rsplit_once('.').unwrap_or(("host", device));
    if device.contains([',', '\n']) {
        return Err(format!("this format cannot have a device named '{device}'"));
    }
    let kind = if record.kind == Kind::Read { "Read" } else { "Write" };
    let Record { at, offset, len, .. } = record;
    Ok(format!("{},{host},{disk},{kind},{offset},{len},{}", at / UNIT, response / UNIT))
}
