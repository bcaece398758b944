//! Block traces: read, written, surveyed and replayed as streams.
//!
//! A [`Reader`] turns the bytes of a trace into [`Record`]s, one after the other, and counts what
//! it leaves out; a [`Writer`] does the reverse. A [`Survey`] says what a trace is like, and a
//! [`Replay`] makes requests of it for a volume.
//!
//! What a line or record means is decided by one pure parser for each format, in a file of its
//! own; only [`Reader`] and [`Writer`] touch [`std::io`], and neither opens a file. Nothing holds
//! a whole trace in memory. An [`Extent`] is what a replay has to know of a trace beforehand.

mod ascii;
mod blkparse;
mod csv;
mod detect;
mod extent;
mod field;
mod iolog;
mod measured;
mod msr;
mod reader;
mod replay;
mod srt;
mod survey;
mod vscsi;
mod writer;

use std::collections::BTreeMap;
use std::fmt;

pub use extent::Extent;
pub use reader::{Options, Place, Reader, TraceError};
pub use replay::{Fit, Mapping, Pace, Replay, ReplayError};
pub use survey::{Idle, Survey};
pub use writer::{WriteError, Writer};

use crate::{Kind, Nanos};

/// One request of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// When it was made, in nanoseconds since whatever the trace counts from.
    pub at: Nanos,
    /// Which device, as an index into the reader's [`Devices`].
    pub device: u32,
    /// What it does.
    pub kind: Kind,
    /// First byte; 0 for a flush.
    pub offset: u64,
    /// Bytes; 0 for a flush.
    pub len: u64,
    /// How long it took, in nanoseconds, where the trace says so.
    pub response: Option<Nanos>,
}

/// The devices of a trace, numbered from 0 in the order in which they appear.
#[derive(Clone, Debug, Default)]
pub struct Devices {
    names: Vec<String>,
    numbers: BTreeMap<String, u32>,
}

impl Devices {
    /// The number of a device, a new one if its name was not seen before.
    pub fn number(&mut self, name: &str) -> u32 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = self.names.len() as u32;
        self.names.push(name.into());
        self.numbers.insert(name.into(), number);
        number
    }

    /// Their names, by number.
    pub fn names(&self) -> &[String] {
        &self.names
    }
}

/// How a trace is written down. Fields and units stand at each parser.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// Comma-separated, with a heading that names the columns.
    Csv,
    /// HP's SRT, binary.
    Srt,
    /// DiskSim's ascii: milliseconds, device, block, blocks, flags.
    Disksim,
    /// SSDSim's ascii: nanoseconds, device, sector, sectors, operation.
    Ssdsim,
    /// The block traces of MSR Cambridge.
    Msr,
    /// VMware's vSCSI, version 1, binary.
    Vscsi,
    /// Text printed by blkparse.
    Blkparse,
    /// fio's iolog, version 2 or 3.
    Iolog,
    /// Service times of a real disk, from DiskSim's validation set.
    Measured,
}

impl Format {
    /// All of them.
    pub const ALL: [Format; 9] = [
        Format::Csv,
        Format::Srt,
        Format::Disksim,
        Format::Ssdsim,
        Format::Msr,
        Format::Vscsi,
        Format::Blkparse,
        Format::Iolog,
        Format::Measured,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Format::Csv => "csv",
            Format::Srt => "srt",
            Format::Disksim => "disksim",
            Format::Ssdsim => "ssdsim",
            Format::Msr => "msr",
            Format::Vscsi => "vscsi",
            Format::Blkparse => "blkparse",
            Format::Iolog => "iolog",
            Format::Measured => "measured",
        }
    }

    /// Bytes of a sector, where the format counts in sectors and the user says nothing: 512, but
    /// 256 in SRT, as on the disks of HP's hplajw.
    pub fn sector_bytes(self) -> u64 {
        match self {
            Format::Srt => 256,
            _ => 512,
        }
    }

    /// Whether every trace of it counts in sectors; a CSV trace may or may not.
    fn counts_in_sectors(self) -> bool {
        !matches!(self, Format::Csv | Format::Msr | Format::Iolog)
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Format::ALL.into_iter().find(|f| f.name() == text).ok_or_else(|| {
            let names = Format::ALL.map(Format::name).join(", ");
            format!("'{text}' is not a format of traces; choose from {names}")
        })
    }
}

/// What a line or a record of a trace is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    /// A request.
    Request(Record),
    /// Something that is no request that can be replayed, and what.
    LeftOut(&'static str),
    /// Nothing: a blank line, a comment, a heading.
    Nothing,
}

#[cfg(test)]
mod tests;
