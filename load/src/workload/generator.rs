//! Draws requests from a description.

use super::addresses::Picker;
use super::{Arrivals, Class, Problem, Spacing, Think, Workload};
use crate::{Ask, Kind, Nanos, random};

/// Draws the requests of all hosts of a workload on one volume.
///
/// Each host should draw from a stream of its own
/// ([`Streams::stream`](crate::random::Streams::stream) with `"host"` and its number): then what a
/// host asks next does not depend on what the others do.
#[derive(Clone, Debug)]
pub struct Generator {
    classes: Vec<Class>,
    /// Sums of the classes' weights up to each.
    weights: Vec<f64>,
    align: u64,
    /// Aligned places on the volume.
    places: u64,
    picker: Picker,
    waits: Waits,
}

/// How long hosts wait.
#[derive(Clone, Debug)]
enum Waits {
    Constant(Nanos),
    /// Mean in nanoseconds.
    Exponential(f64),
    /// Mean and standard deviation in nanoseconds.
    Normal(f64, f64),
    /// Mean gap and mean pause in nanoseconds, and how likely a pause is.
    Bursts {
        gap: f64,
        pause: f64,
        ends: f64,
    },
    /// Nanoseconds between two arrivals at all hosts, and how many arrivals each host has had.
    Turns {
        gap: f64,
        arrivals: Vec<u64>,
    },
}

impl Generator {
    /// A generator for a volume of so many bytes.
    ///
    /// # Errors
    /// What is wrong with the workload, or why the volume is too small for it.
    pub fn new(workload: &Workload, volume_bytes: u64) -> Result<Self, Problem> {
        workload.check()?;
        if let Some(trace) = workload.requests.trace() {
            trace.check_fit(volume_bytes, workload.speed())?;
        }
        let classes = workload.requests.classes();
        let align = workload.alignment();
        let places = volume_bytes / align;
        let longest = classes.iter().map(|c| c.bytes).max().unwrap_or(0);
        if places == 0 || longest.div_ceil(align) > places {
            let expected = format!(
                "the longest request has {longest} bytes at multiples of {align}; give a larger volume"
            );
            return Err(Problem::new("volume", format!("{volume_bytes} bytes"), expected));
        }
        let weights = classes
            .iter()
            .scan(0.0, |sum, class| {
                *sum += class.weight;
                Some(*sum)
            })
            .collect();
        let length = longest.div_ceil(align).max(1);
        let picker = Picker::new(&workload.addresses, workload.hosts, places, length)?;
        let waits = Waits::new(&workload.arrivals, workload.hosts);
        Ok(Generator { classes, weights, align, places, picker, waits })
    }

    /// How long a host waits before its next request, of a trace for instance; of those that come
    /// at a trace's times nothing, as the trace says it.
    pub fn wait(&mut self, host: usize, rng: &mut fastrand::Rng) -> Nanos {
        self.waits.draw(host, rng)
    }

    /// The next request of a host, `0..hosts`.
    ///
    /// # Panics
    /// If the requests are a trace's, and not drawn.
    pub fn next(&mut self, host: usize, rng: &mut fastrand::Rng) -> Ask {
        let wait = self.wait(host, rng);
        let class = self.class(rng);
        if class.kind == Kind::Flush {
            return Ask { kind: class.kind, offset: 0, len: 0, wait };
        }
        let length = class.bytes.div_ceil(self.align);
        let place = self.picker.draw(host, length, self.places, rng);
        Ask { kind: class.kind, offset: place * self.align, len: class.bytes, wait }
    }

    fn class(&self, rng: &mut fastrand::Rng) -> Class {
        let last = self.classes.len() - 1;
        if last == 0 {
            return self.classes[0];
        }
        let at = rng.f64() * self.weights[last];
        self.classes[self.weights.partition_point(|w| *w <= at).min(last)]
    }
}

