//! Bytes in, records out: the layer that reads.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, BufRead, BufReader, Cursor, Read};

use flate2::bufread::MultiGzDecoder;
use weft_bytes::text::{self, TextError};

use super::blkparse::Blkparse;
use super::csv::Columns;
use super::iolog::Iolog;
use super::measured::Measured;
use super::{Devices, Format, Found, Record, ReplayError, ascii, detect, msr, srt, vscsi};
use crate::Kind;

const GZIP: [u8; 2] = [0x1f, 0x8b];
/// The longest line, and the longest header of an SRT trace, in bytes.
const LONGEST_LINE: u64 = 65_536;
const LONGEST_HEADER: u64 = 1 << 20;

/// How a trace is to be read.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Its format; if not given, it is told from how the trace begins.
    pub format: Option<Format>,
    /// Bytes of a sector, of formats that count in sectors; if not given,
    /// [`Format::sector_bytes`], or what a CSV trace's columns tell.
    pub sector_bytes: Option<u64>,
}

/// Where in a trace something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A line of text, counted from 1.
    Line(u64),
    /// A binary record, counted from 1.
    Record(u64),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Line(n) => write!(f, "line {n}"),
            Place::Record(n) => write!(f, "record {n}"),
        }
    }
}

/// Why a trace cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// Its bytes do not come, or do not unpack.
    #[error("{name}: {source}")]
    Io {
        /// The trace.
        name: String,
        /// Why.
        source: io::Error,
    },
    /// It is not in its format.
    #[error("{name}, {place}: {what}")]
    Bad {
        /// The trace.
        name: String,
        /// Where.
        place: Place,
        /// What was expected there, and what was found.
        what: String,
    },
    /// It does not begin as any format does.
    #[error("{name}: its format cannot be detected; give one of {}", formats())]
    Unknown {
        /// The trace.
        name: String,
    },
    /// It is text in another encoding.
    #[error("{name}: {source}")]
    Text {
        /// The trace.
        name: String,
        /// Which.
        source: TextError,
    },
    /// It is empty.
    #[error("{name}: it is empty")]
    Empty {
        /// The trace.
        name: String,
    },
    /// The size of a sector is of no use.
    #[error("sectors of {0} bytes: give 1 to 1048576")]
    Sector(u64),
    /// It cannot be replayed.
    #[error(transparent)]
    Replay(#[from] ReplayError),
}

fn formats() -> String {
    Format::ALL.map(Format::name).join(", ")
}

/// A trace, record after record. Bytes packed by gzip are unpacked. After an error it ends.
pub struct Reader<'a> {
    input: Box<dyn BufRead + 'a>,
    name: String,
    format: Format,
    sector: u64,
    /// What the user says of that.
    sector_given: Option<u64>,
    parser: Parser,
    /// Lines or records read so far.
    at: u64,
    /// Whether a line was not blank: only the first such may name the columns.
    begun: bool,
    devices: Devices,
    left_out: BTreeMap<&'static str, u64>,
    ended: bool,
    buffer: Vec<u8>,
}

/// The parsers, and what they must remember.
enum Parser {
    /// One that begins with the first line, which is a heading.
    Headed,
    Csv(Columns),
    Iolog(Iolog),
    Disksim,
    Ssdsim,
    Msr,
    Blkparse(Blkparse),
    Measured(Measured),
    Srt,
    Vscsi,
}

