//! When parity is computed (AFRAID): at once, or later, with bounds on the data exposed in the meantime.

use super::time::{in_words, parse_seconds};
use super::values::{Row, Valued, row};
use super::{Kind, PolicyError};
use crate::units::{MILLIS, Nanos};

/// The keys of the choices that a range of a volume can have for itself: those about stripes. Others are about the volume.
pub const IN_RANGES: [&str; 7] = [
    "redundancy",
    "immediate-parities",
    "refresh",
    "idle",
    "exposed-stripes",
    "exposed-bytes",
    "exposed-for",
];

/// When the parity of a stripe that is written in part is computed, and within which bounds it may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Redundancy {
    /// When.
    pub timing: Timing,
    /// Of parity that waits: how many, counted from the first, take each write at once all the same (AFRAID 5: of RAID 6
    /// either or both may wait).
    pub immediate_parities: u8,
    /// When parity that waits is computed.
    pub refresh: Refresh,
    /// For how long a disk must have been idle before that begins.
    pub idle: Nanos,
    /// Exposed stripes from which on it is computed whatever else there is to do. From twice as many on no more parity
    /// waits.
    pub exposed_stripes: u64,
    /// Bytes of data in exposed stripes from which on it is computed whatever else there is to do. From twice as much on
    /// no more parity waits.
    pub exposed_bytes: u64,
    /// For how long a stripe may be exposed before the same happens.
    pub exposed_for: Nanos,
    /// What a flush waits for.
    pub flush: Flush,
    /// Hours until disks lose data, on average: while less was achieved so far no parity waits (AFRAID 4.1, MTTDL_x).
    /// [`Redundancy::UNBOUNDED`] asks for nothing.
    pub mttdl: u64,
    /// Whether parity waits from the beginning on.
    pub start: Start,
    /// Hours until a disk fails that nobody foresaw: what is achieved is computed from it.
    pub disk_mttf: u64,
}

impl Redundancy {
    /// No bound.
    pub const UNBOUNDED: u64 = u64::MAX;

    /// Exposed stripes from which on parity is computed whatever the load, if an MTTDL is asked for (AFRAID 4.1).
    pub const STRIPES_AT_TARGET: u64 = 20;

    /// AFRAID's Table 1: 1M hours, of which failures half are predicted.
    pub const DISK_MTTF: u64 = 2_000_000;

    /// Whether parity may wait, and be marked meanwhile.
    pub fn defers(&self) -> bool {
        matches!(self.timing, Timing::Deferred | Timing::Never)
    }

    /// Whether what parity does not describe yet is copied to its disks.
    pub fn copies(&self) -> bool {
        self.timing == Timing::Copied
    }
}

impl Default for Redundancy {
    fn default() -> Redundancy {
        Redundancy {
            timing: Timing::Immediate,
            immediate_parities: 0,
            refresh: Refresh::Idle,
            idle: 100 * MILLIS,
            exposed_stripes: Redundancy::UNBOUNDED,
            exposed_bytes: 1 << 30,
            exposed_for: 30_000 * MILLIS,
            flush: Flush::Durable,
            mttdl: Redundancy::UNBOUNDED,
            start: Start::Eager,
            disk_mttf: Redundancy::DISK_MTTF,
        }
    }
}

/// When parity is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Timing {
    /// With each write.
    Immediate,
    /// When there is time for it.
    Deferred,
    /// Not at all, until this is chosen otherwise.
    Never,
    /// Later, and until then parity's disks have copies of the new content.
    Copied,
}

impl Valued for Timing {
    const KEY: &'static str = "redundancy";
    const ROWS: &'static [Row<Self>] = &[
        row(Timing::Immediate, "immediate", 0, "with each write"),
        Row {
            value: Timing::Deferred,
            word: "deferred",
            tag: 1,
            help: "later, within the bounds below",
            kind: Kind::Warned(
                "if a disk fails, its data in exposed stripes is lost; `weft status` shows the exposed bytes",
            ),
        },
        Row {
            value: Timing::Never,
            word: "never",
            tag: 2,
            help: "not until this setting changes",
            kind: Kind::Warned("if a disk fails, all data written to it since is lost"),
        },
        row(
            Timing::Copied,
            "copied",
            3,
            "later; until then parity's disks keep copies of small writes",
        ),
    ];
}

/// When parity that waits is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refresh {
    /// While its disk is idle.
    Idle,
    /// Also while hosts use the disk, at the rate at which disks are filled meanwhile.
    Busy,
    /// At once.
    First,
}

impl Valued for Refresh {
    const KEY: &'static str = "refresh";
    const ROWS: &'static [Row<Self>] = &[
        row(Refresh::Idle, "idle", 0, "while no host uses the disk"),
        row(Refresh::Busy, "busy", 1, "also while hosts use the disk, at a limited rate"),
        row(Refresh::First, "first", 2, "at once"),
    ];
}

/// What a host's flush waits for, and a write that is to be durable at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Flush {
    /// What was written is durable.
    Durable,
    /// It is redundant as well, as far as the disks that are there allow.
    Redundant,
}

impl Valued for Flush {
    const KEY: &'static str = "flush";
    const ROWS: &'static [Row<Self>] = &[
        row(Flush::Durable, "durable", 0, "when the data written is durable"),
        row(
            Flush::Redundant,
            "redundant",
            1,
            "when it is also redundant, if the available disks allow",
        ),
    ];
}

/// How a volume begins whose parity may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Start {
    /// Parity waits as long as nothing speaks against it.
    Eager,
    /// Parity waits once enough idle time was seen (AFRAID 5).
    Conservative,
}

