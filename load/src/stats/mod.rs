//! Statistics of simulation output.
//!
//! Within a run: [`Run`] counts requests and bytes, keeps a [`Latency`] histogram, and checks
//! Little's law; [`Level`] follows a resource's queue. What a run begins with is left out by
//! its [`warmup`]. Over runs: independent replications give one value each, a [`Summary`] of
//! those values gives an [`Interval`]. All of it merges, and none of it grows with the run.

mod latency;
mod level;
mod run;
mod student;
mod summary;
pub mod warmup;

pub use latency::Latency;
pub use level::{Level, Little};
pub use run::{Class, Measured, Run};
pub use student::student_t;
pub use summary::{Interval, Summary};

use crate::Nanos;

/// Throughput in megabytes (of 10^6 bytes, as TickerTAIP's tables have them) in a second; 0 if
/// no time passed.
pub fn throughput_mb_s(bytes: u64, time: Nanos) -> f64 {
    match time {
        0 => 0.0,
        // Bytes in a nanosecond are gigabytes in a second.
        _ => bytes as f64 * 1e3 / time as f64,
    }
}

/// Nanoseconds as milliseconds.
pub fn millis(nanos: f64) -> f64 {
    nanos / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn throughput_counts_decimal_megabytes() {
        assert_eq!(throughput_mb_s(15_200_000, 1_000_000_000), 15.2);
        assert_eq!(throughput_mb_s(4096, 0), 0.0);
    }
}
