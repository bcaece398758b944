//! The time: nanoseconds since 1970, that never go back.

use std::time::{SystemTime, UNIX_EPOCH};

use weft_core::units::Nanos;

/// The system's clock made monotone: if it is set back, time stands still until it has
/// caught up, so that timestamps keep their order.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    latest: Nanos,
}

impl Clock {
    /// The time.
    pub(crate) fn now(&mut self) -> Nanos {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.latest = self.latest.max(since.as_nanos() as Nanos);
        self.latest
    }
}
