//! The time, as nodes have it.

use std::time::{SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};
use weft_core::units::Nanos;

/// Nanoseconds since 1970 as the time of day was when the process started, and from then on as much
/// more as has passed.
///
/// So it never goes back, never stands still, and never jumps. If the time of day was set back and this clock
/// waited until it has caught up, as once it did, nothing would be due until then: nothing asked again,
/// nothing put in place. If it was set forward and this clock followed, all that waits would be due at once, and
/// timestamps would be of a time that no other node knows. Nodes' clocks need not agree: timestamps follow
/// the highest that is heard of, and who is far ahead is told so when it enters an epoch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clock {
    /// What to add to the time since the machine was started.
    base: Option<Nanos>,
}

impl Clock {
    /// The time.
    pub(crate) fn now(&mut self) -> Nanos {
        self.read(time_of_day, boot_time())
    }

    fn read(&mut self, time_of_day: impl FnOnce() -> Nanos, since_boot: Nanos) -> Nanos {
        *self.base.get_or_insert_with(|| time_of_day().saturating_sub(since_boot)) + since_boot
    }
}

/// Nanoseconds since 1970, as this machine has it at the moment.
fn time_of_day() -> Nanos {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as Nanos
}

/// Nanoseconds that go on while the process is stopped and while the machine sleeps.
pub(crate) fn boot_time() -> Nanos {
    let time = clock_gettime(ClockId::Boottime);
    time.tv_sec as Nanos * 1_000_000_000 + time.tv_nsec as Nanos
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_on_whatever_the_time_of_day_is_set_to() {
        let mut clock = Clock::default();
        assert_eq!(clock.read(|| 1_000, 10), 1_000, "the time of day");
        assert_eq!(clock.read(|| 400, 15), 1_005, "set back: it goes on");
        assert_eq!(clock.read(|| 410, 25), 1_015);
        assert_eq!(clock.read(|| 5_000, 30), 1_020, "set forward: the same");
    }
}
