//! Looking again instead of sleeping (busy polling): a thread that sleeps is woken some ten microseconds late, which is a good
//! part of what a small request takes.
//!
//! It pays only where the next input comes soon, and where nobody else wants the processor. So it is done after work, for
//! [`LONGEST`] at most, if most of the last waits were that short, and if no more threads are ready to run than
//! there are processors. Who is idle sleeps as ever.

use std::fs;
use std::num::NonZero;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use super::Polling;

/// For so long it is looked again before the thread sleeps.
pub(crate) const LONGEST: Duration = Duration::from_micros(50);

/// A sleep that took at most so long would have been that short, but for the waking.
const SHORT_SLEEP: Duration = Duration::from_micros(100);

/// Of the last eight waits so many must have been short.
const MOST_SHORT: u32 = 6;

/// For so long it is believed how many threads are ready to run.
const BELIEVED: Duration = Duration::from_millis(100);

/// Whether to look again or to sleep, as far as one may choose.
pub(crate) struct BusyPolling {
    allowed: Polling,
    /// The last eight waits, a bit for each that was short.
    lately: u8,
    /// Whether there were processors to spare, and when that was asked.
    spare: (bool, Option<Instant>),
}

impl BusyPolling {
    /// For a process that may do so, or may not.
    pub(crate) fn new(allowed: Polling) -> BusyPolling {
        BusyPolling { allowed, lately: 0, spare: (false, None) }
    }

    /// Whether to look again for a while before sleeping.
    pub(crate) fn pays(&mut self, now: Instant) -> bool {
        self.allowed == Polling::On && self.lately.count_ones() >= MOST_SHORT && self.has_spare(now)
    }

    /// A wait has ended: it took so long, and the thread slept or not.
    pub(crate) fn waited(&mut self, took: Duration, slept: bool) {
        let short = took <= if slept { SHORT_SLEEP } else { LONGEST };
        self.lately = self.lately << 1 | u8::from(short);
    }

    fn has_spare(&mut self, now: Instant) -> bool {
        let is_old = |asked: Instant| now.duration_since(asked) >= BELIEVED;
        if self.spare.1.is_none_or(is_old) {
            self.spare = (has_spare_processors(), Some(now));
        }
        self.spare.0
    }
}

/// Whether no more threads are ready to run than there are processors. Where it cannot be told there may be more.
fn has_spare_processors() -> bool {
    let processors = available_parallelism().map_or(1, NonZero::get);
    fs::read_to_string("/proc/loadavg")
        .is_ok_and(|text| ready(&text).is_some_and(|n| n <= processors))
}

/// How many threads are ready to run, this one included, from the line that Linux gives.
fn ready(loadavg: &str) -> Option<usize> {
    loadavg.split_whitespace().nth(3)?.split('/').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_pays_while_most_waits_are_short_and_nobody_else_wants_the_processor() {
        let now = Instant::now();
        let mut busy_polling =
            BusyPolling { spare: (true, Some(now)), ..BusyPolling::new(Polling::On) };
        assert!(!busy_polling.pays(now), "nothing is known yet");
        (0..8).for_each(|_| busy_polling.waited(SHORT_SLEEP, true));
        assert!(busy_polling.pays(now));
        (0..2).for_each(|_| busy_polling.waited(SHORT_SLEEP, false));
        assert!(busy_polling.pays(now));
        busy_polling.waited(LONGEST * 20, true);
        assert!(!busy_polling.pays(now), "three of eight were long");
        busy_polling.waited(LONGEST, false);
        (0..5).for_each(|_| busy_polling.waited(LONGEST, false));
        assert!(busy_polling.pays(now));
        busy_polling.spare.0 = false;
        assert!(!busy_polling.pays(now), "others want the processors");
        let mut forbidden =
            BusyPolling { spare: (true, Some(now)), ..BusyPolling::new(Polling::Off) };
        (0..8).for_each(|_| forbidden.waited(LONGEST, false));
        assert!(!forbidden.pays(now));
    }

    #[test]
    fn how_many_are_ready_is_read_from_the_kernels_line() {
        assert_eq!(ready("0.20 0.18 0.12 3/80 11206\n"), Some(3));
        assert_eq!(ready("nothing"), None);
        assert_eq!(ready(""), None);
    }
}