impl<'a> Reader<'a> {
    /// Begins to read a trace; errors call it `name`.
    ///
    /// # Errors
    /// If its first bytes cannot be had, or its format is neither given nor seen from them.
    pub fn new(
        name: impl Into<String>,
        input: impl Read + 'a,
        options: Options,
    ) -> Result<Self, TraceError> {
        let name = name.into();
        let opened = unpack(input).and_then(|input| look(input, detect::LOOK));
        let (mut head, mut input) = match opened {
            Ok(opened) => opened,
            Err(source) => return Err(TraceError::Io { name, source }),
        };
        let is_text = !matches!(options.format, Some(Format::Srt | Format::Vscsi));
        let mark = head.len() - text::without_mark(&head).len();
        if is_text && mark > 0 {
            input.consume(mark);
            head.drain(..mark);
        }
        if head.is_empty() {
            return Err(TraceError::Empty { name });
        }
        let Some(format) = options.format.or_else(|| detect::detect(&head)) else {
            return Err(match text::is_utf16(&head) {
                true => TraceError::Text { name, source: TextError::Utf16 },
                false => TraceError::Unknown { name },
            });
        };
        let sector = options.sector_bytes.unwrap_or(format.sector_bytes());
        if !(1..=1 << 20).contains(&sector) {
            return Err(TraceError::Sector(sector));
        }
        let parser = match format {
            Format::Csv | Format::Iolog => Parser::Headed,
            Format::Disksim => Parser::Disksim,
            Format::Ssdsim => Parser::Ssdsim,
            Format::Msr => Parser::Msr,
            Format::Blkparse => Parser::Blkparse(Blkparse::default()),
            Format::Measured => Parser::Measured(Measured::default()),
            Format::Srt => Parser::Srt,
            Format::Vscsi => Parser::Vscsi,
        };
        let (devices, left_out) = Default::default();
        let (at, begun, ended, buffer) = (0, false, false, Vec::new());
        let sector_given = options.sector_bytes;
        let mut reader = Reader {
            input,
            name,
            format,
            sector,
            sector_given,
            parser,
            at,
            begun,
            devices,
            left_out,
            ended,
            buffer,
        };
        if format == Format::Srt && srt::is_header(head[0]) {
            reader.skip_header()?;
        }
        Ok(reader)
    }

    /// The format that it has.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Bytes of a sector, if the trace counts in sectors; of a CSV trace that is known from its first
    /// line on.
    pub fn sector_bytes(&self) -> Option<u64> {
        match &self.parser {
            Parser::Csv(columns) => columns.sector,
            _ => self.format.counts_in_sectors().then_some(self.sector),
        }
    }

    /// Whether the user said how large sectors are.
    pub fn sector_is_given(&self) -> bool {
        self.sector_given.is_some()
    }

    /// The devices that were seen so far.
    pub fn devices(&self) -> &Devices {
        &self.devices
    }

    /// What was left out so far, and how much of it: nothing else was.
    pub fn left_out(&self) -> &BTreeMap<&'static str, u64> {
        &self.left_out
    }

    /// Names of the columns of a CSV trace that are not read.
    pub fn unread_columns(&self) -> &[String] {
        match &self.parser {
            Parser::Csv(columns) => &columns.unread,
            _ => &[],
        }
    }

    fn skip_header(&mut self) -> Result<(), TraceError> {
        let mut header = Vec::new();
        let read = (&mut self.input).take(LONGEST_HEADER).read_until(0x0c, &mut header);
        read.map_err(|source| self.failed(source))?;
        match header.last().is_some_and(|b| srt::ends_header(*b)) {
            true => Ok(()),
            false => {
                let what = "expected a form feed at the end of the header, found none".into();
                Err(self.bad(Place::Record(1), what))
            }
        }
    }

    /// The next line or record; `None` at the end.
    fn found(&mut self) -> Result<Option<Found>, TraceError> {
        let text = !matches!(self.parser, Parser::Srt | Parser::Vscsi);
        let some = if text { self.line() } else { self.record() }?;
        if !some {
            return Ok(None);
        }
        self.at += 1;
        let place = if text { Place::Line(self.at) } else { Place::Record(self.at) };
        let found = if text { self.parse_line() } else { self.parse_record() };
        found.and_then(sane).map(Some).map_err(|what| self.bad(place, what))
    }

    fn parse_line(&mut self) -> Result<Found, String> {
        let line = std::str::from_utf8(&self.buffer).map_err(|_| "expected text (UTF-8)")?.trim();
        let is_first = !line.is_empty() && !self.begun;
        self.begun |= is_first;
        let (sector, given, devices) = (self.sector, self.sector_given, &mut self.devices);
        match &mut self.parser {
            Parser::Headed if line.is_empty() => Ok(Found::Nothing),
            Parser::Headed => {
                self.parser = match self.format {
                    Format::Csv => Parser::Csv(Columns::new(line, given)?),
                    _ => Parser::Iolog(Iolog::new(line)?),
                };
                Ok(Found::Nothing)
            }
            Parser::Disksim | Parser::Ssdsim | Parser::Msr | Parser::Measured(_)
                if is_first && text::is_heading(line) =>
            {
                Ok(Found::Nothing)
            }
            Parser::Csv(columns) => columns.line(line, devices),
            Parser::Iolog(iolog) => iolog.line(line, devices),
            Parser::Disksim => ascii::disksim(line, sector, devices),
            Parser::Ssdsim => ascii::ssdsim(line, sector, devices),
            Parser::Msr => msr::line(line, devices),
            Parser::Blkparse(blkparse) => blkparse.line(line, sector, devices),
            Parser::Measured(measured) => measured.line(line, sector, devices),
            Parser::Srt | Parser::Vscsi => unreachable!("these are not text"),
        }
    }

    fn parse_record(&mut self) -> Result<Found, String> {
        match self.parser {
            Parser::Srt => srt::record(&self.buffer, self.sector, &mut self.devices),
            _ => vscsi::record(&self.buffer, self.sector, &mut self.devices),
        }
    }

    /// Reads a line into the buffer; whether there was one.
    fn line(&mut self) -> Result<bool, TraceError> {
        self.buffer.clear();
        let read = (&mut self.input).take(LONGEST_LINE).read_until(b'\n', &mut self.buffer);
        let read = read.map_err(|source| self.failed(source))?;
        match read as u64 == LONGEST_LINE && self.buffer.last() != Some(&b'\n') {
            true => {
                let what = format!("expected a line, found {LONGEST_LINE} bytes without an end");
                Err(self.bad(Place::Line(self.at + 1), what))
            }
            false => Ok(read > 0),
        }
    }

    /// Reads a binary record into the buffer; whether there was one.
    fn record(&mut self) -> Result<bool, TraceError> {
        let place = Place::Record(self.at + 1);
        self.buffer.clear();
        let first = if self.format == Format::Srt { 4 } else { vscsi::LENGTH };
        if !self.fill(first)? {
            return match self.buffer.len() {
                0 => Ok(false),
                n => Err(self.bad(place, format!("expected {first} bytes or more, found {n}"))),
            };
        }
        if self.format == Format::Srt {
            let size = [self.buffer[0], self.buffer[1], self.buffer[2], self.buffer[3]];
            let length = srt::length(size).map_err(|what| self.bad(place, what))?;
            if !self.fill(length)? {
                let found = self.buffer.len();
                return Err(self.bad(place, format!("expected {length} bytes, found {found}")));
            }
        }
        Ok(true)
    }

    /// Reads until the buffer has so many bytes; whether there were so many.
    fn fill(&mut self, length: usize) -> Result<bool, TraceError> {
        let missing = (length - self.buffer.len()) as u64;
        let read = (&mut self.input).take(missing).read_to_end(&mut self.buffer);
        read.map_err(|source| self.failed(source))?;
        Ok(self.buffer.len() == length)
    }

    fn failed(&self, source: io::Error) -> TraceError {
        TraceError::Io { name: self.name.clone(), source }
    }

    fn bad(&self, place: Place, what: String) -> TraceError {
        TraceError::Bad { name: self.name.clone(), place, what }
    }
}