impl Waits {
    fn new(arrivals: &Arrivals, hosts: u32) -> Self {
        match *arrivals {
            Arrivals::Closed { think: Think::ConstantUs(us), .. } => {
                Waits::Constant((us * 1e3).round() as Nanos)
            }
            Arrivals::Closed { think: Think::ExponentialUs(us), .. } => {
                Waits::Exponential(us * 1e3)
            }
            Arrivals::Closed { think: Think::NormalUs { mean, deviation }, .. } => {
                Waits::Normal(mean * 1e3, deviation * 1e3)
            }
            // Independent Poisson processes add up to one with the sum of their rates.
            Arrivals::Open { rate_per_s, spacing: Spacing::Poisson } => {
                Waits::Exponential(1e9 * f64::from(hosts) / rate_per_s)
            }
            Arrivals::Open { rate_per_s, spacing: Spacing::Fixed } => {
                Waits::Turns { gap: 1e9 / rate_per_s, arrivals: vec![0; hosts as usize] }
            }
            Arrivals::Open { rate_per_s, spacing: Spacing::Bursts { requests, gap_ms } } => {
                let (all, gap) = (requests * 1e9 * f64::from(hosts) / rate_per_s, gap_ms * 1e6);
                Waits::Bursts { gap, pause: all - (requests - 1.0) * gap, ends: 1.0 / requests }
            }
            Arrivals::Traced { .. } | Arrivals::Saturating => Waits::Constant(0),
        }
    }

