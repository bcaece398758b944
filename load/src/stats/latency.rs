//! How long requests took.

use hdrhistogram::Histogram;

use super::Summary;
use crate::Nanos;

/// Digits that the histogram keeps: quantiles are true to one part in a thousand.
const DIGITS: u8 = 3;

/// A distribution of latencies: exact count, mean and extremes, and quantiles to one part in a
/// thousand, from a histogram (Tene's HdrHistogram) that merges without loss.
#[derive(Clone, Debug)]
pub struct Latency {
    histogram: Histogram<u64>,
    summary: Summary,
    sum: u128,
}

impl Default for Latency {
    fn default() -> Self {
        let histogram = Histogram::new(DIGITS).expect("three digits are possible");
        Latency { histogram, summary: Summary::default(), sum: 0 }
    }
}

impl Latency {
    /// Takes in one latency.
    pub fn add(&mut self, latency: Nanos) {
        self.histogram.record(latency).expect("the histogram grows as it must");
        self.summary.add(latency as f64);
        self.sum += u128::from(latency);
    }

    /// Takes in all that another has seen.
    pub fn merge(&mut self, other: &Latency) {
        self.histogram.add(&other.histogram).expect("both resize and have three digits");
        self.summary.merge(&other.summary);
        self.sum += other.sum;
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.summary.count()
    }

    /// Their mean in nanoseconds, from the exact sum; 0 if there were none.
    pub fn mean(&self) -> f64 {
        self.sum as f64 / self.count().max(1) as f64
    }

    /// The exact sum, in nanoseconds.
    pub fn sum(&self) -> u128 {
        self.sum
    }

    /// Mean, variance and extremes, in nanoseconds.
    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    /// The latency that a share of the requests did not exceed: 0.5 for the median. The rank is
    /// the smallest whole number not below share times count, and at least 1. 0 if there were none.
    pub fn quantile(&self, share: f64) -> Nanos {
        match share * self.count() as f64 <= 1.0 {
            true => self.summary.min() as Nanos,
            false => self.histogram.value_at_quantile(share),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn quantiles_are_those_of_the_sorted_list(
            mut latencies in prop::collection::vec(0..10_000_000_000_000u64, 1..300),
            cut in 0..300usize,
            share in 0.0..=1.0f64,
        ) {
            let (left, right) = latencies.split_at(cut.min(latencies.len()));
            let (mut merged, mut other) = (Latency::default(), Latency::default());
            left.iter().for_each(|l| merged.add(*l));
            right.iter().for_each(|l| other.add(*l));
            merged.merge(&other);
            let sum: u128 = latencies.iter().map(|l| u128::from(*l)).sum();
            prop_assert_eq!(merged.sum(), sum);
            prop_assert_eq!(merged.count(), latencies.len() as u64);
            latencies.sort_unstable();
            let rank = ((share * latencies.len() as f64).ceil() as usize).max(1);
            let exact = latencies[rank - 1] as f64;
            let ours = merged.quantile(share) as f64;
            prop_assert!((ours - exact).abs() <= exact / 1000.0, "{} for {}", ours, exact);
        }
    }

    #[test]
    fn nothing_seen_is_no_error() {
        let none = Latency::default();
        assert_eq!((none.count(), none.mean(), none.quantile(0.99)), (0, 0.0, 0));
    }
}
