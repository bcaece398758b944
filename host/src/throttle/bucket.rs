//! A token bucket: one limit at one process.

use weft_core::units::Nanos;

use super::shares::WHOLE;

/// Time that is made up for in any case, so that a process that wakes up late still reaches its limits.
pub(super) const SLACK: Nanos = 100_000_000;

/// A limit, and the part of it that a process has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rate {
    /// Tokens per second, of all processes together.
    pub(super) limit: u64,
    /// The part of this process, in millionths; at least one.
    pub(super) part: u64,
    /// How long unused tokens are saved.
    pub(super) burst: Nanos,
}

impl Rate {
    /// Millionths of a token per second.
    fn tokens(&self) -> u128 {
        u128::from(self.limit) * u128::from(self.part)
    }

    /// How long it takes until this many tokens have come.
    fn time_for(&self, tokens: u64) -> Nanos {
        let nanos = u128::from(tokens) * 1_000_000_000 * u128::from(WHOLE);
        Nanos::try_from(nanos.div_ceil(self.tokens())).unwrap_or(Nanos::MAX)
    }
}

/// A bucket, kept as the moment at which it is neither in debt nor has savings. A request begins when there is no debt,
/// whatever it costs, and its cost is paid afterwards: so a request that costs more than can be saved begins too.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket {
    even: Nanos,
}

impl Bucket {
    /// Without debt and savings.
    pub(super) fn new(now: Nanos) -> Bucket {
        Bucket { even: now }
    }

    /// When the next request may begin.
    pub(super) fn due(&self) -> Nanos {
        self.even
    }

    /// A request begins that costs this many tokens.
    pub(super) fn take(&mut self, now: Nanos, tokens: u64, rate: Rate) {
        let earliest = now.saturating_sub(rate.burst.max(SLACK));
        self.even = self.even.max(earliest).saturating_add(rate.time_for(tokens));
    }

    /// The limit changes, or the part of this process: debt and savings stay the same number of tokens.
    pub(super) fn change(&mut self, now: Nanos, before: Rate, after: Rate) {
        let scaled = |time: Nanos| {
            let time = u128::from(time).saturating_mul(before.tokens()) / after.tokens();
            Nanos::try_from(time).unwrap_or(Nanos::MAX)
        };
        let earliest = now.saturating_sub(before.burst.max(SLACK));
        let even = self.even.max(earliest);
        self.even = match even >= now {
            true => now.saturating_add(scaled(even - now)),
            false => now.saturating_sub(scaled(now - even)),
        };
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: Nanos = 1_000_000_000;

    fn rate(limit: u64, burst: Nanos) -> Rate {
        Rate { limit, part: WHOLE, burst }
    }

    /// How many requests of this cost begin from `from` to `until` if one always waits.
    fn served(bucket: &mut Bucket, tokens: u64, rate: Rate, from: Nanos, until: Nanos) -> u64 {
        let (mut now, mut count) = (from, 0);
        while now < until {
            match bucket.due() <= now {
                true => {
                    bucket.take(now, tokens, rate);
                    count += 1;
                }
                false => now = bucket.due(),
            }
        }
        count
    }

    #[test]
    fn one_always_waiting_gets_exactly_the_limit() {
        for (limit, tokens, expected) in
            [(500, 1, 5000), (1, 1, 10), (1_000_000, 4096, 2442), (65_536, 32 << 20, 1)]
        {
            let mut bucket = Bucket::new(0);
            let count = served(&mut bucket, tokens, rate(limit, 0), 0, 10 * SECOND);
            assert_eq!(count, expected, "{limit} {tokens}");
        }
    }

    #[test]
    fn what_was_saved_may_be_used_at_once_and_no_more_than_was_saved() {
        let rate = rate(100, 3 * SECOND);
        let mut bucket = Bucket::new(0);
        assert_eq!(served(&mut bucket, 1, rate, 0, SECOND), 100);
        let later = 1000 * SECOND;
        // Three seconds' worth, and the one that may be in debt.
        assert_eq!(served(&mut bucket, 1, rate, later, later + 1), 301);
        assert_eq!(served(&mut bucket, 1, rate, later + 1, later + 10 * SECOND), 999);
    }

    #[test]
    fn a_new_bucket_has_no_savings() {
        let now = 1000 * SECOND;
        assert_eq!(served(&mut Bucket::new(now), 1, rate(100, 3 * SECOND), now, now + 1), 1);
    }

    #[test]
    fn debt_and_savings_stay_when_the_part_changes() {
        let half = Rate { part: WHOLE / 2, ..rate(100, 2 * SECOND) };
        let whole = rate(100, 2 * SECOND);
        let now = 10 * SECOND;
        let mut bucket = Bucket::new(now);
        bucket.take(now, 100, half);
        assert_eq!(bucket.due(), 12 * SECOND);
        bucket.change(now, half, whole);
        assert_eq!(bucket.due(), 11 * SECOND);
        bucket.change(now, whole, half);
        assert_eq!(bucket.due(), 12 * SECOND);
        // A hundred tokens were saved with a half, so a hundred can be used with the whole.
        let now = 100 * SECOND;
        bucket.change(now, half, whole);
        assert_eq!(served(&mut bucket, 1, whole, now, now + 1), 101);
    }

    proptest! {
        /// Whenever requests come and however the part changes: in any time no more begins than the limit and the savings
        /// allow, but for the cost of one request.
        #[test]
        fn never_more_begins_than_comes_in(
            limit in 1..100_000_u64,
            burst in 0..20 * SECOND,
            steps in proptest::collection::vec((0..3 * SECOND, 1..2000_u64, 1..=WHOLE), 1..200),
        ) {
            let (mut now, mut bucket) = (0, Bucket::new(0));
            let mut rate = rate(limit, burst);
            // Tokens that may have been there at most, as this test counts them.
            let mut most = 0_f64;
            for (pause, tokens, part) in steps {
                now += pause;
                let per_second = |rate: Rate| limit as f64 * rate.part as f64 / WHOLE as f64;
                let capacity =
                    |rate: Rate| per_second(rate) * burst.max(SLACK) as f64 / SECOND as f64;
                most = (most + per_second(rate) * pause as f64 / SECOND as f64).min(capacity(rate));
                if bucket.due() <= now {
                    prop_assert!(most >= -1.0, "begun with {most} tokens");
                    bucket.take(now, tokens, rate);
                    most -= tokens as f64;
                }
                let after = Rate { part, ..rate };
                bucket.change(now, rate, after);
                (rate, most) = (after, most.min(capacity(after)));
            }
        }
    }
}
