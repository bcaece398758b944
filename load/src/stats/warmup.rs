//! What to leave out at the beginning of a run, while it is not yet in its steady state.
//!
//! TickerTAIP's way is to leave out the first 100 requests ([`PAPER`]). The other is to look: a
//! pilot replication with a seed of its own is run, its latencies are put into [`Batches`], and
//! [`Batches::warm_up`] says after how many requests it was steady; the replications that count
//! then leave out as many. The rule is MSER-5 (White, "An effective truncation heuristic for bias
//! reduction in simulation output", Simulation 69(6), 1997; Spratt's batches of five): leave out
//! those batches at the front without which the standard error of the mean is least.

/// Requests that TickerTAIP's simulations leave out.
pub const PAPER: u64 = 100;

/// Batches that are kept before neighbours are put together.
const MOST: usize = 8192;

/// Means of a series in batches of five, and of more if the series is long: when there are 8,192
/// batches, each two neighbours become one, so that memory does not grow with the run.
#[derive(Clone, Debug)]
pub struct Batches {
    size: u64,
    means: Vec<f64>,
    sum: f64,
    count: u64,
}

impl Default for Batches {
    fn default() -> Self {
        Batches { size: 5, means: Vec::new(), sum: 0.0, count: 0 }
    }
}

impl Batches {
    /// Takes in one number.
    pub fn add(&mut self, x: f64) {
        self.sum += x;
        self.count += 1;
        if self.count < self.size {
            return;
        }
        self.means.push(self.sum / self.size as f64);
        (self.sum, self.count) = (0.0, 0);
        if self.means.len() == MOST {
            self.means = self.means.chunks_exact(2).map(|two| (two[0] + two[1]) / 2.0).collect();
            self.size *= 2;
        }
    }

    /// After how many numbers the series was steady; `None` if that is not before its middle, or
    /// there are fewer than ten batches: the series is too short to tell.
    pub fn warm_up(&self) -> Option<u64> {
        mser(&self.means).map(|batches| batches as u64 * self.size)
    }
}

/// How many of the first values to leave out so that the sum of squared deviations of the others,
/// over the square of their number, is least. `None` if that would be half of them or more, or if
/// there are fewer than ten.
fn mser(values: &[f64]) -> Option<usize> {
    if values.len() < 10 {
        return None;
    }
    let (mut tail, mut best) = (super::Summary::default(), (f64::INFINITY, values.len()));
    for (i, value) in values.iter().enumerate().rev() {
        tail.add(*value);
        let n = tail.count() as f64;
        // At the very end of the series the rule is unstable: only a tail of five values counts.
        if n >= 5.0 {
            let squares = tail.variance().unwrap_or(0.0) * (n - 1.0);
            let error = squares / (n * n);
            if error <= best.0 {
                best = (error, i);
            }
        }
    }
    Some(best.1).filter(|i| *i < values.len() / 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The rule as it is written, value by value.
    fn naive(values: &[f64]) -> usize {
        let error = |d: usize| {
            let rest = &values[d..];
            let n = rest.len() as f64;
            let mean = rest.iter().sum::<f64>() / n;
            rest.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n * n)
        };
        (0..=values.len() - 5)
            .min_by(|a, b| error(*a).partial_cmp(&error(*b)).unwrap())
            .unwrap_or(0)
    }

    proptest! {
        #[test]
        fn agrees_with_the_rule_as_it_is_written(
            values in prop::collection::vec(0.0..100.0f64, 10..80),
        ) {
            let exact = naive(&values);
            prop_assert_eq!(mser(&values), Some(exact).filter(|d| *d < values.len() / 2));
        }
    }

    #[test]
    fn the_transient_of_a_series_is_found() {
        let mut rng = crate::random::Streams::new(1, 0).stream("mser", 0);
        let mut batches = Batches::default();
        for i in 0..5000 {
            let transient = if i < 400 { 50.0 * (1.0 - f64::from(i) / 400.0) } else { 0.0 };
            batches.add(10.0 + transient + rng.f64());
        }
        let found = batches.warm_up().unwrap();
        assert!((380..=420).contains(&found), "{found}");
    }

    #[test]
    fn a_series_that_never_settles_is_told() {
        let mut batches = Batches::default();
        (0..2000).for_each(|i| batches.add(f64::from(i)));
        assert_eq!(batches.warm_up(), None);
        let mut short = Batches::default();
        (0..49).for_each(|_| short.add(1.0));
        assert_eq!(short.warm_up(), None);
    }

    #[test]
    fn long_series_have_larger_batches_not_more() {
        let mut batches = Batches::default();
        (0..1_000_000).for_each(|i| batches.add(if i < 100_000 { 9.0 } else { f64::from(i % 2) }));
        assert!(batches.means.len() < MOST);
        let found = batches.warm_up().unwrap();
        assert!((100_000..100_500).contains(&found), "{found}");
    }
}
