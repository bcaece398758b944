//! One seed, many independent streams of random numbers, and the distributions drawn from them.
//!
//! Everything that draws has a stream of its own, named by the run's seed, the number of the
//! replication, what it is for (`"host"`, `"disk"`) and which of them it is. The four are mixed
//! by SplitMix64's finaliser (Steele, Lea and Flood, "Fast splittable pseudorandom number
//! generators", OOPSLA 2014), one after the other, and the result seeds the generator. So
//! replication 7 of a seed is the same whether or not replications 0 to 6 are run, and a host
//! more in the scenario shifts no other host's numbers.

use crate::Nanos;

/// Names the streams of one replication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Streams {
    key: u64,
}

impl Streams {
    /// The streams of a replication of a run with this seed.
    pub fn new(seed: u64, replication: u64) -> Self {
        Streams { key: mix(mix(seed) ^ replication) }
    }

    /// The stream for a purpose, and of those with the same purpose the one with this index.
    pub fn stream(&self, purpose: &str, index: u64) -> fastrand::Rng {
        let named = purpose.bytes().fold(self.key, |key, byte| mix(key ^ u64::from(byte)));
        // The length keeps ("ab", ..) apart from a prefix of it that an index would continue.
        let ended = mix(named ^ purpose.len() as u64);
        fastrand::Rng::with_seed(mix(ended ^ index))
    }
}

