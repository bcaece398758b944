//! Records in, bytes out: the layer that writes.

use std::collections::BTreeMap;
use std::io::{self, Write};

use super::{Devices, Format, Record, ascii, blkparse, csv, iolog, measured, msr, srt, vscsi};
use crate::Kind;

/// Why a record cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The output fails.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The format cannot hold it.
    #[error("request {number} cannot be written as {format}: {what}")]
    Unfit {
        /// Which, counted from 1.
        number: u64,
        /// The format.
        format: Format,
        /// Why not.
        what: String,
    },
}

/// Writes a trace, record after record. Times are rounded down to the format's unit.
pub struct Writer<W> {
    output: W,
    format: Format,
    sector: u64,
    number: u64,
    left_out: BTreeMap<&'static str, u64>,
    /// The devices' numbers in formats that have numbers, and whose each is.
    numbers: BTreeMap<u32, u32>,
    /// One record is held back where the next one's time must be known.
    held: Option<Record>,
    iolog: iolog::Written,
}

impl<W: Write> Writer<W> {
    /// Begins a trace; sectors are of the format's usual size.
    ///
    /// # Errors
    /// If the output fails.
    pub fn new(mut output: W, format: Format) -> io::Result<Self> {
        match format {
            Format::Csv => writeln!(output, "{}", csv::HEADING)?,
            Format::Iolog => writeln!(output, "{}", iolog::HEADING)?,
            _ => {}
        }
        let (left_out, numbers, iolog) = Default::default();
        let (sector, number, held) = (format.sector_bytes(), 0, None);
        Ok(Writer { output, format, sector, number, left_out, numbers, held, iolog })
    }

    /// Writes a record, whose device is one of these. Flushes are left out, and counted, where the
    /// format has none.
    ///
    /// # Errors
    /// If the format cannot hold it, or the output fails.
    pub fn write(&mut self, record: &Record, devices: &Devices) -> Result<(), WriteError> {
        self.number += 1;
        let flushes = [Format::Csv, Format::Iolog, Format::Blkparse, Format::Vscsi];
        if record.kind == Kind::Flush && !flushes.contains(&self.format) {
            *self.left_out.entry("flushes, which the format does not have").or_default() += 1;
            return Ok(());
        }
        let bytes = self.show(record, devices).map_err(|what| self.unfit(what))?;
        Ok(self.output.write_all(&bytes)?)
    }

    /// Ends the trace.
    ///
    /// # Errors
    /// If the last record cannot be written, or the output fails.
    pub fn finish(mut self) -> Result<W, WriteError> {
        if let Some(last) = self.held {
            let line = measured::show(&last, self.sector, 0).map_err(|what| self.unfit(what))?;
            writeln!(self.output, "{line}")?;
        }
        self.output.flush()?;
        Ok(self.output)
    }

    /// What was left out, and how much of it: nothing else was.
    pub fn left_out(&self) -> &BTreeMap<&'static str, u64> {
        &self.left_out
    }

    fn unfit(&self, what: String) -> WriteError {
        WriteError::Unfit { number: self.number, format: self.format, what }
    }

    fn show(&mut self, record: &Record, devices: &Devices) -> Result<Vec<u8>, String> {
        let name = &devices.names()[record.device as usize];
        let line = match self.format {
            Format::Csv => csv::show(record, name)?,
            Format::Iolog => self.iolog.show(record, name)?,
            Format::Msr => msr::show(record, name)?,
            Format::Blkparse => {
                blkparse::show(record, name, record.device, self.sector, self.number)?
            }
            Format::Disksim => {
                ascii::show(record, self.device(record, name)?, self.sector, 1_000_000)?
            }
            Format::Ssdsim => ascii::show(record, self.device(record, name)?, self.sector, 1)?,
            Format::Srt => return srt::show(record, self.device(record, name)?, self.sector),
            Format::Vscsi => {
                one_device(record)?;
                return vscsi::show(record, self.number, self.sector);
            }
            Format::Measured => {
                one_device(record)?;
                let Some(before) = self.held.replace(*record) else {
                    return Ok(Vec::new());
                };
                let end = before.at.saturating_add(before.response.unwrap_or(0));
                let gap = record.at.checked_sub(end);
                let gap = gap.ok_or("it begins before the one before it ends")?;
                measured::show(&before, self.sector, gap)?
            }
        };
        Ok((line + "\n").into_bytes())
    }

    /// A device's number: its name, if that is a number, and else its place in the trace.
    fn device(&mut self, record: &Record, name: &str) -> Result<u32, String> {
        let number = name.parse().unwrap_or(record.device);
        match *self.numbers.entry(number).or_insert(record.device) {
            owner if owner == record.device => Ok(number),
            _ => Err(format!("device '{name}' would get the number {number} of another one")),
        }
    }
}

fn one_device(record: &Record) -> Result<(), String> {
    match record.device {
        0 => Ok(()),
        _ => Err("the format supports only one device".into()),
    }
}

/// A range in whole sectors: its first, and how many.
pub(super) fn sectors(record: &Record, sector: u64) -> Result<(u64, u64), String> {
    let Record { offset, len, .. } = *record;
    match (offset % sector, len % sector) {
        (0, 0) => Ok((offset / sector, len / sector)),
        _ => Err(format!("{len} bytes at {offset} are not whole sectors of {sector} bytes")),
    }
}
