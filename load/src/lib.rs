//! Workloads, traces and statistics: what hosts ask of a simulated array, and what is said
//! about how it went.
//!
//! - [`workload`] draws requests from a description: a [`workload::Workload`] is a value that
//!   is read from a scenario, a [`workload::Generator`] answers with one [`Ask`] after the other.
//! - [`trace`] reads and writes block traces of several formats as streams, and replays them.
//! - [`stats`] turns completions into means, confidence intervals, quantiles and utilisations.
//! - [`random`] splits one seed into streams, one for each user of chance.
//!
//! The crate is pure: no clock, no thread, no file; random numbers are handed in, and logarithms
//! and powers come from `libm`, so that a seed gives the same run on every machine. Bytes of
//! traces come and go through [`std::io::Read`] and [`std::io::Write`].

#![forbid(unsafe_code)]

pub mod random;
pub mod stats;
pub mod trace;
pub mod workload;

pub use weft_core::units::Nanos;

/// What a request does.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Reads a range.
    Read,
    /// Writes a range.
    Write,
    /// Makes what was answered before survive a power cut; its range is empty.
    Flush,
}

impl Kind {
    /// All of them, in the order of their discriminants.
    pub const ALL: [Kind; 3] = [Kind::Read, Kind::Write, Kind::Flush];

    /// Its name, as in scenarios and reports.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Read => "read",
            Kind::Write => "write",
            Kind::Flush => "flush",
        }
    }
}

/// One request that a host is to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// What it does.
    pub kind: Kind,
    /// First byte of the volume; 0 for a flush.
    pub offset: u64,
    /// Bytes; 0 for a flush.
    pub len: u64,
    /// How long the host waits before it asks, in nanoseconds: in a closed workload since the
    /// reply to the request whose place this one takes (or since the beginning), in an open one
    /// since this host's arrival before (or since the beginning).
    pub wait: Nanos,
}
