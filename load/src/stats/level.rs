//! What is in a place over time: queue lengths, utilisation, and Little's law.

use crate::Nanos;

/// A whole number that changes over time, such as how many requests wait for a disk or how many
/// of its arms are busy. Its mean is weighted by time and computed from an exact integral.
#[derive(Clone, Debug)]
pub struct Level {
    began: Nanos,
    changed: Nanos,
    value: u64,
    max: u64,
    /// Integral of the value, in value times nanoseconds.
    area: u128,
    /// Nanoseconds with a value above 0.
    busy: Nanos,
}

impl Level {
    /// A level of 0 from `now` on.
    pub fn new(now: Nanos) -> Self {
        Level { began: now, changed: now, value: 0, max: 0, area: 0, busy: 0 }
    }

    /// The level is `value` from `now` on; time must not go back.
    pub fn set(&mut self, now: Nanos, value: u64) {
        self.pass(now);
        self.value = value;
        self.max = self.max.max(value);
    }

    /// One more from `now` on.
    pub fn up(&mut self, now: Nanos) {
        self.set(now, self.value + 1);
    }

    /// One less from `now` on.
    pub fn down(&mut self, now: Nanos) {
        assert!(self.value > 0, "a level below 0 at {now} ns");
        self.set(now, self.value - 1);
    }

    /// Forgets what was before `now`; the level itself stays. For the end of the warm-up.
    pub fn restart(&mut self, now: Nanos) {
        self.pass(now);
        *self = Level { began: now, max: self.value, area: 0, busy: 0, ..*self };
    }

    /// The level now.
    pub fn value(&self) -> u64 {
        self.value
    }

    /// The greatest level so far.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// The integral until `now`, in level times nanoseconds.
    pub fn area(&self, now: Nanos) -> u128 {
        self.area + u128::from(self.value) * u128::from(self.since_change(now))
    }

    /// The mean level until `now`: of a queue its mean length, of a resource that is 0 or 1 its
    /// utilisation. 0 if no time passed.
    pub fn mean(&self, now: Nanos) -> f64 {
        self.area(now) as f64 / self.span(now).max(1) as f64
    }

    /// The share of the time until `now` with a level above 0. 0 if no time passed.
    pub fn busy_share(&self, now: Nanos) -> f64 {
        let busy = self.busy + if self.value > 0 { self.since_change(now) } else { 0 };
        busy as f64 / self.span(now).max(1) as f64
    }

    /// How long has been looked at, in nanoseconds.
    pub fn span(&self, now: Nanos) -> Nanos {
        now - self.began
    }

    fn since_change(&self, now: Nanos) -> Nanos {
        assert!(now >= self.changed, "time went back from {} to {now} ns", self.changed);
        now - self.changed
    }

    fn pass(&mut self, now: Nanos) {
        self.area = self.area(now);
        self.busy += if self.value > 0 { self.since_change(now) } else { 0 };
        self.changed = now;
    }
}

/// Little's law, checked: L = lambda W ("A proof for the queuing formula L = λW", Operations
/// Research 9(3), 1961).
///
/// Over any window it is an identity if each request's time is cut to the window: the integral of
/// the number present equals the sum of the times spent. The left side comes from arrivals and
/// departures as they happen, the right side from what each request says of itself when it
/// leaves, so a run in which they differ has lost a request or told a wrong response time.
#[derive(Clone, Debug)]
pub struct Little {
    present: Level,
    /// Time spent in the window by those that left.
    spent: u128,
    left: u64,
}

impl Little {
    /// An empty place from `now` on.
    pub fn new(now: Nanos) -> Self {
        Little { present: Level::new(now), spent: 0, left: 0 }
    }

    /// A request comes.
    pub fn arrive(&mut self, now: Nanos) {
        self.present.up(now);
    }

    /// A request that came at `arrived` leaves.
    pub fn depart(&mut self, now: Nanos, arrived: Nanos) {
        self.present.down(now);
        self.spent += u128::from(now - arrived.max(self.present.began));
        self.left += 1;
    }

    /// Forgets what was before `now`; who is present stays. For the end of the warm-up.
    pub fn restart(&mut self, now: Nanos) {
        self.present.restart(now);
        (self.spent, self.left) = (0, 0);
    }

    /// How many are present, over time.
    pub fn present(&self) -> &Level {
        &self.present
    }

    /// Whether the law holds exactly for the window that ends `now`. `inside` are the arrival
    /// times of the requests that are still there.
    ///
    /// # Errors
    /// Both sides, in nanoseconds, if they differ.
    pub fn check(&self, now: Nanos, inside: impl IntoIterator<Item = Nanos>) -> Result<(), String> {
        let began = self.present.began;
        let (mut waiting, mut still) = (0u128, 0);
        for arrived in inside {
            waiting += u128::from(now - arrived.max(began));
            still += 1;
        }
        let (area, spent) = (self.present.area(now), self.spent + waiting);
        match area == spent && still == self.present.value() {
            true => Ok(()),
            false => Err(format!(
                "Little's law does not hold: {} requests are present and were so for {area} ns in \
                 all, but {still} say they are, and {spent} ns were spent by those that were",
                self.present.value()
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn levels_agree_with_looking_every_nanosecond(
            steps in prop::collection::vec((0..20u64, 0..5u64), 1..40),
            restart in 0..40usize,
        ) {
            let (mut level, mut now, mut samples) = (Level::new(7), 7, Vec::new());
            for (i, (wait, value)) in steps.iter().enumerate() {
                samples.extend((0..*wait).map(|_| level.value()));
                now += wait;
                if i == restart {
                    level.restart(now);
                    samples.clear();
                }
                level.set(now, *value);
            }
            let n = samples.len() as f64;
            prop_assert_eq!(level.area(now), u128::from(samples.iter().sum::<u64>()));
            prop_assert_eq!(level.span(now), samples.len() as u64);
            if n > 0.0 {
                let busy = samples.iter().filter(|v| **v > 0).count() as f64 / n;
                prop_assert_eq!(level.busy_share(now), busy);
                prop_assert_eq!(level.mean(now), samples.iter().sum::<u64>() as f64 / n);
            }
        }

        #[test]
        fn littles_law_is_exact_in_any_window(
            visits in prop::collection::vec((0..1000u64, 0..300u64), 1..60),
            from in 0..1200u64,
            length in 0..1200u64,
        ) {
            let until = from + length;
            // (time, whether it leaves, arrival): arrivals before departures of the same instant.
            let mut events: Vec<_> = visits
                .iter()
                .flat_map(|(at, stay)| [(*at, false, *at), (at + stay, true, *at)])
                .filter(|(at, ..)| *at <= until)
                .collect();
            events.sort_unstable();
            let (mut little, mut began) = (Little::new(0), false);
            for (at, leaves, arrived) in events {
                if !began && at > from {
                    little.restart(from);
                    began = true;
                }
                if leaves { little.depart(at, arrived) } else { little.arrive(at) }
            }
            let inside = visits.iter().filter(|(at, stay)| *at <= until && at + stay > until);
            prop_assert_eq!(little.check(until, inside.map(|(at, _)| *at)), Ok(()));
        }
    }

    #[test]
    fn a_wrong_response_time_or_a_lost_request_breaks_the_law() {
        let mut little = Little::new(0);
        little.arrive(10);
        little.arrive(20);
        little.depart(30, 11);
        assert!(little.check(40, [20]).is_err());
        let mut little = Little::new(0);
        little.arrive(10);
        assert!(little.check(40, []).unwrap_err().contains("1 requests"));
        // Present for no time yet, but lost all the same.
        assert!(little.check(10, []).is_err());
    }
}
