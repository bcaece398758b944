//! How often hosts may have reservations changed. Each such change is one of the map, and stops the requests of all hosts
//! for as long as it takes. So hosts' changes together take at most half of the time, after a short burst, however many
//! are asked for.

use std::time::{Duration, Instant};

/// The part of the time that changes may take at all processes together: half.
const SHARE: u32 = 2;

/// How long changes may take without a wait after a time without any.
const BURST: Duration = Duration::from_millis(900);

/// The longest wait.
const LONGEST: Duration = Duration::from_millis(4500);

/// When a change that has no answer keeps others waiting no more.
const STUCK: Duration = Duration::from_secs(1);

/// How much of the time changes took lately.
#[derive(Debug)]
pub(super) struct Pace {
    /// How many processes divide the time.
    processes: u32,
    /// The time that changes took, less what has passed for it since.
    spent: Duration,
    /// Up to when that counts.
    counted: Option<Instant>,
    /// When changes began last.
    began: Option<Instant>,
}

impl Default for Pace {
    fn default() -> Self {
        Pace { processes: 1, spent: Duration::ZERO, counted: None, began: None }
    }
}

impl Pace {
    /// Sets the number of processes that divide the time.
    pub(super) fn divide(&mut self, processes: usize) {
        self.processes = u32::try_from(processes).unwrap_or(u32::MAX / SHARE).max(1);
    }

    /// How often the time that changes take passes without any, for others.
    fn pause(&self) -> u32 {
        SHARE.saturating_mul(self.processes) - 1
    }

    /// Time has passed since the last call, in which a change was under way or not. One without an answer counts for a
    /// while.
    pub(super) fn pass(&mut self, now: Instant, under_way: bool) {
        let counted = *self.counted.get_or_insert(now);
        let took = match (under_way, self.began) {
            (true, Some(began)) => now.min(began + STUCK).saturating_duration_since(counted),
            _ => Duration::ZERO,
        };
        let rest = now.saturating_duration_since(counted).saturating_sub(took);
        let most = BURST + LONGEST / self.pause();
        self.spent = (self.spent + took).min(most).saturating_sub(rest / self.pause());
        self.counted = Some(counted.max(now));
    }

    /// How long until changes may begin, if none is under way.
    pub(super) fn wait(&self) -> Duration {
        self.spent.saturating_sub(BURST) * self.pause()
    }

    /// Changes begin.
    pub(super) fn begin(&mut self, now: Instant) {
        self.began = Some(now);
    }

    /// When changes that are under way are not waited for any more.
    pub(super) fn patience(&self, now: Instant) -> Duration {
        let until = self.began.map_or(now, |began| began + STUCK);
        until.saturating_duration_since(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Changes of 20 ms each, as many as may be, for `time`. Returns how long they took, and how long the first hundred
    /// milliseconds of them waited.
    fn flood(pace: &mut Pace, time: Duration) -> (Duration, Duration) {
        let (took, start) = (Duration::from_millis(20), Instant::now());
        let (mut now, mut all, mut waited) = (start, Duration::ZERO, Duration::ZERO);
        while now < start + time {
            pace.pass(now, false);
            let wait = pace.wait();
            if all < Duration::from_millis(100) {
                waited += wait;
            }
            now += wait;
            pace.pass(now, false);
            assert_eq!(pace.wait(), Duration::ZERO);
            pace.begin(now);
            now += took;
            pace.pass(now, true);
            all += took;
        }
        (all, waited)
    }

    #[test]
    fn many_changes_take_half_of_the_time_and_few_do_not_wait() {
        for processes in [1, 4] {
            let mut pace = Pace::default();
            pace.divide(processes as usize);
            let (took, waited) = flood(&mut pace, Duration::from_secs(60));
            let most = BURST + Duration::from_secs(30) / processes + Duration::from_millis(40);
            assert!(took <= most, "{took:?} at each of {processes}");
            assert!(took >= Duration::from_secs(30) / processes, "{took:?} at each of {processes}");
            assert_eq!(waited, Duration::ZERO);
        }
    }

    #[test]
    fn one_without_an_answer_keeps_others_waiting_for_a_while_only() {
        let (mut pace, start) = (Pace::default(), Instant::now());
        pace.pass(start, false);
        pace.begin(start);
        assert_eq!(pace.patience(start), STUCK);
        pace.pass(start + STUCK, true);
        assert_eq!(pace.patience(start + STUCK), Duration::ZERO);
        assert!(pace.wait() > Duration::ZERO && pace.wait() <= LONGEST, "{:?}", pace.wait());
        pace.pass(start + STUCK + LONGEST, true);
        assert_eq!(pace.wait(), Duration::ZERO, "it is not waited for any more");
    }
}
