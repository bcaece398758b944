//! How long the other side of a connection has kept us waiting for the rest of something that it has
//! begun. The time does not count in which we did not listen.

use std::time::{Duration, Instant};

use weft_front::{Awaits, Service};

use crate::limits::Limits;

/// How long one connection has kept us waiting.
#[derive(Debug)]
pub(crate) struct Patience {
    awaits: Awaits,
    /// Requests that had begun to come.
    begun: u64,
    /// Until `since`, or for good while we do not listen.
    waited: Duration,
    since: Option<Instant>,
}

impl Patience {
    /// With a connection that has just come in.
    pub(crate) fn new(now: Instant) -> Patience {
        Patience { awaits: Awaits::Greeting, begun: 0, waited: Duration::ZERO, since: Some(now) }
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
        self.waited + self.since.map_or(Duration::ZERO, |s| now.saturating_duration_since(s))
    }

    /// Whether time runs.
    pub(crate) fn is_tried(&self) -> bool {
        self.since.is_some()
    }

    /// Why it is at an end, if it is.
    pub(crate) fn is_over(&self, limits: &Limits, now: Instant) -> Option<String> {
        let (limit, what) = match self.awaits {
            Awaits::Nothing => return None,
            Awaits::Greeting => (limits.handshake, "has not said what it wants"),
            Awaits::Rest => (limits.request, "has not finished a request that it began"),
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
        let mut patience = Patience::new(start);
        for second in 0..10 {
            patience.look(&Waiting(Awaits::Greeting, 0), true, at(second));
            assert_eq!(patience.is_over(&limits, at(second)), None);
        }
        assert!(patience.is_over(&limits, at(10)).unwrap().contains("what it wants within 10 s"));
        patience.look(&Waiting(Awaits::Nothing, 0), true, at(10));
        assert!(!patience.is_tried());
        assert_eq!(patience.is_over(&limits, at(1000)), None, "it may be silent between requests");
        // A request of which a byte comes now and then; for a while we do not listen.
        patience.look(&Waiting(Awaits::Rest, 1), true, at(1000));
        patience.look(&Waiting(Awaits::Rest, 1), false, at(1040));
        assert!(!patience.is_tried());
        assert_eq!(patience.is_over(&limits, at(2000)), None);
        patience.look(&Waiting(Awaits::Rest, 1), true, at(2000));
        assert_eq!(patience.is_over(&limits, at(2019)), None);
        assert!(patience.is_over(&limits, at(2020)).unwrap().contains("request"));
        // The next one has all of its time.
        patience.look(&Waiting(Awaits::Rest, 2), true, at(2020));
        assert_eq!(patience.is_over(&limits, at(2079)), None);
        assert!(patience.is_over(&limits, at(2080)).is_some());
    }
}
