//! How patient a host is, and how it proves who it is.

use std::time::Duration;

use crate::tls::Certificates;

/// How patient a host is, and how it proves who it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// How long to look for a node when the volume is opened; by default 5 seconds.
    pub open_patience: Duration,
    /// How long to look for a node when the connection broke, before all that is outstanding
    /// fails; by default 2 minutes.
    pub patience: Duration,
    /// A node that owes answers and says nothing for so long is given up, and another is looked
    /// for; by default 40 seconds, which is more than a request may wait for one that is not sent.
    pub stall: Duration,
    /// By what the host proves who it is, over TLS; by default it does not.
    pub certificates: Option<Certificates>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            open_patience: Duration::from_secs(5),
            patience: Duration::from_secs(120),
            stall: Duration::from_secs(40),
            certificates: None,
        }
    }
}
