//! fio's iolog, versions 2 and 3 (fio's HOWTO, "Trace file format").
//!
//! The first line is `fio version 2 iolog` or `fio version 3 iolog`. Then come actions on files,
//! `FILE add|open|close`, and on their content, `FILE read|write|trim|sync|datasync OFFSET LENGTH`.
//! In version 3 each line begins with a time in microseconds; in version 2 there is `FILE wait
//! MICROSECONDS`, each relative to the one before, and requests are made when the last one ended.
//! Syncs of either kind are flushes; files are devices. The writer writes version 3, which fio replays: it
//! adds and opens each file before its first request, and counts time from the first request of all.

use std::collections::BTreeSet;

use super::{Devices, Found, Record, field};
use crate::{Kind, Nanos};

/// What the writer puts first.
pub(super) const HEADING: &str = "fio version 3 iolog";

/// The parser, which remembers the time.
#[derive(Clone, Debug)]
pub(super) struct Iolog {
    timed: bool,
    now: Nanos,
}

/// Whether a line is the first of an iolog.
pub(super) fn is_heading(line: &str) -> bool {
    line.starts_with("fio version ")
}

impl Iolog {
    /// Reads the first line.
    pub(super) fn new(heading: &str) -> Result<Self, String> {
        match heading {
            "fio version 2 iolog" => Ok(Iolog { timed: false, now: 0 }),
            HEADING => Ok(Iolog { timed: true, now: 0 }),
            _ => Err(format!("expected 'fio version 2 iolog' or version 3, found '{heading}'")),
        }
    }

    /// Reads another line.
    pub(super) fn line(&mut self, line: &str, devices: &mut Devices) -> Result<Found, String> {
        let mut words: Vec<&str> = line.split_ascii_whitespace().collect();
        if words.is_empty() {
            return Ok(Found::Nothing);
        }
        if self.timed {
            self.now = field::time("the time", words.remove(0), 1000)?;
        }
        let (file, action, numbers) = match words.as_slice() {
            [file, action, numbers @ ..] => (*file, *action, numbers),
            _ => return Err(format!("expected a file and an action, found '{line}'")),
        };
        let number = |i: usize, name| match numbers.get(i) {
            Some(text) => field::whole(name, text),
            None => Err(format!("expected {name} after '{action}', found nothing")),
        };
        let kind = match action {
            "add" | "open" | "close" => return Ok(Found::Nothing),
            "wait" if !self.timed => {
                let wait = field::bytes("the time to wait", number(0, "microseconds")?, 1000)?;
                let now = self.now.checked_add(wait);
                self.now = now.ok_or("the time is beyond 2^64 nanoseconds")?;
                return Ok(Found::Nothing);
            }
            "trim" => return Ok(Found::LeftOut("trims")),
            "sync_file_range" => return Ok(Found::LeftOut("syncs of a range")),
            "sync" | "datasync" => Kind::Flush,
            "read" => Kind::Read,
            "write" => Kind::Write,
            _ => return Err(format!("expected an action of fio's iolog, found '{action}'")),
        };
        let (offset, len) = match kind {
            Kind::Flush => (0, 0),
            _ => (number(0, "the offset")?, number(1, "the length")?),
        };
        let device = devices.number(file);
        Ok(Found::Request(Record { at: self.now, device, kind, offset, len, response: None }))
    }
}

/// What there is to write down of a trace that has begun.
#[derive(Clone, Debug, Default)]
pub(super) struct Written {
    /// When its first request was made.
    begin: Option<Nanos>,
    /// The files that are open.
    open: BTreeSet<u32>,
}

impl Written {
    /// Writes a record as a line, behind those that its file needs.
    pub(super) fn show(&mut self, record: &Record, device: &str) -> Result<String, String> {
        let begin = *self.begin.get_or_insert(record.at);
        let record = Record { at: record.at.saturating_sub(begin), ..*record };
        let line = show(&record, device)?;
        if !self.open.insert(record.device) {
            return Ok(line);
        }
        let at = record.at / 1000;
        Ok(format!("{at} {device} add\n{at} {device} open\n{line}"))
    }
}

fn show(record: &Record, device: &str) -> Result<String, String> {
    if device.is_empty() || device.contains(|c: char| c.is_ascii_whitespace()) {
        return Err(format!("an iolog cannot have a device named '{device}'"));
    }
    let action = match record.kind {
        Kind::Read => "read",
        Kind::Write => "write",
        Kind::Flush => "sync",
    };
    Ok(format!("{} {device} {action} {} {}", record.at / 1000, record.offset, record.len))
}
