//! Whether the machine runs this process: what looks like trouble with others may be that.

use std::time::{Duration, Instant};

/// A shorter pause is nobody's concern.
const LONG: Duration = Duration::from_millis(500);

/// The shortest time between two lines about it.
const PAUSE: Duration = Duration::from_secs(10);

/// How often the kernel is asked at least, so that little of what it says is older than a pause.
const LOOKS: Duration = Duration::from_secs(1);

/// For how long the process was not run.
#[derive(Debug)]
pub(super) struct Starved {
    /// When the loop came by last.
    last: Instant,
    /// When the kernel was asked last, and for how long this thread had waited for a processor by then.
    asked: Instant,
    waited: Option<Duration>,
    /// What has not been said yet: the longest time, all together, and how much of it went by waiting for a processor.
    longest: Duration,
    all: Duration,
    queued: Duration,
    said: Option<Instant>,
}

impl Starved {
    pub(super) fn new(now: Instant) -> Starved {
        let none = Duration::ZERO;
        Starved {
            last: now,
            asked: now,
            waited: waited_so_far(),
            longest: none,
            all: none,
            queued: none,
            said: None,
        }
    }

    /// The loop comes by; it has slept for so much longer than it meant to. What is to be said, if anything.
    pub(super) fn look(&mut self, now: Instant, overslept: Duration) -> Option<String> {
        let gap = now.duration_since(self.last);
        self.last = now;
        if gap >= LONG || now.duration_since(self.asked) >= LOOKS {
            self.asked = now;
            self.count(gap, overslept, waited_so_far());
        }
        self.take_news(now)
    }

    fn count(&mut self, gap: Duration, overslept: Duration, waited: Option<Duration>) {
        let queued = match (waited, std::mem::replace(&mut self.waited, waited)) {
            (Some(now), Some(before)) => now.saturating_sub(before).min(gap),
            _ => Duration::ZERO,
        };
        let missed = queued.max(overslept);
        if missed >= LONG {
            self.longest = self.longest.max(missed);
            self.all += missed;
            self.queued += queued;
        }
    }

    fn take_news(&mut self, now: Instant) -> Option<String> {
        let just_said = self.said.is_some_and(|at| now.duration_since(at) < PAUSE);
        if self.all.is_zero() || just_said {
            return None;
        }
        let (longest, all) = (self.longest.as_secs_f64(), self.all.as_secs_f64());
        let why = match 2 * self.queued >= self.all {
            true => {
                "the machine is overloaded; run less on it, or give its processes `patience = \"long\"`"
            }
            false => "the process or its machine was suspended",
        };
        (self.longest, self.all, self.queued) = Default::default();
        self.said = Some(now);
        Some(format!(
            "this process was not scheduled for {longest:.1} s at a time, {all:.1} s in all: {why}"
        ))
    }
}

/// For how long this thread could have run and had no processor, if the kernel says that.
fn waited_so_far() -> Option<Duration> {
    let says = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    says.split_whitespace().nth(1)?.parse().ok().map(Duration::from_nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_said_with_its_cause_and_not_too_often() {
        let (start, ms) = (Instant::now(), Duration::from_millis);
        let mut starved = Starved { waited: Some(ms(100)), ..Starved::new(start) };
        starved.count(ms(600), ms(0), Some(ms(400)));
        assert_eq!(
            starved.take_news(start),
            None,
            "it was kept waiting for 0.3 s, and worked otherwise"
        );
        starved.count(ms(1_500), ms(20), Some(ms(1_800)));
        let said = starved.take_news(start).unwrap();
        assert!(
            said.starts_with("this process was not scheduled for 1.4 s at a time, 1.4 s in all"),
            "{said}"
        );
        assert!(said.contains("overloaded"), "{said}");
        // It was stopped, three times.
        for _ in 0..3 {
            starved.count(ms(2_050), ms(2_000), Some(ms(1_801)));
            assert_eq!(starved.take_news(start + PAUSE - ms(1)), None);
        }
        let said = starved.take_news(start + PAUSE).unwrap();
        assert!(
            said.contains("2.0 s at a time, 6.0 s in all") && said.contains("suspended"),
            "{said}"
        );
        assert_eq!(starved.take_news(start + 3 * PAUSE), None);
        // Where the kernel does not say it.
        starved.count(ms(2_050), ms(700), None);
        assert!(starved.take_news(start + 3 * PAUSE).unwrap().contains("0.7 s"));
    }
}
