//! Which format a trace has, from how it begins.

use weft_bytes::text::is_heading;

use super::{Format, blkparse, csv, iolog, measured, msr, vscsi};

/// Bytes at the beginning that are looked at.
pub(super) const LOOK: usize = 4096;

/// The format of a trace that begins with these bytes; `None` if they look like none of them.
pub(super) fn detect(head: &[u8]) -> Option<Format> {
    let mut lines = head.split(|b| *b == b'\n').filter(|l| !l.trim_ascii().is_empty());
    if let Some(first) = lines.next().and_then(plain) {
        // Where a format has no heading, the line below the heading tells which it is.
        let below = lines.next().and_then(plain).filter(|_| is_heading(first));
        return text(first).or_else(|| below.and_then(text));
    }
    // SRT without a header: the length of a record, then a version and a type.
    match head {
        [0, 0, 0, 52..=60, 0, 1..=4, 0, 1..=4, ..] => Some(Format::Srt),
        _ => vscsi::is_record(head).then_some(Format::Vscsi),
    }
}

/// A line without the blanks around it, if it is text.
fn plain(line: &[u8]) -> Option<&str> {
    let plain = line.iter().all(|b| matches!(b, b'\t' | b'\r' | b' '..=b'~'));
    plain.then(|| std::str::from_utf8(line).ok()).flatten().map(str::trim)
}

fn text(line: &str) -> Option<Format> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let number = |t: &&str| t.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    match words.as_slice() {
        _ if iolog::is_heading(line) => Some(Format::Iolog),
        _ if csv::is_heading(line) => Some(Format::Csv),
        _ if msr::is_line(line) => Some(Format::Msr),
        _ if blkparse::is_event(line) => Some(Format::Blkparse),
        _ if measured::is_line(line) => Some(Format::Measured),
        // DiskSim's milliseconds have decimals, SSDSim's nanoseconds have none.
        [at, rest @ .., _] if rest.len() == 3 && number(at) && rest.iter().all(number) => {
            Some(if at.contains('.') { Format::Disksim } else { Format::Ssdsim })
        }
        // The header of SRT has lines such as `tracedate = "..."`, each a name and a value.
        [_, "=", ..] => Some(Format::Srt),
        _ => None,
    }
}
