//! For how long a silent process is waited for: an operator's choice.

use std::fmt;
use std::str::FromStr;

use weft_member::Config;

use crate::error::{Error, Result, fail};

/// For how long the others wait for a process that is silent, while this one leads; and how soon this one stands for
/// election when it does not hear a leader.
///
/// Leases stay as they are. So processes of one cluster may differ: whoever leads declares nobody dead before its
/// lease has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailureTimeouts {
    /// About a second: hosts wait no longer than that for what has died.
    #[default]
    Short,
    /// Four times as long, for machines that do not run their processes all the time.
    Long,
}

impl FailureTimeouts {
    /// How many times longer than usual.
    const LONGER: u32 = 4;

    /// A member's times with these timeouts.
    pub(super) fn of(self, usual: Config) -> Config {
        match self {
            FailureTimeouts::Short => usual,
            FailureTimeouts::Long => Config {
                dead_after: usual.dead_after * u64::from(FailureTimeouts::LONGER),
                election_ticks: usual.election_ticks * FailureTimeouts::LONGER,
                ..usual
            },
        }
    }
}

impl fmt::Display for FailureTimeouts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FailureTimeouts::Short => "short",
            FailureTimeouts::Long => "long",
        })
    }
}

impl FromStr for FailureTimeouts {
    type Err = Error;

    fn from_str(text: &str) -> Result<FailureTimeouts> {
        match text {
            "short" => Ok(FailureTimeouts::Short),
            "long" => Ok(FailureTimeouts::Long),
            _ => {
                fail(format!("'{text}' is not a value of patience (timeouts); give short or long"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two processes of a cluster may have different timeouts, also when the lead changes: the lease that one grants
    /// ends before the other declares its holder dead.
    #[test]
    fn leases_end_before_deaths_whoever_leads() {
        let both = [FailureTimeouts::Short, FailureTimeouts::Long].map(|p| p.of(Config::default()));
        for (granted, declared) in [(both[0], both[1]), (both[1], both[0])] {
            let mixed = Config { lease: granted.lease, ..declared };
            assert_eq!(mixed.check(), Ok(()));
        }
        assert!(both[1].dead_after >= 4_000_000_000 && both[1].check().is_ok());
        assert_eq!("long".parse(), Ok(FailureTimeouts::Long));
        assert_eq!(FailureTimeouts::Long.to_string().parse(), Ok(FailureTimeouts::Long));
        assert!("forever".parse::<FailureTimeouts>().is_err());
    }
}
