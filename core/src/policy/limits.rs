//! Limits of a volume: how much its hosts may ask of it, all together.

use super::redundancy::{bound_in_bytes, time_in_words};
use super::time::parse_duration;
use super::{Policy, PolicyError, Redundancy};
use crate::units::{MILLIS, Nanos};

/// How much the hosts of a volume may ask of it, through all nodes together. What exceeds a limit waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct VolumeLimits {
    /// Requests per second; a long request counts like a short one. Flushes do not count.
    pub iops: u64,
    /// Bytes per second that are read and written. Trims and zeroes carry no bytes.
    pub bandwidth: u64,
    /// How much of the past may be made up for: what was not used in this time may be used later, above the limits.
    pub burst: Nanos,
}

impl VolumeLimits {
    /// No limit.
    pub const UNLIMITED: u64 = Redundancy::UNBOUNDED;

    /// The least bandwidth that can be chosen. A request has up to 32 MiB, and waits as long as its bytes take.
    pub const LEAST_BANDWIDTH: u64 = 64 << 10;

    /// The longest burst that can be chosen.
    pub const LONGEST_BURST: Nanos = 24 * 3600 * 1000 * MILLIS;

    /// Whether there is no limit.
    pub fn are_none(&self) -> bool {
        self.iops == VolumeLimits::UNLIMITED && self.bandwidth == VolumeLimits::UNLIMITED
    }
}

impl Default for VolumeLimits {
    fn default() -> VolumeLimits {
        let none = VolumeLimits::UNLIMITED;
        VolumeLimits { iops: none, bandwidth: none, burst: 0 }
    }
}

/// Reads a number of requests per second, or none.
pub(super) fn iops(word: &str) -> Result<u64, PolicyError> {
    super::redundancy::bound("iops", word)
}

/// Reads bytes per second, or none.
pub(super) fn bandwidth(word: &str) -> Result<u64, PolicyError> {
    let like = "a size per second such as 20M or 1G, at least 64K, or none";
    let bytes = bound_in_bytes("bandwidth", word).ok();
    bytes.filter(|b| *b >= VolumeLimits::LEAST_BANDWIDTH).ok_or_else(|| PolicyError::Amount {
        key: "bandwidth",
        word: word.to_string(),
        like,
    })
}

/// Reads how long a volume saves up.
pub(super) fn burst(word: &str) -> Result<Nanos, PolicyError> {
    let nanos = parse_duration(word).ok().map(|time| time.as_nanos());
    let nanos = nanos.and_then(|n| Nanos::try_from(n).ok());
    // To the millisecond, as it is said.
    let whole = |n: &Nanos| *n <= VolumeLimits::LONGEST_BURST && n.is_multiple_of(MILLIS);
    nanos.filter(whole).ok_or_else(|| PolicyError::Amount {
        key: "burst",
        word: word.to_string(),
        like: "a duration such as 500ms, 10s or 5m, at most 24h, or 0s",
    })
}

/// The longest time within which requests can be promised to end.
pub(super) const LONGEST_P99: Nanos = 60_000 * MILLIS;

/// Reads within which time 99 of 100 requests are to end, or that it does not matter.
pub(super) fn p99(word: &str) -> Result<Nanos, PolicyError> {
    let nanos = super::redundancy::bound_in_time("p99", word).ok();
    let fits = |n: &Nanos| *n == Policy::UNPROMISED || *n <= LONGEST_P99;
    nanos.filter(fits).ok_or_else(|| PolicyError::Amount {
        key: "p99",
        word: word.to_string(),
        like: "a duration from 1ms to 60s, such as 5ms, or none",
    })
}

/// How long a volume saves up, in words.
pub(super) fn burst_in_words(burst: Nanos) -> String {
    time_in_words(burst)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_back_as_they_are_said() {
        assert_eq!((iops("500"), iops("none")), (Ok(500), Ok(VolumeLimits::UNLIMITED)));
        assert_eq!((bandwidth("20M"), bandwidth("64K")), (Ok(20 << 20), Ok(64 << 10)));
        for word in ["0s", "500ms", "10s", "5m", "1d"] {
            assert_eq!(burst_in_words(burst(word).unwrap()), word);
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_what_would() {
        for bad in ["0", "-1", "1.5", "many", "10K"] {
            assert!(iops(bad).unwrap_err().to_string().contains("1000, or none"), "{bad}");
        }
        for bad in ["0", "100", "63K", "fast", "-1M"] {
            assert!(bandwidth(bad).unwrap_err().to_string().contains("at least 64K"), "{bad}");
        }
        for bad in ["0ms", "5", "0.5ms", "61s", "soon", "-1ms"] {
            assert!(
                p99(bad).unwrap_err().to_string().contains("from 1ms to 60s, such as 5ms, or none"),
                "{bad}"
            );
        }
        assert_eq!((p99("5ms"), p99("none")), (Ok(5 * MILLIS), Ok(Policy::UNPROMISED)));
        for bad in ["none", "10", "25h", "0.5ms", "-1s", "99999999999d"] {
            assert!(burst(bad).unwrap_err().to_string().contains("at most 24h"), "{bad}");
        }
    }
}
