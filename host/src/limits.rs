//! What hosts may take of a process: connections, time, and memory for requests that have not come
//! whole.

use std::time::Duration;

use rustix::process::{Resource, getrlimit};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result, fail};
use crate::length_of_time::{duration_in_words, in_words, parse_duration, parse_seconds};
use crate::size::{Size, exactly, parse_size};

/// What hosts may take of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at each address that hosts are served at.
    pub connections: usize,
    /// Of those at all TCP addresses together, connections from one machine.
    pub connections_per_address: usize,
    /// How long a host may take until it has said who it is and what it wants.
    pub handshake: Duration,
    /// How long a host may take for a request that it has begun to send.
    pub request: Duration,
    /// Bytes of requests that have not come whole, of all hosts together.
    pub incomplete: u64,
    /// From when on a request is slow, and the log says where its time went; none if no request is.
    pub slow: Option<Duration>,
    /// Bytes of requests in work and of answers that are not sent, of all hosts together.
    pub memory: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: 1024,
            connections_per_address: 256,
            handshake: Duration::from_secs(10),
            request: Duration::from_secs(60),
            incomplete: 256 << 20,
            slow: Some(Duration::from_secs(1)),
            memory: usual_memory(),
        }
    }
}

/// The memory that hosts may use: a quarter of the machine's, within bounds.
fn usual_memory() -> u64 {
    const USUAL: std::ops::RangeInclusive<u64> = (256 << 20)..=(4 << 30);
    let info = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = info.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib: Option<u64> = total.and_then(|text| text.trim().strip_suffix(" kB")?.parse().ok());
    (kib.unwrap_or(0) * 1024 / 4).clamp(*USUAL.start(), *USUAL.end())
}

/// Less would let few hosts send their longest requests at a time.
const LEAST_INCOMPLETE: u64 = 64 << 20;

/// Limits as people write them; what is left out is as usual.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LimitsInWords {
    /// [`Limits::connections`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<usize>,
    /// [`Limits::connections_per_address`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections_per_address: Option<usize>,
    /// [`Limits::handshake`], such as `10s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handshake: Option<String>,
    /// [`Limits::request`], such as `1m`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// [`Limits::incomplete`], such as `256M`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incomplete: Option<String>,
    /// [`Limits::slow`], such as `100ms` or `2s`, or `never`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slow: Option<String>,
    /// [`Limits::memory`], such as `1G`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<String>,
}

impl LimitsInWords {
    /// Those that differ from the usual ones.
    pub(crate) fn of(limits: &Limits) -> LimitsInWords {
        let usual = Limits::default();
        let time = |t: Duration, usual: Duration| (t != usual).then(|| in_words(t.as_secs()));
        let count = |n: usize, usual: usize| (n != usual).then_some(n);
        LimitsInWords {
            connections: count(limits.connections, usual.connections),
            connections_per_address: count(
                limits.connections_per_address,
                usual.connections_per_address,
            ),
            handshake: time(limits.handshake, usual.handshake),
            request: time(limits.request, usual.request),
            incomplete: (limits.incomplete != usual.incomplete)
                .then(|| limits.incomplete.to_string()),
            slow: (limits.slow != usual.slow)
                .then(|| limits.slow.map_or("never".to_string(), duration_in_words)),
            memory: (limits.memory != usual.memory).then(|| Size(limits.memory).to_string()),
        }
    }

    /// Whether nothing is said.
    pub(crate) fn is_empty(&self) -> bool {
        *self == LimitsInWords::default()
    }

    /// These limits, with what is said in place of what they are.
    ///
    /// # Errors
    /// If something is said that makes no sense, with what would.
    pub fn over(&self, limits: Limits) -> Result<Limits> {
        let new = Limits {
            connections: count("connections", self.connections, limits.connections)?,
            connections_per_address: count(
                "connections_per_address",
                self.connections_per_address,
                limits.connections_per_address,
            )?,
            handshake: time("handshake", self.handshake.as_deref(), limits.handshake)?,
            request: time("request", self.request.as_deref(), limits.request)?,
            incomplete: match &self.incomplete {
                Some(text) => parse_size(text).map_err(|e| Error(format!("incomplete: {e}")))?,
                None => limits.incomplete,
            },
            slow: match self.slow.as_deref() {
                None => limits.slow,
                Some("never") => None,
                Some(text) => Some(slow(text)?),
            },
            memory: match &self.memory {
                Some(text) => parse_size(text).map_err(|e| Error(format!("memory: {e}")))?,
                None => limits.memory,
            },
        };
        if new.memory < LEAST_INCOMPLETE {
            return fail(format!(
                "memory: {} is too little for requests of 32 MiB; give at least {}",
                exactly(new.memory),
                exactly(LEAST_INCOMPLETE)
            ));
        }
        if new.incomplete < LEAST_INCOMPLETE {
            return fail(format!(
                "incomplete: {} is too little, because one request may have 32 MiB; give at least {}",
                exactly(new.incomplete),
                Size(LEAST_INCOMPLETE)
            ));
        }
        Ok(new)
    }
}

