//! How long the other side of a connection has kept us waiting for the rest of something that it has
//! begun. The time does not count in which we did not listen: because enough is in work, because there
//! is no room, or because this process did not run.

use std::time::{Duration, Instant};

use weft_front::{Awaits, Service};

use crate::limits::Limits;

/// Who keeps us waiting is looked at more often than this: what is longer was not the other side's doing.
const MOST_AT_ONCE: Duration = Duration::from_secs(2);

/// How long one connection has kept us waiting.
#[derive(Debug)]
pub(crate) struct ReceiveTimeout {
    awaits: Awaits,
    /// Which request it is the rest of; see [`Service::begun`].
    begun: u64,
    /// Until `since`, or for good while we do not listen.
    waited: Duration,
    since: Option<Instant>,
}

impl ReceiveTimeout {
    /// With a connection that has just come in.
    pub(crate) fn new(now: Instant) -> ReceiveTimeout {
        ReceiveTimeout {
            awaits: Awaits::Greeting,
            begun: 0,
            waited: Duration::ZERO,
            since: Some(now),
        }
    }

    /// With a connection that keeps nobody waiting, whatever it does.
    pub(crate) fn with_nobody() -> ReceiveTimeout {
        ReceiveTimeout { awaits: Awaits::Nothing, begun: 0, waited: Duration::ZERO, since: None }
    }

    /// Takes note of what is waited for now, and whether we listen.
    pub(crate) fn look(&mut self, machine: &impl Service, listens: bool, now: Instant) {
        let (awaits, begun) = (machine.awaits(), machine.begun());
        self.waited = self.waited_until(now);
        if (awaits, begun) != (self.awaits, self.begun) {
            (self.awaits, self.begun, self.waited) = (awaits, begun, Duration::ZERO);
        }
        self.since = (listens && awaits != Awaits::Nothing).then_some(now);
    }

    fn waited_until(&self, now: Instant) -> Duration {
        let more = self.since.map_or(Duration::ZERO, |s| now.saturating_duration_since(s));
        self.waited + more.min(MOST_AT_ONCE)
    }

    /// Whether time runs.
    pub(crate) fn is_tried(&self) -> bool {
        self.since.is_some()
    }

    /// Why it is at an end, if it is.
    pub(crate) fn is_over(&self, limits: &Limits, now: Instant) -> Option<String> {
        let (limit, what) = match self.awaits {
            Awaits::Nothing => return None,
            Awaits::Greeting => (limits.handshake, "has not finished the handshake"),
            Awaits::Rest => (limits.request, "has not finished sending a request"),
        };
        let over = self.since.is_some() && self.waited_until(now) >= limit;
        over.then(|| format!("it {what} within {} s", limit.as_secs()))
    }
}

#[cfg(test)]
mod tests {
    use weft_front::Machine;

    use super::*;

    /// A server that waits for something.
    struct Waiting(Awaits, u64);

    impl Machine for Waiting {
        fn space(&mut self) -> &mut [u8] {
            &mut []
        }
        fn filled(&mut self, _: usize) {}
        fn output(&self) -> impl Iterator<Item = &[u8]> {
            std::iter::empty()
        }
        fn output_len(&self) -> usize {
            0
        }
        fn sent(&mut self, _: usize) {}
        fn closing(&self) -> bool {
            false
        }
    }

    impl Service for Waiting {
        fn awaits(&self) -> Awaits {
            self.0
        }
        fn incoming(&self) -> usize {
            0
        }
        fn begun(&self) -> u64 {
            self.1
        }
    }

    #[test]
    fn what_drips_does_not_count_as_progress_and_our_own_delay_not_as_theirs() {
        let limits = Limits::default();
        let start = Instant::now();
        let at = |s: u64| start + Duration::from_secs(s);
        let mut receive_timeout = ReceiveTimeout::new(start);
        // This process did not run from the fifth second on for a long time.
        let late = |second: u64| at(if second < 5 { second } else { second + 998 });
        for second in 0..9 {
            receive_timeout.look(&Waiting(Awaits::Greeting, 0), true, late(second));
            assert_eq!(receive_timeout.is_over(&limits, late(second)), None);
        }
        // Two seconds of that count.
        let over = receive_timeout.is_over(&limits, late(9)).unwrap();
        assert!(over.contains("the handshake within 10 s"));
        receive_timeout.look(&Waiting(Awaits::Nothing, 0), true, late(10));
        assert!(!receive_timeout.is_tried());
        assert_eq!(
            receive_timeout.is_over(&limits, late(1000)),
            None,
            "it may be silent between requests"
        );
        // A request of which a byte comes now and then; for a while we do not listen.
        let drip =
            |receive_timeout: &mut ReceiveTimeout, request, seconds: std::ops::Range<u64>| {
                seconds.for_each(|s| {
                    receive_timeout.look(&Waiting(Awaits::Rest, request), true, at(s));
                    assert_eq!(receive_timeout.is_over(&limits, at(s)), None);
                });
            };
        drip(&mut receive_timeout, 1, 3000..3041);
        receive_timeout.look(&Waiting(Awaits::Rest, 1), false, at(3040));
        assert!(!receive_timeout.is_tried());
        assert_eq!(receive_timeout.is_over(&limits, at(4000)), None);
        drip(&mut receive_timeout, 1, 4000..4020);
        assert!(receive_timeout.is_over(&limits, at(4020)).unwrap().contains("request"));
        // The next one has all of its time.
        drip(&mut receive_timeout, 2, 4020..4080);
        assert!(receive_timeout.is_over(&limits, at(4080)).is_some());
    }
}
