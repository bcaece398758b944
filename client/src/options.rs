//! How patient a host is.

use std::time::Duration;

/// How patient a host is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// How long to look for a node when the volume is opened; by default 5 seconds.
    pub open_patience: Duration,
    /// How long to look for a node when the connection broke, before all that is outstanding
    /// fails; by default 2 minutes.
    pub patience: Duration,
    /// A node that owes answers and says nothing for so long is given up, and another is looked
    /// for; by default 40 seconds, which is more than a request may wait for one that is not sent.
    pub stall: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            open_patience: Duration::from_secs(5),
            patience: Duration::from_secs(120),
            stall: Duration::from_secs(40),
        }
    }
}