fn count(key: &str, said: Option<usize>, usual: usize) -> Result<usize> {
    match said {
        Some(0) => fail(format!("{key} cannot be 0; give at least 1")),
        said => Ok(said.unwrap_or(usual)),
    }
}

fn slow(text: &str) -> Result<Duration> {
    let time = parse_duration(text).map_err(|e| Error(format!("slow: {e}, or never")))?;
    match time < Duration::from_millis(1) {
        true => fail("slow: too short; give at least 1ms, or never"),
        false => Ok(time),
    }
}

fn time(key: &str, said: Option<&str>, usual: Duration) -> Result<Duration> {
    let Some(text) = said else { return Ok(usual) };
    match parse_seconds(text).map_err(|e| Error(format!("{key}: {e}")))? {
        0 => fail(format!("{key} cannot be 0s; give at least 1s")),
        seconds => Ok(Duration::from_secs(seconds)),
    }
}

/// The descriptors that a process may have, and those of them that are kept from hosts: for other
/// processes of the cluster, control connections, disks and files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Descriptors {
    limit: u64,
    kept: u64,
}

/// As many are kept from hosts, or half of what there is if that is less.
const KEPT: u64 = 256;

/// The most that a kind of connection has that comes in beside the hosts', as part of those kept.
const SHARE: u64 = 4;

impl Descriptors {
    /// Those of this process.
    pub(crate) fn of_process() -> Descriptors {
        Descriptors::of(getrlimit(Resource::Nofile).current.unwrap_or(1 << 20))
    }

    fn of(limit: u64) -> Descriptors {
        Descriptors { limit, kept: KEPT.min(limit / 2) }
    }

    /// Whether one that a host's connection has just got should have been kept. The system gives the
    /// lowest that is free, so that all below it are in use.
    pub(crate) fn are_scarce(self, got: i32) -> bool {
        u64::try_from(got).is_ok_and(|got| got + self.kept >= self.limit)
    }

    /// How many a kind of connection may have that is not a host's.
    pub(crate) fn share(self) -> usize {
        (self.kept / SHARE).max(1) as usize
    }

    /// How many there are.
    pub(crate) fn limit(self) -> u64 {
        self.limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_taken_and_what_makes_no_sense_is_refused() {
        let usual = Limits::default();
        assert_eq!(LimitsInWords::default().over(usual), Ok(usual));
        assert!(LimitsInWords::of(&usual).is_empty());
        let words = LimitsInWords {
            connections: Some(7),
            connections_per_address: Some(3),
            handshake: Some("2s".into()),
            request: Some("1h".into()),
            incomplete: Some("64M".into()),
            slow: Some("never".into()),
            memory: Some("1G".into()),
        };
        let read = words.over(usual).unwrap();
        assert_eq!(read.handshake, Duration::from_secs(2));
        assert_eq!((read.connections, read.incomplete, read.memory), (7, 64 << 20, 1 << 30));
        assert_eq!(LimitsInWords::of(&read).over(usual), Ok(read), "it is written as it is read");
        for (slow, ms) in [("100ms", 100), ("0.5s", 500), ("2s", 2000)] {
            let words = LimitsInWords { slow: Some(slow.into()), ..LimitsInWords::default() };
            let read = words.over(usual).unwrap();
            assert_eq!(read.slow, Some(Duration::from_millis(ms)));
            assert_eq!(
                LimitsInWords::of(&read).over(usual),
                Ok(read),
                "it is written as it is read"
            );
        }
        let refused = |words: LimitsInWords, why: &str| {
            let err = words.over(usual).unwrap_err();
            assert!(err.0.contains(why), "{err}");
        };
        let none = LimitsInWords::default;
        refused(LimitsInWords { connections: Some(0), ..none() }, "connections cannot be 0");
        refused(LimitsInWords { handshake: Some("0s".into()), ..none() }, "handshake cannot be 0s");
        refused(LimitsInWords { slow: Some("0s".into()), ..none() }, "slow: too short");
        refused(LimitsInWords { request: Some("soon".into()), ..none() }, "request: 'soon'");
        refused(LimitsInWords { incomplete: Some("1M".into()), ..none() }, "at least 64MiB");
        refused(
            LimitsInWords { memory: Some("1M".into()), ..none() },
            "memory: 1 MiB is too little",
        );
    }

    #[test]
    fn descriptors_are_kept_from_hosts() {
        let many = Descriptors::of(65536);
        assert!(!many.are_scarce(65536 - 257) && many.are_scarce(65536 - 256));
        assert_eq!(many.share(), 64);
        let few = Descriptors::of(200);
        assert!(!few.are_scarce(99) && few.are_scarce(100));
        assert_eq!((few.share(), few.limit()), (25, 200));
        assert_eq!(Descriptors::of(1).share(), 1);
    }
}
