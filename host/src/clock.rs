//! The time, as nodes have it.

use std::time::{SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};
use weft_core::units::Nanos;

/// Nanoseconds since 1970 as the time of day was when the process started, and from then on as much
/// more as has passed.
///
/// Whoever sets the time of day later changes nothing here. If it was set back and this clock waited
/// until it has caught up, as once it did, nothing would be due until then: nothing asked again, nothing
/// put in place. Nodes' clocks need not agree: timestamps follow the highest that is heard of.
#[derive(Debug)]
pub(crate) struct Clock {
    /// What to add to the time since the machine was started.
    base: Nanos,
}

impl Default for Clock {
    fn default() -> Clock {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Clock { base: (since.as_nanos() as Nanos).saturating_sub(boot_time()) }
    }
}

impl Clock {
    /// The time.
    pub(crate) fn now(&self) -> Nanos {
        self.base + boot_time()
    }
}

/// Nanoseconds that go on while the process is stopped and while the machine sleeps.
pub(crate) fn boot_time() -> Nanos {
    let time = clock_gettime(ClockId::Boottime);
    time.tv_sec as Nanos * 1_000_000_000 + time.tv_nsec as Nanos
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It is the time of day if nobody has set that since, and goes on.
    #[test]
    fn it_goes_on_from_the_time_of_day() {
        let before = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as Nanos;
        let clock = Clock::default();
        let (first, second) = (clock.now(), clock.now());
        let hour = 3_600_000_000_000;
        assert!(first >= before - hour && first <= before + hour && second >= first);
    }
}
