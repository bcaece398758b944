//! Service times of a real disk, as in DiskSim's validation set:
//!
//! `R Miss  564347     2     14095.370     13876.270`
//!
//! that is read or write, what the disk's buffer did (`Hit`, `Miss`; of writes how many came in a
//! row), block, blocks, microseconds that the request took, and microseconds from then to the
//! next request. One request at a time; the first is made at 0.

use super::{Devices, Found, Record, field};
use crate::{Kind, Nanos};

/// The parser, which remembers when the next request is made.
#[derive(Clone, Debug, Default)]
pub(super) struct Measured {
    now: Nanos,
}

/// Whether a line looks like one of these.
pub(super) fn is_line(line: &str) -> bool {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    words.len() == 6 && ["R", "W"].contains(&words[0]) && words[4].contains('.')
}

impl Measured {
    /// Reads a line.
    pub(super) fn line(
        &mut self,
        line: &str,
        sector: u64,
        devices: &mut Devices,
    ) -> Result<Found, String> {
        if line.is_empty() {
            return Ok(Found::Nothing);
        }
        let form = "R|W buffer block blocks microseconds gap";
        let [kind, _, block, blocks, service, gap] = field::words(line, form)?;
        let kind = match kind {
            "R" => Kind::Read,
            "W" => Kind::Write,
            _ => return Err(format!("expected R or W, found '{kind}'")),
        };
        let counted =
            |name, text| field::whole(name, text).and_then(|n| field::bytes(name, n, sector));
        let service = field::time("the time of service", service, 1000)?;
        let gap = field::time("the gap", gap, 1000)?;
        let record = Record {
            at: self.now,
            device: devices.number("0"),
            kind,
            offset: counted("the block", block)?,
            len: counted("the length", blocks)?,
            response: Some(service),
        };
        let next = self.now.checked_add(service).and_then(|t| t.checked_add(gap));
        self.now = next.ok_or("the time is beyond 2^64 nanoseconds")?;
        Ok(Found::Request(record))
    }
}

/// Writes a record as a line; `gap` is from its end to the next one.
pub(super) fn show(record: &Record, sector: u64, gap: Nanos) -> Result<String, String> {
    let response = record.response.ok_or("the trace has no response times")?;
    let (block, blocks) = super::writer::sectors(record, sector)?;
    let letter = if record.kind == Kind::Read { 'R' } else { 'W' };
    let time = |t| field::show_time(t, 1000);
    Ok(format!("{letter} - {block} {blocks} {} {}", time(response), time(gap)))
}
