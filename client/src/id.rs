//! The name of a request.

use std::fmt;

/// A request's name. Any request may say that it comes after it, also of another handle of the
/// volume in this process; on a volume with `ordering=sequencer` also of another host, to which
/// the two numbers may be sent by any way.
///
/// It is printed, with `{}` and with `{:?}`, as errors and logs of nodes print it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id {
    /// The host: drawn at random by [`Volume::open`](crate::Volume::open).
    pub host: u64,
    /// The request, of that host: 1, 2, 3 and so on.
    pub number: u64,
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "request {} of host {:016x}", self.number, self.host)
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
