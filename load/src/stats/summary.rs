//! Count, mean and variance of a series, and what they say about the true mean.

use super::student_t;

/// Count, mean, variance and extremes of numbers that are seen once, by Welford's recurrence
/// ("Note on a method for calculating corrected sums of squares and products", Technometrics
/// 4(3), 1962), which loses no precision to a large mean.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Summary {
    count: u64,
    mean: f64,
    /// Sum of squared deviations from the mean.
    squares: f64,
    min: f64,
    max: f64,
}

impl Summary {
    /// Takes in one number.
    pub fn add(&mut self, x: f64) {
        (self.min, self.max) = match self.count {
            0 => (x, x),
            _ => (self.min.min(x), self.max.max(x)),
        };
        self.count += 1;
        let before = x - self.mean;
        self.mean += before / self.count as f64;
        self.squares += before * (x - self.mean);
    }

    /// Takes in all that another has seen (Chan, Golub and LeVeque, "Updating formulae and a
    /// pairwise algorithm for computing sample variances", 1979).
    pub fn merge(&mut self, other: &Summary) {
        if other.count == 0 {
            return;
        }
        if self.count == 0 {
            *self = *other;
            return;
        }
        let (a, b) = (self.count as f64, other.count as f64);
        let apart = other.mean - self.mean;
        self.mean += apart * b / (a + b);
        self.squares += other.squares + apart * apart * a * b / (a + b);
        self.count += other.count;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// How many numbers there were.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Their mean; 0 if there were none.
    pub fn mean(&self) -> f64 {
        self.mean
    }

    /// The least; 0 if there were none.
    pub fn min(&self) -> f64 {
        self.min
    }

    /// The greatest; 0 if there were none.
    pub fn max(&self) -> f64 {
        self.max
    }

    /// The sample variance (over n - 1); needs two numbers.
    pub fn variance(&self) -> Option<f64> {
        (self.count >= 2).then(|| (self.squares / (self.count - 1) as f64).max(0.0))
    }

    /// The root of [`Summary::variance`].
    pub fn standard_deviation(&self) -> Option<f64> {
        self.variance().map(f64::sqrt)
    }

    /// The standard deviation as a share of the mean: of the values of replications what
    /// TickerTAIP prints beside its results, of gaps between arrivals their coefficient of
    /// variation. Needs two numbers and a mean other than 0.
    pub fn relative_standard_deviation(&self) -> Option<f64> {
        self.standard_deviation().filter(|_| self.mean != 0.0).map(|s| s / self.mean.abs())
    }

    /// The confidence interval for the true mean at `level` (0.95 is usual), by Student's t: the
    /// numbers must be independent and about normal, as means of replications are.
    pub fn interval(&self, level: f64) -> Interval {
        let half_width = self.standard_deviation().map(|s| {
            let n = self.count;
            student_t(n - 1, level) * s / (n as f64).sqrt()
        });
        Interval { mean: self.mean, half_width, level }
    }
}

/// A mean with its confidence interval: mean ± half_width.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The mean, in the unit of what was summarised.
    pub mean: f64,
    /// Half of the interval's width; `None` of fewer than two replications.
    pub half_width: Option<f64>,
    /// How likely such an interval holds the true mean.
    pub level: f64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn summary(numbers: &[f64]) -> Summary {
        numbers.iter().fold(Summary::default(), |mut s, x| {
            s.add(*x);
            s
        })
    }

    fn near(a: f64, b: f64, scale: f64) -> bool {
        (a - b).abs() <= 1e-9 * (1.0 + scale)
    }

    proptest! {
        #[test]
        fn agrees_with_two_passes_however_it_is_split(
            numbers in prop::collection::vec(-1e6..1e6f64, 2..200),
            cut in 0..200usize,
        ) {
            let n = numbers.len() as f64;
            let mean = numbers.iter().sum::<f64>() / n;
            let variance = numbers.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0);
            let whole = summary(&numbers);
            let (left, right) = numbers.split_at(cut.min(numbers.len()));
            let mut merged = summary(left);
            merged.merge(&summary(right));
            for s in [whole, merged] {
                prop_assert_eq!(s.count(), numbers.len() as u64);
                prop_assert!(near(s.mean(), mean, 1e6));
                prop_assert!(near(s.variance().unwrap(), variance, 1e12));
                prop_assert_eq!(s.min(), numbers.iter().copied().fold(f64::INFINITY, f64::min));
                prop_assert_eq!(s.max(), numbers.iter().copied().fold(-f64::INFINITY, f64::max));
            }
        }
    }

    #[test]
    fn a_large_mean_costs_no_precision() {
        let s = summary(&[1e9 + 4.0, 1e9 + 7.0, 1e9 + 13.0, 1e9 + 16.0]);
        assert_eq!((s.mean(), s.variance()), (1e9 + 10.0, Some(30.0)));
    }

    #[test]
    fn intervals_are_those_of_the_textbook() {
        // Mean 10, standard deviation 2, n = 5: 10 ± 2.776 * 2 / sqrt 5.
        let s = summary(&[8.0, 8.0, 10.0, 12.0, 12.0]);
        let interval = s.interval(0.95);
        assert_eq!(interval.mean, 10.0);
        assert!((interval.half_width.unwrap() - 2.776_445 * 2.0 / 5f64.sqrt()).abs() < 1e-5);
        assert_eq!(s.relative_standard_deviation(), Some(0.2));
        assert_eq!(summary(&[3.0]).interval(0.95).half_width, None);
        assert_eq!(Summary::default().relative_standard_deviation(), None);
    }

    /// Of 2,000 intervals over ten exponential-sum means each, 95 % must hold the true mean;
    /// 1.5 % is three standard errors of that share.
    #[test]
    fn intervals_hold_the_mean_as_often_as_they_say() {
        let mut rng = crate::random::Streams::new(9, 0).stream("coverage", 0);
        let held = (0..2000)
            .filter(|_| {
                let mut means = Summary::default();
                for _ in 0..10 {
                    let sum: f64 =
                        (0..50).map(|_| crate::random::exponential(1e6, &mut rng) as f64).sum();
                    means.add(sum / 50.0);
                }
                let interval = means.interval(0.95);
                (interval.mean - 1e6).abs() <= interval.half_width.unwrap()
            })
            .count();
        assert!((held as f64 / 2000.0 - 0.95).abs() < 0.015, "{held} of 2000");
    }
}