impl Valued for Start {
    const KEY: &'static str = "start";
    const ROWS: &'static [Row<Self>] = &[
        row(Start::Eager, "eager", 0, "from the start"),
        row(Start::Conservative, "conservative", 1, "after enough idle time was measured"),
    ];
}

/// No bound, in words.
pub const NONE: &str = "none";

const SIZES: [(&str, u64); 5] =
    [("T", 1 << 40), ("G", 1 << 30), ("M", 1 << 20), ("K", 1 << 10), ("", 1)];

/// Reads a bound on a number, or none.
pub(super) fn bound(key: &'static str, word: &str) -> Result<u64, PolicyError> {
    match word {
        NONE => Ok(Redundancy::UNBOUNDED),
        _ => word.parse().ok().filter(|n| *n > 0).ok_or_else(|| PolicyError::Amount {
            key,
            word: word.to_string(),
            like: "a number such as 1000, or none",
        }),
    }
}

/// Reads a mean time in hours that is asked for, or none.
pub(super) fn target(key: &'static str, word: &str) -> Result<u64, PolicyError> {
    match word {
        NONE => Ok(Redundancy::UNBOUNDED),
        _ => hours(key, word),
    }
}

/// Reads a mean time in hours.
pub(super) fn hours(key: &'static str, word: &str) -> Result<u64, PolicyError> {
    /// A hundred million million hours: no more is known of anything.
    const MOST: u64 = 100_000_000_000_000;
    word.parse().ok().filter(|n| (1..=MOST).contains(n)).ok_or_else(|| PolicyError::Amount {
        key,
        word: word.to_string(),
        like: "a number of hours such as 10000000, at most 10^14",
    })
}

/// A bound on a number in words.
pub(super) fn bound_in_words(bound: u64) -> String {
    match bound {
        Redundancy::UNBOUNDED => NONE.to_string(),
        n => n.to_string(),
    }
}

/// Reads a bound on bytes, such as 512M, or none.
pub(crate) fn bound_in_bytes(key: &'static str, word: &str) -> Result<u64, PolicyError> {
    if word == NONE {
        return Ok(Redundancy::UNBOUNDED);
    }
    let split = word.find(|c: char| !c.is_ascii_digit()).unwrap_or(word.len());
    let unit = SIZES.iter().find(|(name, _)| *name == &word[split..]).map(|u| u.1);
    let bytes =
        word[..split].parse::<u64>().ok().zip(unit).and_then(|(n, unit)| n.checked_mul(unit));
    let bytes = bytes.filter(|b| *b > 0);
    bytes.ok_or_else(|| PolicyError::Amount {
        key,
        word: word.to_string(),
        like: "a size such as 512M or 2G, or none",
    })
}

/// A bound on bytes in words.
pub(crate) fn bytes_in_words(bytes: u64) -> String {
    if bytes == Redundancy::UNBOUNDED {
        return NONE.to_string();
    }
    let (name, unit) =
        SIZES.iter().find(|(_, unit)| bytes.is_multiple_of(*unit)).expect("the last is 1");
    format!("{}{name}", bytes / unit)
}

/// Reads a length of time such as 100ms or 30s, or none.
pub(super) fn bound_in_time(key: &'static str, word: &str) -> Result<Nanos, PolicyError> {
    if word == NONE {
        return Ok(Redundancy::UNBOUNDED);
    }
    let in_millis = word.strip_suffix("ms").and_then(|n| n.parse::<u64>().ok());
    let in_seconds = || parse_seconds(word).ok().and_then(|s| s.checked_mul(1000));
    let nanos =
        in_millis.or_else(in_seconds).and_then(|ms| ms.checked_mul(MILLIS)).filter(|n| *n > 0);
    nanos.ok_or_else(|| PolicyError::Amount {
        key,
        word: word.to_string(),
        like: "a duration such as 100ms, 30s or 5m, or none",
    })
}

/// A length of time in words.
pub(super) fn time_in_words(time: Nanos) -> String {
    match time {
        Redundancy::UNBOUNDED => NONE.to_string(),
        time if time % (1000 * MILLIS) == 0 => in_words(time / (1000 * MILLIS)),
        time => format!("{}ms", time / MILLIS),
    }
}

/// Reads how many parities take each write at once.
pub(super) fn count(key: &'static str, word: &str) -> Result<u8, PolicyError> {
    let like = "a number less than the layout's number of parities";
    word.parse().map_err(|_| PolicyError::Amount { key, word: word.to_string(), like })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_read_back_as_they_are_said() {
        for word in ["1G", "512M", "3K", "7", "none"] {
            assert_eq!(bytes_in_words(bound_in_bytes("exposed-bytes", word).unwrap()), word);
        }
        for word in ["100ms", "30s", "5m", "none"] {
            assert_eq!(time_in_words(bound_in_time("idle", word).unwrap()), word);
        }
        for bad in ["0", "", "1X", "-3", "99999999999T"] {
            let refused = bound_in_bytes("exposed-bytes", bad).unwrap_err().to_string();
            assert!(refused.contains("exposed-bytes") && refused.contains("512M"), "{refused}");
        }
        for bad in ["0", "-1", "1.5", "soon", "100000000000001"] {
            assert!(target("mttdl", bad).unwrap_err().to_string().contains("hours"), "{bad}");
        }
        assert_eq!(target("mttdl", "none"), Ok(Redundancy::UNBOUNDED));
        assert!(hours("disk-mttf", "none").is_err());
        for bad in ["0s", "0ms", "soon", "5"] {
            assert!(bound_in_time("idle", bad).unwrap_err().to_string().contains("100ms"), "{bad}");
        }
    }
}
