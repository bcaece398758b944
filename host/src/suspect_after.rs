//! For how long a disk may be slow before its node is taken out.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use weft_core::units::Nanos;

use crate::error::{Error, Result};
use crate::length_of_time::{duration_in_words, parse_duration};

/// The choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SuspectAfter {
    /// Nothing: after a usual time, if volumes have redundancy to spare.
    #[default]
    Usual,
    /// After this, if volumes can do without the disk.
    Chosen(Duration),
    /// Slow disks stay.
    Never,
}

impl SuspectAfter {
    /// Less would not tell a slow disk from a busy one.
    const SHORTEST: Duration = Duration::from_secs(10);
    const LONGEST: Duration = Duration::from_secs(86_400);
    const USUAL: Duration = Duration::from_secs(300);

    /// For how long, if not for ever.
    pub(crate) fn time(self) -> Option<Nanos> {
        let time = match self {
            SuspectAfter::Usual => SuspectAfter::USUAL,
            SuspectAfter::Chosen(time) => time,
            SuspectAfter::Never => return None,
        };
        Some(time.as_nanos() as Nanos)
    }

    /// Whether volumes must bear one more loss without the disk.
    pub(crate) fn needs_spare(self) -> bool {
        self == SuspectAfter::Usual
    }

    /// The value for a configuration, if one was chosen.
    pub(crate) fn words(self) -> Option<String> {
        match self {
            SuspectAfter::Usual => None,
            SuspectAfter::Chosen(time) => Some(duration_in_words(time)),
            SuspectAfter::Never => Some("never".to_string()),
        }
    }
}

impl FromStr for SuspectAfter {
    type Err = Error;

    fn from_str(text: &str) -> Result<SuspectAfter> {
        if text == "never" {
            return Ok(SuspectAfter::Never);
        }
        let cannot = |why: String| Error(format!("{why}; give 10s to 1d, or 'never'"));
        let chosen = parse_duration(text).map_err(|e| cannot(e.0))?;
        match (SuspectAfter::SHORTEST..=SuspectAfter::LONGEST).contains(&chosen) {
            true => Ok(SuspectAfter::Chosen(chosen)),
            false => Err(cannot(format!("{text} is too short or too long"))),
        }
    }
}

impl fmt::Display for SuspectAfter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.words().unwrap_or_else(|| "5m with redundancy to spare".to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_chosen_holds_without_redundancy_to_spare_too() {
        let usual = SuspectAfter::default();
        assert_eq!((usual.time(), usual.needs_spare()), (Some(300_000_000_000), true));
        assert_eq!(usual.words(), None);
        let chosen: SuspectAfter = "90s".parse().unwrap();
        assert_eq!((chosen.time(), chosen.needs_spare()), (Some(90_000_000_000), false));
        let never: SuspectAfter = "never".parse().unwrap();
        assert_eq!(never.time(), None);
        for written in [chosen, never] {
            assert_eq!(written.words().unwrap().parse::<SuspectAfter>().unwrap(), written);
        }
        for wrong in ["0s", "9s", "2d", "soon"] {
            let said = wrong.parse::<SuspectAfter>().unwrap_err().0;
            assert!(said.ends_with("; give 10s to 1d, or 'never'"), "{said}");
        }
    }
}