/// SplitMix64's step: adds the golden ratio and mixes all bits into all others.
fn mix(state: u64) -> u64 {
    let z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Draws a duration from the exponential distribution with this mean, in nanoseconds.
pub fn exponential(mean: f64, rng: &mut fastrand::Rng) -> Nanos {
    // f64() is below 1, so the logarithm is finite; the cast saturates and cannot be negative.
    (-mean * libm::log(1.0 - rng.f64())).round() as Nanos
}

/// Draws a duration from the normal distribution with this mean and standard deviation, in
/// nanoseconds; what would be below 0 is 0. By the method of Box and Muller ("A note on the
/// generation of random normal deviates", Annals of Mathematical Statistics 29(2), 1958), of
/// whose two deviates one is used.
pub fn normal(mean: f64, deviation: f64, rng: &mut fastrand::Rng) -> Nanos {
    let radius = libm::sqrt(-2.0 * libm::log(1.0 - rng.f64()));
    let deviate = radius * libm::cos(2.0 * std::f64::consts::PI * rng.f64());
    (mean + deviation * deviate).round().max(0.0) as Nanos
}

/// The Zipf distribution over ranks `0..n`: rank r has weight 1 / (r + 1)^exponent.
///
/// Drawn by rejection-inversion (Hörmann and Derflinger, "Rejection-inversion to generate
/// variates from monotone discrete distributions", ACM TOMACS 6(3), 1996), which needs neither a
/// table nor a sum over the ranks.
#[derive(Clone, Copy, Debug)]
pub struct Zipf {
    n: f64,
    exponent: f64,
    /// Integral of the density's envelope up to one half past the first rank, less its weight.
    first: f64,
    last: f64,
    /// Below this distance from its rank a draw is accepted without looking closer.
    near: f64,
}

impl Zipf {
    /// The distribution over `n` ranks, at least one, with an exponent above 0.
    pub fn new(n: u64, exponent: f64) -> Self {
        assert!(n >= 1 && exponent > 0.0, "a Zipf distribution over {n} ranks by {exponent}");
        let mut zipf = Zipf { n: n as f64, exponent, first: 0.0, last: 0.0, near: 0.0 };
        zipf.first = zipf.area(1.5) - 1.0;
        zipf.last = zipf.area(zipf.n + 0.5);
        zipf.near = 2.0 - zipf.area_inverse(zipf.area(2.5) - zipf.weight(2.0));
        zipf
    }

    /// Draws a rank, `0..n`.
    pub fn draw(&self, rng: &mut fastrand::Rng) -> u64 {
        loop {
            let u = self.last + rng.f64() * (self.first - self.last);
            let x = self.area_inverse(u);
            let rank = x.round().clamp(1.0, self.n);
            if rank - x <= self.near || u >= self.area(rank + 0.5) - self.weight(rank) {
                return rank as u64 - 1;
            }
        }
    }

    /// The weight of rank `x`, counted from 1.
    fn weight(&self, x: f64) -> f64 {
        libm::pow(x, -self.exponent)
    }

    /// The integral of [`Zipf::weight`] from 1 to `x`.
    fn area(&self, x: f64) -> f64 {
        let log = libm::log(x);
        match self.exponent == 1.0 {
            true => log,
            false => libm::expm1((1.0 - self.exponent) * log) / (1.0 - self.exponent),
        }
    }

    fn area_inverse(&self, area: f64) -> f64 {
        match self.exponent == 1.0 {
            true => libm::exp(area),
            false => {
                let t = (area * (1.0 - self.exponent)).max(-1.0);
                libm::exp(libm::log1p(t) / (1.0 - self.exponent))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_told_apart_by_each_part_of_their_name() {
        let first = |seed, replication, purpose, index| {
            Streams::new(seed, replication).stream(purpose, index).u64(..)
        };
        let one = first(1, 0, "host", 0);
        assert_eq!(one, first(1, 0, "host", 0));
        for other in [
            first(2, 0, "host", 0),
            first(1, 1, "host", 0),
            first(0, 1, "host", 0),
            first(1, 0, "disk", 0),
            first(1, 0, "host", 1),
            first(1, 0, "hos", 0),
        ] {
            assert_ne!(one, other);
        }
    }

    #[test]
    fn exponential_durations_have_their_mean_and_variance() {
        let mut rng = Streams::new(3, 0).stream("test", 0);
        let mut summary = crate::stats::Summary::default();
        (0..200_000).for_each(|_| summary.add(exponential(1e6, &mut rng) as f64));
        assert!((summary.mean() / 1e6 - 1.0).abs() < 0.01, "{}", summary.mean());
        assert!((summary.standard_deviation().unwrap() / 1e6 - 1.0).abs() < 0.015);
    }

    #[test]
    fn normal_durations_have_their_mean_and_deviation_and_are_never_negative() {
        let mut rng = Streams::new(3, 0).stream("test", 1);
        let mut summary = crate::stats::Summary::default();
        (0..200_000).for_each(|_| summary.add(normal(8e7, 1e7, &mut rng) as f64));
        assert!((summary.mean() / 8e7 - 1.0).abs() < 0.001, "{}", summary.mean());
        assert!((summary.standard_deviation().unwrap() / 1e7 - 1.0).abs() < 0.01);
        let zeros = (0..100_000).filter(|_| normal(0.0, 1e6, &mut rng) == 0).count();
        assert!((49_000..51_000).contains(&zeros), "half of them are cut at 0: {zeros}");
    }

    /// Pearson's test against the exact shares; the 0.999 quantile of chi-square with 9 degrees
    /// of freedom is 27.9.
    #[test]
    fn zipf_ranks_have_their_shares() {
        for exponent in [0.5, 0.99, 1.0, 1.5, 3.0] {
            let zipf = Zipf::new(10, exponent);
            let mut rng = Streams::new(4, 0).stream("zipf", 0);
            let (draws, mut seen) = (100_000, [0u32; 10]);
            (0..draws).for_each(|_| seen[zipf.draw(&mut rng) as usize] += 1);
            let weights: Vec<f64> = (1..=10).map(|r| libm::pow(f64::from(r), -exponent)).collect();
            let total: f64 = weights.iter().sum();
            let chi: f64 = weights
                .iter()
                .zip(seen)
                .map(|(w, n)| {
                    let expected = f64::from(draws) * w / total;
                    (f64::from(n) - expected).powi(2) / expected
                })
                .sum();
            assert!(chi < 27.9, "exponent {exponent}: chi-square {chi}");
        }
    }

    #[test]
    fn zipf_over_one_rank_or_very_many() {
        let mut rng = Streams::new(5, 0).stream("zipf", 1);
        assert_eq!(Zipf::new(1, 1.2).draw(&mut rng), 0);
        let many = Zipf::new(1 << 40, 0.9);
        assert!((0..1000).all(|_| many.draw(&mut rng) < 1 << 40));
    }
}