impl Iterator for Reader<'_> {
    type Item = Result<Record, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.ended {
            match self.found() {
                Ok(Some(Found::Request(record))) => return Some(Ok(record)),
                Ok(Some(Found::LeftOut(what))) => *self.left_out.entry(what).or_default() += 1,
                Ok(Some(Found::Nothing)) => {}
                Ok(None) => self.ended = true,
                Err(e) => {
                    self.ended = true;
                    return Some(Err(e));
                }
            }
        }
        None
    }
}

/// Leaves out what asks for nothing, and refuses what no volume can hold.
fn sane(found: Found) -> Result<Found, String> {
    match found {
        Found::Request(r) if r.kind != Kind::Flush && r.len == 0 => {
            Ok(Found::LeftOut("reads and writes of no bytes"))
        }
        Found::Request(r) if r.offset.checked_add(r.len).is_none() => {
            Err(format!("{} bytes at {} reach beyond 2^64 bytes", r.len, r.offset))
        }
        other => Ok(other),
    }
}

/// Unpacks what begins as gzip does.
fn unpack<'a>(input: impl Read + 'a) -> io::Result<Box<dyn BufRead + 'a>> {
    let (head, input) = look(BufReader::new(input), GZIP.len())?;
    Ok(match head == GZIP {
        true => Box::new(BufReader::new(MultiGzDecoder::new(input))),
        false => input,
    })
}

/// The first bytes, up to so many, and an input that still has them.
fn look<'a>(
    mut input: impl BufRead + 'a,
    bytes: usize,
) -> io::Result<(Vec<u8>, Box<dyn BufRead + 'a>)> {
    let mut head = Vec::new();
    (&mut input).take(bytes as u64).read_to_end(&mut head)?;
    Ok((head.clone(), Box::new(Cursor::new(head).chain(input))))
}
