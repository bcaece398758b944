//! For how long a disk may be busy with one operation before its node is taken out.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use weft_core::units::Nanos;

use crate::error::{Error, Result};
use crate::length_of_time::{duration_in_words, parse_duration};

/// What is chosen, if anything is. Else it goes by the kind of disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskTimeout(Option<Duration>);

impl DiskTimeout {
    /// Less would take out disks that work: a disk may collect garbage, or spin up.
    const SHORTEST: Duration = Duration::from_secs(1);
    const LONGEST: Duration = Duration::from_secs(3600);
    /// What a disk may take of which nothing is chosen.
    const USUAL: Duration = Duration::from_secs(10);
    /// The same, if it rotates: it may retry a bad sector for many seconds.
    const ROTATING: Duration = Duration::from_secs(30);
    /// A write may take this part of it.
    const WRITES: Nanos = 5;

    /// What a disk may take.
    pub(crate) fn of(self, rotating: bool) -> Nanos {
        let usual = if rotating { DiskTimeout::ROTATING } else { DiskTimeout::USUAL };
        self.0.unwrap_or(usual).as_nanos() as Nanos
    }

    /// What it may take to make a write durable that somebody waits for.
    pub(crate) fn of_writes(self, rotating: bool) -> Nanos {
        let shortest = DiskTimeout::SHORTEST.as_nanos() as Nanos;
        (self.of(rotating) / DiskTimeout::WRITES).max(shortest)
    }

    /// The value for a configuration, if one was chosen.
    pub(crate) fn words(self) -> Option<String> {
        self.0.map(duration_in_words)
    }
}

impl FromStr for DiskTimeout {
    type Err = Error;

    fn from_str(text: &str) -> Result<DiskTimeout> {
        let chosen = parse_duration(text)?;
        match (DiskTimeout::SHORTEST..=DiskTimeout::LONGEST).contains(&chosen) {
            true => Ok(DiskTimeout(Some(chosen))),
            false => Err(Error(format!("{text} is not between 1s and 1h"))),
        }
    }
}

impl fmt::Display for DiskTimeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.words().unwrap_or_else(|| "by the kind of disk".to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_by_the_kind_of_disk_unless_it_is_chosen() {
        let usual = DiskTimeout::default();
        assert_eq!((usual.of(false), usual.of(true)), (10_000_000_000, 30_000_000_000));
        assert_eq!((usual.of_writes(false), usual.of_writes(true)), (2_000_000_000, 6_000_000_000));
        assert_eq!(usual.words(), None);
        let chosen: DiskTimeout = "90s".parse().unwrap();
        assert_eq!((chosen.of(false), chosen.of(true)), (90_000_000_000, 90_000_000_000));
        let short: DiskTimeout = "2s".parse().unwrap();
        assert_eq!(short.of_writes(false), 1_000_000_000);
        assert_eq!(chosen.words().unwrap().parse::<DiskTimeout>().unwrap(), chosen);
        for wrong in ["0s", "999ms", "2h", "soon"] {
            assert!(wrong.parse::<DiskTimeout>().is_err(), "{wrong}");
        }
    }
}
