//! Comma-separated traces.
//!
//! The first line names the columns, in any order; fields are neither quoted nor escaped. Needed:
//!
//! | column | meaning |
//! |---|---|
//! | `time_ns`, `time_us`, `time_ms` or `time_s` | when the request was made; decimals are read |
//! | `op` (or `rw`) | `R`, `W` or `F` (flush), or the words, in any case |
//! | `offset`, or `sector` | where it begins, in bytes or in sectors |
//! | `bytes`, or `sectors` | how long it is |
//!
//! and besides, if they are there: `device` (or `dev`), a name, and `response_ns`, `response_us`,
//! `response_ms` or `stop_us`, how long the request took, may be empty. Other columns are not
//! read, which the reader's notes say. The writer writes `time_ns,device,op,offset,bytes,response_ns`.
//!
//! Sectors have 512 bytes, but 256 if there are columns `cyl` and `rtype`: these are fields of SRT's
//! records ([`super::srt`]), and whoever wrote them down as text counts as SRT does.

use super::{Devices, Format, Found, Record, field};
use crate::{Kind, Nanos};

/// Columns that only a trace has that was an SRT trace before.
const OF_SRT: [&str; 2] = ["cyl", "rtype"];

/// What the writer puts first.
pub(super) const HEADING: &str = "time_ns,device,op,offset,bytes,response_ns";

/// Which columns hold what; those of quantities with the worth of their unit.
#[derive(Clone, Debug)]
pub(super) struct Columns {
    time: (usize, Nanos),
    device: Option<usize>,
    op: usize,
    offset: (usize, u64),
    len: (usize, u64),
    response: Option<(usize, Nanos)>,
    count: usize,
    /// Bytes of a sector, if a column counts in sectors.
    pub(super) sector: Option<u64>,
    /// Names of columns that are not read.
    pub(super) unread: Vec<String>,
}

const UNITS: [(&str, Nanos); 4] =
    [("ns", 1), ("us", 1000), ("ms", 1_000_000), ("s", 1_000_000_000)];

/// Whether a line looks like a heading.
pub(super) fn is_heading(line: &str) -> bool {
    line.contains(',') && line.split(',').any(|name| unit(name.trim(), "time_").is_some())
}

/// The worth of the unit at the end of a column's name.
fn unit(name: &str, stem: &str) -> Option<Nanos> {
    let unit = name.strip_prefix(stem)?;
    UNITS.iter().find(|(u, _)| *u == unit).map(|(_, worth)| *worth)
}

impl Columns {
    /// Reads the heading. Sectors have so many bytes, or, if that is not given, as many as the columns
    /// tell.
    pub(super) fn new(heading: &str, sector: Option<u64>) -> Result<Self, String> {
        let names: Vec<&str> = heading.split(',').map(str::trim).collect();
        let was_srt = OF_SRT.iter().all(|name| names.contains(name));
        let source = if was_srt { Format::Srt } else { Format::Csv };
        let sector = sector.unwrap_or(source.sector_bytes());
        let mut read = vec![false; names.len()];
        let mut find = |worth: &dyn Fn(&str) -> Option<u64>| {
            let found = names.iter().enumerate().find_map(|(i, n)| Some((i, worth(n)?)));
            found.inspect(|(i, _)| read[*i] = true)
        };
        let named = |a: &'static str, b: &'static str| {
            move |name: &str| (name == a || name == b).then_some(1)
        };
        let counted = |bytes: &'static str, sectors: &'static str| {
            move |name: &str| match name {
                _ if name == bytes => Some(1),
                _ if name == sectors => Some(sector),
                _ => None,
            }
        };
        let missing = |what: &str| format!("the heading '{heading}' has no column {what}");
        let time = find(&|n| unit(n, "time_")).ok_or_else(|| missing("time_ns"))?;
        let op = find(&named("op", "rw")).ok_or_else(|| missing("op"))?.0;
        let offset = find(&counted("offset", "sector")).ok_or_else(|| missing("offset"))?;
        let len = find(&counted("bytes", "sectors")).ok_or_else(|| missing("bytes"))?;
        let device = find(&named("device", "dev")).map(|(i, _)| i);
        let stop = |name: &str| (name == "stop_us").then_some(1000);
        let response = find(&|n| unit(n, "response_").or_else(|| stop(n)));
        let unread = names.iter().zip(&read).filter(|(_, r)| !**r).map(|(n, _)| n.to_string());
        let unread = unread.collect();
        let counts = |column: (usize, u64), name: &str| names[column.0] == name;
        let in_sectors = counts(offset, "sector") || counts(len, "sectors");
        Ok(Columns {
            time,
            device,
            op,
            offset,
            len,
            response,
            count: names.len(),
            sector: in_sectors.then_some(sector),
            unread,
        })
    }

    /// Reads a line below the heading.
    pub(super) fn line(&self, line: &str, devices: &mut Devices) -> Result<Found, String> {
        if line.is_empty() {
            return Ok(Found::Nothing);
        }
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        if fields.len() != self.count {
            let (found, count) = (fields.len(), self.count);
            return Err(format!("expected {count} fields as in the heading, found {found}"));
        }
        let counted = |name, (i, each): (usize, u64)| {
            field::whole(name, fields[i]).and_then(|n| field::bytes(name, n, each))
        };
        if field::is_trim(fields[self.op]) {
            return Ok(Found::LeftOut("trims"));
        }
        let kind = field::kind(fields[self.op])?;
        let response = self.response.filter(|(i, _)| !fields[*i].is_empty());
        let response = response.map(|(i, unit)| field::time("the response", fields[i], unit));
        let (offset, len) = match kind {
            Kind::Flush => (0, 0),
            _ => (counted("the offset", self.offset)?, counted("the length", self.len)?),
        };
        Ok(Found::Request(Record {
            at: field::time("the time", fields[self.time.0], self.time.1)?,
            device: devices.number(self.device.map_or("0", |i| fields[i])),
            kind,
            offset,
            len,
            response: response.transpose()?,
        }))
    }
}

/// Writes a record as a line.
pub(super) fn show(record: &Record, device: &str) -> Result<String, String> {
    if device.contains([',', '\n', '\r']) || device.trim() != device {
        return Err(format!("a CSV file cannot have a device named '{device}'"));
    }
    let letter = match record.kind {
        Kind::Read => 'R',
        Kind::Write => 'W',
        Kind::Flush => 'F',
    };
    let response = record.response.map_or(String::new(), |r| r.to_string());
    let Record { at, offset, len, .. } = record;
    Ok(format!("{at},{device},{letter},{offset},{len},{response}"))
}
