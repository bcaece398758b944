//! For how long a disk may be slow before its node is taken out.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use weft_core::units::Nanos;

use crate::error::{Error, Result};
use crate::length_of_time::{duration_in_words, parse_duration};

/// The choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SlowDiskTimeout {
    /// Nothing: after a usual time, if volumes have redundancy to spare.
    #[default]
    Usual,
    /// After this, if volumes can do without the disk.
    Chosen(Duration),
    /// Slow disks stay.
    Never,
}

impl SlowDiskTimeout {
    /// Less would not tell a slow disk from a busy one.
    const SHORTEST: Duration = Duration::from_secs(10);
    const LONGEST: Duration = Duration::from_secs(86_400);
    const USUAL: Duration = Duration::from_secs(300);

    /// For how long, if not for ever.
    pub(crate) fn time(self) -> Option<Nanos> {
        let time = match self {
            SlowDiskTimeout::Usual => SlowDiskTimeout::USUAL,
            SlowDiskTimeout::Chosen(time) => time,
            SlowDiskTimeout::Never => return None,
        };
        Some(time.as_nanos() as Nanos)
    }

    /// Whether volumes must bear one more loss without the disk.
    pub(crate) fn needs_spare(self) -> bool {
        self == SlowDiskTimeout::Usual
    }

    /// The value for a configuration, if one was chosen.
    pub(crate) fn words(self) -> Option<String> {
        match self {
            SlowDiskTimeout::Usual => None,
            SlowDiskTimeout::Chosen(time) => Some(duration_in_words(time)),
            SlowDiskTimeout::Never => Some("never".to_string()),
        }
    }
}

impl FromStr for SlowDiskTimeout {
    type Err = Error;

    fn from_str(text: &str) -> Result<SlowDiskTimeout> {
        if text == "never" {
            return Ok(SlowDiskTimeout::Never);
        }
        let cannot = |why: String| Error(format!("{why}; give 10s to 1d, or 'never'"));
        let chosen = parse_duration(text).map_err(|e| cannot(e.0))?;
        match (SlowDiskTimeout::SHORTEST..=SlowDiskTimeout::LONGEST).contains(&chosen) {
            true => Ok(SlowDiskTimeout::Chosen(chosen)),
            false => Err(cannot(format!("{text} is too short or too long"))),
        }
    }
}

impl fmt::Display for SlowDiskTimeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.words().unwrap_or_else(|| "5m with redundancy to spare".to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_chosen_holds_without_redundancy_to_spare_too() {
        let usual = SlowDiskTimeout::default();
        assert_eq!((usual.time(), usual.needs_spare()), (Some(300_000_000_000), true));
        assert_eq!(usual.words(), None);
        let chosen: SlowDiskTimeout = "90s".parse().unwrap();
        assert_eq!((chosen.time(), chosen.needs_spare()), (Some(90_000_000_000), false));
        let never: SlowDiskTimeout = "never".parse().unwrap();
        assert_eq!(never.time(), None);
        for written in [chosen, never] {
            assert_eq!(written.words().unwrap().parse::<SlowDiskTimeout>().unwrap(), written);
        }
        for wrong in ["0s", "9s", "2d", "soon"] {
            let said = wrong.parse::<SlowDiskTimeout>().unwrap_err().0;
            assert!(said.ends_with("; give 10s to 1d, or 'never'"), "{said}");
        }
    }
}