    fn draw(&mut self, host: usize, rng: &mut fastrand::Rng) -> Nanos {
        match self {
            Waits::Constant(wait) => *wait,
            Waits::Exponential(mean) => random::exponential(*mean, rng),
            Waits::Bursts { gap, pause, ends } => {
                let mean = if rng.f64() < *ends { *pause } else { *gap };
                random::exponential(mean, rng)
            }
            Waits::Normal(mean, deviation) => random::normal(*mean, *deviation, rng),
            Waits::Turns { gap, arrivals } => {
                // Each arrival is rounded by itself, so that rounding never adds up.
                let hosts = arrivals.len() as u64;
                let at = |turn: u64| ((turn * hosts + host as u64) as f64 * *gap).round() as Nanos;
                let turn = arrivals[host];
                arrivals[host] += 1;
                at(turn) - if turn == 0 { 0 } else { at(turn - 1) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Streams;
    use crate::workload::{Addresses, Imitation, Requests};
    use proptest::prelude::*;

    const VOLUME: u64 = 64 << 20;

    fn workload(requests: Requests) -> Workload {
        Workload {
            hosts: 2,
            arrivals: Arrivals::Closed { population: 1, think: Think::default() },
            requests,
            addresses: Addresses::Uniform,
            align_bytes: None,
        }
    }

    fn rng(host: u64) -> fastrand::Rng {
        Streams::new(1, 0).stream("host", host)
    }

    proptest! {
        #[test]
        fn requests_stay_in_the_volume_and_aligned(
            bytes in 1..100_000u64,
            spare in 0..50_000u64,
            align in prop::sample::select(vec![1u64, 512, 1000, 4096]),
            addresses in prop::sample::select(vec![
                Addresses::Uniform,
                Addresses::Sequential,
                Addresses::Zipf { regions: 1, exponent: 1.0 },
                Addresses::Part { share: 1.0, regions: 1 },
            ]),
            seed in 0..1000u64,
        ) {
            let volume = bytes.next_multiple_of(align) + spare;
            let mut spec = workload(Requests::Fixed { bytes, read_share: 0.5 });
            (spec.addresses, spec.align_bytes) = (addresses, Some(align));
            let mut generator = Generator::new(&spec, volume).unwrap();
            let mut rng = fastrand::Rng::with_seed(seed);
            for host in [0, 1, 0, 0, 1, 1, 0] {
                let ask = generator.next(host, &mut rng);
                prop_assert_eq!((ask.offset % align, ask.len), (0, bytes));
                prop_assert!(ask.offset + ask.len <= volume);
            }
        }
    }

    #[test]
    fn classes_come_as_often_as_their_weights_say() {
        let spec = workload(Requests::Imitation(Imitation::Timeshare));
        let mut generator = Generator::new(&spec, VOLUME).unwrap();
        let (mut rng, n) = (rng(0), 100_000);
        let asks: Vec<Ask> = (0..n).map(|_| generator.next(0, &mut rng)).collect();
        for class in spec.requests.classes() {
            let seen =
                asks.iter().filter(|a| (a.kind, a.len) == (class.kind, class.bytes)).count() as f64;
            let expected = class.weight / 2_000.0 * f64::from(n);
            assert!((seen - expected).abs() < 4.0 * expected.sqrt(), "{class:?}: {seen}");
        }
        assert!(asks.iter().all(|a| a.offset % 4096 == 0));
    }

    #[test]
    fn a_share_of_reads_of_one_is_all() {
        for (read_share, kind) in [(0.0, Kind::Write), (1.0, Kind::Read)] {
            let spec = workload(Requests::Fixed { bytes: 512, read_share });
            let mut generator = Generator::new(&spec, VOLUME).unwrap();
            let mut rng = rng(0);
            assert!((0..1000).all(|_| generator.next(0, &mut rng).kind == kind));
        }
    }

    #[test]
    fn sequential_hosts_walk_from_their_own_part_and_begin_anew_at_the_end() {
        let mut spec = workload(Requests::Fixed { bytes: 1 << 20, read_share: 1.0 });
        spec.addresses = Addresses::Sequential;
        let mut generator = Generator::new(&spec, 4 << 20).unwrap();
        let mut rng = rng(0);
        let mut walk = |host| generator.next(host, &mut rng).offset >> 20;
        assert_eq!([walk(0), walk(1), walk(1), walk(1), walk(0)], [0, 2, 3, 0, 1]);
    }

    #[test]
    fn what_a_host_asks_does_not_depend_on_the_others() {
        let spec = workload(Requests::Imitation(Imitation::SmallScientific));
        let mut generator = Generator::new(&spec, VOLUME).unwrap();
        let (mut zero, mut one) = (rng(0), rng(1));
        let alone: Vec<Ask> = (0..50).map(|_| generator.next(0, &mut zero)).collect();
        let mut zero = rng(0);
        let among: Vec<Ask> = (0..50)
            .map(|_| {
                generator.next(1, &mut one);
                generator.next(0, &mut zero)
            })
            .collect();
        assert_eq!(alone, among);
    }

    #[test]
    fn bursts_keep_the_rate_and_are_told_from_pauses() {
        let mut spec = workload(Requests::Fixed { bytes: 512, read_share: 1.0 });
        spec.hosts = 1;
        let spacing = Spacing::Bursts { requests: 20.0, gap_ms: 1.0 };
        spec.arrivals = Arrivals::Open { rate_per_s: 5.0, spacing };
        let mut generator = Generator::new(&spec, VOLUME).unwrap();
        let mut rng = rng(0);
        let waits: Vec<u64> = (0..100_000).map(|_| generator.wait(0, &mut rng)).collect();
        let seconds = waits.iter().sum::<u64>() as f64 / 1e9;
        assert!((seconds / 20_000.0 - 1.0).abs() < 0.05, "{seconds}");
        let pauses = waits.iter().filter(|w| **w > 20_000_000).count();
        assert!((4_700..5_200).contains(&pauses), "one of 20: {pauses}");
        spec.arrivals = Arrivals::Open {
            rate_per_s: 5.0,
            spacing: Spacing::Bursts { requests: 20.0, gap_ms: 211.0 },
        };
        let refused = Generator::new(&spec, VOLUME).unwrap_err().to_string();
        assert!(refused.contains("give less than 210.5"), "{refused}");
        // Four hosts have a fourth of the rate each, and pauses that are four times as long.
        spec.hosts = 4;
        assert!(Generator::new(&spec, VOLUME).is_ok());
        spec.arrivals = Arrivals::Open {
            rate_per_s: 5.0,
            spacing: Spacing::Bursts { requests: 20.0, gap_ms: 843.0 },
        };
        let refused = Generator::new(&spec, VOLUME).unwrap_err().to_string();
        assert!(refused.contains("give less than 842.1"), "{refused}");
    }

    #[test]
    fn fixed_arrivals_take_turns_at_the_exact_rate() {
        let mut spec = workload(Requests::Fixed { bytes: 512, read_share: 1.0 });
        spec.arrivals = Arrivals::Open { rate_per_s: 3.0, spacing: Spacing::Fixed };
        let mut generator = Generator::new(&spec, VOLUME).unwrap();
        let mut rng = rng(0);
        let mut times = [0, 0];
        for turn in 0..3000u64 {
            for (host, time) in times.iter_mut().enumerate() {
                *time += generator.next(host, &mut rng).wait;
                let nth = turn * 2 + host as u64;
                assert_eq!(*time, (nth as f64 * 1e9 / 3.0).round() as u64);
            }
        }
    }

    #[test]
    fn hot_regions_are_hot() {
        let mut spec = workload(Requests::Fixed { bytes: 4096, read_share: 1.0 });
        spec.addresses = Addresses::Zipf { regions: 16, exponent: 1.0 };
        let mut generator = Generator::new(&spec, VOLUME).unwrap();
        let (mut rng, mut seen) = (rng(0), [0; 16]);
        for _ in 0..100_000 {
            seen[(generator.next(0, &mut rng).offset / (VOLUME / 16)) as usize] += 1;
        }
        seen.sort_unstable_by(|a, b| b.cmp(a));
        // The 16th harmonic number is 3.3807.
        for (rank, n) in seen.into_iter().enumerate() {
            let expected = 100_000.0 / 3.3807 / (rank + 1) as f64;
            assert!((f64::from(n) - expected).abs() < 5.0 * expected.sqrt(), "{rank}: {n}");
        }
    }

    #[test]
    fn a_part_of_each_region_is_active_and_no_request_leaves_it() {
        let mut spec = workload(Requests::Fixed { bytes: 8192, read_share: 1.0 });
        spec.addresses = Addresses::Part { share: 0.02, regions: 4 };
        spec.align_bytes = Some(4096);
        // 16,000 places of 4 KiB: of each 4,000 the first 80.
        let mut generator = Generator::new(&spec, 16_000 * 4096).unwrap();
        let (mut rng, mut seen) = (rng(0), std::collections::BTreeSet::new());
        for _ in 0..20_000 {
            let place = generator.next(0, &mut rng).offset / 4096;
            assert!(place % 4_000 < 79, "{place}");
            seen.insert(place);
        }
        assert_eq!(seen.len(), 4 * 79, "all of it is used");
        spec.addresses = Addresses::Part { share: 0.0001, regions: 4 };
        let error = Generator::new(&spec, 16_000 * 4096).unwrap_err().to_string();
        assert!(error.contains("addresses.part.share = 0.0001"), "{error}");
    }

    #[test]
    fn a_volume_too_small_is_refused() {
        let spec = workload(Requests::Imitation(Imitation::LargeScientific));
        let error = Generator::new(&spec, 300_000).unwrap_err().to_string();
        assert!(error.contains("300000 bytes") && error.contains("307200 bytes"), "{error}");
        let mut spec = workload(Requests::Fixed { bytes: 4096, read_share: 1.0 });
        spec.addresses = Addresses::Zipf { regions: 1 << 20, exponent: 1.0 };
        assert!(Generator::new(&spec, 1 << 20).unwrap_err().to_string().contains("256 aligned"));
    }
}
