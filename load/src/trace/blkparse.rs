//! Text printed by blkparse (its default format, blkparse(1)):
//!
//! `8,16  5  1  0.000001850 18615  Q  R 1444645666 + 256 [java]`
//!
//! that is device, CPU, sequence number, seconds, process, action, RWBS, sector, `+`, sectors.
//! A request is where it is queued (action `Q`); all other events of its life are left out, and so
//! is the summary at the end of each of several outputs in one file. RWBS is an `F` if a flush comes first, then `R`, `W`,
//! `D` (discard), `Z` (an operation on a zone) or `N`, then flags. Response times are not worked out.

use super::{Devices, Found, Record, field};
use crate::Kind;

/// The parser, which remembers whether it is in a summary. Another output may follow.
#[derive(Clone, Debug, Default)]
pub(super) struct Blkparse {
    summary: bool,
}

/// Whether a line looks like an event.
pub(super) fn is_event(line: &str) -> bool {
    let mut words = line.split_ascii_whitespace();
    words.next().is_some_and(is_device) && words.nth(2).is_some_and(|t| t.contains('.'))
}

fn is_device(word: &str) -> bool {
    let number = |t: &str| !t.is_empty() && t.bytes().all(|b| b.is_ascii_digit());
    word.split_once(',').is_some_and(|(major, minor)| number(major) && number(minor))
}

impl Blkparse {
    /// Reads a line.
    pub(super) fn line(
        &mut self,
        line: &str,
        sector: u64,
        devices: &mut Devices,
    ) -> Result<Found, String> {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let Some(first) = words.first() else {
            return Ok(Found::Nothing);
        };
        self.summary |= first.starts_with("CPU") || *first == "Total";
        self.summary &= !is_event(line);
        if self.summary {
            return Ok(Found::LeftOut("lines of blkparse's summary"));
        }
        let [device, _, _, at, _, action, rest @ ..] = words.as_slice() else {
            return Err(format!("expected an event of blkparse, found '{line}'"));
        };
        if !is_device(device) {
            return Err(format!("expected a device as MAJOR,MINOR, found '{device}'"));
        }
        if *action != "Q" {
            return Ok(Found::LeftOut("events other than the queueing of a request"));
        }
        let at = field::time("the time", at, 1_000_000_000)?;
        let rwbs = rest.first().ok_or("expected the kind of the request (RWBS), found nothing")?;
        let (place, len) = match rest {
            [_, place, "+", count, ..] => {
                let place = field::whole("the sector", place)?;
                let count = field::whole("the sectors", count)?;
                (field::bytes("sector", place, sector)?, field::bytes("length", count, sector)?)
            }
            _ => (0, 0),
        };
        let flush = rwbs.starts_with('F');
        let kind = match rwbs.trim_start_matches('F').chars().next() {
            Some('D') => return Ok(Found::LeftOut("discards")),
            Some('Z') => return Ok(Found::LeftOut("operations on zones")),
            _ if flush && len == 0 => Kind::Flush,
            _ if len == 0 => return Ok(Found::LeftOut("requests without data")),
            Some('R') => Kind::Read,
            Some('W') => Kind::Write,
            _ => return Err(format!("expected a kind (RWBS) such as R or WS, found '{rwbs}'")),
        };
        let offset = if kind == Kind::Flush { 0 } else { place };
        let device = devices.number(&device.replace(',', ":"));
        Ok(Found::Request(Record { at, device, kind, offset, len, response: None }))
    }
}

/// Writes a record as a line; `number` counts the lines from 1.
pub(super) fn show(
    record: &Record,
    device: &str,
    index: u32,
    sector: u64,
    number: u64,
) -> Result<String, String> {
    let device = device.replacen(':', ",", 1);
    let device = if is_device(&device) { device } else { format!("0,{index}") };
    let at = field::show_time(record.at, 1_000_000_000);
    let what = match record.kind {
        Kind::Flush => "FN".to_string(),
        kind => {
            let (place, count) = super::writer::sectors(record, sector)?;
            format!("{} {place} + {count}", if kind == Kind::Read { 'R' } else { 'W' })
        }
    };
    Ok(format!("{device} 0 {number} {at} 0 Q {what} [weft]"))
}
