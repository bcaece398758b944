//! The ways to order requests, as a volume's value.

use std::fmt;
use std::str::FromStr;

/// Who goes first among requests that overlap (DESIGN, section 6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ordering {
    /// Nobody sees to it: the zero-overhead protocol of shared storage 4.1, for comparison.
    None,
    /// A sequencer that knows the graph of requests (TickerTAIP 3.4).
    Sequencer,
    /// A lock server (shared storage 4.2.1).
    LockServer,
    /// A lock server whose locks hosts keep until they are called back (4.2.2).
    CallbackLocks,
    /// Locks that each disk's worker serves for its own sectors (4.4).
    DeviceLocks,
    /// Timestamps that each disk's worker checks for its own sectors (4.5).
    #[default]
    Timestamps,
}

impl Ordering {
    /// All of them.
    pub const ALL: [Ordering; 6] = [
        Ordering::None,
        Ordering::Sequencer,
        Ordering::LockServer,
        Ordering::CallbackLocks,
        Ordering::DeviceLocks,
        Ordering::Timestamps,
    ];

    /// Whether a lock server keeps it, and if so, whether originators keep locks until they are called
    /// back.
    pub fn keeps_locks(self) -> Option<bool> {
        match self {
            Ordering::LockServer => Some(false),
            Ordering::CallbackLocks => Some(true),
            _ => None,
        }
    }

    /// Its name in commands and files.
    pub fn name(self) -> &'static str {
        match self {
            Ordering::None => "none",
            Ordering::Sequencer => "sequencer",
            Ordering::LockServer => "lock-server",
            Ordering::CallbackLocks => "callback-locks",
            Ordering::DeviceLocks => "device-locks",
            Ordering::Timestamps => "timestamps",
        }
    }
}

impl fmt::Display for Ordering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A word that names no ordering.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is no ordering; there are none, sequencer, lock-server, callback-locks, device-locks \
     and timestamps"
)]
pub struct UnknownOrdering(String);

impl FromStr for Ordering {
    type Err = UnknownOrdering;
    fn from_str(word: &str) -> Result<Self, Self::Err> {
        let found = Ordering::ALL.into_iter().find(|o| o.name() == word);
        found.ok_or_else(|| UnknownOrdering(word.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back_and_others_are_refused_with_what_there_is() {
        for ordering in Ordering::ALL {
            assert_eq!(ordering.to_string().parse(), Ok(ordering));
        }
        let refused = "locks".parse::<Ordering>().unwrap_err().to_string();
        assert!(Ordering::ALL.iter().all(|o| refused.contains(o.name())), "{refused}");
    }
}
