//! The ten workloads of section 4.1. Their traces are not to be had, but for one of hplajw: bursts that are drawn stand for them.
//!
//! What is known of each, what was chosen, and what the two numbers were calibrated on that are common to all (how fast
//! bursts come, and how long pauses are) is in docs/lab/papers/afraid.md.

use weft_load::Kind;
use weft_load::workload::{Addresses, Arrivals, Class, Requests, Spacing, Workload};

/// Of all bursts, by how much faster requests come than is written below.
const HASTE: f64 = 1.05;
/// Of all workloads, by how much more seldom requests come than is written below.
const LEISURE: f64 = 2.25;

/// A workload.
pub struct Load {
    /// Its name.
    pub name: &'static str,
    /// Disks of the array that bears it.
    pub disks: u16,
    /// Requests a second, and of a burst; milliseconds between those.
    rate_per_s: f64,
    burst: f64,
    gap_ms: f64,
    /// The share of reads.
    read_share: f64,
    /// Sizes and their weights.
    sizes: &'static [(u64, f64)],
    /// Regions of the volume, and how uneven they are.
    regions: u64,
    exponent: f64,
    /// Requests that are simulated.
    pub requests: u64,
}

/// Requests of Unix file systems: 8 KB blocks and parts of them. None is longer than a stripe unit, since those are cut.
const UNIX: &[(u64, f64)] = &[(8_192, 0.75), (4_096, 0.25)];
/// Pages of databases.
const PAGES: &[(u64, f64)] = &[(4_096, 0.6), (8_192, 0.4)];
/// Loading a database.
const LOADING: &[(u64, f64)] = &[(4_096, 0.3), (8_192, 0.7)];

/// All of them, in the order of the paper.
#[rustfmt::skip]
pub const WORKLOADS: [Load; 10] = [
    load("hplajw",     5,  0.245,  30.0,  12.0, 0.27, UNIX,    5_000,  1.0, 21_134),
    load("snake",      5,  2.3,    20.0,  12.0, 0.43, UNIX,    20_000, 0.9, 4_000),
    load("cello-usr",  5,  2.0,    20.0,  12.0, 0.43, UNIX,    20_000, 0.9, 4_000),
    load("cello-news", 5,  2.7,    40.0,  12.0, 0.35, UNIX,    20_000, 0.8, 4_000),
    load("netware",    5,  20.0,   150.0, 12.0, 0.15, LOADING, 5_000,  0.9, 4_000),
    load("att",        9,  45.0,   400.0, 9.0,  0.45, PAGES,   50_000, 0.7, 4_000),
    load("as400-1",    9,  30.0,   150.0, 9.0,  0.50, PAGES,   50_000, 0.8, 4_000),
    load("as400-2",    9,  15.0,   80.0,  9.0,  0.55, PAGES,   50_000, 0.8, 4_000),
    load("as400-3",    9,  10.0,   60.0,  9.0,  0.55, PAGES,   50_000, 0.8, 4_000),
    load("as400-4",    9,  6.0,    40.0,  9.0,  0.60, PAGES,   50_000, 0.8, 4_000),
];

#[allow(clippy::too_many_arguments)] // the columns of the table above
const fn load(
    name: &'static str,
    disks: u16,
    rate_per_s: f64,
    burst: f64,
    gap_ms: f64,
    read_share: f64,
    sizes: &'static [(u64, f64)],
    regions: u64,
    exponent: f64,
    requests: u64,
) -> Load {
    Load { name, disks, rate_per_s, burst, gap_ms, read_share, sizes, regions, exponent, requests }
}

impl Load {
    /// As the simulator has it.
    pub fn workload(&self) -> Workload {
        let class = |kind: Kind, share: f64| {
            self.sizes.iter().map(move |(bytes, w)| Class {
                kind,
                bytes: *bytes,
                weight: w * share,
            })
        };
        let reads = class(Kind::Read, self.read_share);
        let writes = class(Kind::Write, 1.0 - self.read_share);
        let spacing = Spacing::Bursts { requests: self.burst, gap_ms: self.gap_ms / HASTE };
        Workload {
            hosts: 1,
            arrivals: Arrivals::Open { rate_per_s: self.rate_per_s / LEISURE, spacing },
            requests: Requests::Mix(reads.chain(writes).collect()),
            addresses: Addresses::Zipf { regions: self.regions, exponent: self.exponent },
            align_bytes: Some(8_192),
        }
    }
}
